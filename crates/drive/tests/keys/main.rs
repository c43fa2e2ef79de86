//! docs/keys.md: every key of a drive and of a disk with its unit, default, range and source. The
//! page is made from the code and compared with the committed one.
//!
//! 1. Meanings are the comments of the fields in the code, defaults are what the code fills in.
//! 2. Ranges are found by asking the checks of the code; no number is written down here.
//! 3. Sources are the comments in the presets.
//!
//! To write the page anew: `TANTALUM_WRITE=1 cargo test -p tantalum-drive --test keys`.

mod fields;
mod probe;
mod sources;

use fields::{Field, fields, variants};
use probe::{Kind, range};
use std::collections::BTreeMap;
use std::fmt::Write;
use tantalum_device::DiskModel;
use tantalum_drive::Design;

const DESIGN: &str = include_str!("../../src/design/mod.rs");
const ENERGY: &str = include_str!("../../src/design/energy.rs");
const GEOMETRY: &str = include_str!("../../../nand/src/geometry.rs");
const TIMING: &str = include_str!("../../../nand/src/timing.rs");
const DISK: &str = include_str!("../../../device/src/disk/model.rs");
const DISK_15K: &str = include_str!("../../../device/presets/disk-15k.toml");

const HEAD: &str = "\
# Keys of drives and disks

This page is made from the code (`crates/drive/tests/keys`), which a test compares with it. It has
the keys of a design of a drive: of `tantalum drive create --design FILE` and `--set`, and in
experiments of `[design.NAME]` and `[drive]`, as in `drive.cache.buffer_kib`. `tantalum explain KEY`
prints what is here, and `tantalum designs NAME --all` prints a preset with all of them. The keys of
experiments are in [experiments.md](experiments.md), those of sampled devices in
[devices.md](devices.md), those of explorations in [crash.md](crash.md).

A range is what the checks accept on the preset `durassd`, or on the one that is named, while all
other keys stay as they are. Other values may make it wider or narrower: an error says which.

";

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

/// The unit of a number, after its name.
fn unit(key: &str) -> &'static str {
    let suffixes = [
        ("_us", "µs"),
        ("_ns", "ns"),
        ("_ms", "ms"),
        ("_kib", "KiB"),
        ("_bytes", "bytes"),
        ("mb_s", "MB/s"),
        ("_mw", "mW"),
        ("joules", "J"),
        ("_blocks", "blocks"),
        ("rpm", "1/min"),
    ];
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
        _ => "",
    }
}

/// The rows of a table of keys.
fn rows(
    text: &mut String,
    (table, all): (&str, &[Field]),
    kind: &Kind,
    defaults: &toml::Table,
    kinds: &BTreeMap<&str, Vec<(String, String)>>,
) {
    text.push_str("| key | meaning | default | unit | range |\n|---|---|---|---|---|\n");
    for field in all {
        let default = defaults.get(&field.name);
        let default = default.map_or("needed".to_string(), |value| format!("`{value}`"));
        let named = kinds.get(field.of.as_str());
        let mut meaning = field.doc.clone();
        for (name, doc) in named.into_iter().flatten() {
            let _ = write!(meaning, " `{name}`: {doc}");
        }
        let path: Vec<&str> =
            [table, &field.name].into_iter().filter(|part| !part.is_empty()).collect();
        let range = match named {
            Some(all) => {
                all.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            }
            None => range(kind, &path, &field.of),
        };
        let (meaning, unit) = (meaning.replace('|', "\\|"), unit(&field.name));
        let _ = writeln!(text, "| `{}` | {meaning} | {default} | {unit} | {range} |", field.name);
    }
}

/// What the code fills in: of a table that has only what is needed.
fn filled<T>(whole: &toml::Table) -> toml::Table
where
    T: serde::de::DeserializeOwned + serde::Serialize,
{
    let reads = |table: &toml::Table| toml::from_str::<T>(&table.to_string()).ok();
    let mut needed = whole.clone();
    for key in whole.keys() {
        let mut less = needed.clone();
        less.remove(key);
        if reads(&less).is_some() {
            needed = less;
            continue;
        }
        let Some(inner) = needed.get(key).and_then(toml::Value::as_table).cloned() else {
            continue;
        };
        for key_of_inner in inner.keys() {
            let mut less = needed.clone();
            let inner = less.get_mut(key).and_then(toml::Value::as_table_mut).expect("a table");
            inner.remove(key_of_inner);
            if reads(&less).is_some() {
                needed = less;
            }
        }
    }
    let all = toml::Table::try_from(reads(&needed).expect("it is enough")).expect("a table");
    // What is needed has no default.
    fn without(all: toml::Table, needed: &toml::Table) -> toml::Table {
        let kept = all.into_iter().filter_map(|(key, value)| match (value, needed.get(&key)) {
            (toml::Value::Table(inner), Some(toml::Value::Table(needed))) => {
                Some((key, toml::Value::Table(without(inner, needed))))
            }
            (value, None) => Some((key, value)),
            _ => None,
        });
        kept.collect()
    }
    without(all, &needed)
}

