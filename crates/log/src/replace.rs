//! A new device in the place of one that is lost, while the log runs.
//!
//! 1. Only a device that is lost is replaced: what any other one holds counts.
//! 2. The new device gets a copy of everything from the checkpoint to the durable LSN before it
//!    takes part. So once it does, any one device may be lost again.
//! 3. What is copied ([`crate::copy`]) counts as what a new epoch writes behind it does. Until a state
//!    says that the device takes part, nothing of it counts.
//! 4. Meanwhile the checkpoint does not move.
//! 5. A new device that does not answer holds nothing up: it is given up after a bound.
//! 6. What an earlier replacement has left on the new device, which came to nothing, is no data.
//! 7. A replacement that has begun is carried out though nobody waits for it.

use crate::area::Place;
use crate::copy::Onto;
use crate::core::Core;
use crate::create::{check_blank, check_blocks, device_identity, divide_like, install, io};
use crate::describe::is_left_over;
use crate::error::{LogError, OpenError};
use crate::layout::{holds_twice, lanes_of};
use crate::member::Member;
use crate::options::{LogDevice, OpenOptions};
use crate::pace::PATIENCE;
use crate::plan::LaneSpec;
use crate::record::FRAME;
use crate::state::{Standing, State};
use crate::superblock::{AREAS, Role, Superblock};
use crate::tasks;
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError, Payload};
use tantalum_rt::{Cancelled, First, first};

impl<D: BlockDevice + Clone + 'static> Core<D> {
    pub async fn replace(
        self: &Rc<Self>,
        index: usize,
        device: LogDevice<D>,
        force: bool,
    ) -> Result<(), LogError> {
        let core = self.clone();
        let work = async move { core.replace_whole(index, device, force).await };
        match self.domain.spawn("log: replace", work).await {
            Ok(ended) => ended,
            Err(Cancelled) => {
                self.check_failed()?;
                Err(LogError::Failed("it was closed".to_string()))
            }
        }
    }

    /// Whether the device could take that place. Nothing is changed.
    pub async fn can_replace(
        &self,
        index: usize,
        device: &LogDevice<D>,
        force: bool,
    ) -> Result<(), OpenError> {
        let state = self.state.borrow().clone();
        self.would_be(index, device, &state)?;
        let force = force || is_left_over(&state, device).await?;
        check_blank(device, force).await.map(|_| ())
    }

    async fn replace_whole(
        self: &Rc<Self>,
        index: usize,
        device: LogDevice<D>,
        force: bool,
    ) -> Result<(), LogError> {
        self.check_failed()?;
        if self.options.read_only {
            return Err(LogError::ReadOnly);
        }
        let state = self.state.borrow().clone();
        self.superblock_for(index, &device, &state)?;
        // A disk may take seconds for its first answer.
        let force = force || is_left_over(&state, &device).await?;
        check_blank(&device, force).await?;
        let _keeper = self.keeper.lock().await;
        self.check_failed()?;
        let state = self.state.borrow().clone();
        let superblock = self.superblock_for(index, &device, &state)?;
        let installed = install(&device, &superblock, &state);
        self.in_time(&device.name, installed).await?.map_err(|e| io(&device, e))?;
        let LogDevice { name, device } = device;
        let member = Rc::new(Member::new(name, device, superblock, self.options.barrier)?);
        let mut lanes = lanes_of(index, &member, &self.options, |_| None);
        let write = async |place: &Place, bytes: Vec<u8>| {
            Ok(self.in_time(&member.name, member.write(place.unit, &bytes)).await??)
        };
        let LaneSpec { stream, main: area, .. } = &mut lanes[0];
        // Whoever closes the log does not wait for the whole copy.
        let check: &dyn Fn() -> Result<(), LogError> = &|| self.check_failed();
        let patience = None;
        let mut onto = Onto { member: &member, stream: *stream, area, write, check, patience };
        let copied = self.copy_most(&mut onto, self.first.get()).await?;
        // The rest, while nothing is added. A new epoch follows by itself.
        self.until_paused().await?;
        self.plan().freeze();
        let copied = self.copy_to(&mut onto, copied, self.durable()).await;
        if copied.is_err() {
            self.plan().thaw();
            self.pump();
        }
        copied?;
        self.members.borrow_mut()[index] = Some(member.clone());
        self.works().tags[index] = member.tag;
        let mut next = state.next();
        next.devices[index] = (superblock.device, Standing::Present);
        let taken = self.write_state_as(next, None).await?;
        // In one step: threads may give the new lanes something to do at once.
        let added = {
            let mut works = self.works();
            let added = works.plan.join(index, lanes);
            works.jobs.resize_with(added.end, || None);
            if !taken.contains(&index) {
                works.plan.distrust(index);
            }
            added
        };
        for lane in added {
            tasks::add_lane(self, lane);
        }
        self.chores.notify_all();
        self.pump();
        Ok(())
    }

    /// What the new device answers, or that it does not (5).
    async fn in_time<T>(&self, device: &str, work: impl Future<Output = T>) -> Result<T, LogError> {
        match first(work, self.rt.sleep(self.options.stall * PATIENCE)).await {
            First::A(answer) => Ok(answer),
            First::B(()) => {
                let error = IoError::Failed("it does not answer: use another device");
                Err(LogError::Io { device: device.to_string(), error })
            }
        }
    }

    /// What the new device will be, if it can be that.
    fn superblock_for(
        &self,
        index: usize,
        device: &LogDevice<D>,
        state: &State,
    ) -> Result<Superblock, OpenError> {
        check_lost(state, index)?;
        self.would_be(index, device, state)
    }

    /// What a device will be that has the sections of another one. With it the log has room for its
    /// longest records, as it has without.
    fn divided(&self, superblock: Superblock, name: &str) -> Result<Superblock, OpenError> {
        let present: Vec<_> =
            self.members.borrow().iter().flatten().map(|m| m.superblock).collect();
        let with = |bytes| {
            let new = divide_like(Superblock { bytes, ..superblock }, name)?;
            let all = [&present[..], &[new]].concat();
            let has_less =
                holds_records(&present, &self.options) && !holds_records(&all, &self.options);
            Ok::<_, OpenError>(Some(new).filter(|_| !has_less))
        };
        let bytes = superblock.bytes;
        if let Some(new) = with(bytes)? {
            return Ok(new);
        }
        let mut larger = (bytes..superblock.needed()).step_by(superblock.section_bytes() as usize);
        let needed = larger.find(|bytes| matches!(with(*bytes), Ok(Some(_))));
        let needed = needed.unwrap_or_else(|| superblock.needed());
        Err(OpenError::TooSmall { device: name.to_string(), bytes, needed, or: "" })
    }

    /// The same, whether the device of that index is lost or not.
    fn would_be(
        &self,
        index: usize,
        device: &LogDevice<D>,
        state: &State,
    ) -> Result<Superblock, OpenError> {
        let refused = |what| Err(refused(index, what));
        if self.plan().is_waited_for(index) {
            return refused("a write to it has not ended: wait, or open the log again");
        }
        // A device that was lost before the log was opened, or an archive, is replaced by one of the
        // array, which is divided as another one is.
        let own = self.member(index).map(|m| m.superblock).filter(in_array);
        let other = || self.members.borrow().iter().flatten().map(|m| m.superblock).find(in_array);
        let Some(template) = own.or_else(other) else {
            return refused("no device of the log tells how to divide it: open the log again");
        };
        let caps = device.device.caps();
        if caps.payload != Payload::Bytes {
            return Err(OpenError::Stamps(device.name.clone()));
        }
        check_blocks(&device.name, caps.block_size, template.unit)?;
        if self.options.hedge.enabled && device.device.blocks_its_thread() {
            return Err(OpenError::Hedging(device.name.clone()));
        }
        let bytes = caps.bytes();
        let uuid = device_identity(&state.set, index, state.generation);
        let index = index as u32;
        let superblock = Superblock { device: uuid, index, bytes, ..template };
        if own.is_none() {
            return self.divided(superblock, &device.name);
        }
        let needed = superblock.needed();
        if bytes < needed {
            let (device, or) = (device.name.clone(), "");
            return Err(OpenError::TooSmall { device, bytes, needed, or });
        }
        Ok(superblock)
    }
}

