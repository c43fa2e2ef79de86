//! A magnetic disk: arm, rotation, transfer, and a volatile write cache that can be
//! switched off.
//!
//! 1. The arm does one job at a time: a queued command, or a run of cached blocks. Which
//!    one is decided by positioning time and age (`disk/queue.rs`), never by what would be
//!    convenient.
//! 2. Cache off: a write completes when it is on the platter ([`Ack::OnMedia`]). Cache on:
//!    when it is in the cache, which is lost with the power ([`Ack::Volatile`]); a flush
//!    completes when what was cached before it is on the platter.
//! 3. A command belongs to the disk once it has passed the interface: dropping its future
//!    stops only the waiting.
//! 4. At a cut the block that the head is on, and those of the job after it, may be old or
//!    new (seeded); what was cached is lost.
//!
//! Not modelled: reading ahead, zones of different density, sectors that go bad.

mod cache;
mod live;
mod model;
mod queue;

pub use model::DiskModel;

use crate::operations::{Operation, Operations};
use crate::planted::planted;
use crate::{
    Ack, Allocation, AtomicError, Block, BlockDevice, Blocks, Bus, Caps, Data, DataMut, Durability,
    Extent, IoError, Link, OwnedData, Payload, PowerCycle,
};
use queue::{Job, State};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_rt::sync::{Semaphore, WaitQueue};
use tantalum_rt::{Domain, Nanos, Rt, Stream};

/// A disk. Cheap to clone: a handle to one disk on one link.
///
/// ```
/// use tantalum_device::{
///     Block, BlockDevice, Data, Disk, DiskModel, Durability, IoError, Payload, PowerCycle, presets,
/// };
/// use tantalum_rt::{Nanos, Runtime};
///
/// let (_, text) = presets::DISKS.iter().find(|(name, _)| *name == "disk-10k").unwrap();
/// let model: DiskModel = toml::from_str(text).unwrap();
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let disk = Disk::new(&rt, &model, Payload::Stamps)?;
/// let took = runtime.block_on(async move {
///     disk.power_on().await?;
///     let device = disk.device();
///     device.write(Block(0), Data::Stamps(&[1]), Durability::Normal).await?;
///     let before = rt.now();
///     device.write(Block(1), Data::Stamps(&[2]), Durability::Normal).await?;
///     Ok::<_, IoError>(rt.now() - before)
/// });
/// // With its cache off, the next block has just gone by: about a revolution of 6 ms.
/// assert!(took.unwrap().unwrap() > Nanos::from_millis(5));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone)]
pub struct Disk {
    shared: Rc<Shared>,
    life: Option<Rc<Life>>,
}

struct Shared {
    rt: Rt,
    model: DiskModel,
    bus: Option<Bus>,
    caps: Caps,
    platter: RefCell<FxHashMap<u64, OwnedData>>,
    life: RefCell<Option<(Rc<Life>, Domain)>>,
    starting: Cell<bool>,
    started: WaitQueue,
    /// Its place among the disks of its runtime.
    place: u32,
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

impl Disk {
    /// A disk full of zeros, without power.
    ///
    /// # Errors
    /// What is wrong with the model.
    pub fn new(rt: &Rt, model: &DiskModel, payload: Payload) -> Result<Disk, String> {
        Disk::on_bus(rt, model, payload, None, 0)
    }

