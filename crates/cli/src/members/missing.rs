//! Files that a command makes since they are not there.

use super::model::is_model;
use crate::out;
use std::path::{Path, PathBuf};
use tantalum_device::{FileError, bytes_in_words};
use tantalum_log::{BlockingError, BlockingLog, BlockingOptions};
use tantalum_nand::ImageFile;

/// Files that are removed with this.
pub struct Files(pub Vec<PathBuf>);

impl Drop for Files {
    #[allow(clippy::disallowed_methods, reason = "the edge: the folders that the user names")]
    fn drop(&mut self) {
        for path in &self.0 {
            // It is gone, or the folder is: whoever made it has told already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes a file, through the page cache where there is no direct I/O.
///
/// # Errors
/// Why there is none, in a line, with an exit code.
pub fn make(path: &Path, bytes: u64, options: &mut BlockingOptions) -> Result<(), (String, u8)> {
    let usage = |why: BlockingError| (format!("{why}{}", advice(&why)), out::USAGE);
    let Err(e) = BlockingLog::make_file(path, bytes, options) else { return Ok(()) };
    if options.file.buffered {
        return Err(usage(e));
    }
    options.file.buffered = true;
    // Memory file systems have no direct I/O. What was wrong before says more.
    BlockingLog::make_file(path, bytes, options).map_err(|_| usage(e))
}

/// Whether a file found no room on its disk.
pub fn lacks_room(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull)
}

/// What to do about an error, where that is known.
fn advice(why: &BlockingError) -> &'static str {
    let BlockingError::File(FileError::System { source, .. }) = why else { return "" };
    match source.kind() {
        _ if lacks_room(source) => ": name a place with more room, or a smaller size",
        std::io::ErrorKind::NotFound => ": make its folder first",
        _ => "",
    }
}

/// A size is for a file that is made: one that is there keeps its own.
#[allow(clippy::disallowed_methods, reason = "the edge: the files that the user names")]
fn tell_ignored(path: &Path, size: Option<u64>, option: &str) {
    // (An image is a drive, whose capacity is another number.)
    let is_image = ImageFile::is_at(path).unwrap_or(false);
    let found = std::fs::metadata(path).ok().filter(|found| found.is_file() && !is_image);
    let is = found.map(|found| found.len());
    if let (Some(size), Some(is)) = (size, is)
        && size != is
    {
        let (name, is) = (path.display(), bytes_in_words(is));
        out::note(format_args!(
            "note: \"{name}\" is there already, with {is}: {option} is for a new file"
        ));
    }
}

/// Makes those files that are not there, if it is said how large, by the option of that name. Dropped,
/// it removes them.
///
/// # Errors
/// As [`make`], and that it is not said how large a file is to be: then nothing is left of any.
pub fn make_missing<'a>(
    files: impl Iterator<Item = (&'a PathBuf, Option<u64>, &'static str)>,
) -> Result<Files, (String, u8)> {
    let mut made = Files(Vec::new());
    for (path, size, option) in files {
        // (A link that leads nowhere is there, and stays.)
        let is_missing = || {
            let found = path.symlink_metadata();
            found.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
        };
        if is_model(path) {
            continue;
        }
        if !is_missing() {
            tell_ignored(path, size, option);
            continue;
        }
        let Some(size) = size else {
            let name = path.display();
            let why = format!(
                "\"{name}\" is not there: name a file or block device that is there, or give the size of \
                 a new file with {option}"
            );
            return Err((why, out::USAGE));
        };
        // If there is no room, what was begun is removed as well.
        made.0.push(path.clone());
        let mut options = BlockingOptions::default();
        options.file.keep_room = true;
        make(path, size, &mut options)?;
    }
    Ok(made)
}
