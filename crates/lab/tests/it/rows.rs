//! Whole rows on the RAM device: what a device promises is what the table shows,
//! and a device that breaks its promise is found out.

use std::rc::Rc;
use tantalum_device::{
    Ack, Block, BlockDevice, Caps, Data, Durability, GroupLimit, IoError, Payload, PowerCycle,
    RamDevice, RamOptions, Stats, forward,
};
use tantalum_lab::file::experiment::{Journal, Synchronous};
use tantalum_lab::report::RowFindings;
use tantalum_lab::run::block;
use tantalum_lab::run::row::{self, RowBox, RowPlan, Traffic};
use tantalum_lab::run::sqlite::Settings;
use tantalum_rt::{Nanos, Rt};
use tantalum_workload::database::Benchmark;
use tantalum_workload::jobs::Job;
use tantalum_workload::linkbench::{LinkBench, LinkBenchScale};
use tantalum_workload::tpcc::{Tpcc, TpccScale};
use tantalum_workload::ycsb::{Ycsb, YcsbScale};

const JOURNALS: [Journal; 5] =
    [Journal::Wal, Journal::Delete, Journal::BatchAtomic, Journal::Persist, Journal::Truncate];

/// Without syncs no transaction is a group, and a row that asks for them fails.
const UNSYNCED: [Journal; 2] = [Journal::Wal, Journal::Delete];

fn linkbench() -> Rc<dyn Benchmark> {
    Rc::new(LinkBench::new(LinkBenchScale { nodes: 120, ..LinkBenchScale::default() }))
}

fn ycsb() -> Rc<dyn Benchmark> {
    Rc::new(Ycsb::new(YcsbScale { records: 150, ..YcsbScale::default() }))
}

fn tpcc() -> Rc<dyn Benchmark> {
    let scale = TpccScale { items: 60, customers_per_district: 6, ..TpccScale::default() };
    Rc::new(Tpcc::new(&scale))
}

fn plan(journal: Journal, synchronous: Synchronous) -> RowPlan {
    RowPlan {
        cuts: 12,
        until_loss: false,
        clients: 3,
        warm_up: Nanos::ZERO,
        run_time: [Nanos::from_millis(2), Nanos::from_millis(40)],
        outage: [Nanos::ZERO, Nanos::from_millis(50)],
        recovery_cut_percent: 30,
        settings: Settings { page_bytes: 4096, cache_pages: 20, journal, synchronous },
        preparation: None,
        tell: Rc::new(|_| ()),
    }
}

fn ram(rt: &Rt, ack: Ack) -> Stats<RamDevice> {
    ram_that(rt, ack, true)
}

fn ram_that(rt: &Rt, ack: Ack, flush: bool) -> Stats<RamDevice> {
    let caps = Caps {
        block_size: 4096,
        blocks: 16_384,
        ack,
        flush,
        ordered: ack.survives(),
        atomic_unit: 4096,
        thin: false,
        atomic_group: Some(GroupLimit { extents: 64, bytes: 128 << 10 }),
        payload: Payload::Bytes,
    };
    let options = RamOptions {
        command: Nanos::from_micros(60),
        jitter: Nanos::from_micros(40),
        flush: Nanos::from_micros(300),
        start: Nanos::from_millis(1),
        ..RamOptions::new(caps)
    };
    Stats::new(rt, RamDevice::new(rt, options))
}

fn run<S: RowBox>(
    seed: u64,
    benchmark: Rc<dyn Benchmark>,
    plan: RowPlan,
    subject: impl FnOnce(&Rt) -> S,
) -> RowFindings {
    let (findings, result) = row::run(seed, plan, benchmark, |rt| Ok(subject(rt)), || ());
    if let Err(e) = result {
        panic!("seed {seed}: {e}; {findings:#?}");
    }
    assert_eq!(findings.ledger_ahead, 0, "seed {seed}: {findings:#?}");
    assert!(findings.blocks_compared > 100, "every block is compared: {findings:#?}");
    findings
}

#[test]
fn with_syncs_a_volatile_cache_loses_nothing() {
    // A deleted journal may come back unless the directory is synced: EXTRA.
    for (seed, journal) in (1..).zip(JOURNALS) {
        for benchmark in [linkbench(), ycsb(), tpcc()] {
            let plan = plan(journal, Synchronous::Extra);
            let f = run(seed, benchmark, plan, |rt| ram(rt, Ack::Volatile));
            assert!(!f.lost_anything() && f.violations == 0, "seed {seed}: {f:#?}");
            assert_eq!(f.cuts, 12);
            assert!(f.commits_acknowledged > 20, "{f:#?}");
            assert!(f.recovery.count == 12 && f.recovery.p50_ns > 1_000_000, "{f:#?}");
        }
    }
}

/// `FULL` does, where SQLite is told of groups: it syncs the directory then.
#[test]
fn atomic_groups_lose_nothing() {
    for (seed, benchmark) in (20..).zip([linkbench(), ycsb(), tpcc()]) {
        let plan = RowPlan { cuts: 40, ..plan(Journal::BatchAtomic, Synchronous::Full) };
        let f = run(seed, benchmark, plan, |rt| ram(rt, Ack::Volatile));
        assert!(!f.lost_anything() && f.violations == 0, "seed {seed}: {f:#?}");
        assert!(f.commits_acknowledged > 100, "{f:#?}");
    }
}

