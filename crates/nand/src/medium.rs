//! Where the cells are: in memory, or in an image file. One set of rules for both.
//!
//! 1. What is done to one kind of store has the same effect as on the other, as far as it can
//!    be seen through the array.
//! 2. Of an image each step can be the last one: see `image`.

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
    /// Cells in memory are shared until either side writes; those of an image are read.
    fn clone(&self) -> Store {
        Store::Ram(match self {
            Store::Ram(store) => store.clone(),
            Store::Image(store) => store.to_ram(),
        })
    }
}

/// The same function of whichever it is.
macro_rules! either {
    ($self:expr, $store:ident => $call:expr) => {
        match $self {
            Store::Ram($store) => $call,
            Store::Image($store) => $call,
        }
    };
}

impl Store {
    /// In memory, blank.
    pub fn new(geometry: &Geometry, kind: Payload, words: usize) -> Store {
        Store::Ram(RamStore::new(geometry, kind, words))
    }

    /// A unit; its cells only if it is in memory.
    pub fn unit(&self, unit: Unit) -> &UnitState {
        either!(self, s => s.unit(unit))
    }

    /// How many pages these sectors fill; `None` if not a whole number.
    pub fn pages_in(&self, sectors: &[Data<'_>]) -> Option<u32> {
        let in_page = either!(self, s => s.page_sectors());
        let whole = sectors.iter().all(|sector| sector.blocks(SECTOR_BYTES) == Some(1));
        if !whole || !sectors.len().is_multiple_of(in_page) {
            return None;
        }
        u32::try_from(sectors.len() / in_page).ok()
    }

    /// Puts pages behind those that a unit has; they count from [`Store::advance`] on. The rules
    /// have been checked.
    pub fn fill(&mut self, at: PageAddr, sectors: &[Data<'_>], oob: &[u64]) {
        either!(self, s => s.fill(at, sectors, oob));
    }

    /// A unit has pages up to `next`.
    pub fn advance(&mut self, unit: Unit, next: u32) {
        match self {
            Store::Ram(store) => store.unit_mut(unit).next = next,
            Store::Image(store) => store.advance(unit, next),
        }
    }

    /// The program of these pages, the last of their unit, has never been; `failed`:
    /// what it tore neither.
    pub fn undo(&mut self, at: PageAddr, count: u32, failed: bool) {
        match self {
            Store::Ram(store) => store.undo(at, count, failed),
            Store::Image(store) => store.advance(at.unit, at.page),
        }
    }

    /// A unit that is going to be erased, as it was; its cells go along if they are in memory.
    pub fn detach(&mut self, unit: Unit) -> UnitState {
        match self {
            Store::Ram(store) => {
                let u = store.unit_mut(unit);
                UnitState { cells: u.cells.take(), ..u.clone() }
            }
            Store::Image(store) => store.unit(unit).clone(),
        }
    }

    /// A unit is erased once more.
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

    /// The erase of a unit has never been: it is as it was.
    pub fn restore(&mut self, unit: Unit, was: UnitState) {
        match self {
            Store::Ram(store) => *store.unit_mut(unit) = was,
            Store::Image(store) => store.restore(unit, was),
        }
    }

    /// Of a copy of the schedule that goes with a clone: what its erases took away, it has.
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

    /// An erase of the unit was torn, or failed.
    pub fn spoil(&mut self, unit: Unit) {
        match self {
            Store::Ram(store) => store.unit_mut(unit).half_erased = true,
            Store::Image(store) => store.change(unit, |u| u.half_erased = true),
        }
    }

    /// The page cannot be read any more.
    pub fn tear(&mut self, at: PageAddr) {
        either!(self, s => s.tear(at));
    }

    /// What a read finds in a page.
    pub fn state(&self, at: PageAddr) -> PageState {
        either!(self, s => s.state(at))
    }

    /// The same of a page that is read: one in an image that is not what was programmed cannot
    /// be read.
    pub fn state_of_read(&self, at: PageAddr) -> PageState {
        match self {
            Store::Ram(store) => store.state(at),
            Store::Image(store) => store.state_of_read(at),
        }
    }

    /// Copies sectors `first..` of a page, as many as `out` has room for; zeros if it
    /// is not programmed.
    pub fn copy_out(&self, at: PageAddr, first: usize, out: DataMut<'_>) {
        either!(self, s => s.copy_out(at, first, out));
    }

    /// Copies the out-of-band words of a page; zeros if it is not programmed.
    pub fn copy_oob(&self, at: PageAddr, out: &mut [u64]) {
        either!(self, s => s.copy_oob(at, out));
    }

    /// Which payload is kept.
    pub fn kind(&self) -> Payload {
        either!(self, s => s.kind())
    }

    /// Out-of-band words of a page.
    pub fn words(&self) -> usize {
        either!(self, s => s.words())
    }
}
