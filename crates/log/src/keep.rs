//! Writing states while the log runs.
//!
//! 1. A state is written only when the one before it is durable on every device that takes part:
//!    one at a time ([`Core::keeper`]), and not while a device has to be left or given up, which
//!    the next new epoch does.
//! 2. A device that does not take a state in [`PATIENCE`] times the bound for stalls is left until
//!    it does. While no device has taken it, it is waited for: nothing is issued meanwhile, so memory
//!    stays bounded.
//! 3. With two copies, what recovery found and no watermark covers may be on one device only. It is
//!    copied before the log takes anything: written again as blocks of the next epoch, which do not
//!    count before a state says that this epoch began where the copy does. So a cut meanwhile loses
//!    neither the old blocks nor the order of streams.
//! 4. A device that is missing may have a state newer by one. So before a log that was opened
//!    for reading without it moves its checkpoint, a state says that the device is lost.

use crate::OpenError;
use crate::core::Core;
use crate::open::write_state;
use crate::plan::Chore;
use crate::state::{EPOCHS_MAX, Standing, State};
use crate::{LogError, Lsn};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::{First, first};

pub(crate) const PATIENCE: u64 = 2;

/// A state on its way to a device.
struct Writing {
    device: usize,
    /// Whether it has ended well; `None`: it is under way.
    ended: Rc<Cell<Option<bool>>>,
    /// It took too long.
    late: Rc<Cell<bool>>,
}

impl Writing {
    fn is_taken(&self) -> bool {
        self.ended.get() == Some(true)
    }

    fn is_under_way(&self) -> bool {
        self.ended.get().is_none()
    }
}

impl<D: BlockDevice + Clone + 'static> Core<D> {
    /// Writes a state to every device that it says takes part. Devices that fail are given up, and
    /// those that do not answer in time are left, once one has taken the state: while none answers
    /// it is waited for. It is an error if all fail. Gives the devices that have taken it.
    pub async fn write_state(self: &Rc<Self>, state: State) -> Result<Vec<usize>, LogError> {
        let taking_part = |d: &usize| state.devices[*d].1 == Standing::Present;
        let devices = (0..state.devices.len()).filter(taking_part);
        let sent = Rc::new(state.clone());
        let writes: Vec<Writing> =
            devices.filter_map(|device| self.send_state(device, sent.clone())).collect();
        self.await_states(&writes).await;
        let hope = || {
            let taken = writes.iter().any(Writing::is_taken);
            !taken && writes.iter().any(Writing::is_under_way) && !self.is_failed()
        };
        self.until_changed(hope).await;
        let taken = writes.iter().filter(|w| w.is_taken());
        let taken: Vec<usize> = taken.map(|w| w.device).collect();
        if taken.is_empty() {
            self.fail("no device takes its state".to_string());
            self.check_failed()?;
        }
        *self.state.borrow_mut() = state;
        Ok(taken)
    }

    /// Begins to write a state to a device, in a task of its own. A write that takes too long goes
    /// on: until it has ended the device is not used, so that no later state is overwritten by this
    /// one.
    fn send_state(self: &Rc<Self>, device: usize, state: Rc<State>) -> Option<Writing> {
        let member = self.member(device)?;
        let writing = Writing { device, ended: Rc::default(), late: Rc::default() };
        let (core, ended, late) = (self.clone(), writing.ended.clone(), writing.late.clone());
        self.domain.spawn_background("log: state", async move {
            let ok = write_state(&member, &state).await.is_ok();
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
        Some(writing)
    }

    /// Waits until they have ended, but not for ever: devices that do not answer are told to be so.
    async fn await_states(&self, writes: &[Writing]) {
        let all = self.until_changed(|| writes.iter().any(Writing::is_under_way));
        first(all, self.rt.sleep(self.options.stall * PATIENCE)).await;
        for write in writes.iter().filter(|w| w.is_under_way()) {
            write.late.set(true);
            self.plan().device_silent(write.device);
        }
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
            let keeper = self.keeper.lock().await;
            self.check_failed()?;
            let first = self.first.get();
            if lsn < first {
                return Err(LogError::BeforeFirst { lsn, first });
            }
            if !self.plan().leave_stalled() {
                // A device that is missing in an opening for reading may have a newer state (4).
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
            self.fail(format!("{EPOCHS_MAX} epochs are all that can be kept without a checkpoint"));
            return;
        }
        let mut state = self.state.borrow().new_epoch(start);
        for (device, standing) in devices {
            state.devices[*device].1 = *standing;
        }
        let epoch = state.epoch;
        // A stalled write may end meanwhile. What it makes durable is behind the start.
        self.plan().freeze();
        if self.write_state(state).await.is_ok() {
            self.plan().restarted(epoch, devices);
        }
    }

    /// A device that was left has answered. It takes part again if it takes a flush and the state.
    async fn take_back(self: &Rc<Self>, device: usize) {
        let Some(member) = self.member(device) else { return };
        let patience = self.rt.sleep(self.options.stall * PATIENCE);
        let answers = first(member.device.flush(), patience).await;
        if answers != First::A(Ok(())) {
            self.plan().device_failed(device);
            return;
        }
        // It lags. Until it has the present state no state may say that it takes part (1).
        let present = Rc::new(self.state.borrow().clone());
        let Some(write) = self.send_state(device, present) else { return };
        let writes = [write];
        self.await_states(&writes).await;
        if !writes[0].is_taken() {
            return;
        }
        let mut state = self.state.borrow().next();
        state.devices[device].1 = Standing::Present;
        if let Ok(taken) = self.write_state(state).await {
            let mut plan = self.plan();
            plan.returned(device);
            if !taken.contains(&device) {
                plan.distrust(device);
            }
        }
    }
}
