//! A cache on two devices, which can be cut at any moment of its life and opened again.

use super::model::{Model, Pool, Shared, Work, is_end, work};
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_cache::flash::{
    Admit, Beside, CacheError, DeviceStore, Fetched, FlashCache, FormatOptions, Mode, OpenOptions,
    Replacement, RestartBy, SlowStore,
};
use tantalum_device::{Ack, Caps, IoError, Payload, PowerCycle, RamDevice, RamOptions};
use tantalum_rt::{First, Nanos, Runtime, Stream, first, join_all};

pub type Store = DeviceStore<RamDevice>;
pub type Cache = FlashCache<RamDevice, Store>;

/// What a cache is made of.
#[derive(Clone, Debug)]
pub struct Shape {
    pub page: u32,
    /// The devices carry stamps.
    pub stamps: bool,
    pub frames: u32,
    pub flash_bytes: u64,
    pub pages: u64,
    pub ack: Ack,
    /// Bytes that a cut keeps or loses as one.
    pub atomic: u32,
    pub mode: Mode,
    pub replacement: Replacement,
    pub admit: Admit,
    /// Clean pages of longer runs do not enter.
    pub scan: Option<u32>,
    pub ghosts: bool,
    /// When nothing has entered for so long the newest batches are vouched for.
    pub idle: Nanos,
    pub restart: RestartBy,
    /// One life in so many ends with a close.
    pub closes: u64,
    /// It is resized again and again while it is used.
    pub resizes: bool,
    /// It is scrubbed again and again while it is used.
    pub scrubs: bool,
    pub work: Work,
}

impl Shape {
    /// The smallest ring, on devices that lose what is not forced.
    pub fn volatile() -> Shape {
        Shape {
            page: 512,
            stamps: false,
            frames: 4,
            flash_bytes: 75 << 10,
            pages: 90,
            ack: Ack::Volatile,
            atomic: 512,
            mode: Mode::Back,
            replacement: Replacement::SecondChance,
            admit: Admit::Mixed,
            scan: None,
            ghosts: false,
            idle: Nanos::from_secs(1),
            restart: RestartBy::Descriptors,
            closes: 0,
            resizes: false,
            scrubs: false,
            work: Work { clients: 3, steps: 30, held: 2, forgets: 15, changes: 2 },
        }
    }

    fn caps(&self, bytes: u64) -> Caps {
        Caps {
            block_size: 512,
            blocks: bytes / 512,
            ack: self.ack,
            ordered: false,
            atomic_unit: self.atomic,
            ..Caps::power_safe(1, if self.stamps { Payload::Stamps } else { Payload::Bytes })
        }
    }

    /// Bytes of a page in memory.
    fn size(&self) -> usize {
        if self.stamps { self.page as usize / 64 } else { self.page as usize }
    }

    pub fn format_options(&self) -> FormatOptions {
        FormatOptions {
            page: self.page,
            frames: self.frames,
            mode: self.mode,
            ..FormatOptions::default()
        }
    }

    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            replacement: self.replacement,
            admit: self.admit,
            scan: self.scan,
            ghosts: self.ghosts,
            idle: self.idle,
            restart: self.restart,
            linger: Nanos::from_micros(150),
            depth: 3,
            ..OpenOptions::default()
        }
    }
}

/// Whoever opened a cache, and what is wrong with it.
#[derive(Clone, Default)]
pub struct Owner {
    pub opened: Rc<RefCell<u64>>,
    pub wrong: Rc<RefCell<Option<String>>>,
}

/// Devices in one runtime.
pub struct Rig {
    pub runtime: Runtime,
    pub shape: Shape,
    pub flash: RamDevice,
    pub slow: RamDevice,
    /// What lies beside flash and slow store.
    beside: [Beside; 2],
    pub model: Shared,
}

/// Judges every page that the cache holds after a crash. `None`: the power went.
async fn judge_all(cache: &Cache, model: &Shared) -> Result<(), Option<String>> {
    let (pages, size) = (model.borrow().pages.len(), model.borrow().size());
    let fetch = async |page: u64| {
        let mut bytes = vec![0; size];
        match cache.fetch(page, &mut bytes).await {
            Ok(found) => model.borrow_mut().judge(page, &bytes, found).map_err(Some),
            Err(CacheError::Flash(IoError::PowerLost) | CacheError::Slow(IoError::PowerLost)) => {
                Err(None)
            }
            Err(e) => Err(Some(format!("page {page}: {e}"))),
        }
    };
    let all = join_all((0..pages as u64).map(fetch).collect()).await;
    all.into_iter().collect::<Result<(), Option<String>>>()?;
    model.borrow_mut().restart_log();
    Ok(())
}

