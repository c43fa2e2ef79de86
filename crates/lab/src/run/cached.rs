//! The box of a row whose device has a flash cache before it: a cache volume.
//!
//! 1. One plug has both drives. The first start prepares the flash drive and makes the cache.
//! 2. What the row counts as written is what went to the slow device. The cache and its drive are
//!    counted beside ([`RowBox::cache`]).

use crate::run::cache;
use crate::run::row::{RowBox, RowError, Traffic};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_cache::volume::{CacheVolume, VolumeDevice, VolumeOptions};
use tantalum_device::{BlockDevice, Blocks, IoError, Partition, PowerCycle, forward};
use tantalum_drive::Drive;
use tantalum_rt::Rt;
use tantalum_workload::pages::{CacheCounts, CacheJob, Sequences, Written};

/// The part of the flash drive that the cache uses, whose writes are counted.
#[derive(Clone)]
pub struct FlashPart<B> {
    drive: B,
    part: Blocks,
    written: Rc<Cell<Written>>,
}

impl<B: PowerCycle> FlashPart<B> {
    fn new(drive: B, job: &CacheJob) -> Result<FlashPart<B>, RowError> {
        let part = job.blocks_of(drive.device().caps().block_size);
        let fits = Partition::new(drive.device(), part);
        fits.map_err(|why| RowError::Design(format!("size_mib: {why}")))?;
        Ok(FlashPart { drive, part, written: Rc::default() })
    }
}

impl<B: PowerCycle> PowerCycle for FlashPart<B> {
    type Device = Sequences<Partition<B::Device>>;

    forward!(drive: cut, off, power_on);

    fn device(&self) -> Self::Device {
        let part = Partition::new(self.drive.device(), self.part);
        Sequences::on(part.expect("the part fits"), self.written.clone())
    }
}

/// See the module. Cheap to clone; a clone is the same box.
#[derive(Clone)]
pub struct CachedBox<B: RowBox> {
    rt: Rt,
    volume: CacheVolume<FlashPart<B>, B>,
    flash: FlashPart<B>,
    slow: B,
    /// The share of the flash drive that is written first.
    prepare: f64,
    tell: Rc<dyn Fn(f64)>,
    made: Rc<Cell<bool>>,
}

impl<B: RowBox> CachedBox<B> {
    /// The cache of `job`, with pages of so many bytes, on `flash` before `slow`. Both carry bytes.
    /// `tell` is told how much of the flash drive has been prepared.
    ///
    /// # Errors
    /// What does not fit.
    pub fn new(
        rt: &Rt,
        job: &CacheJob,
        page: u32,
        flash: B,
        slow: B,
        tell: Rc<dyn Fn(f64)>,
    ) -> Result<CachedBox<B>, RowError> {
        let flash = FlashPart::new(flash, job)?;
        let (format, cache) = (job.format(page), job.open());
        let options = VolumeOptions { format, cache, ..VolumeOptions::default() };
        let volume = CacheVolume::new(rt, flash.clone(), slow.clone(), options);
        let volume = volume.map_err(|e| RowError::Design(e.to_string()))?;
        let (rt, prepare, made) = (rt.clone(), job.prepare, Rc::default());
        Ok(CachedBox { rt, volume, flash, slow, prepare, tell, made })
    }

    async fn make(&self) -> Result<(), IoError> {
        self.flash.power_on().await?;
        self.slow.power_on().await?;
        let tell = self.tell.clone();
        let filled = cache::fill(&self.rt, &self.flash.drive, self.prepare, tell).await;
        filled.map_err(|_| IoError::Failed("the flash drive cannot be prepared"))?;
        let made = self.volume.format(true).await;
        made.map_err(|_| IoError::Failed("the cache cannot be made"))
    }
}

impl<B: RowBox> PowerCycle for CachedBox<B> {
    type Device = VolumeDevice<Sequences<Partition<B::Device>>, B::Device>;

    forward!(volume: cut, off);

    fn device(&self) -> Self::Device {
        self.volume.device()
    }

    async fn power_on(&self) -> Result<(), IoError> {
        if !self.made.get() {
            self.make().await?;
            self.made.set(true);
        }
        self.volume.power_on().await
    }
}

impl<B: RowBox> RowBox for CachedBox<B> {
    fn traffic(&self) -> Traffic {
        self.slow.traffic()
    }

    fn drives(&self) -> &[Drive] {
        self.slow.drives()
    }

    fn cache(&self) -> Option<(CacheCounts, Traffic)> {
        let counts = CacheCounts::of(&self.volume.stats()?, self.flash.written.get());
        Some((counts, self.flash.drive.traffic()))
    }
}
