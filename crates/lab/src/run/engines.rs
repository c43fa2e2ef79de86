//! Rows of databases as models at the level of pages: load, warm up, measure, then cut the
//! power under load and judge what is left.
//!
//! 1. A row is measured from the end of its warm-up until it has done its transactions; the
//!    first power cut comes at that moment, the others after some more load each.
//! 2. What a row writes is what goes to the drive with the pages; a log on a drive of its
//!    own is counted beside ([`RowFindings::measures`]).
//! 3. A lost commit breaks a promise if barriers are on or the drive keeps what it acknowledged. A
//!    damaged page breaks one if the same holds and the page cannot tear: because of the
//!    double-write area, of whole pages in the log, of an atomic group, or of a drive that writes it
//!    as a whole.
//! 4. The power of both drives goes at the same instant, and the host's with it.

use crate::report::{RowFindings, Times, quantiles_of};
use crate::run::cache::{self, DriveWork};
use crate::run::clocks::Clocked;
use crate::run::row::{RowBox, RowError, RowPlan, Traffic, draw, gone, in_runtime, prepare};
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_cache::flash::Beside;
use tantalum_device::{BlockDevice, Caps, IoError, Payload, PowerCycle, counted};
use tantalum_rt::{Domain, Nanos, Rt, Stream};
use tantalum_workload::pages::{
    AppendTree, AppendTreeJob, Benchmark, CacheJob, Counts, Engine, EngineError, EngineJob,
    FlashLogJob, FlashRedo, Host, InPlace, Journal, Layout, LogCounts, LogDevice, LogStore,
    PageStore, Redo, Store, TPCC_FILL_PERCENT, Volume, recover,
};

/// How often the harness looks whether a run has done its transactions.
const LOOK: Nanos = Nanos::from_millis(1);

/// A run that does nothing for so long is taken to be stuck.
const STUCK: Nanos = Nanos::from_secs(600);
/// Checkpoints that come too early for a restart between two of them, before it is given up.
const EARLY_MOST: u32 = 4;

/// A database as a model.
#[derive(Clone, Debug, PartialEq)]
pub enum PageModel {
    /// An engine that updates in place, its log if that is on several devices, and its flash cache if
    /// it has one.
    Engine(Box<EngineJob>, Option<FlashLogJob>, Option<Box<CacheJob>>),
    /// A tree that only appends.
    Tree(AppendTreeJob),
}

impl PageModel {
    /// The designs of the drives that its log has for itself, in their order; `None`: that of the
    /// drive with the pages.
    pub fn log_drives(&self) -> Vec<Option<&str>> {
        match self {
            PageModel::Engine(_, Some(log), _) => log.designs().map(Some).collect(),
            PageModel::Engine(job, None, _) if job.log_device == LogDevice::Own => {
                vec![job.log_design.as_deref()]
            }
            PageModel::Engine(..) | PageModel::Tree(_) => Vec::new(),
        }
    }

    /// MB each second of a bus that the devices of its flash log's array share, and how many these are.
    pub fn log_bus(&self) -> Option<(u64, usize)> {
        match self {
            PageModel::Engine(_, Some(log), _) => {
                log.bus_mb_s.map(|mb_s| (mb_s, log.devices.len()))
            }
            _ => None,
        }
    }

    /// The design of the drive of its flash cache.
    pub fn cache_drive(&self) -> Option<&str> {
        match self {
            PageModel::Engine(_, _, cache) => cache.as_ref().map(|cache| cache.flash.as_str()),
            PageModel::Tree(_) => None,
        }
    }

    /// What the drive of this part carries.
    pub fn payload(&self, part: Part) -> Payload {
        match self {
            PageModel::Engine(job, log, _)
                if matches!(part, Part::Log(_)) && (job.log_bytes || log.is_some()) =>
            {
                Payload::Bytes
            }
            _ => Payload::Stamps,
        }
    }

    /// Blocks of 4 KiB that it writes to, on all of them, at most.
    pub fn blocks(&self) -> u64 {
        match self {
            PageModel::Engine(job, ..) => {
                let filled = TPCC_FILL_PERCENT.max(job.fill_percent) / job.fill_percent;
                (job.database_mib as f64 * filled) as u64 * 320 + job.log_mib * 320
            }
            PageModel::Tree(job) => job.operations * 12,
        }
    }

    /// The bytes of its log between checkpoint and end, at most.
    pub fn log_bytes(&self) -> u64 {
        match self {
            PageModel::Engine(job, ..) => job.log_mib << 20,
            PageModel::Tree(_) => 0,
        }
    }

