//! Compares the content of a device after a crash with what it promised.
//!
//! 1. Every piece of every block holds zeros, what was durable before, or data of a
//!    command that may have happened.
//! 2. No command that had to survive is hidden by anything older.
//! 3. No atomic unit is there in one part and hidden by anything older in another.
//! 4. If the device is ordered there is a number `k`, not less than the last command that had to
//!    survive, such that every piece is as if the first `k` commands had happened, and no later
//!    one, except that some units of the next may be there.
//!
//! "Older" is what completed before the other was submitted; on an ordered device,
//! what arrived before it.

use crate::content::{GARBAGE, Id, Pieces};
use crate::history::{Action, Command, History};
use crate::violation::{Found, Violation};
use rustc_hash::FxHashMap;
use tantalum_device::{Block, Payload};

/// Where the content of a block was looked at: block and piece.
type Place = (u64, u32);

/// Checks `seen`, the content of all blocks that are not all zeros; violations are
/// added to the history's.
pub(super) fn check(history: &mut History, seen: &FxHashMap<u64, Pieces>) {
    let mut check = Check { history, seen, violations: Vec::new() };
    let known = check.places_are_known();
    let ids = check.history.in_order();
    check.commands_survive_whole(&ids);
    if known && check.violations.is_empty() && check.history.caps.ordered {
        check.survivors_are_a_prefix(&ids);
    }
    let violations = check.violations;
    for v in violations {
        history.report(v);
    }
}

struct Check<'a> {
    history: &'a History,
    seen: &'a FxHashMap<u64, Pieces>,
    violations: Vec<Violation>,
}

impl Check<'_> {
    fn found(&self, (block, piece): Place) -> Id {
        self.seen.get(&block).map_or(0, |p| p.get(piece))
    }

    fn per_block(&self) -> u32 {
        (self.history.caps.block_size / self.history.piece).max(1)
    }

    /// Rule 1; whether it holds.
    fn places_are_known(&mut self) -> bool {
        let h = self.history;
        let written = h.by_block.keys();
        let before = h.base.keys().filter(|block| !h.by_block.contains_key(block));
        let known = |block: &&u64| h.by_block.contains_key(block) || h.base.contains_key(block);
        let others = self.seen.keys().filter(|block| !known(block));
        let mut unknown: Vec<Place> = Vec::new();
        for &block in written.chain(before).chain(others) {
            let mut places = (0..self.per_block()).map(|piece| (block, piece));
            unknown.extend(
                places.find(|&place| h.each_source(place.0, place.1, self.found(place), |_| false)),
            );
        }
        unknown.sort_unstable();
        for (block, piece) in unknown {
            let found = self.found((block, piece));
            self.violations.push(match found {
                GARBAGE if h.caps.payload == Payload::Bytes => {
                    Violation::Mixed { block: Block(block), offset: piece * h.piece }
                }
                _ => h.unknown(Block(block), found),
            });
        }
        self.violations.is_empty()
    }

    /// Rules 2 and 3.
    fn commands_survive_whole(&mut self, ids: &[Id]) {
        let h = self.history;
        for &id in ids {
            let command = &h.commands[&id];
            let units = Units::of(h, command);
            // Of the current unit: a place where the command is seen, and one where it cannot be.
            let (mut unit, mut has, mut has_not) = (0, None, None);
            for (u, place) in units.places(self.per_block()) {
                if u != unit {
                    (unit, has, has_not) = (u, None, None);
                }
                match self.sight(id, command, place) {
                    Sight::Seen => has = Some(place),
                    Sight::Covered => continue,
                    Sight::Missing => has_not = Some(place),
                }
                if let (Some(cause), Some(at)) = (command.must, has_not) {
                    let (block, found) = (Block(at.0), Found(self.found(at)));
                    self.violations.push(match command.action {
                        Action::Discard | Action::ForcedDiscard => {
                            Violation::DiscardUndone { block, expected: id, cause, found }
                        }
                        _ => Violation::Lost { block, expected: id, cause, found },
                    });
                    break;
                }
                if command.action.is_discard() {
                    continue; // Nothing says that a discard is atomic.
                }
                if let (Some(new), Some(old)) = (has, has_not) {
                    let found = Found(self.found(old));
                    let (new, old) = (Block(new.0), Block(old.0));
                    self.violations.push(Violation::Torn { command: id, unit, new, old, found });
                    break;
                }
            }
        }
    }

    /// What a place says about a command that wrote it.
    fn sight(&self, id: Id, command: &Command, place: Place) -> Sight {
        let found = self.found(place);
        if found == id && !command.action.is_discard() {
            return Sight::Seen;
        }
        let older = |source: Id| match self.history.commands.get(&source) {
            None => true,
            Some(_) if source == id => false,
            Some(_) if self.history.caps.ordered => source < id,
            Some(other) => other.before(command),
        };
        let mut known = false;
        let all_older = self.history.each_source(place.0, place.1, found, |source| {
            known = true;
            older(source)
        });
        if known && all_older { Sight::Missing } else { Sight::Covered }
    }

    /// Rule 4.
    fn survivors_are_a_prefix(&mut self, ids: &[Id]) {
        let h = self.history;
        let n = ids.len();
        let place_of = |id: Id| ids.binary_search(&id).unwrap_or(n);
        let at_least = h
            .commands
            .iter()
            .filter(|(_, c)| c.must.is_some())
            .map(|(id, _)| place_of(*id) + 1)
            .max()
            .unwrap_or(0);

        // How many places agree with each k, as differences.
        let mut agree = vec![0i64; n + 2];
        let mut places = 0;
        // The place that asks for the largest k, and the one for the smallest.
        let mut most: Option<(usize, Place)> = None;
        let mut least: Option<(usize, Place)> = None;
        let mut blocks: Vec<u64> = h.by_block.keys().copied().collect();
        blocks.sort_unstable();
        let (mut list, mut spans) = (Vec::new(), Vec::new());
        for block in blocks {
            list.clear();
            list.extend(h.by_block[&block].iter().map(|id| place_of(*id)));
            for piece in 0..self.per_block() {
                let place = (block, piece);
                self.spans(place, &list, ids, &mut spans);
                let (Some(first), Some(last)) = (spans.first(), spans.last()) else { continue };
                if most.is_none_or(|m| first.0 > m.0) {
                    most = Some((first.0, place));
                }
                if least.is_none_or(|l| last.1 < l.0) {
                    least = Some((last.1, place));
                }
                places += 1;
                for &(from, to) in &spans {
                    agree[from] += 1;
                    agree[to + 1] -= 1;
                }
            }
        }
        let mut sum = 0;
        for (k, d) in agree.iter().enumerate().take(n + 1) {
            sum += d;
            if k >= at_least && sum == places && self.no_unit_is_torn(k, ids) {
                return;
            }
        }
        let (Some(most), Some(least)) = (most, least) else { return };
        // A command that was certainly kept: the last one that had to be, or one that was seen.
        let (kept, kept_at) = if at_least > most.0 {
            let id = ids[at_least - 1];
            (id, h.commands[&id].blocks().next().unwrap_or(0))
        } else {
            (self.found(most.1), most.1.0)
        };
        self.violations.push(Violation::OutOfOrder {
            kept,
            kept_at: Block(kept_at),
            missing: ids.get(least.0).copied().unwrap_or(0),
            missing_at: Block(least.1.0),
            found: Found(self.found(least.1)),
        });
    }

    /// Whether the atomic units fit that the first `k` commands happened: those of the
    /// next command, and of any whose reception is not known, each as a whole or not
    /// at all.
    fn no_unit_is_torn(&self, k: usize, ids: &[Id]) -> bool {
        let h = self.history;
        let open = ids.iter().enumerate().take(k + 1).filter(|(i, id)| {
            let c = &h.commands[id];
            !c.action.is_discard() && (c.optional || *i == k)
        });
        for (_, id) in open {
            let units = Units::of(h, &h.commands[id]);
            let (mut unit, mut has, mut has_not) = (0, false, false);
            for (u, place) in units.places(self.per_block()) {
                if u != unit {
                    (unit, has, has_not) = (u, false, false);
                }
                // Of zeros with several sources the latest says least.
                let mut latest = None;
                h.each_source(place.0, place.1, self.found(place), |source| {
                    if ids.binary_search(&source).is_ok_and(|i| i <= k) {
                        latest = latest.max(Some(source));
                    }
                    true
                });
                has |= latest == Some(*id);
                has_not |= latest < Some(*id);
                if has && has_not {
                    return false;
                }
            }
        }
        true
    }

    /// The values of `k` with which a place agrees, as disjoint ranges in ascending
    /// order, both ends included. `list` are the commands that wrote the block.
    fn spans(&self, place: Place, list: &[usize], ids: &[Id], spans: &mut Vec<(usize, usize)>) {
        let h = self.history;
        let command = |i: usize| &h.commands[&ids[i]];
        // Until a command hides it that was certainly received.
        let until = |after: usize| {
            let next = list.iter().find(|i| **i >= after && !command(**i).optional);
            next.copied().unwrap_or(ids.len())
        };
        spans.clear();
        h.each_source(place.0, place.1, self.found(place), |source| {
            let (from, to) = match ids.binary_search(&source) {
                Err(_) => (0, until(0)),
                Ok(i) => {
                    // It can be there before its turn if it is the one that is torn,
                    // or if whether it was received is not known.
                    let early = command(i).optional || Units::of(h, command(i)).may_tear();
                    (i + usize::from(!early), until(i + 1))
                }
            };
            match spans.last_mut() {
                Some(last) if from <= last.1 + 1 => last.1 = last.1.max(to),
                _ => spans.push((from, to)),
            }
            true
        });
    }
}

