//! Power, time and statistics.

use crate::abi::*;
use crate::command::{Command, Done};
use crate::error::{Failure, boundary};
use crate::record::{put, room_or_null};
use crate::{client, tantalum_drive};
use std::ffi::c_int;
use tantalum_rt::Nanos;

/// Cuts the power, and waits until the drive is off.
///
/// # Safety
/// `drive` is null or open; `loss` is null or points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_power_cut(
    drive: *const tantalum_drive,
    loss: *mut tantalum_power_loss,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room_or_null(loss) }?;
        match client.run(Command::Cut)? {
            // SAFETY: the caller guarantees it.
            Done::Cut(record) if !loss.is_null() => unsafe { put(loss, &record) },
            _ => Ok(()),
        }
    })
}

/// # Safety
/// `drive` is null or open; `recovery` is null or points to a structure with a correct size field.
unsafe fn start(
    drive: *const tantalum_drive,
    recovery: *mut tantalum_recovery,
    command: Command,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room_or_null(recovery) }?;
        match client.run(command)? {
            // SAFETY: the caller guarantees it.
            Done::Started(record) if !recovery.is_null() => unsafe { put(recovery, &record) },
            _ => Ok(()),
        }
    })
}

/// Restores the power, and waits until the drive takes commands.
///
/// # Safety
/// `drive` is null or open; `recovery` is null or points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_power_on(
    drive: *const tantalum_drive,
    recovery: *mut tantalum_recovery,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { start(drive, recovery, Command::Start { salvage: false }) }
}

/// Restores the power of a drive whose emergency dump is not complete.
///
/// # Safety
/// `drive` is null or open; `recovery` is null or points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_salvage(
    drive: *const tantalum_drive,
    recovery: *mut tantalum_recovery,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { start(drive, recovery, Command::Start { salvage: true }) }
}

/// Waits until the restart is complete.
///
/// # Safety
/// `drive` is null or open; `recovery` is null or points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_settle(
    drive: *const tantalum_drive,
    recovery: *mut tantalum_recovery,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { start(drive, recovery, Command::Settle) }
}

/// Lets virtual time pass.
///
/// # Safety
/// `drive` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_sleep(drive: *const tantalum_drive, ns: u64) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        if ns > TANTALUM_SLEEP_MAX_NS {
            return Err(Failure::invalid("a pause is a day at most"));
        }
        client.order(Command::Sleep(Nanos(ns)))
    })
}

/// The virtual time.
///
/// # Safety
/// `drive` is null or open; `ns` is null or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_now(drive: *const tantalum_drive, ns: *mut u64) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        if ns.is_null() {
            return Err(Failure::invalid("there is no room for the time"));
        }
        let now = client.now()?;
        // SAFETY: the caller's room.
        unsafe { ns.write(now.0) };
        Ok(())
    })
}

/// The statistics so far.
///
/// # Safety
/// `drive` is null or open; `stats` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_get_stats(
    drive: *const tantalum_drive,
    stats: *mut tantalum_stats,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        let record = client.count()?.record();
        // SAFETY: the caller guarantees it.
        unsafe { put(stats, &record) }
    })
}
