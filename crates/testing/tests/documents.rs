//! The documents: README is short, links lead somewhere, and what README says of the first
//! experiment is in its report.

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

/// Each metric of the dashboard is one of those that are documented.
#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    let dashboard = read(&root().join("docs/grafana.json"));
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("it is JSON");
    let control = read(&root().join("docs/control.md"));
    let mut checked = 0;
    for panel in dashboard["panels"].as_array().expect("it has panels") {
        for target in panel["targets"].as_array().expect("a panel has targets") {
            let query = target["expr"].as_str().expect("a target has a query");
            for rest in query.split("tantalum_").skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let name = rest[..end.unwrap_or(rest.len())].trim_end_matches("_bucket");
                assert!(control.contains(&format!("`{name}`")), "{name} is not documented");
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked} metrics only");
}
