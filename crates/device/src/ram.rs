//! A device in memory that keeps the contract and nothing more. At a power cut it may do anything
//! that it did not promise; the seed decides what.
//!
//! 1. A command is received whole in the poll that submits it; from then on it
//!    takes effect whether or not its future is dropped, unless the power goes.
//! 2. What must survive (completed under a surviving ack, forced by FUA, or
//!    covered by a flush that returned) survives every cut.
//! 3. Of the rest, a cut keeps any part: each `atomic_unit` of a write counted
//!    from its start, and each whole group, is kept or dropped by the dice.
//! 4. If the device is ordered, the survivors are the first so many commands in
//!    order of arrival, and at most the one after them is torn.
//! 5. What a cut left is durable from then on.

use crate::operations::{Operation, Operations};
use crate::planted::planted;
use crate::{
    AfterCut, Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, CommandKind, Data,
    DataMut, Durability, Extent, Field, IoError, Line, Link, LiveBox, OwnedData, Panel, Payload,
    PowerCycle, PowerState, Shown, Unit, unprotected_cut,
};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use tantalum_rt::{Nanos, Rt, Stream};

/// What a [`RamDevice`] promises and how long it takes.
///
/// See [`RamDevice`] for an example.
#[derive(Clone, Debug)]
pub struct RamOptions {
    /// What it promises; any combination.
    pub caps: Caps,
    /// Time for each read, write and discard.
    pub command: Nanos,
    /// Each read, write and discard takes up to this much longer, at random, so that
    /// commands complete out of order.
    pub jitter: Nanos,
    /// Time for each flush.
    pub flush: Nanos,
    /// Time from power to the first command.
    pub start: Nanos,
    /// Commands in the volatile cache, at most: beyond that, and beyond 64 MiB, the oldest become
    /// durable by themselves.
    pub cache_commands: usize,
    /// The name of the random streams that decide what a cut does and how long a
    /// command takes.
    pub stream: String,
}

impl RamOptions {
    /// A device with these promises that takes no time.
    pub fn new(caps: Caps) -> RamOptions {
        RamOptions {
            caps,
            command: Nanos::ZERO,
            jitter: Nanos::ZERO,
            flush: Nanos::ZERO,
            start: Nanos::ZERO,
            cache_commands: 4096,
            stream: "ram".to_string(),
        }
    }
}

/// Times that something else than the options decides.
pub(crate) trait Timing {
    /// The same for a copy of the device in another runtime, with the random streams of `name`.
    fn copy(&self, rt: &Rt, name: &str) -> Box<dyn Timing>;

    /// The power is on again: what was under way is gone.
    fn restart(&mut self);

    /// When a command that arrives `now` ends.
    fn end_of(&mut self, now: Nanos, kind: CommandKind, at: u64, count: u64) -> Nanos;
}

/// Orders versions of a block: by power cycle, then by the order of effect.
type Key = (u64, u64, u64);

/// The content of one block.
#[derive(Clone)]
enum Content {
    Zero,
    Stamp(u64),
    Bytes(Rc<[u8]>),
}

type Store = FxHashMap<u64, (Key, Content)>;

/// What a command writes somewhere: data, or zeros.
#[derive(Clone)]
struct Part {
    at: u64,
    count: u64,
    data: Option<OwnedData>,
}

/// Bytes in the volatile cache, at most.
const CACHE_BYTES: u64 = 64 << 20;

/// A command that was received and is not durable yet.
#[derive(Clone)]
struct Record {
    key: Key,
    parts: Vec<Part>,
    /// A group is one atomic unit, however large.
    group: bool,
    fua: bool,
    /// It is complete: reads see it.
    applied: bool,
}

