//! One owner of a file: a lock that ends with the process.
//!
//! 1. A lock is that of an open file. It ends when the last descriptor of that open file is closed,
//!    also if the process is killed.
//! 2. The lock is advisory: only programs that ask for it respect it.

use std::fs::{File, TryLockError};
use std::io;
use std::time::Duration;

/// How long a lock may still be held by a process that was killed, or by a child that this process
/// is just starting.
const DYING: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(20);

/// Why a file was not locked.
#[derive(Debug, thiserror::Error)]
pub enum FileLockError {
    /// Somebody else has it.
    #[error("somebody else has the file open")]
    InUse,
    /// The system's error.
    #[error("the file cannot be locked: {0}")]
    System(#[source] io::Error),
}

/// Locks an open file: `alone`, or together with others that do not ask to be alone. If the lock is
/// taken, it blocks the thread for up to half a second, since the holder may be a dying process.
///
/// # Errors
/// [`FileLockError`].
#[allow(clippy::disallowed_methods, reason = "the edge: a lock of the system is waited for")]
pub fn lock_file(file: &File, alone: bool) -> Result<(), FileLockError> {
    let mut left = DYING;
    loop {
        let locked = if alone { file.try_lock() } else { file.try_lock_shared() };
        match locked {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if left > Duration::ZERO => {
                std::thread::sleep(STEP);
                left = left.saturating_sub(STEP);
            }
            Err(TryLockError::WouldBlock) => return Err(FileLockError::InUse),
            Err(TryLockError::Error(e)) => return Err(FileLockError::System(e)),
        }
    }
}
