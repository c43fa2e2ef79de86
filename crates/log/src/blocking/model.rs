//! Threads that write by themselves, and the runtime beside them, in all orders that loom tells
//! apart: a record is written once, at its LSN, a lane has one write in flight, and whoever waits is
//! woken. A lost wake shows as a deadlock.

use super::front::{Front, Rules};
use crate::area::Area;
use crate::format::{HEAD, payload};
use crate::hedge::HedgeOptions;
use crate::pen::Pen;
use crate::plan::{Health, LaneSpec, Plan, PlanOptions};
use crate::record::FRAME;
use crate::ring::Ring;
use crate::sys::Parker;
use crate::threads::closed;
use crate::works::{Shared, Works};
use crate::{LogError, Lsn, WhenFull};
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;
use std::task::{Wake, Waker};
use tantalum_rt::Nanos;
use tantalum_rt::wall::AlignedBuf;

const UNIT: u32 = 512;
const BYTES: usize = 400;
const RECORD: u64 = (FRAME + BYTES) as u64;
/// Records that memory holds: a block that is not full stays there.
const FULL: u64 = 4;

/// A device: the bytes of the log that were written to it, and whether it fails.
struct Disk {
    log: Mutex<Vec<u8>>,
    writing: AtomicBool,
    fails: bool,
}

impl Disk {
    fn write_units(&self, bytes: &[u8]) -> bool {
        assert!(!self.writing.swap(true, Ordering::AcqRel), "two writes on one lane");
        let mut log = self.log.lock().unwrap();
        for block in bytes.chunks(UNIT as usize) {
            let number = |at: usize, n: usize| {
                let bytes = &block[at..at + n];
                bytes.iter().rev().fold(0u64, |all, b| all << 8 | u64::from(*b))
            };
            // Headers of sections have no bytes.
            let (lsn, length) = (number(16, 8) as usize, number(6, 2) as usize);
            if block[4] == 1 {
                assert!(lsn <= log.len(), "a gap");
                log.truncate(lsn);
                log.extend(&block[HEAD..HEAD + length]);
            }
        }
        drop(log);
        self.writing.store(false, Ordering::Release);
        !self.fails
    }
}

struct DiskPen(Arc<Disk>);

impl Pen for DiskPen {
    fn write(&self, _unit: u64, bytes: &AlignedBuf) -> bool {
        self.0.write_units(bytes)
    }
}

struct Bell(Arc<Parker>);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.0.wake();
    }
}

/// A log of one device with memory for [`FULL`] records and no more.
struct Log {
    front: Arc<Front>,
    shared: Arc<Shared>,
    disk: Arc<Disk>,
}

impl Clone for Log {
    fn clone(&self) -> Log {
        let (front, shared) = (self.front.clone(), self.shared.clone());
        Log { front, shared, disk: self.disk.clone() }
    }
}

impl Log {
    fn new(lent: bool, fails: bool) -> Log {
        Log::with_groups(lent, fails, 4)
    }

    /// A log whose groups have so many blocks.
    fn with_groups(lent: bool, fails: bool, group_units: u32) -> Log {
        let options = PlanOptions {
            payload: payload(UNIT),
            copies: 1,
            group_units,
            archive_bytes: 600,
            archive_units: 16,
            stall: Nanos(2000),
            hedge: HedgeOptions::default(),
        };
        let main = Area::new(0, 2, 12);
        let known = crate::latency::Latencies::default();
        let lane = LaneSpec { device: 0, archive: false, stream: 0, main, second: None, known };
        let (zero, health) = (Lsn::ZERO, vec![Health::Present]);
        let plan = Plan::new(options, vec![lane], health, 1, zero, zero);
        let memory = (FULL * RECORD + RECORD / 2) as usize;
        let mut works =
            Works::new(plan, Ring::new(zero, memory), vec![7], UNIT, (memory, WhenFull::Wait));
        works.jobs.push(None);
        let shared = Arc::new(Shared::new(works));
        let log = Mutex::new(Vec::new());
        let disk = Arc::new(Disk { log, writing: AtomicBool::new(false), fails });
        let pen = lent.then(|| Box::new(DiskPen(disk.clone())) as Box<dyn Pen>);
        let rules =
            Rules { record_limit: BYTES as u32, read_only: false, when_full: WhenFull::Wait };
        let front = Front::new(rules, shared.clone(), vec![pen], Box::new(|| Nanos(1)));
        Log { front: Arc::new(front), shared, disk }
    }

    /// What the runtime does once; whether the log has failed.
    fn pump(&self) -> bool {
        let looked = self.shared.look(Nanos(1));
        looked.wakes.wake();
        if looked.stopped {
            self.front.close(LogError::Failed("its devices failed".to_string()));
            return true;
        }
        let job = self.shared.lock().jobs[0].take();
        if let Some((order, bytes)) = job {
            let ok = self.disk.write_units(&bytes);
            self.shared.lock().done(Nanos(1), &order, bytes.len(), Nanos(1), ok);
            return self.pump();
        }
        false
    }

