//! The ring step by step: what is refused, what waits, what comes back.

use super::super::{
    BatchError, Fate, Found, FrontError, ReleaseError, Replacement, ReserveError, Since,
    StageError, Version,
};
use super::{Place, current, version, write};
use std::collections::BTreeMap;

#[test]
fn an_old_version_is_refused_and_the_same_one_keeps_its_dirt() {
    let (_, directory) = Place::new(8, 4);
    write(&directory, &[version(1, 5)]);
    let batch = directory.reserve().unwrap();
    let older = StageError::Older { have: 5, given: 4 };
    assert_eq!(directory.stage(&batch, version(1, 4)), Err(older));
    let clean = Version { dirty: false, ..version(1, 5) };
    assert_eq!(directory.stage(&batch, clean).unwrap().older, Some(0));
    assert!(directory.peek(1).unwrap().dirty);
    // A newer one says by itself what the slow store has.
    directory.stage(&batch, Version { dirty: false, ..version(1, 6) }).unwrap();
    assert!(!directory.peek(1).unwrap().dirty);
    // Refused pages took no frames.
    directory.stage(&batch, version(2, 1)).unwrap();
    directory.stage(&batch, version(3, 1)).unwrap();
    assert_eq!(directory.stage(&batch, version(4, 1)), Err(StageError::Full));
    assert_eq!(directory.publish(&batch), Err(BatchError::Open(1)));
    directory.close(&batch).unwrap();
    assert_eq!(directory.stage(&batch, version(4, 1)), Err(StageError::Closed));
    directory.publish(&batch).unwrap();
    assert_eq!(directory.publish(&batch), Err(BatchError::NotYours(1)));
    assert_eq!(directory.reserve(), Err(ReserveError::Full));
    assert_eq!(directory.audit().unwrap().pages, 3);
}

#[test]
fn a_chain_may_have_every_frame_of_the_ring() {
    let (_, directory) = Place::new(4, 2);
    let pages = super::of_one_chain(&directory, 5);
    write(&directory, &[version(pages[0], 1), version(pages[1], 1)]);
    write(&directory, &[version(pages[2], 1), version(pages[3], 1)]);
    assert_eq!(directory.peek(pages[4]), None);
    assert_eq!(current(&directory, &pages).len(), 4);
}

#[test]
fn what_was_looked_up_may_be_replaced_while_it_is_read() {
    let (_, directory) = Place::new(4, 2);
    write(&directory, &[version(1, 1), version(2, 1)]);
    let found = directory.lookup(1).unwrap();
    assert!(found.durable && !found.referenced && directory.peek(1).unwrap().referenced);
    assert_eq!(directory.check(&found), Since::Current);
    let batch = directory.reserve().unwrap();
    directory.stage(&batch, version(1, 2)).unwrap();
    assert!(!directory.peek(1).unwrap().durable);
    assert_eq!(directory.check(&found), Since::Old);
    directory.close(&batch).unwrap();
    directory.publish(&batch).unwrap();
    let front = directory.take_front().unwrap();
    let dirty = directory.peek(2).unwrap();
    assert_eq!(directory.release(&front), Err(ReleaseError::Dirty(dirty.frame)));
    assert!(directory.mark_clean(&dirty));
    directory.release(&front).unwrap();
    assert_eq!(directory.check(&found), Since::Reused);
    assert!(!directory.mark_clean(&dirty));
    assert_eq!(directory.peek(2), None);
}

#[test]
fn the_front_waits_for_what_replaces_it() {
    let (_, directory) = Place::new(6, 2);
    write(&directory, &[version(1, 1), version(2, 1)]);
    directory.lookup(2);
    let batch = directory.reserve().unwrap();
    let front = directory.take_front().unwrap();
    assert_eq!(directory.take_front(), Err(FrontError::Busy(0)));
    let fates = directory.fates(&front, Replacement::SecondChance);
    let basic = directory.fates(&front, Replacement::Basic);
    assert_eq!(fates.iter().map(|f| f.1).collect::<Vec<_>>(), [Fate::Destage, Fate::SecondChance]);
    assert_eq!(basic.iter().map(|f| f.1).collect::<Vec<_>>(), [Fate::Destage, Fate::Destage]);
    assert!(directory.stage_again(&batch, &fates[1].0).unwrap().is_some());
    // It is not current any more: no second time.
    assert_eq!(directory.stage_again(&batch, &fates[1].0), Ok(None));
    let again = directory.peek(2).unwrap();
    assert!(again.dirty && !again.referenced && again.frame == batch.first_frame);
    assert!(directory.mark_clean(&fates[0].0));
    assert_eq!(directory.release(&front), Err(ReleaseError::Waits(1)));
    directory.close(&batch).unwrap();
    directory.publish(&batch).unwrap();
    directory.release(&front).unwrap();
    assert_eq!(directory.release(&front), Err(ReleaseError::NotYours(0)));
    assert_eq!(current(&directory, &[1, 2]), BTreeMap::from([(2, (1, true))]));
    let front = directory.take_front().unwrap();
    assert_eq!(front.seq, 1);
    directory.leave(&front);
    assert_eq!(directory.take_front(), Ok(front));
}

