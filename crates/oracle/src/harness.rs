//! Random work on a box with a plug, with power cuts at random times, checked against its promises.
//!
//! 1. The run is decided by seed, plan and box: the same three give the same run.
//! 2. Each round: power on (cut again meanwhile, if the plan says so), check all
//!    that survived, work, cut. A last recovery and check end the run.
//! 3. A box that keeps the contract is never accused.

use crate::{Host, Oracle, Violation};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, Durability, IoError, PowerCycle,
};
use tantalum_rt::{First, Nanos, Rt, RunError, Runtime, Stream, first};

/// When the power is cut in a round, counted from its first command.
#[derive(Clone, Copy, Debug)]
pub enum CutAt {
    /// At this time.
    Time(Nanos),
    /// At a random time up to this.
    Within(Nanos),
    /// When all commands of the round have ended.
    End,
}

/// How often a kind of command comes, relative to the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Plain writes.
    pub write: u64,
    /// Writes with forced unit access.
    pub fua: u64,
    /// Atomic groups, if the device has them.
    #[serde(default)]
    pub group: u64,
    /// Flushes.
    pub flush: u64,
    /// Discards.
    pub discard: u64,
    /// Reads.
    pub read: u64,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { write: 50, fua: 5, group: 10, flush: 5, discard: 5, read: 25 }
    }
}

/// What to do to a box.
///
/// See [`crash_run`] for an example.
#[derive(Clone, Copy, Debug)]
pub struct CrashPlan {
    /// Rounds of work and cut.
    pub rounds: u32,
    /// Commands in flight at a time.
    pub depth: u32,
    /// Commands in a round, at most.
    pub commands: u32,
    /// Blocks in a command, at most.
    pub max_blocks: u64,
    /// Only the first so many blocks are used. A small range makes commands overlap. The other
    /// blocks must not change.
    pub range: u64,
    /// Which commands.
    pub mix: Mix,
    /// One of so many commands is given up by its host while it waits; 0: none.
    pub give_up: u64,
    /// Pauses between two commands of a task last up to this.
    pub think: Nanos,
    /// When to cut.
    pub cut: CutAt,
    /// Cuts while the box starts, in each round, at most.
    pub restarts: u32,
    /// Those cuts come up to this long after the start began.
    pub restart_within: Nanos,
}

impl Default for CrashPlan {
    fn default() -> CrashPlan {
        CrashPlan {
            rounds: 10,
            depth: 8,
            commands: 200,
            max_blocks: 8,
            range: u64::MAX,
            mix: Mix::default(),
            give_up: 50,
            think: Nanos::ZERO,
            cut: CutAt::Within(Nanos::from_millis(5)),
            restarts: 2,
            restart_within: Nanos::from_millis(2),
        }
    }
}

/// What a run came to.
///
/// See [`crash_run`] for an example.
#[derive(Clone, Debug)]
pub struct CrashReport {
    /// The run's seed.
    pub seed: u64,
    /// Breaches of the contract, with the number of the recovery after which they
    /// were seen. The run ends with the first such recovery: what came later might
    /// only follow from them.
    pub violations: Vec<(u32, Violation)>,
    /// Why the box did not start, if it did not. The run ends there.
    pub start_error: Option<IoError>,
    /// Power cuts, those during a start included.
    pub cuts: u64,
    /// Of those, cuts that came before a start had ended.
    pub cut_starts: u64,
    /// Recoveries that were checked.
    pub checks: u64,
    /// Commands that succeeded.
    pub succeeded: u64,
    /// Commands that the cut ended.
    pub interrupted: u64,
    /// Commands that failed otherwise, or were given up.
    pub failed: u64,
    /// The hash of all that happened.
    pub trace_hash: u64,
}

impl CrashReport {
    /// Whether nothing was found wrong.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.start_error.is_none()
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} cuts ({} during a start), {} checks, {} commands succeeded, {} interrupted, {} failed; {} violations",
            self.seed,
            self.cuts,
            self.cut_starts,
            self.checks,
            self.succeeded,
            self.interrupted,
            self.failed,
            self.violations.len()
        )?;
        if let Some(e) = &self.start_error {
            write!(f, "\n  the box did not start: {e}")?;
        }
        for (round, v) in self.violations.iter().take(8) {
            write!(f, "\n  after recovery {round}: {v}")?;
        }
        Ok(())
    }
}

