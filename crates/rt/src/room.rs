//! What a file system has room for.

use std::path::Path;

/// Bytes that the file system with this file or directory has room for, of those that every user may
/// have; `None` if it does not tell. Quotas are not looked at.
pub fn room_at(path: &Path) -> Option<u64> {
    room_of(&rustix::fs::statvfs(path).ok()?)
}

/// The same of what the system told.
pub(crate) fn room_of(told: &rustix::fs::StatVfs) -> Option<u64> {
    (told.f_blocks > 0).then(|| told.f_bavail.checked_mul(told.f_frsize))?
}
