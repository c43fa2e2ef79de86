//! A flash device of which it is counted how it is written: commands, bytes, and sequences.

use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Data, Durability, IoError, forward};

/// What was written to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub commands: u64,
    pub bytes: u64,
    /// Commands that begin where the one before ended.
    pub sequential: u64,
    end: u64,
}

/// See the module. Cheap to clone: a clone counts with it.
#[derive(Clone)]
pub(super) struct Sequences<D> {
    inner: D,
    written: Rc<Cell<Written>>,
}

impl<D: BlockDevice> Sequences<D> {
    pub fn new(inner: D) -> Sequences<D> {
        Sequences { inner, written: Rc::default() }
    }

    pub fn written(&self) -> Written {
        self.written.get()
    }
}

impl<D: BlockDevice> BlockDevice for Sequences<D> {
    forward!(
        inner: caps, is_alive, arm_queue, blocks_its_thread, read, write_atomic, flush, discard,
        allocation
    );

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let block = self.caps().block_size;
        let blocks = data.blocks(block).unwrap_or(0);
        let mut written = self.written.get();
        written.commands += 1;
        written.bytes += blocks * u64::from(block);
        written.sequential += u64::from(at.0 == written.end);
        written.end = at.0 + blocks;
        self.written.set(written);
        self.inner.write(at, data, want).await
    }
}
