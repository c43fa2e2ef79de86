//! A magnetic disk: arm, rotation, transfer, and a volatile write cache that can be
//! switched off.
//!
//! 1. The arm does one job at a time: a queued command, or a run of cached blocks. Which
//!    one is decided by the shortest positioning time among the oldest `window` jobs
//!    (the drive's reordering), never by what would be convenient.
//! 2. Cache off: a write completes when it is on the platter ([`Ack::OnMedia`]). Cache on:
//!    when it is in the cache, which is lost with the power ([`Ack::Volatile`]); a flush
//!    completes when what was cached before it is on the platter.
//! 3. A command belongs to the disk once it has passed the interface: dropping its future
//!    stops only the waiting.
//! 4. At a cut the block that the head is on, and those of the job after it, may be old or
//!    new (seeded); what was cached is lost.
//!
//! The model of seek, rotation and transfer follows Ruemmler and Wilkes, "An introduction
//! to disk drive modeling" (IEEE Computer, 1994).

use crate::operations::{Operation, Operations};
use crate::planted::planted;
use crate::{
    Ack, AfterCut, Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut,
    Durability, Extent, Field, IoError, Line, Link, LiveBox, OwnedData, Panel, Payload, PowerCycle,
    PowerState, Shown, Unit, unprotected_cut,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tantalum_rt::sync::{Semaphore, WaitQueue};
use tantalum_rt::{Domain, Nanos, Rt, Stream};

/// Cached blocks that follow each other are written in one go, up to so many bytes.
const RUN_BYTES: u64 = 256 << 10;

/// The parameters of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskModel {
    /// Bytes in a block, which is a sector: a power of two, 512 to 65536. It is written whole or
    /// not at all.
    #[serde(default = "usual_block")]
    pub block_bytes: u32,
    /// Capacity, blocks.
    pub blocks: u64,
    /// Revolutions per minute.
    pub rpm: u64,
    /// Blocks on a track.
    pub track_blocks: u64,
    /// Tracks of a cylinder (heads).
    pub heads: u64,
    /// A seek to the next cylinder, µs.
    pub seek_track_us: u64,
    /// A seek over all cylinders, µs. The time of a shorter seek grows with the root of the
    /// distance.
    pub seek_full_us: u64,
    /// Controller time of a command, µs.
    pub command_us: u64,
    /// Bandwidth of the interface, MB/s.
    pub interface_mb_s: u64,
    /// Commands that may be outstanding.
    pub queue_depth: u32,
    /// The write cache, KiB.
    pub cache_kib: u64,
    /// Whether it is on.
    pub write_cache: bool,
    /// Jobs among which the arm chooses.
    pub window: usize,
    /// From power to the first command, ms.
    pub spin_up_ms: u64,
}

fn usual_block() -> u32 {
    4096
}

impl DiskModel {
    /// Checks that a disk can have these parameters.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let at_least_one = [
            ("blocks", self.blocks),
            ("rpm", self.rpm),
            ("track_blocks", self.track_blocks),
            ("heads", self.heads),
            ("interface_mb_s", self.interface_mb_s),
            ("queue_depth", self.queue_depth.into()),
            ("window", self.window as u64),
        ];
        if let Some((name, _)) = at_least_one.iter().find(|p| p.1 == 0) {
            return Err(format!("disk: {name} must be at least 1"));
        }
        if !self.block_bytes.is_power_of_two() || !(512..=65_536).contains(&self.block_bytes) {
            let is = self.block_bytes;
            return Err(format!("disk: block_bytes is {is}: a power of two, 512 to 65536"));
        }
        let least = RUN_BYTES >> 10;
        if self.write_cache && self.cache_kib < least {
            return Err(format!("disk: cache_kib is {}, at least {least}", self.cache_kib));
        }
        if self.seek_full_us < self.seek_track_us || self.seek_full_us > 1_000_000 {
            return Err("disk: seek_full_us must be at least seek_track_us, at most 1000000".into());
        }
        Ok(())
    }

    /// The most blocks in a run.
    fn run(&self) -> u64 {
        RUN_BYTES / u64::from(self.block_bytes)
    }

    /// Blocks that the cache holds.
    fn cache_blocks(&self) -> u64 {
        (self.cache_kib << 10) / u64::from(self.block_bytes)
    }

    fn revolution(&self) -> u64 {
        60_000_000_000 / self.rpm
    }

    fn cylinder(&self, block: u64) -> u64 {
        block / (self.track_blocks * self.heads)
    }

    fn cylinders(&self) -> u64 {
        self.cylinder(self.blocks.saturating_sub(1)) + 1
    }

    fn seek(&self, from: u64, to: u64) -> u64 {
        let distance = from.abs_diff(to);
        if distance == 0 {
            return 0;
        }
        let share = libm::sqrt(distance as f64 / self.cylinders() as f64);
        let range = (self.seek_full_us - self.seek_track_us) as f64;
        (self.seek_track_us * 1000) + (range * share * 1000.0) as u64
    }

    /// The time from now, with the arm at a cylinder, until `block` begins to pass the head.
    fn position(&self, now: Nanos, arm: u64, block: u64) -> u64 {
        let seek = self.command_us * 1000 + self.seek(arm, self.cylinder(block));
        let revolution = self.revolution();
        let angle = block % self.track_blocks * revolution / self.track_blocks;
        let there = (now.0 + seek) % revolution;
        seek + (angle + revolution - there) % revolution
    }

    fn transfer(&self, blocks: u64) -> u64 {
        blocks * self.revolution() / self.track_blocks
    }
}

