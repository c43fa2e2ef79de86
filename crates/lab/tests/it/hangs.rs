//! A drive that answers no more is found out, whatever the host would do next: its row fails, and
//! says since when.

use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Caps, Data, Durability, IoError, Link, Payload, PowerCycle, RamDevice,
    RamOptions, forward,
};
use tantalum_lab::file::experiment::{Journal, Synchronous};
use tantalum_lab::report::RowFindings;
use tantalum_lab::run::block;
use tantalum_lab::run::engines::{self, PageModel};
use tantalum_lab::run::row::{self, RowBox, RowError, RowPlan, Traffic};
use tantalum_lab::run::sqlite::Settings;
use tantalum_oracle::patience::PATIENCE;
use tantalum_rt::{Nanos, Rt};
use tantalum_workload::jobs::Job;
use tantalum_workload::pages::{AppendTreeJob, EngineJob};
use tantalum_workload::ycsb::{Ycsb, YcsbScale};

/// A RAM device that takes so many writes, and hangs then until its power is cut.
#[derive(Clone)]
struct Hanging {
    inner: RamDevice,
    link: Link,
    writes: Rc<Cell<u64>>,
}

impl Hanging {
    fn new(rt: &Rt, writes: u64, payload: Payload) -> Hanging {
        let caps = Caps::power_safe(65_536, payload);
        let command = Nanos::from_micros(100);
        let inner = RamDevice::new(rt, RamOptions { command, ..RamOptions::new(caps) });
        Hanging { inner, link: Link::new(rt), writes: Rc::new(Cell::new(writes)) }
    }
}

impl BlockDevice for Hanging {
    forward!(inner: caps, is_alive, read, write_atomic, flush, discard);

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        if self.writes.get() == 0 {
            return self.link.command("a write", std::future::pending()).await;
        }
        self.writes.set(self.writes.get() - 1);
        self.inner.write(at, data, want).await
    }
}

impl PowerCycle for Hanging {
    type Device = Hanging;

    forward!(inner: off, power_on);

    fn device(&self) -> Hanging {
        Hanging { inner: self.inner.device(), ..self.clone() }
    }

    fn cut(&self) {
        self.link.cut();
        self.inner.cut();
    }
}

impl RowBox for Hanging {
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

fn plan(seconds: u64) -> RowPlan {
    RowPlan {
        cuts: 1,
        until_loss: false,
        clients: 2,
        warm_up: Nanos::ZERO,
        run_time: [Nanos::from_secs(seconds); 2],
        outage: [Nanos::ZERO; 2],
        recovery_cut_percent: 0,
        settings: Settings {
            page_bytes: 4096,
            cache_pages: 20,
            journal: Journal::Wal,
            synchronous: Synchronous::Full,
        },
        preparation: None,
        tell: Rc::new(|_| ()),
    }
}

fn hangs((findings, result): (RowFindings, Result<(), RowError>), least: Nanos) {
    assert_eq!(findings.cuts, 1);
    match result {
        Err(RowError::Hang(hang)) => {
            assert!(hang.waiting > 0 && hang.since >= least, "{hang}");
            assert!(hang.since < least + Nanos::from_secs(3), "{hang}");
            let told = hang.to_string();
            assert!(told.contains(&format!("since {} of virtual time", hang.since)), "{told}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_block_job_on_a_drive_that_hangs_fails() {
    let job = Job { queue_depth: 4, commands: Some(u64::MAX), ..Job::default() };
    let hanging = |rt: &Rt| Ok(Hanging::new(rt, 1000, Payload::Stamps));
    // (Four at a time, 100 µs each.)
    hangs(block::run(1, plan(100), job.clone(), hanging, || ()), Nanos::from_millis(20));
    // One that is slow for as long as that is not accused.
    let short = PATIENCE.0 / 1_000_000_000 - 1;
    let (findings, result) = block::run(1, plan(short), job, hanging, || ());
    assert!(result.is_ok() && findings.cuts == 1, "{result:?}");
}

#[test]
fn page_models_on_a_drive_that_hangs_fail() {
    let engine = EngineJob {
        database_mib: 16,
        buffer_percent: 50.0,
        log_mib: 4,
        clients: 4,
        ..EngineJob::default()
    };
    let tree = AppendTreeJob { documents: 1000, operations: 2000, ..AppendTreeJob::default() };
    for model in [PageModel::Engine(Box::new(engine), None, None), PageModel::Tree(tree)] {
        let hanging = |rt: &Rt| Ok(Hanging::new(rt, 600, Payload::Stamps));
        let (findings, result) = engines::run(1, plan(1), model, |rt, _| hanging(rt), || ());
        let told = result.unwrap_err().to_string();
        assert!(told.starts_with("nothing has ended since "), "{told}; {findings:?}");
    }
}

#[test]
fn a_database_on_a_drive_that_hangs_fails() {
    let ycsb = Rc::new(Ycsb::new(YcsbScale { records: 150, ..YcsbScale::default() }));
    let hanging = |rt: &Rt| Ok(Hanging::new(rt, 2000, Payload::Bytes));
    hangs(row::run(1, plan(200), ycsb, hanging, || ()), Nanos::ZERO);
}
