//! One row of an experiment: load a database on a drive, then run clients, cut the
//! power under load, recover, judge, and go on, as often as asked.
//!
//! # Invariants
//!
//! 1. A commit counts as acknowledged when the client's COMMIT returned without
//!    error, and as lost when the ledger that a recovered database shows does not
//!    contain it. A commit in flight at the cut may be there or not.
//! 2. Only the drive and the database decide what is there after a cut: the judge opens the
//!    database as any program would, and reads.
//! 3. Load, latency and traffic are measured from the start of the clients to the
//!    cut: outages, recoveries and checks are outside.
//! 4. After a damaged database the row goes on from the image of the loaded one.
//! 5. A database that has no room any more ends the row, after one more power cut and check. On a
//!    thin drive that is no error: it promised too much.
//! 6. A violation is what breaks the promise of drive and settings ([`Promise`]), and every
//!    block that holds what the drive must not hold; what was not promised may be lost.

use crate::report::figures::Counts;
use crate::report::{CUTS_TO_SHOW_LOSS, RowFindings};
use crate::run::clocks::{Clocked, Clocks};
use crate::run::judge::{self, Balance, Verdict};
use crate::run::precondition::{PreconditionError, Preparation};
use crate::run::promise::Promise;
use crate::run::sqlite::{Engine, Settings};
use crate::run::turn::{self, Books, Stop};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError, PowerCycle, counted};
use tantalum_drive::Drive;
use tantalum_files::FilesError;
use tantalum_oracle::patience::Hang;
use tantalum_oracle::shadow::{Comparison, Shadow, Witness};
use tantalum_rt::{Nanos, Rt, RunError, Runtime, Stream, first};
use tantalum_workload::database::{self, Benchmark, Client, StepError};
use tantalum_workload::pages::CacheCounts;
use tantalum_workload::sql::{SqlError, SqlErrorKind};

/// So many lost commits, in words.
pub fn gone(commits: u64) -> String {
    counted(commits, "acknowledged commit is gone", "acknowledged commits are gone")
}

/// Bytes that have gone to a drive, and from its firmware to flash, so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Bytes that the host wrote.
    pub host_bytes: u64,
    /// Bytes programmed into flash, if the device has any.
    pub flash_bytes: Option<u64>,
    /// How long at least one command was under way, where that is measured.
    pub busy: Nanos,
    /// Bytes of the commands that read and wrote, where that is measured.
    pub moved_bytes: u64,
    /// What its SSDs count beside that.
    pub counts: Counts,
}

/// A drive that an experiment can run on.
pub trait RowBox: PowerCycle + Clone + 'static {
    /// What has been written so far.
    fn traffic(&self) -> Traffic;

    /// The software SSDs that it consists of.
    fn drives(&self) -> &[Drive] {
        &[]
    }

    /// What its flash cache did since the start, and what went to the cache's drive so far; `None`:
    /// it has none, or no power.
    fn cache(&self) -> Option<(CacheCounts, Traffic)> {
        None
    }
}

/// How a row runs.
#[derive(Clone)]
pub struct RowPlan {
    /// Power cuts to make.
    pub cuts: u32,
    /// Whether it is cut further, up to [`CUTS_TO_SHOW_LOSS`] times, as long as nothing is lost.
    pub until_loss: bool,
    /// Clients.
    pub clients: u32,
    /// Time under load before the measurement begins, after each start (block jobs).
    pub warm_up: Nanos,
    /// Bounds of the time under load before a cut.
    pub run_time: [Nanos; 2],
    /// Bounds of the time without power.
    pub outage: [Nanos; 2],
    /// In so many of a hundred recoveries the power goes again.
    pub recovery_cut_percent: u32,
    /// The database's settings.
    pub settings: Settings,
    /// What comes before anything else.
    pub preparation: Option<Preparation>,
    /// Is told how much of the drive of a flash cache has been prepared.
    pub tell: Rc<dyn Fn(f64)>,
}

impl RowPlan {
    /// Whether there is to be another cut, after all of this.
    pub(crate) fn goes_on(&self, so_far: &RowFindings) -> bool {
        let searches = self.until_loss && !so_far.lost_anything();
        so_far.cuts < self.cuts || (searches && so_far.cuts < CUTS_TO_SHOW_LOSS)
    }
}

