//! The commands to the thread of a drive, and their execution.

use crate::abi::{tantalum_power_loss, tantalum_recovery};
use crate::error::Failure;
use crate::{TANTALUM_EDUMP, TANTALUM_EFAILED, TANTALUM_ENOTSUP};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Blocks, Data, DataMut, Durability, Extent, IoError, PowerCycle, RamDevice,
    Stats,
};
use tantalum_drive::{Drive, RecoveryError, RecoveryReport};
use tantalum_rt::sync::Mutex;
use tantalum_rt::{Nanos, Rt};

/// A command with its data.
pub(crate) enum Command {
    Read { at: Block, room: Vec<u8> },
    Write { at: Block, data: Vec<u8>, want: Durability },
    Group(Vec<(Block, Vec<u8>)>),
    Flush,
    Discard(Blocks),
    Cut,
    Start { salvage: bool },
    Settle,
    Sleep(Nanos),
}

impl Command {
    /// Bytes that it holds.
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Command::Read { room, .. } => room.len(),
            Command::Write { data, .. } => data.len(),
            Command::Group(extents) => extents.iter().map(|e| e.1.len()).sum(),
            _ => 0,
        };
        bytes as u64
    }

    pub fn name(&self) -> &'static str {
        match self {
            Command::Read { .. } => "a read",
            Command::Write { .. } => "a write",
            Command::Group(_) => "an atomic group",
            Command::Flush => "a flush",
            Command::Discard(_) => "a discard",
            Command::Cut => "a power cut",
            Command::Start { .. } => "a start",
            Command::Settle => "the end of a start",
            Command::Sleep(_) => "a pause",
        }
    }
}

/// The result of a command.
pub(crate) enum Done {
    Nothing,
    Read(Vec<u8>),
    Cut(tantalum_power_loss),
    Started(tantalum_recovery),
}

pub(crate) type Outcome = Result<Done, Failure>;

/// A box that can be opened.
pub(crate) trait Chassis: PowerCycle + Clone + 'static {
    /// The simulated drive, if it is one.
    fn drive(&self) -> Option<&Drive>;

    /// How often its power was cut.
    fn cuts(&self) -> u64;

    /// Whether it has no power.
    fn is_off(&self) -> bool;

    /// Waits until its last start has ended, one way or another.
    async fn settled(&self);

    /// How its last start was.
    fn last_recovery(&self) -> tantalum_recovery;
}

impl Chassis for Drive {
    fn drive(&self) -> Option<&Drive> {
        Some(self)
    }

    fn cuts(&self) -> u64 {
        self.stats().cuts
    }

    fn is_off(&self) -> bool {
        Drive::is_off(self)
    }

    async fn settled(&self) {
        Drive::settled(self).await;
    }

    fn last_recovery(&self) -> tantalum_recovery {
        Drive::last_recovery(self).map(recovery).unwrap_or_default()
    }
}

/// A RAM drive, whose power cuts are counted, and starts timed.
#[derive(Clone)]
pub(crate) struct Ram {
    rt: Rt,
    device: RamDevice,
    is_on: Rc<Cell<bool>>,
    cuts: Rc<Cell<u64>>,
    /// How long its last start took.
    start: Rc<Cell<Nanos>>,
    /// Held while it starts: who looks for the end of a start waits for it.
    starting: Rc<Mutex>,
}

impl Ram {
    /// It counts as off until the first `power_on`, which takes no time.
    pub fn new(rt: &Rt, device: RamDevice) -> Ram {
        let (is_on, cuts, start) = Default::default();
        let starting = Rc::new(Mutex::new(rt, "the start of a RAM drive"));
        Ram { rt: rt.clone(), device, is_on, cuts, start, starting }
    }
}

impl Chassis for Ram {
    fn drive(&self) -> Option<&Drive> {
        None
    }

    fn cuts(&self) -> u64 {
        self.cuts.get()
    }

    fn is_off(&self) -> bool {
        !self.is_on.get()
    }

    async fn settled(&self) {
        drop(self.starting.lock().await);
    }

    fn last_recovery(&self) -> tantalum_recovery {
        let Nanos(start) = self.start.get();
        tantalum_recovery { ready_ns: start, whole_ns: start, ..Default::default() }
    }
}

impl PowerCycle for Ram {
    type Device = RamDevice;

    fn device(&self) -> RamDevice {
        self.device.device()
    }

    fn cut(&self) {
        self.cuts.set(self.cuts.get() + u64::from(self.is_on.replace(false)));
        self.device.cut();
    }

