//! What is written next, and where.

use super::{Busy, Group, Kind, Lane, Order, Plan, epoch::Mode};
use crate::Lsn;
use crate::area::{Area, Place, together};
use crate::format::block_of;
use crate::planted::planted;
use tantalum_rt::Nanos;

/// One group in so many goes to the lane that has waited longest, of another disk than the last one,
/// so that what is known of a lane does not become old.
const EXPLORE: u64 = 64;

impl Plan {
    /// The next thing to write, if there is one and a lane for it. Ask until there is none.
    pub fn next(&mut self, now: Nanos) -> Option<Order> {
        self.next_old(now).or_else(|| self.next_new(now)).or_else(|| self.next_rest(now))
    }

    /// As [`Plan::next`], but no new group is formed.
    pub fn next_but_groups(&mut self, now: Nanos) -> Option<Order> {
        self.next_old(now).or_else(|| self.next_rest(now))
    }

    fn next_old(&mut self, now: Nanos) -> Option<Order> {
        let running = self.mode == Mode::Running;
        running.then(|| self.next_again(now).or_else(|| self.next_copy(now))).flatten()
    }

    fn next_new(&mut self, now: Nanos) -> Option<Order> {
        let running = self.mode == Mode::Running;
        running.then(|| self.next_group(now)).flatten()
    }

    fn next_rest(&mut self, now: Nanos) -> Option<Order> {
        let running = self.mode == Mode::Running;
        running.then(|| self.next_archive(now)).flatten()
    }

    /// The lane that would write a new group now, if one is to be formed and there is one for it.
    #[cfg(feature = "blocking")]
    pub fn lane_of_next_group(&self) -> Option<(usize, usize)> {
        let running = self.mode == Mode::Running;
        let (from, to) = running.then(|| self.due_group()).flatten()?;
        let lane = self.best_lane(from, to, self.next_group, |_| true)?;
        Some((lane, self.lanes[lane].device))
    }

    /// Whether `bytes` more may be appended: whatever groups they make will find room.
    pub fn has_room(&self, bytes: u64) -> bool {
        bytes.max(1) <= self.room_bytes()
    }

    /// How many bytes more may be appended.
    pub fn room_bytes(&self) -> u64 {
        let all = self.room().saturating_sub(1) * self.group_bytes();
        all.saturating_sub(self.appended.since(self.formed))
    }

    /// Bytes of a group of the largest size.
    pub fn group_bytes(&self) -> u64 {
        self.options.group_bytes()
    }

    /// Whether something that is to be written finds no room on any device before the checkpoint
    /// moves, however long it waits. An append is accepted only if there is room; a device that is
    /// left or lost afterwards takes its room along.
    pub fn lacks_room(&self) -> bool {
        self.lacks_room_on(|_| true)
    }

    /// The same of some lanes.
    pub(super) fn lacks_room_on(&self, which: impl Fn(&Lane) -> bool) -> bool {
        if self.mode != Mode::Running {
            return false;
        }
        let lacks_copy = |g: &&Group| g.asked.count_ones() < self.needed() && !self.is_done(g);
        let due = match self.groups.iter().find(lacks_copy) {
            Some(group) => Some((group.from, group.to, group.asked)),
            None => self.due_group().map(|(from, to)| (from, to, 0)),
        };
        due.is_some_and(|(from, to, asked)| {
            let units = self.units(from, to);
            let has_room = |l: &Lane| {
                let may = !l.archive && self.is_present(l) && asked & (1 << l.device) == 0;
                may && which(l) && l.main.take_fits(units, self.checkpoint)
            };
            !self.lanes.iter().any(has_room)
        })
    }

    pub(super) fn in_flight(&self) -> usize {
        self.groups.iter().filter(|g| !self.is_done(g) && !self.is_stuck(g)).count()
    }

    /// How many groups of the largest size surely find room.
    pub fn room(&self) -> u64 {
        let mut each = vec![0; self.health.len()];
        for lane in self.lanes.iter().filter(|l| !l.archive && self.is_present(l)) {
            each[lane.device] += lane.main.room(self.options.group_units, self.checkpoint);
        }
        together(each, self.needed())
    }