#[derive(Clone, Default)]
struct State {
    /// What survives, whatever comes.
    durable: Store,
    /// What reads see instead, where a newer write is complete.
    newer: Store,
    /// Commands not known to be durable, by arrival.
    log: BTreeMap<u64, Record>,
    /// Blocks of data in the log.
    logged: u64,
    /// Ranges that were discarded while something older may still come.
    zeros: Vec<(u64, u64)>,
    /// Of those, the ones not complete, by the time at which they will be.
    pending: BTreeSet<(Nanos, u64)>,
    arrivals: u64,
    cycle: u64,
    /// Ordered devices: all arrivals below this one must survive.
    must: u64,
}

struct Inner {
    rt: Rt,
    options: RamOptions,
    state: RefCell<State>,
    dice: RefCell<Stream>,
    jitter: RefCell<Stream>,
    /// Decides the times instead of the options.
    timing: Option<RefCell<Box<dyn Timing>>>,
    /// The link of this power cycle, and whether the device takes commands.
    link: RefCell<Link>,
    ready: Cell<bool>,
    /// Bytes of writes, over all power cycles.
    written: Cell<u64>,
    operations: Operations,
}

/// A block device in memory, and the box around it. Cheap to clone; a clone is
/// the same device on the same link.
///
/// ```
/// use tantalum_device::{
///     Ack, Block, BlockDevice, Caps, Data, DataMut, Durability, IoError, Payload, PowerCycle,
///     RamDevice, RamOptions,
/// };
/// use tantalum_rt::Runtime;
///
/// let caps = Caps::power_safe(16, Payload::Stamps);
/// let caps = Caps { ack: Ack::Volatile, ordered: false, ..caps };
/// let mut runtime = Runtime::virtual_time(1);
/// let ram = RamDevice::new(&runtime.handle(), RamOptions::new(caps));
/// let found = runtime.block_on(async move {
///     ram.write(Block(0), Data::Stamps(&[1]), Durability::Normal).await?;
///     ram.flush().await?;
///     ram.write(Block(0), Data::Stamps(&[2]), Durability::Normal).await?;
///     ram.cut();
///     ram.power_on().await?;
///     let mut block = [0];
///     ram.device().read(Block(0), DataMut::Stamps(&mut block)).await?;
///     Ok::<_, IoError>(block[0])
/// });
/// // The first write was flushed. The second one may be there, or not.
/// assert!([1, 2].contains(&found.unwrap().unwrap()));
/// ```
#[derive(Clone)]
pub struct RamDevice {
    inner: Rc<Inner>,
    link: Link,
}

impl RamDevice {
    /// A device full of zeros, with its power on.
    ///
    /// # Panics
    /// If the options give a block size or an atomic unit of 0 bytes.
    pub fn new(rt: &Rt, options: RamOptions) -> RamDevice {
        RamDevice::with(rt, options, None)
    }

    /// One with other times than those of its options.
    pub(crate) fn timed(rt: &Rt, options: RamOptions, timing: Box<dyn Timing>) -> RamDevice {
        RamDevice::with(rt, options, Some(RefCell::new(timing)))
    }

    fn with(rt: &Rt, options: RamOptions, timing: Option<RefCell<Box<dyn Timing>>>) -> RamDevice {
        assert!(options.caps.block_size > 0, "a block has at least one byte");
        assert!(options.caps.atomic_unit > 0, "an atomic unit has at least one byte");
        let link = Link::new(rt);
        let inner = Inner {
            rt: rt.clone(),
            state: RefCell::default(),
            dice: RefCell::new(rt.stream(&format!("{} cut", options.stream))),
            jitter: RefCell::new(rt.stream(&format!("{} jitter", options.stream))),
            timing,
            link: RefCell::new(link.clone()),
            ready: Cell::new(true),
            written: Cell::new(0),
            operations: Operations::default(),
            options,
        };
        RamDevice { inner: Rc::new(inner), link }
    }

