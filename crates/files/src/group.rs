//! Several ranges of a file as one atomic group of the device (invariant 9).
//!
//! 1. Whole blocks are written: in a block that the ranges cover in part, the other bytes keep
//!    their values.
//! 2. The limit is checked before anything is allocated, and by the worst case: each new chunk
//!    counts as a separate piece.

use crate::FilesError;
use crate::file::File;
use crate::io::User;
use std::ops::Range;
use tantalum_device::{AtomicError, Block, BlockDevice, Data, Extent, IoError};

/// Adjacent blocks of the file that are written.
struct Span {
    blocks: Range<u64>,
    /// Where their bytes begin in the buffer.
    start: usize,
}

impl<D: BlockDevice> File<D> {
    /// Writes several ranges (offset and bytes): after any crash, and for every read of the device,
    /// all of them or none are written. When this returns, they survive any crash, on every device.
    /// Where ranges overlap, the later one counts. The file grows if necessary; a gap after the old
    /// end reads as zeros.
    ///
    /// It is one command of the device, after a flush if changes of the metadata are not durable
    /// yet (a growing file needs a new chunk now and then).
    ///
    /// # Errors
    /// [`FilesError::Group`] if the group exceeds
    /// [`Files::group_limit`](crate::Files::group_limit), [`FilesError::NoSpace`],
    /// [`FilesError::Poisoned`]: nothing was written. Those of the device: all was written, or
    /// nothing.
    pub async fn write_atomic(&self, ranges: &[(u64, &[u8])]) -> Result<(), FilesError> {
        let (inner, node) = (&*self.files.inner, &*self.node);
        inner.check()?;
        let covered = union(ranges)?;
        let Some(end) = covered.last().map(|range| range.end) else { return Ok(()) };
        let _turn = node.lock.lock().await;
        inner.check()?;
        let block_size = u64::from(inner.layout.block_size);
        let (spans, bytes) = spans(&covered, block_size);
        self.check_end(end)?;
        self.check_limit(&spans, bytes)?;
        self.make_room(&covered).await?;
        let _user = User::new(node);
        let size = node.size.get();
        let zero_from = if node.stale.get() { u64::MAX } else { size };
        let mut buffer = inner.take_scratch();
        buffer.clear();
        buffer.resize(bytes, 0);
        let done = async {
            self.fill(&spans, &covered, &mut buffer, zero_from).await?;
            for (offset, data) in ranges {
                if let Some(span) = spans.iter().find(|s| s.blocks.contains(&(offset / block_size)))
                    && !data.is_empty()
                {
                    let at = span.start + (offset - span.blocks.start * block_size) as usize;
                    buffer[at..at + data.len()].copy_from_slice(data);
                }
            }
            inner.make_durable().await?;
            self.send(&spans, &buffer).await
        };
        let done = done.await;
        inner.give_scratch(buffer);
        if end > size {
            match done {
                Ok(()) => node.size.set(end),
                // The group may have been written.
                Err(_) => node.stale.set(true),
            }
        }
        done
    }

    /// Whether the device takes a group of these blocks.
    fn check_limit(&self, spans: &[Span], bytes: usize) -> Result<(), FilesError> {
        let limit = self.files.group_limit().ok_or(FilesError::Group(AtomicError::Unsupported))?;
        let l = &self.files.inner.layout;
        let chunk_blocks = u64::from(l.chunk_blocks);
        let mut extents = 0;
        self.pieces(spans, |blocks, at, _| {
            let chunks = (blocks.end - 1) / chunk_blocks - blocks.start / chunk_blocks + 1;
            extents += if at.is_some() { 1 } else { chunks };
        });
        let bytes = bytes as u64;
        if extents > u64::from(limit.extents) || bytes > limit.bytes {
            return Err(FilesError::Group(AtomicError::TooLarge { extents, bytes, limit }));
        }
        Ok(())
    }

    /// Calls `each` for the contiguous pieces of these blocks: with the blocks, their place on the
    /// device (`None`: a hole), and the place of their bytes in the buffer.
    fn pieces(&self, spans: &[Span], mut each: impl FnMut(Range<u64>, Option<Block>, usize)) {
        let inner = &self.files.inner;
        let block_size = u64::from(inner.layout.block_size);
        for span in spans {
            let mut block = span.blocks.start;
            while block < span.blocks.end {
                let limit = ((span.blocks.end - block) * block_size) as usize;
                let piece = inner.piece(&self.node, block * block_size, limit);
                let next = block + piece.length as u64 / block_size;
                let start = span.start + ((block - span.blocks.start) * block_size) as usize;
                each(block..next, piece.at.map(|at| Block(at / block_size)), start);
                block = next;
            }
        }
    }

