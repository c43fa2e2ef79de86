//! Writing states while the log runs.
//!
//! 1. A state is written only when the one before it is durable on every device that takes part:
//!    one at a time ([`Core::keeper`]), and not while a device has to be left or given up, which
//!    the next new epoch does.
//! 2. A device that does not take a state in [`PATIENCE`] times the bound for stalls is left until
//!    it does.
//! 3. With two copies, what recovery found and no watermark covers may be on one device only. It is
//!    copied before the log takes anything: written again as blocks of the next epoch, which do not
//!    count before a state says that this epoch began where the copy does. So a cut meanwhile loses
//!    neither the old blocks nor the order of streams.

use crate::OpenError;
use crate::core::Core;
use crate::open::write_state;
use crate::plan::Chore;
use crate::state::{EPOCHS_MAX, Standing, State};
use crate::{LogError, Lsn};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::{First, first, join_all};

const PATIENCE: u64 = 2;

impl<D: BlockDevice + Clone + 'static> Core<D> {
    /// Writes a state to every device that it says takes part. Devices that fail are given up, and
    /// those that do not answer are left; it is an error if none is left over. Gives the devices
    /// that have taken it.
    pub async fn write_state(self: &Rc<Self>, state: State) -> Result<Vec<usize>, LogError> {
        let taking_part = |d: usize| state.devices[d].1 == Standing::Present;
        let devices: Vec<usize> = (0..state.devices.len()).filter(|d| taking_part(*d)).collect();
        let state = Rc::new(state);
        let writes = devices.iter().map(|device| self.write_state_to(*device, state.clone()));
        let written = join_all(writes.collect()).await;
        let taken = devices.into_iter().zip(written).filter(|(_, written)| *written);
        let taken: Vec<usize> = taken.map(|(device, _)| device).collect();
        if taken.is_empty() {
            self.fail("no device takes its state".to_string());
            self.check_failed()?;
        }
        *self.state.borrow_mut() = (*state).clone();
        Ok(taken)
    }

    /// Whether the device has taken the state. A write that takes too long goes on by itself: until
    /// it has ended the device is not used, so that no later state is overwritten by this one.
    async fn write_state_to(self: &Rc<Self>, device: usize, state: Rc<State>) -> bool {
        let Some(member) = self.member(device) else { return false };
        let (core, late) = (self.clone(), Rc::new(Cell::new(false)));
        let is_late = late.clone();
        let write = self.domain.spawn_background("log: state", async move {
            let ok = write_state(&member, &state).await.is_ok();
            let mut plan = core.plan();
            if is_late.get() {
                plan.answered(device);
            }
            if !ok {
                plan.device_failed(device);
            }
            drop(plan);
            core.pump();
            ok
        });
        let patience = self.rt.sleep(self.options.stall * PATIENCE);
        match first(write, patience).await {
            First::A(written) => written.unwrap_or(false),
            First::B(()) => {
                late.set(true);
                self.plan().device_silent(device);
                false
            }
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
        if !self.write_state_to(device, present).await {
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
