//! The command with the kernel: what it mounts, full disks, and the pages of the documents, of which some mount something.
//! A binary of its own: these tests look at the mounts and loop devices of the whole machine, and take
//! what they need from it.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make files and mounts")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../mounting/mod.rs"]
mod mounting;

mod full;
mod mount;
mod mount_boxes;
#[cfg(feature = "full")]
mod mount_cache;
mod mount_files;
#[cfg(feature = "full")]
mod pages;
#[cfg(feature = "full")]
mod torture;