/// Runs `plan` with this seed on the box that `make` makes. The box starts with its
/// power on or off, and holds zeros only.
///
/// # Errors
/// [`RunError`] if the run came to a standstill.
///
/// ```
/// use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
/// use tantalum_oracle::harness::{CrashPlan, crash_run};
///
/// let caps = Caps::power_safe(64, Payload::Stamps);
/// let plan = CrashPlan { rounds: 5, ..CrashPlan::default() };
/// let report = crash_run(1, &plan, |rt| RamDevice::new(rt, RamOptions::new(caps))).unwrap();
/// assert!(report.is_clean() && report.cuts >= 5, "{report}");
/// ```
pub fn crash_run<B: PowerCycle + 'static>(
    seed: u64,
    plan: &CrashPlan,
    make: impl FnOnce(&Rt) -> B,
) -> Result<CrashReport, RunError> {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let target = Rc::new(make(&rt));
    runtime.block_on(torture(rt, target, *plan))
}

/// The same on a runtime and a box that are there already. `target` must hold zeros
/// only.
pub async fn torture<B: PowerCycle + 'static>(
    rt: Rt,
    target: Rc<B>,
    plan: CrashPlan,
) -> CrashReport {
    let mut run = Run {
        report: CrashReport {
            seed: rt.seed(),
            violations: Vec::new(),
            start_error: None,
            cuts: 0,
            cut_starts: 0,
            checks: 0,
            succeeded: 0,
            interrupted: 0,
            failed: 0,
            trace_hash: 0,
        },
        dice: rt.stream("crash"),
        rt,
        target,
        plan,
        oracle: None,
    };
    for round in 0..=plan.rounds {
        if let Err(e) = run.recover(round).await {
            run.report.start_error = Some(e);
            break;
        }
        if !run.report.violations.is_empty() {
            break;
        }
        if round < plan.rounds {
            run.work(round).await;
            run.target.cut();
            run.report.cuts += 1;
        }
    }
    run.report.trace_hash = run.rt.trace_hash();
    run.report
}

struct Run<B> {
    rt: Rt,
    target: Rc<B>,
    plan: CrashPlan,
    dice: Stream,
    oracle: Option<Oracle>,
    report: CrashReport,
}

impl<B: PowerCycle + 'static> Run<B> {
    /// Brings the box back, with cuts on the way, and checks what it holds.
    async fn recover(&mut self, round: u32) -> Result<(), IoError> {
        if self.plan.restarts > 0 && round > 0 {
            for _ in 0..self.dice.below(u64::from(self.plan.restarts) + 1) {
                self.target.off().await;
                let target = self.target.clone();
                let start = self.rt.spawn("a start", async move { target.power_on().await });
                let after = Nanos(self.dice.below(self.plan.restart_within.0 + 1));
                self.rt.sleep(after).await;
                self.target.cut();
                self.report.cuts += 1;
                match start.await {
                    Ok(Ok(())) => {}
                    Ok(Err(IoError::PowerLost)) | Err(_) => self.report.cut_starts += 1,
                    Ok(Err(e)) => return Err(e),
                }
            }
        }
        if round > 0 {
            self.target.off().await;
        }
        self.target.power_on().await?;
        let device = self.target.device();
        let oracle = self.oracle.get_or_insert_with(|| Oracle::new(device.caps()));
        let found = oracle.check(&device).await?;
        self.report.violations.extend(found.into_iter().map(|v| (round, v)));
        self.report.checks += 1;
        Ok(())
    }

    /// Sends the commands of one round, until the cut.
    async fn work(&mut self, round: u32) {
        let Some(oracle) = &self.oracle else { return };
        let host = oracle.host(self.target.device());
        let budget =
            Rc::new(RefCell::new(Budget { commands: self.plan.commands, ..Budget::default() }));
        let tasks: Vec<_> = (0..self.plan.depth)
            .map(|t| {
                let worker = Worker {
                    rt: self.rt.clone(),
                    host: host.clone(),
                    plan: self.plan,
                    caps: *oracle.caps(),
                    dice: self.rt.stream(&format!("crash round {round} task {t}")),
                    budget: budget.clone(),
                };
                self.rt.spawn("a host of the crash run", worker.run())
            })
            .collect();
        match self.plan.cut {
            CutAt::Time(t) => self.rt.sleep(t).await,
            CutAt::Within(Nanos(t)) => self.rt.sleep(Nanos(self.dice.below(t + 1))).await,
            CutAt::End => {}
        }
        if !matches!(self.plan.cut, CutAt::End) {
            self.target.cut();
        }
        for task in tasks {
            // Never cancelled: it belongs to no power domain.
            let _ = task.await;
        }
        let budget = budget.borrow();
        self.report.succeeded += budget.succeeded;
        self.report.interrupted += budget.interrupted;
        self.report.failed += budget.failed;
    }
}

