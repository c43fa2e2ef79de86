//! A cache volume over devices in memory, which lose whatever they did not promise.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_cache::flash::{Admit, FormatOptions, Mode, OpenOptions, Replacement};
use tantalum_cache::volume::{CacheVolume, CleanEntry, VolumeDevice, VolumeOptions};
use tantalum_device::{
    Ack, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, IoError, Payload, PowerCycle,
    RamDevice, RamOptions,
};
use tantalum_oracle::{Host, Oracle};
use tantalum_rt::{Nanos, Rt, Runtime, Stream};

pub type Volume = CacheVolume<Flash, RamDevice>;

pub const BLOCK: u32 = 512;

#[derive(Clone, Debug)]
pub struct Shape {
    pub page: u32,
    pub flash_bytes: u64,
    /// Blocks of the volume.
    pub blocks: u64,
    pub ack: Ack,
    /// Bytes that a cut keeps or loses as one.
    pub atomic: u32,
    pub mode: Mode,
    pub replacement: Replacement,
    pub admit: Admit,
    /// When pages that the slow device has enter.
    pub clean: CleanEntry,
    /// Clean pages of longer runs do not enter.
    pub scan: Option<u32>,
    pub ghosts: bool,
    /// The flash device is lost at one start in so many, but not at the first one.
    pub loses_flash: u64,
}

impl Shape {
    /// The smallest ring, on devices that lose what is not forced and tear what they can.
    pub fn volatile() -> Shape {
        Shape {
            page: BLOCK,
            flash_bytes: 76 << 10,
            blocks: 96,
            ack: Ack::Volatile,
            atomic: BLOCK,
            mode: Mode::Back,
            replacement: Replacement::SecondChance,
            admit: Admit::Mixed,
            clean: CleanEntry::OnRead,
            scan: None,
            ghosts: false,
            loses_flash: 0,
        }
    }

    pub fn through() -> Shape {
        Shape { mode: Mode::Through, ..Shape::volatile() }
    }

    /// Pages of several blocks: most commands change parts of pages.
    pub fn wide() -> Shape {
        Shape { page: 2048, flash_bytes: 240 << 10, ..Shape::volatile() }
    }

    pub fn options(&self) -> VolumeOptions {
        VolumeOptions {
            format: FormatOptions {
                page: self.page,
                frames: 4,
                mode: self.mode,
                ..FormatOptions::default()
            },
            cache: OpenOptions {
                replacement: self.replacement,
                admit: self.admit,
                scan: self.scan,
                ghosts: self.ghosts,
                linger: Nanos::from_micros(400),
                depth: 3,
                ..OpenOptions::default()
            },
            clean: self.clean,
            ..VolumeOptions::default()
        }
    }

    fn ram(&self, rt: &Rt, name: &str, bytes: u64) -> RamDevice {
        let caps = Caps {
            block_size: BLOCK,
            ack: self.ack,
            ordered: false,
            atomic_unit: self.atomic,
            ..Caps::power_safe(bytes / u64::from(BLOCK), Payload::Bytes)
        };
        RamDevice::new(
            rt,
            RamOptions {
                command: Nanos::from_micros(60),
                jitter: Nanos::from_micros(80),
                flush: Nanos::from_micros(100),
                stream: name.to_string(),
                ..RamOptions::new(caps)
            },
        )
    }
}

/// A flash device that may be gone when its power returns: then a blank one is in its place.
#[derive(Clone)]
pub struct Flash {
    rt: Rt,
    shape: Rc<Shape>,
    device: Rc<RefCell<RamDevice>>,
    starts: Rc<Cell<u64>>,
    pub lost: Rc<Cell<u64>>,
}

impl Flash {
    fn new(rt: &Rt, shape: &Shape) -> Flash {
        let device = shape.ram(rt, "flash", shape.flash_bytes);
        Flash::of(rt, shape, device)
    }

