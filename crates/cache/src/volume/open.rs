//! Making and starting a volume on devices that have power.
//!
//! 1. While anything does not fit, nothing is changed.
//! 2. A new cache takes the place of a lost one only on a blank flash device, and only if the slow
//!    device has every page.

use crate::flash::{
    Admit, DeviceStore, FLASH, FRAMES_MAX, FlashCache, LABEL_BYTES, NoHost, OpenError, OpenOptions,
    SLOW, SlowStore, complete, io, replace,
};
use crate::volume::core::Core;
use crate::volume::error::VolumeError;
use crate::volume::options::VolumeOptions;
use std::ops::RangeInclusive;
use std::rc::Rc;
use tantalum_device::{Ack, Block, BlockDevice, Caps, DataMut, Payload, counted};
use tantalum_rt::Rt;

/// How many pages a batch of a volume can have: a write that is all or nothing may change two.
pub const BATCH_PAGES: RangeInclusive<u32> = 2..=FRAMES_MAX;

fn check_payload<D: BlockDevice>(device: &D, name: &str) -> Result<(), VolumeError> {
    match device.caps().payload {
        Payload::Bytes => Ok(()),
        Payload::Stamps => {
            let why = format!("{name} carries stamps: use a device that stores bytes");
            Err(OpenError::Unsuitable(why).into())
        }
    }
}

/// The slow store on a device.
fn store_on<D: BlockDevice>(slow: D, options: &VolumeOptions) -> Result<DeviceStore<D>, OpenError> {
    match options.adopts {
        true => DeviceStore::adopting(slow, options.format.page),
        false => DeviceStore::new(slow, options.format.page),
    }
}

/// What a volume over this slow device promises.
pub(crate) fn caps<D: BlockDevice>(slow: D, options: &VolumeOptions) -> Result<Caps, VolumeError> {
    let frames = options.format.frames;
    if !BATCH_PAGES.contains(&frames) {
        let (least, most) = (BATCH_PAGES.start(), BATCH_PAGES.end());
        let pages = counted(frames.into(), "page", "pages");
        let why = format!("batches of {pages}: give {least} to {most}, 64 is usual");
        return Err(OpenError::Unsuitable(why).into());
    }
    if options.cache.admit == Admit::Clean {
        let why = "a volume writes a page whole or not at all, and without a copy on flash the slow \
                   device may tear it: let dirty pages enter";
        return Err(OpenError::Unsuitable(why.to_string()).into());
    }
    check_payload(&slow, SLOW)?;
    let block = slow.caps().block_size;
    let page = options.format.page;
    let store = store_on(slow, options)?;
    let blocks = store.pages() * u64::from(page / block);
    Ok(Caps {
        block_size: block,
        ack: Ack::Volatile,
        ordered: false,
        atomic_unit: page,
        ..Caps::power_safe(blocks, Payload::Bytes)
    })
}

/// Makes an empty cache, and labels the slow device.
pub(crate) async fn format<F: BlockDevice + 'static, D: BlockDevice + Clone + 'static>(
    rt: &Rt,
    flash: &F,
    slow: D,
    options: &VolumeOptions,
    force: bool,
) -> Result<(), VolumeError> {
    check_payload(flash, FLASH)?;
    caps(slow.clone(), options)?;
    let mut format = options.format.clone();
    format.force |= force;
    let store = store_on(slow.clone(), options)?;
    // (Where another label is, that is what is told.)
    let looks = options.adopts && !format.force;
    if looks && !store.other_labels(false).await.map_err(io(SLOW))? {
        refuse_data(&slow, store.label_at()).await?;
    }
    Ok(FlashCache::format(rt, flash, &store, &format).await?)
}

/// Refuses data behind the label that goes to this byte of the slow device: a file system that reaches
/// so far, or the copy of a partition table. (Where the label goes there may be one, which is refused
/// with other words.)
async fn refuse_data<D: BlockDevice>(slow: &D, from: u64) -> Result<(), OpenError> {
    let (block, end) = (u64::from(slow.caps().block_size), slow.caps().bytes());
    let mut bytes = vec![0; (end - from) as usize];
    slow.read(Block(from / block), DataMut::Bytes(&mut bytes)).await.map_err(io(SLOW))?;
    match bytes.iter().skip(LABEL_BYTES).all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(OpenError::NotBlank { device: SLOW, what: "data in its last 1 MiB" }),
    }
}

/// Starts the volume. Says whether a new cache has taken the place of a lost one.
pub(crate) async fn open<F: BlockDevice + Clone + 'static, D: BlockDevice + Clone + 'static>(
    rt: &Rt,
    flash: F,
    slow: D,
    options: &VolumeOptions,
) -> Result<(Core<F, D>, bool), VolumeError> {
    let VolumeOptions { format, cache, .. } = options;
    check_payload(&flash, FLASH)?;
    let caps = caps(slow.clone(), options)?;
    let store = store_on(slow.clone(), options)?;
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
    Ok((Core::new(rt, opened, caps, options.clean), replaced))
}
