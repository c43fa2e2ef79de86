//! `tantalum explain`: what a key of an experiment or of a design means.
//!
//! 1. Keys of experiments are explained by the tables of docs/experiments.md, which a test holds to
//!    the code: each key, and its default.
//! 2. Keys of designs are shown with their values in the presets, and the comments beside them.

use crate::out;
use clap::Args;
use std::fmt::Write;
use tantalum_drive::nearest_name;
use tantalum_lab::subject;

/// The tables of keys.
const DOCUMENT: &str = include_str!("experiments.md");

/// Arguments of `tantalum explain`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum explain engine.clients      a key of an experiment
  tantalum explain engine              all keys of a table
  tantalum explain run_ms              a key of whatever table has it
  tantalum explain cache.buffer_kib    a key of a design, in all presets")]
pub struct ExplainArguments {
    /// A key, with or without its table; or a table
    key: String,
}

/// A key of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key<'a> {
    /// The tables that have it; empty: the file itself.
    tables: Vec<&'a str>,
    name: &'a str,
    meaning: &'a str,
    default: &'a str,
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
}

/// Runs the command; returns the exit code.
pub fn explain(arguments: &ExplainArguments) -> u8 {
    match explained(&arguments.key) {
        Ok(text) => out::bytes(text.as_bytes()),
        Err(message) => out::error(message, out::USAGE),
    }
}

fn explained(asked: &str) -> Result<String, String> {
    let asked = asked.trim().trim_matches(['[', ']']);
    // `[engine.NAME]` has the keys of `engine`; so has `engine.mine.clients` those of `engine`.
    let keys = keys(DOCUMENT);
    let parts: Vec<&str> = asked.split('.').collect();
    let without_name = match parts.as_slice() {
        [table, _, key] => format!("{table}.{key}"),
        [table, name] if name.chars().all(char::is_uppercase) => (*table).to_string(),
        _ => asked.to_string(),
    };
    let mut text = String::new();
    for key in keys.iter().filter(|key| key.is_meant(&without_name)) {
        let _ = writeln!(text, "{}\n    {}", key.full_names().join(", "), plain(key.meaning));
        let default = plain(key.default);
        if !default.is_empty() {
            let _ = writeln!(text, "    default: {default}");
        }
    }
    let designs = of_designs(asked)?;
    if !text.is_empty() && !designs.is_empty() {
        text.push('\n');
    }
    text.push_str(&designs);
    if !text.is_empty() {
        return Ok(text);
    }
    let names: Vec<String> = keys.iter().flat_map(Key::full_names).collect();
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_string();
    let near = nearest_name(asked, names.iter().map(String::as_str)).map(String::from);
    let short: Vec<String> = names.iter().map(|n| last(n)).collect();
    let near = near.or_else(|| {
        let last = last(asked);
        nearest_name(&last, short.iter().map(String::as_str)).map(String::from)
    });
    let tip = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    Err(format!("no experiment and no design has the key \"{asked}\"{tip}"))
}

/// The text of a cell, without the marks of Markdown.
fn plain(cell: &str) -> String {
    cell.replace('`', "")
}

/// The keys of all tables of the document, in its order.
fn keys(document: &str) -> Vec<Key<'_>> {
    let mut keys = Vec::new();
    let mut tables: Vec<&str> = Vec::new();
    let mut is_of_keys = false;
    for line in document.lines() {
        if line.starts_with('#') {
            let named = line.split('`').skip(1).step_by(2);
            tables = named.map(table_name).collect();
            is_of_keys = false;
        } else if line.starts_with("| key |") {
            is_of_keys = true;
        } else if !line.starts_with('|') {
            is_of_keys = false;
        } else if is_of_keys && !line.starts_with("|---") {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [names, meaning, rest @ ..] = cells.as_slice() else { continue };
            let default = rest.first().copied().unwrap_or_default();
            for name in names.split('`').skip(1).step_by(2) {
                keys.push(Key { tables: tables.clone(), name, meaning, default });
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
fn of_designs(asked: &str) -> Result<String, String> {
    let mut text = String::new();
    let (table, key) = asked.rsplit_once('.').unwrap_or(("", asked));
    for name in subject::presets() {
        let mut at = "";
        for line in subject::preset_text(name)?.lines() {
            if let Some(section) = line.strip_prefix('[') {
                at = section.split(']').next().unwrap_or_default();
            }
            let is = line.split(['=', ' ']).next() == Some(key) && line.contains('=');
            if is && (table.is_empty() || table == at) {
                if text.is_empty() {
                    text.push_str("In the presets of designs:\n");
                }
                let at = if at.is_empty() { String::new() } else { format!("{at}.") };
                let _ = writeln!(text, "    {name}: {at}{}", line.trim());
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }

    #[test]
    fn keys_of_designs_come_from_the_presets() {
        let text = explained("cache.buffer_kib").expect("presets have it");
        assert!(text.contains("durassd: cache.buffer_kib = 4096"), "{text}");
        assert!(!text.contains("default"), "{text}");
    }

    #[test]
    fn near_names_are_named() {
        let wrong = explained("engine.clyents").expect_err("there is none");
        assert!(wrong.contains("clients"), "{wrong}");
    }

    #[test]
    fn each_row_of_the_tables_is_a_key() {
        let keys = keys(DOCUMENT);
        assert!(keys.len() > 100, "{}", keys.len());
        assert!(keys.iter().all(|k| !k.meaning.is_empty() && !k.name.contains(' ')));
    }
}