/// A disk. Cheap to clone: a handle to one disk on one link.
#[derive(Clone)]
pub struct Disk {
    shared: Rc<Shared>,
    life: Option<Rc<Life>>,
}

struct Shared {
    rt: Rt,
    model: DiskModel,
    caps: Caps,
    platter: RefCell<FxHashMap<u64, OwnedData>>,
    life: RefCell<Option<(Rc<Life>, Domain)>>,
    starting: Cell<bool>,
    started: WaitQueue,
    dice: RefCell<Stream>,
    written: Cell<u64>,
    operations: Operations,
}

/// The state of a disk that a power cut clears.
struct Life {
    link: Link,
    state: RefCell<State>,
    work: WaitQueue,
    done: WaitQueue,
    places: Semaphore,
    room: Semaphore,
    interface_free: Cell<Nanos>,
}

#[derive(Default)]
struct State {
    /// Commands that wait for the arm, oldest first.
    queue: VecDeque<Job>,
    cache: FxHashMap<u64, Cached>,
    /// Cached blocks in the order in which they became dirty.
    oldest: BTreeMap<u64, u64>,
    ticks: u64,
    arm: u64,
    flushing: u32,
    /// The job the arm is at, with what it writes.
    at_work: Option<Job>,
}

struct Cached {
    data: OwnedData,
    since: u64,
    version: u64,
}

#[derive(Clone)]
struct Job {
    id: u64,
    at: u64,
    count: u64,
    /// What to write; `None` for a read.
    data: Option<OwnedData>,
    /// Versions of cached blocks that this brings to the platter.
    versions: Vec<u64>,
}

impl Job {
    /// Whether it changes what is on the platter.
    fn writes(&self) -> bool {
        self.data.is_some() || !self.versions.is_empty()
    }
}

impl Disk {
    /// A disk full of zeros, without power.
    ///
    /// # Errors
    /// What is wrong with the model.
    pub fn new(rt: &Rt, model: &DiskModel, payload: Payload) -> Result<Disk, String> {
        model.check()?;
        let caps = Caps {
            block_size: model.block_bytes,
            blocks: model.blocks,
            ack: if model.write_cache { Ack::Volatile } else { Ack::OnMedia },
            flush: true,
            ordered: false,
            atomic_unit: model.block_bytes,
            thin: false,
            atomic_group: None,
            payload,
        };
        let shared = Shared {
            rt: rt.clone(),
            model: model.clone(),
            caps,
            platter: RefCell::default(),
            life: RefCell::default(),
            starting: Cell::new(false),
            started: WaitQueue::new(rt, "the disk to spin up"),
            dice: RefCell::new(rt.stream("disk: torn runs")),
            written: Cell::new(0),
            operations: Operations::default(),
        };
        Ok(Disk { shared: Rc::new(shared), life: None })
    }

