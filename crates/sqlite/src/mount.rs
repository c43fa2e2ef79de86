//! The state that guests on one mounted file layer share.

use crate::batch::BatchOff;
use crate::context::Ctx;
use crate::group::Fallback;
use crate::guest::{Guest, Sqlite};
use crate::host::{FilesHost, Host};
use crate::lock::{FileLocks, ShmLocks};
use crate::setup;
use libsqlite3_sys as ffi;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::rc::{Rc, Weak};
use tantalum_device::{BlockDevice, Caps, GroupLimit};
use tantalum_files::Files;
use tantalum_rt::{Nanos, Rt};

/// What SQLite is told about the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Characteristics {
    /// The promises of the device, as far as SQLite has a flag for them.
    #[default]
    OfTheDevice,
    /// Only that a write does not damage neighbouring bytes: what SQLite assumes of any disk.
    Plain,
}

/// Where SQLite's temporary files are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Temporaries {
    /// In memory.
    #[default]
    Memory,
    /// On the device.
    Files,
}

/// How guests run.
///
/// See [the crate](crate) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// CPU time of one step of a statement.
    pub statement_cpu: Nanos,
    /// CPU time of one call of SQLite to the file system, even if it is answered from memory.
    pub call_cpu: Nanos,
    /// The time of day when the runtime's clock stood at zero: milliseconds since 1970.
    pub epoch_ms: i64,
    /// What SQLite is told about the device.
    pub characteristics: Characteristics,
    /// Whether SQLite is told that a transaction may be written as one atomic group, without a
    /// journal, where the file layer can promise that
    /// ([`Files::group_limit`](tantalum_files::Files::group_limit)) and
    /// [`Options::characteristics`] are those of the device.
    pub batch_atomic: bool,
    /// Where temporary files are.
    pub temporaries: Temporaries,
    /// Bytes of stack for each guest.
    pub stack: usize,
}

impl Default for Options {
    /// 10 µs for a step, 1 µs for a call, the first of January 2024, 1 MiB of stack; atomic
    /// groups.
    fn default() -> Options {
        Options {
            statement_cpu: Nanos::from_micros(10),
            call_cpu: Nanos::from_micros(1),
            epoch_ms: 1_704_067_200_000,
            characteristics: Characteristics::default(),
            batch_atomic: true,
            temporaries: Temporaries::default(),
            stack: 1 << 20,
        }
    }
}

/// A mounted file layer for guests, with the locks and the shared memory of its databases. After a
/// power cut, mount the files again and make a new `Mount`. Cheap to clone.
pub struct Mount<D> {
    common: Rc<Common>,
    files: PhantomData<Rc<D>>,
}

impl<D> Clone for Mount<D> {
    fn clone(&self) -> Mount<D> {
        Mount { common: self.common.clone(), files: PhantomData }
    }
}

impl<D: BlockDevice + 'static> Mount<D> {
    /// A mount on `files`. Only its guests may change the databases there.
    pub fn new(rt: &Rt, files: Files<D>, options: Options) -> Mount<D> {
        setup::once();
        let caps = files.device().caps();
        let common = Common {
            rt: rt.clone(),
            characteristics: match options.characteristics {
                Characteristics::OfTheDevice => characteristics(caps, files.chunk()),
                Characteristics::Plain => ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE,
            },
            groups: match (options.characteristics, options.batch_atomic) {
                (Characteristics::OfTheDevice, true) => files.group_limit().ok_or(BatchOff::Device),
                _ => Err(BatchOff::Mount),
            },
            sector: c_int::try_from(caps.block_size).unwrap_or(4096).min(65536),
            host: Box::new(FilesHost::new(files)),
            options,
            databases: RefCell::default(),
            opened: Cell::new(0),
        };
        Mount { common: Rc::new(common), files: PhantomData }
    }

    /// A guest called `name`: the future runs `main` as an ordinary, synchronous program, and
    /// returns its result. Its random numbers depend on the seed of the run, the name, the current
    /// time, and the number of earlier guests and files on this mount.
    pub fn guest<T: 'static>(
        &self,
        name: &str,
        main: impl FnOnce(&Sqlite) -> T + 'static,
    ) -> Guest<T> {
        Guest::new(Ctx::new(self.common.clone(), name), main)
    }
}

/// The state of a mount, without the type of the device.
pub(crate) struct Common {
    pub rt: Rt,
    pub options: Options,
    pub characteristics: c_int,
    /// The largest transaction that is one atomic group, or why there are none.
    pub groups: Result<GroupLimit, BatchOff>,
    pub sector: c_int,
    pub host: Box<dyn Host>,
    databases: RefCell<BTreeMap<u64, Weak<Database>>>,
    opened: Cell<u64>,
}

