//! From bytes of the log to the blocks of one write.

use crate::Lsn;
use crate::format::{HEAD, Head, payload};
use crate::plan::Order;

/// The units of this write, the header of the section first if it begins one. `copy` fills in the
/// bytes of the log from an LSN on.
pub(crate) fn encode(order: &Order, copy: impl Fn(Lsn, &mut [u8]), unit: u32, tag: u64) -> Vec<u8> {
    let (size, payload) = (unit as usize, payload(unit));
    let blocks = order.to.since(order.block).div_ceil(payload) as usize;
    let head = usize::from(order.place.begins.is_some());
    let mut bytes = vec![0; (head + blocks) * size];
    let of = |lsn, bytes| Head {
        stream: order.stream,
        tag,
        lsn,
        bytes,
        watermark: order.watermark,
        epoch: order.epoch,
        section: order.place.section,
    };
    if let Some(section) = &order.place.begins {
        of(order.block, 0).seal_section(section, &mut bytes[..size]);
    }
    for (i, block) in bytes[head * size..].chunks_mut(size).enumerate() {
        let lsn = order.block.plus(i as u64 * payload);
        let length = order.to.since(lsn).min(payload);
        copy(lsn, &mut block[HEAD..HEAD + length as usize]);
        of(lsn, length as u16).seal(block);
    }
    bytes
}