/// Why a row ended early.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// The drive failed with the power on.
    #[error("the drive failed while {doing}: {error}")]
    Drive {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        error: IoError,
    },
    /// The drive could not be preconditioned.
    #[error(transparent)]
    Precondition(#[from] PreconditionError),
    /// The file layer failed with the power on.
    #[error("the files failed while {doing}: {error}")]
    Files {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        error: FilesError,
    },
    /// The database failed with the power on.
    #[error("the database failed while {doing}: {error}")]
    Sql {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        error: SqlError,
    },
    /// The drive answered no more while the row was under load.
    #[error("{0}")]
    Hang(Hang),
    /// The runtime found that the run could not go on.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A task of the row was dropped before its end: a bug of the experiment.
    #[error("a client was dropped before its end")]
    Dropped,
    /// The drive cannot be built.
    #[error("the design cannot be built: {0}")]
    Design(String),
    /// The block job failed with the power on.
    #[error("{0}")]
    Job(String),
    /// The drive or the database gave up with a panic.
    #[error("panicked: {0}")]
    Panic(String),
}

/// Runs a row on what `subject` makes, in a runtime of its own. `cut` is called
/// after each cut and recovery. The findings are those up to the error, if there is one.
pub fn run<S: RowBox>(
    seed: u64,
    plan: RowPlan,
    benchmark: Rc<dyn Benchmark>,
    subject: impl FnOnce(&Rt) -> Result<S, RowError>,
    cut: impl Fn() + 'static,
) -> (RowFindings, Result<(), RowError>) {
    let latency: Rc<RefCell<Clocks>> = Rc::default();
    let shared = latency.clone();
    let (mut findings, result) = in_runtime(seed, subject, |rt, subject, findings| {
        let clients = (0..plan.clients).map(|id| Client::new(seed, id)).collect();
        let run = Run {
            subject,
            dice: rt.stream("power cuts"),
            latency: shared,
            findings,
            rt,
            plan,
            benchmark,
            clients,
            witness: None,
            cut_at: Nanos::ZERO,
        };
        run.main(cut)
    });
    latency.take().tell(&mut findings);
    (findings, result)
}

/// Runs `main` on what `subject` makes, in a runtime of its own. The findings are those up
/// to the error, if there is one.
pub(crate) fn in_runtime<S, M: Future<Output = Result<(), RowError>> + 'static>(
    seed: u64,
    subject: impl FnOnce(&Rt) -> Result<S, RowError>,
    main: impl FnOnce(Rt, S, Rc<RefCell<RowFindings>>) -> M,
) -> (RowFindings, Result<(), RowError>) {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let subject = match subject(&rt) {
        Ok(subject) => subject,
        Err(e) => return (RowFindings::default(), Err(e)),
    };
    let findings = Rc::new(RefCell::new(RowFindings::default()));
    let main = main(rt.clone(), subject, findings.clone());
    let result = runtime.block_on(main).map_err(RowError::from).and_then(|result| result);
    // What still runs in the drive must be able to end.
    let result = result.and_then(|()| runtime.drain().map_err(RowError::from));
    drop(runtime);
    let mut findings = findings.take();
    findings.trace_hash = rt.trace_hash();
    findings.finish();
    (findings, result)
}

/// Preconditions a drive that is on, if that is planned.
pub(crate) async fn prepare<S: RowBox>(
    rt: &Rt,
    subject: &S,
    plan: &RowPlan,
    findings: &RefCell<RowFindings>,
) -> Result<(), RowError> {
    if let Some(preparation) = &plan.preparation {
        let done = preparation.carry_out(rt, subject).await?;
        findings.borrow_mut().preconditioned = Some(done);
    }
    Ok(())
}

struct Run<S: RowBox> {
    rt: Rt,
    subject: S,
    plan: RowPlan,
    benchmark: Rc<dyn Benchmark>,
    dice: Stream,
    clients: Vec<Client>,
    findings: Rc<RefCell<RowFindings>>,
    latency: Rc<RefCell<Clocks>>,
    /// Since the first start.
    witness: Option<Witness>,
    /// When the last cut under load was.
    cut_at: Nanos,
}

type Watched<S> = Shadow<<S as PowerCycle>::Device>;

