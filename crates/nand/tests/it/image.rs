//! Snapshots, and arrays that continue from them.

use crate::common::*;
use tantalum_device::{Data, Payload};
use tantalum_nand::{Activity, Image, NandArray, PageState, Unit};
use tantalum_rt::Nanos;

const U: Unit = Unit(0);
const START: u64 = ROW_MOVE;
const END: u64 = START + TPROG;

/// A snapshot at `at` of an array on which `prepare` issued operations at time zero.
fn image(at: u64, prepare: fn(&NandArray)) -> Image {
    run(1, move |rt| async move {
        let a = array(&rt, Payload::Stamps);
        prepare(&a);
        rt.sleep_until(Nanos(at)).await;
        a.snapshot()
    })
}

/// An array that continues from `image`, `later` after the beginning of its own run.
fn go_on<T: 'static, F: Future<Output = T> + 'static>(
    seed: u64,
    image: &Image,
    later: u64,
    then: impl FnOnce(tantalum_rt::Rt, NandArray) -> F + 'static,
) -> T {
    let image = image.clone();
    run(seed, move |rt| async move {
        rt.sleep(Nanos(later)).await;
        let a = NandArray::from_image(&rt, &image);
        then(rt, a).await
    })
}

#[test]
fn neither_side_sees_what_the_other_does_later() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        put(&a, page(U, 0), 2, 1);
        put(&a, page(Unit(1), 0), 2, 2);
        rt.sleep_until(Nanos(10 * END)).await;
        let image = a.snapshot();
        let was = all(&a);
        put(&a, page(U, 2), 2, 3);
        a.corrupt(page(U, 0));
        wipe(&a, Unit(1));
        put(&a, page(Unit(1), 0), 2, 4);
        let b = NandArray::from_image(&rt, &image);
        assert_eq!(all(&b), was);
        assert_eq!(b.erase_count(Unit(1)), 0);
        assert_eq!((b.geometry(), b.timing()), (a.geometry(), a.timing()));
        assert_eq!((b.payload(), b.oob_words()), (a.payload(), a.oob_words()));
        put(&b, page(U, 2), 2, 5);
        wipe(&b, Unit(1));
        assert_holds(&a, page(U, 2), 3, 0);
        assert_holds(&a, page(Unit(1), 0), 4, 0);
        assert_eq!(all(&NandArray::from_image(&rt, &image)), was);
    });
}

#[test]
fn operations_in_flight_go_on() {
    for later in [0, 12_345] {
        let image = image(START + 300, |a| {
            put(a, page(U, 0), 2, 1);
            wipe(a, Unit(1));
        });
        go_on(1, &image, later, move |rt, a| async move {
            let Activity { programs, erases, reads, .. } = a.activity();
            assert_eq!((programs, erases, reads), (1, 0, 0));
            // The die is busy for as long as it was: the next erase waits.
            a.erase(Unit(2)).unwrap().await.unwrap();
            assert_eq!(rt.now().0, later + END - (START + 300) + 2 * TBERS);
            a.power_off();
            a.power_on();
            assert_holds(&a, page(U, 1), 1, 1);
            assert_eq!(a.erase_count(Unit(1)), 1);
        });
    }
}

/// The state of the first page after an immediate cut, by seed.
fn cut_at_once(image: &Image, later: u64) -> Vec<PageState> {
    let one = |seed| {
        go_on(seed, image, later, |_, a| async move {
            a.power_off();
            a.power_on();
            let state = state(&a, page(U, 0));
            if state == PageState::Programmed {
                assert_holds(&a, page(U, 0), 1, 0);
            }
            state
        })
    };
    (0..32).map(one).collect()
}

#[test]
fn operations_that_had_begun_tear_at_an_immediate_cut() {
    for later in [0, 999] {
        for at in [START + 1, START + TPROG / 2, END - 1] {
            let image = image(at, |a| put(a, page(U, 0), 2, 1));
            let seen = cut_at_once(&image, later);
            assert!(seen.contains(&PageState::Uncorrectable), "at {at}");
            assert!(seen.contains(&PageState::Programmed), "at {at}");
            assert!(!seen.contains(&PageState::Erased), "at {at}");
        }
        let image = image(1, |a| wipe(a, U));
        assert!(cut_at_once(&image, later).iter().all(|s| *s == PageState::Uncorrectable));
    }
}

