//! What is at a path at which a description should be, if it is none.

use std::fs::{File, FileType};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tantalum_device::bytes_in_words;
use tantalum_log::DeviceDescription;
use tantalum_nand::ImageFile;

/// A description is not longer than this.
const LONGEST: u64 = 1 << 20;

/// What is there instead of a description, in some words; `None`: it may be one, or there is nothing.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
pub fn no_description(path: &Path) -> Option<String> {
    let is = std::fs::metadata(path).ok()?;
    if is.file_type().is_fifo() || is.file_type().is_char_device() {
        return None; // A description may come through it.
    }
    if let Some(what) = no_file(is.file_type()) {
        return Some(what.to_string());
    }
    if ImageFile::is_at(path).ok()? {
        return Some("the image of a drive".to_string());
    }
    let mut begin = Vec::new();
    File::open(path).ok()?.take(LONGEST).read_to_end(&mut begin).ok()?;
    if DeviceDescription::begins(&begin) {
        return Some("a device of a flash log".to_string());
    }
    if is.len() > LONGEST {
        return Some(format!("a file of {}, which is too long", bytes_in_words(is.len())));
    }
    let is_text = std::str::from_utf8(&begin).is_ok();
    (!is_text).then(|| format!("a file of {}, and no text", bytes_in_words(is.len())))
}

fn no_file(kind: FileType) -> Option<&'static str> {
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a folder"),
        kind if kind.is_block_device() => Some("a block device"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("no file"),
    }
}
