//! The log for threads: calls that block, from as many threads as there are.
//!
//! A thread that commits writes by itself, if nobody else does: it takes an order of the plan, writes
//! durably to a file that is lent to it, and tells the plan how that ended. A thread of the log, with
//! a runtime and a [`Log`], does everything else (`docs/log.md`, "From threads").
//!
//! ```
//! use tantalum_log::{BlockingLog, BlockingOptions, CreateOptions, Lsn};
//!
//! # let folder = std::env::temp_dir().join(format!("tantalum-log-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let file = folder.join("a.log");
//! # let _ = std::fs::remove_file(&file);
//! let options = BlockingOptions::default();
//! BlockingLog::make_file(&file, 16 << 20, &options)?;
//! BlockingLog::create(&[&file], None, &CreateOptions::default(), &options)?;
//!
//! let log = BlockingLog::open(&[&file], options)?;
//! std::thread::scope(|scope| {
//!     for worker in 0..4u8 {
//!         let log = log.clone();
//!         // It survives a power loss when `commit` returns.
//!         scope.spawn(move || log.commit(&[worker]).unwrap());
//!     }
//! });
//! let mut workers: Vec<u8> = log.read(log.first()?)?.map(|r| r.unwrap().bytes[0]).collect();
//! workers.sort();
//! assert_eq!(workers, [0, 1, 2, 3]);
//! log.checkpoint(log.durable(), 1)?;
//! log.close()?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! 1. All promises of [the log](crate#promises).
//! 2. **Order.** Records lie in the log in the order of their LSNs, and those of one thread in the
//!    order of its appends.
//! 3. **No lock is held over I/O.** An append copies its bytes into memory under a lock and waits
//!    for nothing but room (which it may have to make by a write). A commit may write records of
//!    other threads, too, once.
//! 4. **Nobody waits for ever.** When the log fails, is closed, or its thread panics, every call
//!    that waits returns the reason. (With [`WhenFull::Wait`](crate::WhenFull::Wait) an append
//!    without room waits for a checkpoint.)
//! 5. **What was not committed may be lost** when the last clone is dropped: it is as if the power
//!    had gone. [`BlockingLog::close`] and [`BlockingLog::flush`] make everything durable.
//! 6. **A slow device holds up the thread that writes to it**, and no other one if the log has
//!    another device. Once writing again elsewhere has paid, the thread of the log does all writes.

mod front;
mod listener;
#[cfg(all(test, loom))]
mod model;
mod records;
#[cfg(all(test, not(loom)))]
mod tests;
mod thread;

pub use records::BlockingRecords;

use crate::pen::{FilePen, Pen};
use crate::{
    Appended, CreateOptions, Log, LogDevice, LogError, LogStats, Lsn, OneCopy, OpenError,
    OpenOptions,
};
use front::Front;
use listener::Listener;
use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use tantalum_device::{BlockDevice, File, FileError, FileSettings};
use tantalum_rt::Rt;
use tantalum_rt::calls::{Calls, ThreadError};
use tantalum_rt::wall::{WallOptions, random};
use thread::{Letter, Replacement};

/// How a log is used from threads.
///
/// See [`BlockingLog`] for an example.
#[derive(Clone, Debug, Default)]
pub struct BlockingOptions {
    /// How the log is used.
    pub open: OpenOptions,
    /// How its files are used.
    pub file: FileSettings,
    /// The runtime of its thread. On a clock of another pace than real time's, that thread does all
    /// writes.
    pub wall: WallOptions,
}

