//! The log from threads, on real time: files, and devices in memory that fail.
#![allow(clippy::disallowed_methods, reason = "threads are what is tested")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use tantalum_device::{Caps, CommandKind, Faults, Payload, RamDevice, RamOptions};
use tantalum_log::{
    Appended, BlockingError, BlockingLog, BlockingOptions, CreateOptions, Log, LogDevice, LogError,
    Lsn, OpenError, OpenOptions, WhenFull,
};
use tantalum_testing::Scratch;

const LIMIT: u32 = 4096;

fn options(memory: usize) -> BlockingOptions {
    let mut options = BlockingOptions::default();
    options.open.memory = memory;
    // Where the test runs there may be no direct I/O.
    options.file.buffered = true;
    options
}

fn create_options() -> CreateOptions {
    CreateOptions { record_limit: Some(LIMIT), ..CreateOptions::default() }
}

/// A log on new files.
fn on_files(
    scratch: &Scratch,
    files: usize,
    bytes: u64,
    memory: usize,
) -> (Vec<PathBuf>, BlockingLog) {
    let paths: Vec<PathBuf> = (0..files).map(|i| scratch.path(&format!("{i}.log"))).collect();
    let options = options(memory);
    paths.iter().for_each(|path| BlockingLog::make_file(path, bytes, &options).unwrap());
    BlockingLog::create(&paths, None, &create_options(), &options).unwrap();
    let log = BlockingLog::open(&paths, options).unwrap();
    (paths, log)
}

/// A log on a device in memory with so many blocks; `arm` may make it fail.
fn in_memory(
    blocks: u64,
    open: OpenOptions,
    arm: impl FnOnce(&Faults<RamDevice>) + Send + 'static,
) -> Result<BlockingLog, BlockingError> {
    let options = BlockingOptions { open, ..BlockingOptions::default() };
    BlockingLog::open_with(options, async move |rt| {
        let caps = Caps::power_safe(blocks, Payload::Bytes);
        let device = Faults::new(&rt, RamDevice::new(&rt, RamOptions::new(caps)), "faults");
        let devices = vec![LogDevice::new("ram", device.clone())];
        Log::create(&rt, &devices, None, &create_options()).await?;
        arm(&device);
        Ok(devices)
    })
}

fn record(thread: u8, number: u64) -> Vec<u8> {
    let length = (number * 997 + u64::from(thread) * 131) % u64::from(LIMIT - 9);
    let mut bytes = vec![thread];
    bytes.extend(number.to_le_bytes());
    bytes.extend((0..length).map(|i| (i as u8) ^ thread ^ number as u8));
    bytes
}

/// All records by LSN; those of each thread are its first ones, in order.
fn check_order(log: &BlockingLog) -> BTreeMap<Lsn, Vec<u8>> {
    let mut next = BTreeMap::<u8, u64>::new();
    let mut all = BTreeMap::new();
    for found in log.read(log.first().unwrap()).unwrap() {
        let found = found.unwrap();
        let number = next.entry(found.bytes[0]).or_default();
        assert_eq!(found.bytes, record(found.bytes[0], *number));
        *number += 1;
        all.insert(found.lsn, found.bytes);
    }
    all
}

/// Appends of one thread, of which every seventh is committed: what was acknowledged.
fn work(log: &BlockingLog, thread: u8, count: u64) -> Vec<(Appended, Vec<u8>)> {
    let (mut pending, mut acknowledged) = (Vec::new(), Vec::new());
    for number in 0..count {
        let bytes = record(thread, number);
        let (a, b) = bytes.split_at(bytes.len() / 2);
        if number % 7 < 6 {
            let Ok(appended) = log.append_pieces(&[a, b]) else { break };
            pending.push((appended, bytes));
        } else {
            let Ok(appended) = log.commit(&bytes) else { break };
            assert!(log.durable() >= appended.end);
            acknowledged.append(&mut pending);
            acknowledged.push((appended, bytes));
        }
    }
    acknowledged
}

fn many(log: &BlockingLog, threads: u8, count: u64) -> Vec<(Appended, Vec<u8>)> {
    let work = |thread| {
        let log = log.clone();
        thread::spawn(move || work(&log, thread, count))
    };
    let running: Vec<_> = (0..threads).map(work).collect();
    running.into_iter().flat_map(|t| t.join().unwrap()).collect()
}

