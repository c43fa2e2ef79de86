//! Threads that write by themselves, to devices that do not do what they should.
#![allow(clippy::disallowed_methods, reason = "threads are what is tested")]

use super::thread::Lend;
use super::{BlockingLog, BlockingOptions, files, lend};
use crate::pen::Pen;
use crate::{CreateOptions, Log, LogDevice, LogError, Lsn, OpenError, OpenOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use tantalum_device::{Ack, Caps, File, Payload, RamDevice, RamOptions};
use tantalum_rt::wall::{AlignedBuf, Backend, WallOptions};
use tantalum_rt::{Nanos, Rt, Runtime};
use tantalum_testing::Scratch;

/// A log on a device in memory to which threads write with this.
fn with_pen(pen: fn(&RamDevice, u32) -> Option<Box<dyn Pen>>) -> BlockingLog {
    let make = async |rt: Rt| {
        let caps = Caps { ack: Ack::Volatile, ..Caps::power_safe(4096, Payload::Bytes) };
        let devices = [LogDevice::new("ram", RamDevice::new(&rt, RamOptions::new(caps)))];
        Log::create(&rt, &devices, None, &CreateOptions::default()).await?;
        Ok(devices.to_vec())
    };
    BlockingLog::start(BlockingOptions::default(), make, pen).unwrap()
}

struct Fails;

impl Pen for Fails {
    fn write(&self, _unit: u64, _bytes: &AlignedBuf) -> bool {
        false
    }
}

struct Panics;

impl Pen for Panics {
    fn write(&self, _unit: u64, _bytes: &AlignedBuf) -> bool {
        panic!("as planned");
    }
}

/// What became of commits of several threads; `None`: it panicked.
fn commits(log: &BlockingLog) -> Vec<Option<Result<(), LogError>>> {
    let commit = |byte| {
        let log = log.clone();
        thread::spawn(move || log.commit(&[byte]).map(drop))
    };
    let threads: Vec<_> = (0..4).map(commit).collect();
    threads.into_iter().map(|t| t.join().ok()).collect()
}

#[test]
fn a_write_of_a_thread_that_fails_ends_every_wait() {
    let log = with_pen(|_, _| Some(Box::new(Fails)));
    let ended = commits(&log);
    assert!(ended.iter().all(|e| matches!(e, Some(Err(LogError::Failed(_))))), "{ended:?}");
    assert_eq!(log.durable(), Lsn::ZERO);
}

#[test]
fn a_thread_that_panics_while_it_writes_ends_every_wait() {
    let log = with_pen(|_, _| Some(Box::new(Panics)));
    let ended = commits(&log);
    let failed = |e: &Option<_>| matches!(e, None | Some(Err(LogError::Failed(_))));
    assert!(ended.iter().all(failed) && ended.contains(&None), "{ended:?}");
    assert_eq!(log.durable(), Lsn::ZERO);
    assert!(matches!(log.append(b"x"), Err(LogError::Failed(_))));
}

/// A write that is held up.
struct Hold {
    next: AtomicBool,
    held: AtomicBool,
    let_go: AtomicBool,
}

impl Hold {
    const fn new() -> Hold {
        let no = AtomicBool::new;
        Hold { next: no(false), held: no(false), let_go: no(false) }
    }

    fn next(&self) {
        self.next.store(true, Ordering::Release);
    }

    fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    fn until_held(&self) {
        for _ in 0..30_000 {
            if self.is_held() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("no thread writes");
    }

    fn let_go(&self) {
        self.let_go.store(true, Ordering::Release);
    }
}

/// Writes to a file, but for one write that is held up.
struct Slow(Box<dyn Pen>, &'static Hold);

impl Pen for Slow {
    fn write(&self, unit: u64, bytes: &AlignedBuf) -> bool {
        if self.1.next.swap(false, Ordering::AcqRel) {
            self.1.held.store(true, Ordering::Release);
            while !self.1.let_go.load(Ordering::Acquire) {
                thread::park_timeout(Duration::from_millis(1));
            }
        }
        self.0.write(unit, bytes)
    }
}

/// A log on such files. One alone has room for all that a test appends: a device that is held up for
/// long is left, and takes its room along.
fn on_slow_files(
    scratch: &Scratch,
    files: &[&str],
    open: OpenOptions,
    lend: Lend<File>,
) -> BlockingLog {
    let paths: Vec<_> = files.iter().map(|name| scratch.path(name)).collect();
    let mut options = BlockingOptions { open, ..BlockingOptions::default() };
    options.file.buffered = true;
    paths.iter().for_each(|path| BlockingLog::make_file(path, 48 << 20, &options).unwrap());
    BlockingLog::create(&paths, None, &CreateOptions::default(), &options).unwrap();
    let file = options.file.clone();
    let make = async move |rt: Rt| super::files(&rt, paths, &file);
    BlockingLog::start(options, make, lend).unwrap()
}

#[test]
fn a_thread_that_is_held_up_by_a_device_holds_up_no_other() {
    static HOLD: Hold = Hold::new();
    let scratch = Scratch::new();
    let open = OpenOptions { stall: Nanos::from_millis(50), ..OpenOptions::default() };
    let log = on_slow_files(&scratch, &["a", "b"], open, |file, unit| {
        Some(Box::new(Slow(lend(file, unit)?, &HOLD)))
    });
    log.commit(b"before").unwrap();
    HOLD.next();
    let other = log.clone();
    let held = thread::spawn(move || other.commit(b"held"));
    HOLD.until_held();
    // The runtime writes elsewhere what the other thread does not get done.
    let behind = log.commit(b"behind").unwrap();
    assert!(log.durable() >= behind.end && !held.is_finished());
    HOLD.let_go();
    assert!(held.join().unwrap().unwrap().end <= behind.lsn);
    let found: Vec<_> = log.read(Lsn::ZERO).unwrap().map(|r| r.unwrap().bytes).collect();
    assert_eq!(found, [&b"before"[..], b"held", b"behind"]);
}

/// It has more to write than a group has: those behind are not left to it.
#[test]
fn a_thread_that_is_held_up_amid_a_long_record_holds_up_no_other() {
    static HOLD: Hold = Hold::new();
    let scratch = Scratch::new();
    let stall = Nanos::from_millis(50);
    let open = OpenOptions { stall, ..OpenOptions::default() };
    let log = on_slow_files(&scratch, &["a", "b"], open, |file, unit| {
        Some(Box::new(Slow(lend(file, unit)?, &HOLD)))
    });
    log.commit(b"before").unwrap();
    HOLD.next();
    let other = log.clone();
    let held = thread::spawn(move || other.commit(&[1; 600_000]));
    HOLD.until_held();
    let (done, ended) = channel();
    let behind = log.clone();
    thread::spawn(move || done.send(behind.commit(b"behind").map(drop)));
    let ended = ended.recv_timeout(Duration::from_secs(30));
    assert!(!held.is_finished());
    HOLD.let_go();
    ended.expect("nobody writes for it").unwrap();
    held.join().unwrap().unwrap();
}

/// Once all appends waited for the one whose turn it was, which was held up while it made room.
#[test]
fn an_append_that_is_held_up_while_it_makes_room_holds_up_no_other() {
    static HOLD: Hold = Hold::new();
    let scratch = Scratch::new();
    let stall = Nanos::from_millis(50);
    let open = OpenOptions { stall, memory: 3 << 20, ..OpenOptions::default() };
    let log = on_slow_files(&scratch, &["a", "b"], open, |file, unit| {
        Some(Box::new(Slow(lend(file, unit)?, &HOLD)))
    });
    HOLD.next();
    // A thread makes room only while the runtime has not, so it goes on until it does.
    let first = log.clone();
    let held = thread::spawn(move || {
        let mut ends = Vec::new();
        while !HOLD.is_held() {
            ends.push(first.append(&[1; 4096]).unwrap().end);
            if ends.len() == 500 {
                let durable = first.durable();
                if let Some(at) = ends.iter().rfind(|end| **end <= durable) {
                    first.checkpoint(*at, 0).unwrap();
                }
                ends.clear();
            }
        }
    });
    HOLD.until_held();
    let (done, ended) = channel();
    let second = log.clone();
    thread::spawn(move || {
        (0..1500).for_each(|_| assert!(second.append(&[2; 4096]).is_ok()));
        let _ = done.send(());
    });
    let ended = ended.recv_timeout(Duration::from_secs(30));
    let stats = log.stats();
    HOLD.let_go();
    ended.unwrap_or_else(|_| panic!("appends wait for one that is held up: {stats:?}"));
    held.join().unwrap();
}

/// Once the thread that was woken in order to write went away instead, since its record was durable,
/// and the others waited for ever.
#[test]
fn threads_go_on_where_a_group_ends_among_those_that_wait_together() {
    static HOLD: Hold = Hold::new();
    let scratch = Scratch::new();
    let open = OpenOptions { group_bytes: 16 << 10, ..OpenOptions::default() };
    let log = on_slow_files(&scratch, &["a"], open, |file, unit| {
        Some(Box::new(Slow(lend(file, unit)?, &HOLD)))
    });
    HOLD.next();
    let (done, ended) = channel();
    // None commits twice, so none comes back to write for the others.
    let commit = |number: u8| {
        let (log, done) = (log.clone(), done.clone());
        thread::spawn(move || done.send(log.commit(&[number; 1000]).map(drop)))
    };
    let first = commit(0);
    HOLD.until_held();
    let others: Vec<_> = (1..80).map(commit).collect();
    while log.end().since(Lsn::ZERO) < 80 * 1000 {
        thread::yield_now();
    }
    // All of them wait.
    thread::sleep(Duration::from_millis(50));
    HOLD.let_go();
    for number in 0..80 {
        let ended = ended.recv_timeout(Duration::from_secs(30));
        ended.unwrap_or_else(|_| panic!("nobody writes for {} threads", 80 - number)).unwrap();
    }
    others.into_iter().chain([first]).for_each(|t| t.join().unwrap().unwrap());
}

/// Pens that were made, and writes with the second one.
static PENS: AtomicU64 = AtomicU64::new(0);
static WRITTEN: AtomicU64 = AtomicU64::new(0);

struct Counts(Box<dyn Pen>);

impl Pen for Counts {
    fn write(&self, unit: u64, bytes: &AlignedBuf) -> bool {
        WRITTEN.fetch_add(1, Ordering::AcqRel);
        self.0.write(unit, bytes)
    }
}

fn lend_counted(file: &File, unit: u32) -> Option<Box<dyn Pen>> {
    let pen = lend(file, unit)?;
    match PENS.fetch_add(1, Ordering::AcqRel) {
        0 => Some(pen),
        _ => Some(Box::new(Counts(pen))),
    }
}

#[test]
fn threads_write_to_a_device_that_has_taken_the_place_of_a_lost_one() {
    let scratch = Scratch::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| scratch.path(name));
    let mut options = BlockingOptions::default();
    options.file.buffered = true;
    for path in [&a, &b, &c] {
        BlockingLog::make_file(path, 16 << 20, &options).unwrap();
    }
    let create = CreateOptions { copies: 2, ..CreateOptions::default() };
    BlockingLog::create(&[&a, &b], None, &create, &options).unwrap();
    options.open.degraded = true;
    let file = options.file.clone();
    let make = async move |rt: Rt| files(&rt, vec![b], &file);
    let log = BlockingLog::start(options, make, lend_counted).unwrap();
    log.commit(b"before").unwrap();
    log.replace(0, &c, false).unwrap();
    // (On a busy machine the runtime is often awake before this thread, and writes.)
    for _ in 0..10_000 {
        log.commit(b"after").unwrap();
        if WRITTEN.load(Ordering::Acquire) > 0 {
            return;
        }
    }
    panic!("no thread has written: {:?}", log.stats());
}

/// Without io_uring a slow write would hold up the thread that is to write it again.
#[test]
fn hedging_over_a_back_end_that_blocks_is_refused() {
    let scratch = Scratch::new();
    let files = [scratch.path("a"), scratch.path("b")];
    let wall = WallOptions { io: Backend::Poll, ..WallOptions::default() };
    let mut options = BlockingOptions { wall, ..BlockingOptions::default() };
    options.file.buffered = true;
    for file in &files {
        BlockingLog::make_file(file, 16 << 20, &options).unwrap();
    }
    let create = CreateOptions::default();
    BlockingLog::create(&files, None, &create, &options).unwrap();
    let before: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    let error = BlockingLog::open(&files, options.clone()).err().expect("it is refused");
    assert!(error.to_string().contains("without hedging"), "{error}");
    // So it is without threads, in a runtime of one's own.
    let mut runtime = Runtime::wall_time(1, wall).unwrap();
    let (rt, settings, paths) = (runtime.handle(), options.file.clone(), files.clone());
    let opened = runtime.block_on(async move {
        let open = |path| LogDevice::new("a file", File::open(&rt, path, &settings).unwrap());
        let devices = paths.iter().map(open).collect();
        Log::open(&rt, devices, OpenOptions::default()).await.err()
    });
    assert_eq!(opened.unwrap(), Some(OpenError::Hedging("a file".to_string())));
    drop(runtime);
    let after: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(before == after, "nothing was changed");
    options.open.hedge.enabled = false;
    let log = BlockingLog::open(&files, options).unwrap();
    log.commit(b"record").unwrap();
    log.close().unwrap();
}
