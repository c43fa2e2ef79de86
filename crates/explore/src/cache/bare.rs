//! A flash cache as its program uses it, as a subject: two devices on one plug, and the cache that is
//! open while there is power.
//!
//! 1. A cache that was given up, or whose flash device is gone, is made anew, if the slow store says
//!    that it has every page.
//! 2. With `loss` a cut takes the flash device along now and then: a blank one is in its place.

use crate::boxes::{AnyBox, AnyLink};
use crate::cache::blueprint::CacheBlueprint;
use crate::cache::devices::Devices;
use crate::cache::judge::CacheJudge;
use crate::cache::pool::Pool;
use crate::subject::Subject;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_cache::flash::{DeviceStore, FlashCache, OpenError, OpenOptions};
use tantalum_device::{BlockDevice, IoError, Link, Operation, PowerCycle};
use tantalum_rt::Rt;
use tantalum_rt::sync::{Permit, Semaphore};

/// A cache on devices of any kind.
pub type Cache = FlashCache<AnyLink, DeviceStore<AnyLink>>;

/// Commands side by side, at most.
const COMMANDS: u64 = 256;

/// A flash cache. Cheap to clone.
#[derive(Clone)]
pub struct BareCacheBox {
    rt: Rt,
    devices: Devices,
    running: Rc<RefCell<Option<Open>>>,
}

/// An open cache, and what dies with its power.
#[derive(Clone)]
pub struct Open {
    pub(super) cache: Rc<RefCell<Option<Cache>>>,
    pub(super) link: Link,
    pub(super) pool: Rc<Pool>,
    /// Held by each command, and wholly while the cache is closed and opened.
    gate: Rc<Semaphore>,
}

impl Open {
    /// The cache; `None`: it failed to open again.
    pub(super) fn cache(&self) -> Option<Cache> {
        self.cache.borrow().clone()
    }

    /// Waits until the cache is open, and keeps it so while the result lives.
    pub(super) async fn enter(&self) -> Permit<'_> {
        self.gate.acquire(1).await
    }

    /// Waits until no command is under way, and lets none begin.
    pub(super) async fn alone(&self) -> Permit<'_> {
        self.gate.acquire(COMMANDS).await
    }
}

impl BareCacheBox {
    pub(super) fn new(
        rt: &Rt,
        flash: AnyBox,
        slow: AnyBox,
        blueprint: CacheBlueprint,
    ) -> BareCacheBox {
        let devices = Devices::new(flash, slow, blueprint);
        BareCacheBox { rt: rt.clone(), devices, running: Rc::default() }
    }

    /// Its runtime.
    pub(super) fn rt(&self) -> &Rt {
        &self.rt
    }

    /// How its cache is made and used.
    pub(super) fn blueprint(&self) -> &CacheBlueprint {
        &self.devices.blueprint
    }

    /// The cache, if it is open.
    pub fn open(&self) -> Option<Open> {
        self.running.borrow().clone()
    }

    /// Bytes of its flash device.
    pub(super) fn flash_bytes(&self) -> u64 {
        self.devices.flash.device().caps().bytes()
    }

    /// The slow store, past the cache.
    pub(super) fn store(&self) -> Result<DeviceStore<AnyLink>, OpenError> {
        DeviceStore::new(self.devices.slow.device(), self.blueprint().page)
    }

    /// Makes an empty cache. Both devices have power.
    pub(super) async fn format(&self) -> Result<(), OpenError> {
        let mut format = self.blueprint().options().format;
        format.force = true;
        FlashCache::format(&self.rt, &self.devices.flash.device(), &self.store()?, &format).await
    }

    /// Opens the cache, or a new one if there is none any more (1).
    pub(super) async fn open_cache(&self, host: Rc<Pool>) -> Result<Cache, OpenError> {
        let options = || {
            let made = self.blueprint().options();
            OpenOptions { mode: Some(made.format.mode), ..made.cache }
        };
        let (flash, store) = (self.devices.flash.device(), self.store()?);
        let opened =
            FlashCache::open(&self.rt, flash.clone(), store.clone(), host.clone(), options());
        match opened.await {
            Err(error) if !matches!(error, OpenError::Io { .. }) => {
                if Cache::leave_alone(&store).await.is_err() {
                    return Err(error);
                }
                self.format().await?;
                FlashCache::open(&self.rt, flash, store, host, options()).await
            }
            opened => opened,
        }
    }
}

impl Subject for BareCacheBox {
    type Judge = CacheJudge;

    fn judge(&self) -> CacheJudge {
        CacheJudge::default()
    }

    fn cut(&self) {
        if let Some(open) = self.running.take() {
            open.link.cut();
            drop(open.cache.take());
        }
        PowerCycle::cut(&self.devices.flash);
        PowerCycle::cut(&self.devices.slow);
    }

    async fn off(&self) {
        PowerCycle::off(&self.devices.flash).await;
        PowerCycle::off(&self.devices.slow).await;
    }

    async fn start(&self) -> Result<(), String> {
        self.devices.begin();
        let told = |e: IoError| e.to_string();
        self.devices.flash.power_on().await.map_err(told)?;
        self.devices.slow.power_on().await.map_err(told)?;
        let link = Link::new(&self.rt);
        let pool = Rc::new(Pool::new(&self.rt, self.blueprint().page));
        let cache = self.open_cache(pool.clone()).await.map_err(|e| e.to_string())?;
        let gate = Rc::new(Semaphore::new(&self.rt, "a command of a cache", COMMANDS));
        let open = Open { cache: Rc::new(RefCell::new(Some(cache))), link, pool, gate };
        self.running.replace(Some(open));
        Ok(())
    }

    fn cut_copy(&self, rt: &Rt) -> Option<BareCacheBox> {
        let (rt, devices) = (rt.clone(), self.devices.cut_copy(rt)?);
        Some(BareCacheBox { rt, devices, running: Rc::default() })
    }

    fn audit(&self) -> Result<(), String> {
        let cache = self.open().and_then(|open| open.cache());
        self.devices.audit(cache.map(|cache| cache.stats()))
    }

    fn record_operations(&self) {
        self.devices.record_operations();
    }

    fn take_operations(&self) -> Vec<Operation> {
        self.devices.take_operations()
    }
}
