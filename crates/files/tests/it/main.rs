//! The layer of files, with power cuts and without.

mod crash;
mod group;
mod layer;