/// A drive with power, mounted, and what the judge says about the database on it.
struct Recovered<S: RowBox> {
    engine: Engine<Watched<S>>,
    verdict: Verdict,
    drive_time: Nanos,
    /// `None` if the database gave no answer.
    answer_time: Option<Nanos>,
    compared: Comparison,
}

/// How a load ended.
#[derive(Default)]
struct Loaded {
    /// Damage that a client found before the cut. It counts even if it was only in a cache.
    damage: Option<String>,
    /// There was no room for a transaction.
    full: Option<SqlError>,
}

impl Loaded {
    fn damaged(what: &impl std::fmt::Display) -> Loaded {
        Loaded { damage: Some(format!("under load: {what}")), full: None }
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
        let (mut engine, image) = self.load().await?;
        let mut drive_recovery = Clocked::default();
        let mut recovery = Clocked::default();
        while self.plan.goes_on(&self.findings.borrow()) {
            let before: Vec<u64> = self.clients.iter().map(Client::acknowledged).collect();
            let Loaded { damage, full } = self.under_load(engine).await?;
            let mut recovered = self.recover().await?;
            recovered.verdict.damage.extend(damage);
            engine = recovered.engine;
            drive_recovery.add(recovered.drive_time);
            if let Some(time) = recovered.answer_time {
                recovery.add(time);
            }
            let sound = self.account(&before, recovered.verdict, recovered.compared);
            if !sound && full.is_none() {
                engine = self.start_over(engine, &image).await?;
            }
            let mut findings = self.findings.borrow_mut();
            findings.drive_recovery = drive_recovery.times();
            findings.recovery = recovery.times();
            findings.full = full.is_some();
            drop(findings);
            cut();
            match full {
                Some(_) if self.subject.device().caps().thin => break,
                Some(error) => return Err(RowError::Sql { doing: "running a client", error }),
                None => {}
            }
        }
        Ok(())
    }

    /// The drive, under the eyes of the witness.
    fn device(&self) -> Watched<S> {
        let witness = self.witness.as_ref().expect("there since the first start");
        witness.watch(self.subject.device())
    }

    /// A fresh drive with a loaded database, and the image of that.
    async fn load(&mut self) -> Result<(Engine<Watched<S>>, Rc<Vec<u8>>), RowError> {
        let drive = |error| RowError::Drive { doing: "starting for the first time", error };
        let files = |error| RowError::Files { doing: "loading the database", error };
        self.subject.power_on().await.map_err(drive)?;
        prepare(&self.rt, &self.subject, &self.plan, &self.findings).await?;
        self.witness = Some(Witness::new(&self.rt, self.subject.device().caps()));
        let device = self.device();
        let engine = Engine::format(&self.rt, device, &self.plan.settings).await.map_err(files)?;
        let (benchmark, clients) = (self.benchmark.clone(), self.plan.clients);
        let loaded =
            engine.guest("loader".into(), move |sql| database::load(&*benchmark, sql, clients));
        let sql = |error| RowError::Sql { doing: "loading", error };
        loaded.await.map_err(|_| RowError::Dropped)?.and_then(|r| r).map_err(sql)?;
        let image = engine.save().await.map_err(files)?;
        Ok((engine, Rc::new(image)))
    }

    /// Where its clients write down what they do.
    fn books(&self) -> Books {
        Books {
            rt: self.rt.clone(),
            benchmark: self.benchmark.clone(),
            latency: self.latency.clone(),
            findings: self.findings.clone(),
        }
    }

