//! The logs that are compared. Each makes one record durable, called from any number of threads.
//!
//! Each has its files as its makers have it by default, with these exceptions, which serve it:
//!
//! - `raft-engine`: nothing is compressed, and old files are purged at 512 MiB between measurements,
//!   so that it recycles files instead of making new ones. A record is the value of a key of its
//!   thread's, so its index stays small.
//! - `raft-engine, filled`: also has its files written with zeros before it begins.
//! - `okaywal`: its defaults; its checkpoints have nothing to do.
//! - `group commit`: one file of zeros that were written, which it goes round in.
//! - `tantalum-log`: one file of zeros, or four; a checkpoint before it is full. Once more over another
//!   file, to see what two of the same differ by; with log blocks of 4 KiB instead of 512 bytes; and
//!   with all writes made by the thread of the log, to which each commit is posted, and which posts back.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use tantalum_device::File;
use tantalum_log::{BlockingLog, BlockingOptions, CreateOptions, LogDevice};
use tantalum_rt::Rt;

/// Bytes of a file that a contender goes round in.
const FILE: u64 = 256 << 20;

pub type Failure = Box<dyn Error + Send + Sync>;

/// A log that is measured.
pub trait Contender: Send + Sync {
    /// Makes a record of this thread durable.
    fn commit(&self, thread: usize, record: &[u8]) -> Result<(), Failure>;

