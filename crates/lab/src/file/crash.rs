//! The file of a crash exploration: designs, command mixes, and how far to go.
//!
//! 1. A key that is not known here is refused, with the nearest name there is.
//! 2. A row's name is unique in the file, and its seed follows from that and from the
//!    file's seed alone.

use crate::file::entry::{OneOrMany, merge};
use crate::file::experiment::{ExperimentError, Scene};
use crate::file::parse::{self, Wrong};
use crate::subject::Model;
use serde::Deserialize;
use std::collections::BTreeMap;
use tantalum_device::Payload;
use tantalum_explore::{CrashRow, Exploration, Ingredients, Nesting};
use tantalum_rt::mix64;

/// What a row's `design` says if each of its runs has another one.
const RANDOM: &str = "random";

/// Explorations, as their file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrashFile {
    /// What it shows, in a line.
    pub title: String,
    /// The seed of all randomness.
    #[serde(default = "one")]
    pub seed: u64,
    /// Command lists for each row, if all their points are explored.
    #[serde(default = "one")]
    pub runs: u64,
    /// Cuts of each row, if points are chosen at random.
    #[serde(default = "default_samples")]
    pub samples: u64,
    /// Points at random times beside those of operations and commands, in each run.
    #[serde(default = "default_random_times")]
    pub random_times: u32,
    /// How deep recoveries are cut.
    #[serde(default)]
    pub nested: u32,
    /// So many points of each recovery, chosen at random; 0: all of them.
    #[serde(default = "default_inner")]
    pub inner: u32,
    /// Only of one of so many cuts is the recovery cut.
    #[serde(default = "default_stride")]
    pub stride: u32,
    /// Command mixes, by name; what is not said is as in `default`, which needs not be given.
    #[serde(default)]
    pub mix: BTreeMap<String, Ingredients>,
    /// Changes to the drive of every row.
    #[serde(default)]
    drive: toml::Table,
    /// Designs of the file's own, by name.
    #[serde(default)]
    design: BTreeMap<String, toml::Table>,
    #[serde(rename = "row")]
    entries: Vec<Entry>,
}

fn one() -> u64 {
    1
}

fn default_samples() -> u64 {
    1_000
}

fn default_random_times() -> u32 {
    32
}

fn default_inner() -> u32 {
    4
}

fn default_stride() -> u32 {
    8
}

/// A `[[row]]`: one row for each design and mix.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    design: OneOrMany<String>,
    #[serde(default = "default_mix")]
    mix: OneOrMany<String>,
    /// What tells these rows from others of the same design and mix.
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    drive: toml::Table,
    #[serde(default)]
    payload: Keeps,
}

fn default_mix() -> OneOrMany<String> {
    OneOrMany(vec!["default".into()])
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Keeps {
    #[default]
    Stamps,
    Bytes,
}

impl CrashFile {
    /// Reads the text of a file; `file` is named in errors.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(file: &str, text: &str) -> Result<CrashFile, ExperimentError> {
        let wrong = |w: Wrong| ExperimentError {
            file: w.line.map_or(file.to_string(), |line| format!("{file}:{line}")),
            what: w.what,
        };
        parse::read(text).map_err(wrong)
    }

    /// What holds for all of its rows.
    pub fn exploration(&self) -> Exploration {
        Exploration {
            title: self.title.clone(),
            seed: self.seed,
            random_times: self.random_times,
            nesting: Nesting { depth: self.nested, inner: self.inner, stride: self.stride },
        }
    }

    /// All rows, in the order of the file.
    ///
    /// # Errors
    /// In a line: a design or a mix that there is not, or that can not be.
    pub fn rows(&self) -> Result<Vec<CrashRow>, String> {
        let mut rows: Vec<CrashRow> = Vec::new();
        for entry in &self.entries {
            for design in &entry.design.0 {
                for mix in &entry.mix.0 {
                    let row = self.row(entry, design, mix)?;
                    if rows.iter().any(|r| r.name == row.name) {
                        let name = row.name;
                        return Err(format!("there are two rows \"{name}\": give one a name"));
                    }
                    rows.push(row);
                }
            }
        }
        match rows.is_empty() {
            true => Err("there is no [[row]]: nothing to explore".into()),
            false => Ok(rows),
        }
    }

    fn row(&self, entry: &Entry, design: &str, mix: &str) -> Result<CrashRow, String> {
        let mut name = format!("{design}/{mix}");
        if let Some(own) = &entry.name {
            name += &format!("/{own}");
        }
        let told = |what: String| format!("row \"{name}\": {what}");
        let what = self.ingredients(mix)?;
        what.check().map_err(told)?;
        let drive = match design {
            RANDOM => None,
            _ => {
                let mut drive = self.drive.clone();
                merge(&mut drive, &entry.drive);
                let scene = Scene { drive, design: self.design.clone(), ..Scene::default() };
                match Model::of(design, &scene).map_err(told)? {
                    Model::Ssd(design) => Some(design),
                    _ => return Err(told("only SSDs are explored".into())),
                }
            }
        };
        let payload = match entry.payload {
            Keeps::Stamps => Payload::Stamps,
            Keeps::Bytes => Payload::Bytes,
        };
        let seed = name.bytes().fold(mix64(self.seed), |h, b| mix64(h ^ u64::from(b)));
        Ok(CrashRow { name, seed, design: drive, what, payload })
    }

    fn ingredients(&self, mix: &str) -> Result<Ingredients, String> {
        match self.mix.get(mix) {
            Some(what) => Ok(what.clone()),
            None if mix == "default" => Ok(Ingredients::default()),
            None => {
                let known = self.mix.keys().map(String::as_str).chain(["default"]);
                Err(parse::unknown("unknown mix", mix, known))
            }
        }
    }

    /// For each mix a row whose runs all have a random design.
    ///
    /// # Errors
    /// A mix that can not be.
    pub fn swarm(&self) -> Result<Vec<CrashRow>, String> {
        let mixes = self.mix.keys().cloned().chain(["default".to_string()]);
        let mixes: std::collections::BTreeSet<String> = mixes.collect();
        let entry = Entry {
            design: OneOrMany(Vec::new()),
            mix: OneOrMany(Vec::new()),
            name: None,
            drive: toml::Table::new(),
            payload: Keeps::Stamps,
        };
        mixes.iter().map(|mix| self.row(&entry, RANDOM, mix)).collect()
    }
}
