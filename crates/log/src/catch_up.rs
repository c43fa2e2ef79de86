//! A device that was left and answers again gets what it missed before it takes part.
//!
//! 1. Missed is what another device has alone, of what was written since too few devices took part. It
//!    goes to the first main stream of the device ([`crate::copy`]). What that cannot take in order, and
//!    what this device has alone, stays on one device, and is told ([`crate::LogStats::degraded`]).
//! 2. What is copied counts at once, whether the device takes part afterwards or not.
//! 3. Meanwhile the checkpoint does not move. If there is no room for what was missed, or it cannot be
//!    read, the device takes part without it.
//! 4. A device that fails meanwhile or does not answer in time is left, as before.

use crate::Lsn;
use crate::area::Place;
use crate::copy::Onto;
use crate::core::Core;
use crate::error::LogError;
use crate::pace::Gift;
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
        let write = async |place: &Place, bytes: Vec<u8>| {
            let (to, unit) = (member.clone(), place.unit);
            let write = async move { to.write(unit, &bytes).await.is_ok() };
            let error = IoError::Failed("it does not answer, or fails");
            let failed = LogError::Io { device: member.name.clone(), error };
            self.give(device, Gift::Copy, write).await.then_some(()).ok_or(failed)
        };
        let mut onto = Onto { member: &member, stream, area: &mut area, write };
        let caught = self.copy_missed(&mut onto, from).await;
        self.plan().put_main(lane, area);
        match caught {
            Ok(Some(short)) => Caught::Up(short),
            Ok(None) => Caught::Left,
            Err(_) if !self.plan().has_answered(device) || self.is_failed() => Caught::Left,
            // Something else is wrong (3).
            Err(_) => Caught::Not,
        }
    }

    /// `None`: a new epoch has to begin first.
    async fn copy_missed(
        self: &Rc<Self>,
        onto: &mut Onto<'_, D, impl AsyncFn(&Place, Vec<u8>) -> Result<(), LogError>>,
        from: Lsn,
    ) -> Result<Option<Short>, LogError> {
        let device = onto.member.superblock.index as usize;
        let end = self.durable();
        let (alone, own_end) = self.alone((from, end), (device, onto.stream)).await?;
        let mut short: Vec<(Lsn, Lsn)> = Vec::new();
        for (on, from, to) in alone {
            let begin = if on == device { to } else { from.max(own_end).min(to) };
            if from < begin {
                short.push((from, begin));
            }
            if begin < to {
                self.copy_to(onto, begin, to).await?;
            }
        }
        if self.plan().has_too_few() {
            let copied = self.copy_most(onto, end).await?;
            self.until_paused().await?;
            if !self.plan().is_settled() {
                return Ok(None);
            }
            self.copy_to(onto, copied, self.durable()).await?;
        }
        let first = short.first().map(|(from, _)| *from);
        Ok(Some(first.zip(short.last().map(|(_, to)| *to))))
    }
}