#[test]
fn what_many_threads_committed_is_there_when_the_log_is_opened_again() {
    for (files, memory) in [(1, 32 << 10), (2, 1 << 20)] {
        let scratch = Scratch::new();
        let (paths, log) = on_files(&scratch, files, 16 << 20, memory);
        let mut acknowledged = many(&log, 8, 200);
        assert!(acknowledged.len() >= 8 * 190);
        acknowledged.sort_by_key(|(appended, _)| appended.lsn);
        drop(log);
        let log = BlockingLog::open(&paths, options(memory)).unwrap();
        let found = check_order(&log);
        for (appended, bytes) in &acknowledged {
            assert_eq!(found.get(&appended.lsn), Some(bytes));
            assert_eq!(appended.lsn.plus(8 + bytes.len() as u64), appended.end);
        }
        let (middle, _) = acknowledged[acknowledged.len() / 2];
        log.checkpoint(middle.lsn, 5).unwrap();
        let stats = log.stats().unwrap();
        assert_eq!((stats.first, stats.checkpoint_number), (middle.lsn, 5));
        let early = log.read(Lsn::ZERO).err();
        assert_eq!(early, Some(LogError::BeforeFirst { lsn: Lsn::ZERO, first: middle.lsn }));
    }
}

#[test]
fn a_close_ends_every_call_and_keeps_what_was_acknowledged() {
    let scratch = Scratch::new();
    let (paths, log) = on_files(&scratch, 1, 16 << 20, 32 << 10);
    let other = log.clone();
    let working = thread::spawn(move || many(&other, 6, u64::MAX));
    while log.durable() < Lsn(100_000) {
        log.flush().unwrap();
    }
    log.close().unwrap();
    let acknowledged = working.join().unwrap();
    assert!(!acknowledged.is_empty());
    for ended in [log.append(b"x").err(), log.close().err(), log.checkpoint(Lsn::ZERO, 1).err()] {
        assert!(matches!(ended, Some(LogError::Failed(_))), "{ended:?}");
    }
    // A clone does not keep the files.
    let again = BlockingLog::open(&paths, options(32 << 10)).unwrap();
    drop(log);
    let found = check_order(&again);
    assert!(acknowledged.iter().all(|(at, bytes)| found.get(&at.lsn) == Some(bytes)));
}

#[test]
fn a_device_that_fails_ends_every_wait_with_an_error() {
    for nth in [3, 40] {
        let open = OpenOptions { memory: 32 << 10, ..OpenOptions::default() };
        let fail = move |device: &Faults<RamDevice>| device.fail_nth(CommandKind::Write, nth);
        let Ok(log) = in_memory(4096, open, fail) else { continue };
        let (told, lsns) = channel();
        let tell = move |durable| match told.send(durable) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        log.subscribe(tell).unwrap();
        // Threads go on until they get an error.
        many(&log, 5, u64::MAX);
        let why = log.wait_durable(log.end()).err();
        assert!(matches!(why, Some(LogError::Failed(_))), "{why:?}");
        assert!(matches!(lsns.iter().last(), Some(Err(LogError::Failed(_)))));
        assert!(log.stats().unwrap().durable <= log.end());
    }
}

/// Once a listener did not hear of what became durable while the thread of the log was busy.
#[test]
fn a_listener_hears_of_what_is_durable_after_the_call() {
    let scratch = Scratch::new();
    let (_paths, log) = on_files(&scratch, 1, 1 << 20, 64 << 10);
    let ((held, is_held), (free, is_free)) = (channel(), channel::<()>());
    let hold = move |_| {
        let _ = held.send(());
        let _ = is_free.recv();
        ControlFlow::Break(())
    };
    log.subscribe(hold).unwrap();
    log.commit(b"the first listener holds the thread").unwrap();
    is_held.recv().unwrap();
    let (told, lsns) = channel();
    log.subscribe(move |lsn| told.send(lsn).map_or(ControlFlow::Break(()), ControlFlow::Continue))
        .unwrap();
    let at = log.commit(b"written by this thread").unwrap();
    drop(free);
    log.stats().unwrap();
    log.close().unwrap();
    assert_eq!(lsns.recv().unwrap().unwrap(), at.end);
}

/// Once the log took the panic of a thread that appends in a destructor for one of its own.
#[test]
fn a_log_that_is_used_while_a_thread_panics_goes_on() {
    struct Says(BlockingLog);
    impl Drop for Says {
        fn drop(&mut self) {
            self.0.commit(b"last words").unwrap();
        }
    }
    let log = in_memory(200, OpenOptions::default(), |_| {}).unwrap();
    let says = Says(log.clone());
    let ended = thread::spawn(move || {
        let _says = says;
        panic!("as planned");
    });
    assert!(ended.join().is_err());
    log.commit(b"record").unwrap();
    log.close().unwrap();
}

