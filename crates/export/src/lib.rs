//! Drives served to other programs.
//!
//! [`nbd`] is a server of the network block device protocol: any number of named exports of block
//! devices, over any byte stream. [`fuse`] shows a drive as a file. [`control`] is the control
//! socket of a running drive: clients cut and restore its power, and read its state and counters.

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
