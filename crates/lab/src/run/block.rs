//! A row of a block job or a recorded trace: it runs on the bare device, the power is cut
//! under it, and after each restart every block is compared with what the device promised.
//!
//! 1. What a job did counts from the end of the warm-up to the cut: its own commands, not
//!    what the file system of its host adds.
//! 2. A load that ends early is measured up to that moment, and no cut follows.
//! 3. After a cut a job begins anew; a trace goes on behind the requests that were issued.
//! 4. The oracle watches the host's side of the device: buffered writes count as acknowledged when
//!    the page cache has them, and as promised after an fsync. A cut takes the cache, too.
//! 5. A write refused for want of space does not count as done. The load goes on. Refused writes of
//!    warm-ups are counted, too.

use crate::report::RowFindings;
use crate::run::cache::{self, DriveWork};
use crate::run::clocks::{Clocked, Clocks};
use crate::run::row::{RowBox, RowError, RowPlan, Traffic, draw, in_runtime, prepare};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{BlockDevice, CommandKind, IoError};
use tantalum_oracle::shadow::Witness;
use tantalum_rt::{Cancelled, First, Join, Nanos, Rt, Stream, first};
use tantalum_workload::jobs::{self, Host, Job, JobError};
use tantalum_workload::pages::CacheCounts;
use tantalum_workload::replay::{Ended, Open, Player, Playing, ReplayError};

/// What runs on the device.
enum Load {
    Job(Box<Job>),
    Trace(Player),
}

/// Runs a row of `job` on what `subject` makes, in a runtime of its own. `cut` is called
/// after each cut and check. The findings are those up to the error, if there is one.
pub fn run<S: RowBox>(
    seed: u64,
    plan: RowPlan,
    job: Job,
    subject: impl FnOnce(&Rt) -> Result<S, RowError>,
    cut: impl Fn() + 'static,
) -> (RowFindings, Result<(), RowError>) {
    run_load(seed, plan, |_| Ok(Load::Job(Box::new(job))), subject, cut)
}

/// The same for a trace that `open` opens.
pub fn replay<S: RowBox>(
    seed: u64,
    plan: RowPlan,
    (how, open): (&Playing, Open),
    subject: impl FnOnce(&Rt) -> Result<S, RowError>,
    cut: impl Fn() + 'static,
) -> (RowFindings, Result<(), RowError>) {
    let player = |rt: &Rt| {
        let player = Player::new(rt, how, open, seed);
        player.map(Load::Trace).map_err(|e| RowError::Job(e.to_string()))
    };
    run_load(seed, plan, player, subject, cut)
}

fn run_load<S: RowBox>(
    seed: u64,
    plan: RowPlan,
    load: impl FnOnce(&Rt) -> Result<Load, RowError>,
    subject: impl FnOnce(&Rt) -> Result<S, RowError>,
    cut: impl Fn() + 'static,
) -> (RowFindings, Result<(), RowError>) {
    let clocks: Rc<RefCell<Clocks>> = Rc::default();
    let shared = clocks.clone();
    let made = |rt: &Rt| Ok((subject(rt)?, load(rt)?));
    let (mut findings, result) = in_runtime(seed, made, |rt, (subject, load), findings| {
        let dice = rt.stream("power cuts");
        let (clocks, cached, cache_drive) = (shared, CacheCounts::default(), DriveWork::default());
        Run { dice, rt, subject, plan, load, findings, clocks, cached, cache_drive }.main(cut)
    });
    clocks.borrow().tell(&mut findings);
    (findings, result)
}

/// While something is measured: when it began, less the load before.
type Measured = Rc<Cell<Option<Nanos>>>;

struct Run<S> {
    rt: Rt,
    subject: S,
    plan: RowPlan,
    load: Load,
    dice: Stream,
    findings: Rc<RefCell<RowFindings>>,
    clocks: Rc<RefCell<Clocks>>,
    /// What its flash cache did while it was measured, and what went to the cache's drive.
    cached: CacheCounts,
    cache_drive: DriveWork,
}

/// The error of a load that may have ended early.
fn failed(ended: First<(), Result<Result<(), String>, Cancelled>>) -> Result<(), RowError> {
    match ended {
        First::A(()) => Ok(()),
        First::B(load) => load.map_err(|_| RowError::Dropped)?.map_err(RowError::Job),
    }
}

impl<S: RowBox> Run<S> {
    async fn main(mut self, cut: impl Fn()) -> Result<(), RowError> {
        let result = self.cycles(cut).await;
        if result.is_err() {
            // How worn they are needs no power.
            self.findings.borrow_mut().look_at(self.subject.drives());
        }
        result
    }

    async fn cycles(&mut self, cut: impl Fn()) -> Result<(), RowError> {
        let drive = |error| RowError::Drive { doing: "starting for the first time", error };
        self.subject.power_on().await.map_err(drive)?;
        prepare(&self.rt, &self.subject, &self.plan, &self.findings).await?;
        let witness = Witness::new(&self.rt, self.subject.device().caps());
        let mut recovery = Clocked::default();
        for number in 1.. {
            if !self.plan.goes_on(&self.findings.borrow()) {
                break;
            }
            let cut_at = self.under_load(&witness, number).await?;
            self.subject.off().await;
            self.findings.borrow_mut().look_at(self.subject.drives());
            self.rt.sleep(draw(&mut self.dice, self.plan.outage)).await;
            let start = self.rt.now();
            let drive = |error| RowError::Drive { doing: "recovering", error };
            self.subject.power_on().await.map_err(drive)?;
            recovery.add(self.rt.now().saturating_sub(start));
            let compared = witness.check(&self.subject.device()).await.map_err(drive)?;
            let mut f = self.findings.borrow_mut();
            f.drive_recovery = recovery.times();
            f.recovery = recovery.times();
            f.commits_lost += compared.lost;
            f.cuts_with_loss += u32::from(compared.lost > 0);
            f.blocks_compared += compared.blocks;
            f.violations += compared.violations;
            for words in compared.words {
                f.problem(format!("cut {number} at {cut_at}: {words}"));
            }
            drop(f);
            cut();
        }
        Ok(())
    }

