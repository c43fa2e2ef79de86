//! The rules of the medium (invariants 1 and 2), the checks of geometries and requests, and ordered
//! failures.

use crate::common::*;
use tantalum_device::{Data, DataMut, Payload};
use tantalum_nand::{
    Geometry, GeometryError, NandArray, OpError, PageAddr, PageState, ReadRequest, Unit,
};
use tantalum_rt::Nanos;

fn refused<T>(result: Result<T, OpError>) -> PageAddr {
    match result {
        Err(OpError::Rule { at, .. }) => at,
        Err(other) => panic!("refused for another reason: {other}"),
        Ok(_) => panic!("a broken rule was allowed"),
    }
}

fn try_put(array: &NandArray, at: PageAddr, pages: u32) -> Result<(), OpError> {
    array.program(at, Data::Stamps(&stamps(77, pages)), &oob(77, pages)).map(drop)
}

#[test]
fn i1_a_page_is_programmed_once_in_order_without_gaps() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let u = Unit(1);
        assert_eq!(refused(try_put(&a, page(u, 1), 1)), page(u, 1));
        refused(try_put(&a, page(u, 2), 2));
        put(&a, page(u, 0), 1, 1);
        refused(try_put(&a, page(u, 0), 1));
        refused(try_put(&a, page(u, 2), 2));
        put(&a, page(u, 1), 1, 2);
        put(&a, page(u, 2), 2, 3);
        refused(try_put(&a, page(u, 3), 1));
        put(&a, page(u, 4), 2, 4);
        put(&a, page(u, 6), 2, 5);
        for p in 0..8 {
            refused(try_put(&a, page(u, p), 1));
        }
        for (p, tag, i) in [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 3, 1), (4, 4, 0), (7, 5, 1)] {
            assert_holds(&a, page(u, p), tag, i);
        }
        // Every unit has its own order.
        put(&a, page(Unit(0), 0), 1, 6);
        put(&a, page(Unit(11), 0), 1, 6);
    });
}

#[test]
fn i1_an_operation_is_over_whole_pages_of_one_row() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let u = Unit(0);
        refused(try_put(&a, page(u, 0), 0));
        refused(try_put(&a, page(u, 0), 3));
        put(&a, page(u, 0), 1, 1);
        refused(try_put(&a, page(u, 1), 2));
        refused(a.program(page(u, 1), Data::Stamps(&[1]), &oob(1, 1)));
        refused(a.program(page(u, 1), Data::Bytes(&[1; 100]), &oob(1, 1)));
        refused(a.program(page(u, 1), Data::Bytes(&[1; 4096]), &oob(1, 1)));
        refused(a.program(page(u, 1), Data::Stamps(&stamps(1, 1)), &oob(1, 2)));
        refused(a.program(page(u, 1), Data::Stamps(&stamps(1, 1)), &[]));
        assert_erased(&a, page(u, 1));
    });
}

#[test]
fn i1_addresses_beyond_the_end_are_refused() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        for at in
            [page(Unit(12), 0), page(Unit(u32::MAX), 0), page(Unit(0), 8), page(Unit(0), u32::MAX)]
        {
            refused(try_put(&a, at, 1));
            let mut states = [PageState::Erased];
            let request =
                ReadRequest { at, count: 1, first: 0, data: None, oob: None, states: &mut states };
            refused(a.read(request));
        }
        refused(a.erase(Unit(12)));
        refused(a.erase(Unit(u32::MAX)));
    });
}

#[test]
fn i1_erase_is_of_one_whole_unit() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        for u in [Unit(0), Unit(1)] {
            put(&a, page(u, 0), 2, 1);
            put(&a, page(u, 2), 2, 2);
        }
        wipe(&a, Unit(0));
        for p in 0..8 {
            assert_erased(&a, page(Unit(0), p));
        }
        assert_holds(&a, page(Unit(1), 3), 2, 1);
        assert_eq!((a.erase_count(Unit(0)), a.erase_count(Unit(1))), (1, 0));
        put(&a, page(Unit(0), 0), 2, 3);
        assert_holds(&a, page(Unit(0), 1), 3, 1);
        wipe(&a, Unit(0));
        wipe(&a, Unit(0));
        assert_eq!(a.erase_count(Unit(0)), 3);
    });
}

