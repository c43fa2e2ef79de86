//! `tantalum designs`: the preset designs.

use crate::{out, table};
use clap::Args;
use serde::Serialize;
use std::fmt::Write;
use tantalum_drive::CacheMode;
use tantalum_lab::subject;

/// Arguments of `tantalum designs`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum designs                          the presets, a line each
  tantalum designs durassd                  what this one consists of
  tantalum designs durassd --all            the same with every key, including defaults
  tantalum designs durassd > my-drive.toml  a start for your own design
  tantalum designs durassd --json           the same as JSON (docs/json.md)")]
pub struct DesignsArguments {
    /// Print this preset as TOML, comments included
    name: Option<String>,
    /// Print every key with its value, including defaults
    #[arg(long, requires = "name")]
    all: bool,
    /// Print JSON: of a preset every key, including defaults
    #[arg(long, conflicts_with = "all")]
    json: bool,
}

/// A preset, as docs/json.md has it.
#[derive(Serialize)]
struct Described {
    name: &'static str,
    /// "ssd", "disk" or "sampled".
    kind: &'static str,
    about: String,
    /// What an SSD promises to the host.
    capacity_bytes: Option<u64>,
    /// Of an SSD: units beyond all reserves, and in per cent of its capacity.
    spare_units: Option<u32>,
    spare_percent: Option<f64>,
    /// Every key with its value.
    values: toml::Table,
}

/// Runs the command; returns the exit code.
pub fn designs(arguments: &DesignsArguments) -> u8 {
    if arguments.json {
        return match described(arguments.name.as_deref()) {
            Ok(all) if arguments.name.is_none() => out::json(&all),
            Ok(all) => all.first().map_or(out::OK, out::json),
            Err(e) => out::error(listed(&e), out::USAGE),
        };
    }
    let text = match &arguments.name {
        Some(name) if arguments.all => subject::preset_toml(name),
        Some(name) => subject::preset_text(name).map(|text| format!("{text}{}", spare(name))),
        None => list(),
    };
    match text {
        Ok(text) => out::bytes(text.as_bytes()),
        Err(e) => out::error(listed(&e), out::USAGE),
    }
}

/// An error about the name of a preset, with where all names are.
pub fn listed(error: &str) -> String {
    format!("{error} (`tantalum designs` lists all)")
}

/// The preset of this name, or all.
fn described(name: Option<&str>) -> Result<Vec<Described>, String> {
    // An unknown name is an error, with the nearest one.
    name.map(subject::preset_text).transpose()?;
    let wanted = subject::presets().filter(|preset| name.is_none_or(|name| name == *preset));
    let describe = |name: &'static str| {
        let ssd = subject::ssd_preset(name).ok();
        let layout = ssd.as_ref().and_then(|design| Some((design, design.check().ok()?)));
        let whole = subject::preset_toml(name)?;
        Ok(Described {
            name,
            kind: kind(name),
            about: about(subject::preset_text(name)?),
            capacity_bytes: layout.as_ref().map(|(_, layout)| u64::from(layout.logical) * 4096),
            spare_units: layout.as_ref().map(|(design, layout)| layout.spare_left(design)),
            spare_percent: layout
                .as_ref()
                .map(|(design, layout)| layout.spare_left_percent(design)),
            values: whole.parse().map_err(|e| format!("{name}: {e}"))?,
        })
    };
    wanted.map(describe).collect()
}

/// How much of an SSD's spare space is left for superseded data, as comments of TOML.
fn spare(name: &str) -> String {
    let Ok(design) = subject::ssd_preset(name) else { return String::new() };
    let Ok(layout) = design.check() else { return String::new() };
    format!(
        "\n# Of {} erase units {} are beyond the capacity and all reserves: {:.1} % of the capacity is\n\
         # left for superseded data, of {:.1} % over-provisioning.\n",
        design.geometry.units(),
        layout.spare_left(&design),
        layout.spare_left_percent(&design),
        design.space.over_provisioning
    )
}

/// The kinds of presets, and what they are called.
const KINDS: [(&str, &str); 3] = [
    ("ssd", "SSDs (capacity, what becomes of the write cache when the power goes, what they are)"),
    ("disk", "Magnetic disks"),
    ("sampled", "Sampled devices, whose times are drawn from tables"),
];

