//! A table of keys, as the page has it.

use super::fields::{Field, variants};
use super::probe::{Kind, range};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::{Table, Value};

/// The values of the enums that keys may have, by the names of their types.
pub type Words = BTreeMap<&'static str, Vec<(String, String)>>;

/// The values of these enums, each with the text of its source.
pub fn words(enums: &[(&'static str, &str)]) -> Words {
    enums.iter().map(|(name, source)| (*name, variants(source, name))).collect()
}

/// What the code fills in, where only these keys are given. Each of them is needed.
pub fn defaults<T: Serialize + DeserializeOwned>(needed: &str) -> Table {
    let needed: Table = needed.parse().expect("TOML");
    let read = |table: &Table| toml::from_str::<T>(&table.to_string());
    for key in needed.keys() {
        let mut less = needed.clone();
        less.remove(key);
        assert!(read(&less).is_err(), "{key} is not needed");
    }
    let whole = read(&needed).unwrap_or_else(|e| panic!("it is enough: {e}"));
    let mut whole = Table::try_from(whole).expect("a table");
    whole.retain(|key, _| !needed.contains_key(key));
    whole
}

/// The unit of a number, after its name.
fn unit(key: &str) -> &'static str {
    let suffixes = [
        ("_us", "µs"),
        ("_ns", "ns"),
        ("_ms", "ms"),
        ("_kib", "KiB"),
        ("_mib", "MiB"),
        ("percent", "%"),
        ("_pages", "pages"),
        ("_bytes", "bytes"),
        ("mb_s", "MB/s"),
        ("_mw", "mW"),
        ("joules", "J"),
        ("_blocks", "blocks"),
        ("rpm", "1/min"),
        ("_size", "bytes"),
        ("_within", "%"),
    ];
    if key == "steady_within" {
        return "";
    }
    if let Some((_, unit)) = suffixes.iter().find(|(suffix, _)| key.ends_with(suffix)) {
        return unit;
    }
    match key {
        "over_provisioning" | "thin_spare" | "checkpoint_share" => "%",
        "endurance" | "spread_max" => "erases",
        "queue_depth" | "queue_window" => "commands",
        "cache_window" => "writes",
        "collect_below" | "background_below" | "write_points" | "dump_units" => "erase units",
        "dirty_max" | "journal_entries" => "entries",
        "dirty_pages_max" => "map pages",
        "journal_ranges" => "ranges",
        "reorder" | "pages_per_program" => "pages",
        "read_priority" => "reads",
        "suspend_limit" => "times",
        "us" => "µs",
        "seconds" | "checkpoint_s" => "s",
        "within" => "%",
        "bytes" | "atomic_unit" => "bytes",
        "frames" => "frames",
        "documents" => "documents",
        "warmup" | "transactions" | "restart" => "transactions",
        _ => "",
    }
}

/// What the page says of a default.
fn in_words(field: &Field, default: Option<&Value>, is_needed: bool) -> String {
    match default {
        _ if is_needed => "needed".to_string(),
        None if field.of == "bool" => "`false`".to_string(),
        None if field.of.starts_with("Vec<") => "`[]`".to_string(),
        None => "none".to_string(),
        Some(Value::Table(table)) if table.is_empty() => "none".to_string(),
        // It has a table of its own on the page.
        Some(Value::Table(_)) if field.doc.contains("see below") => String::new(),
        Some(Value::Array(list)) if field.of.starts_with("OneOrMany") && list.len() == 1 => {
            format!("`{}`", list[0])
        }
        Some(value) => format!("`{value}`"),
    }
}

/// A table of keys: those at a path of what has keys, of which some are needed.
pub struct Keys<'a> {
    /// The type that has them.
    pub of: &'a str,
    /// Where they are.
    pub path: &'a [&'a str],
    /// The fields that they are in the code.
    pub all: &'a [Field],
    /// What the code fills in.
    pub defaults: &'a Table,
    /// Keys that have no default.
    pub needed: &'a [&'a str],
}

/// Adds a table of keys to the page.
pub fn rows(text: &mut String, keys: &Keys<'_>, kind: &Kind<'_>, words: &Words) {
    text.push_str(
        "| key | meaning | default | unit | range | source |\n|---|---|---|---|---|---|\n",
    );
    for field in keys.all {
        let is_needed = keys.needed.contains(&field.name.as_str());
        let default = in_words(field, keys.defaults.get(&field.name), is_needed);
        let of = ["Option<", "OneOrMany<"].iter().find_map(|of| field.of.strip_prefix(of));
        let of = of.map_or(field.of.as_str(), |of| of.trim_end_matches('>'));
        let named = words.get(of);
        let mut meaning = field.doc.clone();
        for (name, doc) in named.into_iter().flatten() {
            let _ = write!(meaning, " `{name}`: {doc}");
        }
        let range = match named {
            Some(all) => {
                all.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            }
            None => {
                let path: Vec<&str> = keys.path.iter().copied().chain([&*field.name]).collect();
                range(kind, &path, &field.of)
            }
        };
        let unit = if field.of == "bool" { "" } else { unit(&field.name) };
        let meaning = meaning.replace('|', "\\|");
        let source = field.source.as_ref();
        let source = source.unwrap_or_else(|| panic!("{}: no source of {}", keys.of, field.name));
        let _ = writeln!(
            text,
            "| `{}` | {meaning} | {default} | {unit} | {range} | {source} |",
            field.name
        );
    }
}
