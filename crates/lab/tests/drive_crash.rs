//! The drives under the crash harness: whatever they promise survives.

mod common;

use common::small;
use tantalum_device::Payload;
use tantalum_drive::{Design, Drive};
use tantalum_lab::crash::{CrashPlan, CutAt, crash_run};
use tantalum_rt::Nanos;

fn clean(design: &Design, payload: Payload, seed: u64, plan: &CrashPlan) -> u64 {
    let name = &design.name;
    let report = crash_run(seed, plan, |rt| Drive::new(rt, design, payload).unwrap())
        .unwrap_or_else(|e| panic!("{name}, seed {seed}: {e}"));
    assert!(report.is_clean(), "{name}: {report}");
    report.trace_hash
}

#[test]
fn random_commands_and_cuts() {
    for preset in Design::presets() {
        let design = small(preset);
        for seed in 0..60 {
            let plan = CrashPlan {
                rounds: 8,
                cut: CutAt::Within(Nanos::from_millis(40)),
                range: if seed % 3 == 0 { 64 } else { u64::MAX },
                restart_within: Nanos::from_millis(8),
                ..CrashPlan::default()
            };
            clean(&design, Payload::Stamps, seed, &plan);
        }
    }
}
