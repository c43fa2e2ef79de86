//! Output of the command: standard output, messages, and files of results.
//!
//! 1. Exit codes are those here, and docs/exit-codes.md lists them.
//! 2. With `--quiet` there are no notes and no progress, but errors, and what follows an error.

#[cfg(feature = "live")]
mod ready;

use serde::Serialize;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code: success.
pub const OK: u8 = 0;
/// Exit code: an expectation or the run failed.
pub const FAILED: u8 = 1;
/// Exit code: the request is invalid.
pub const USAGE: u8 = 2;
/// Exit code: no verdict, for a reason outside of this program; the user should try again.
pub const UNKNOWN: u8 = 3;
/// Exit code: the user interrupted the command.
pub const INTERRUPTED: i32 = 130;

/// All exit codes: the code, its meaning, and when it is that.
pub const CODES: &[(u8, &str, &str)] = &[
    (
        OK,
        "success",
        "the command did what it is for, and found nothing wrong; also Ctrl-C or SIGTERM at `serve` \
         and `mount` once they are ready, and an unmount by another process, which is how these end",
    ),
    (
        FAILED,
        "failure",
        "the work failed, or it found what it looks for: lost data, damage, a row that is not as \
         expected, a limit that is exceeded",
    ),
    (
        USAGE,
        "invalid request",
        "nothing was done: an argument, a file or a design is invalid, not there or in use, no such \
         drive, log or cache runs, or something listens at an address already",
    ),
    (
        UNKNOWN,
        "no verdict",
        "too few cuts, a run that ended early, or a defect of the database itself: try again",
    ),
    (
        INTERRUPTED as u8,
        "interrupted",
        "Ctrl-C or SIGTERM at `run`, `crash`, `search`, `fit`, `torture`, `cache sim`, \
         `log calibrate` or a `bench`: what was finished is printed; at `serve` and `mount` only \
         before they are ready",
    ),
];

/// Writes to standard output. It is no error if the reader has gone (`| head`).
pub fn bytes(bytes: &[u8]) -> u8 {
    let mut out = stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => OK,
        Err(e) if e.kind() == ErrorKind::BrokenPipe => OK,
        Err(e) => error(cannot("write to", Path::new("standard output"), &e), FAILED),
    }
}

/// Writes lines to standard output.
pub fn lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> u8 {
    let text: String = lines.into_iter().flat_map(|line| [line, "\n"]).collect();
    bytes(text.as_bytes())
}

/// Writes a value to standard output as JSON (docs/json.md).
pub fn json(value: &impl Serialize) -> u8 {
    match serde_json::to_string_pretty(value) {
        Ok(text) => bytes((text + "\n").as_bytes()),
        Err(e) => error(e, FAILED),
    }
}

/// Writes a value as JSON to the file that `--json` names; `-` is standard output.
pub fn json_to(value: &serde_json::Value, file: &Path) -> u8 {
    if file == Path::new("-") {
        return json(value);
    }
    match Sink::open(file) {
        Ok(sink) => sink.put(&format!("{value:#}\n")),
        Err(message) => error(message, USAGE),
    }
}

/// Whether notes are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on there are no notes, until an error is printed.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether notes and progress are left out.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether standard output shows colours: it is a terminal that can, and NO_COLOR is not set.
#[allow(clippy::disallowed_methods, reason = "the edge: the user's terminal")]
pub fn has_colours() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Prints an error on standard error; returns the exit code.
pub fn error(message: impl Display, code: u8) -> u8 {
    QUIET.store(false, Ordering::Relaxed);
    note(format_args!("error: {message}"));
    code
}

/// Prints a line on standard error.
pub fn note(line: impl Display) {
    if !is_quiet() {
        // If standard error is closed, nothing else can be done.
        let _ = writeln!(stderr(), "{line}");
    }
}

/// What to say of a file that cannot be written.
pub fn unwritable(path: &Path, error: &io::Error) -> String {
    cannot("write", path, error)
}

