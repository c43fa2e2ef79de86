//! The elevator of a host: the order in which the commands that a device's queue has no place for
//! are sent to it. It is that of Linux's `deadline` scheduler.
//!
//! 1. At most `depth` commands are at the device. While one waits, exactly so many are.
//! 2. Each command is sent once. One that is given up while it waits is never sent.
//! 3. Commands of a direction (reads; or writes and discards) go in batches of at most `batch`, by
//!    ascending place. A new batch continues behind the last one of its direction, or begins with
//!    the oldest command if that has expired, or if there is nothing behind.
//! 4. Reads go before writes; but writes that wait are passed over by at most `writes_starved`
//!    batches of reads.
//! 5. Of waiting commands that overlap, and of which one writes, the older one goes first.
//! 6. Flushes and atomic groups go past it: they have no place.
//! 7. By itself it is there for devices with an arm alone ([`BlockDevice::arm_queue`]), as Linux
//!    has it for rotational devices and not for NVMe. Its depth is then that of their queue.

use super::{JobError, refused};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Blocks, Data, DataMut, Durability, IoError, forward};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{Nanos, Rt};

/// Whether a host has an elevator for a device. In files it is left out, or `"none"`, or the table
/// of an [`Elevator`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sorting {
    /// As Linux has it: for a device with an arm, with the defaults of [`Elevator`].
    #[default]
    ByDevice,
    /// All commands are sent at once.
    Never,
    /// For every device.
    Always(Elevator),
}

impl Sorting {
    /// The elevator in front of a device, and how many commands it sends at a time.
    fn of(self, device: &impl BlockDevice) -> Option<(Elevator, u32)> {
        let places = device.arm_queue();
        match self {
            Sorting::Never => None,
            Sorting::ByDevice => places.map(|depth| (Elevator::default(), depth)),
            Sorting::Always(e) => Some((e, e.depth.or(places).unwrap_or(DEPTH))),
        }
    }
}

