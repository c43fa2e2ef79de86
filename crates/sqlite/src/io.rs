//! The methods of an open file for SQLite.

use crate::context::{Ctx, with_current};
use crate::error::Fail;
use crate::group::{Group, is_off};
use crate::host::HostFile;
use crate::lock::{Level, SHM_LOCKS, ShmHeld};
use crate::mount::Database;
use crate::vfs::{call, path as text};
use libsqlite3_sys as ffi;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

/// SQLite's structure of an open file.
#[repr(C)]
pub(crate) struct SqlFile {
    pub base: ffi::sqlite3_file,
    pub open: *mut OpenFile,
}

/// The state of an open file.
pub(crate) struct OpenFile {
    file: Rc<dyn HostFile>,
    /// The name under which it was opened.
    name: Box<[u8]>,
    /// It was opened read-only. SQLite relies on such a connection not being able to lock others
    /// out: if it closes last, it does not write the log back.
    read_only: bool,
    pub group: Group,
    id: u64,
    /// Where the last write ended.
    last_end: Cell<u64>,
    /// The shared state, if the file is a database.
    pub database: Option<Rc<Database>>,
    /// The database whose rollback journal this file is.
    journal_of: Option<Rc<Database>>,
    level: Cell<Level>,
    shm: Cell<ShmHeld>,
    shm_mapped: Cell<bool>,
    persist_log: Cell<bool>,
    pub powersafe_overwrite: Cell<bool>,
}

impl OpenFile {
    pub fn new(
        file: Rc<dyn HostFile>,
        name: &[u8],
        read_only: bool,
        id: u64,
        database: Option<Rc<Database>>,
        journal_of: Option<Rc<Database>>,
    ) -> OpenFile {
        OpenFile {
            file,
            name: name.into(),
            read_only,
            group: Group::default(),
            id,
            last_end: Cell::new(u64::MAX),
            database,
            journal_of,
            level: Cell::default(),
            shm: Cell::default(),
            shm_mapped: Cell::new(false),
            persist_log: Cell::new(false),
            powersafe_overwrite: Cell::new(true),
        }
    }

    /// Whether transactions may be groups.
    pub fn takes_groups(&self, ctx: &Ctx) -> bool {
        self.database.is_some() && ctx.common.groups.is_ok()
    }

    /// Called before every change of the file that is not a group.
    fn will_change(&self, ctx: &Ctx) -> Result<(), Fail> {
        self.may_change()?;
        if let Some(database) = &self.database {
            database.fallback.protect(ctx)?;
        }
        self.changes();
        Ok(())
    }

    fn may_change(&self) -> Result<(), Fail> {
        if self.read_only { Err(Fail::Code(ffi::SQLITE_READONLY)) } else { Ok(()) }
    }

    /// Called before and after every change that is not a group: a sync in between may have missed
    /// it.
    fn changes(&self) {
        if let Some(database) = &self.database {
            database.synced.set(false);
        }
    }

    fn sync(&self, ctx: &Ctx) -> Result<(), Fail> {
        let Some(database) = &self.database else { return self.file.sync(ctx) };
        // A group needs no sync, but SQLite asks for one.
        if database.synced.get() && self.takes_groups(ctx) {
            return Ok(());
        }
        // (A write of another connection meanwhile clears it.)
        database.synced.set(true);
        let done = self.file.sync(ctx);
        if done.is_err() {
            database.synced.set(false);
        }
        done
    }

    fn raise(&self, want: Level) -> Result<(), Fail> {
        if want > Level::Shared && self.read_only {
            return Err(Fail::Code(ffi::SQLITE_IOERR_LOCK));
        }
        if let Some(database) = &self.database {
            let level = database.locks.borrow_mut().raise(self.id, self.level.get(), want);
            self.level.set(level);
            if level < want {
                return Err(Fail::Code(ffi::SQLITE_BUSY));
            }
        }
        Ok(())
    }

    fn lower(&self, to: Level) {
        if let Some(database) = &self.database {
            let before = self.level.replace(to);
            if before >= Level::Reserved && to < Level::Reserved {
                database.fallback.end();
            }
            self.level.set(database.locks.borrow_mut().lower(self.id, before, to));
        }
    }

