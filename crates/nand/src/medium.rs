//! The cells, in memory or in an image file, with one set of rules for both.
//!
//! 1. An operation has the same effect on both kinds of store, as far as the array shows it.
//! 2. The process may end after each step of an image: see `image`.

use crate::flight::Effect;
use crate::geometry::SECTOR_BYTES;
use crate::image::ImageStore;
use crate::schedule::Schedule;
use crate::store::{PageState, RamStore, UnitState};
use crate::{Geometry, PageAddr, Unit};
use tantalum_device::{Data, DataMut, Payload};

/// The cells of all units.
pub(crate) enum Store {
    Ram(RamStore),
    Image(Box<ImageStore>),
}

impl Clone for Store {
    /// Cells in memory are shared until either side writes. Cells of an image are read into memory.
    fn clone(&self) -> Store {
        Store::Ram(match self {
            Store::Ram(store) => store.clone(),
            Store::Image(store) => store.to_ram(),
        })
    }
}

/// Calls the same function of either kind.
macro_rules! either {
    ($self:expr, $store:ident => $call:expr) => {
        match $self {
            Store::Ram($store) => $call,
            Store::Image($store) => $call,
        }
    };
}

impl Store {
    /// A blank store in memory.
    pub fn new(geometry: &Geometry, kind: Payload, words: usize) -> Store {
        Store::Ram(RamStore::new(geometry, kind, words))
    }

    /// A unit, with its cells if they are in memory.
    pub fn unit(&self, unit: Unit) -> &UnitState {
        either!(self, s => s.unit(unit))
    }

    /// How many pages these sectors fill; `None` if that is not a whole number.
    pub fn pages_in(&self, sectors: &[Data<'_>]) -> Option<u32> {
        let in_page = either!(self, s => s.page_sectors());
        let whole = sectors.iter().all(|sector| sector.blocks(SECTOR_BYTES) == Some(1));
        if !whole || !sectors.len().is_multiple_of(in_page) {
            return None;
        }
        u32::try_from(sectors.len() / in_page).ok()
    }

    /// Writes pages after those that a unit has. They count once [`Store::advance`] is called. The
    /// caller has checked the rules.
    pub fn fill(&mut self, at: PageAddr, sectors: &[Data<'_>], oob: &[u64]) {
        either!(self, s => s.fill(at, sectors, oob));
    }

    /// Sets the first unprogrammed page of a unit.
    pub fn advance(&mut self, unit: Unit, next: u32) {
        match self {
            Store::Ram(store) => store.unit_mut(unit).next = next,
            Store::Image(store) => store.advance(unit, next),
        }
    }

    /// Undoes the program of these pages, the last of their unit. With `failed` it also undoes the
    /// tearing.
    pub fn undo(&mut self, at: PageAddr, count: u32, failed: bool) {
        match self {
            Store::Ram(store) => store.undo(at, count, failed),
            Store::Image(store) => store.advance(at.unit, at.page),
        }
    }

    /// The state of a unit before an erase. Cells in memory move along.
    pub fn detach(&mut self, unit: Unit) -> UnitState {
        match self {
            Store::Ram(store) => {
                let u = store.unit_mut(unit);
                UnitState { cells: u.cells.take(), ..u.clone() }
            }
            Store::Image(store) => store.unit(unit).clone(),
        }
    }

    /// Erases a unit.
    pub fn erase(&mut self, unit: Unit) {
        let change = |u: &mut UnitState| {
            u.next = 0;
            u.half_erased = false;
            u.erase_count += 1;
        };
        match self {
            Store::Ram(store) => change(store.unit_mut(unit)),
            Store::Image(store) => store.change(unit, change),
        }
    }

    /// Undoes the erase of a unit.
    pub fn restore(&mut self, unit: Unit, was: UnitState) {
        match self {
            Store::Ram(store) => *store.unit_mut(unit) = was,
            Store::Image(store) => store.restore(unit, was),
        }
    }

    /// Completes a copy of the schedule that goes with a clone: its erases get the cells that they
    /// may have to restore.
    pub fn complete(&self, schedule: &mut Schedule) {
        let Store::Image(store) = self else { return };
        for flight in schedule.dies.iter_mut().flatten() {
            if let Effect::Erase { unit, was } = &mut flight.effect
                && was.cells.is_none()
            {
                *was = store.unload(*unit, was);
            }
        }
    }

    /// Marks that an erase of the unit was torn or failed.
    pub fn spoil(&mut self, unit: Unit) {
        match self {
            Store::Ram(store) => store.unit_mut(unit).half_erased = true,
            Store::Image(store) => store.change(unit, |u| u.half_erased = true),
        }
    }

    /// Makes the page unreadable.
    pub fn tear(&mut self, at: PageAddr) {
        either!(self, s => s.tear(at));
    }

    /// The state of a page.
    pub fn state(&self, at: PageAddr) -> PageState {
        either!(self, s => s.state(at))
    }

    /// The same for a read. A page of an image whose checksum does not match cannot be read.
    pub fn state_of_read(&self, at: PageAddr) -> PageState {
        match self {
            Store::Ram(store) => store.state(at),
            Store::Image(store) => store.state_of_read(at),
        }
    }

    /// Copies sectors of a page from `first` on, as many as `out` has room for; zeros if the page
    /// is not programmed.
    pub fn copy_out(&self, at: PageAddr, first: usize, out: DataMut<'_>) {
        either!(self, s => s.copy_out(at, first, out));
    }

    /// Copies the out-of-band words of a page; zeros if the page is not programmed.
    pub fn copy_oob(&self, at: PageAddr, out: &mut [u64]) {
        either!(self, s => s.copy_oob(at, out));
    }

    /// The kind of payload.
    pub fn kind(&self) -> Payload {
        either!(self, s => s.kind())
    }

    /// The number of out-of-band words of a page.
    pub fn words(&self) -> usize {
        either!(self, s => s.words())
    }
}
