//! A store that is opened again, whenever and however it ended, is what a small model says.

mod common;

use common::{Devices, ONE_KIB, entry, id};
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{Entry, LogId, RaftLogReader, Vote};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tantalum_openraft::FlashLog;
use tantalum_openraft::kv::Words;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Appends so many entries of so many bytes.
    Append(u64, usize),
    /// Cuts off so many entries at the end.
    Cut(u64),
    /// Purges so many entries at the beginning.
    Purge(u64),
    /// Purges all and so many indexes more, as after a snapshot.
    Skip(u64),
    Vote,
    Committed,
    /// Ends the store, with `close` or without, and opens it with so much memory.
    Reopen(bool, usize),
    /// Opens what a killed process would have left: a copy of the files while the store is open.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..6u64, 0..3000usize).prop_map(|(n, bytes)| Step::Append(n, bytes)),
        2 => (0..4u64).prop_map(Step::Cut),
        2 => (0..6u64).prop_map(Step::Purge),
        1 => (1..5u64).prop_map(Step::Skip),
        2 => Just(Step::Vote),
        1 => Just(Step::Committed),
        1 => Just(Step::Kill),
        3 => (any::<bool>(), prop_oneof![Just(0), Just(4 * ONE_KIB), Just(1 << 20)])
            .prop_map(|(close, memory)| Step::Reopen(close, memory)),
    ]
}

#[derive(Default)]
struct Model {
    entries: BTreeMap<u64, Entry<Words>>,
    purged: Option<LogId<u64>>,
    vote: Option<Vote<u64>>,
    committed: Option<LogId<u64>>,
    term: u64,
}

impl Model {
    fn last(&self) -> Option<LogId<u64>> {
        self.entries.values().next_back().map(|e| e.log_id).or(self.purged)
    }

    fn next(&self) -> u64 {
        self.last().map_or(0, |id| id.index + 1)
    }

    /// The first index that is not purged.
    fn first(&self) -> u64 {
        self.purged.map_or(0, |id| id.index + 1)
    }
}

async fn take(step: Step, model: &mut Model, store: &mut FlashLog<Words>) {
    model.term += 1;
    match step {
        Step::Append(count, bytes) => {
            let next = model.next();
            let entries = (next..next + count).map(|index| entry(model.term, index, bytes));
            let entries: Vec<_> = entries.collect();
            model.entries.extend(entries.iter().map(|e| (e.log_id.index, e.clone())));
            store.blocking_append(entries).await.unwrap();
        }
        Step::Cut(count) => {
            let since = model.next().saturating_sub(count).max(model.first());
            let _ = model.entries.split_off(&since);
            store.truncate(id(model.term, since)).await.unwrap();
        }
        Step::Purge(count) => {
            let Some(to) = model.entries.values().take(count as usize).next_back() else { return };
            let to = to.log_id;
            model.entries = model.entries.split_off(&(to.index + 1));
            model.purged = Some(to);
            store.purge(to).await.unwrap();
        }
        Step::Skip(count) => {
            let to = id(model.term, model.next() + count);
            model.entries.clear();
            model.purged = Some(to);
            store.purge(to).await.unwrap();
        }
        Step::Vote => {
            let vote = Vote::new(model.term, model.term % 3);
            model.vote = Some(vote);
            store.save_vote(&vote).await.unwrap();
        }
        Step::Committed => {
            model.committed = model.last();
            store.save_committed(model.committed).await.unwrap();
            // It need not be durable by itself: what is saved behind it makes it so.
            let vote = Vote::new(model.term, 0);
            model.vote = Some(vote);
            store.save_vote(&vote).await.unwrap();
        }
        Step::Reopen(..) | Step::Kill => unreachable!("it takes a store, too"),
    }
}

async fn compare(model: &Model, store: &mut FlashLog<Words>) {
    let state = store.get_log_state().await.unwrap();
    assert_eq!((state.last_purged_log_id, state.last_log_id), (model.purged, model.last()));
    assert_eq!(store.read_vote().await.unwrap(), model.vote);
    assert_eq!(store.read_committed().await.unwrap(), model.committed);
    let entries = store.try_get_log_entries(..).await.unwrap();
    let expected: Vec<_> = model.entries.values().cloned().collect();
    assert_eq!(entries, expected);
    // A piece from the middle on, by a reader.
    let (from, behind) = ((model.first() + model.next()) / 2, model.next());
    let mut reader = store.get_log_reader().await;
    let piece = reader.limited_get_log_entries(from, behind).await.unwrap();
    assert_eq!(piece.first(), model.entries.get(&from));
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn live(devices: &Devices, steps: &[Step]) {
    runtime().block_on(async {
        let mut model = Model::default();
        let mut store = devices.open(4 * ONE_KIB).unwrap();
        for step in steps.iter().copied().chain([Step::Reopen(false, 0)]) {
            if let Step::Reopen(close, memory) = step {
                match close {
                    true => store.close().await.unwrap(),
                    false => drop(store),
                }
                store = devices.open(memory).unwrap();
            } else if matches!(step, Step::Kill) {
                let left = devices.copy();
                compare(&model, &mut left.open(0).unwrap()).await;
            } else {
                take(step, &mut model, &mut store).await;
            }
            compare(&model, &mut store).await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn a_store_is_what_the_model_says(
        steps in proptest::collection::vec(step(), 1..30), two in any::<bool>(),
    ) {
        let (files, copies) = if two { (2, 2) } else { (1, 1) };
        live(&Devices::of_bytes(files, copies, 12 << 20), &steps);
    }
}

#[test]
fn a_store_lives_through_many_laps_of_its_devices() {
    let round = [Step::Append(5, 40_000), Step::Vote, Step::Purge(5), Step::Reopen(false, 0)];
    // 200 KB a round, 25 MB of devices.
    let steps = std::iter::repeat_n(round, 400).flatten().enumerate();
    let often = steps.filter(|(i, step)| !matches!(step, Step::Reopen(..)) || i % 40 == 3);
    live(&Devices::of_bytes(2, 1, 12 << 20), &often.map(|(_, step)| step).collect::<Vec<_>>());
}
