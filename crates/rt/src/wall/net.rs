//! Sockets: listeners and streams, UNIX and TCP.

use super::io::Io;
use super::work::{Kind, Span, Value, Work};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, socket_with, sockopt,
};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
/// The mode of a socket that only its user may connect to.
const PRIVATE: u32 = 0o600;

/// Takes connections. Dropping it closes it; connections that were accepted live on.
pub struct Listener {
    io: Io,
    fd: Rc<OwnedFd>,
    tcp: bool,
    /// To be removed.
    path: Option<PathBuf>,
}

/// A connection. What is sent and received may be under way at the same time, one of each.
/// Dropping it closes it, once what was under way (and is cancelled with its future) has
/// ended.
pub struct Stream {
    io: Io,
    fd: Rc<OwnedFd>,
}

impl Io {
    /// Listens at a UNIX socket of this path, which is removed again when the [`Listener`]
    /// drops. A socket that nobody listens at any more is replaced. Only this user may connect,
    /// whatever the umask is.
    ///
    /// # Errors
    /// The system's: [`io::ErrorKind::AddrInUse`] if somebody listens there;
    /// [`io::ErrorKind::AlreadyExists`] if something is there that is no socket.
    pub fn listen_unix(&self, path: impl AsRef<Path>) -> io::Result<Listener> {
        self.listen_unix_as(path, PRIVATE)
    }

    /// The same, at a socket whose file has this mode, whatever the umask is. The file never admits
    /// more than that, not even for a moment.
    ///
    /// # Errors
    /// Those of [`Io::listen_unix`].
    pub fn listen_unix_as(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<Listener> {
        let mode = Mode::from_raw_mode(mode & 0o777);
        let fd = socket(AddressFamily::UNIX, SocketFlags::CLOEXEC)?;
        // Linux gives the file that is bound the mode of the socket, less the umask. So there is no
        // time between bind and chmod, and no umask to be changed for all threads.
        rustix::fs::fchmod(&fd, mode)?;
        self.bind_unix(fd, path.as_ref(), mode)
    }

    fn bind_unix(&self, fd: OwnedFd, path: &Path, mode: Mode) -> io::Result<Listener> {
        let address = SocketAddrUnix::new(path)?;
        match rustix::net::bind(&fd, &address) {
            Err(Errno::ADDRINUSE) => {
                let trial = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let trial = socket(AddressFamily::UNIX, trial)?;
                let is_refused = rustix::net::connect(trial, &address) == Err(Errno::CONNREFUSED);
                match rustix::fs::lstat(path) {
                    // Its listener has just ended, and has removed it.
                    Err(Errno::NOENT) => {}
                    // (It refuses, too.)
                    Ok(file) if FileType::from_raw_mode(file.st_mode) != FileType::Socket => {
                        let why = "something is there that is no socket";
                        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
                    }
                    Ok(_) if !is_refused => return Err(Errno::ADDRINUSE.into()),
                    Ok(_) => match rustix::fs::unlink(path) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(e) => return Err(e.into()),
                    },
                    Err(e) => return Err(e.into()),
                }
                rustix::net::bind(&fd, &address)?;
            }
            other => other?,
        }
        let listens = give_mode(path, mode).and_then(|()| {
            rustix::net::listen(&fd, BACKLOG)?;
            self.from_fd(fd)
        });
        match listens {
            Ok(mut listener) => {
                listener.path = Some(path.to_owned());
                Ok(listener)
            }
            Err(e) => {
                // Nobody will ever listen there.
                let _ = rustix::fs::unlink(path);
                Err(e)
            }
        }
    }

    /// Listens at a TCP address; port 0 is any that is free ([`Listener::address`]).
    ///
    /// # Errors
    /// The system's.
    pub fn listen_tcp(&self, at: SocketAddr) -> io::Result<Listener> {
        let fd = socket(family(at), SocketFlags::CLOEXEC)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        rustix::net::bind(&fd, &at)?;
        rustix::net::listen(&fd, BACKLOG)?;
        self.from_fd(fd)
    }

