//! What carries operations out: the small interface of both back ends.

use super::work::Operations;
use crate::slab::Key;
use std::io;
use std::time::Duration;

/// How I/O is carried out; see [`crate::wall::WallOptions::io`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// io_uring where the kernel has it and allows it, else [`Backend::Poll`].
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// `ppoll` and calls that do not block; reads and writes of files hold up the thread.
    Poll,
}

/// A back end. It reports completions to the table ([`Operations::complete`]).
pub(super) trait Driver {
    fn backend(&self) -> Backend;

    /// Whether file descriptors are to be such that calls on them do not block.
    fn wants_nonblocking(&self) -> bool;

    /// Begins an operation of the table. It may complete at once.
    fn begin(&mut self, key: Key, ops: &mut Operations);

    /// Asks for the early end of an operation. It completes all the same, now or later.
    fn cancel(&mut self, key: Key, ops: &mut Operations);

    /// Whether something was begun that the kernel has not been told of.
    fn has_unsent(&self) -> bool;

    /// Takes completions that lie ready, without asking the kernel.
    fn take(&mut self, ops: &mut Operations);

    /// Takes completions, asking the kernel if need be, without waiting.
    fn look(&mut self, ops: &mut Operations);

    /// Tells the kernel of what was begun, waits until something completes or `limit` is
    /// over, and takes completions. It does not sleep if something has completed that was not
    /// handed over ([`Operations::has_ended`]), or completes while the kernel is told.
    ///
    /// # Errors
    /// What the kernel says. An interruption by a signal is none.
    fn wait(&mut self, ops: &mut Operations, limit: Option<Duration>) -> io::Result<()>;
}