/// Once a listener whose letter lay in the inbox when the log was closed never heard of the end.
#[test]
fn a_listener_that_comes_while_the_log_is_closed_hears_of_the_end() {
    for _ in 0..200 {
        let log = in_memory(200, OpenOptions::default(), |_| {}).unwrap();
        let (told, news) = channel();
        let other = log.clone();
        let subscribes = thread::spawn(move || {
            for _ in 0..4 {
                let told = told.clone();
                let tell = move |news: Result<Lsn, LogError>| {
                    let _ = told.send(news.is_err());
                    ControlFlow::Continue(())
                };
                let _ = other.subscribe(tell);
            }
        });
        log.close().unwrap();
        subscribes.join().unwrap();
        assert_eq!(news.iter().filter(|ended| *ended).count(), 4);
    }
}

#[test]
fn a_panic_in_the_thread_is_an_error_of_every_call() {
    let log = in_memory(4096, OpenOptions::default(), |_| {}).unwrap();
    // All are told why it ended, those in the thread that panics, too.
    let (told, news) = channel();
    let tell = move |news| told.send(news).map_or(ControlFlow::Break(()), ControlFlow::Continue);
    log.subscribe(tell).unwrap();
    log.subscribe(|_| panic!("as planned")).unwrap();
    while log.commit(b"record").is_ok() {}
    let why = log.commit(b"record").unwrap_err().to_string();
    assert!(why.contains("as planned"), "{why}");
    let ends: Vec<_> = news.iter().filter_map(Result::err).collect();
    assert!(ends.len() == 1 && ends[0].to_string() == why, "{ends:?}");
    assert_eq!(log.stats().unwrap_err().to_string(), why);
    assert_eq!(log.close().unwrap_err().to_string(), why);
    let planned = |_: &Faults<RamDevice>| panic!("at once");
    let opened = in_memory(4096, OpenOptions::default(), planned).err().unwrap();
    assert!(opened.to_string().contains("at once"), "{opened}");
}

#[test]
fn a_full_log_says_so_and_takes_more_after_a_checkpoint() {
    let open = OpenOptions { when_full: WhenFull::Fail, ..OpenOptions::default() };
    let log = in_memory(200, open, |_| {}).unwrap();
    for lap in 0..5 {
        let mut count = 0;
        let full = loop {
            match log.append(&[lap; 1000]) {
                Ok(_) => count += 1,
                Err(e) => break e,
            }
        };
        let end = log.end();
        assert_eq!(full, LogError::Full { first: log.first().unwrap(), end });
        assert!(count > 0);
        // What was accepted finds room.
        assert_eq!(log.flush(), Ok(end));
        log.checkpoint(end, lap.into()).unwrap();
    }
}

#[test]
fn appends_wait_for_a_checkpoint() {
    let log = in_memory(200, OpenOptions::default(), |_| {}).unwrap();
    let other = log.clone();
    let working = thread::spawn(move || many(&other, 4, 700));
    while !working.is_finished() {
        log.flush().unwrap();
        log.checkpoint(log.durable(), 1).or_else(part_of_a_record).unwrap();
    }
    assert_eq!(working.join().unwrap().len(), 4 * 700);
}

/// What is durable may end within a record: then the next checkpoint moves.
fn part_of_a_record(e: LogError) -> Result<(), LogError> {
    if matches!(e, LogError::NoRecord { .. }) { Ok(()) } else { Err(e) }
}

#[test]
fn a_call_that_makes_no_sense_has_an_error_of_its_own() {
    let log = in_memory(4096, OpenOptions::default(), |_| {}).unwrap();
    let bytes = LIMIT as usize + 1;
    assert_eq!(log.append(&vec![0; bytes]), Err(LogError::RecordTooLong { bytes, limit: LIMIT }));
    let (lsn, durable) = (log.end().plus(1), log.durable());
    assert_eq!(log.wait_durable(lsn), Err(LogError::NotDurable { lsn, durable }));
    assert_eq!(log.read(lsn).err(), Some(LogError::NotDurable { lsn, durable }));
    let missing = BlockingLog::open(&["/nowhere/at/all"], BlockingOptions::default()).err();
    assert!(matches!(missing, Some(BlockingError::File(_))), "{missing:?}");

    // Within a record, in memory and on the device, nothing begins.
    let at = log.commit(b"a record").unwrap();
    let (lsn, within) = (at.lsn.plus(3), Some(at.lsn));
    let none = LogError::NoRecord { lsn, within };
    assert_eq!(log.checkpoint(lsn, 1), Err(none.clone()));
    assert_eq!(log.read(lsn).unwrap().next(), Some(Err(none.clone())));
    log.commit(b"another one").unwrap();
    assert_eq!(log.read(lsn).unwrap().next(), Some(Err(none)));
}

