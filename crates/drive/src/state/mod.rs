//! What the firmware remembers. Nothing here waits, and nothing here touches flash.

pub(crate) mod audit;
pub(crate) mod buffer;
pub(crate) mod census;
pub(crate) mod changes;
pub(crate) mod dump_areas;
pub(crate) mod grants;
pub(crate) mod groups;
pub(crate) mod journal;
pub(crate) mod map;
pub(crate) mod maplog;
#[cfg(test)]
mod models;
pub(crate) mod reservations;
pub(crate) mod space;
pub(crate) mod victims;
pub(crate) mod wear;
