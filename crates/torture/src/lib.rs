//! Real databases, the plug pulled under load, and a ledger of what they said was committed.
//!
//! Clients commit transfers between accounts ([`plan`]). What was begun and what was acknowledged
//! is noted by another process, outside the database and outside the drive ([`ledger`]). Then the
//! drive loses its power with I/O in flight; it recovers, the database recovers, and all that is in
//! it is compared with the notes ([`check`]). [`nemesis`] does that again and again.
//!
//! What is guaranteed:
//!
//! 1. A commit counts as acknowledged only if the database said so, and then it must be there after
//!    every later cut. One that was under way may be there, or not, but whole.
//! 2. Every value in every row is compared, not only sums: what the rows must be follows from the
//!    seed and from which transactions are there.
//! 3. The process that takes the notes uses the drive's file system only while a check reads it,
//!    with the power on, so that no death of a drive, a database or a client can change them.
//! 4. A run that cannot tell (a client that failed before the cut, a drive that does not start, no
//!    commit before a cut) is a failure and says so; it is never counted as a cut survived.
//! 5. On every way out but SIGKILL nothing is left behind: no server, mount, loop device,
//!    directory. Where another process has a copy of the mount, that copy is left to it, dead, and
//!    the report says to whom.

pub mod check;
pub mod clients;
pub mod drive;
pub mod ground;
pub mod ledger;
mod leftovers;
pub mod nemesis;
pub mod pages;
pub mod plan;
pub mod program;
pub mod redo;
pub mod report;
pub mod server;
pub mod store;
