//! What a power loss does to operations in flight (invariant 5).

use crate::common::*;
use tantalum_device::{Data, Payload};
use tantalum_nand::{NandArray, OpError, PageState, Unit};
use tantalum_rt::{Nanos, Rt};

/// Cuts the power at `at` and restores it at once.
async fn blink(rt: &Rt, a: &NandArray, at: u64) {
    rt.sleep_until(Nanos(at)).await;
    a.power_off();
    a.power_on();
}

/// Lets `prepare` issue operations at time zero, and cuts the power at `at`.
fn cut<T: 'static>(
    seed: u64,
    at: u64,
    prepare: fn(&NandArray),
    check: impl FnOnce(&NandArray) -> T + 'static,
) -> T {
    run(seed, move |rt| async move {
        let a = array(&rt, Payload::Stamps);
        prepare(&a);
        blink(&rt, &a, at).await;
        check(&a)
    })
}

const U: Unit = Unit(0);
const START: u64 = ROW_MOVE;
const END: u64 = START + TPROG;

#[test]
fn i5_a_program_that_has_not_begun_has_never_been() {
    for at in [0, 1, START / 2, START - 1, START] {
        cut(
            3,
            at,
            |a| put(a, page(U, 0), 2, 1),
            move |a| {
                assert_erased(a, page(U, 0));
                assert_erased(a, page(U, 1));
                put(a, page(U, 0), 1, 2);
                put(a, page(U, 1), 1, 3);
                assert_holds(a, page(U, 0), 2, 0);
                assert_holds(a, page(U, 1), 3, 0);
            },
        );
    }
}

#[test]
fn i5_a_program_that_has_ended_stays() {
    for at in [END, END + 1, 10 * END] {
        cut(
            3,
            at,
            |a| put(a, page(U, 0), 2, 1),
            |a| {
                assert_holds(a, page(U, 0), 1, 0);
                assert_holds(a, page(U, 1), 1, 1);
                put(a, page(U, 2), 2, 2);
            },
        );
    }
}

#[test]
fn i5_each_page_of_a_program_in_between_is_torn_or_complete_by_the_seed() {
    for at in [START + 1, START + TPROG / 2, END - 1] {
        let outcome = |seed| {
            cut(
                seed,
                at,
                |a| {
                    put(a, page(U, 0), 2, 1);
                },
                |a| {
                    let states = [0, 1].map(|p| state(a, page(U, p)));
                    for (p, s) in states.iter().enumerate() {
                        match s {
                            PageState::Programmed => assert_holds(a, page(U, p as u32), 1, p),
                            PageState::Uncorrectable => assert_unreadable(a, page(U, p as u32)),
                            PageState::Erased => panic!("a program that had begun left no trace"),
                        }
                    }
                    // Torn or not, a page is not programmed twice. The next one follows.
                    let again =
                        a.program(page(U, 0), Data::Stamps(&stamps(2, 1)), &oob(2, 1)).map(drop);
                    assert!(matches!(again, Err(OpError::Rule { .. })));
                    put(a, page(U, 2), 2, 3);
                    assert_holds(a, page(U, 2), 3, 0);
                    states.map(|s| s == PageState::Uncorrectable)
                },
            )
        };
        let seen: Vec<[bool; 2]> = (0..64).map(outcome).collect();
        for want in [[false, false], [false, true], [true, false], [true, true]] {
            assert!(seen.contains(&want), "never {want:?} at {at}");
        }
        assert_eq!(seen, (0..64).map(outcome).collect::<Vec<_>>(), "the seed decides");
    }
}

#[test]
fn i5_an_erase_that_has_not_begun_keeps_the_old_content() {
    cut(
        3,
        END + TPROG / 2,
        |a| {
            // The unit's content, and a program that keeps the die busy.
            put(a, page(U, 0), 2, 1);
            put(a, page(Unit(1), 0), 2, 9);
            wipe(a, U);
            put(a, page(U, 0), 2, 2);
            wipe(a, U);
        },
        |a| {
            assert_holds(a, page(U, 0), 1, 0);
            assert_holds(a, page(U, 1), 1, 1);
            assert_eq!(a.erase_count(U), 0);
            put(a, page(U, 2), 2, 3);
            assert_holds(a, page(U, 3), 3, 1);
        },
    );
}

