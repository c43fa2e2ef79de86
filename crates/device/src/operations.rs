//! The operations of a medium, so that the power can be cut before, inside and after each.

use std::cell::RefCell;
use tantalum_rt::Nanos;

/// One operation of a medium. A cut before, inside or right after it may leave something else
/// behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When it was issued.
    pub issued: Nanos,
    /// When the medium began.
    pub begin: Nanos,
    /// When the medium ended.
    pub end: Nanos,
    /// Whether it changes what the medium holds.
    pub changes: bool,
}

/// Operations, kept while somebody wants them.
#[derive(Default)]
pub(crate) struct Operations(RefCell<Option<Vec<Operation>>>);

impl Operations {
    /// Keeps the operations from now on.
    pub fn record(&self) {
        self.0.borrow_mut().get_or_insert_default();
    }

    /// Returns the operations kept so far, and stops keeping them.
    pub fn take(&self) -> Vec<Operation> {
        self.0.borrow_mut().take().unwrap_or_default()
    }

    pub fn add(&self, operation: Operation) {
        if let Some(all) = &mut *self.0.borrow_mut() {
            all.push(operation);
        }
    }
}