    /// Bytes of writes that came over the interface, over all power cycles.
    pub fn bytes_written(&self) -> u64 {
        self.shared.written.get()
    }

    /// The disk as a power cut at this moment leaves it, in another runtime, without power; this
    /// one goes on. What the cut makes of the job under the head is decided by the seed of the
    /// other runtime.
    ///
    /// # Errors
    /// None that the model of this disk did not have.
    pub fn cut_copy(&self, rt: &Rt) -> Result<Disk, String> {
        let shared = &*self.shared;
        let copy = Disk::new(rt, &shared.model, shared.caps.payload)?;
        copy.shared.platter.borrow_mut().clone_from(&shared.platter.borrow());
        copy.shared.written.set(shared.written.get());
        if let Some((life, _)) = &*shared.life.borrow() {
            copy.shared.tear(&life.state.borrow());
        }
        Ok(copy)
    }

    /// From now on remembers the jobs of its arm: [`Disk::take_operations`].
    pub fn record_operations(&self) {
        self.shared.operations.record();
    }

    /// The jobs of its arm since [`Disk::record_operations`]; it remembers no more.
    pub fn take_operations(&self) -> Vec<Operation> {
        self.shared.operations.take()
    }

    fn life(&self) -> Result<&Rc<Life>, IoError> {
        self.life.as_ref().ok_or(IoError::PowerLost)
    }

    async fn command<T>(
        &self,
        what: &'static str,
        body: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, IoError> {
        self.life()?.link.command(what, body).await
    }

    async fn write_blocks(&self, at: u64, data: OwnedData, through: bool) -> Result<(), IoError> {
        let life = self.life()?;
        let model = &self.shared.model;
        let count = data.as_data().blocks(model.block_bytes).unwrap_or(0);
        let _place = life.places.acquire(1).await;
        self.shared.pass_interface(life, count).await;
        let bytes = count * u64::from(model.block_bytes);
        self.shared.written.set(self.shared.written.get() + bytes);
        let through = through && !planted!(DiskCachesFua);
        if through || !model.write_cache {
            return life.arm_command(at, count, Some(data)).await;
        }
        let mut first = 0;
        while first < count {
            let some = model.run().min(count - first);
            life.room.take(some).await;
            let range = first as usize..(first + some) as usize;
            let part = data.as_data().slice(range, model.block_bytes);
            let replaced =
                life.state.borrow_mut().cache_blocks(at + first, part, model.block_bytes);
            life.room.release(replaced);
            life.work.notify_all();
            first += some;
        }
        Ok(())
    }
}

impl Shared {
    async fn pass_interface(&self, life: &Life, blocks: u64) {
        let ns = blocks * u64::from(self.model.block_bytes) * 1000 / self.model.interface_mb_s;
        let end = life.interface_free.get().max(self.rt.now()) + Nanos(ns);
        life.interface_free.set(end);
        self.rt.sleep_until_for(end, "the interface of the disk").await;
    }
}

impl Life {
    /// Queues a command for the arm and waits for its end.
    async fn arm_command(
        &self,
        at: u64,
        count: u64,
        data: Option<OwnedData>,
    ) -> Result<(), IoError> {
        let id = {
            let s = &mut *self.state.borrow_mut();
            s.ticks += 1;
            let id = s.ticks;
            s.queue.push_back(Job { id, at, count, data, versions: Vec::new() });
            id
        };
        self.work.notify_all();
        let ended = || {
            let s = self.state.borrow();
            !s.queue.iter().any(|j| j.id == id) && s.at_work.as_ref().is_none_or(|j| j.id != id)
        };
        self.done.until(ended).await;
        Ok(())
    }
}

impl State {
    fn drop_cached(&mut self, block: u64) {
        if let Some(cached) = self.cache.remove(&block) {
            self.oldest.remove(&cached.since);
        }
    }

    /// Takes blocks into the cache; how many replaced an older copy there.
    fn cache_blocks(&mut self, at: u64, data: Data<'_>, size: u32) -> u64 {
        let count = data.blocks(size).unwrap_or(0);
        let mut replaced = 0;
        for i in 0..count {
            self.ticks += 1;
            let now = self.ticks;
            let one = data.slice(i as usize..i as usize + 1, size).into();
            match self.cache.get_mut(&(at + i)) {
                Some(cached) => {
                    cached.data = one;
                    cached.version = now;
                    replaced += 1;
                }
                None => {
                    self.cache.insert(at + i, Cached { data: one, since: now, version: now });
                    self.oldest.insert(now, at + i);
                }
            }
        }
        replaced
    }

