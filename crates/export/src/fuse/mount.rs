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

/// The type of these file systems in the kernel's table of mounts.
pub const KIND: &str = "fuse.tantalum";

/// Why a file system was not mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no FUSE device.
    #[error(
        "/dev/fuse: {0}: there is no FUSE here (load the module with modprobe fuse; in a \
         container, pass the device in)"
    )]
    Device(io::Error),
    /// This process may not open the FUSE device.
    #[error(
        "/dev/fuse: {0}: this process may not open it (run it as root; in a container, allow the \
         device)"
    )]
    NotOurs(io::Error),
    /// Mounting is not allowed.
    #[error("mounting at {} is not allowed: it takes root (CAP_SYS_ADMIN)", .0.display())]
    Denied(PathBuf),
    /// It cannot be mounted at this place.
    #[error("cannot mount at {}: {error}", .dir.display())]
    Mount {
        /// Where.
        dir: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
}

const DEVICE: &str = "/dev/fuse";

/// The error for a FUSE device that was not opened.
fn unopened(error: Errno) -> MountError {
    match error {
        Errno::PERM | Errno::ACCESS => MountError::NotOurs(error.into()),
        error => MountError::Device(error.into()),
    }
}

/// Mounts a file system at `dir`. The caller has to answer its requests. `source` is its name in
/// the table of mounts. File modes decide which users may open what.
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

/// Unmounts the topmost mount at `dir`. With `lazily` it is unmounted even if it is in use, and
/// only its present users still see it. This may block the thread until everything written is on
/// the device.
///
/// # Errors
/// The system's error: [`io::ErrorKind::ResourceBusy`] if the mount is in use.
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
