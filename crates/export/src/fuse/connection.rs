//! The descriptor through which kernel and file system exchange requests and replies.

use super::wire::{self, Hello, Terms, init};
use crate::budget::{NoMemory, zeroed};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::cell::Cell;
use std::io;
use tantalum_rt::wall::{Io, Watch};

/// The most bytes of one read or write.
pub(super) const LONGEST: u32 = 1 << 20;
/// Room for the longest request: its data, and what comes before them.
pub(super) const ROOM: usize = LONGEST as usize + 4096;
/// How many asynchronous requests the kernel keeps under way.
const BACKGROUND: u16 = 128;
/// The flags that are requested. The kernel grants those that it knows.
const FLAGS: u64 = init::ASYNC_READ
    | init::BIG_WRITES
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::MAX_PAGES
    | init::EXT
    | init::DIRECT_IO_ALLOW_MMAP;

/// The outcome of a receive.
pub(super) enum Received {
    /// A request of this many bytes.
    Request(usize),
    /// There is no request now.
    Nothing,
    /// The file system is unmounted, or the connection was aborted.
    End,
}

/// A mount of the kernel: its requests, and the answers. When it drops, waiting requests fail, and so
/// do later ones.
pub struct Connection {
    watch: Watch,
    /// The buffer for the first request.
    room: Cell<Vec<u8>>,
}

/// A buffer for any request.
pub(super) fn room() -> Result<Vec<u8>, NoMemory> {
    zeroed(ROOM)
}

impl Connection {
    /// Negotiates with the kernel over `fd`, which was just mounted and has the kernel's first
    /// request.
    pub(super) fn new(io: &Io, fd: OwnedFd) -> io::Result<Connection> {
        let no_memory = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let mut room = room().map_err(no_memory)?;
        loop {
            let count = rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut room))?;
            let unexpected = || {
                let what = "the kernel's first request is not that of the FUSE protocol";
                io::Error::new(io::ErrorKind::InvalidData, what)
            };
            let hello = Hello::parse(&room[..count]).ok_or_else(unexpected)?;
            let mut out = Vec::new();
            wire::begin(&mut out);
            if hello.major < wire::MAJOR || hello.major == wire::MAJOR && hello.minor < 28 {
                wire::seal(&mut out, hello.unique, Some(Errno::PROTO.raw_os_error()));
                rustix::io::write(&fd, &out)?;
                let what = format!(
                    "the kernel speaks FUSE {}.{}, and 7.28 (Linux 4.20) is needed",
                    hello.major, hello.minor
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
            let terms = Terms { flags: FLAGS, background: BACKGROUND, longest: LONGEST };
            wire::hello(&mut out, &hello, &terms);
            wire::seal(&mut out, hello.unique, None);
            rustix::io::write(&fd, &out)?;
            if hello.major == wire::MAJOR {
                return Ok(Connection { watch: io.watch(fd)?, room: Cell::new(room) });
            }
            // A kernel with a newer major version repeats its request in this version.
        }
    }

    /// The buffer of the first request. May be taken once.
    pub(super) fn first_room(&self) -> Vec<u8> {
        self.room.take()
    }

    /// Takes a request, if there is one. `room` must have [`ROOM`] bytes.
    pub(super) fn receive(&self, room: &mut [u8]) -> io::Result<Received> {
        loop {
            match rustix::io::read(self.watch.as_fd(), &mut *room) {
                Ok(0) | Err(Errno::NODEV) => return Ok(Received::End),
                Ok(count) => return Ok(Received::Request(count)),
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                // The request was cancelled while it was read.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until there may be a request.
    pub(super) async fn wait(&self) -> io::Result<()> {
        self.watch.readable().await
    }

    /// Sends a whole reply, without waiting. The process that asked may be gone.
    pub(super) fn reply(&self, reply: &[u8]) {
        // It fails only if the request was interrupted.
        let _ = rustix::io::retry_on_intr(|| rustix::io::write(self.watch.as_fd(), reply));
    }
}
