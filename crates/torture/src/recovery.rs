//! Starts a database after a blow, and compares its whole content with the ledger.
//!
//! 1. A server that does not start, tables that cannot be read, and complaints of the server's own
//!    check are findings, as is a row that differs from the ledger.
//! 2. MariaDB may take stale bytes at the end of its log for log ([`crate::redo`]). If there are
//!    such bytes, the database is copied to a plain disk before it is started.
//! 3. A finding is the server's own fault only if two copies say so: the one with the stale bytes
//!    has a finding, too, where no drive is below it; and the one whose log ends where it really
//!    does has none. So the drive had kept everything, and the stale bytes do harm by themselves.

use crate::check::{Check, Harm, check};
use crate::ledger::Ledger;
use crate::program::{ProgramError, Stopwatch};
use crate::redo::{Stale, stale_end};
use crate::server::Server;
use crate::store::StoreError;
use std::path::Path;
use std::time::Duration;

/// A database that was started after a blow.
pub struct Recovered {
    /// From the start until it accepted a connection.
    pub took: Duration,
    /// What was found.
    pub check: Check,
    /// Stale bytes that its recovery took for log.
    pub stale: Option<Stale>,
}

/// Starts a database and judges it. If it has to be copied, the copy goes to the new directory
/// `copy`; it stays there, as it was before its recovery, if something was found. `stage` is told
/// what begins.
///
/// # Errors
/// [`ProgramError`] if a program could not be started, or was interrupted.
pub fn recover(
    server: &Server,
    ledger: &Ledger,
    copy: &Path,
    stage: impl Fn(&str),
) -> Result<Recovered, ProgramError> {
    let stale = server.redo().and_then(|redo| stale_end(&redo));
    let copied = stale.as_ref().map(|_| {
        stage("copying the database");
        server.copy(copy)
    });
    stage("recovery");
    let (took, mut found) = judge(server, ledger, &stage)?;
    if let (Some(stale), Some(copied)) = (&stale, copied) {
        if found.is_clean() {
            remove(copy);
        } else {
            let cause = match copied {
                Ok(left) => cause(stale.end, &left, copy, ledger, &stage)?,
                Err(e) => Cause::Unknown(without_interrupt(e)?),
            };
            match cause {
                Cause::StaleBytes => found.excuse(&format!(
                    "{stale}. A copy has a finding without any drive, and none when that end is marked"
                )),
                Cause::Other(why) => found
                    .first
                    .push(format!("({stale}. That is not the cause of what was found: {why}.)")),
                Cause::Unknown(why) => found
                    .first
                    .push(format!("({stale}. Whether that is the cause is not known: {why}.)")),
            }
        }
    }
    Ok(Recovered { took, check: found, stale })
}

/// What the findings after a blow come from.
#[derive(Debug, PartialEq, Eq)]
pub enum Cause {
    /// The stale bytes alone.
    StaleBytes,
    /// Something else, too, or only something else; and how that is known.
    Other(String),
    /// It could not be tried, and why.
    Unknown(String),
}

/// Whether stale bytes behind this log sequence number are the cause of a finding. `left` is a copy
/// of the database as the blow has left it, and stays so; copies of it go beside `place`.
///
/// # Errors
/// As [`recover`].
pub fn cause(
    end: u64,
    left: &Server,
    place: &Path,
    ledger: &Ledger,
    stage: &impl Fn(&str),
) -> Result<Cause, ProgramError> {
    stage("recovery of copies");
    // Short names: the path of a server's socket is bounded.
    let copies = ["d", "e"].map(|name| left.copy(&place.with_file_name(name)));
    let [with, without] = match copies {
        [Ok(with), Ok(without)] => [with, without],
        [Err(e), _] | [_, Err(e)] => return Ok(Cause::Unknown(without_interrupt(e)?)),
    };
    if let Err(e) = without.end_log_at(end) {
        return Ok(Cause::Unknown(format!("that end was not marked: {e}")));
    }
    let (_, of_whole) = judge(&without, ledger, stage)?;
    without.kill()?;
    if let Some(first) = of_whole.first.first() {
        return Ok(Cause::Other(format!("a copy in which that end is marked has: {first}")));
    }
    let (_, of_stale) = judge(&with, ledger, stage)?;
    with.kill()?;
    Ok(match of_stale.is_clean() {
        true => Cause::Other("a copy on a plain disk recovers with it".to_string()),
        false => Cause::StaleBytes,
    })
}

/// What is said of an error, unless it is an interrupt.
fn without_interrupt(error: ProgramError) -> Result<String, ProgramError> {
    match error {
        ProgramError::Interrupted => Err(error),
        other => Ok(other.to_string()),
    }
}

/// Starts a database, runs its own check, and compares its content with the ledger. Returns how long
/// it took until it accepted a connection.
///
/// # Errors
/// As [`recover`].
pub fn judge(
    server: &Server,
    ledger: &Ledger,
    stage: &impl Fn(&str),
) -> Result<(Duration, Check), ProgramError> {
    let watch = Stopwatch::begin();
    let mut took = None;
    let mut found = Check::default();
    match server.start() {
        Err(e @ (ProgramError::Failed { .. } | ProgramError::TooLong { .. })) => {
            found.found(Harm::DoesNotStart, format!("the database: {e}"));
            return Ok((watch.read(), found));
        }
        other => other?,
    }
    stage("check");
    let mut damage = Vec::new();
    let mut read = || -> Result<_, StoreError> {
        let mut store = server.target().connect()?;
        took = Some(watch.read());
        damage = store.own_check()?;
        store.contents()
    };
    let read = read();
    if let Ok(contents) = &read {
        found = check(ledger, contents);
    }
    damage.into_iter().for_each(|what| found.found(Harm::Damaged, what));
    if let Err(e) = read {
        found.found(Harm::Damaged, format!("the tables cannot be read: {e}"));
    }
    Ok((took.unwrap_or_else(|| watch.read()), found))
}

/// Removes a copy that was not started.
#[allow(clippy::disallowed_methods, reason = "the edge: the directory of a run")]
fn remove(copy: &Path) {
    // (A later copy to the same place fails, and says so.)
    let _ = std::fs::remove_dir_all(copy);
}
