//! The keys of drives, disks and sampled devices, and where the values of their presets come from.

use super::fields::{Field, fields};
use super::probe::Kind;
use super::sources;
use super::table::{Keys, rows, words};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write;
use tantalum_device::presets::{DISKS, SAMPLED as SAMPLED_DEVICES};
use tantalum_device::{DiskModel, SampledModel};
use tantalum_drive::Design;
use toml::{Table, Value};

const DESIGN: &str = include_str!("../../../../drive/src/design/mod.rs");
const ENERGY: &str = include_str!("../../../../drive/src/design/energy.rs");
const GEOMETRY: &str = include_str!("../../../../nand/src/geometry.rs");
const TIMING: &str = include_str!("../../../../nand/src/timing.rs");
const DISK: &str = include_str!("../../../../device/src/disk/model.rs");
const DISK_15K: &str = include_str!("../../../../device/presets/disk-15k.toml");
const SAMPLED: &str = include_str!("../../../../device/src/sampled/model.rs");
const CONTRACT: &str = include_str!("../../../../device/src/contract.rs");
const USB_FLASH: &str = include_str!("../../../../device/presets/usb-flash.toml");

/// A table of a design, its type, and the file with the type.
const TABLES: [(&str, &str, &str); 10] = [
    ("geometry", "Geometry", GEOMETRY),
    ("timing", "Timing", TIMING),
    ("wear", "WearDesign", DESIGN),
    ("space", "SpaceDesign", DESIGN),
    ("link", "LinkDesign", DESIGN),
    ("cache", "CacheDesign", DESIGN),
    ("map", "MapDesign", DESIGN),
    ("atomic", "AtomicDesign", DESIGN),
    ("firmware", "FirmwareDesign", DESIGN),
    ("power", "PowerDesign", ENERGY),
];

/// A table of a sampled device below its own keys, and its type.
const SAMPLED_TABLES: [(&str, &str); 5] = [
    ("latency", "LatencyRow"),
    ("overlap", "Overlap"),
    ("outlier", "Outlier"),
    ("stall", "Stall"),
    ("mode", "Mode"),
];

/// What of a table is needed: without it the rest cannot be read.
fn needed<T: DeserializeOwned>(whole: &Table) -> Table {
    let reads = |table: &Table| toml::from_str::<T>(&table.to_string()).is_ok();
    let mut needed = whole.clone();
    for key in whole.keys() {
        let mut less = needed.clone();
        less.remove(key);
        if reads(&less) {
            needed = less;
            continue;
        }
        let Some(inner) = needed.get(key).and_then(Value::as_table).cloned() else {
            continue;
        };
        for key_of_inner in inner.keys() {
            let mut less = needed.clone();
            let inner = less.get_mut(key).and_then(Value::as_table_mut).expect("a table");
            inner.remove(key_of_inner);
            if reads(&less) {
                needed = less;
            }
        }
    }
    needed
}

/// What is needed of a table, and the table as the code fills it.
fn filled<T: DeserializeOwned + Serialize>(whole: &Table) -> (Table, Table) {
    let needed = needed::<T>(whole);
    let read: T = toml::from_str(&needed.to_string()).expect("it is enough");
    (needed, Table::try_from(read).expect("a table"))
}

fn names(table: Option<&Value>) -> Vec<&str> {
    table.and_then(Value::as_table).into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

/// The presets of drives.
fn drives() -> Kind<'static> {
    let preset = |name: &str| -> Table {
        let design = Design::preset(name).expect("a preset");
        design.to_toml().parse().expect("TOML")
    };
    let presets = Design::presets();
    Kind {
        bases: ["durassd"].iter().chain(presets).map(|name| (*name, preset(name))).collect(),
        texts: presets
            .iter()
            .map(|name| (*name, Design::preset_text(name).expect("text")))
            .collect(),
        accepts: |table| Design::from_toml(&table.to_string()).is_ok(),
    }
}

/// Adds the tables of drives, disks and sampled devices.
pub fn add(text: &mut String) {
    let drives = drives();
    let enums = ["Collector", "CacheMode", "FlushMode", "ForcedAccess", "Kept", "GroupScheme"];
    let of_drives = words(&enums.map(|name| (name, DESIGN)));
    let (needed, defaults) = filled::<Design>(&drives.bases[0].1);
    text.push_str("A design has a `name`, which reports show, and these tables.\n");
    for (table, name, source) in TABLES {
        let _ = writeln!(text, "\n### `[{table}]`\n");
        let none = Table::new();
        let keys = Keys {
            of: name,
            path: &[table],
            all: &fields(source, name),
            defaults: defaults.get(table).and_then(Value::as_table).unwrap_or(&none),
            needed: &names(needed.get(table)),
        };
        rows(text, &keys, &drives, &of_drives);
    }
    add_disks(text);
    add_sampled(text);
}

