//! The file of `--file`: opened, or created.

use crate::drive::size;
use crate::out;
use std::io::ErrorKind;
use std::path::Path;
use tantalum_device::{BlockDevice, File, FileError, FileSettings};
use tantalum_rt::wall::Signal;
use tantalum_rt::{First, Runtime, first};

/// Opens the file at `path`, which must have at least `length` bytes if that is given. With a length
/// it creates a file that does not exist. `None`: a signal interrupted that; the new file is removed.
///
/// # Errors
/// What is wrong, in a line, and the exit code.
pub fn open(
    runtime: &mut Runtime,
    path: &Path,
    settings: &FileSettings,
    length: Option<u64>,
) -> Result<Option<File>, (String, u8)> {
    let usage = |why| Err((why, out::USAGE));
    match (File::open(&runtime.handle(), path, settings), length) {
        (Err(e), _) if !is_missing(&e) => usage(said(e)),
        (Err(_), Some(length)) => {
            create(runtime, path, settings, length).map_err(|why| (why, out::FAILED))
        }
        (Err(e), None) if settings.read_only => usage(said(e)),
        (Err(e), None) => usage(format!("{e}. --capacity SIZE creates it")),
        (Ok(file), Some(length)) if file.caps().bytes() < length => usage(format!(
            "{}: it exists, and has only {} bytes: leave --capacity out",
            path.display(),
            file.caps().bytes()
        )),
        (Ok(file), _) => Ok(Some(file)),
    }
}

fn create(
    runtime: &mut Runtime,
    path: &Path,
    settings: &FileSettings,
    length: u64,
) -> Result<Option<File>, String> {
    out::note(format_args!("{}: creating it, {}", path.display(), size(length)));
    let rt = runtime.handle();
    let io = rt.io().ok_or("the clock has no way to files")?;
    let (path, settings) = (path.to_owned(), settings.clone());
    let creating = async move {
        let signals = io.signals(&[Signal::Interrupt, Signal::Terminate]);
        let mut signals = signals.map_err(|e| format!("cannot wait for signals: {e}"))?;
        match first(File::create(&rt, path, length, &settings), signals.next()).await {
            First::A(made) => made.map(Some).map_err(said),
            First::B(_) => Ok(None),
        }
    };
    runtime.block_on(creating).map_err(|e| format!("the file is not created: {e}"))?
}

fn is_missing(error: &FileError) -> bool {
    matches!(error, FileError::System { source, .. } if source.kind() == ErrorKind::NotFound)
}

fn said(error: FileError) -> String {
    match error {
        FileError::NoDirectIo(path) => {
            format!("{}: it has no direct I/O: use --buffered", path.display())
        }
        e => e.to_string(),
    }
}