    async fn off(&self) {
        self.device.off().await;
    }

    async fn power_on(&self) -> Result<(), IoError> {
        let _starting = self.starting.lock().await;
        let (was_on, began) = (self.is_on.replace(true), self.rt.now());
        self.device.power_on().await?;
        if !was_on {
            self.start.set(self.rt.now().saturating_sub(began));
        }
        Ok(())
    }
}

/// Carries out a command.
pub(crate) async fn carry_out<B: Chassis>(rt: Rt, chassis: Stats<B>, command: Command) -> Outcome {
    let device = chassis.device();
    match command {
        Command::Read { at, mut room } => {
            device.read(at, DataMut::Bytes(&mut room)).await?;
            return Ok(Done::Read(room));
        }
        Command::Write { at, data, want } => {
            device.write(at, Data::Bytes(&data), want).await?;
        }
        Command::Group(extents) => {
            let group: Vec<Extent<'_>> =
                extents.iter().map(|e| Extent { at: e.0, data: Data::Bytes(&e.1) }).collect();
            device.write_atomic(&group).await?;
        }
        Command::Flush => device.flush().await?,
        Command::Discard(range) => device.discard(range).await?,
        Command::Cut => return Ok(Done::Cut(cut(&rt, &chassis).await)),
        Command::Start { salvage } => {
            return start(&chassis, salvage).await.map(Done::Started);
        }
        Command::Settle => {
            chassis.inner().settled().await;
            if let Some(why) = chassis.inner().drive().and_then(Drive::last_failure) {
                return Err(does_not_start(&why));
            }
            if chassis.inner().is_off() {
                return Err(IoError::PowerLost.into());
            }
            return Ok(Done::Started(chassis.inner().last_recovery()));
        }
        Command::Sleep(span) => rt.sleep(span).await,
    }
    Ok(Done::Nothing)
}

async fn cut<B: Chassis>(rt: &Rt, chassis: &Stats<B>) -> tantalum_power_loss {
    let losses = || chassis.inner().drive().map_or(0, |d| d.power_losses().count);
    let (began, before) = (rt.now(), losses());
    chassis.cut();
    chassis.off().await;
    let mut loss = tantalum_power_loss {
        took_ns: rt.now().saturating_sub(began).0,
        dump_complete: 1,
        ..Default::default()
    };
    // Without protection nothing is dumped, and the outcome has no figures.
    if losses() > before
        && let Some(of_drive) = chassis.inner().drive().and_then(Drive::last_power_loss)
    {
        loss.took_ns = of_drive.took.0;
        loss.dump_complete = of_drive.complete.into();
        loss.budget_j = of_drive.budget_j;
        loss.spent_j = of_drive.spent_j;
        loss.missing_j = of_drive.missing_j;
    }
    loss
}

async fn start<B: Chassis>(
    chassis: &Stats<B>,
    salvage: bool,
) -> Result<tantalum_recovery, Failure> {
    let drive = chassis.inner().drive();
    let started = match (salvage, drive) {
        (false, _) => chassis.power_on().await,
        (true, Some(drive)) => drive.salvage().await,
        (true, None) => {
            return Err(Failure::new(TANTALUM_ENOTSUP, "a RAM drive has nothing to salvage"));
        }
    };
    if let Err(error) = started {
        return Err(match drive.and_then(Drive::last_failure) {
            Some(why) => does_not_start(&why),
            None => error.into(),
        });
    }
    Ok(chassis.inner().last_recovery())
}

fn does_not_start(why: &RecoveryError) -> Failure {
    match why {
        RecoveryError::DumpLost { .. } => {
            Failure::new(TANTALUM_EDUMP, format!("the drive does not start: {why}; salvage it"))
        }
        _ => Failure::new(TANTALUM_EFAILED, format!("the drive does not start: {why}")),
    }
}

fn recovery(report: RecoveryReport) -> tantalum_recovery {
    let RecoveryReport { total, whole, blank, salvaged, find, scan, map_load, dump_replay, .. } =
        report;
    tantalum_recovery {
        ready_ns: total.0,
        whole_ns: whole.0,
        blank: blank.into(),
        salvaged: salvaged.into(),
        find_ns: find.0,
        dump_ns: dump_replay.0,
        scan_ns: scan.0,
        map_ns: map_load.0,
        dump_pages: report.dump_pages,
        dump_entries: report.dump_entries,
        map_pages: report.map_pages,
        map_deltas: report.deltas,
        ..Default::default()
    }
}
