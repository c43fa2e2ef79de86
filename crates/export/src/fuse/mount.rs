//! Mounting and unmounting.

use super::connection::Connection;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getgid, getuid};
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use tantalum_rt::wall::Io;

/// Kind of our file systems in the kernel's table of mounts.
pub const KIND: &str = "fuse.tantalum";

/// Why a file system was not mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no device for it.
    #[error(
        "/dev/fuse: {0}: there is no FUSE here (load the module with modprobe fuse; in a \
         container, pass the device in)"
    )]
    Device(io::Error),
    /// There is one, for others.
    #[error(
        "/dev/fuse: {0}: this process may not open it (run it as root; in a container, allow the \
         device)"
    )]
    NotOurs(io::Error),
    /// It is not allowed.
    #[error("mounting at {} is not allowed: it takes root (CAP_SYS_ADMIN)", .0.display())]
    Denied(PathBuf),
    /// It cannot be mounted there.
    #[error("cannot mount at {}: {error}", .dir.display())]
    Mount {
        /// Where.
        dir: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

const DEVICE: &str = "/dev/fuse";

/// Why the device was not opened.
fn unopened(error: Errno) -> MountError {
    match error {
        Errno::PERM | Errno::ACCESS => MountError::NotOurs(error.into()),
        error => MountError::Device(error.into()),
    }
}

/// Mounts a file system at `dir`. The caller has to answer its requests. `source` is its name in
/// the table of mounts. File modes say which users may open what.
///
/// # Errors
/// [`MountError`].
pub fn mount(io: &Io, dir: &Path, source: &str) -> Result<Connection, MountError> {
    let failed = |error: Errno| match error {
        Errno::PERM | Errno::ACCESS => MountError::Denied(dir.to_path_buf()),
        error => MountError::Mount { dir: dir.to_path_buf(), error: error.into() },
    };
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(unopened)?;
    let options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},allow_other,default_permissions",
        fd.as_raw_fd(),
        getuid().as_raw(),
        getgid().as_raw(),
    );
    let options = CString::new(options).map_err(|_| failed(Errno::INVAL))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    rustix::mount::mount(source, dir, KIND, flags, &*options).map_err(failed)?;
    Connection::new(io, fd).map_err(|error| {
        let _ = unmount(dir, true);
        MountError::Mount { dir: dir.to_path_buf(), error }
    })
}

/// Unmounts what is mounted last at `dir`; `lazily`: also if it is in use, then it is gone for all
/// but its users. This may hold up the thread until what was written is on the device.
///
/// # Errors
/// The system's: [`io::ErrorKind::ResourceBusy`] if it is in use.
pub fn unmount(dir: &Path, lazily: bool) -> io::Result<()> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazily);
    Ok(rustix::mount::unmount(dir, flags)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_told_from_one_for_others() {
        for (error, hint) in [
            (Errno::NOENT, "modprobe fuse"),
            (Errno::NODEV, "modprobe fuse"),
            (Errno::ACCESS, "run it as root"),
            (Errno::PERM, "allow the device"),
        ] {
            let said = unopened(error).to_string();
            assert!(said.contains(hint), "{said}");
            assert_eq!(said.contains("modprobe"), hint.contains("modprobe"), "{said}");
        }
    }
}