fn add_disks(text: &mut String) {
    let disk: Table = DISK_15K.parse().expect("TOML");
    let whole: DiskModel = toml::from_str(DISK_15K).expect("a disk");
    let disks = Kind {
        bases: vec![("disk-15k", Table::try_from(whole).expect("a table"))],
        texts: vec![("disk-15k", DISK_15K)],
        accepts: |table| {
            toml::from_str::<DiskModel>(&table.to_string()).is_ok_and(|disk| disk.check().is_ok())
        },
    };
    text.push_str("\n### `[disk]`\n\nA magnetic disk (`disk-15k`, `disk-10k`, `disk-15k6`).\n\n");
    let (needed, defaults) = filled::<DiskModel>(&disk);
    let needed: Vec<&str> = needed.keys().map(String::as_str).collect();
    let all = fields(DISK, "DiskModel");
    let keys = Keys { of: "DiskModel", path: &[], all: &all, defaults: &defaults, needed: &needed };
    rows(text, &keys, &disks, &words(&[]));
}

fn add_sampled(text: &mut String) {
    let whole: SampledModel = toml::from_str(USB_FLASH).expect("a sampled device");
    let whole = Table::try_from(whole).expect("a table");
    let kind = Kind {
        bases: vec![("usb-flash", whole.clone())],
        texts: vec![("usb-flash", USB_FLASH)],
        accepts: |table| {
            toml::from_str::<SampledModel>(&table.to_string()).is_ok_and(|m| m.check().is_ok())
        },
    };
    let words = words(&[("Ack", CONTRACT), ("StreamKind", SAMPLED)]);
    text.push_str("\n### `[sampled]`\n\nA sampled device ([devices.md](devices.md)).\n\n");
    let (needed, defaults) = filled::<SampledModel>(&whole);
    let needed: Vec<&str> = needed.keys().map(String::as_str).collect();
    let all: Vec<Field> = fields(SAMPLED, "SampledModel");
    let keys =
        Keys { of: "SampledModel", path: &[], all: &all, defaults: &defaults, needed: &needed };
    rows(text, &keys, &kind, &words);
    for (table, name) in SAMPLED_TABLES {
        let list = whole[table].as_array();
        let head = if list.is_some() { format!("[[{table}]]") } else { format!("[{table}]") };
        let _ = writeln!(text, "\n### `{head}` of a sampled device\n");
        let path: &[&str] = if list.is_some() { &[table, "0"] } else { &[table] };
        let own = |keys: &Table| {
            let mut less = whole.clone();
            less.insert(
                table.to_string(),
                match list {
                    Some(_) => Value::Array(vec![Value::Table(keys.clone())]),
                    None => Value::Table(keys.clone()),
                },
            );
            toml::from_str::<SampledModel>(&less.to_string()).ok().map(|model| {
                let all = Table::try_from(model).expect("a table");
                let of = match list {
                    Some(_) => all[table].as_array().and_then(|list| list[0].as_table()),
                    None => all[table].as_table(),
                };
                of.expect("a table").clone()
            })
        };
        let first = list.map_or(&whole[table], |list| &list[0]).as_table().expect("a table");
        let all = fields(SAMPLED, name);
        let is_needed = |field: &&Field| {
            let mut less = first.clone();
            less.remove(&field.name);
            own(&less).is_none()
        };
        let needed: Vec<&str> =
            all.iter().filter(is_needed).map(|field| field.name.as_str()).collect();
        let mut least = first.clone();
        least.retain(|key, _| needed.contains(&key));
        let defaults = own(&least).expect("it is enough");
        let keys = Keys { of: name, path, all: &all, defaults: &defaults, needed: &needed };
        rows(text, &keys, &kind, &words);
    }
}

/// Adds where the values of all presets come from.
pub fn add_sources(text: &mut String) {
    text.push_str(
        "What a comment behind a table says is so for all keys of the table that have none of their \
         own.\nOf disks and sampled devices the words before the list say where all other values come \
         from.\n",
    );
    for (name, preset) in drives().texts.iter().chain(DISKS).chain(SAMPLED_DEVICES) {
        let _ = writeln!(text, "\n### {name}\n\n{}\n", sources::about(preset));
        text.push_str("| of | value | source or note |\n|---|---|---|\n");
        for (of, value, source) in sources::sources(preset) {
            let value = if value.is_empty() { value } else { format!("`{value}`") };
            let _ = writeln!(text, "| `{of}` | {value} | {} |", source.replace('|', "\\|"));
        }
    }
}

/// Each key that the code knows is on the page, in its table.
#[test]
fn no_key_is_missing() {
    let design = Design::preset("durassd").expect("a preset").to_toml();
    let design: Table = design.parse().expect("TOML");
    for (table, name, source) in TABLES {
        let of_code = design[table].as_table().expect("a table");
        let all = fields(source, name);
        let mut of_page: Vec<String> = all.into_iter().map(|f| f.name).collect();
        of_page.sort();
        let mut keys: Vec<String> = of_code.keys().cloned().collect();
        keys.sort();
        assert_eq!(of_page, keys, "{table}");
    }
    let tables = design.keys().filter(|key| design[*key].is_table()).count();
    assert_eq!(tables, TABLES.len());
    let own = toml::from_str::<SampledModel>(USB_FLASH).expect("a sampled device");
    let own = Table::try_from(own).expect("a table");
    let lists = own.values().filter(|v| v.is_table() || is_list_of_tables(v)).count();
    assert_eq!(lists, SAMPLED_TABLES.len());
}

fn is_list_of_tables(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().any(Value::is_table))
}
