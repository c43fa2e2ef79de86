//! The command as its users meet it. What mounts something is beside this (`mounts`).

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make files and sockets")]

#[path = "../common/mod.rs"]
mod common;

#[cfg(feature = "live")]
mod access;
#[cfg(feature = "live")]
mod boxes;
#[cfg(feature = "live")]
mod cache;
#[cfg(feature = "live")]
mod cache_served;
#[cfg(feature = "full")]
mod command;
mod crash;
#[cfg(feature = "live")]
mod drive;
mod energy;
mod features;
mod fit;
mod gallery;
#[cfg(feature = "live")]
mod interrupt;
#[cfg(feature = "full")]
mod json;
#[cfg(feature = "live")]
mod log;
#[cfg(feature = "live")]
mod log_faults;
#[cfg(feature = "live")]
mod log_inspect;
#[cfg(feature = "live")]
mod log_replace;
#[cfg(feature = "live")]
mod nbd_consistency;
#[cfg(feature = "live")]
mod page;
#[cfg(feature = "live")]
mod plug;
mod search;
#[cfg(feature = "live")]
mod serve;
#[cfg(feature = "live")]
mod tls;
#[cfg(feature = "live")]
mod top;
mod trace;
