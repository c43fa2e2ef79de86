//! An owner dies before each single store of each call: others see the call as done or not done,
//! wait for nothing, and find everything whole. Those who mend die before each of their stores, too.

use super::super::sys::death;
use super::super::{Batch, Directory, Front, Replacement, Version};
use super::{Place, current, of_one_chain, version, write};
use std::collections::BTreeMap;

type Current = BTreeMap<u64, (u64, bool)>;

/// A call of an owner that will die in it.
struct Call {
    name: &'static str,
    work: fn(&Scene),
}

/// A directory in the middle of its work: pages of one chain, some of them replaced; a batch of
/// owner 2 in which some are newer; the front batch, which owner 2 replaces.
struct Scene {
    place: Place,
    first: Directory,
    mortal: Directory,
    pages: Vec<u64>,
    batch: Batch,
    front: Front,
}

fn scene() -> Scene {
    let (place, first) = Place::new(12, 3);
    let pages = of_one_chain(&first, 6);
    let clean = |page, lsn| Version { dirty: false, ..version(page, lsn) };
    write(&first, &[version(pages[0], 1), clean(pages[1], 1), clean(pages[2], 1)]);
    write(&first, &[version(pages[3], 1), version(pages[0], 2)]);
    first.lookup(pages[1]);
    let mortal = place.attach(2);
    let batch = mortal.reserve().unwrap();
    mortal.stage(&batch, version(pages[3], 2)).unwrap();
    let front = mortal.take_front().unwrap();
    Scene { place, first, mortal, pages, batch, front }
}

const CALLS: &[Call] = &[
    Call {
        name: "stage a new page",
        work: |s| {
            s.mortal.stage(&s.batch, version(s.pages[4], 9)).unwrap();
        },
    },
    Call {
        name: "stage the first page of a chain",
        work: |s| {
            s.mortal.stage(&s.batch, version(s.pages[3], 9)).unwrap();
        },
    },
    Call {
        name: "stage the last page of a chain",
        work: |s| {
            s.mortal.stage(&s.batch, version(s.pages[1], 9)).unwrap();
        },
    },
    Call {
        name: "second chance",
        work: |s| {
            let (entry, _) = s.mortal.fates(&s.front, Replacement::SecondChance)[0];
            assert!(s.mortal.stage_again(&s.batch, &entry).unwrap().is_some());
        },
    },
    Call {
        name: "forget the first",
        work: |s| {
            s.mortal.forget(s.pages[3]).unwrap();
        },
    },
    Call {
        name: "forget the last",
        work: |s| {
            s.mortal.forget(s.pages[1]).unwrap();
        },
    },
    Call {
        name: "mark clean",
        work: |s| {
            assert!(s.mortal.mark_clean(&s.mortal.peek(s.pages[0]).unwrap()));
        },
    },
    Call {
        name: "look up",
        work: |s| {
            s.mortal.lookup(s.pages[0]).unwrap();
        },
    },
    Call {
        name: "leave the front, and take it again",
        work: |s| {
            s.mortal.leave(&s.front);
            s.mortal.take_front().unwrap();
        },
    },
    Call {
        name: "reserve",
        work: |s| {
            s.mortal.reserve().unwrap();
        },
    },
    Call { name: "close", work: |s| s.mortal.close(&s.batch).unwrap() },
];

/// Calls whose effect is seen in parts: each part is as if done or not.
const IN_PARTS: &[Call] = &[
    Call {
        name: "close and publish",
        work: |s| {
            s.mortal.close(&s.batch).unwrap();
            s.mortal.publish(&s.batch).unwrap();
        },
    },
    Call { name: "abandon", work: |s| s.mortal.abandon(&s.batch).unwrap() },
    Call { name: "release the front", work: |s| s.mortal.release(&s.front).unwrap() },
    Call {
        name: "stage twice and abandon",
        work: |s| {
            s.mortal.stage(&s.batch, version(s.pages[1], 9)).unwrap();
            s.mortal.stage(&s.batch, version(s.pages[3], 9)).unwrap();
            s.mortal.abandon(&s.batch).unwrap();
        },
    },
];

/// Runs a call until it dies before its store number `stores`; whether it died.
fn dies(scene: &Scene, call: &Call, stores: u64) -> bool {
    let died = death::after(stores, || (call.work)(scene)).is_none();
    if died {
        scene.place.living.dies(2);
    }
    died
}

fn before_and_after(call: &Call) -> (Current, Current) {
    let scene = scene();
    let before = current(&scene.first, &scene.pages);
    (call.work)(&scene);
    (before, current(&scene.first, &scene.pages))
}

/// All that one can do to bring a ring of the dead back to order, and to use it.
pub(super) fn goes_on(directory: &Directory, pages: &[u64]) {
    while let Some(batch) = directory.adopt() {
        directory.abandon(&batch).unwrap();
    }
    for round in 0..9 {
        while directory.free_batches() < 2 {
            let front = directory.take_front().unwrap();
            for (entry, _) in directory.fates(&front, Replacement::Basic) {
                directory.mark_clean(&entry);
            }
            directory.release(&front).unwrap();
        }
        let page = |i: usize| version(pages[(round + i) % pages.len()], 100 + round as u64);
        write(directory, &[page(0), page(1), page(2)]);
        directory.forget(pages[round % pages.len()]);
        directory.audit().unwrap();
    }
}

