//! From devices to a log that takes records: who they are, what they hold, where the log ends.
//!
//! 1. Until the log is known to be whole nothing is written.
//! 2. Before anything is read, everything on the devices is made durable: what recovery has seen
//!    cannot be lost by a second power cut.
//! 3. A device that takes part has the newest state, or the one before it if the newest is of a
//!    step that was cut. It then gets the newest one before the next is written: with `read_only`
//!    that is before the checkpoint first moves ([`crate::keep`]).
//!    A device that is missing in an opening without it (`degraded`) may have a newer state, too. The
//!    state that begins the new epoch is newer by two, so that what that device has never counts.
//!    A device that fails meanwhile is as if it were missing: the opening begins anew without it.
//! 4. The new epoch, and where the last one ended, are durable on every device before the first
//!    record is taken.

use crate::Lsn;
use crate::create::{check_blocks, find, find_copies, io, mend};
use crate::error::OpenError;
use crate::member::{Member, MemberError, read_head};
use crate::options::{Expects, LogDevice, OpenOptions};
use crate::recover::{Recovered, recover};
use crate::state::{EPOCHS_MAX, SLOTS, Standing, State};
use crate::superblock::{FoundSuper, Role, Superblock, UNIT_MAX};
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError, Payload};
use tantalum_rt::{Rt, join_all};

/// The devices of a log by their index, and what is known of it.
pub(crate) struct Opened<D> {
    /// `None`: the device is lost.
    pub members: Vec<Option<Rc<Member<D>>>>,
    /// Members that lack the newest state (of a log that is opened for reading).
    pub lagging: Vec<Rc<Member<D>>>,
    pub state: State,
    pub recovered: Recovered<D>,
    /// Whether what was recovered may have fewer copies than are wanted.
    pub short: bool,
}

/// A device and the states on it.
struct Candidate<D> {
    member: Rc<Member<D>>,
    states: Vec<State>,
    /// Where copies of its superblock are damaged.
    damaged: Vec<u64>,
}

impl<D> Candidate<D> {
    fn generation(&self) -> u64 {
        self.states.iter().map(|s| s.generation).max().unwrap_or(0)
    }
}

/// Opens a log, up to and with its new epoch. If it has copies, it is opened without a device that is
/// of no use or fails meanwhile: if that one is lost to it already, or `degraded` allows that.
pub(crate) async fn open<D: BlockDevice + Clone + 'static>(
    rt: &Rt,
    devices: Vec<LogDevice<D>>,
    options: &OpenOptions,
) -> Result<Opened<D>, OpenError> {
    let error = match open_all(rt, devices.clone(), options).await {
        // That is no failure of one device.
        Err(e @ OpenError::Io { error: IoError::PowerLost, .. }) => return Err(e),
        Err(error) => error,
        opened => return opened,
    };
    let Some(device) = error.of_one_device() else { return Err(error) };
    let others: Vec<_> = devices.into_iter().filter(|d| d.name != device).collect();
    if !have_copies(&others).await {
        return Err(error);
    }
    match open_all(rt, others, options).await {
        // It is needed: `degraded` does not allow to go on without it, or another one is lost.
        Err(OpenError::Missing { .. }) if options.degraded => Err(error),
        Err(OpenError::Missing { .. }) => Err(OpenError::or_degraded(error)),
        opened => opened,
    }
}

/// Whether these devices are of a log with copies.
async fn have_copies<D: BlockDevice>(devices: &[LogDevice<D>]) -> bool {
    for device in devices {
        if let Ok(FoundSuper::Good(superblock)) = find(&device.device).await {
            return superblock.copies > 1;
        }
    }
    false
}

