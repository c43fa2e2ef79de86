//! Time passes: which writes are slow, and which lanes are stalled.

use super::{Busy, Kind, Lane, Plan, epoch::Mode};
use tantalum_rt::Nanos;

/// A write stalls that takes so many times as long as half of those of its size, if as many are
/// known.
const USUAL: u64 = 4;
const USUAL_LEAST: u32 = 16;

/// Whether it is not known of the write yet that it is slow. One that was written again may be, too:
/// then a third device gets it. (In the paper a request that was issued again has no deadline.)
fn may_become_slow(busy: &Busy) -> bool {
    busy.kind != Kind::Archive && !busy.slow
}

impl Plan {
    /// When a write of this lane counts as slow.
    fn slow_after(&self, lane: &Lane) -> Option<Nanos> {
        let options = self.hedge.options();
        let units = lane.busy.as_ref()?.units;
        let quantile = |percent| lane.latencies.quantile(units, percent, options.samples);
        let median = quantile(50)?;
        let multiple = median.0.saturating_mul(u64::from(options.multiple_percent)) / 100;
        quantile(options.quantile_percent).map(|q| q.max(Nanos(multiple)))
    }

    /// When this lane's write is waited for no longer: by the bound, but not before it takes several
    /// times as long as usual.
    fn stalls_after(&self, lane: &Lane) -> Nanos {
        let median = |b: &Busy| lane.latencies.quantile(b.units, 50, USUAL_LEAST);
        let usual = lane.busy.as_ref().and_then(median).unwrap_or_default();
        self.options.stall.max(usual * USUAL)
    }

    /// Whether a group waits for this lane's write.
    fn is_awaited(&self, lane: &Lane) -> bool {
        let waits =
            |number: u64| self.groups.iter().any(|g| g.number == number && !self.is_done(g));
        lane.busy.as_ref().is_some_and(|b| b.epoch == self.epoch && waits(b.group))
    }

    /// Whether it is not known yet that the lane's write, which is so old, is slow.
    fn has_become_slow(&self, lane: &Lane, age: Nanos) -> bool {
        lane.busy.as_ref().is_some_and(may_become_slow)
            && self.slow_after(lane).is_some_and(|after| age >= after)
    }

    /// A write ends. If it was slow, and nobody looked while it was, it counts all the same.
    pub(super) fn notice_slow(&mut self, lane: usize, now: Nanos) {
        let lane = &self.lanes[lane];
        let age = lane.busy.as_ref().map_or(Nanos::ZERO, |b| now.saturating_sub(b.issued));
        if self.has_become_slow(lane, age) && self.is_awaited(lane) {
            self.counts.slow += 1;
            self.hedge.found_slow();
        }
    }

    /// Looks at what is in flight.
    pub fn tick(&mut self, now: Nanos) {
        // Room that only a stalled device has is not waited for.
        let short = self.lacks_room_on(|l| !l.stalled);
        for i in 0..self.lanes.len() {
            let lane = &self.lanes[i];
            let Some(busy) = &lane.busy else { continue };
            let age = now.saturating_sub(busy.issued);
            let awaited = self.is_awaited(lane);
            let is_slow = self.has_become_slow(lane, age);
            let bound = self.stalls_after(lane);
            let stalls = !lane.stalled && age >= bound;
            // A device that takes part no longer has been left, and the archive has none of the room.
            let holds_up = self.is_present(lane) && !lane.archive && (awaited || short);
            let stuck = holds_up && age >= bound * 2;
            if is_slow {
                self.counts.slow += u64::from(awaited);
                let again = awaited && self.hedge.found_slow();
                if let Some(busy) = &mut self.lanes[i].busy {
                    (busy.slow, busy.again) = (true, again);
                }
            }
            if stalls {
                self.counts.stalls += 1;
                let group = self.lanes[i].busy.as_ref().map(|b| b.group);
                let hedged = self.groups.iter().any(|g| Some(g.number) == group && g.again);
                self.lanes[i].stalled = true;
                if let Some(busy) = &mut self.lanes[i].busy {
                    busy.again |= awaited && !hedged;
                }
            }
            if stuck && self.mode == Mode::Running && self.can_leave(i) {
                self.mode = Mode::Draining;
            }
        }
    }

    /// Whether the log can go on without this lane's device.
    fn can_leave(&self, lane: usize) -> bool {
        let device = self.lanes[lane].device;
        let others = self.array_devices(|l| !l.stalled) & !(1 << device);
        others != 0
    }

    /// When [`Plan::tick`] will find something, if nothing ends before. It is later than `now`.
    pub fn wake_at(&self, now: Nanos) -> Option<Nanos> {
        self.finds_at(now, self.hedge.options().enabled)
    }

    /// When [`Plan::tick`] will find something that it has to: what is slow need not be known if it
    /// will not be written again.
    #[cfg(feature = "blocking")]
    pub fn must_wake_at(&self, now: Nanos) -> Option<Nanos> {
        self.finds_at(now, self.present_devices() > 1 && self.hedge.would_hedge())
    }

    fn finds_at(&self, now: Nanos, slow: bool) -> Option<Nanos> {
        let mut first = None;
        let mut at = |time: Nanos| {
            first = first.into_iter().chain((time > now).then_some(time)).min();
        };
        for lane in &self.lanes {
            let Some(busy) = &lane.busy else { continue };
            let can_hedge = slow && may_become_slow(busy);
            if can_hedge && self.is_awaited(lane) {
                self.slow_after(lane).inspect(|after| at(busy.issued.saturating_add(*after)));
            }
            let bound = self.stalls_after(lane);
            at(busy.issued.saturating_add(bound));
            at(busy.issued.saturating_add(bound * 2));
        }
        first
    }
}