    /// Between two measurements.
    fn tidy(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Names and logs, each in a place of its own in the folder.
pub type Named = (&'static str, Arc<dyn Contender>);

/// What is measured, which all others are compared with.
pub const OURS: &str = "tantalum-log";
/// The same log over four files.
pub const FOUR: &str = "tantalum-log, 4 files";
/// The same log over another file.
pub const AGAIN: &str = "tantalum-log, again";
/// The same log with blocks of 4 KiB.
pub const LARGE: &str = "tantalum-log, 4 KiB";

/// The same log, whose own thread does all writes.
pub const POSTED: &str = "tantalum-log, posted";

/// Logs for records of at least so many bytes.
pub fn all(folder: &Path, least: u64) -> Result<Vec<Named>, Failure> {
    Ok(vec![
        (OURS, Arc::new(Tantalum::new((folder, least), "one", 1, None, false)?)),
        (AGAIN, Arc::new(Tantalum::new((folder, least), "again", 1, None, false)?)),
        (LARGE, Arc::new(Tantalum::new((folder, least), "large", 1, Some(4096), false)?)),
        (POSTED, Arc::new(Tantalum::new((folder, least), "posted", 1, None, true)?)),
        (FOUR, Arc::new(Tantalum::new((folder, least), "four", 4, None, false)?)),
        ("group commit", Arc::new(GroupCommit::new(&folder.join("group"))?)),
        ("raft-engine", Arc::new(Raft::new(&folder.join("raft"), false)?)),
        ("raft-engine, filled", Arc::new(Raft::new(&folder.join("filled"), true)?)),
        ("okaywal", Arc::new(Okay::new(&folder.join("okaywal"))?)),
    ])
}

struct Tantalum {
    log: BlockingLog,
    /// Bytes after which the log is cut off behind: they fill about half of a file, also if each group
    /// has one record.
    cut: u64,
}

impl Tantalum {
    fn new(
        (folder, least): (&Path, u64),
        name: &str,
        files: usize,
        unit: Option<u32>,
        posted: bool,
    ) -> Result<Self, Failure> {
        let mut options = BlockingOptions::default();
        options.file.keep_room = true;
        let path = |i| folder.join(format!("tantalum.{name}.{i}"));
        let paths: Vec<PathBuf> = (0..files).map(path).collect();
        for path in &paths {
            BlockingLog::make_file(path, FILE, &options)?;
        }
        let made = CreateOptions { unit, ..CreateOptions::default() };
        BlockingLog::create(&paths, None, &made, &options)?;
        let unit_bytes = u64::from(unit.unwrap_or(512));
        let cut = FILE / 4 / unit_bytes * least.min(unit_bytes / 2);
        if !posted {
            return Ok(Tantalum { log: BlockingLog::open(&paths, options)?, cut });
        }
        let settings = options.file.clone();
        let make = async move |rt: Rt| {
            let device = |path: &PathBuf| {
                let name = path.display().to_string();
                File::open(&rt, path, &settings).map(|file| LogDevice::new(name, file))
            };
            Ok(paths.iter().map(device).collect::<Result<_, _>>()?)
        };
        Ok(Tantalum { log: BlockingLog::open_with(options, make)?, cut })
    }
}

impl Contender for Tantalum {
    fn commit(&self, _thread: usize, record: &[u8]) -> Result<(), Failure> {
        let appended = self.log.commit(record)?;
        if appended.lsn.0 / self.cut != appended.end.0 / self.cut {
            self.log.checkpoint(appended.end, 0)?;
        }
        Ok(())
    }
}

/// Whoever finds no write under way writes everything that has come since the last.
struct GroupCommit {
    file: fs::File,
    group: Mutex<Group>,
    done: Condvar,
}

#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    at: u64,
    end: u64,
    durable: u64,
    leads: bool,
    failed: bool,
}

impl GroupCommit {
    fn new(path: &Path) -> io::Result<GroupCommit> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let zeros = vec![0; 1 << 20];
        for at in (0..FILE).step_by(1 << 20) {
            file.write_all_at(&zeros, at)?;
        }
        file.sync_all()?;
        Ok(GroupCommit { file, group: Mutex::default(), done: Condvar::new() })
    }
}

impl Contender for GroupCommit {
    fn commit(&self, _thread: usize, record: &[u8]) -> Result<(), Failure> {
        let mut group = self.group.lock().map_err(|e| e.to_string())?;
        group.bytes.extend_from_slice(record);
        group.end += record.len() as u64;
        let mine = group.end;
        while group.durable < mine {
            if group.failed {
                return Err("another thread's write failed".into());
            }
            if group.leads {
                group = self.done.wait(group).map_err(|e| e.to_string())?;
                continue;
            }
            group.leads = true;
            let (bytes, end, at) = (std::mem::take(&mut group.bytes), group.end, group.at);
            group.at = (at + bytes.len() as u64) % (FILE - (1 << 20));
            drop(group);
            let written = self.file.write_all_at(&bytes, at).and_then(|()| self.file.sync_data());
            group = self.group.lock().map_err(|e| e.to_string())?;
            (group.leads, group.failed) = (false, written.is_err());
            if written.is_ok() {
                group.durable = end;
            }
            self.done.notify_all();
            written?;
        }
        Ok(())
    }
}

struct Raft(raft_engine::Engine);

impl Raft {
    fn new(folder: &Path, filled: bool) -> Result<Raft, Failure> {
        let config = raft_engine::Config {
            dir: folder.display().to_string(),
            batch_compression_threshold: raft_engine::ReadableSize::kb(0),
            purge_threshold: raft_engine::ReadableSize::mb(512),
            prefill_for_recycle: filled,
            prefill_limit: filled.then_some(raft_engine::ReadableSize::mb(768)),
            ..raft_engine::Config::default()
        };
        Ok(Raft(raft_engine::Engine::open(config)?))
    }
}

impl Contender for Raft {
    fn commit(&self, thread: usize, record: &[u8]) -> Result<(), Failure> {
        let mut batch = raft_engine::LogBatch::with_capacity(1);
        batch.put(thread as u64 + 1, b"record".to_vec(), record.to_vec())?;
        self.0.write(&mut batch, true)?;
        Ok(())
    }

    fn tidy(&self) -> Result<(), Failure> {
        self.0.purge_expired_files()?;
        Ok(())
    }
}

struct Okay(okaywal::WriteAheadLog);

/// Nothing is kept of what is checkpointed.
#[derive(Debug)]
struct Nothing;

impl okaywal::LogManager for Nothing {
    fn recover(&mut self, _entry: &mut okaywal::Entry<'_>) -> io::Result<()> {
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _last: okaywal::EntryId,
        _entries: &mut okaywal::SegmentReader,
        _wal: &okaywal::WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

impl Okay {
    fn new(folder: &Path) -> io::Result<Okay> {
        Ok(Okay(okaywal::Configuration::default_for(folder).open(Nothing)?))
    }
}

impl Contender for Okay {
    fn commit(&self, _thread: usize, record: &[u8]) -> Result<(), Failure> {
        let mut entry = self.0.begin_entry()?;
        entry.write_chunk(record)?;
        entry.commit()?;
        Ok(())
    }
}
