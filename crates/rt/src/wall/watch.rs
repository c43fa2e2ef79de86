//! Descriptors that others read: this says when there is something.

use super::io::Io;
use super::work::{Kind, Span, Work};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::rc::Rc;

/// A descriptor of any kind that can be polled. Dropping it closes it, once what was under way
/// has ended.
pub struct Watch {
    io: Io,
    fd: Rc<OwnedFd>,
}

impl Io {
    /// Watches a descriptor; reading from it is the caller's, with calls that do not block.
    ///
    /// # Errors
    /// The system's, if calls on it cannot be made such.
    pub fn watch(&self, fd: OwnedFd) -> io::Result<Watch> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Watch { io: self.clone(), fd: Rc::new(fd) })
    }
}

impl Watch {
    /// Waits until something can be read, or reading would fail. It may come too early: then
    /// the call says so.
    ///
    /// # Errors
    /// The system's.
    pub async fn readable(&self) -> io::Result<()> {
        let work = Work::new(Kind::Readable, &self.fd, Span::default());
        self.io.run(work, "something to read").await.0?;
        Ok(())
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
