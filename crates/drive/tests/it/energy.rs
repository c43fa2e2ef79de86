//! What capacitors have to give: enough at the full count, and never silently too little.

use crate::designs::{small, tiny};
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Blocks, Data, DataMut, Durability, IoError, LiveBox, Payload, PowerCycle,
};
use tantalum_drive::{Design, Drive, EnergyModel, RecoveryError};
use tantalum_explore::random_design;
use tantalum_oracle::harness::{CrashPlan, CutAt, crash_run};
use tantalum_oracle::{Host, Oracle, Violation};
use tantalum_rt::{Nanos, Rt, Runtime};

fn protected() -> impl Iterator<Item = &'static str> {
    let kept = |name: &&str| Design::preset(name).unwrap().is_protected();
    Design::presets().iter().copied().filter(kept)
}

/// However the drive is cut, its dump takes no more than the full count.
#[test]
fn the_full_count_suffices() {
    let random = (0..200).map(random_design).filter(Design::is_protected);
    for (seed, mut design) in (0..).zip(protected().map(small).chain(random)) {
        for erase_abort in [false, true] {
            design.power.erase_abort = erase_abort;
            let kept = RefCell::new(None);
            let plan = CrashPlan {
                rounds: 8,
                depth: 16,
                commands: 500,
                cut: CutAt::Within(Nanos::from_millis(100)),
                restart_within: Nanos::from_millis(10),
                ..CrashPlan::default()
            };
            let report = crash_run(seed, &plan, |rt| {
                let drive = Drive::new(rt, &design, Payload::Stamps).unwrap();
                *kept.borrow_mut() = Some(drive.clone());
                drive
            });
            let report = report.unwrap();
            assert!(report.is_clean(), "{}: {report}", design.name);
            let losses = kept.borrow().as_ref().unwrap().power_losses();
            let full = EnergyModel::of(&design, &design.check().unwrap()).full();
            assert!(losses.count >= 8 && losses.incomplete == 0, "{losses:?}");
            assert_eq!(losses.budget_j, full.total_j());
            assert!(losses.most_spent_j <= full.total_j(), "{losses:?}");
            assert!(losses.most_spent_j > 0.0);
        }
    }
}

/// A drive that is made small sets aside for dumps what it needs, and that suffices for each of them.
#[test]
fn a_small_capacity_keeps_the_promise_of_the_design() {
    for (seed, preset) in (0..).zip(protected()) {
        let design = Design::preset(preset).unwrap().with_capacity(1 << 30).unwrap();
        let kept = RefCell::new(None);
        let plan = CrashPlan {
            rounds: 4,
            depth: 64,
            commands: 4000,
            cut: CutAt::Within(Nanos::from_millis(200)),
            restart_within: Nanos::from_millis(10),
            ..CrashPlan::default()
        };
        let report = crash_run(seed, &plan, |rt| {
            let drive = Drive::new(rt, &design, Payload::Stamps).unwrap();
            *kept.borrow_mut() = Some(drive.clone());
            drive
        });
        let report = report.unwrap();
        assert!(report.is_clean(), "{preset}: {report}");
        let losses = kept.borrow().as_ref().unwrap().power_losses();
        assert!(losses.count >= 4 && losses.incomplete == 0, "{preset}: {losses:?}");
    }
}

