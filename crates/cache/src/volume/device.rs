//! The host's end of the link to a volume.

use crate::volume::core::Core;
use std::rc::Rc;
use tantalum_device::{
    Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent,
    IoError, Link,
};

/// A cache volume as a device. It ends with the power; after a restart, take a new one.
pub struct VolumeDevice<F: BlockDevice + 'static, D: BlockDevice + 'static> {
    pub(crate) caps: Caps,
    pub(crate) link: Link,
    /// `None`: it had no power when the host took this end.
    pub(crate) core: Option<Rc<Core<F, D>>>,
}

impl<F: BlockDevice + 'static, D: BlockDevice + 'static> Clone for VolumeDevice<F, D> {
    fn clone(&self) -> VolumeDevice<F, D> {
        VolumeDevice { caps: self.caps, link: self.link.clone(), core: self.core.clone() }
    }
}

impl<F: BlockDevice + 'static, D: BlockDevice + 'static> VolumeDevice<F, D> {
    fn core(&self) -> Result<&Rc<Core<F, D>>, IoError> {
        match &self.core {
            Some(core) if self.link.is_alive() => Ok(core),
            _ => Err(IoError::PowerLost),
        }
    }
}

const OTHER_KIND: IoError = IoError::Invalid("the device carries payload of the other kind");

impl<F: BlockDevice + 'static, D: BlockDevice + 'static> BlockDevice for VolumeDevice<F, D> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn is_alive(&self) -> bool {
        self.core().is_ok()
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let core = self.core()?;
        let count = self.caps.check(at, buf.kind(), buf.blocks(self.caps.block_size))?;
        let DataMut::Bytes(buf) = buf else { return Err(OTHER_KIND) };
        let read = core.read(Blocks { start: at, count }, buf);
        self.link.command("read from a cache volume", read).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let core = self.core()?;
        let count = self.caps.check(at, data.kind(), data.blocks(self.caps.block_size))?;
        let Data::Bytes(data) = data else { return Err(OTHER_KIND) };
        let write = core.write(Blocks { start: at, count }, data, want == Durability::Fua);
        self.link.command("write to a cache volume", write).await
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        self.core()?;
        self.caps.check_group(group)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let core = self.core()?;
        self.link.command("flush a cache volume", core.flush()).await
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let core = self.core()?;
        self.caps.check_range(range)?;
        self.link.command("discard on a cache volume", core.discard(range)).await
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        let core = self.core()?;
        self.caps.check_range(range)?;
        self.link.command("a look at what a cache volume has", core.allocation(range)).await
    }

    fn wants_exits(&self) -> bool {
        true
    }

    async fn left(&self, range: Blocks, data: Option<Data<'_>>) -> Result<(), IoError> {
        let core = self.core()?;
        self.caps.check_range(range)?;
        let data = match data {
            None => None,
            Some(Data::Bytes(data)) => Some(data),
            Some(_) => return Err(OTHER_KIND),
        };
        let block = u64::from(self.caps.block_size);
        if data.is_some_and(|data| data.len() as u64 != range.count * block) {
            return Err(IoError::Invalid("the bytes are not those of the blocks"));
        }
        self.link.command("exits on a cache volume", core.left(range, data)).await
    }
}
