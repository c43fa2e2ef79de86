//! Opening a cache, and a slow store without its cache.
//!
//! 1. While anything does not fit, nothing is changed.
//! 2. The superblock with the next epoch, without the clean mark, is durable before anything else is
//!    written; the label follows, then the superblock once more, which says so, and then everything
//!    else. A label that did not get as far in an earlier start is written first. So it is never
//!    more than one epoch behind, and only if nothing else was written in that epoch. One that is
//!    behind otherwise is that of an older copy of the store.
//! 3. A slow store is used without its cache only if it has every page: after write-through, or when
//!    the cache was closed without dirty pages. From then on that cache is out of date, and refused.

use crate::flash::carrier::Carrier;
use crate::flash::core::{Core, Flushes, Heads, Open, State};
use crate::flash::create::{FLASH, Others, SLOW, format, io, is_blank};
use crate::flash::error::{CacheError, OpenError};
use crate::flash::format::Mode;
use crate::flash::format::{Found, Label, LabelState, Superblock, Uuid, decode_newest, tag};
use crate::flash::ghosts::ghosts_of;
use crate::flash::host::Host;
use crate::flash::index::Index;
use crate::flash::keeper::write_label;
use crate::flash::medium::{Medium, check_device, read_heads};
use crate::flash::options::{FormatOptions, OpenOptions};
use crate::flash::pending::Pending;
use crate::flash::recover::recover;
use crate::flash::resize;
use crate::flash::ring::DEPTH;
use crate::flash::slow::{LABEL_BYTES, SlowStore};
use crate::flash::stats::CacheStats;
use crate::planted::planted;
use crate::policy::Guard;
use rustc_hash::FxHashSet;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tantalum_device::{BlockDevice, DurableBy};
use tantalum_rt::Rt;
use tantalum_rt::sync::{Mutex, Semaphore, WaitQueue};

fn whole<T>(found: Found<T>, what: &'static str, device: &'static str) -> Result<T, OpenError> {
    match found {
        Found::Good(found) => Ok(found),
        Found::Newer(version) => Err(OpenError::Newer { device, version }),
        Found::Damaged => Err(OpenError::Head { what, device }),
        Found::Nothing if device == FLASH => Err(OpenError::NoCache),
        Found::Nothing => Err(OpenError::NoLabel),
    }
}

pub(crate) async fn find_superblock<F: BlockDevice>(
    on: &Carrier<'_, F>,
) -> Result<Superblock, OpenError> {
    let flash = on.device;
    let heads = read_heads(on).await.map_err(io(FLASH))?;
    let found = decode_newest(&heads, Superblock::decode, |s| s.generation);
    let superblock = whole(found, "superblock", FLASH)?;
    let (was, is) = (superblock.bytes, flash.caps().bytes());
    if is < was {
        return Err(OpenError::TooSmall { was, is });
    }
    let (page, block) = (superblock.layout.page, flash.caps().block_size);
    if !page.is_multiple_of(block) {
        return Err(OpenError::Unsuitable(format!(
            "the flash device has blocks of {block} bytes and the cache pages of {page}: use the \
             device as it was"
        )));
    }
    Ok(superblock)
}

/// The label; `None` if the store keeps none.
pub(crate) async fn find_label<S: SlowStore>(slow: &S) -> Result<Option<Label>, OpenError> {
    let mut label = vec![0; LABEL_BYTES];
    if !slow.read_label(&mut label).await.map_err(io(SLOW))? {
        return Ok(None);
    }
    whole(decode_newest(&label, Label::decode, |l| l.generation), "label", SLOW).map(Some)
}

/// The store is as large as at its last start, if its size is fixed.
pub(crate) fn check_room(was: Option<u64>, is: Option<u64>) -> Result<(), OpenError> {
    match (was, is) {
        (Some(was), Some(is)) if is < was => Err(OpenError::StoreShrank { was, is }),
        _ => Ok(()),
    }
}

