//! The documents: README is short, links lead somewhere, code is compiled somewhere, what README
//! says of the first experiment is in its report, and CONTRIBUTING.md has all steps of CI.

#![allow(clippy::disallowed_methods, reason = "tests read the files of the workspace")]

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The documents of the project: those at its root and in `docs`.
fn documents() -> Vec<PathBuf> {
    let of = |folder: PathBuf| {
        let files = std::fs::read_dir(folder).expect("the folder is there");
        files.map(|f| f.expect("it can be read").path())
    };
    let all = of(root()).chain(of(root().join("docs")));
    all.filter(|p| p.extension().is_some_and(|e| e == "md")).collect()
}

/// The targets of the links of a text, outside of blocks of code.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        code ^= line.trim_start().starts_with("```");
        if !code {
            found.extend(line.split("](").skip(1).filter_map(|rest| rest.split(')').next()));
        }
    }
    found
}

#[test]
fn links_lead_to_files_that_are_there() {
    let mut checked = 0;
    for document in documents() {
        let text = read(&document);
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            let (file, _) = link.split_once('#').unwrap_or((link, ""));
            let folder = document.parent().expect("it is in a folder");
            let is_there = file.is_empty() || folder.join(file).exists();
            assert!(is_there, "{}: {link} leads nowhere", document.display());
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} links only");
}

#[test]
fn readme_is_short_and_names_each_page_through_the_index() {
    let readme = read(&root().join("README.md"));
    assert!(readme.lines().count() <= 120, "{} lines", readme.lines().count());
    let index = read(&root().join("docs/README.md"));
    for page in documents().iter().filter(|p| p.parent().is_some_and(|f| f.ends_with("docs"))) {
        let name = page.file_name().expect("it has a name").to_string_lossy();
        assert!(name == "README.md" || index.contains(&format!("]({name})")), "{name}");
    }
}

/// Each row of the README's table has the numbers of the committed report.
#[test]
fn the_table_of_readme_is_that_of_the_report() {
    let report = read(&root().join("experiments/first.json"));
    let report: serde_json::Value = serde_json::from_str(&report).expect("it is JSON");
    let rows = report["rows"].as_array().expect("it has rows");
    let row = |name: &str| {
        let found = rows.iter().find(|row| row["name"] == name);
        let found = found.unwrap_or_else(|| panic!("the report has no row {name}"));
        let number = |key: &str| found[key].as_f64().unwrap_or_else(|| panic!("{name}: {key}"));
        (number("tx_per_s"), number("lost"))
    };
    let designs = [("volatile", "volatile"), ("none", "baseline"), ("durable", "durassd")];
    let readme = read(&root().join("README.md"));
    let mut checked = 0;
    for line in readme.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [cache, settings, rate, lost, _] = cells.as_slice() else { continue };
        let Some((_, design)) = designs.iter().find(|(name, _)| name == cache) else { continue };
        let (journal, synchronous) = settings.split_once(", ").expect("journal and synchronous");
        let journal = if journal == "WAL" { "wal" } else { "delete" };
        let synchronous = synchronous.trim_matches('`').to_lowercase();
        let (ours, losses) = row(&format!("linkbench/{design}/{journal}/{synchronous}"));
        let number = |cell: &str| cell.replace(',', "").parse::<f64>().expect("a number");
        assert!((number(rate) - ours).abs() <= 0.5, "{line}: {ours}");
        assert!((number(lost) - losses).abs() < 0.5, "{line}: {losses}");
        checked += 1;
    }
    assert_eq!(checked, 6);
}

/// The pictures are of the committed report, and README and the gallery have its number of cuts.
#[test]
fn pages_and_pictures_have_the_cuts_of_the_report() {
    let report = read(&root().join("experiments/first.json"));
    let report: serde_json::Value = serde_json::from_str(&report).expect("it is JSON");
    let cuts = report["cuts"].as_u64().expect("the cuts of each row");
    for (file, says) in [
        ("README.md", format!("cuts the power {cuts} times\nfor each row")),
        ("docs/gallery.md", format!("how many commits {cuts} power cuts of each row lost")),
        ("docs/first-cut.md", format!("cuts the power {cuts} times for each row")),
        ("docs/gallery-losses.svg", format!("{cuts} power cuts for each row")),
    ] {
        assert!(read(&root().join(file)).contains(&says), "{file} does not say: {says}");
    }
}

