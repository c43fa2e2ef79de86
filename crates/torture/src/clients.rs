//! The clients: a process of their own. It reports on standard output what it begins, and what the
//! database acknowledged.
//!
//! 1. A transaction is reported as begun before its first statement is sent, and as committed after
//!    the database acknowledged it. Each report is one write of one line, so that lines are never
//!    mixed.
//! 2. A client that does not know how its transaction ended reports why, and commits no more.
//!
//! The lines are: `begin CLIENT SEQ`, `commit CLIENT SEQ`, `failed CLIENT WHY`.

use crate::plan::Plan;
use crate::store::{Store, StoreError, Target};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::time::Duration;

/// The orders for the clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// The database.
    pub target: Target,
    /// The transactions.
    pub plan: Plan,
    /// The first transaction of each client.
    pub first: Vec<u64>,
    /// The interval of checkpoints in milliseconds; 0: never. A checkpoint makes the database write
    /// all changed pages.
    pub checkpoint_ms: u64,
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A transaction begins, perhaps again.
    Begin {
        /// Its client.
        client: u32,
        /// Its number.
        seq: u64,
    },
    /// The transaction was acknowledged.
    Commit {
        /// Its client.
        client: u32,
        /// Its number.
        seq: u64,
    },
    /// The client has stopped.
    Failed {
        /// The client.
        client: u32,
        /// Why it has stopped.
        why: String,
    },
}

impl Told {
    /// The report as a line.
    pub fn line(&self) -> String {
        match self {
            Told::Begin { client, seq } => format!("begin {client} {seq}\n"),
            Told::Commit { client, seq } => format!("commit {client} {seq}\n"),
            Told::Failed { client, why } => {
                format!("failed {client} {}\n", why.replace(['\n', '\r'], " "))
            }
        }
    }

    /// Parses a line without its end.
    pub fn parse(line: &str) -> Option<Told> {
        let mut words = line.splitn(3, ' ');
        let (kind, client) = (words.next()?, words.next()?.parse().ok()?);
        let rest = words.next()?;
        let seq = || rest.parse().ok();
        Some(match kind {
            "begin" => Told::Begin { client, seq: seq()? },
            "commit" => Told::Commit { client, seq: seq()? },
            "failed" => Told::Failed { client, why: rest.to_string() },
            _ => return None,
        })
    }
}

/// Writes one line; an error if the reader is gone.
fn tell(told: &Told) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(told.line().as_bytes())?;
    out.flush()
}

/// Runs the clients by these orders (JSON). It ends when all clients have failed, or when the
/// reader is gone. Returns the exit code.
#[allow(clippy::disallowed_methods, reason = "the edge: clients of a real database are threads")]
pub fn run(orders: &str) -> u8 {
    let orders: Orders = match serde_json::from_str(orders) {
        Ok(orders) => orders,
        Err(e) => {
            // If standard error is closed, nothing else can be done.
            let _ = writeln!(io::stderr(), "error: the orders are not valid: {e}");
            return 2;
        }
    };
    std::thread::scope(|scope| {
        for (client, first) in (0..).zip(&orders.first) {
            let orders = &orders;
            scope.spawn(move || {
                let why = match work(orders, client, *first) {
                    Ok(never) => match never {},
                    Err(e) => e.to_string(),
                };
                // Without a reader the process is to end.
                if tell(&Told::Failed { client, why }).is_err() {
                    std::process::exit(0);
                }
            });
        }
        if orders.checkpoint_ms > 0 {
            let orders = &orders;
            scope.spawn(move || {
                // It ends with the database. The clients report that.
                let _ = checkpoints(orders);
            });
        }
    });
    0
}

enum Never {}

fn work(orders: &Orders, client: u32, first: u64) -> Result<Never, StoreError> {
    let mut store = orders.target.connect()?;
    let gone = |e: io::Error| StoreError::Failed(format!("the reader is gone: {e}"));
    let mut seq = first;
    loop {
        let transfer = orders.plan.transfer(client, seq);
        tell(&Told::Begin { client, seq }).map_err(gone)?;
        match store.transfer(&orders.plan, &transfer) {
            Ok(()) => {
                tell(&Told::Commit { client, seq }).map_err(gone)?;
                seq += 1;
            }
            Err(StoreError::Undone(_)) => {}
            Err(e) => return Err(e),
        }
    }
}

fn checkpoints(orders: &Orders) -> Result<Never, StoreError> {
    let mut store: Box<dyn Store> = orders.target.connect()?;
    loop {
        #[allow(clippy::disallowed_methods, reason = "the edge: a thread of a real client")]
        std::thread::sleep(Duration::from_millis(orders.checkpoint_ms));
        store.checkpoint()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard() {
        let all = [
            Told::Begin { client: 3, seq: 9 },
            Told::Commit { client: 0, seq: u64::MAX },
            Told::Failed { client: 1, why: "server closed the connection: no more".to_string() },
        ];
        for told in all {
            assert_eq!(Told::parse(told.line().trim_end()), Some(told));
        }
        for line in ["", "begin", "begin 1", "begin x 1", "commit 1 x", "go 1 2"] {
            assert_eq!(Told::parse(line), None, "{line}");
        }
        let two = Told::Failed { client: 1, why: "a\nb".to_string() };
        assert_eq!(two.line(), "failed 1 a b\n");
    }
}
