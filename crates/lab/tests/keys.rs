//! `docs/experiments.md` has every key of an experiment file, and no other; and its defaults are
//! those of the code.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use tantalum_device::DiskModel;
use tantalum_lab::file::entry::Entry;
use tantalum_lab::file::experiment::{Experiment, RunParameters};
use tantalum_lab::report::published::{Ratio, Source};
use tantalum_lab::run::precondition::Precondition;
use tantalum_workload::appends::AppendJob;
use tantalum_workload::jobs::{Buffered, Job};
use tantalum_workload::linkbench::LinkBenchScale;
use tantalum_workload::pages::{AppendTreeJob, CacheJob, EngineJob};
use tantalum_workload::replay::Playing;
use tantalum_workload::tpcc::TpccScale;
use tantalum_workload::ycsb::YcsbScale;

const DOCS: &str = include_str!("../../../docs/experiments.md");
const DEVICES: &str = include_str!("../../../docs/devices.md");

/// The keys of a table under this heading, with what stands in its column of defaults.
fn documented(heading: &str) -> BTreeMap<String, String> {
    columns(DOCS, &format!("### {heading}"))
}

fn columns(page: &str, heading: &str) -> BTreeMap<String, String> {
    let (_, behind) = page.split_once(&format!("\n{heading}\n")).expect("the heading");
    let section = behind.split("\n## ").next().and_then(|s| s.split("\n### ").next());
    let mut keys = BTreeMap::new();
    for row in section.unwrap_or_default().lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [names, _, default] = cells[..] else { panic!("not three columns: {row}") };
        for name in names.split(", ") {
            let default = default.trim_end_matches('|').trim();
            keys.insert(name.trim_matches('`').to_string(), default.to_string());
        }
    }
    keys
}

/// The keys that serde knows: an unknown one is answered by all of them.
fn known<T: DeserializeOwned>(prefix: &str) -> BTreeSet<String> {
    let error = toml::from_str::<T>("no-such-key = 1").err().expect("it is unknown").to_string();
    let (_, list) = error.split_once(", expected ").expect("a list");
    let names = list.split('`').skip(1).step_by(2);
    names.map(|name| format!("{prefix}{name}")).collect()
}

fn same_keys(heading: &str, known: BTreeSet<String>) -> BTreeMap<String, String> {
    let documented = documented(heading);
    assert_eq!(documented.keys().cloned().collect::<BTreeSet<_>>(), known, "{heading}");
    documented
}

/// The defaults of a table all of whose keys have one; optional keys say in words what holds
/// without them.
fn same_defaults<T: Serialize + Default>(documented: &BTreeMap<String, String>, prefix: &str) {
    let table = toml::Table::try_from(T::default()).expect("a table");
    for (key, value) in table {
        let told = &documented[&format!("{prefix}{key}")];
        let is_told = match &value {
            toml::Value::Table(_) => told.starts_with('`'),
            toml::Value::Array(values) => values.is_empty() || *told == value.to_string(),
            _ => *told == value.to_string(),
        };
        assert!(is_told, "{prefix}{key} is {value}, and the page says {told}");
    }
}

#[test]
fn the_page_has_every_key_with_its_default() {
    same_keys("The file", known::<Experiment>(""));
    same_keys("`[[row]]`", known::<Entry>(""));
    same_keys("`[run]`", known::<RunParameters>(""));
    same_keys("`[trace.NAME]`", known::<Playing>(""));

    let engine = same_keys("`[engine.NAME]`", known::<EngineJob>(""));
    same_defaults::<EngineJob>(&engine, "");
    // It is left out of a report where it is not set.
    assert_eq!(engine["log_bytes"], EngineJob::default().log_bytes.to_string());
    let cache = same_keys("`[cache.NAME]`", known::<CacheJob>(""));
    same_defaults::<CacheJob>(&cache, "");
    let tree = same_keys("`[tree.NAME]`", known::<AppendTreeJob>(""));
    same_defaults::<AppendTreeJob>(&tree, "");
    let append = same_keys("`[append.NAME]`", known::<AppendJob>(""));
    same_defaults::<AppendJob>(&append, "");
    let job = same_keys("`[job.NAME]`", known::<Job>(""));
    same_defaults::<Job>(&job, "");
    let buffered = same_keys("`buffered` of a job", known::<Buffered>(""));
    same_defaults::<Buffered>(&buffered, "");
    let precondition = same_keys("`[precondition]`", known::<Precondition>(""));
    same_defaults::<Precondition>(&precondition, "");

    let mut scales = known::<LinkBenchScale>("linkbench.");
    scales.extend(known::<YcsbScale>("ycsb."));
    scales.extend(known::<TpccScale>("tpcc."));
    let scales = same_keys("`[linkbench]`, `[ycsb]`, `[tpcc]`", scales);
    same_defaults::<LinkBenchScale>(&scales, "linkbench.");
    same_defaults::<YcsbScale>(&scales, "ycsb.");
    same_defaults::<TpccScale>(&scales, "tpcc.");

    let mut published = known::<Source>("published.");
    published.extend(known::<Ratio>("ratio."));
    same_keys("`[published]` and `[[ratio]]`", published);
}

#[test]
fn the_page_of_devices_has_every_key_of_a_disk() {
    let documented = columns(DEVICES, "## Magnetic disks");
    let keys = documented.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys, known::<DiskModel>(""));
    let preset = include_str!("../../device/presets/disk-15k.toml");
    let mut needed: toml::Table = toml::from_str(preset).expect("the preset");
    needed.retain(|key, _| documented[key] == "needed");
    let disk: DiskModel = toml::from_str(&needed.to_string()).expect("all needed keys are there");
    let whole = toml::Table::try_from(disk).expect("a table");
    for (key, default) in documented.iter().filter(|(_, told)| *told != "needed") {
        assert_eq!(whole[key].to_string(), *default, "{key}");
    }
}
