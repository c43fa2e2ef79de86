//! The presets beside what was published of the devices after which they are named.

use std::sync::Arc;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::run::runner::{self, Progress, Watch};

/// The whole table, in shorter runs: a device that is changed by accident is far from it.
#[test]
fn the_cost_of_an_fsync_is_near_what_was_published() {
    let text = include_str!("../../../../experiments/fsync-frequency.toml");
    let shorter = [
        ("run.warm_up_ms".to_string(), toml::Value::Integer(1000)),
        ("run.run_ms".to_string(), toml::Value::Array(vec![toml::Value::Integer(3000); 2])),
    ];
    let e = Experiment::parse_with("fsync-frequency.toml", text, &shorter).unwrap();
    let rows = e.rows().unwrap();
    runner::check(&rows).unwrap();
    let watch: Watch = Arc::new(|_: Progress<'_>| ());
    let report = runner::run(&e, &rows, 2, &watch);
    let failed: Vec<_> = report.unexpected().map(|r| (&r.name, &r.error)).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let near = report.nearness().unwrap();
    let far: Vec<_> = report
        .rows
        .iter()
        .filter(|r| r.deviation_percent().is_none_or(|d| d.abs() > 30.0))
        .map(|r| (&r.name, r.deviation_percent()))
        .collect();
    println!("{near:?}");
    assert_eq!(near.rows, 81);
    assert_eq!(near.near_enough, Some(true), "{near:?}: {far:?}");
}

/// All six figures, on a drive of half the size, overwritten and measured for a shorter time.
#[test]
fn a_data_centre_drive_is_near_the_data_sheets_of_its_class() {
    let text = include_str!("../../../../experiments/datacenter.toml");
    let smaller = [
        ("drive.geometry.pages", 8),
        ("drive.timing.erase_us", 156),
        ("drive.map.dirty_max", 41667),
        ("drive.map.dump_units", 16),
    ]
    .map(|(key, value)| (key.to_string(), toml::Value::Integer(value)));
    let shorter = [
        ("precondition.passes_max".to_string(), toml::Value::Float(4.0)),
        ("run.warm_up_ms".to_string(), toml::Value::Integer(1000)),
        ("run.run_ms".to_string(), toml::Value::Array(vec![toml::Value::Integer(400); 2])),
    ];
    let changes: Vec<_> = smaller.into_iter().chain(shorter).collect();
    let e = Experiment::parse_with("datacenter.toml", text, &changes).unwrap();
    let rows = e.rows().unwrap();
    runner::check(&rows).unwrap();
    let watch: Watch = Arc::new(|_: Progress<'_>| ());
    let report = runner::run(&e, &rows, 2, &watch);
    let near = report.nearness().unwrap();
    let each: Vec<_> = report.rows.iter().map(|r| (&r.name, r.deviation_percent())).collect();
    println!("{near:?}: {each:?}");
    assert_eq!((near.rows, near.near_enough), (6, Some(true)), "{near:?}: {each:?}");
}

/// How far an experiment is from what was published, after shorter preparations and runs.
fn deviations(name: &str, text: &str, shorter: &[(&str, toml::Value)]) -> (u32, Option<bool>) {
    let shorter: Vec<_> = shorter.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
    let e = Experiment::parse_with(name, text, &shorter).unwrap();
    let rows = e.rows().unwrap();
    runner::check(&rows).unwrap();
    let watch: Watch = Arc::new(|_: Progress<'_>| ());
    let report = runner::run(&e, &rows, 2, &watch);
    let failed: Vec<_> = report.unexpected().map(|r| (&r.name, &r.error)).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let near = report.nearness().unwrap();
    let each: Vec<_> = report.rows.iter().map(|r| (&r.name, r.deviation_percent())).collect();
    println!("{near:?}: {each:?}");
    (near.rows, near.near_enough)
}

/// The four SSDs, overwritten for a shorter time.
#[test]
fn the_ssds_of_a_flash_cache_are_near_what_was_published() {
    let text = include_str!("../../../../experiments/cache-devices.toml");
    let shorter = [("precondition.passes_max", toml::Value::Float(2.0))];
    assert_eq!(deviations("cache-devices.toml", text, &shorter), (20, Some(true)));
}

/// One disk, and sixteen of it.
#[test]
fn the_disks_behind_a_flash_cache_are_near_what_was_published() {
    let text = include_str!("../../../../experiments/cache-disks.toml");
    let seconds = toml::Value::Array(vec![toml::Value::Integer(5000); 2]);
    assert_eq!(deviations("cache-disks.toml", text, &[("run.run_ms", seconds)]), (8, Some(true)));
}
