//! The volume as a box: one plug for the log's devices and the backing.
//!
//! 1. A cut takes the power of all boxes at one moment. What was in memory is dropped.
//! 2. Each start begins with the devices alone, as [`super::open`] finds them.
//! 3. Which boxes the log has is known to [`super::places`]: one may be replaced.

use crate::error::SEE_TO_IT;
use crate::volume::core::{Core, VolumeStats};
use crate::volume::device::VolumeDevice;
use crate::volume::error::VolumeError;
use crate::volume::open;
use crate::volume::options::VolumeOptions;
use crate::volume::places::{Place, Places};
use crate::{CreateOptions, DeviceHealth, DeviceStats, LogDevice, LogStats, Role};
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{BlockDevice, Caps, IoError, Link, PowerCycle};
use tantalum_rt::sync::Mutex;
use tantalum_rt::{Domain, Rt, join, join_all};

/// A log volume: a box made of the boxes of a log and a backing, which share its plug. Cheap to
/// clone; a clone is the same volume.
///
/// ```
/// use tantalum_device::{
///     Ack, Block, BlockDevice, Caps, Data, DataMut, Durability, Payload, PowerCycle, RamDevice,
///     RamOptions,
/// };
/// use tantalum_log::{CreateOptions, LogVolume, VolumeOptions};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let read = runtime.block_on(async move {
///     let caps = Caps::power_safe(4096, Payload::Bytes);
///     let caps = Caps { ack: Ack::Volatile, ordered: false, ..caps };
///     let ram = || RamDevice::new(&rt, RamOptions::new(caps));
///     let log = vec![("sda".to_string(), ram()), ("sdb".to_string(), ram())];
///     let volume = LogVolume::new(&rt, log, None, ram(), VolumeOptions::default()).unwrap();
///     volume.format(&CreateOptions::default()).await.unwrap();
///     volume.power_on().await?;
///     volume.device().write(Block(7), Data::Bytes(&[1; 4096]), Durability::Normal).await?;
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
pub struct LogVolume<L: PowerCycle, B: PowerCycle> {
    pub(super) inner: Rc<Inner<L, B>>,
}

impl<L: PowerCycle, B: PowerCycle> Clone for LogVolume<L, B> {
    fn clone(&self) -> LogVolume<L, B> {
        LogVolume { inner: self.inner.clone() }
    }
}

pub(super) struct Inner<L: PowerCycle, B: PowerCycle> {
    pub rt: Rt,
    /// The boxes of the log.
    pub places: Places<L>,
    /// One device is replaced at a time.
    pub replacing: Mutex,
    backing: B,
    pub options: VolumeOptions,
    /// The names of all devices of the log now ([`OpenOptions::names`](crate::OpenOptions::names)).
    pub names: RefCell<Vec<String>>,
    /// What they have to be for ([`Expects::roles`](crate::Expects::roles)).
    pub roles: RefCell<Vec<(String, Role)>>,
    caps: Caps,
    /// Of the present power cycle.
    pub link: RefCell<Link>,
    pub running: RefCell<Option<Running<L::Device, B::Device>>>,
    failure: RefCell<Option<VolumeError>>,
}

/// A volume that takes commands. Its tasks end when it is dropped.
pub(super) struct Running<L: BlockDevice + Clone + 'static, B> {
    pub core: Rc<Core<L, B>>,
    domain: Domain,
}

impl<L: BlockDevice + Clone + 'static, B> Drop for Running<L, B> {
    fn drop(&mut self) {
        self.domain.kill();
    }
}

impl<L: PowerCycle, B: PowerCycle> LogVolume<L, B> {
    /// A volume over the boxes of a log's array, each with a name, its archive if there is one, and
    /// a backing. It is off.
    ///
    /// # Errors
    /// [`VolumeError::Unsuitable`] if options or backing do not suit.
    pub fn new(
        rt: &Rt,
        array: Vec<(String, L)>,
        archive: Option<(String, L)>,
        backing: B,
        options: VolumeOptions,
    ) -> Result<LogVolume<L, B>, VolumeError> {
        let caps = open::caps(backing.device().caps(), &options)?;
        let link = Link::new(rt);
        link.cut();
        let inner = Inner {
            rt: rt.clone(),
            places: Places::new(array, archive),
            replacing: Mutex::new(rt, "the turn to replace a device of a log volume"),
            backing,
            names: RefCell::new(options.log.names.clone()),
            roles: RefCell::new(options.log.expects.roles.clone()),
            options,
            caps,
            link: RefCell::new(link),
            running: RefCell::new(None),
            failure: RefCell::new(None),
        };
        Ok(LogVolume { inner: Rc::new(inner) })
    }

    /// Makes the log on its boxes, which have power, and binds the backing to it. The backing keeps
    /// what it holds, but for the label at its end. The volume stays off.
    ///
    /// # Errors
    /// [`VolumeError`]. If there is something on a device of the log or where the label goes,
    /// nothing was changed; [`CreateOptions::force`] destroys that.
    pub async fn format(&self, create: &CreateOptions) -> Result<(), VolumeError> {
        let inner = &*self.inner;
        let device = |place: &Rc<Place<L>>| LogDevice::new(place.name.clone(), place.of.device());
        let (archive, array): (Vec<_>, Vec<_>) =
            inner.places.all().into_iter().partition(|place| place.archive);
        let array = array.iter().map(device).collect();
        let archive = archive.first().map(device);
        let backing = inner.backing.device();
        open::format(&inner.rt, array, archive, backing, create, &inner.options).await
    }

