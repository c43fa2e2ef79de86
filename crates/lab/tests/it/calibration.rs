//! The presets beside what was published of the devices after which they are named.

use std::sync::Arc;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::run::runner::{self, Progress, Watch};
use toml::Value;

/// How many figures of an experiment have published ones beside them, and whether they are near these,
/// with these keys changed: mostly for a shorter run.
fn deviations(name: &str, text: &str, changes: &[(&str, Value)]) -> (u32, Option<bool>) {
    let changes: Vec<_> = changes.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
    let e = Experiment::parse_with(name, text, &changes).unwrap();
    let rows = e.rows().unwrap();
    runner::check(&rows).unwrap();
    let watch: Watch = Arc::new(|_: Progress<'_>| ());
    let report = runner::run(&e, &rows, 2, &watch);
    let failed: Vec<_> = report.unexpected().map(|r| (&r.name, &r.error)).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let near = report.nearness().unwrap();
    let each = report.rows.iter().map(|r| (&r.name, r.deviation_percent()));
    let far: Vec<_> = each.filter(|(_, d)| d.is_some_and(|d| d.abs() > 20.0)).collect();
    println!("{near:?}, the farthest: {far:?}");
    (near.rows, near.near_enough)
}

/// So many milliseconds of load: at least, and at most.
fn exactly(milliseconds: i64) -> Value {
    Value::Array(vec![Value::Integer(milliseconds); 2])
}

/// The whole table, in shorter runs: a device that is changed by accident is far from it.
#[test]
fn the_cost_of_an_fsync_is_near_what_was_published() {
    let text = include_str!("../../../../experiments/fsync-frequency.toml");
    let shorter = [("run.warm_up_ms", Value::Integer(1000)), ("run.run_ms", exactly(3000))];
    assert_eq!(deviations("fsync-frequency.toml", text, &shorter), (81, Some(true)));
}

/// All six figures, on a drive of half the size, overwritten and measured for a shorter time.
#[test]
fn a_data_centre_drive_is_near_the_data_sheets_of_its_class() {
    let text = include_str!("../../../../experiments/datacenter.toml");
    let smaller_and_shorter = [
        ("drive.geometry.pages", Value::Integer(8)),
        ("drive.timing.erase_us", Value::Integer(156)),
        ("drive.map.dirty_max", Value::Integer(41667)),
        ("drive.map.dump_units", Value::Integer(16)),
        ("precondition.passes_max", Value::Float(2.0)),
        ("run.warm_up_ms", Value::Integer(1000)),
        ("run.run_ms", exactly(400)),
    ];
    assert_eq!(deviations("datacenter.toml", text, &smaller_and_shorter), (6, Some(true)));
}

/// The four SSDs, overwritten for a shorter time.
#[test]
fn the_ssds_of_a_flash_cache_are_near_what_was_published() {
    let text = include_str!("../../../../experiments/cache-devices.toml");
    let shorter = [("precondition.passes_max", Value::Float(1.0))];
    assert_eq!(deviations("cache-devices.toml", text, &shorter), (20, Some(true)));
}

/// One disk, and sixteen of it.
#[test]
fn the_disks_behind_a_flash_cache_are_near_what_was_published() {
    let text = include_str!("../../../../experiments/cache-disks.toml");
    assert_eq!(
        deviations("cache-disks.toml", text, &[("run.run_ms", exactly(2500))]),
        (8, Some(true))
    );
}
