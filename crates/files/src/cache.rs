//! The blocks of one file that were recently read or written in part, so that the next small write
//! or read beside them needs no read of the device.

/// Blocks kept for one file.
const BLOCKS: usize = 4;

/// A few blocks, the last used one at the end. None is dirty.
#[derive(Debug, Default)]
pub(crate) struct PartialBlocks {
    blocks: Vec<(u64, Vec<u8>)>,
    /// Writes begun so far, and writes in progress: a reader or writer may keep its data only if no
    /// other write came in between.
    begun: u64,
    writing: u32,
}

impl PartialBlocks {
    /// Copies from a block, if it is cached.
    pub fn copy(&mut self, block: u64, from: usize, to: &mut [u8]) -> bool {
        let Some(at) = self.blocks.iter().position(|b| b.0 == block) else { return false };
        to.copy_from_slice(&self.blocks[at].1[from..from + to.len()]);
        self.blocks[at..].rotate_left(1);
        true
    }

    /// Begins a write of blocks `first..end`, and removes their old content. The number is for
    /// [`PartialBlocks::end_write`]; `None` if another write is in progress.
    pub fn begin_write(&mut self, first: u64, end: u64) -> Option<u64> {
        self.blocks.retain(|b| b.0 < first || b.0 >= end);
        self.begun += 1;
        self.writing += 1;
        (self.writing == 1).then_some(self.begun)
    }

    /// Ends a write; returns whether the written blocks may be kept.
    pub fn end_write(&mut self, ticket: Option<u64>, first: u64, end: u64) -> bool {
        self.writing -= 1;
        self.blocks.retain(|b| b.0 < first || b.0 >= end);
        ticket == Some(self.begun)
    }

    /// Begins a read; the number is for [`PartialBlocks::may_keep`].
    pub fn begin_read(&self) -> Option<u64> {
        (self.writing == 0).then_some(self.begun)
    }

    /// Whether the blocks read since then may be kept.
    pub fn may_keep(&self, ticket: Option<u64>) -> bool {
        ticket == Some(self.begun)
    }

    /// Keeps a block.
    pub fn keep(&mut self, block: u64, bytes: &[u8]) {
        let mut room = match self.blocks.iter().position(|b| b.0 == block) {
            Some(at) => self.blocks.remove(at).1,
            None if self.blocks.len() == BLOCKS => self.blocks.remove(0).1,
            None => Vec::with_capacity(bytes.len()),
        };
        room.clear();
        room.extend_from_slice(bytes);
        self.blocks.push((block, room));
    }

    /// Forgets the blocks from `first` on.
    pub fn forget_from(&mut self, first: u64) {
        self.blocks.retain(|b| b.0 < first);
    }
}
