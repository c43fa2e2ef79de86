//! Two owners are in a call at the same time. The first is interrupted before each of its loads and
//! stores, and the second before each of its stores; then the first goes on to its end. What comes of
//! it is what comes of one call after the other, everything is whole, and each frame can be used again.

use super::super::{Batch, Directory, Front, Replacement, Version};
use super::killed::goes_on;
use super::{Place, current, of_one_chain, turns, version, write};
use std::collections::BTreeMap;

/// Two owners, each with a batch at work. The front batch is replaced by the first one.
struct Scene {
    /// Of the first and of the second.
    owners: [Owner; 2],
    pages: Vec<u64>,
    front: Front,
    place: Place,
}

struct Owner {
    directory: Directory,
    batch: Batch,
}

/// With `replaced` the second's batch has a newer version of a page of the front.
fn scene(replaced: bool) -> Scene {
    let (place, first) = Place::new(15, 3);
    let pages = of_one_chain(&first, 8);
    let clean = |page, lsn| Version { dirty: false, ..version(page, lsn) };
    write(&first, &[clean(pages[0], 1), clean(pages[1], 1), clean(pages[2], 1)]);
    write(&first, &[version(pages[3], 1), version(pages[4], 1)]);
    first.lookup(pages[1]);
    let owners = [first, place.attach(2)].map(|directory| {
        let batch = directory.reserve().unwrap();
        Owner { directory, batch }
    });
    owners[0].directory.stage(&owners[0].batch, version(pages[3], 2)).unwrap();
    owners[1].directory.stage(&owners[1].batch, version(pages[4], 2)).unwrap();
    if replaced {
        owners[1].directory.stage(&owners[1].batch, version(pages[0], 2)).unwrap();
    }
    let front = owners[0].directory.take_front().unwrap();
    Scene { owners, pages, front, place }
}

/// A call, as the owner of this number makes it; what it returned.
struct Call {
    name: &'static str,
    work: fn(&Scene, usize) -> String,
    /// Whether it does one thing after the other, and the second call may come between them.
    in_parts: bool,
}

const fn call(name: &'static str, work: fn(&Scene, usize) -> String) -> Call {
    Call { name, work, in_parts: false }
}

const fn in_parts(name: &'static str, work: fn(&Scene, usize) -> String) -> Call {
    Call { name, work, in_parts: true }
}

fn stage(scene: &Scene, owner: usize, page: usize, lsn: u64) -> String {
    let Owner { directory, batch } = &scene.owners[owner];
    let staged = directory.stage(batch, version(scene.pages[page], lsn));
    format!("{:?}", staged.map(|staged| staged.older))
}

fn forget(scene: &Scene, owner: usize, page: usize) -> String {
    let forgotten = scene.owners[owner].directory.forget(scene.pages[page]);
    format!("{:?}", forgotten.map(|entry| (entry.page, entry.lsn)))
}

/// Any owner makes them.
const CALLS: &[Call] = &[
    call("stage a new page", |s, owner| stage(s, owner, 5, 9 + owner as u64)),
    call("stage a page of the front", |s, owner| stage(s, owner, 2, 9)),
    call("stage a page of the first's batch", |s, owner| stage(s, owner, 3, 9)),
    call("forget a page of the front", |s, owner| forget(s, owner, 2)),
    call("forget a page of the first's batch", |s, owner| forget(s, owner, 3)),
    call("look up", |s, owner| {
        let found = s.owners[owner].directory.lookup(s.pages[2]);
        format!("{:?}", found.map(|entry| entry.lsn))
    }),
    call("mark clean", |s, owner| {
        let directory = &s.owners[owner].directory;
        let entry = directory.peek(s.pages[3]);
        format!("{}", entry.is_some_and(|entry| directory.mark_clean(&entry)))
    }),
    call("reserve", |s, owner| format!("{}", s.owners[owner].directory.reserve().is_ok())),
    in_parts("close and publish", |s, owner| {
        let Owner { directory, batch } = &s.owners[owner];
        directory.close(batch).unwrap();
        format!("{:?}", directory.publish(batch))
    }),
    in_parts("abandon", |s, owner| {
        let Owner { directory, batch } = &s.owners[owner];
        format!("{:?}", directory.abandon(batch))
    }),
];