#[test]
fn a_row_without_groups_in_force_says_why() {
    for (synchronous, flush, why) in [
        (Synchronous::Off, true, "synchronous is OFF"),
        (Synchronous::Full, false, "the device cannot promise atomic groups"),
    ] {
        let plan = plan(Journal::BatchAtomic, synchronous);
        let subject = |rt: &Rt| Ok(ram_that(rt, Ack::Volatile, flush));
        let (_, result) = row::run(1, plan, ycsb(), subject, || ());
        let error = result.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_deleted_journal_that_comes_back_undoes_the_last_commit() {
    let plan = RowPlan { cuts: 40, ..plan(Journal::Delete, Synchronous::Full) };
    let f = run(1, ycsb(), plan, |rt| ram(rt, Ack::Volatile));
    assert!(f.commits_lost > 0 && f.databases_corrupt == 0, "{f:#?}");
    assert!(f.commits_lost <= u64::from(f.cuts_with_loss), "one a cut at most: {f:#?}");
}

#[test]
fn without_syncs_a_volatile_cache_loses() {
    for (seed, journal) in (1..).zip(UNSYNCED) {
        let plan = plan(journal, Synchronous::Off);
        let f = run(seed, ycsb(), plan, |rt| ram(rt, Ack::Volatile));
        assert!(f.lost_anything(), "seed {seed}: {f:#?}");
        assert_eq!(f.violations, 0, "nothing was promised: {f:#?}");
    }
}

/// A device that declares that its flushes do nothing loses what SQLite has synced, and
/// breaks no promise.
#[test]
fn a_device_that_ignores_flushes_loses_and_breaks_no_promise() {
    let mut corrupt = 0;
    for (seed, journal) in (1..).zip(UNSYNCED) {
        let plan = RowPlan { cuts: 20, ..plan(journal, Synchronous::Extra) };
        let f = run(seed, ycsb(), plan, |rt| ram_that(rt, Ack::Volatile, false));
        assert!(f.lost_anything(), "seed {seed}: {f:#?}");
        assert_eq!(f.violations, 0, "nothing was promised: {f:#?}");
        corrupt += f.databases_corrupt;
    }
    assert!(corrupt > 0, "without order a database does not only lose its newest commits");
}

#[test]
fn without_syncs_a_durable_cache_loses_nothing() {
    let mut cuts_in_recovery = 0;
    for (seed, journal) in (1..).zip(UNSYNCED) {
        for benchmark in [linkbench(), ycsb(), tpcc()] {
            let plan = plan(journal, Synchronous::Off);
            let f = run(seed, benchmark, plan, |rt| ram(rt, Ack::PowerSafe));
            assert!(!f.lost_anything() && f.violations == 0, "seed {seed}: {f:#?}");
            cuts_in_recovery += f.cuts_in_recovery;
        }
    }
    assert!(cuts_in_recovery > 0);
}

#[test]
fn the_same_seed_gives_the_same_row() {
    let once = |seed| {
        let plan = plan(Journal::Wal, Synchronous::Full);
        let findings = run(seed, linkbench(), plan, |rt| ram(rt, Ack::Volatile));
        serde_json::to_string(&findings).unwrap()
    };
    assert_eq!(once(7), once(7));
    assert_ne!(once(7), once(8));
}

/// A drive that answers a flush without doing anything.
#[derive(Clone)]
struct Liar(Stats<RamDevice>);

#[derive(Clone)]
struct LiarLink(Stats<RamDevice>);

impl BlockDevice for LiarLink {
    forward!(0: caps, is_alive, read, write_atomic, discard);

    async fn write(&self, at: Block, data: Data<'_>, _: Durability) -> Result<(), IoError> {
        self.0.write(at, data, Durability::Normal).await
    }
    async fn flush(&self) -> Result<(), IoError> {
        Ok(())
    }
}

impl PowerCycle for Liar {
    type Device = LiarLink;

    forward!(0: cut, off, power_on);

    fn device(&self) -> LiarLink {
        LiarLink(self.0.device())
    }
}

impl RowBox for Liar {
    fn traffic(&self) -> Traffic {
        self.0.traffic()
    }
}

#[test]
fn a_drive_that_lies_about_flushes_is_found_out() {
    let plan = plan(Journal::Wal, Synchronous::Full);
    let f = run(3, ycsb(), plan, |rt| Liar(ram(rt, Ack::Volatile)));
    assert!(f.lost_anything() && f.violations > 0, "{f:#?}");
    assert!(f.problems.iter().any(|p| p.contains(" at ") && p.contains("cut ")), "{f:#?}");
}

fn job(fsync_every: u64, queue_depth: u32) -> Job {
    Job { fsync_every, queue_depth, range: 0.02, commands: Some(100_000), ..Job::default() }
}

fn run_job<S: RowBox>(seed: u64, job: Job, subject: impl FnOnce(&Rt) -> S) -> RowFindings {
    let plan = RowPlan { cuts: 20, ..plan(Journal::Wal, Synchronous::Full) };
    let (findings, result) = block::run(seed, plan, job, |rt| Ok(subject(rt)), || ());
    result.unwrap_or_else(|e| panic!("seed {seed}: {e}; {findings:#?}"));
    assert!(findings.commits_acknowledged > 500 && findings.blocks_compared > 500);
    findings
}

#[test]
fn block_jobs_lose_what_was_not_promised_and_nothing_else() {
    for seed in 0..10 {
        let f = run_job(seed, job(8, 4), |rt| ram(rt, Ack::Volatile));
        assert!(f.commits_lost > 0 && f.violations == 0, "seed {seed}: {f:#?}");
        let f = run_job(seed, job(0, 4), |rt| ram(rt, Ack::PowerSafe));
        assert!(f.commits_lost == 0 && f.violations == 0, "seed {seed}: {f:#?}");
        let f = run_job(seed, job(8, 4), |rt| Liar(ram(rt, Ack::Volatile)));
        assert!(f.violations > 0, "seed {seed}: {f:#?}");
    }
}
