//! Failures: a code, and a message for the thread that made the call.
//!
//! 1. No panic passes [`boundary`]: it becomes [`TANTALUM_EINTERNAL`].
//! 2. Each thread has its own last message; a call that succeeds does not change it.

use crate::abi::*;
use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use tantalum_device::{AtomicError, IoError};
use tantalum_drive::DesignError;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub code: c_int,
    pub message: String,
}

impl Failure {
    pub fn new(code: c_int, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(TANTALUM_EINVAL, message)
    }

    pub fn memory(bytes: usize) -> Failure {
        Failure::new(TANTALUM_ENOMEM, format!("no memory for {bytes} bytes"))
    }
}

impl From<IoError> for Failure {
    fn from(e: IoError) -> Failure {
        let code = match e {
            IoError::PowerLost => TANTALUM_EPOWER,
            IoError::Invalid(_) => TANTALUM_EINVAL,
            IoError::Uncorrectable(_) => TANTALUM_EMEDIUM,
            IoError::Failed(_) => TANTALUM_EFAILED,
            IoError::Poisoned => TANTALUM_EPOISONED,
            IoError::NoSpace => TANTALUM_ENOSPC,
            IoError::ReadOnly => TANTALUM_EREADONLY,
        };
        Failure::new(code, e.to_string())
    }
}

impl From<AtomicError> for Failure {
    fn from(e: AtomicError) -> Failure {
        let code = match e {
            AtomicError::Unsupported => TANTALUM_ENOTSUP,
            AtomicError::TooLarge { .. } => TANTALUM_ETOOLARGE,
            AtomicError::Overlap(_) => TANTALUM_EOVERLAP,
            AtomicError::Io(e) => return e.into(),
        };
        Failure::new(code, e.to_string())
    }
}

impl From<DesignError> for Failure {
    fn from(e: DesignError) -> Failure {
        Failure::new(TANTALUM_EDESIGN, e.to_string())
    }
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body of a library function; its failure or panic becomes a code, and a message for this
/// thread.
pub(crate) fn boundary(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(Failure::new(TANTALUM_EINTERNAL, format!("the library panicked: {}", said(&*panic))))
    });
    match result {
        Ok(()) => TANTALUM_OK,
        Err(Failure { code, message }) => {
            // A thread that is ending may have no thread-local storage any more.
            let _ = LAST.try_with(|last| *last.borrow_mut() = message);
            code
        }
    }
}

/// The message of a panic.
pub(crate) fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}

/// The meaning of `code`, in English. Never null; valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn tantalum_strerror(code: c_int) -> *const c_char {
    let known = CODES.iter().find(|c| c.0 == code);
    known.map_or(c"no code of this library", |c| c.1).as_ptr()
}

/// Copies the message of the last failed call of this thread, and returns its length.
///
/// # Safety
/// `buf` is null, or has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_last_error(buf: *mut c_char, len: usize) -> usize {
    let message = LAST.try_with(|last| last.borrow().clone()).unwrap_or_default();
    if !buf.is_null() && len > 0 {
        // Do not cut within a character.
        let cut = (0..=message.len().min(len - 1)).rev().find(|i| message.is_char_boundary(*i));
        let cut = cut.unwrap_or(0);
        // SAFETY: the caller's room for `len` bytes; `cut` is less.
        unsafe {
            buf.cast::<u8>().copy_from_nonoverlapping(message.as_ptr(), cut);
            buf.add(cut).write(0);
        }
    }
    message.len()
}