fn page() -> String {
    let preset = |name: &str| -> toml::Table {
        let design = Design::preset(name).expect("a preset");
        design.to_toml().parse().expect("TOML")
    };
    let presets = Design::presets();
    let drives = Kind {
        bases: ["durassd"].iter().chain(presets).map(|name| (*name, preset(name))).collect(),
        texts: presets
            .iter()
            .map(|name| (*name, Design::preset_text(name).expect("text")))
            .collect(),
        accepts: |table| Design::from_toml(&table.to_string()).is_ok(),
    };
    let kinds: BTreeMap<&str, Vec<(String, String)>> =
        ["Collector", "CacheMode", "FlushMode", "ForcedAccess", "Kept", "GroupScheme"]
            .map(|name| (name, variants(DESIGN, name)))
            .into();
    let defaults = filled::<Design>(&preset("durassd"));
    let mut text = HEAD.to_string();
    text.push_str("A design has a `name`, which reports show, and these tables.\n");
    for (table, name, source) in TABLES {
        let _ = writeln!(text, "\n## `[{table}]`\n");
        let none = toml::Table::new();
        let filled = defaults.get(table).and_then(toml::Value::as_table).unwrap_or(&none);
        rows(&mut text, (table, &fields(source, name)), &drives, filled, &kinds);
    }
    let disk: toml::Table = DISK_15K.parse().expect("TOML");
    let whole: DiskModel = toml::from_str(DISK_15K).expect("a disk");
    let disks = Kind {
        bases: vec![("disk-15k", toml::Table::try_from(whole).expect("a table"))],
        texts: vec![("disk-15k", DISK_15K)],
        accepts: |table| {
            toml::from_str::<DiskModel>(&table.to_string()).is_ok_and(|disk| disk.check().is_ok())
        },
    };
    text.push_str("\n## `[disk]`\n\nA magnetic disk (`disk-15k`, `disk-10k`, `disk-15k6`).\n\n");
    let filled = filled::<DiskModel>(&disk);
    rows(&mut text, ("", &fields(DISK, "DiskModel")), &disks, &filled, &kinds);
    text.push_str(
        "\n## Where the values of the presets come from\n\nWhat a comment behind a table says is so for all keys \
         of the table that have none of their own.\n",
    );
    for (name, preset) in drives.texts.iter().chain(&disks.texts) {
        let _ = writeln!(text, "\n### {name}\n\n{}\n", sources::about(preset));
        text.push_str("| of | value | source |\n|---|---|---|\n");
        for (of, value, source) in sources::sources(preset) {
            let value = if value.is_empty() { value } else { format!("`{value}`") };
            let _ = writeln!(text, "| `{of}` | {value} | {} |", source.replace('|', "\\|"));
        }
    }
    text
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads and writes a document")]
fn the_page_of_keys_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/keys.md");
    let page = page();
    if std::env::var_os("TANTALUM_WRITE").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(path).expect("the page");
    for (is, must_be) in committed.lines().zip(page.lines()) {
        assert_eq!(is, must_be, "write it anew: see the head of this file");
    }
    assert_eq!(committed.len(), page.len(), "write it anew: see the head of this file");
}

/// Each key that the code knows is on the page, in its table.
#[test]
fn no_key_is_missing() {
    let design = Design::preset("durassd").expect("a preset").to_toml();
    let design: toml::Table = design.parse().expect("TOML");
    for (table, name, source) in TABLES {
        let of_code = design[table].as_table().expect("a table");
        let mut of_page: Vec<String> = fields(source, name).into_iter().map(|f| f.name).collect();
        of_page.sort();
        let mut keys: Vec<String> = of_code.keys().cloned().collect();
        keys.sort();
        assert_eq!(of_page, keys, "{table}");
    }
    let tables = design.keys().filter(|key| design[*key].is_table()).count();
    assert_eq!(tables, TABLES.len());
}