    /// The same on a bus, which it may share with others: behind its own interface all data pass
    /// that, too. Disks of one runtime with places of their own tear independently of each other.
    ///
    /// # Errors
    /// What is wrong with the model.
    pub fn on_bus(
        rt: &Rt,
        model: &DiskModel,
        payload: Payload,
        bus: Option<&Bus>,
        place: u32,
    ) -> Result<Disk, String> {
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
            bus: bus.cloned(),
            caps,
            platter: RefCell::default(),
            life: RefCell::default(),
            starting: Cell::new(false),
            started: WaitQueue::new(rt, "the disk to spin up"),
            place,
            dice: RefCell::new(match place {
                0 => rt.stream("disk: torn runs"),
                place => rt.stream(&format!("disk {place}: torn runs")),
            }),
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
        // (A bus that several disks share is one for each copy there.)
        let bus = shared.bus.as_ref().map(Bus::idle);
        let (model, payload) = (&shared.model, shared.caps.payload);
        let copy = Disk::on_bus(rt, model, payload, bus.as_ref(), shared.place)?;
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
            life.arm_command(at, count, Some(data), self.shared.rt.now()).await;
            return Ok(());
        }
        let mut first = 0;
        while first < count {
            let some = model.run().min(count - first);
            life.make_room(some).await;
            let range = first as usize..(first + some) as usize;
            let part = data.as_data().slice(range, model.block_bytes);
            let replaced = {
                let s = &mut *life.state.borrow_mut();
                s.cache.take(at + first, part, model.block_bytes, &mut s.ticks)
            };
            life.room.release(replaced);
            life.work.notify_all();
            first += some;
        }
        Ok(())
    }
}

impl Shared {
    async fn pass_interface(&self, life: &Life, blocks: u64) {
        let bytes = blocks * u64::from(self.model.block_bytes);
        let now = self.rt.now();
        let begin = life.interface_free.get().max(now);
        let mut end = begin + Nanos(bytes * 1000 / self.model.interface_mb_s);
        if let Some(bus) = &self.bus {
            end = end.max(bus.pass(now, begin, bytes));
        }
        life.interface_free.set(end);
        self.rt.sleep_until_for(end, "the interface of the disk").await;
    }
}

impl Life {
    /// Queues a command for the arm and waits for its end.
    async fn arm_command(&self, at: u64, count: u64, data: Option<OwnedData>, now: Nanos) {
        let id = self.state.borrow_mut().add(at, count, data, now);
        self.work.notify_all();
        self.done.until(|| self.state.borrow().is_done(id)).await;
    }

    /// Waits for room in the cache.
    async fn make_room(&self, blocks: u64) {
        if !self.room.try_take(blocks) {
            let _waiting = Waiting::begin(self);
            self.room.take(blocks).await;
        }
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
        let from = life.state.borrow().arm;
        let positioned = shared.model.position(now, from, job.at, job.writes(), job.came);
        let span = positioned + shared.model.transfer(job.at, job.count);
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
            let version = match job.versions.get(i as usize) {
                Some(version) => Some(*version),
                None => job.data.is_some().then_some(job.id),
            };
            freed += u64::from(version.is_some_and(|v| s.cache.written(block, v)));
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
            None if !job.versions.is_empty() => s.cache.get(job.at + i).cloned(),
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

    fn arm_queue(&self) -> Option<u32> {
        Some(self.shared.model.queue_depth)
    }

    async fn read(&self, at: Block, mut buf: DataMut<'_>) -> Result<(), IoError> {
        let body = async {
            let life = self.life()?;
            let size = self.shared.model.block_bytes;
            let count = self.shared.caps.check(at, buf.kind(), buf.blocks(size))?;
            let _place = life.places.acquire(1).await;
            let in_cache = |s: &State| (at.0..at.0 + count).all(|block| s.cache.contains(block));
            let cached = in_cache(&life.state.borrow());
            if !cached && count > 0 {
                life.arm_command(at.0, count, None, self.shared.rt.now()).await;
            }
            self.shared.pass_interface(life, count).await;
            let (s, platter) = (life.state.borrow(), self.shared.platter.borrow());
            for i in 0..count {
                let mut one = buf.slice(i as usize..i as usize + 1, size);
                let block = at.0 + i;
                match s.cache.get(block).or_else(|| platter.get(&block)) {
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
            let _waiting = Waiting::begin(life);
            life.done.until(|| !life.state.borrow().cache.is_dirty_since(tick)).await;
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
            let is_hole = |block| !s.cache.contains(block) && !platter.contains_key(&block);
            Ok(Allocation::of(range, is_hole))
        };
        self.command("a look at what is stored", body).await
    }
}

/// While it lives, cached blocks compete with commands for the arm.
struct Waiting<'a>(&'a Life);

impl<'a> Waiting<'a> {
    fn begin(life: &'a Life) -> Waiting<'a> {
        life.state.borrow_mut().awaited += 1;
        Waiting(life)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().awaited -= 1;
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
