//! What a flash log is made of: its description, a file `NAME.toml`, and its devices, opened.

mod description;
mod devices;

pub use description::{Description, is_description};
pub use devices::{Devices, in_words, runtime};

use std::path::Path;
use tantalum_device::File;
use tantalum_log::LogVolume;
use tantalum_rt::Rt;

/// The volume of a description, without power.
///
/// # Errors
/// What is wrong, in a line.
pub fn volume(rt: &Rt, path: &Path, salvage: bool) -> Result<LogVolume<File, File>, String> {
    let description = Description::read(path)?;
    Devices::open(rt, &description, false)?.volume(rt, &description, salvage, false)
}
