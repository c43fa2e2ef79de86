//! The buffer and the flash behind it against "the last write counts".

use crate::format::words::Lpn;
use crate::state::buffer::{Buffer, CopyId, Slot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tantalum_device::{Data, DataMut, Payload};

const SLOTS: u32 = 6;
const LPNS: u32 = 5;

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Discard(u32),
    Take(u32),
    /// Which of the programs under way ends.
    Finish(usize),
    /// Which of them fails.
    Fail(usize),
    CloseEpoch,
    /// A write with forced unit access waits for this page.
    Hasten(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..LPNS).prop_map(Step::Insert),
        1 => (0..LPNS).prop_map(Step::Discard),
        2 => (1..4u32).prop_map(Step::Take),
        4 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Fail),
        1 => Just(Step::CloseEpoch),
        2 => (0..LPNS).prop_map(Step::Hasten),
    ]
}

/// The buffer as the firmware uses it, and what must be seen of it.
struct World {
    buffer: Buffer,
    flying: Vec<(Slot, Lpn, u64)>,
    flash: BTreeMap<u32, u64>,
    /// The newest stamp of each page, 0 if it was discarded, and the epoch of its write.
    newest: BTreeMap<u32, (u64, u64)>,
    epochs: u64,
    stamp: u64,
    /// What is waited for: its name, its page, and its stamp when that began.
    awaited: Vec<(CopyId, u32, u64)>,
    /// The newest stamp of all when a page was last discarded.
    discarded: BTreeMap<u32, u64>,
}

impl World {
    fn new() -> World {
        World {
            buffer: Buffer::new(SLOTS, Payload::Stamps),
            flying: Vec::new(),
            flash: BTreeMap::new(),
            newest: BTreeMap::new(),
            epochs: 0,
            stamp: 0,
            awaited: Vec::new(),
            discarded: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Insert(lpn) if self.buffer.used() < SLOTS => {
                self.stamp += 1;
                let before = self.buffer.used();
                let new = self.buffer.insert(Lpn(lpn), Data::Stamps(&[self.stamp]));
                assert_eq!(self.buffer.used() - before, u32::from(new));
                self.newest.insert(lpn, (self.stamp, self.epochs));
            }
            Step::Insert(_) => {}
            Step::Discard(lpn) => {
                let before = self.buffer.used();
                let freed = self.buffer.discard(Lpn(lpn));
                assert_eq!(before - self.buffer.used(), freed);
                self.flash.remove(&lpn);
                self.newest.insert(lpn, (0, self.epochs));
                self.discarded.insert(lpn, self.stamp);
            }
            Step::Hasten(lpn) => match self.buffer.hasten(Lpn(lpn)) {
                Some(copy) => self.awaited.push((copy, lpn, self.newest[&lpn].0)),
                None => assert!(!self.buffer.contains(Lpn(lpn))),
            },
            Step::Take(most) => {
                let mut batch = Vec::new();
                let is_hasty = self.buffer.is_hasty();
                self.buffer.take(most, &mut batch);
                assert!(batch.len() <= most as usize);
                // Invariants 7 and 8.
                let awaited: BTreeSet<u32> = self.awaited.iter().map(|a| a.1).collect();
                let goes = batch.iter().any(|(_, lpn)| awaited.contains(&lpn.0));
                assert!(!is_hasty || goes || most == 1, "{batch:?} has none of {awaited:?}");
                for (slot, lpn) in batch {
                    let stamp = self.payload(slot);
                    // Invariant 3: at most one copy that counts is under way.
                    let same = |f: &&(Slot, Lpn, u64)| f.1 == lpn && self.buffer.is_valid(f.0);
                    assert!(self.flying.iter().find(same).is_none(), "two copies of {lpn:?}");
                    self.flying.push((slot, lpn, stamp));
                }
            }
            Step::Finish(_) | Step::Fail(_) if self.flying.is_empty() => {}
            Step::Fail(which) => {
                let (slot, ..) = self.flying.remove(which % self.flying.len());
                let before = self.buffer.used();
                let freed = self.buffer.requeue(slot);
                assert_eq!(before - self.buffer.used(), u32::from(freed));
            }
            Step::Finish(which) => {
                let (slot, lpn, stamp) = self.flying.remove(which % self.flying.len());
                if self.buffer.is_valid(slot) {
                    self.flash.insert(lpn.0, stamp);
                }
                self.buffer.finish(slot);
            }
            Step::CloseEpoch => {
                assert_eq!(self.buffer.close_epoch(), self.epochs);
                self.epochs += 1;
            }
        }
        self.check();
        self.end_waits();
        self.buffer.audit().unwrap();
    }

    /// What was waited for and is not under way any more is on flash, or something newer is, or it
    /// was discarded since.
    fn end_waits(&mut self) {
        let (flash, discarded) = (&self.flash, &self.discarded);
        self.awaited.retain(|(copy, lpn, stamp)| {
            let is_under_way = self.buffer.is_under_way(*copy);
            let is_there = |at: Option<&u64>| at.is_some_and(|at| at >= stamp);
            let has_gone = is_there(flash.get(lpn)) || is_there(discarded.get(lpn));
            assert!(is_under_way || has_gone, "{copy:?} of page {lpn}, {stamp}: {flash:?}");
            is_under_way
        });
    }

    fn payload(&self, slot: Slot) -> u64 {
        let Data::Stamps(stamps) = self.buffer.payload(slot) else { unreachable!() };
        stamps[0]
    }

    fn check(&self) {
        // What is under way stays as it was taken.
        for (slot, lpn, stamp) in &self.flying {
            assert_eq!(self.payload(*slot), *stamp, "{lpn:?} changed under way");
        }
        let mut dumped = BTreeMap::new();
        for (lpn, data) in self.buffer.contents() {
            let Data::Stamps(s) = data else { unreachable!() };
            assert!(dumped.insert(lpn.0, s[0]).is_none(), "{lpn:?} is dumped twice");
        }
        for (&lpn, &(newest, _)) in &self.newest {
            let mut out = [0];
            let buffered = self.buffer.read(Lpn(lpn), DataMut::Stamps(&mut out));
            assert_eq!(buffered, self.buffer.contains(Lpn(lpn)));
            let flash = self.flash.get(&lpn).copied().unwrap_or(0);
            // Invariants 1, 2 and 4: reads and the dump see the newest copy, and no other.
            assert_eq!(if buffered { out[0] } else { flash }, newest, "page {lpn}");
            assert_eq!(dumped.get(&lpn).copied().unwrap_or(flash), newest, "dump of {lpn}");
        }
        // Invariant 6: what belongs to a done epoch needs the buffer no more.
        for epoch in (0..self.epochs).filter(|e| self.buffer.epoch_done(*e)) {
            for (lpn, &(newest, wrote)) in &self.newest {
                if wrote <= epoch {
                    assert_eq!(self.flash.get(lpn).copied().unwrap_or(0), newest);
                }
            }
        }
    }

    /// Everything ends.
    fn settle(&mut self) {
        self.step(&Step::CloseEpoch);
        while self.buffer.used() > 0 {
            self.step(&Step::Take(1));
            self.step(&Step::Finish(0));
        }
        assert_eq!(self.buffer.waiting(), 0);
        assert!(self.awaited.is_empty() && !self.buffer.is_hasty());
        assert!(self.buffer.epoch_done(self.epochs - 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_last_write_counts(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        steps.iter().for_each(|s| world.step(s));
        world.settle();
    }
}