    /// The device as a power cut at this moment leaves it, in another runtime, without power;
    /// this one goes on. What the cut keeps is decided by the seed of the other runtime.
    #[must_use]
    pub fn cut_copy(&self, rt: &Rt) -> RamDevice {
        let Inner { options, timing, .. } = &*self.inner;
        let again =
            |t: &RefCell<Box<dyn Timing>>| RefCell::new(t.borrow().copy(rt, &options.stream));
        let copy = RamDevice::with(rt, options.clone(), timing.as_ref().map(again));
        copy.inner.written.set(self.inner.written.get());
        *copy.inner.state.borrow_mut() = self.inner.state.borrow().clone();
        copy.cut();
        copy
    }

    /// Bytes of writes that it received, over all power cycles.
    pub fn bytes_written(&self) -> u64 {
        self.inner.written.get()
    }

    /// From now on remembers the commands that it carries out: [`RamDevice::take_operations`].
    pub fn record_operations(&self) {
        self.inner.operations.record();
    }

    /// The commands carried out since [`RamDevice::record_operations`]; it remembers no more.
    pub fn take_operations(&self) -> Vec<Operation> {
        self.inner.operations.take()
    }

    /// When a command ends that arrives now.
    fn end_of(&self, kind: CommandKind, at: u64, count: u64) -> Nanos {
        let (o, now) = (&self.inner.options, self.inner.rt.now());
        if let Some(timing) = &self.inner.timing {
            return timing.borrow_mut().end_of(now, kind, at, count);
        }
        let latency = match (kind, o.jitter) {
            (CommandKind::Flush, _) => o.flush,
            (_, Nanos::ZERO) => o.command,
            (_, Nanos(j)) => o.command + Nanos(self.inner.jitter.borrow_mut().below(j + 1)),
        };
        now.saturating_add(latency)
    }

    /// Receives a command and waits until it is complete.
    async fn carry_out(&self, parts: Vec<Part>, kind: CommandKind) {
        let Inner { rt, options, state, written, operations, .. } = &*self.inner;
        let data: u64 = parts.iter().filter(|p| p.data.is_some()).map(|p| p.count).sum();
        written.set(written.get() + data * u64::from(options.caps.block_size));
        let count = parts.iter().map(|p| p.count).sum();
        let done = self.end_of(kind, parts.first().map_or(0, |p| p.at), count);
        let group = kind == CommandKind::Group;
        let fua = group || kind == CommandKind::Fua;
        let begin = rt.now();
        operations.add(Operation { issued: begin, begin, end: done, changes: true });
        state.borrow_mut().receive(done, parts, group, fua, &options.caps);
        rt.sleep_until_for(done, "a command of the RAM device").await;
        let mut s = state.borrow_mut();
        s.settle(rt.now(), &options.caps);
        s.spill(options.cache_commands, &options.caps);
    }
}

impl BlockDevice for RamDevice {
    fn caps(&self) -> &Caps {
        &self.inner.options.caps
    }

    fn is_alive(&self) -> bool {
        self.link.is_alive()
    }

    async fn read(&self, at: Block, mut buf: DataMut<'_>) -> Result<(), IoError> {
        let body = async {
            let caps = self.caps();
            let count = caps.check(at, buf.kind(), buf.blocks(caps.block_size))?;
            let Inner { rt, state, .. } = &*self.inner;
            rt.sleep_until(self.end_of(CommandKind::Read, at.0, count)).await;
            let mut s = state.borrow_mut();
            s.settle(rt.now(), caps);
            for i in 0..count {
                let room = buf.slice(i as usize..i as usize + 1, caps.block_size);
                s.content(at.0 + i).copy_to(room);
            }
            Ok(())
        };
        self.link.command("a read", body).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let body = async {
            let caps = self.caps();
            caps.check(at, data.kind(), data.blocks(caps.block_size))?;
            let parts = vec![Part::data(at, data, caps)];
            self.carry_out(parts, CommandKind::of_write(want)).await;
            Ok(())
        };
        self.link.command("a write", body).await
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        let body = async {
            let caps = self.caps();
            caps.check_group(group)?;
            let parts = group.iter().map(|e| Part::data(e.at, e.data, caps)).collect();
            self.carry_out(parts, CommandKind::Group).await;
            Ok(())
        };
        self.link.command("an atomic group", body).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        let body = async {
            let Inner { rt, options, state, .. } = &*self.inner;
            if !options.caps.flush {
                return Ok(());
            }
            let mut covered = state.borrow_mut().complete_now(rt.now(), &options.caps);
            if planted!(RamForgetsFlushed) {
                covered.pop();
            }
            rt.sleep_until_for(self.end_of(CommandKind::Flush, 0, 0), "a flush").await;
            state.borrow_mut().make_durable(&covered, &options.caps);
            Ok(())
        };
        self.link.command("a flush", body).await
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let body = async {
            self.caps().check_range(range)?;
            let parts = vec![Part { at: range.start.0, count: range.count, data: None }];
            self.carry_out(parts, CommandKind::Discard).await;
            Ok(())
        };
        self.link.command("a discard", body).await
    }

