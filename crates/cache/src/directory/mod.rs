//! The directory of the cache: a ring of entries, one for each frame of flash, and a hash table from
//! pages to frames, in memory that the caller supplies.

mod layout;

pub use layout::{BATCH_MAX, Shape, ShapeError};