/// Whether records of the limit find room twice on these devices, as a volume asks for.
fn holds_records(devices: &[Superblock], options: &OpenOptions) -> bool {
    let limit = devices.iter().map(|s| s.record_limit).min().unwrap_or_default();
    holds_twice(devices, options, u64::from(limit) + FRAME as u64)
}

/// # Errors
/// That this device cannot be replaced, since it is not lost to the log.
pub(crate) fn check_lost(state: &State, index: usize) -> Result<(), OpenError> {
    match state.devices.get(index) {
        Some((_, Standing::Lost)) => Ok(()),
        None => Err(refused(index, "the log has no such device: name one by its index")),
        Some(_) => {
            let what = "only a device that is lost to the log can be replaced: to do without this one, \
                        open the log without it, with `degraded`";
            Err(refused(index, what))
        }
    }
}

fn refused(index: usize, what: &str) -> OpenError {
    OpenError::Options(format!("device {index}: {what}"))
}

fn in_array(superblock: &Superblock) -> bool {
    superblock.role == Role::Array
}

impl Superblock {
    /// Bytes that the device needs.
    fn needed(&self) -> u64 {
        let sections = u64::from(self.main_sections) + u64::from(self.second_sections);
        AREAS + sections * self.section_bytes()
    }

    /// Bytes of a section of each partition.
    fn section_bytes(&self) -> u64 {
        u64::from(self.partitions) * u64::from(self.section_units) * u64::from(self.unit)
    }
}
