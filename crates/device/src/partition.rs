//! A range of another device as a device.
//!
//! 1. Block `b` of a partition is block `start + b` of the device below. No command reaches a block
//!    outside the range.
//! 2. A partition promises what the device below promises, and has its atomic units and groups. The
//!    order of the device below includes the commands of all its partitions. So what survives of
//!    each partition is a prefix, too.
//! 3. A flush is a flush of the whole device below: it covers the other partitions, too.
//! 4. A box with partitions has one plug: a cut is one of all of them.

use crate::{
    Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent,
    IoError, PowerCycle, forward,
};

/// A range of a device, or of a box.
///
/// ```
/// use tantalum_device::{
///     Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, IoError, Partition, Payload,
///     PowerCycle, RamDevice, RamOptions,
/// };
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let ram = RamOptions::new(Caps::power_safe(16, Payload::Stamps));
/// let whole = RamDevice::new(&runtime.handle(), ram).device();
/// let part = Partition::new(whole.clone(), Blocks { start: Block(8), count: 4 })?;
/// assert_eq!(part.caps().blocks, 4);
/// let read = runtime.block_on(async move {
///     part.write(Block(1), Data::Stamps(&[7]), Durability::Normal).await?;
///     assert!(part.write(Block(4), Data::Stamps(&[7]), Durability::Normal).await.is_err());
///     let mut block = [0];
///     whole.read(Block(9), DataMut::Stamps(&mut block)).await?;
///     Ok::<_, IoError>(block)
/// });
/// assert_eq!(read.unwrap(), Ok([7]));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Partition<D> {
    inner: D,
    range: Blocks,
    caps: Caps,
}

impl<D> Partition<D> {
    fn over(inner: D, caps: Caps, range: Blocks) -> Result<Partition<D>, String> {
        if range.count == 0 {
            return Err("partition: it has at least one block".into());
        }
        if caps.check_range(range).is_err() {
            return Err(format!(
                "partition: {} blocks from {} on end beyond the {} blocks of the device",
                range.count, range.start, caps.blocks
            ));
        }
        Ok(Partition { inner, range, caps: Caps { blocks: range.count, ..caps } })
    }

    /// Which blocks of the device below these are.
    pub fn range(&self) -> Blocks {
        self.range
    }

    /// The device below.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    fn below(&self, at: Block) -> Block {
        Block(self.range.start.0 + at.0)
    }

    /// Errors name blocks of the partition.
    fn own(&self, error: IoError) -> IoError {
        match error {
            IoError::Uncorrectable(Block(below)) => {
                IoError::Uncorrectable(Block(below.saturating_sub(self.range.start.0)))
            }
            other => other,
        }
    }

    fn range_below(&self, range: Blocks) -> Result<Blocks, IoError> {
        self.caps.check_range(range)?;
        Ok(Blocks { start: self.below(range.start), count: range.count })
    }
}

impl<D: BlockDevice> Partition<D> {
    /// The blocks `range` of a device.
    ///
    /// # Errors
    /// If there are none, or the device ends before the range does.
    pub fn new(inner: D, range: Blocks) -> Result<Partition<D>, String> {
        let caps = *inner.caps();
        Partition::over(inner, caps, range)
    }
}

impl<B: PowerCycle> Partition<B> {
    /// The blocks `range` of a box: it is cut and started as a whole.
    ///
    /// # Errors
    /// As [`Partition::new`].
    pub fn of_box(inner: B, range: Blocks) -> Result<Partition<B>, String> {
        let caps = *inner.device().caps();
        Partition::over(inner, caps, range)
    }
}

impl<D: BlockDevice> BlockDevice for Partition<D> {
    forward!(inner: is_alive, arm_queue, blocks_its_thread, flush);

    fn caps(&self) -> &Caps {
        &self.caps
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        self.caps.check(at, buf.kind(), buf.blocks(self.caps.block_size))?;
        self.inner.read(self.below(at), buf).await.map_err(|e| self.own(e))
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        self.caps.check(at, data.kind(), data.blocks(self.caps.block_size))?;
        self.inner.write(self.below(at), data, want).await.map_err(|e| self.own(e))
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        self.caps.check_group(group)?;
        let extents = group.iter().map(|e| Extent { at: self.below(e.at), data: e.data });
        let below: Vec<Extent<'_>> = extents.collect();
        self.inner.write_atomic(&below).await.map_err(|e| match e {
            AtomicError::Io(e) => AtomicError::Io(self.own(e)),
            other => other,
        })
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.inner.discard(self.range_below(range)?).await
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        let below = self.range_below(range)?;
        let told = self.inner.allocation(below).await?;
        Ok(Allocation { blocks: told.blocks.min(range.count), ..told })
    }
}

impl<B: PowerCycle> PowerCycle for Partition<B> {
    type Device = Partition<B::Device>;

    forward!(inner: cut, off, power_on);

    fn device(&self) -> Self::Device {
        Partition { inner: self.inner.device(), range: self.range, caps: self.caps }
    }
}