/// README.md and docs/limits.md say how true the models are as docs/fidelity.md adds it up.
#[test]
fn how_true_the_models_are_is_the_same_everywhere() {
    let one_line = |name: &str| {
        let text = read(&root().join(name));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let fidelity = one_line("docs/fidelity.md");
    let (_, sums) = fidelity.split_once("All together it is ").expect("fidelity.md has sums");
    let numbers = sums.split([' ', '(']).filter(|word| word.parse::<f64>().is_ok());
    let numbers: Vec<&str> = numbers.take(6).collect();
    let [fitted, off, predicted, off_too, most, most_off] = numbers[..] else {
        panic!("fidelity.md has {numbers:?}")
    };
    let without = predicted.parse::<u32>().expect("a number") - most.parse::<u32>().expect("one");
    assert_eq!(without, 4, "README.md and limits.md say that four are left out");
    for (name, says) in [
        ("README.md", format!("{fitted} numbers, {off} % off on average.")),
        ("README.md", format!("predict {predicted} others; these are {off_too} % off on average,")),
        ("README.md", format!("{most_off} % without four of")),
        ("docs/limits.md", format!("Fitted: {fitted} numbers, off by {off} % on average.")),
        ("docs/limits.md", format!("{predicted} numbers, off by {off_too} % on average,")),
        ("docs/limits.md", format!("{most_off} % without four of them")),
    ] {
        assert!(one_line(name).contains(&says), "{name} does not say: {says}");
    }
}

/// CONTRIBUTING.md lists the steps of `.ci/run`: all of them, by the names that are printed, in their
/// order.
#[test]
fn the_table_of_steps_is_that_of_ci() {
    let ci = read(&root().join(".ci/run"));
    let steps = ci.lines().filter_map(|line| line.strip_prefix("step "));
    let steps = steps.map(|name| name.trim_matches('"')).filter(|name| *name != "done");
    let steps: Vec<&str> = steps.collect();
    assert!(steps.len() > 20, "{steps:?}");
    let contributing = read(&root().join("CONTRIBUTING.md"));
    let table = contributing.lines().skip_while(|line| !line.starts_with("| step of `.ci/run`"));
    let rows = table.skip(2).take_while(|line| line.starts_with('|'));
    let rows = rows.map(|row| row.split('|').nth(1).expect("a row has cells").trim());
    assert_eq!(rows.collect::<Vec<_>>(), steps);
}

/// The names of metrics in a query.
fn metrics(query: &str) -> Vec<&str> {
    let of = |rest: &'_ str| rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = query.split("tantalum_").skip(1);
    names.map(|rest| rest[..of(rest).unwrap_or(rest.len())].trim_end_matches("_bucket")).collect()
}

/// Each metric of the dashboards is one of those that are documented, and there is a dashboard for
/// each kind of box.
#[test]
fn the_dashboards_show_metrics_that_there_are() {
    let control = read(&root().join("docs/control.md"));
    for (name, at_least) in [("grafana", 20), ("grafana-log", 20), ("grafana-cache", 20)] {
        let dashboard = read(&root().join(format!("docs/{name}.json")));
        let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("it is JSON");
        let text = |value: &serde_json::Value| value.as_str().map(str::to_string);
        let mut queries: Vec<String> = dashboard["templating"]["list"]
            .as_array()
            .expect("it has variables")
            .iter()
            .filter(|variable| variable["type"] == "query")
            .filter_map(|variable| text(&variable["query"]))
            .collect();
        for panel in dashboard["panels"].as_array().expect("it has panels") {
            for target in panel["targets"].as_array().expect("a panel has targets") {
                queries.push(text(&target["expr"]).expect("a target has a query"));
            }
        }
        let mut checked = 0;
        for metric in queries.iter().flat_map(|query| metrics(query)) {
            assert!(control.contains(&format!("`{metric}`")), "{name}: {metric} is not documented");
            checked += 1;
        }
        assert!(checked > at_least, "{name}: {checked} metrics only");
    }
}

/// Each metric that a log volume or a cache volume shows is documented, and on its dashboard.
#[test]
fn metrics_of_volumes_are_documented_and_on_dashboards() {
    let control = read(&root().join("docs/control.md"));
    for (of, at_least) in [("log", 15), ("cache", 15)] {
        let dashboard = read(&root().join(format!("docs/grafana-{of}.json")));
        let source = read(&root().join(format!("crates/{of}/src/volume/live.rs")));
        let named = |call: &str, suffix: &str| -> Vec<String> {
            let calls = source.split(call).skip(1);
            let names = calls.map(|rest| rest.split('"').next().expect("a name ends"));
            names.map(|name| format!("{name}{suffix}")).collect()
        };
        let all = [named(".gauge(\"", ""), named(".counter(\"", "_total")].concat();
        assert!(all.len() >= at_least, "{of}: {all:?}");
        for name in all {
            assert!(control.contains(&format!("`{name}`")), "{name} is not documented");
            let shown = metrics(&dashboard).contains(&name.as_str());
            assert!(shown, "{name} is not on the dashboard of a {of} volume");
        }
    }
}

/// A block of code of a document: its first line without the marks, and what is in it.
struct Code {
    kind: String,
    lines: Vec<String>,
}

/// The blocks of code of a text.
fn code(text: &str) -> Vec<Code> {
    let mut found: Vec<Code> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line.trim_start().strip_prefix("```") {
            Some(kind) if !inside => {
                found.push(Code { kind: kind.to_string(), lines: Vec::new() });
                inside = true;
            }
            Some(_) => inside = false,
            None if inside => found.last_mut().expect("it began").lines.push(line.to_string()),
            None => {}
        }
    }
    assert!(!inside, "a block of code does not end");
    found
}

