//! The kinds of TOML files, told apart: a command that is given a file of another kind says what the
//! file is, and which command takes it.

use std::fmt::Display;
use tantalum_lab::file::crash::CrashFile;
use tantalum_lab::fit::NUMBERS;
use toml::{Table, Value};

/// Keys of explorations that no experiment has.
const OF_EXPLORATIONS: [&str; 7] =
    ["samples", "random_times", "nested", "inner", "stride", "runs", "mix"];

/// Keys of the descriptions of caches that no other file has at its root.
const OF_CACHES: [&str; 7] =
    ["flash", "slow", "page_bytes", "batch_pages", "policy", "mode", "label"];

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of `tantalum run` and `tantalum search`.
    Experiment,
    /// Of `tantalum crash`.
    Exploration,
    /// An SSD.
    Design,
    /// A magnetic disk.
    Disk,
    /// A sampled device.
    Sampled,
    /// The description of a log.
    Log,
    /// The description of a cache.
    Cache,
    /// Numbers for `tantalum fit`.
    Numbers,
}

impl Kind {
    /// What the file is for, also if something is wrong with it; `None`: that cannot be seen.
    fn of(name: &str, text: &str) -> Option<Kind> {
        let table: Table = text.parse().ok()?;
        let has = |key: &str| table.contains_key(key);
        let rows = table.get("row").and_then(Value::as_array);
        if rows.into_iter().flatten().any(|row| row.get("workload").is_some()) {
            return Some(Kind::Experiment);
        }
        match () {
            () if OF_EXPLORATIONS.iter().any(|key| has(key)) => Some(Kind::Exploration),
            () if has("geometry") => Some(Kind::Design),
            () if has("rpm") => Some(Kind::Disk),
            () if has("latency") => Some(Kind::Sampled),
            () if has("devices") => Some(Kind::Log),
            () if describes_cache(&table) => Some(Kind::Cache),
            () if NUMBERS.iter().any(|number| has(number.key)) => Some(Kind::Numbers),
            () => CrashFile::parse(name, text).is_ok().then_some(Kind::Exploration),
        }
    }

    /// What a file of this kind is, and what takes it.
    fn told(self, name: &str) -> (&'static str, String) {
        let command = |words: String| format!("`tantalum {words}` takes it");
        match self {
            Kind::Experiment => ("an experiment", command(format!("run {name}"))),
            Kind::Exploration => ("an exploration", command(format!("crash {name}"))),
            Kind::Design => ("a design", command(format!("drive create disk.img --design {name}"))),
            Kind::Disk => {
                ("a magnetic disk", "an experiment takes it as a table [design.NAME]".to_string())
            }
            Kind::Sampled => (
                "a sampled device",
                command(format!("log create log.toml --device model:{name}:1GiB")),
            ),
            Kind::Log => ("the description of a log", command(format!("log inspect {name}"))),
            Kind::Cache => ("the description of a cache", command(format!("cache inspect {name}"))),
            Kind::Numbers => {
                ("a file of numbers", command(format!("fit {name} --design tlc-modern")))
            }
        }
    }
}

/// Whether this is the description of a cache, also if something is wrong with it.
pub fn describes_cache(table: &Table) -> bool {
    OF_CACHES.iter().any(|key| table.contains_key(*key))
}

/// What to say of a file that is to be of a kind and has this error.
pub fn told(wanted: Kind, name: &str, text: &str, error: impl Display) -> String {
    match Kind::of(name, text).filter(|kind| *kind != wanted) {
        Some(kind) => {
            let (what, takes) = kind.told(name);
            format!("{name}: it is {what}; {takes}")
        }
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::{CRASHES, RUNS};
    use tantalum_lab::subject::{preset_text, presets, ssd_preset};

    #[test]
    fn each_built_in_file_is_known_for_what_it_is() {
        for (all, is) in [(RUNS, Kind::Experiment), (CRASHES, Kind::Exploration)] {
            for one in all {
                assert_eq!(Kind::of(one.name, one.text), Some(is), "{}", one.name);
            }
        }
        for name in presets() {
            let kind = Kind::of(name, preset_text(name).expect("a preset"));
            match ssd_preset(name) {
                Ok(_) => assert_eq!(kind, Some(Kind::Design), "{name}"),
                Err(_) => assert!([Kind::Disk, Kind::Sampled].map(Some).contains(&kind), "{name}"),
            }
        }
    }

    /// A mistake in the file does not hide what it is.
    #[test]
    fn a_file_with_a_mistake_is_known_too() {
        let error = "unknown key";
        let files = [
            (
                Kind::Experiment,
                "title = 'x'\ncutz = 1\n[[row]]\nworkload = 'ycsb-a'\ndesign = 'durassd'\n",
                "x.toml: it is an experiment; `tantalum run x.toml` takes it",
            ),
            (
                Kind::Exploration,
                "title = 'x'\nsamples = 3\ncutz = 1\n[[row]]\ndesign = 'durassd'\n",
                "x.toml: it is an exploration; `tantalum crash x.toml` takes it",
            ),
            (
                Kind::Design,
                "nam = 'x'\n[geometry]\nblocks = 3\n[cache]\nmode = 'off'\n",
                "x.toml: it is a design; `tantalum drive create disk.img --design x.toml` takes it",
            ),
            (
                Kind::Disk,
                "name = 'x'\nrpm = 15000\nrmp = 1\n",
                "x.toml: it is a magnetic disk; an experiment takes it as a table [design.NAME]",
            ),
            (
                Kind::Sampled,
                "nam = 'x'\n[[latency]]\nbytes = 1\n",
                "x.toml: it is a sampled device; `tantalum log create log.toml --device \
                 model:x.toml:1GiB` takes it",
            ),
            (
                Kind::Log,
                "devices = ['a']\ncopie = 2\n",
                "x.toml: it is the description of a log; `tantalum log inspect x.toml` takes it",
            ),
            (
                Kind::Cache,
                "flash = 'a'\nslo = 'b'\n",
                "x.toml: it is the description of a cache; `tantalum cache inspect x.toml` takes \
                 it",
            ),
            (
                Kind::Numbers,
                "read_4k_us = 'x'\n",
                "x.toml: it is a file of numbers; `tantalum fit x.toml --design tlc-modern` takes \
                 it",
            ),
        ];
        for (kind, text, expected) in files {
            for (wanted, ..) in files {
                let said = told(wanted, "x.toml", text, error);
                assert_eq!(said, if wanted == kind { error } else { expected });
            }
        }
        for neither in ["title = ", "", "x = 1\n"] {
            for (wanted, ..) in files {
                assert_eq!(told(wanted, "x.toml", neither, error), error);
            }
        }
    }
}