    /// The runtime, until everything before this LSN is durable.
    fn serve(&self, until: Lsn) {
        while self.front.durable() < until {
            let parker = Parker::new();
            if self.front.arm(&Waker::from(Arc::new(Bell(parker.clone())))) {
                parker.wait();
            }
            if self.pump() {
                return;
            }
        }
    }

    /// Memory is full then.
    fn fill(&self) {
        for _ in 0..FULL {
            self.front.append(&[&[9; BYTES]], false).unwrap();
        }
    }

    fn commit(&self, byte: u8) -> thread::JoinHandle<Result<(), LogError>> {
        let log = self.clone();
        thread::spawn(move || {
            let appended = log.front.append(&[&[byte; BYTES]], true)?;
            assert!(log.front.durable() >= appended.end, "it was not durable yet");
            log.check(appended.lsn, byte);
            Ok(())
        })
    }

    /// The record is on the device.
    fn check(&self, lsn: Lsn, byte: u8) {
        let at = lsn.0 as usize + FRAME;
        assert_eq!(self.disk.log.lock().unwrap().get(at), Some(&byte));
    }
}

fn model(switches: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(switches);
    model.check(scenario);
}

#[test]
fn threads_write_by_themselves_one_at_a_time() {
    model(3, || {
        let log = Log::new(true, false);
        let threads = [log.commit(0), log.commit(1)];
        log.front.append(&[&[2; BYTES]], true).unwrap();
        threads.into_iter().for_each(|t| t.join().unwrap().unwrap());
        assert_eq!(log.front.durable(), Lsn(3 * RECORD));
    });
}

#[test]
fn a_group_that_gathers_waits_for_nobody_who_does_not_come() {
    model(2, || {
        let log = Log::new(true, false);
        let again = log.clone();
        let first = thread::spawn(move || {
            for _ in 0..2 {
                again.front.append(&[&[0; BYTES]], true).unwrap();
            }
        });
        let second = log.commit(1);
        log.front.append(&[&[2; BYTES]], true).unwrap();
        first.join().unwrap();
        second.join().unwrap().unwrap();
        assert_eq!(log.front.durable(), Lsn(4 * RECORD));
    });
}

/// What waits behind the first write is more than a group, which ends within the third record.
#[test]
fn threads_go_on_where_a_group_ends_among_those_that_wait() {
    model(2, || {
        let log = Log::with_groups(true, false, 3);
        let threads = [log.commit(0), log.commit(1), log.commit(2)];
        log.front.append(&[&[3; BYTES]], true).unwrap();
        threads.into_iter().for_each(|t| t.join().unwrap().unwrap());
        assert_eq!(log.front.durable(), Lsn(4 * RECORD));
    });
}

#[test]
fn the_runtime_writes_to_a_device_that_is_not_lent() {
    model(2, || {
        let log = Log::new(false, false);
        let threads = [log.commit(0), log.commit(1)];
        log.serve(Lsn(2 * RECORD));
        threads.into_iter().for_each(|t| t.join().unwrap().unwrap());
    });
}

#[test]
fn what_the_runtime_writes_is_followed_by_what_a_thread_writes() {
    model(3, || {
        let log = Log::new(true, false);
        let end = log.front.append(&[&[9; BYTES]], false).unwrap().end;
        let threads = [log.commit(0), log.commit(1)];
        // A flush that a task asks for.
        log.shared.lock().plan.want(end);
        log.pump();
        threads.into_iter().for_each(|t| t.join().unwrap().unwrap());
        assert_eq!(log.front.durable(), Lsn(3 * RECORD));
    });
}

#[test]
fn whoever_finds_no_room_gets_it_when_there_is_some() {
    model(3, || {
        let log = Log::new(true, false);
        log.fill();
        let threads = [log.commit(0), log.commit(1)];
        threads.into_iter().for_each(|t| t.join().unwrap().unwrap());
    });
}

#[test]
fn a_write_that_fails_ends_every_wait() {
    model(2, || {
        let log = Log::new(true, true);
        let threads = [log.commit(0), log.commit(1)];
        log.serve(Lsn(u64::MAX));
        for thread in threads {
            assert!(matches!(thread.join().unwrap(), Err(LogError::Failed(_))));
        }
        assert!(matches!(log.front.why_closed(), LogError::Failed(_)));
    });
}

#[test]
fn the_end_of_the_log_ends_every_wait() {
    model(2, || {
        let log = Log::new(false, false);
        // One waits for its record, or both wait for room.
        for _ in 1..FULL {
            log.front.append(&[&[9; BYTES]], false).unwrap();
        }
        let threads = [log.commit(0), log.commit(1)];
        log.front.close(closed());
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Err(closed()));
        }
        assert_eq!(log.front.why_closed(), closed());
    });
}
