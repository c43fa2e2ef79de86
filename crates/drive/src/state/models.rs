//! The drive's parts against small models that are plainly right.

mod buffer;
mod dirty;
mod space;
mod victims;
