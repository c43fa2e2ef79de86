//! From bytes of the log to the blocks of one write.

use crate::Lsn;
use crate::format::{HEAD, Head, payload};
use crate::plan::Order;

/// Bytes of this write: its blocks, and the header of the section if it begins one.
pub(crate) fn bytes_of(order: &Order, unit: u32) -> usize {
    let blocks = order.to.since(order.block).div_ceil(payload(unit)) as usize;
    (usize::from(order.place.begins.is_some()) + blocks) * unit as usize
}

/// Fills `bytes`, as many as [`bytes_of`] says, with the units of this write, the header of the
/// section first if it begins one. `copy` fills in the bytes of the log from an LSN on.
pub(crate) fn encode(
    order: &Order,
    copy: impl Fn(Lsn, &mut [u8]),
    unit: u32,
    tag: u64,
    bytes: &mut [u8],
) {
    let (size, payload) = (unit as usize, payload(unit));
    let of = |lsn, bytes| Head {
        stream: order.stream,
        tag,
        lsn,
        bytes,
        watermark: order.watermark,
        epoch: order.epoch,
        section: order.place.section,
    };
    let head = if order.place.begins.is_some() { size } else { 0 };
    let (first, blocks) = bytes.split_at_mut(head);
    if let Some(section) = &order.place.begins {
        first.fill(0);
        of(order.block, 0).seal_section(section, first);
    }
    for (i, block) in blocks.chunks_mut(size).enumerate() {
        let lsn = order.block.plus(i as u64 * payload);
        let length = order.to.since(lsn).min(payload);
        let (log, rest) = block[HEAD..].split_at_mut(length as usize);
        copy(lsn, log);
        rest.fill(0);
        of(lsn, length as u16).seal(block);
    }
}