    /// A slow or stalled write, to another device.
    fn next_again(&mut self, now: Nanos) -> Option<Order> {
        let mut found: Vec<usize> = (0..self.lanes.len())
            .filter(|i| self.lanes[*i].busy.as_ref().is_some_and(|b| b.again))
            .collect();
        found.sort_by_key(|i| self.lanes[*i].busy.as_ref().map(|b| b.to));
        found.into_iter().find_map(|slow| self.write_again(slow, now))
    }

    fn write_again(&mut self, slow: usize, now: Nanos) -> Option<Order> {
        let stalled = self.lanes[slow].stalled;
        let busy = self.lanes[slow].busy.as_ref()?;
        let (number, ticket, issued) = (busy.group, busy.ticket, busy.issued);
        let group = self.groups.iter().find(|g| g.number == number)?;
        let (from, to, asked) = (group.from, group.to, group.asked);
        let block = block_of(from, self.options.payload);
        let units = self.units(block, to);
        if !stalled && !self.hedge.affords(units) {
            return None;
        }
        let (checkpoint, spare) = (self.checkpoint, self.has_room(2 * self.group_bytes()));
        let fits = |area: &Area| area.allows(from) && area.take_fits(units, checkpoint);
        let (lane, second) = (0..self.lanes.len()).find_map(|i| {
            let lane = &self.lanes[i];
            if lane.archive || !self.is_idle(lane) || asked & (1 << lane.device) != 0 {
                return None;
            }
            let in_second = lane.second.as_ref().is_some_and(fits);
            // The main stream is for what has no other way: its room is promised to what is appended.
            let in_main = stalled || (spare && lane.second.is_none());
            (in_second || (in_main && fits(&lane.main))).then_some((i, in_second))
        })?;
        let place = self.take(lane, second, units, block, to)?;
        if stalled {
            self.counts.forced += 1;
        } else {
            self.counts.hedges += 1;
            self.hedge.hedged(units);
        }
        if let Some(busy) = &mut self.lanes[slow].busy {
            busy.again = false;
        }
        let order = self.order(lane, second, place, Kind::Again, number, block, to, now);
        self.hedges.push(super::done::Pair::new(ticket, issued, order.ticket, now));
        Some(order)
    }

    /// The next copy of a group that lacks one.
    fn next_copy(&mut self, now: Nanos) -> Option<Order> {
        let needed = self.needed();
        if needed < 2 {
            return None;
        }
        let twice = planted!(OneDeviceTwice);
        for g in 0..self.groups.len() {
            let group = &self.groups[g];
            let asked = if twice { group.lanes } else { group.asked.count_ones() };
            if asked >= needed || self.is_done(group) {
                continue;
            }
            let (number, from, to, devices) = (group.number, group.from, group.to, group.asked);
            let new = |device: usize| twice || devices & (1 << device) == 0;
            if let Some(lane) = self.best_lane(from, to, number, new) {
                return self.send(lane, number, from, to, now);
            }
            // A later group must not overtake this one on the lane that it waits for.
            return None;
        }
        None
    }

    /// What makes a new group, if one is wanted and may be in flight.
    fn due_group(&self) -> Option<(Lsn, Lsn)> {
        let lacks = |g: &Group| g.lanes < self.needed();
        if self.groups.iter().any(lacks) {
            return None;
        }
        if self.in_flight() >= self.width.now() {
            return None;
        }
        let (payload, most) = (self.options.payload, self.options.group_units);
        let limit = block_of(self.formed, payload).plus(u64::from(most) * payload);
        let full = self.appended >= limit;
        if !full && self.wanted <= self.formed {
            return None;
        }
        Some((self.formed, self.appended.min(limit)))
    }

    /// A new group, if one is wanted.
    fn next_group(&mut self, now: Nanos) -> Option<Order> {
        let (from, to) = self.due_group()?;
        let number = self.next_group;
        let lane = self.best_lane(from, to, number, |_| true)?;
        self.groups.push_back(Group {
            number,
            from,
            to,
            asked: 0,
            holders: 0,
            writes: 0,
            lanes: 0,
            again: false,
            shared: self.came > 1,
        });
        if to == self.appended {
            self.came = 0;
        }
        self.next_group += 1;
        self.formed = to;
        self.counts.groups += 1;
        self.counts.group_bytes += to.since(from);
        self.send(lane, number, from, to, now)
    }

