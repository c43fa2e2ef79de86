//! Memory of the caller, as data of commands.
//!
//! Ranges are checked against the drive before memory is read, so an impossible length is refused.

use crate::abi::tantalum_extent;
use crate::error::Failure;
use std::ffi::c_void;
use tantalum_device::{AtomicError, Block, Blocks, Caps, Data, Extent};

/// Bytes of `blocks` blocks from `block` on, if the drive has these blocks.
fn length(caps: &Caps, block: u64, at: *const c_void, blocks: u64) -> Result<usize, Failure> {
    caps.check_range(Blocks { start: Block(block), count: blocks })?;
    let bytes = blocks.checked_mul(caps.block_size.into()).and_then(|b| isize::try_from(b).ok());
    let bytes = bytes.ok_or_else(|| Failure::invalid("the range does not fit into memory"))?;
    if at.is_null() && bytes > 0 {
        return Err(Failure::invalid("the data are null"));
    }
    Ok(bytes as usize)
}

/// # Safety
/// `data` has `blocks` blocks for as long as `'a`.
unsafe fn borrowed<'a>(
    caps: &Caps,
    block: u64,
    data: *const c_void,
    blocks: u64,
) -> Result<&'a [u8], Failure> {
    match length(caps, block, data, blocks)? {
        0 => Ok(&[]),
        // SAFETY: not null, of that length, as the caller says.
        bytes => Ok(unsafe { std::slice::from_raw_parts(data.cast(), bytes) }),
    }
}

fn owned(data: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(data.len()).map_err(|_| Failure::memory(data.len()))?;
    copy.extend_from_slice(data);
    Ok(copy)
}

/// A copy of the data to write.
///
/// # Safety
/// `data` has `blocks` blocks.
pub(crate) unsafe fn copied(
    caps: &Caps,
    block: u64,
    data: *const c_void,
    blocks: u64,
) -> Result<Vec<u8>, Failure> {
    // SAFETY: the caller guarantees it.
    owned(unsafe { borrowed(caps, block, data, blocks) }?)
}

/// A buffer for the data of a read, before it is copied to `buf`.
pub(crate) fn read_room(
    caps: &Caps,
    block: u64,
    buf: *mut c_void,
    blocks: u64,
) -> Result<Vec<u8>, Failure> {
    let bytes = length(caps, block, buf, blocks)?;
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).map_err(|_| Failure::memory(bytes))?;
    room.resize(bytes, 0);
    Ok(room)
}

/// A copy of an atomic group that the drive can take.
///
/// # Safety
/// `group` has `count` extents, each with data for its blocks.
pub(crate) unsafe fn extents(
    caps: &Caps,
    group: *const tantalum_extent,
    count: usize,
) -> Result<Vec<(Block, Vec<u8>)>, Failure> {
    if caps.atomic_group.is_none() {
        return Err(AtomicError::Unsupported.into());
    }
    if group.is_null() && count > 0 {
        return Err(Failure::invalid("the extents are null"));
    }
    let mut list = Vec::new();
    let room = count.saturating_mul(size_of::<Extent<'_>>());
    list.try_reserve_exact(count).map_err(|_| Failure::memory(room))?;
    for i in 0..count {
        // SAFETY: within the caller's extents.
        let e = unsafe { group.add(i).read_unaligned() };
        // SAFETY: the caller guarantees it.
        let data = unsafe { borrowed(caps, e.block, e.data, e.blocks) }?;
        list.push(Extent { at: Block(e.block), data: Data::Bytes(data) });
    }
    caps.check_group(&list)?;
    let copy = |e: &Extent<'_>| match e.data {
        Data::Bytes(b) => Ok((e.at, owned(b)?)),
        Data::Stamps(_) => Err(Failure::invalid("data of C are bytes")),
    };
    list.iter().map(copy).collect()
}
