//! Rows of databases as models at the level of pages: load, warm up, measure, then cut the
//! power under load and judge what is left.
//!
//! 1. A row is measured from the end of its warm-up until it has done its transactions; the
//!    first power cut comes at that moment, the others after some more load each.
//! 2. What a row writes is what goes to the drive with the pages; a log on a drive of its
//!    own is counted beside ([`RowFindings::measures`]).
//! 3. A lost commit breaks a promise if barriers are on or the drive keeps what it acknowledged. A
//!    damaged page breaks one if the same holds and the page cannot tear: because of the
//!    double-write area, of an atomic group, or of a drive that writes it as a whole.
//! 4. The power of both drives goes at the same instant, and the host's with it.

use crate::report::{RowFindings, Times, quantiles_of};
use crate::run::clocks::Clocked;
use crate::run::row::{RowBox, RowError, RowPlan, Traffic, draw, in_runtime, prepare};
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{BlockDevice, Caps, IoError, Payload, PowerCycle};
use tantalum_rt::{Domain, Nanos, Rt, Stream};
use tantalum_workload::pages::{
    AppendTree, AppendTreeJob, Benchmark, Counts, Engine, EngineJob, Host, InPlace, Journal,
    Layout, LogDevice, LogStore, PageStore, Redo, Volume, recover,
};

/// How often the harness looks whether a run has done its transactions.
const LOOK: Nanos = Nanos::from_millis(1);

/// A run that does nothing for so long is taken to be stuck.
const STUCK: Nanos = Nanos::from_secs(600);

/// A database as a model.
#[derive(Clone, Debug, PartialEq)]
pub enum PageModel {
    /// An engine that updates in place.
    Engine(EngineJob),
    /// A tree that only appends.
    Tree(AppendTreeJob),
}

impl PageModel {
    /// Whether its log has a drive of its own.
    pub fn has_log_drive(&self) -> bool {
        matches!(self, PageModel::Engine(job) if job.log_device == LogDevice::Own)
    }

    /// The design of that, if it is another than that of the drive with the pages.
    pub fn log_design(&self) -> Option<&str> {
        match self {
            PageModel::Engine(job) => job.log_design.as_deref(),
            PageModel::Tree(_) => None,
        }
    }

    /// What the drive of this part carries.
    pub fn payload(&self, part: Part) -> Payload {
        match self {
            PageModel::Engine(job) if part == Part::Log && job.log_bytes => Payload::Bytes,
            _ => Payload::Stamps,
        }
    }

    /// Blocks of 4 KiB that it writes to, on all of them, at most.
    pub fn blocks(&self) -> u64 {
        match self {
            PageModel::Engine(job) => (job.database_mib + job.log_mib) * 256 * 5 / 4,
            PageModel::Tree(job) => job.operations * 12,
        }
    }

    /// The same, small: for a first look, and for tests.
    pub(crate) fn make_quick(&mut self) {
        match self {
            PageModel::Engine(job) => {
                job.database_mib = job.database_mib.min(126);
                // Transactions of TPC-C use twenty times the pages.
                let (warmup, transactions) = match job.benchmark {
                    Benchmark::LinkBench => (8000, 8000),
                    Benchmark::Tpcc => (500, 1000),
                };
                job.warmup = job.warmup.min(warmup);
                job.transactions = job.transactions.min(transactions);
            }
            PageModel::Tree(job) => job.operations = job.operations.min(2000),
        }
    }
}

/// An engine with its pages in their places on a volume, and a ring of redo.
type VolumeEngine<D> = Engine<InPlace<D>, Redo<D>>;

/// What a drive of a row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It has the pages, and the log if that has no drive of its own.
    Pages,
    /// It has the log.
    Log,
}

/// The drives of a row: with the pages, and with the log if it has its own.
struct Drives<S> {
    data: S,
    log: Option<S>,
}

impl<S: RowBox> Drives<S> {
    fn each(&self) -> impl Iterator<Item = &S> {
        std::iter::once(&self.data).chain(&self.log)
    }

    fn cut(&self) {
        self.each().for_each(PowerCycle::cut);
    }

    async fn off(&self) {
        for drive in self.each() {
            drive.off().await;
        }
    }

    async fn power_on(&self) -> Result<(), IoError> {
        for drive in self.each() {
            drive.power_on().await?;
        }
        Ok(())
    }

