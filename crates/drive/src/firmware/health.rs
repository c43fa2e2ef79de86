//! Whether the drive works: only the core changes that.
//!
//! 1. A drive that is poisoned stays so until the power goes: nothing is programmed any more.
//! 2. Read-only is permanent: once reported, it survives every restart (`retire`, 5).

use crate::firmware::Firmware;
use crate::format::words::Version;
use std::cell::Cell;

#[derive(Clone, Default)]
pub(crate) struct Health {
    poisoned: Cell<bool>,
    /// A step that would have destroyed data was stopped: which.
    defect: Cell<Option<&'static str>>,
    /// The version of the map that says that the drive's life is over.
    pub(super) ending: Cell<Option<Version>>,
    /// The end of the drive's life is why it is poisoned.
    pub(super) read_only: Cell<bool>,
    /// It was so at the start already: the dump that was replayed then still holds.
    began_read_only: Cell<bool>,
}

impl Health {
    /// The drive is poisoned; whether it was before.
    pub(super) fn poison(&self) -> bool {
        self.poisoned.replace(true)
    }

    /// A step was stopped that would have destroyed data.
    pub(super) fn stop(&self, why: &'static str) {
        if self.defect.get().is_none() {
            self.defect.set(Some(why));
        }
    }

    /// What a dump says of it.
    pub(super) fn protected_copy(&self) -> Health {
        let copy = self.clone();
        copy.defect.set(None);
        copy.ending.set(None);
        copy
    }
}

impl Firmware {
    /// Whether nothing is programmed any more; nobody waits for that.
    pub fn is_poisoned(&self) -> bool {
        self.health.poisoned.get()
    }

    /// The step that was stopped since it would have destroyed data, if one was.
    pub fn defect(&self) -> Option<&'static str> {
        self.health.defect.get()
    }

    /// Whether the drive's life ends as soon as that is durable.
    pub fn is_ending(&self) -> bool {
        self.health.ending.get().is_some()
    }

    /// Whether the end of its life is why the drive is poisoned.
    pub fn is_read_only(&self) -> bool {
        self.health.read_only.get()
    }

    /// Whether it was so at the start already.
    pub fn began_read_only(&self) -> bool {
        self.health.began_read_only.get()
    }

    /// At recovery: the drive only reads, and what was dumped still holds.
    pub fn begin_read_only(&self) {
        self.health.began_read_only.set(true);
    }

    /// What a process left behind, for a dump.
    pub fn was_read_only(&self, now: bool, from_start: bool) {
        self.health.read_only.set(now);
        self.health.began_read_only.set(from_start);
    }
}
