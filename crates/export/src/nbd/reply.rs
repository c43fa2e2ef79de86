//! Encodes replies. Each function appends to a buffer.

use super::Errno;
use super::wire::{SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk};

/// Bytes of a simple reply before its data.
const SIMPLE_BYTES: usize = 16;
/// Bytes of a chunk before its payload.
const CHUNK_BYTES: usize = 20;
/// The most bytes of a message for people.
const MESSAGE_BYTES: usize = 256;

fn simple(out: &mut Vec<u8>, code: u32, cookie: u64) {
    out.extend_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

fn head(out: &mut Vec<u8>, kind: u16, cookie: u64, payload: u32) {
    chunk_head(out, true, kind, cookie, payload);
}

fn chunk_head(out: &mut Vec<u8>, last: bool, kind: u16, cookie: u64, payload: u32) {
    out.extend_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    let flags = if last { chunk::DONE } else { 0 };
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&payload.to_be_bytes());
}

/// Success without data.
pub fn done(out: &mut Vec<u8>, cookie: u64) {
    simple(out, 0, cookie);
}

/// Bytes that come before the data of a read.
pub fn data_head_bytes(structured: bool) -> usize {
    if structured { CHUNK_BYTES + 8 } else { SIMPLE_BYTES }
}

/// The header before the data of a read.
pub fn data_head(out: &mut Vec<u8>, structured: bool, cookie: u64, at: u64, length: u32) {
    if !structured {
        return simple(out, 0, cookie);
    }
    head(out, chunk::OFFSET_DATA, cookie, length + 8);
    out.extend_from_slice(&at.to_be_bytes());
}

/// The header before a part of a read's data in a structured reply. More parts follow, unless it is
/// the last.
pub fn part_head(out: &mut Vec<u8>, last: bool, cookie: u64, at: u64, length: u32) {
    chunk_head(out, last, chunk::OFFSET_DATA, cookie, length + 8);
    out.extend_from_slice(&at.to_be_bytes());
}

/// The reply to a read of no bytes.
pub fn nothing(out: &mut Vec<u8>, structured: bool, cookie: u64) {
    match structured {
        true => head(out, chunk::NONE, cookie, 0),
        false => simple(out, 0, cookie),
    }
}

/// An error. `why` is for people.
pub fn error(out: &mut Vec<u8>, structured: bool, cookie: u64, errno: Errno, why: &str) {
    if !structured {
        return simple(out, errno.code(), cookie);
    }
    let mut end = why.len().min(MESSAGE_BYTES);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    head(out, chunk::ERROR, cookie, 6 + end as u32);
    out.extend_from_slice(&errno.code().to_be_bytes());
    out.extend_from_slice(&(end as u16).to_be_bytes());
    out.extend_from_slice(&why.as_bytes()[..end]);
}

/// The allocation of a range: extents of this many bytes, with their flags. There is at least one.
pub fn status(out: &mut Vec<u8>, cookie: u64, context: u32, extents: &[(u32, u32)]) {
    head(out, chunk::BLOCK_STATUS, cookie, 4 + 8 * extents.len() as u32);
    out.extend_from_slice(&context.to_be_bytes());
    for (length, flags) in extents {
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
    }
}