/// Only the first one makes them.
const OF_THE_FRONT: &[Call] = &[
    call("second chance", |s, owner| {
        let Owner { directory, batch } = &s.owners[owner];
        let fates = directory.fates(&s.front, Replacement::SecondChance);
        let (entry, _) = fates.iter().find(|(entry, _)| entry.page == s.pages[1]).unwrap();
        format!("{:?}", directory.stage_again(batch, entry).map(|staged| staged.is_some()))
    }),
    in_parts("release", |s, owner| {
        let Owner { directory, .. } = &s.owners[owner];
        let released = directory.release(&s.front).is_ok();
        // The frames take other pages at once, whatever is still under way.
        while let (true, Ok(batch)) = (released, directory.reserve()) {
            for page in [5, 6, 7] {
                directory.stage(&batch, version(s.pages[page], 20)).unwrap();
            }
        }
        format!("{released}")
    }),
];

/// What two calls returned, and what is current then.
type Outcome = (String, String, BTreeMap<u64, (u64, bool)>);

/// Makes both calls, with turns of these lengths; `begins` has the first turn. How many of them were
/// ended by their length.
fn both(replaced: bool, calls: [&Call; 2], begins: usize, lengths: &[u64]) -> (Outcome, usize) {
    let scene = scene(replaced);
    let call = |which: usize| (calls[which].work)(&scene, which);
    let (one, other, full) = turns::run(lengths, || call(begins), || call(1 - begins));
    let (first, second) = if begins == 0 { (one, other) } else { (other, one) };
    let heir = scene.place.attach(3);
    let audit = heir.audit();
    assert!(audit.is_ok(), "{}, {}, {lengths:?}: {audit:?}", calls[0].name, calls[1].name);
    let outcome = (first, second, current(&heir, &scene.pages));
    scene.place.living.dies(1);
    scene.place.living.dies(2);
    goes_on(&heir, &scene.pages);
    (outcome, full)
}

/// Whether one of the outcomes is the one that was found. Calls that do one thing after the other must
/// at least return what they return there, and each page must be as it is in one of them.
fn is_among(found: &Outcome, outcomes: &[Outcome; 2], in_parts: bool, pages: &[u64]) -> bool {
    let has = |same: &dyn Fn(&Outcome) -> bool| outcomes.iter().any(same);
    let (first, second, current) = found;
    outcomes.contains(found)
        || in_parts
            && has(&|one| one.0 == *first)
            && has(&|one| one.1 == *second)
            && pages.iter().all(|page| has(&|one| one.2.get(page) == current.get(page)))
}

/// Both calls in all their turns.
fn in_turns(replaced: bool, first: &Call, second: &Call) {
    let (pages, calls) = (scene(replaced).pages, [first, second]);
    let in_parts = first.in_parts || second.in_parts;
    let serial = [0, 1].map(|begins| both(replaced, calls, begins, &[]).0);
    for begins in [0, 1] {
        let at = |before, meanwhile| {
            let (found, full) = both(replaced, calls, begins, &[before, meanwhile]);
            assert!(
                is_among(&found, &serial, in_parts, &pages),
                "{}, {}, {begins} for {before}, then {meanwhile}: {found:?}, not {serial:?}",
                first.name,
                second.name,
            );
            full
        };
        let most = |before| (0..).map(|meanwhile| at(before, meanwhile)).find(|n| *n < 2);
        let _ = (0..).map(most).find(|full| *full < Some(1));
    }
}

#[test]
fn two_calls_are_as_one_after_the_other() {
    for first in CALLS.iter().chain(OF_THE_FRONT) {
        for second in CALLS {
            in_turns(false, first, second);
        }
    }
}

#[test]
fn what_replaces_the_front_is_ended_while_it_is_released() {
    for second in CALLS.iter().filter(|call| call.in_parts) {
        in_turns(true, &OF_THE_FRONT[1], second);
    }
}
