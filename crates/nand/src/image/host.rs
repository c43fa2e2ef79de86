//! What an image needs from the host beyond plain files. Some of it exists only on Linux.

use super::marks::Boot;
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// Gives the space of this part of a file back, which then reads as zeros.
#[cfg(target_os = "linux")]
pub(crate) fn punch(file: &File, at: u64, len: u64) -> Result<(), Errno> {
    use rustix::fs::{FallocateFlags, fallocate};
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len)
}

/// Files have no holes here: the space is kept.
#[cfg(not(target_os = "linux"))]
pub(crate) fn punch(_file: &File, _at: u64, _len: u64) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Writes and waits until the bytes are durable, in one call. Returns how many.
#[cfg(target_os = "linux")]
pub(crate) fn write_durably(file: &File, at: u64, bytes: &[u8]) -> Result<usize, Errno> {
    use rustix::io::{ReadWriteFlags, pwritev2};
    pwritev2(file, &[io::IoSlice::new(bytes)], at, ReadWriteFlags::DSYNC)
}

/// There is no such call.
#[cfg(not(target_os = "linux"))]
pub(crate) fn write_durably(_file: &File, _at: u64, _bytes: &[u8]) -> Result<usize, Errno> {
    Err(Errno::OPNOTSUPP)
}

/// The id of this host's boot.
#[cfg(target_os = "linux")]
pub(crate) fn boot() -> io::Result<Boot> {
    #[allow(clippy::disallowed_methods, reason = "the edge: reads the host's boot id")]
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let mut boot = [0; 16];
    for (i, byte) in boot.iter_mut().enumerate() {
        let pair = digits.get(2 * i..2 * i + 2);
        let byte_of = |pair| u8::from_str_radix(pair, 16).ok();
        *byte = pair.and_then(byte_of).ok_or(io::ErrorKind::InvalidData)?;
    }
    Ok(boot)
}

/// There is no boot id here, so a crash of the host while an image was in use could not be
/// detected.
#[cfg(not(target_os = "linux"))]
pub(crate) fn boot() -> io::Result<Boot> {
    let why = "drives in image files need Linux, which has an id for each boot";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}
