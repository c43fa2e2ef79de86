//! Mounting and unmounting.
//!
//! Root mounts by a system call. Other users do so through the helper fusermount3, which gives them
//! mounts that only they can use.

use super::connection::Connection;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use rustix::process::{getgid, getuid};
use std::ffi::CString;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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
        "/dev/fuse: {0}: this process may not open it (let everybody open it, as most systems do: \
         sudo chmod 666 /dev/fuse; or run it as root; in a container, allow the device)"
    )]
    NotOurs(io::Error),
    /// Mounting is not allowed.
    #[error("mounting at {} is not allowed: it takes root (CAP_SYS_ADMIN): run it with sudo", .0.display())]
    Denied(PathBuf),
    /// The helper that mounts for users who are not root was not started.
    #[error(
        "fusermount3: {0}: a user who is not root mounts with it (Debian, Ubuntu: sudo apt-get \
         install fuse3); or run it as root"
    )]
    NoHelper(io::Error),
    /// The helper refuses.
    #[error("cannot mount at {}: {why}", .dir.display())]
    Helper {
        /// Where.
        dir: PathBuf,
        /// What it says.
        why: String,
    },
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
const HELPER: &str = "fusermount3";

/// The error for a FUSE device that was not opened.
fn unopened(error: Errno) -> MountError {
    match error {
        Errno::PERM | Errno::ACCESS => MountError::NotOurs(error.into()),
        error => MountError::Device(error.into()),
    }
}

/// Mounts a file system at `dir`. The caller has to answer its requests. `source` is its name in
/// the table of mounts. File modes decide which users may open what; a mount of a user who is not
/// root is for this user alone.
///
/// # Errors
/// [`MountError`].
pub fn mount(io: &Io, dir: &Path, source: &str) -> Result<Connection, MountError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::open(DEVICE, flags, Mode::empty()).map_err(unopened)?;
    if !rustix::process::geteuid().is_root() {
        // The helper opens the device once more, with the rights of this user.
        drop(fd);
        let fd = by_helper(dir, source)?;
        return Connection::new(io, fd).map_err(|error| {
            let _ = unmount_by_helper(dir);
            MountError::Mount { dir: dir.to_path_buf(), error }
        });
    }
    let failed = |error: Errno| match error {
        Errno::PERM | Errno::ACCESS => MountError::Denied(dir.to_path_buf()),
        error => MountError::Mount { dir: dir.to_path_buf(), error: error.into() },
    };
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

/// Has the helper mount; gives the descriptor that it sends.
fn by_helper(dir: &Path, source: &str) -> Result<OwnedFd, MountError> {
    let failed = |why: String| MountError::Helper { dir: dir.to_path_buf(), why };
    let broken = |error: Errno| failed(format!("{HELPER}: {error}"));
    // A comma in a value would begin the next option.
    let source = source.replace('\\', "\\\\").replace(',', "\\,");
    let subtype = KIND.trim_start_matches("fuse.");
    let options =
        format!("nosuid,nodev,noatime,default_permissions,subtype={subtype},fsname={source}");
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(broken)?;
    let mut command = helper();
    command.args(["-o", &options, "--"]).arg(dir).env("_FUSE_COMMFD", "0").stdin(theirs);
    let ended = command.output().map_err(MountError::NoHelper)?;
    // The socket that the helper had is closed with the command: no wait lasts for ever.
    drop(command);
    if !ended.status.success() {
        return Err(failed(String::from_utf8_lossy(&ended.stderr).trim().to_string()));
    }
    received(&ours).map_err(broken)?.ok_or_else(|| failed(format!("{HELPER} sent no descriptor")))
}

/// The descriptor that comes over this socket.
fn received(socket: &OwnedFd) -> rustix::io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let sent = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(sent)
}

fn unmount_by_helper(dir: &Path) -> io::Result<()> {
    helper().args(["-u", "-z", "--"]).arg(dir).output().map(drop)
}

#[allow(clippy::disallowed_methods, reason = "the edge: the system's helper for mounts")]
fn helper() -> Command {
    let mut command = Command::new(HELPER);
    command.stdin(Stdio::null());
    command
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
            (Errno::ACCESS, "chmod 666 /dev/fuse"),
            (Errno::PERM, "allow the device"),
        ] {
            let said = unopened(error).to_string();
            assert!(said.contains(hint), "{said}");
            assert_eq!(said.contains("modprobe"), hint.contains("modprobe"), "{said}");
        }
    }

    #[test]
    fn a_helper_that_is_missing_is_told_from_one_that_refuses() {
        let missing = MountError::NoHelper(Errno::NOENT.into()).to_string();
        assert!(missing.starts_with("fusermount3: No such file"), "{missing}");
        assert!(missing.contains("apt-get install fuse3"), "{missing}");
        let why = "fusermount3: user has no write access to mountpoint /m".to_string();
        let refused = MountError::Helper { dir: PathBuf::from("/m"), why }.to_string();
        assert!(!refused.contains("install"), "{refused}");
    }
}