#[test]
fn of_a_batch_that_was_referenced_as_a_whole_the_first_frame_goes() {
    let (_, directory) = Place::new(4, 2);
    write(&directory, &[version(1, 1), Version { dirty: false, ..version(2, 1) }]);
    directory.lookup(1);
    directory.lookup(2);
    let front = directory.take_front().unwrap();
    let fates = directory.fates(&front, Replacement::SecondChance);
    assert_eq!(fates.iter().map(|f| f.1).collect::<Vec<_>>(), [Fate::Destage, Fate::SecondChance]);
}

#[test]
fn an_abandoned_batch_gives_back_what_it_replaced() {
    let (_, directory) = Place::new(8, 2);
    write(&directory, &[version(1, 1), version(2, 1)]);
    let given_up = directory.reserve().unwrap();
    directory.stage(&given_up, version(1, 2)).unwrap();
    directory.stage(&given_up, version(2, 2)).unwrap();
    let newer = directory.reserve().unwrap();
    directory.stage(&newer, version(1, 3)).unwrap();
    directory.abandon(&given_up).unwrap();
    assert_eq!(current(&directory, &[1, 2]), BTreeMap::from([(1, (3, true)), (2, (1, true))]));
    // The first batch has the version to which page 1 goes back if the newer batch is lost, too.
    let front = directory.take_front().unwrap();
    let fates = directory.fates(&front, Replacement::Basic);
    assert_eq!(fates.len(), 1);
    assert!(directory.mark_clean(&fates[0].0));
    assert_eq!(directory.release(&front), Err(ReleaseError::Waits(newer.seq)));
    directory.abandon(&newer).unwrap();
    assert_eq!(current(&directory, &[1]), BTreeMap::from([(1, (1, true))]));
    let frame = directory.peek(1).unwrap().frame;
    assert_eq!(directory.release(&front), Err(ReleaseError::Dirty(frame)));
    directory.audit().unwrap();
}

#[test]
fn a_version_three_batches_back_returns_when_all_since_were_abandoned() {
    // In each order in which three batches can be given up.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (_, directory) = Place::new(6, 1);
        write(&directory, &[version(1, 1)]);
        let batches = [2, 3, 4].map(|lsn| {
            let batch = directory.reserve().unwrap();
            directory.stage(&batch, version(1, lsn)).unwrap();
            batch
        });
        let front = directory.take_front().unwrap();
        for (nth, given_up) in order.iter().enumerate() {
            assert!(matches!(directory.release(&front), Err(ReleaseError::Waits(_))), "{nth}");
            directory.abandon(&batches[*given_up]).unwrap();
        }
        assert_eq!(current(&directory, &[1]), BTreeMap::from([(1, (1, true))]), "{order:?}");
        assert!(matches!(directory.release(&front), Err(ReleaseError::Dirty(0))));
    }
}

#[test]
fn what_is_older_than_the_slow_store_does_not_come_back() {
    // Staged clean, or clean since; with a still newer version between or not.
    for (staged_clean, newer) in [(true, false), (false, false), (true, true)] {
        let (_, directory) = Place::new(8, 1);
        write(&directory, &[version(1, 1)]);
        let clean = directory.reserve().unwrap();
        directory.stage(&clean, Version { dirty: !staged_clean, ..version(1, 2) }).unwrap();
        if !staged_clean {
            directory.mark_clean(&directory.peek(1).unwrap());
        }
        if newer {
            let newer = directory.reserve().unwrap();
            directory.stage(&newer, version(1, 3)).unwrap();
            directory.abandon(&clean).unwrap();
            assert_eq!(current(&directory, &[1]), BTreeMap::from([(1, (3, true))]));
            directory.abandon(&newer).unwrap();
        } else {
            directory.abandon(&clean).unwrap();
        }
        // Version 1 would be read, and written over version 2 in the slow store.
        assert_eq!(directory.peek(1), None);
        directory.audit().unwrap();
        let front = directory.take_front().unwrap();
        assert_eq!(directory.fates(&front, Replacement::Basic), []);
        directory.release(&front).unwrap();
    }
}

