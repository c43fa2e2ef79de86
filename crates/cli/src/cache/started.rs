//! A volume that a command starts for itself, while nobody serves it.

use crate::members::{CacheDescription, CacheDevices, Volume, cache_volume_code, runtime};
use crate::out;
use std::path::Path;
use tantalum_device::{LiveBox, PowerCycle, StartError};
use tantalum_nand::Opening;

/// Why a command failed, and its exit code.
pub type Failed = (String, u8);

/// Starts the volume of a description, lets `work` use it, and takes its power. Returns what `work`
/// says.
///
/// # Errors
/// What is wrong, in a line.
pub fn with_volume<T: 'static>(
    path: &Path,
    work: impl AsyncFnOnce(&Volume) -> Result<T, String> + 'static,
) -> Result<T, Failed> {
    let usage = |why| (why, out::USAGE);
    let failed = |why: String| (format!("{}: {why}", path.display()), out::FAILED);
    let description = CacheDescription::lasting(path).map_err(usage)?;
    let mut runtime = runtime().map_err(usage)?;
    let rt = runtime.handle();
    let devices = CacheDevices::made(&rt, &description, Opening::default()).map_err(usage)?;
    let volume = devices.volume(&rt, &description).map_err(usage)?;
    let told = description.clone();
    let used = async move {
        let done = match volume.bring_up(false).await {
            Ok(said) => {
                said.iter().for_each(out::note);
                work(&volume).await
            }
            Err(StartError::Failed(why)) => Err(why),
            Err(_) => Err("it does not start".to_string()),
        };
        let code =
            volume.start_failure().map_or(out::FAILED, |failure| cache_volume_code(&failure));
        volume.cut();
        volume.off().await;
        let shut = devices.members().shut();
        done.and_then(|done| shut.map(|()| done)).map_err(|why| (told.told(why), code))
    };
    let ended = runtime.block_on(used);
    let ended = ended.map_err(|e| failed(format!("the devices do not answer: {e}")))?;
    ended.map_err(|(why, code)| (failed(why).0, code))
}