#[test]
fn i1_a_broken_rule_changes_nothing() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        put(&a, page(Unit(0), 0), 2, 1);
        rt.sleep(tantalum_rt::Nanos::from_secs(1)).await;
        a.record_ops();
        a.fail_program(0);
        let before = (a.stats(), a.ops_issued(), rt.trace_hash());
        refused(try_put(&a, page(Unit(0), 0), 1));
        refused(try_put(&a, page(Unit(0), 4), 1));
        refused(try_put(&a, page(Unit(99), 0), 1));
        refused(a.erase(Unit(99)));
        let (mut data, mut states) = ([5; 3], [PageState::Uncorrectable]);
        let request = ReadRequest {
            at: page(Unit(0), 0),
            count: 1,
            first: 0,
            data: Some(DataMut::Stamps(&mut data)),
            oob: None,
            states: &mut states,
        };
        refused(a.read(request));
        assert_eq!((data, states), ([5; 3], [PageState::Uncorrectable]));
        assert_eq!((a.stats(), a.ops_issued(), rt.trace_hash()), before);
        assert!(a.take_ops().is_empty());
        assert_eq!(a.activity().until, Nanos::MAX, "all dies are idle");
        assert_holds(&a, page(Unit(0), 1), 1, 1);
        assert_erased(&a, page(Unit(0), 2));
        // The ordered failure still waits for a valid program.
        let end = a.program(page(Unit(0), 2), Data::Stamps(&stamps(2, 1)), &oob(2, 1)).unwrap();
        assert_eq!(end.await, Err(OpError::Failed { at: page(Unit(0), 2) }));
    });
}

#[test]
fn reads_whose_room_does_not_fit_are_refused() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let at = page(Unit(0), 0);
        // (page, count, first, sectors, words, states)
        let bad = [
            (0, 0, 0, 0, 0, 0),
            (0, 3, 0, 6, 6, 3),
            (1, 2, 0, 4, 4, 2),
            (0, u32::MAX, 0, 2, 2, 1),
            (1, u32::MAX, 0, 2, 2, 1),
            (0, 1, 0, 3, 2, 1),
            (0, 1, 1, 2, 2, 1),
            (0, 1, u32::MAX, 1, 2, 1),
            (0, 2, 1, 3, 4, 2),
            (0, 2, 0, 2, 4, 2),
            (0, 1, 0, 2, 1, 1),
            (0, 1, 0, 2, 2, 2),
            (0, 2, 0, 4, 4, 1),
        ];
        for (p, count, first, sectors, words, states) in bad {
            let (mut data, mut oob) = (vec![0; sectors], vec![0; words]);
            let mut states = vec![PageState::Erased; states];
            let request = ReadRequest {
                at: page(at.unit, p),
                count,
                first,
                data: Some(DataMut::Stamps(&mut data)),
                oob: Some(&mut oob),
                states: &mut states,
            };
            refused(a.read(request));
        }
        let mut bytes = [0; 100];
        let request = ReadRequest {
            at,
            count: 1,
            first: 0,
            data: Some(DataMut::Bytes(&mut bytes)),
            oob: None,
            states: &mut [PageState::Erased],
        };
        refused(a.read(request));
    });
}

#[test]
fn i2_erased_and_torn_pages_read_as_such_and_show_nothing() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let u = Unit(2);
        assert_erased(&a, page(u, 0));
        put(&a, page(u, 0), 2, 1);
        a.corrupt(page(u, 1));
        a.corrupt(page(u, 1));
        assert_holds(&a, page(u, 0), 1, 0);
        assert_unreadable(&a, page(u, 1));
        assert_erased(&a, page(u, 2));
        // A torn page is not programmed again either. The next one follows it.
        refused(try_put(&a, page(u, 1), 1));
        put(&a, page(u, 2), 2, 2);
        assert_holds(&a, page(u, 2), 2, 0);
        wipe(&a, u);
        assert_erased(&a, page(u, 1));
    });
}

#[test]
fn a_failed_program_tears_its_pages_and_an_erase_heals_them() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let u = Unit(0);
        a.fail_program(1);
        put(&a, page(u, 0), 2, 1);
        let end = a.program(page(u, 2), Data::Stamps(&stamps(2, 2)), &oob(2, 2)).unwrap();
        assert_eq!(end.await, Err(OpError::Failed { at: page(u, 2) }));
        assert_eq!(rt.now().0, ROW_MOVE + TPROG + TPROG, "a failure takes its time");
        assert_holds(&a, page(u, 1), 1, 1);
        assert_unreadable(&a, page(u, 2));
        assert_unreadable(&a, page(u, 3));
        let end = a.program(page(u, 4), Data::Stamps(&stamps(3, 1)), &oob(3, 1)).unwrap();
        assert_eq!(end.await, Ok(()), "only one fails");
        assert_eq!(a.erase(u).unwrap().await, Ok(()));
        put(&a, page(u, 0), 2, 4);
        put(&a, page(u, 2), 2, 5);
        assert_holds(&a, page(u, 3), 5, 1);
    });
}

