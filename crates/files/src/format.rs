//! The format on the device, byte by byte. All numbers are little-endian.
//!
//! ```text
//! block 0, 1                     superblock, twice; written once, by format
//! region 0                       snapshot blocks, then journal blocks
//! region 1                       the same again
//! data start ..                  chunks, aligned to the chunk size
//!
//! superblock                     snapshot                       record
//!  0  8 "TNTFILE1"                0  8 "TNTSNAP1"                0  4 "TREC"
//!  8  4 version (1)               8  8 format id                 4  4 CRC-32C of 8..36+n
//! 12  4 block size               16  8 epoch                     8  8 format id
//! 16  8 format id                24  8 next inode number        16  8 epoch
//! 24  8 blocks of the device     32  4 files                    24  8 sequence number
//! 32  4 blocks in a chunk        36  4 n, bytes of files        32  4 n, bytes of changes
//! 36  4 snapshot blocks          40  4 CRC-32C of 0..40, 44..   36  n changes
//! 40  4 journal blocks           44  n files
//! 44  4 bytes for the directory
//! 48  4 chunks                   file                           change
//! 52  8 data start               0  8 inode number               0  1 kind
//! 60  4 CRC-32C of 0..60         8  8 size                       1  8 inode number
//!                               16  1 name length                1 create, 3 rename: 1 length, name
//! run                           17  4 runs                       2 delete: nothing more
//!  0  4 first chunk of the file 21  . name, runs                 4 grow: 8 size, 4 count, runs
//!  4  4 first chunk used                                         5 resize: 8 size
//!  8  4 how many
//! ```
//!
//! A snapshot begins at the first block of its region, a record at the beginning of a journal
//! block; the rest of the last block of each is zeros. The records of an epoch are numbered from 0
//! without a gap. A grow sets the file's size and adds the chunks in the runs. A resize sets the
//! file's size and removes the chunks that lie entirely beyond it.

use crate::FilesError;
use crate::state::{Change, Run};
use tantalum_device::{Block, Caps};

pub(crate) const SUPER_MAGIC: &[u8; 8] = b"TNTFILE1";
pub(crate) const SNAP_MAGIC: &[u8; 8] = b"TNTSNAP1";
const REC_MAGIC: &[u8; 4] = b"TREC";
const VERSION: u32 = 1;
const SUPER_BYTES: usize = 64;
pub(crate) const SNAP_HEADER: usize = 44;
pub(crate) const REC_HEADER: usize = 36;
/// Bytes of a file in a snapshot, without name and runs.
pub(crate) const FILE_BYTES: usize = 21;
pub(crate) const RUN_BYTES: usize = 12;

/// The layout of the device, as in the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub block_size: u32,
    pub format_id: u64,
    pub blocks: u64,
    pub chunk_blocks: u32,
    pub snapshot_blocks: u32,
    pub journal_blocks: u32,
    pub directory_bytes: u32,
    pub chunks: u32,
    pub data_start: u64,
}

impl Layout {
    /// Computes the layout for a device.
    pub fn plan(
        caps: &Caps,
        chunk: u32,
        directory_bytes: u32,
        journal_blocks: u32,
        format_id: u64,
    ) -> Result<Layout, FilesError> {
        let unsuitable = |why: String| Err(FilesError::Unsuitable(why));
        let bs = caps.block_size;
        if bs < 512 || !bs.is_power_of_two() {
            return unsuitable(format!(
                "blocks of {bs} bytes; a power of two from 512 on is needed"
            ));
        }
        if chunk < bs || !chunk.is_power_of_two() {
            return unsuitable(format!("a chunk of {chunk} bytes is no power of two from {bs} on"));
        }
        if journal_blocks < 4 {
            return unsuitable(format!("a journal of {journal_blocks} blocks; 4 are needed"));
        }
        let chunk_blocks = chunk / bs;
        let most_chunks = caps.blocks / u64::from(chunk_blocks);
        let snapshot =
            SNAP_HEADER as u64 + u64::from(directory_bytes) + most_chunks * RUN_BYTES as u64;
        let snapshot_blocks = snapshot.div_ceil(u64::from(bs));
        let head = 2 + 2 * (snapshot_blocks + u64::from(journal_blocks));
        let data_start = head.next_multiple_of(u64::from(chunk_blocks));
        let chunks = caps.blocks.saturating_sub(data_start) / u64::from(chunk_blocks);
        let (Ok(snapshot_blocks), Ok(chunks)) =
            (u32::try_from(snapshot_blocks), u32::try_from(chunks))
        else {
            return unsuitable(format!("too many chunks of {chunk} bytes: choose a larger chunk"));
        };
        if chunks == 0 || chunks == u32::MAX {
            let blocks = caps.blocks;
            return unsuitable(format!("{blocks} blocks leave no room beside {head} of metadata"));
        }
        let blocks = caps.blocks;
        Ok(Layout {
            block_size: bs,
            format_id,
            blocks,
            chunk_blocks,
            snapshot_blocks,
            journal_blocks,
            directory_bytes,
            chunks,
            data_start,
        })
    }