    /// Reads the blocks that are covered in part.
    async fn fill(
        &self,
        spans: &[Span],
        covered: &[Range<u64>],
        buffer: &mut [u8],
        zero_from: u64,
    ) -> Result<(), FilesError> {
        let inner = &self.files.inner;
        let block_size = u64::from(inner.layout.block_size);
        let mut partial = Vec::new();
        self.pieces(spans, |blocks, at, start| {
            for (i, block) in blocks.enumerate() {
                let bytes = block * block_size..(block + 1) * block_size;
                // Only one range may cover the whole block: the last one that begins before its
                // end.
                let last = covered.partition_point(|range| range.start <= bytes.start);
                let whole = last > 0 && covered[last - 1].end >= bytes.end;
                if let (false, Some(at)) = (whole, at) {
                    partial.push((block, Block(at.0 + i as u64), start + i * block_size as usize));
                }
            }
        });
        for (block, at, start) in partial {
            let to = &mut buffer[start..start + block_size as usize];
            inner.fetch(&self.node, block, at, to, zero_from).await?;
        }
        Ok(())
    }

    async fn send(&self, spans: &[Span], buffer: &[u8]) -> Result<(), FilesError> {
        let inner = &*self.files.inner;
        let block_size = u64::from(inner.layout.block_size);
        let mut extents = Vec::new();
        let mut cut_off = false;
        self.pieces(spans, |blocks, at, start| {
            let length = ((blocks.end - blocks.start) * block_size) as usize;
            match at {
                Some(at) => {
                    extents.push(Extent { at, data: Data::Bytes(&buffer[start..start + length]) });
                }
                None => cut_off = true,
            }
        });
        debug_assert!(!cut_off, "the file's lock keeps its chunks");
        let first = spans.first().map_or(0, |span| span.blocks.start);
        let end = spans.last().map_or(0, |span| span.blocks.end);
        let ticket = self.node.cache.borrow_mut().begin_write(first, end);
        let done = loop {
            if let Err(e) = inner.check() {
                break Err(e);
            }
            let unsure = inner.unsure();
            let done = inner.device.write_atomic(&extents).await;
            unsure.all_well();
            if done != Err(AtomicError::Io(IoError::NoSpace)) {
                break done.map_err(FilesError::from);
            }
            match inner.give_back().await {
                Ok(true) => {}
                Ok(false) => break Err(IoError::NoSpace.into()),
                Err(e) => break Err(e),
            }
        };
        self.node.cache.borrow_mut().end_write(ticket, first, end);
        done
    }
}

/// The union of the ranges: ascending, with gaps between.
fn union(ranges: &[(u64, &[u8])]) -> Result<Vec<Range<u64>>, FilesError> {
    let mut all = Vec::with_capacity(ranges.len());
    for (offset, data) in ranges.iter().filter(|(_, data)| !data.is_empty()) {
        let end = offset
            .checked_add(data.len() as u64)
            .ok_or(FilesError::NoSpace("a file cannot be larger than the device"))?;
        all.push(*offset..end);
    }
    all.sort_unstable_by_key(|range| range.start);
    all.dedup_by(|next, range| {
        let joins = next.start <= range.end;
        if joins {
            range.end = range.end.max(next.end);
        }
        joins
    });
    Ok(all)
}

/// The blocks of these ranges, and how many bytes they have.
fn spans(covered: &[Range<u64>], block_size: u64) -> (Vec<Span>, usize) {
    let (mut spans, mut bytes): (Vec<Span>, usize) = (Vec::new(), 0);
    for range in covered {
        let mut blocks = range.start / block_size..range.end.div_ceil(block_size);
        match spans.last_mut() {
            Some(last) if last.blocks.end >= blocks.start => {
                blocks.start = last.blocks.end;
                last.blocks.end = last.blocks.end.max(blocks.end);
            }
            _ => spans.push(Span { blocks: blocks.clone(), start: bytes }),
        }
        bytes += (blocks.end.saturating_sub(blocks.start) * block_size) as usize;
    }
    (spans, bytes)
}
