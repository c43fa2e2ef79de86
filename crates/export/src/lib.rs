//! Drives served to other programs.
//!
//! [`nbd`] is a server of the network block device protocol: any number of named exports of block
//! devices, over any stream of bytes. [`fuse`] shows a drive as a file. [`control`] is the plug of
//! a drive that runs: its power is cut and restored, and what it does is asked, over a socket of
//! its own.

pub mod activation;
mod budget;
pub mod control;
mod crew;
pub mod fuse;
mod lock;
pub mod nbd;
mod volume;

pub use budget::MemoryUse;
pub use lock::{Held, RangeLock};
pub use volume::Volume;
