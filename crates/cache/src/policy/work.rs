//! What a policy asks of the devices.
//!
//! 1. Offsets and lengths are bytes of the flash device. No operation is empty.
//! 2. A write's versions lie at its end, one page each, in their order; what is before them (a
//!    descriptor) or a write without versions is metadata.

use super::page::Version;

/// Where a page that goes to the slow store comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It leaves RAM now.
    Ram,
    /// A frame of flash, by its first byte, which an operation before read; or a page that waits in
    /// memory for its batch (`None`).
    Cache(Option<u64>),
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read from flash.
    FlashRead {
        /// The first byte.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// Write to flash.
    FlashWrite {
        /// The first byte.
        offset: u64,
        /// How many.
        bytes: u64,
        /// The first of its versions in [`Work::versions`].
        first: u32,
        /// How many versions; 0: metadata only.
        pages: u32,
    },
    /// Write one page to the slow store.
    SlowWrite {
        /// What is written.
        version: Version,
        /// Where it comes from.
        from: Source,
    },
}

/// The work that events have caused, in order.
#[derive(Clone, Debug, Default)]
pub struct Work {
    ops: Vec<Op>,
    versions: Vec<Version>,
}

impl Work {
    /// No work.
    pub fn new() -> Work {
        Work::default()
    }

    /// The operations, in order.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The versions of a [`Op::FlashWrite`].
    pub fn versions(&self, first: u32, pages: u32) -> &[Version] {
        &self.versions[first as usize..(first + pages) as usize]
    }

    /// The versions that go from frames to the slow store, in order: those that
    /// [`Policy::cleaned`](super::Policy::cleaned) is to be told of.
    pub fn copied(&self) -> impl Iterator<Item = Version> {
        self.ops.iter().filter_map(|op| match *op {
            Op::SlowWrite { version, from: Source::Cache(Some(_)) } => Some(version),
            _ => None,
        })
    }

    /// Forgets all of it, after it was carried out.
    pub fn clear(&mut self) {
        self.ops.clear();
        self.versions.clear();
    }

    pub(super) fn flash_read(&mut self, offset: u64, bytes: u64) {
        self.ops.push(Op::FlashRead { offset, bytes });
    }

    pub(super) fn flash_write(
        &mut self,
        offset: u64,
        bytes: u64,
        versions: impl IntoIterator<Item = Version>,
    ) {
        let first = self.versions.len() as u32;
        self.versions.extend(versions);
        let pages = self.versions.len() as u32 - first;
        self.ops.push(Op::FlashWrite { offset, bytes, first, pages });
    }

    pub(super) fn metadata_write(&mut self, offset: u64, bytes: u64) {
        self.flash_write(offset, bytes, []);
    }

    pub(super) fn slow_write(&mut self, version: Version, from: Source) {
        self.ops.push(Op::SlowWrite { version, from });
    }
}
