//! Compares the content of a database after its recovery with the ledger.
//!
//! 1. Every acknowledged transaction is there, with its row in `ledger` and all its rows in
//!    `entry`.
//! 2. A prefix of each client's transactions is there, at most one longer than what was
//!    acknowledged.
//! 3. Balances and counts of all accounts and branches are exactly those of the transactions that
//!    are there. An account's note is that of one of these transactions, which changed the account.
//! 4. [`Check`] has no findings only if 1 to 3 hold for every row, and there are no other rows.

use crate::ledger::{Ledger, Row, apply};
use crate::plan::{BLANK, Leg};
use serde::Serialize;
use std::collections::BTreeMap;
use tantalum_device::counted;

/// A row of `account`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub id: u32,
    /// Its branch.
    pub branch: u32,
    /// Its balance and count.
    pub row: Row,
    /// The note of the transaction that changed it last.
    pub note: String,
}

/// A row of `entry`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The client.
    pub client: u32,
    /// The number of the transaction.
    pub seq: u64,
    /// The number of the leg, from 0.
    pub leg: u32,
    /// The leg.
    pub what: Leg,
    /// The transaction's note.
    pub note: String,
}

/// A row of `ledger`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The client.
    pub client: u32,
    /// The number of the transaction.
    pub seq: u64,
    /// How many legs it has.
    pub legs: u32,
    /// [`crate::plan::Transfer::checksum`].
    pub checksum: u32,
}

/// The whole content of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Table `account`.
    pub accounts: Vec<Account>,
    /// Table `branch`.
    pub branches: Vec<(u32, Row)>,
    /// Table `ledger`.
    pub lines: Vec<Line>,
    /// Table `entry`.
    pub entries: Vec<Entry>,
}

/// A kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harm {
    /// An acknowledged commit is missing.
    Lost,
    /// Only a part of a transaction is there.
    HalfDone,
    /// A value is there that was never written.
    Wrong,
    /// The database itself reports damage, or cannot be read.
    Damaged,
    /// The database does not start.
    DoesNotStart,
}

/// The findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The number of findings of each kind.
    pub count: BTreeMap<Harm, u64>,
    /// The first findings, in words.
    pub first: Vec<String>,
    /// The last transaction of each client that is there.
    #[serde(skip)]
    pub last: Vec<u64>,
    /// How many of the transactions under way at the cut are there.
    pub maybe_there: u64,
    /// A defect of the database, if it explains all findings. Then they say nothing about the drive
    /// ([`Check::excuse`]).
    pub own_fault: Option<String>,
}

/// How many findings are kept in words. Further ones are only counted.
const NAMED: usize = 12;

impl Check {
    /// Adds a finding.
    pub fn found(&mut self, harm: Harm, what: String) {
        *self.count.entry(harm).or_default() += 1;
        if self.first.len() < NAMED {
            self.first.push(what);
        }
    }

    /// Notes a defect of the database itself as the cause of all findings
    /// ([`crate::recovery::cause`]).
    pub fn excuse(&mut self, fault: &str) {
        self.own_fault = (!self.is_clean()).then(|| fault.to_string());
    }

    /// Whether nothing was found.
    pub fn is_clean(&self) -> bool {
        self.count.is_empty()
    }

    /// The number of findings of a kind.
    pub fn of(&self, harm: Harm) -> u64 {
        self.count.get(&harm).copied().unwrap_or(0)
    }
}

/// Compares the content with the ledger.
pub fn check(ledger: &Ledger, contents: &Contents) -> Check {
    let mut check = Check::default();
    lines(ledger, contents, &mut check);
    entries(ledger, contents, &mut check);
    sums(ledger, contents, &mut check);
    check
}

/// Checks which transactions are there.
fn lines(ledger: &Ledger, contents: &Contents, check: &mut Check) {
    let plan = ledger.plan();
    let mut there: Vec<Vec<u64>> = vec![Vec::new(); plan.clients as usize];
    for line in &contents.lines {
        let &Line { client, seq, .. } = line;
        let Some(of_client) = there.get_mut(client as usize) else {
            check.found(Harm::Wrong, format!("the ledger has a row of client {client}"));
            continue;
        };
        let mark = ledger.marks()[client as usize];
        if seq <= mark.settled || seq > mark.begun {
            check.found(
                Harm::Wrong,
                format!("the ledger has transaction {seq} of client {client}: {mark:?}"),
            );
            continue;
        }
        of_client.push(seq);
        let must = plan.transfer(client, seq);
        if (line.legs as usize, line.checksum) != (must.legs.len(), must.checksum()) {
            check.found(
                Harm::Wrong,
                format!("transaction {seq} of client {client} has another checksum in the ledger"),
            );
        }
    }
    for (client, (mark, there)) in ledger.marks().iter().zip(&mut there).enumerate() {
        there.sort_unstable();
        if let Some(twice) = there.windows(2).find(|w| w[0] == w[1]) {
            let what = format!("transaction {} of client {client} is there twice", twice[0]);
            check.found(Harm::Wrong, what);
            there.dedup();
        }
        for seq in mark.settled + 1..=mark.acknowledged {
            if there.binary_search(&seq).is_err() {
                check.found(
                    Harm::Lost,
                    format!("transaction {seq} of client {client} was acknowledged and is lost"),
                );
            }
        }
        let last = there.last().copied().unwrap_or(mark.settled);
        check.maybe_there += u64::from(last > mark.acknowledged);
        check.last.push(last);
    }
}