#[test]
fn a_call_is_done_or_not_done() {
    for call in CALLS {
        let (before, after) = before_and_after(call);
        for stores in 0.. {
            let scene = scene();
            let died = dies(&scene, call, stores);
            let found = current(&scene.first, &scene.pages);
            let what = format!("{} died before store {stores}", call.name);
            assert!(found == before || found == after, "{what}: {found:?}, {before:?}, {after:?}");
            // Breaking its locks and mending changes nothing of that.
            scene.first.audit().map_err(|e| format!("{what}: {e}")).unwrap();
            assert_eq!(current(&scene.first, &scene.pages), found, "{what}");
            if died {
                // The batch was not durable.
                let at_work = scene.first.adopt().unwrap();
                scene.first.abandon(&at_work).unwrap();
                while let Some(at_work) = scene.first.adopt() {
                    scene.first.abandon(&at_work).unwrap();
                }
                let back = current(&scene.first, &scene.pages);
                for (page, (lsn, _)) in &back {
                    assert!(*lsn < 9 && (*page != scene.pages[3] || *lsn == 1), "{what}: {back:?}");
                }
                goes_on(&scene.first, &scene.pages);
            } else {
                assert!(stores > 0, "{} stores nothing", call.name);
                break;
            }
        }
    }
}

#[test]
fn a_call_of_many_parts_is_ended_by_the_next_owner() {
    for call in IN_PARTS {
        let (before, after) = before_and_after(call);
        for stores in 0.. {
            let scene = scene();
            let died = dies(&scene, call, stores);
            for (page, version) in current(&scene.first, &scene.pages) {
                let at = |of: &Current| of.get(&page) == Some(&version) || version.0 == 9;
                assert!(at(&before) || at(&after), "{}: page {page} {version:?}", call.name);
            }
            scene.first.audit().map_err(|e| format!("{} {stores}: {e}", call.name)).unwrap();
            scene.place.living.dies(2);
            goes_on(&scene.first, &scene.pages);
            if !died {
                break;
            }
        }
    }
}

#[test]
fn whoever_mends_may_die_as_well() {
    for call in CALLS.iter().chain(IN_PARTS) {
        for stores in 0.. {
            if !dies(&scene(), call, stores) {
                break;
            }
            for mended in 0.. {
                let scene = scene();
                dies(&scene, call, stores);
                let found = current(&scene.first, &scene.pages);
                let mender = scene.place.attach(3);
                let lived = death::after(mended, || mender.audit().unwrap()).is_some();
                scene.place.living.dies(3);
                assert_eq!(current(&scene.first, &scene.pages), found, "{} {stores}", call.name);
                scene.first.audit().unwrap();
                assert_eq!(current(&scene.first, &scene.pages), found, "{} {stores}", call.name);
                goes_on(&scene.first, &scene.pages);
                if lived {
                    break;
                }
            }
        }
    }
}

/// Owner 2 dies; owner 3 abandons its batch, and dies before its store number `stores`, or after it
/// is through; owner 1 ends what is left. Whether owner 3 got through.
fn an_heir_abandons(scene: &Scene, stores: u64) -> bool {
    scene.place.living.dies(2);
    let heir = scene.place.attach(3);
    let lived = death::after(stores, || {
        let batch = heir.adopt().unwrap();
        heir.abandon(&batch).unwrap();
    });
    scene.place.living.dies(3);
    while let Some(batch) = scene.first.adopt() {
        scene.first.abandon(&batch).unwrap();
    }
    lived.is_some()
}

#[test]
fn whoever_abandons_for_the_dead_may_die_as_well() {
    for stores in 0.. {
        let scene = scene();
        scene.mortal.stage(&scene.batch, version(scene.pages[0], 9)).unwrap();
        scene.mortal.stage(&scene.batch, version(scene.pages[1], 9)).unwrap();
        let lived = an_heir_abandons(&scene, stores);
        let lsns: Vec<u64> = current(&scene.first, &scene.pages).values().map(|v| v.0).collect();
        assert_eq!(lsns, [2, 1, 1, 1], "{stores}");
        goes_on(&scene.first, &scene.pages);
        if lived {
            break;
        }
    }
}

#[test]
fn whoever_abandons_below_a_newer_version_may_die_as_well() {
    for stores in 0.. {
        let scene = scene();
        scene.mortal.stage(&scene.batch, version(scene.pages[0], 9)).unwrap();
        let newer = scene.first.reserve().unwrap();
        scene.first.stage(&newer, version(scene.pages[0], 10)).unwrap();
        scene.first.stage(&newer, version(scene.pages[3], 10)).unwrap();
        let lived = an_heir_abandons(&scene, stores);
        let lsns =
            || -> Vec<u64> { current(&scene.first, &scene.pages).values().map(|v| v.0).collect() };
        assert_eq!(lsns(), [10, 1, 1, 10], "{stores}");
        // What the newer ones may go back to stays, whoever has released what before.
        let front = scene.first.take_front().unwrap();
        for (entry, _) in scene.first.fates(&front, Replacement::Basic) {
            scene.first.mark_clean(&entry);
        }
        scene.first.release(&front).unwrap();
        let front = scene.first.take_front().unwrap();
        assert!(scene.first.release(&front).is_err(), "{stores}");
        scene.first.leave(&front);
        scene.first.abandon(&newer).unwrap();
        assert_eq!(lsns(), [2, 1], "{stores}");
        goes_on(&scene.first, &scene.pages);
        if lived {
            break;
        }
    }
}