#[test]
fn a_failed_erase_leaves_the_unit_unusable_until_it_is_erased_again() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let u = Unit(0);
        put(&a, page(u, 0), 2, 1);
        a.fail_erase(0);
        let end = a.erase(u).unwrap();
        assert_eq!(end.await, Err(OpError::Failed { at: page(u, 0) }));
        for p in 0..8 {
            assert_unreadable(&a, page(u, p));
            refused(try_put(&a, page(u, p), 1));
        }
        assert_eq!(a.erase(u).unwrap().await, Ok(()));
        assert_erased(&a, page(u, 0));
        put(&a, page(u, 0), 2, 2);
        assert_holds(&a, page(u, 0), 2, 0);
        assert_eq!(a.erase_count(u), 2);
    });
}

#[test]
fn without_power_nothing_is_done() {
    run(1, |rt| async move {
        let a = NandArray::new(&rt, &geometry(), &timing(), Payload::Stamps, 2).unwrap();
        let check = |a: &NandArray| {
            assert_eq!(try_put(a, page(Unit(0), 0), 1), Err(OpError::NoPower));
            assert_eq!(a.erase(Unit(0)).map(drop), Err(OpError::NoPower));
            let request = ReadRequest {
                at: page(Unit(0), 0),
                count: 1,
                first: 0,
                data: None,
                oob: None,
                states: &mut [PageState::Erased],
            };
            assert_eq!(a.read(request).map(drop), Err(OpError::NoPower));
        };
        check(&a);
        a.power_off();
        check(&a);
        a.power_on();
        assert_erased(&a, page(Unit(0), 0));
        a.power_off();
        a.power_off();
        check(&a);
        assert_eq!(a.stats().programs, 0);
    });
}

#[test]
fn geometries_that_cannot_be_are_refused() {
    let good = geometry();
    assert_eq!(good.check(), Ok(()));
    type Spoil = fn(&mut Geometry);
    let zero: [(&str, Spoil); 7] = [
        ("channels", |g| g.channels = 0),
        ("packages", |g| g.packages = 0),
        ("chips", |g| g.chips = 0),
        ("planes", |g| g.planes = 0),
        ("blocks", |g| g.blocks = 0),
        ("pages", |g| g.pages = 0),
        ("page_bytes", |g| g.page_bytes = 0),
    ];
    for (name, spoil) in zero {
        let mut g = good.clone();
        spoil(&mut g);
        assert_eq!(g.check(), Err(GeometryError::Zero(name)));
    }
    for bytes in [1, 4095, 4097, 6144] {
        let g = Geometry { page_bytes: bytes, ..good.clone() };
        assert_eq!(g.check(), Err(GeometryError::PageBytes(bytes)));
    }
    let one = Geometry {
        channels: 1,
        chips: 1,
        planes: 1,
        blocks: 1,
        pages: 1,
        page_bytes: 4096,
        ..good.clone()
    };
    assert_eq!(Geometry { blocks: u32::MAX - 1, ..one.clone() }.check(), Ok(()));
    let g = Geometry { blocks: u32::MAX, ..one.clone() };
    assert_eq!(g.check(), Err(GeometryError::TooLarge(u64::from(u32::MAX))));
    let g = Geometry { blocks: u32::MAX, pages: u32::MAX, chips: u32::MAX, ..one };
    assert_eq!(g.check(), Err(GeometryError::TooLarge(u64::MAX)));
}

#[test]
fn out_of_band_words_must_fit() {
    run(1, |rt| async move {
        let new = |words| {
            NandArray::new(&rt, &geometry(), &timing(), Payload::Stamps, words)
                .map(|a| a.oob_words())
        };
        assert_eq!(new(0), Ok(0));
        assert_eq!(new(8), Ok(8));
        assert_eq!(new(9), Err(GeometryError::Oob { need: 72, have: 64 }));
        assert_eq!(new(u32::MAX), Err(GeometryError::Oob { need: u32::MAX, have: 64 }));
        assert_eq!(new(1 << 29), Err(GeometryError::Oob { need: u32::MAX, have: 64 }));
    });
}

