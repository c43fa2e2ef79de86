//! A host's page cache under the crash harness: the promises that it states hold.

use std::cell::RefCell;
use tantalum_device::{Ack, Caps, GroupLimit, IoError, Payload, PowerCycle, RamDevice, RamOptions};
use tantalum_oracle::harness::{CrashPlan, CutAt, crash_run};
use tantalum_rt::{Nanos, Rt};
use tantalum_workload::jobs::{Buffered, Cached};

type Below = <RamDevice as PowerCycle>::Device;

/// A host with a page cache and a device: a cut takes both.
struct Machine {
    rt: Rt,
    ram: RamDevice,
    settings: Buffered,
    barriers: bool,
    host: RefCell<Cached<Below>>,
}

impl Machine {
    fn new(rt: &Rt, options: RamOptions, settings: Buffered, barriers: bool) -> Machine {
        let ram = RamDevice::new(rt, options);
        let host = RefCell::new(Cached::new(rt, ram.device(), Some(settings), barriers));
        Machine { rt: rt.clone(), ram, settings, barriers, host }
    }
}

impl PowerCycle for Machine {
    type Device = Cached<Below>;

    fn device(&self) -> Cached<Below> {
        self.host.borrow().clone()
    }

    fn cut(&self) {
        self.ram.cut();
    }

    async fn off(&self) {
        self.ram.off().await;
        let dead = self.host.borrow().clone();
        dead.close(false).await.unwrap();
    }

    async fn power_on(&self) -> Result<(), IoError> {
        self.ram.power_on().await?;
        let host = Cached::new(&self.rt, self.ram.device(), Some(self.settings), self.barriers);
        let before = self.host.replace(host);
        before.close(false).await.unwrap();
        Ok(())
    }
}

#[test]
fn page_caches_keep_their_promises() {
    let (mut succeeded, mut hashes) = (0, Vec::new());
    for seed in 0..120 {
        let [few, survives, barriers, bytes] = [1, 2, 4, 8].map(|bit| seed & bit != 0);
        let caps = Caps {
            ack: if survives { Ack::PowerSafe } else { Ack::Volatile },
            ordered: false,
            atomic_group: Some(GroupLimit { extents: 16, bytes: 1 << 20 }),
            ..Caps::power_safe(200, if bytes { Payload::Bytes } else { Payload::Stamps })
        };
        let options = RamOptions {
            command: Nanos::from_micros(5),
            jitter: Nanos::from_micros(40),
            flush: Nanos::from_micros(60),
            ..RamOptions::new(caps)
        };
        let settings = Buffered {
            call_ns: 1000,
            cache_pages: if few { 16 } else { 150 },
            dirty_expire_ms: 1,
            writeback_ms: 1,
            command_pages: 1 + seed % 6,
            depth: 1 + seed % 5,
            ..Buffered::default()
        };
        let plan = CrashPlan {
            range: if seed % 3 == 0 { 12 } else { 100 },
            cut: CutAt::Within(Nanos::from_millis(3)),
            ..CrashPlan::default()
        };
        let machine = |rt: &Rt| Machine::new(rt, options.clone(), settings, barriers);
        let report = crash_run(seed, &plan, machine).unwrap();
        assert!(report.is_clean(), "{report}");
        succeeded += report.succeeded;
        if seed < 8 {
            assert_eq!(report.trace_hash, crash_run(seed, &plan, machine).unwrap().trace_hash);
            hashes.push(report.trace_hash);
        }
    }
    assert!(succeeded > 50_000, "{succeeded}");
    hashes.dedup();
    assert_eq!(hashes.len(), 8);
}