    /// Runs the clients, cuts the power under them, and waits out the outage.
    async fn under_load(&mut self, engine: Engine<Watched<S>>) -> Result<Loaded, RowError> {
        let stop = Rc::new(Stop::new(&self.rt));
        let refused = self.witness.as_ref().map_or(0, Witness::refused);
        let traffic = self.subject.traffic();
        let start = self.rt.now();
        let turns: Vec<_> = std::mem::take(&mut self.clients)
            .into_iter()
            .map(|client| turn::start(&engine, client, self.books(), stop.clone()))
            .collect();
        let until_cut = draw(&mut self.dice, self.plan.run_time);
        // (What a failure ends is measured up to it.)
        first(self.rt.sleep(until_cut), stop.early()).await;
        let after = self.subject.traffic();
        let hang = self.witness.as_ref().and_then(Witness::hang);
        self.findings.borrow_mut().look_before_cut(self.subject.drives());
        self.subject.cut();
        self.witness.iter().for_each(Witness::cut);
        stop.set();
        {
            let mut f = self.findings.borrow_mut();
            f.cuts += 1;
            f.load_ns += self.rt.now().saturating_sub(start).0;
            f.count_traffic(traffic, after);
            f.refused += self.witness.as_ref().map_or(0, Witness::refused) - refused;
            self.cut_at = self.rt.now();
        }
        let mut failure = None;
        for turn in turns {
            let end = turn.await.map_err(|_| RowError::Dropped)?;
            let mut f = self.findings.borrow_mut();
            f.transactions += end.operations;
            f.user_bytes += end.user_bytes;
            failure = failure.or(end.error);
            self.clients.push(end.client);
        }
        drop(engine);
        self.subject.off().await;
        self.findings.borrow_mut().look_at(self.subject.drives());
        self.rt.sleep(draw(&mut self.dice, self.plan.outage)).await;
        if let Some(hang) = hang {
            return Err(RowError::Hang(hang));
        }
        match failure {
            Some(StepError::Damaged(what)) => Ok(Loaded::damaged(&what)),
            Some(StepError::Sql(e)) if e.kind == SqlErrorKind::Corrupt => Ok(Loaded::damaged(&e)),
            Some(StepError::Sql(e)) if e.kind == SqlErrorKind::Full => {
                Ok(Loaded { full: Some(e), ..Loaded::default() })
            }
            Some(StepError::Sql(error)) => Err(RowError::Sql { doing: "running a client", error }),
            None => Ok(Loaded::default()),
        }
    }

    /// Restores the power and waits until the database answers; in some of the
    /// recoveries the power goes again meanwhile.
    async fn recover(&mut self) -> Result<Recovered<S>, RowError> {
        loop {
            let again = SecondCut::default();
            let armed = self.dice.chance(self.plan.recovery_cut_percent.into(), 100);
            if armed {
                self.arm(&again);
            }
            let recovered = self.restart(&again, armed).await;
            if !again.fired.get() {
                return recovered;
            }
            self.findings.borrow_mut().cuts_in_recovery += 1;
            self.subject.off().await;
            self.rt.sleep(draw(&mut self.dice, self.plan.outage)).await;
        }
    }

    /// Lets the power go again at a random time, unless the recovery has ended by
    /// then (which it disarms).
    fn arm(&mut self, again: &SecondCut) {
        let usual = self.findings.borrow().recovery.p50_ns.max(1_000_000);
        let after = Nanos(self.dice.below(usual + usual / 4));
        let (rt, subject, again) = (self.rt.clone(), self.subject.clone(), again.clone());
        let witness = self.witness.clone();
        self.rt.spawn_background("second power cut", async move {
            rt.sleep(after).await;
            if !again.disarmed.get() {
                again.fired.set(true);
                subject.cut();
                witness.iter().for_each(Witness::cut);
            }
        });
    }

    /// Restores the power, compares every block (unless the power may go again: that is for
    /// drive and database), and waits until the database answers.
    async fn restart(&self, again: &SecondCut, armed: bool) -> Result<Recovered<S>, RowError> {
        let mut start = self.rt.now();
        let drive = |error| RowError::Drive { doing: "recovering", error };
        self.subject.power_on().await.map_err(drive)?;
        let drive_time = self.rt.now().saturating_sub(start);
        let device = self.device();
        let mut compared = Comparison::default();
        if let (Some(witness), false) = (&self.witness, armed) {
            let began = self.rt.now();
            compared = witness.check(&self.subject.device()).await.map_err(drive)?;
            // The comparison is no part of the recovery.
            start += self.rt.now().saturating_sub(began);
        }
        let mounted = Engine::mount(&self.rt, device.clone(), &self.plan.settings).await;
        let engine = match mounted {
            Ok(engine) => engine,
            Err(_) if again.fired.get() => return Err(RowError::Dropped),
            Err(e) => {
                again.disarmed.set(true);
                let verdict = Verdict::unreadable(format!("the files cannot be mounted: {e}"));
                let files = |error| RowError::Files { doing: "formatting anew", error };
                let engine =
                    Engine::format(&self.rt, device, &self.plan.settings).await.map_err(files)?;
                let answer_time = None;
                return Ok(Recovered { engine, verdict, drive_time, answer_time, compared });
            }
        };
        let (rt, benchmark) = (self.rt.clone(), self.benchmark.clone());
        let answer = Rc::new(Cell::new(None));
        let (answered, disarm) = (answer.clone(), again.clone());
        let judged = engine.guest("judge".into(), move |sql| {
            judge::examine(sql, &*benchmark, || {
                disarm.disarmed.set(true);
                answered.set(Some(rt.now().saturating_sub(start)));
            })
        });
        let verdict = match judged.await.map_err(|_| RowError::Dropped)? {
            Ok(verdict) => verdict,
            Err(e) => Verdict::unreadable(format!("the database cannot be opened: {e}")),
        };
        again.disarmed.set(true);
        let answer_time = answer.get();
        Ok(Recovered { engine, verdict, drive_time, answer_time, compared })
    }