#[test]
fn a_geometry_adds_up() {
    let g = geometry();
    assert_eq!((g.dies(), g.units(), g.unit_pages()), (4, 12, 8));
    assert_eq!((g.page_sectors(), g.row_sectors(), g.unit_sectors()), (2, 4, 16));
    assert_eq!((g.sectors(), g.bytes()), (192, 192 * 4096));
    for die in 0..g.dies() {
        assert_eq!(g.channel(die), die % 2);
        let units: Vec<Unit> = g.die_units(die).collect();
        assert_eq!(units, [Unit(die * 3), Unit(die * 3 + 1), Unit(die * 3 + 2)]);
        assert!(units.iter().all(|u| g.die(*u) == die));
    }
}

#[test]
fn unknown_fields_of_a_geometry_or_a_timing_are_refused() {
    let g = toml::to_string(&geometry()).unwrap();
    assert_eq!(toml::from_str::<Geometry>(&g).unwrap(), geometry());
    assert!(toml::from_str::<Geometry>(&format!("{g}\nlevels = 3")).is_err());
    let t = toml::to_string(&timing()).unwrap();
    assert_eq!(toml::from_str::<tantalum_nand::Timing>(&t).unwrap(), timing());
    assert!(toml::from_str::<tantalum_nand::Timing>(&format!("{t}\nwarp = 9")).is_err());
}

#[test]
fn a_worn_out_unit_cannot_be_erased_and_is_bad_from_then_on() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        a.set_endurance(2);
        let (worn, other) = (Unit(0), Unit(1));
        for _ in 0..2 {
            a.erase(worn).unwrap().await.unwrap();
        }
        for _ in 0..2 {
            let end = a.erase(worn).unwrap().await;
            assert!(matches!(end, Err(OpError::Failed { .. })), "{end:?}");
            refused(try_put(&a, page(worn, 0), 1));
        }
        a.erase(other).unwrap().await.unwrap();
    });
}

#[test]
fn looking_into_the_cells_takes_no_operation_and_no_time() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        let look = |at| {
            let mut words = [7; WORDS];
            let state = a.inspect(at, &mut words);
            let mut stamps = vec![7; 2];
            a.inspect_payload(at, DataMut::Stamps(&mut stamps));
            (state, stamps, words.to_vec())
        };
        assert!(a.is_erased(Unit(0)));
        put(&a, page(Unit(0), 0), 2, 1);
        assert!(!a.is_erased(Unit(0)) && a.is_erased(Unit(1)));
        assert_eq!(look(page(Unit(0), 1)), crate::common::look(&a, page(Unit(0), 1)));
        assert_eq!(look(page(Unit(0), 2)).0, PageState::Erased);
        rt.sleep(Nanos::from_secs(1)).await;
        a.corrupt(page(Unit(0), 0));
        assert_eq!(look(page(Unit(0), 0)).0, PageState::Uncorrectable);
        let (now, issued) = (rt.now(), a.ops_issued());
        look(page(Unit(0), 1));
        assert_eq!((rt.now(), a.ops_issued()), (now, issued));
        // A program that never began leaves the unit erased, and a torn erase does not.
        put(&a, page(Unit(1), 0), 1, 2);
        wipe(&a, unit_of(1));
        rt.sleep(Nanos(1)).await;
        a.power_off();
        assert!(a.is_erased(Unit(1)) && !a.is_erased(unit_of(1)));
        a.power_on();
        wipe(&a, unit_of(1));
        assert!(a.is_erased(unit_of(1)));
    });
}

#[test]
fn a_failure_that_was_ordered_can_be_cancelled() {
    run(1, |rt| async move {
        let a = array(&rt, Payload::Stamps);
        assert!(!a.fail_nothing());
        a.fail_program(1);
        a.fail_erase(0);
        assert!(a.fail_nothing() && !a.fail_nothing());
        for at in [page(Unit(0), 0), page(Unit(0), 2)] {
            let op = a.program(at, Data::Stamps(&stamps(1, 2)), &oob(1, 2)).unwrap();
            op.await.unwrap();
        }
        a.erase(Unit(0)).unwrap().await.unwrap();
    });
}
