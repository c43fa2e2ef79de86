//! Who gets what, what is durable, and when to write again: the log without I/O.
//!
//! The owner of a [`Plan`] tells it what was appended and wanted, asks it for [`Order`]s, carries
//! them out, and tells it how each ended. The plan needs no runtime, so that tasks and threads can
//! both own one.
//!
//! 1. **Groups.** All bytes appended since the last group make the next one (up to a limit). A
//!    group is formed before its device is chosen, and only while fewer groups are in flight than
//!    pay (`width.rs`). It goes whole to a device: nothing is striped.
//! 2. **Order.** In one epoch the LSNs of each stream do not decrease.
//! 3. **Durable.** The durable LSN is the end of the longest row of groups, from the first on,
//!    each of which is on as many devices as copies are needed. It never decreases. A write counts
//!    for every group whose bytes are all in it.
//! 4. **Again.** A slow write is written again to a second stream of another device, before new
//!    groups; the first that ends counts. If that is slow, too, so does a third device. The write that
//!    lost still occupies its lane. Devices
//!    without second streams take it in the main one, if the order of LSNs allows that and more
//!    room is left than what was appended needs.
//! 5. **A stalled lane** gets nothing until its write has ended. If the bytes that it holds up
//!    cannot be written elsewhere in order, or a device fails, a new epoch begins at the durable
//!    LSN: all that is not durable is written again from memory, and what was in flight never
//!    counts.
//! 6. **Room.** What was appended found room then. A device that is left or lost takes its room
//!    along; then what finds none waits for the checkpoint ([`Plan::lacks_room`]).
//! 7. **Short of copies.** What was written while a device was left has fewer copies than the rest,
//!    until that device has caught up with all of it, or the checkpoint is past it
//!    ([`Plan::is_short`]).
//! 8. **Memory.** Each lane has one write in flight. Only bytes from [`Plan::keep`] on are needed
//!    in memory.

mod archive;
mod back;
mod choose;
mod done;
mod epoch;
mod overdue;
#[cfg(test)]
mod tests;

pub(crate) use epoch::Chore;

use crate::Lsn;
use crate::area::{Area, Place};
use crate::format::{block_of, blocks_between};
use crate::hedge::{Hedge, HedgeOptions};
use crate::latency::Latencies;
use crate::planted::planted;
use crate::width::Width;
use std::collections::VecDeque;
use tantalum_rt::Nanos;

/// What a plan is made for.
#[derive(Clone, Debug)]
pub(crate) struct PlanOptions {
    /// Bytes of the log in a block.
    pub payload: u64,
    /// Devices on which each byte must be before it is durable.
    pub copies: u32,
    /// Blocks of a group, at most.
    pub group_units: u32,
    /// Bytes for which the archive waits, and blocks of one write to it, at most.
    pub archive_bytes: u64,
    pub archive_units: u32,
    /// A lane whose write takes longer is left, unless that is usual there.
    pub stall: Nanos,
    pub hedge: HedgeOptions,
}

impl PlanOptions {
    /// Bytes of a group of the largest size.
    pub fn group_bytes(&self) -> u64 {
        u64::from(self.group_units - 1) * self.payload
    }

    /// How many groups so many bytes make, at most.
    pub fn groups(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.group_bytes()) + 1
    }
}

/// A virtual device of the array (a partition of a device), or the archive.
#[derive(Clone, Debug)]
pub(crate) struct LaneSpec {
    pub device: usize,
    pub archive: bool,
    /// The number of its main stream; the second one has the next.
    pub stream: u8,
    pub main: Area,
    pub second: Option<Area>,
    /// What is known of its device before the first write.
    pub known: Latencies,
}

/// Something to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub ticket: u64,
    pub lane: usize,
    pub device: usize,
    pub stream: u8,
    pub place: Place,
    /// The LSN of the first block.
    pub block: Lsn,
    /// Where the bytes end.
    pub to: Lsn,
    pub epoch: u32,
    pub watermark: Lsn,
}

/// What a device is to the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Present,
    /// It did not answer in time, and was left in the state of the log.
    Left,
    /// It failed; it gets nothing before the log is opened again, or it is replaced.
    Failed,
}

/// Why a lane writes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Group,
    Again,
    Archive,
}

#[derive(Clone, Debug)]
struct Busy {
    ticket: u64,
    kind: Kind,
    /// The number of the group.
    group: u64,
    epoch: u32,
    block: Lsn,
    to: Lsn,
    units: u32,
    issued: Nanos,
    /// It takes longer than most.
    slow: bool,
    /// It is to be written again.
    again: bool,
}

struct Lane {
    device: usize,
    archive: bool,
    stream: u8,
    main: Area,
    second: Option<Area>,
    latencies: Latencies,
    busy: Option<Busy>,
    /// Its write takes longer than the bound.
    stalled: bool,
    /// The last group it got.
    used: u64,
    /// Another device has taken the place of its device.
    retired: bool,
}

