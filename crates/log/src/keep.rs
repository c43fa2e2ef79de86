//! Writing states while the log runs.
//!
//! 1. A state is written only when the one before it is durable on every device that takes part:
//!    one at a time ([`Core::keeper`]), and not while a device has to be left or given up, which
//!    the next new epoch does.
//! 2. A device that does not take a state in [`PATIENCE`] times the bound for stalls, or
//!    [`USUAL`] times what is usual for it, is left until it does. While no device has taken it, it
//!    is waited for: nothing is issued meanwhile, so memory stays bounded.
//!    If a device answers meanwhile that the state does not count on, it takes the place of those
//!    that are waited for. They may have the state or not. So that device gets it first, and then a
//!    newer one by which the others are left: whatever they come back with is older then.
//! 3. With two copies, what recovery found and no watermark covers may be on one device only. It is
//!    copied before the log takes anything: written again as blocks of the next epoch, which do not
//!    count before a state says that this epoch began where the copy does. So a cut meanwhile loses
//!    neither the old blocks nor the order of streams.
//! 4. A device that was left takes part again when it has what it missed ([`crate::catch_up`]), also
//!    if the log was opened anew meanwhile.
//! 5. A device that is missing may have a state newer by one. So before a log that was opened
//!    for reading without it moves its checkpoint, a state says that the device is lost.

use crate::OpenError;
use crate::catch_up::Caught;
use crate::core::Core;
use crate::open::{bring, write_state};
use crate::pace::{Gift, PATIENCE};
use crate::plan::{Chore, Health};
use crate::state::{EPOCHS_MAX, Standing, State};
use crate::{LogError, Lsn};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::first;

/// A device is left if a state or a flush takes so many times as long as usual.
const USUAL: u64 = 4;

/// A state, or a flush, on its way to a device.
struct Sent {
    device: usize,
    gift: Gift,
    /// Whether it has ended well; `None`: it is under way.
    ended: Rc<Cell<Option<bool>>>,
    /// It took too long.
    late: Rc<Cell<bool>>,
}

impl Sent {
    fn is_taken(&self) -> bool {
        self.ended.get() == Some(true)
    }

    fn is_under_way(&self) -> bool {
        self.ended.get().is_none()
    }
}

/// A checkpoint waits for its turn.
struct Waits<'a>(&'a Cell<u32>);