    /// It takes no time.
    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        let body = async {
            self.caps().check_range(range)?;
            let mut s = self.inner.state.borrow_mut();
            s.settle(self.inner.rt.now(), self.caps());
            Ok(Allocation::of(range, |block| matches!(s.content(block), Content::Zero)))
        };
        self.link.command("a look at what is stored", body).await
    }
}

impl PowerCycle for RamDevice {
    type Device = RamDevice;

    fn device(&self) -> RamDevice {
        let link = if self.inner.ready.get() {
            self.inner.link.borrow().clone()
        } else {
            let dead = Link::new(&self.inner.rt);
            dead.cut();
            dead
        };
        RamDevice { inner: self.inner.clone(), link }
    }

    fn cut(&self) {
        let inner = &*self.inner;
        let link = inner.link.borrow().clone();
        if !link.is_alive() {
            return;
        }
        inner.ready.set(false);
        link.cut();
        let word =
            inner.state.borrow_mut().crash(&inner.options.caps, &mut inner.dice.borrow_mut());
        inner.rt.trace(word);
    }

    /// The device has no capacitors: it is dead at once.
    async fn off(&self) {}

    async fn power_on(&self) -> Result<(), IoError> {
        let inner = &*self.inner;
        if inner.link.borrow().is_alive() {
            return if inner.ready.get() {
                Ok(())
            } else {
                Err(IoError::Invalid("the device is being started already"))
            };
        }
        let link = Link::new(&inner.rt);
        *inner.link.borrow_mut() = link.clone();
        let start = inner.rt.sleep(inner.options.start);
        link.command("the start of a device", async {
            start.await;
            if let Some(timing) = &inner.timing {
                timing.borrow_mut().restart();
            }
            inner.ready.set(true);
            Ok(())
        })
        .await
    }
}

impl LiveBox for RamDevice {
    fn title(&self) -> String {
        "ram".to_string()
    }

    fn power_state(&self) -> PowerState {
        let inner = &*self.inner;
        match (inner.link.borrow().is_alive(), inner.ready.get()) {
            (true, true) => PowerState::On,
            (true, false) => PowerState::Starting,
            (false, _) => PowerState::Off,
        }
    }

    fn promises(&self) -> Caps {
        self.inner.options.caps
    }

    fn watch_cut(&self) -> AfterCut {
        let caps = &self.inner.options.caps;
        let (_, blocks) = self.inner.state.borrow_mut().at_risk(self.inner.rt.now(), caps);
        let bytes = blocks.saturating_mul(caps.block_size.into());
        Box::new(move || unprotected_cut(bytes.div_ceil(4096)))
    }

