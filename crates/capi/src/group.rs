//! A group that is built piece by piece, and can be cancelled before it is submitted.

use crate::client::Client;
use crate::command::Command;
use crate::error::{Failure, boundary};
use crate::memory::copied;
use crate::{client, tantalum_drive};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use tantalum_device::{AtomicError, Block, Data, Extent, GroupLimit};

/// An atomic group that is not submitted yet.
#[allow(non_camel_case_types)]
pub struct tantalum_group {
    client: Arc<Client>,
    limit: GroupLimit,
    extents: Vec<(Block, Vec<u8>)>,
    bytes: u64,
}

impl tantalum_group {
    fn check(&self) -> Result<(), Failure> {
        let list: Vec<Extent<'_>> =
            self.extents.iter().map(|e| Extent { at: e.0, data: Data::Bytes(&e.1) }).collect();
        Ok(self.client.caps().check_group(&list)?)
    }
}

/// # Safety
/// `group` is null, or was begun and is in use by no other call.
unsafe fn group<'a>(group: *mut tantalum_group) -> Result<&'a mut tantalum_group, Failure> {
    // SAFETY: the caller guarantees it.
    unsafe { group.as_mut() }.ok_or_else(|| Failure::invalid("the group is null"))
}

/// Begins a group.
///
/// # Safety
/// `drive` is null or open; `out` is null or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_group_begin(
    drive: *const tantalum_drive,
    out: *mut *mut tantalum_group,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let limit = unsafe { client(drive) }?.caps().atomic_group;
        if out.is_null() {
            return Err(Failure::invalid("there is no room for the group"));
        }
        // SAFETY: the caller's room for a pointer.
        unsafe { out.write(std::ptr::null_mut()) };
        let limit = limit.ok_or(AtomicError::Unsupported)?;
        // SAFETY: not null, or the call above had failed; the caller guarantees that it is open.
        let client: Arc<Client> = unsafe { (*drive).client.clone() };
        let group = Box::new(tantalum_group { client, limit, extents: Vec::new(), bytes: 0 });
        // SAFETY: the caller's room for a pointer.
        unsafe { out.write(Box::into_raw(group)) };
        Ok(())
    })
}

/// Adds an extent to a group.
///
/// # Safety
/// `to` is null, or was begun and is in use by no other call; `data` has `blocks` blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_group_add(
    to: *mut tantalum_group,
    block: u64,
    data: *const c_void,
    blocks: u64,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let to = unsafe { group(to) }?;
        let caps = to.client.caps();
        let (extents, limit) = (to.extents.len() as u64 + 1, to.limit);
        let bytes = to.bytes.saturating_add(blocks.saturating_mul(caps.block_size.into()));
        if extents > limit.extents.into() || bytes > limit.bytes {
            return Err(AtomicError::TooLarge { extents, bytes, limit }.into());
        }
        // SAFETY: the caller guarantees it.
        let data = unsafe { copied(caps, block, data, blocks) }?;
        to.extents.push((Block(block), data));
        to.bytes = bytes;
        Ok(())
    })
}

/// Cancels a group.
///
/// # Safety
/// `it` is null, or was begun and is in use by no other call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_group_cancel(it: *mut tantalum_group) {
    boundary(|| {
        if !it.is_null() {
            // SAFETY: made by `tantalum_group_begin`, and no longer used.
            drop(unsafe { Box::from_raw(it) });
        }
        Ok(())
    });
}

/// Submits and frees a group.
///
/// # Safety
/// `it` is null, or was begun and is in use by no other call; `ticket` is null or room for a
/// ticket.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_group_submit(it: *mut tantalum_group, ticket: *mut u64) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let it_ref = unsafe { group(it) }?;
        if ticket.is_null() {
            return Err(Failure::invalid("there is no room for the ticket"));
        }
        it_ref.check()?;
        let client = it_ref.client.clone();
        let extents = &mut it_ref.extents;
        let make = || Command::Group(std::mem::take(extents));
        let number = client.submit(it_ref.bytes, make, None)?;
        // SAFETY: the caller's room, and the group, which the caller no longer uses.
        unsafe {
            ticket.write(number);
            drop(Box::from_raw(it));
        }
        Ok(())
    })
}