    /// The ways to pages and log.
    fn volumes(&self, rt: &Rt, host: Host) -> [Volume<S::Device>; 2] {
        let data = Volume::new(rt, self.data.device(), host);
        let log = match &self.log {
            Some(log) => Volume::new(rt, log.device(), host),
            None => data.clone(),
        };
        [data, log]
    }
}

/// Runs a row of `model` on what `subject` makes for each part, in a runtime of its own. `cut` is
/// called after each cut and check. The findings are those up to the error, if there is
/// one.
pub fn run<S: RowBox>(
    seed: u64,
    plan: RowPlan,
    model: PageModel,
    subject: impl Fn(&Rt, Part) -> Result<S, RowError>,
    cut: impl Fn() + 'static,
) -> (RowFindings, Result<(), RowError>) {
    let made = |rt: &Rt| {
        let log = model.has_log_drive().then(|| subject(rt, Part::Log)).transpose()?;
        Ok(Drives { data: subject(rt, Part::Pages)?, log })
    };
    let ours = model.clone();
    in_runtime(seed, made, |rt, drives, findings| async move {
        let dice = rt.stream("power cuts");
        let recovery = Clocked::default();
        let run = Run { rt, drives, plan, dice, findings, recovery, seed };
        let (subject, findings) = (run.drives.data.clone(), run.findings.clone());
        let result = match ours {
            PageModel::Engine(job) => run.engine(job, cut).await,
            PageModel::Tree(job) => run.tree(job, cut).await,
        };
        if result.is_err() {
            findings.borrow_mut().look_at(subject.drives());
        }
        result
    })
}

struct Run<S> {
    rt: Rt,
    drives: Drives<S>,
    plan: RowPlan,
    dice: Stream,
    findings: Rc<RefCell<RowFindings>>,
    recovery: Clocked,
    seed: u64,
}

fn drive(doing: &'static str) -> impl Fn(IoError) -> RowError {
    move |error| RowError::Drive { doing, error }
}

fn told(error: impl std::fmt::Display) -> RowError {
    RowError::Job(error.to_string())
}

impl<S: RowBox> Run<S> {
    async fn engine(mut self, job: EngineJob, cut: impl Fn()) -> Result<(), RowError> {
        self.drives.power_on().await.map_err(drive("starting for the first time"))?;
        prepare(&self.rt, &self.drives.data, &self.plan, &self.findings).await?;
        let caps = *self.drives.data.device().caps();
        let pages = job.mix().pages();
        let of_log = self.drives.log.as_ref().map_or(caps, |log| *log.device().caps());
        let layout = job.layout(pages, &caps, &of_log).map_err(told)?;
        let journal = Journal::new(pages);
        let (store, _) = self.stores(&self.rt.domain(), &job, layout, Host::PLAIN, &journal);
        store.load().await.map_err(drive("loading the database"))?;
        drop(store);
        for number in 1.. {
            if !self.plan.goes_on(&self.findings.borrow()) {
                break;
            }
            let (domain, engine) = self.start(&job, layout, &journal);
            let fresh = number == 1;
            if fresh {
                engine.warm(self.seed, job.warmup);
            }
            engine.start(self.seed ^ u64::from(number)).await.map_err(told)?;
            if fresh {
                self.until(&engine, job.warmup).await?;
                self.measure(&engine, &journal, job.transactions).await?;
            } else {
                let span = draw(&mut self.dice, self.plan.run_time);
                self.rt.sleep(span).await;
            }
            if let Some(error) = engine.failure() {
                return Err(told(error));
            }
            drop(engine);
            self.cut(domain).await?;
            self.judge_engine(&job, &caps, &layout, &journal, number).await?;
            cut();
        }
        let mut f = self.findings.borrow_mut();
        f.commits_acknowledged = journal.commits();
        Ok(())
    }

    /// Pages and log, as this host goes to them.
    fn stores(
        &self,
        domain: &Domain,
        job: &EngineJob,
        layout: Layout,
        host: Host,
        journal: &Journal,
    ) -> (InPlace<S::Device>, Redo<S::Device>) {
        let [data, log] = self.drives.volumes(&self.rt, host);
        let pages = InPlace::new(&self.rt, domain.clone(), job, layout, data);
        (pages, Redo::new(&self.rt, log, layout.log, journal.clone()))
    }

    fn start(
        &self,
        job: &EngineJob,
        layout: Layout,
        journal: &Journal,
    ) -> (Domain, Rc<VolumeEngine<S::Device>>) {
        let domain = self.rt.domain();
        let (pages, log) = self.stores(&domain, job, layout, job.host(), journal);
        let engine = Engine::new(&self.rt, domain.clone(), job, job.mix(), pages, log, journal);
        (domain, engine)
    }

