//! A candidate under load: how fast it is, and how long it takes to start after power cuts.
//!
//! 1. What is measured is whole rounds of its journal, where the design has one: from a restart,
//!    which leaves an empty journal, to the end of a checkpoint.
//! 2. The power is cut when a restart has as much to read as at any time before.
//! 3. All candidates get the same commands, from the same seed.

use crate::run::block;
use crate::run::precondition::{Precondition, Preparation};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{CommandKind, IoError, PowerCycle};
use tantalum_drive::{Design, Drive, DriveStats};
use tantalum_explore::AnyBox;
use tantalum_rt::{Nanos, Rt, Runtime};
use tantalum_workload::jobs::Job;

/// Between two looks at a drive under load.
const LOOK: Nanos = Nanos::from_millis(1);
/// Without power.
const OUTAGE: Nanos = Nanos::from_millis(10);
/// A load without any program for so long is an error.
const PATIENCE: Nanos = Nanos::from_secs(60);
/// The share of the largest backlog at which the power goes.
const FULL: f64 = 0.97;

/// What every candidate goes through.
#[derive(Clone, Debug)]
pub(super) struct Load {
    /// What runs.
    pub job: Job,
    /// What comes before it.
    pub precondition: Option<Precondition>,
    /// Of all randomness.
    pub seed: u64,
    /// Power cuts.
    pub cuts: u32,
    /// As much is programmed while it is measured as all dies can program in this time.
    pub measured: Nanos,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trial {
    /// Commands in a second.
    pub rate: f64,
    /// The longest restart.
    pub recovery: Nanos,
}

impl Load {
    /// Puts a drive of this design under it.
    ///
    /// # Errors
    /// What failed, in a line.
    pub fn on(&self, design: &Design) -> Result<Trial, String> {
        let mut runtime = Runtime::virtual_time(self.seed);
        let rt = runtime.handle();
        let drive = Drive::new(&rt, design, design.payload()).map_err(|e| e.to_string())?;
        let done = runtime.block_on(self.clone().run(rt, drive)).map_err(|e| e.to_string())?;
        let drained = runtime.drain().map_err(|e| e.to_string());
        done.and_then(|trial| drained.map(|()| trial))
    }

    async fn run(self, rt: Rt, drive: Drive) -> Result<Trial, String> {
        let subject = AnyBox::Ssd(drive.clone());
        let told = |doing: &str, e: IoError| format!("{doing}: {e}");
        subject.power_on().await.map_err(|e| told("starting for the first time", e))?;
        if let Some(how) = self.precondition.clone() {
            let preparation =
                Preparation { how, job: Some(self.job.clone()), tell: Rc::new(|_| ()) };
            preparation.carry_out(&rt, &subject).await.map_err(|e| e.to_string())?;
        }
        let (mut commands, mut time, mut recovery) = (0, Nanos::ZERO, Nanos::ZERO);
        for number in 1..=self.cuts {
            let completed: Rc<Cell<u64>> = Rc::default();
            let counter = completed.clone();
            let count =
                move |kind, _| counter.set(counter.get() + u64::from(kind != CommandKind::Flush));
            let seed = self.seed ^ u64::from(number);
            let (device, job) = (subject.device(), self.job.clone());
            let load = block::until_cut(&rt, device, job, seed, |host| host, count);
            let watched = self.watch(&rt, &drive, &completed).await;
            subject.cut();
            load.await.map_err(|_| "the job was dropped".to_string())??;
            let (of_load, took) = watched?;
            (commands, time) = (commands + of_load, time + took);
            subject.off().await;
            rt.sleep(OUTAGE).await;
            let start = rt.now();
            subject.power_on().await.map_err(|e| told("recovering", e))?;
            recovery = recovery.max(rt.now() - start);
        }
        if drive.power_losses().incomplete > 0 {
            return Err("an emergency dump was not complete".into());
        }
        Ok(Trial { rate: commands as f64 / time.as_secs_f64().max(1e-9), recovery })
    }

    /// Waits until it is time for the cut; commands while it was measured, and how long that was.
    async fn watch(
        &self,
        rt: &Rt,
        drive: &Drive,
        completed: &Cell<u64>,
    ) -> Result<(u64, Nanos), String> {
        let design = drive.design();
        let g = &design.geometry;
        let row = u64::from(g.page_bytes) * u64::from(g.planes);
        let at_once = u64::from(g.dies()) * row;
        let program = Nanos::from_micros(design.timing.program_us.max(1));
        let measured = at_once * (self.measured.0 / program.0).max(1);
        // Of a journal of units: what is written between two checkpoints at most.
        let round = match design.keeps_units() {
            true => {
                let m = &design.map;
                let unit = row * u64::from(g.pages);
                let full = if m.elastic { u32::MAX } else { m.journal_entries / 2 };
                u64::from(m.journal_ranges.min(full)) * unit
            }
            false => 0,
        };
        let mut look = Look { rt, drive, most: 0, last: rt.now(), programmed: 0 };
        let programmed = |s: &DriveStats| s.flash_program_bytes;
        let warm = programmed(&drive.stats()) + measured / 16;
        let mut began = drive.stats();
        while programmed(&began) < warm {
            began = look.next().await?;
        }
        // (A restart leaves an empty journal: a round has just begun.)
        let (at, before) = (rt.now(), completed.get());
        let enough = programmed(&began) + measured;
        let limit = enough + 2 * round;
        let mut now = began;
        loop {
            let then = std::mem::replace(&mut now, look.next().await?);
            let whole = round == 0 || now.checkpoints > then.checkpoints;
            if programmed(&now) >= enough && whole || programmed(&now) >= limit {
                break;
            }
        }
        let measured = (completed.get() - before, rt.now() - at);
        let limit = programmed(&now) + (limit - programmed(&began));
        let is_full = |look: &Look<'_>| f64::from(drive.backlog().1) >= FULL * f64::from(look.most);
        while !is_full(&look) && programmed(&now) < limit {
            now = look.next().await?;
        }
        Ok(measured)
    }
}

/// Looks at a drive under load, now and then.
struct Look<'a> {
    rt: &'a Rt,
    drive: &'a Drive,
    /// The largest backlog so far.
    most: u32,
    /// When something was programmed last, and how much by then.
    last: Nanos,
    programmed: u64,
}

impl Look<'_> {
    async fn next(&mut self) -> Result<DriveStats, String> {
        self.rt.sleep(LOOK).await;
        self.most = self.most.max(self.drive.backlog().1);
        let stats = self.drive.stats();
        if stats.flash_program_bytes != self.programmed {
            (self.last, self.programmed) = (self.rt.now(), stats.flash_program_bytes);
        } else if self.rt.now() - self.last > PATIENCE {
            return Err(format!("nothing was programmed for {PATIENCE}: the job does not write"));
        }
        Ok(stats)
    }
}
