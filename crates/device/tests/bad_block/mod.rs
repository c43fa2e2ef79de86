//! A device one of whose blocks cannot be read, for tests.

use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, IoError,
};

/// This block of this device cannot be read.
pub struct BadBlock<D>(pub D, pub Block);

impl<D: BlockDevice> BlockDevice for BadBlock<D> {
    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let count = buf.blocks(self.caps().block_size).unwrap_or(0);
        match (at.0..at.0 + count).contains(&self.1.0) {
            true => Err(IoError::Uncorrectable(self.1)),
            false => self.0.read(at, buf).await,
        }
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        self.0.write(at, data, want).await
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        self.0.write_atomic(group).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.0.flush().await
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.0.discard(range).await
    }
}
