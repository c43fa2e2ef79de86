//! Processes that share a directory and are killed: nobody waits for the dead, no page that was
//! durable is lost or older than it was, and everything fits together at the end.
//! A binary of its own: how far a process comes before it is killed depends on what runs beside it.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "processes are what is tested")]

use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::{File, OpenOptions};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tantalum_cache::directory::{
    Batch, Directory, Fate, Front, Processes, Region, Replacement, Shape, StageError, Version,
};
use tantalum_testing::Scratch;

const PROCESSES: usize = 4;
const SHAPE: Shape = Shape { frames: 512, batch: 8 };
const PAGES: u64 = 600;
/// Pages from here on are forgotten now and then.
const FORGOTTEN: u64 = 500;

/// What all processes see: the directory, and behind it what the test counts.
#[derive(Clone)]
struct Shared {
    region: Region,
    words: &'static [AtomicU64],
}

impl Shared {
    fn map(file: &File) -> Shared {
        let bytes = SHAPE.bytes_needed().unwrap();
        let words = 2 * PAGES as usize + PROCESSES + 2;
        let (all, access) = (bytes + words * 8, ProtFlags::READ | ProtFlags::WRITE);
        file.set_len(all as u64).unwrap();
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping of a file that keeps its length; it stays until the process ends.
        let memory = unsafe { mmap(null, all, access, MapFlags::SHARED, file, 0) }.unwrap();
        // SAFETY: the memory is there, and nobody writes to its first part but directories.
        let region = unsafe { Region::shared(memory.cast(), bytes) }.unwrap();
        // SAFETY: the second part is aligned, as long as this, and only used as atomic words.
        let words = unsafe { std::slice::from_raw_parts(memory.byte_add(bytes).cast(), words) };
        Shared { region, words }
    }

    /// The highest LSN of a page that was said to be durable.
    fn durable(&self, page: u64) -> &AtomicU64 {
        &self.words[page as usize]
    }

    /// The LSN that the slow store has of a page.
    fn slow(&self, page: u64) -> &AtomicU64 {
        &self.words[(PAGES + page) as usize]
    }

    fn rounds(&self, process: usize) -> &AtomicU64 {
        &self.words[2 * PAGES as usize + process]
    }

    fn lsn(&self) -> &AtomicU64 {
        &self.words[2 * PAGES as usize + PROCESSES]
    }

    fn adopted(&self) -> &AtomicU64 {
        &self.words[2 * PAGES as usize + PROCESSES + 1]
    }

    fn attach(&self) -> Directory {
        let me = Processes::this().unwrap();
        Directory::attach(self.region.clone(), me, Arc::new(Processes)).unwrap()
    }
}

fn checksum(page: u64, lsn: u64) -> u32 {
    (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ lsn.wrapping_mul(0xff51_afd7_ed55_8ccd)) as u32
}

/// One process: it stages the pages of its number, and reads and replaces those of all.
struct Worker {
    shared: Shared,
    directory: Directory,
    number: usize,
    random: u64,
}

impl Worker {
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    /// A page that only this process stages and forgets.
    fn own_page(&mut self) -> u64 {
        let count = PROCESSES as u64;
        self.random(PAGES / count) * count + self.number as u64
    }

    fn round(&mut self) {
        while let Some(batch) = self.directory.adopt() {
            self.directory.abandon(&batch).unwrap();
            self.shared.adopted().fetch_add(1, SeqCst);
        }
        let room = self.directory.free_batches() >= 3 * PROCESSES as u64;
        let front = if room { None } else { self.directory.take_front().ok() };
        let rear = self.directory.reserve().ok();
        if let Some(front) = &front {
            self.replace(front, rear.as_ref());
        }
        if let Some(rear) = &rear {
            self.write(rear);
        }
        if let Some(front) = &front
            && self.directory.release(front).is_err()
        {
            // What replaces one of its pages is on its way in another process, or was abandoned.
            self.directory.leave(front);
        }
        for _ in 0..20 {
            let page = self.random(PAGES);
            self.read(page);
        }
        let page = FORGOTTEN / 4 * 4 + self.own_page() % (PAGES - FORGOTTEN) / 4 * 4;
        self.forget(page + self.number as u64);
        self.shared.rounds(self.number).fetch_add(1, SeqCst);
    }

    /// Fills a batch with pages that have new versions.
    fn write(&mut self, batch: &Batch) {
        let mut staged = Vec::new();
        loop {
            let page = self.own_page();
            let lsn = self.shared.lsn().fetch_add(1, SeqCst) + 1;
            let version = Version { page, lsn, checksum: checksum(page, lsn), dirty: true };
            match self.directory.stage(batch, version) {
                Ok(_) => staged.push((page, lsn)),
                Err(StageError::Full) => break,
                Err(e) => panic!("page {page}, LSN {lsn}: {e}"),
            }
        }
        if self.random(20) == 0 {
            return self.directory.abandon(batch).unwrap();
        }
        self.directory.close(batch).unwrap();
        self.directory.publish(batch).unwrap();
        for (page, lsn) in staged {
            self.shared.durable(page).fetch_max(lsn, SeqCst);
        }
    }