    fn shown(&self) -> Shown {
        let RamOptions { caps, cache_commands, .. } = &self.inner.options;
        let mut s = self.inner.state.borrow_mut();
        let (commands, blocks) = s.at_risk(self.inner.rt.now(), caps);
        let (stored, all, of) = (s.stored(), caps.blocks, *cache_commands as u64);
        let help = "commands that are complete and not durable";
        let most = "such commands, at most: beyond that the oldest become durable";
        let fields = vec![
            Field::new("cache.commands", Unit::Count, commands, help).gauge("volatile_commands"),
            Field::new("cache.commands_max", Unit::Count, of, most)
                .gauge("volatile_commands_limit"),
            Field::new("cache.blocks", Unit::Count, blocks, "blocks that a cut may lose")
                .gauge("volatile_blocks"),
            Field::new("stored_blocks", Unit::Count, stored, "blocks that hold something")
                .gauge("stored_blocks"),
        ];
        let lines = vec![
            Line::new("volatile", format!("{commands} of {of} commands, {blocks} blocks")),
            Line::new("stored", format!("{stored} of {all} blocks")),
        ];
        let text = format!("of {of} commands, {blocks} blocks");
        let bars = vec![
            Line::level("volatile", commands, of, text),
            Line::level("stored", stored, all, format_args!("of {all} blocks")),
        ];
        Shown { fields, lines, panels: vec![Panel::new("inside", bars)] }
    }
}

impl State {
    /// Commands that are complete and not durable, and blocks of these: what a cut may lose
    /// although it was acknowledged.
    fn at_risk(&mut self, now: Nanos, caps: &Caps) -> (u64, u64) {
        self.settle(now, caps);
        // On an ordered device a complete command may wait for one in flight before it is durable.
        let kept = |seq: u64| caps.ack.survives() || (caps.ordered && seq < self.must);
        let at_risk = self.log.iter().filter(|(seq, r)| r.applied && !kept(**seq));
        let (mut commands, mut ranges) = (0, Vec::new());
        for (_, record) in at_risk {
            commands += 1;
            ranges.extend(record.parts.iter().map(|part| (part.at, part.at + part.count)));
        }
        ranges.sort_unstable();
        // A block that several commands changed counts once.
        let (mut blocks, mut behind) = (0, 0);
        for (from, to) in ranges {
            blocks += to.saturating_sub(from.max(behind));
            behind = behind.max(to);
        }
        (commands, blocks)
    }

    /// Blocks that something was written to.
    fn stored(&self) -> u64 {
        let newer = self.newer.keys().filter(|block| !self.durable.contains_key(block)).count();
        (self.durable.len() + newer) as u64
    }

    fn receive(&mut self, done: Nanos, parts: Vec<Part>, group: bool, fua: bool, caps: &Caps) {
        let seq = self.arrivals;
        self.arrivals += 1;
        let key = if caps.ordered { (self.cycle, seq, 0) } else { (self.cycle, done.0, seq) };
        let record = Record { key, parts, group, fua, applied: false };
        self.logged += record.data_blocks();
        self.log.insert(seq, record);
        self.pending.insert((done, seq));
    }

    /// Completes the commands whose time has come.
    fn settle(&mut self, now: Nanos, caps: &Caps) {
        while let Some(&(done, seq)) = self.pending.first()
            && done <= now
        {
            self.pending.pop_first();
            let Some(record) = self.log.get_mut(&seq) else { continue };
            record.applied = true;
            record.put(&mut self.newer, caps, |_| true);
            let forced = record.fua && !planted!(RamCachesFua);
            if forced || caps.ack.survives() {
                self.make_durable(&[seq], caps);
            }
        }
    }

    /// The arrivals that are complete now.
    fn complete_now(&mut self, now: Nanos, caps: &Caps) -> Vec<u64> {
        self.settle(now, caps);
        self.log.iter().filter(|(_, r)| r.applied).map(|(seq, _)| *seq).collect()
    }

