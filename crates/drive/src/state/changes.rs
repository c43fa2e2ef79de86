//! What has changed since the last call.

use std::cell::RefCell;

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