/// README.md and the pages of `docs`, with their blocks of code.
fn pages() -> Vec<(PathBuf, Vec<Code>)> {
    let is_page = |path: &PathBuf| {
        path.ends_with("README.md") || path.parent().is_some_and(|folder| folder.ends_with("docs"))
    };
    let pages = documents().into_iter().filter(is_page);
    pages.map(|path| (path.clone(), code(&read(&path)))).collect()
}

const LANGUAGES: [&str; 7] = ["sh", "text", "toml", "rust", "c", "ini", "console"];

/// A block of code says what it is. Others see to what is in it:
///
/// 1. `sh` and `text`: `crates/cli/tests/mounts/pages.rs`, which runs the commands.
/// 2. `toml`: the same, with what reads such files.
/// 3. `rust` and `c`: below.
/// 4. `ini` (units of systemd) and `console` (a session with a server) are checked by nothing.
#[test]
fn each_block_of_code_says_what_it_is() {
    for (path, blocks) in pages() {
        for Code { kind, lines } in blocks {
            let language = kind.split(' ').next().unwrap_or_default();
            let is_known = LANGUAGES.contains(&language);
            assert!(is_known, "{}: ```{kind}: {lines:?}", path.display());
        }
    }
}

/// Files that are compiled, in which the code of the pages is.
const COMPILED: [(&str, &str); 5] = [
    ("rust", "crates/drive/tests/it/page.rs"),
    ("rust", "crates/explore/tests/it/page.rs"),
    ("rust", "crates/explore/examples/kv.rs"),
    ("c", "crates/capi/tests/c/pages.c"),
    ("c", "crates/export/examples/exit.c"),
];

/// The lines that are not empty, each with one space where there are several.
fn bare<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let bare = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    bare.filter(|line| !line.is_empty()).collect()
}

/// Each block of Rust and of C is, line for line, in one of these files; and each file has a block.
#[test]
fn code_of_the_pages_is_compiled() {
    let compiled = COMPILED.map(|(of, path)| (of, path, bare(read(&root().join(path)).lines())));
    let mut used = std::collections::BTreeSet::new();
    for (path, blocks) in pages() {
        for Code { kind, lines } in blocks {
            if !["rust", "c"].contains(&kind.as_str()) {
                continue;
            }
            let shown = bare(lines.iter().map(String::as_str));
            assert!(!shown.is_empty(), "{}: an empty block", path.display());
            let has = |all: &[String]| all.windows(shown.len()).any(|part| part == shown);
            let file = compiled.iter().find(|(of, _, all)| *of == kind && has(all));
            let text = shown.join("\n");
            let Some((_, name, _)) = file else {
                panic!("{}: compiled nowhere, as it stands here:\n{text}", path.display());
            };
            used.insert(*name);
        }
    }
    assert_eq!(used.len(), COMPILED.len(), "a page shows something of each: {used:?}");
}
