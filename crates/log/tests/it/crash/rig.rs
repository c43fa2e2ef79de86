//! A log on some devices, which can be cut at any moment of its life and opened again.

use super::model::{Shared, Work, work};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{Ack, Caps, Payload, PowerCycle, RamDevice, RamOptions};
use tantalum_explore::{Journal, Slow};
use tantalum_log::{
    Barrier, CreateOptions, HedgeOptions, Log, LogDevice, LogError, Lsn, OpenOptions, WhenFull,
};
use tantalum_rt::{Nanos, Rt, Runtime};

pub type Device = Slow<RamDevice>;

/// What a log is made of.
#[derive(Clone, Debug)]
pub struct Shape {
    pub array: usize,
    pub archive: bool,
    pub copies: u8,
    pub partitions: u16,
    /// Bytes of each device behind its head.
    pub bytes: u64,
    pub block: u32,
    pub unit: u32,
    /// Bytes that a cut keeps or loses as one.
    pub atomic: u32,
    pub ack: Ack,
    pub barrier: Barrier,
    /// One write in so many is slow.
    pub slow: u64,
    /// When a write takes longer its device is left.
    pub stall: Nanos,
    /// Devices stop to answer now and then.
    pub stalls: bool,
    pub work: Work,
}

impl Shape {
    /// Devices that lose what is not forced, block by block.
    pub fn volatile(array: usize) -> Shape {
        Shape {
            array,
            archive: false,
            copies: 1,
            partitions: 1,
            bytes: 96 << 10,
            block: 512,
            unit: 512,
            atomic: 512,
            ack: Ack::Volatile,
            barrier: Barrier::Auto,
            slow: 0,
            stall: Nanos::from_millis(20),
            stalls: false,
            work: Work { writers: 3, records: 8, bytes: 2500, checkpoints: 0, reads: 0 },
        }
    }

    fn caps(&self) -> Caps {
        Caps {
            block_size: self.block,
            blocks: (65536 + self.bytes) / u64::from(self.block),
            ack: self.ack,
            ordered: false,
            atomic_unit: self.atomic,
            ..Caps::power_safe(1, Payload::Bytes)
        }
    }

    fn create_options(&self) -> CreateOptions {
        CreateOptions {
            copies: self.copies,
            partitions: self.partitions,
            unit: Some(self.unit),
            section_bytes: Some(16 * u64::from(self.unit)),
            record_limit: Some(3000),
            ..CreateOptions::default()
        }
    }

    pub fn open_options(&self) -> OpenOptions {
        OpenOptions {
            memory: 16 << 10,
            group_bytes: 4096,
            archive_bytes: 2048,
            archive_write_bytes: 8192,
            barrier: self.barrier,
            stall: self.stall,
            hedge: HedgeOptions { samples: 4, budget_percent: 50, ..HedgeOptions::default() },
            ..OpenOptions::default()
        }
    }

    fn all(&self) -> usize {
        self.array + usize::from(self.archive)
    }
}

/// Whoever opened a log, and what is wrong with it.
#[derive(Clone, Default)]
pub struct Owner {
    pub log: Rc<RefCell<Option<Log<Device>>>>,
    pub wrong: Rc<RefCell<Option<String>>>,
}

/// Devices in one runtime.
pub struct Rig {
    pub runtime: Runtime,
    pub shape: Shape,
    pub devices: Vec<Device>,
    pub journal: Shared,
    /// What lies before may have one copy.
    alone: Rc<Cell<Lsn>>,
}

fn named(devices: &[Device]) -> Vec<LogDevice<Device>> {
    let named = devices.iter().enumerate();
    named.map(|(i, d)| LogDevice::new(format!("device {i}"), d.clone())).collect()
}

/// The devices on their present links.
fn on_links(devices: &[Device]) -> Vec<Device> {
    devices.iter().map(|d| Slow { inner: d.inner.device(), plan: d.plan.clone() }).collect()
}

/// After a crash each copy is whole, but of what lies before `alone`.
async fn whole_copies(
    rt: &Rt,
    devices: &[LogDevice<Device>],
    options: &OpenOptions,
    alone: Lsn,
) -> Result<(), String> {
    let options = OpenOptions { read_only: true, ..options.clone() };
    let log = Log::open(rt, devices.to_vec(), options).await.map_err(|e| e.to_string())?;
    let found = log.one_copy().await.map_err(|e| e.to_string())?;
    match found.iter().find(|one| one.end > alone) {
        Some(one) => Err(format!("one copy: {one}, and {} more", found.len() - 1)),
        None => Ok(()),
    }
}

/// What a log says it may have one copy of: for want of room the end could not be copied, or a device
/// was away and has not caught up.
fn note_alone(log: &Log<Device>, alone: &Cell<Lsn>) {
    if log.stats().degraded {
        alone.set(log.stats().durable);
    }
}

impl Rig {
    /// A new log.
    pub fn new(shape: &Shape, seed: u64) -> Rig {
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let device = |i: usize| {
            let options = RamOptions {
                command: Nanos::from_micros(60),
                jitter: Nanos::from_micros(80),
                flush: Nanos::from_micros(100),
                stream: format!("device {i}"),
                ..RamOptions::new(shape.caps())
            };
            Slow::new(&rt, RamDevice::new(&rt, options), &format!("slow {i}"))
        };
        let devices: Vec<Device> = (0..shape.all()).map(device).collect();
        let (names, create, count) = (named(&devices), shape.create_options(), shape.array);
        let create =
            async move { Log::create(&rt, &names[..count], names.get(count), &create).await };
        runtime.block_on(create).unwrap().unwrap();
        let journal = Rc::new(RefCell::new(Journal::default()));
        let rig = Rig { runtime, shape: shape.clone(), devices, journal, alone: Rc::default() };
        rig.slow_down();
        rig
    }

