//! The blocks of one file that were touched in part not long ago, so that the
//! next small write or read next to them needs no read of the device.

/// Blocks kept for one file.
const BLOCKS: usize = 4;

/// A few blocks, the one used last at the end. Nothing in it is dirty.
#[derive(Debug, Default)]
pub(crate) struct PartialBlocks {
    blocks: Vec<(u64, Vec<u8>)>,
    /// Writes begun so far, and those in progress: what a reader or writer
    /// has in hand may be kept only if no other write came between.
    begun: u64,
    writing: u32,
}

impl PartialBlocks {
    /// Copies from a block, if it is here.
    pub fn copy(&mut self, block: u64, from: usize, to: &mut [u8]) -> bool {
        let Some(at) = self.blocks.iter().position(|b| b.0 == block) else { return false };
        to.copy_from_slice(&self.blocks[at].1[from..from + to.len()]);
        self.blocks[at..].rotate_left(1);
        true
    }

    /// A write of blocks `first..end` begins: the old ones must not be seen any more.
    /// The number is for [`PartialBlocks::end_write`]; `None` if another write is
    /// in progress.
    pub fn begin_write(&mut self, first: u64, end: u64) -> Option<u64> {
        self.blocks.retain(|b| b.0 < first || b.0 >= end);
        self.begun += 1;
        self.writing += 1;
        (self.writing == 1).then_some(self.begun)
    }

    /// A write has ended. Whether the blocks that were written may be kept.
    pub fn end_write(&mut self, ticket: Option<u64>, first: u64, end: u64) -> bool {
        self.writing -= 1;
        self.blocks.retain(|b| b.0 < first || b.0 >= end);
        ticket == Some(self.begun)
    }

    /// A read begins; the number is for [`PartialBlocks::may_keep`].
    pub fn begin_read(&self) -> Option<u64> {
        (self.writing == 0).then_some(self.begun)
    }

    /// Whether what was read since may be kept.
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
