//! A log volume over devices in memory, which lose whatever they did not promise.

use std::rc::Rc;
use tantalum_device::{
    Ack, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, GroupLimit,
    IoError, Payload, PowerCycle, RamDevice, RamOptions,
};
use tantalum_log::{CreateOptions, HedgeOptions, LogVolume, OpenOptions, VolumeOptions};
use tantalum_oracle::{Host, Oracle};
use tantalum_rt::{Nanos, Rt, Runtime, Stream};

pub type Volume = LogVolume<RamDevice, RamDevice>;

pub const BLOCK: u32 = 512;
/// Blocks of the volume.
pub const BLOCKS: u64 = 64;
/// Blocks of the label on the backing.
const LABEL: u64 = 16;

#[derive(Clone, Debug)]
pub struct Shape {
    pub array: usize,
    pub archive: bool,
    pub copies: u8,
    /// Bytes of each device of the log behind its head.
    pub log_bytes: u64,
    pub log_ack: Ack,
    pub backing_ack: Ack,
    /// Bytes of memory for what is not destaged.
    pub memory: u64,
    pub linger: Nanos,
    /// Whether the volume has the limits that it has by itself, and the work reaches them.
    pub full_limits: bool,
}

/// Blocks of a volume with full limits: an extent of a full group has 4 KiB, and as much is between
/// two.
const FULL_BLOCKS: u64 = 256 * FULL_STEP;
const FULL_STEP: u64 = 16;

impl Shape {
    /// Devices that lose what is not forced or flushed.
    pub fn volatile(array: usize) -> Shape {
        Shape {
            array,
            archive: false,
            copies: 1,
            log_bytes: 128 << 10,
            log_ack: Ack::Volatile,
            backing_ack: Ack::Volatile,
            memory: 64 << 10,
            linger: Nanos::from_millis(3),
            full_limits: false,
        }
    }

    /// A volume as it is by itself: writes of 128 KiB and groups of 256 extents and 1 MiB are whole.
    pub fn full(array: usize) -> Shape {
        let log_bytes = 12 << 20;
        Shape { log_bytes, memory: 4 << 20, full_limits: true, ..Shape::volatile(array) }
    }

    fn blocks(&self) -> u64 {
        if self.full_limits { FULL_BLOCKS } else { BLOCKS }
    }

    /// Little memory: what comes is destaged at once.
    pub fn tight(array: usize) -> Shape {
        Shape { memory: 6 << 10, linger: Nanos::from_secs(1), ..Shape::volatile(array) }
    }

    pub fn create(&self) -> CreateOptions {
        CreateOptions {
            copies: self.copies,
            section_bytes: Some(16 * u64::from(BLOCK)),
            record_limit: Some(1000),
            ..CreateOptions::default()
        }
    }