    /// Takes the next job: the nearest of the oldest commands and cached blocks.
    fn pick(&mut self, model: &DiskModel, now: Nanos) -> Option<Job> {
        let arm = self.arm;
        let cost = |block: u64| model.position(now, arm, block);
        let command =
            (0..self.queue.len().min(model.window)).min_by_key(|&i| cost(self.queue[i].at));
        let cached = self.oldest.values().take(model.window).min_by_key(|b| cost(**b)).copied();
        let job = match (command, cached) {
            // A host waits for a command; for the cache only while it is flushed.
            (Some(i), None) => self.queue.remove(i)?,
            (Some(i), Some(b)) if self.flushing == 0 || cost(self.queue[i].at) <= cost(b) => {
                self.queue.remove(i)?
            }
            (_, Some(block)) => self.cached_run(block, model.run()),
            (None, None) => return None,
        };
        self.at_work = Some(job.clone());
        Some(job)
    }

    fn cached_run(&mut self, at: u64, most: u64) -> Job {
        let count = (1..most).find(|i| !self.cache.contains_key(&(at + i))).unwrap_or(most);
        let versions = (at..at + count).map(|b| self.cache[&b].version).collect();
        self.ticks += 1;
        Job { id: self.ticks, at, count, data: None, versions }
    }

    fn is_cached_since(&self, tick: u64) -> bool {
        self.oldest.first_key_value().is_some_and(|(since, _)| *since <= tick)
    }
}

/// The arm, for as long as there is power.
async fn arm(shared: Rc<Shared>, life: Rc<Life>) {
    loop {
        life.work
            .until(|| {
                let s = life.state.borrow();
                !s.queue.is_empty() || !s.cache.is_empty()
            })
            .await;
        let now = shared.rt.now();
        let job = life.state.borrow_mut().pick(&shared.model, now);
        let Some(job) = job else { continue };
        let positioned = shared.model.position(now, life.state.borrow().arm, job.at);
        let span = positioned + shared.model.transfer(job.count);
        shared.operations.add(Operation {
            issued: now,
            begin: now + Nanos(positioned),
            end: now + Nanos(span),
            changes: job.writes(),
        });
        shared.rt.sleep_until_for(now + Nanos(span), "the arm of the disk").await;
        let freed = shared.finish(&life, &job);
        life.room.release(freed);
        life.done.notify_all();
    }
}

impl Shared {
    /// A job is done: its data are on the platter.
    fn finish(&self, life: &Life, job: &Job) -> u64 {
        let s = &mut *life.state.borrow_mut();
        s.arm = self.model.cylinder(job.at + job.count - 1);
        s.at_work = None;
        let mut freed = 0;
        for i in 0..job.count {
            let block = job.at + i;
            if let Some(data) = self.written(s, job, i) {
                self.put(block, data);
            }
            // The cached copy goes if this job has written it, or something newer.
            let version = s.cache.get(&block).map(|c| c.version);
            let void = match job.versions.get(i as usize) {
                Some(brought) => version == Some(*brought),
                None => job.data.is_some() && version.is_some_and(|v| v < job.id),
            };
            if void {
                s.drop_cached(block);
                freed += 1;
            }
        }
        freed
    }

    /// The power goes: of the job under the head the first so many blocks are written.
    fn tear(&self, s: &State) {
        let Some(job) = &s.at_work else { return };
        let written = self.dice.borrow_mut().below(job.count + 1);
        for i in 0..written {
            if let Some(data) = self.written(s, job, i) {
                self.put(job.at + i, data);
            }
        }
    }

    /// Writes a block on the platter. One that reads as zeros takes no memory.
    fn put(&self, block: u64, data: OwnedData) {
        let mut platter = self.platter.borrow_mut();
        match data.as_data().is_zero() {
            true => drop(platter.remove(&block)),
            false => drop(platter.insert(block, data)),
        }
    }

