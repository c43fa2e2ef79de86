//! Stores on files in a temporary folder, which goes with the last user of it.
#![allow(dead_code, reason = "each test uses some of it")]

use openraft::{CommittedLeaderId, Entry, EntryPayload, LogId};
use std::path::PathBuf;
use tantalum_log::{BlockingLog, BlockingOptions, CreateOptions};
use tantalum_openraft::kv::{Set, Words};
use tantalum_openraft::{FlashLog, OpenError, StoreOptions};

pub const ONE_KIB: usize = 1 << 10;

pub struct Devices {
    folder: tempfile::TempDir,
    pub paths: Vec<PathBuf>,
}

impl Devices {
    pub fn new(files: usize, copies: u8) -> Devices {
        Devices::of_bytes(files, copies, 16 << 20)
    }

    pub fn of_bytes(files: usize, copies: u8, bytes: u64) -> Devices {
        let folder = tempfile::tempdir().expect("a folder");
        let paths: Vec<_> = (0..files).map(|i| folder.path().join(format!("{i}.log"))).collect();
        let options = options(0).log;
        for path in &paths {
            BlockingLog::make_file(path, bytes, &options).expect("a file");
        }
        let create = CreateOptions { copies, ..CreateOptions::default() };
        BlockingLog::create(&paths, None, &create, &options).expect("a log");
        Devices { folder, paths }
    }

    /// Copies of the files, as they are now.
    pub fn copy(&self) -> Devices {
        let folder = tempfile::tempdir().expect("a folder");
        let copy = |path: &PathBuf| {
            let copy = folder.path().join(path.file_name().expect("a file"));
            std::fs::copy(path, &copy).expect("a copy");
            copy
        };
        let paths = self.paths.iter().map(copy).collect();
        Devices { folder, paths }
    }

    pub fn open(&self, memory: usize) -> Result<FlashLog<Words>, OpenError> {
        FlashLog::open(&self.paths, options(memory))
    }

    /// The flash log below the store.
    pub fn open_log(&self) -> BlockingLog {
        BlockingLog::open(&self.paths, options(0).log).expect("the log opens")
    }
}

pub fn options(memory: usize) -> StoreOptions {
    let mut log = BlockingOptions::default();
    // Where the tests run there may be no direct I/O.
    log.file.buffered = true;
    StoreOptions { memory, log }
}

pub fn id(term: u64, index: u64) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(term, 1), index)
}

pub fn entry(term: u64, index: u64, bytes: usize) -> Entry<Words> {
    let word = "w".repeat(bytes);
    let payload = EntryPayload::Normal(Set { name: format!("{term} {index}"), word });
    Entry { log_id: id(term, index), payload }
}