    fn slow_down(&self) {
        for device in &self.devices {
            device.plan.one_in.set(self.shape.slow);
            device.plan.delay.set(Nanos::from_millis(3));
        }
    }

    /// Opens the log in a task and puts it to work.
    pub fn start(&self) -> Owner {
        let rt = self.runtime.handle();
        let slot = Owner::default();
        let (log, journal, alone) = (slot.clone(), self.journal.clone(), self.alone.clone());
        let (devices, options) = (named(&on_links(&self.devices)), self.shape.open_options());
        let plan = self.shape.work;
        rt.clone().spawn_background("the owner of the log", async move {
            let opened = match Log::open(&rt, devices, options).await {
                Ok(opened) => opened,
                Err(e) => return *log.wrong.borrow_mut() = Some(e.to_string()),
            };
            let mut seen = journal.borrow().clone();
            if let Err(e) = seen.check(&opened).await {
                return *log.wrong.borrow_mut() = Some(e);
            }
            note_alone(&opened, &alone);
            *journal.borrow_mut() = seen;
            *log.log.borrow_mut() = Some(opened.clone());
            work(rt, opened, journal, plan).await;
        });
        slot
    }

    /// The same devices as a cut at this moment leaves them, in a runtime of their own.
    pub fn cut_copy(&self, owner: Option<&Owner>, seed: u64) -> Rig {
        let runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let copy =
            |(i, d): (usize, &Device)| Slow::new(&rt, d.inner.cut_copy(&rt), &format!("slow {i}"));
        let devices = self.devices.iter().enumerate().map(copy).collect();
        let mut journal = self.journal.borrow().clone();
        let alone = Rc::new(Cell::new(self.alone.get()));
        if let Some(log) = owner.and_then(|o| o.log.borrow().clone()) {
            journal.acked = journal.acked.max(log.durable());
            note_alone(&log, &alone);
        }
        let journal = Rc::new(RefCell::new(journal));
        let rig = Rig { runtime, shape: self.shape.clone(), devices, journal, alone };
        rig.slow_down();
        rig
    }

    /// Switches the power on.
    pub fn power_on(&mut self) {
        let devices: Vec<RamDevice> = self.devices.iter().map(|d| d.inner.clone()).collect();
        let power = async move {
            for device in devices {
                device.power_on().await.unwrap();
            }
        };
        self.runtime.block_on(power).unwrap();
    }

    /// Switches the power on, opens the log and checks what it holds. The log is not used further.
    pub fn check(&mut self) -> Result<(), String> {
        let full = WhenFull::Fail;
        self.check_with(OpenOptions { when_full: full, ..self.shape.open_options() }, |_| true)
    }

    /// The same with only some of the devices.
    pub fn check_with(
        &mut self,
        options: OpenOptions,
        which: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        self.power_on();
        let rt = self.runtime.handle();
        let devices = named(&on_links(&self.devices));
        let devices = devices.into_iter().enumerate().filter(|(i, _)| which(*i));
        let devices: Vec<_> = devices.map(|(_, d)| d).collect();
        let mut journal = self.journal.borrow().clone();
        let has_copies = self.shape.copies > 1;
        let alone = self.alone.clone();
        let check = async move {
            if has_copies {
                whole_copies(&rt, &devices, &options, alone.get()).await?;
            }
            let log = Log::open(&rt, devices, options).await.map_err(|e| e.to_string())?;
            journal.check(&log).await?;
            note_alone(&log, &alone);
            // It takes records as before, once it has room.
            let mut at = log.commit(b"after").await;
            if let Err(LogError::Full { .. }) = at {
                let checkpoint = (log.end(), 7);
                log.checkpoint(checkpoint.0, 7).await.map_err(|e| e.to_string())?;
                journal.checkpoint = checkpoint;
                at = log.commit(b"after").await;
            }
            let at = at.map_err(|e| e.to_string())?;
            journal.records.push(tantalum_log::Record {
                lsn: at.lsn,
                end: at.end,
                bytes: b"after".to_vec(),
            });
            journal.acked = at.end;
            Ok::<_, String>(journal)
        };
        let checked = self.runtime.block_on(check).map_err(|e| e.to_string())?;
        *self.journal.borrow_mut() = checked?;
        Ok(())
    }

    /// The moments at which something begins or ends on a device in the run of `start`.
    pub fn moments(shape: &Shape, seed: u64, until: Nanos) -> Vec<Nanos> {
        let mut rig = Rig::new(shape, seed);
        rig.devices.iter().for_each(|d| d.inner.record_operations());
        let _log = rig.start();
        let begin = rig.runtime.handle().now();
        rig.runtime.run_until(begin + until).unwrap();
        let all = rig.devices.iter().flat_map(|d| d.inner.take_operations());
        let mut times: Vec<Nanos> = all.flat_map(|o| [o.issued, o.end]).collect();
        times.retain(|t| *t <= begin + until);
        // Just before the event, and just after.
        times = times.into_iter().flat_map(|t| [t, t + Nanos(1)]).collect();
        times.sort_unstable();
        times.dedup();
        times
    }
}
