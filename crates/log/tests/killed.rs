//! Processes whose threads write to a log by themselves, and are killed: what was acknowledged is
//! there, in order. A binary of its own: how far a process comes before it is killed depends on what
//! runs beside it.
#![allow(clippy::disallowed_methods, reason = "processes and threads are what is tested")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tantalum_log::{BlockingLog, BlockingOptions, CreateOptions, LogError};
use tantalum_testing::Scratch;

const THREADS: u64 = 4;

fn options() -> BlockingOptions {
    let mut options = BlockingOptions::default();
    // Where the test runs there may be no direct I/O.
    options.file.buffered = true;
    options
}

/// Each thread commits its numbers in order, and notes what was acknowledged.
#[test]
#[ignore = "a process that is killed; the test below starts it"]
fn child() {
    let (Ok(log), Ok(notes)) = (std::env::var("LOG"), std::env::var("NOTES")) else { return };
    let paths: Vec<&str> = log.split(':').collect();
    let log = BlockingLog::open(&paths, options()).unwrap();
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for found in log.read(log.first().unwrap()).unwrap() {
        let (thread, number) = numbers(&found.unwrap().bytes);
        next.insert(thread, number + 1);
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, notes, next) = (log.clone(), &notes, next.get(&thread).copied());
            let mut notes = OpenOptions::new().append(true).create(true).open(notes).unwrap();
            scope.spawn(move || {
                for number in next.unwrap_or(0).. {
                    let mut record = [thread.to_le_bytes(), number.to_le_bytes()].concat();
                    record.resize(16 + (number as usize * 37) % 3000, thread as u8);
                    if let Err(LogError::Full { .. }) = log.commit(&record) {
                        return;
                    }
                    let note = [thread.to_le_bytes(), number.to_le_bytes()].concat();
                    assert_eq!(notes.write(&note).unwrap(), 16);
                }
            });
        }
    });
}

fn numbers(record: &[u8]) -> (u64, u64) {
    let word = |i: usize| u64::from_le_bytes(record[i * 8..i * 8 + 8].try_into().unwrap());
    (word(0), word(1))
}

/// How many numbers of each thread are in the log: the first ones, in order.
fn found(paths: &[impl AsRef<Path>]) -> BTreeMap<u64, u64> {
    let log = BlockingLog::open(paths, options()).unwrap();
    let mut next = BTreeMap::new();
    for found in log.read(log.first().unwrap()).unwrap() {
        let bytes = found.unwrap().bytes;
        let (thread, number) = numbers(&bytes);
        assert!(bytes[16..].iter().all(|b| u64::from(*b) == thread));
        assert_eq!(*next.entry(thread).or_insert(0), number, "thread {thread}");
        next.insert(thread, number + 1);
    }
    next
}

#[test]
fn killed_processes_lose_nothing_that_was_acknowledged() {
    for files in [1, 3] {
        let scratch = Scratch::new();
        let path = |i: usize| scratch.path(&format!("{i}.log"));
        let paths: Vec<_> = (0..files).map(path).collect();
        for path in &paths {
            BlockingLog::make_file(path, 64 << 20, &options()).unwrap();
        }
        BlockingLog::create(&paths, None, &CreateOptions::default(), &options()).unwrap();
        let names: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
        let notes = scratch.path("notes");
        let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
        for life in 0..8 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["child", "--exact", "--ignored"])
                .env("LOG", names.join(":"))
                .env("NOTES", &notes)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            // Later lives are longer, so that each machine has some that write.
            std::thread::sleep(Duration::from_millis(20 + 17 * life));
            child.kill().unwrap();
            child.wait().unwrap();
            let noted = std::fs::read(&notes).unwrap_or_default();
            for note in noted.chunks_exact(16) {
                let (thread, number) = numbers(note);
                acknowledged.insert(thread, number + 1);
            }
            let found = found(&paths);
            for (thread, count) in &acknowledged {
                let there = found.get(thread).copied().unwrap_or(0);
                assert!(there >= *count, "thread {thread}: {there} of {count}");
            }
        }
        assert!(!acknowledged.is_empty(), "no process lived long enough to commit");
    }
}
