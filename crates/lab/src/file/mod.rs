//! Files of experiments and of explorations, as values.

pub mod crash;
pub mod entry;
pub mod experiment;
pub mod kinds;
pub mod quick;
pub mod scene;
pub(crate) mod source;

pub use tantalum_drive::parse;
