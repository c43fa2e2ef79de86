//! A device one of whose blocks cannot be read, for tests.

use tantalum_device::{Block, BlockDevice, DataMut, IoError, forward};

/// This block of this device cannot be read.
pub struct BadBlock<D>(pub D, pub Block);

impl<D: BlockDevice> BlockDevice for BadBlock<D> {
    forward!(0: caps, is_alive, write, write_atomic, flush, discard);

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let count = buf.blocks(self.caps().block_size).unwrap_or(0);
        match (at.0..at.0 + count).contains(&self.1.0) {
            true => Err(IoError::Uncorrectable(self.1)),
            false => self.0.read(at, buf).await,
        }
    }
}