    fn of(rt: &Rt, shape: &Shape, device: RamDevice) -> Flash {
        Flash {
            rt: rt.clone(),
            shape: Rc::new(shape.clone()),
            device: Rc::new(RefCell::new(device)),
            starts: Rc::default(),
            lost: Rc::default(),
        }
    }

    pub fn now(&self) -> RamDevice {
        self.device.borrow().clone()
    }

    /// A blank device takes its place.
    pub fn lose(&self) {
        self.lost.set(self.lost.get() + 1);
        let name = format!("flash {}", self.lost.get());
        self.device.replace(self.shape.ram(&self.rt, &name, self.shape.flash_bytes));
    }
}

impl PowerCycle for Flash {
    type Device = RamDevice;

    fn device(&self) -> RamDevice {
        self.now().device()
    }

    fn cut(&self) {
        self.now().cut();
    }

    async fn off(&self) {
        self.now().off().await;
    }

    async fn power_on(&self) -> Result<(), IoError> {
        let start = self.starts.replace(self.starts.get() + 1);
        if start > 0 && self.shape.loses_flash > 0 && start.is_multiple_of(self.shape.loses_flash) {
            self.lose();
        }
        self.now().power_on().await
    }
}

/// Runs a test in virtual time.
pub fn with<T: 'static, F: Future<Output = T> + 'static>(
    seed: u64,
    body: impl FnOnce(Rt) -> F,
) -> T {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    runtime.block_on(body(rt)).unwrap()
}

/// Writes a block of equal bytes.
pub async fn write(device: &impl BlockDevice, at: u64, byte: u8) -> Result<(), IoError> {
    let bytes = vec![byte; BLOCK as usize];
    device.write(Block(at), Data::Bytes(&bytes), Durability::Normal).await
}

/// A byte of what a block holds.
pub async fn read(device: &impl BlockDevice, at: u64) -> u8 {
    let mut bytes = vec![0; BLOCK as usize];
    device.read(Block(at), DataMut::Bytes(&mut bytes)).await.unwrap();
    assert!(bytes.iter().all(|b| *b == bytes[0]), "block {at} is torn");
    bytes[0]
}

/// What a volume is made of.
#[derive(Clone)]
pub struct Boxes {
    pub flash: Flash,
    pub slow: RamDevice,
}

impl Boxes {
    pub fn new(rt: &Rt, shape: &Shape) -> Boxes {
        let bytes = (1 << 20) + shape.blocks * u64::from(BLOCK);
        Boxes { flash: Flash::new(rt, shape), slow: shape.ram(rt, "slow", bytes) }
    }

    fn cut_copy(&self, rt: &Rt, shape: &Shape) -> Boxes {
        let flash = Flash::of(rt, shape, self.flash.now().cut_copy(rt));
        Boxes { flash, slow: self.slow.cut_copy(rt) }
    }

    pub fn volume(&self, rt: &Rt, shape: &Shape) -> Volume {
        CacheVolume::new(rt, self.flash.clone(), self.slow.clone(), shape.options()).unwrap()
    }

    /// A new volume that has power.
    pub async fn started(&self, rt: &Rt, shape: &Shape) -> Volume {
        let volume = self.volume(rt, shape);
        volume.format(false).await.unwrap();
        volume.power_on().await.unwrap();
        volume
    }
}

/// A volume at work in a runtime.
pub struct Rig {
    pub runtime: Runtime,
    pub shape: Shape,
    pub boxes: Boxes,
    pub oracle: Rc<Oracle>,
}

impl Rig {
    /// A new volume that has power, with `workers` at work on it, each with so many commands.
    pub fn start(shape: &Shape, seed: u64, workers: u64, commands: u64) -> Rig {
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let boxes = Boxes::new(&rt, shape);
        [&boxes.flash.now(), &boxes.slow].iter().for_each(|d| d.record_operations());
        let (made, of, rt_here) = (boxes.clone(), shape.clone(), rt.clone());
        let started = async move { made.started(&rt_here, &of).await };
        let volume = runtime.block_on(started).unwrap();
        let oracle = Rc::new(Oracle::new(&volume.caps()));
        for worker in 0..workers {
            let host = oracle.host(volume.device());
            let dice = rt.stream(&format!("worker {worker}"));
            let (kept, rt_here) = (volume.clone(), rt.clone());
            let exits = shape.clean == CleanEntry::OnExit;
            rt.spawn_background("a worker", async move {
                work(rt_here, host, dice, commands, exits).await;
                std::future::pending::<()>().await;
                drop(kept);
            });
        }
        Rig { runtime, shape: shape.clone(), boxes, oracle }
    }