    fn unmap(&self) {
        if let Some(database) = &self.database
            && self.shm_mapped.replace(false)
        {
            let mut held = self.shm.take();
            database.shm_locks.borrow_mut().unlock(&mut held, 0..SHM_LOCKS);
            database.shm.borrow_mut().unmap();
        }
    }
}

pub(crate) static METHODS: &ffi::sqlite3_io_methods = &ffi::sqlite3_io_methods {
    // Without the methods for memory-mapped reads, because a crash model must see all reads.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// # Safety
/// `file` must be one that was opened and not closed since.
unsafe fn opened<'a>(file: *mut ffi::sqlite3_file) -> &'a OpenFile {
    // SAFETY: `open` put a box there, which lives until `close`.
    unsafe { &*(*file.cast::<SqlFile>()).open }
}

/// An open file of this file system.
///
/// # Safety
/// `file` must be null, or a file that SQLite has open, or has closed but not freed.
pub(crate) unsafe fn ours<'a>(file: *mut ffi::sqlite3_file) -> Option<&'a OpenFile> {
    // SAFETY: as above. A closed file has no methods; a file of another file system has other
    // methods.
    unsafe {
        let methods = file.as_ref()?.pMethods;
        std::ptr::eq(methods, METHODS).then(|| opened(file))
    }
}

/// A call on an open file.
///
/// # Safety
/// `file` must be one that was opened and not closed since.
unsafe fn on(
    file: *mut ffi::sqlite3_file,
    otherwise: c_int,
    body: impl FnOnce(&Ctx, &OpenFile) -> Result<(), Fail>,
) -> c_int {
    // SAFETY: as above.
    let open = unsafe { opened(file) };
    call(otherwise, |ctx| body(ctx, open))
}

fn number(n: i64) -> Result<u64, Fail> {
    u64::try_from(n).map_err(|_| Fail::Code(ffi::SQLITE_MISUSE))
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // The file is closed, even if handing on held writes fails.
    call(ffi::SQLITE_OK, |_| Ok(()));
    let file: *mut SqlFile = file.cast();
    // SAFETY: the box is the one that `open` put there; SQLite closes a file once.
    let open = unsafe {
        (*file).base.pMethods = std::ptr::null();
        Box::from_raw((*file).open)
    };
    open.unmap();
    open.lower(Level::None);
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    to: *mut c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    let body = |ctx: &Ctx, open: &OpenFile| {
        // SAFETY: SQLite gives room for `count` bytes, and does not use it until the call returns,
        // however long the guest is parked.
        let to = unsafe {
            std::slice::from_raw_parts_mut(to.cast::<u8>(), usize::try_from(count).unwrap_or(0))
        };
        let offset = number(offset)?;
        let there = open.file.read(ctx, offset, to)?;
        let there = open.group.read(offset, to, there);
        if there < to.len() {
            to[there..].fill(0);
            return Err(Fail::Code(ffi::SQLITE_IOERR_SHORT_READ));
        }
        Ok(())
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on(file, ffi::SQLITE_IOERR_READ, body) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    count: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite calls this on open files only.
    let open = unsafe { opened(file) };
    with_current(|ctx| {
        let Some(ctx) = ctx else { return ffi::SQLITE_MISUSE };
        ctx.charge(ctx.common.options.call_cpu);
        // SAFETY: SQLite gives `count` bytes, and does not change them until the call returns,
        // however long the guest is parked.
        let data = unsafe {
            std::slice::from_raw_parts(from.cast::<u8>(), usize::try_from(count).unwrap_or(0))
        };
        let body = || {
            let offset = number(offset)?;
            ctx.pay_if_much()?;
            if open.group.is_open() {
                ctx.drain()?;
                return open.group.write(ctx.common.groups.as_ref().ok().copied(), offset, data);
            }
            open.will_change(ctx)?;
            let journal = open.journal_of.as_ref();
            let other = journal.and_then(|d| d.fallback.hold(&open.file, offset, data));
            let data = other.as_deref().unwrap_or(data);
            let done = ctx.write(&open.file, open.last_end.get(), offset, data);
            open.changes();
            done?;
            open.last_end.set(offset.saturating_add(data.len() as u64));
            Ok(())
        };
        match body() {
            Ok(()) => ffi::SQLITE_OK,
            Err::<(), Fail>(fail) => fail.code(ffi::SQLITE_IOERR_WRITE),
        }
    })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    let body = |ctx: &Ctx, open: &OpenFile| {
        if open.group.is_open() {
            return Err(Fail::Code(ffi::SQLITE_IOERR_TRUNCATE));
        }
        open.will_change(ctx)?;
        let done = open.file.truncate(ctx, number(size)?);
        open.changes();
        done
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on(file, ffi::SQLITE_IOERR_TRUNCATE, body) }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite calls this on open files only.
    unsafe { on(file, ffi::SQLITE_IOERR_FSYNC, |ctx, open| open.sync(ctx)) }
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, out: *mut i64) -> c_int {
    let body = |_: &Ctx, open: &OpenFile| {
        let size = open.file.size().max(open.group.end());
        // SAFETY: `out` points to room for the answer.
        unsafe { *out = i64::try_from(size).unwrap_or(i64::MAX) };
        Ok(())
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on(file, ffi::SQLITE_IOERR_FSTAT, body) }
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    let body = |ctx: &Ctx, open: &OpenFile| {
        // Owed time passes before other guests see the lock taken.
        ctx.pay()?;
        open.raise(Level::from_code(level).ok_or(Fail::Code(ffi::SQLITE_MISUSE))?)
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on(file, ffi::SQLITE_IOERR_LOCK, body) }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    let body = |ctx: &Ctx, open: &OpenFile| {
        let to = Level::from_code(level).ok_or(Fail::Code(ffi::SQLITE_MISUSE))?;
        let paid = ctx.pay();
        open.lower(to);
        Ok(paid?)
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on(file, ffi::SQLITE_IOERR_UNLOCK, body) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    let body = |ctx: &Ctx, open: &OpenFile| {
        if !ctx.is_alive() {
            return Err(Fail::Gone);
        }
        let reserved = open.database.as_ref().is_some_and(|d| d.locks.borrow().is_reserved());
        // SAFETY: `out` points to room for the answer.
        unsafe { *out = c_int::from(reserved) };
        Ok(())
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on(file, ffi::SQLITE_IOERR_CHECKRESERVEDLOCK, body) }
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    what: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls this on open files only.
    let open = unsafe { opened(file) };
    let number: *mut c_int = argument.cast();
    // Sets a switch to 0 or 1; a negative number queries it.
    let switch = |cell: &Cell<bool>| {
        // SAFETY: the argument of these controls points to a number.
        unsafe {
            match *number {
                n if n < 0 => *number = c_int::from(cell.get()),
                n => cell.set(n != 0),
            }
        }
        ffi::SQLITE_OK
    };
    match what {
        ffi::SQLITE_FCNTL_PERSIST_WAL => switch(&open.persist_log),
        ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE => switch(&open.powersafe_overwrite),
        ffi::SQLITE_FCNTL_LOCKSTATE => {
            // SAFETY: as above.
            unsafe { *number = open.level.get() as c_int };
            ffi::SQLITE_OK
        }
        ffi::SQLITE_FCNTL_HAS_MOVED => with_current(|ctx| {
            let now = ctx.and_then(|ctx| ctx.common.host.number_of(&open.name));
            // SAFETY: as above.
            unsafe { *number = c_int::from(ctx.is_some() && now != Some(open.file.number())) };
            ffi::SQLITE_OK
        }),
        // The file layer allocates in chunks anyway.
        ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE => ffi::SQLITE_OK,
        ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => {
            let begin = |_: &Ctx, open: &OpenFile| {
                open.may_change()?;
                open.database.iter().for_each(|d| d.fallback.end());
                open.group.begin()
            };
            // SAFETY: SQLite calls this on open files only.
            unsafe { on(file, ffi::SQLITE_IOERR_BEGIN_ATOMIC, begin) }
        }
        ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => {
            let commit = |ctx: &Ctx, open: &OpenFile| open.group.commit(ctx, &*open.file);
            // SAFETY: SQLite calls this on open files only.
            unsafe { on(file, ffi::SQLITE_IOERR_COMMIT_ATOMIC, commit) }
        }
        ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => {
            open.group.roll_back();
            open.database.iter().for_each(|d| d.fallback.begin());
            ffi::SQLITE_OK
        }
        ffi::SQLITE_FCNTL_PRAGMA => {
            // SAFETY: the argument of this control is an array: room for an answer, the name of a
            // pragma, and its value or null.
            let (name, value) = unsafe {
                let words: *const *const c_char = argument.cast();
                (text(*words.add(1)), text(*words.add(2)))
            };
            if name.eq_ignore_ascii_case(b"synchronous")
                && !value.is_empty()
                && open.level.get() < Level::Reserved
            {
                open.group.unsynced.set(is_off(value));
            }
            // A guest is one thread: SQLite must not sort on other threads, which cannot use its
            // files.
            if name.eq_ignore_ascii_case(b"threads") {
                // SAFETY: there is room for an answer, which SQLite frees.
                unsafe {
                    let answer: *mut *mut c_char = argument.cast();
                    *answer = ffi::sqlite3_mprintf(c"%d".as_ptr(), 0 as c_int);
                }
                return ffi::SQLITE_OK;
            }
            // SQLite then handles the pragma itself.
            ffi::SQLITE_NOTFOUND
        }
        _ => ffi::SQLITE_NOTFOUND,
    }
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    with_current(|ctx| ctx.map_or(4096, |ctx| ctx.common.sector))
}

unsafe extern "C" fn device_characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this on open files only.
    let open = unsafe { opened(file) };
    let bits = with_current(|ctx| {
        ctx.map_or(0, |ctx| {
            let batch = open.takes_groups(ctx) && !open.group.unsynced.get();
            ctx.common.characteristics | if batch { ffi::SQLITE_IOCAP_BATCH_ATOMIC } else { 0 }
        })
    });
    match open.powersafe_overwrite.get() {
        true => bits,
        false => bits & !ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE,
    }
}

unsafe extern "C" fn shm_map(
    file: *mut ffi::sqlite3_file,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    let body = |_: &Ctx, open: &OpenFile| {
        let misuse = || Fail::Code(ffi::SQLITE_MISUSE);
        let database = open.database.as_ref().ok_or_else(misuse)?;
        let region = usize::try_from(region).map_err(|_| misuse())?;
        let bytes = usize::try_from(bytes).map_err(|_| misuse())?;
        let mut shm = database.shm.borrow_mut();
        if !open.shm_mapped.replace(true) {
            shm.mapped += 1;
        }
        // SAFETY: `out` points to room for the address. The memory does not move until all
        // connections have unmapped it, and only this thread uses it.
        unsafe { *out = shm.region(region, bytes, extend != 0).cast() };
        Ok(())
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on(file, ffi::SQLITE_IOERR_SHMMAP, body) }
}

unsafe extern "C" fn shm_lock(
    file: *mut ffi::sqlite3_file,
    first: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    let body = |ctx: &Ctx, open: &OpenFile| {
        let misuse = || Fail::Code(ffi::SQLITE_MISUSE);
        let database = open.database.as_ref().ok_or_else(misuse)?;
        let first = usize::try_from(first).map_err(|_| misuse())?;
        let end = usize::try_from(count).map_err(|_| misuse())?.saturating_add(first);
        if end > SHM_LOCKS {
            return Err(misuse());
        }
        let paid = ctx.pay();
        let mut held = open.shm.get();
        let mut locks = database.shm_locks.borrow_mut();
        let done = if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            locks.unlock(&mut held, first..end);
            paid.map_err(Fail::from)
        } else {
            paid?;
            let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
            match locks.lock(&mut held, first..end, exclusive) {
                true => Ok(()),
                false => Err(Fail::Code(ffi::SQLITE_BUSY)),
            }
        };
        open.shm.set(held);
        done
    };
    // SAFETY: SQLite calls this on open files only.
    unsafe { on(file, ffi::SQLITE_IOERR_SHMLOCK, body) }
}

/// Nothing to do: only one guest of a runtime runs at a time, and all guests that share memory are
/// on one runtime.
unsafe extern "C" fn shm_barrier(_: *mut ffi::sqlite3_file) {}

unsafe extern "C" fn shm_unmap(file: *mut ffi::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: SQLite calls this on open files only.
    unsafe { opened(file) }.unmap();
    ffi::SQLITE_OK
}
