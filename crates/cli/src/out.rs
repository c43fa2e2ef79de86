//! Output that does not mind when nobody reads it to the end.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::path::{Path, PathBuf};

/// Exit code: all is as it should be.
pub const OK: u8 = 0;
/// Exit code: an expectation failed, or the run did.
pub const FAILED: u8 = 1;
/// Exit code: what was asked for can not be meant.
pub const USAGE: u8 = 2;
/// Exit code: the user interrupted it.
pub const INTERRUPTED: i32 = 130;

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

/// A file that is opened before a run, so that a bad path is no surprise at its end,
/// and takes its contents after it: until then what was in it stays there.
pub struct Sink {
    path: PathBuf,
    file: File,
}

impl Sink {
    /// Opens the file, or creates it; gives the line that says why not.
    pub fn open(path: &Path) -> Result<Sink, String> {
        #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
        let opened = File::options().write(true).create(true).truncate(false).open(path);
        match opened {
            Ok(file) => Ok(Sink { path: path.to_path_buf(), file }),
            Err(e) => Err(format!("can not write {}: {e}", path.display())),
        }
    }

    /// Puts this into the file, and nothing else; gives the exit code.
    pub fn put(mut self, contents: &str) -> u8 {
        match self.replace(contents) {
            Ok(()) => OK,
            Err(e) => error(format_args!("can not write {}: {e}", self.path.display()), FAILED),
        }
    }

    fn replace(&mut self, contents: &str) -> io::Result<()> {
        // (A pipe has no length.)
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(contents.as_bytes())
    }
}