    pub fn chunk_bytes(&self) -> u64 {
        u64::from(self.chunk_blocks) * u64::from(self.block_size)
    }

    pub fn snapshot_at(&self, region: u32) -> Block {
        let region_blocks = u64::from(self.snapshot_blocks) + u64::from(self.journal_blocks);
        Block(2 + u64::from(region) * region_blocks)
    }

    pub fn journal_at(&self, region: u32) -> Block {
        Block(self.snapshot_at(region).0 + u64::from(self.snapshot_blocks))
    }

    /// The first block of a chunk.
    pub fn chunk_at(&self, chunk: u32) -> Block {
        Block(self.data_start + u64::from(chunk) * u64::from(self.chunk_blocks))
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.block_size as usize);
        out.extend_from_slice(SUPER_MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.block_size.to_le_bytes());
        out.extend_from_slice(&self.format_id.to_le_bytes());
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.chunk_blocks.to_le_bytes());
        out.extend_from_slice(&self.snapshot_blocks.to_le_bytes());
        out.extend_from_slice(&self.journal_blocks.to_le_bytes());
        out.extend_from_slice(&self.directory_bytes.to_le_bytes());
        out.extend_from_slice(&self.chunks.to_le_bytes());
        out.extend_from_slice(&self.data_start.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        debug_assert_eq!(out.len(), SUPER_BYTES);
        out.resize(self.block_size as usize, 0);
        out
    }

    /// The layout in a superblock; `None` if the block is none, or is damaged.
    pub fn decode(block: &[u8]) -> Option<Layout> {
        let head = block.get(..SUPER_BYTES)?;
        let mut r = Reader::new(head);
        if r.take(8)? != SUPER_MAGIC || r.u32()? != VERSION {
            return None;
        }
        let layout = Layout {
            block_size: r.u32()?,
            format_id: r.u64()?,
            blocks: r.u64()?,
            chunk_blocks: r.u32()?,
            snapshot_blocks: r.u32()?,
            journal_blocks: r.u32()?,
            directory_bytes: r.u32()?,
            chunks: r.u32()?,
            data_start: r.u64()?,
        };
        (r.u32()? == crc32c::crc32c(&head[..SUPER_BYTES - 4])).then_some(layout)
    }

    /// Whether the numbers fit each other and the device.
    pub fn check(&self, caps: &Caps) -> Result<(), FilesError> {
        let corrupt = |what| Err(FilesError::Corrupt { what, at: Block(0) });
        if self.block_size != caps.block_size {
            let (was, is) = (self.block_size, caps.block_size);
            let why = format!("formatted with blocks of {was} bytes, the device has {is}");
            return Err(FilesError::Unsuitable(why));
        }
        if self.blocks > caps.blocks {
            let (was, is) = (self.blocks, caps.blocks);
            let why = format!("formatted for {was} blocks, the device has {is}");
            return Err(FilesError::Unsuitable(why));
        }
        if !self.chunk_blocks.is_power_of_two() || self.journal_blocks < 4 || self.chunks == 0 {
            return corrupt("the superblock's layout is impossible");
        }
        let head = 2 + 2 * (u64::from(self.snapshot_blocks) + u64::from(self.journal_blocks));
        let data = u64::from(self.chunks) * u64::from(self.chunk_blocks);
        let room = u64::from(self.snapshot_blocks) * u64::from(self.block_size);
        let need = SNAP_HEADER as u64
            + u64::from(self.directory_bytes)
            + u64::from(self.chunks) * RUN_BYTES as u64;
        let end = self.data_start.checked_add(data);
        if self.data_start < head || end.is_none_or(|end| end > self.blocks) || need > room {
            return corrupt("the superblock's layout overlaps");
        }
        Ok(())
    }
}

/// Reads little-endian numbers from a slice; `None` beyond its end.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn run(&mut self) -> Option<Run> {
        Some(Run { file_chunk: self.u32()?, chunk: self.u32()?, count: self.u32()? })
    }
}

pub(crate) fn put_run(out: &mut Vec<u8>, run: &Run) {
    out.extend_from_slice(&run.file_chunk.to_le_bytes());
    out.extend_from_slice(&run.chunk.to_le_bytes());
    out.extend_from_slice(&run.count.to_le_bytes());
}

/// Appends a change to the body of a record.
pub(crate) fn put_change(out: &mut Vec<u8>, change: &Change<'_>) {
    let kind = match change {
        Change::Create { .. } => 1,
        Change::Delete { .. } => 2,
        Change::Rename { .. } => 3,
        Change::Grow { .. } => 4,
        Change::Resize { .. } => 5,
    };
    out.push(kind);
    out.extend_from_slice(&change.ino().to_le_bytes());
    match change {
        Change::Delete { .. } => {}
        Change::Create { name, .. } | Change::Rename { name, .. } => {
            out.push(name.len() as u8);
            out.extend_from_slice(name);
        }
        Change::Grow { size, runs, .. } => {
            out.extend_from_slice(&size.to_le_bytes());
            out.extend_from_slice(&(runs.len() as u32).to_le_bytes());
            runs.iter().for_each(|r| put_run(out, r));
        }
        Change::Resize { size, .. } => out.extend_from_slice(&size.to_le_bytes()),
    }
}

