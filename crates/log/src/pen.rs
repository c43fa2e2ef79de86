//! Durable writes to a device of a log, from any thread.

use tantalum_device::{Block, FileWriter};
use tantalum_rt::wall::AlignedBuf;

/// Writes to one device.
pub(crate) trait Pen: Send + Sync {
    /// Writes whole units from this one on. Whether they are durable: else any of them may be.
    fn write(&self, unit: u64, bytes: &AlignedBuf) -> bool;

    /// Devices with the same number are of one disk. `None`: it has a disk of its own.
    fn disk(&self) -> Option<u64> {
        None
    }
}

/// Writes to a file or block device.
pub(crate) struct FilePen {
    pub writer: FileWriter,
    /// Blocks of the device in a unit of the log.
    pub blocks: u64,
}

impl Pen for FilePen {
    fn write(&self, unit: u64, bytes: &AlignedBuf) -> bool {
        self.writer.write(Block(unit * self.blocks), bytes).is_ok()
    }

    fn disk(&self) -> Option<u64> {
        Some(self.writer.disk())
    }
}