/// Resizes a cache again and again. Returns what is wrong.
async fn resize_often(rt: tantalum_rt::Rt, cache: Cache, most: u64) -> String {
    let mut dice = rt.stream(&format!("sizes from {}", rt.now()));
    loop {
        rt.sleep(Nanos(dice.below(3_000_000))).await;
        let bytes = most / 512 - dice.below(most / 1024);
        match cache.resize(bytes * 512).await {
            Ok(()) => {
                if cache.flash_bytes() != bytes * 512 {
                    return format!("{} bytes, not {bytes} blocks", cache.flash_bytes());
                }
            }
            // Too small for the smallest ring.
            Err(CacheError::Invalid(_)) => {}
            Err(e) if is_end(&e) => std::future::pending().await,
            Err(e) => return format!("resize: {e}"),
        }
    }
}

/// Scrubs a cache again and again. Returns what is wrong.
async fn scrub_often(rt: tantalum_rt::Rt, cache: Cache) -> String {
    let mut dice = rt.stream(&format!("scrubs from {}", rt.now()));
    loop {
        rt.sleep(Nanos(dice.below(1_000_000))).await;
        match cache.scrub().await {
            // Nothing was damaged.
            Ok(found) if found.repaired == 0 && found.damaged.is_empty() => {}
            Ok(found) => return format!("scrub: {found:?}"),
            Err(e) if is_end(&e) => std::future::pending().await,
            Err(e) => return format!("scrub: {e}"),
        }
    }
}

fn device(rt: &tantalum_rt::Rt, caps: Caps, name: &str) -> RamDevice {
    let options = RamOptions {
        command: Nanos::from_micros(60),
        jitter: Nanos::from_micros(80),
        flush: Nanos::from_micros(100),
        stream: name.to_string(),
        ..RamOptions::new(caps)
    };
    RamDevice::new(rt, options)
}

impl Rig {
    /// A new cache.
    pub fn new(shape: &Shape, seed: u64) -> Rig {
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let flash = device(&rt, shape.caps(shape.flash_bytes), "flash");
        let bytes = (1 << 20) + shape.pages * u64::from(shape.page);
        let slow = device(&rt, shape.caps(bytes), "slow");
        let beside = [Beside::default(), Beside::default()];
        let [of_flash, of_slow] = beside.clone();
        let page = shape.page;
        let options = FormatOptions { beside: of_flash, ..shape.format_options() };
        let (f, s) = (flash.device(), slow.device());
        let format = async move {
            let store = DeviceStore::with_beside(s, page, of_slow).unwrap();
            FlashCache::format(&rt, &f, &store, &options).await
        };
        runtime.block_on(format).unwrap().unwrap();
        let mut model = Model::new(shape.pages, shape.size());
        model.past = shape.admit == Admit::Clean;
        let model = Rc::new(RefCell::new(model));
        Rig { runtime, shape: shape.clone(), flash, slow, beside, model }
    }

    fn store(&self) -> Store {
        let beside = self.beside[1].clone();
        DeviceStore::with_beside(self.slow.device(), self.shape.page, beside).unwrap()
    }

    fn options(&self) -> OpenOptions {
        OpenOptions { beside: self.beside[0].clone(), ..self.shape.options() }
    }

    /// Opens the cache in a task and puts it to work, for some lives.
    pub fn start(&self, lives: u64) -> Owner {
        let rt = self.runtime.handle();
        let owner = Owner::default();
        let (slot, model) = (owner.clone(), self.model.clone());
        let (flash, store, shape) = (self.flash.device(), self.store(), self.shape.clone());
        let options = self.options();
        let mut dice = rt.stream(&format!("owner at {}", rt.now()));
        rt.clone().spawn_background("the owner of the cache", async move {
            for life in 0..lives {
                let host = Rc::new(Pool(model.clone()));
                let opened =
                    FlashCache::open(&rt, flash.clone(), store.clone(), host, options.clone());
                let cache = match opened.await {
                    Ok(cache) => cache,
                    Err(e) => return *slot.wrong.borrow_mut() = Some(e.to_string()),
                };
                *slot.opened.borrow_mut() += 1;
                if life == 0
                    && let Err(e) = judge_all(&cache, &model).await
                {
                    // A link that was cut ends the run, and is no fault.
                    return *slot.wrong.borrow_mut() = e;
                }
                let worked =
                    work(rt.clone(), cache.clone(), store.clone(), model.clone(), shape.work);
                // It is resized and scrubbed as long as it is worked with.
                let (most, shape) = (shape.flash_bytes, &shape);
                let resized = async {
                    match shape.resizes {
                        true => resize_often(rt.clone(), cache.clone(), most).await,
                        false => std::future::pending().await,
                    }
                };
                let scrubbed = async {
                    match shape.scrubs {
                        true => scrub_often(rt.clone(), cache.clone()).await,
                        false => std::future::pending().await,
                    }
                };
                let worked = match first(worked, first(resized, scrubbed)).await {
                    First::A(worked) => worked,
                    First::B(First::A(wrong) | First::B(wrong)) => Err(wrong),
                };
                if let Err(e) = worked {
                    return *slot.wrong.borrow_mut() = Some(e);
                }
                // Evictions for which nobody waits.
                rt.sleep(Nanos::from_millis(2)).await;
                if shape.closes > 0 && dice.chance(1, shape.closes) && cache.close().await.is_err()
                {
                    return;
                }
            }
        });
        owner
    }

