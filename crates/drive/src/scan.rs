//! Reading the flash array at restart: page heads, whole pages, ends of units.

use crate::firmware::Firmware;
use crate::types::{Before, NO_INDEX, PageHead};
use tantalum_device::{DataMut, OwnedData};
use tantalum_nand::{OpError, PageAddr, PageState, ReadRequest, SECTOR_BYTES, Unit};

/// What the out-of-band area of a page tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// The page is erased.
    Erased,
    /// It can not be read, or no drive wrote it.
    Unreadable,
    /// It was written by a drive: its head, the index of each sector, and what was written
    /// before it (map log only).
    Written(PageHead, Vec<u32>, Before),
}

/// Reads on each die that are asked for at a time: enough to keep it busy, and few enough
/// that a large drive does not queue a hundred thousand.
const READS_PER_DIE: usize = 16;

/// These pages in turns over the dies, in batches to be read side by side; as indices.
fn batches(fw: &Firmware, pages: &[PageAddr]) -> Vec<Vec<usize>> {
    let g = &fw.design.geometry;
    let mut order: Vec<usize> = (0..pages.len()).collect();
    order.sort_by_key(|&i| (pages[i].unit.0 % g.blocks, pages[i].unit.0));
    order.chunks(READS_PER_DIE * g.dies() as usize).map(<[usize]>::to_vec).collect()
}

/// Reads the heads of these pages, all dies side by side.
pub(crate) async fn read_heads(fw: &Firmware, pages: &[PageAddr]) -> Result<Vec<Head>, OpError> {
    let mut heads = vec![Head::Erased; pages.len()];
    let ps = fw.places.page_sectors as usize;
    read_words(fw, pages, |i, state, oob| {
        heads[i] = match (state, PageHead::decode(oob)) {
            (PageState::Erased, _) => Head::Erased,
            (PageState::Programmed, Some(head)) => {
                let indices = oob[2..2 + ps].iter().map(|w| *w as u32).collect();
                Head::Written(head, indices, Before::decode((oob[2] >> 32) as u32))
            }
            _ => Head::Unreadable,
        };
    })
    .await?;
    Ok(heads)
}

/// Reads the out-of-band words of these pages, all dies side by side; `tell` is told of each
/// page by its place in the list, in no order.
pub(crate) async fn read_words(
    fw: &Firmware,
    pages: &[PageAddr],
    mut tell: impl FnMut(usize, PageState, &[u64]),
) -> Result<(), OpError> {
    let mut oob = vec![0; fw.nand.oob_words()];
    for batch in batches(fw, pages) {
        let mut ops = Vec::with_capacity(batch.len());
        for i in batch {
            let mut states = [PageState::Erased];
            ops.push(fw.nand.read(ReadRequest {
                at: pages[i],
                count: 1,
                first: 0,
                data: None,
                oob: Some(&mut oob),
                states: &mut states,
            })?);
            fw.stats.flash_reads.add(1);
            tell(i, states[0], &oob);
        }
        for op in ops {
            op.await;
        }
    }
    Ok(())
}

/// Reads the payload of these pages, side by side; `None` for a page that can not be
/// read. The drive's own pages are bytes even in an array of stamps.
pub(crate) async fn read_pages(
    fw: &Firmware,
    pages: &[PageAddr],
    own: bool,
) -> Result<Vec<Option<OwnedData>>, OpError> {
    let ps = fw.places.page_sectors as usize;
    let kind = if own { tantalum_device::Payload::Bytes } else { fw.nand.payload() };
    let mut out: Vec<Option<OwnedData>> = vec![None; pages.len()];
    for batch in batches(fw, pages) {
        let mut ops = Vec::with_capacity(batch.len());
        for i in batch {
            let mut data = OwnedData::zeros(kind, ps, SECTOR_BYTES);
            let mut states = [PageState::Erased];
            let room: DataMut<'_> = data.as_mut();
            ops.push(fw.nand.read(ReadRequest {
                at: pages[i],
                count: 1,
                first: 0,
                data: Some(room),
                oob: None,
                states: &mut states,
            })?);
            fw.stats.flash_reads.add(1);
            out[i] = (states[0] == PageState::Programmed).then_some(data);
        }
        for op in ops {
            op.await;
        }
    }
    Ok(out)
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
        let heads = read_heads(fw, &probes).await?;
        for ((i, probe), head) in open.into_iter().zip(probes).zip(heads) {
            match head {
                Head::Erased => bounds[i].1 = probe.page,
                _ => bounds[i].0 = probe.page + 1,
            }
        }
    }
}

/// The sectors of a page that hold something.
pub(crate) fn used(indices: &[u32]) -> impl Iterator<Item = (usize, u32)> + '_ {
    indices.iter().copied().enumerate().filter(|i| i.1 != NO_INDEX)
}
