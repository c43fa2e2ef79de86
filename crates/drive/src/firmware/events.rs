//! The meeting points of the tasks: what each of them waits for, and what others ask of it.

use crate::Design;
use crate::design::layout::Layout;
use crate::firmware::Firmware;
use crate::firmware::flags::Flags;
use crate::format::words::{MORE, PART, Version};
use crate::state::grants::{Discarded, Grants};
use crate::state::groups::Groups;
use crate::state::reservations::Reservations;
use std::cell::{Cell, RefCell};
use tantalum_nand::Unit;
use tantalum_rt::sync::{Mutex, Semaphore, WaitQueue};
use tantalum_rt::{Nanos, Rt};

/// Commands of the host: their way in.
pub(crate) struct HostSide {
    /// When the link is free again.
    link_free: Cell<Nanos>,
    /// When the command arrives that came last.
    last_arrival: Cell<Nanos>,
    pub queue: Semaphore,
    pub arrival: Mutex,
    /// Writes that were granted room, for whose pages there has to be room.
    pub grants: RefCell<Grants>,
    /// Discarded pages that also need room, because a power loss may bring them back.
    pub discarded: RefCell<Discarded>,
    /// In the buffer.
    pub room: Semaphore,
    /// Flushes under way, for which the flusher does not wait for full rows.
    pub urgent: Cell<u32>,
    /// A host waits for room (one at a time: it has the turn to be admitted).
    pub starved: Cell<bool>,
    /// When the last command came, to detect idle times.
    pub last_command: Cell<Nanos>,
    pub activity: WaitQueue,
}

impl HostSide {
    pub fn new(rt: &Rt, design: &Design) -> HostSide {
        let depth = design.link.queue_depth;
        HostSide {
            link_free: Cell::new(Nanos::ZERO),
            last_arrival: Cell::new(Nanos::ZERO),
            queue: Semaphore::new(rt, "a place in the command queue", depth.into()),
            arrival: Mutex::new(rt, "its turn to be admitted"),
            grants: RefCell::default(),
            discarded: RefCell::default(),
            room: Semaphore::new(rt, "room in the buffer", design.buffer_slots().into()),
            urgent: Cell::new(0),
            starved: Cell::new(false),
            last_command: Cell::new(Nanos::ZERO),
            activity: WaitQueue::new(rt, "the host"),
        }
    }

    /// The link is in use for so long, when it is free; until when.
    pub fn occupy_link(&self, now: Nanos, time: Nanos) -> Nanos {
        let end = self.link_free.get().max(now) + time;
        self.link_free.set(end);
        end
    }

    /// When a command arrives that is ready then: none overtakes those that came before it.
    pub fn arrives(&self, ready: Nanos) -> Nanos {
        let at = self.last_arrival.get().max(ready);
        self.last_arrival.set(at);
        at
    }
}

/// How a restart knows which groups are whole.
pub(crate) trait Grouping {
    /// One group is under way at a time, and nothing else of the host is programmed meanwhile.
    /// Then no record of the map log tells of it.
    fn is_alone(&self) -> bool;

    /// The lock between the keeper of the log and the last page of a group, if the scheme needs
    /// one.
    fn last_page(&self) -> Option<&Mutex>;

    /// While a group is under way: how many of the pages that wait may be programmed now.
    fn takeable(&self, fw: &Firmware) -> u32;

    /// The marks beside pages of a group that were just taken from the buffer.
    fn marks(&self, fw: &Firmware) -> Marks;

    /// A program of pages with flags has ended.
    fn landed(&self, fw: &Firmware, unit: Unit, pages: u32);
}

/// What is beside the pages of a group.
#[derive(Clone, Copy, Default)]
pub(crate) struct Marks {
    /// In the word of each sector.
    pub flags: u64,
    /// In the second word of each page.
    pub began: u64,
}

impl Marks {
    /// Whether no more of the group comes.
    pub fn is_last(&self) -> bool {
        self.flags & (PART | MORE) == PART
    }
}

/// A record of the map log tells which pages are of one group.
pub(crate) struct Records;

impl Grouping for Records {
    fn is_alone(&self) -> bool {
        false
    }

    fn last_page(&self) -> Option<&Mutex> {
        None
    }

    fn takeable(&self, _: &Firmware) -> u32 {
        u32::MAX
    }

    fn marks(&self, _: &Firmware) -> Marks {
        Marks::default()
    }

    fn landed(&self, fw: &Firmware, unit: Unit, pages: u32) {
        fw.landed(unit, pages);
    }
}

