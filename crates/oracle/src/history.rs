//! What was asked of the device, and what it answered.
//!
//! 1. Commands are numbered in the order of arrival; a number is never used twice.
//! 2. `A` is before `B` if `A` completed before `B` was submitted. Commands of which
//!    neither is before the other have no order, unless the device is ordered.
//! 3. For each block there are listed all commands that can still be seen in it.

use crate::content::{GARBAGE, Id, Pieces};
use crate::violation::{Cause, Found, Violation};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::rc::Rc;
use tantalum_device::{AtomicError, Block, Blocks, Caps, Data, IoError, Payload};

/// Violations kept of one check, at most: one is enough to fail.
const VIOLATIONS: usize = 100;
/// If a block lists more commands than this, those that cannot be seen any more are removed.
const LISTED: usize = 32;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Write,
    Fua,
    Group,
    Discard,
    /// A discard that survives once it has succeeded.
    ForcedDiscard,
}

impl Action {
    /// Whether it leaves zeros.
    pub fn is_discard(self) -> bool {
        matches!(self, Action::Discard | Action::ForcedDiscard)
    }
}

/// How a command ended that did not succeed.
pub(super) enum Failure {
    /// It may or may not be carried out, now or later.
    Unknown,
    /// The same, and the device said that it failed.
    Failed,
    /// It may have been in flight when the power went.
    PowerLost,
    /// It must leave no trace.
    Refused,
}

impl From<&IoError> for Failure {
    fn from(e: &IoError) -> Failure {
        match e {
            IoError::PowerLost => Failure::PowerLost,
            IoError::Invalid(_) | IoError::Poisoned | IoError::ReadOnly | IoError::NoSpace => {
                Failure::Refused
            }
            IoError::Failed(_) => Failure::Failed,
            IoError::Uncorrectable(_) => Failure::Unknown,
        }
    }
}

