//! The judge of a database after a power cut: opens it as any program would, and
//! reads all of it.

use std::cell::Cell;
use tantalum_device::counted;
use tantalum_workload::database::{self, Benchmark};
use tantalum_workload::sql::{Row, Sql};

/// What the judge found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The ledger, if the database could be asked for it.
    pub ledger: Option<Vec<(u32, u64)>>,
    /// What is wrong with the database; empty if it is sound.
    pub damage: Vec<String>,
}

impl Verdict {
    /// Of a database that could not even be opened.
    pub fn unreadable(why: String) -> Verdict {
        Verdict { ledger: None, damage: vec![why] }
    }
}

/// Commits that are not as they were acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Acknowledged, and not there.
    pub lost: u64,
    /// Clients that have more commits in the ledger than the acknowledged ones and
    /// the one in flight.
    pub ahead: u64,
}

/// Asks the database for its ledger (`answered` is called when it has it), checks its
/// structure, and then every row and invariant of the benchmark.
pub fn examine(sql: &mut dyn Sql, benchmark: &dyn Benchmark, answered: impl FnOnce()) -> Verdict {
    let ledger = match database::ledger(sql) {
        Ok(ledger) => ledger,
        Err(e) => return Verdict::unreadable(format!("the ledger cannot be read: {e}")),
    };
    answered();
    let mut damage = Vec::new();
    let sound = Cell::new(false);
    let mut line = |row: &dyn Row| match row.bytes(0) {
        b"ok" => sound.set(true),
        other => damage.push(format!("integrity check: {}", String::from_utf8_lossy(other))),
    };
    match sql.query("PRAGMA integrity_check(8)", &[], &mut line) {
        Ok(_) if !sound.get() && damage.is_empty() => {
            damage.push("the integrity check said nothing".into());
        }
        Ok(_) => {}
        Err(e) => damage.push(format!("the integrity check failed: {e}")),
    }
    match benchmark.verify(sql) {
        Ok(findings) if !findings.is_clean() => {
            damage.extend(findings.listed);
            damage.push(counted(
                findings.total,
                "row or count is wrong",
                "rows or counts are wrong",
            ));
        }
        Ok(_) => {}
        Err(e) => damage.push(format!("the tables cannot be read: {e}")),
    }
    Verdict { ledger: Some(ledger), damage }
}

/// Compares what each client knows to be acknowledged with the ledger. A client
/// that is not in the ledger has nothing there.
pub fn balance(acknowledged: &[u64], ledger: &[(u32, u64)]) -> Balance {
    let mut balance = Balance::default();
    for (client, &acked) in acknowledged.iter().enumerate() {
        let found = ledger.iter().find(|(id, _)| *id as usize == client).map_or(0, |l| l.1);
        balance.lost += acked.saturating_sub(found);
        balance.ahead += u64::from(found > acked + 1);
    }
    balance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_flight_is_neither_lost_nor_ahead() {
        let ledger = [(0, 5), (1, 6), (2, 7), (3, 2)];
        assert_eq!(balance(&[5, 5, 7, 2], &ledger), Balance { lost: 0, ahead: 0 });
        assert_eq!(balance(&[5, 4, 7, 2], &ledger), Balance { lost: 0, ahead: 1 });
        assert_eq!(balance(&[7, 6, 7, 4], &ledger), Balance { lost: 4, ahead: 0 });
        assert_eq!(balance(&[0, 0, 0, 0, 3], &ledger[..0]), Balance { lost: 3, ahead: 0 });
    }
}
