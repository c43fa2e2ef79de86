//! Random calls against a small model: a map of the current versions, and the batches in a queue.

use super::super::{
    Batch, BatchError, Directory, Fate, FrontError, ReleaseError, Replacement, ReserveError,
    StageError, Version,
};
use super::{Place, checksum, version};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Is {
    Open,
    Closed,
    Published,
    Abandoned,
}

#[derive(Clone, Debug)]
struct Copy {
    version: Version,
    referenced: bool,
    /// Not current.
    over: bool,
    /// What it replaced: batch and slot.
    older: Option<(u64, usize)>,
}

/// A batch, and the latest one that replaced a version in it.
#[derive(Debug)]
struct Row {
    seq: u64,
    is: Is,
    copies: Vec<Copy>,
    waits: Option<u64>,
}

/// The directory as one would write it with maps.
#[derive(Debug)]
struct Model {
    batches: u64,
    batch: usize,
    rows: VecDeque<Row>,
    next: u64,
    /// Batch and slot of each page's current version.
    current: BTreeMap<u64, (u64, usize)>,
}

impl Model {
    fn row(&mut self, seq: u64) -> &mut Row {
        let front = self.rows[0].seq;
        &mut self.rows[(seq - front) as usize]
    }

    fn copy(&mut self, at: (u64, usize)) -> &mut Copy {
        &mut self.row(at.0).copies[at.1]
    }

    fn stage(&mut self, seq: u64, mut version: Version) -> Result<(), StageError> {
        let older = self.current.get(&version.page).copied();
        if let Some(at) = older {
            let have = self.copy(at).version;
            if have.lsn > version.lsn {
                return Err(StageError::Older { have: have.lsn, given: version.lsn });
            }
            version.dirty |= have.dirty && have.lsn == version.lsn;
        }
        if self.row(seq).is != Is::Open {
            return Err(StageError::Closed);
        }
        if self.row(seq).copies.len() == self.batch {
            return Err(StageError::Full);
        }
        if let Some(at) = older {
            self.copy(at).over = true;
            let row = self.row(at.0);
            row.waits = row.waits.max(Some(seq));
        }
        let row = self.row(seq);
        row.copies.push(Copy { version, referenced: false, over: false, older });
        let at = (seq, row.copies.len() - 1);
        self.current.insert(version.page, at);
        Ok(())
    }

    fn abandon(&mut self, seq: u64) {
        self.row(seq).is = Is::Abandoned;
        for slot in 0..self.row(seq).copies.len() {
            let copy = self.copy((seq, slot)).clone();
            if !copy.over {
                self.copy((seq, slot)).over = true;
                // The slow store has what was given up and was clean, and nothing older comes back.
                let mut slow = (!copy.version.dirty).then_some(copy.version.lsn);
                let mut older = copy.older;
                while let Some(at) = older.filter(|at| self.row(at.0).is == Is::Abandoned) {
                    let given_up = self.copy(at);
                    older = given_up.older;
                    if !given_up.version.dirty {
                        slow = slow.max(Some(given_up.version.lsn));
                    }
                }
                match older.filter(|at| Some(self.copy(*at).version.lsn) >= slow) {
                    None => self.current.remove(&copy.version.page),
                    Some(at) => {
                        self.copy(at).over = false;
                        self.current.insert(copy.version.page, at)
                    }
                };
            }
        }
    }

