//! Commands, each as a call that waits and as a call that submits.

use crate::abi::*;
use crate::client::{Client, Room};
use crate::command::{Command, Done};
use crate::error::{Failure, boundary};
use crate::memory::{copied, extents, read_room};
use crate::{client, tantalum_drive};
use std::ffi::{c_int, c_void};
use tantalum_device::{Block, Blocks, Durability};

fn durability(flags: u32) -> Result<Durability, Failure> {
    match flags {
        0 => Ok(Durability::Normal),
        TANTALUM_FUA => Ok(Durability::Fua),
        _ => Err(Failure::invalid("a write has no such flag")),
    }
}

/// Submits the command that `make` makes, and stores the ticket for the caller.
///
/// # Safety
/// `drive` is null or open; `ticket` is null or room for a ticket.
unsafe fn submit(
    drive: *const tantalum_drive,
    ticket: *mut u64,
    make: impl FnOnce(&Client) -> Result<(Command, Option<Room>), Failure>,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        if ticket.is_null() {
            return Err(Failure::invalid("there is no room for the ticket"));
        }
        let (command, room) = make(client)?;
        let number = client.submit(command.bytes(), || command, room)?;
        // SAFETY: the caller's room.
        unsafe { ticket.write(number) };
        Ok(())
    })
}

/// Runs the command that `make` makes.
///
/// # Safety
/// `drive` is null or open.
unsafe fn order(
    drive: *const tantalum_drive,
    make: impl FnOnce(&Client) -> Result<Command, Failure>,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        client.order(make(client)?)
    })
}

/// # Safety
/// `data` has room for `blocks` blocks.
unsafe fn write(
    client: &Client,
    block: u64,
    data: *const c_void,
    blocks: u64,
    flags: u32,
) -> Result<Command, Failure> {
    let want = durability(flags)?;
    // SAFETY: the caller guarantees it.
    let data = unsafe { copied(client.caps(), block, data, blocks) }?;
    Ok(Command::Write { at: Block(block), data, want })
}

fn discard(client: &Client, block: u64, blocks: u64) -> Result<Command, Failure> {
    let range = Blocks { start: Block(block), count: blocks };
    client.caps().check_range(range)?;
    Ok(Command::Discard(range))
}

/// Reads blocks.
///
/// # Safety
/// `drive` is null or open; `buf` has room for `blocks` blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_read(
    drive: *const tantalum_drive,
    block: u64,
    buf: *mut c_void,
    blocks: u64,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        let room = read_room(client.caps(), block, buf, blocks)?;
        if let Done::Read(data) = client.run(Command::Read { at: Block(block), room })? {
            // SAFETY: as many bytes as the caller's room has.
            unsafe { buf.cast::<u8>().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
        }
        Ok(())
    })
}

/// Writes blocks.
///
/// # Safety
/// `drive` is null or open; `data` has `blocks` blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_write(
    drive: *const tantalum_drive,
    block: u64,
    data: *const c_void,
    blocks: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { order(drive, |c| write(c, block, data, blocks, flags)) }
}

/// Writes an atomic group.
///
/// # Safety
/// `drive` is null or open; `group` has `count` extents, each with data for its blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_write_group(
    drive: *const tantalum_drive,
    group: *const tantalum_extent,
    count: usize,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { order(drive, |c| Ok(Command::Group(extents(c.caps(), group, count)?))) }
}

/// Makes durable what completed before.
///
/// # Safety
/// `drive` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_flush(drive: *const tantalum_drive) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { order(drive, |_| Ok(Command::Flush)) }
}

/// Discards blocks.
///
/// # Safety
/// `drive` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_discard(
    drive: *const tantalum_drive,
    block: u64,
    blocks: u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { order(drive, |c| discard(c, block, blocks)) }
}

/// Submits a read.
///
/// # Safety
/// `drive` is null or open; `buf` has room for `blocks` blocks until the wait for the ticket has
/// returned; `ticket` is null or room for a ticket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_submit_read(
    drive: *const tantalum_drive,
    block: u64,
    buf: *mut c_void,
    blocks: u64,
    ticket: *mut u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        submit(drive, ticket, |c| {
            let room = read_room(c.caps(), block, buf, blocks)?;
            Ok((Command::Read { at: Block(block), room }, Some(Room { to: buf.cast() })))
        })
    }
}

/// Submits a write.
///
/// # Safety
/// `drive` is null or open; `data` has `blocks` blocks; `ticket` is null or room for a ticket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_submit_write(
    drive: *const tantalum_drive,
    block: u64,
    data: *const c_void,
    blocks: u64,
    flags: u32,
    ticket: *mut u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { submit(drive, ticket, |c| Ok((write(c, block, data, blocks, flags)?, None))) }
}

/// Submits an atomic group.
///
/// # Safety
/// `drive` is null or open; `group` has `count` extents, each with data for its blocks; `ticket`
/// is null or room for a ticket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_submit_group(
    drive: *const tantalum_drive,
    group: *const tantalum_extent,
    count: usize,
    ticket: *mut u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe {
        submit(drive, ticket, |c| Ok((Command::Group(extents(c.caps(), group, count)?), None)))
    }
}

/// Submits a flush.
///
/// # Safety
/// `drive` is null or open; `ticket` is null or room for a ticket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_submit_flush(
    drive: *const tantalum_drive,
    ticket: *mut u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { submit(drive, ticket, |_| Ok((Command::Flush, None))) }
}

/// Submits a discard.
///
/// # Safety
/// `drive` is null or open; `ticket` is null or room for a ticket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_submit_discard(
    drive: *const tantalum_drive,
    block: u64,
    blocks: u64,
    ticket: *mut u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { submit(drive, ticket, |c| Ok((discard(c, block, blocks)?, None))) }
}

/// Waits for a submitted command; returns its code.
///
/// # Safety
/// `drive` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_wait(drive: *const tantalum_drive, ticket: u64) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        client.wait(vec![ticket])?.1
    })
}

/// Waits for the first of several submitted commands; returns its code.
///
/// # Safety
/// `drive` is null or open; `tickets` has `count` tickets; `which` is null or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_wait_any(
    drive: *const tantalum_drive,
    tickets: *const u64,
    count: usize,
    which: *mut usize,
) -> c_int {
    boundary(|| {
        if which.is_null() {
            return Err(Failure::invalid("there is no room for the answer"));
        }
        // The value if the wait itself fails.
        // SAFETY: the caller's room.
        unsafe { which.write(usize::MAX) };
        // SAFETY: the caller guarantees it.
        let client = unsafe { client(drive) }?;
        if tickets.is_null() || count == 0 {
            return Err(Failure::invalid("there are no tickets"));
        }
        if count > TANTALUM_TICKETS_MAX {
            return Err(Failure::invalid("there are never so many tickets"));
        }
        // SAFETY: the caller's tickets, read one by one.
        let tickets = (0..count).map(|i| unsafe { tickets.add(i).read_unaligned() }).collect();
        let (place, result) = client.wait(tickets)?;
        // SAFETY: the caller's room.
        unsafe { which.write(place) };
        result
    })
}