    /// The same, small: for a first look, and for tests. `name` is that of the engine or tree in its
    /// file. A value stays unless `lowers` says that its key, with dots, becomes smaller.
    pub(crate) fn make_quick(&mut self, name: &str, lowers: impl Fn(&str) -> bool) {
        match self {
            PageModel::Engine(job, _, cache) => {
                let own = |key: &str| lowers(&format!("engine.{name}.{key}"));
                if own("restart") {
                    job.restart = job.restart.min(300);
                }
                if job.restart > 0 && own("checkpoint_s") {
                    job.checkpoint_s = job.checkpoint_s.min(0.5);
                }
                let whole = job.database_mib;
                if own("database_mib") {
                    job.database_mib = whole.min(126);
                }
                let frames = job.frames_least();
                if job.database_mib < whole && job.frames() < frames {
                    let bytes = f64::from(frames) * f64::from(job.page_bytes);
                    if own("buffer_percent") {
                        let all = (job.database_mib << 20) as f64;
                        job.buffer_percent = (bytes * 105.0 / all).min(100.0);
                    } else {
                        // The buffer's share stays, so the database must be larger.
                        let all = bytes * 100.0 / job.buffer_percent;
                        job.database_mib = whole.min((all / 1048576.0) as u64 + 1);
                    }
                }
                if let (Some(cache), Some(of)) = (cache, &job.cache) {
                    // A cache keeps its share of the database.
                    let share = job.database_mib as f64 / whole.max(1) as f64;
                    if lowers(&format!("cache.{of}.size_mib")) {
                        let size = cache.size_mib as f64 * share;
                        cache.size_mib = (size as u64).max(12).min(cache.size_mib);
                    }
                    if lowers(&format!("cache.{of}.prepare")) {
                        cache.prepare = cache.prepare.min(0.02);
                    }
                }
                // Transactions of TPC-C use twenty times the pages.
                let (warmup, transactions) = match job.benchmark {
                    Benchmark::LinkBench => (8000, 8000),
                    Benchmark::Tpcc => (500, 1000),
                };
                if own("warmup") {
                    job.warmup = job.warmup.min(warmup);
                }
                if own("transactions") {
                    job.transactions = job.transactions.min(transactions);
                }
            }
            PageModel::Tree(job) => {
                if lowers(&format!("tree.{name}.operations")) {
                    job.operations = job.operations.min(2000);
                }
            }
        }
    }
}

/// An engine with its pages on a volume, and some log.
type VolumeEngine<D, L> = Rc<Engine<Store<D>, L>>;

/// What a drive of a row is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It has the pages, and the log if that has no drive of its own.
    Pages,
    /// It has the flash cache.
    Flash,
    /// It has the log: of the drives that have it, the one with this index.
    Log(usize),
}

/// The drives of a row: with the pages, and those that the log has for itself.
struct Drives<S> {
    data: S,
    log: Vec<S>,
    flash: Option<S>,
}

impl<S: RowBox> Drives<S> {
    fn each(&self) -> impl Iterator<Item = &S> {
        std::iter::once(&self.data).chain(&self.log)
    }

    /// All of them.
    fn all(&self) -> impl Iterator<Item = &S> {
        self.each().chain(&self.flash)
    }

    fn cut(&self) {
        self.all().for_each(PowerCycle::cut);
    }

    async fn off(&self) {
        for drive in self.all() {
            drive.off().await;
        }
    }

    async fn power_on(&self) -> Result<(), IoError> {
        for drive in self.all() {
            drive.power_on().await?;
        }
        Ok(())
    }

    /// The way to the pages.
    fn volume(&self, rt: &Rt, host: Host) -> Volume<S::Device> {
        Volume::new(rt, self.data.device(), host)
    }
}

/// What the log of an engine is made from, when the engine is started and when it is judged.
struct Way<'a, S: RowBox> {
    rt: &'a Rt,
    /// The drives that the log has for itself.
    own: &'a [S],
    /// The way of its host to the pages.
    data: &'a Volume<S::Device>,
    layout: &'a Layout,
    host: Host,
    journal: &'a Journal,
}

/// A ring on the drive with the pages or on one of its own.
fn ring<S: RowBox>(way: &Way<'_, S>) -> Redo<S::Device> {
    let own = way.own.first().map(|log| Volume::new(way.rt, log.device(), way.host));
    let volume = own.unwrap_or_else(|| way.data.clone());
    Redo::new(way.rt, volume, way.layout.log, way.journal.clone())
}