impl Lane {
    fn new(spec: LaneSpec) -> Lane {
        Lane {
            device: spec.device,
            archive: spec.archive,
            stream: spec.stream,
            main: spec.main,
            second: spec.second,
            latencies: spec.known,
            busy: None,
            stalled: false,
            used: 0,
            retired: false,
        }
    }
}

/// A group that is not known to be durable.
#[derive(Debug)]
struct Group {
    number: u64,
    from: Lsn,
    to: Lsn,
    /// Devices that were asked to write it, and those that have.
    asked: u64,
    holders: u64,
    /// How many writes of it have ended well.
    writes: u32,
    /// How many lanes were asked.
    lanes: u32,
    again: bool,
    /// Several wait for it, or for what is behind it.
    shared: bool,
}

/// What a plan has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub groups: u64,
    pub group_bytes: u64,
    pub units: u64,
    /// Bytes of blocks that were empty, or repeated what an earlier block had.
    pub padding: u64,
    pub slow: u64,
    pub hedges: u64,
    pub hedges_won: u64,
    pub forced: u64,
    pub stalls: u64,
    pub restarts: u64,
    pub archive_writes: u64,
    pub archive_units: u64,
    pub archive_gaps: u64,
    pub archive_first: u64,
}

/// The log without I/O.
pub(crate) struct Plan {
    options: PlanOptions,
    lanes: Vec<Lane>,
    health: Vec<Health>,
    failing: Vec<usize>,
    /// Devices that were given a state of the log and have not answered.
    silent: Vec<usize>,
    mode: epoch::Mode,
    epoch: u32,
    checkpoint: Lsn,
    /// What lies between may have fewer copies than are wanted.
    short: (Lsn, Lsn),
    groups: VecDeque<Group>,
    next_group: u64,
    next_ticket: u64,
    durable: Lsn,
    formed: Lsn,
    appended: Lsn,
    /// How many have come to wait for more than was wanted, since a group had all of it.
    came: u64,
    wanted: Lsn,
    archived: Lsn,
    width: Width,
    /// A lane is kept while none is clearly quicker.
    stays: bool,
    /// The disk of each device, as far as that is known.
    disks: Vec<Option<u64>>,
    hedge: Hedge,
    hedges: Vec<done::Pair>,
    counts: Counts,
}

impl Plan {
    /// The log ends at `start`, where the epoch begins.
    pub fn new(
        options: PlanOptions,
        lanes: Vec<LaneSpec>,
        health: Vec<Health>,
        epoch: u32,
        start: Lsn,
        checkpoint: Lsn,
    ) -> Plan {
        let mut plan = Plan {
            hedge: Hedge::new(options.hedge),
            options,
            lanes: lanes.into_iter().map(Lane::new).collect(),
            health,
            failing: Vec::new(),
            silent: Vec::new(),
            mode: epoch::Mode::Running,
            epoch,
            checkpoint,
            short: (Lsn::ZERO, Lsn::ZERO),
            groups: VecDeque::new(),
            next_group: 1,
            next_ticket: 1,
            durable: start,
            formed: start,
            appended: start,
            came: 0,
            wanted: start,
            archived: start,
            width: Width::new(1),
            stays: false,
            disks: Vec::new(),
            hedges: Vec::new(),
            counts: Counts::default(),
        };
        plan.begin_epoch();
        plan.width = Width::new(plan.most_groups());
        plan
    }

    /// Whether there is something behind the checkpoint that may have fewer copies than are wanted.
    pub fn is_short(&self) -> bool {
        self.is_short_behind(self.checkpoint)
    }

    /// The same of what is behind `lsn`.
    pub fn is_short_behind(&self, lsn: Lsn) -> bool {
        self.has_too_few() || lsn < self.short.1
    }

    /// What of that is acknowledged: all below this LSN; `None` if there is no such thing.
    pub fn short_behind(&self, lsn: Lsn) -> Option<Lsn> {
        let to = if self.has_too_few() { self.durable } else { self.durable.min(self.short.1) };
        self.is_short_behind(lsn).then_some(to)
    }

    /// Whether fewer devices take part than there must be copies.
    pub fn has_too_few(&self) -> bool {
        self.options.copies > self.present_devices()
    }

    /// What lies before `to` may have fewer copies than are wanted.
    pub fn set_short(&mut self, to: Lsn) {
        self.short = (Lsn::ZERO, self.short.1.max(to));
    }

    /// So many bytes are behind the others in memory.
    pub fn append(&mut self, bytes: u64) {
        self.appended = self.appended.plus(bytes);
    }

    /// Somebody waits until everything before `lsn` is durable.
    pub fn want(&mut self, lsn: Lsn) {
        let lsn = lsn.min(self.appended);
        self.came += u64::from(lsn > self.wanted);
        self.wanted = self.wanted.max(lsn);
    }