enum Sight {
    /// It is there.
    Seen,
    /// Something is there that may be newer.
    Covered,
    /// Something is there that is older.
    Missing,
}

/// The atomic units of a command.
struct Units<'a> {
    history: &'a History,
    command: &'a Command,
}

impl<'a> Units<'a> {
    fn of(history: &'a History, command: &'a Command) -> Units<'a> {
        Units { history, command }
    }

    /// Whether a crash may leave a part of the command. Nothing says that a discard
    /// is atomic.
    fn may_tear(&self) -> bool {
        let caps = &self.history.caps;
        let blocks: u64 = self.command.extents.iter().map(|e| e.1).sum();
        match self.command.action {
            Action::Group => false,
            Action::Discard | Action::ForcedDiscard => true,
            Action::Write | Action::Fua => {
                blocks * u64::from(caps.block_size) > u64::from(caps.atomic_unit)
            }
        }
    }

    /// All places of the command with the number of their unit, in ascending order
    /// of units.
    fn places(&self, per_block: u32) -> impl Iterator<Item = (u64, Place)> + use<'a> {
        let caps = self.history.caps;
        let group = self.command.action == Action::Group;
        let piece_bytes = u64::from(self.history.piece);
        let command: &'a Command = self.command;
        command.blocks().enumerate().flat_map(move |(i, block)| {
            (0..per_block).map(move |piece| {
                let byte = i as u64 * u64::from(caps.block_size) + u64::from(piece) * piece_bytes;
                let unit = if group { 0 } else { byte / u64::from(caps.atomic_unit) };
                (unit, (block, piece))
            })
        })
    }
}
