//! A device that was left takes part again, once it has what it missed.

use super::epoch::Mode;
use super::{Health, Lane, Plan};
use crate::Lsn;
use crate::area::Area;

impl Plan {
    /// From here on there may be too few copies, if that is so.
    pub fn short_from(&self) -> Option<Lsn> {
        self.is_short().then_some(self.short.0.max(self.checkpoint))
    }

    /// The main stream of a device that was left which has most room: its lane and its area, which
    /// nothing changes before [`Plan::put_main`] as long as no state is written.
    pub fn take_main(&self, device: usize) -> Option<(usize, u8, Area)> {
        let of_device = |i: &usize| {
            let lane = &self.lanes[*i];
            lane.device == device && !lane.archive && !lane.retired
        };
        let room = |i: &usize| self.lanes[*i].main.room(self.options.group_units, self.checkpoint);
        let lane = (0..self.lanes.len()).filter(of_device).max_by_key(room)?;
        Some((lane, self.lanes[lane].stream, self.lanes[lane].main.clone()))
    }

    /// The main stream of that lane is written so far.
    pub fn put_main(&mut self, lane: usize, area: Area) {
        self.lanes[lane].main = area;
    }

    /// Whether the log is paused, and everything that a group has is on each device that takes part:
    /// so that another one may take part without a new epoch.
    pub fn is_settled(&self) -> bool {
        let waits = |l: &Lane| self.is_present(l) && l.busy.is_some();
        let silent = self.silent.iter().any(|d| self.health[*d] == Health::Present);
        let sound = self.failing.is_empty() && !silent && !self.lanes.iter().any(waits);
        self.is_quiet() && sound && self.formed == self.durable
    }

    /// A device that was left has everything by now but what lies between these: it takes part, and
    /// what was paused goes on, if nothing else needs a new epoch.
    pub fn caught_up(&mut self, short: Option<(Lsn, Lsn)>) {
        self.short = short.unwrap_or_default();
        if self.is_settled() {
            self.mode = Mode::Running;
        }
    }
}