    fn is_settled(&mut self, seq: u64) -> bool {
        self.rows
            .iter()
            .take_while(|row| matches!(row.is, Is::Published | Is::Abandoned))
            .any(|row| row.seq == seq)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Reserve,
    Stage { open: usize, page: u64, lsn: u64, dirty: bool },
    Lookup(u64),
    Forget(u64),
    Close(usize),
    Publish(usize),
    Abandon(usize),
    MarkClean(u64),
    Replace { second_chance: bool, into: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let page = 0..12u64;
    prop_oneof![
        3 => Just(Step::Reserve),
        12 => (0..3usize, page.clone(), 0..6u64, any::<bool>())
            .prop_map(|(open, page, lsn, dirty)| Step::Stage { open, page, lsn, dirty }),
        4 => page.clone().prop_map(Step::Lookup),
        1 => page.clone().prop_map(Step::Forget),
        3 => (0..3usize).prop_map(Step::Close),
        5 => (0..3usize).prop_map(Step::Publish),
        1 => (0..3usize).prop_map(Step::Abandon),
        1 => page.prop_map(Step::MarkClean),
        4 => (any::<bool>(), 0..3usize)
            .prop_map(|(second_chance, into)| Step::Replace { second_chance, into }),
    ]
}

/// Both, side by side.
struct Both {
    directory: Directory,
    model: Model,
    /// Batches at work.
    open: Vec<Batch>,
    clock: u64,
}

impl Both {
    fn one(&self, index: usize) -> Option<Batch> {
        (!self.open.is_empty()).then(|| self.open[index % self.open.len()])
    }

    fn step(&mut self, step: &Step) {
        self.clock += 1;
        match *step {
            Step::Reserve => {
                let full = self.model.rows.len() as u64 == self.model.batches;
                match self.directory.reserve() {
                    Ok(batch) => {
                        assert!(!full && batch.seq == self.model.next);
                        let (seq, is) = (batch.seq, Is::Open);
                        self.model.rows.push_back(Row { seq, is, copies: vec![], waits: None });
                        self.model.next += 1;
                        self.open.push(batch);
                    }
                    Err(ReserveError::Full) => assert!(full),
                }
            }
            Step::Stage { open, page, lsn, dirty } => {
                let Some(batch) = self.one(open) else { return };
                // Some LSNs are old, some the same.
                let version = Version { dirty, ..version(page, self.clock / 8 + lsn) };
                let expected = self.model.stage(batch.seq, version);
                assert_eq!(self.directory.stage(&batch, version).map(|_| ()), expected);
            }
            Step::Lookup(page) => {
                if let Some(at) = self.model.current.get(&page).copied() {
                    self.model.copy(at).referenced = true;
                }
                let found = self.directory.lookup(page);
                assert_eq!(found.is_some(), self.model.current.contains_key(&page));
            }
            Step::Forget(page) => {
                let found = self.directory.forget(page).is_some();
                let at = self.model.current.remove(&page);
                assert_eq!(found, at.is_some());
                if let Some(at) = at {
                    self.model.copy(at).over = true;
                }
            }
            Step::Close(index) => {
                let Some(batch) = self.one(index) else { return };
                self.directory.close(&batch).unwrap();
                self.model.row(batch.seq).is = Is::Closed;
            }
            Step::Publish(index) => {
                let Some(batch) = self.one(index) else { return };
                match self.directory.publish(&batch) {
                    Ok(()) => {
                        assert_eq!(self.model.row(batch.seq).is, Is::Closed);
                        self.model.row(batch.seq).is = Is::Published;
                        self.open.retain(|open| *open != batch);
                    }
                    Err(BatchError::Open(_)) => {
                        assert_eq!(self.model.row(batch.seq).is, Is::Open);
                    }
                    Err(e) => panic!("{e}"),
                }
            }
            Step::Abandon(index) => {
                let Some(batch) = self.one(index) else { return };
                self.directory.abandon(&batch).unwrap();
                self.model.abandon(batch.seq);
                self.open.retain(|open| *open != batch);
            }
            Step::MarkClean(page) => {
                let Some(entry) = self.directory.peek(page) else { return };
                assert!(self.directory.mark_clean(&entry));
                let at = self.model.current[&page];
                self.model.copy(at).version.dirty = false;
            }
            Step::Replace { second_chance, into } => self.replace(second_chance, into),
        }
    }

    fn replace(&mut self, second_chance: bool, into: usize) {
        let front = match self.directory.take_front() {
            Ok(front) => front,
            Err(FrontError::Empty) => return assert!(self.model.rows.is_empty()),
            Err(FrontError::Unsettled(seq)) => return assert!(!self.model.is_settled(seq)),
            Err(FrontError::Busy(_)) => panic!("nobody else is there"),
        };
        assert!(self.model.is_settled(front.seq));
        let policy = match second_chance {
            true => Replacement::SecondChance,
            false => Replacement::Basic,
        };
        let fates = self.directory.fates(&front, policy);
        let copies = self.model.row(front.seq).copies.clone();
        let valid: Vec<&Copy> = copies.iter().filter(|copy| !copy.over).collect();
        assert_eq!(fates.len(), valid.len());
        let all = valid.len() == self.model.batch && valid.iter().all(|copy| copy.referenced);
        for (i, ((entry, fate), copy)) in fates.iter().zip(valid).enumerate() {
            assert_eq!((entry.page, entry.dirty), (copy.version.page, copy.version.dirty));
            let again = second_chance && copy.referenced && !(all && i == 0);
            assert_eq!(*fate == Fate::SecondChance, again);
            assert_eq!(*fate == Fate::Destage, !again && copy.version.dirty);
            let room = self.one(into).filter(|batch| {
                again && {
                    let batch_frames = self.model.batch;
                    let row = self.model.row(batch.seq);
                    row.is == Is::Open && row.copies.len() < batch_frames
                }
            });
            if let Some(batch) = room {
                self.model.stage(batch.seq, copy.version).unwrap();
                assert!(self.directory.stage_again(&batch, entry).unwrap().is_some());
            } else {
                let at = self.model.current[&entry.page];
                self.model.copy(at).version.dirty = false;
                assert!(self.directory.mark_clean(entry));
            }
        }
        match self.directory.release(&front) {
            Ok(()) => {
                let row = self.model.rows.pop_front().unwrap();
                assert!(row.copies.iter().all(|c| c.over || !c.version.dirty));
                self.model.current.retain(|_, at| at.0 != front.seq);
            }
            Err(ReleaseError::Waits(seq)) => {
                assert!(!self.model.is_settled(seq));
                self.directory.leave(&front);
            }
            Err(e) => panic!("{e}"),
        }
    }

    fn compare(&mut self) {
        let current = self.model.current.clone();
        for (page, at) in &current {
            let copy = self.model.copy(*at).clone();
            let entry = self.directory.peek(*page).unwrap();
            assert_eq!((entry.lsn, entry.dirty), (copy.version.lsn, copy.version.dirty), "{page}");
            assert_eq!(entry.referenced, copy.referenced, "page {page}");
            assert_eq!(entry.checksum, checksum(*page, entry.lsn));
            assert_eq!(u64::from(entry.frame / self.model.batch as u32), at.0 % self.model.batches);
            assert_eq!(entry.durable, self.model.row(at.0).is == Is::Published);
        }
        let audit = self.directory.audit().unwrap();
        assert_eq!(audit.pages, current.len() as u64);
        assert_eq!(audit.batches, self.model.rows.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_directory_does_as_the_model(
        batch in 1..4u32,
        batches in 2..6u64,
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let (_, directory) = Place::new(u64::from(batch) * batches, batch);
        let rows = VecDeque::new();
        let current = BTreeMap::new();
        let model = Model { batches, batch: batch as usize, rows, next: 0, current };
        let mut both = Both { directory, model, open: vec![], clock: 0 };
        for step in &steps {
            both.step(step);
            both.compare();
        }
    }
}