/// Once it was told to end the process that uses the file, which was this one.
#[test]
fn a_file_that_is_named_twice_is_told_so_by_any_name() {
    let scratch = Scratch::new();
    let (one, link) = (scratch.path("a.log"), scratch.path("link"));
    let options = options(1 << 20);
    BlockingLog::make_file(&one, 1 << 20, &options).unwrap();
    std::os::unix::fs::symlink(&one, &link).unwrap();
    for (a, b) in [(&one, &one), (&one, &link), (&link, &one)] {
        let name = |path: &PathBuf| path.display().to_string();
        let twice = OpenError::Twice(name(a), name(b)).to_string();
        let array = BlockingLog::create(&[a, b], None, &create_options(), &options);
        assert_eq!(array.unwrap_err().to_string(), twice);
        let archive = BlockingLog::create(&[a], Some(b), &create_options(), &options);
        assert_eq!(archive.unwrap_err().to_string(), twice);
        let opened = BlockingLog::open(&[a, b], options.clone());
        assert_eq!(opened.err().map(|e| e.to_string()), Some(twice));
    }
}

#[test]
fn a_file_that_is_not_there_is_a_missing_device_of_a_degraded_log() {
    let scratch = Scratch::new();
    let files = [scratch.path("0.log"), scratch.path("1.log")];
    let mut options = options(1 << 20);
    files.iter().for_each(|path| BlockingLog::make_file(path, 1 << 20, &options).unwrap());
    let create = CreateOptions { copies: 2, ..create_options() };
    BlockingLog::create(&files, None, &create, &options).unwrap();
    std::fs::remove_file(&files[1]).unwrap();
    let not_there = |opened: Result<BlockingLog, BlockingError>| {
        let told = opened.err().map_or(String::new(), |e| e.to_string());
        assert!(told.starts_with(&files[1].display().to_string()), "{told}");
    };
    not_there(BlockingLog::open(&files, options.clone()));
    options.open.degraded = true;
    let log = BlockingLog::open(&files, options.clone()).unwrap();
    log.commit(b"on one device").unwrap();
    let stats = log.stats().unwrap();
    assert!(stats.degraded && stats.devices[1].name == files[1].display().to_string(), "{stats:?}");
    assert_eq!(log.one_copy(), Ok(vec![]));
    log.close().unwrap();

    // With one copy it is needed, and none is left.
    let scratch = Scratch::new();
    let (mut files, log) = on_files(&scratch, 2, 1 << 20, 1 << 20);
    drop(log);
    files.swap(0, 1);
    std::fs::remove_file(&files[1]).unwrap();
    let opened = BlockingLog::open(&files, options).err().map_or(String::new(), |e| e.to_string());
    assert!(opened.starts_with(&files[1].display().to_string()), "{opened}");
}

#[test]
fn what_the_room_says_is_accepted_and_what_is_refused_has_no_room() {
    let open = OpenOptions { when_full: WhenFull::Fail, ..OpenOptions::default() };
    let log = in_memory(1024, open, |_| {}).unwrap();
    let (full, empty) = ([7; LIMIT as usize], log.room());
    assert!(empty > 0);
    let refused = loop {
        let room = log.room();
        match log.commit(&full) {
            Ok(_) => assert!(log.room() <= room),
            Err(e) => break (room, e),
        }
    };
    assert!(matches!(refused, (room, LogError::Full { .. }) if room < full.len() as u64 + 8));
    // What is left, if it takes a record at all, is taken.
    if let Some(rest) = log.room().checked_sub(8) {
        log.commit(&full[..rest as usize]).unwrap();
    }
    log.checkpoint(log.durable(), 0).unwrap();
    let room = log.room();
    assert!(room > empty / 2, "{room} of {empty}");
}

