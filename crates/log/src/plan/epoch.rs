//! A new epoch while running: a device failed, or holds up the log.

use super::{Health, Lane, LaneSpec, Plan};
use crate::{Lsn, Standing};
use tantalum_rt::Nanos;

/// What the plan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Running,
    /// Nothing new is issued until what is in flight on good lanes has ended.
    Draining,
    /// The end of the epoch is being made durable: no end of a write counts any more.
    Frozen,
    /// No device of the array is left, or one failed that nothing replaces.
    Stopped,
}

/// Something that the owner of a plan must do, one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    /// Make durable that a new epoch begins, and what becomes of these devices; then
    /// [`Plan::restarted`]. One that is to take part again needs a flush and the state before.
    Restart { start: Lsn, devices: Vec<(usize, Standing)> },
    /// Make durable that the device takes part again; then [`Plan::returned`].
    Return { device: usize },
}

impl Plan {
    /// A device failed a write or a flush.
    pub fn device_failed(&mut self, device: usize) {
        if self.failing.contains(&device) {
            return;
        }
        if self.health[device] != Health::Present {
            self.health[device] = Health::Failed;
            return;
        }
        self.failing.push(device);
        let failing = self.failing.iter().fold(0u64, |bits, d| bits | 1 << d);
        if self.array_devices(|_| true) & !failing == 0 {
            self.mode = Mode::Stopped;
            // No epoch follows that would say so.
            self.failing.iter().for_each(|d| self.health[*d] = Health::Failed);
        } else if self.mode == Mode::Running {
            self.mode = Mode::Draining;
        }
    }

    /// A device does not take a state of the log in time. It is left until [`Plan::answered`].
    pub fn device_silent(&mut self, device: usize) {
        self.silent.push(device);
        if self.health[device] == Health::Present {
            self.pause();
        }
    }

    /// It has, or has failed to.
    pub fn answered(&mut self, device: usize) {
        self.silent.retain(|d| *d != device);
    }

    /// A device has just begun to take part, and did not take the state that says so.
    pub fn distrust(&mut self, device: usize) {
        if self.silent.contains(&device) {
            self.pause();
        } else {
            self.device_failed(device);
        }
    }

    /// From now on lanes may take so long.
    pub fn set_stall(&mut self, stall: Nanos) {
        self.options.stall = stall;
    }

    /// A state of the log is to be written, for which stalled devices are not waited: they are
    /// left first. Whether that is necessary.
    pub fn leave_stalled(&mut self) -> bool {
        let stalled = self.lanes.iter().any(|l| l.stalled && self.is_present(l));
        if stalled && self.mode == Mode::Running && self.array_devices(|l| !l.stalled) != 0 {
            self.mode = Mode::Draining;
        }
        self.is_draining()
    }

    /// Nothing new is issued, and a new epoch will begin.
    pub fn pause(&mut self) {
        if self.mode == Mode::Running {
            self.mode = Mode::Draining;
        }
    }

    /// The epoch ends at the durable LSN. A stalled write that ends from now on counts for nothing,
    /// until [`Plan::restarted`] or [`Plan::join`].
    pub fn freeze(&mut self) {
        if self.mode == Mode::Draining {
            self.mode = Mode::Frozen;
        }
    }

    /// Freezes if this [`Chore::Restart`] is still what is to be done; whether it did. In one call: a
    /// write that ends between two could make durable what is behind this start.
    #[must_use]
    pub fn freeze_for(&mut self, start: Lsn, devices: &[(usize, Standing)]) -> bool {
        let still = matches!(self.chore(), Some(Chore::Restart { start: s, devices: d })
            if s == start && d == devices);
        if still {
            self.freeze();
        }
        still
    }

    /// The epoch does not end there. Another end comes.
    pub fn thaw(&mut self) {
        if self.mode == Mode::Frozen {
            self.mode = Mode::Draining;
        }
    }

    /// Whether ends of writes count for nothing: the end of the epoch is being made durable, or the
    /// log has stopped. When it stops because no device took that state in time, the state may
    /// still land, and what ended meanwhile would be acknowledged behind it.
    pub(super) fn is_frozen(&self) -> bool {
        matches!(self.mode, Mode::Frozen | Mode::Stopped)
    }

    /// Whether nothing is issued and nothing is in flight on good lanes.
    pub fn is_quiet(&self) -> bool {
        let waits = |l: &Lane| {
            let good = self.is_present(l) && !self.failing.contains(&l.device);
            l.busy.is_some() && !l.stalled && good
        };
        self.mode == Mode::Draining && !self.lanes.iter().any(waits)
    }

    /// Whether something that the device was given has not ended.
    pub fn is_waited_for(&self, device: usize) -> bool {
        let busy = self.lanes.iter().any(|l| l.device == device && l.busy.is_some());
        busy || self.silent.contains(&device)
    }

    /// Whether a write or a state is in flight that has not ended.
    pub fn has_writes(&self) -> bool {
        !self.silent.is_empty() || self.lanes.iter().any(|l| l.busy.is_some())
    }