/// The slow store has room for every page that is to go there.
pub(crate) fn check_pages<S: SlowStore>(index: &Index, slow: &S) -> Result<(), OpenError> {
    let pages = slow.pages();
    match index.last_dirty() {
        Some(page) if page >= pages => Err(OpenError::StoreTooSmall { page, pages }),
        _ => Ok(()),
    }
}

/// That the label of this cache is at the other end of the slow device, if it is, and no label of
/// another one where it was looked for.
pub(crate) async fn elsewhere<S: SlowStore>(slow: &S, cache: &Uuid) -> Option<OpenError> {
    if !matches!(find_label(slow).await, Err(OpenError::NoLabel)) {
        return None;
    }
    let mut label = vec![0; LABEL_BYTES];
    let is = slow.read_other_label(&mut label).await.ok()??;
    match decode_newest(&label, Label::decode, |l| l.generation) {
        Found::Good(label) if label.cache == *cache => Some(OpenError::LabelElsewhere { is }),
        _ => None,
    }
}

fn check_label(label: &Label, superblock: &Superblock) -> Result<(), OpenError> {
    if label.slow != superblock.slow {
        return Err(OpenError::OtherStore);
    }
    let is_alone = label.state == LabelState::Alone;
    let lag = Lag::of(superblock.label_is_written());
    check_pair((superblock.cache, superblock.epoch), (label.cache, label.epoch), is_alone, lag)
}

/// Whether a label may be one epoch behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lag {
    /// The last start may have been cut before it was written.
    Possible,
    /// It was written in that start: one that is behind is an older copy.
    None,
}

impl Lag {
    /// `written`: the label was written in the last start.
    pub fn of(written: bool) -> Lag {
        if written { Lag::None } else { Lag::Possible }
    }
}

/// Whether a flash device and a label, each with its cache and epoch, are those of one cache.
pub(crate) fn check_pair(
    (of_flash, flash): (Uuid, u64),
    (of_slow, slow): (Uuid, u64),
    is_alone: bool,
    lag: Lag,
) -> Result<(), OpenError> {
    if of_flash != of_slow {
        return Err(OpenError::OtherStore);
    }
    if is_alone {
        return Err(OpenError::GivenUp);
    }
    if slow > flash || slow + u64::from(lag == Lag::Possible) < flash {
        let older = if slow > flash { FLASH } else { SLOW };
        return Err(OpenError::OtherEpoch { slow, flash, older });
    }
    Ok(())
}

/// Reads the heads of a cache that fits its slow store and these options.
pub(crate) async fn look<F: BlockDevice, S: SlowStore>(
    flash: &F,
    slow: &S,
    options: &OpenOptions,
) -> Result<(DurableBy, Superblock, Option<Label>), OpenError> {
    let by = check_device(flash)?;
    let superblock =
        find_superblock(&Carrier { device: flash, by, beside: &options.beside }).await?;
    if superblock.slow != options.slow_identity {
        return Err(OpenError::OtherStore);
    }
    let is = superblock.layout.page;
    if let Some(page) = options.page.filter(|page| *page != is) {
        return Err(OpenError::Unsuitable(format!(
            "the cache has pages of {is} bytes, not of {page}: open it with pages of {is}"
        )));
    }
    let label = match find_label(slow).await {
        Err(OpenError::NoLabel) => {
            let elsewhere = elsewhere(slow, &superblock.cache).await;
            return Err(elsewhere.unwrap_or(OpenError::NoLabel));
        }
        found => found?,
    };
    if let Some(label) = &label {
        check_label(label, &superblock)?;
        check_room(label.bytes(), slow.fixed_bytes())?;
    }
    Ok((by, superblock, label))
}

