//! The ledger outside the database: which transactions were begun and acknowledged, and so what the
//! database may contain.
//!
//! 1. A client has at most one transaction under way: `acknowledged <= begun <= acknowledged + 1`.
//! 2. The base is the state of all rows after the transactions up to `settled` of each client, and
//!    no others. Later transactions are in the tables `ledger` and `entry`.

use crate::plan::{OPENING, Plan, Transfer};

/// One client's transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Transactions up to this one are in the base, and no longer in the tables.
    pub settled: u64,
    /// The last one that the database acknowledged, or that a check found.
    pub acknowledged: u64,
    /// The last one that was begun.
    pub begun: u64,
}

/// The values of a row of accounts or branches that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its balance.
    pub balance: i64,
    /// How often it was changed.
    pub moved: i64,
}

/// The ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    plan: Plan,
    marks: Vec<Mark>,
    accounts: Vec<Row>,
    branches: Vec<Row>,
}

/// A note that contradicts the ledger.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("client {client} reports transaction {seq} as {what}, which contradicts {mark:?}")]
pub struct BadNote {
    client: u32,
    seq: u64,
    what: &'static str,
    mark: Mark,
}

impl Ledger {
    /// The ledger of a database that was just filled.
    pub fn new(plan: Plan) -> Ledger {
        let opened = |accounts: u32| Row { balance: OPENING * i64::from(accounts), moved: 0 };
        Ledger {
            plan,
            marks: vec![Mark::default(); plan.clients as usize],
            accounts: vec![opened(1); plan.accounts as usize],
            branches: (0..plan.branches).map(|b| opened(plan.accounts_of(b))).collect(),
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The mark of each client.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The accounts of the base.
    pub fn accounts(&self) -> &[Row] {
        &self.accounts
    }

    /// The branches of the base.
    pub fn branches(&self) -> &[Row] {
        &self.branches
    }

    /// The number of acknowledged transactions since the beginning.
    pub fn acknowledged(&self) -> u64 {
        self.marks.iter().map(|m| m.acknowledged).sum()
    }

    /// How many transactions are begun and not acknowledged.
    pub fn under_way(&self) -> u64 {
        self.marks.iter().map(|m| m.begun - m.acknowledged).sum()
    }

    /// How many transactions are acknowledged and still in the tables.
    pub fn unsettled(&self) -> u64 {
        self.marks.iter().map(|m| m.acknowledged - m.settled).sum()
    }

    /// A client begins a transaction. It may begin the same one again after the database undid it.
    pub fn begin(&mut self, client: u32, seq: u64) -> Result<(), BadNote> {
        let mark = self.marks.get_mut(client as usize);
        match mark {
            Some(mark) if seq == mark.acknowledged + 1 => {
                mark.begun = seq;
                Ok(())
            }
            other => Err(bad(client, seq, "begun", other)),
        }
    }

    /// The database acknowledged the transaction.
    pub fn acknowledge(&mut self, client: u32, seq: u64) -> Result<(), BadNote> {
        let mark = self.marks.get_mut(client as usize);
        match mark {
            Some(mark) if seq == mark.begun && seq == mark.acknowledged + 1 => {
                mark.acknowledged = seq;
                Ok(())
            }
            other => Err(bad(client, seq, "committed", other)),
        }
    }

    /// A clean check found transactions up to `last[client]` of each client. That decides those
    /// that were under way.
    pub fn decide(&mut self, last: &[u64]) {
        for (mark, last) in self.marks.iter_mut().zip(last) {
            mark.acknowledged = *last;
            mark.begun = *last;
        }
    }

    /// Moves acknowledged transactions into the base. Call it after the tables `ledger` and `entry`
    /// were emptied, with nothing under way.
    pub fn settle(&mut self) {
        for client in 0..self.plan.clients {
            let mark = self.marks[client as usize];
            for seq in mark.settled + 1..=mark.acknowledged {
                let transfer = self.plan.transfer(client, seq);
                apply(&self.plan, &transfer, &mut self.accounts, &mut self.branches);
            }
            self.marks[client as usize].settled = mark.acknowledged;
        }
    }
}

/// Applies a transaction to the rows.
pub fn apply(plan: &Plan, transfer: &Transfer, accounts: &mut [Row], branches: &mut [Row]) {
    for (changes, rows) in [(transfer.accounts(), accounts), (transfer.branches(plan), branches)] {
        for change in changes {
            let row = &mut rows[change.id as usize];
            row.balance += change.amount;
            row.moved += change.moved;
        }
    }
}

fn bad(client: u32, seq: u64, what: &'static str, mark: Option<&mut Mark>) -> BadNote {
    BadNote { client, seq, what, mark: mark.map(|m| *m).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new(Plan { seed: 1, clients: 2, accounts: 50, branches: 3 })
    }

    #[test]
    fn notes_that_contradict_the_ledger_are_refused() {
        let mut it = ledger();
        assert!(it.acknowledge(0, 1).is_err(), "not begun");
        assert!(it.begin(0, 2).is_err(), "a gap");
        assert!(it.begin(2, 1).is_err(), "no such client");
        it.begin(0, 1).unwrap();
        it.begin(0, 1).unwrap();
        assert_eq!(it.under_way(), 1);
        it.acknowledge(0, 1).unwrap();
        assert!(it.acknowledge(0, 1).is_err(), "twice");
        assert!(it.begin(0, 1).is_err(), "done before");
        assert_eq!((it.acknowledged(), it.under_way(), it.unsettled()), (1, 0, 1));
    }

    #[test]
    fn settling_keeps_the_sums() {
        let mut it = ledger();
        for seq in 1..=20 {
            it.begin(1, seq).unwrap();
            it.acknowledge(1, seq).unwrap();
        }
        it.begin(1, 21).unwrap();
        it.decide(&[0, 21]);
        it.settle();
        assert_eq!(it.marks()[1], Mark { settled: 21, acknowledged: 21, begun: 21 });
        assert_eq!(it.unsettled(), 0);
        let of = |rows: &[Row]| rows.iter().map(|r| r.balance).sum::<i64>();
        assert_eq!(of(it.accounts()), 50 * OPENING);
        assert_eq!(of(it.branches()), 50 * OPENING);
        assert_ne!(it.accounts(), ledger().accounts());
    }
}
