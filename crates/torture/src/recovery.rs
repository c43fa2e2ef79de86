//! Starts a database after a blow, and compares its whole content with the ledger.
//!
//! 1. A server that does not start, tables that cannot be read, and complaints of the server's own
//!    check are findings, as is a row that differs from the ledger.
//! 2. MariaDB may take stale bytes at the end of its log for log ([`crate::redo`]). If there are
//!    such bytes, the database is copied before it is started.
//! 3. A finding is the server's own fault only if the same database recovers without any finding
//!    when the true end of its log is marked. This is tried with the copy.

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
/// `copy`; it stays there if something was found. `stage` is told what begins.
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
    let kept = stale.as_ref().map(|_| {
        stage("copying the database");
        server.copy(copy)
    });
    stage("recovery");
    let (took, mut found) = judge(server, ledger, &stage)?;
    if let (Some(stale), Some(kept)) = (&stale, kept) {
        if found.is_clean() {
            remove(copy);
        } else {
            stage("recovery of the copy");
            match explains(stale, kept, ledger, &stage)? {
                Ok(()) => found.excuse(&format!(
                    "{stale}. A copy in which that end is marked recovers, with all commits"
                )),
                Err(why) => found
                    .first
                    .push(format!("({stale}. It is not the cause of what was found: {why}.)")),
            }
        }
    }
    Ok(Recovered { took, check: found, stale })
}

/// Whether the copy recovers without a finding once the end of its log is marked. If not, why.
fn explains(
    stale: &Stale,
    copy: Result<Server, ProgramError>,
    ledger: &Ledger,
    stage: &impl Fn(&str),
) -> Result<Result<(), String>, ProgramError> {
    let copy = match copy {
        Ok(copy) => copy,
        Err(e @ ProgramError::Interrupted) => return Err(e),
        Err(e) => return Ok(Err(format!("that is not known, since it was not copied: {e}"))),
    };
    if let Err(e) = copy.end_log_at(stale.end) {
        return Ok(Err(format!("that is not known, since the end was not marked: {e}")));
    }
    let (_, found) = judge(&copy, ledger, stage)?;
    Ok(match found.first.first() {
        None => Ok(()),
        Some(first) => Err(format!("in a copy in which that end is marked, {first}")),
    })
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

/// Removes a copy, and what its server wrote.
#[allow(clippy::disallowed_methods, reason = "the edge: the directory of a run")]
fn remove(copy: &Path) {
    // (A later copy to the same place fails, and says so.)
    let _ = std::fs::remove_dir_all(copy);
    let _ = std::fs::remove_dir_all(copy.with_extension("run"));
}
