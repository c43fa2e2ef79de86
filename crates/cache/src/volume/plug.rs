//! The volume as a box: one plug for the flash device and the slow device.
//!
//! 1. A cut takes the power of both at one moment. What was in memory is dropped.
//! 2. Each start begins with the devices alone, as [`super::open`] finds them.

use crate::flash::CacheStats;
use crate::volume::core::Core;
use crate::volume::device::VolumeDevice;
use crate::volume::error::VolumeError;
use crate::volume::open;
use crate::volume::options::VolumeOptions;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{BlockDevice, Caps, IoError, Link, PowerCycle};
use tantalum_rt::sync::Mutex;
use tantalum_rt::{Rt, join};

/// A cache volume: a box made of a flash device and a slow device, which share its plug. Cheap to
/// clone; a clone is the same volume.
///
/// ```
/// use tantalum_cache::volume::{CacheVolume, VolumeOptions};
/// use tantalum_device::{
///     Ack, Block, BlockDevice, Caps, Data, DataMut, Durability, Payload, PowerCycle, RamDevice,
///     RamOptions,
/// };
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let read = runtime.block_on(async move {
///     let ram = |blocks| {
///         let caps = Caps::power_safe(blocks, Payload::Bytes);
///         RamDevice::new(&rt, RamOptions::new(Caps { ack: Ack::Volatile, ordered: false, ..caps }))
///     };
///     let options = VolumeOptions::default();
///     let volume = CacheVolume::new(&rt, ram(2048), ram(8192), options).unwrap();
///     volume.format(false).await.unwrap();
///     volume.power_on().await?;
///     volume.device().write(Block(7), Data::Bytes(&[1; 4096]), Durability::Normal).await?;
///     volume.device().flush().await?;
///
///     volume.cut();
///     volume.off().await;
///     volume.power_on().await?;
///     let mut block = [0; 4096];
///     volume.device().read(Block(7), DataMut::Bytes(&mut block)).await?;
///     Ok::<_, tantalum_device::IoError>(block)
/// });
/// assert_eq!(read.unwrap().unwrap(), [1; 4096]);
/// ```
pub struct CacheVolume<F: PowerCycle, S: PowerCycle> {
    pub(super) inner: Rc<Inner<F, S>>,
}

impl<F: PowerCycle, S: PowerCycle> Clone for CacheVolume<F, S> {
    fn clone(&self) -> CacheVolume<F, S> {
        CacheVolume { inner: self.inner.clone() }
    }
}

pub(super) struct Inner<F: PowerCycle, S: PowerCycle> {
    pub rt: Rt,
    pub flash: F,
    slow: S,
    pub options: VolumeOptions,
    caps: Caps,
    /// Of the present power cycle.
    pub link: RefCell<Link>,
    pub running: RefCell<Option<Running<F::Device, S::Device>>>,
    failure: RefCell<Option<VolumeError>>,
    /// The last start has made a new cache in place of a lost one.
    pub replaced: Cell<bool>,
    /// One change of its size at a time.
    pub resizing: Mutex,
}

/// A volume that takes commands. Its tasks end when it is dropped.
pub(super) struct Running<F: BlockDevice + 'static, D: BlockDevice + 'static> {
    pub core: Rc<Core<F, D>>,
}

impl<F: BlockDevice + 'static, D: BlockDevice + 'static> Drop for Running<F, D> {
    fn drop(&mut self) {
        self.core.cache.core().domain.kill();
    }
}

impl<F: PowerCycle, S: PowerCycle> CacheVolume<F, S> {
    /// A volume over the boxes of a flash device and a slow device. It is off.
    ///
    /// # Errors
    /// [`VolumeError::Open`] if options or slow device do not suit.
    pub fn new(
        rt: &Rt,
        flash: F,
        slow: S,
        options: VolumeOptions,
    ) -> Result<CacheVolume<F, S>, VolumeError> {
        let caps = open::caps(slow.device(), &options)?;
        let link = Link::new(rt);
        link.cut();
        let inner = Inner {
            rt: rt.clone(),
            flash,
            slow,
            options,
            caps,
            link: RefCell::new(link),
            running: RefCell::new(None),
            failure: RefCell::new(None),
            replaced: Cell::new(false),
            resizing: Mutex::new(rt, "another size of the cache"),
        };
        Ok(CacheVolume { inner: Rc::new(inner) })
    }

    /// Makes an empty cache on the flash device and labels the slow device, both of which have
    /// power. Beside the 1 MiB of the label the slow device keeps what it holds. The volume stays off.
    ///
    /// # Errors
    /// [`VolumeError`]. If there is something on the flash device or where the label goes, nothing
    /// was changed; `force` destroys that.
    pub async fn format(&self, force: bool) -> Result<(), VolumeError> {
        let Inner { rt, flash, slow, options, .. } = &*self.inner;
        open::format(rt, &flash.device(), slow.device(), options, force).await
    }

    /// What it promises, with and without power.
    pub fn caps(&self) -> Caps {
        self.inner.caps
    }

    /// Why the last start failed, if it did.
    pub fn start_failure(&self) -> Option<VolumeError> {
        self.inner.failure.borrow().clone()
    }

    fn core(&self) -> Option<Rc<Core<F::Device, S::Device>>> {
        self.inner.running.borrow().as_ref().map(|r| r.core.clone())
    }

    /// Its cache, for what a block device has no commands for; `None`: it is off.
    pub fn cache(
        &self,
    ) -> Option<crate::flash::FlashCache<F::Device, crate::flash::DeviceStore<S::Device>>> {
        self.core().map(|core| core.cache.clone())
    }

    /// Why it refuses writes although it has power, if it does.
    pub fn stopped(&self) -> Option<String> {
        self.core().and_then(|core| core.cache.core().state.borrow().stopped.clone())
    }

    /// What its cache has done since it was started; `None`: it is off.
    pub fn stats(&self) -> Option<CacheStats> {
        self.core().map(|core| core.cache.stats())
    }

    /// Ends it in good order: everything is durable, and the next start finds the whole directory. It
    /// takes no more writes. Its power is cut next.
    ///
    /// # Errors
    /// Those of a flush. Then the next start is one after a crash.
    pub async fn close(&self) -> Result<(), IoError> {
        match self.core() {
            Some(core) => core.close().await,
            None => Ok(()),
        }
    }

    async fn start(&self) -> Result<Running<F::Device, S::Device>, VolumeError> {
        let Inner { rt, flash, slow, options, replaced, .. } = &*self.inner;
        let (of_flash, of_slow) = join(flash.power_on(), slow.power_on()).await;
        of_flash.map_err(VolumeError::flash)?;
        of_slow.map_err(VolumeError::slow)?;
        let (core, new) = open::open(rt, flash.device(), slow.device(), options).await?;
        replaced.set(new);
        Ok(Running { core: Rc::new(core) })
    }
}

impl<F: PowerCycle, S: PowerCycle> PowerCycle for CacheVolume<F, S> {
    type Device = VolumeDevice<F::Device, S::Device>;

    fn device(&self) -> Self::Device {
        let inner = &*self.inner;
        VolumeDevice { caps: inner.caps, link: inner.link.borrow().clone(), core: self.core() }
    }

    fn cut(&self) {
        self.inner.link.borrow().cut();
        drop(self.inner.running.take());
        self.inner.flash.cut();
        self.inner.slow.cut();
    }

    async fn off(&self) {
        join(self.inner.flash.off(), self.inner.slow.off()).await;
    }

    /// Restores the power of both devices and starts the volume. If it does not start,
    /// [`CacheVolume::start_failure`] says why.
    async fn power_on(&self) -> Result<(), IoError> {
        let inner = &*self.inner;
        if inner.running.borrow().is_some() {
            return Ok(());
        }
        let link = Link::new(&inner.rt);
        inner.link.replace(link.clone()).cut();
        let started = link.command("start a cache volume", self.start()).await;
        inner.failure.replace(None);
        match started {
            Ok(running) => {
                inner.running.replace(Some(running));
                Ok(())
            }
            Err(e) if e.is_power_loss() => Err(IoError::PowerLost),
            Err(e) => {
                inner.failure.replace(Some(e));
                Err(IoError::Failed("the cache volume does not start"))
            }
        }
    }
}
