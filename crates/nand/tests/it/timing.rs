//! The times of operations, and which operation waits for which (invariants 3 and 4).

use crate::common::*;
use std::rc::Rc;
use tantalum_device::{Data, Payload};
use tantalum_nand::{NandArray, OpKind, Timing, Unit};
use tantalum_rt::{Nanos, Rt};

/// Starts a program of this many pages. The future gives the time of its end.
fn program(
    rt: &Rt,
    a: &Rc<NandArray>,
    unit: Unit,
    at: u32,
    pages: u32,
) -> impl Future<Output = u64> + use<> {
    let end = a.program(page(unit, at), Data::Stamps(&stamps(1, pages)), &oob(1, pages)).unwrap();
    let rt = rt.clone();
    async move {
        end.await.unwrap();
        rt.now().0
    }
}

/// A read of one page's two sectors, issued now.
fn read(rt: &Rt, a: &Rc<NandArray>, unit: Unit) -> impl Future<Output = u64> + use<> {
    let (rt2, a) = (rt.clone(), a.clone());
    let join = rt.spawn("a read", async move { timed_read(&rt2, &a, page(unit, 0), 2).await.0 });
    async move { join.await.unwrap() }
}

const READ_MOVE: u64 = 100 + 8192 * 10;

#[test]
fn a_transfer_is_command_and_bytes() {
    let t = timing();
    assert_eq!(t.transfer(0), Nanos(100));
    assert_eq!(t.transfer(4096), Nanos(100 + 40_960));
    // 333 MB/s: whole nanoseconds, rounded down.
    let t = Timing { channel_mb_s: 333, command_ns: 0, ..t };
    assert_eq!(t.transfer(4096), Nanos(12_300));
    assert_eq!(Timing { channel_mb_s: 0, ..t }.transfer(8), Nanos(8000), "no division by zero");
}

#[test]
fn a_program_is_transfer_then_tprog_and_several_planes_count_once() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        assert_eq!(program(&rt, &a, unit_of(0), 0, 1).await, PAGE_MOVE + TPROG);
        let begin = rt.now().0;
        assert_eq!(program(&rt, &a, unit_of(1), 0, 2).await, begin + ROW_MOVE + TPROG);
        let stats = a.stats();
        assert_eq!((stats.programs, stats.pages_programmed), (2, 3));
        assert_eq!(stats.die_busy, Nanos(2 * TPROG));
    });
}

#[test]
fn a_read_is_tr_then_the_transfer_of_what_is_wanted() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let at = page(unit_of(0), 0);
        assert_eq!(timed_read(&rt, &a, at, 2).await, Nanos(TR + READ_MOVE));
        let begin = rt.now();
        assert_eq!(timed_read(&rt, &a, at, 1).await, begin + Nanos(TR + 100 + 40_960));
        let begin = rt.now();
        let mut words = [0; 2 * WORDS];
        let mut states = [tantalum_nand::PageState::Erased; 2];
        let request = tantalum_nand::ReadRequest {
            at,
            count: 2,
            first: 0,
            data: None,
            oob: Some(&mut words),
            states: &mut states,
        };
        a.read(request).unwrap().await;
        assert_eq!(rt.now(), begin + Nanos(TR + 100 + 2 * 64 * 10), "two planes, one tR");
        assert_eq!((a.stats().reads, a.stats().die_busy), (3, Nanos(3 * TR)));
    });
}

#[test]
fn an_erase_needs_no_channel() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let p = program(&rt, &a, unit_of(2), 0, 2);
        a.erase(unit_of(0)).unwrap().await.unwrap();
        assert_eq!(rt.now().0, TBERS);
        p.await;
        assert_eq!((a.stats().erases, a.stats().die_busy), (1, Nanos(TBERS + TPROG)));
    });
}

#[test]
fn dies_on_one_channel_share_it_and_work_at_the_same_time() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let first = program(&rt, &a, unit_of(0), 0, 1);
        let second = program(&rt, &a, unit_of(2), 0, 1);
        let other_channel = program(&rt, &a, unit_of(1), 0, 1);
        assert_eq!(first.await, PAGE_MOVE + TPROG);
        assert_eq!(other_channel.await, PAGE_MOVE + TPROG);
        assert_eq!(second.await, 2 * PAGE_MOVE + TPROG);
    });
}

#[test]
fn a_die_works_first_in_first_out() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        a.record_ops();
        let u = unit_of(0);
        let p0 = program(&rt, &a, u, 0, 1);
        let p1 = program(&rt, &a, u, 1, 1);
        let erase = a.erase(Unit(u.0 + 1)).unwrap();
        assert_ne!(a.activity().until, Nanos::MAX, "a die is at work");
        let r = read(&rt, &a, u);
        assert_eq!(p0.await, PAGE_MOVE + TPROG);
        assert_eq!(p1.await, PAGE_MOVE + 2 * TPROG);
        erase.await.unwrap();
        let erased = PAGE_MOVE + 2 * TPROG + TBERS;
        assert_eq!(rt.now().0, erased);
        assert_eq!(r.await, erased + TR + READ_MOVE);
        assert_eq!(a.activity().until, Nanos::MAX);
        let ops = a.take_ops();
        let kinds: Vec<OpKind> = ops.iter().map(|o| o.kind).collect();
        assert_eq!(kinds, [OpKind::Program, OpKind::Program, OpKind::Erase, OpKind::Read]);
        assert!(ops.iter().all(|o| o.issued == Nanos::ZERO));
        assert!(ops.windows(2).all(|w| w[0].end == w[1].start));
        assert_eq!((ops[3].start, ops[3].end), (Nanos(erased), Nanos(erased + TR)));
        assert!(a.take_ops().is_empty());
        assert_eq!(a.ops_issued(), 4);
    });
}

