//! A correct database in memory, and every kind of error in it.

use super::*;
use crate::plan::{OPENING, Plan, Transfer};
use proptest::prelude::*;

const PLAN: Plan = Plan { seed: 9, clients: 3, accounts: 40, branches: 4 };

fn blank() -> Contents {
    let row = |accounts: u32| Row { balance: OPENING * i64::from(accounts), moved: 0 };
    Contents {
        accounts: (0..PLAN.accounts)
            .map(|id| Account { id, branch: PLAN.branch(id), row: row(1), note: BLANK.to_string() })
            .collect(),
        branches: (0..PLAN.branches).map(|b| (b, row(PLAN.accounts_of(b)))).collect(),
        ..Contents::default()
    }
}

fn commit(contents: &mut Contents, it: &Transfer) {
    for change in it.accounts() {
        let account = &mut contents.accounts[change.id as usize];
        account.row.balance += change.amount;
        account.row.moved += change.moved;
        account.note = it.note();
    }
    for change in it.branches(&PLAN) {
        let (_, row) = &mut contents.branches[change.id as usize];
        row.balance += change.amount;
        row.moved += change.moved;
    }
    for (leg, what) in (0..).zip(&it.legs) {
        let (client, seq, what) = (it.client, it.seq, *what);
        contents.entries.push(Entry { client, seq, leg, what, note: it.note() });
    }
    let (legs, checksum) = (it.legs.len() as u32, it.checksum());
    contents.lines.push(Line { client: it.client, seq: it.seq, legs, checksum });
}

/// A run: `turns` are the clients of the transactions, in order. After `trim` of them the tables
/// are emptied. At the end one transaction of each client is under way; those in `maybe` are there.
fn run(turns: &[u32], trim: Option<usize>, maybe: [bool; 3]) -> (Ledger, Contents) {
    let (mut ledger, mut contents) = (Ledger::new(PLAN), blank());
    let mut next = [1; 3];
    for (at, client) in turns.iter().enumerate() {
        let seq = &mut next[*client as usize];
        ledger.begin(*client, *seq).unwrap();
        commit(&mut contents, &PLAN.transfer(*client, *seq));
        ledger.acknowledge(*client, *seq).unwrap();
        *seq += 1;
        if trim == Some(at) {
            contents.lines.clear();
            contents.entries.clear();
            ledger.settle();
        }
    }
    for client in 0..3 {
        ledger.begin(client, next[client as usize]).unwrap();
        if maybe[client as usize] {
            commit(&mut contents, &PLAN.transfer(client, next[client as usize]));
        }
    }
    (ledger, contents)
}

fn turns() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(0..3u32, 6..80)
}

proptest! {
    #[test]
    fn what_may_be_is_clean(turns in turns(), trim in 0..100usize, maybe in any::<[bool; 3]>()) {
        let (mut ledger, contents) = run(&turns, Some(trim), maybe);
        let found = check(&ledger, &contents);
        prop_assert!(found.is_clean(), "{:?}", found.first);
        prop_assert_eq!(found.maybe_there, maybe.iter().filter(|m| **m).count() as u64);
        // Transactions that were found must stay there.
        ledger.decide(&found.last);
        prop_assert!(check(&ledger, &contents).is_clean());
    }

    #[test]
    fn a_lost_transaction_is_found(turns in turns(), which in any::<prop::sample::Index>()) {
        // As if it had never been: all other rows are consistent.
        let lost = which.index(turns.len());
        let (ledger, _) = run(&turns, None, [false; 3]);
        let mut contents = blank();
        let mut next = [1; 3];
        for (at, client) in turns.iter().enumerate() {
            if at != lost {
                commit(&mut contents, &PLAN.transfer(*client, next[*client as usize]));
            }
            next[*client as usize] += 1;
        }
        let found = check(&ledger, &contents);
        prop_assert_eq!(found.of(Harm::Lost), 1);
        prop_assert_eq!(found.count.len(), 1);
    }

    #[test]
    fn any_other_row_is_found(
        turns in turns(),
        trim in proptest::option::of(0..5usize),
        maybe in any::<[bool; 3]>(),
        defect in 0..12,
        which in any::<prop::sample::Index>(),
    ) {
        let (ledger, mut it) = run(&turns, trim, maybe);
        let account = which.index(it.accounts.len());
        let branch = which.index(it.branches.len());
        prop_assume!(!it.lines.is_empty());
        let (line, entry) = (which.index(it.lines.len()), which.index(it.entries.len()));
        match defect {
            0 => { it.accounts.remove(account); }
            1 => it.accounts[account].row.balance += 1,
            2 => it.accounts[account].row.moved += 1,
            3 => it.accounts[account].note.push('x'),
            4 => it.accounts[account].branch += 1,
            5 => it.branches[branch].1.balance -= 1,
            6 => { it.branches.remove(branch); }
            7 => { it.lines.remove(line); }
            8 => it.lines[line].checksum ^= 1,
            9 => { it.entries.remove(entry); }
            10 => it.entries[entry].what.amount += 1,
            _ => { let again = it.entries[entry].clone(); it.entries.push(again); }
        }
        prop_assert!(!check(&ledger, &it).is_clean());
    }
}

#[test]
fn more_than_was_begun_is_wrong() {
    let (ledger, mut contents) = run(&[0, 1, 2, 0], None, [true; 3]);
    commit(&mut contents, &PLAN.transfer(0, 4));
    assert_eq!(check(&ledger, &contents).of(Harm::Wrong), 1);
}

#[test]
fn rows_of_nobody_are_found_and_do_not_panic() {
    let (ledger, mut contents) = run(&[0, 1, 2, 0], None, [false; 3]);
    contents.lines.push(Line { client: 99, seq: u64::MAX, legs: 1, checksum: 1 });
    contents.accounts.push(Account { id: u32::MAX, ..contents.accounts[0].clone() });
    contents.accounts[3].note = "4000000000:18446744073709551615:x".to_string();
    contents.branches.push((77, Row { balance: 0, moved: 0 }));
    assert!(check(&ledger, &contents).of(Harm::Wrong) >= 3);
}