/// What kind of device a preset is.
fn kind(name: &str) -> &'static str {
    match () {
        () if subject::ssd_preset(name).is_ok() => "ssd",
        () if subject::disk_preset(name).is_ok() => "disk",
        () => "sampled",
    }
}

/// Each preset's name with the first sentence of its text, by kinds.
fn list() -> Result<String, String> {
    let names: Vec<_> = subject::presets().collect();
    let width = names.iter().map(|n| n.len()).max().unwrap_or(0);
    let mut lines = String::new();
    for (of, title) in KINDS {
        let gap = if lines.is_empty() { "" } else { "\n" };
        let _ = writeln!(lines, "{gap}{title}:");
        for name in names.iter().filter(|name| kind(name) == of) {
            let about = about(subject::preset_text(name)?);
            let promise = promise(name);
            let line = table::behind(&format!("  {name:width$}  {promise}"), &about);
            lines.push_str(line.trim_end());
            lines.push('\n');
        }
    }
    lines.push_str("\nMore of one: tantalum designs NAME\n");
    Ok(lines)
}

/// Of an SSD: its capacity, and what becomes of its write cache when the power goes.
fn promise(name: &str) -> String {
    let Ok(design) = subject::ssd_preset(name) else { return String::new() };
    let Ok(layout) = design.check() else { return String::new() };
    let cache = match design.cache.mode {
        CacheMode::Protected => "kept",
        CacheMode::Volatile => "lost",
        CacheMode::Off | CacheMode::Through => "none",
    };
    let gb = u64::from(layout.logical) * 4096 / 1_000_000_000;
    format!("{gb:>4} GB, cache {cache}  ")
}

/// The first sentence of the comment that a preset begins with.
fn about(text: &str) -> String {
    let comment = text.lines().map_while(|l| l.strip_prefix('#'));
    let words: Vec<_> = comment.map(str::trim).collect();
    let words = words.join(" ");
    // (A dot within brackets ends nothing.)
    let balanced = |s: &str| s.matches('(').count() == s.matches(')').count();
    let end = words.match_indices(". ").map(|(at, _)| &words[..=at]).find(|s| balanced(s));
    end.map_or_else(|| words.clone(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_says_in_a_line_what_it_is() {
        let list = list().unwrap();
        let mut presets = 0;
        for line in list.lines().filter_map(|line| line.strip_prefix("  ")) {
            let name = line.split(' ').next().expect("a name");
            assert!(subject::preset_text(name).is_ok(), "{line}");
            let about = line.strip_prefix(name).unwrap().trim_start();
            assert!(about.len() > 20 && about.ends_with('.'), "{line}");
            // An SSD says what it promises.
            let promises = ["kept", "lost", "none"].map(|fate| format!(" GB, cache {fate}  "));
            let is_told = promises.iter().any(|promise| about.contains(promise));
            assert_eq!(is_told, kind(name) == "ssd", "{line}");
            presets += 1;
        }
        assert_eq!(presets, subject::presets().count());
        assert!(list.contains(" GB, cache kept  A durable cache behind capacitors"), "{list}");
    }

    #[test]
    fn the_json_has_each_preset_with_every_key() {
        let all = described(None).unwrap();
        assert_eq!(all.len(), subject::presets().count());
        let kinds = ["ssd", "disk", "sampled"];
        assert!(kinds.iter().all(|kind| all.iter().any(|preset| preset.kind == *kind)));
        let durassd = &described(Some("durassd")).unwrap()[0];
        assert!(durassd.capacity_bytes > Some(400 << 30));
        assert_eq!(durassd.values["timing"]["read_priority"].as_integer(), Some(0));
        assert!(described(Some("durasd")).is_err_and(|why| why.contains("durassd")));
    }

    #[test]
    fn what_is_spare_is_a_comment_behind_an_ssd() {
        let shown = spare("durassd");
        assert!(shown.contains("6.") && shown.contains("7.0 % over-provisioning"), "{shown}");
        assert!(shown.trim().lines().all(|l| l.starts_with("# ")), "{shown}");
        assert_eq!(spare("disk-15k"), "");
    }

    #[test]
    fn the_first_sentence_may_span_lines() {
        assert_eq!(
            about("# One thing,\n# and more. Then.\nname = 1\n# no"),
            "One thing, and more."
        );
        assert_eq!(about("# A (b. c) d. E. F."), "A (b. c) d.");
        assert_eq!(about("name = 1"), "");
    }
}