/// What to say of a path where something cannot be made: what `does` says.
pub fn cannot(does: &str, path: &Path, error: &io::Error) -> String {
    let why = match error.kind() {
        ErrorKind::NotFound => "there is no such folder: make it first",
        ErrorKind::IsADirectory => "it is a folder: name a file",
        ErrorKind::NotADirectory => "a part of the path is a file, and no folder: see to the path",
        ErrorKind::PermissionDenied => "you may not write there: see to its permissions",
        ErrorKind::StorageFull => "the disk is full: free some room",
        ErrorKind::AddrInUse => IN_USE,
        // (Of a socket an error with words of its own says what is there.)
        ErrorKind::AlreadyExists if error.raw_os_error().is_some() => {
            "it is there already: name another one, or remove it"
        }
        _ => return format!("cannot {does} {}: {error}", path.display()),
    };
    format!("cannot {does} {}: {why}", path.display())
}

/// What to say of an address where somebody listens.
pub const IN_USE: &str = "it is in use: give another one, or end what listens there";

/// A file for the results of a command.
///
/// 1. Before the work it is checked that the file can be written.
/// 2. The contents are written atomically after the work: a command that is killed before leaves
///    the old file, or no file.
/// 3. [`Sink::ready`] writes the contents beside the file before short work, so that a full disk
///    fails first. A command that is killed meanwhile leaves that file.
pub struct Sink {
    path: PathBuf,
    /// The temporary file that is renamed; `None` if the target is no plain file: a pipe, a link.
    part: Option<PathBuf>,
}

impl Sink {
    /// Checks that the file can be written.
    ///
    /// # Errors
    /// Why it cannot be, in a line.
    pub fn open(path: &Path) -> Result<Sink, String> {
        Sink::try_open(path).map_err(|e| unwritable(path, &e))
    }

    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    fn try_open(path: &Path) -> io::Result<Sink> {
        let is = std::fs::symlink_metadata(path).ok();
        if is.is_some() {
            File::options().write(true).open(path)?;
        }
        let plain = is.is_none_or(|is| is.is_file());
        let sink = Sink { path: path.to_path_buf(), part: plain.then(|| part_of(path)) };
        if let Some(part) = &sink.part {
            File::create(part)?;
            std::fs::remove_file(part)?;
        }
        Ok(sink)
    }

    /// Replaces the content of the file; returns the exit code.
    pub fn put(self, contents: &str) -> u8 {
        match self.try_put(contents) {
            Ok(()) => OK,
            Err(why) => error(why, FAILED),
        }
    }

    /// Replaces the content of the file.
    ///
    /// # Errors
    /// Why it could not be, in a line.
    pub fn try_put(self, contents: &str) -> Result<(), String> {
        self.replace(contents).map_err(|e| unwritable(&self.path, &e))
    }

    fn replace(&self, contents: &str) -> io::Result<()> {
        self.write(contents)?;
        self.place(contents)
    }

    /// Writes the temporary file, if there is one.
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    fn write(&self, contents: &str) -> io::Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        let written = std::fs::write(part, contents).and_then(|()| {
            let was = std::fs::metadata(&self.path);
            was.map_or(Ok(()), |was| std::fs::set_permissions(part, was.permissions()))
        });
        written.inspect_err(|_| self.clear())
    }

    /// Makes what was written the file.
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    fn place(&self, contents: &str) -> io::Result<()> {
        let Some(part) = &self.part else {
            return std::fs::write(&self.path, contents);
        };
        std::fs::rename(part, &self.path).inspect_err(|_| self.clear())
    }

    /// A temporary file that does not become the file only takes room.
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    fn clear(&self) {
        if let Some(part) = &self.part {
            let _ = std::fs::remove_file(part);
        }
    }
}

/// Checks that each output is a different file, and none is an input. Each path comes with the name
/// of its argument. Existing paths that are no plain files (a terminal, `/dev/null`) may be given
/// several times.
///
/// # Errors
/// Which two are one file, in a line.
pub fn distinct<'a>(
    inputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
    outputs: impl IntoIterator<Item = (&'a str, &'a Path)>,
) -> Result<(), String> {
    let mut known: Vec<(&str, PathBuf)> =
        inputs.into_iter().map(|(name, path)| (name, place(path))).collect();
    for (name, path) in outputs {
        if path.exists() && !path.is_file() {
            continue;
        }
        let place = place(path);
        if let Some((other, _)) = known.iter().find(|(_, known)| *known == place) {
            return Err(format!(
                "{name} and {other} are both {}: give each a file of its own",
                path.display()
            ));
        }
        known.push((name, place));
    }
    Ok(())
}

/// The canonical path of a file that may not exist yet.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
fn place(path: &Path) -> PathBuf {
    let folder = || {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(folder).unwrap_or_else(|| path.to_path_buf())
}

/// A temporary file beside the target, for this process alone.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
