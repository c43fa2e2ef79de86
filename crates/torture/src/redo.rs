//! Where InnoDB's log ends, as the recovery of MariaDB finds it: whether it takes bytes for log
//! that never were its next.
//!
//! MariaDB writes the last block of its log whole, with whatever its buffer holds behind the end. A
//! byte there is to say that it is the end. Sometimes (seen with 10.11.19, on plain files too) it
//! is not there, and if what an older block left in the buffer begins, at that very place, with a
//! whole record group, its checksum is right: it has no address in it. Recovery then carries out
//! once more what was done long ago.
//!
//! 1. Such bytes are told by what they are: whole record groups at the end of the log, all in its
//!    last block, that are those of the same place in one block before.
//! 2. What begins where a sector does is not told so: it could be a drive's doing.
//! 3. Whatever bytes a log has, reading it ends; what is not a log has no such end.
//! 4. Of such bytes all pages are told that their records change; if one of them cannot be told,
//!    none of the bytes are called stale.
//!
//! The format is that of MariaDB 10.8 and later: a header, two checkpoints, and a ring of record
//! groups, each ended by a byte that changes with every lap and by a CRC-32C (MDEV-14425).

use std::collections::BTreeSet;

/// Bytes of a block, and of what lies before the ring.
const BLOCK: u64 = 4096;
const RING: usize = 3 * BLOCK as usize;
/// Fewer bytes may well be the same twice by chance.
const TELLING: u64 = 16;
/// So many bytes behind an end, or all in its block, are compared with those of older blocks: the
/// server may have changed what comes later once more.
const SAME: u64 = 64;
/// Where a drive, or a file system, put something together wrongly, the seam is at a multiple of
/// this.
const SECTOR: u64 = 512;
/// No record group is longer.
const LONGEST: u64 = 2 << 20;

/// A page of the database: of which tablespace, and which one of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageId {
    /// The tablespace's number.
    pub space: u32,
    /// The page's number in it.
    pub number: u32,
}

/// Bytes at the end of a log that are those of an older block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The log sequence number at which the log really ended.
    pub end: u64,
    /// How many bytes recovery takes for log behind it.
    pub bytes: u64,
    /// How many blocks before they have been written.
    pub blocks: u64,
    /// The pages that recovery changes by them.
    pub pages: BTreeSet<PageId>,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the server's log ended at LSN {}; its recovery took {} bytes behind that for log, which its \
             buffer had left from {} blocks before, and changed by them ",
            self.end, self.bytes, self.blocks
        )?;
        for (i, page) in self.pages.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}page {} of tablespace {}", page.number, page.space)?;
        }
        write!(f, ". That is a defect of the server, on whatever it lies")
    }
}

/// What is wrong at the end of this log (`ib_logfile0`, as it was before its recovery); `None` if
/// that is sound, or cannot be told.
pub fn stale_end(file: &[u8]) -> Option<Stale> {
    let log = Log::new(file)?;
    let (groups, next) = log.groups();
    let place = |lsn: u64| lsn - log.first;
    let last_block = place(next).checked_sub(1)? / BLOCK;
    let there = || groups.iter().rev().take_while(|g| place(g.0) / BLOCK == last_block);
    // As far back as they are those of one block before.
    let stale = |blocks: u64| {
        let same = there().take_while(|g| log.same(g.0, g.1, blocks * BLOCK));
        let (mut end, mut pages) = (None, BTreeSet::new());
        for &(begin, bytes) in same {
            pages.extend(log.pages(begin, bytes)?);
            end = Some(begin);
        }
        let end = end?;
        Some(Stale { end, bytes: next - end, blocks, pages })
    };
    let reach = place(next).min(log.ring.len() as u64 / 2) / BLOCK;
    let longest = (1..=reach).filter_map(stale).max_by_key(|s| (s.bytes, u64::MAX - s.blocks))?;
    let seam = place(longest.end).is_multiple_of(SECTOR);
    (longest.bytes >= TELLING && !seam).then_some(longest)
}

/// The log sequence number at which recovery finds the end of this log; `None` if it is none.
pub fn end(file: &[u8]) -> Option<u64> {
    Some(Log::new(file)?.groups().1)
}

/// What a log has at its end, behind the last whole record group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// The byte that says that this is the end.
    Marked,
    /// The end is where a block ends, which needs no such byte.
    WholeBlock,
    /// No such byte: bytes of the block so many blocks before.
    Older(u64),
    /// No such byte, and something else.
    Other,
}

/// What this log has at its end; `None` if it is no log.
pub fn tail(file: &[u8]) -> Option<Tail> {
    let log = Log::new(file)?;
    let (_, next) = log.groups();
    let rest = (BLOCK - (next - log.first) % BLOCK) % BLOCK;
    if rest == 0 {
        return Some(Tail::WholeBlock);
    }
    if log.at(next) <= 1 {
        return Some(Tail::Marked);
    }
    // (A whole lap before is the very same place.)
    let reach = (next - log.first).min(log.ring.len() as u64 - BLOCK) / BLOCK;
    let older = (1..=reach).find(|blocks| log.same(next, rest.min(SAME), blocks * BLOCK));
    Some(older.map_or(Tail::Other, Tail::Older))
}