    /// The same as a cut at this moment leaves it, in a runtime of its own and without power.
    pub fn cut_copy(&self, seed: u64) -> Rig {
        let runtime = Runtime::virtual_time(seed);
        let boxes = self.boxes.cut_copy(&runtime.handle(), &self.shape);
        let oracle = Rc::new(self.oracle.fork());
        Rig { runtime, shape: self.shape.clone(), boxes, oracle }
    }

    /// Starts the volume and goes on for so long, whether it has started then or not.
    pub fn recover_for(&mut self, span: Nanos) {
        let rt = self.runtime.handle();
        let volume = self.boxes.volume(&rt, &self.shape);
        rt.spawn_background("a start", async move {
            let _ = volume.power_on().await;
            // It goes on: the volume is kept.
            std::future::pending::<()>().await;
            drop(volume);
        });
        let until = rt.now() + span;
        self.runtime.run_until(until).unwrap();
    }

    /// Starts the volume and looks at everything, twice: what was found stays.
    pub fn check(&mut self) -> Result<(), String> {
        let rt = self.runtime.handle();
        let volume = self.boxes.volume(&rt, &self.shape);
        let oracle = self.oracle.clone();
        let check = async move {
            for _ in 0..2 {
                if let Err(e) = volume.power_on().await {
                    return Err(volume.start_failure().map_or(e.to_string(), |f| f.to_string()));
                }
                let found = oracle.check(&volume.device()).await.map_err(|e| e.to_string())?;
                found.first().map_or(Ok(()), |v| Err(v.to_string()))?;
                volume.cut();
                volume.off().await;
            }
            Ok(())
        };
        self.runtime.block_on(check).map_err(|e| e.to_string())?
    }

    /// The moments up to `until` at which something began or ended on a device.
    pub fn moments(
        shape: &Shape,
        seed: u64,
        workers: u64,
        commands: u64,
        until: Nanos,
    ) -> Vec<Nanos> {
        let mut rig = Rig::start(shape, seed, workers, commands);
        let begin = rig.runtime.handle().now();
        rig.runtime.run_until(begin + until).unwrap();
        let all = [rig.boxes.flash.now(), rig.boxes.slow.clone()];
        let all = all.iter().flat_map(|d| d.take_operations());
        let mut times: Vec<Nanos> = all.flat_map(|o| [o.issued, o.end]).collect();
        times.retain(|t| (begin..=begin + until).contains(t));
        // Just before the event, and just after.
        times = times.into_iter().flat_map(|t| [t, t + Nanos(1)]).collect();
        times.sort_unstable();
        times.dedup();
        times
    }
}

/// Commands of all kinds on a few blocks, one after the other.
async fn work(
    rt: Rt,
    host: Host<VolumeDevice<RamDevice, RamDevice>>,
    mut dice: Stream,
    commands: u64,
    exits: bool,
) {
    for _ in 0..commands {
        let count = dice.range(1, 7);
        let range = Blocks { start: Block(dice.below(60 - count)), count };
        let ended = match dice.below(10) {
            0..=4 => host.write(range, Durability::Normal).await,
            5 => host.write(range, Durability::Fua).await,
            6 => host.flush().await,
            7 => host.discard(range).await,
            8 if exits => host.device().left(range, None).await,
            _ => host.read(range).await,
        };
        if ended.is_err() {
            return;
        }
        rt.sleep(Nanos(dice.below(150_000))).await;
    }
}