/// Atomic groups on a drive without protected memory.
pub(crate) struct AtomicGroups {
    pub under_way: RefCell<Groups>,
    /// How a restart knows which of them are whole.
    pub scheme: Box<dyn Grouping>,
    /// Room for more of them.
    pub room: Semaphore,
    pub done: WaitQueue,
}

impl AtomicGroups {
    pub fn new(rt: &Rt, design: &Design, layout: &Layout) -> AtomicGroups {
        AtomicGroups {
            under_way: RefCell::default(),
            scheme: match design.flags_groups() {
                true => Box::new(Flags::new(rt)),
                false => Box::new(Records),
            },
            room: Semaphore::new(rt, "room for atomic groups", layout.group_sectors.into()),
            done: WaitQueue::new(rt, "an atomic group to be whole"),
        }
    }
}

/// What the flushers wait for, and what waits for them.
pub(crate) struct FlusherEvents {
    pub work: WaitQueue,
    pub epochs: WaitQueue,
}

impl FlusherEvents {
    pub fn new(rt: &Rt) -> FlusherEvents {
        FlusherEvents {
            work: WaitQueue::new(rt, "pages to write"),
            epochs: WaitQueue::new(rt, "buffered pages to be on flash"),
        }
    }
}

/// What the keeper of the map log waits for, and what waits for it.
pub(crate) struct KeeperEvents {
    pub work: WaitQueue,
    pub progress: WaitQueue,
    /// Changes up to this version are to survive a power loss.
    pub durable_wanted: Cell<Version>,
    /// Changes up to this version are to be in the log.
    pub drain_wanted: Cell<Version>,
    /// And are.
    pub drained: Cell<Version>,
    pub(super) reserved: RefCell<Reservations>,
    /// Pages with data programmed since the last checkpoint began.
    pub since_checkpoint: Cell<u64>,
    /// A checkpoint is to be made, though there is no need for room.
    pub idle_checkpoint: Cell<bool>,
    /// The log's oldest unit is to be cleaned, though there is no need for room.
    pub turn_wanted: Cell<bool>,
}

impl KeeperEvents {
    pub fn new(rt: &Rt) -> KeeperEvents {
        KeeperEvents {
            work: WaitQueue::new(rt, "changes of the map to store"),
            progress: WaitQueue::new(rt, "the map log"),
            durable_wanted: Cell::default(),
            drain_wanted: Cell::default(),
            drained: Cell::default(),
            reserved: RefCell::default(),
            since_checkpoint: Cell::new(0),
            idle_checkpoint: Cell::new(false),
            turn_wanted: Cell::new(false),
        }
    }
}

/// What tasks that need space wait for.
pub(crate) struct CollectorEvents {
    pub dies: Vec<DieEvents>,
    /// A collector moves to another die than its own.
    pub borrowing: Cell<bool>,
}

impl CollectorEvents {
    pub fn new(rt: &Rt, dies: u32) -> CollectorEvents {
        let die = |_| DieEvents {
            changed: WaitQueue::new(rt, "a free erase unit"),
            waiting: Cell::new(0),
            hungry: Cell::new(false),
            worn: Cell::new(0),
            most: Cell::new(0),
        };
        CollectorEvents { dies: (0..dies).map(die).collect(), borrowing: Cell::new(false) }
    }
}

/// Where the tasks of one die wait for space.
pub(crate) struct DieEvents {
    changed: WaitQueue,
    /// How many of its tasks are stuck and have seen no change since.
    waiting: Cell<u32>,
    /// The collector found nothing worth collecting and waits for a change.
    pub hungry: Cell<bool>,
    /// Erases since something was moved to level wear.
    pub worn: Cell<u32>,
    /// The highest erase count that levelling has seen.
    pub most: Cell<u32>,
}

impl DieEvents {
    /// Something changed on the die.
    pub fn notify(&self) {
        self.waiting.set(0);
        self.changed.notify_all();
    }

    /// Neither its flusher nor its collector can go on.
    pub fn is_stuck(&self) -> bool {
        self.waiting.get() == 2
    }

    /// The flusher or the collector waits until something changes. `check` is called before.
    pub async fn wait(&self, check: impl FnOnce() -> bool) {
        self.waiting.set(self.waiting.get() + 1);
        if check() {
            self.changed.wait().await;
        }
    }
}

/// What waits for the rest of a start.
pub(crate) struct StartEvents {
    /// Map pages have become known, or the rest of the start is done.
    pub map_known: WaitQueue,
    /// The rest of the start is done (`recover`, 6).
    pub is_whole: Cell<bool>,
}

impl StartEvents {
    pub fn new(rt: &Rt) -> StartEvents {
        let map_known = WaitQueue::new(rt, "a map page to be loaded");
        StartEvents { map_known, is_whole: Cell::new(false) }
    }
}