    /// What it promises, with and without power.
    pub fn caps(&self) -> Caps {
        self.inner.caps
    }

    /// Why the last start failed, if it did.
    pub fn start_failure(&self) -> Option<VolumeError> {
        self.inner.failure.borrow().clone()
    }

    /// Why it refuses changes although it has power, if it does: the log or the destaging failed.
    pub fn stopped(&self) -> Option<String> {
        self.inner.running.borrow().as_ref().and_then(|r| r.core.stopped_by())
    }

    /// What it has done since it was started; `None`: it is off.
    pub fn stats(&self) -> Option<VolumeStats> {
        self.inner.running.borrow().as_ref().map(|r| r.core.stats())
    }

    /// What its log has done since it was started; `None`: it is off.
    pub fn log_stats(&self) -> Option<LogStats> {
        self.inner.running.borrow().as_ref().map(|r| r.core.log.stats())
    }

    /// Powers all boxes, and starts the volume on them, with `salvage` even if the log is damaged.
    async fn start(&self, salvage: bool) -> Result<Running<L::Device, B::Device>, VolumeError> {
        let inner = &*self.inner;
        let places = inner.places.all();
        let log = join_all(places.iter().map(|place| place.of.power_on()).collect());
        let (log, backing) = join(log, inner.backing.power_on()).await;
        let mut devices = Vec::new();
        for (result, place) in log.into_iter().zip(&places) {
            match result {
                Ok(()) => devices.extend(place.device().await),
                Err(IoError::PowerLost) => return Err(VolumeError::PowerLost),
                // The log says whether it can do without.
                Err(_) if inner.options.log.degraded || place.is_joining() => {}
                Err(error) => {
                    let (device, or) = (place.name.clone(), SEE_TO_IT);
                    return Err(crate::OpenError::Io { device, error, or }.into());
                }
            }
        }
        if let Err(error) = backing {
            let backing = inner.options.backing_name.clone();
            return Err(VolumeError::Backing { backing, error });
        }
        let backing = inner.backing.device();
        let mut options = inner.options.clone();
        options.log.names = inner.names.borrow().clone();
        options.log.expects.roles = inner.roles.borrow().clone();
        let core = open::open(&inner.rt, devices, backing, &options, salvage).await?;
        let core = Rc::new(core);
        let domain = inner.rt.domain();
        let (settler, destager) = (core.clone(), core.clone());
        domain.spawn_background("log volume: settle", async move { settler.keep_settling().await });
        domain.spawn_background("log volume: destage", async move {
            destager.keep_destaging().await;
        });
        Ok(Running { core, domain })
    }
}

impl<L: PowerCycle, B: PowerCycle> PowerCycle for LogVolume<L, B> {
    type Device = VolumeDevice<L::Device, B::Device>;

    fn device(&self) -> Self::Device {
        let inner = &*self.inner;
        let core = inner.running.borrow().as_ref().map(|r| r.core.clone());
        VolumeDevice { caps: inner.caps, link: inner.link.borrow().clone(), core }
    }

    fn cut(&self) {
        self.inner.link.borrow().cut();
        drop(self.inner.running.take());
        self.inner.places.all().iter().for_each(|place| place.of.cut());
        self.inner.backing.cut();
    }

    async fn off(&self) {
        let places = self.inner.places.all();
        let log = join_all(places.iter().map(|place| place.of.off()).collect());
        join(log, self.inner.backing.off()).await;
    }

    /// Restores the power of all boxes and starts the volume. If it does not start,
    /// [`LogVolume::start_failure`] says why.
    async fn power_on(&self) -> Result<(), IoError> {
        self.bring_on(false).await
    }
}

impl<L: PowerCycle, B: PowerCycle> LogVolume<L, B> {
    /// As [`PowerCycle::power_on`]; with `salvage` a damaged log is opened with what is before the
    /// damage. What was behind it is lost.
    pub(super) async fn bring_on(&self, salvage: bool) -> Result<(), IoError> {
        let inner = &*self.inner;
        if inner.running.borrow().is_some() {
            return Ok(());
        }
        let link = Link::new(&inner.rt);
        inner.link.replace(link.clone()).cut();
        // Why the last start failed is no word on this one, which may be a salvage.
        inner.failure.replace(None);
        let started = link.command("start a log volume", self.start(salvage)).await;
        match started {
            Ok(running) => {
                let devices = running.core.log.stats().devices;
                let present = |d: &DeviceStats| d.health == DeviceHealth::Present;
                let is_in = |name: &str| devices.iter().any(|d| d.name == name && present(d));
                inner.places.settle(is_in);
                inner.running.replace(Some(running));
                Ok(())
            }
            Err(e) if e.is_power_loss() => Err(IoError::PowerLost),
            Err(e) => {
                inner.failure.replace(Some(e));
                Err(IoError::Failed("the log volume does not start"))
            }
        }
    }
}
