//! The oracle can fail, and does so only if it should: honest devices of every
//! kind pass, and every way to promise more than is kept is caught.

use crate::liar::{Liar, Lie, ram};
use tantalum_device::{
    Ack, Block, BlockDevice, Caps, CommandKind, Data, Durability, Faults, GroupLimit, IoError,
    Payload, PowerCycle,
};
use tantalum_oracle::Violation;
use tantalum_oracle::harness::{CrashPlan, CrashReport, CutAt, Mix, crash_run};
use tantalum_oracle::shadow::Witness;
use tantalum_rt::{Nanos, Rt, Runtime};

const GROUPS: GroupLimit = GroupLimit { extents: 4, bytes: 8 * 4096 };

fn weak() -> Caps {
    Caps {
        block_size: 4096,
        blocks: 48,
        ack: Ack::Volatile,
        flush: true,
        ordered: false,
        atomic_unit: 512,
        thin: false,
        atomic_group: Some(GROUPS),
        payload: Payload::Bytes,
    }
}

fn plan() -> CrashPlan {
    CrashPlan { cut: CutAt::Within(Nanos::from_millis(2)), range: 40, ..CrashPlan::default() }
}

/// Every combination of promises.
fn all_caps() -> Vec<Caps> {
    let mut all = Vec::new();
    for ack in [Ack::Volatile, Ack::PowerSafe, Ack::OnMedia] {
        for ordered in [false, true] {
            for atomic_unit in [512, 4096, 65536] {
                for block_size in [512, 4096] {
                    for atomic_group in [None, Some(GROUPS)] {
                        for payload in [Payload::Bytes, Payload::Stamps] {
                            let few = block_size == 512 && atomic_unit == 4096;
                            all.push(Caps {
                                block_size,
                                ack,
                                flush: !few,
                                ordered,
                                atomic_unit,
                                atomic_group,
                                payload,
                                ..weak()
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

#[test]
fn honest_devices_of_every_kind_are_never_accused() {
    let (mut checks, mut cut_starts, mut interrupted) = (0, 0, 0);
    for (i, caps) in all_caps().into_iter().enumerate() {
        for seed in 0..4 {
            let seed = i as u64 * 100 + seed;
            let report = crash_run(seed, &plan(), |rt| ram(rt, caps)).unwrap();
            assert!(report.is_clean(), "{caps:?}\n{report}");
            checks += report.checks;
            cut_starts += report.cut_starts;
            interrupted += report.interrupted;
        }
    }
    let counts = format!("{checks} checks, {cut_starts} cut starts, {interrupted} interrupted");
    assert!(checks > 5000 && cut_starts > 500 && interrupted > 10_000, "{counts}");
}

#[test]
fn an_honest_device_with_faults_is_never_accused() {
    let mut failed = 0;
    for (i, caps) in all_caps().into_iter().enumerate() {
        let report = crash_run(i as u64, &plan(), |rt| {
            let d = Faults::new(rt, ram(rt, caps), "faults");
            for kind in [CommandKind::Write, CommandKind::Group, CommandKind::Discard] {
                d.fail_often(kind, 1, 20);
            }
            d.fail_often(CommandKind::Flush, 1, 40);
            d.fail_often(CommandKind::Fua, 1, 40);
            d
        });
        let report = report.unwrap();
        assert!(report.is_clean(), "{caps:?}\n{report}");
        failed += report.failed;
    }
    assert!(failed > 1000, "{failed} commands failed");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| crash_run(seed, &plan(), |rt| ram(rt, weak())).unwrap();
    let (a, b) = (run(9), run(9));
    assert_eq!(format!("{a} {:x}", a.trace_hash), format!("{b} {:x}", b.trace_hash));
    assert_ne!(a.trace_hash, run(10).trace_hash);
}

#[test]
fn cuts_come_when_the_plan_says() {
    for cut in [CutAt::Time(Nanos::from_micros(300)), CutAt::End] {
        let plan = CrashPlan { cut, restarts: 0, give_up: 0, ..plan() };
        let report = crash_run(1, &plan, |rt| ram(rt, weak())).unwrap();
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.cuts, 10);
        assert_eq!(report.interrupted > 0, matches!(cut, CutAt::Time(_)), "{report}");
    }
}

/// Runs a liar with ten seeds. Most are caught, and never of anything that `fits`
/// does not name.
fn caught(real: Caps, caps: Caps, lie: Lie, fits: fn(&Violation) -> bool) -> Vec<CrashReport> {
    caught_with(&plan(), real, caps, lie, fits)
}

fn caught_with(
    plan: &CrashPlan,
    real: Caps,
    caps: Caps,
    lie: Lie,
    fits: fn(&Violation) -> bool,
) -> Vec<CrashReport> {
    let make = |rt: &Rt| Liar::new(rt, real, caps, lie);
    let reports: Vec<CrashReport> =
        (0..10).map(|seed| crash_run(seed, plan, make).unwrap()).collect();
    let caught = reports.iter().filter(|r| !r.is_clean()).count();
    assert!(caught >= 8, "{lie:?} was caught with {caught} of 10 seeds only");
    for r in &reports {
        assert!(r.start_error.is_none());
        for (_, v) in &r.violations {
            assert!(fits(v), "{lie:?} was accused of something else: {v}\n{r}");
        }
    }
    reports
}

fn lost(v: &Violation) -> bool {
    matches!(v, Violation::Lost { .. } | Violation::DiscardUndone { .. })
}

fn out_of_order(v: &Violation) -> bool {
    matches!(v, Violation::OutOfOrder { .. })
}

/// Data that come back, and whatever they tear on their way.
fn came_back(v: &Violation) -> bool {
    lost(v) || matches!(v, Violation::Resurrected { .. } | Violation::Torn { .. })
}

#[test]
fn a_volatile_device_that_claims_to_be_power_safe() {
    for payload in [Payload::Bytes, Payload::Stamps] {
        let real = Caps { payload, ..weak() };
        for ack in [Ack::PowerSafe, Ack::OnMedia] {
            caught(real, Caps { ack, ..real }, Lie::Nothing, lost);
        }
    }
}

#[test]
fn a_device_that_claims_to_be_ordered_and_reorders() {
    // Nothing else to be accused of: only plain writes of one block.
    let mix = Mix { write: 1, fua: 0, group: 0, flush: 0, discard: 0, read: 0 };
    let plan = CrashPlan { mix, max_blocks: 1, ..plan() };
    for payload in [Payload::Bytes, Payload::Stamps] {
        let real = Caps { atomic_unit: 4096, payload, ..weak() };
        caught_with(&plan, real, Caps { ordered: true, ..real }, Lie::Nothing, out_of_order);
        // Each acknowledged write survives, but not all that arrived before it; or,
        // of two that overlap, the first.
        let safe = Caps { ack: Ack::PowerSafe, ..real };
        let fits = |v: &Violation| lost(v) || out_of_order(v);
        caught_with(&plan, safe, Caps { ordered: true, ..safe }, Lie::Nothing, fits);
    }
    let fits = |v: &Violation| came_back(v) || out_of_order(v);
    let real = Caps { atomic_unit: 4096, ..weak() };
    caught(real, Caps { ordered: true, ..real }, Lie::Nothing, fits);
}

#[test]
fn a_device_that_claims_a_larger_atomic_unit_than_it_has() {
    let torn = |v: &Violation| matches!(v, Violation::Torn { .. } | Violation::Mixed { .. });
    for ordered in [false, true] {
        let half_k = Caps { ordered, ..weak() };
        let four_k = Caps { atomic_unit: 4096, ..half_k };
        caught(four_k, Caps { atomic_unit: 65536, ..four_k }, Lie::Nothing, torn);
        caught(half_k, Caps { atomic_unit: 4096, ..half_k }, Lie::Nothing, torn);
        caught(half_k, Caps { atomic_unit: 1024, ..half_k }, Lie::Nothing, torn);
        let stamps = Caps { payload: Payload::Stamps, ..four_k };
        caught(stamps, Caps { atomic_unit: 8192, ..stamps }, Lie::Nothing, torn);
    }
}

#[test]
fn a_device_that_splits_groups_or_does_not_refuse_them() {
    let wide = Caps { atomic_unit: 4096, ..weak() };
    let torn = |v: &Violation| matches!(v, Violation::Torn { .. });
    caught(wide, wide, Lie::GroupsAreSplit, torn);
    let fits = |v: &Violation| matches!(v, Violation::Unrefused { .. } | Violation::Torn { .. });
    let reports = caught(wide, wide, Lie::GroupsAreNotRefused, fits);
    let is = |v: &(u32, Violation)| matches!(v.1, Violation::Unrefused { .. });
    assert!(reports.iter().any(|r| r.violations.iter().any(is)));
}

#[test]
fn a_device_that_does_what_it_had_no_space_for() {
    let wide = Caps { thin: true, atomic_unit: 65536, ..weak() };
    let fits =
        |v: &Violation| matches!(v, Violation::Resurrected { .. } | Violation::StaleRead { .. });
    caught(wide, wide, Lie::RefusedWritesAreDone, fits);
    // Whoever takes data as they come notices it, too.
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let run = async move {
        let wide = Caps { blocks: 200, ..wide };
        let liar = Liar::new(&rt, wide, wide, Lie::RefusedWritesAreDone);
        liar.power_on().await.unwrap();
        let witness = Witness::new(&rt, &wide);
        let device = witness.watch(liar.device());
        let mut refused = 0;
        for i in 0..wide.blocks {
            let data = vec![1 + i as u8; wide.block_size as usize];
            let done = device.write(Block(i), Data::Bytes(&data), Durability::Normal).await;
            refused += u64::from(done == Err(IoError::NoSpace));
            assert!(done.is_ok() || done == Err(IoError::NoSpace));
        }
        device.flush().await.unwrap();
        let compared = witness.check(&liar.device()).await.unwrap();
        (refused, compared.violations)
    };
    let (refused, violations) = runtime.block_on(run).unwrap();
    assert!(refused > 0 && violations == refused, "{refused} {violations}");
}

#[test]
fn a_device_that_forgets_a_flush() {
    let mix = Mix { flush: 30, fua: 0, ..Mix::default() };
    let plan = CrashPlan { mix, ..plan() };
    for ordered in [false, true] {
        let caps = Caps { ordered, atomic_unit: 4096, ..weak() };
        let fits = |v: &Violation| came_back(v) || out_of_order(v);
        caught_with(&plan, caps, caps, Lie::FlushDoesNothing, fits);
    }
}

#[test]
fn a_device_that_says_that_its_flushes_do_nothing_is_not_accused() {
    let mix = Mix { flush: 30, fua: 5, ..Mix::default() };
    let plan = CrashPlan { mix, ..plan() };
    for ordered in [false, true] {
        let real = Caps { ordered, atomic_unit: 4096, ..weak() };
        let says = Caps { flush: false, ..real };
        for seed in 0..10 {
            let make = |rt: &Rt| Liar::new(rt, real, says, Lie::FlushDoesNothing);
            let report = crash_run(seed, &plan, make).unwrap();
            assert!(report.is_clean(), "{report}");
        }
        // What it still promises it is held to.
        let came_back = |v: &Violation| came_back(v) || out_of_order(v);
        let plan = CrashPlan { mix: Mix { fua: 40, ..mix }, ..plan };
        caught_with(&plan, says, says, Lie::FuaDoesNothing, came_back);
    }
}

#[test]
fn a_device_that_forgets_forced_unit_access() {
    let mix = Mix { flush: 0, fua: 30, ..Mix::default() };
    let plan = CrashPlan { mix, ..plan() };
    for ordered in [false, true] {
        let caps = Caps { ordered, atomic_unit: 4096, ..weak() };
        let fits = |v: &Violation| came_back(v) || out_of_order(v);
        caught_with(&plan, caps, caps, Lie::FuaDoesNothing, fits);
    }
}

#[test]
fn a_device_whose_writes_come_after_their_time() {
    let safe = Caps { ack: Ack::PowerSafe, atomic_unit: 65536, ..weak() };
    let fits = |v: &Violation| came_back(v) || matches!(v, Violation::StaleRead { .. });
    caught(safe, safe, Lie::WritesComeLate, fits);
}

#[test]
fn a_device_on_which_old_data_come_back() {
    let safe = Caps { ack: Ack::PowerSafe, atomic_unit: 65536, ..weak() };
    caught(safe, safe, Lie::OldDataComeBack, came_back);
}

#[test]
fn a_device_on_which_discards_come_back() {
    let safe = Caps { ack: Ack::PowerSafe, atomic_unit: 65536, ..weak() };
    let mix = Mix { write: 30, discard: 30, ..Mix::default() };
    let plan = CrashPlan { mix, max_blocks: 1, ..plan() };
    let reports = caught_with(&plan, safe, safe, Lie::DiscardsComeBack, came_back);
    let is = |v: &(u32, Violation)| matches!(v.1, Violation::DiscardUndone { .. });
    assert!(reports.iter().any(|r| r.violations.iter().any(is)));
}

#[test]
fn a_device_whose_writes_go_astray_or_rot() {
    let safe = Caps { ack: Ack::PowerSafe, atomic_unit: 65536, ..weak() };
    caught(safe, safe, Lie::WritesGoAstray, |v| !matches!(v, Violation::Pretended { .. }));
    let mixed = |v: &Violation| matches!(v, Violation::Mixed { .. });
    // Also in a block that nobody writes.
    let quiet = CrashPlan { range: 7, ..plan() };
    caught_with(&quiet, safe, safe, Lie::BlocksRot, mixed);
}

#[test]
fn a_device_with_stale_reads() {
    let fits =
        |v: &Violation| matches!(v, Violation::StaleRead { .. } | Violation::Resurrected { .. });
    for payload in [Payload::Bytes, Payload::Stamps] {
        let caps = Caps { payload, ..weak() };
        caught(caps, caps, Lie::ReadsAreStale, fits);
    }
}

#[test]
fn a_device_that_goes_on_after_a_failed_flush() {
    let pretended = |v: &Violation| matches!(v, Violation::Pretended { .. });
    caught(weak(), weak(), Lie::FailedFlushIsForgotten, pretended);
}
