//! The boxes of a volume's log, one of which may be about to be replaced.
//!
//! 1. A new box has the place of the lost one from the moment the log is told of it. So no cut
//!    passes it by, and a start finds it whenever the log may count on it.
//! 2. What a new box holds that is not known to have joined is only looked at if it is of this
//!    log. Then the log knows whether it has joined.

use crate::LogDevice;
use crate::create::find;
use crate::superblock::{FoundSuper, Uuid};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::PowerCycle;

/// A box and its name.
pub(super) struct Place<L> {
    pub name: String,
    pub of: L,
    /// Whether it is the archive, when the log is made.
    pub archive: bool,
    /// The log that it is about to join; `None`: it belongs to the log.
    joining: Cell<Option<Uuid>>,
}

impl<L> Place<L> {
    fn new((name, of): (String, L), archive: bool) -> Rc<Place<L>> {
        Rc::new(Place { name, of, archive, joining: Cell::new(None) })
    }

    /// Whether it is not known to belong to the log.
    pub fn is_joining(&self) -> bool {
        self.joining.get().is_some()
    }
}

impl<L: PowerCycle> Place<L> {
    /// Its device, if that is to be looked at (2).
    pub async fn device(&self) -> Option<LogDevice<L::Device>> {
        let device = self.of.device();
        if let Some(log) = self.joining.get() {
            let found = find(&device).await;
            if !matches!(found, Ok(FoundSuper::Good(superblock)) if superblock.set == log) {
                return None;
            }
        }
        Some(LogDevice::new(self.name.clone(), device))
    }
}

/// All boxes of the log.
pub(super) struct Places<L>(RefCell<Vec<Rc<Place<L>>>>);

impl<L: PowerCycle> Places<L> {
    pub fn new(array: Vec<(String, L)>, archive: Option<(String, L)>) -> Places<L> {
        let array = array.into_iter().map(|named| Place::new(named, false));
        let archive = archive.into_iter().map(|named| Place::new(named, true));
        Places(RefCell::new(array.chain(archive).collect()))
    }

    pub fn all(&self) -> Vec<Rc<Place<L>>> {
        self.0.borrow().clone()
    }

    /// The log was opened with these devices: what was about to join has done so, or goes.
    pub fn settle(&self, takes_part: impl Fn(&str) -> bool) {
        self.0.borrow_mut().retain(|place| {
            let stays = !place.is_joining() || takes_part(&place.name);
            if stays {
                place.joining.set(None);
            } else {
                place.of.cut();
            }
            stays
        });
    }

    /// Another box comes, which is about to join this log, in the place of whichever is not called
    /// so.
    pub fn put(&self, new: (String, L), log: Uuid, is_other: impl Fn(&str) -> bool) -> Put<'_, L> {
        let mut all = self.0.borrow_mut();
        let old: Vec<_> = all.extract_if(.., |place| !is_other(&place.name)).collect();
        let new = Place::new(new, old.iter().any(|old| old.archive));
        new.joining.set(Some(log));
        all.push(new.clone());
        Put { places: self, old, new }
    }
}

/// A box that has just come to a place.
pub(super) struct Put<'a, L> {
    places: &'a Places<L>,
    old: Vec<Rc<Place<L>>>,
    pub new: Rc<Place<L>>,
}

impl<L: PowerCycle> Put<'_, L> {
    /// It stays, whether it is known to have joined or not.
    pub fn stays(self, joined: bool) {
        if joined {
            self.new.joining.set(None);
        }
        self.old.iter().for_each(|old| old.of.cut());
    }

    /// It goes away again.
    pub async fn goes(self) {
        {
            let mut all = self.places.0.borrow_mut();
            all.retain(|place| !Rc::ptr_eq(place, &self.new));
            all.extend(self.old);
        }
        self.new.of.cut();
        self.new.of.off().await;
    }
}
