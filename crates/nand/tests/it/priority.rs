//! Reads that go ahead, suspension, and the cache register of a plane (the rules of `schedule.rs`),
//! one at a time. `model.rs` tests all of them together.

use crate::common::*;
use std::rc::Rc;
use tantalum_device::{Data, Payload};
use tantalum_nand::{NandArray, OpError, PageState, Timing, Unit};
use tantalum_rt::{Nanos, Rt};

const READ_MOVE: u64 = 100 + 8192 * 10;
const COST: u64 = 20_000;

fn built(rt: &Rt, timing: Timing) -> Rc<NandArray> {
    let a = NandArray::new(rt, &geometry(), &timing, Payload::Stamps, WORDS as u32).unwrap();
    a.power_on();
    Rc::new(a)
}

fn priority(reads: u32) -> Timing {
    Timing { read_priority: reads, ..timing() }
}

fn suspending(limit: u32) -> Timing {
    Timing {
        suspend_program_us: COST / 1000,
        suspend_erase_us: COST / 1000,
        suspend_limit: limit,
        ..priority(100)
    }
}

/// Issues a program and notes when it ended.
fn program(rt: &Rt, a: &NandArray, unit: Unit, at: u32) -> impl Future<Output = u64> + use<> {
    let end = a.program(page(unit, at), Data::Stamps(&stamps(1, 1)), &oob(1, 1)).unwrap();
    let rt2 = rt.clone();
    let ended = rt.spawn("a wait", async move {
        end.await.unwrap();
        rt2.now().0
    });
    async move { ended.await.unwrap() }
}

async fn read(rt: &Rt, a: &NandArray, unit: Unit, at: u32) -> u64 {
    timed_read(rt, a, page(unit, at), 2).await.0
}

#[test]
fn a_read_goes_ahead_of_what_waits_and_delays_it() {
    run(1, |rt| async move {
        let a = built(&rt, priority(8));
        let (u, other) = (unit_of(0), Unit(1));
        let first = program(&rt, &a, u, 0);
        let second = program(&rt, &a, u, 1);
        let erase = a.erase(Unit(2)).unwrap();
        rt.sleep_until(Nanos(PAGE_MOVE + 1)).await;
        let begun = PAGE_MOVE + TPROG;
        assert_eq!(read(&rt, &a, other, 0).await, begun + TR + READ_MOVE);
        assert_eq!(first.await, begun, "what had begun is not disturbed");
        assert_eq!(second.await, begun + TR + TPROG);
        erase.await.unwrap();
        assert_eq!(rt.now().0, begun + TR + TPROG + TBERS);
    });
}

#[test]
fn a_read_waits_for_what_it_reads() {
    run(1, |rt| async move {
        let a = built(&rt, suspending(8));
        let u = unit_of(0);
        let first = program(&rt, &a, u, 0);
        let second = program(&rt, &a, u, 1);
        rt.sleep_until(Nanos(PAGE_MOVE + 1)).await;
        assert_eq!(read(&rt, &a, u, 1).await, PAGE_MOVE + 2 * TPROG + TR + READ_MOVE);
        first.await;
        second.await;
        // An erase of another unit gives way, and one of the same unit does not.
        let begin = rt.now().0;
        let erase = a.erase(u).unwrap();
        rt.sleep(Nanos(1000)).await;
        assert_eq!(read(&rt, &a, u, 0).await, begin + TBERS + TR + READ_MOVE);
        erase.await.unwrap();
        assert_erased(&a, page(u, 0));
    });
}

#[test]
fn only_so_many_reads_go_ahead_of_one_operation() {
    run(1, |rt| async move {
        let a = built(&rt, priority(2));
        let first = program(&rt, &a, unit_of(0), 0);
        let second = program(&rt, &a, unit_of(0), 1);
        rt.sleep_until(Nanos(PAGE_MOVE + 1)).await;
        for _ in 0..5 {
            drop(look(&a, page(Unit(1), 0)));
        }
        assert_eq!(first.await, PAGE_MOVE + TPROG);
        assert_eq!(second.await, PAGE_MOVE + TPROG + 2 * TR + TPROG);
    });
}

