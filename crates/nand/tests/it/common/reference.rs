//! A slow reference for when operations run: one event after the other, with everything examined
//! each time.
//!
//! At one moment, in this order: operations end, and reads that have ended request the channel;
//! commands arrive; dies begin; programs whose register becomes free request the channel.

use super::geometry;
use std::collections::VecDeque;
use tantalum_nand::{OpKind, Timing, Unit};

#[derive(Clone, Debug)]
pub struct Op {
    pub kind: OpKind,
    pub start: Option<u64>,
    pub end: Option<u64>,
    /// When the transfer of a read ended.
    pub moved: Option<u64>,
    unit: Unit,
    page: u32,
    count: u32,
    transfer: u64,
    asked: bool,
    loaded: bool,
    left: u64,
    overtaken: u32,
    suspended: u32,
}

#[derive(Clone, Default)]
struct Die {
    queue: Vec<usize>,
    /// The operations that it runs, and since when: one, or reads of different planes.
    current: Vec<(usize, u64)>,
    /// Until when it is suspending an operation.
    blocked: u64,
}

#[derive(Clone, Default)]
struct Bus {
    queue: VecDeque<usize>,
    moving: Option<(usize, u64)>,
}

#[derive(Clone)]
pub struct Reference {
    pub ops: Vec<Op>,
    now: u64,
    /// Operations that begin now were not examined yet.
    begins: bool,
    dies: Vec<Die>,
    buses: Vec<Bus>,
    pub timing: Timing,
    /// The first operation since the last power loss.
    first: usize,
}

impl Reference {
    pub fn new(timing: &Timing) -> Reference {
        let g = geometry();
        Reference {
            ops: Vec::new(),
            now: 0,
            begins: false,
            dies: vec![Die::default(); g.dies() as usize],
            buses: vec![Bus::default(); g.channels as usize],
            timing: timing.clone(),
            first: 0,
        }
    }

    /// Lets time pass until `to`.
    pub fn advance(&mut self, to: u64) {
        loop {
            if self.begins && to > self.now {
                self.begin();
                self.begins = false;
            }
            let current = self.dies.iter().flat_map(|d| &d.current);
            let ends = current.map(|(op, since)| since + self.ops[*op].left);
            let moved = self.buses.iter().filter_map(|b| b.moving.map(|m| m.1));
            let blocked = self.dies.iter().map(|d| d.blocked).filter(|b| *b > self.now);
            match ends.chain(moved).chain(blocked).min() {
                Some(next) if next <= to && next > self.now => self.now = next,
                _ if to > self.now => self.now = to,
                _ => return,
            }
            self.end();
            self.begins = true;
        }
    }

    fn end(&mut self) {
        let mut asking = Vec::new();
        for die in &mut self.dies {
            let ends = |(op, since): &(usize, u64)| since + self.ops[*op].left == self.now;
            let (ended, rest): (Vec<_>, Vec<_>) = die.current.iter().partition(|c| ends(c));
            die.current = rest;
            for (op, _) in ended {
                self.ops[op].end = Some(self.now);
                if self.ops[op].kind == OpKind::Read {
                    asking.push(op);
                }
            }
        }
        for bus in &mut self.buses {
            if let Some((op, until)) = bus.moving
                && until == self.now
            {
                bus.moving = None;
                self.ops[op].loaded = true;
                self.ops[op].moved = Some(self.now);
            }
        }
        self.ask(asking);
    }

    fn begin(&mut self) {
        for die in &mut self.dies {
            if die.blocked > self.now {
                continue;
            }
            // An operation begins once none that it cannot run beside runs or is before it.
            let mut i = 0;
            while i < die.queue.len() {
                let next = die.queue[i];
                let before = die.queue[..i].iter().chain(die.current.iter().map(|c| &c.0));
                let alone = before
                    .into_iter()
                    .any(|o| !beside(&self.timing, &self.ops[*o], &self.ops[next]));
                let op = &mut self.ops[next];
                if alone || op.kind == OpKind::Program && !op.loaded {
                    i += 1;
                    continue;
                }
                op.start.get_or_insert(self.now);
                die.current.push((die.queue.remove(i), self.now));
            }
        }
        let asking = (self.first..self.ops.len()).filter(|op| self.may_ask(*op)).collect();
        self.ask(asking);
    }