    /// Another device takes the place of a lost one; it is durable that it takes part. Gives its
    /// lanes.
    pub fn join(&mut self, device: usize, lanes: Vec<LaneSpec>) -> std::ops::Range<usize> {
        self.lanes.iter_mut().filter(|l| l.device == device).for_each(|l| l.retired = true);
        let first = self.lanes.len();
        self.lanes.extend(lanes.into_iter().map(Lane::new));
        self.health[device] = Health::Present;
        self.short = (Lsn::ZERO, Lsn::ZERO); // It has everything.
        if self.archive().is_some_and(|lane| lane.device == device) {
            self.skip_archive();
        }
        self.thaw();
        self.begin_epoch();
        self.width.set_most(self.most_groups());
        first..self.lanes.len()
    }

    /// Whether a new epoch has to begin first.
    pub fn is_draining(&self) -> bool {
        matches!(self.mode, Mode::Draining | Mode::Frozen)
    }

    /// Nothing is written any more.
    pub fn stop(&mut self) {
        self.mode = Mode::Stopped;
    }

    /// What is to be done, if anything is.
    pub fn chore(&self) -> Option<Chore> {
        match self.mode {
            Mode::Stopped | Mode::Frozen => None,
            Mode::Running => self.returning().map(|device| Chore::Return { device }),
            Mode::Draining => {
                if !self.is_quiet() {
                    return None;
                }
                let mut devices = self.leaving();
                let gone = devices.iter().fold(0u64, |bits, (d, _)| bits | 1 << d);
                let others = self.array_devices(|_| true) & !gone;
                if others == 0 {
                    // While no device answers there is nothing to go on with.
                    devices.push((self.returning_to_array()?, Standing::Present));
                }
                Some(Chore::Restart { start: self.durable, devices })
            }
        }
    }

    /// A device that was left and has answered.
    fn returning(&self) -> Option<usize> {
        let left = |d: &usize| self.health[*d] == Health::Left;
        (0..self.health.len()).find(|d| left(d) && !self.is_waited_for(*d))
    }

    /// The same, of the array.
    fn returning_to_array(&self) -> Option<usize> {
        let left = |d: &usize| self.health[*d] == Health::Left;
        (0..self.health.len()).find(|d| left(d) && self.has_answered(*d))
    }

    /// Whether the device, which is left or about to be, is one of the array that could take part:
    /// whatever it was given has ended, and well.
    pub fn has_answered(&self, device: usize) -> bool {
        let is_of_array = |l: &Lane| l.device == device && !l.archive && !l.retired;
        let failed = self.health[device] == Health::Failed || self.failing.contains(&device);
        self.lanes.iter().any(is_of_array) && !failed && !self.is_waited_for(device)
    }

    /// The devices that take part no longer, and what is said of them.
    fn leaving(&self) -> Vec<(usize, Standing)> {
        let stalled = |d: usize| self.lanes.iter().any(|l| l.device == d && l.stalled);
        let whole = self.health.iter().all(|h| *h == Health::Present);
        let mut leaving = Vec::new();
        for device in 0..self.health.len() {
            if self.health[device] != Health::Present {
                continue;
            }
            if self.failing.contains(&device) {
                // What it alone has must count: without a second copy it is only left.
                let lost = self.options.copies > 1 && whole && self.failing.len() == 1;
                leaving.push((device, if lost { Standing::Lost } else { Standing::Left }));
            } else if stalled(device) || self.silent.contains(&device) {
                leaving.push((device, Standing::Left));
            }
        }
        leaving
    }

    /// The new epoch is durable, and these devices take part no longer, or (if the standing says so)
    /// again.
    pub fn restarted(&mut self, epoch: u32, devices: &[(usize, Standing)]) {
        let was_short = self.is_short();
        self.note_short();
        for (device, standing) in devices {
            self.health[*device] = match standing {
                Standing::Present => Health::Present,
                _ if self.failing.contains(device) => Health::Failed,
                _ => Health::Left,
            };
        }
        self.failing.retain(|d| self.health[*d] == Health::Present);
        if !was_short {
            self.short.0 = self.durable;
        }
        self.counts.restarts += 1;
        self.epoch = epoch;
        self.groups.clear();
        self.hedges.clear();
        self.formed = self.durable;
        self.archived = self.durable;
        let silent = self.silent.iter().any(|d| self.health[*d] == Health::Present);
        let again = silent || !self.failing.is_empty();
        // (It may have been stopped while the state was written.)
        if self.mode != Mode::Stopped {
            self.mode = if again { Mode::Draining } else { Mode::Running };
        }
        self.begin_epoch();
        for lane in &mut self.lanes {
            lane.main.forget_from(self.durable);
            if let Some(second) = &mut lane.second {
                second.forget_from(self.durable);
            }
        }
        self.width.set_most(self.most_groups());
    }

    /// It is durable that the device takes part again.
    pub fn returned(&mut self, device: usize) {
        self.note_short();
        self.health[device] = Health::Present;
        if self.archive().is_some_and(|lane| lane.device == device) {
            // Nothing was kept in memory for the archive while it was left.
            self.skip_archive();
        }
        self.width.set_most(self.most_groups());
    }

    /// Which devices take part changes. What was written so far may have too few copies.
    fn note_short(&mut self) {
        if self.has_too_few() {
            self.short.1 = self.short.1.max(self.formed);
        }
    }

    pub(super) fn begin_epoch(&mut self) {
        let start = self.durable;
        for lane in &mut self.lanes {
            lane.main.begin_epoch(start);
            if let Some(second) = &mut lane.second {
                second.begin_epoch(start);
            }
        }
    }
}
