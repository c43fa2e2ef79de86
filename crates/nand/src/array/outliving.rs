//! An array in an image file, which outlives its process.

use super::{NandArray, OpError, State};
use crate::flight::Flight;
use crate::image::{ImageError, ImageFile};
use crate::medium::Store;
use crate::schedule::Schedule;
use crate::{PageAddr, Timing, Unit};
use std::rc::Rc;
use tantalum_rt::{Nanos, Rt};

impl State {
    /// Prepares an image for an operation at `at` that changes a unit. Called before it is issued.
    pub(super) fn prepare(&mut self, die: u32, now: Nanos, at: PageAddr) -> Result<(), OpError> {
        let Store::Image(store) = &mut self.store else { return Ok(()) };
        self.schedule.enter(die, now);
        let erased = self.schedule.book.take_erased().unwrap_or_default();
        erased.iter().for_each(|unit| store.lost(*unit));
        for unit in store.take_later().into_iter().chain(erased) {
            // (An erase that has not begun may have to restore the pages that it removed.)
            if !self.schedule.is_to_erase(unit) {
                store.give_back(unit);
            }
        }
        if !self.schedule.book.has_room() {
            return Err(OpError::Busy { at });
        }
        Ok(())
    }

    /// Waits until a unit may be programmed: a crash of the host no longer needs its former pages.
    pub(super) fn wait_until_free(&self, unit: Unit) -> Result<(), OpError> {
        match &self.store {
            Store::Image(store) if !store.is_free(unit) => Err(OpError::Host),
            _ => Ok(()),
        }
    }

    /// Called before the first page of a unit is programmed. The former pages are needed until a
    /// pending erase of the unit begins.
    pub(super) fn keep_former(&mut self, die: u32, unit: Unit) {
        if let Store::Image(store) = &mut self.store {
            let mut is_needed = false;
            self.schedule.keep_former(die, unit, |was| {
                is_needed = true;
                store.unload(unit, was)
            });
            if is_needed {
                // From now on the image says that they cannot be restored.
                store.lost(unit);
            }
        }
    }
}

impl NandArray {
    /// The array of an image file, with power. It continues from the moment at which the last
    /// process that had it ended, with the operations that were under way then. To stop those
    /// operations, cut the power at once.
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

    /// Whether the page has the content that was programmed, by its checksum. The answer is yes for
    /// pages that are erased or unreadable, and for every page in memory. This is not an operation
    /// and takes no time.
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

    /// The first page that was read since the last call and whose checksum did not match. Its
    /// reader saw an unreadable page, like one torn by a power cut.
    pub fn take_damaged(&self) -> Option<PageAddr> {
        match &self.state.borrow().store {
            Store::Ram(_) => None,
            Store::Image(store) => store.take_damaged(),
        }
    }

    /// From now on `publish` is called before each program and each erase. It is for memory that
    /// outlives the process like the cells, and that has to be up to date first. It must not use
    /// the array.
    pub fn before_changes(&self, publish: Option<Rc<dyn Fn()>>) {
        *self.before.borrow_mut() = publish;
    }

    /// Takes back programs of a unit's pages from `page` on, for which no task may be waiting. It
    /// is for an emergency dump that a killed process had begun: the dump begins anew.
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

    /// Calls the function set by [`NandArray::before_changes`].
    pub(super) fn publish(&self) {
        let before = self.before.borrow().clone();
        if let Some(publish) = before {
            publish();
        }
    }
}
