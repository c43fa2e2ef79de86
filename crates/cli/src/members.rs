//! What a flash log is made of: its description, a file `NAME.toml`, and its devices, opened.

mod description;
mod devices;
mod member;
mod model;

pub use description::{Description, is_description};
pub use devices::{Devices, in_words, linked, open, runtime};
pub use member::Member;
pub use model::{is_model, model_of};

use std::path::Path;
use tantalum_device::PowerCycle;
use tantalum_log::LogVolume;
use tantalum_rt::Runtime;

/// The volume of a description, without power. On models it is new.
///
/// # Errors
/// What is wrong, in a line.
pub fn volume(
    runtime: &mut Runtime,
    path: &Path,
    salvage: bool,
) -> Result<LogVolume<Member, Member>, String> {
    let (rt, description) = (runtime.handle(), Description::read(path)?);
    let devices = Devices::open(&rt, &description, false)?;
    let modelled = description.is_modelled();
    let members: Vec<Member> = match modelled {
        true => devices.all().cloned().collect(),
        false => Vec::new(),
    };
    let volume = devices.volume(&rt, &description, salvage, false)?;
    if modelled {
        let name = path.display();
        crate::out::note(format_args!("{name}: the log is made on models, in their time ..."));
        let (made, create) = (volume.clone(), description.options());
        let format = async move {
            for member in &members {
                member.power_on().await.map_err(in_words)?;
            }
            made.format(&create).await.map_err(in_words)?;
            made.cut();
            made.off().await;
            Ok::<(), String>(())
        };
        runtime.block_on(format).map_err(|e| format!("the log has stalled: {e}"))??;
    }
    Ok(volume)
}