impl Serialize for Sorting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Sorting::ByDevice => serializer.serialize_none(),
            Sorting::Never => serializer.serialize_str(NEVER),
            Sorting::Always(e) => e.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Sorting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sorting, D::Error> {
        // By hand, because an untagged enum would hide the error.
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Sorting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\", or a table such as { depth = 32 } (left out: by the device)")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Sorting, E> {
                match text == NEVER {
                    true => Ok(Sorting::Never),
                    false => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Sorting, E> {
                Ok(Sorting::ByDevice)
            }

            fn visit_none<E: serde::de::Error>(self) -> Result<Sorting, E> {
                Ok(Sorting::ByDevice)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Sorting, A::Error> {
                Elevator::deserialize(MapAccessDeserializer::new(map)).map(Sorting::Always)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// The word of [`Sorting::Never`].
const NEVER: &str = "none";

/// Commands that are sent to a device that does not say how many it takes.
const DEPTH: u32 = 32;

/// The elevator of a host. Its defaults are those of Linux's `deadline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Elevator {
    /// Commands that the host sends to the device before one of them has ended. Left out: as many
    /// as the queue of a disk takes, 32 for other devices.
    ///
    /// *Source*: own choice.
    pub depth: Option<u32>,
    /// A read that has waited this long begins the next batch of reads, ms.
    ///
    /// *Source*: Linux: `deadline`, `read_expire`.
    pub read_expire_ms: u64,
    /// A write that has waited this long begins the next batch of writes, ms.
    ///
    /// *Source*: Linux: `deadline`, `write_expire`.
    pub write_expire_ms: u64,
    /// Commands of a batch, at most.
    ///
    /// *Source*: Linux: `deadline`, `fifo_batch`.
    pub batch: u32,
    /// Batches of reads that may go before writes that wait.
    ///
    /// *Source*: Linux: `deadline`, `writes_starved`.
    pub writes_starved: u32,
}

impl Default for Elevator {
    fn default() -> Elevator {
        Elevator {
            depth: None,
            read_expire_ms: 500,
            write_expire_ms: 5000,
            batch: 16,
            writes_starved: 2,
        }
    }
}

impl Elevator {
    /// Checks its numbers.
    ///
    /// # Errors
    /// [`JobError::Value`].
    pub(super) fn check(&self) -> Result<(), JobError> {
        let (most, long) = ("1 to 65536", "0 to 1000000");
        let values = [
            ("elevator.depth", self.depth.unwrap_or(DEPTH).into(), 1..=65_536, most),
            ("elevator.batch", self.batch.into(), 1..=65_536, most),
            ("elevator.writes_starved", self.writes_starved.into(), 1..=65_536, most),
            ("elevator.read_expire_ms", self.read_expire_ms, 0..=1_000_000, long),
            ("elevator.write_expire_ms", self.write_expire_ms, 0..=1_000_000, long),
        ];
        match values.into_iter().find(|(_, value, allowed, _)| !allowed.contains(value)) {
            Some((name, value, _, range)) => refused(name, &value, range),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    id: u64,
    at: u64,
    count: u64,
    writes: bool,
    expires: Nanos,
}

impl Request {
    fn end(&self) -> u64 {
        self.at.saturating_add(self.count)
    }

    fn conflicts(&self, with: &Request) -> bool {
        let apart = self.end() <= with.at || with.end() <= self.at;
        !apart && (self.writes || with.writes)
    }
}

/// The waiting commands of one direction.
#[derive(Default)]
struct Direction {
    by_place: BTreeMap<(u64, u64), Request>,
    /// Places by number: the oldest first.
    by_age: BTreeMap<u64, u64>,
    /// Where the last one of this direction ended.
    reached: u64,
}

impl Direction {
    fn ahead(&self) -> Option<Request> {
        self.by_place.range((self.reached, 0)..).next().map(|(_, r)| *r)
    }

    fn oldest(&self) -> Option<Request> {
        let (id, at) = self.by_age.first_key_value()?;
        self.by_place.get(&(*at, *id)).copied()
    }
}

/// All that waits.
#[derive(Default)]
struct Queue {
    /// Reads, then writes.
    directions: [Direction; 2],
    /// Whether the batch is one of writes, and how many it had.
    batch: (bool, u32),
    /// Batches of reads that went while writes waited.
    starved: u32,
    ids: u64,
    /// The most blocks of a command so far.
    longest: u64,
}

impl Queue {
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.directions.iter().all(|d| d.by_age.is_empty())
    }

    fn add(&mut self, at: u64, count: u64, writes: bool, expires: Nanos) -> u64 {
        self.ids += 1;
        let id = self.ids;
        self.longest = self.longest.max(count);
        let d = &mut self.directions[usize::from(writes)];
        d.by_place.insert((at, id), Request { id, at, count, writes, expires });
        d.by_age.insert(id, at);
        id
    }

    /// Takes a command out. Whether it waited.
    fn remove(&mut self, id: u64, writes: bool) -> bool {
        let d = &mut self.directions[usize::from(writes)];
        d.by_age.remove(&id).is_some_and(|at| d.by_place.remove(&(at, id)).is_some())
    }

    /// Takes the command that goes next.
    fn next(&mut self, settings: &Elevator, now: Nanos) -> Option<u64> {
        let (of_writes, sent) = self.batch;
        let ahead = self.directions[usize::from(of_writes)].ahead();
        let chosen = match ahead.filter(|_| (1..settings.batch).contains(&sent)) {
            Some(request) => request,
            None => self.begin_batch(settings, now)?,
        };
        self.batch.1 += 1;
        let first = self.older_first(chosen);
        self.remove(first.id, first.writes);
        self.directions[usize::from(first.writes)].reached = first.end();
        Some(first.id)
    }

    fn begin_batch(&mut self, settings: &Elevator, now: Nanos) -> Option<Request> {
        let [reads, writes] = self.directions.each_ref().map(|d| !d.by_age.is_empty());
        if !reads && !writes {
            return None;
        }
        let of_writes = writes && (!reads || self.starved >= settings.writes_starved);
        self.starved = if !of_writes && writes { self.starved + 1 } else { 0 };
        self.batch = (of_writes, 0);
        let d = &self.directions[usize::from(of_writes)];
        let oldest = d.oldest()?;
        if oldest.expires <= now { Some(oldest) } else { d.ahead().or(Some(oldest)) }
    }

    /// The oldest command that has to go before this one; itself, if there is none.
    fn older_first(&self, mut chosen: Request) -> Request {
        loop {
            let from = (chosen.at.saturating_sub(self.longest), 0);
            let to = (chosen.end(), 0);
            let near = self.directions.iter().flat_map(|d| d.by_place.range(from..to));
            let older = near.map(|(_, r)| *r).filter(|r| r.id < chosen.id && r.conflicts(&chosen));
            match older.min_by_key(|r| r.id) {
                Some(older) => chosen = older,
                None => return chosen,
            }
        }
    }
}

/// A device behind the elevator of a host, or without one ([`Sorting`]). Clones share it. What it
/// shows is sorted: it has no [`BlockDevice::arm_queue`].
#[derive(Clone)]
pub struct Elevated<D> {
    device: D,
    line: Option<Rc<Line>>,
}

struct Line {
    rt: Rt,
    settings: Elevator,
    /// The most commands at the device.
    depth: u32,
    queue: RefCell<Queue>,
    at_device: Cell<u32>,
    /// The tasks that wait, by the number of their command.
    turns: RefCell<BTreeMap<u64, Rc<WaitQueue>>>,
}

impl<D> Elevated<D> {
    /// The device behind the elevator that the host has for it.
    pub fn new(rt: &Rt, device: D, sorting: Sorting) -> Elevated<D>
    where
        D: BlockDevice,
    {
        let line = |(settings, depth)| {
            Rc::new(Line {
                rt: rt.clone(),
                settings,
                depth,
                queue: RefCell::default(),
                at_device: Cell::new(0),
                turns: RefCell::default(),
            })
        };
        let line = sorting.of(&device).map(line);
        Elevated { device, line }
    }

    async fn place(&self, at: u64, count: u64, writes: bool) -> Option<Place<'_>> {
        let line = self.line.as_deref()?;
        let mut place = Place { line, waits: None };
        if line.at_device.get() < line.depth {
            line.at_device.set(line.at_device.get() + 1);
            return Some(place);
        }
        let s = &line.settings;
        let patience = if writes { s.write_expire_ms } else { s.read_expire_ms };
        let expires = line.rt.now().saturating_add(Nanos::from_millis(patience));
        let id = line.queue.borrow_mut().add(at, count, writes, expires);
        let turn = Rc::new(WaitQueue::new(&line.rt, "the elevator"));
        line.turns.borrow_mut().insert(id, turn.clone());
        place.waits = Some((id, writes));
        turn.until(|| !line.turns.borrow().contains_key(&id)).await;
        place.waits = None;
        Some(place)
    }
}

impl Line {
    /// Sends the next command in the place of one that has ended.
    fn advance(&self) {
        let next = self.queue.borrow_mut().next(&self.settings, self.rt.now());
        match next.and_then(|id| self.turns.borrow_mut().remove(&id)) {
            Some(turn) => turn.notify_all(),
            None => self.at_device.set(self.at_device.get() - 1),
        }
    }
}

/// The place of a command: at the device, or among those that wait.
struct Place<'a> {
    line: &'a Line,
    waits: Option<(u64, bool)>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let line = self.line;
        match self.waits {
            Some((id, writes)) if line.queue.borrow_mut().remove(id, writes) => {
                line.turns.borrow_mut().remove(&id);
            }
            _ => line.advance(),
        }
    }
}

impl<D: BlockDevice> BlockDevice for Elevated<D> {
    forward!(device: caps, is_alive, blocks_its_thread, write_atomic, flush, allocation);

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let count = buf.blocks(self.caps().block_size).unwrap_or(0);
        let _place = self.place(at.0, count, false).await;
        self.device.read(at, buf).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let count = data.blocks(self.caps().block_size).unwrap_or(0);
        let _place = self.place(at.0, count, true).await;
        self.device.write(at, data, want).await
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let _place = self.place(range.start.0, range.count, true).await;
        self.device.discard(range).await
    }
}

#[cfg(test)]
mod tests;
