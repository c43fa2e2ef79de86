//! `tantalum explain`: what a key of an experiment, of an exploration or of a design means.
//!
//! 1. Keys are explained by the tables of docs/keys.md, which is made from the code.
//! 2. Keys of designs are shown with their values in the presets, and the comments beside them.

use crate::out;
use clap::Args;
use serde::Serialize;
use std::fmt::Write;
use tantalum_drive::nearest_name;
use tantalum_lab::subject;

/// The tables of keys.
const KEYS: &str = include_str!("keys.md");

/// The parts of that page: how its headings begin, and what the keys below are of.
const PARTS: [(&str, &str); 3] =
    [("experiments", "experiment"), ("explorations", "exploration"), ("designs", "design")];

/// Arguments of `tantalum explain`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum explain engine.clients      a key of an experiment
  tantalum explain engine              all keys of a table
  tantalum explain run_ms              a key of whatever table has it
  tantalum explain cache.buffer_kib    a key of a design, in all presets
  tantalum explain samples             a key of a file of `tantalum crash`
  tantalum explain queue_depth --json  the same as JSON (docs/json.md)")]
pub struct ExplainArguments {
    /// A key, with or without its table; or a table
    key: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key<'a> {
    /// What has it: "experiment", "exploration" or "design".
    of: &'static str,
    /// The tables that have it; empty: the file itself.
    tables: Vec<&'a str>,
    name: &'a str,
    meaning: &'a str,
    default: &'a str,
    unit: &'a str,
    range: &'a str,
    source: &'a str,
}

impl Key<'_> {
    fn full_names(&self) -> Vec<String> {
        match self.tables.as_slice() {
            // Keys of several tables are written out with theirs.
            [table] if !self.name.contains('.') => vec![format!("{table}.{}", self.name)],
            _ => vec![self.name.to_string()],
        }
    }

    /// Whether it is meant by these words.
    fn is_meant(&self, asked: &str) -> bool {
        let short = self.name.rsplit('.').next();
        self.full_names().iter().any(|n| n == asked)
            || short == Some(asked)
            || self.tables.contains(&asked)
    }

    fn explained(&self) -> Explained {
        let told = |cell: &str| Some(plain(cell)).filter(|cell| !cell.is_empty());
        Explained {
            of: self.of,
            keys: self.full_names(),
            meaning: plain(self.meaning),
            default: told(self.default),
            unit: told(self.unit),
            range: told(self.range),
            source: told(self.source),
        }
    }
}

/// What is said of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Answer {
    keys: Vec<Explained>,
    presets: Vec<InPreset>,
}

/// What is said of a key, or of several that mean the same in their tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Explained {
    of: &'static str,
    keys: Vec<String>,
    meaning: String,
    default: Option<String>,
    unit: Option<String>,
    range: Option<String>,
    /// Where the mechanism or quantity comes from.
    source: Option<String>,
}

/// A key in a preset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct InPreset {
    preset: &'static str,
    key: String,
    value: String,
    /// The comment beside it: where the value comes from.
    source: Option<String>,
    #[serde(skip)]
    line: &'static str,
}

/// Runs the command; returns the exit code.
pub fn explain(arguments: &ExplainArguments) -> u8 {
    match answer(&arguments.key) {
        Ok(answer) if arguments.json => out::json(&answer),
        Ok(answer) => out::bytes(text(&answer).as_bytes()),
        Err(message) => out::error(message, out::USAGE),
    }
}

fn answer(asked: &str) -> Result<Answer, String> {
    let asked = asked.trim().trim_matches(['[', ']']);
    // `[engine.NAME]` has the keys of `engine`; so has `engine.mine.clients` those of `engine`, and
    // `drive.cache.buffer_kib` is a key of a design.
    let keys = keys(KEYS);
    let parts: Vec<&str> = asked.split('.').collect();
    let of_design = asked.strip_prefix("drive.").unwrap_or(asked);
    let without_name = match parts.as_slice() {
        ["drive", _, _] => of_design.to_string(),
        [table, _, key] => format!("{table}.{key}"),
        [table, name] if name.chars().all(char::is_uppercase) => (*table).to_string(),
        _ => asked.to_string(),
    };
    // `drive.cache` is the table `cache` of a design, which an experiment changes.
    let is_known = keys.iter().any(|key| key.is_meant(&without_name));
    let of = if is_known { None } else { asked.strip_prefix("drive.").map(|_| "design") };
    let without_name = if of.is_some() { of_design.to_string() } else { without_name };
    let is_of = |key: &&Key<'_>| of.is_none_or(|of| key.of == of);
    let meant = keys.iter().filter(is_of).filter(|key| key.is_meant(&without_name));
    let answer =
        Answer { keys: meant.map(Key::explained).collect(), presets: in_presets(of_design)? };
    if !answer.keys.is_empty() || !answer.presets.is_empty() {
        return Ok(answer);
    }
    let tip = nearest_key(asked, &keys)
        .map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    Err(format!("no experiment, exploration or design has the key \"{asked}\"{tip}"))
}

