//! Checks what a power cut has left of a database: log, copies and pages are read back, as in a
//! recovery, and compared with the promises.
//!
//! 1. Only what the drives return counts: the log reaches as far as its blocks say, and records are
//!    used only up to there.
//! 2. A page must be whole, or be repaired by a whole copy in the double-write area, or by a record
//!    with the whole page.
//! 3. A record applies to a page whose last change is the one before the record. A page that is
//!    older than its next record expects, or than the checkpoint, has lost changes.
//! 4. A page that is newer than the log was written before its log.
//! 5. Afterwards every page is whole, durable and in the recovered state, and the log begins anew
//!    after everything that it ever held.

use super::storage::{LogStore, PageStore, PageVersion, Stored};
use super::{Journal, PageNo};
use tantalum_device::IoError;

/// The findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Pages checked.
    pub pages: u64,
    /// Acknowledged commits that the log has lost.
    pub commits_lost: u64,
    /// Torn pages that a copy repaired, or the log.
    pub repaired: u64,
    /// Torn or unreadable pages without a copy.
    pub torn: u64,
    /// Pages that lack changes which the log does not have any more.
    pub behind: u64,
    /// Pages with changes which the log does not have yet.
    pub ahead: u64,
    /// Records that changed a page.
    pub replayed: u64,
    /// Bytes of the log between checkpoint and end.
    pub log_bytes: u64,
}

impl Recovered {
    /// Whether the database has damage that its log cannot repair.
    pub fn is_damaged(&self) -> bool {
        self.torn + self.behind + self.ahead > 0
    }
}

/// Checks what a power cut has left in these stores, and repairs them. Barriers must be on in both.
///
/// # Errors
/// The stores' errors, except for pages that cannot be read.
pub async fn recover<P: PageStore, L: LogStore>(
    pages: &P,
    log: &L,
    journal: &Journal,
) -> Result<Recovered, IoError> {
    let (checkpoint, end) = log.recover().await?;
    let settled = journal.settled();
    let mut found = Recovered {
        pages: settled.len() as u64,
        commits_lost: journal.acknowledged_after(end),
        log_bytes: end.0.saturating_sub(checkpoint.0),
        ..Recovered::default()
    };
    let stored = pages.survey(settled.len() as u32).await?;
    let mut now = Vec::with_capacity(stored.len());
    let (mut torn, mut behind) = (vec![false; stored.len()], vec![false; stored.len()]);
    for (page, (stored, settled)) in stored.iter().zip(&settled).enumerate() {
        let lsn = match *stored {
            Stored::Whole(lsn) => lsn,
            Stored::Copy(lsn) => {
                found.repaired += 1;
                lsn
            }
            Stored::Torn => {
                torn[page] = true;
                *settled
            }
        };
        found.ahead += u64::from(lsn > end);
        behind[page] = lsn < *settled;
        now.push(lsn.max(*settled));
    }
    for record in journal.records(checkpoint..end) {
        let page = record.page.0 as usize;
        let lsn = &mut now[page];
        if *lsn >= record.end {
            continue;
        }
        if record.whole {
            found.repaired += u64::from(torn[page]);
            (torn[page], behind[page]) = (false, false);
        }
        if *lsn != record.before && !record.whole {
            found.behind += 1;
        } else if !torn[page] {
            found.replayed += 1;
        }
        *lsn = record.end;
    }
    let count = |pages: Vec<bool>| pages.into_iter().filter(|is| *is).count() as u64;
    found.torn = count(torn);
    found.behind += count(behind);
    let each = (0..).map(PageNo).zip(now.iter().zip(&stored));
    let differs = each.filter(|(_, (lsn, stored))| **stored != Stored::Whole(**lsn));
    let differ: Vec<_> = differs.map(|(page, (lsn, _))| PageVersion { page, lsn: *lsn }).collect();
    pages.restore(&differ).await?;
    let next = log.restart(end.max(checkpoint)).await?;
    journal.restart(now, next);
    Ok(found)
}
