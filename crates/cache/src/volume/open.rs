//! Making and starting a volume on devices that have power.
//!
//! 1. While anything does not fit, nothing is changed.
//! 2. A new cache takes the place of a lost one only on a blank flash device, and only if the slow
//!    device has every page.

use crate::flash::{
    DeviceStore, FLASH, FlashCache, FormatOptions, NoHost, OpenError, OpenOptions, SLOW, SlowStore,
    complete, replace,
};
use crate::volume::core::Core;
use crate::volume::error::VolumeError;
use crate::volume::options::VolumeOptions;
use std::rc::Rc;
use tantalum_device::{Ack, BlockDevice, Caps, Payload};
use tantalum_rt::Rt;

/// Frames of a batch, at least: a write that is all or nothing may change two pages.
const FRAMES_MIN: u32 = 2;

fn check_payload<D: BlockDevice>(device: &D, name: &str) -> Result<(), VolumeError> {
    match device.caps().payload {
        Payload::Bytes => Ok(()),
        Payload::Stamps => {
            let why = format!("{name} carries stamps: use a device that stores bytes");
            Err(OpenError::Unsuitable(why).into())
        }
    }
}

/// What a volume over this slow device promises.
pub(crate) fn caps<D: BlockDevice>(slow: D, options: &FormatOptions) -> Result<Caps, VolumeError> {
    if options.frames < FRAMES_MIN {
        let why = format!("batches of one frame: a volume needs at least {FRAMES_MIN}");
        return Err(OpenError::Unsuitable(why).into());
    }
    check_payload(&slow, SLOW)?;
    let block = slow.caps().block_size;
    let store = DeviceStore::new(slow, options.page)?;
    let blocks = store.pages() * u64::from(options.page / block);
    Ok(Caps {
        block_size: block,
        ack: Ack::Volatile,
        ordered: false,
        atomic_unit: options.page,
        ..Caps::power_safe(blocks, Payload::Bytes)
    })
}

/// Makes an empty cache, and labels the slow device.
pub(crate) async fn format<F: BlockDevice + 'static, D: BlockDevice + Clone + 'static>(
    rt: &Rt,
    flash: &F,
    slow: D,
    options: &FormatOptions,
) -> Result<(), VolumeError> {
    check_payload(flash, FLASH)?;
    caps(slow.clone(), options)?;
    let store = DeviceStore::new(slow, options.page)?;
    Ok(FlashCache::format(rt, flash, &store, options).await?)
}

/// Starts the volume. Says whether a new cache has taken the place of a lost one.
pub(crate) async fn open<F: BlockDevice + Clone + 'static, D: BlockDevice + Clone + 'static>(
    rt: &Rt,
    flash: F,
    slow: D,
    options: &VolumeOptions,
) -> Result<(Core<F, D>, bool), VolumeError> {
    let VolumeOptions { format, cache } = options;
    check_payload(&flash, FLASH)?;
    let caps = caps(slow.clone(), format)?;
    let store = DeviceStore::new(slow, format.page)?;
    // What reads see there survives.
    store.flush().await.map_err(VolumeError::slow)?;
    let cache = OpenOptions {
        mode: Some(format.mode),
        slow_identity: format.slow_identity,
        page: Some(format.page),
        ..cache.clone()
    };
    let open =
        || FlashCache::open(rt, flash.clone(), store.clone(), Rc::new(NoHost), cache.clone());
    let (opened, replaced) = match open().await {
        Err(OpenError::NoCache) => {
            replace(rt, &flash, &store, format).await?;
            (open().await?, true)
        }
        opened => (opened?, false),
    };
    complete(opened.core()).await?;
    Ok((Core::new(rt, opened, caps), replaced))
}