#[test]
fn the_channel_goes_to_who_asks_first_and_is_not_kept_for_a_read() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let r = read(&rt, &a, unit_of(0));
        rt.yield_now().await;
        rt.sleep(Nanos(TR - 1)).await;
        // A nanosecond before the read has its page, a program takes the channel.
        let p = program(&rt, &a, unit_of(2), 0, 1);
        assert_eq!(r.await, TR - 1 + PAGE_MOVE + READ_MOVE);
        assert_eq!(p.await, TR - 1 + PAGE_MOVE + TPROG);
    });
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let r = read(&rt, &a, unit_of(0));
        rt.yield_now().await;
        rt.sleep(Nanos(TR + 1)).await;
        let p = program(&rt, &a, unit_of(2), 0, 1);
        assert_eq!(r.await, TR + READ_MOVE);
        assert_eq!(p.await, TR + READ_MOVE + PAGE_MOVE + TPROG);
    });
}

#[test]
fn transfers_of_reads_follow_the_order_in_which_their_pages_are_there() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        // Die 0 is busy with an erase, so that the read issued first is ready last.
        wipe(&a, unit_of(0));
        let late = read(&rt, &a, unit_of(0));
        rt.yield_now().await;
        let early = read(&rt, &a, unit_of(2));
        assert_eq!(early.await, TR + READ_MOVE);
        assert_eq!(late.await, TBERS + TR + READ_MOVE);
        // Ready at the same moment: in order of issue.
        let begin = rt.now().0;
        let (one, two) = (read(&rt, &a, unit_of(2)), read(&rt, &a, unit_of(0)));
        assert_eq!(two.await, begin + TR + 2 * READ_MOVE);
        assert_eq!(one.await, begin + TR + READ_MOVE);
    });
}

#[test]
fn i4_a_read_takes_its_way_whether_or_not_it_is_observed() {
    // Two reads on one channel, awaited one after the other: both transfers run meanwhile.
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let mut states = [[tantalum_nand::PageState::Erased]; 2];
        let (mut d0, mut d1) = ([0; 2], [0; 2]);
        let [s0, s1] = &mut states;
        let request = |die, data, states| tantalum_nand::ReadRequest {
            at: page(unit_of(die), 0),
            count: 1,
            first: 0,
            data: Some(tantalum_device::DataMut::Stamps(data)),
            oob: None,
            states,
        };
        let first = a.read(request(0, &mut d0, s0)).unwrap();
        let second = a.read(request(1, &mut d1, s1)).unwrap();
        first.await;
        assert_eq!(rt.now().0, TR + READ_MOVE);
        second.await;
        assert_eq!(rt.now().0, TR + READ_MOVE, "on another channel, it moved at the same time");
    });
    // Dropped at once, polled once and dropped, or awaited: no difference for the others.
    for how in 0..3 {
        run(1, move |rt| async move {
            let a = array(&rt, Payload::Stamps);
            let at = page(unit_of(0), 0);
            match how {
                0 => drop(look(&a, at)),
                1 => drop(poll_once(timed_read(&rt, &a, at, 2)).await),
                _ => drop(read(&rt, &a, unit_of(0))),
            }
            rt.yield_now().await;
            rt.sleep(Nanos(TR + 1)).await;
            let oob_too = if how == 0 { 64 * 10 } else { 0 };
            let end = program(&rt, &a, unit_of(2), 0, 1).await;
            assert_eq!(end, TR + READ_MOVE + oob_too + PAGE_MOVE + TPROG);
        });
    }
}

#[test]
fn i4_dropping_a_program_or_an_erase_changes_nothing() {
    let run_it = |keep: bool| {
        run(7, move |rt| async move {
            let a = array(&rt, Payload::Stamps);
            let u = unit_of(0);
            put(&a, page(Unit(1), 0), 2, 5);
            let p = a.program(page(u, 0), Data::Stamps(&stamps(1, 2)), &oob(1, 2)).unwrap();
            let e = a.erase(Unit(1)).unwrap();
            if keep {
                rt.spawn("kept", async move {
                    p.await.unwrap();
                    e.await.unwrap();
                });
            } else {
                assert!(poll_once(p).await.is_none());
                drop(e);
            }
            rt.sleep(Nanos::from_secs(1)).await;
            assert_holds(&a, page(u, 1), 1, 1);
            assert_erased(&a, page(Unit(1), 0));
            (all(&a), a.stats(), a.erase_count(Unit(1)))
        })
    };
    assert_eq!(run_it(true), run_it(false));
}

#[test]
fn i6_a_read_sees_what_was_issued_before_it_and_nothing_later() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let u = unit_of(0);
        assert_erased(&a, page(u, 0));
        put(&a, page(u, 0), 2, 1);
        let before = look(&a, page(u, 0));
        wipe(&a, u);
        let between = look(&a, page(u, 0));
        put(&a, page(u, 0), 2, 2);
        assert_eq!(before.1, stamps(1, 2)[..2]);
        assert_eq!(between.0, tantalum_nand::PageState::Erased);
        assert_holds(&a, page(u, 0), 2, 0);
    });
}
