//! The host's end of the link to a volume.

use crate::volume::core::Core;
use crate::volume::entry::Entry;
use std::rc::Rc;
use tantalum_device::{
    Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent,
    IoError, Link,
};

/// A log volume as a device. It ends with the power; after a restart, take a new one.
///
/// See [`LogVolume`](crate::LogVolume) for an example.
pub struct VolumeDevice<L: BlockDevice + Clone + 'static, B> {
    pub(crate) caps: Caps,
    pub(crate) link: Link,
    /// `None`: it had no power when the host took this end.
    pub(crate) core: Option<Rc<Core<L, B>>>,
}

impl<L: BlockDevice + Clone + 'static, B> Clone for VolumeDevice<L, B> {
    fn clone(&self) -> VolumeDevice<L, B> {
        VolumeDevice { caps: self.caps, link: self.link.clone(), core: self.core.clone() }
    }
}

impl<L: BlockDevice + Clone + 'static, B: BlockDevice> VolumeDevice<L, B> {
    fn core(&self) -> Result<&Core<L, B>, IoError> {
        match &self.core {
            Some(core) if self.link.is_alive() => Ok(core),
            _ => Err(IoError::PowerLost),
        }
    }
}

const OTHER_KIND: IoError = IoError::Invalid("the device carries payload of the other kind");

impl<L: BlockDevice + Clone + 'static, B: BlockDevice> BlockDevice for VolumeDevice<L, B> {
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
        self.link.command("read from a log volume", core.read(at.0..at.0 + count, buf)).await
    }

    async fn write(&self, at: Block, data: Data<'_>, _: Durability) -> Result<(), IoError> {
        let core = self.core()?;
        self.caps.check(at, data.kind(), data.blocks(self.caps.block_size))?;
        let Data::Bytes(data) = data else { return Err(OTHER_KIND) };
        let unit = self.caps.atomic_unit as usize;
        let (blocks, block) = ((unit / core.block()) as u64, core.block());
        let pieces = data.chunks(unit).enumerate();
        let entries = pieces.map(|(i, d)| Entry::write(&[(at.0 + i as u64 * blocks, d)], block));
        self.link.command("write to a log volume", core.change(entries)).await
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        let core = self.core()?;
        self.caps.check_group(group)?;
        let mut extents = Vec::with_capacity(group.len());
        for e in group {
            let Data::Bytes(data) = e.data else { return Err(OTHER_KIND.into()) };
            extents.push((e.at.0, data));
        }
        extents.retain(|(_, data)| !data.is_empty());
        let block = core.block();
        let entries = (!extents.is_empty()).then(|| Entry::write(&extents, block));
        let change = async { Ok(core.change(entries.into_iter()).await?) };
        self.link.command("atomic group to a log volume", change).await
    }

    /// What was acknowledged is durable already.
    async fn flush(&self) -> Result<(), IoError> {
        let core = self.core()?;
        self.link.command("flush a log volume", async { core.check_open() }).await
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let core = self.core()?;
        self.caps.check_range(range)?;
        let entry = (range.count > 0).then(|| Entry::discard(range.start.0, range.count));
        self.link.command("discard on a log volume", core.change(entry.into_iter())).await
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        let core = self.core()?;
        self.caps.check_range(range)?;
        let (start, end) = (range.start.0, range.start.0 + range.count);
        self.link.command("a look at what a log volume has", core.allocation(start..end)).await
    }
}