    /// A socket that listens already, made elsewhere (by whoever activated the process).
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if it is no listening stream socket.
    pub fn from_fd(&self, fd: OwnedFd) -> io::Result<Listener> {
        let listens = sockopt::socket_type(&fd).is_ok_and(|t| t == SocketType::STREAM)
            && sockopt::socket_acceptconn(&fd)?;
        if !listens {
            let why = "the descriptor is no listening stream socket";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.outside.prepare(&fd)?;
        let tcp = sockopt::socket_domain(&fd)? != AddressFamily::UNIX;
        Ok(Listener { io: self.clone(), fd: Rc::new(fd), tcp, path: None })
    }

    /// A connection that was made elsewhere.
    ///
    /// # Errors
    /// The system's, if the descriptor is unfit.
    pub fn stream(&self, fd: OwnedFd) -> io::Result<Stream> {
        self.outside.prepare(&fd)?;
        Ok(Stream { io: self.clone(), fd: Rc::new(fd) })
    }

    /// Connects to a UNIX socket.
    ///
    /// # Errors
    /// The system's.
    pub async fn connect_unix(&self, path: impl AsRef<Path>) -> io::Result<Stream> {
        let to = SocketAddrUnix::new(path.as_ref())?;
        self.connect(socket(AddressFamily::UNIX, SocketFlags::CLOEXEC)?, &to).await
    }

    /// Connects to a TCP address.
    ///
    /// # Errors
    /// The system's.
    pub async fn connect_tcp(&self, to: SocketAddr) -> io::Result<Stream> {
        let fd = socket(family(to), SocketFlags::CLOEXEC)?;
        sockopt::set_tcp_nodelay(&fd, true)?;
        self.connect(fd, &to).await
    }

    async fn connect(&self, fd: OwnedFd, to: &impl SocketAddrArg) -> io::Result<Stream> {
        let stream = self.stream(fd)?;
        let kind = Kind::Connect(Rc::new(to.as_any()));
        let work = Work::new(kind, &stream.fd, Span::default());
        self.run(work, "a connection").await.0?;
        Ok(stream)
    }
}

/// Gives a socket's file what the umask has taken from its mode. Nobody can connect yet.
fn give_mode(path: &Path, mode: Mode) -> io::Result<()> {
    // It does not follow a link, which somebody else may have put there meanwhile.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let told = rustix::fs::fstat(&file)?;
    if Mode::from_raw_mode(told.st_mode) == mode {
        return Ok(());
    }
    if FileType::from_raw_mode(told.st_mode) != FileType::Socket {
        let why = "the socket was replaced by something else";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    Ok(rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)?)
}

fn family(at: SocketAddr) -> AddressFamily {
    if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

fn socket(family: AddressFamily, flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

impl Listener {
    /// Waits for a connection. On TCP, small messages go out at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// The system's. Most pass (the process or the system is out of descriptors): wait a
    /// little and go on.
    pub async fn accept(&self) -> io::Result<Stream> {
        loop {
            let work = Work::new(Kind::Accept, &self.fd, Span::default());
            match self.io.run(work, "a client").await.0 {
                Ok(Value::Fd(fd)) => {
                    if self.tcp {
                        // A peer that is gone already is found out by the first read.
                        let _ = sockopt::set_tcp_nodelay(&fd, true);
                    }
                    return self.io.stream(fd);
                }
                // The client went away before it was its turn.
                Ok(Value::Count(_)) | Err(Errno::CONNABORTED) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Where it listens, if that is TCP.
    ///
    /// # Errors
    /// The system's, or [`io::ErrorKind::Unsupported`] for a UNIX socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let name = rustix::net::getsockname(&*self.fd)?;
        SocketAddr::try_from(name).map_err(|_| io::ErrorKind::Unsupported.into())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Somebody else may have removed it.
            let _ = rustix::fs::unlink(path);
        }
    }
}

impl Stream {
    /// Receives into `buf[from..]`, at least one byte; how many. 0: the peer sends no more,
    /// or there was no room.
    ///
    /// The buffer comes back with the result. If this future is dropped before, the buffer
    /// is gone, and bytes that had arrived may be.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::InvalidInput`] if `from` is beyond the buffer.
    pub async fn recv(&self, buf: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        if from >= buf.len() {
            return (check(from, buf.len()), buf);
        }
        let to = buf.len();
        let work = Work::new(Kind::Recv, &self.fd, Span { bytes: buf, from, to });
        let (outcome, span) = self.io.run(work, "what a peer sends").await;
        (outcome.map(count).map_err(io::Error::from), span.bytes)
    }

    /// Receives until `buf[from..]` is full.
    ///
    /// # Errors
    /// As [`Stream::recv`]; [`io::ErrorKind::UnexpectedEof`] if the peer ended before.
    pub async fn recv_all(&self, mut buf: Vec<u8>, mut from: usize) -> (io::Result<()>, Vec<u8>) {
        while from < buf.len() {
            let (result, back) = self.recv(buf, from).await;
            buf = back;
            match result {
                Ok(0) => return (Err(io::ErrorKind::UnexpectedEof.into()), buf),
                Ok(count) => from += count,
                Err(e) => return (Err(e), buf),
            }
        }
        (check(from, buf.len()).map(drop), buf)
    }

    /// Sends all of `buf`, which comes back with the result. If this future is dropped
    /// before, any part of it may have been sent.
    ///
    /// # Errors
    /// The system's. No signal is raised when the peer is gone.
    pub async fn send(&self, buf: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let to = buf.len();
        let mut span = Span { bytes: buf, from: 0, to };
        while span.from < span.to {
            let work = Work::new(Kind::Send, &self.fd, span);
            let (outcome, back) = self.io.run(work, "a peer to receive").await;
            span = back;
            match outcome {
                Ok(value) => span.from += count(value),
                Err(e) => return (Err(e.into()), span.bytes),
            }
        }
        (Ok(()), span.bytes)
    }

    /// Ends the connection for both sides: what is under way ends, with an error or
    /// nothing, and so does whatever is begun later.
    pub fn shutdown(&self) {
        // It fails only where there is no connection any more.
        let _ = rustix::net::shutdown(&*self.fd, Shutdown::Both);
    }

    /// Sends no more; the peer, having received all, sees the end. What it sends still
    /// arrives.
    pub fn shutdown_send(&self) {
        let _ = rustix::net::shutdown(&*self.fd, Shutdown::Write);
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(super) fn count(value: Value) -> usize {
    match value {
        Value::Count(count) => count,
        Value::Fd(_) => 0,
    }
}

fn check(from: usize, len: usize) -> io::Result<usize> {
    match from > len {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("byte {from} is beyond a buffer of {len} bytes"),
        )),
        false => Ok(0),
    }
}
