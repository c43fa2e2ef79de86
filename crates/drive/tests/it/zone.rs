//! The units kept for dumps go bad: spare units take their place, and the drive goes on for as long
//! as it has any.

use crate::designs::{tiny, with_spare};
use crate::faults::start;
use tantalum_device::{Block, Blocks, Durability, IoError, Payload, PowerCycle};
use tantalum_drive::{Design, Drive};
use tantalum_explore::{Command, DriveBlueprint, Scenario};
use tantalum_nand::{PageAddr, Unit};
use tantalum_oracle::Oracle;
use tantalum_rt::{Nanos, Rt, Runtime};

fn protected() -> impl Iterator<Item = &'static str> {
    let is_protected = |preset: &&str| Design::preset(preset).unwrap().is_protected();
    Design::presets().iter().copied().filter(is_protected)
}

/// What fails in each round of a life.
#[derive(Clone, Copy, Debug)]
enum Failing {
    /// A program of the dump.
    Dump,
    /// An erase of the restart.
    Restart,
    /// Both.
    Both,
}

/// In each power cycle units of the dump areas fail, until more are bad than the drive has to
/// spare. Up to then it takes writes, with so much of its capacity in use.
async fn a_life(rt: Rt, design: Design, failing: Failing, full: bool) {
    let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
    let oracle = Oracle::new(drive.caps());
    let (spare, zone) = (drive.layout().spare_units, drive.layout().dump_zone);
    start(&drive).await;
    let room = u64::from(drive.layout().room);
    let mut cycles = 0;
    'life: loop {
        drive.settled().await;
        let bad = drive.bad_units();
        if bad > spare {
            break;
        }
        assert_eq!(drive.audit(), Ok(()), "cycle {cycles}");
        let host = oracle.host(drive.device());
        let upto = if full { room } else { 24 };
        for at in (0..upto).step_by(4) {
            let range = Blocks { start: Block(at), count: 4.min(upto - at) };
            let wrote = host.write(range, Durability::Normal).await;
            if wrote == Err(IoError::ReadOnly) && drive.bad_units() > spare {
                // Reads had suspended the erase that has failed meanwhile.
                break 'life;
            }
            assert_eq!(wrote, Ok(()), "{bad} of {spare} spare units are bad, {zone} for dumps");
        }
        // All that is under way has ended.
        rt.sleep(Nanos::from_secs(1)).await;
        if matches!(failing, Failing::Dump | Failing::Both) {
            drive.array().fail_program(cycles % 5);
        }
        drive.cut();
        drive.off().await;
        drive.array().fail_nothing();
        if matches!(failing, Failing::Restart | Failing::Both) {
            drive.array().fail_erase(0);
        }
        start(&drive).await;
        drive.settled().await;
        drive.array().fail_nothing();
        let found = oracle.check(&drive.device()).await.unwrap();
        assert!(found.is_empty(), "cycle {cycles}: {found:?}");
        cycles += 1;
        assert!(cycles < 1000, "{} of {spare} spare units are bad", drive.bad_units());
    }
    assert!(drive.bad_units() > spare && drive.is_worn_out());
    // At the end, as ever.
    let one = Blocks { start: Block(3), count: 2 };
    for _ in 0..2 {
        let host = oracle.host(drive.device());
        assert_eq!(host.write(one, Durability::Normal).await, Err(IoError::ReadOnly));
        drive.cut();
        drive.off().await;
        start(&drive).await;
        assert!(oracle.check(&drive.device()).await.unwrap().is_empty());
    }
}

/// Rule 5 of `retire`: a drive on which only units of the dump areas fail takes writes until more
/// are bad than the layout has to spare; thinly provisioned or not, full or nearly empty.
#[test]
fn a_drive_lives_as_long_as_it_has_spare_units_for_its_dumps() {
    for preset in protected() {
        for thin in [false, true] {
            for (failing, full) in [
                (Failing::Dump, false),
                (Failing::Restart, false),
                (Failing::Both, false),
                (Failing::Both, true),
            ] {
                let mut design = with_spare(preset);
                if thin {
                    design.space.over_provisioning = -50.0;
                    design.space.thin_spare = 60.0;
                }
                let mut runtime = Runtime::virtual_time(7);
                let life = a_life(runtime.handle(), design, failing, full);
                let ended = runtime.block_on(life);
                ended.unwrap_or_else(|e| panic!("{preset}, {failing:?}, {full}: {e}"));
            }
        }
    }
}