#[test]
fn i5_an_erase_at_its_start_its_end_and_in_between() {
    let at = |at, check: fn(&NandArray)| {
        run(3, move |rt| async move {
            let a = array(&rt, Payload::Stamps);
            put(&a, page(U, 0), 2, 1);
            rt.sleep_until(Nanos(10 * END)).await;
            wipe(&a, U);
            blink(&rt, &a, 10 * END + at).await;
            check(&a);
        });
    };
    at(0, |a| {
        assert_holds(a, page(U, 1), 1, 1);
        assert_eq!(a.erase_count(U), 0);
    });
    for moment in [1, TBERS / 2, TBERS - 1] {
        at(moment, |a| {
            for p in 0..8 {
                assert_unreadable(a, page(U, p));
                let refused = a.program(page(U, p), Data::Stamps(&stamps(2, 1)), &oob(2, 1));
                assert!(matches!(refused.map(drop), Err(OpError::Rule { .. })));
            }
            assert_eq!(a.erase_count(U), 1, "the wear is there");
            assert_erased(a, page(Unit(1), 0));
            wipe(a, U);
            assert_erased(a, page(U, 0));
            put(a, page(U, 0), 2, 2);
            assert_holds(a, page(U, 1), 2, 1);
        });
    }
    for moment in [TBERS, TBERS + 1] {
        at(moment, |a| {
            assert_erased(a, page(U, 0));
            assert_eq!(a.erase_count(U), 1);
            put(a, page(U, 0), 2, 2);
        });
    }
}

#[test]
fn i5_a_half_erased_unit_stays_so_if_the_next_erase_never_begins() {
    run(3, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        wipe(&a, U);
        blink(&rt, &a, TBERS / 2).await;
        assert_unreadable(&a, page(U, 0));
        let begin = rt.now().0 + 10 * END;
        rt.sleep_until(Nanos(begin)).await;
        wipe(&a, U);
        assert_erased(&a, page(U, 0));
        blink(&rt, &a, begin).await;
        assert_unreadable(&a, page(U, 0));
        assert_eq!(a.erase_count(U), 1);
    });
}

#[test]
fn i5_operations_queued_on_one_die_end_each_in_its_own_way() {
    // Four programs and an erase of another unit, one after the other on die 0.
    let prepare: fn(&NandArray) = |a| {
        put(a, page(U, 0), 1, 1);
        put(a, page(U, 1), 1, 2);
        put(a, page(U, 2), 1, 3);
        wipe(a, Unit(1));
        put(a, page(Unit(1), 0), 1, 4);
    };
    // During the third program.
    cut(3, PAGE_MOVE + 2 * TPROG + 5, prepare, |a| {
        assert_holds(a, page(U, 0), 1, 0);
        assert_holds(a, page(U, 1), 2, 0);
        assert_ne!(state(a, page(U, 2)), PageState::Erased);
        assert_eq!(a.erase_count(Unit(1)), 0);
        assert_erased(a, page(Unit(1), 0));
    });
    // Between the second and the third, exactly at end and start.
    cut(3, PAGE_MOVE + 2 * TPROG, prepare, |a| {
        assert_holds(a, page(U, 1), 2, 0);
        assert_erased(a, page(U, 2));
        put(a, page(U, 2), 1, 6);
    });
    // During the erase: the program after it has no effect.
    cut(3, PAGE_MOVE + 3 * TPROG + 5, prepare, |a| {
        assert_holds(a, page(U, 2), 3, 0);
        assert_unreadable(a, page(Unit(1), 0));
        wipe(a, Unit(1));
        assert_erased(a, page(Unit(1), 0));
        put(a, page(Unit(1), 0), 1, 7);
        assert_holds(a, page(Unit(1), 0), 7, 0);
    });
    // During the program after the erase.
    cut(3, PAGE_MOVE + 3 * TPROG + TBERS + 5, prepare, |a| {
        assert_eq!(a.erase_count(Unit(1)), 1);
        assert_ne!(state(a, page(Unit(1), 0)), PageState::Erased);
        assert_erased(a, page(Unit(1), 1));
    });
}

