//! The setup of SQLite, once in a process: the virtual file system is registered, and each guest
//! gets random numbers of its own.
//!
//! SQLite has one random number generator for the process, seeded once: the numbers of a guest
//! would depend on all earlier guests and on other threads. So this module wraps SQLite's mutexes.
//! Each time a guest takes the generator's mutex, the generator is reset. It then seeds itself from
//! the default file system, which is ours and draws from the guest's own stream.

use crate::context::with_current;
use crate::vfs;
use libsqlite3_sys as ffi;
use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Once, OnceLock};

static MUTEXES: OnceLock<ffi::sqlite3_mutex_methods> = OnceLock::new();
static PRNG: AtomicPtr<ffi::sqlite3_mutex> = AtomicPtr::new(null_mut());

thread_local! {
    /// This thread is resetting the generator, and holds its mutex.
    static RESETTING: Cell<bool> = const { Cell::new(false) };
}

/// Prepares SQLite; further calls do nothing.
///
/// # Panics
/// If this is not the SQLite that it was compiled for.
pub(crate) fn once() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: calls of SQLite in the documented order: configuration only between shutdown and
        // initialisation, with arguments of the types that each option takes. No other thread uses
        // SQLite meanwhile: this process uses SQLite only through mounts, which call this function
        // first.
        unsafe {
            let ok = |code: c_int| assert_eq!(code, ffi::SQLITE_OK, "setting up SQLite failed");
            ok(ffi::sqlite3_initialize());
            ok(ffi::sqlite3_shutdown());
            // Memory statistics would take a global lock for each allocation.
            ok(ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int));
            let mut methods: ffi::sqlite3_mutex_methods = std::mem::zeroed();
            let pointer: *mut ffi::sqlite3_mutex_methods = &mut methods;
            ok(ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMUTEX, pointer));
            if methods.xMutexEnter.is_some() {
                let _ = MUTEXES.set(methods);
                methods.xMutexAlloc = Some(alloc);
                methods.xMutexEnter = Some(enter);
                methods.xMutexLeave = Some(leave);
                let pointer: *mut ffi::sqlite3_mutex_methods = &mut methods;
                ok(ffi::sqlite3_config(ffi::SQLITE_CONFIG_MUTEX, pointer));
            }
            ok(ffi::sqlite3_initialize());
            ok(ffi::sqlite3_vfs_register(vfs::leaked(), 1));
        }
    });
}

unsafe extern "C" fn alloc(kind: c_int) -> *mut ffi::sqlite3_mutex {
    let methods = MUTEXES.get().and_then(|m| m.xMutexAlloc);
    // SAFETY: SQLite's own function with its own argument.
    let mutex = methods.map_or(null_mut(), |f| unsafe { f(kind) });
    if kind == ffi::SQLITE_MUTEX_STATIC_PRNG {
        PRNG.store(mutex, Ordering::Release);
    }
    mutex
}

unsafe extern "C" fn enter(mutex: *mut ffi::sqlite3_mutex) {
    let prng = mutex == PRNG.load(Ordering::Acquire);
    if prng && RESETTING.get() {
        return;
    }
    if let Some(f) = MUTEXES.get().and_then(|m| m.xMutexEnter) {
        // SAFETY: SQLite's own function with its own argument.
        unsafe { f(mutex) };
    }
    if prng && with_current(|guest| guest.is_some()) {
        RESETTING.set(true);
        // SAFETY: a request for 0 bytes resets the generator. Its enter and leave of the same
        // mutex, which this thread holds, are skipped.
        unsafe { ffi::sqlite3_randomness(0, null_mut()) };
        RESETTING.set(false);
    }
}

unsafe extern "C" fn leave(mutex: *mut ffi::sqlite3_mutex) {
    if RESETTING.get() && mutex == PRNG.load(Ordering::Acquire) {
        return;
    }
    if let Some(f) = MUTEXES.get().and_then(|m| m.xMutexLeave) {
        // SAFETY: SQLite's own function with its own argument.
        unsafe { f(mutex) };
    }
}