    /// Whether a stalled lane holds up the group.
    fn is_stuck(&self, group: &Group) -> bool {
        let holds = |b: &Busy| b.group == group.number && b.kind != Kind::Archive;
        self.lanes.iter().any(|l| l.stalled && l.busy.as_ref().is_some_and(holds))
    }

    /// The idle lane of the array that is expected to be the quickest. If threads write, it is the
    /// one that was used last, unless another one is clearly quicker.
    fn best_lane(
        &self,
        from: Lsn,
        to: Lsn,
        number: u64,
        device: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let units = self.units(from, to);
        let fits = |i: &usize| {
            let lane = &self.lanes[*i];
            let may = !lane.archive && self.is_idle(lane) && device(lane.device);
            may && lane.main.allows(from) && lane.main.take_fits(units, self.checkpoint)
        };
        let lanes = (0..self.lanes.len()).filter(fits);
        let newest = lanes.clone().max_by_key(|i| self.lanes[*i].used);
        if number.is_multiple_of(EXPLORE) {
            let elsewhere = |i: &usize| newest.is_none_or(|newest| !self.is_one_disk(*i, newest));
            if let Some(oldest) =
                lanes.clone().filter(elsewhere).min_by_key(|i| self.lanes[*i].used)
            {
                return Some(oldest);
            }
        }
        let median =
            |i: &usize| self.lanes[*i].latencies.quantile(units, 50, 4).unwrap_or_default();
        let best = lanes.clone().min_by_key(|i| (median(i), self.lanes[*i].used))?;
        // Files of one disk are all as quick, and a write that goes on in one is quicker than one that
        // begins in another.
        let stays = |i: &usize| self.stays && median(i) <= median(&best) + median(&best) / 2;
        newest.filter(stays).or(Some(best))
    }

    /// Whether these lanes are known to be on one disk. What is known of one is known of the other
    /// then.
    fn is_one_disk(&self, lane: usize, other: usize) -> bool {
        let disk = |lane: usize| *self.disks.get(self.lanes[lane].device)?;
        disk(lane).is_some_and(|one| disk(other) == Some(one))
    }

    /// Sends a group to a lane's main stream.
    fn send(&mut self, lane: usize, number: u64, from: Lsn, to: Lsn, now: Nanos) -> Option<Order> {
        let block = block_of(from, self.options.payload);
        let units = self.units(block, to);
        let place = self.take(lane, false, units, block, to)?;
        self.lanes[lane].used = number;
        self.hedge.wrote(units);
        Some(self.order(lane, false, place, Kind::Group, number, block, to, now))
    }

    fn take(
        &mut self,
        lane: usize,
        second: bool,
        units: u32,
        block: Lsn,
        to: Lsn,
    ) -> Option<Place> {
        let lane = &mut self.lanes[lane];
        let area = if second { lane.second.as_mut()? } else { &mut lane.main };
        area.take(units, block, to, self.checkpoint)
    }

    /// Makes the lane busy.
    #[allow(clippy::too_many_arguments, reason = "what an order consists of")]
    pub(super) fn order(
        &mut self,
        lane: usize,
        second: bool,
        place: Place,
        kind: Kind,
        group: u64,
        block: Lsn,
        to: Lsn,
        now: Nanos,
    ) -> Order {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let units = self.units(block, to);
        let epoch = self.epoch;
        let (issued, slow, again) = (now, false, false);
        let busy = Busy { ticket, kind, group, epoch, block, to, units, issued, slow, again };
        let l = &mut self.lanes[lane];
        assert!(l.busy.is_none(), "a lane has one write in flight");
        l.busy = Some(busy);
        let (device, stream) = (l.device, l.stream + u8::from(second));
        if kind != Kind::Archive {
            self.counts.units += u64::from(units) + u64::from(place.begins.is_some());
            if let Some(g) = self.groups.iter_mut().find(|g| g.number == group) {
                let room = u64::from(units) * self.options.payload;
                self.counts.padding += room.saturating_sub(g.to.since(g.from));
                g.asked |= 1 << device;
                g.lanes += 1;
                g.again |= kind == Kind::Again;
            }
        }
        let watermark = if planted!(WatermarkAhead) { self.formed } else { self.durable };
        Order { ticket, lane, device, stream, place, block, to, epoch, watermark }
    }
}