    /// Waits until the engine has done so many transactions.
    async fn until<P: PageStore, L: LogStore>(
        &self,
        engine: &Engine<P, L>,
        count: u64,
    ) -> Result<(), RowError> {
        self.look(count, || engine.transactions(), || engine.failure().is_some()).await?;
        engine.failure().map_or(Ok(()), |error| Err(told(error)))
    }

    /// Looks now and then until so many operations are done, or it is over.
    async fn look(
        &self,
        count: u64,
        done: impl Fn() -> u64,
        over: impl Fn() -> bool,
    ) -> Result<(), RowError> {
        let (mut seen, mut since) = (done(), self.rt.now());
        while seen < count && !over() {
            self.rt.sleep(LOOK).await;
            if done() > seen {
                (seen, since) = (done(), self.rt.now());
            } else if self.rt.now().saturating_sub(since) > STUCK && !over() {
                return Err(told(format!("nothing has ended since {since} of virtual time")));
            }
        }
        Ok(())
    }

    async fn measure<P: PageStore, L: LogStore>(
        &self,
        engine: &Engine<P, L>,
        journal: &Journal,
        count: u64,
    ) -> Result<(), RowError> {
        engine.reset();
        let traffic = |s: &S| s.traffic();
        let before: Vec<Traffic> = self.drives.each().map(traffic).collect();
        let (start, flushes) = (self.rt.now(), engine.flushes());
        // (What it measures up to a failure counts.)
        let ended = self.until(engine, count).await;
        let counts = engine.counts();
        let after: Vec<Traffic> = self.drives.each().map(traffic).collect();
        let mut f = self.findings.borrow_mut();
        f.load_ns = self.rt.now().saturating_sub(start).0;
        f.transactions = counts.transactions;
        f.user_bytes = counts.row_bytes;
        f.latency = Times::of(&counts.latency);
        f.latency_quantiles = quantiles_of(&counts.latency);
        let of_each = counts.operations.iter().map(|(name, all)| (*name, Times::of(all)));
        f.operations = of_each.collect();
        f.commits_acknowledged = journal.commits();
        f.count_traffic(before[0], after[0]);
        measures(&mut f, &counts, engine.flushes() - flushes);
        if let (Some(from), Some(to)) = (before.get(1), after.get(1)) {
            let bytes = to.host_bytes - from.host_bytes;
            let each = bytes as f64 / counts.transactions.max(1) as f64;
            f.measures.insert("log_bytes_per_transaction", each);
            if f.load_ns > 0 {
                let busy = to.busy.saturating_sub(from.busy).0 as f64 / f.load_ns as f64;
                f.measures.insert("log_utilisation", busy);
            }
        }
        ended
    }

    async fn judge_engine(
        &mut self,
        job: &EngineJob,
        caps: &Caps,
        layout: &Layout,
        journal: &Journal,
        number: u32,
    ) -> Result<(), RowError> {
        let (pages, log) = self.stores(&self.rt.domain(), job, *layout, Host::PLAIN, journal);
        let found = recover(&pages, &log, journal).await.map_err(drive("recovering"))?;
        // A commit is in the log, a page where the pages are; each drive keeps its own promises.
        let log_keeps = self.drives.each().last().is_some_and(|s| s.device().caps().ack.survives());
        let kept = job.barriers || log_keeps;
        let pages_kept = job.barriers || caps.ack.survives();
        let is_whole = job.double_write.is_safe(job.page_bytes, caps.atomic_unit);
        let sound = kept && pages_kept && is_whole;
        let mut f = self.findings.borrow_mut();
        f.blocks_compared += found.pages * u64::from(layout.page_blocks);
        lost(&mut f, number, found.commits_lost, kept);
        if found.is_damaged() {
            f.databases_corrupt += 1;
            f.violations += u64::from(sound);
            f.problem(format!(
                "cut {number}: {} pages are torn, {} lack changes, {} are ahead of the log",
                found.torn, found.behind, found.ahead
            ));
        }
        *f.measures.entry("pages_repaired").or_default() += found.repaired as f64;
        Ok(())
    }

