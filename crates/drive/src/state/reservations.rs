//! How much of the map may change soon (`firmware/reservations`).

use std::collections::BTreeMap;

/// What is reserved.
#[derive(Default)]
pub(crate) struct Reservations {
    /// Entries: of the map, or of the journal of units.
    pub entries: u32,
    /// Map pages, and by how many operations each.
    pub pages: BTreeMap<u32, u32>,
}

/// A reservation, to be given back.
#[must_use = "give it back to `end_changes`"]
pub(crate) struct Reserved {
    pub entries: u32,
    pub pages: Vec<u32>,
}