impl From<&AtomicError> for Failure {
    fn from(e: &AtomicError) -> Failure {
        match e {
            AtomicError::Io(e) => e.into(),
            _ => Failure::Refused,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Command {
    pub action: Action,
    /// First block and count of each extent.
    pub extents: Vec<(u64, u64)>,
    submitted: u64,
    completed: Option<u64>,
    pub must: Option<Cause>,
    /// Its future was dropped or it failed: the device may never have received it.
    pub optional: bool,
    /// Blocks that still list it.
    listed: u64,
}

impl Command {
    pub fn blocks(&self) -> impl Iterator<Item = u64> {
        self.extents.iter().flat_map(|&(at, count)| at..at + count)
    }

    /// Invariant 2.
    pub fn before(&self, other: &Command) -> bool {
        self.completed.is_some_and(|c| c < other.submitted)
    }
}

#[derive(Clone)]
pub(super) struct History {
    pub caps: Caps,
    /// Bytes of the largest pieces that no tear divides.
    pub piece: u32,
    tick: u64,
    next: Id,
    // (Shared with copies until either changes it: see `at_a_cut`.)
    pub commands: Rc<FxHashMap<Id, Command>>,
    pub by_block: Rc<FxHashMap<u64, Vec<Id>>>,
    /// Durable content at the last check; zeros where there is none.
    pub base: Rc<FxHashMap<u64, Pieces>>,
    /// Complete commands that a cut may lose.
    volatile: BTreeSet<Id>,
    /// When the reads in flight were submitted.
    reading: BTreeSet<u64>,
    /// When a durability step failed.
    failed: Option<u64>,
    pub violations: Vec<Violation>,
}

impl History {
    /// Of a device that is all zeros.
    pub fn new(caps: Caps) -> History {
        let piece = match caps.payload {
            Payload::Stamps => caps.block_size,
            Payload::Bytes => gcd(caps.block_size, caps.atomic_unit).next_multiple_of(8),
        };
        History {
            caps,
            piece,
            tick: 0,
            next: 1,
            commands: Rc::default(),
            by_block: Rc::default(),
            base: Rc::default(),
            volatile: BTreeSet::new(),
            reading: BTreeSet::new(),
            failed: None,
            violations: Vec::new(),
        }
    }

    /// The numbers of all commands, in the order of their arrival.
    pub fn in_order(&self) -> Vec<Id> {
        let mut ids: Vec<Id> = self.commands.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The time of the next event, later than any before.
    pub fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// A read is submitted: what it may see is kept until [`History::end_read`].
    pub fn begin_read(&mut self) -> u64 {
        let submitted = self.tick();
        self.reading.insert(submitted);
        submitted
    }

    /// A read has ended, or was given up.
    pub fn end_read(&mut self, submitted: u64) {
        self.reading.remove(&submitted);
    }

    pub fn submit(&mut self, action: Action, extents: Vec<(u64, u64)>) -> Id {
        let id = self.next;
        self.next += 1;
        let submitted = self.tick();
        let mut command = Command {
            action,
            extents,
            submitted,
            completed: None,
            must: None,
            optional: false,
            listed: 0,
        };
        // What does not fit the device is refused: it is in no block.
        let fits = |&(at, count): &(u64, u64)| {
            at.checked_add(count).is_some_and(|end| end <= self.caps.blocks)
        };
        if !command.extents.iter().all(fits) {
            command.extents.clear();
        }
        command.listed = command.extents.iter().map(|e| e.1).sum();
        // Blocks that may list what cannot be seen any more.
        let mut long = Vec::new();
        let by_block = Rc::make_mut(&mut self.by_block);
        for block in command.blocks() {
            let list = by_block.entry(block).or_default();
            list.push(id);
            if list.len() >= LISTED && list.len().is_power_of_two() {
                long.push(block);
            }
        }
        Rc::make_mut(&mut self.commands).insert(id, command);
        for block in long {
            self.weed(block);
        }
        id
    }

    pub fn succeed(&mut self, id: Id) {
        let now = self.tick();
        let Some(c) = Rc::make_mut(&mut self.commands).get_mut(&id) else { return };
        c.completed = Some(now);
        if self.caps.ack.survives() {
            c.must = Some(Cause::Acked);
        }
        match c.action {
            Action::Fua | Action::ForcedDiscard => c.must = Some(Cause::Fua),
            Action::Group => c.must = Some(Cause::Acked),
            Action::Write | Action::Discard => {}
        }
        if c.must.is_none() {
            self.volatile.insert(id);
        }
        if self.failed.is_some_and(|at| at < c.submitted) {
            self.report(Violation::Pretended { command: id });
        }
    }

    pub fn fail(&mut self, id: Id, failure: &Failure) {
        let now = self.tick();
        let Some(c) = Rc::make_mut(&mut self.commands).get_mut(&id) else { return };
        match failure {
            Failure::PowerLost => {}
            Failure::Unknown => c.optional = true,
            Failure::Failed => {
                c.optional = true;
                if matches!(c.action, Action::Fua | Action::ForcedDiscard) {
                    self.failed.get_or_insert(now);
                }
            }
            Failure::Refused => {
                let blocks: Vec<u64> = c.blocks().collect();
                let by_block = Rc::make_mut(&mut self.by_block);
                for block in blocks {
                    if let Some(list) = by_block.get_mut(&block) {
                        list.retain(|other| *other != id);
                    }
                }
                Rc::make_mut(&mut self.commands).remove(&id);
            }
        }
    }

    /// What is known if the power is cut now: reads in flight will see nothing.
    pub fn at_a_cut(&self) -> History {
        History { reading: BTreeSet::new(), ..self.clone() }
    }

    /// A flush that was submitted at `submitted` ended.
    pub fn flushed(&mut self, submitted: u64, result: &Result<(), IoError>) {
        let now = self.tick();
        match result {
            Ok(()) => {
                if self.failed.is_some_and(|at| at < submitted) {
                    self.report(Violation::Pretended { command: 0 });
                }
                if !self.caps.flush {
                    return; // It says so: nothing is promised by it.
                }
                let commands = Rc::make_mut(&mut self.commands);
                self.volatile.retain(|id| {
                    let Some(c) = commands.get_mut(id) else { return false };
                    let covered = c.completed.is_some_and(|at| at < submitted);
                    if covered {
                        c.must = Some(Cause::Flushed);
                    }
                    !covered
                });
            }
            Err(IoError::Failed(_)) => {
                self.failed.get_or_insert(now);
            }
            Err(_) => {}
        }
    }

    /// A read, submitted at `submitted`, saw this.
    pub fn saw(&mut self, submitted: u64, at: Block, data: Data<'_>) {
        let count = data.blocks(self.caps.block_size).unwrap_or(0);
        for i in 0..count {
            let block = at.0 + i;
            let one = data.slice(i as usize..i as usize + 1, self.caps.block_size);
            // A read during a write may see any mix of old and new.
            let fine = crate::content::pieces(one, block, 8);
            let words = self.caps.block_size / 8;
            let (mut last, mut p) = (None, 0);
            let step = if matches!(fine, Pieces::Whole(_)) { self.piece / 8 } else { 1 };
            while p < words {
                let value = (fine.get(p), p * 8 / self.piece);
                if last != Some(value)
                    && let Some(v) = self.stale(submitted, block, value.1, value.0)
                {
                    self.report(v);
                    break;
                }
                last = Some(value);
                p += step;
            }
        }
    }

    fn stale(&self, submitted: u64, block: u64, piece: u32, found: Id) -> Option<Violation> {
        let list = self.by_block.get(&block).map_or(&[][..], Vec::as_slice);
        let complete = || {
            let commands = list.iter().map(|id| (*id, &self.commands[id]));
            commands.filter(|(_, c)| c.completed.is_some_and(|at| at < submitted))
        };
        let is_current = |id: Id| match self.commands.get(&id) {
            None => complete().next().is_none(),
            Some(c) => complete().all(|(_, y)| !c.before(y)),
        };
        if !self.each_source(block, piece, found, |id| !is_current(id)) {
            return None;
        }
        let block = Block(block);
        Some(match complete().next_back() {
            Some((expected, _)) if found < self.next => {
                Violation::StaleRead { block, expected, found: Found(found) }
            }
            _ => self.unknown(block, found),
        })
    }

    /// Whether these blocks are as they were at that moment: every command that names one of them
    /// was complete.
    pub fn is_unchanged_since(&self, moment: u64, range: Blocks) -> bool {
        let blocks = range.start.0..range.start.0 + range.count;
        let mut listed = blocks.filter_map(|block| self.by_block.get(&block)).flatten();
        listed.all(|id| self.commands[id].completed.is_some_and(|at| at < moment))
    }

    /// Calls `each` with every possible source of `found`: commands, and 0 for the content at the
    /// last check. It stops as soon as `each` returns `false`. Returns whether `each` always
    /// returned `true`.
    pub fn each_source(
        &self,
        block: u64,
        piece: u32,
        found: Id,
        mut each: impl FnMut(Id) -> bool,
    ) -> bool {
        let base = self.base.get(&block).map_or(0, |b| b.get(piece));
        if (base == found || base == GARBAGE) && !each(0) {
            return false;
        }
        let ids = self.by_block.get(&block).map_or(&[][..], Vec::as_slice);
        // A number that is not of a discard can be of one command only.
        ids.iter().all(|id| {
            let fits = match found {
                0 => self.commands[id].action.is_discard(),
                _ => *id == found && !self.commands[id].action.is_discard(),
            };
            !fits || each(*id)
        })
    }

    /// The violation for data that no command can have written.
    pub fn unknown(&self, block: Block, found: Id) -> Violation {
        match found {
            id if id < self.next => Violation::Resurrected { block, found: Found(found) },
            _ => Violation::NeverWritten { block, found: Found(found) },
        }
    }

    pub fn report(&mut self, violation: Violation) {
        if self.violations.len() < VIOLATIONS {
            self.violations.push(violation);
        }
    }

    /// From now on, what was seen is what is durable.
    pub fn rebase(&mut self, seen: FxHashMap<u64, Pieces>) {
        self.base = Rc::new(seen);
        self.commands = Rc::default();
        self.by_block = Rc::default();
        self.volatile.clear();
        self.failed = None;
    }

    /// Forgets commands of a block that cannot be seen any more. A later command hides them that is
    /// complete and must survive, and was so before any read in flight began.
    fn weed(&mut self, block: u64) {
        let Some(list) = Rc::make_mut(&mut self.by_block).get_mut(&block) else { return };
        let commands = Rc::make_mut(&mut self.commands);
        let oldest_read = self.reading.first().copied().unwrap_or(u64::MAX);
        let durable = list.iter().filter(|id| {
            let c = &commands[id];
            c.must.is_some() && c.completed.is_some_and(|at| at < oldest_read)
        });
        let Some(&newest) = durable.max_by_key(|id| commands[id].submitted) else { return };
        let gone: Vec<Id> =
            list.iter().filter(|id| commands[id].before(&commands[&newest])).copied().collect();
        list.retain(|id| !gone.contains(id));
        for id in gone {
            let Some(c) = commands.get_mut(&id) else { continue };
            c.listed -= 1;
            if c.listed == 0 {
                commands.remove(&id);
                self.volatile.remove(&id);
            }
        }
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::Ack;

    fn history() -> History {
        History::new(Caps {
            block_size: 512,
            blocks: 4,
            ack: Ack::PowerSafe,
            flush: true,
            ordered: false,
            atomic_unit: 512,
            thin: false,
            atomic_group: None,
            payload: Payload::Stamps,
        })
    }

    fn write(h: &mut History) -> Id {
        let id = h.submit(Action::Write, vec![(1, 1)]);
        h.succeed(id);
        id
    }

    /// What a read that takes long may see is not forgotten meanwhile.
    #[test]
    fn a_read_during_many_writes_may_see_any_of_them_or_the_last_before() {
        for seen in 0..100 {
            let mut h = history();
            let before = [write(&mut h), write(&mut h)];
            let read = h.begin_read();
            let during: Vec<Id> = (0..97).map(|_| write(&mut h)).collect();
            h.saw(read, Block(1), Data::Stamps(&[seen]));
            h.end_read(read);
            let legal = seen == before[1] || during.contains(&seen);
            assert_eq!(h.violations.is_empty(), legal, "{seen}: {:?}", h.violations);
        }
    }

    #[test]
    fn blocks_are_as_they_were_unless_a_command_came_or_goes_on() {
        let mut h = history();
        write(&mut h);
        let (all, others) =
            (Blocks { start: Block(0), count: 4 }, Blocks { start: Block(2), count: 2 });
        let moment = h.tick();
        assert!(h.is_unchanged_since(moment, all));
        let id = h.submit(Action::Discard, vec![(1, 1)]);
        assert!(!h.is_unchanged_since(moment, all) && h.is_unchanged_since(moment, others));
        let later = h.tick();
        assert!(!h.is_unchanged_since(later, all), "it goes on");
        h.succeed(id);
        assert!(!h.is_unchanged_since(later, all), "it went on");
        let later = h.tick();
        assert!(h.is_unchanged_since(later, all));
        // Whether it is carried out is not known.
        let id = h.submit(Action::Write, vec![(1, 1)]);
        h.fail(id, &Failure::Unknown);
        let later = h.tick();
        assert!(!h.is_unchanged_since(later, all));
    }

    #[test]
    fn a_block_that_is_written_for_ever_needs_bounded_memory() {
        let mut h = history();
        for _ in 0..10_000 {
            write(&mut h);
            let read = h.begin_read();
            h.end_read(read);
        }
        assert!(h.commands.len() < 2 * LISTED && h.by_block[&1].len() < 2 * LISTED);
    }
}
