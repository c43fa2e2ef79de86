//! A candidate as text: as a design of an experiment file, and in short.

use super::grid::{Choice, Keeps};
use crate::file::experiment::Scene;
use std::fmt;
use tantalum_drive::Design;

/// What the design is called in an experiment file.
const NAME: &str = "found";

/// This design as a table of an experiment file: what differs from the preset that its base goes
/// back to. And the keys that the file's `[drive]` has otherwise.
pub(super) fn design(design: &Design, base: &str, scene: &Scene) -> (String, Vec<String>) {
    let own = scene.design.get(base);
    let preset = own.map_or(Some(base), |own| own.get("base")?.as_str());
    let whole = Design { name: NAME.into(), ..design.clone() };
    let table = toml::Table::try_from(&whole).unwrap_or_default();
    let preset = preset.and_then(|name| Some((name, Design::preset(name).ok()?)));
    let (from, other) = match &preset {
        Some((name, preset)) => (format!("base = \"{name}\"\n"), toml::Table::try_from(preset)),
        None => (String::new(), Ok(toml::Table::new())),
    };
    let mut changes = differences(&table, &other.unwrap_or_default());
    changes.remove("name");
    let lines = changes.iter().map(|(key, value)| format!("{key} = {value}\n"));
    let text = format!("[design.{NAME}]\n{from}{}", lines.collect::<String>());
    let conflicts = conflicts(&table, &scene.drive, "");
    (text, conflicts)
}

/// The part of `table` that differs from `other`.
fn differences(table: &toml::Table, other: &toml::Table) -> toml::Table {
    let differs = |(key, value): (&String, &toml::Value)| {
        let value = match (value, other.get(key)) {
            (toml::Value::Table(t), Some(toml::Value::Table(o))) => {
                let inner = differences(t, o);
                (!inner.is_empty()).then_some(toml::Value::Table(inner))
            }
            (value, old) => (old != Some(value)).then(|| value.clone()),
        };
        value.map(|value| (key.clone(), value))
    };
    table.iter().filter_map(differs).collect()
}

/// Keys of `over` whose values are not those of `table`.
fn conflicts(table: &toml::Table, over: &toml::Table, path: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (key, value) in over {
        let name = format!("{path}{key}");
        match (table.get(key), value) {
            (Some(toml::Value::Table(t)), toml::Value::Table(o)) => {
                all.extend(conflicts(t, o, &format!("{name}.")));
            }
            (Some(toml::Value::Float(f)), toml::Value::Integer(i)) if *f == *i as f64 => {}
            (old, new) if old == Some(new) => {}
            _ => all.push(name),
        }
    }
    all
}

impl Choice {
    /// What capacitors keep of the map, and how much of it.
    pub fn kept(&self, design: &Design) -> String {
        let m = &design.map;
        match self.keeps {
            Keeps::Pages => format!("{} map pages", m.dirty_pages_max),
            Keeps::Entries { .. } => format!("{} entries", m.dirty_max),
            Keeps::Units { elastic: false, .. } => format!("journal of {}", m.journal_entries),
            Keeps::Units { elastic: true, .. } => format!("elastic of {}", m.journal_entries),
        }
    }

    /// How the map is stored.
    pub fn stored(&self, design: &Design) -> String {
        match (self.keeps, self.ranges) {
            (Keeps::Pages | Keeps::Entries { whole: false }, _) => "bit by bit".into(),
            (Keeps::Entries { whole: true }, _) => "at half".into(),
            (_, Some(ranges)) => format!("at {ranges} units"),
            (_, None) => format!("at {} units", design.map.journal_entries / 2),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = match self.keeps {
            Keeps::Pages => "map pages",
            Keeps::Entries { whole: false } => "entries",
            Keeps::Entries { whole: true } => "entries, stored at half",
            Keeps::Units { summary: false, elastic: false } => "units",
            Keeps::Units { summary: true, elastic: false } => "units with summaries",
            Keeps::Units { summary: false, elastic: true } => "units, elastic",
            Keeps::Units { summary: true, elastic: true } => "units with summaries, elastic",
        };
        write!(f, "buffer of {} KiB, {kept} in {} programs", self.buffer_kib, self.programs)?;
        if let Some(ranges) = self.ranges {
            write!(f, ", stored at {ranges} ranges")?;
        }
        if !self.directory {
            f.write_str(", no directory")?;
        }
        f.write_str(if self.erase_abort { ", erases stopped" } else { ", erases finished" })
    }
}
