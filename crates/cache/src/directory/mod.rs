//! The directory of the cache: a ring of entries, one for each frame of flash, and a hash table from
//! pages to frames, in memory that the caller supplies: its own, or shared by processes.
//!
//! It decides and does no I/O. A page that leaves RAM is [staged](Directory::stage) in a batch at
//! the rear of the ring; the caller writes the batch to flash and [publishes](Directory::publish)
//! it. To make room the caller [takes](Directory::take_front) the front batch, does what
//! [`Directory::fates`] says, and [releases](Directory::release) it.
//!
//! ```
//! use std::sync::Arc;
//! use tantalum_cache::directory::{Directory, Owner, Processes, Region, Shape, Version};
//!
//! let shape = Shape { frames: 8 * 64, batch: 64 };
//! let region = Region::owned(shape.bytes_needed().unwrap());
//! let me = Processes::this().unwrap();
//! let directory = Directory::format(region, shape, 0, me, Arc::new(Processes)).unwrap();
//!
//! let batch = directory.reserve().unwrap();
//! let page = Version { page: 7, lsn: 1, checksum: 0xfeed, dirty: true };
//! let staged = directory.stage(&batch, page).unwrap();
//! directory.close(&batch).unwrap();
//! // Here the batch is written to flash.
//! directory.publish(&batch).unwrap();
//!
//! let found = directory.lookup(7).unwrap();
//! assert_eq!((found.frame, found.lsn, found.dirty), (staged.frame, 1, true));
//! ```
//!
//! # Invariants
//!
//! 1. A page has one current version at most; looking it up gives that one, whole.
//! 2. LSNs of a page's current versions never go down, but where a batch is abandoned.
//! 3. A version that was current stays readable on flash until all that replaced it is durable.
//! 4. A dirty version that is current leaves the ring only for a newer one, or marked clean, or
//!    forgotten.
//! 5. Frames are reserved in the order of the ring, and none before it was released.
//! 6. Memory is bounded, and never grows: [`Shape::bytes_needed`].
//! 7. Any process may be killed at any instruction. All that others see then is as if each of its
//!    calls had happened or not, but for its batch at work, which another one
//!    [adopts](Directory::adopt). Nobody waits for the dead.
//!
//! # Locks
//!
//! Lookups take none. Reserving, closing, publishing and releasing batches take none either: each
//! step is one swap of one word, and whoever comes along moves the ends of the ring on. What changes
//! a chain of the table holds the lock of its partition for some stores; the lock is a word with its
//! owner, and is taken from a dead one (`lock.rs`). Who holds a lock waits for nothing. So a call
//! waits only for what live threads do within a few stores, and if one of them is stopped by a
//! signal, for that one.
//!
//! What proves it: tests that kill an owner before each single store of each call, and whoever mends
//! after it before each of its own (`tests/killed.rs`); two calls at the same time, of which
//! each interrupts the other (`tests/two.rs`); models of threads with deaths and with stores that are
//! seen late (`model.rs`, run by `scripts/model-wall-clock`); and processes that are killed
//! (`tests/processes.rs` of the crate).
//!
//! # What callers keep to
//!
//! 1. One thread of an owner at a time ends a batch (closes, publishes, abandons), and one has a front
//!    batch from [`Directory::take_front`] to [`Directory::release`] or [`Directory::leave`]. None of
//!    them is used again after that. All else may be called by any thread at any time.
//! 2. No version is written over a newer one in the slow store: a lock for each page from
//!    [`Directory::fates`] to [`Directory::mark_clean`], or a comparison of LSNs.
//! 3. A version that is written to the slow store past the directory, while an older dirty one is
//!    current, is staged before, or the page is forgotten: the older one would be served, and written
//!    over it.
//! 4. `exec` keeps the number of a process and the time of its start, so nobody takes over what it
//!    had. It ends its batches before.
//!
//! # Pages
//!
//! A page is a number of 64 bits that the caller chooses, and an entry has 32 bytes. A tag of
//! PostgreSQL's buffers has 20 (table space, database, relation, fork, block), and does not fit
//! beside LSN and checksum. So a relation's fork gets a number of 32 bits from a table of the
//! caller (there are few), and a page is this number and that of its block. A hash of the tag would
//! be wrong: two pages with one hash would be served for each other.

mod ahead;
mod audit;
mod batch;
mod chain;
mod control;
mod error;
mod front;
mod header;
mod layout;
mod lock;
mod lookup;
#[cfg(all(test, loom))]
mod model;
mod owner;
mod region;
mod restore;
mod stage;
mod sys;
#[cfg(all(test, not(loom)))]
mod tests;

pub use audit::Audit;
pub use batch::Batch;
pub use error::{AttachError, BatchError, FrontError, ReleaseError, ReserveError, StageError};
pub use front::{Fate, Front, Replacement};
pub use layout::{BATCH_MAX, Shape, ShapeError};
pub use lookup::Since;
#[cfg(target_os = "linux")]
pub use owner::Processes;
pub use owner::{Liveness, Owner};
pub use region::Region;
pub use restore::Found;
pub use stage::{Staged, Version};

use batch::Record;
use control::{BatchWord, Control, Phase};
use layout::{LINE, Layout};
use std::sync::Arc;
use sys::Word;