#[test]
fn a_suspended_operation_goes_on_with_what_is_left_of_it() {
    run(1, |rt| async move {
        let a = built(&rt, suspending(2));
        let first = program(&rt, &a, unit_of(0), 0);
        let third = PAGE_MOVE + TPROG / 4;
        rt.sleep_until(Nanos(third)).await;
        assert_eq!(read(&rt, &a, Unit(1), 0).await, third + COST + TR + READ_MOVE);
        // While it is suspended, further reads add no cost.
        assert_eq!(first.await, PAGE_MOVE + TPROG + COST + TR);
        let begin = rt.now().0;
        let erase = a.erase(unit_of(0)).unwrap();
        for i in 1..=3u64 {
            rt.sleep_until(Nanos(begin + i * 500_000)).await;
            drop(look(&a, page(Unit(1), 0)));
        }
        erase.await.unwrap();
        assert_eq!(rt.now().0, begin + TBERS + 2 * (COST + TR), "twice, not three times");
    });
}

#[test]
fn nothing_is_suspended_for_less_than_it_costs() {
    run(1, |rt| async move {
        let a = built(&rt, suspending(100));
        let first = program(&rt, &a, unit_of(0), 0);
        rt.sleep_until(Nanos(PAGE_MOVE + TPROG - COST)).await;
        let end = read(&rt, &a, Unit(1), 0).await;
        assert_eq!(end, PAGE_MOVE + TPROG + TR + READ_MOVE);
        assert_eq!(first.await, PAGE_MOVE + TPROG);
    });
}

#[test]
fn i5_what_is_suspended_or_delayed_at_a_cut_is_torn_or_has_never_been() {
    let cut = |at: u64, check: fn(&NandArray)| {
        run(3, move |rt| async move {
            let a = built(&rt, suspending(1));
            let torn = a.program(page(unit_of(0), 0), Data::Stamps(&stamps(1, 2)), &oob(1, 2));
            let torn = torn.unwrap();
            put(&a, page(unit_of(0), 2), 2, 2);
            rt.sleep_until(Nanos(ROW_MOVE + TPROG / 2)).await;
            drop(look(&a, page(Unit(1), 0)));
            rt.sleep_until(Nanos(at)).await;
            a.power_off();
            a.power_on();
            if at < ROW_MOVE + TPROG + COST + TR {
                assert_eq!(torn.await, Err(OpError::NoPower));
            } else {
                assert_eq!(torn.await, Ok(()));
            }
            check(&a);
        });
    };
    let half = ROW_MOVE + TPROG / 2;
    let begun = |a: &NandArray| {
        assert_ne!(state(a, page(unit_of(0), 0)), PageState::Erased);
        assert_erased(a, page(unit_of(0), 2));
    };
    // While suspending, reading and resumed; at the end without a read; near the end.
    let end = ROW_MOVE + TPROG + COST + TR;
    for at in [half, half + 1, half + COST + 1, half + COST + TR, end - COST - TR, end - 1] {
        cut(at, begun);
    }
    cut(end, |a| {
        assert_holds(a, page(unit_of(0), 1), 1, 1);
        assert_erased(a, page(unit_of(0), 2));
    });
    cut(end + 1, |a| {
        assert_holds(a, page(unit_of(0), 1), 1, 1);
        assert_ne!(state(a, page(unit_of(0), 2)), PageState::Erased);
    });
}

#[test]
fn data_move_into_a_register_that_is_free() {
    run(1, |rt| async move {
        // A transfer takes longer than a program: only one transfer runs ahead.
        let t = Timing { program_us: 500, ..timing() };
        let a = built(&rt, t);
        a.record_ops();
        for row in 0..4 {
            put(&a, page(unit_of(0), row * 2), 2, 1);
        }
        // Another die requests the channel when the first of them has begun.
        rt.sleep_until(Nanos(ROW_MOVE + 1)).await;
        put(&a, page(unit_of(2), 0), 1, 2);
        rt.sleep(Nanos::from_secs(1)).await;
        let starts: Vec<u64> = a.take_ops().iter().map(|o| o.start.0).collect();
        let second = (2 * ROW_MOVE).max(ROW_MOVE + 500_000);
        let third = second + 500_000;
        assert_eq!(starts[..2], [ROW_MOVE, second]);
        assert_eq!(starts[4], 2 * ROW_MOVE + PAGE_MOVE, "ahead of those that have no register");
        assert_eq!(starts[2..4], [third, third + 500_000]);
    });
}