/// The key that is most likely meant. The last part of a key says more than its tables, of which one
/// key may have several.
fn nearest_key(asked: &str, keys: &[Key<'_>]) -> Option<String> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_string();
    let names: Vec<String> = keys.iter().flat_map(Key::full_names).collect();
    let short: Vec<String> = names.iter().map(|n| last(n)).collect();
    let in_order =
        |names: &[String]| nearest_name(asked, names.iter().map(String::as_str)).map(String::from);
    let Some(near) = nearest_name(&last(asked), short.iter().map(String::as_str)) else {
        return in_order(&names);
    };
    let with_it: Vec<String> = names.iter().filter(|name| last(name) == near).cloned().collect();
    match with_it.as_slice() {
        [only] => Some(only.clone()),
        several => in_order(several).or_else(|| Some(near.to_string())),
    }
}

fn text(answer: &Answer) -> String {
    let mut text = String::new();
    for key in &answer.keys {
        let of = match key.of {
            "design" => " (of a design)",
            "exploration" => " (of an exploration)",
            _ => "",
        };
        let _ = writeln!(text, "{}{of}\n    {}", key.keys.join(", "), key.meaning);
        for (what, told) in [
            ("default", &key.default),
            ("unit", &key.unit),
            ("range", &key.range),
            ("source", &key.source),
        ] {
            if let Some(told) = told {
                let _ = writeln!(text, "    {what}: {told}");
            }
        }
    }
    if !answer.presets.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str("In the presets of designs:\n");
    }
    for InPreset { preset, key, line, .. } in &answer.presets {
        let table = key.rsplit_once('.').map_or(String::new(), |(table, _)| format!("{table}."));
        let _ = writeln!(text, "    {preset}: {table}{line}");
    }
    text
}

/// The text of a cell, without the marks of Markdown.
fn plain(cell: &str) -> String {
    cell.replace('`', "").replace("\\|", "|")
}

/// The keys of all tables of the document, in its order.
fn keys(document: &str) -> Vec<Key<'_>> {
    let mut keys = Vec::new();
    let mut of = "";
    let mut tables: Vec<&str> = Vec::new();
    let mut is_of_keys = false;
    for line in document.lines() {
        if line.starts_with('#') {
            let named = line.split('`').skip(1).step_by(2);
            tables = named.map(table_name).collect();
            is_of_keys = false;
            if let Some(part) = line.strip_prefix("## Keys of ") {
                of = PARTS.iter().find(|(name, _)| *name == part).map_or("", |(_, of)| of);
            }
        } else if line.starts_with("| key |") {
            is_of_keys = true;
        } else if !line.starts_with('|') {
            is_of_keys = false;
        } else if is_of_keys && !line.starts_with("|---") {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [names, meaning, rest @ ..] = cells.as_slice() else { continue };
            let cell = |n: usize| rest.get(n).copied().unwrap_or_default();
            let (default, unit, range, source) = (cell(0), cell(1), cell(2), cell(3));
            for name in names.split('`').skip(1).step_by(2) {
                let tables = tables.clone();
                keys.push(Key { of, tables, name, meaning, default, unit, range, source });
            }
        }
    }
    keys
}

/// `[[row]]`, `[engine.NAME]` and `buffered`: the table's name alone.
fn table_name(heading: &str) -> &str {
    heading.trim_matches(['[', ']']).split('.').next().unwrap_or_default()
}