    async fn tree(mut self, job: AppendTreeJob, cut: impl Fn()) -> Result<(), RowError> {
        self.drives.power_on().await.map_err(drive("starting for the first time"))?;
        prepare(&self.rt, &self.drives.data, &self.plan, &self.findings).await?;
        let caps = *self.drives.data.device().caps();
        let tree = AppendTree::new(&self.rt, &job, self.seed, &caps).map_err(told)?;
        let mut acknowledged = 0;
        for number in 1.. {
            if !self.plan.goes_on(&self.findings.borrow()) {
                break;
            }
            let domain = self.rt.domain();
            let [volume, _] = self.drives.volumes(&self.rt, job.host());
            let (running, known) = (tree.clone(), tree.acknowledged());
            let task = domain
                .spawn("the tree", async move { running.run(&volume, u64::from(number)).await });
            if number == 1 {
                let (start, before) = (self.rt.now(), self.drives.data.traffic());
                let done = || tree.counts().operations;
                let ended = self.look(job.operations, done, || task.is_finished()).await;
                let counts = tree.counts();
                let mut f = self.findings.borrow_mut();
                f.load_ns = self.rt.now().saturating_sub(start).0;
                f.transactions = counts.operations;
                f.latency = Times::of(&counts.latency);
                f.latency_quantiles = quantiles_of(&counts.latency);
                f.count_traffic(before, self.drives.data.traffic());
                drop(f);
                ended?;
            } else {
                let span = draw(&mut self.dice, self.plan.run_time);
                self.rt.sleep(span).await;
            }
            if let Some(Err(error)) = task.take() {
                return Err(drive("running the tree")(error));
            }
            acknowledged += tree.acknowledged() - known;
            self.findings.borrow_mut().commits_acknowledged = acknowledged;
            self.cut(domain).await?;
            let [volume, _] = self.drives.volumes(&self.rt, Host::PLAIN);
            let blocks = tree.acknowledged();
            let found = tree.recover(&volume).await.map_err(drive("recovering"))?;
            let kept = job.barriers || caps.ack.survives();
            let mut f = self.findings.borrow_mut();
            f.blocks_compared += blocks;
            lost(&mut f, number, found.lost, kept);
            if found.missing > 0 {
                f.databases_corrupt += 1;
                f.violations += u64::from(kept);
                f.problem(format!("cut {number}: {} nodes of the tree are gone", found.missing));
            }
            drop(f);
            cut();
        }
        Ok(())
    }

    /// The power goes, and comes back after some time.
    async fn cut(&mut self, host: Domain) -> Result<(), RowError> {
        self.findings.borrow_mut().look_before_cut(self.drives.data.drives());
        self.drives.cut();
        host.kill();
        self.drives.off().await;
        self.findings.borrow_mut().look_at(self.drives.data.drives());
        let outage = draw(&mut self.dice, self.plan.outage);
        self.rt.sleep(outage).await;
        let start = self.rt.now();
        self.drives.power_on().await.map_err(drive("recovering"))?;
        self.recovery.add(self.rt.now().saturating_sub(start));
        let mut f = self.findings.borrow_mut();
        f.cuts += 1;
        f.drive_recovery = self.recovery.times();
        f.recovery = self.recovery.times();
        Ok(())
    }
}

fn lost(f: &mut RowFindings, number: u32, commits: u64, kept: bool) {
    if commits > 0 {
        f.commits_lost += commits;
        f.cuts_with_loss += 1;
        f.violations += if kept { commits } else { 0 };
        f.problem(format!("cut {number}: {commits} acknowledged commits are gone"));
    }
}

/// What an engine did, for each transaction.
fn measures(f: &mut RowFindings, counts: &Counts, flushes: u64) {
    let all = counts.transactions.max(1) as f64;
    let blocked = counts.blocked.0 as f64 / counts.blocked_reads.max(1) as f64;
    let written = counts.pages_cleaned + counts.single_flushes;
    f.measures.extend([
        ("page_uses_per_transaction", counts.page_uses as f64 / all),
        ("page_reads_per_transaction", counts.page_reads as f64 / all),
        ("page_writes_per_transaction", written as f64 / all),
        ("single_page_writes_per_transaction", counts.single_flushes as f64 / all),
        ("reads_blocked_by_writes_per_transaction", counts.blocked_reads as f64 / all),
        ("blocked_read_us", blocked / 1e3),
        ("changes_blocked_by_writes_per_transaction", counts.latched as f64 / all),
        ("flushes_per_transaction", flushes as f64 / all),
    ]);
    if counts.page_uses > 0 {
        let missed = counts.page_reads as f64 / counts.page_uses as f64;
        f.measures.insert("page_hit_rate", (1.0 - missed).max(0.0));
    }
    if counts.groups > 0 {
        f.measures.insert("groups_per_transaction", counts.groups as f64 / all);
    }
}
