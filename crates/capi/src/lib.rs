//! Drives for programs in C: open one, read, write, write atomic groups, cut and restore its power.
//! `include/tantalum.h` says what each function guarantees; `docs/c-api.md` is for users.
//!
//! 1. No argument from C, except an invalid pointer, makes the library panic or abort, and no panic
//!    crosses into C (`error`).
//! 2. Each handle has a thread of its own with a runtime on virtual time (`server`); calls of many
//!    threads are served in parallel (`client`).
//! 3. Data is copied on the thread of the caller, during its call (`memory`).
//! 4. The binary interface only grows (`abi`).
//!
//! Logs (`log`) and caches (`cache`) are on files and block devices, and on real time.

mod abi;
#[cfg(feature = "cache")]
mod cache;
#[cfg(feature = "cache")]
mod callbacks;
mod calls;
mod client;
mod command;
#[cfg(feature = "cache")]
mod directory;
mod error;
mod group;
#[cfg(feature = "log")]
mod log;
mod mailbox;
mod memory;
mod open;
mod power;
mod record;
mod report;
mod server;

pub use abi::*;
#[cfg(feature = "cache")]
pub use cache::*;
pub use calls::*;
#[cfg(feature = "cache")]
pub use directory::*;
pub use error::{tantalum_last_error, tantalum_strerror};
pub use group::*;
#[cfg(feature = "log")]
pub use log::*;
pub use open::{tantalum_close, tantalum_get_caps, tantalum_open_drive, tantalum_open_ram};
pub use power::*;

use client::Client;
use error::Failure;
use std::ffi::c_char;
use std::sync::Arc;

/// An open drive.
#[allow(non_camel_case_types)]
pub struct tantalum_drive {
    client: Arc<Client>,
}

/// # Safety
/// `drive` is null or open, for as long as `'a`.
unsafe fn client<'a>(drive: *const tantalum_drive) -> Result<&'a Client, Failure> {
    // SAFETY: the caller guarantees it.
    match unsafe { drive.as_ref() } {
        Some(drive) => Ok(&drive.client),
        None => Err(Failure::invalid("the handle is null")),
    }
}

/// The ABI version of this library.
#[unsafe(no_mangle)]
pub extern "C" fn tantalum_abi_version() -> u32 {
    TANTALUM_ABI_VERSION
}

/// The version of the library, as text. Never null; valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn tantalum_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
