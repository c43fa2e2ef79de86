//! The double-write area: copies of pages are written here before the pages are written to their
//! places.
//!
//! 1. The part for batches takes one batch at a time. The part for single pages has a slot for each
//!    page. A copy is not overwritten before its page is durable in its place.
//! 2. The area has 2 MiB, whatever the page size. So small pages have more slots: a batch has at most
//!    120 pages, and all other pages of the area are slots for single ones.
//! 3. A copy is durable when [`DoubleWrite::batch`] or [`DoubleWrite::single`] returns its guard
//!    (as far as the host knows).

use super::storage::PageVersion;
use super::volume::{FileNo, Volume};
use super::{Lsn, PageNo, stamp, whole};
use std::cell::RefCell;
use tantalum_device::{Block, BlockDevice, IoError};
use tantalum_rt::Rt;
use tantalum_rt::sync::{Mutex, Permit, Semaphore};

/// The most pages in a batch (`srv_doublewrite_batch_size`).
pub const BATCH_PAGES: u32 = 120;

/// Bytes of the area: two extents of 1 MiB (`TRX_SYS_DOUBLEWRITE_BLOCK_SIZE` is `FSP_EXTENT_SIZE`).
const AREA_BYTES: u32 = 2 << 20;

/// The fewest pages of the area: extents of pages that are larger than 16 KiB have 64 pages, too.
const LEAST_PAGES: u32 = 128;

/// The place of the area, and the size of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaPlace {
    /// Its first block.
    pub first: Block,
    /// Blocks in a page.
    pub page_blocks: u32,
    /// Pages of the area.
    pub pages: u32,
}

impl AreaPlace {
    /// The area of an engine with pages of `page_bytes`, each of so many blocks.
    pub fn of(first: Block, page_bytes: u32, page_blocks: u32) -> AreaPlace {
        AreaPlace { first, page_blocks, pages: (AREA_BYTES / page_bytes).max(LEAST_PAGES) }
    }

    /// Blocks of the area.
    pub fn blocks(&self) -> u64 {
        u64::from(self.pages * self.page_blocks)
    }

    /// Slots for single pages, behind the part for batches.
    pub fn single_slots(&self) -> u32 {
        self.pages - BATCH_PAGES
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
            singles: Semaphore::new(rt, "a double-write slot", place.single_slots().into()),
            free: RefCell::new((BATCH_PAGES..place.pages).collect()),
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

#[cfg(test)]
mod tests {
    use super::super::volume::Host;
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use tantalum_device::{Caps, Payload, PowerCycle, RamDevice, RamOptions};
    use tantalum_rt::{Nanos, Runtime};

    #[test]
    fn the_area_has_two_extents_and_all_but_a_batch_is_for_single_pages() {
        let sizes = [(4096, 392), (8192, 136), (16_384, 8), (32_768, 8), (65_536, 8)];
        for (page_bytes, slots) in sizes {
            for block_bytes in [512, 4096] {
                let place = AreaPlace::of(Block(7), page_bytes, page_bytes / block_bytes);
                assert_eq!(place.single_slots(), slots, "{page_bytes}");
                let bytes = place.blocks() * u64::from(block_bytes);
                assert_eq!(bytes, u64::from((slots + BATCH_PAGES) * page_bytes));
                assert!(bytes == 2 << 20 || page_bytes > 16_384);
            }
        }
    }

    /// As many pages as there are slots are copied at the same time, and one more waits. A recovery
    /// finds the copies of all, and those of a full batch.
    #[test]
    fn every_slot_of_the_area_is_used_and_read_by_a_recovery() {
        for page_bytes in [4096, 8192, 16_384] {
            let mut runtime = Runtime::virtual_time(1);
            let rt = runtime.handle();
            let place = AreaPlace::of(Block(3), page_bytes, page_bytes / 4096);
            let (slots, found) = runtime
                .block_on(async move {
                    let caps = Caps { blocks: 600, ..Caps::power_safe(600, Payload::Stamps) };
                    let device = RamDevice::new(&rt, RamOptions::new(caps));
                    let volume = Volume::new(&rt, device.device(), Host::PLAIN);
                    let area = Rc::new(DoubleWrite::new(&rt, volume.clone(), place));
                    let version = |n: u32| PageVersion { page: PageNo(n), lsn: Lsn(5) };
                    let batch: Vec<_> = (0..BATCH_PAGES).map(version).collect();
                    drop(area.batch(&batch).await.unwrap());
                    let mut guards = Vec::new();
                    for n in BATCH_PAGES..place.pages {
                        guards.push(area.single(version(n)).await.unwrap());
                    }
                    let waits = Rc::new(Cell::new(true));
                    let (other, done) = (area.clone(), waits.clone());
                    let last = rt.spawn_background("one page more", async move {
                        drop(other.single(version(place.pages)).await.unwrap());
                        done.set(false);
                    });
                    rt.sleep(Nanos::from_millis(100)).await;
                    assert!(waits.get(), "there is no slot for it");
                    let found = copies(&volume, place).await.unwrap();
                    let slots = guards.len() as u32;
                    drop(guards);
                    last.await.unwrap();
                    (slots, found)
                })
                .unwrap();
            assert_eq!(slots, place.single_slots());
            let pages: Vec<u32> = found.iter().map(|(page, _)| page.0).collect();
            let mut sorted = pages.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..place.pages).collect::<Vec<_>>(), "{page_bytes}");
        }
    }
}