#[test]
fn pages_of_a_wordline_take_each_its_time() {
    run(1, |rt| async move {
        let t = Timing {
            program_by_page_us: vec![400, 900],
            read_by_page_us: vec![30, 60],
            read_planes_us: 70,
            read_sector_us: 20,
            ..timing()
        };
        let a = built(&rt, t);
        let u = unit_of(0);
        for (row, us) in [(0, 400), (1, 900), (2, 400), (3, 900)] {
            let begin = rt.now().0;
            assert_eq!(program(&rt, &a, u, row * 2).await, begin + PAGE_MOVE + us * 1000);
            put(&a, page(u, row * 2 + 1), 1, 1);
            rt.sleep(Nanos::from_millis(10)).await;
        }
        let begin = rt.now().0;
        assert_eq!(read(&rt, &a, u, 0).await, begin + 30_100 + READ_MOVE);
        let begin = rt.now().0;
        assert_eq!(read(&rt, &a, u, 2).await, begin + 60_100 + READ_MOVE);
        let begin = rt.now().0;
        let end = timed_read(&rt, &a, page(u, 2), 1).await.0;
        assert_eq!(end, begin + 20_100 + 100 + 4096 * 10, "one sector");
        let begin = rt.now().0;
        let mut states = [PageState::Erased; 2];
        let request = tantalum_nand::ReadRequest {
            at: page(u, 0),
            count: 2,
            first: 0,
            data: None,
            oob: None,
            states: &mut states,
        };
        a.read(request).unwrap().await;
        assert_eq!(rt.now().0, begin + 70_100 + 100, "both planes at once");
    });
}

#[test]
fn planes_read_side_by_side_and_nothing_else_does() {
    run(1, |rt| async move {
        let a = built(&rt, Timing { independent_reads: true, ..priority(8) });
        a.record_ops();
        let (u, other) = (unit_of(0), Unit(1));
        let both = |at| {
            let mut states = [PageState::Erased; 2];
            let request = tantalum_nand::ReadRequest {
                at,
                count: 2,
                first: 0,
                data: None,
                oob: None,
                states: &mut states,
            };
            drop(a.read(request).unwrap());
        };
        drop(look(&a, page(u, 0)));
        drop(look(&a, page(other, 1)));
        drop(look(&a, page(other, 2)));
        both(page(u, 0));
        let erase = a.erase(Unit(2)).unwrap();
        drop(look(&a, page(other, 3)));
        rt.sleep(Nanos(1)).await;
        let activity = a.activity();
        assert_eq!((activity.reads, activity.until), (2, Nanos(TR)));
        erase.await.unwrap();
        let starts: Vec<u64> = a.take_ops().iter().map(|o| o.start.0).collect();
        // Planes 0, 1, 0; both; the erase after all reads; plane 1, ahead of the erase.
        assert_eq!(starts, [0, 0, TR, 2 * TR, 4 * TR, 3 * TR]);
        assert_eq!(a.stats().die_busy.0, TR / 2 * 4 + TR + TBERS);
    });
}

#[test]
fn a_word_line_is_programmed_at_once_and_read_page_by_page() {
    run(1, |rt| async move {
        // (A page has two sectors: two pages of a word line with one each.)
        let t = Timing { pages_per_program: 2, read_by_page_us: vec![30, 60], ..timing() };
        let a = built(&rt, t);
        let u = unit_of(0);
        assert_eq!(program(&rt, &a, u, 0).await, PAGE_MOVE + TPROG);
        for (sectors, us) in [(0..1, 30), (1..2, 60), (0..2, 90)] {
            let begin = rt.now().0;
            let mut data = vec![0; sectors.len()];
            let mut states = [PageState::Erased];
            let count = sectors.len() as u64;
            let request = tantalum_nand::ReadRequest {
                at: page(u, 0),
                count: 1,
                first: sectors.start as u32,
                data: Some(tantalum_device::DataMut::Stamps(&mut data)),
                oob: None,
                states: &mut states,
            };
            a.read(request).unwrap().await;
            assert_eq!(data, stamps(1, 1)[sectors]);
            assert_eq!(rt.now().0, begin + us * 1000 + 100 + 100 + count * 4096 * 10);
        }
    });
}
