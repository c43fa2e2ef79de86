//! The ioctl by which a program tells that pages of the mounted file have left its memory as they
//! came: clean. A cache below may take them in then.
//!
//! ```c
//! struct tantalum_exit {
//!     uint64_t offset;  /* of the first byte in the file */
//!     uint64_t length;  /* bytes: whole blocks, at most 16 MiB */
//!     uint8_t  data[];  /* nothing, or these bytes: what a read would return */
//! };
//! #define TANTALUM_EXIT(bytes) _IOC(_IOC_WRITE, 0xf7, 1, 16 + (bytes))
//! ```
//!
//! 1. `bytes` is the length of `data`: 0, or `length`. An ioctl carries at most 16,383 bytes.
//! 2. Only who may write to the file may send data: a cache takes them for what the file holds.
//! 3. It is a hint. Nothing is promised, and no content changes.

use rustix::io::Errno;

/// The number of the ioctl, for so many bytes of data; `None`: an ioctl does not carry so many.
#[must_use]
pub const fn exit_command(bytes: usize) -> Option<u32> {
    let size = HEAD + bytes;
    if size < 1 << SIZE_BITS { Some(NUMBER | (size as u32) << SIZE_SHIFT) } else { None }
}

/// Bytes before the data.
const HEAD: usize = 16;
/// Bits of the length of the input within a number.
const SIZE_BITS: u32 = 14;
/// Where they are.
const SIZE_SHIFT: u32 = 16;
/// An ioctl with input, of our kind: the first one.
const NUMBER: u32 = 1 << 30 | 0xf7 << 8 | 1;
/// The longest range.
const LONGEST: u64 = 16 << 20;

/// Pages that have left the memory of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit<'a> {
    pub at: u64,
    pub length: u64,
    /// Their bytes.
    pub data: Option<&'a [u8]>,
}

impl<'a> Exit<'a> {
    /// What an ioctl on a file of so many bytes, in blocks of `block` bytes, tells.
    ///
    /// # Errors
    /// [`Errno::NOTTY`] for every other ioctl, [`Errno::INVAL`] for a range that cannot be meant.
    pub fn parse(
        command: u32,
        input: &'a [u8],
        (bytes, block): (u64, u64),
    ) -> Result<Exit<'a>, Errno> {
        let size = (command >> SIZE_SHIFT) as usize & ((1 << SIZE_BITS) - 1);
        if command != NUMBER | (size as u32) << SIZE_SHIFT || size < HEAD {
            return Err(Errno::NOTTY);
        }
        let (at, rest) = input.split_first_chunk().ok_or(Errno::INVAL)?;
        let (length, data) = rest.split_first_chunk().ok_or(Errno::INVAL)?;
        let (at, length) = (u64::from_ne_bytes(*at), u64::from_ne_bytes(*length));
        let end = at.checked_add(length).filter(|end| *end <= bytes).ok_or(Errno::INVAL)?;
        let whole = at.is_multiple_of(block) && end.is_multiple_of(block);
        let fits = data.is_empty() || data.len() as u64 == length;
        match whole && fits && (1..=LONGEST).contains(&length) && input.len() == size {
            true => Ok(Exit { at, length, data: (!data.is_empty()).then_some(data) }),
            false => Err(Errno::INVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: (u64, u64) = (1 << 20, 4096);

    fn input(at: u64, length: u64, data: &[u8]) -> Vec<u8> {
        [&at.to_ne_bytes()[..], &length.to_ne_bytes(), data].concat()
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        // As `_IOC(_IOC_WRITE, 0xf7, 1, 16)` and `..., 16 + 4096)` are on x86 and ARM.
        assert_eq!(exit_command(0), Some(0x4010_f701));
        assert_eq!(exit_command(4096), Some(0x5010_f701));
        assert!(exit_command(16_367).is_some() && exit_command(16_368).is_none());
    }

    #[test]
    fn a_range_is_told_with_its_bytes_or_without() {
        let page = [7; 4096];
        let bytes = input(8192, 4096, &page);
        let told = Exit::parse(exit_command(4096).unwrap(), &bytes, FILE);
        assert_eq!(told, Ok(Exit { at: 8192, length: 4096, data: Some(&page) }));
        let bytes = input(0, 1 << 20, &[]);
        let told = Exit::parse(exit_command(0).unwrap(), &bytes, FILE);
        assert_eq!(told, Ok(Exit { at: 0, length: 1 << 20, data: None }));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let none = exit_command(0).unwrap();
        for other in [0, none ^ 1, none ^ 1 << 31, 0x4008_f701, none ^ 1 << 8] {
            assert_eq!(Exit::parse(other, &input(0, 4096, &[]), FILE), Err(Errno::NOTTY));
        }
        for (at, length) in [
            (0, 0),
            (1, 4096),
            (0, 4095),
            (1 << 20, 4096),
            (u64::MAX - 4095, 4096),
            (4096, 1 << 20),
            (0, u64::MAX),
        ] {
            let bytes = input(at, length, &[]);
            let refused = Exit::parse(none, &bytes, FILE);
            assert_eq!(refused, Err(Errno::INVAL), "{at} {length}");
        }
        let huge = (1 << 30, 4096);
        assert_eq!(Exit::parse(none, &input(0, 32 << 20, &[]), huge), Err(Errno::INVAL));
        for (bytes, command) in [
            (input(0, 4096, &[]), exit_command(4096)),
            (input(0, 8192, &[1; 4096]), exit_command(4096)),
            (input(0, 4096, &[])[..12].to_vec(), exit_command(0)),
            (Vec::new(), exit_command(0)),
        ] {
            assert_eq!(Exit::parse(command.unwrap(), &bytes, FILE), Err(Errno::INVAL));
        }
    }
}