/// Opens a log on all these devices, up to and with its new epoch.
async fn open_all<D: BlockDevice + 'static>(
    rt: &Rt,
    devices: Vec<LogDevice<D>>,
    options: &OpenOptions,
) -> Result<Opened<D>, OpenError> {
    let candidates = identify(devices, options).await?;
    check_record(&candidates[0].member.superblock, options)?;
    for (name, table) in &options.latencies {
        let refused = |fault| OpenError::Options(format!("the latencies of \"{name}\": {fault}"));
        table.check().map_err(refused)?;
    }
    let all = candidates.iter().map(|c| &*c.member);
    check_hedging(all.map(|m| (m.name.as_str(), &m.device, m.superblock.role)), options)?;
    let newest = candidates.iter().flat_map(|c| &c.states).max_by_key(|s| s.generation);
    let Some(newest) = newest.cloned() else {
        let device = candidates[0].member.name.clone();
        return Err(OpenError::State(device));
    };
    let damaged: Vec<_> =
        candidates.iter().map(|c| (c.member.clone(), c.damaged.clone())).collect();
    let (members, lagging) = take_part(candidates, &newest, options)?;
    let settles = members.iter().flatten().map(|m| m.settle()).collect();
    for settled in join_all(settles).await {
        settled?;
    }
    let recovered = recover(rt, present(&members), &newest, options).await?;
    check_epochs(&recovered, &newest, &lagging)?;
    let too_few = took_part(&members, &newest) < usize::from(copies_of(&members));
    let short = newest.short.is_some() || too_few;
    if options.read_only {
        return Ok(Opened { members, lagging, state: newest, recovered, short });
    }
    if !newest.has_room(recovered.end) {
        return Err(OpenError::TooManyEpochs(EPOCHS_MAX));
    }
    let takes_part =
        |member: &Rc<Member<D>>| members.iter().flatten().any(|m| Rc::ptr_eq(m, member));
    for (member, copies) in damaged.iter().filter(|(member, _)| takes_part(member)) {
        let mended = mend(&member.device, &member.superblock, copies).await;
        mended.map_err(|error| member.failed(error))?;
    }
    bring(&lagging, &newest).await?;
    let newest = without(&newest, &members).await?;
    let seen = recovered.newest.as_ref().map_or(0, |(epoch, _)| *epoch);
    let mut state = newest.new_epoch_after(seen, recovered.end);
    let acknowledged = if too_few { recovered.copy_from } else { Lsn::ZERO };
    let before = newest.short.unwrap_or_default().min(recovered.end);
    state.short = short.then_some(acknowledged.max(before));
    stand(&members, &mut state, usize::from(copies_of(&members)));
    let all: Vec<_> = present(&members).collect();
    let some = crate::planted::planted!(EpochOnOneDevice);
    let all = if some { &all[..1] } else { &all[..] };
    for written in join_all(all.iter().map(|m| write_state(m, &state)).collect()).await {
        written?;
    }
    Ok(Opened { members, lagging: Vec::new(), state, recovered, short })
}

/// Writes the newest state to members that lack it.
pub(crate) async fn bring<D: BlockDevice>(
    lagging: &[Rc<Member<D>>],
    newest: &State,
) -> Result<(), MemberError> {
    let writes = lagging.iter().map(|m| write_state(m, newest)).collect();
    join_all(writes).await.into_iter().collect()
}

/// Who is not there is lost, and who is takes part. One that was left and lacks what the others have
/// gets that first.
fn stand<D>(members: &[Option<Rc<Member<D>>>], state: &mut State, copies: usize) {
    let lacks = took_part(members, state) > 0 && took_part(members, state) < copies;
    for (member, (_, standing)) in members.iter().zip(&mut state.devices) {
        *standing = match member {
            None => Standing::Lost,
            Some(m) if lacks && *standing == Standing::Left && in_array(m) => Standing::Left,
            Some(_) => Standing::Present,
        };
    }
}

/// A device that is missing may have a state that is newer by one than all others, of a step that
/// was cut. So a state of that generation, which says that it is lost, is durable before the next
/// one: whatever it comes back with is older then (3).
async fn without<D: BlockDevice>(
    newest: &State,
    members: &[Option<Rc<Member<D>>>],
) -> Result<State, OpenError> {
    let Some(state) = newest.without(|i| members[i].is_none()) else { return Ok(newest.clone()) };
    bring(&present(members).collect::<Vec<_>>(), &state).await?;
    Ok(state)
}

fn present<D>(members: &[Option<Rc<Member<D>>>]) -> impl Iterator<Item = Rc<Member<D>>> {
    members.iter().flatten().cloned()
}

pub(crate) async fn write_state<D: BlockDevice>(
    member: &Member<D>,
    state: &State,
) -> Result<(), MemberError> {
    let bytes = state.encode(member.device.caps().block_size);
    member.write_head(state.slot(), &bytes).await
}

