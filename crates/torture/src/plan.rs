//! The clients' transactions, as a function of a seed: transfers between accounts.
//!
//! 1. Transaction `seq` of client `client` is the same whenever it is generated. So the expected
//!    content of the database follows from which transactions are there.
//! 2. No transfer changes the sum of all balances.

use serde::{Deserialize, Serialize};
use tantalum_rt::{Stream, mix64};

/// The size of the tables, and the seed of all transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of all transactions.
    pub seed: u64,
    /// Clients, each with a sequence of its own.
    pub clients: u32,
    /// Accounts, numbered from 0.
    pub accounts: u32,
    /// Branches that the accounts belong to; each keeps the sum of its accounts.
    pub branches: u32,
}

/// The first balance of every account.
pub const OPENING: i64 = 1_000_000;

/// The most legs of one transaction.
pub const LEGS: u64 = 4;

/// One transfer of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The account that pays.
    pub source: u32,
    /// The account that is paid; never the source.
    pub target: u32,
    /// More than 0.
    pub amount: i64,
}

/// A transaction: 1 to [`LEGS`] transfers, their rows, and a row of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its client.
    pub client: u32,
    /// Its number, from 1, without gaps.
    pub seq: u64,
    /// Its transfers.
    pub legs: Vec<Leg>,
}

impl Plan {
    /// A transaction.
    pub fn transfer(&self, client: u32, seq: u64) -> Transfer {
        let mut random =
            Stream::new(mix64(self.seed ^ mix64(seq ^ (u64::from(client) << 48))), "transfer");
        let accounts = u64::from(self.accounts);
        let legs = (0..random.range(1, LEGS + 1))
            .map(|_| {
                let source = random.below(accounts);
                let target = (source + random.range(1, accounts)) % accounts;
                let amount = random.range(1, 1000) as i64;
                Leg { source: source as u32, target: target as u32, amount }
            })
            .collect();
        Transfer { client, seq, legs }
    }

    /// The branch of an account.
    pub fn branch(&self, account: u32) -> u32 {
        account % self.branches
    }

    /// How many accounts a branch has.
    pub fn accounts_of(&self, branch: u32) -> u32 {
        (self.accounts + self.branches - 1 - branch) / self.branches
    }
}

/// The change of one row by a transaction: of an account or a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The row.
    pub id: u32,
    /// Added to its balance.
    pub amount: i64,
    /// Added to its count of movements.
    pub moved: i64,
}

impl Transfer {
    /// The accounts that it changes, by number. Locks taken in that order cannot deadlock.
    pub fn accounts(&self) -> Vec<Change> {
        self.changes(|account| account)
    }

    /// The branches that it changes, by number.
    pub fn branches(&self, plan: &Plan) -> Vec<Change> {
        self.changes(|account| plan.branch(account))
    }

    fn changes(&self, row: impl Fn(u32) -> u32) -> Vec<Change> {
        let both = self.legs.iter().flat_map(|l| [(l.source, -l.amount), (l.target, l.amount)]);
        let mut each: Vec<(u32, i64)> = both.map(|(account, n)| (row(account), n)).collect();
        each.sort_unstable_by_key(|(id, _)| *id);
        let mut rows: Vec<Change> = Vec::new();
        for (id, amount) in each {
            match rows.last_mut() {
                Some(last) if last.id == id => {
                    last.amount += amount;
                    last.moved += 1;
                }
                _ => rows.push(Change { id, amount, moved: 1 }),
            }
        }
        rows
    }

    /// The checksum of its content, which its row of the ledger has.
    pub fn checksum(&self) -> u32 {
        let mut sum = crc32c::crc32c(&self.client.to_le_bytes());
        sum = crc32c::crc32c_append(sum, &self.seq.to_le_bytes());
        for leg in &self.legs {
            sum = crc32c::crc32c_append(sum, &leg.source.to_le_bytes());
            sum = crc32c::crc32c_append(sum, &leg.target.to_le_bytes());
            sum = crc32c::crc32c_append(sum, &leg.amount.to_le_bytes());
        }
        sum
    }

    /// The text that it writes into the rows that it changes: its client and number, and filling of
    /// different lengths, so that pages fill and split.
    pub fn note(&self) -> String {
        let room = 20 + (mix64(self.seq ^ (u64::from(self.client) << 40)) % 120) as usize;
        let fill = char::from(b'a' + (self.seq % 26) as u8);
        format!("{}:{}:", self.client, self.seq) + &String::from(fill).repeat(room)
    }
}

/// An account's note before its first change.
pub const BLANK: &str = "-";

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { seed: 3, clients: 4, accounts: 1000, branches: 7 };

    #[test]
    fn transactions_are_the_same_again_and_keep_the_sum() {
        for (client, seq) in (0..4).flat_map(|c| (1..500).map(move |s| (c, s))) {
            let it = PLAN.transfer(client, seq);
            assert_eq!(it, PLAN.transfer(client, seq));
            assert!(it.legs.iter().all(|l| l.source != l.target && l.amount > 0));
            for rows in [it.accounts(), it.branches(&PLAN)] {
                assert_eq!(rows.iter().map(|c| c.amount).sum::<i64>(), 0);
                assert_eq!(rows.iter().map(|c| c.moved).sum::<i64>(), 2 * it.legs.len() as i64);
                assert!(rows.is_sorted_by(|a, b| a.id < b.id));
            }
        }
        assert_ne!(PLAN.transfer(0, 1).legs, PLAN.transfer(1, 1).legs);
    }

    #[test]
    fn every_account_has_one_branch() {
        let each: u32 = (0..PLAN.branches).map(|b| PLAN.accounts_of(b)).sum();
        assert_eq!(each, PLAN.accounts);
        let of_2 = (0..PLAN.accounts).filter(|a| PLAN.branch(*a) == 2).count();
        assert_eq!(of_2, PLAN.accounts_of(2) as usize);
    }
}
