//! Makes stores survive a crash of the host, from one moment of the run to the next.
//!
//! The system writes pages of a mapped file to its disk in any order between two syncs. So data
//! that are overwritten in place (clock, operations, units, protected memory: what is *kept*) may
//! be on the disk in any mixture. Therefore a second copy of what is kept is written in order: the
//! *base*, and a *log* of later changes.
//!
//! 1. A *moment* is between two stores: a process that is killed then leaves an image of it. A sync
//!    copies, as of one moment, all kept pages that changed since the last sync.
//! 2. Before such a copy is in the log, all other data that were stored (payload, words beside
//!    pages, records of pages) are durable.
//! 3. Other data are only added to, as far as the newest durable moment counts them: a unit with
//!    pages is neither programmed nor given back before a moment is durable at which it has none
//!    (see `cells`).
//! 4. A record of the log counts if it and all records before it are valid. It is copied to the
//!    base, and the base is made durable, before its place is used again. A record may be copied to
//!    the base more than once.
//! 5. So after a crash of the host, base and log give what is kept as of the newest durable moment
//!    (1), and the other data include everything that this moment counts (2, 3). A killed process
//!    leaves the same.
//! 6. After a failed sync all present and later waits fail: the host may have dropped what it could
//!    not write.

use super::ImageError;
use super::format::{Part, Parts};
use super::host;
use super::mapped::{Mapped, PAGE, before_sync, note_synced, note_written};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Bytes of the log in addition to the largest record.
pub(crate) const LOG_MORE: u64 = 4 << 20;
/// A log that is longer than this is copied to the base.
const LOG_SOFT: u64 = 4 << 20;

/// The pages of the file that are kept, and their numbers in the base.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    first: Range<u64>,
    second: Range<u64>,
}

impl Kept {
    pub fn of(parts: &Parts) -> Kept {
        let second = parts.protected.at..parts.payload.at;
        Kept { first: parts.state.at..parts.pages.at, second }
    }

    pub fn pages(&self) -> u64 {
        (self.first.end - self.first.start + self.second.end - self.second.start) / PAGE
    }

    /// The number of the page with this byte of the file.
    fn number(&self, at: u64) -> Option<u32> {
        let before = (self.first.end - self.first.start) / PAGE;
        match () {
            () if self.first.contains(&at) => Some(((at - self.first.start) / PAGE) as u32),
            () if self.second.contains(&at) => {
                Some((before + (at - self.second.start) / PAGE) as u32)
            }
            () => None,
        }
    }

    /// The offset of page `number` in the file.
    fn place(&self, number: u32) -> u64 {
        let (number, before) = (u64::from(number), (self.first.end - self.first.start) / PAGE);
        match number < before {
            true => self.first.start + number * PAGE,
            false => self.second.start + (number - before) * PAGE,
        }
    }
}

/// Notes changes since the last sync.
pub(crate) struct Tracker {
    kept: Kept,
    bits: RefCell<Vec<u64>>,
    pages: RefCell<Vec<u32>>,
    /// Data other than kept pages have changed.
    others: Cell<bool>,
}

impl Tracker {
    fn new(kept: Kept) -> Tracker {
        let bits = RefCell::new(vec![0; kept.pages().div_ceil(64) as usize]);
        Tracker { kept, bits, pages: RefCell::default(), others: Cell::new(false) }
    }

    /// Notes a change of these bytes of the file.
    pub fn changed(&self, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        let Some(first) = self.kept.number(at) else { return self.others.set(true) };
        let last = self.kept.number(at + len - 1).unwrap_or(first);
        let mut bits = self.bits.borrow_mut();
        for page in first..=last {
            let (word, bit) = (&mut bits[page as usize / 64], 1 << (page % 64));
            if *word & bit == 0 {
                *word |= bit;
                self.pages.borrow_mut().push(page);
            }
        }
    }

    fn take(&self) -> (Vec<u32>, bool) {
        let pages = self.pages.take();
        let mut bits = self.bits.borrow_mut();
        pages.iter().for_each(|page| bits[*page as usize / 64] = 0);
        (pages, self.others.take())
    }
}

