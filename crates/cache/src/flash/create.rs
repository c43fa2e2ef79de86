//! Making a cache: what the flash device is, how it is divided, and the label of the slow store.
//!
//! 1. All checks come first. While one fails nothing is written.
//! 2. The superblock comes last: what has one has everything else.
//! 3. A slow device has one label. Others on it, for which the pages lie elsewhere, end before this one
//!    is written: a cache that is opened with one would have older pages than this one. Only who makes
//!    a cache, and forces it, may end them: they may also be data of the pages, as in a volume in which
//!    somebody has made another cache.

use crate::flash::carrier::Carrier;
use crate::flash::error::OpenError;
use crate::flash::format::{
    self, BATCHES_MIN, COPIES, FRAMES_MAX, Found, HEAD_BYTES, Label, LabelState, Layout, Part,
    Superblock, Uuid, decode_newest, is_page,
};
use crate::flash::keeper::write_label;
use crate::flash::medium::{check_device, read_heads, write_heads};
use crate::flash::options::FormatOptions;
use crate::flash::slow::{LABEL_BYTES, SlowStore};
use tantalum_device::{BlockDevice, IoError, Payload, counted, first_mark};
use tantalum_rt::{Rt, mix64};

pub(crate) const FLASH: &str = "the flash device";
pub(crate) const SLOW: &str = "the slow store";

pub(crate) fn io(device: &'static str) -> impl Fn(IoError) -> OpenError {
    move |error| OpenError::Io { device, error }
}

/// Checks the options, and divides the flash device.
fn divide<F: BlockDevice>(flash: &F, options: &FormatOptions) -> Result<Layout, OpenError> {
    let wrong = |what: String| Err(OpenError::Unsuitable(what));
    let (page, block) = (options.page, flash.caps().block_size);
    if !is_page(page) || !page.is_multiple_of(block) {
        return wrong(format!(
            "pages of {}: give a power of two from 512 bytes to 1 MiB that is a multiple of the \
             {block} bytes of a block of the flash device",
            counted(page.into(), "byte", "bytes")
        ));
    }
    let frames = options.frames;
    if !(1..=FRAMES_MAX).contains(&frames) {
        return wrong(format!("batches of {frames} frames: give 1 to {FRAMES_MAX}, 64 is usual"));
    }
    let bytes = flash.caps().bytes();
    let Some(layout) = Layout::largest(bytes, page, frames) else {
        let least = Layout::of(page, frames, BATCHES_MIN).bytes();
        return wrong(format!(
            "the flash device has {bytes} bytes and the smallest cache of such batches takes \
             {least}: use a larger device or smaller batches"
        ));
    };
    Ok(layout)
}

/// Whether nothing is on a flash device whose beginning has these bytes: nothing where something
/// would have its marks ([`first_mark`]). A device of stamps is a model, and has only what is ours.
pub(crate) async fn is_blank<F: BlockDevice>(flash: &F, heads: &[u8]) -> Result<bool, IoError> {
    let heads = heads.iter().all(|b| *b == 0);
    let stamps = flash.caps().payload == Payload::Stamps;
    Ok(heads && (stamps || first_mark(flash).await?.is_none()))
}

/// Whether something may be destroyed. Says what there is.
fn holds(blank: bool, heads: &[u8], label: &[u8]) -> [Option<(&'static str, &'static str)>; 2] {
    let flash = match decode_newest(heads, Superblock::decode, |s| s.generation) {
        Found::Nothing if blank => None,
        Found::Nothing => Some((FLASH, "data")),
        Found::Good(_) | Found::Newer(_) | Found::Damaged => Some((FLASH, "a cache")),
    };
    let slow = match decode_newest(label, Label::decode, |l| l.generation) {
        Found::Nothing if label.iter().all(|b| *b == 0) => None,
        Found::Nothing => Some((SLOW, "data where its label goes")),
        Found::Good(_) | Found::Newer(_) | Found::Damaged => Some((SLOW, "the label of a cache")),
    };
    [flash, slow]
}

/// What becomes of the labels of other stores on the slow device (3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// They end if that is forced, and are refused otherwise.
    End,
    /// They stay as they are.
    Stay,
}

/// Makes an empty cache on `flash` for the pages of `slow`, which stay as they are.
pub(crate) async fn format<F: BlockDevice, S: SlowStore>(
    rt: &Rt,
    flash: &F,
    slow: &S,
    options: &FormatOptions,
    others: Others,
) -> Result<(), OpenError> {
    let by = check_device(flash)?;
    let layout = divide(flash, options)?;
    let on = Carrier { device: flash, by, beside: &options.beside };
    let heads = read_heads(&on).await.map_err(io(FLASH))?;
    let mut label = vec![0; LABEL_BYTES];
    let labelled = slow.read_label(&mut label).await.map_err(io(SLOW))?;
    let blank = options.force || is_blank(flash, &heads).await.map_err(io(FLASH))?;
    if !options.force
        && let Some((device, what)) = holds(blank, &heads, &label).into_iter().flatten().next()
    {
        return Err(OpenError::NotBlank { device, what });
    }
    if others == Others::End
        && slow.other_labels(options.force).await.map_err(io(SLOW))?
        && !options.force
    {
        let what = "the label of a cache elsewhere on it";
        return Err(OpenError::NotBlank { device: SLOW, what });
    }
    let cache = options.identity.unwrap_or_else(|| identity(rt, &heads));
    let superblock = Superblock {
        cache,
        slow: options.slow_identity,
        generation: next_generation(&heads),
        epoch: 1,
        clean: true,
        mode: options.mode,
        layout,
        bytes: flash.caps().bytes(),
        front: 1,
        rear: Part::first(1),
        labelled,
    };
    if labelled {
        let label = Label {
            cache,
            slow: options.slow_identity,
            generation: match decode_newest(&label, Label::decode, |l| l.generation) {
                Found::Good(old) => old.generation + 1,
                _ => 1,
            },
            epoch: 1,
            mode: options.mode,
            state: LabelState::Clean,
            bytes: slow.fixed_bytes().unwrap_or(0),
        };
        write_label(slow, &label).await.map_err(io(SLOW))?;
    }
    write_heads(&on, &superblock.encode()).await.map_err(io(FLASH))
}

/// A generation above that of whatever is there, so that a torn format leaves the old or the new.
fn next_generation(heads: &[u8]) -> u64 {
    match decode_newest(heads, Superblock::decode, |s| s.generation) {
        Found::Good(old) => old.generation + 1,
        _ => 1,
    }
}

/// A new identity; it differs from that of what was on the device.
fn identity(rt: &Rt, heads: &[u8]) -> Uuid {
    let mut stream = rt.stream("flash cache");
    let old = COPIES.iter().map(|at| {
        let at = *at as usize;
        u64::from(format::checksum(&heads[at..at + HEAD_BYTES]))
    });
    let words = [rt.now().0, rt.events()].into_iter().chain(old);
    let salt = words.fold(0, |salt, word| mix64(salt ^ word));
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&mix64(stream.next_u64() ^ salt).to_le_bytes());
    uuid[8..].copy_from_slice(&mix64(stream.next_u64() ^ mix64(salt)).to_le_bytes());
    uuid
}