/// Opens the cache on `flash` over `slow`.
pub(crate) async fn open<F: BlockDevice + 'static, S: SlowStore + 'static>(
    rt: &Rt,
    flash: F,
    slow: S,
    host: Rc<dyn Host>,
    options: OpenOptions,
) -> Result<Rc<Core<F, S>>, OpenError> {
    let (by, superblock, label) = look(&flash, &slow, &options).await?;
    let tag = tag(&superblock.cache);
    let medium = Medium::new(flash, by, options.beside.clone(), superblock.layout, tag);
    let mut found = recover(&medium, &superblock, options.restart).await?;
    check_pages(&found.index, &slow)?;
    if !options.marks {
        found.index.clear_marks();
    }
    resize::forget_older(&medium, found.front);
    let superblock = Superblock { layout: medium.layout(), ..superblock };
    let mode = options.mode.unwrap_or(superblock.mode);
    let (pages, dirty) = found.index.counts();
    found.stats.found = pages;
    let rear = found.rear;
    let ring = resize::ring_of(&medium.layout(), options.leaving, found.front, found.rear);
    let mut buried = 0;
    if rear.number == 0 {
        found.index.begin_batch();
    } else {
        buried = found.index.batch(rear.batch).tombstones.len();
        found.index.begin_part();
    }
    let ghosts = ghosts_of(&medium.layout(), &options, &ring, &found.index);
    let stats = CacheStats { restart: found.stats, ..CacheStats::default() };
    let state = State {
        ring,
        index: found.index,
        open: Open::default(),
        sealed: BTreeMap::new(),
        buried,
        reads: BTreeMap::new(),
        writing: FxHashSet::default(),
        refused: None,
        damaged: BTreeMap::new(),
        given_up: BTreeSet::new(),
        flushes: Flushes::default(),
        stopped: None,
        stats,
        guard: options.scan.map(Guard::new),
        ghosts,
    };
    let depth = options.depth;
    let core = Rc::new(Core {
        rt: rt.clone(),
        medium,
        slow,
        host,
        options,
        mode,
        heads: Cell::new(Heads { superblock, label }),
        domain: rt.domain(),
        state: RefCell::new(state),
        pending: Pending::default(),
        past: Cell::new(0),
        slow_writes: Semaphore::new(rt, "a write to the slow store", depth.max(1) as u64),
        closing: Cell::new(false),
        cleaned: Cell::new(0),
        front_turn: Mutex::new(rt, "the turn to leave the cache"),
        keeper_turn: Mutex::new(rt, "the turn to write segments"),
        clean_turn: Mutex::new(rt, "the turn to clean"),
        resize_turn: Mutex::new(rt, "the turn to resize"),
        gates: Cell::new(0),
        drops: Cell::new(false),
        room: WaitQueue::new(rt, "room in a batch of the cache"),
        durable: WaitQueue::new(rt, "a batch of the cache to be durable"),
        work: WaitQueue::new(rt, "work for a task of the cache"),
        written: WaitQueue::new(rt, "a write to the slow store"),
    });
    let (front, store_bytes) = (found.front, core.slow.fixed_bytes().unwrap_or(0));
    let begin = |superblock: &mut Superblock, label: Option<&mut Label>| {
        superblock.epoch += 1;
        (superblock.clean, superblock.mode, superblock.labelled) = (false, mode, false);
        (superblock.front, superblock.rear) = (front, rear);
        if let Some(label) = label {
            // Pages of a time of write-back may be dirty still.
            let complete = mode == Mode::Through && (label.mode == Mode::Through || dirty == 0);
            label.epoch = superblock.epoch;
            label.mode = if complete { Mode::Through } else { Mode::Back };
            (label.state, label.bytes) = (LabelState::InUse, store_bytes);
        }
    };
    if !(planted!(CleanMarkLeft) && superblock.clean) {
        core.catch_up().await.map_err(io(SLOW))?;
        core.write_heads(begin).await.map_err(|e| match e {
            CacheError::Slow(error) => io(SLOW)(error),
            CacheError::Flash(error) => io(FLASH)(error),
            other => OpenError::Unsuitable(other.to_string()),
        })?;
        core.tell_labelled().await.map_err(io(FLASH))?;
    }
    spawn(&core);
    Ok(core)
}