    /// Runs the job until the cut; when that was.
    async fn under_load(&mut self, witness: &Witness, number: u32) -> Result<Nanos, RowError> {
        let device = self.subject.device();
        let (before, refused) = (witness.acknowledged(), witness.refused());
        let measured: Measured = Rc::default();
        let mut load = match &self.load {
            Load::Job(job) => {
                let seed = self.rt.seed() ^ u64::from(number);
                let watching = witness.clone();
                let watch = move |host| watching.watch(host);
                let done = self.observer(&measured);
                until_cut(&self.rt, device, (**job).clone(), seed, watch, done)
            }
            Load::Trace(player) => self.play(witness.watch(device), player.clone(), &measured),
        };
        let early = first(self.rt.sleep(self.plan.warm_up), &mut load).await;
        failed(early)?;
        // (Load goes on where the last cut ended it.)
        let (start, loaded) = (self.rt.now(), self.findings.borrow().load_ns);
        measured.set(Some(Nanos(start.0.saturating_sub(loaded))));
        let (traffic, cache) = (self.subject.traffic(), self.subject.cache());
        let until_cut = self.rt.sleep(draw(&mut self.dice, self.plan.run_time));
        let early = failed(first(until_cut, &mut load).await);
        let (after, ended_at) = (self.subject.traffic(), self.rt.now());
        let cache_after = self.subject.cache();
        let hang = witness.hang();
        measured.set(None);
        self.findings.borrow_mut().look_before_cut(self.subject.drives());
        if early.is_ok() {
            self.subject.cut();
            witness.cut();
            if let Load::Trace(player) = &self.load {
                player.stop();
            }
        }
        let ended = match early {
            Ok(()) => failed(First::B(load.await)),
            early => early,
        };
        let mut f = self.findings.borrow_mut();
        if let Load::Trace(player) = &self.load {
            f.replay = Some(player.played());
        }
        f.load_ns += ended_at.saturating_sub(start).0;
        f.count_traffic(traffic, after);
        f.commits_acknowledged += witness.acknowledged() - before;
        f.refused += witness.refused() - refused;
        ended?;
        f.cuts += 1;
        drop(f);
        if let (Some(from), Some(to)) = (cache, cache_after) {
            self.count_cache(from, to);
        }
        hang.map_or(Ok(ended_at), |hang| Err(RowError::Hang(hang)))
    }

    /// Adds what the cache did between these two looks at it.
    fn count_cache(&mut self, from: (CacheCounts, Traffic), to: (CacheCounts, Traffic)) {
        let f = &mut *self.findings.borrow_mut();
        self.cached = to.0.since(&from.0).and(&self.cached);
        self.cache_drive = DriveWork::between(&from.1, &to.1).and(&self.cache_drive);
        cache::measures(f, &self.cached, f.transactions);
        self.cache_drive.measures(f);
    }

    /// Counts the commands that end during the measurement, with their time since it began, less
    /// the load before.
    fn observer(&self, measured: &Measured) -> impl Fn(CommandKind, Nanos) + 'static {
        let (rt, measured) = (self.rt.clone(), measured.clone());
        let (findings, clocks) = (self.findings.clone(), self.clocks.clone());
        move |kind, took| {
            let Some(after) = measured.get() else { return };
            if kind == CommandKind::Flush {
                clocks.borrow_mut().add_apart(kind.name(), took);
            } else {
                clocks.borrow_mut().add(kind.name(), took);
                let f = &mut *findings.borrow_mut();
                f.transactions += 1;
                f.series.get_or_insert_default().add(rt.now().saturating_sub(after));
            }
        }
    }

    /// Plays a trace, round and round, until the power goes.
    fn play<D: BlockDevice + Clone + 'static>(
        &self,
        device: D,
        player: Player,
        measured: &Measured,
    ) -> Join<Result<(), String>> {
        let done = Rc::new(self.observer(measured));
        self.rt.spawn("a replayed trace", async move {
            loop {
                let done = done.clone();
                let done = move |kind, took| done(kind, took);
                match player.play(&device, done).await {
                    Ok(Ended::Trace) => {}
                    Ok(Ended::Stopped) => return Ok(()),
                    Err(ReplayError::Io { error: IoError::PowerLost, .. }) => return Ok(()),
                    Err(e) => return Err(e.to_string()),
                }
            }
        })
    }
}

/// Runs a job until the power goes; what failed before, in words. A job that is over before
/// that begins anew. Its commands go through what `watch` makes of the host's side of the device.
/// `done` hears of each command and fsync that was completed.
pub(crate) fn until_cut<D, W>(
    rt: &Rt,
    device: D,
    job: Job,
    seed: u64,
    watch: impl Fn(Host<D>) -> W + 'static,
    done: impl Fn(CommandKind, Nanos) + 'static,
) -> Join<Result<(), String>>
where
    D: BlockDevice + Clone + 'static,
    W: BlockDevice + Clone + 'static,
{
    let (on, done) = (rt.clone(), Rc::new(done));
    rt.spawn("a block job", async move {
        loop {
            let done = done.clone();
            let done = move |kind, took| done(kind, took);
            match jobs::run_watched(&on, &device, &job, seed, &watch, done).await {
                Ok(_) => {}
                Err(JobError::Io { error: IoError::PowerLost, .. }) => return Ok(()),
                Err(e) => return Err(e.to_string()),
            }
        }
    })
}