    /// What block `i` of a job puts on the platter.
    fn written(&self, s: &State, job: &Job, i: u64) -> Option<OwnedData> {
        match &job.data {
            Some(data) => {
                let range = i as usize..i as usize + 1;
                Some(data.as_data().slice(range, self.model.block_bytes).into())
            }
            // A run from the cache is written as it is in the cache now. A newer version also stays
            // cached.
            None if !job.versions.is_empty() => s.cache.get(&(job.at + i)).map(|c| c.data.clone()),
            None => None,
        }
    }
}

impl BlockDevice for Disk {
    fn caps(&self) -> &Caps {
        &self.shared.caps
    }

    fn is_alive(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.link.is_alive())
    }

    async fn read(&self, at: Block, mut buf: DataMut<'_>) -> Result<(), IoError> {
        let body = async {
            let life = self.life()?;
            let size = self.shared.model.block_bytes;
            let count = self.shared.caps.check(at, buf.kind(), buf.blocks(size))?;
            let _place = life.places.acquire(1).await;
            let in_cache =
                |s: &State| (at.0..at.0 + count).all(|block| s.cache.contains_key(&block));
            let cached = in_cache(&life.state.borrow());
            if !cached && count > 0 {
                life.arm_command(at.0, count, None).await?;
            }
            self.shared.pass_interface(life, count).await;
            let (s, platter) = (life.state.borrow(), self.shared.platter.borrow());
            for i in 0..count {
                let mut one = buf.slice(i as usize..i as usize + 1, size);
                let block = at.0 + i;
                match s.cache.get(&block).map(|c| &c.data).or_else(|| platter.get(&block)) {
                    Some(data) => one.copy_from(data.as_data()),
                    None => one.zero(),
                }
            }
            Ok(())
        };
        self.command("a read of a disk", body).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let body = async {
            let blocks = data.blocks(self.shared.model.block_bytes);
            let count = self.shared.caps.check(at, data.kind(), blocks)?;
            if count == 0 {
                return Ok(());
            }
            self.write_blocks(at.0, data.into(), want == Durability::Fua).await
        };
        self.command("a write of a disk", body).await
    }

    async fn write_atomic(&self, _group: &[Extent<'_>]) -> Result<(), AtomicError> {
        Err(AtomicError::Unsupported)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let body = async {
            let life = self.life()?;
            let tick = life.state.borrow().ticks;
            if planted!(DiskFlushesEarly) {
                return Ok(());
            }
            life.state.borrow_mut().flushing += 1;
            let _flushing = Flushing(life);
            life.done.until(|| !life.state.borrow().is_cached_since(tick)).await;
            Ok(())
        };
        self.command("a flush of a disk", body).await
    }

    /// A disk has no trim: the blocks are written with zeros.
    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let body = async {
            self.shared.caps.check_range(range)?;
            let mut done = 0;
            while done < range.count {
                let Caps { payload, block_size, .. } = self.shared.caps;
                let count = self.shared.model.run().min(range.count - done);
                let zeros = OwnedData::zeros(payload, count as usize, block_size);
                self.write_blocks(range.start.0 + done, zeros, false).await?;
                done += count;
            }
            Ok(())
        };
        self.command("a discard of a disk", body).await
    }

    /// As the model knows it: a real disk could not tell. It takes no time.
    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        let body = async {
            self.shared.caps.check_range(range)?;
            let (s, platter) = (self.life()?.state.borrow(), self.shared.platter.borrow());
            let is_hole = |block| !s.cache.contains_key(&block) && !platter.contains_key(&block);
            Ok(Allocation::of(range, is_hole))
        };
        self.command("a look at what is stored", body).await
    }
}

/// While it lives, cached blocks compete with commands for the arm.
struct Flushing<'a>(&'a Life);

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().flushing -= 1;
    }
}

impl PowerCycle for Disk {
    type Device = Disk;

    fn device(&self) -> Disk {
        let life = self.shared.life.borrow().as_ref().map(|l| l.0.clone());
        Disk { shared: self.shared.clone(), life }
    }

    fn cut(&self) {
        self.shared.starting.set(false);
        self.shared.started.notify_all();
        let Some((life, domain)) = self.shared.life.borrow_mut().take() else { return };
        life.link.cut();
        domain.kill();
        self.shared.tear(&life.state.borrow());
    }