    /// Books what the judge found; gives whether the database is sound.
    fn account(&mut self, before: &[u64], verdict: Verdict, compared: Comparison) -> bool {
        let settings = &self.plan.settings;
        let promise =
            Promise::of(self.subject.device().caps(), settings.journal, settings.synchronous);
        let acknowledged: Vec<u64> = self.clients.iter().map(Client::acknowledged).collect();
        let mut f = self.findings.borrow_mut();
        let cut = format!("{} at {}", f.cuts, self.cut_at);
        f.blocks_compared += compared.blocks;
        f.violations += compared.violations;
        for words in &compared.words {
            f.problem(format!("cut {cut}: {words}"));
        }
        let balance = match &verdict.ledger {
            Some(ledger) => judge::balance(&acknowledged, ledger),
            None => Balance {
                lost: acknowledged.iter().sum::<u64>() - before.iter().sum::<u64>(),
                ahead: 0,
            },
        };
        if balance.lost > 0 {
            f.commits_lost += balance.lost;
            f.violations += if promise.commits { balance.lost } else { 0 };
            f.cuts_with_loss += 1;
            f.problem(format!("cut {cut}: {}", gone(balance.lost)));
        }
        // (The ledger of a damaged database may say anything.)
        if balance.ahead > 0 && verdict.damage.is_empty() {
            f.ledger_ahead += balance.ahead;
            let clients = counted(balance.ahead, "client", "clients");
            f.problem(format!("cut {cut}: the ledger is ahead of {clients}"));
        }
        if !verdict.damage.is_empty() {
            f.databases_corrupt += 1;
            f.violations += u64::from(promise.sound);
            for what in &verdict.damage {
                f.problem(format!("cut {cut}: {what}"));
            }
            return false;
        }
        for (id, found) in verdict.ledger.iter().flatten() {
            if let Some(client) = self.clients.get_mut(*id as usize) {
                client.resume(*found);
            }
        }
        true
    }

    /// Puts the image of the loaded database in the place of a damaged one.
    async fn start_over(
        &mut self,
        damaged: Engine<Watched<S>>,
        image: &[u8],
    ) -> Result<Engine<Watched<S>>, RowError> {
        let files = |error| RowError::Files { doing: "putting a sound database in place", error };
        drop(damaged);
        let device = self.device();
        let engine = Engine::format(&self.rt, device, &self.plan.settings).await.map_err(files)?;
        engine.restore(image).await.map_err(files)?;
        self.clients.iter_mut().for_each(|c| c.resume(0));
        Ok(engine)
    }
}

/// A cut that may come during a recovery.
#[derive(Clone, Default)]
struct SecondCut {
    fired: Rc<Cell<bool>>,
    disarmed: Rc<Cell<bool>>,
}

/// A time between these bounds.
pub(crate) fn draw(dice: &mut Stream, [least, most]: [Nanos; 2]) -> Nanos {
    Nanos(dice.range(least.0, most.0.max(least.0) + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lost_commit_has_no_plural() {
        assert_eq!(
            [1, 2].map(gone),
            ["1 acknowledged commit is gone", "2 acknowledged commits are gone"]
        );
    }
}
