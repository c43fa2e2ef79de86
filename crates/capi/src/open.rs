//! Opening and closing drives; their promises.

use crate::abi::*;
use crate::client::Client;
use crate::command::Ram;
use crate::error::{Failure, boundary};
use crate::record::{put, take};
use crate::tantalum_drive;
use ::tantalum_drive::{Design, Drive};
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;
use tantalum_device::{Ack, Caps, GroupLimit, Payload, RamDevice, RamOptions};
use tantalum_rt::Nanos;

/// Most blocks of a RAM drive: a discard of all of them takes memory for each.
const RAM_BLOCKS_MAX: u64 = 1 << 24;
/// The longest that a command of a RAM drive may take: an hour.
const RAM_LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// # Safety
/// `text` is null or a string of C.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees it.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))
}

/// Stores a handle for the caller; null on failure.
///
/// # Safety
/// `out` is null or room for a pointer.
unsafe fn hand_out(
    out: *mut *mut tantalum_drive,
    open: impl FnOnce() -> Result<Client, Failure>,
) -> c_int {
    boundary(|| {
        if out.is_null() {
            return Err(Failure::invalid("there is no room for the handle"));
        }
        // SAFETY: the caller's room for a pointer.
        unsafe { out.write(std::ptr::null_mut()) };
        let handle = Box::new(tantalum_drive { client: Arc::new(open()?) });
        // SAFETY: as before.
        unsafe { out.write(Box::into_raw(handle)) };
        Ok(())
    })
}

/// Opens a simulated drive, blank and with its power on. See the header.
///
/// # Safety
/// `options` points to a structure with a correct size field, with strings of C or nulls; `drive`
/// to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_open_drive(
    options: *const tantalum_drive_options,
    drive: *mut *mut tantalum_drive,
) -> c_int {
    let open = || {
        // SAFETY: the caller guarantees it.
        let o = unsafe { take(options) }?;
        // SAFETY: the caller guarantees it.
        let (preset, design, overrides) = unsafe {
            (
                text(o.preset, "the preset")?,
                text(o.design, "the design")?,
                text(o.overrides, "the overrides")?,
            )
        };
        let mut design = match (preset, design) {
            (Some(name), None) => Design::preset(name)?,
            (None, Some(text)) => Design::from_toml(text)?,
            _ => return Err(Failure::invalid("name a preset or give a design: one of the two")),
        };
        if let Some(text) = overrides {
            let table: toml::Table = toml::from_str(text).map_err(|e| {
                Failure::new(TANTALUM_EDESIGN, format!("the overrides: {}", e.to_string().trim()))
            })?;
            design = design.with_overrides(&table)?;
        }
        Client::open(o.seed, move |rt| Ok(Drive::new(rt, &design, Payload::Bytes)?))
    };
    // SAFETY: the caller guarantees it.
    unsafe { hand_out(drive, open) }
}

/// Opens a RAM drive, full of zeros and with its power on. See the header.
///
/// # Safety
/// `options` points to a structure with a correct size field; `drive` to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_open_ram(
    options: *const tantalum_ram_options,
    drive: *mut *mut tantalum_drive,
) -> c_int {
    let open = || {
        // SAFETY: the caller guarantees it.
        let o = unsafe { take(options) }?;
        let ram = ram_options(&o)?;
        Client::open(o.seed, move |rt| Ok(Ram::new(rt, RamDevice::new(rt, ram))))
    };
    // SAFETY: the caller guarantees it.
    unsafe { hand_out(drive, open) }
}

fn ram_options(o: &tantalum_ram_options) -> Result<RamOptions, Failure> {
    let block_size = if o.block_size == 0 { 4096 } else { o.block_size };
    if !(512..=65_536).contains(&block_size) || !block_size.is_power_of_two() {
        return Err(Failure::invalid(format!(
            "a block has {block_size} bytes: a power of two from 512 to 65536 is possible"
        )));
    }
    if !(1..=RAM_BLOCKS_MAX).contains(&o.blocks) {
        return Err(Failure::invalid(format!(
            "the drive has {} blocks: 1 to {RAM_BLOCKS_MAX} are possible",
            o.blocks
        )));
    }
    let times = [o.command_ns, o.jitter_ns, o.flush_ns, o.start_ns];
    if times.iter().any(|t| *t > RAM_LATENCY_MAX_NS) {
        return Err(Failure::invalid("a command can take an hour at most"));
    }
    let unit = if o.atomic_unit == 0 { block_size } else { o.atomic_unit };
    let number = |n: u64, what: &str| {
        u32::try_from(n).map_err(|_| Failure::invalid(format!("{what} does not fit into 32 bits")))
    };
    let extents = number(o.group_extents, "the number of extents")?;
    let mut ram = RamOptions::new(Caps {
        block_size: number(block_size, "the block size")?,
        blocks: o.blocks,
        thin: false,
        ack: match o.ack {
            TANTALUM_ACK_VOLATILE => Ack::Volatile,
            TANTALUM_ACK_POWER_SAFE => Ack::PowerSafe,
            TANTALUM_ACK_ON_MEDIA => Ack::OnMedia,
            _ => return Err(Failure::invalid("ack is none of TANTALUM_ACK_...")),
        },
        flush: o.flush_ignored == 0,
        ordered: o.ordered != 0,
        atomic_unit: number(unit, "the atomic unit")?,
        atomic_group: (extents > 0).then_some(GroupLimit { extents, bytes: o.group_bytes }),
        payload: Payload::Bytes,
    });
    ram.command = Nanos(o.command_ns);
    ram.jitter = Nanos(o.jitter_ns);
    ram.flush = Nanos(o.flush_ns);
    ram.start = Nanos(o.start_ns);
    Ok(ram)
}

/// Closes a drive. See the header.
///
/// # Safety
/// `drive` is null, or open and not in use by any other call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_close(drive: *mut tantalum_drive) {
    boundary(|| {
        if !drive.is_null() {
            // SAFETY: made by `hand_out`, and the caller no longer uses it.
            let handle = unsafe { Box::from_raw(drive) };
            handle.client.close();
        }
        Ok(())
    });
}

/// What the drive promises.
///
/// # Safety
/// `drive` is null or open; `caps` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_get_caps(
    drive: *const tantalum_drive,
    caps: *mut tantalum_caps,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let c = unsafe { crate::client(drive) }?.caps();
        let group = c.atomic_group.unwrap_or(GroupLimit { extents: 0, bytes: 0 });
        let record = tantalum_caps {
            block_size: c.block_size.into(),
            blocks: c.blocks,
            ack: match c.ack {
                Ack::Volatile => TANTALUM_ACK_VOLATILE,
                Ack::PowerSafe => TANTALUM_ACK_POWER_SAFE,
                Ack::OnMedia => TANTALUM_ACK_ON_MEDIA,
            },
            flush: c.flush.into(),
            ordered: c.ordered.into(),
            atomic_unit: c.atomic_unit.into(),
            group_extents: group.extents.into(),
            group_bytes: group.bytes,
            thin: c.thin.into(),
            ..Default::default()
        };
        // SAFETY: the caller guarantees it.
        unsafe { put(caps, &record) }
    })
}