fn check_record(superblock: &Superblock, options: &OpenOptions) -> Result<(), OpenError> {
    let record = u64::from(superblock.record_limit) + crate::record::FRAME as u64;
    let least = (record + u64::from(superblock.unit)) * 2;
    if (options.memory as u64) < least {
        let memory = options.memory;
        return Err(OpenError::Options(format!(
            "{memory} bytes of memory are too few for the records of this log: give {least}"
        )));
    }
    Ok(())
}

/// Whoever writes a slow write again must not be held up by it. All devices come with their names
/// and roles.
pub(crate) fn check_hedging<'a, D: BlockDevice + 'a>(
    all: impl Iterator<Item = (&'a str, &'a D, Role)>,
    options: &OpenOptions,
) -> Result<(), OpenError> {
    let (mut array, mut blocking) = (0, None);
    for (name, device, role) in all {
        array += usize::from(role == Role::Array);
        blocking = blocking.or(device.blocks_its_thread().then_some(name));
    }
    match blocking {
        Some(name) if options.hedge.enabled && !options.read_only && array > 1 => {
            Err(OpenError::Hedging(name.to_string()))
        }
        _ => Ok(()),
    }
}

/// Whether the log of the device of this name was made as is expected: what the device is for, the
/// copies and the partitions.
pub(crate) fn check_expected(
    name: &str,
    (role, copies, partitions): (Role, u8, u16),
    expects: &Expects,
) -> Result<(), OpenError> {
    let expected = expects.roles.iter().find(|(device, _)| device == name);
    if let Some((_, expected)) = expected
        && *expected != role
    {
        return Err(OpenError::Role { device: name.to_string(), made: role });
    }
    let of_array = expects.partitions.filter(|_| role == Role::Array);
    let all = [
        ("copies", u16::from(copies), expects.copies.map(u16::from)),
        ("partitions", partitions, of_array),
    ];
    for (what, made, expected) in all {
        if let Some(expected) = expected
            && expected != made
        {
            return Err(OpenError::Differs { device: name.to_string(), what, made, expected });
        }
    }
    Ok(())
}

/// Which device each is, with its states.
async fn identify<D: BlockDevice>(
    devices: Vec<LogDevice<D>>,
    options: &OpenOptions,
) -> Result<Vec<Candidate<D>>, OpenError> {
    let mut all: Vec<Candidate<D>> = Vec::new();
    for device in devices {
        let caps = *device.device.caps();
        if caps.payload != Payload::Bytes {
            return Err(OpenError::Stamps(device.name));
        }
        let block = caps.block_size;
        if !(block.is_power_of_two() && block <= UNIT_MAX) {
            let unit = format!("at most {UNIT_MAX}, a power of two,");
            let help = "name a device of the log";
            return Err(OpenError::Blocks { device: device.name, block, unit, help });
        }
        if caps.bytes() < crate::superblock::AREAS {
            return Err(OpenError::NoLog(device.name));
        }
        let (found, damaged) = find_copies(&device.device).await.map_err(|e| io(&device, e))?;
        let superblock = match found {
            FoundSuper::Good(superblock) => superblock,
            FoundSuper::Newer(version) => {
                return Err(OpenError::Newer { device: device.name, version });
            }
            FoundSuper::Damaged => return Err(OpenError::Superblock(device.name)),
            FoundSuper::Nothing => return Err(OpenError::NoLog(device.name)),
        };
        if let Some(first) = all.first()
            && first.member.superblock.set != superblock.set
        {
            let other = first.member.name.clone();
            return Err(OpenError::OtherLog { device: device.name, other });
        }
        check_blocks(&device.name, block, superblock.unit)?;
        if caps.bytes() < superblock.bytes {
            let (bytes, needed) = (caps.bytes(), superblock.bytes);
            let or = ", or one that was not shortened";
            return Err(OpenError::TooSmall { device: device.name, bytes, needed, or });
        }
        let twin = |c: &&Candidate<D>| c.member.superblock.device == superblock.device;
        if let Some(twin) = all.iter().find(twin) {
            return Err(OpenError::Twice(twin.member.name.clone(), device.name));
        }
        let mut states = Vec::new();
        for slot in SLOTS {
            let bytes = read_head(&device.device, slot, UNIT_MAX as usize).await;
            let state = State::decode(&bytes.map_err(|e| io(&device, e))?);
            states.extend(state.filter(|s| s.set == superblock.set));
        }
        let member = Member::new(device.name, device.device, superblock, options.barrier)?;
        all.push(Candidate { member: Rc::new(member), states, damaged });
    }
    // A device of another log is told before that it was made otherwise.
    for candidate in &all {
        let Member { name, superblock: s, .. } = &*candidate.member;
        check_expected(name, (s.role, s.copies, s.partitions), &options.expects)?;
    }
    if all.is_empty() { Err(OpenError::NoDevice) } else { Ok(all) }
}

