//! Drives served to other programs.
//!
//! [`nbd`] is a server of the network block device protocol: any number of named exports of
//! block devices, over any stream of bytes. [`control`] is the plug of a drive that runs: its power
//! is cut and restored, and what it does is asked, over a socket of its own.

pub mod activation;
pub mod control;
pub mod nbd;
