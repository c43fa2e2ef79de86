//! Power cuts under real databases. A ledger outside the database notes which commits it has
//! acknowledged.
//!
//! Clients commit transfers between accounts ([`plan`]). Another process notes which transactions
//! were begun and which were acknowledged, outside the database and outside the drive ([`ledger`]).
//! Then the drive loses its power with I/O in flight. The drive recovers, the database recovers,
//! and its whole content is compared with the notes ([`check`]). [`nemesis`] repeats that.
//!
//! What is guaranteed:
//!
//! 1. A commit counts as acknowledged only if the database said so. Then it must be there after
//!    every later cut. A commit that was under way may be there or not, but only as a whole.
//! 2. Every value in every row is compared, not only sums. The expected values follow from the seed
//!    and from which transactions are there.
//! 3. The process that keeps the ledger uses the drive's file system only while a check reads it,
//!    with the power on. So no death of a drive, a database or a client can change the ledger.
//! 4. A run without a verdict (a client that failed before the cut, a drive that does not start, no
//!    commit before a cut) is reported as a failure. It never counts as a survived cut.
//! 5. Every end but SIGKILL leaves nothing behind: no server, mount, loop device or directory. If
//!    another process has a copy of the mount, that dead copy is left to it, and the report names
//!    the process.

pub mod check;
pub mod clients;
pub mod ground;
pub mod ledger;
mod leftovers;
pub mod nemesis;
pub mod plan;
pub mod program;
pub mod recovery;
pub mod redo;
pub mod report;
pub mod server;
pub mod store;
