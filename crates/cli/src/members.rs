//! What a flash log or a cache volume is made of: its description, a file `NAME.toml`, and its
//! devices, opened.

mod cache;
mod codes;
mod description;
mod devices;
mod in_words;
mod kind;
mod member;
mod missing;
mod model;
mod served;

pub use cache::{
    Admit, CacheDescription, CacheDevices, Clean, LabelPlace, Policy, Sync, Volume, cache_in_words,
    cache_told, cache_volume, describes_nothing, is_cache, is_log, of_options, usual_batch,
};
pub use codes::{cache_open_code, cache_volume_code, log_code, open_code, volume_code};
pub use description::{Description, Group, ONE_COPY, Replaced, is_description};
pub use devices::{Devices, Members, linked, no_device, not_there, open, open_each, runtime};
pub use in_words::{in_words, in_words_of_replace, put_another};
pub use kind::no_description;
pub use member::{Member, MemberLink};
pub use missing::{Files, lacks_room, make, make_missing};
pub use model::{CHUNK_KIB, absolute, array_of, model_of, other_size};
pub use served::ServedLog;

use std::path::Path;
use tantalum_log::LogVolume;
use tantalum_nand::Opening;
use tantalum_rt::Runtime;

/// The volume of a description, without power, and its log. On models it is new.
///
/// # Errors
/// What is wrong, in a line.
pub fn volume(
    runtime: &mut Runtime,
    path: &Path,
    opening: Opening,
) -> Result<(LogVolume<Member, Member>, ServedLog), String> {
    let (rt, description) = (runtime.handle(), Description::read(path)?);
    let devices = Devices::open(&rt, &description, opening)?;
    let members = devices.members();
    let volume = devices.volume(&rt, &description, false)?;
    let served = |volume: LogVolume<Member, Member>, members| {
        let log = ServedLog::new(&rt, &volume, members, (path, description.clone()), opening);
        (volume, log)
    };
    if !description.is_modelled() {
        return Ok(served(volume, members));
    }
    let name = path.display();
    crate::out::note(format_args!("{name}: the log is made on models, in their time ..."));
    let (made, create) = (volume.clone(), description.options());
    let format = async move {
        members.power_on().await?;
        made.format(&create).await.map_err(in_words)?;
        members.end().await?;
        Ok::<Members, String>(members)
    };
    let members = runtime.block_on(format).map_err(|e| format!("the log has stalled: {e}"))??;
    Ok(served(volume, members))
}
