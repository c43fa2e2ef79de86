//! The first line of a directory's memory: what it is.

use super::error::AttachError;
use super::layout::{Layout, Shape};
use super::region::Region;

/// The version of the layout that this program writes, and the newest it reads.
pub(crate) const VERSION: u64 = 1;
/// `TNTLMDIR`.
const MAGIC: u64 = u64::from_le_bytes(*b"TNTLMDIR");

// Words of the header.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 1;
const AT_FRAMES: usize = 2;
const AT_BATCH: usize = 3;
const AT_WORDS: usize = 4;
const AT_CHECK: usize = 5;
/// Each of the ring's ends in a line of its own.
pub(crate) const AT_FRONT: usize = 8;
pub(crate) const AT_REAR: usize = 16;
pub(crate) const AT_SETTLED: usize = 24;

fn check(layout: &Layout) -> u64 {
    [VERSION, layout.shape.frames, u64::from(layout.shape.batch), layout.words as u64]
        .into_iter()
        .fold(MAGIC, |sum, word| super::chain::mixed(sum ^ word))
}

/// Before anything else is written: there is no directory any more.
pub(crate) fn clear(region: &Region) {
    region.word(AT_MAGIC).set(0);
}

/// After all else is written: there is one.
pub(crate) fn write(region: &Region, layout: &Layout) {
    region.word(AT_VERSION).set(VERSION);
    region.word(AT_FRAMES).set(layout.shape.frames);
    region.word(AT_BATCH).set(u64::from(layout.shape.batch));
    region.word(AT_WORDS).set(layout.words as u64);
    region.word(AT_CHECK).set(check(layout));
    region.word(AT_MAGIC).set(MAGIC);
}

/// What is in the memory.
pub(crate) fn read(region: &Region) -> Result<Layout, AttachError> {
    let have = region.bytes();
    let least = Layout::of(Shape { frames: 2, batch: 1 })?.words * 8;
    if have < least {
        return Err(AttachError::TooSmall { have, need: least });
    }
    if region.word(AT_MAGIC).get() != MAGIC {
        return Err(AttachError::Blank);
    }
    match region.word(AT_VERSION).get() {
        0 => return Err(AttachError::Damaged),
        VERSION => {}
        newer => return Err(AttachError::Newer(newer)),
    }
    let batch = u32::try_from(region.word(AT_BATCH).get()).map_err(|_| AttachError::Damaged)?;
    let shape = Shape { frames: region.word(AT_FRAMES).get(), batch };
    let layout = Layout::of(shape).map_err(|_| AttachError::Damaged)?;
    let words = region.word(AT_WORDS).get();
    if words != layout.words as u64 || region.word(AT_CHECK).get() != check(&layout) {
        return Err(AttachError::Damaged);
    }
    if have < layout.words * 8 {
        return Err(AttachError::TooSmall { have, need: layout.words * 8 });
    }
    Ok(layout)
}
