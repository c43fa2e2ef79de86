//! Finds where recovery of MariaDB sees the end of InnoDB's log, and whether recovery takes stale
//! bytes for log.
//!
//! MariaDB writes the last block of its log whole, with whatever its buffer has after the end. A
//! byte there should mark the end. Sometimes (seen with 10.11.19, on plain files too) the byte is
//! missing. The buffer may then have bytes of an older block that begin, at this very place, with a
//! whole record group. Its checksum is valid, since the checksum does not cover the address.
//! Recovery then replays old records.
//!
//! 1. Stale bytes are recognized by their content: whole record groups at the end of the log, all
//!    in its last block, that equal those at the same place in one earlier block.
//! 2. Bytes that begin at a sector boundary are never called stale, since a drive could be the
//!    cause.
//! 3. Reading any bytes terminates. A file that is not a log has no end.
//!
//! The format is that of MariaDB 10.8 and later: a header, two checkpoints, and a ring of record
//! groups, each ended by a byte that changes with every lap and by a CRC-32C (MDEV-14425).

use tantalum_device::counted;

/// Bytes of a block, and of what comes before the ring.
const BLOCK: u64 = 4096;
const RING: usize = 3 * BLOCK as usize;
/// Fewer equal bytes may be a coincidence.
const TELLING: u64 = 16;
/// This many bytes after an end, or the rest of its block, are compared with those of older blocks.
/// The server may have changed later bytes since.
const SAME: u64 = 64;
/// If a drive or a file system puts wrong data together, the seam is at a multiple of this.
const SECTOR: u64 = 512;
/// The longest record group.
const LONGEST: u64 = 2 << 20;

/// Bytes at the end of a log that come from an older block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// The log sequence number at which the log really ended.
    pub end: u64,
    /// How many bytes after that recovery takes for log.
    pub bytes: u64,
    /// How many blocks earlier they were written.
    pub blocks: u64,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the server's log ended at LSN {}; its recovery took {} after that for log, which its \
             buffer still had from {} before. That is a defect of the server on any storage",
            self.end,
            counted(self.bytes, "byte", "bytes"),
            counted(self.blocks, "block", "blocks")
        )
    }
}

/// The stale bytes at the end of this log (`ib_logfile0`, as it was before its recovery). `None` if
/// there are none, or that cannot be decided.
pub fn stale_end(file: &[u8]) -> Option<Stale> {
    let log = Log::new(file)?;
    let (groups, next) = log.groups();
    let place = |lsn: u64| lsn - log.first;
    let last_block = place(next).checked_sub(1)? / BLOCK;
    let there = || groups.iter().rev().take_while(|g| place(g.0) / BLOCK == last_block);
    // As many groups from the end as equal those of one earlier block.
    let stale = |blocks: u64| {
        let &(end, _) = there().take_while(|g| log.same(g.0, g.1, blocks * BLOCK)).last()?;
        Some(Stale { end, bytes: next - end, blocks })
    };
    let reach = place(next).min(log.ring.len() as u64 / 2) / BLOCK;
    let longest = (1..=reach).filter_map(stale).max_by_key(|s| (s.bytes, u64::MAX - s.blocks))?;
    let seam = place(longest.end).is_multiple_of(SECTOR);
    (longest.bytes >= TELLING && !seam).then_some(longest)
}

/// The log sequence number at which recovery sees the end of this log; `None` if it is not a log.
pub fn end(file: &[u8]) -> Option<u64> {
    Some(Log::new(file)?.groups().1)
}

/// Marks the end of this log at `lsn`: recovery does not read on from there. `false` if it is not a
/// log, or has no record group that begins or ends there.
pub fn mark_end(file: &mut [u8], lsn: u64) -> bool {
    let place = Log::new(file).and_then(|log| {
        let (groups, next) = log.groups();
        let known = lsn == next || groups.iter().any(|group| group.0 == lsn);
        known.then(|| log.place(lsn))
    });
    let byte = place.and_then(|place| file.get_mut(RING + place));
    byte.map(|byte| *byte = 0).is_some()
}

/// The bytes after the last whole record group of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// The byte that marks the end.
    Marked,
    /// None: the end is at the end of a block, which needs no mark.
    WholeBlock,
    /// No mark, but bytes of the block this many blocks earlier.
    Older(u64),
    /// No mark, and other bytes.
    Other,
}

/// The bytes after the end of this log; `None` if it is not a log.
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
    // (A whole lap before is the same place of the ring.)
    let reach = (next - log.first).min(log.ring.len() as u64 - BLOCK) / BLOCK;
    let older = (1..=reach).find(|blocks| log.same(next, rest.min(SAME), blocks * BLOCK));
    Some(older.map_or(Tail::Other, Tail::Older))
}

/// Whether a later state of the log has other bytes in place of these. `None` if that state does
/// not reach there yet, or has overwritten the place in a later lap.
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

    /// All record groups from the checkpoint on with their lengths, and the end of the last one.
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
        self.ring[self.place(lsn)]
    }

    /// Where in the ring the byte with this number is.
    fn place(&self, lsn: u64) -> usize {
        ((lsn - self.first) % self.ring.len() as u64) as usize
    }

    /// Whether these bytes equal those at this distance before them.
    fn same(&self, lsn: u64, bytes: u64, before: u64) -> bool {
        lsn >= self.first + before
            && (lsn..lsn + bytes).all(|lsn| self.at(lsn) == self.at(lsn - before))
    }

    /// The length of the record group that begins there, with its end mark and checksum.
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

    /// A number of one to five bytes, and its length.
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