#[test]
fn i5_dies_lose_their_power_each_on_its_own() {
    cut(
        3,
        PAGE_MOVE + 1,
        |a| {
            put(a, page(unit_of(0), 0), 1, 1);
            put(a, page(unit_of(2), 0), 1, 2);
            wipe(a, unit_of(3));
        },
        |a| {
            assert_ne!(state(a, page(unit_of(0), 0)), PageState::Erased);
            assert_erased(a, page(unit_of(2), 0));
            assert_unreadable(a, page(unit_of(3), 0));
        },
    );
}

#[test]
fn i5_a_cut_during_a_read_changes_no_cell() {
    for at in [0, 1, TR / 2, TR, TR + 1, TR + 1000, 100 * TR] {
        run(3, move |rt| async move {
            let a = array(&rt, Payload::Stamps);
            put(&a, page(U, 0), 2, 1);
            rt.sleep_until(Nanos(10 * END)).await;
            let before = all(&a);
            rt.sleep_until(Nanos(20 * END)).await;
            drop(look(&a, page(U, 0)));
            blink(&rt, &a, 20 * END + at).await;
            assert_eq!(all(&a), before);
        });
    }
}

#[test]
fn i5_a_failure_of_a_program_that_never_began_has_never_been() {
    run(3, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        a.fail_program(0);
        put(&a, page(U, 0), 2, 1);
        assert_unreadable(&a, page(U, 1));
        blink(&rt, &a, START).await;
        assert_erased(&a, page(U, 0));
        put(&a, page(U, 0), 2, 2);
        assert_holds(&a, page(U, 0), 2, 0);
        assert_holds(&a, page(U, 1), 2, 1);
        a.fail_erase(0);
        let begin = 10 * END;
        rt.sleep_until(Nanos(begin)).await;
        wipe(&a, U);
        blink(&rt, &a, begin).await;
        assert_holds(&a, page(U, 0), 2, 0);
    });
}

#[test]
fn i5_who_outlives_the_loss_is_told() {
    run(3, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let ended = a.erase(unit_of(1)).unwrap();
        rt.sleep_until(Nanos(TBERS - START - 1)).await;
        let torn = a.program(page(U, 0), Data::Stamps(&stamps(1, 2)), &oob(1, 2)).unwrap();
        let never = a.program(page(U, 2), Data::Stamps(&stamps(2, 2)), &oob(2, 2)).unwrap();
        let erase = a.erase(unit_of(3)).unwrap();
        blink(&rt, &a, TBERS).await;
        let (at, next) = (page(unit_of(1), 0), rt.now().0);
        let good = a.program(at, Data::Stamps(&stamps(3, 2)), &oob(3, 2)).unwrap();
        assert_eq!(ended.await, Ok(()), "it ended at the very moment");
        assert_eq!(torn.await, Err(OpError::NoPower));
        assert_eq!(never.await, Err(OpError::NoPower));
        assert_eq!(good.await, Ok(()));
        assert!(rt.now().0 >= next + ROW_MOVE + TPROG);
        assert_eq!(erase.await, Err(OpError::NoPower));
    });
}