/// Whether a unit says that dumps may be in any unit.
fn is_marked(drive: &Drive) -> bool {
    let mut words = vec![0; drive.array().oob_words()];
    let units = (0..drive.array().geometry().units()).map(Unit);
    let mut heads = units.map(|unit| {
        drive.array().inspect(PageAddr { unit, page: 0 }, &mut words);
        words[0] >> 56
    });
    heads.any(|kind| kind == 15)
}

/// A start finds a dump outside of the zone, takes commands before all else is known, and is cut at
/// each of its steps.
#[test]
fn a_dump_outside_of_the_zone_is_found_by_an_early_start() {
    let mut design = tiny("durassd");
    design.geometry.blocks = 40;
    let mut runtime = Runtime::virtual_time(3);
    let rt = runtime.handle();
    let life = async move {
        let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
        let oracle = Oracle::new(drive.caps());
        start(&drive).await;
        for round in 0..24u64 {
            let host = oracle.host(drive.device());
            let range = Blocks { start: Block(round * 4), count: 4 };
            host.write(range, Durability::Normal).await.unwrap();
            drive.cut();
            drive.off().await;
            // Cut while it starts, a little later each time.
            let starting = drive.clone();
            let started = rt.spawn("a start", async move { starting.power_on().await });
            rt.sleep(Nanos::from_micros(300 * round)).await;
            drive.cut();
            let _ = started.await;
            drive.cut(); // (It may have begun only now.)
            drive.off().await;
            if round < 14 {
                drive.array().fail_erase(0);
                drive.array().fail_erase(1);
            }
            start(&drive).await;
            assert!(drive.last_recovery().unwrap().early, "round {round}");
            assert!(oracle.check(&drive.device()).await.unwrap().is_empty(), "round {round}");
            drive.settled().await;
            assert_eq!(drive.audit(), Ok(()), "round {round}");
            drive.array().fail_nothing();
        }
        assert!(is_marked(&drive), "{} units are bad", drive.bad_units());
    };
    runtime.block_on(life).unwrap();
}

/// Found by the crash explorer: two cuts soon after each other, each with a program of its dump and
/// an erase of its restart that fail.
#[test]
fn two_cuts_with_failures_do_not_end_the_life_of_a_nearly_empty_drive() {
    let of = |preset: &str, table: &str| {
        Design::preset(preset).unwrap().with_overrides(&table.parse().unwrap()).unwrap()
    };
    let bounded = of(
        "durassd-bounded",
        "geometry = { channels = 3, packages = 2, chips = 2, planes = 4, blocks = 37, pages = 7, page_bytes = 4096, oob_bytes = 448 }
         timing = { read_us = 99, program_us = 1219, erase_us = 3558, read_priority = 11 }
         space = { over_provisioning = -46.800000000000004, thin_spare = 10.0, collect_below = 6 }
         link = { queue_depth = 6 }
         cache = { buffer_kib = 972, atomic_unit_kib = 16 }
         map = { dirty_max = 1807, dirty_pages_max = 12, write_points = 2, dump_units = 10 }",
    );
    let commands = vec![
        Command::Group(5722, 8, 1792),
        Command::Group(9852, 8, 1606),
        Command::Write(11798, 2),
        Command::Group(2811, 8, 582),
    ];
    let first = Scenario {
        subject: DriveBlueprint { design: bounded, payload: Payload::Stamps },
        seed: 9388359996226518617,
        hosts: 8,
        commands,
        then: vec![Command::Write(15585, 2)],
        faults: 6,
    };
    let whole = of(
        "durassd",
        "geometry = { channels = 1, packages = 2, chips = 2, planes = 1, blocks = 67, pages = 10, page_bytes = 16384, oob_bytes = 448 }
         timing = { read_us = 64, program_us = 1048, erase_us = 517 }
         wear = { spread_max = 11 }
         space = { over_provisioning = -53.300000000000004, thin_spare = 14.0, collect_below = 4, collector = \"cost-benefit\", background_below = 9, idle_us = 19557 }
         link = { queue_depth = 2 }
         cache = { buffer_kib = 884, atomic_unit_kib = 4 }
         map = { dirty_max = 2500, write_points = 3, dump_units = 7 }",
    );
    let second = Scenario {
        subject: DriveBlueprint { design: whole, payload: Payload::Stamps },
        seed: 18364460118531586782,
        hosts: 8,
        commands: vec![Command::Write(3092, 1), Command::Write(2435, 4), Command::Write(273, 4)],
        then: vec![Command::Write(19118, 4)],
        faults: 6,
    };
    assert_eq!(first.cut(&[Nanos(5725983), Nanos(8225502)]), Ok(()));
    assert_eq!(second.cut(&[Nanos(5858811), Nanos(2479846)]), Ok(()));
}