    pub fn options(&self) -> VolumeOptions {
        if self.full_limits {
            let (memory, linger) = (self.memory, self.linger);
            return VolumeOptions { memory, linger, ..VolumeOptions::default() };
        }
        VolumeOptions {
            memory: self.memory,
            linger: self.linger,
            atomic_unit: 4 * BLOCK,
            atomic_group: GroupLimit { extents: 4, bytes: 8 * u64::from(BLOCK) },
            log: OpenOptions {
                memory: 16 << 10,
                group_bytes: 4096,
                archive_bytes: 2048,
                archive_write_bytes: 8192,
                stall: Nanos::from_millis(20),
                hedge: HedgeOptions { samples: 4, budget_percent: 50, ..HedgeOptions::default() },
                ..OpenOptions::default()
            },
            ..VolumeOptions::default()
        }
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
    bytes[0]
}

/// What a volume is made of.
#[derive(Clone)]
pub struct Boxes {
    pub array: Vec<RamDevice>,
    pub archive: Option<RamDevice>,
    pub backing: RamDevice,
}

pub fn ram(rt: &Rt, name: &str, blocks: u64, ack: Ack) -> RamDevice {
    let caps = Caps {
        block_size: BLOCK,
        ack,
        ordered: false,
        atomic_unit: BLOCK,
        ..Caps::power_safe(blocks, Payload::Bytes)
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

pub fn backing(rt: &Rt, name: &str, shape: &Shape) -> RamDevice {
    ram(rt, name, shape.blocks() + LABEL, shape.backing_ack)
}

pub fn of_log(rt: &Rt, name: &str, shape: &Shape) -> RamDevice {
    let blocks = (65536 + shape.log_bytes) / u64::from(BLOCK);
    ram(rt, name, blocks, shape.log_ack)
}

impl Boxes {
    pub fn new(rt: &Rt, shape: &Shape) -> Boxes {
        let log = |name: String| of_log(rt, &name, shape);
        Boxes {
            array: (0..shape.array).map(|i| log(format!("log {i}"))).collect(),
            archive: shape.archive.then(|| log("archive".to_string())),
            backing: backing(rt, "backing", shape),
        }
    }

    pub fn cut_copy(&self, rt: &Rt) -> Boxes {
        Boxes {
            array: self.array.iter().map(|d| d.cut_copy(rt)).collect(),
            archive: self.archive.as_ref().map(|d| d.cut_copy(rt)),
            backing: self.backing.cut_copy(rt),
        }
    }

    pub fn volume(&self, rt: &Rt, shape: &Shape) -> Volume {
        let array = self.array.iter().enumerate().map(|(i, d)| (format!("log {i}"), d.clone()));
        let archive = self.archive.clone().map(|d| ("archive".to_string(), d));
        let (array, backing) = (array.collect(), self.backing.clone());
        LogVolume::new(rt, array, archive, backing, shape.options()).unwrap()
    }

    /// A new volume that has power.
    pub async fn started(&self, rt: &Rt, shape: &Shape) -> Volume {
        let volume = self.volume(rt, shape);
        volume.format(&shape.create()).await.unwrap();
        volume.power_on().await.unwrap();
        volume
    }

    /// Bytes written to the devices of the array.
    pub fn log_written(&self) -> u64 {
        self.array.iter().map(|d| d.bytes_written()).sum()
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
        boxes.array.iter().chain([&boxes.backing]).for_each(|d| d.record_operations());
        let volume = boxes.volume(&rt, shape);
        let oracle = Rc::new(Oracle::new(&volume.caps()));
        let (start, create) = (volume.clone(), shape.create());
        let started = runtime.block_on(async move {
            start.format(&create).await.map_err(|e| e.to_string())?;
            start.power_on().await.map_err(|e| e.to_string())
        });
        started.unwrap().unwrap();
        for worker in 0..workers {
            let host = oracle.host(volume.device());
            let dice = rt.stream(&format!("worker {worker}"));
            let (kept, rt_here, full) = (volume.clone(), rt.clone(), shape.full_limits);
            rt.spawn_background("a worker", async move {
                match full {
                    true => work_at_the_limits(host, worker, commands).await,
                    false => work(rt_here, host, dice, commands).await,
                }
                drop(kept);
            });
        }
        Rig { runtime, shape: shape.clone(), boxes, oracle }
    }

    /// The same as a cut at this moment leaves it, in a runtime of its own and without power.
    pub fn cut_copy(&self, seed: u64) -> Rig {
        let runtime = Runtime::virtual_time(seed);
        let boxes = self.boxes.cut_copy(&runtime.handle());
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

    /// Starts the volume and looks at everything.
    pub fn check(&mut self) -> Result<(), String> {
        let rt = self.runtime.handle();
        let volume = self.boxes.volume(&rt, &self.shape);
        let oracle = self.oracle.clone();
        let check = async move {
            if let Err(e) = volume.power_on().await {
                return Err(volume.start_failure().map_or(e.to_string(), |f| f.to_string()));
            }
            let found = oracle.check(&volume.device()).await.map_err(|e| e.to_string())?;
            found.first().map_or(Ok(()), |v| Err(v.to_string()))
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
        let all = rig.boxes.array.iter().chain([&rig.boxes.backing]);
        let all = all.flat_map(|d| d.take_operations());
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
pub async fn work<D: BlockDevice>(rt: Rt, host: Host<D>, mut dice: Stream, commands: u64) {
    for _ in 0..commands {
        let count = dice.range(1, 7);
        let range = Blocks { start: Block(dice.below(24 - count)), count };
        let ended = match dice.below(10) {
            0..=4 => host.write(range, Durability::Normal).await,
            5 => host.write(range, Durability::Fua).await,
            6 | 7 => {
                let far = Blocks { start: Block(30 + dice.below(30)), count: 2 };
                host.write_atomic(&[range, far]).await.map_err(|_| IoError::PowerLost)
            }
            8 => host.discard(range).await,
            _ => host.read(range).await,
        };
        if ended.is_err() {
            return;
        }
        rt.sleep(Nanos(dice.below(300_000))).await;
    }
}

/// Full groups, the largest writes that are whole, or small writes between them: one after the other.
async fn work_at_the_limits<D: BlockDevice>(host: Host<D>, worker: u64, commands: u64) {
    let limits = VolumeOptions::default();
    let unit = u64::from(limits.atomic_unit / BLOCK);
    let each =
        limits.atomic_group.bytes / u64::from(limits.atomic_group.extents) / u64::from(BLOCK);
    let extent = |i| Blocks { start: Block(i * FULL_STEP), count: each };
    let group: Vec<_> = (0..u64::from(limits.atomic_group.extents)).map(extent).collect();
    for i in 0..commands {
        let at = Block((i * 1000 + 5) % (FULL_BLOCKS - unit));
        let ended = match worker {
            0 => match host.write_atomic(&group).await {
                Ok(()) => Ok(()),
                Err(AtomicError::Io(e)) => Err(e),
                Err(refused) => panic!("{refused:?}"),
            },
            1 => host.write(Blocks { start: at, count: unit }, Durability::Normal).await,
            _ => host.write(Blocks { start: at, count: 1 }, Durability::Fua).await,
        };
        if ended.is_err() {
            return;
        }
    }
}