/// Reads a change from the body of a record; stores its runs in `runs`.
pub(crate) fn take_change<'a, 'r: 'a>(
    r: &mut Reader<'r>,
    runs: &'a mut Vec<Run>,
) -> Option<Change<'a>> {
    let (kind, ino) = (r.u8()?, r.u64()?);
    Some(match kind {
        1 | 3 => {
            let length = r.u8()?;
            let name = r.take(usize::from(length))?;
            match kind {
                1 => Change::Create { ino, name },
                _ => Change::Rename { ino, name },
            }
        }
        2 => Change::Delete { ino },
        4 => {
            let size = r.u64()?;
            let count = r.u32()?;
            runs.clear();
            for _ in 0..count {
                runs.push(r.run()?);
            }
            Change::Grow { ino, size, runs }
        }
        5 => Change::Resize { ino, size: r.u64()? },
        _ => return None,
    })
}

/// The identity of a record: format, epoch and sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub format_id: u64,
    pub epoch: u64,
    pub seq: u64,
}

/// Completes a record: `out` holds its changes after `REC_HEADER` bytes.
pub(crate) fn seal_record(out: &mut Vec<u8>, place: Place, block_size: u32) {
    let body = (out.len() - REC_HEADER) as u32;
    out[..4].copy_from_slice(REC_MAGIC);
    out[8..16].copy_from_slice(&place.format_id.to_le_bytes());
    out[16..24].copy_from_slice(&place.epoch.to_le_bytes());
    out[24..32].copy_from_slice(&place.seq.to_le_bytes());
    out[32..36].copy_from_slice(&body.to_le_bytes());
    let crc = crc32c::crc32c(&out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    out.resize(out.len().next_multiple_of(block_size as usize), 0);
}

/// The length of the record that begins here, if it is one of this format.
pub(crate) fn record_bytes(block: &[u8], format_id: u64) -> Option<(usize, u64)> {
    let mut r = Reader::new(block);
    if r.take(4)? != REC_MAGIC {
        return None;
    }
    r.u32()?;
    if r.u64()? != format_id {
        return None;
    }
    let epoch = r.u64()?;
    r.u64()?;
    Some((REC_HEADER + r.u32()? as usize, epoch))
}

/// The changes in the record that begins here; `None` if it is damaged or belongs
/// elsewhere.
pub(crate) fn open_record(bytes: &[u8], place: Place) -> Option<&[u8]> {
    let (length, _) = record_bytes(bytes, place.format_id)?;
    let record = bytes.get(..length)?;
    let mut r = Reader::new(&record[4..]);
    let crc = r.u32()?;
    r.u64()?;
    (r.u64()? == place.epoch && r.u64()? == place.seq && crc32c::crc32c(&record[8..]) == crc)
        .then(|| &record[REC_HEADER..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: Place = Place { format_id: 5, epoch: 6, seq: 7 };

    fn record(changes: &[Change<'_>]) -> Vec<u8> {
        let mut out = vec![0; REC_HEADER];
        changes.iter().for_each(|c| put_change(&mut out, c));
        seal_record(&mut out, PLACE, 512);
        out
    }

    #[test]
    fn changes_come_back_from_a_record() {
        let runs =
            [Run { file_chunk: 1, chunk: 20, count: 3 }, Run { file_chunk: 9, chunk: 2, count: 1 }];
        let changes = [
            Change::Create { ino: 1, name: b"a name" },
            Change::Grow { ino: 1, size: 1 << 40, runs: &runs },
            Change::Rename { ino: 1, name: &[0xff; 255] },
            Change::Resize { ino: 1, size: 17 },
            Change::Delete { ino: 1 },
        ];
        let bytes = record(&changes);
        assert_eq!(bytes.len() % 512, 0);
        let mut r = Reader::new(open_record(&bytes, PLACE).unwrap());
        for change in &changes {
            assert_eq!(take_change(&mut r, &mut Vec::new()).as_ref(), Some(change));
        }
        assert!(r.is_empty());
    }

    #[test]
    fn a_record_belongs_to_its_place_only() {
        let bytes = record(&[Change::Delete { ino: 1 }]);
        for place in [
            Place { format_id: 4, ..PLACE },
            Place { epoch: 5, ..PLACE },
            Place { seq: 8, ..PLACE },
        ] {
            assert_eq!(open_record(&bytes, place), None);
        }
    }

    proptest! {
        #[test]
        fn a_damaged_record_is_noticed(at in 0usize..57, bit in 0..8) {
            let mut bytes = record(&[Change::Create { ino: 1, name: b"0123456789a" }]);
            prop_assert_eq!(record_bytes(&bytes, 5), Some((57, 6)));
            bytes[at] ^= 1u8 << bit;
            prop_assert_eq!(open_record(&bytes, PLACE), None);
        }

        #[test]
        fn what_makes_no_sense_is_refused_quietly(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let _ = Layout::decode(&bytes);
            let _ = open_record(&bytes, PLACE);
            let _ = take_change(&mut Reader::new(&bytes), &mut Vec::new());
        }
    }
}
