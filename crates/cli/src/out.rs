//! Output that does not mind when nobody reads it to the end.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};

/// Exit code: all is as it should be.
pub const OK: u8 = 0;
/// Exit code: an expectation failed, or the run did.
pub const FAILED: u8 = 1;
/// Exit code: what was asked for can not be meant.
pub const USAGE: u8 = 2;

/// Writes to standard output. A reader that has gone (`| head`) is no error.
pub fn bytes(bytes: &[u8]) -> u8 {
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => OK,
        Err(e) if e.kind() == ErrorKind::BrokenPipe => OK,
        Err(e) => error(format_args!("can not write to standard output: {e}"), FAILED),
    }
}

/// A message on standard error, and the exit code to end with.
pub fn error(message: impl Display, code: u8) -> u8 {
    note(format_args!("error: {message}"));
    code
}

/// A line on standard error.
pub fn note(line: impl Display) {
    // If nobody reads that either, there is nobody to tell.
    let _ = writeln!(stderr(), "{line}");
}
