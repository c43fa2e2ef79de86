//! Reading the flash array at restart: page heads, whole pages, ends of units.

use crate::firmware::Firmware;
use crate::format::words::{Before, Kind, NO_INDEX, PageHead};
use tantalum_device::{OwnedData, Payload};
use tantalum_nand::{OpError, PageAddr, PageState, ReadRequest, Reading, SECTOR_BYTES, Unit};

/// What the out-of-band area of a page tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The page is erased.
    Erased,
    /// It cannot be read, or no drive wrote it.
    Unreadable,
    /// It was written by a drive: its head, and what was written before it (map log only).
    Written(PageHead, Before),
}

/// What was read of some pages, in their order.
pub(crate) struct Heads {
    heads: Vec<Head>,
    indices: Vec<u32>,
    page_sectors: usize,
}

impl Heads {
    /// Of each page its head, and the index of each of its sectors.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Head, &[u32])> + ExactSizeIterator {
        self.heads.iter().copied().zip(self.indices.chunks_exact(self.page_sectors))
    }

    /// Takes those from page `at` on away.
    pub fn split_off(&mut self, at: usize) -> Heads {
        Heads {
            heads: self.heads.split_off(at),
            indices: self.indices.split_off(at * self.page_sectors),
            page_sectors: self.page_sectors,
        }
    }

    /// The heads alone.
    pub fn heads(&self) -> &[Head] {
        &self.heads
    }
}

/// Reads on each die that are asked for at a time: enough to keep it busy, and few enough
/// that a large drive does not queue a hundred thousand.
const READS_PER_DIE: usize = 16;

/// These pages in turns over the dies: turn, die, and place in the list; and how many of them
/// are read side by side.
fn in_turns(fw: &Firmware, pages: &[PageAddr]) -> (Vec<(u32, u32, usize)>, usize) {
    let g = &fw.design.geometry;
    let mut turns = vec![0u32; g.dies() as usize];
    let place = |(i, at): (usize, &PageAddr)| {
        let die = g.die(at.unit);
        let turn = &mut turns[die as usize];
        *turn += 1;
        (*turn, die, i)
    };
    let mut order: Vec<(u32, u32, usize)> = pages.iter().enumerate().map(place).collect();
    order.sort_unstable();
    (order, READS_PER_DIE * g.dies() as usize)
}

/// Waits until all of these have ended. It waits for the last first, since most others have ended
/// by then.
async fn all_ended(ops: &mut Vec<Reading<'_>>) {
    while let Some(op) = ops.pop() {
        op.await;
    }
}

/// Reads the heads of these pages, all dies side by side.
pub(crate) async fn read_heads(fw: &Firmware, pages: &[PageAddr]) -> Result<Heads, OpError> {
    let ps = fw.places.page_sectors as usize;
    let mut heads = vec![Head::Erased; pages.len()];
    let mut indices = vec![NO_INDEX; pages.len() * ps];
    read_words(fw, pages, |i, state, oob| {
        heads[i] = match (state, PageHead::decode(oob)) {
            (PageState::Erased, _) => Head::Erased,
            (PageState::Programmed, Some(head)) => {
                let own = indices[i * ps..(i + 1) * ps].iter_mut();
                own.zip(&oob[2..]).for_each(|(index, word)| *index = *word as u32);
                Head::Written(head, Before::decode((oob[2] >> 32) as u32))
            }
            _ => Head::Unreadable,
        };
    })
    .await?;
    Ok(Heads { heads, indices, page_sectors: ps })
}

/// Reads the out-of-band words of these pages, all dies side by side; `tell` is told of each
/// page by its place in the list, in no order.
pub(crate) async fn read_words(
    fw: &Firmware,
    pages: &[PageAddr],
    mut tell: impl FnMut(usize, PageState, &[u64]),
) -> Result<(), OpError> {
    read_each(fw, pages, true, None, |i, state, words, _| tell(i, state, words)).await
}