    /// From now on these arrivals survive any cut.
    fn make_durable(&mut self, arrivals: &[u64], caps: &Caps) {
        if !caps.ordered {
            for seq in arrivals {
                if let Some(record) = self.log.remove(seq) {
                    self.keep(&record, caps);
                }
            }
            self.forget_zeros();
            return;
        }
        self.must = arrivals.iter().fold(self.must, |m, seq| m.max(seq + 1));
        // The survivors are a prefix. So a command in flight delays the durability of later ones.
        while let Some(first) = self.log.first_entry()
            && first.get().applied
            && *first.key() < self.must
        {
            let record = first.remove();
            self.keep(&record, caps);
        }
        self.forget_zeros();
    }

    /// A record that has left the log is durable.
    fn keep(&mut self, record: &Record, caps: &Caps) {
        self.logged -= record.data_blocks();
        self.zeros.extend(record.discarded());
        record.put(&mut self.durable, caps, |_| true);
        for block in record.blocks() {
            if self.newer.get(&block).is_some_and(|(key, _)| *key <= record.key) {
                self.newer.remove(&block);
            }
        }
    }

    /// Discarded blocks take no memory once nothing older can come any more.
    fn forget_zeros(&mut self) {
        if !self.log.is_empty() {
            return;
        }
        for block in self.zeros.drain(..).flat_map(|(from, to)| from..to) {
            if matches!(self.durable.get(&block), Some((_, Content::Zero))) {
                self.durable.remove(&block);
            }
        }
    }

    /// Keeps the volatile cache within its bounds.
    fn spill(&mut self, limit: usize, caps: &Caps) {
        let most = CACHE_BYTES / u64::from(caps.block_size);
        while self.log.len() > limit || self.logged > most {
            let Some((&seq, _)) = self.log.iter().find(|(_, r)| r.applied) else { return };
            self.make_durable(&[seq], caps);
            if self.log.contains_key(&seq) {
                return;
            }
        }
    }

    fn content(&self, block: u64) -> &Content {
        match self.newer.get(&block).or_else(|| self.durable.get(&block)) {
            Some((_, content)) => content,
            None => &Content::Zero,
        }
    }

    /// The power goes: keeps what must be kept, and of the rest what the dice say.
    /// Returns a word that stands for what was decided.
    fn crash(&mut self, caps: &Caps, dice: &mut Stream) -> u64 {
        let mut word = self.cycle;
        let mut records: Vec<(u64, Record)> = std::mem::take(&mut self.log).into_iter().collect();
        if caps.ordered {
            let at_least = records.iter().filter(|(seq, _)| *seq < self.must).count() as u64;
            let keep = dice.range(at_least, records.len() as u64 + 1) as usize;
            let tear = dice.chance(1, 2);
            for (i, (_, record)) in records.iter().enumerate().take(keep + 1) {
                let torn = i == keep && tear && record.units(caps) > 1;
                if i < keep {
                    record.put(&mut self.durable, caps, |_| true);
                } else if torn {
                    word ^= record.put_some(&mut self.durable, caps, dice, 1, 2);
                }
            }
            word = word.rotate_left(17) ^ keep as u64;
        } else {
            // Everything that must survive is durable by now. Of the rest any part may survive,
            // applied in the order of effect.
            records.sort_by_key(|(_, record)| record.key);
            let share = dice.below(5);
            for (_, record) in &records {
                let kept = record.put_some(&mut self.durable, caps, dice, share, 4);
                word = word.rotate_left(1) ^ kept;
            }
        }
        self.zeros.extend(records.iter().flat_map(|(_, record)| record.discarded()));
        self.forget_zeros();
        self.logged = 0;
        self.newer.clear();
        self.pending.clear();
        self.cycle += 1;
        self.must = self.arrivals;
        word
    }
}