/// The owner of a log moves the checkpoint whenever it is told to, and no append fails.
#[test]
fn an_owner_is_told_when_the_checkpoint_should_move() {
    let open = OpenOptions { when_full: WhenFull::Wait, ..OpenOptions::default() };
    let log = in_memory(4096, open, |_| {}).unwrap();
    let owner = log.clone();
    let moves = thread::spawn(move || {
        let mut moves = 0;
        while owner.nearly_full(50).is_ok() {
            moves += 1;
            owner.checkpoint(owner.durable(), moves).unwrap();
        }
        moves
    });
    // Many times what there is room for.
    for _ in 0..5_000 {
        log.commit(&[7; 4000]).unwrap();
    }
    log.close().unwrap();
    assert!(moves.join().unwrap() > 1);
}

/// A log with two copies on files, of which the first one was lost while it was closed.
fn without_a_file(scratch: &Scratch, memory: usize) -> (Vec<PathBuf>, BlockingLog) {
    let paths: Vec<PathBuf> = (0..2).map(|i| scratch.path(&format!("{i}.log"))).collect();
    let mut options = options(memory);
    paths.iter().for_each(|path| BlockingLog::make_file(path, 64 << 20, &options).unwrap());
    let create = CreateOptions { copies: 2, ..create_options() };
    BlockingLog::create(&paths, None, &create, &options).unwrap();
    std::fs::remove_file(&paths[0]).unwrap();
    options.open.degraded = true;
    let log = BlockingLog::open(&paths[1..], options).unwrap();
    assert!(log.stats().unwrap().degraded);
    (paths, log)
}

#[test]
fn a_lost_file_is_replaced_while_threads_commit_and_then_another_one_may_be_lost() {
    let (scratch, memory) = (Scratch::new(), 256 << 10);
    let (paths, log) = without_a_file(&scratch, memory);
    // The log does not begin at its first record.
    let before = many(&log, 4, 200);
    let first = log.flush().unwrap();
    log.checkpoint(first, 1).unwrap();
    assert_eq!(before.len(), 4 * 196);
    let other = log.clone();
    let working = thread::spawn(move || many(&other, 6, 1500));
    while log.durable().since(first) < 1 << 20 {
        thread::yield_now();
    }
    let new = scratch.path("new.log");
    BlockingLog::make_file(&new, 64 << 20, &options(memory)).unwrap();
    log.replace(0, &new, false).unwrap();
    let mut acknowledged = work(&log, 9, 700);
    acknowledged.extend(working.join().unwrap());
    assert_eq!(acknowledged.len(), 700 + 6 * 1498);
    let stats = log.stats().unwrap();
    assert!(!stats.degraded, "{stats:?}");
    assert_eq!(stats.devices[0].name, new.display().to_string());
    assert!(stats.devices[0].bytes > 1 << 20, "the new one is written to: {stats:?}");
    drop(log);
    std::fs::remove_file(&paths[1]).unwrap();
    let mut alone = options(memory);
    alone.open.degraded = true;
    let log = BlockingLog::open(&[&new], alone).unwrap();
    assert_eq!(log.first().unwrap(), first);
    let found = check_order(&log);
    assert!(acknowledged.iter().all(|(at, bytes)| found.get(&at.lsn) == Some(bytes)));
    assert!(log.end() >= acknowledged.iter().map(|(at, _)| at.end).max().unwrap());
}

#[test]
fn what_cannot_take_the_place_of_a_lost_file_is_refused_and_the_log_goes_on() {
    let scratch = Scratch::new();
    let (paths, log) = without_a_file(&scratch, 256 << 10);
    let refused = |index, path: &PathBuf, why: &str| {
        let error = log.replace(index, path, false).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        log.commit(&record(0, 1)).unwrap();
        error
    };
    let new = scratch.path("new.log");
    assert!(matches!(refused(0, &new, "new.log"), BlockingError::File(_)));
    std::fs::write(&new, vec![7; 64 << 20]).unwrap();
    refused(0, &new, "something else");
    refused(1, &new, "only a device that is lost");
    refused(2, &new, "no such device");
    refused(0, &paths[1], "1.log");
    let small = scratch.path("small.log");
    BlockingLog::make_file(&small, 1 << 20, &options(1 << 20)).unwrap();
    refused(0, &small, "use a larger device");
    let other = log.replace_with(0, false, async |rt| {
        let caps = Caps::power_safe(4096, Payload::Bytes);
        Ok(LogDevice::new("ram", RamDevice::new(&rt, RamOptions::new(caps))))
    });
    assert!(other.unwrap_err().to_string().contains("another type"));
    log.replace(0, &new, true).unwrap();
    assert!(!log.stats().unwrap().degraded);
    log.close().unwrap();
    let closed = log.replace(0, &small, false);
    assert!(matches!(closed, Err(BlockingError::Log(LogError::Failed(_)))), "{closed:?}");
}
