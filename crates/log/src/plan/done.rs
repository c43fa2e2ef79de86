//! What an end of a write means.

use super::{Busy, Kind, Plan};
use crate::width::Load;
use tantalum_rt::Nanos;

/// A slow write and the one that was to replace it.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    first: u64,
    issued: Nanos,
    again: u64,
    again_issued: Nanos,
    first_end: Option<Nanos>,
    again_end: Option<Nanos>,
}

impl Pair {
    pub fn new(first: u64, issued: Nanos, again: u64, again_issued: Nanos) -> Pair {
        Pair { first, issued, again, again_issued, first_end: None, again_end: None }
    }

    /// What it saved, in nanoseconds, once both have ended.
    fn saved(&self, waiting: bool) -> Option<i64> {
        let (first, again) = (self.first_end?, self.again_end?);
        let took = again.saturating_sub(self.again_issued).0 as i64;
        // It costs others as much only if they wait.
        let cost = if waiting { took } else { took / 8 };
        Some(first.saturating_sub(again).0 as i64 - cost)
    }
}

impl Plan {
    /// The write of this order has ended, well or not. An order that ended badly may be on its
    /// device or not; the device is not used again.
    pub fn done(&mut self, now: Nanos, ticket: u64, ok: bool) {
        let Some(i) =
            self.lanes.iter().position(|l| l.busy.as_ref().is_some_and(|b| b.ticket == ticket))
        else {
            return;
        };
        self.notice_slow(i, now);
        let lane = &mut self.lanes[i];
        let Some(busy) = lane.busy.take() else { return };
        let device = lane.device;
        lane.stalled = false;
        if !ok {
            self.device_failed(device);
            return;
        }
        lane.latencies.learn(busy.units, now.saturating_sub(busy.issued));
        let was_durable = self.durable;
        if busy.epoch == self.epoch && !self.is_frozen() {
            self.cover(&busy, device);
            self.advance(now);
            if busy.kind == Kind::Archive {
                self.archive_alone(&busy);
            }
        }
        self.judge(now, &busy, self.durable > was_durable);
    }

    /// Counts the write for every group that is wholly in it.
    fn cover(&mut self, busy: &Busy, device: usize) {
        for g in self.groups.iter_mut().filter(|g| g.from >= busy.block && g.to <= busy.to) {
            g.holders |= 1 << device;
            g.writes += 1;
        }
    }

    fn advance(&mut self, now: Nanos) {
        while let Some(first) = self.groups.front()
            && self.is_done(first)
        {
            let (bytes, shared) = (first.to.since(first.from), first.shared);
            self.durable = self.durable.max(first.to);
            self.groups.pop_front();
            let waiting = self.wanted > self.formed;
            let others = self.in_flight();
            self.width.group_done(now, bytes, Load { waiting, shared, others });
        }
    }

    /// The archive may have bytes that no group has yet: they are durable, too.
    fn archive_alone(&mut self, busy: &Busy) {
        if self.needed() > 1 || !self.groups.is_empty() || busy.block > self.formed {
            return;
        }
        if busy.to > self.formed {
            self.counts.archive_first += 1;
            self.formed = busy.to;
            self.durable = self.durable.max(busy.to);
        }
    }

    fn judge(&mut self, now: Nanos, busy: &Busy, moved: bool) {
        let Some(at) =
            self.hedges.iter().position(|p| p.first == busy.ticket || p.again == busy.ticket)
        else {
            return;
        };
        let pair = &mut self.hedges[at];
        if pair.first == busy.ticket {
            pair.first_end = Some(now);
        } else {
            pair.again_end = Some(now);
            self.counts.hedges_won += u64::from(pair.first_end.is_none() && moved);
        }
        if let Some(saved) = self.hedges[at].saved(self.wanted > self.formed) {
            debug_assert!(self.hedges[at].issued <= self.hedges[at].again_issued);
            self.hedges.remove(at);
            self.hedge.judge(saved);
        }
    }
}