#[test]
fn what_came_back_goes_when_the_slow_store_is_said_to_be_newer() {
    let (_, directory) = Place::new(8, 1);
    write(&directory, &[version(1, 1)]);
    let lost = [2, 3].map(|lsn| {
        let batch = directory.reserve().unwrap();
        directory.stage(&batch, version(1, lsn)).unwrap();
        (batch, directory.peek(1).unwrap())
    });
    lost.iter().for_each(|(batch, _)| directory.abandon(batch).unwrap());
    assert_eq!(current(&directory, &[1]), BTreeMap::from([(1, (1, true))]));
    assert!(directory.mark_clean(&lost[1].1));
    assert_eq!(directory.peek(1), None);
    // A page that is made anew is another one, whatever its LSN.
    write(&directory, &[version(1, 1)]);
    assert!(directory.mark_clean(&lost[0].1));
    assert_eq!(current(&directory, &[1]), BTreeMap::from([(1, (1, true))]));
    directory.audit().unwrap();
}

#[test]
fn what_was_forgotten_does_not_come_back() {
    let (_, directory) = Place::new(8, 2);
    write(&directory, &[version(1, 1)]);
    let batch = directory.reserve().unwrap();
    directory.stage(&batch, version(1, 2)).unwrap();
    assert_eq!(directory.forget(1).map(|entry| entry.lsn), Some(2));
    assert_eq!(directory.forget(1), None);
    directory.abandon(&batch).unwrap();
    assert_eq!(directory.peek(1), None);
    // A page of the same number may come again, with any LSN.
    write(&directory, &[version(1, 1)]);
    assert_eq!(directory.audit().unwrap().pages, 1);
}

#[test]
fn the_batches_of_the_dead_are_adopted() {
    let (place, directory) = Place::new(8, 2);
    let other = place.attach(2);
    write(&directory, &[version(1, 1)]);
    let batch = other.reserve().unwrap();
    other.stage(&batch, version(1, 2)).unwrap();
    assert_eq!(directory.adopt(), None);
    assert_eq!(directory.close(&batch), Err(BatchError::NotYours(1)));
    assert_eq!(directory.stage(&batch, version(2, 1)), Err(StageError::Closed));
    place.living.dies(2);
    assert_eq!(directory.adopt(), Some(batch));
    assert_eq!(directory.adopt(), None);
    assert_eq!(other.publish(&batch), Err(BatchError::NotYours(1)));
    directory.stage(&batch, version(2, 1)).unwrap();
    directory.close(&batch).unwrap();
    directory.publish(&batch).unwrap();
    assert_eq!(current(&directory, &[1, 2]), BTreeMap::from([(1, (2, true)), (2, (1, true))]));
}

#[test]
fn a_ring_that_is_restored_is_the_one_that_was_stored() {
    let (place, directory) = Place::new(16, 4);
    for lsn in 1..12 {
        if directory.free_batches() == 0 {
            let front = directory.take_front().unwrap();
            for (entry, _) in directory.fates(&front, Replacement::Basic) {
                directory.mark_clean(&entry);
            }
            directory.release(&front).unwrap();
        }
        write(&directory, &[version(lsn % 5, lsn), version(7 + lsn % 3, lsn)]);
    }
    directory.lookup(8);
    directory.forget(9);
    let pages: Vec<u64> = (0..12).collect();
    let ring = directory.ring();
    let stored: Vec<Vec<Option<Found>>> = ring
        .clone()
        .map(|seq| {
            let mut slots = vec![None; 4];
            for entry in directory.entries_of(seq).filter(|entry| entry.page != 9) {
                let version = Version { dirty: entry.dirty, ..version(entry.page, entry.lsn) };
                let referenced = entry.referenced;
                slots[(entry.frame % 4) as usize] = Some(Found { version, referenced });
            }
            slots
        })
        .collect();
    let shape = directory.shape();
    let region = super::super::Region::owned(shape.bytes_needed().unwrap());
    let owner = super::super::Owner::new(1).unwrap();
    let again =
        super::super::Directory::format(region, shape, ring.start, owner, place.living).unwrap();
    for batch in &stored {
        again.restore(batch).unwrap();
    }
    assert_eq!(again.restore(&[]), Err(ReserveError::Full));
    for page in &pages {
        assert_eq!(again.peek(*page), directory.peek(*page), "page {page}");
    }
    assert_eq!(again.ring(), ring);
    again.audit().unwrap();
}