    /// No version is older than one that was durable, wherever it is.
    fn read(&self, page: u64) {
        if page >= FORGOTTEN {
            return;
        }
        let durable = self.shared.durable(page).load(SeqCst);
        let found = self.directory.lookup(page);
        if let Some(entry) = found {
            assert_eq!(entry.checksum, checksum(page, entry.lsn), "parts of two: {entry:?}");
        }
        let slow = self.shared.slow(page).load(SeqCst);
        let have = found.map_or(slow, |entry| entry.lsn);
        assert!(have >= durable, "page {page}: {durable} was durable, slow {slow}, {found:?}");
    }

    fn forget(&self, page: u64) {
        self.directory.forget(page);
        assert_eq!(self.directory.lookup(page), None, "page {page} was forgotten");
    }

    /// Does with the front batch what is to be done; second chances go to `rear`.
    fn replace(&mut self, front: &Front, rear: Option<&Batch>) {
        let policy = match self.random(2) {
            0 => Replacement::Basic,
            _ => Replacement::SecondChance,
        };
        for (entry, fate) in self.directory.fates(front, policy) {
            if let (Fate::SecondChance, Some(rear)) = (fate, rear) {
                self.directory.stage_again(rear, &entry).unwrap();
            } else if entry.dirty {
                self.shared.slow(entry.page).fetch_max(entry.lsn, SeqCst);
                self.directory.mark_clean(&entry);
            }
        }
    }
}

#[test]
#[ignore = "a process that is killed; the tests below start it"]
fn child() {
    let (Ok(path), Ok(number)) = (std::env::var("SHARED"), std::env::var("NUMBER")) else { return };
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let shared = Shared::map(&file);
    let directory = shared.attach();
    let random = u64::from(std::process::id());
    let mut worker = Worker { shared, directory, number: number.parse().unwrap(), random };
    loop {
        worker.round();
    }
}

/// Children that end when the test does.
struct Children(Vec<Child>);

impl Children {
    /// None of them has failed.
    fn live(&mut self) {
        self.live_but(None);
    }

    fn live_but(&mut self, victim: Option<usize>) {
        for (number, child) in self.0.iter_mut().enumerate().filter(|(n, _)| Some(*n) != victim) {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "process {number} failed: {ended:?}");
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(path: &std::path::Path, number: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env("SHARED", path)
        .env("NUMBER", number.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn processes_are_killed(kills: usize) {
    let scratch = Scratch::new();
    let path = scratch.path("directory");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    let shared = Shared::map(&file);
    let me = Processes::this().unwrap();
    let region = shared.region.clone();
    let directory = Directory::format(region, SHAPE, 0, me, Arc::new(Processes)).unwrap();
    let mut children = Children((0..PROCESSES).map(|number| start(&path, number)).collect());
    let rounds = || [0, 1, 2, 3].map(|number| shared.rounds(number).load(SeqCst));
    for kill in 0..kills {
        std::thread::sleep(Duration::from_millis(50));
        let victim = kill % PROCESSES;
        children.live();
        children.0[victim].kill().unwrap();
        // Each of the others goes on, the dead one not yet waited for in half of the cases.
        if kill % 2 == 0 {
            children.0[victim].wait().unwrap();
        }
        let before = rounds();
        let mut patience = 60_000;
        while (0..PROCESSES).any(|n| n != victim && rounds()[n] == before[n]) {
            children.live_but(Some(victim));
            patience -= 1;
            assert!(patience > 0, "a process waits for the dead: {before:?}, {:?}", rounds());
            std::thread::sleep(Duration::from_millis(1));
        }
        children.0[victim].wait().unwrap();
        children.0[victim] = start(&path, victim);
    }
    children.live();
    drop(children);
    while let Some(batch) = directory.adopt() {
        directory.abandon(&batch).unwrap();
    }
    let audit = directory.audit().unwrap();
    let all = rounds();
    assert!(audit.pages > 0 && all.iter().all(|rounds| *rounds > 0), "{audit:?} {all:?}");
    let worker = Worker { shared: shared.clone(), directory, number: 0, random: 0 };
    (0..PAGES).for_each(|page| worker.read(page));
    eprintln!(
        "{kills} kills, {} batches of the dead, {} rounds, {audit:?}",
        shared.adopted().load(SeqCst),
        rounds().iter().sum::<u64>()
    );
}

#[test]
fn some_processes_are_killed() {
    processes_are_killed(24);
}

#[test]
#[ignore = "takes a minute; .ci/run runs it"]
fn a_process_is_killed_every_50_ms_for_a_minute() {
    processes_are_killed(60 * 20);
}