#[test]
fn i5_a_read_of_before_the_loss_disturbs_nobody_after_it() {
    run(3, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let (rt2, a2) = (rt.clone(), a.clone());
        let old = rt.spawn("a read", async move { timed_read(&rt2, &a2, page(U, 0), 2).await });
        rt.yield_now().await;
        blink(&rt, &a, TR / 2).await;
        assert_eq!(a.activity().until, Nanos::MAX, "the die does nothing any more");
        // At the time when the old read would request the channel, it is free.
        rt.sleep_until(Nanos(TR + 1)).await;
        let begin = rt.now().0;
        let p = a.program(page(U, 0), Data::Stamps(&stamps(1, 1)), &oob(1, 1)).unwrap();
        p.await.unwrap();
        assert_eq!(rt.now().0, begin + PAGE_MOVE + TPROG);
        assert_eq!(old.await, Ok(Nanos(TR)));
    });
}

#[test]
fn after_a_loss_dies_and_channels_are_free() {
    run(3, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        for row in 0..4 {
            put(&a, page(U, row * 2), 2, 1);
        }
        blink(&rt, &a, END + 1).await;
        assert_eq!(a.activity().until, Nanos::MAX, "all dies are idle");
        a.erase(U).unwrap().await.unwrap();
        assert_eq!(rt.now().0, END + 1 + TBERS);
    });
}

#[test]
fn the_trace_hash_tells_runs_apart_and_equal_ones_are_equal() {
    let hash = |seed, tag_unit: u32, at: u64| {
        run(seed, move |rt| async move {
            let a = array(&rt, Payload::Stamps);
            for die in 0..4 {
                put(&a, page(unit_of(die), 0), 2, 1);
            }
            wipe(&a, Unit(tag_unit));
            blink(&rt, &a, at).await;
            (rt.trace_hash(), all(&a).iter().map(|p| p.0).collect::<Vec<_>>())
        })
    };
    let at = 2 * ROW_MOVE + 5;
    assert_eq!(hash(5, 1, at), hash(5, 1, at));
    assert_ne!(hash(5, 1, at).0, hash(5, 2, at).0, "another operation");
    assert_ne!(hash(5, 1, at).0, hash(5, 1, at + 1).0, "another moment");
    // The same seed gives the same hash. Different seeds tear differently.
    let torn: Vec<_> = (0..16).map(|seed| hash(seed, 1, at).1).collect();
    assert!(torn.iter().any(|t| *t != torn[0]));
}

#[test]
fn the_trace_hash_knows_of_a_power_loss() {
    let hash = |cuts: bool| {
        run(5, move |rt| async move {
            let a = array(&rt, Payload::Stamps);
            put(&a, page(U, 0), 2, 1);
            rt.sleep_until(Nanos(START + 1)).await;
            if cuts {
                a.power_off();
            }
            rt.trace_hash()
        })
    };
    assert_ne!(hash(false), hash(true));
}

/// A power loss that is noticed late leaves the array as it was at the loss.
#[test]
fn a_loss_that_is_found_out_late_is_that_of_its_time() {
    let after = |seed: u64, at: u64, late: u64| {
        run(seed, move |rt| async move {
            let a = array(&rt, Payload::Stamps);
            put(&a, page(unit_of(1), 0), 2, 9);
            rt.sleep_until(Nanos(END)).await;
            for row in 0..4 {
                put(&a, page(U, row * 2), 2, 1);
            }
            wipe(&a, unit_of(1));
            put(&a, page(unit_of(2), 0), 1, 3);
            rt.sleep_until(Nanos(at + late)).await;
            a.turns(Nanos(END), &mut Vec::new());
            let left = a.outstanding(Nanos(at));
            a.power_off_since(Nanos(at));
            a.power_on();
            (left, all(&a))
        })
    };
    for seed in 0..20 {
        for at in [END + 1, END + 700, 2 * END, 3 * END + 1, 2 * END + TBERS] {
            let (left, cells) = after(seed, at, 0);
            for late in [1, TPROG, 100 * TBERS] {
                let (late_left, late_cells) = after(seed, at, late);
                assert_eq!(late_left, left, "at {at}, late by {late}");
                assert_eq!(late_cells, cells, "at {at}, late by {late}, seed {seed}");
            }
        }
    }
}