/// Starts the tasks of the cache.
fn spawn<F: BlockDevice + 'static, S: SlowStore + 'static>(core: &Rc<Core<F, S>>) {
    for lane in 0..DEPTH {
        let writer = core.clone();
        let body = async move { writer.keep_writing().await };
        core.domain.spawn_background(format!("cache: writer {lane}"), body);
    }
    let (sealer, front, keeper) = (core.clone(), core.clone(), core.clone());
    let body = async move { sealer.keep_sealing().await };
    core.domain.spawn_background("cache: sealer", body);
    core.domain.spawn_background("cache: front", async move { front.keep_leaving().await });
    core.domain.spawn_background("cache: keeper", async move { keeper.keep_segments().await });
    let voucher = core.clone();
    core.domain.spawn_background("cache: voucher", async move { voucher.keep_vouching().await });
}

/// Whether the store has every page (3).
fn is_complete(label: &Label) -> bool {
    label.mode == Mode::Through || label.state != LabelState::InUse
}

/// Makes a new cache on a blank flash device, for a store whose own flash device is lost (3). That
/// one is refused ever after.
pub(crate) async fn replace<F: BlockDevice, S: SlowStore>(
    rt: &Rt,
    flash: &F,
    slow: &S,
    options: &FormatOptions,
) -> Result<(), OpenError> {
    let by = check_device(flash)?;
    let on = Carrier { device: flash, by, beside: &options.beside };
    let heads = read_heads(&on).await.map_err(io(FLASH))?;
    let is_blank = is_blank(flash, &heads).await.map_err(io(FLASH))?;
    let label = match find_label(slow).await {
        // There was no cache yet.
        Err(OpenError::NoLabel) if is_blank => return Err(OpenError::NoCache),
        found => found?,
    };
    match label {
        // (Perhaps what is on the flash device is its cache, and damaged.)
        Some(label) if !is_complete(&label) => Err(OpenError::NeedsCache),
        None => Err(OpenError::NoCache),
        Some(_) if !is_blank => Err(OpenError::NoCache),
        Some(label) => {
            check_room(label.bytes(), slow.fixed_bytes())?;
            let force = FormatOptions { force: true, ..options.clone() };
            format(rt, flash, slow, &force, Others::Stay).await
        }
    }
}

/// From a time of write-back on the label says that the store lacks pages. With write-through it has
/// all of them when every dirty page is clean, and says so when this returns. While the store refuses
/// a page that is tried with patience.
pub(crate) async fn complete<F: BlockDevice + 'static, S: SlowStore + 'static>(
    core: &Rc<Core<F, S>>,
) -> Result<(), CacheError> {
    let lacks = core.heads.get().label.is_some_and(|label| label.mode == Mode::Back);
    if core.mode == Mode::Back || !lacks {
        return Ok(());
    }
    core.clean_patiently().await?;
    let _keeper = core.keeper_turn.lock().await;
    core.write_heads(|_, label| {
        if let Some(label) = label {
            label.mode = Mode::Through;
        }
    })
    .await
}

/// Declares that the pages of `slow` are used without their cache (3).
pub(crate) async fn leave_alone<S: SlowStore>(slow: &S) -> Result<(), OpenError> {
    let Some(label) = find_label(slow).await? else { return Ok(()) };
    if !is_complete(&label) {
        return Err(OpenError::NeedsCache);
    }
    if label.state == LabelState::Alone {
        return Ok(());
    }
    let alone = Label {
        generation: label.generation + 1,
        // Beyond that of a cache whose last start did not get as far as the label.
        epoch: label.epoch + 2,
        state: LabelState::Alone,
        ..label
    };
    write_label(slow, &alone).await.map_err(io(SLOW))
}
