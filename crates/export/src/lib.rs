//! Drives served to other programs.
//!
//! [`nbd`] is a server of the network block device protocol: any number of named exports of
//! block devices, over any stream of bytes.

pub mod activation;
pub mod nbd;
