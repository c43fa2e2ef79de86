//! What a driver and a policy say to each other. The module's head has what all policies hold.

use super::page::{Lsn, PageId, Version};
use super::work::Work;
use std::ops::Range;

/// When dirty pages reach the slow store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Write-back: when they leave flash.
    #[default]
    Back,
    /// Write-through: when they leave RAM. No frame is ever dirty.
    Through,
}

/// Which pages enter on exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admit {
    /// Clean and dirty ones.
    #[default]
    Mixed,
    /// Only clean ones; dirty ones go to the slow store.
    Clean,
    /// Only dirty ones.
    Dirty,
}

/// An access to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The page.
    pub page: PageId,
    /// Who accesses it: a thread, a session, a device of a trace. Only policies that group by
    /// writer use it.
    pub client: u32,
}

/// A page that leaves RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The page.
    pub page: PageId,
    /// Who changed it last, as in [`Access::client`].
    pub client: u32,
    /// Its newest change. Never below the LSN of a version that the cache was given before.
    pub lsn: Lsn,
    /// It is newer than the slow store's copy.
    pub dirty: bool,
    /// It is newer than the flash copy, if there is one.
    pub fdirty: bool,
}

/// Where a page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The version's LSN.
    pub lsn: Lsn,
    /// It is newer than the slow store's copy: the page in RAM becomes dirty, and not fdirty.
    pub dirty: bool,
    /// The frame's first byte on flash; `None`: the page waits in memory for its batch to be full.
    pub frame: Option<u64>,
}

/// The cold end of the RAM buffer.
pub trait Pull {
    /// Takes the coldest page that may leave RAM: it has left it. Its log records are stable.
    fn pull(&mut self) -> Option<Exit>;
}

/// No page can be pulled.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPull;

impl Pull for NoPull {
    fn pull(&mut self) -> Option<Exit> {
        None
    }
}

/// What is on flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Frames in use, with valid and with superseded versions.
    pub used: u64,
    /// Frames whose version is valid.
    pub valid: u64,
    /// Valid frames that are newer than the slow store.
    pub dirty: u64,
}

/// A replacement policy. See the module for what all of them hold.
///
/// Each event adds its operations to `work`, which the driver clears.
///
/// ```
/// use tantalum_cache::policy::{Access, Config, Exit, Kind, Lsn, NoPull, PageId, Work};
///
/// let mut policy = Config::new(Kind::Gsc, 256, 4096).build()?;
/// let mut work = Work::new();
/// let access = Access { page: PageId(7), client: 0 };
/// assert_eq!(policy.fetch(access, &mut work), None);
/// policy.fetched(access, Lsn(1), &mut work); // from the slow store
/// let exit = Exit { page: PageId(7), client: 0, lsn: Lsn(2), dirty: true, fdirty: true };
/// policy.evict(exit, &mut NoPull, &mut work);
/// assert!(work.ops().is_empty()); // it waits in memory for its batch
///
/// policy.flush(&mut work);
/// assert!(!work.ops().is_empty()); // now the driver has something to do
/// work.clear();
/// let hit = policy.fetch(access, &mut work).unwrap();
/// assert!(hit.lsn == Lsn(2) && hit.dirty && hit.frame.is_some());
/// # Ok::<(), tantalum_cache::policy::ConfigError>(())
/// ```
pub trait Policy {
    /// RAM misses a page: is it on flash? On `None` the driver reads it from the slow store and
    /// calls [`Policy::fetched`].
    fn fetch(&mut self, access: Access, work: &mut Work) -> Option<Hit>;

    /// A page was read from the slow store into RAM, in this version. Policies that cache on entry
    /// admit it now.
    fn fetched(&mut self, access: Access, lsn: Lsn, work: &mut Work);

    /// A page leaves RAM; its log records are stable. Whether or not it is admitted, when the
    /// work is done its version is on flash, in the batch that is being filled, or on the slow store.
    ///
    /// # Panics
    /// If its LSN is below that of the version on flash.
    fn evict(&mut self, exit: Exit, pull: &mut dyn Pull, work: &mut Work);

    /// A page does not exist any more (truncate, drop): no version of it is ever a hit or written
    /// to the slow store again.
    fn forget(&mut self, page: PageId, work: &mut Work);

    /// The same of pages side by side, of which there may be many more than the cache has.
    fn forget_range(&mut self, pages: Range<u64>, work: &mut Work) {
        pages.for_each(|page| self.forget(PageId(page), work));
    }

    /// Writes to flash what waits in memory for its batch to be full.
    fn flush(&mut self, work: &mut Work);

    /// Writes every dirty version to the slow store: afterwards none is dirty.
    fn clean(&mut self, work: &mut Work);

    /// An [`Op::SlowWrite`](super::Op::SlowWrite) of this version from a frame has ended: the slow
    /// store has the version for good. A driver tells so after each such operation
    /// ([`Work::copied`]), in any order, and not before the event that asked for it has returned.
    /// It is a hint of what can be replaced without a wait: whether or not it is told, the rules of
    /// the module hold. Most policies make no use of it.
    fn cleaned(&mut self, _: Version) {}

    /// What is on flash now.
    fn occupancy(&self) -> Occupancy;

    /// The bytes of flash that it uses, with its metadata: every operation lies below.
    fn flash_bytes(&self) -> u64;
}
