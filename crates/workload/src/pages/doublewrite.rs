//! The double-write area: copies of pages are written here before the pages are written to their
//! places.
//!
//! 1. The part for batches takes one batch at a time. The part for single pages has a slot for each
//!    page. A copy is not overwritten before its page is durable in its place.
//! 2. A copy is durable when [`DoubleWrite::batch`] or [`DoubleWrite::single`] returns its guard
//!    (as far as the host knows).

use super::storage::PageVersion;
use super::volume::{FileNo, Volume};
use super::{Lsn, PageNo, stamp, whole};
use std::cell::RefCell;
use tantalum_device::{Block, BlockDevice, IoError};
use tantalum_rt::Rt;
use tantalum_rt::sync::{Mutex, Permit, Semaphore};

/// The most pages in a batch. With [`SINGLE_SLOTS`] this is InnoDB's own division of its 128 pages
/// (`srv_doublewrite_batch_size`).
pub const BATCH_PAGES: u32 = 120;
/// Slots for single pages; see [`BATCH_PAGES`].
pub const SINGLE_SLOTS: u32 = 8;

/// The place of the area, and the size of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaPlace {
    /// Its first block.
    pub first: Block,
    /// Blocks in a page.
    pub page_blocks: u32,
}

impl AreaPlace {
    /// Blocks of the area.
    pub fn blocks(&self) -> u64 {
        u64::from((BATCH_PAGES + SINGLE_SLOTS) * self.page_blocks)
    }

    fn slot(&self, slot: u32) -> Block {
        Block(self.first.0 + u64::from(slot * self.page_blocks))
    }
}

/// The area in use.
pub struct DoubleWrite<D> {
    volume: Volume<D>,
    place: AreaPlace,
    batch: Mutex,
    singles: Semaphore,
    free: RefCell<Vec<u32>>,
}

impl<D: BlockDevice> DoubleWrite<D> {
    /// A new, empty area.
    pub fn new(rt: &Rt, volume: Volume<D>, place: AreaPlace) -> DoubleWrite<D> {
        DoubleWrite {
            volume,
            place,
            batch: Mutex::new(rt, "the double-write batch"),
            singles: Semaphore::new(rt, "a double-write slot", SINGLE_SLOTS.into()),
            free: RefCell::new((BATCH_PAGES..BATCH_PAGES + SINGLE_SLOTS).collect()),
        }
    }

    /// Writes copies of these pages (at most [`BATCH_PAGES`]) next to each other. Keep the guard
    /// until the pages are durable in their places.
    ///
    /// # Errors
    /// The volume's error.
    pub async fn batch(&self, pages: &[PageVersion]) -> Result<Permit<'_>, IoError> {
        let turn = self.batch.lock().await;
        let copies = pages.iter().flat_map(|p| {
            std::iter::repeat_n(stamp(p.page, p.lsn), self.place.page_blocks as usize)
        });
        self.volume.write(FileNo::SYSTEM, self.place.slot(0), &copies.collect::<Vec<_>>()).await?;
        self.volume.fsync(FileNo::SYSTEM, false).await?;
        Ok(turn)
    }

    /// Writes a copy of one page into a slot of its own. Keep the guard until the page is durable
    /// in its place.
    ///
    /// # Errors
    /// The volume's error.
    pub async fn single(&self, page: PageVersion) -> Result<Slot<'_, D>, IoError> {
        self.singles.take(1).await;
        let taken = self.free.borrow_mut().pop();
        let slot = Slot { area: self, slot: taken.expect("one for each permit") };
        let copy = vec![stamp(page.page, page.lsn); self.place.page_blocks as usize];
        self.volume.write(FileNo::SYSTEM, self.place.slot(slot.slot), &copy).await?;
        self.volume.fsync(FileNo::SYSTEM, false).await?;
        Ok(slot)
    }
}

/// A slot in use; see [`DoubleWrite::single`].
pub struct Slot<'a, D: BlockDevice> {
    area: &'a DoubleWrite<D>,
    slot: u32,
}

impl<D: BlockDevice> Drop for Slot<'_, D> {
    fn drop(&mut self) {
        self.area.free.borrow_mut().push(self.slot);
        self.area.singles.release(1);
    }
}

/// The whole copies that the area holds.
///
/// # Errors
/// The volume's error.
pub async fn copies<D: BlockDevice>(
    volume: &Volume<D>,
    place: AreaPlace,
) -> Result<Vec<(PageNo, Lsn)>, IoError> {
    let mut blocks = vec![0; place.blocks() as usize];
    volume.read(place.first, &mut blocks).await?;
    Ok(blocks.chunks(place.page_blocks as usize).filter_map(whole).collect())
}
