//! What a power loss does to operations (invariant 5), and the work of the dies while they run on
//! capacitors.
//!
//! 1. An operation that has not begun leaves no trace.
//! 2. A program under way is torn if its power fails, and by nothing else. An erase may also be
//!    stopped on purpose. Then its unit has to be erased again.

use crate::PageAddr;
use crate::channel::Channel;
use crate::flight::{Effect, Flight, OpKind, WHOLE_DIE};
use crate::medium::Store;
use crate::schedule::Schedule;
use std::collections::VecDeque;
use tantalum_rt::{Nanos, Stream};

/// The work of the dies at a moment, and how long it stays the same if nothing is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Dies that program.
    pub programs: u32,
    /// Dies that erase.
    pub erases: u32,
    /// Reads under way: one for each die that reads, or several of a die whose planes read
    /// independently.
    pub reads: u32,
    /// The earliest time at which that changes.
    pub until: Nanos,
}

/// An operation that a die runs, or will run if nothing else is issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its kind.
    pub kind: OpKind,
    /// Its start.
    pub start: Nanos,
    /// Its end.
    pub end: Nanos,
}

/// The time that dies still need for what was issued, summed over dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// For programs.
    pub programs: Nanos,
    /// For erases.
    pub erases: Nanos,
}

impl Schedule {
    /// Cuts the power at `now`. Returns a word that stands for the outcome of all operations.
    pub fn power_off(&mut self, now: Nanos, store: &mut Store, dice: &mut Stream) -> u64 {
        self.settle_all(now);
        let mut word = now.0;
        for queue in &mut self.dies {
            // In reverse order of issue, so that operations that never began are undone first.
            while let Some(f) = queue.pop_back() {
                if f.end <= now || f.kind() == OpKind::Read {
                    self.book.ended(&f);
                    continue;
                }
                let begun = f.begun || f.start < now;
                word = word.rotate_left(1) ^ u64::from(begun);
                let slot = f.slot;
                match f.effect {
                    Effect::Program { at, count, .. } if begun => {
                        for page in at.page..at.page + count {
                            let torn = dice.chance(3, 4);
                            word = word.rotate_left(1) ^ u64::from(torn);
                            if torn {
                                store.tear(PageAddr { unit: at.unit, page });
                            }
                        }
                    }
                    Effect::Erase { unit, .. } if begun => store.spoil(unit),
                    effect => effect.undo(store),
                }
                self.book.leave(slot);
            }
        }
        self.reset();
        word
    }

    /// Takes back reads and operations that have not begun at `now`. With `erases` it also stops
    /// erases that have begun. Each die keeps at most one program or erase that is under way.
    pub fn abandon(&mut self, now: Nanos, store: &mut Store, erases: bool) {
        self.settle_all(now);
        for queue in &mut self.dies {
            let mut left = VecDeque::new();
            while let Some(mut f) = queue.pop_back() {
                if f.end <= now || f.kind() == OpKind::Read {
                    self.book.ended(&f);
                    continue;
                }
                let slot = f.slot;
                match f.effect {
                    _ if !(f.begun || f.start < now) => f.effect.undo(store),
                    Effect::Erase { unit, .. } if erases => store.spoil(unit),
                    _ => {
                        f.resume(now);
                        self.book.update(&f);
                        left.push_front(f);
                        continue;
                    }
                }
                self.book.leave(slot);
            }
            *queue = left;
        }
        self.channels.fill_with(Channel::default);
    }

    /// What the dies do at `now`.
    pub fn activity(&mut self, now: Nanos) -> Activity {
        self.settle_all(now);
        let mut activity = Activity { programs: 0, erases: 0, reads: 0, until: Nanos::MAX };
        for queue in &mut self.dies {
            while let Some(f) = queue.pop_front_if(|f| f.end <= now) {
                self.book.ended(&f);
            }
            // Up to the first that takes the whole die, since nothing else runs beside that one.
            for f in queue.iter() {
                if f.start > now {
                    activity.until = activity.until.min(f.start);
                } else if f.end > now {
                    activity.until = activity.until.min(f.end);
                    match f.kind() {
                        OpKind::Read => activity.reads += 1,
                        OpKind::Program => activity.programs += 1,
                        OpKind::Erase => activity.erases += 1,
                    }
                }
                if f.planes() == WHOLE_DIE {
                    break;
                }
            }
        }
        activity
    }

    /// Puts into `turns` the operations of the dies that end after `since`, as known at `now`.
    pub fn turns(&mut self, since: Nanos, now: Nanos, turns: &mut Vec<Turn>) {
        self.settle_all(now);
        turns.clear();
        let all = self.dies.iter().flatten().filter(|f| f.end > since);
        turns.extend(all.map(|f| Turn { kind: f.kind(), start: f.start, end: f.end }));
    }

    /// The remaining work of the dies at `at`.
    pub fn outstanding(&mut self, at: Nanos) -> Outstanding {
        self.settle_all(at);
        let mut sum = Outstanding::default();
        for f in self.dies.iter().flatten().filter(|f| f.end > at) {
            let left = if f.start < at { f.end - at } else { f.left };
            match f.kind() {
                OpKind::Read => {}
                OpKind::Program => sum.programs += left,
                OpKind::Erase => sum.erases += left,
            }
        }
        sum
    }
}

impl Effect {
    /// Undoes the effect without a trace. Call it in reverse order of issue.
    fn undo(self, store: &mut Store) {
        match self {
            Effect::Read { .. } => {}
            Effect::Program { at, count, failed } => store.undo(at, count, failed),
            Effect::Erase { unit, was } => store.restore(unit, was),
        }
    }
}

impl Flight {
    /// Resumes it at once if it was suspended.
    fn resume(&mut self, now: Nanos) {
        if self.start > now {
            (self.start, self.end) = (now, now + self.left);
            if let Some(ends) = &self.ends {
                ends.die.set(self.end);
            }
        }
    }
}