/// The changes of a moment that are to be made durable.
struct Job {
    number: u64,
    /// Data other than kept pages have changed.
    others: bool,
    pages: Vec<u32>,
    /// The content of those pages, one after the other.
    data: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    begun: u64,
    durable: u64,
    failed: Option<(io::ErrorKind, String)>,
    wakers: Vec<Waker>,
    has_worker: bool,
    stop: bool,
}

/// The state that both threads share.
struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
    journal: Mutex<Journal>,
}

fn had<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Makes all waiting jobs durable at once.
    fn run(&self) {
        let mut journal = had(&self.journal);
        let (jobs, failed) = {
            let mut queue = had(&self.queue);
            (std::mem::take(&mut queue.jobs), queue.failed.is_some())
        };
        let Some(last) = jobs.last().map(|job| job.number).filter(|_| !failed) else { return };
        let done = journal.commit(&jobs);
        let mut queue = had(&self.queue);
        match done {
            Ok(()) => queue.durable = last,
            // (6)
            Err(e) => queue.failed = Some((e.kind(), e.to_string())),
        }
        queue.wakers.drain(..).for_each(Waker::wake);
    }

    fn work(&self) {
        loop {
            let mut queue = had(&self.queue);
            while queue.jobs.is_empty() && !queue.stop {
                queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            if queue.stop {
                return;
            }
            drop(queue);
            self.run();
        }
    }
}

/// The log and the base.
struct Journal {
    file: File,
    kept: Kept,
    log: Part,
    base: Part,
    /// The number of the mark that log and base belong to.
    mark: u64,
    /// How often the log was restarted.
    round: u64,
    sequence: u64,
    end: u64,
    /// The newest content of the pages in the log, for the base.
    pages: FxHashMap<u32, Vec<u8>>,
}

const MAGIC: &[u8; 8] = b"TT-SYNC\0";
/// Bytes of a record's header: magic, mark, round, sequence number, number of pages, and the
/// checksum of the whole record.
const HEAD: usize = 8 + 8 + 8 + 8 + 4 + 4;

/// Bytes of a record before its pages.
fn head_bytes(pages: usize) -> usize {
    (HEAD + 4 * pages).next_multiple_of(PAGE as usize)
}

impl Journal {
    fn commit(&mut self, jobs: &[Job]) -> io::Result<()> {
        // (2)
        if jobs.iter().any(|job| job.others) {
            settle(&self.file)?;
        }
        let mut newest: FxHashMap<u32, &[u8]> = FxHashMap::default();
        for job in jobs {
            newest.extend(job.pages.iter().copied().zip(job.data.chunks_exact(PAGE as usize)));
        }
        if newest.is_empty() {
            return Ok(());
        }
        let record = self.record(&newest);
        if self.end + record.len() as u64 > self.log.len {
            self.begin_anew()?;
        }
        let record = if self.end == 0 { self.record(&newest) } else { record };
        put(&self.file, self.log.at + self.end, &record)?;
        self.end += record.len() as u64;
        self.sequence += 1;
        for (page, data) in newest {
            self.pages.insert(page, data.to_vec());
        }
        if self.end > LOG_SOFT { self.begin_anew() } else { Ok(()) }
    }

