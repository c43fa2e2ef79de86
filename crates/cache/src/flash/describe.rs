//! What the devices of a cache say of it, and whether it is whole. Nothing is changed.

use crate::flash::carrier::Carrier;
use crate::flash::create::{FLASH, io};
use crate::flash::error::OpenError;
use crate::flash::format::{LabelState, Mode, Uuid, checksum, tag};
use crate::flash::index::Place;
use crate::flash::medium::{Medium, check_device};
use crate::flash::open::{
    Lag, check_pages, check_pair, check_room, find_label, find_superblock, look,
};
use crate::flash::options::OpenOptions;
use crate::flash::recover::recover;
use crate::flash::slow::SlowStore;
use crate::flash::stats::RestartStats;
use tantalum_device::BlockDevice;

/// What a flash device says of the cache on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashDescription {
    /// The identity of the cache.
    pub cache: Uuid,
    /// Bytes of a page.
    pub page: u32,
    /// Frames of a batch.
    pub frames: u32,
    /// Batches of the ring.
    pub batches: u32,
    /// Bytes of the device when the cache was made.
    pub bytes: u64,
    /// How it was used last.
    pub mode: Mode,
    /// Starts, and one for the making.
    pub epoch: u64,
    /// It was closed: the next start is warm.
    pub clean: bool,
    /// The slow store was told of the last start: its label cannot be an epoch behind.
    pub labelled: bool,
}

impl FlashDescription {
    /// Whether a slow store is that of this cache, and of the same time, as an opening says it.
    ///
    /// # Errors
    /// [`OpenError::OtherStore`], [`OpenError::OtherEpoch`], [`OpenError::GivenUp`] and
    /// [`OpenError::StoreShrank`].
    pub fn check(&self, store: &StoreDescription) -> Result<(), OpenError> {
        let is_alone = store.state == StoreState::Alone;
        let lag = Lag::of(self.labelled);
        check_pair((self.cache, self.epoch), (store.cache, store.epoch), is_alone, lag)?;
        check_room(store.bytes_before, store.bytes)
    }
}

/// How a slow store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// It has every page.
    Complete,
    /// The cache may have newer pages.
    NeedsCache,
    /// It was used without its cache, which is out of date.
    Alone,
}

/// What the label of a slow store says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreDescription {
    /// The identity of its cache.
    pub cache: Uuid,
    /// The epoch of the cache. The flash device may be one ahead after a start that was cut.
    pub epoch: u64,
    /// Whether it has every page.
    pub state: StoreState,
    /// Bytes that it had at the last start, if they are fixed and known.
    pub bytes_before: Option<u64>,
    /// Bytes that it has, if they are fixed.
    pub bytes: Option<u64>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// How the directory was found.
    pub restart: RestartStats,
    /// Pages in the cache.
    pub pages: u64,
    /// Of these, those that the slow store lacks, as far as is known: after a crash more pages count as
    /// dirty than are.
    pub dirty: u64,
    /// Damaged pages that the slow store has, too.
    pub repairable: u64,
    /// Dirty pages whose newest version is damaged, ascending.
    pub damaged: Vec<u64>,
}

/// Reads what a flash device says.
pub(crate) async fn flash<F: BlockDevice>(flash: &F) -> Result<FlashDescription, OpenError> {
    let (by, beside) = (check_device(flash)?, &OpenOptions::default().beside);
    let found = find_superblock(&Carrier { device: flash, by, beside }).await?;
    Ok(FlashDescription {
        cache: found.cache,
        page: found.layout.page,
        frames: found.layout.frames,
        batches: found.layout.batches,
        bytes: found.bytes,
        mode: found.mode,
        epoch: found.epoch,
        clean: found.clean,
        labelled: found.label_is_written(),
    })
}

/// Reads what a slow store says; `None`: it keeps no label.
pub(crate) async fn store<S: SlowStore>(slow: &S) -> Result<Option<StoreDescription>, OpenError> {
    let Some(label) = find_label(slow).await? else { return Ok(None) };
    let state = match (label.state, label.mode) {
        (LabelState::Alone, _) => StoreState::Alone,
        (LabelState::Clean, _) | (_, Mode::Through) => StoreState::Complete,
        (LabelState::InUse, Mode::Back) => StoreState::NeedsCache,
    };
    let (cache, epoch, bytes_before) = (label.cache, label.epoch, label.bytes());
    Ok(Some(StoreDescription { cache, epoch, state, bytes_before, bytes: slow.fixed_bytes() }))
}

/// Reads the whole cache, as a start finds it, and compares every page with its checksum.
pub(crate) async fn check<F: BlockDevice, S: SlowStore>(
    device: F,
    slow: &S,
    options: &OpenOptions,
) -> Result<Checked, OpenError> {
    let (by, superblock, _) = look(&device, slow, options).await?;
    let beside = options.beside.clone();
    let medium = Medium::new(device, by, beside, superblock.layout, tag(&superblock.cache));
    let found = recover(&medium, &superblock, options.restart).await?;
    check_pages(&found.index, slow)?;
    let (pages, dirty) = found.index.counts();
    let mut checked = Checked { restart: found.stats, pages, dirty, ..Checked::default() };
    checked.restart.found = pages;
    for batch in found.front..found.rear.last_batch() + 1 {
        let frames = found.index.batch(batch).frames.iter().enumerate();
        let valid =
            frames.filter(|(frame, _)| found.index.is_valid(Place { batch, frame: *frame }));
        let valid: Vec<_> = valid.map(|(frame, (f, _))| (frame, *f)).collect();
        if valid.is_empty() {
            continue;
        }
        let content = found.index.batch(batch);
        let bytes = medium.read_batch(batch, content).await.map_err(io(FLASH))?;
        for (frame, f) in valid {
            if checksum(&bytes[frame * medium.page()..][..medium.page()]) == f.checksum {
                continue;
            }
            match f.dirty {
                true => checked.damaged.push(f.page),
                false => checked.repairable += 1,
            }
        }
    }
    checked.damaged.sort_unstable();
    Ok(checked)
}
