//! What a power cut has left of a database: log, copies and pages are read back, as
//! recovery would, and compared with what was promised.
//!
//! 1. Nothing but what the drives return is believed: the log reaches as far as its blocks
//!    say, and a record is read only up to there.
//! 2. A page must be whole, or be repaired by a whole copy in the double-write area.
//! 3. A record changes the page whose number is the one before it; a page that is older
//!    than its next record, or than the checkpoint, has lost changes.
//! 4. A page that is newer than the log was written before its log.
//! 5. Afterwards every page is whole and of the state that was recovered, durable, and the
//!    log begins anew behind everything it ever held.

use super::doublewrite::copies;
use super::redo::{begin_at, scan};
use super::{BLOCK_BYTES, Journal, Layout, Lsn, PageNo, Volume, stamp, whole};
use std::collections::BTreeMap;
use tantalum_device::{BlockDevice, IoError};

/// Blocks read at a time.
const RUN: usize = 64;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Pages looked at.
    pub pages: u64,
    /// Acknowledged commits that the log has lost.
    pub commits_lost: u64,
    /// Torn pages that a copy repaired.
    pub repaired: u64,
    /// Torn or unreadable pages without a copy.
    pub torn: u64,
    /// Pages that lack changes which the log does not hold any more.
    pub behind: u64,
    /// Pages with changes that the log does not hold yet.
    pub ahead: u64,
    /// Records that changed a page.
    pub replayed: u64,
}

impl Recovered {
    /// Whether the database is damaged beyond what its log can mend.
    pub fn is_damaged(&self) -> bool {
        self.torn + self.behind + self.ahead > 0
    }
}

/// Judges the volumes after a cut and makes them sound again. Barriers must be on in both.
///
/// # Errors
/// The volumes', other than for pages that can not be read.
pub async fn recover<D: BlockDevice>(
    data: &Volume<D>,
    log: &Volume<D>,
    layout: &Layout,
    journal: &Journal,
) -> Result<Recovered, IoError> {
    let (checkpoint, end) = scan(log, layout.log).await?;
    let mut found = Recovered {
        pages: layout.pages.into(),
        commits_lost: journal.acknowledged_after(end),
        ..Recovered::default()
    };
    let mut saved = BTreeMap::new();
    for (page, lsn) in copies(data, layout.area).await? {
        let newest = saved.entry(page).or_insert(lsn);
        *newest = lsn.max(*newest);
    }
    let stored = read_pages(data, layout).await?;
    let mut now = Vec::with_capacity(stored.len());
    let settled = journal.settled();
    for (number, stored) in stored.iter().enumerate() {
        let page = PageNo(number as u32);
        let good = stored.filter(|s| s.0 == page).map(|s| s.1);
        let lsn = match (good, saved.get(&page)) {
            (Some(lsn), _) => lsn,
            (None, Some(copy)) => {
                found.repaired += 1;
                *copy
            }
            (None, None) => {
                found.torn += 1;
                settled[number]
            }
        };
        found.ahead += u64::from(lsn > end);
        found.behind += u64::from(lsn < settled[number]);
        now.push(lsn.max(settled[number]));
    }
    for record in journal.records(checkpoint..end) {
        let lsn = &mut now[record.page.0 as usize];
        if *lsn >= record.end {
            continue;
        }
        if *lsn == record.before {
            found.replayed += 1;
        } else {
            found.behind += 1;
        }
        *lsn = record.end;
    }
    for (number, lsn) in now.iter().enumerate() {
        let page = PageNo(number as u32);
        if stored[number] != Some((page, *lsn)) {
            let blocks = vec![stamp(page, *lsn); layout.page_blocks as usize];
            data.write(layout.place(page), &blocks).await?;
        }
    }
    data.flush().await?;
    let block = u64::from(BLOCK_BYTES);
    let next = journal.next().max(end).max(checkpoint).0.div_ceil(block) + 1;
    let next = Lsn(next * block);
    begin_at(log, layout.log, next).await?;
    journal.restart(now, next);
    Ok(found)
}

/// What each page says of itself; `None` if it is torn or can not be read.
async fn read_pages<D: BlockDevice>(
    data: &Volume<D>,
    layout: &Layout,
) -> Result<Vec<Option<(PageNo, Lsn)>>, IoError> {
    let each = layout.page_blocks as usize;
    let mut pages = Vec::with_capacity(layout.pages as usize);
    let mut room = vec![0; RUN.max(each)];
    while pages.len() < layout.pages as usize {
        let count = (room.len() / each).min(layout.pages as usize - pages.len());
        let first = pages.len();
        let room = &mut room[..count * each];
        match data.read(layout.place(PageNo(first as u32)), room).await {
            Ok(()) => pages.extend(room.chunks(each).map(whole)),
            Err(IoError::Uncorrectable(_)) => {
                for number in first..first + count {
                    let one = &mut room[..each];
                    pages.push(match data.read(layout.place(PageNo(number as u32)), one).await {
                        Ok(()) => whole(one),
                        Err(IoError::Uncorrectable(_)) => None,
                        Err(e) => return Err(e),
                    });
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(pages)
}

/// Writes the pages of a freshly loaded database, some commands at a time.
///
/// # Errors
/// The volume's.
pub async fn load<D: BlockDevice>(data: &Volume<D>, layout: &Layout) -> Result<(), IoError> {
    let each = layout.page_blocks as usize;
    let step = (32 / each).max(1) as u32;
    let mut page = 0;
    while page < layout.pages {
        let count = step.min(layout.pages - page);
        let blocks: Vec<u64> = (page..page + count)
            .flat_map(|p| std::iter::repeat_n(stamp(PageNo(p), super::LOADED), each))
            .collect();
        data.write(layout.place(PageNo(page)), &blocks).await?;
        page += count;
    }
    data.flush().await
}
