//! The virtual file system for SQLite: opening, deleting, time, randomness. Each function finds its
//! guest by the thread on which it is called.

use crate::context::{Ctx, with_current};
use crate::error::Fail;
use crate::host::{HostFile, MemoryFile, Open};
use crate::io::{self, OpenFile, SqlFile};
use crate::mount::Temporaries;
use libsqlite3_sys as ffi;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;
use std::rc::Rc;
use tantalum_rt::Nanos;

/// The name under which it is registered.
pub(crate) const NAME: &CStr = c"tantalum";

/// Bytes in the longest path.
const LONGEST_PATH: c_int = 256;

/// Milliseconds from the beginning of the Julian calendar to 1970.
const JULIAN_1970: i64 = 210_866_760_000_000;

/// The description of the file system, for the life of the process.
pub(crate) fn leaked() -> *mut ffi::sqlite3_vfs {
    Box::into_raw(Box::new(ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: size_of::<SqlFile>() as c_int,
        mxPathname: LONGEST_PATH,
        pNext: null_mut(),
        zName: NAME.as_ptr(),
        pAppData: null_mut(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: Some(last_error),
        xCurrentTimeInt64: Some(current_time_ms),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }))
}

/// Runs a call of SQLite: charges CPU time, hands on held writes, and converts the result into a
/// result code.
pub(crate) fn call(otherwise: c_int, body: impl FnOnce(&Ctx) -> Result<(), Fail>) -> c_int {
    with_current(|ctx| {
        let Some(ctx) = ctx else { return ffi::SQLITE_MISUSE };
        ctx.charge(ctx.common.options.call_cpu);
        let done = ctx.pay_if_much().map_err(Fail::from).and_then(|()| ctx.drain());
        match done.and_then(|()| body(ctx)) {
            Ok(()) => ffi::SQLITE_OK,
            Err(fail) => fail.code(otherwise),
        }
    })
}

/// The bytes of a path, or of another text of SQLite; empty if it is null.
///
/// # Safety
/// `name` must be null or point to a string that ends with NUL and outlives the result.
pub(crate) unsafe fn path<'a>(name: *const c_char) -> &'a [u8] {
    if name.is_null() {
        return &[];
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(name) }.to_bytes()
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let file: *mut SqlFile = file.cast();
    // SAFETY: SQLite gives room for a file of the requested size; the methods must be null if it
    // could not be opened.
    unsafe { (*file).base.pMethods = std::ptr::null() };
    call(ffi::SQLITE_IOERR, |ctx| {
        let powersafe = flags & ffi::SQLITE_OPEN_URI == 0 || {
            // SAFETY: with this flag the name comes from SQLite, with parameters after it.
            unsafe { ffi::sqlite3_uri_boolean(name, c"psow".as_ptr(), 1) != 0 }
        };
        // SAFETY: SQLite's file names are NUL-terminated strings.
        let name = unsafe { path(name) };
        let host = &ctx.common.host;
        let temporary = name.is_empty() || flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0;
        let below: Rc<dyn HostFile> = if temporary {
            match ctx.common.options.temporaries {
                Temporaries::Memory => Rc::new(MemoryFile::default()),
                Temporaries::Files => host.temporary(ctx)?,
            }
        } else {
            let how = match (flags & ffi::SQLITE_OPEN_CREATE, flags & ffi::SQLITE_OPEN_EXCLUSIVE) {
                (0, _) => Open::Existing,
                (_, 0) => Open::Create,
                _ => Open::CreateNew,
            };
            host.open(ctx, name, how)?
        };
        let database = (flags & ffi::SQLITE_OPEN_MAIN_DB != 0 && !temporary)
            .then(|| ctx.common.database(below.number()));
        let journal_of = (flags & ffi::SQLITE_OPEN_MAIN_JOURNAL != 0)
            .then(|| name.strip_suffix(b"-journal"))
            .flatten()
            .and_then(|name| host.number_of(name))
            .map(|file| ctx.common.database(file));
        let read_only = flags & ffi::SQLITE_OPEN_READONLY != 0;
        let id = ctx.common.next_id();
        let open = OpenFile::new(below, name, read_only, id, database, journal_of);
        open.powersafe_overwrite.set(powersafe);
        // SAFETY: as above; `close` takes the box back.
        unsafe {
            (*file).open = Box::into_raw(Box::new(open));
            (*file).base.pMethods = io::METHODS;
            if !out.is_null() {
                *out = flags;
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_directory: c_int,
) -> c_int {
    call(ffi::SQLITE_IOERR_DELETE, |ctx| {
        // SAFETY: SQLite's file names are NUL-terminated strings.
        let name = unsafe { path(name) };
        ctx.common.host.delete(ctx, name, sync_directory != 0)
    })
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    call(ffi::SQLITE_IOERR_ACCESS, |ctx| {
        // SAFETY: SQLite's file names are NUL-terminated strings.
        let size = ctx.common.host.size_of(unsafe { path(name) });
        // An empty journal or log counts as missing, as in SQLite's own file systems.
        let yes = match flags {
            ffi::SQLITE_ACCESS_EXISTS => size.is_some_and(|s| s > 0),
            _ => size.is_some(),
        };
        // SAFETY: `out` points to room for the answer.
        unsafe { *out = c_int::from(yes) };
        Ok(())
    })
}

unsafe extern "C" fn full_path(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite's file names are NUL-terminated strings.
    let name = unsafe { path(name) };
    if name.len() + 1 > usize::try_from(room).unwrap_or(0) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: `out` has room for `room` bytes, and does not overlap the name.
    unsafe {
        std::ptr::copy_nonoverlapping(name.as_ptr(), out.cast(), name.len());
        *out.add(name.len()) = 0;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn randomness(_: *mut ffi::sqlite3_vfs, n: c_int, out: *mut c_char) -> c_int {
    let Ok(length) = usize::try_from(n) else { return 0 };
    // SAFETY: `out` has room for `n` bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), length) };
    with_current(|ctx| match ctx {
        Some(ctx) => ctx.stream.borrow_mut().fill(bytes),
        // Outside of guests no random numbers are needed.
        None => bytes.fill(0),
    });
    n
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, micros: c_int) -> c_int {
    call(ffi::SQLITE_OK, |ctx| {
        ctx.charge(Nanos::from_micros(u64::try_from(micros).unwrap_or(0)));
        Ok(ctx.pay()?)
    });
    micros
}

unsafe extern "C" fn current_time_ms(_: *mut ffi::sqlite3_vfs, out: *mut i64) -> c_int {
    let unix = with_current(|ctx| {
        ctx.map_or(0, |ctx| {
            ctx.common.options.epoch_ms + (ctx.common.rt.now().0 / 1_000_000) as i64
        })
    });
    // SAFETY: `out` points to room for the answer.
    unsafe { *out = JULIAN_1970 + unix };
    ffi::SQLITE_OK
}

unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    let mut ms = 0;
    // SAFETY: `ms` and `out` are room for the answers.
    unsafe {
        current_time_ms(vfs, &mut ms);
        *out = ms as f64 / 86_400_000.0;
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}