/// Checks that all rows of a transaction are there, or none.
fn entries(ledger: &Ledger, contents: &Contents, check: &mut Check) {
    let mut left: BTreeMap<(u32, u64), Vec<&Entry>> = BTreeMap::new();
    for entry in &contents.entries {
        left.entry((entry.client, entry.seq)).or_default().push(entry);
    }
    for line in &contents.lines {
        let must = ledger.plan().transfer(line.client, line.seq);
        let note = must.note();
        let mut have = left.remove(&(line.client, line.seq)).unwrap_or_default();
        have.sort_by_key(|e| e.leg);
        let same = have.len() == must.legs.len()
            && have.iter().zip(&must.legs).zip(0..).all(|((entry, leg), number)| {
                (entry.leg, entry.what) == (number, *leg) && entry.note == note
            });
        if !same {
            check.found(
                Harm::HalfDone,
                format!(
                    "transaction {} of client {} has {} of {} entries, or others",
                    line.seq,
                    line.client,
                    have.len(),
                    must.legs.len()
                ),
            );
        }
    }
    for ((client, seq), have) in left {
        check.found(
            Harm::HalfDone,
            format!(
                "transaction {seq} of client {client} has {}, and no row of the ledger",
                counted(have.len() as u64, "entry", "entries")
            ),
        );
    }
}

/// Checks balances, counts and notes.
fn sums(ledger: &Ledger, contents: &Contents, check: &mut Check) {
    let plan = ledger.plan();
    let (mut accounts, mut branches) = (ledger.accounts().to_vec(), ledger.branches().to_vec());
    let mut there = BTreeMap::new();
    for line in contents.lines.iter().filter(|l| l.client < plan.clients) {
        let transfer = plan.transfer(line.client, line.seq);
        if there.insert((line.client, line.seq), ()).is_none() {
            apply(plan, &transfer, &mut accounts, &mut branches);
        }
    }
    let mut seen = vec![false; accounts.len()];
    for account in &contents.accounts {
        let id = account.id;
        let Some(must) = accounts.get(id as usize) else {
            check.found(Harm::Wrong, format!("there is an account {id}"));
            continue;
        };
        if std::mem::replace(&mut seen[id as usize], true) {
            check.found(Harm::Wrong, format!("account {id} is there twice"));
        }
        if account.branch != plan.branch(id) {
            check.found(Harm::Wrong, format!("account {id} is of branch {}", account.branch));
        }
        compare("account", id, account.row, *must, check);
        let known = match author(&account.note) {
            None => account.note == BLANK && must.moved == 0,
            Some((client, seq)) => {
                let mark = ledger.marks().get(client as usize);
                let transfer = plan.transfer(client, seq);
                mark.is_some_and(|m| {
                    (1..=m.settled).contains(&seq) || there.contains_key(&(client, seq))
                }) && transfer.accounts().iter().any(|c| c.id == id)
                    && transfer.note() == account.note
            }
        };
        if !known {
            let what = format!("account {id} has a note of no known transaction: {}", account.note);
            check.found(Harm::HalfDone, what);
        }
    }
    for id in (0..).zip(&seen).filter(|(_, seen)| !**seen).map(|(id, _): (u32, _)| id) {
        check.found(Harm::Lost, format!("account {id} is not there"));
    }
    let mut seen = vec![false; branches.len()];
    for (id, row) in &contents.branches {
        match branches.get(*id as usize) {
            Some(must) if !std::mem::replace(&mut seen[*id as usize], true) => {
                compare("branch", *id, *row, *must, check);
            }
            _ => check.found(Harm::Wrong, format!("branch {id} is unknown, or there twice")),
        }
    }
    if seen.contains(&false) {
        check.found(Harm::Lost, "a branch is not there".to_string());
    }
}

fn compare(what: &str, id: u32, is: Row, must: Row, check: &mut Check) {
    if is != must {
        check.found(
            Harm::HalfDone,
            format!(
                "{what} {id} has balance {} after {} {}; the transactions give {} after {}",
                is.balance,
                is.moved,
                if is.moved == 1 { "movement" } else { "movements" },
                must.balance,
                must.moved
            ),
        );
    }
}

/// The client and number of the transaction that wrote a note.
fn author(note: &str) -> Option<(u32, u64)> {
    let mut words = note.split(':');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
