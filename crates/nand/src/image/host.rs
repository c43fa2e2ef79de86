//! What an image asks of the host beyond plain files: elsewhere than on Linux some of it is not there.

use super::marks::Boot;
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// Gives the space of this part of a file back: it reads as zeros.
#[cfg(target_os = "linux")]
pub(crate) fn punch(file: &File, at: u64, len: u64) -> Result<(), Errno> {
    use rustix::fs::{FallocateFlags, fallocate};
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len)
}

/// There are no holes: the space is kept.
#[cfg(not(target_os = "linux"))]
pub(crate) fn punch(_file: &File, _at: u64, _len: u64) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Writes, and waits until that is durable, in one call; how much of it.
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

/// The boot of this host.
#[cfg(target_os = "linux")]
pub(crate) fn boot() -> io::Result<Boot> {
    #[allow(clippy::disallowed_methods, reason = "the edge at which an array gets a file")]
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

/// Without it nobody knows whether the host crashed while an image was in use.
#[cfg(not(target_os = "linux"))]
pub(crate) fn boot() -> io::Result<Boot> {
    let why = "drives in image files need Linux, whose boots have a number";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}