#[test]
fn operations_that_had_not_begun_have_never_been_and_ended_ones_stay() {
    for later in [0, 999] {
        for at in [0, START - 1, START] {
            let image = image(at, |a| put(a, page(U, 0), 2, 1));
            assert!(cut_at_once(&image, later).iter().all(|s| *s == PageState::Erased), "at {at}");
        }
        for at in [END, END + 1, 5 * END] {
            let image = image(at, |a| put(a, page(U, 0), 2, 1));
            let seen = cut_at_once(&image, later);
            assert!(seen.iter().all(|s| *s == PageState::Programmed), "at {at}");
        }
    }
}

#[test]
fn an_image_of_an_image_remembers_what_had_begun() {
    let first = image(START + 1, |a| put(a, page(U, 0), 2, 1));
    let second = go_on(1, &first, 0, |_, a| async move { a.snapshot() });
    assert!(!cut_at_once(&second, 0).contains(&PageState::Erased));
}

#[test]
fn the_channel_and_reads_go_on_too() {
    // A program on die 2 waits for the transfer of one on die 0. In the snapshot the channel is
    // busy for as long.
    let busy = image(1, |a| put(a, page(unit_of(0), 0), 2, 1));
    go_on(1, &busy, 0, |rt, a| async move {
        let end = a.program(page(unit_of(2), 0), Data::Stamps(&stamps(2, 2)), &oob(2, 2)).unwrap();
        end.await.unwrap();
        assert_eq!(rt.now().0, ROW_MOVE - 1 + ROW_MOVE + TPROG);
    });
    // A read keeps its die, and later the channel, though no task awaits it.
    let image = image(100, |a| drop(look(a, page(unit_of(0), 0))));
    go_on(1, &image, 0, |rt, a| async move {
        assert_eq!(a.activity().reads, 1);
        rt.sleep_until(Nanos(TR - 100)).await;
        assert_eq!(a.activity().reads, 0);
        let end = a.program(page(unit_of(2), 0), Data::Stamps(&stamps(2, 2)), &oob(2, 2)).unwrap();
        end.await.unwrap();
        let read_move = 100 + (8192 + 64) * 10;
        assert_eq!(rt.now().0, TR - 100 + read_move + ROW_MOVE + TPROG);
    });
    // A transfer under way continues for the rest of its time.
    let moving = run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        drop(look(&a, page(unit_of(0), 0)));
        rt.sleep_until(Nanos(TR + 50)).await;
        a.snapshot()
    });
    go_on(1, &moving, 0, |rt, a| async move {
        let end = a.program(page(unit_of(2), 0), Data::Stamps(&stamps(2, 2)), &oob(2, 2)).unwrap();
        end.await.unwrap();
        assert_eq!(rt.now().0, PAGE_MOVE - 50 + ROW_MOVE + TPROG);
    });
    // A snapshot disturbs no read under way.
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let (rt2, a2) = (rt.clone(), a.clone());
        let read = rt.spawn("a read", async move { timed_read(&rt2, &a2, page(U, 0), 2).await });
        for at in [0, TR / 2, TR, TR + 50] {
            rt.sleep_until(Nanos(at)).await;
            drop(NandArray::from_image(&rt, &a.snapshot()));
        }
        assert_eq!(read.await, Ok(Nanos(TR + 100 + 8192 * 10)));
    });
}

#[test]
fn the_image_and_the_original_come_to_the_same() {
    let prepare: fn(&NandArray) = |a| {
        for die in 0..4 {
            for row in 0..3 {
                put(a, page(unit_of(die), row * 2), 2, u64::from(die * 10 + row));
            }
            wipe(a, Unit(unit_of(die).0 + 1));
        }
    };
    // The cut comes at 2.5 programs. Snapshots were taken at various moments before.
    let cut = ROW_MOVE + 2 * TPROG + TPROG / 2;
    let original = run(9, move |rt| async move {
        let a = array(&rt, Payload::Stamps);
        prepare(&a);
        rt.sleep_until(Nanos(cut)).await;
        a.power_off();
        a.power_on();
        all(&a)
    });
    for at in [0, 1, ROW_MOVE, ROW_MOVE + 1, END, END + TPROG / 3, cut - 1, cut] {
        let image = image(at, prepare);
        let went_on = go_on(9, &image, 0, move |rt, a| async move {
            rt.sleep_until(Nanos(cut - at)).await;
            a.power_off();
            a.power_on();
            all(&a)
        });
        assert!(went_on == original, "an image of {at} comes to something else");
    }
}