    /// Whether the register of a program is free.
    fn may_ask(&self, op: usize) -> bool {
        let o = &self.ops[op];
        let die = geometry().die(o.unit);
        let before = self.ops[self.first..op].iter().rev();
        let mut before =
            before.filter(|b| b.kind == OpKind::Program && geometry().die(b.unit) == die);
        o.kind == OpKind::Program && !o.asked && before.next().is_none_or(|b| b.start.is_some())
    }

    fn ask(&mut self, mut asking: Vec<usize>) {
        asking.sort_unstable();
        for op in asking {
            self.ops[op].asked = true;
            let bus = geometry().channel(geometry().die(self.ops[op].unit)) as usize;
            self.buses[bus].queue.push_back(op);
        }
        for bus in &mut self.buses {
            if bus.moving.is_none()
                && let Some(op) = bus.queue.pop_front()
            {
                bus.moving = Some((op, self.now + self.ops[op].transfer));
            }
        }
    }

    /// A command arrives now.
    pub fn issue(
        &mut self,
        kind: OpKind,
        unit: Unit,
        (page, count): (u32, u32),
        transfer: u64,
        work: u64,
    ) {
        let op = self.ops.len();
        self.ops.push(Op {
            kind,
            start: None,
            end: None,
            moved: None,
            unit,
            page,
            count,
            transfer,
            asked: false,
            loaded: false,
            left: work,
            overtaken: 0,
            suspended: 0,
        });
        self.begins = true;
        let die = geometry().die(unit) as usize;
        if kind == OpKind::Read {
            self.place_read(op, die);
        } else {
            self.dies[die].queue.push(op);
        }
        if self.may_ask(op) {
            self.ask(vec![op]);
        }
    }

    fn place_read(&mut self, op: usize, die: usize) {
        let limit = self.timing.read_priority;
        let read = self.ops[op].clone();
        let overtakes = |o: &Op| {
            let apart = match o.kind {
                OpKind::Read => return true,
                OpKind::Erase => o.unit != read.unit,
                OpKind::Program => {
                    let own = o.page..o.page + o.count;
                    o.unit != read.unit
                        || !(read.page..read.page + read.count).any(|p| own.contains(&p))
                }
            };
            apart && o.overtaken < limit
        };
        let d = &mut self.dies[die];
        let mut place = d.queue.len();
        if limit > 0 {
            // The first place from which on all operations may be overtaken.
            let first = (0..=d.queue.len())
                .find(|i| d.queue[*i..].iter().all(|o| overtakes(&self.ops[*o])));
            place = first.unwrap();
            while place < d.queue.len() && self.ops[d.queue[place]].kind == OpKind::Read {
                place += 1;
            }
        }
        if let [(running, since)] = d.current[..]
            && place == 0
            && limit > 0
        {
            let o = &mut self.ops[running];
            let cost = 1000
                * match o.kind {
                    OpKind::Read => 0,
                    OpKind::Program => self.timing.suspend_program_us,
                    OpKind::Erase => self.timing.suspend_erase_us,
                };
            let left = since + o.left - self.now;
            if cost > 0 && overtakes(o) && o.suspended < self.timing.suspend_limit && cost < left {
                o.left = left;
                o.suspended += 1;
                d.current.clear();
                d.blocked = self.now + cost;
                d.queue.insert(0, running);
            }
        }
        for o in &d.queue[place..] {
            self.ops[*o].overtaken += 1;
        }
        d.queue.insert(place, op);
    }

    /// Cuts the power and restores it. `ops` has the state of each operation at the cut.
    pub fn cut(&mut self) {
        self.dies.fill(Die::default());
        self.buses.fill(Bus::default());
        self.begins = false;
        self.first = self.ops.len();
    }
}

/// Whether the two may run at the same time.
fn beside(timing: &Timing, a: &Op, b: &Op) -> bool {
    let planes = |o: &Op| {
        let first = o.page % geometry().planes;
        first..first + o.count
    };
    let reads = a.kind == OpKind::Read && b.kind == OpKind::Read;
    timing.independent_reads && reads && !planes(a).any(|plane| planes(b).contains(&plane))
}