/// A flash log of so many bytes over all the log's drives.
fn flash<S: RowBox>(way: &Way<'_, S>, job: &FlashLogJob, bytes: u64) -> FlashRedo<S::Device> {
    let devices = way.own.iter().map(|log| log.device()).collect();
    FlashRedo::new(way.rt, devices, job, bytes, way.journal.clone())
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
        let own = 0..model.log_drives().len();
        let log = own.map(|i| subject(rt, Part::Log(i))).collect::<Result<_, _>>()?;
        let flash = model.cache_drive().map(|_| subject(rt, Part::Flash)).transpose()?;
        Ok(Drives { data: subject(rt, Part::Pages)?, log, flash })
    };
    let ours = model.clone();
    in_runtime(seed, made, |rt, drives, findings| async move {
        let dice = rt.stream("power cuts");
        let recovery = Clocked::default();
        let cache = match &ours {
            PageModel::Engine(_, _, cache) => cache.as_deref().cloned(),
            PageModel::Tree(_) => None,
        };
        let beside = Beside::default();
        let run = Run { rt, drives, plan, dice, findings, recovery, seed, cache, beside };
        let (subject, findings) = (run.drives.data.clone(), run.findings.clone());
        let result = match ours {
            PageModel::Engine(job, None, _) => run.engine(*job, ring, cut).await,
            PageModel::Engine(job, Some(log), _) => {
                let bytes = job.log_mib << 20;
                run.engine(*job, |way| flash(way, &log, bytes), cut).await
            }
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
    cache: Option<CacheJob>,
    /// What lies beside a cache's drive.
    beside: Beside,
}

fn drive(doing: &'static str) -> impl Fn(IoError) -> RowError {
    move |error| RowError::Drive { doing, error }
}

fn told(error: impl std::fmt::Display) -> RowError {
    RowError::Job(error.to_string())
}

impl<S: RowBox> Run<S> {
    async fn engine<L: LogStore>(
        mut self,
        job: EngineJob,
        make: impl Fn(&Way<'_, S>) -> L,
        cut: impl Fn(),
    ) -> Result<(), RowError> {
        self.drives.power_on().await.map_err(drive("starting for the first time"))?;
        prepare(&self.rt, &self.drives.data, &self.plan, &self.findings).await?;
        self.fill_flash().await?;
        let caps = *self.drives.data.device().caps();
        let pages = job.mix().pages();
        let of_log = self.drives.log.first().map_or(caps, |log| *log.device().caps());
        let layout = job.layout(pages, &caps, &of_log).map_err(told)?;
        let journal = Journal::new(pages);
        let domain = self.rt.domain();
        let (store, log) = self.stores(&make, &domain, &job, layout, Host::PLAIN, &journal)?;
        store.load().await.map_err(|error| match error {
            EngineError::Io(error) => drive("loading the database")(error),
            other => told(other),
        })?;
        log.load().await.map_err(drive("making the log"))?;
        drop((store, log));
        for number in 1.. {
            if !self.plan.goes_on(&self.findings.borrow()) {
                break;
            }
            let (domain, engine) = self.start(&make, &job, layout, &journal).await?;
            let fresh = number == 1;
            if fresh && self.cache.is_some() {
                engine.warm_cache(self.seed).await.map_err(told)?;
            } else if fresh {
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
            if fresh && job.restart > 0 && job.checkpoint_s > 0.0 {
                self.half_way(&engine, job.checkpoint_s).await?;
            }
            drop(engine);
            self.cut(domain).await?;
            if fresh && job.restart > 0 {
                let domain = self.restart(&make, &job, layout, &journal).await?;
                self.cut(domain).await?;
            }
            self.judge_engine(&make, &job, &caps, &layout, &journal, number).await?;
            cut();
        }
        let mut f = self.findings.borrow_mut();
        f.commits_acknowledged = journal.commits();
        Ok(())
    }

    /// Writes the drive of the cache in sequence: a fresh drive collects nothing.
    async fn fill_flash(&self) -> Result<(), RowError> {
        let (Some(flash), Some(cache)) = (&self.drives.flash, &self.cache) else { return Ok(()) };
        Ok(cache::fill(&self.rt, flash, cache.prepare, self.plan.tell.clone()).await?)
    }

    /// Pages and log, as this host goes to them.
    fn stores<L: LogStore>(
        &self,
        make: impl Fn(&Way<'_, S>) -> L,
        domain: &Domain,
        job: &EngineJob,
        layout: Layout,
        host: Host,
        journal: &Journal,
    ) -> Result<(Store<S::Device>, L), RowError> {
        let data = self.drives.volume(&self.rt, host);
        let (rt, own) = (&self.rt, &self.drives.log);
        let log = make(&Way { rt, own, data: &data, layout: &layout, host, journal });
        let pages = InPlace::new(&self.rt, domain.clone(), job, layout, data);
        let store = match (&self.cache, &self.drives.flash) {
            (Some(cache), Some(flash)) => {
                let places = (pages, layout.pages, job.page_bytes);
                let (flash, beside) = (flash.device(), self.beside.clone());
                Store::behind(rt, domain, cache, places, flash, beside).map_err(told)?
            }
            _ => Store::InPlace(pages),
        };
        Ok((store, log))
    }

    async fn start<L: LogStore>(
        &self,
        make: impl Fn(&Way<'_, S>) -> L,
        job: &EngineJob,
        layout: Layout,
        journal: &Journal,
    ) -> Result<(Domain, VolumeEngine<S::Device, L>), RowError> {
        let domain = self.rt.domain();
        let (pages, log) = self.stores(make, &domain, job, layout, job.host(), journal)?;
        pages.open().await.map_err(told)?;
        let engine = Engine::new(&self.rt, domain.clone(), job, job.mix(), pages, log, journal);
        Ok((domain, engine))
    }

    /// Restarts after a cut as a database does, and goes on for some transactions. Returns the domain
    /// of the engine, which runs.
    async fn restart<L: LogStore>(
        &self,
        make: impl Fn(&Way<'_, S>) -> L,
        job: &EngineJob,
        layout: Layout,
        journal: &Journal,
    ) -> Result<Domain, RowError> {
        let begin = self.rt.now();
        let (domain, engine) = self.start(make, job, layout, journal).await?;
        let opened = self.rt.now();
        let done = engine.restart(journal).await.map_err(told)?;
        let ready = self.rt.now();
        engine.start(self.seed ^ u64::MAX).await.map_err(told)?;
        engine.reset();
        self.until(&engine, job.restart).await?;
        let ran = self.rt.now().saturating_sub(ready).as_secs_f64();
        let mut f = self.findings.borrow_mut();
        lost(&mut f, 1, done.commits_lost, job.barriers);
        let found = done.hits as f64 / done.reads.max(1) as f64;
        f.measures.extend([
            ("restart_s", ready.saturating_sub(begin).as_secs_f64()),
            ("restart_metadata_s", opened.saturating_sub(begin).as_secs_f64()),
            ("restart_log_s", done.log_time.as_secs_f64()),
            ("restart_redo_s", done.redo_time.as_secs_f64()),
            ("restart_checkpoint_s", done.checkpoint_time.as_secs_f64()),
            ("restart_records", done.records as f64),
            ("restart_reads", done.reads as f64),
            ("restart_reads_from_flash", found),
            ("restart_tx_per_s", engine.transactions() as f64 / ran.max(1e-9)),
        ]);
        Ok(domain)
    }

    /// Waits for the middle between two checkpoints, which are so many seconds apart.
    async fn half_way<P: PageStore, L: LogStore>(
        &self,
        engine: &Engine<P, L>,
        seconds: f64,
    ) -> Result<(), RowError> {
        let half = Nanos((seconds * 5e8) as u64);
        let passed = || self.rt.now().saturating_sub(engine.checkpointed());
        let begun = self.rt.now();
        // (A checkpoint itself takes some time, too.)
        while passed() > half && self.rt.now().saturating_sub(begun) < STUCK {
            self.rt.sleep(LOOK).await;
        }
        let (mut seen, mut early) = (engine.checkpointed(), 0);
        while passed() < half {
            self.rt.sleep(LOOK.min(half)).await;
            if engine.checkpointed() != seen {
                (seen, early) = (engine.checkpointed(), early + 1);
            }
            if early > EARLY_MOST {
                return Err(told(format!(
                    "the log is full before half of checkpoint_s, {seconds} s, has passed, and no \
                     restart comes in the middle between two checkpoints: a larger log_mib, or a \
                     smaller checkpoint_s"
                )));
            }
        }
        engine.failure().map_or(Ok(()), |error| Err(told(error)))
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
        let log_before = engine.log_counts();
        let cache_before = engine.cache_counts();
        let flash_before = self.drives.flash.as_ref().map(RowBox::traffic);
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
        let own: Vec<_> = before.iter().zip(&after).skip(1).collect();
        if !own.is_empty() {
            let bytes: u64 = own.iter().map(|(from, to)| to.host_bytes - from.host_bytes).sum();
            let each = bytes as f64 / counts.transactions.max(1) as f64;
            f.measures.insert("log_bytes_per_transaction", each);
            if f.load_ns > 0 {
                let busy = |(from, to): &(&Traffic, &Traffic)| to.busy.saturating_sub(from.busy);
                let busiest = own.iter().map(busy).max().unwrap_or_default();
                let share = busiest.0 as f64 / f.load_ns as f64;
                f.measures.insert("log_utilisation", share);
            }
        }
        if let (Some(from), Some(to)) = (cache_before, engine.cache_counts()) {
            cache::measures(&mut f, &to.since(&from), counts.transactions);
        }
        if let (Some(from), Some(flash)) = (flash_before, &self.drives.flash) {
            DriveWork::between(&from, &flash.traffic()).measures(&mut f);
        }
        log_measures(&mut f, &log_before, &engine.log_counts(), counts.transactions);
        ended
    }

    async fn judge_engine<L: LogStore>(
        &mut self,
        make: impl Fn(&Way<'_, S>) -> L,
        job: &EngineJob,
        caps: &Caps,
        layout: &Layout,
        journal: &Journal,
        number: u32,
    ) -> Result<(), RowError> {
        let domain = self.rt.domain();
        let (pages, log) = self.stores(make, &domain, job, *layout, Host::PLAIN, journal)?;
        pages.open().await.map_err(told)?;
        let found = recover(&pages, &log, journal).await.map_err(drive("recovering"))?;
        pages.close().await.map_err(told)?;
        // A commit is in the log, a page where the pages are; each drive keeps its own promises. A
        // flash log waits until a record is durable, whatever the host does.
        let log_keeps = self.drives.each().last().is_some_and(|s| s.device().caps().ack.survives());
        let kept = job.barriers || job.log.is_some() || log_keeps;
        let pages_kept = job.barriers || caps.ack.survives();
        // (A cache has a whole copy of each page that is being written to its place, if it admits
        // dirty ones.)
        let has_copies = self.cache.as_ref().is_some_and(|cache| cache.admit != "clean");
        let is_whole = has_copies || job.double_write.is_safe(job.page_bytes, caps.atomic_unit);
        let sound = kept && pages_kept && is_whole;
        let mut f = self.findings.borrow_mut();
        f.blocks_compared += found.pages * u64::from(layout.page_blocks);
        lost(&mut f, number, found.commits_lost, kept);
        if found.is_damaged() {
            f.databases_corrupt += 1;
            f.violations += u64::from(sound);
            f.problem(format!(
                "cut {number}: damaged pages: {} torn, {} without changes, {} ahead of the log",
                found.torn, found.behind, found.ahead
            ));
        }
        *f.measures.entry("pages_repaired").or_default() += found.repaired as f64;
        let seconds = log.counts().opening.as_secs_f64();
        if seconds > 0.0 {
            f.measures.insert("log_scan_mib_s", found.log_bytes as f64 / 1048576.0 / seconds);
        }
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
            let volume = self.drives.volume(&self.rt, job.host());
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
            let volume = self.drives.volume(&self.rt, Host::PLAIN);
            let blocks = tree.acknowledged();
            let found = tree.recover(&volume).await.map_err(drive("recovering"))?;
            let kept = job.barriers || caps.ack.survives();
            let mut f = self.findings.borrow_mut();
            f.blocks_compared += blocks;
            lost(&mut f, number, found.lost, kept);
            if found.missing > 0 {
                f.databases_corrupt += 1;
                f.violations += u64::from(kept);
                let nodes = counted(found.missing, "node of the tree is", "nodes of the tree are");
                f.problem(format!("cut {number}: {nodes} gone"));
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
        f.problem(format!("cut {number}: {}", gone(commits)));
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

/// What an engine's log did.
fn log_measures(f: &mut RowFindings, before: &LogCounts, after: &LogCounts, transactions: u64) {
    let writes = after.writes - before.writes;
    if writes == 0 {
        return;
    }
    let each = |n: u64| n as f64 / writes as f64;
    let of_transactions = writes as f64 / transactions.max(1) as f64;
    f.measures.insert("log_writes_per_transaction", of_transactions);
    f.measures.insert("log_write_bytes", each(after.bytes - before.bytes));
    f.measures.insert("log_writes_again", each(after.again - before.again));
    let sizes = |kib: usize| {
        let up_to = |all: &[u64]| all.iter().take(kib).sum::<u64>();
        up_to(&after.sizes) - up_to(&before.sizes)
    };
    if !after.sizes.is_empty() {
        f.measures.insert("log_writes_to_10_kib", each(sizes(10)));
        f.measures.insert("log_writes_to_15_kib", each(sizes(15)));
        f.measures.insert("log_writes_to_36_kib", each(sizes(36)));
    }
}