type Members<D> = Vec<Option<Rc<Member<D>>>>;
type Lagging<D> = Vec<Rc<Member<D>>>;

/// Which of the candidates take part, by index; and those of them that lack the newest state.
fn take_part<D>(
    candidates: Vec<Candidate<D>>,
    newest: &State,
    options: &OpenOptions,
) -> Result<(Members<D>, Lagging<D>), OpenError> {
    let copies = candidates[0].member.superblock.copies;
    let mut members: Members<D> = newest.devices.iter().map(|_| None).collect();
    let mut lagging = Vec::new();
    for candidate in candidates {
        let generation = candidate.generation();
        let superblock = &candidate.member.superblock;
        let index = superblock.index as usize;
        let standing = newest.standing(index, &superblock.device);
        if standing == Standing::Lost {
            continue;
        }
        if !standing.allows(generation, newest.generation) {
            let device = candidate.member.name.clone();
            if generation == 0 {
                return Err(OpenError::State(device));
            }
            let (newest, or) = (newest.generation, or_degraded(copies));
            return Err(OpenError::Older { device, generation, newest, or });
        }
        if generation < newest.generation {
            lagging.push(candidate.member.clone());
        }
        members[index] = Some(candidate.member);
    }
    let lost = members.iter().filter(|m| m.is_none()).count();
    for (index, member) in members.iter().enumerate() {
        if member.is_some() || newest.devices[index].1 == Standing::Lost {
            continue;
        }
        if !options.degraded || copies < 2 || lost > 1 {
            let several = copies > 1 && lost > 1;
            let or = if several { OR_NONE } else { or_degraded(copies) };
            let devices = members.len();
            return Err(OpenError::Missing { index, devices, or });
        }
        let of_array = members.iter().flatten().any(|m| in_array(m));
        if of_array && took_part(&members, newest) == 0 && !options.salvage {
            return Err(OpenError::Lacks { index });
        }
    }
    Ok((members, lagging))
}

/// How many devices of the array took part by this state.
fn took_part<D>(members: &[Option<Rc<Member<D>>>], state: &State) -> usize {
    let array = members.iter().flatten().filter(|m| in_array(m));
    let standing = |m: &&Rc<Member<D>>| state.devices[m.superblock.index as usize].1;
    array.filter(|m| standing(m) == Standing::Present).count()
}

fn in_array<D>(member: &Member<D>) -> bool {
    member.superblock.role == Role::Array
}

fn copies_of<D>(members: &[Option<Rc<Member<D>>>]) -> u8 {
    members.iter().flatten().next().map_or(1, |m| m.superblock.copies)
}

const OR_NONE: &str = ". More than one is missing or lost, and the log can do without one alone";

pub(crate) fn or_degraded(copies: u8) -> &'static str {
    if copies > 1 { ", or open the log without it, with `degraded`" } else { "" }
}

/// No block may be of an epoch that a device does not know which takes part.
fn check_epochs<D>(
    recovered: &Recovered<D>,
    newest: &State,
    lagging: &[Rc<Member<D>>],
) -> Result<(), OpenError> {
    let Some((epoch, device)) = &recovered.newest else { return Ok(()) };
    // One that was about to begin is none ([`crate::keep`], 3).
    if *epoch > newest.epoch + 1 {
        let (device, epoch, newest) = (device.clone(), *epoch, newest.epoch);
        return Err(OpenError::StateLost { device, epoch, newest });
    }
    // A new epoch has blocks only once every device has its state.
    let left = |m: &Rc<Member<D>>| {
        let standing = newest.devices[m.superblock.index as usize].1;
        standing == Standing::Left
    };
    match lagging.iter().find(|m| !left(m)) {
        Some(member) if *epoch >= newest.epoch && newest.began => Err(OpenError::Older {
            device: member.name.clone(),
            generation: newest.generation - 1,
            newest: newest.generation,
            or: or_degraded(member.superblock.copies),
        }),
        _ => Ok(()),
    }
}