/// On flash that erases faster than it programs what is in flight at worst is a program on each die:
/// for these there is energy beside a full buffer and a row that fails.
#[test]
fn programs_in_flight_are_finished_where_an_erase_is_short() {
    let mut fullest: f64 = 0.0;
    for (preset, cut) in protected().flat_map(|preset| (0..40).map(move |cut| (preset, cut))) {
        let mut design = small(preset);
        (design.timing.erase_us, design.timing.program_us) = (100, 2000);
        let mut runtime = Runtime::virtual_time(cut);
        let rt = runtime.handle();
        let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
        let test = async move {
            drive.start().await.unwrap();
            let host = {
                let (device, blocks) = (drive.device(), drive.caps().blocks);
                rt.spawn("host", async move {
                    for stamp in 0.. {
                        let (at, data) = (Block(stamp * 37 % blocks), [stamp]);
                        let wrote = device.write(at, Data::Stamps(&data), Durability::Normal);
                        if wrote.await.is_err() {
                            break;
                        }
                    }
                })
            };
            rt.sleep(Nanos::from_millis(200) + Nanos(cut * 53_000)).await;
            drive.array().fail_program(cut % 7);
            drive.cut();
            host.await.unwrap();
            drive.off().await;
            drive.last_power_loss().unwrap()
        };
        let loss = runtime.block_on(test).unwrap();
        assert!(loss.complete, "{preset}, cut {cut}: {loss:?}");
        fullest = fullest.max(loss.spent_j / loss.budget_j);
    }
    assert!(fullest > 0.8, "none of these takes much of the budget: {fullest}");
}

/// What became of one drive whose capacitors may be too small.
#[derive(Debug, Default)]
struct Fate {
    salvaged: u32,
    lost: u32,
    missing_j: f64,
}

async fn load(rt: Rt, host: Host<tantalum_drive::DriveLink>, which: String, blocks: u64) {
    let mut dice = rt.stream(&which);
    for _ in 0..80 {
        let count = dice.range(1, 6);
        let range = tantalum_device::Blocks { start: Block(dice.below(blocks - count)), count };
        let ended = match dice.below(12) {
            0 => host.flush().await,
            1 => host.read(range).await,
            _ => host.write(range, Durability::Normal).await,
        };
        if ended.is_err() {
            return;
        }
    }
}

fn under_provisioned(design: &Design, seed: u64) -> Fate {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, design, Payload::Stamps).unwrap();
    let design = design.clone();
    let test = async move {
        let mut fate = Fate::default();
        drive.power_on().await.unwrap();
        let oracle = Rc::new(Oracle::new(drive.caps()));
        for round in 0..6u64 {
            let host = oracle.host(drive.device());
            let tasks: Vec<_> = (0..4)
                .map(|i| {
                    rt.spawn(
                        "host",
                        load(rt.clone(), host.clone(), format!("{round} {i}"), drive.caps().blocks),
                    )
                })
                .collect();
            rt.sleep(Nanos(rt.stream(&format!("cut {round}")).below(60_000_000))).await;
            drive.cut();
            for task in tasks {
                task.await.unwrap();
            }
            drive.off().await;
            let loss = drive.last_power_loss().unwrap();
            assert!(loss.spent_j <= loss.budget_j && loss.budget_j == design.power.joules);
            // What was missing is told if and only if something was.
            assert_eq!(loss.complete, loss.missing_j == 0.0, "{loss:?}");
            fate.missing_j = fate.missing_j.max(loss.missing_j);
            let mut whole = true;
            match drive.power_on().await {
                // (The last program may have come through after all.)
                Ok(()) => {}
                Err(IoError::Failed(_)) => {
                    assert!(!loss.complete, "{loss:?}");
                    let why = drive.last_failure().unwrap();
                    assert!(matches!(why, RecoveryError::DumpLost { .. }), "{why}");
                    // The power may go while it is salvaged, too.
                    let salvaging = drive.clone();
                    let start = rt.spawn("salvage", async move { salvaging.salvage().await });
                    rt.sleep(Nanos(rt.stream(&format!("again {round}")).below(8_000_000))).await;
                    drive.cut();
                    let _ = start.await;
                    drive.off().await;
                    if drive.power_on().await.is_err() {
                        drive.salvage().await.unwrap();
                        assert!(drive.last_recovery().unwrap().salvaged);
                    }
                    fate.salvaged += 1;
                    whole = false;
                }
                Err(e) => panic!("{e}"),
            }
            let found = oracle.check(&drive.device()).await.unwrap();
            if whole {
                assert!(found.is_empty(), "{found:?}");
            }
            for violation in &found {
                // Old data, or none: never what was not written there, or an error.
                let never = matches!(violation, Violation::NeverWritten { .. });
                let mixed = matches!(violation, Violation::Mixed { .. });
                let old = !never && !mixed;
                assert!(old, "{violation}");
            }
            fate.lost += found.len() as u32;
            if !found.is_empty() {
                // It works on, and what was lost can be written again.
                let (device, blocks) = (drive.device(), drive.caps().blocks);
                for stamp in [1_000_000, 2_000_000] {
                    for block in 0..blocks {
                        let data = [stamp + block];
                        let data = Data::Stamps(&data);
                        device.write(Block(block), data, Durability::Normal).await.unwrap();
                    }
                }
                for block in 0..blocks {
                    let mut room = [0];
                    device.read(Block(block), DataMut::Stamps(&mut room)).await.unwrap();
                    assert_eq!(room[0], 2_000_000 + block);
                }
                break;
            }
        }
        fate
    };
    runtime.block_on(test).unwrap()
}