    fn record(&self, pages: &FxHashMap<u32, &[u8]>) -> Vec<u8> {
        let head = head_bytes(pages.len());
        let mut out = Vec::with_capacity(head + pages.len() * PAGE as usize);
        out.extend_from_slice(MAGIC);
        for word in [self.mark, self.round, self.sequence] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&(pages.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        pages.keys().for_each(|page| out.extend_from_slice(&page.to_le_bytes()));
        out.resize(head, 0);
        pages.values().for_each(|page| out.extend_from_slice(page));
        let sum = crc32c::crc32c(&out);
        out[HEAD - 4..HEAD].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Copies the log's pages to the base, and empties the log (4).
    fn begin_anew(&mut self) -> io::Result<()> {
        for (page, data) in self.pages.drain() {
            write(&self.file, self.base.at + u64::from(page) * PAGE, &data)?;
        }
        settle(&self.file)?;
        self.round += 1;
        (self.sequence, self.end) = (0, 0);
        Ok(())
    }

    /// The pages of the valid records.
    fn read_log(file: &File, parts: &Parts, mark: u64) -> io::Result<FxHashMap<u32, Vec<u8>>> {
        let (log, kept) = (parts.log, Kept::of(parts).pages());
        let (mut found, mut at, mut sequence) = (FxHashMap::default(), 0, 0);
        let mut of_round = None;
        while at + PAGE <= log.len {
            let mut head = vec![0; PAGE as usize];
            file.read_exact_at(&mut head, log.at + at)?;
            let word = |at: usize| {
                let mut word = [0; 8];
                word.copy_from_slice(&head[at..at + 8]);
                u64::from_le_bytes(word)
            };
            let (round, pages) = (word(16), word(32) as u32);
            let follows = head[..8] == *MAGIC
                && word(8) == mark
                && *of_round.get_or_insert(round) == round
                && word(24) == sequence
                && u64::from(pages) <= kept;
            let before = head_bytes(pages as usize);
            let len = before as u64 + u64::from(pages) * PAGE;
            if !follows || at + len > log.len {
                break;
            }
            let mut record = vec![0; len as usize];
            file.read_exact_at(&mut record, log.at + at)?;
            let sum = [4, 3, 2, 1].map(|i| std::mem::take(&mut record[HEAD - i]));
            if u32::from_le_bytes(sum) != crc32c::crc32c(&record) {
                break;
            }
            let (head, data) = record.split_at(before);
            let numbers = head[HEAD..].chunks_exact(4).take(pages as usize);
            for (number, page) in numbers.zip(data.chunks_exact(PAGE as usize)) {
                let number = u32::from_le_bytes([0, 1, 2, 3].map(|i| number[i]));
                if u64::from(number) < kept {
                    found.insert(number, page.to_vec());
                }
            }
            at += len;
            sequence += 1;
        }
        Ok(found)
    }
}

/// Restores the kept pages of the mapped file as of the newest durable moment.
pub(crate) fn rebuild(map: &Mapped, parts: &Parts, mark: u64) -> io::Result<()> {
    let kept = Kept::of(parts);
    let log = Journal::read_log(map.file(), parts, mark)?;
    let (mut page, mut now) = (vec![0; PAGE as usize], vec![0; PAGE as usize]);
    for number in 0..kept.pages() as u32 {
        match log.get(&number) {
            Some(logged) => page.copy_from_slice(logged),
            None => {
                let at = parts.base.at + u64::from(number) * PAGE;
                map.file().read_exact_at(&mut page, at)?;
            }
        }
        let at = kept.place(number);
        map.read(at, &mut now);
        if page != now {
            map.write(at, &page);
        }
    }
    Ok(())
}

/// Makes the moments of an image durable. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Syncer {
    map: Rc<Mapped>,
    shared: Arc<Shared>,
    _worker: Rc<Worker>,
}

/// The thread that waits for the host's disk.
#[derive(Default)]
struct Worker {
    thread: Option<std::thread::JoinHandle<()>>,
    shared: Option<Arc<Shared>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            had(&shared.queue).stop = true;
            shared.bell.notify_all();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Syncer {
    /// A syncer for an image that is durable, and to which nothing is stored yet. The kept pages
    /// are copied to the base. The base counts once there is a mark with this number.
    pub fn new(
        map: &Rc<Mapped>,
        parts: &Parts,
        mark: u64,
        has_worker: bool,
    ) -> Result<Syncer, ImageError> {
        let failed = |source| ImageError::Io { what: "the image cannot be synced", source };
        let kept = Kept::of(parts);
        let file = map.file().try_clone().map_err(failed)?;
        copy_to_base(map, &kept, parts.base).map_err(failed)?;
        let (log, base, pages) = (parts.log, parts.base, FxHashMap::default());
        let journal = Journal { file, kept, log, base, mark, round: 0, sequence: 0, end: 0, pages };
        map.track(Tracker::new(journal.kept.clone()));
        let queue = Mutex::new(Queue { has_worker, ..Queue::default() });
        let shared = Shared { queue, bell: Condvar::new(), journal: Mutex::new(journal) };
        let shared = Arc::new(shared);
        let mut worker = Worker::default();
        if has_worker {
            let theirs = shared.clone();
            #[allow(
                clippy::disallowed_methods,
                reason = "a thread that waits for the host's disk and decides nothing"
            )]
            let thread = std::thread::Builder::new()
                .name("host sync".to_string())
                .spawn(move || theirs.work())
                .map_err(failed)?;
            worker = Worker { thread: Some(thread), shared: Some(shared.clone()) };
        }
        Ok(Syncer { map: map.clone(), shared, _worker: Rc::new(worker) })
    }

