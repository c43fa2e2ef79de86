//! How a cache is made and used.

use crate::flash::carrier::Beside;
use crate::flash::format::{Mode, Uuid};
use crate::policy::Admit;
use tantalum_rt::Nanos;

/// What happens to the pages of the batch at the front (VLDB Journal 2016, sections 3 and 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// All of them leave (mvFIFO).
    Basic,
    /// Pages that were fetched since they entered enter once more, in the same batch as new ones
    /// (group second chance).
    #[default]
    SecondChance,
}

/// Which pages a restart after a crash reads, beside the segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartBy {
    /// The descriptors of batches that no segment has, and the frames of those that no later
    /// descriptor vouches for.
    #[default]
    Descriptors,
    /// The same, and the frames of the two newest segments' worth of batches, as published (VLDB
    /// Journal 2016, section 4.2): to compare with.
    Frames,
}

/// How a cache is made.
///
/// See [`FlashCache`](crate::flash::FlashCache) for an example.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Bytes of a page: a power of two from 512 bytes to 1 MiB, and a multiple of the blocks of
    /// both devices.
    pub page: u32,
    /// Frames of a batch. One write has all of them, unless some have to be durable earlier.
    pub frames: u32,
    /// When dirty pages reach the slow store.
    pub mode: Mode,
    /// The cache's identity. `None`: drawn from the runtime's randomness, so it is unique only if
    /// the seed is.
    pub identity: Option<Uuid>,
    /// The identity of the slow store, as its owner knows it.
    pub slow_identity: Uuid,
    /// Whatever is on the devices may be destroyed.
    pub force: bool,
    /// What lies beside a flash device of stamps.
    pub beside: Beside,
}

impl Default for FormatOptions {
    fn default() -> FormatOptions {
        FormatOptions {
            page: 4096,
            frames: 64,
            mode: Mode::Back,
            identity: None,
            slow_identity: [0; 16],
            force: false,
            beside: Beside::default(),
        }
    }
}

/// How a cache is used. It may be different at each start.
///
/// See [`FlashCache`](crate::flash::FlashCache) for an example.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// `None`: as at the last start.
    pub mode: Option<Mode>,
    /// What happens to pages at the front.
    pub replacement: Replacement,
    /// Which pages enter, when they leave RAM or are pulled.
    ///
    /// With [`Admit::Clean`] an eviction brings a dirty page to the slow store, and no flash has it: a
    /// cut before it has ended may tear that page there. (A page that the cache has dirty, from another
    /// time, stays there with its newer versions until it leaves.) Such a page cannot be staged.
    pub admit: Admit,
    /// What a restart after a crash reads.
    pub restart: RestartBy,
    /// Whether a restart keeps the reference marks that the segments have. Without them, as
    /// published, no page has a second chance until it was fetched again: to compare with.
    pub marks: bool,
    /// The identity of the slow store; another one than at the formatting is refused.
    pub slow_identity: Uuid,
    /// Bytes of a page; a cache with other pages is refused. `None`: any.
    pub page: Option<u32>,
    /// A batch is written at the latest so long after its first page came, full or not.
    pub linger: Nanos,
    /// When nothing has entered for so long, the superblock vouches for the newest batches, so that
    /// damage to them is no longer taken for a write that a cut has torn.
    pub idle: Nanos,
    /// After the slow store refused a page, it is tried again so much later.
    pub retry: Nanos,
    /// While the slow store refuses a page, dirty pages wait for so long and are then refused.
    pub patience: Nanos,
    /// Writes to the slow store side by side, at most. Pages that go past the cache
    /// ([`OpenOptions::admit`]) are not counted: there are as many of them as callers evict at a time.
    pub depth: usize,
    /// Bytes of the frames that are read from flash and on their way to the slow store, at most; but
    /// those of one batch at least. They are not more than 4,096 frames. A disk sorts what it has: it
    /// writes thousands of pages between two flushes in half the time that it takes for as many in
    /// groups of a hundred.
    pub leaving: u64,
    /// Keeps scans out: a clean page does not enter if it makes a run of consecutive pages longer than
    /// this. Sixteen interleaved runs are told apart. Dirty pages always enter. `None`: all enter.
    pub scan: Option<u32>,
    /// Whether the cache tells what twice its size would gain ([`CacheStats::ghosts`]), from entries
    /// without data. They take less than 2 MiB of memory.
    ///
    /// [`CacheStats::ghosts`]: crate::flash::CacheStats::ghosts
    pub ghosts: bool,
    /// What lies beside a flash device of stamps: that of the formatting.
    pub beside: Beside,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            mode: None,
            replacement: Replacement::SecondChance,
            admit: Admit::Mixed,
            restart: RestartBy::Descriptors,
            marks: true,
            slow_identity: [0; 16],
            page: None,
            linger: Nanos::from_millis(2),
            idle: Nanos::from_secs(1),
            retry: Nanos::from_millis(100),
            patience: Nanos::from_secs(10),
            depth: 16,
            leaving: 32 << 20,
            scan: None,
            ghosts: false,
            beside: Beside::default(),
        }
    }
}