    /// Everything before this LSN is durable.
    pub fn durable(&self) -> Lsn {
        if planted!(AckedBeforeEarlier) {
            let done = self.groups.iter().filter(|g| self.is_done(g)).map(|g| g.to);
            return done.max().unwrap_or_default().max(self.durable);
        }
        self.durable
    }

    /// The end of the last group.
    #[cfg(feature = "blocking")]
    pub fn formed(&self) -> Lsn {
        self.formed
    }

    /// The checkpoint that it knows.
    pub fn checkpoint(&self) -> Lsn {
        self.checkpoint
    }

    /// Whether slow writes are best written again elsewhere, as far as was learned: who issues a
    /// write should not be held up by it.
    #[cfg(feature = "blocking")]
    pub fn hedges_pay(&self) -> bool {
        self.hedge.pays()
    }

    /// The end of what was appended.
    pub fn appended(&self) -> Lsn {
        self.appended
    }

    /// Memory must hold the bytes from here on.
    pub fn keep(&self) -> Lsn {
        let needed = match self.archive() {
            Some(lane) if self.is_present(lane) => self.durable.min(self.archived),
            _ => self.durable,
        };
        block_of(needed, self.options.payload)
    }

    /// The log before `lsn` is not needed any more, and that is durable.
    pub fn move_checkpoint(&mut self, lsn: Lsn) {
        self.checkpoint = self.checkpoint.max(lsn);
    }

    /// Why nothing is written any more, if that is so.
    pub fn stopped(&self) -> bool {
        self.mode == epoch::Mode::Stopped
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// From now on threads issue orders by themselves. `disk` gives the disk of a device, if that is
    /// known.
    #[cfg(feature = "blocking")]
    pub fn set_threads(&mut self, disk: impl Fn(usize) -> Option<u64>) {
        let array = self.array_devices(|_| true);
        self.disks = (0..self.health.len()).map(disk).collect();
        let devices = (0..self.health.len()).filter(|device| array & (1 << device) != 0);
        let of_array = devices.map(|device| self.disks[device]);
        let (known, others): (Vec<_>, Vec<_>) = of_array.partition(Option::is_some);
        let known: std::collections::BTreeSet<_> = known.into_iter().collect();
        self.width.set_threads((known.len() + others.len()) / self.needed() as usize);
        self.stays = true;
    }

    /// Groups that may be in flight at once.
    pub fn width(&self) -> usize {
        self.width.now()
    }

    /// Whether slow writes are written again.
    pub fn hedges(&self) -> bool {
        self.hedge.is_on()
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Sections of main streams of the array in use, and all of them.
    pub fn sections(&self) -> (u64, u64) {
        let array = self.lanes.iter().filter(|l| !l.archive && !l.retired);
        let used = array.map(|l| l.main.used(self.checkpoint));
        used.fold((0, 0), |(a, b), (used, all)| (a + used, b + all))
    }

    /// What each device is.
    pub fn health(&self) -> &[Health] {
        &self.health
    }

    /// The streams of all lanes, for readers: device, stream, area.
    pub fn streams(&self) -> impl Iterator<Item = (usize, u8, &Area)> {
        self.lanes.iter().filter(|l| !l.retired).flat_map(|l| {
            let second = l.second.iter().map(|area| (l.device, l.stream + 1, area));
            std::iter::once((l.device, l.stream, &l.main)).chain(second)
        })
    }

    /// How many devices of the array each byte must reach.
    fn needed(&self) -> u32 {
        self.options.copies.min(self.present_devices()).max(1)
    }

    /// Devices of the array that take part.
    fn present_devices(&self) -> u32 {
        self.array_devices(|_| true).count_ones()
    }

    /// The devices of the array that take part and have such a lane, as bits.
    fn array_devices(&self, which: impl Fn(&Lane) -> bool) -> u64 {
        let lanes = self.lanes.iter().filter(|l| !l.archive && self.is_present(l) && which(l));
        lanes.fold(0, |bits, l| bits | 1 << l.device)
    }

    fn most_groups(&self) -> usize {
        let lanes = self.lanes.iter().filter(|l| !l.archive && self.is_present(l)).count();
        lanes / self.needed() as usize
    }

    fn is_present(&self, lane: &Lane) -> bool {
        self.health[lane.device] == Health::Present && !lane.retired
    }

    fn archive(&self) -> Option<&Lane> {
        self.lanes.iter().find(|l| l.archive && !l.retired)
    }

    /// Whether the lane can be given something.
    fn is_idle(&self, lane: &Lane) -> bool {
        lane.busy.is_none() && !lane.stalled && self.is_present(lane)
    }

    /// Whether a group has all its copies.
    fn is_done(&self, group: &Group) -> bool {
        let copies = match planted!(OneDeviceTwice) {
            true => group.writes,
            false => group.holders.count_ones(),
        };
        copies >= self.needed()
    }

    fn units(&self, block: Lsn, to: Lsn) -> u32 {
        blocks_between(block, to, self.options.payload) as u32
    }
}