    /// Ends a moment with everything that was stored so far, and queues it. Returns its number.
    fn begin(&self) -> u64 {
        let (pages, others) = self.map.tracker().map_or_else(Default::default, Tracker::take);
        let kept = self.map.tracker().map(|tracker| &tracker.kept);
        let mut data = vec![0; pages.len() * PAGE as usize];
        for (page, room) in pages.iter().zip(data.chunks_exact_mut(PAGE as usize)) {
            if let Some(kept) = kept {
                self.map.read(kept.place(*page), room);
            }
        }
        let mut queue = had(&self.shared.queue);
        if others || !pages.is_empty() {
            queue.begun += 1;
            let number = queue.begun;
            queue.jobs.push(Job { number, others, pages, data });
            self.shared.bell.notify_one();
        }
        queue.begun
    }

    /// The number of the moment that includes what is stored now.
    pub fn next(&self) -> u64 {
        had(&self.shared.queue).begun + 1
    }

    /// The number of the newest durable moment.
    pub fn durable(&self) -> u64 {
        had(&self.shared.queue).durable
    }

    /// Waits until the moment with this number is durable, and ends it first if needed. False if
    /// the host's disk failed.
    pub fn settle(&self, number: u64) -> bool {
        if self.durable() >= number {
            return true;
        }
        self.begin();
        self.shared.run();
        // A sync that had the journal before has ended.
        let queue = had(&self.shared.queue);
        queue.failed.is_none() && queue.durable >= number
    }

    /// Whether all queued moments are durable.
    pub fn is_settled(&self) -> bool {
        let queue = had(&self.shared.queue);
        queue.failed.is_none() && queue.durable == queue.begun
    }

    /// A wait until everything that was stored so far is durable.
    pub fn ticket(&self) -> Ticket {
        Ticket { number: self.begin(), shared: self.shared.clone() }
    }
}

/// A wait until what was stored before survives a crash of the host.
#[must_use = "await it"]
pub struct Ticket {
    number: u64,
    shared: Arc<Shared>,
}

impl Future for Ticket {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut queue = had(&self.shared.queue);
            if queue.durable >= self.number {
                return Poll::Ready(Ok(()));
            }
            if let Some((kind, what)) = &queue.failed {
                return Poll::Ready(Err(io::Error::new(*kind, what.clone())));
            }
            if queue.has_worker {
                queue.wakers.push(cx.waker().clone());
                return Poll::Pending;
            }
            drop(queue);
            self.shared.run();
        }
    }
}

fn copy_to_base(map: &Mapped, kept: &Kept, base: Part) -> io::Result<()> {
    map.clear(base.at, base.len);
    let mut page = vec![0; PAGE as usize];
    for number in 0..kept.pages() as u32 {
        map.read(kept.place(number), &mut page);
        if page.iter().any(|b| *b != 0) {
            write(map.file(), base.at + u64::from(number) * PAGE, &page)?;
        }
    }
    settle(map.file())
}

/// Writes to the page cache.
fn write(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, at)?;
    note_written(at, bytes.len() as u64);
    Ok(())
}

/// Waits until everything that was written or stored is durable.
pub(crate) fn settle(file: &File) -> io::Result<()> {
    before_sync()?;
    file.sync_data()?;
    note_synced(None);
    Ok(())
}

/// Writes, and waits until the bytes are durable.
pub(crate) fn put(file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    before_sync()?;
    // (The tests have to see the write to the page cache and the sync separately.)
    let durably = if cfg!(feature = "stores") {
        Err(rustix::io::Errno::OPNOTSUPP)
    } else {
        host::write_durably(file, at, bytes)
    };
    match durably {
        Ok(n) if n == bytes.len() => Ok(()),
        // The host has no such write, or wrote only a part.
        Ok(_) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            file.write_all_at(bytes, at)?;
            note_written(at, bytes.len() as u64);
            if !cfg!(feature = "stores") {
                file.sync_data()?;
            }
            note_synced(Some(at..at + bytes.len() as u64));
            Ok(())
        }
        Err(e) => Err(e.into()),
    }
}