    /// The same devices as a cut at this moment leaves them, in a runtime of their own.
    pub fn cut_copy(&self, seed: u64) -> Rig {
        let runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let (flash, slow) = (self.flash.cut_copy(&rt), self.slow.cut_copy(&rt));
        let mut model = self.model.borrow().clone();
        model.crash();
        let model = Rc::new(RefCell::new(model));
        let beside = self.beside.each_ref().map(Beside::fork);
        Rig { runtime, shape: self.shape.clone(), flash, slow, beside, model }
    }

    /// Switches the power on.
    pub fn power(&mut self) {
        let (flash, slow) = (self.flash.clone(), self.slow.clone());
        let power = async move {
            flash.power_on().await.unwrap();
            slow.power_on().await.unwrap();
        };
        self.runtime.block_on(power).unwrap();
    }

    /// Switches the power on, opens the cache and checks every page.
    pub fn check(&mut self) -> Result<(), String> {
        self.power();
        self.check_powered()
    }

    /// The flash device is lost: the pages of the slow store are checked.
    pub fn check_without_flash(&mut self) -> Result<(), String> {
        let (store, model) = (self.store(), self.model.clone());
        let check = async move {
            let left = FlashCache::<RamDevice, Store>::leave_alone(&store).await;
            left.map_err(|e| e.to_string())?;
            let (pages, size) = (model.borrow().pages.len(), model.borrow().size());
            let mut bytes = vec![0; size];
            for page in 0..pages as u64 {
                store.read(page, &mut bytes).await.map_err(|e| e.to_string())?;
                model.borrow_mut().judge(page, &bytes, Fetched::Slow)?;
            }
            Ok::<_, String>(())
        };
        self.runtime.block_on(check).map_err(|e| e.to_string())?
    }

    /// Opens the cache and checks every page; then it works on, and fetches them once more.
    pub fn check_powered(&mut self) -> Result<(), String> {
        let rt = self.runtime.handle();
        let (flash, store) = (self.flash.device(), self.store());
        let (options, model) = (self.options(), self.model.clone());
        let (page, seed) = (self.shape.size(), rt.seed());
        let check = async move {
            let host = Rc::new(tantalum_cache::flash::NoHost);
            let cache = FlashCache::open(&rt, flash, store, host, options).await;
            let cache: Cache = cache.map_err(|e| e.to_string())?;
            let judged = judge_all(&cache, &model).await;
            judged.map_err(|e| e.unwrap_or_else(|| "the power went".to_string()))?;
            let mut bytes = vec![0; page];
            let mut dice = Stream::new(seed, "after the check");
            for n in 0..dice.below(3) {
                if model.borrow().pages[n as usize].is_torn() {
                    continue;
                }
                let fetched = cache.fetch(n, &mut bytes).await;
                fetched.map_err(|e| e.to_string())?;
                cache.evict(n, &bytes, false, 0).await.map_err(|e| e.to_string())?;
            }
            Ok::<_, String>(())
        };
        self.runtime.block_on(check).map_err(|e| e.to_string())?
    }

    /// The moments at which something begins or ends on a device in the run of `start`.
    pub fn moments(&mut self, lives: u64, until: Nanos) -> Vec<Nanos> {
        let devices = [self.flash.clone(), self.slow.clone()];
        devices.iter().for_each(RamDevice::record_operations);
        let begin = self.runtime.handle().now();
        let _owner = self.start(lives);
        self.runtime.run_until(begin + until).unwrap();
        let all = devices.iter().flat_map(RamDevice::take_operations);
        let mut times: Vec<Nanos> = all.flat_map(|o| [o.issued, o.end]).collect();
        times.retain(|t| *t <= begin + until);
        // Just before the event, and just after.
        times = times.into_iter().flat_map(|t| [t, t + Nanos(1)]).collect();
        times.sort_unstable();
        times.dedup();
        times
    }
}