/// How many entries are stored in one segment on flash (FaCE: about 2 MB).
pub const SEGMENT_ENTRIES: u64 = 64_000;

/// The last batch with which a ring may begin; as many again can be reserved.
const BATCHES_EVER: u64 = (1 << 47) - 1;

/// What the directory knows of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The page.
    pub page: u64,
    /// The LSN of this version of it.
    pub lsn: u64,
    /// The checksum of the frame.
    pub checksum: u32,
    /// The frame.
    pub frame: u32,
    /// How often the ring had come round when the frame got this version.
    pub lap: u32,
    /// Whether this version is current.
    pub valid: bool,
    /// Whether it is newer than the slow store's.
    pub dirty: bool,
    /// Whether it was looked up since it entered.
    pub referenced: bool,
    /// Whether the batch is durable on flash.
    pub durable: bool,
}

/// A directory, as one owner works on it. Copies are for other threads of the same owner.
///
/// See [the module](self) for an example.
#[derive(Clone)]
pub struct Directory {
    region: Region,
    layout: Layout,
    owner: Owner,
    living: Arc<dyn Liveness>,
}

/// Words of an entry.
struct EntryWords<'a> {
    page: &'a Word,
    lsn: &'a Word,
    /// Checksum below; above, the frame of the version that this one replaced.
    check: &'a Word,
    control: &'a Word,
}

impl Directory {
    /// Makes an empty directory, whatever is in the memory. Nobody may use one that is there. The
    /// first batch to be reserved is `first`: 0, or the front of the ring that is restored.
    ///
    /// # Errors
    /// [`AttachError::Shape`], [`AttachError::First`], [`AttachError::TooSmall`]; nothing was
    /// changed.
    pub fn format(
        region: Region,
        shape: Shape,
        first: u64,
        owner: Owner,
        living: Arc<dyn Liveness>,
    ) -> Result<Directory, AttachError> {
        let layout = Layout::of(shape)?;
        if first > BATCHES_EVER {
            return Err(AttachError::First(first));
        }
        let (have, need) = (region.bytes(), layout.words * 8);
        if have < need {
            return Err(AttachError::TooSmall { have, need });
        }
        header::clear(&region);
        for at in header::AT_FRONT..layout.words {
            region.word(at).poke(0);
        }
        for end in [header::AT_FRONT, header::AT_SETTLED, header::AT_REAR] {
            region.word(end).poke(first);
        }
        let directory = Directory { region, layout, owner, living };
        for seq in first..first + layout.batches {
            directory.record(seq).word.poke(BatchWord::new(seq, Phase::Free, 0).0);
            for frame in directory.frames_of(seq) {
                directory.entry(frame).control.poke(Control::free(directory.lap_of(seq)).0);
            }
        }
        header::write(&directory.region, &layout);
        Ok(directory)
    }

    /// Works on the directory that is in the memory.
    ///
    /// # Errors
    /// [`AttachError`]; nothing was changed.
    pub fn attach(
        region: Region,
        owner: Owner,
        living: Arc<dyn Liveness>,
    ) -> Result<Directory, AttachError> {
        let layout = header::read(&region)?;
        Ok(Directory { region, layout, owner, living })
    }

    /// As [`Directory::attach`], where the shape is known.
    ///
    /// # Errors
    /// As there, and [`AttachError::OtherShape`].
    pub fn attach_shape(
        region: Region,
        expected: Shape,
        owner: Owner,
        living: Arc<dyn Liveness>,
    ) -> Result<Directory, AttachError> {
        let directory = Directory::attach(region, owner, living)?;
        match directory.shape() {
            found if found == expected => Ok(directory),
            found => Err(AttachError::OtherShape { found, expected }),
        }
    }

    /// How large it is.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// The batches whose frames are in use, from the front to the rear. It changes while others work.
    #[must_use]
    pub fn ring(&self) -> std::ops::Range<u64> {
        self.advance();
        let front = self.front();
        front..self.rear().max(front)
    }

    /// How many batches can be reserved before the front has to be released.
    #[must_use]
    pub fn free_batches(&self) -> u64 {
        let ring = self.ring();
        self.layout.batches - (ring.end - ring.start).min(self.layout.batches)
    }

    /// The first frame of a batch is `first`, the others follow.
    fn frames_of(&self, seq: u64) -> std::ops::Range<u32> {
        let first = self.frame_of(seq, 0);
        first..first + self.layout.shape.batch
    }

    fn frame_of(&self, seq: u64, slot: u32) -> u32 {
        (seq % self.layout.batches) as u32 * self.layout.shape.batch + slot
    }

    fn lap_of(&self, seq: u64) -> u32 {
        (seq / self.layout.batches) as u32
    }

    fn record(&self, seq: u64) -> Record<'_> {
        let at = self.layout.records + (seq % self.layout.batches) as usize * LINE;
        let word = |i| self.region.word(at + i);
        Record { word: word(0), owner: word(1), needs: word(2) }
    }

    /// The record of a frame's batch.
    fn record_of(&self, frame: u32) -> Record<'_> {
        self.record(u64::from(frame / self.layout.shape.batch))
    }

    fn entry(&self, frame: u32) -> EntryWords<'_> {
        let at = self.layout.entries + frame as usize * 4;
        let word = |i| self.region.word(at + i);
        EntryWords { page: word(0), lsn: word(1), check: word(2), control: word(3) }
    }
}