/// The lines of the presets that have this key, with their comments.
fn in_presets(asked: &str) -> Result<Vec<InPreset>, String> {
    let mut found = Vec::new();
    let (table, key) = asked.rsplit_once('.').unwrap_or(("", asked));
    // The keys of a disk are in no table of its file.
    let table = if table == "disk" { "" } else { table };
    for preset in subject::presets() {
        let mut at = "";
        for line in subject::preset_text(preset)?.lines() {
            if let Some(section) = line.strip_prefix('[') {
                at = section.split(']').next().unwrap_or_default();
            }
            let is = line.split(['=', ' ']).next() == Some(key);
            let Some((_, told)) = line.split_once('=').filter(|_| is) else { continue };
            if table.is_empty() || table == at {
                let dot = if at.is_empty() { "" } else { "." };
                let (value, source) = told.split_once('#').unwrap_or((told, ""));
                found.push(InPreset {
                    preset,
                    key: format!("{at}{dot}{key}"),
                    value: value.trim().to_string(),
                    source: Some(source.trim().to_string()).filter(|s| !s.is_empty()),
                    line: line.trim(),
                });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn explained(asked: &str) -> Result<String, String> {
        answer(asked).map(|answer| text(&answer))
    }

    #[test]
    fn keys_are_found_with_and_without_their_tables() {
        let clients = explained("engine.clients").expect("it is there");
        assert!(clients.contains("without think time") && clients.contains("default: 128"));
        assert_eq!(explained("engine.mine.clients"), Ok(clients.clone()));
        let all = explained("clients").expect("it is there");
        assert!(all.contains("engine.clients") && all.contains("run.clients"), "{all}");
        let engine = explained("[engine.NAME]").expect("it is a table");
        assert!(engine.contains("page_bytes") && !engine.contains("run_ms"), "{engine}");
        assert!(explained("ycsb.records").expect("it is there").contains("default: 3000"));
        let row = explained("row.synchronous").expect("a key of a row");
        assert!(row.contains("default: \"full\"") && row.contains("range: extra, full"), "{row}");
        let mix = explained("mix.hosts").expect("a key of explorations");
        assert!(mix.contains("mix.hosts (of an exploration)"), "{mix}");
    }

    #[test]
    fn keys_of_designs_come_from_the_presets() {
        let text = explained("cache.buffer_kib").expect("presets have it");
        assert!(text.contains("durassd: cache.buffer_kib = 4096"), "{text}");
        assert!(text.contains("Its size, KiB.") && text.contains("unit: KiB"), "{text}");
        assert!(text.contains("default: needed") && text.contains("range: "), "{text}");
        assert!(text.contains("source: DuraSSD"), "{text}");
        // As in an experiment, where it changes the drives of all rows.
        assert_eq!(explained("drive.cache.buffer_kib"), Ok(text));
        let power = explained("power.joules").expect("no preset has it, but it is a key");
        assert!(power.contains("default: 0"), "{power}");
        let disk = explained("disk.rpm").expect("a key of a disk");
        assert!(disk.contains("Revolutions") && disk.contains("disk-15k: rpm = 15000"), "{disk}");
    }

    #[test]
    fn the_json_has_what_the_text_has() {
        let json = serde_json::to_value(answer("link.queue_depth").expect("a key")).expect("JSON");
        assert_eq!(json["keys"][0]["of"], "design");
        assert_eq!(json["keys"][0]["keys"][0], "link.queue_depth");
        assert_eq!(json["keys"][0]["source"], "SATA, NVMe");
        let presets = json["presets"].as_array().expect("a list");
        let durassd = presets.iter().find(|p| p["preset"] == "durassd").expect("it has the key");
        assert_eq!((&durassd["value"], &durassd["source"]), (&"32".into(), &json!(null)));
    }

    #[test]
    fn near_names_are_named() {
        let wrong = explained("engine.clyents").expect_err("there is none");
        assert!(wrong.contains("did you mean \"engine.clients\"?"), "{wrong}");
        let wrong = explained("buffer_kbi").expect_err("there is none");
        assert!(wrong.contains("did you mean \"cache.buffer_kib\"?"), "{wrong}");
        let wrong = explained("zzzzzz").expect_err("there is none");
        assert!(!wrong.contains("did you mean"), "{wrong}");
    }

    #[test]
    fn a_table_of_a_design_lists_its_keys() {
        let cache = explained("drive.cache").expect("it is a table of a design");
        assert!(cache.contains("cache.buffer_kib (of a design)"), "{cache}");
        assert!(!cache.lines().any(|line| line.contains("(of an exploration)")), "{cache}");
    }

    #[test]
    fn each_row_of_the_tables_is_a_key() {
        let keys = keys(KEYS);
        assert!(keys.iter().all(|k| !k.meaning.is_empty() && !k.name.contains(' ')));
        for (of, least) in [("experiment", 100), ("exploration", 40), ("design", 80)] {
            let count = keys.iter().filter(|key| key.of == of).count();
            assert!(count > least, "{of}: {count}");
        }
    }
}