impl Waits<'_> {
    fn new(all: &Cell<u32>) -> Waits<'_> {
        all.set(all.get() + 1);
        Waits(all)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<D: BlockDevice + Clone + 'static> Core<D> {
    /// Writes a state to every device that it says takes part. Devices that fail are given up, and
    /// those that do not answer in time are left, once one has taken the state: while none answers
    /// it is waited for, or for another device (2). It is an error if all fail. Gives the devices
    /// that have taken it, or the one that came instead. Then the state of the log is another one
    /// than `state`, of a new epoch.
    pub async fn write_state(self: &Rc<Self>, state: State) -> Result<Vec<usize>, LogError> {
        let short = self.plan().short_behind(state.checkpoint);
        self.write_state_as(state, short).await
    }

    /// The same, and it is known whether there are too few copies of something ([`State::short`]).
    pub async fn write_state_as(
        self: &Rc<Self>,
        mut state: State,
        short: Option<Lsn>,
    ) -> Result<Vec<usize>, LogError> {
        let mut instead = false;
        state.short = short;
        loop {
            let writes = self.send_to_all(&state);
            self.await_sent(&writes).await;
            let other = self.taken_or_other(&state, &writes).await;
            let taken = writes.iter().filter(|w| w.is_taken());
            let taken: Vec<usize> = taken.map(|w| w.device).collect();
            if !taken.is_empty() {
                *self.state.borrow_mut() = state;
                if instead {
                    self.begin_instead();
                }
                return Ok(taken);
            }
            let Some(device) = other else {
                self.fail("no device takes its state".to_string());
                self.check_failed()?;
                return Ok(taken);
            };
            // No end of a write counts from here on.
            self.plan().pause();
            self.plan().freeze();
            self.check_failed()?;
            let start = self.durable();
            if !state.has_room(start) {
                self.fail(no_epoch());
                self.check_failed()?;
            }
            state = state.new_epoch(start);
            // The device may lack all that the others have.
            state.short = short.map(|_| start);
            for (index, (_, standing)) in state.devices.iter_mut().enumerate() {
                match *standing {
                    _ if index == device => *standing = Standing::Present,
                    // What it holds counts.
                    Standing::Present => *standing = Standing::Left,
                    Standing::Left | Standing::Lost => {}
                }
            }
            instead = true;
        }
    }

    /// Waits until a device has taken the state, or there is none for which to wait. Gives a device
    /// that does not take part, and has answered and taken the state before.
    async fn taken_or_other(self: &Rc<Self>, state: &State, writes: &[Sent]) -> Option<usize> {
        let others: Vec<usize> =
            (0..state.devices.len()).filter(|d| state.devices[*d].1 == Standing::Left).collect();
        let answered = || others.iter().copied().find(|d| self.plan().has_answered(*d));
        loop {
            let waits = || {
                let taken = writes.iter().any(Sent::is_taken);
                !taken && writes.iter().any(Sent::is_under_way) && !self.is_failed()
            };
            self.until_changed(|| waits() && answered().is_none()).await;
            let device = answered().filter(|_| waits())?;
            if self.bring_back(device, state).await && waits() {
                return Some(device);
            }
        }
    }

    /// The plan goes on with the devices of the state, which began an epoch.
    fn begin_instead(&self) {
        let (mut plan, state) = (self.plan(), self.state.borrow());
        let health = plan.health().to_vec();
        let standing = |d: usize| (d, state.devices[d].1);
        let leaves = |(d, standing): &(usize, Standing)| {
            health[*d] == Health::Present && *standing != Standing::Present
        };
        let all = (0..health.len()).map(standing);
        let returns =
            all.clone().filter(|(d, s)| health[*d] == Health::Left && *s == Standing::Present);
        let changes: Vec<_> = all.clone().filter(leaves).chain(returns).collect();
        plan.restarted(state.epoch, &changes);
    }

    fn send_to_all(self: &Rc<Self>, state: &State) -> Vec<Sent> {
        let sent = Rc::new(state.clone());
        let all = state.devices.iter().enumerate();
        let taking_part = all.filter(|(_, (_, standing))| *standing == Standing::Present);
        taking_part.filter_map(|(device, _)| self.send_state(device, sent.clone())).collect()
    }

    fn send_state(self: &Rc<Self>, device: usize, state: Rc<State>) -> Option<Sent> {
        let member = self.member(device)?;
        let write = async move { write_state(&member, &state).await.is_ok() };
        Some(self.send(device, Gift::State, write))
    }

    /// Begins to give something to a device, in a task of its own. What takes too long goes on:
    /// until it has ended the device is not used, so that no later state is overwritten by this one.
    fn send(
        self: &Rc<Self>,
        device: usize,
        gift: Gift,
        work: impl Future<Output = bool> + 'static,
    ) -> Sent {
        let sent = Sent { device, gift, ended: Rc::default(), late: Rc::default() };
        let (core, ended, late) = (self.clone(), sent.ended.clone(), sent.late.clone());
        self.given.borrow_mut()[device] += 1;
        self.domain.spawn_background("log: state", async move {
            let began = core.rt.now();
            let ok = work.await;
            core.given.borrow_mut()[device] -= 1;
            let took = core.rt.now().saturating_sub(began);
            core.paces.borrow_mut()[device].of(gift).learn(took);
            ended.set(Some(ok));
            let mut plan = core.plan();
            if late.get() {
                plan.answered(device);
            }
            if !ok {
                plan.device_failed(device);
            }
            drop(plan);
            core.pump();
            core.changed.notify_all();
        });
        sent
    }

    /// Waits until all has ended, but not for ever: the plan is told of devices that do not answer.
    async fn await_sent(&self, all: &[Sent]) {
        let ended = self.until_changed(|| all.iter().any(Sent::is_under_way));
        let usual = |s: &Sent| self.paces.borrow_mut()[s.device].of(s.gift).usual();
        let usual = all.iter().map(usual).max().unwrap_or_default();
        let patience = (self.options.stall * PATIENCE).max(usual * USUAL);
        first(ended, self.rt.sleep(patience)).await;
        for late in all.iter().filter(|s| s.is_under_way()) {
            late.late.set(true);
            self.plan().device_silent(late.device);
        }
    }

    /// Gives something to a device that does not take part. Whether it has taken it in time.
    pub async fn give(
        self: &Rc<Self>,
        device: usize,
        gift: Gift,
        work: impl Future<Output = bool> + 'static,
    ) -> bool {
        let sent = self.send(device, gift, work);
        self.await_sent(std::slice::from_ref(&sent)).await;
        sent.is_taken()
    }

    /// Gives a flush and this state to a device that was left. Whether it has taken both in time.
    async fn bring_back(self: &Rc<Self>, device: usize, state: &State) -> bool {
        let Some(member) = self.member(device) else { return false };
        let flush = async move { member.device.flush().await.is_ok() };
        if !self.give(device, Gift::Flush, flush).await {
            return false;
        }
        let Some(write) = self.send_state(device, Rc::new(state.clone())) else { return false };
        self.await_sent(std::slice::from_ref(&write)).await;
        write.is_taken()
    }

    /// Copies the end of the log, if that is necessary.
    pub async fn copy_end(self: &Rc<Self>) -> Result<(), OpenError> {
        let (from, end) = (self.durable(), self.end());
        if from == end {
            return Ok(());
        }
        let _keeper = self.keeper.lock().await;
        self.pump();
        let fails = || self.is_failed() || self.plan().is_draining();
        self.until_changed(|| self.durable() < end && !fails()).await;
        // It has blocks already, so that a device that lacks this state is not an older copy.
        let state = State { began: false, ..self.state.borrow().new_epoch(from) };
        if fails() || self.write_state(state).await.is_err() {
            return Err(OpenError::NotCopied);
        }
        self.plan().set_stall(self.options.stall);
        Ok(())
    }

    /// Moves the checkpoint.
    pub async fn write_checkpoint(self: &Rc<Self>, lsn: Lsn, number: u64) -> Result<(), LogError> {
        loop {
            let waits = Waits::new(&self.checkpoints);
            let keeper = self.keeper.lock().await;
            drop(waits);
            self.check_failed()?;
            let first = self.first.get();
            if lsn < first {
                return Err(LogError::BeforeFirst { lsn, first });
            }
            if !self.plan().leave_stalled() {
                // In an opening for reading devices may lack the present state.
                let (lagging, state) = (self.lagging.borrow().clone(), self.state.borrow().clone());
                bring(&lagging, &state).await?;
                self.lagging.borrow_mut().clear();
                // A device that is missing in an opening for reading may have a newer state (5).
                let without = {
                    let (state, members) = (self.state.borrow(), self.members.borrow());
                    state.without(|device| members[device].is_none())
                };
                if let Some(state) = without {
                    self.write_state(state).await?;
                }
                let state = self.state.borrow().new_checkpoint(lsn, number);
                self.write_state(state).await?;
                self.first.set(lsn);
                self.plan().move_checkpoint(lsn);
                drop(keeper);
                self.room.notify_all();
                self.pump();
                return Ok(());
            }
            drop(keeper);
            self.pump();
            // The keeper begins a new epoch first.
            let draining = || self.plan().is_draining() && !self.is_failed();
            self.until_changed(draining).await;
        }
    }

    /// Does what the plan asks for, if it still does.
    pub async fn do_chore(self: &Rc<Self>) {
        let _keeper = self.keeper.lock().await;
        let chore = self.plan().chore();
        match chore {
            None => {}
            Some(Chore::Restart { start, devices }) => self.restart(start, &devices).await,
            Some(Chore::Return { device }) => self.take_back(device).await,
        }
        self.changed.notify_all();
    }

    async fn restart(self: &Rc<Self>, start: Lsn, devices: &[(usize, Standing)]) {
        if !self.state.borrow().has_room(start) {
            self.fail(no_epoch());
            return;
        }
        let present = self.state.borrow().clone();
        for (device, standing) in devices {
            if *standing == Standing::Present && !self.bring_back(*device, &present).await {
                return;
            }
        }
        // What the plan wants may be another thing by now.
        if !self.plan().freeze_for(start, devices) {
            return;
        }
        let mut state = present.new_epoch(start);
        for (device, standing) in devices {
            state.devices[*device].1 = *standing;
        }
        let epoch = state.epoch;
        if self.write_state(state).await.is_ok() && self.state.borrow().epoch == epoch {
            self.plan().restarted(epoch, devices);
        }
    }

    /// A device that was left has answered. It takes part again if it takes a flush, the state, and
    /// what it missed.
    async fn take_back(self: &Rc<Self>, device: usize) {
        // It lags. Until it has the present state no state may say that it takes part (1).
        let present = self.state.borrow().clone();
        if !self.bring_back(device, &present).await {
            return;
        }
        let caught = self.catch_up(device).await;
        if let Caught::Left = caught {
            return;
        }
        let mut state = present.next();
        state.devices[device].1 = Standing::Present;
        let short = match caught {
            Caught::Up(short) => short.map(|(_, to)| to.min(self.durable())),
            _ => self.plan().short_behind(present.checkpoint),
        };
        let Ok(taken) = self.write_state_as(state, short).await else { return };
        let mut plan = self.plan();
        if self.state.borrow().devices[device].1 == Standing::Present {
            plan.returned(device);
            if let Caught::Up(short) = caught {
                plan.caught_up(short);
            }
            if !taken.contains(&device) {
                plan.distrust(device);
            }
        }
    }
}

fn no_epoch() -> String {
    format!("{EPOCHS_MAX} epochs are all that can be kept without a checkpoint")
}