impl Common {
    /// A unique number for a guest or an open file.
    pub fn next_id(&self) -> u64 {
        self.opened.set(self.opened.get() + 1);
        self.opened.get()
    }

    /// The shared state of the connections to the database in this file. (Identified by number: the
    /// name may be given to another file while this one is open.)
    pub fn database(&self, file: u64) -> Rc<Database> {
        let mut databases = self.databases.borrow_mut();
        if let Some(d) = databases.get(&file).and_then(Weak::upgrade) {
            return d;
        }
        databases.retain(|_, d| d.strong_count() > 0);
        let database = Rc::new(Database::default());
        databases.insert(file, Rc::downgrade(&database));
        database
    }
}

/// The state that connections to one database share.
#[derive(Default)]
pub(crate) struct Database {
    /// Since the last sync only groups, which need no sync, were written to it. (False at first,
    /// because earlier writes are unknown.)
    pub synced: Cell<bool>,
    pub fallback: Fallback,
    pub locks: RefCell<FileLocks>,
    pub shm_locks: RefCell<ShmLocks>,
    pub shm: RefCell<Shm>,
}

/// The shared memory that indexes a write-ahead log. It begins as zeros, and is dropped when no
/// connection has it mapped; the next connection rebuilds it from the log.
#[derive(Default)]
pub(crate) struct Shm {
    regions: Vec<Box<[UnsafeCell<u64>]>>,
    pub mapped: u32,
}

impl Shm {
    /// The address of a region; null if it does not exist and `extend` is false.
    pub fn region(&mut self, index: usize, bytes: usize, extend: bool) -> *mut u8 {
        while extend && self.regions.len() <= index {
            let words = bytes.div_ceil(8);
            self.regions.push((0..words).map(|_| UnsafeCell::new(0)).collect());
        }
        match self.regions.get(index) {
            Some(region) => region.as_ptr() as *mut u8,
            None => std::ptr::null_mut(),
        }
    }

    /// Removes one connection.
    pub fn unmap(&mut self) {
        self.mapped -= 1;
        if self.mapped == 0 {
            self.regions.clear();
        }
    }
}

/// The device's promises as SQLite's flags.
fn characteristics(caps: &Caps, chunk: u64) -> c_int {
    // A partial write of a block rewrites its other bytes with their present values, and a crash
    // leaves the old or the new version of each unit: bytes outside of a write never change.
    let mut bits = ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
    // An aligned page no larger than a chunk is one write, which begins at the page or (if the page
    // is smaller than a block) at its block. It is atomic if it fits into a unit; within a block,
    // units are counted from the start of the block.
    let unit = u64::from(caps.atomic_unit);
    for (i, size) in (9..=16).map(|shift| 1u64 << shift).enumerate() {
        let small = size < u64::from(caps.block_size) && unit < u64::from(caps.block_size);
        if size <= unit && size <= chunk && !(small && unit % size != 0) {
            bits |= ffi::SQLITE_IOCAP_ATOMIC512 << i;
        }
    }
    // Every call has completed when it returns, so writes arrive in the order of the calls. Since
    // completed writes survive, SQLite may omit the syncs that only keep writes in order.
    if caps.ordered && caps.ack.survives() {
        bits |= ffi::SQLITE_IOCAP_SEQUENTIAL;
    }
    // Not SAFE_APPEND: a crash may leave a file longer than the data appended. (BATCH_ATOMIC
    // depends on the database, not on the device.)
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::{Ack, Payload};

    #[test]
    fn characteristics_follow_the_promises() {
        let mut caps = Caps {
            block_size: 4096,
            blocks: 1 << 20,
            ack: Ack::Volatile,
            flush: true,
            ordered: true,
            atomic_unit: 512,
            thin: false,
            atomic_group: None,
            payload: Payload::Bytes,
        };
        let psow = ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE;
        assert_eq!(characteristics(&caps, 65536), psow | ffi::SQLITE_IOCAP_ATOMIC512);
        (caps.ack, caps.atomic_unit) = (Ack::PowerSafe, 16384);
        let upto_8k = 0x3e;
        let want = psow | ffi::SQLITE_IOCAP_SEQUENTIAL | upto_8k;
        assert_eq!(characteristics(&caps, 8192), want, "pages larger than a chunk may be split");
        assert_eq!(characteristics(&caps, 65536), want | ffi::SQLITE_IOCAP_ATOMIC16K);
        caps.atomic_unit = 1536;
        let want = psow | ffi::SQLITE_IOCAP_SEQUENTIAL | ffi::SQLITE_IOCAP_ATOMIC512;
        assert_eq!(characteristics(&caps, 65536), want, "1 KiB may lie across two units");
    }
}
