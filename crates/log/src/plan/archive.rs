//! What goes to the archive: everything appended, in large pieces, wanted or not.

use super::{Kind, Order, Plan};
use crate::format::block_of;
use tantalum_rt::Nanos;

impl Plan {
    pub(super) fn next_archive(&mut self, now: Nanos) -> Option<Order> {
        let lane = self.lanes.iter().position(|l| l.archive && !l.retired)?;
        if !self.is_idle(&self.lanes[lane]) {
            return None;
        }
        if self.appended.since(self.archived) < self.options.archive_bytes {
            return None;
        }
        let (payload, most) = (self.options.payload, self.options.archive_units);
        let block = block_of(self.archived, payload);
        let to = self.appended.min(block.plus(u64::from(most) * payload));
        let units = self.units(block, to);
        let place = self.lanes[lane].main.take(units, block, to, self.checkpoint)?;
        self.counts.archive_writes += 1;
        self.counts.archive_units += u64::from(units);
        self.archived = to;
        Some(self.order(lane, false, place, Kind::Archive, 0, block, to, now))
    }

    /// Memory is short: what is durable elsewhere is not kept for the archive. The archive then
    /// lacks a piece, which recovery finds on the other devices.
    pub fn skip_archive(&mut self) {
        if self.archived < self.durable {
            self.archived = self.durable;
            self.counts.archive_gaps += 1;
        }
    }
}
