//! Whether the drive works: only the core changes that.
//!
//! 1. A drive that is poisoned stays so until the power goes: nothing is programmed any more.
//! 2. Read-only, once reported, survives every restart, except where `retire` (6) says otherwise.

use crate::format::words::Version;
use std::cell::Cell;

#[derive(Clone, Default)]
pub(crate) struct Health {
    pub(super) poisoned: Cell<bool>,
    /// Why the drive has stopped itself: the step that would have destroyed data and was not taken, or
    /// that the host did not keep what it was given.
    pub(super) defect: Cell<Option<&'static str>>,
    /// The version of the map that says that the drive's life is over.
    pub(super) ending: Cell<Option<Version>>,
    /// The drive is poisoned because its life is over.
    pub(super) read_only: Cell<bool>,
    /// It was so at the start already. The dump that was replayed then stays valid.
    pub(super) began_read_only: Cell<bool>,
}

impl Health {
    /// The drive is poisoned; whether it was before.
    pub(super) fn poison(&self) -> bool {
        self.poisoned.replace(true)
    }

    /// The drive stops itself. The first reason counts.
    pub(super) fn stop(&self, why: &'static str) {
        if self.defect.get().is_none() {
            self.defect.set(Some(why));
        }
    }

    /// The part that a dump has.
    pub(super) fn protected_copy(&self) -> Health {
        let copy = self.clone();
        copy.defect.set(None);
        copy.ending.set(None);
        copy
    }
}
