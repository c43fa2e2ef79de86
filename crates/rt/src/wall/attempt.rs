//! Operations as calls that do not block.

use super::work::{Kind, Outcome, Value, Work};
use rustix::io::{Errno, pread, pwrite, pwritev2, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, connect, recv, send};
use std::io::IoSlice;

/// Tries an operation. `again` says that it was tried before. [`Errno::AGAIN`]: its descriptor is
/// not ready.
pub(super) fn attempt(work: &mut Work, again: bool) -> Outcome {
    retry_on_intr(|| once(work, again))
}

fn once(work: &mut Work, again: bool) -> Outcome {
    let fd = &*work.fd;
    let part = &mut work.span.bytes[work.span.from..work.span.to];
    let count = match &work.kind {
        Kind::Read => crate::sys::read(fd, part),
        Kind::Recv => recv(fd, part, RecvFlags::DONTWAIT).map(|(_, count)| count),
        Kind::Send => send(fd, part, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
        Kind::ReadAt(offset) => pread(fd, part, *offset),
        Kind::WriteAt(offset, flags) if flags.is_empty() => pwrite(fd, part, *offset),
        Kind::WriteAt(offset, flags) => pwritev2(fd, &[IoSlice::new(part)], *offset, *flags),
        Kind::SyncData => rustix::fs::fdatasync(fd).map(|()| 0),
        Kind::Fallocate { mode, offset, len } => {
            rustix::fs::fallocate(fd, *mode, *offset, *len).map(|()| 0)
        }
        Kind::Accept => {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            return accept_with(fd, flags).map(Value::Fd);
        }
        // Whether it is ready is asked before it is tried again.
        Kind::Readable if again => Ok(0),
        Kind::Readable => Err(Errno::AGAIN),
        Kind::Connect(_) if again => match rustix::net::sockopt::socket_error(fd) {
            Ok(result) => result.map(|()| 0),
            Err(e) => Err(e),
        },
        Kind::Connect(to) => match connect(fd, &**to) {
            Err(Errno::INPROGRESS) => Err(Errno::AGAIN),
            // The backlog of a UNIX listener is full. No descriptor becomes ready when that
            // changes.
            Err(Errno::AGAIN) => Err(Errno::CONNREFUSED),
            other => other.map(|()| 0),
        },
    };
    count.map(Value::Count)
}