/// The dump is lost while all that was written is on flash: a cut says that this is not lost, and a
/// salvage finds it. Only the map had the discard.
#[test]
fn without_its_dump_a_drive_keeps_what_is_on_flash_and_says_so() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let mut design = tiny("durassd");
    design.power.joules = 1e-6; // Not for a single program.
    let test = async move {
        let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
        drive.power_on().await.unwrap();
        let device = drive.device();
        let mut written = 0;
        // The last pages wait until they fill a row.
        while written < 16 || drive.backlog().0 > 0 {
            assert!(written < 64, "{:?} wait", drive.backlog());
            let stamp = [100 + written];
            device.write(Block(written), Data::Stamps(&stamp), Durability::Normal).await.unwrap();
            rt.sleep(Nanos::from_millis(20)).await;
            written += 1;
        }
        device.discard(Blocks { start: Block(0), count: 1 }).await.unwrap();
        let after = drive.watch_cut();
        drive.cut();
        drive.off().await;
        let outcome = after();
        assert_eq!((outcome.lost_blocks, outcome.complete), (0, false), "{outcome:?}");
        let end = "; no written block is lost, but discards may be undone";
        assert!(outcome.words.ends_with(end), "{outcome:?}");
        drive.power_on().await.unwrap_err();
        let why = drive.last_failure().unwrap().to_string();
        assert!(why.contains("is not complete, so the map on flash is out of date"), "{why}");
        drive.salvage().await.unwrap();
        let (device, mut found) = (drive.device(), vec![0; written as usize]);
        device.read(Block(0), DataMut::Stamps(&mut found)).await.unwrap();
        assert!([0, 100].contains(&found[0]), "{found:?}");
        assert!((101..).zip(&found[1..]).all(|(stamp, found)| stamp == *found), "{found:?}");
    };
    runtime.block_on(test).unwrap();
}

/// With less than it takes, what was acknowledged is lost, and that is said: the drive does
/// not start by itself, and what it salvages is as new as flash has it.
#[test]
fn too_little_is_never_hidden() {
    for preset in protected() {
        let mut design = tiny(preset);
        let full = EnergyModel::of(&design, &design.check().unwrap()).full().total_j();
        let mut losses = Vec::new();
        for share in [0.0001, 0.02, 0.1, 0.3, 0.6, 1.0] {
            design.power.joules = full * share;
            let (mut salvaged, mut lost) = (0, 0);
            for seed in 0..20 {
                let fate = under_provisioned(&design, seed);
                salvaged += fate.salvaged;
                lost += fate.lost;
                assert!(fate.salvaged == 0 || fate.missing_j > 0.0);
            }
            println!(
                "{preset}, {share} of {full} J: salvaged {salvaged} times, {lost} blocks lost"
            );
            losses.push((salvaged, lost));
        }
        assert!(losses[0].0 >= 20 && losses[0].1 > 0, "{losses:?}");
        assert_eq!(losses[5], (0, 0));
        // (Fewer joules may lose a few blocks less by chance, when nearly all dumps fail.)
        assert!(losses.is_sorted_by(|a, b| a.1 + a.1 / 8 >= b.1), "{losses:?}");
    }
}