/// Why a log was not created or opened from a thread, or a device of it was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum BlockingError {
    /// As the log says.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// As the open log says.
    #[error("{0}")]
    Log(#[from] LogError),
    /// A file or block device cannot be used.
    #[error("{0}")]
    File(#[from] FileError),
    /// There is no thread, or no runtime, for the log.
    #[error("the log has no thread of its own: {0}")]
    Runtime(#[source] io::Error),
    /// Its thread came to an end.
    #[error("the thread of the log panicked: {0}")]
    Panicked(String),
}

impl From<ThreadError> for BlockingError {
    fn from(e: ThreadError) -> BlockingError {
        match e {
            ThreadError::Start(e) => BlockingError::Runtime(e),
            ThreadError::Panicked(why) => BlockingError::Panicked(why),
        }
    }
}

/// A log for many threads. Cheap to clone; a clone is the same log. See [the module](self).
///
/// ```
/// use tantalum_log::{BlockingLog, BlockingOptions, CreateOptions};
///
/// # let folder = std::env::temp_dir().join(format!("tantalum-log-type-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let files = [folder.join("a.log"), folder.join("b.log")];
/// # files.iter().for_each(|path| drop(std::fs::remove_file(path)));
/// let options = BlockingOptions::default();
/// for file in &files {
///     BlockingLog::make_file(file, 16 << 20, &options)?;
/// }
/// BlockingLog::create(&files, None, &CreateOptions::default(), &options)?;
///
/// let log = BlockingLog::open(&files, options.clone())?;
/// log.append(b"first")?;
/// let last = log.append(b"last")?;
/// log.wait_durable(last.end)?; // with both records, in one write
/// log.close()?;
///
/// let log = BlockingLog::open(&files, options)?;
/// let records = log.read(log.first()?)?.map(|record| record.map(|r| r.bytes));
/// assert_eq!(records.collect::<Result<Vec<_>, _>>()?, [&b"first"[..], b"last"]);
/// # log.close()?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct BlockingLog {
    handle: Arc<Handle>,
}

pub(crate) struct Handle {
    front: Arc<Front>,
    calls: Calls<Letter>,
    /// How its files are used.
    file: FileSettings,
}

impl Handle {
    fn ask<T>(&self, letter: impl FnOnce(Sender<T>) -> Letter) -> Result<T, LogError> {
        self.calls.ask(letter).ok_or_else(|| self.front.why_closed())
    }
}

impl BlockingLog {
    /// Makes a file of `bytes` zeros for a log, which is not there yet.
    ///
    /// # Errors
    /// [`BlockingError::File`], [`BlockingError::Runtime`].
    pub fn make_file(
        path: impl AsRef<Path>,
        bytes: u64,
        options: &BlockingOptions,
    ) -> Result<(), BlockingError> {
        let (path, file) = (path.as_ref().to_path_buf(), options.file.clone());
        in_thread(options, async move |rt| {
            File::create(&rt, path, bytes, &file).await?;
            Ok(())
        })
    }

    /// Makes a log on files or block devices and, if there is one, an archive; see [`Log::create`].
    /// Without an identity in the options it gets a random one.
    ///
    /// # Errors
    /// [`BlockingError`]; see [`Log::create`].
    pub fn create<P: AsRef<Path> + Debug>(
        array: &[P],
        archive: Option<&Path>,
        create: &CreateOptions,
        options: &BlockingOptions,
    ) -> Result<(), BlockingError> {
        let (mut paths, count) = (paths(array), array.len());
        paths.extend(archive.map(Path::to_path_buf));
        let (mut create, file) = (create.clone(), options.file.clone());
        if create.identity.is_none() {
            create.identity = Some(random().map_err(BlockingError::Runtime)?);
        }
        in_thread(options, async move |rt| {
            let devices = files(&rt, paths, &file)?;
            Ok(Log::create(&rt, &devices[..count], devices.get(count), &create).await?)
        })
    }

    /// Opens a log on its files or block devices, in any order, the archive with them; see
    /// [`Log::open`]. With [`OpenOptions::degraded`] a file that is not there is a device that is
    /// missing.
    ///
    /// # Errors
    /// [`BlockingError`]; see [`Log::open`].
    pub fn open<P: AsRef<Path>>(
        devices: &[P],
        options: BlockingOptions,
    ) -> Result<BlockingLog, BlockingError> {
        let (all, mut options) = (paths(devices), options);
        if options.open.names.is_empty() {
            options.open.names = all.iter().map(|path| path.display().to_string()).collect();
        }
        let there: Vec<PathBuf> = all.iter().filter(|path| is_there(path)).cloned().collect();
        if options.open.degraded && !there.is_empty() && there.len() < all.len() {
            match BlockingLog::open_files(there, options.clone()) {
                // It is needed: its own error says which it is.
                Err(BlockingError::Open(OpenError::Missing { .. })) => {}
                opened => return opened,
            }
        }
        BlockingLog::open_files(all, options)
    }

    fn open_files(
        paths: Vec<PathBuf>,
        options: BlockingOptions,
    ) -> Result<BlockingLog, BlockingError> {
        let file = options.file.clone();
        let make = async move |rt| files(&rt, paths, &file);
        BlockingLog::start(options, make, lend)
    }

    /// Opens a log on devices that `make` makes in the thread of the log. That thread does all
    /// writes: only [`BlockingLog::open`] lends files to the threads that commit.
    ///
    /// # Errors
    /// [`BlockingError`]; see [`Log::open`].
    pub fn open_with<D, M, F>(
        options: BlockingOptions,
        make: M,
    ) -> Result<BlockingLog, BlockingError>
    where
        D: BlockDevice + Clone + 'static,
        M: FnOnce(Rt) -> F + Send + 'static,
        F: Future<Output = Result<Vec<LogDevice<D>>, BlockingError>> + 'static,
    {
        BlockingLog::start(options, make, |_, _| None)
    }

    fn start<D, M, F>(
        options: BlockingOptions,
        make: M,
        lend: thread::Lend<D>,
    ) -> Result<BlockingLog, BlockingError>
    where
        D: BlockDevice + Clone + 'static,
        M: FnOnce(Rt) -> F + Send + 'static,
        F: Future<Output = Result<Vec<LogDevice<D>>, BlockingError>> + 'static,
    {
        let file = options.file.clone();
        let (front, calls) = thread::start(options, make, lend)?;
        Ok(BlockingLog { handle: Arc::new(Handle { front, calls, file }) })
    }

    /// Appends a record: it is in memory then. It waits while memory is full, and while there is
    /// no room on the devices (or fails then, [`OpenOptions::when_full`]).
    ///
    /// # Errors
    /// [`LogError::RecordTooLong`], [`LogError::Full`], [`LogError::Failed`],
    /// [`LogError::ReadOnly`].
    pub fn append(&self, record: &[u8]) -> Result<Appended, LogError> {
        self.append_pieces(&[record])
    }

    /// Appends a record that consists of these pieces.
    ///
    /// # Errors
    /// As [`BlockingLog::append`].
    pub fn append_pieces(&self, record: &[&[u8]]) -> Result<Appended, LogError> {
        self.handle.front.append(record, false)
    }

    /// Appends a record and waits until it is durable, with everything before it.
    ///
    /// # Errors
    /// As [`BlockingLog::append`] and [`BlockingLog::wait_durable`].
    pub fn commit(&self, record: &[u8]) -> Result<Appended, LogError> {
        self.commit_pieces(&[record])
    }

    /// [`BlockingLog::commit`] for a record that consists of these pieces.
    ///
    /// # Errors
    /// As [`BlockingLog::commit`].
    pub fn commit_pieces(&self, record: &[&[u8]]) -> Result<Appended, LogError> {
        self.handle.front.append(record, true)
    }

    /// Waits until everything before `lsn` is durable.
    ///
    /// # Errors
    /// [`LogError::NotDurable`] if `lsn` is beyond the end of the log, [`LogError::Failed`].
    pub fn wait_durable(&self, lsn: Lsn) -> Result<(), LogError> {
        self.handle.front.wait_durable(lsn)
    }

    /// Waits until everything that was appended before is durable. Returns its end.
    ///
    /// # Errors
    /// [`LogError::Failed`].
    pub fn flush(&self) -> Result<Lsn, LogError> {
        let end = self.handle.front.end();
        self.wait_durable(end)?;
        Ok(end)
    }

    /// Everything before this LSN is durable. It takes no lock.
    pub fn durable(&self) -> Lsn {
        self.handle.front.durable()
    }

    /// The end of what was appended.
    pub fn end(&self) -> Lsn {
        self.handle.front.end()
    }

    /// Bytes of records, each with 8 bytes more, that surely find room on the devices before the
    /// checkpoint moves. An append of more waits, or fails ([`OpenOptions::when_full`]). A group
    /// fills whole blocks, so small commits use up more room than their bytes.
    pub fn room(&self) -> u64 {
        self.handle.front.room()
    }

    /// The checkpoint: the log begins here.
    ///
    /// # Errors
    /// [`LogError::Failed`] if the thread has ended.
    pub fn first(&self) -> Result<Lsn, LogError> {
        Ok(self.stats()?.first)
    }

    /// From now on the thread of the log calls `listener` with each durable LSN, or the last of
    /// several, until that breaks; and once with an error when the log ends (also if this call
    /// returns that error). A listener must not wait, and must not hold a clone of the log, which
    /// would never end then. If it panics the log fails. A channel may be the listener:
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use std::sync::mpsc::channel;
    /// # use tantalum_log::{BlockingLog, BlockingOptions, CreateOptions};
    /// # let name = format!("tantalum-log-listener-{}", std::process::id());
    /// # let file = std::env::temp_dir().join(name);
    /// # let _ = std::fs::remove_file(&file);
    /// # let options = BlockingOptions::default();
    /// # BlockingLog::make_file(&file, 16 << 20, &options)?;
    /// # BlockingLog::create(&[&file], None, &CreateOptions::default(), &options)?;
    /// # let log = BlockingLog::open(&[&file], options)?;
    /// let (sender, news) = channel();
    /// log.subscribe(move |lsn| {
    ///     sender.send(lsn).map_or(ControlFlow::Break(()), ControlFlow::Continue)
    /// })?;
    /// let record = log.append(b"record")?;
    /// log.flush()?;
    /// // Another thread learns that everything before this is durable.
    /// assert_eq!(news.recv()??, record.end);
    /// # log.close()?;
    /// # std::fs::remove_file(&file)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`LogError::Failed`] if the thread has ended.
    pub fn subscribe(
        &self,
        listener: impl FnMut(Result<Lsn, LogError>) -> ControlFlow<()> + Send + 'static,
    ) -> Result<(), LogError> {
        // What becomes durable from now on is news, also before the thread takes the letter.
        let listener = Listener::new(self.handle.front.clone(), listener);
        let letter = Letter::Subscribe(self.durable(), listener);
        match self.handle.calls.tell(letter) {
            true => Ok(()),
            false => Err(self.handle.front.why_closed()),
        }
    }

    /// The records from `from` on, which is the LSN or the end of a record, up to what is durable
    /// now. If it is neither, the first of them is [`LogError::NoRecord`], as [`Log::read`] says.
    ///
    /// # Errors
    /// [`LogError::BeforeFirst`], [`LogError::NotDurable`], and [`LogError::Failed`] if the thread
    /// has ended.
    pub fn read(&self, from: Lsn) -> Result<BlockingRecords, LogError> {
        let ask = Some(self.handle.ask(|to| Letter::Read(from, to))??);
        Ok(BlockingRecords { ask, piece: Vec::new().into_iter(), handle: self.handle.clone() })
    }

    /// The log before `lsn` is not needed any more; see [`Log::checkpoint`].
    ///
    /// # Errors
    /// As [`Log::checkpoint`].
    #[doc(alias = "truncate")]
    pub fn checkpoint(&self, lsn: Lsn, number: u64) -> Result<(), LogError> {
        self.handle.ask(|to| Letter::Checkpoint(lsn, number, to))?
    }

    /// Waits until at most `percent` of the room for groups is left: then the checkpoint should
    /// move. It is for a thread that does nothing else.
    ///
    /// # Errors
    /// [`LogError::Failed`], also when the log is closed.
    pub fn nearly_full(&self, percent: u64) -> Result<(), LogError> {
        self.handle.ask(|to| Letter::NearlyFull(percent, to))?
    }

    /// Puts a file or block device in the place of a device that is lost (with two copies); see
    /// [`Log::replace`]. The thread of the log does it, and other threads go on. `index` is that of
    /// the device in the log ([`LogStats::devices`](crate::LogStats::devices)); `force` destroys
    /// what the new one holds.
    ///
    /// # Errors
    /// [`BlockingError::File`], [`BlockingError::Log`]: then the device does not take part.
    pub fn replace(
        &self,
        index: usize,
        path: impl AsRef<Path>,
        force: bool,
    ) -> Result<(), BlockingError> {
        let (path, settings) = (path.as_ref().to_path_buf(), self.handle.file.clone());
        self.replace_with(index, force, async move |rt| file(&rt, path, &settings))
    }

    /// The same with a device that `make` makes in the thread of the log, for logs of
    /// [`BlockingLog::open_with`]: a device of the same type.
    ///
    /// # Errors
    /// [`BlockingError`], also what `make` says: then the device does not take part.
    pub fn replace_with<D, M, F>(
        &self,
        index: usize,
        force: bool,
        make: M,
    ) -> Result<(), BlockingError>
    where
        D: BlockDevice + Clone + 'static,
        M: FnOnce(Rt) -> F + Send + 'static,
        F: Future<Output = Result<LogDevice<D>, BlockingError>> + 'static,
    {
        let make = |rt| {
            let made = make(rt);
            let any = async move { Ok(Box::new(made.await?) as Box<dyn Any>) };
            Box::pin(any) as thread::Made
        };
        let replacement = Replacement { index, make: Box::new(make), force };
        self.handle.ask(|to| Letter::Replace(replacement, to))?
    }

    /// Of a log with two copies: which acknowledged bytes are on one device alone; see
    /// [`Log::one_copy`]. The thread of the log reads all devices, and other threads go on.
    ///
    /// # Errors
    /// As [`Log::one_copy`], and [`LogError::Failed`] if the thread has ended.
    pub fn one_copy(&self) -> Result<Vec<OneCopy>, LogError> {
        self.handle.ask(Letter::OneCopy)?
    }

    /// What the log has done and how it is.
    ///
    /// # Errors
    /// [`LogError::Failed`] if the thread has ended.
    pub fn stats(&self) -> Result<LogStats, LogError> {
        self.handle.ask(Letter::Stats)
    }

    /// Waits until everything appended is durable, and ends the log: every clone fails from then
    /// on. Appends fail at once, and whoever waits for what is durable by then still succeeds. Then
    /// its devices are free, and can be opened again, although there are clones.
    ///
    /// # Errors
    /// [`LogError::Failed`].
    pub fn close(&self) -> Result<(), LogError> {
        let ended = self.handle.ask(Letter::Close);
        // The thread ends in any case.
        self.handle.calls.wait();
        ended?
    }
}

fn paths<P: AsRef<Path>>(devices: &[P]) -> Vec<PathBuf> {
    devices.iter().map(|p| p.as_ref().to_path_buf()).collect()
}

fn files(
    rt: &Rt,
    paths: Vec<PathBuf>,
    settings: &FileSettings,
) -> Result<Vec<LogDevice<File>>, BlockingError> {
    let one = |(i, path): (usize, &PathBuf)| {
        file(rt, path.clone(), settings).map_err(|e| {
            // It is in use since this call uses it.
            let twin = paths[..i].iter().find(|other| is_same(other, path));
            let name = |path: &Path| path.display().to_string();
            twin.map_or(e, |twin| OpenError::Twice(name(twin), name(path)).into())
        })
    };
    paths.iter().enumerate().map(one).collect()
}

/// Whether there may be something at this path.
fn is_there(path: &Path) -> bool {
    !path.metadata().is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
}

/// Whether both paths lead to one file or block device.
fn is_same(a: &Path, b: &Path) -> bool {
    let (Ok(a), Ok(b)) = (a.metadata(), b.metadata()) else { return false };
    let is_block = a.file_type().is_block_device() && b.file_type().is_block_device();
    (a.dev(), a.ino()) == (b.dev(), b.ino()) || is_block && a.rdev() == b.rdev()
}

fn file(rt: &Rt, path: PathBuf, settings: &FileSettings) -> Result<LogDevice<File>, BlockingError> {
    let file = File::open(rt, &path, settings)?;
    Ok(LogDevice::new(path.display().to_string(), file))
}

/// Lends a file to threads, for units of so many bytes.
fn lend(file: &File, unit: u32) -> Option<Box<dyn Pen>> {
    let blocks = u64::from(unit / file.caps().block_size);
    Some(Box::new(FilePen { writer: file.lend()?, blocks }))
}

/// Carries out `task` in a thread with a runtime.
fn in_thread<F>(
    options: &BlockingOptions,
    task: impl FnOnce(Rt) -> F + Send + 'static,
) -> Result<(), BlockingError>
where
    F: Future<Output = Result<(), BlockingError>> + 'static,
{
    tantalum_rt::calls::in_thread(thread::NAME, options.wall, task)
}
