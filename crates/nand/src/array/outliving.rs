//! An array that outlives its process: in an image file.

use super::{NandArray, OpError, State};
use crate::flight::Flight;
use crate::image::{ImageError, ImageFile};
use crate::medium::Store;
use crate::schedule::Schedule;
use crate::{PageAddr, Timing, Unit};
use std::rc::Rc;
use tantalum_rt::{Nanos, Rt};

impl State {
    /// Before anything is issued that changes a unit, at `at`: of an image.
    pub(super) fn prepare(&mut self, die: u32, now: Nanos, at: PageAddr) -> Result<(), OpError> {
        let Store::Image(store) = &mut self.store else { return Ok(()) };
        self.schedule.enter(die, now);
        let erased = self.schedule.book.take_erased().unwrap_or_default();
        erased.iter().for_each(|unit| store.lost(*unit));
        for unit in store.take_later().into_iter().chain(erased) {
            // (An erase that has not begun may have to put back what it took away.)
            if !self.schedule.is_to_erase(unit) {
                store.give_back(unit);
            }
        }
        if !self.schedule.book.has_room() {
            return Err(OpError::Busy { at });
        }
        Ok(())
    }

    /// The unit may be programmed: what it had before is not needed after a crash of the host.
    pub(super) fn wait_until_free(&self, unit: Unit) -> Result<(), OpError> {
        match &self.store {
            Store::Image(store) if !store.is_free(unit) => Err(OpError::Host),
            _ => Ok(()),
        }
    }

    /// The first page of a unit is going to be programmed: what an erase that has not begun takes
    /// away is needed until it does.
    pub(super) fn keep_former(&mut self, die: u32, unit: Unit) {
        if let Store::Image(store) = &mut self.store {
            let mut is_needed = false;
            self.schedule.keep_former(die, unit, |was| {
                is_needed = true;
                store.unload(unit, was)
            });
            if is_needed {
                // The image says now that they cannot be put back.
                store.lost(unit);
            }
        }
    }
}

impl NandArray {
    /// The array of an image file, with power: it goes on at the moment at which the last process
    /// that had it ended, with what was under way then. To stop those operations, take the power
    /// away at once.
    ///
    /// # Errors
    /// [`ImageError`] says what is wrong with the file.
    pub fn on_image(rt: &Rt, image: &ImageFile, timing: &Timing) -> Result<NandArray, ImageError> {
        let geometry = image.spec().geometry.clone();
        let (mut store, book, flights) = image.parts(rt.now())?;
        let busy: Vec<Unit> = flights.iter().filter_map(Flight::erases).collect();
        store.give_all_back(&busy);
        let schedule = Schedule::with_book(&geometry, book, flights);
        let store = Store::Image(Box::new(store));
        let array = NandArray::build(rt, geometry, timing.clone(), schedule, store);
        array.power_on();
        Ok(array)
    }

    /// Whether the page is what was programmed, by its checksum; one that is erased or cannot be
    /// read is, and so is every page in memory. No operation, and no time passes.
    ///
    /// # Panics
    /// If there is no such page.
    pub fn verify(&self, at: PageAddr) -> bool {
        assert!(self.check(at, 1).is_ok(), "no page {} in unit {}", at.page, at.unit.0);
        match &self.state.borrow().store {
            Store::Ram(_) => true,
            Store::Image(store) => store.is_intact(at),
        }
    }

    /// The first page read since the last call whose checksum did not hold. Its reader saw a page
    /// that cannot be read, like one torn by a power cut.
    pub fn take_damaged(&self) -> Option<PageAddr> {
        match &self.state.borrow().store {
            Store::Ram(_) => None,
            Store::Image(store) => store.take_damaged(),
        }
    }

    /// From now on `publish` is called before each program and each erase. It is for memory that
    /// outlives the process like the cells, and that must be brought up to date first. It must not
    /// use the array.
    pub fn before_changes(&self, publish: Option<Rc<dyn Fn()>>) {
        *self.before.borrow_mut() = publish;
    }

    /// Pages of a unit from `page` on have never been programmed, and nobody is about to. For an
    /// emergency dump that a killed process had begun: the dump begins anew.
    ///
    /// # Panics
    /// If there is no such unit.
    pub fn take_back(&self, unit: Unit, page: u32) {
        let s = &mut *self.state.borrow_mut();
        s.schedule.take_back(self.geometry.die(unit), unit, page);
        if s.store.unit(unit).next > page {
            s.store.advance(unit, page);
        }
    }

    /// Memory that has to know of changes before they are made.
    pub(super) fn publish(&self) {
        let before = self.before.borrow().clone();
        if let Some(publish) = before {
            publish();
        }
    }
}
