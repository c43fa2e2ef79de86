//! What has changed since the last call.

use std::cell::{Cell, Ref, RefCell, RefMut};

/// Notes of what has changed, for one reader that takes them now and then. No notes are taken
/// before [`Changes::watch`].
#[derive(Clone)]
pub struct Changes<T>(Option<RefCell<Vec<T>>>);

impl<T> Default for Changes<T> {
    fn default() -> Changes<T> {
        Changes(None)
    }
}

impl<T: Ord> Changes<T> {
    /// Changes are noted from now on.
    pub fn watch(&mut self) {
        self.0 = Some(RefCell::default());
    }

    /// Whether changes are noted.
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// This has changed.
    pub fn note(&mut self, what: T) {
        if let Some(noted) = &mut self.0 {
            noted.get_mut().push(what);
        }
    }

    /// Puts into `out` what was noted since this was called before, in order, each once.
    pub fn take(&self, out: &mut Vec<T>) {
        out.clear();
        if let Some(noted) = &self.0 {
            std::mem::swap(out, &mut noted.borrow_mut());
            out.sort_unstable();
            out.dedup();
        }
    }
}

/// A value that knows whether it may have changed since somebody asked.
#[derive(Clone, Default)]
pub struct Watched<T> {
    value: RefCell<T>,
    changed: Cell<bool>,
}

impl<T> Watched<T> {
    /// The value, to be read.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.value.borrow()
    }

    /// The value, to be changed.
    pub fn borrow_mut(&self) -> RefMut<'_, T> {
        self.changed.set(true);
        self.value.borrow_mut()
    }

    /// Whether it may have changed since this was called before.
    pub fn take_changed(&self) -> bool {
        self.changed.replace(false)
    }
}