#[derive(Default)]
struct Budget {
    commands: u32,
    succeeded: u64,
    interrupted: u64,
    failed: u64,
}

/// One of the tasks that send commands.
struct Worker<D> {
    rt: Rt,
    host: Host<D>,
    plan: CrashPlan,
    caps: Caps,
    dice: Stream,
    budget: Rc<RefCell<Budget>>,
}

enum Ended {
    Well,
    PowerLost,
    Badly,
}

impl<D: BlockDevice> Worker<D> {
    async fn run(mut self) {
        loop {
            {
                let mut budget = self.budget.borrow_mut();
                if budget.commands == 0 {
                    return;
                }
                budget.commands -= 1;
            }
            let ended = self.command().await;
            {
                let mut budget = self.budget.borrow_mut();
                match ended {
                    Ended::Well => budget.succeeded += 1,
                    Ended::PowerLost => budget.interrupted += 1,
                    Ended::Badly => budget.failed += 1,
                }
            }
            if matches!(ended, Ended::PowerLost) {
                return;
            }
            if self.plan.think > Nanos::ZERO {
                self.rt.sleep(Nanos(self.dice.below(self.plan.think.0 + 1))).await;
            }
        }
    }

    fn blocks(&mut self, at_most: u64) -> Blocks {
        let range = self.plan.range.min(self.caps.blocks).max(1);
        let count = self.dice.range(1, at_most.clamp(1, range) + 1);
        Blocks { start: Block(self.dice.below(range - count + 1)), count }
    }

    /// Extents that do not overlap, mostly within the limit; now and then beyond it.
    fn group(&mut self) -> Vec<Blocks> {
        let Some(limit) = self.caps.atomic_group else { return Vec::new() };
        let most = limit.bytes / u64::from(self.caps.block_size);
        let extents = self.dice.range(1, u64::from(limit.extents).min(4) + 2);
        let mut group: Vec<Blocks> = Vec::new();
        let mut blocks = 0;
        for _ in 0..extents {
            let b = self.blocks((most / 2).min(self.plan.max_blocks));
            let apart =
                |g: &Blocks| g.start.0 + g.count <= b.start.0 || b.start.0 + b.count <= g.start.0;
            let fits = blocks + b.count <= most || self.dice.chance(1, 20);
            if fits && group.iter().all(apart) {
                blocks += b.count;
                group.push(b);
            }
        }
        group
    }

    async fn command(&mut self) -> Ended {
        let mix = self.plan.mix;
        let group = if self.caps.atomic_group.is_some() { mix.group } else { 0 };
        let weights = [mix.write, mix.fua, group, mix.flush, mix.discard, mix.read];
        let mut roll = self.dice.below(weights.iter().sum::<u64>().max(1));
        let mut kind = 0;
        while kind < 5 && roll >= weights[kind] {
            roll -= weights[kind];
            kind += 1;
        }
        let range = self.blocks(self.plan.max_blocks);
        let extents = if kind == 2 { self.group() } else { Vec::new() };
        let give_up = self.plan.give_up > 0 && self.dice.chance(1, self.plan.give_up);
        let patience = give_up.then(|| Nanos(self.dice.below(1_000_000)));
        let host = &self.host;
        let command = async {
            let result = match kind {
                0 => host.write(range, Durability::Normal).await,
                1 => host.write(range, Durability::Fua).await,
                2 => match host.write_atomic(&extents).await {
                    Err(AtomicError::Io(e)) => Err(e),
                    // Refused, as it should be.
                    Ok(()) | Err(_) => Ok(()),
                },
                3 => host.flush().await,
                4 => host.discard(range).await,
                _ => host.read(range).await,
            };
            match result {
                Ok(()) => Ended::Well,
                Err(IoError::PowerLost) => Ended::PowerLost,
                Err(_) => Ended::Badly,
            }
        };
        match patience {
            None => command.await,
            Some(patience) => give_up_after(&self.rt, patience, command).await,
        }
    }
}

/// Drops `command` if it takes longer than `patience`.
async fn give_up_after(rt: &Rt, patience: Nanos, command: impl Future<Output = Ended>) -> Ended {
    match first(command, rt.sleep(patience)).await {
        First::A(ended) => ended,
        First::B(()) => Ended::Badly,
    }
}
