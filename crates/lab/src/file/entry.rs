//! `[[row]]` of an experiment file: one entry may stand for many rows.
//!
//! 1. An entry stands for every combination of its lists, in the order workload, design,
//!    journal, synchronous, parameters by key; the last varies fastest.
//! 2. A block job has no journal: it is one row, not one for each.

use crate::file::experiment::{Experiment, Row};
use crate::file::kinds::{Expect, Journal, Synchronous, WorkloadKind};
use crate::report::measures::Named;
use crate::report::published::Numbers;
use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use tantalum_device::counted;

/// A `[[row]]` of the file: where a list is given, one row for each of its members.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What runs: `linkbench`, `ycsb-a` or `tpcc` on SQLite, or a job, a trace, an append job, an
    /// engine or a tree of the file, by its name.
    ///
    /// *Source*: own choice.
    workload: OneOrMany<WorkloadKind>,
    /// What it runs on: a preset, or a design of the file.
    ///
    /// *Source*: own choice.
    design: OneOrMany<String>,
    /// SQLite's journal mode. Other workloads have none.
    ///
    /// *Source*: SQLite: `journal_mode`; `batch-atomic`: SQLite 3.21.
    #[serde(default = "default_journal")]
    journal: OneOrMany<Journal>,
    /// SQLite's `synchronous`. Other workloads have none.
    ///
    /// *Source*: SQLite: `synchronous`.
    #[serde(default = "default_synchronous")]
    synchronous: OneOrMany<Synchronous>,
    /// What the row must show beside its promises.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    expect: Expect,
    /// Changes to the SSD of these rows.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    drive: toml::Table,
    /// Changes to the magnetic disk of these rows.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    disk: toml::Table,
    /// Changes to the sampled device of these rows.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    sampled: toml::Table,
    /// The published numbers: a list with one number for each row, in their order (transactions or
    /// commands per second), or such a list for each measure, `{ p99 = [...] }` (docs/json.md,
    /// measures).
    ///
    /// *Source*: own choice.
    #[serde(default)]
    published: Numbers,
    /// Whether parameters were fitted to these published numbers. If not, ours are predictions.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    fitted: bool,
    /// Keys of the file with dots (`"run.clients"`, `"job.NAME.queue_depth"`), each with a value or
    /// a list of values.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    params: BTreeMap<String, toml::Value>,
}

fn default_journal() -> OneOrMany<Journal> {
    OneOrMany(vec![Journal::Wal])
}

fn default_synchronous() -> OneOrMany<Synchronous> {
    OneOrMany(vec![Synchronous::Full])
}

impl Entry {
    /// Whether it has this key itself, where the file has it for all rows, too.
    pub(crate) fn has(&self, key: &[String]) -> bool {
        let [kind, name, ..] = key else { return false };
        let own = match kind.as_str() {
            "drive" => &self.drive,
            "disk" => &self.disk,
            "sampled" => &self.sampled,
            _ => return false,
        };
        own.contains_key(name)
    }

    /// The first of its published numbers that no measure can have.
    pub(crate) fn impossible(&self) -> Option<f64> {
        self.published.impossible()
    }

    /// The rows that it stands for.
    ///
    /// # Errors
    /// A workload or a parameter that there is not, or not a published number for each row.
    pub(crate) fn rows(&self, e: &Experiment, repetition: u32) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for workload in &self.workload.0 {
            let workload = &e.kind(workload)?;
            // A workload without SQLite has no journal mode: one row, not one for each.
            let job = !workload.has_journal();
            let journals = if job {
                &self.journal.0[..1.min(self.journal.0.len())]
            } else {
                &self.journal.0[..]
            };
            let syncs = if job {
                &self.synchronous.0[..1.min(self.synchronous.0.len())]
            } else {
                &self.synchronous.0[..]
            };
            for design in &self.design.0 {
                for &journal in journals {
                    for &synchronous in syncs {
                        for params in product(&self.params) {
                            let mut scene = e.scene(&params)?;
                            merge(&mut scene.drive, &self.drive);
                            merge(&mut scene.disk, &self.disk);
                            merge(&mut scene.sampled, &self.sampled);
                            let mut name = format!("{workload}/{design}");
                            if !job {
                                name += &format!("/{journal}/{synchronous}");
                            }
                            for (key, value) in &params {
                                name += &format!("/{key}={}", plain(value));
                            }
                            if repetition > 1 {
                                name += &format!("/repetition={repetition}");
                            }
                            rows.push(Row {
                                name,
                                workload: workload.clone(),
                                design: design.clone(),
                                journal,
                                synchronous,
                                expect: self.expect,
                                params,
                                published: self.published.of(rows.len(), self.fitted),
                                scene,
                                quick: e.quickness().clone(),
                            });
                        }
                    }
                }
            }
        }
        let count = rows.len();
        if let Some((measure, told)) = self.published.odd(count) {
            let of = match measure == Named::default() {
                true => String::new(),
                false => format!(" of {}", measure.key()),
            };
            return Err(format!(
                "published has {}{of}, but its [[row]] stands for {}, the first of them {}",
                counted(told as u64, "number", "numbers"),
                counted(count as u64, "row", "rows"),
                rows.first().map_or("none", |r: &Row| r.name.as_str())
            ));
        }
        Ok(rows)
    }
}

/// Every combination of the values: a list stands for each of its members.
fn product(params: &BTreeMap<String, toml::Value>) -> Vec<BTreeMap<String, toml::Value>> {
    let mut all = vec![BTreeMap::new()];
    for (key, value) in params {
        let values = match value {
            toml::Value::Array(values) => values.clone(),
            one => vec![one.clone()],
        };
        let with = |done: &BTreeMap<String, toml::Value>| {
            let done = done.clone();
            values.clone().into_iter().map(move |value| {
                let mut more = done.clone();
                more.insert(key.clone(), value);
                more
            })
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// A value in a row's name: without quotes.
fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Puts the keys of `over` into `table`, going into tables that both have.
pub(crate) fn merge(table: &mut toml::Table, over: &toml::Table) {
    for (key, value) in over {
        match (table.get_mut(key), value) {
            (Some(toml::Value::Table(t)), toml::Value::Table(o)) => merge(t, o),
            _ => drop(table.insert(key.clone(), value.clone())),
        }
    }
}

/// A value, or a list of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct OneOrMany<T>(pub Vec<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By hand, because an untagged enum would hide the error.
        struct Either<T>(std::marker::PhantomData<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for Either<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a list of names")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<OneOrMany<T>, E> {
                T::deserialize(StrDeserializer::new(text)).map(|one| OneOrMany(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<OneOrMany<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(OneOrMany)
            }
        }
        deserializer.deserialize_any(Either(std::marker::PhantomData))
    }
}
