//! What commands print with `--json` is what docs/json.md says: each field, and no other.

use crate::common::{ends, file, path};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use tantalum_export::control::{CutReport, Power, Values};
use tantalum_torture::check::{Check, Harm};
use tantalum_torture::ground::{Blow, Outage};
use tantalum_torture::report::{Report, Round, Setting, VERSION};

/// What a command prints with `--json`.
fn json(arguments: &[&str]) -> Value {
    printed(&[arguments, &["--json"]].concat())
}

/// What a command prints.
fn printed(arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let (out, _) = ends(&output.expect("it starts"), 0);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {out}"))
}

/// Names of the fields of a value: `[]` for each member of a list, unless the whole value is one.
fn fields(value: &Value, name: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(all) => {
            let dot = if name.is_empty() { "" } else { "." };
            all.iter().for_each(|(k, v)| fields(v, &format!("{name}{dot}{k}"), found));
        }
        Value::Array(all) if name.is_empty() => all.iter().for_each(|v| fields(v, "", found)),
        Value::Array(all) if all.iter().any(Value::is_object) => {
            all.iter().for_each(|v| fields(v, &format!("{name}[]"), found));
        }
        _ => _ = found.insert(name.to_string()),
    }
}

/// Each field of the document is in the section of its command, and each field of the section is in
/// one of the documents. A field that is documented as a whole stands for all within it.
fn is_documented(command: &str, documents: &[Value]) {
    let text = include_str!("../../../../docs/json.md");
    let head = format!("\n## `tantalum {command} --json`\n");
    let (_, section) = text.split_once(&head).unwrap_or_else(|| panic!("no section: {command}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let told: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let mut found = BTreeSet::new();
    documents.iter().for_each(|document| fields(document, "", &mut found));
    let is_within = |field: &str, whole: &str| {
        field == whole || field.strip_prefix(whole).is_some_and(|rest| rest.starts_with('.'))
    };
    for field in &found {
        assert!(told.iter().any(|whole| is_within(field, whole)), "{command}: {field} is not told");
    }
    for whole in told.iter().filter(|whole| **whole != "failure") {
        assert!(found.iter().any(|field| is_within(field, whole)), "{command}: no {whole}");
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn designs_and_keys() {
    let list = json(&["designs"]);
    assert!(list.as_array().is_some_and(|all| all.len() > 20), "{list}");
    is_documented("designs", &[list]);
    let one = json(&["designs", "durassd"]);
    assert_eq!(one["values"]["cache"]["buffer_kib"], 4096);
    is_documented("designs", &[one]);
    is_documented("explain", &[json(&["explain", "link.mb_s"])]);
}

/// Lists of rows are printed, or written to a file. Once that of `crash` was no JSON.
#[test]
fn lists_of_rows() {
    let written = path("rows.json");
    for (verb, name) in [("run", "first"), ("crash", "crash")] {
        let list = printed(&[verb, name, "--list", "--json", "-"]);
        assert!(list["list"].as_array().is_some_and(|rows| rows.len() > 5), "{list}");
        is_documented(&format!("{verb} --list"), std::slice::from_ref(&list));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
        let command = command.args([verb, name, "--list", "--json", text(&written)]);
        let (out, err) = ends(&command.output().expect("it starts"), 0);
        assert!(out.is_empty() && err.is_empty(), "{out}{err}");
        let file = std::fs::read_to_string(&written).expect("it was written");
        assert_eq!(serde_json::from_str::<Value>(&file).expect("JSON"), list);
    }
}

#[test]
fn a_drive() {
    let image = path("drive.img");
    let made = json(&["drive", "create", text(&image), "--design", "volatile", "--capacity", "1G"]);
    assert!(made["capacity_bytes"].as_u64() >= Some(1 << 30), "{made}");
    is_documented("drive create", &[made]);
    std::fs::remove_file(&image).expect("removed");
}

#[test]
fn a_log() {
    let [log, a, b, c, backing] = ["log.toml", "log-a", "log-b", "log-c", "log-backing"].map(path);
    let devices = ["--device", text(&a), "--device", text(&b), "--copies", "2"];
    let size = ["--size", "8MiB"];
    let create = ["log", "create", text(&log)];
    let made = json(&[&create[..], &devices, &size].concat());
    is_documented("log create", &[made]);
    is_documented("log check", &[json(&["log", "check", text(&log)])]);
    let folder = text(log.parent().expect("a folder"));
    let words = ["log", "calibrate", folder, "--size", "2MiB", "--for", "10ms"];
    let calibrated = json(&words);
    is_documented("log calibrate", std::slice::from_ref(&calibrated));
    let preset = calibrated["preset"].as_str().expect("text");
    assert!(preset.contains("[[latency]]"), "{preset}");
    let writes = |of: &&Value| of["command"] == "write" && of["stream"] == "sequential";
    let measured = calibrated["measurements"].as_array().expect("a list");
    assert_eq!(measured.iter().filter(writes).count(), 3, "{calibrated}");
    std::fs::write(&c, vec![0; 8 << 20]).expect("written");
    let replaced = json(&["log", "replace", text(&log), "--lost", text(&b), "--with", text(&c)]);
    is_documented("log replace", &[replaced]);
    let without = json(&["log", "recover", text(&log)]);
    assert!(without["replayed"].is_null() && without["end"].is_u64(), "{without}");
    is_documented("log recover", &[without]);
    let more = ["--force", "--backing", text(&backing), "--backing-size", "8MiB"];
    let made = json(&[&create[..], &devices[..4], &more].concat());
    assert_eq!(made["copies"], 1);
    is_documented("log inspect", &[json(&["log", "inspect", text(&log)])]);
    let with = json(&["log", "recover", text(&log)]);
    assert!(with["replayed"].is_u64() && with["end"].is_null(), "{with}");
    [log, a, b, c, backing].iter().for_each(|path| drop(std::fs::remove_file(path)));
}

#[test]
fn a_cache() {
    let [cache, flash, slow] = ["cache.toml", "cache-flash", "cache-slow"].map(path);
    let devices = ["--flash", text(&flash), "--slow", text(&slow)];
    let sizes = ["--flash-size", "8MiB", "--slow-size", "16MiB"];
    let made = json(&[&["cache", "create", text(&cache)][..], &devices, &sizes].concat());
    is_documented("cache create", &[made]);
    for command in ["inspect", "check", "scrub"] {
        let name = format!("cache {command}");
        is_documented(&name, &[json(&["cache", command, text(&cache)])]);
    }
    let resized = json(&["cache", "resize", text(&cache), "--flash-size", "12MiB"]);
    is_documented("cache resize", &[resized]);
    is_documented("cache detach", &[json(&["cache", "detach", text(&cache)])]);
    [cache, flash, slow].iter().for_each(|path| drop(std::fs::remove_file(path)));
}

#[test]
fn a_fit() {
    let numbers = file("numbers.toml", "read_4k_us = 100.0\n");
    let free = ["--design", "tlc-modern", "--free", "timing.read_us", "--quick"];
    let fitted = json(&[&["fit", text(&numbers)][..], &free].concat());
    assert!(fitted["design"].as_str().is_some_and(|toml| toml.contains("[geometry]")), "{fitted}");
    is_documented("fit", &[fitted]);
}

#[test]
fn a_trace() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../workload/tests/samples/blkparse.txt");
    is_documented("trace info", &[json(&["trace", "info", sample])]);
}

/// A run with everything that a report may have. (That a run prints such a report is a test of its
/// own: it needs a mounted drive.)
#[test]
fn a_torture() {
    let cut = CutReport {
        was: Power::On,
        acknowledged_is_safe: true,
        lost_blocks_at_most: 0,
        real_ns: 1,
        complete: true,
        words: "off".into(),
        lines: Vec::new(),
        values: Values::default(),
    };
    let round = Round {
        number: 1,
        blow: Blow::Cut,
        commits: 7,
        under_way: 2,
        outage: Outage { cut: Some(cut.clone()), log_cut: Some(cut) },
        lost_device: false,
        drive_seconds: Some(0.1),
        mount_seconds: 0.2,
        database_seconds: 0.3,
        check: Check { count: [(Harm::Lost, 1)].into(), ..Check::default() },
    };
    let setting = Setting {
        database: "sqlite".into(),
        design: Some("durassd".into()),
        log: None,
        file_system: None,
        protection: true,
        barriers: true,
        time_scale: 1.0,
        seed: 1,
        clients: 4,
        accounts: 100,
    };
    let report = Report {
        version: VERSION,
        setting,
        rounds: vec![round],
        left: None,
        failure: None,
        storage_failed: false,
        interrupted: false,
    };
    let document: Value = serde_json::from_str(&report.to_json()).expect("it is JSON");
    assert_eq!(document["summary"]["harm"]["lost"], 1);
    is_documented("torture", &[document]);
}

#[test]
fn sums_of_reports() {
    let deviation = serde_json::json!({ "numbers": 2, "mean_percent": 1.0, "worst_percent": 2.0 });
    let report = serde_json::json!({
        "experiment": "a",
        "rows": [],
        "deviations": { "fitted": deviation, "predicted": null },
    });
    let file = file("report.json", report.to_string());
    let sums = json(&["published", text(&file)]);
    assert_eq!(sums["total"]["fitted"]["numbers"], 2);
    is_documented("published", &[sums]);
}
