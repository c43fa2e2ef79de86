//! A flash device of which it is counted how it is written: commands, bytes, and sequences.

use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Data, DataMut, Durability, IoError, forward};

/// What was written to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Write commands.
    pub commands: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Writes that begin where the write before ended.
    pub sequential: u64,
    /// Writes that begin where the command before ended, which may be a read.
    pub adjoining: u64,
    end: u64,
    end_of_any: u64,
}

/// See the module. Cheap to clone: a clone counts with it.
#[derive(Clone)]
pub struct Sequences<D> {
    inner: D,
    written: Rc<Cell<Written>>,
}

impl<D: BlockDevice> Sequences<D> {
    /// Counts from now on.
    pub fn new(inner: D) -> Sequences<D> {
        Sequences::on(inner, Rc::default())
    }

    /// Goes on with this count.
    pub fn on(inner: D, written: Rc<Cell<Written>>) -> Sequences<D> {
        Sequences { inner, written }
    }

    /// What was counted.
    pub fn written(&self) -> Written {
        self.written.get()
    }
}

impl<D: BlockDevice> BlockDevice for Sequences<D> {
    forward!(
        inner: caps, is_alive, arm_queue, blocks_its_thread, write_atomic, flush, discard, allocation
    );

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let blocks = buf.blocks(self.caps().block_size).unwrap_or(0);
        let written = self.written.get();
        self.written.set(Written { end_of_any: at.0 + blocks, ..written });
        self.inner.read(at, buf).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let block = self.caps().block_size;
        let blocks = data.blocks(block).unwrap_or(0);
        let mut written = self.written.get();
        written.commands += 1;
        written.bytes += blocks * u64::from(block);
        written.sequential += u64::from(at.0 == written.end);
        written.adjoining += u64::from(at.0 == written.end_of_any);
        written.end = at.0 + blocks;
        written.end_of_any = written.end;
        self.written.set(written);
        self.inner.write(at, data, want).await
    }
}