impl Record {
    fn blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.parts.iter().flat_map(|p| p.at..p.at + p.count)
    }

    /// Blocks of data that it holds.
    fn data_blocks(&self) -> u64 {
        self.parts.iter().filter(|p| p.data.is_some()).map(|p| p.count).sum()
    }

    /// The ranges that it discards.
    fn discarded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.parts.iter().filter(|p| p.data.is_none()).map(|p| (p.at, p.at + p.count))
    }

    /// Whether it is one atomic unit.
    fn is_whole(&self) -> bool {
        self.group && !planted!(RamTearsGroup)
    }

    /// How many atomic units there are.
    fn units(&self, caps: &Caps) -> u64 {
        if self.is_whole() {
            return 1;
        }
        let blocks: u64 = self.parts.iter().map(|p| p.count).sum();
        (blocks * u64::from(caps.block_size)).div_ceil(u64::from(caps.atomic_unit))
    }

    /// Puts into `store` each unit with probability `num / den`. Returns a word that
    /// stands for the choice.
    fn put_some(
        &self,
        store: &mut Store,
        caps: &Caps,
        dice: &mut Stream,
        num: u64,
        den: u64,
    ) -> u64 {
        let kept: Vec<bool> = (0..self.units(caps)).map(|_| dice.chance(num, den)).collect();
        self.put(store, caps, |unit| kept[unit as usize]);
        kept.iter().fold(1, |w: u64, k| w.rotate_left(1) ^ u64::from(*k))
    }

    /// Puts into `store` the units that `keep` names, wherever nothing newer is.
    fn put(&self, store: &mut Store, caps: &Caps, keep: impl Fn(u64) -> bool) {
        let (size, unit) = (u64::from(caps.block_size), u64::from(caps.atomic_unit));
        for part in &self.parts {
            for i in 0..part.count {
                let block = part.at + i;
                let old = store.get(&block);
                if old.is_some_and(|(key, _)| *key > self.key) {
                    continue;
                }
                let (from, to) = (i * size, (i + 1) * size);
                let units = if self.is_whole() { 0..=0 } else { from / unit..=(to - 1) / unit };
                let new = part.content(i as usize, size as usize);
                // A stamp cannot be torn: it goes with the block's first byte.
                let whole = match caps.payload {
                    Payload::Stamps => Some(keep(*units.start())),
                    _ if units.clone().all(&keep) => Some(true),
                    _ if !units.clone().any(&keep) => Some(false),
                    _ => None,
                };
                let content = match whole {
                    Some(false) => continue,
                    Some(true) => new,
                    None => {
                        let mut bytes = vec![0; size as usize];
                        if let Some((_, old)) = old {
                            old.copy_to(DataMut::Bytes(&mut bytes));
                        }
                        for u in units.filter(|u| keep(*u)) {
                            let range = (u * unit).max(from)..((u + 1) * unit).min(to);
                            new.copy_range(
                                (range.start - from) as usize..(range.end - from) as usize,
                                &mut bytes,
                            );
                        }
                        Content::Bytes(bytes.into())
                    }
                };
                store.insert(block, (self.key, content));
            }
        }
    }
}

impl Part {
    fn data(at: Block, data: Data<'_>, caps: &Caps) -> Part {
        let count = data.blocks(caps.block_size).unwrap_or(0);
        Part { at: at.0, count, data: Some(data.into()) }
    }

    /// What belongs into the `i`-th block.
    fn content(&self, i: usize, size: usize) -> Content {
        match &self.data {
            None => Content::Zero,
            Some(OwnedData::Stamps(s)) => Content::Stamp(s[i]),
            Some(OwnedData::Bytes(b)) => Content::Bytes(b[i * size..(i + 1) * size].into()),
        }
    }
}

impl Content {
    fn copy_to(&self, mut room: DataMut<'_>) {
        match self {
            Content::Zero => room.zero(),
            Content::Stamp(stamp) => room.copy_from(Data::Stamps(&[*stamp])),
            Content::Bytes(bytes) => room.copy_from(Data::Bytes(bytes)),
        }
    }

    fn copy_range(&self, range: Range<usize>, to: &mut [u8]) {
        match self {
            Content::Bytes(bytes) => to[range.clone()].copy_from_slice(&bytes[range]),
            _ => to[range].fill(0),
        }
    }
}
