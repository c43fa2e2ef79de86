//! What fuzz targets do with their input. Ordinary tests do the same with the corpus, so that it
//! cannot rot.

#![allow(clippy::missing_panics_doc)] // That is how a fuzz target says that something is wrong.

pub mod cache;
pub mod control;
pub mod image;
pub mod media;
pub mod session;