    async fn off(&self) {}

    async fn power_on(&self) -> Result<(), IoError> {
        let shared = &self.shared;
        if shared.life.borrow().is_some() {
            return Ok(());
        }
        shared.starting.set(true);
        let ready = shared.rt.now() + Nanos::from_millis(shared.model.spin_up_ms);
        while shared.starting.get() && shared.rt.now() < ready {
            shared.rt.sleep_until_for(ready, "the disk to spin up").await;
        }
        if !shared.starting.replace(false) {
            return match shared.life.borrow().is_some() {
                true => Ok(()), // Another start was quicker.
                false => Err(IoError::PowerLost),
            };
        }
        let rt = &shared.rt;
        let life = Rc::new(Life {
            link: Link::new(rt),
            state: RefCell::default(),
            work: WaitQueue::new(rt, "work for the arm"),
            done: WaitQueue::new(rt, "the arm of the disk"),
            places: Semaphore::new(
                rt,
                "a place in the disk's queue",
                shared.model.queue_depth.into(),
            ),
            room: Semaphore::new(rt, "room in the disk's cache", shared.model.cache_blocks()),
            interface_free: Cell::new(Nanos::ZERO),
        });
        let domain = rt.domain();
        domain.spawn_background("arm", arm(shared.clone(), life.clone()));
        *shared.life.borrow_mut() = Some((life, domain));
        Ok(())
    }
}

impl Disk {
    /// Blocks in the cache, and commands that wait for the arm.
    fn backlog(&self) -> (u64, u64) {
        self.shared.life.borrow().as_ref().map_or((0, 0), |(life, _)| {
            let s = life.state.borrow();
            (s.cache.len() as u64, s.queue.len() as u64)
        })
    }
}

impl LiveBox for Disk {
    fn title(&self) -> String {
        "disk".to_string()
    }

    fn power_state(&self) -> PowerState {
        match (self.shared.life.borrow().is_some(), self.shared.starting.get()) {
            (true, _) => PowerState::On,
            (false, true) => PowerState::Starting,
            (false, false) => PowerState::Off,
        }
    }

    fn promises(&self) -> Caps {
        self.shared.caps
    }

    fn watch_cut(&self) -> AfterCut {
        let (cached, _) = self.backlog();
        let bytes = cached * u64::from(self.shared.model.block_bytes);
        Box::new(move || unprotected_cut(bytes.div_ceil(4096)))
    }

    fn shown(&self) -> Shown {
        let (cached, queued) = self.backlog();
        let model = &self.shared.model;
        let room = if model.write_cache { model.cache_blocks() } else { 0 };
        let (stored, all) = (self.shared.platter.borrow().len() as u64, model.blocks);
        let written = self.bytes_written();
        let fields = vec![
            Field::new("cache.used", Unit::Count, cached, "blocks in the write cache")
                .gauge("cache_used_blocks"),
            Field::new("cache.blocks", Unit::Count, room, "blocks that the write cache can hold")
                .gauge("cache_blocks"),
            Field::new("queued", Unit::Count, queued, "commands that wait for the arm")
                .gauge("queued_commands"),
            Field::new("interface_write_bytes", Unit::Bytes, written, "bytes written by the host")
                .counter("host_written_bytes"),
            Field::new("stored_blocks", Unit::Count, stored, "blocks that hold something")
                .gauge("stored_blocks"),
        ];
        let (cache, cache_bar) = match model.write_cache {
            true => (
                Line::new("cache", format!("{cached} of {room} blocks")),
                Line::level("cache", cached, room, format_args!("of {room} blocks")),
            ),
            false => {
                let off = Line::new("cache", "switched off");
                (off.clone(), off.dim())
            }
        };
        let lines = vec![cache, Line::new("arm", format!("{queued} commands wait for it"))];
        let of = model.queue_depth;
        let bars = vec![
            cache_bar,
            Line::level("queue", queued, of.into(), format_args!("of {of} commands")),
            Line::level("stored", stored, all, format_args!("of {all} blocks")),
        ];
        Shown { fields, lines, panels: vec![Panel::new("inside", bars)] }
    }
}
