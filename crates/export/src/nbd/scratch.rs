//! Buffers for small reads, before they are gathered with other replies.

use crate::budget::{NoMemory, lengthen};
use std::cell::RefCell;

/// The most bytes that are kept for reuse.
const KEPT_BYTES: usize = 128 << 10;

/// See the module.
#[derive(Default)]
pub(crate) struct Scratch {
    spare: RefCell<(Vec<Vec<u8>>, usize)>,
}

impl Scratch {
    /// A buffer of at least this many bytes, with any content.
    pub fn get(&self, bytes: usize) -> Result<Vec<u8>, NoMemory> {
        let spare = {
            let (spare, kept) = &mut *self.spare.borrow_mut();
            spare.pop().inspect(|buffer| *kept -= buffer.capacity())
        };
        let mut buffer = spare.unwrap_or_default();
        if buffer.len() < bytes {
            lengthen(&mut buffer, bytes)?;
        }
        Ok(buffer)
    }

    /// Takes back a buffer.
    pub fn put(&self, buffer: Vec<u8>) {
        let (spare, kept) = &mut *self.spare.borrow_mut();
        if *kept + buffer.capacity() <= KEPT_BYTES {
            *kept += buffer.capacity();
            spare.push(buffer);
        }
    }
}