/// Reads the payload of these pages, side by side; `None` for a page that cannot be
/// read. The drive's own pages are bytes even in an array of stamps.
pub(crate) async fn read_pages(
    fw: &Firmware,
    pages: &[PageAddr],
    own: bool,
) -> Result<Vec<Option<OwnedData>>, OpError> {
    let kind = if own { Payload::Bytes } else { fw.nand.payload() };
    let mut out: Vec<Option<OwnedData>> = vec![None; pages.len()];
    read_each(fw, pages, false, Some(kind), |i, _, _, data| out[i] = data).await?;
    Ok(out)
}

/// Reads those of the drive's own pages that are of this kind, side by side; `None` for any
/// other, and for one that cannot be read.
pub(crate) async fn read_pages_of(
    fw: &Firmware,
    pages: &[PageAddr],
    kind: Kind,
) -> Result<Vec<Option<OwnedData>>, OpError> {
    let mut out: Vec<Option<OwnedData>> = vec![None; pages.len()];
    read_each(fw, pages, true, Some(Payload::Bytes), |i, _, words, data| {
        out[i] = data.filter(|_| PageHead::decode(words).is_some_and(|head| head.kind == kind));
    })
    .await?;
    Ok(out)
}

/// Reads these pages, all dies side by side: their out-of-band words, and a payload of this
/// kind, if these are wanted. `tell` is told of each by its place in the list, in no order, and
/// given the payload of one that could be read.
async fn read_each(
    fw: &Firmware,
    pages: &[PageAddr],
    words: bool,
    payload: Option<Payload>,
    mut tell: impl FnMut(usize, PageState, &[u64], Option<OwnedData>),
) -> Result<(), OpError> {
    let ps = fw.places.page_sectors as usize;
    let mut oob = vec![0; fw.nand.oob_words()];
    let (order, at_a_time) = in_turns(fw, pages);
    let mut ops = Vec::with_capacity(at_a_time.min(pages.len()));
    for batch in order.chunks(at_a_time) {
        for &(_, _, i) in batch {
            let mut data = payload.map(|kind| OwnedData::zeros(kind, ps, SECTOR_BYTES));
            let mut states = [PageState::Erased];
            ops.push(fw.nand.read(ReadRequest {
                at: pages[i],
                count: 1,
                first: 0,
                data: data.as_mut().map(OwnedData::as_mut),
                oob: words.then_some(&mut oob[..]),
                states: &mut states,
            })?);
            fw.stats.flash_reads.add(1);
            tell(i, states[0], &oob, data.filter(|_| states[0] == PageState::Programmed));
        }
        all_ended(&mut ops).await;
    }
    Ok(())
}

/// For each of these units the first page that is still erased (the number of pages, if
/// none is), found by halving.
pub(crate) async fn write_pointers(fw: &Firmware, units: &[Unit]) -> Result<Vec<u32>, OpError> {
    let pages = fw.places.unit_pages;
    // Everything below `low` is written, everything from `high` on erased.
    let mut bounds = vec![(0, pages); units.len()];
    loop {
        let open: Vec<usize> = (0..units.len()).filter(|&i| bounds[i].0 < bounds[i].1).collect();
        if open.is_empty() {
            return Ok(bounds.into_iter().map(|b| b.0).collect());
        }
        // The last page first: most units are full.
        let middle = |i: usize| match bounds[i] {
            (0, high) if high == pages => pages - 1,
            (low, high) => low + (high - low) / 2,
        };
        let probes: Vec<PageAddr> =
            open.iter().map(|&i| PageAddr { unit: units[i], page: middle(i) }).collect();
        read_words(fw, &probes, |probe, state, _| {
            let (bounds, page) = (&mut bounds[open[probe]], probes[probe].page);
            match state {
                PageState::Erased => bounds.1 = page,
                _ => bounds.0 = page + 1,
            }
        })
        .await?;
    }
}

/// The sectors of a page that hold something.
pub(crate) fn used(indices: &[u32]) -> impl Iterator<Item = (usize, u32)> + '_ {
    indices.iter().copied().enumerate().filter(|i| i.1 != NO_INDEX)
}