/// Whether a later state of the log has something else where these bytes were; `None` if it does
/// not reach as far yet, or has overwritten them with what came a lap later.
pub fn differs(old: &[u8], new: &[u8], stale: &Stale) -> Option<bool> {
    let (old, new) = (Log::new(old)?, Log::new(new)?);
    let end = stale.end + stale.bytes;
    let now = new.groups().1;
    let held = old.first == new.first && (end..=stale.end + new.ring.len() as u64).contains(&now);
    held.then(|| (stale.end..end).any(|lsn| old.at(lsn) != new.at(lsn)))
}

struct Log<'a> {
    /// The log sequence number at which the ring began.
    first: u64,
    checkpoint: u64,
    ring: &'a [u8],
}

impl Log<'_> {
    fn new(file: &[u8]) -> Option<Log<'_>> {
        let number = |at: usize| Some(u64::from_be_bytes(*file.get(at..)?.first_chunk()?));
        let ring = file.get(RING..)?;
        let whole = (ring.len() as u64).is_multiple_of(BLOCK) && ring.len() as u64 >= 2 * BLOCK;
        let first = number(8)?;
        let checkpoint = number(BLOCK as usize)?.max(number(2 * BLOCK as usize)?);
        let is_log =
            whole && file.starts_with(b"Phys") && (first..u64::MAX / 2).contains(&checkpoint);
        is_log.then_some(Log { first, checkpoint, ring })
    }

    /// All record groups from the checkpoint on, each with its bytes, and where they end.
    fn groups(&self) -> (Vec<(u64, u64)>, u64) {
        let (mut groups, mut next) = (Vec::new(), self.checkpoint);
        while next - self.checkpoint <= self.ring.len() as u64
            && let Some(bytes) = self.group(next)
        {
            groups.push((next, bytes));
            next += bytes;
        }
        (groups, next)
    }

    fn at(&self, lsn: u64) -> u8 {
        self.ring[((lsn - self.first) % self.ring.len() as u64) as usize]
    }

    /// Whether these bytes are those so many bytes before.
    fn same(&self, lsn: u64, bytes: u64, before: u64) -> bool {
        lsn >= self.first + before
            && (lsn..lsn + bytes).all(|lsn| self.at(lsn) == self.at(lsn - before))
    }

    /// How many bytes the record group has that begins there, with its end and checksum.
    fn group(&self, begin: u64) -> Option<u64> {
        let mut lsn = begin;
        while self.at(lsn) > 1 {
            let short = u64::from(self.at(lsn) & 15);
            lsn += 1;
            let rest = match short {
                0 => {
                    let (more, of) = self.varint(lsn)?;
                    lsn += of;
                    (more + 15).checked_sub(of)?
                }
                short => short,
            };
            lsn += rest;
            if lsn - begin > LONGEST.min(self.ring.len() as u64) {
                return None;
            }
        }
        let lap = (lsn - self.first) / self.ring.len() as u64;
        let mark = u8::from(lap.is_multiple_of(2));
        if lsn == begin || self.at(lsn) != mark {
            return None;
        }
        let records: Vec<u8> = (begin..lsn).map(|lsn| self.at(lsn)).collect();
        let sum = [1, 2, 3, 4].map(|i| self.at(lsn + i));
        (crc32c::crc32c(&records) == u32::from_be_bytes(sum)).then_some(lsn + 5 - begin)
    }

    /// The pages that the records of a whole group change; `None` if that cannot be told.
    fn pages(&self, begin: u64, bytes: u64) -> Option<BTreeSet<PageId>> {
        let (mut lsn, end) = (begin, begin + bytes - 5);
        let (mut pages, mut of_a_page) = (BTreeSet::new(), false);
        while lsn < end {
            let first = self.at(lsn);
            lsn += 1;
            let length = match u64::from(first & 15) {
                0 => {
                    let (more, of) = self.varint(lsn)?;
                    lsn += of;
                    (more + 15).checked_sub(of)?
                }
                short => short,
            };
            let next = lsn + length;
            // A record of the same page as the one before names none.
            if first & 0x80 == 0 || !of_a_page {
                let (space, of) = self.varint(lsn)?;
                let (number, also) = self.varint(lsn + of)?;
                if of + also > length {
                    return None;
                }
                // Else it is about a file, and not about a page.
                of_a_page = first & 0x80 == 0;
                if of_a_page {
                    let (space, number) = (space.try_into().ok()?, number.try_into().ok()?);
                    pages.insert(PageId { space, number });
                }
            }
            lsn = next;
        }
        (lsn == end).then_some(pages)
    }

    /// A number of one to five bytes, and how many.
    fn varint(&self, lsn: u64) -> Option<(u64, u64)> {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|i| u64::from(self.at(lsn + i)));
        match a {
            0..0x80 => Some((a, 1)),
            0x80..0xc0 => Some((0x80 + ((a & 0x3f) << 8 | b), 2)),
            0xc0..0xe0 => Some((0x4080 + ((a & 0x1f) << 16 | b << 8 | c), 3)),
            0xe0..0xf0 => Some((0x20_4080 + ((a & 0x0f) << 24 | b << 16 | c << 8 | d), 4)),
            0xf0 => Some((0x1020_4080 + (b << 24 | c << 16 | d << 8 | e), 5)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
