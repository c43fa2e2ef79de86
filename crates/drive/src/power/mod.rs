//! From the cut until the power is off: the emergency dump, its energy and its space.

pub(crate) mod areas;
pub(crate) mod dump;
pub(crate) mod supply;
