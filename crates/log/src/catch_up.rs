//! A device that was left and answers again gets what it missed before it takes part.
//!
//! 1. Missed is what another device has alone, of what was written since too few devices took part. It
//!    goes to one main stream of the device ([`crate::copy`]). What that cannot take in order, and
//!    what this device has alone, stays on one device, and is told ([`crate::LogStats::degraded`]).
//! 2. What is copied counts at once, whether the device takes part afterwards or not.
//! 3. If the stream has no room for what was missed, if that cannot be read, or not in time, or if it
//!    becomes more faster than it is copied, the device takes part without it. What is copied at
//!    once is copied though it is more than the last time, if something was copied then.
//! 4. A device that fails meanwhile or does not answer in time is left, as before. It is left, too,
//!    if a new epoch has to begin first, or a checkpoint has waited for as long as the bound for
//!    stalls. It goes on to catch up after that.

use crate::Lsn;
use crate::area::Place;
use crate::copy::Onto;
use crate::core::Core;
use crate::error::LogError;
use crate::pace::{Gift, PATIENCE};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError};

/// What is between these LSNs may still have one copy.
type Short = Option<(Lsn, Lsn)>;

/// What became of a device.
pub(crate) enum Caught {
    /// It has what it missed, but what lies between these LSNs; groups wait if it missed any.
    Up(Short),
    /// It takes part, and nothing was copied to it.
    Not,
    /// It is left again.
    Left,
}

impl<D: BlockDevice + Clone + 'static> Core<D> {
    pub async fn catch_up(self: &Rc<Self>, device: usize) -> Caught {
        let (from, taken) = {
            let plan = self.plan();
            (plan.short_from(), plan.take_main(device))
        };
        let (Some(member), Some(from), Some((lane, stream, mut area))) =
            (self.member(device), from, taken)
        else {
            return Caught::Not;
        };
        let (began, paused, interrupted) = (self.rt.now(), Cell::new(false), Cell::new(false));
        let check = || {
            self.check_failed()?;
            let late = self.rt.now().saturating_sub(began) > self.options.stall;
            let waited_for = late && self.checkpoints.get() > 0 || self.plan().is_draining();
            if waited_for && !paused.get() {
                interrupted.set(true);
                return Err(refused(&member.name));
            }
            Ok(())
        };
        let write = async |place: &Place, bytes: Vec<u8>| {
            let (to, unit) = (member.clone(), place.unit);
            let write = async move { to.write(unit, &bytes).await.is_ok() };
            let taken = self.give(device, Gift::Copy, write).await;
            taken.then_some(()).ok_or_else(|| refused(&member.name))
        };
        let patience = Some(self.options.stall * PATIENCE);
        let (area_now, check) = (&mut area, &check);
        let mut onto = Onto { member: &member, stream, area: area_now, write, check, patience };
        let caught = self.copy_missed(&mut onto, from, &paused).await;
        let mut plan = self.plan();
        plan.put_main(lane, area);
        let unsettled = plan.is_draining() && !plan.is_settled();
        match caught {
            _ if unsettled || !plan.has_answered(device) || plan.stopped() => Caught::Left,
            Ok(short) => Caught::Up(short),
            Err(_) if interrupted.get() => Caught::Left,
            // Something else is wrong (3).
            Err(_) => Caught::Not,
        }
    }

    async fn copy_missed(
        self: &Rc<Self>,
        onto: &mut Onto<'_, D, impl AsyncFn(&Place, Vec<u8>) -> Result<(), LogError>>,
        from: Lsn,
        paused: &Cell<bool>,
    ) -> Result<Short, LogError> {
        let device = onto.member.superblock.index as usize;
        let (end, patience) = (self.durable(), self.options.stall * PATIENCE);
        let (alone, own_end) = self.alone((from, end), (device, onto.stream), patience).await?;
        let mut short: Vec<(Lsn, Lsn)> = Vec::new();
        let mut missed: Vec<(Lsn, Lsn)> = Vec::new();
        for (on, from, to) in alone {
            let other = on.is_some_and(|on| on != device);
            let begin = if other { from.max(own_end).min(to) } else { to };
            short.extend((from < begin).then_some((from, begin)));
            missed.extend((begin < to).then_some((begin, to)));
        }
        let bytes: u64 = missed.iter().map(|(from, to)| to.since(*from)).sum();
        let before = self.behind.replace(Some((device, bytes, own_end)));
        let grows = |(other, least, end): (usize, u64, Lsn)| {
            // What is no more than a piece ends with it, once something was copied.
            let ends = end < own_end && bytes <= self.piece(onto);
            other == device && least <= bytes && !ends
        };
        if before.is_some_and(grows) {
            self.behind.set(None);
            return Err(refused(&onto.member.name));
        }
        for (from, to) in missed {
            self.copy_to(onto, from, to).await?;
        }
        if self.plan().has_too_few() {
            let copied = self.copy_most(onto, end).await?;
            self.until_paused().await?;
            paused.set(true);
            if self.plan().is_settled() {
                self.copy_to(onto, copied, self.durable()).await?;
            }
        }
        self.behind.set(None);
        let first = short.first().map(|(from, _)| *from);
        Ok(first.zip(short.last().map(|(_, to)| *to)))
    }
}

/// The device does not take what it missed.
fn refused(device: &str) -> LogError {
    let error = IoError::Failed("it does not catch up");
    LogError::Io { device: device.to_string(), error }
}
