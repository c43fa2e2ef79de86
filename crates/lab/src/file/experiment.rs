//! The experiment file: which workloads run on which designs, how often the power
//! is cut, and what each row of the table is expected to survive.
//!
//! # Invariants
//!
//! 1. A key that is not known here is refused, with the file, the line and the
//!    keys there are: a misspelt parameter never silently means its default.
//! 2. A row's name follows from what it runs and is unique in the file; a row's seed
//!    follows from the experiment's seed and its name alone, so that adding, leaving
//!    out or reordering rows changes no other row.

use crate::file::entry::Entry;
pub use crate::file::kinds::{Expect, Journal, Synchronous, WorkloadKind};
use crate::file::parse::{self, Fault, Wrong};
use crate::file::quick::{Quick, covers};
use crate::file::scene::{BENCHMARKS, LEAST_BLOCK};
pub use crate::file::scene::{RunParameters, Scene};
use crate::file::source;
use crate::report::published::{Published, Source};
use crate::report::ratio::Ratio;
use crate::run::engines::PageModel;
use crate::run::precondition::{Overwrites, Precondition, PreconditionError};
use crate::subject::{Model, presets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tantalum_files::FormatOptions;
use tantalum_rt::mix64;
use tantalum_workload::appends::AppendJob;
use tantalum_workload::database::Benchmark;
use tantalum_workload::jobs::Job;
use tantalum_workload::linkbench::{LinkBench, LinkBenchScale};
use tantalum_workload::pages::{AppendTreeJob, CacheJob, EngineJob, FlashLogJob};
use tantalum_workload::replay::Playing;
use tantalum_workload::tpcc::{Tpcc, TpccScale};
use tantalum_workload::ycsb::{Ycsb, YcsbScale};

/// An experiment, as its file says.
///
/// See [the crate](crate) for an example.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What the experiment shows, in a line.
    ///
    /// *Source*: own choice.
    pub title: String,
    /// Seed of all random choices.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Power cuts of each row.
    ///
    /// *Source*: own choice.
    pub cuts: u32,
    /// How clients run, and when the power goes, see below.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub run: RunParameters,
    /// Size of LinkBench's graph, see below.
    ///
    /// *Source*: Armstrong et al. (SIGMOD 2013).
    #[serde(default)]
    pub linkbench: LinkBenchScale,
    /// Size of YCSB's table, and its mix, see below.
    ///
    /// *Source*: Cooper et al. (SoCC 2010).
    #[serde(default)]
    pub ycsb: YcsbScale,
    /// Size of TPC-C's database, see below.
    ///
    /// *Source*: TPC-C, revision 5.11.
    #[serde(default)]
    pub tpcc: TpccScale,
    /// Block jobs, by name. A row's `workload` may name them, as it may name a benchmark.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub job: BTreeMap<String, Job>,
    /// Recorded block traces, by name. A row's `workload` may name them.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub trace: BTreeMap<String, Playing>,
    /// Requesters that append to a log, by name. A row's `workload` may name them.
    ///
    /// *Source*: FlashLogging.
    #[serde(default)]
    pub append: BTreeMap<String, AppendJob>,
    /// Database engines as models of their pages, by name. A row's `workload` may name them.
    ///
    /// *Source*: DuraSSD: its databases; the source of MySQL 5.6 and 5.7.
    #[serde(default)]
    pub engine: BTreeMap<String, EngineJob>,
    /// Logs of engines over several devices, by name. An engine's `log` may name them.
    ///
    /// *Source*: FlashLogging.
    #[serde(default)]
    pub log: BTreeMap<String, FlashLogJob>,
    /// Flash caches, by name. The `cache` of an engine or a trace may name them.
    ///
    /// *Source*: FaCE.
    #[serde(default)]
    pub cache: BTreeMap<String, CacheJob>,
    /// Append-only trees as models of their pages, by name. A row's `workload` may name them.
    ///
    /// *Source*: DuraSSD: Couchbase.
    #[serde(default)]
    pub tree: BTreeMap<String, AppendTreeJob>,
    /// Designs of the file's own, by name. `base` names a preset or another design of the file, and
    /// the other keys change it. Without `base` the table is a whole design.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub design: BTreeMap<String, toml::Table>,
    /// Changes to the SSD of every row.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub drive: toml::Table,
    /// Changes to the magnetic disk of every row.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub disk: toml::Table,
    /// Changes to the sampled device of every row.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub sampled: toml::Table,
    /// How the drive of each row is written before it is measured. Without it the drive is fresh.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub precondition: Option<Precondition>,
    /// Where the numbers come from that rows and ratios name as published.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub published: Option<Source>,
    /// Rows divided by other rows, less other rows or alone, beside what was published of that: a list
    /// of tables.
    ///
    /// *Source*: own choice.
    #[serde(default, rename = "ratio")]
    pub ratios: Vec<Ratio>,
    /// Runs of each row, each with a seed of its own.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_repetitions")]
    pub repetitions: u32,
    /// What runs on what: a list of tables.
    ///
    /// *Source*: own choice.
    #[serde(rename = "row")]
    pub entries: Vec<Entry>,
    /// The file as a table, with what was set from outside: rows change it further.
    #[serde(skip)]
    table: toml::Table,
    /// Its own name, from which the files of traces are looked for.
    #[serde(skip)]
    file: String,
    #[serde(skip)]
    quick: Quick,
}

fn default_repetitions() -> u32 {
    1
}

fn default_seed() -> u64 {
    1
}

/// One row of the table: a workload on a design.
#[derive(Clone, Debug)]
pub struct Row {
    /// Workload, design, journal and synchronous, with slashes between.
    pub name: String,
    /// Which benchmark.
    pub workload: WorkloadKind,
    /// Which preset.
    pub design: String,
    /// SQLite's journal mode (a block job has none).
    pub journal: Journal,
    /// SQLite's `synchronous` (a block job has none).
    pub synchronous: Synchronous,
    /// What its result must show.
    pub expect: Expect,
    /// The parameters that distinguish it in the file, with their values.
    pub params: BTreeMap<String, toml::Value>,
    /// The numbers that were published for it.
    pub published: Vec<Published>,
    /// The parameters that it runs with.
    pub scene: Scene,
    /// Whether it is to be small.
    pub quick: Quick,
}

/// Why an experiment cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}")]
pub struct ExperimentError {
    /// The experiment file.
    pub file: String,
    /// What is wrong with it, and where.
    pub what: String,
}

impl Experiment {
    /// Reads an experiment from the text of its file; `file` is named in errors.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(file: &str, text: &str) -> Result<Experiment, ExperimentError> {
        Experiment::parse_with(file, text, &[])
    }

    /// The same, with other values at these dotted keys.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse_with(
        file: &str,
        text: &str,
        sets: &[(String, toml::Value)],
    ) -> Result<Experiment, ExperimentError> {
        let wrong = |w: Wrong| ExperimentError {
            file: w.line.map_or(file.to_string(), |line| format!("{file}:{line}")),
            what: w.what,
        };
        let told = |what: String| ExperimentError { file: file.to_string(), what };
        // What was set at this key or above it, or below it if nothing else was.
        let set = |key: &[String]| {
            let path = key.join(".");
            let at = sets.iter().find(|(key, _)| covers(key, &path));
            let below = sets.first().filter(|(key, _)| sets.len() == 1 && covers(&path, key));
            at.or(below).map(|(key, value)| format!("{key} = {value}"))
        };
        // The text first: its errors have lines.
        let mut e: Experiment = parse::read(text).map_err(wrong)?;
        let mut table: toml::Table = parse::read(text).map_err(wrong)?;
        if !sets.is_empty() {
            for (key, value) in sets {
                parse::set(&mut table, key, value.clone()).map_err(told)?;
            }
            e = parse::read_keys(&table).map_err(|fault| match set(&fault.key) {
                Some(set) => told(format!("with {set}: {}", fault.what)),
                None => told(format!("with what was set: {}", fault.what)),
            })?;
        }
        table.remove("row");
        e.table = table;
        e.file = file.to_string();
        e.quick = Quick::with_set(sets.iter().map(|(key, _)| key));
        e.check().map_err(|fault| match set(&fault.key) {
            Some(set) => told(format!("with {set}: {}", fault.what)),
            None => wrong(Wrong { line: parse::line_of(text, &fault.key), what: fault.what }),
        })?;
        Ok(e)
    }

    fn check(&mut self) -> Result<(), Fault> {
        if self.cuts == 0 {
            let what = "cuts = 0: an experiment needs at least one power cut";
            return Err(Fault::at(&["cuts"], what));
        }
        if !(1..=100).contains(&self.repetitions) {
            let what = format!("repetitions = {}: must be 1 to 100", self.repetitions);
            return Err(Fault::at(&["repetitions"], what));
        }
        let mut rows: Vec<Row> = Vec::new();
        for (i, entry) in self.entries.iter().enumerate() {
            let place = i.to_string();
            let at = |what: String| Fault::at(&["row", &place], what);
            if let Some(n) = entry.impossible() {
                let what = format!("published = {n}: must be above 0");
                return Err(Fault::at(&["row", &place, "published"], what));
            }
            for row in entry.rows(self, 1).map_err(at)? {
                if !self.design.contains_key(&row.design) && presets().all(|p| p != row.design) {
                    let why = row.model().err().unwrap_or_default();
                    return Err(Fault::at(&["row", &place, "design"], why));
                }
                self.check_row(&row).map_err(|fault| match row.changes(&fault.key) {
                    Some(key) => fault.moved(&["row", &place, "params", key]),
                    None if entry.has(&fault.key) => fault.below(&["row", &place]),
                    None => fault,
                })?;
                if rows.iter().any(|r| r.name == row.name) {
                    let name = row.name;
                    return Err(at(format!(
                        "there are two rows \"{name}\": give each combination once"
                    )));
                }
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return Err("there is no [[row]]: nothing to run".to_string().into());
        }
        if let Some(published) = &self.published {
            let below = |fault: Fault| {
                let what = format!("published.{}", fault.what);
                Fault { what, ..fault }.below(&["published"])
            };
            published.check().map_err(below)?;
        }
        // (Those that rows use are checked with what the rows change.)
        let scene = self.scene(&BTreeMap::new())?;
        for workload in scene.workloads().filter(|w| rows.iter().all(|r| r.workload != *w)) {
            scene.check_workload(&workload, LEAST_BLOCK)?;
        }
        for name in self.design.keys().filter(|d| rows.iter().all(|r| r.design != **d)) {
            Model::read(name, &scene).map_err(|fault| {
                let what = format!("[design.{name}]: {}", fault.what);
                match fault.key.is_empty() {
                    true => Fault::at(&["design", name], what),
                    false => Fault { what, ..fault },
                }
            })?;
        }
        let rows = self.rows()?;
        for (i, ratio) in self.ratios.iter_mut().enumerate() {
            let at = |what: String| Fault::at(&["ratio", &i.to_string()], what);
            ratio.check().map_err(|fault| {
                let what = format!("ratio \"{}\": {}", ratio.what, fault.what);
                Fault { what, ..fault }.below(&["ratio", &i.to_string()])
            })?;
            ratio.resolve(&rows).map_err(at)?;
        }
        Ok(())
    }

    fn check_row(&self, row: &Row) -> Result<(), Fault> {
        row.scene.check()?;
        // (What has no key is told when the row is to run.)
        let model = match Model::read(&row.design, &row.scene) {
            Err(fault) if !fault.key.is_empty() => return Err(fault),
            model => model.ok(),
        };
        let block = model.map_or(LEAST_BLOCK, |model| model.block_bytes());
        row.scene.check_workload(&row.workload, block)?;
        let chunk = FormatOptions::default().chunk;
        if row.workload.has_journal() && block > chunk {
            let what = format!(
                "row \"{}\": block_bytes = {block}: the files of SQLite need a device with blocks of \
                 512 to {chunk} bytes",
                row.name
            );
            return Err(Fault::at(&["design", &row.design, "block_bytes"], what));
        }
        let how = row.scene.precondition.as_ref();
        if row.job().is_none() && how.is_some_and(|p| p.pattern == Overwrites::Job) {
            let what = format!("row \"{}\": {}", row.name, PreconditionError::NoJob);
            return Err(Fault::at(&["precondition", "pattern"], what));
        }
        Ok(())
    }

    /// All rows: those of one workload together, otherwise in the order of the file.
    ///
    /// # Errors
    /// A workload or a parameter that there is not.
    pub fn rows(&self) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for entry in &self.entries {
            for repetition in 1..=self.repetitions {
                rows.extend(entry.rows(self, repetition)?);
            }
        }
        rows.sort_by(|a: &Row, b: &Row| a.workload.cmp(&b.workload));
        Ok(rows)
    }

    /// The same experiment, small: for a first look, and for tests. Keys that were set from outside
    /// keep their values.
    #[must_use]
    pub fn quick(mut self) -> Experiment {
        self.quick.switch_on();
        let lowers = |key: &str| self.quick.lowers(&BTreeMap::new(), key);
        self.cuts = if lowers("cuts") { self.cuts.min(6) } else { self.cuts };
        self.repetitions = if lowers("repetitions") { 1 } else { self.repetitions };
        self
    }

    /// What a row with these parameters runs with.
    pub(crate) fn scene(&self, params: &BTreeMap<String, toml::Value>) -> Result<Scene, String> {
        let mut table = self.table.clone();
        for (key, value) in params {
            parse::set(&mut table, key, value.clone()).map_err(|e| format!("params: {e}"))?;
        }
        let known = [
            "run",
            "linkbench",
            "ycsb",
            "tpcc",
            "job",
            "trace",
            "append",
            "engine",
            "log",
            "cache",
            "tree",
            "design",
            "drive",
            "disk",
            "sampled",
            "precondition",
        ];
        for key in params.keys() {
            let first = key.split('.').next().unwrap_or(key);
            if !known.contains(&first) {
                return Err(parse::unknown("params: unknown key", first, known.into_iter()));
            }
        }
        let mut scene: Scene =
            parse::read_keys(&table).map_err(|fault| format!("params: {}", fault.what))?;
        self.quick.shrink(&mut scene, params);
        for how in scene.trace.values_mut() {
            how.file = source::beside(&self.file, &how.file);
        }
        Ok(scene)
    }

    /// Whether its rows are to be small.
    pub(crate) fn quickness(&self) -> &Quick {
        &self.quick
    }

    /// The kind of this workload: a name is that of an engine, a tree or a block job of the file.
    ///
    /// # Errors
    /// There is none of this name.
    pub(crate) fn kind(&self, workload: &WorkloadKind) -> Result<WorkloadKind, String> {
        let WorkloadKind::Job(name) = workload else { return Ok(workload.clone()) };
        if self.engine.contains_key(name) || self.tree.contains_key(name) {
            return Ok(WorkloadKind::Pages(name.clone()));
        }
        let jobs = self.job.contains_key(name) || self.trace.contains_key(name);
        if jobs || self.append.contains_key(name) {
            return Ok(workload.clone());
        }
        let own = self.job.keys().chain(self.trace.keys()).chain(self.append.keys());
        let own = own.chain(self.engine.keys()).chain(self.tree.keys());
        let known = BENCHMARKS.into_iter().chain(own.map(String::as_str));
        Err(parse::unknown("unknown workload", name, known))
    }

    /// The seed of the row with this name (invariant 2).
    pub fn row_seed(&self, name: &str) -> u64 {
        name.bytes().fold(mix64(self.seed), |h, b| mix64(h ^ u64::from(b)))
    }
}

impl Row {
    /// Which of its parameters changes what is at this key of the experiment.
    fn changes(&self, key: &[String]) -> Option<&str> {
        let path = key.join(".");
        self.params.keys().map(String::as_str).find(|param| covers(param, &path))
    }

    /// What it runs on.
    ///
    /// # Errors
    /// In a line: there is no such design, or it cannot be built.
    pub fn model(&self) -> Result<Model, String> {
        Model::of(&self.design, &self.scene)
    }

    /// The benchmark of the row at its scale; `None` for a block job.
    pub fn benchmark(&self) -> Option<Box<dyn Benchmark>> {
        match &self.workload {
            WorkloadKind::LinkBench => Some(Box::new(LinkBench::new(self.scene.linkbench.clone()))),
            WorkloadKind::YcsbA => Some(Box::new(Ycsb::new(self.scene.ycsb.clone()))),
            WorkloadKind::Tpcc => Some(Box::new(Tpcc::new(&self.scene.tpcc))),
            WorkloadKind::Pages(_) | WorkloadKind::Job(_) => None,
        }
    }

    /// The row's database, if it is a model at the level of pages.
    pub fn pages(&self) -> Option<PageModel> {
        let WorkloadKind::Pages(name) = &self.workload else { return None };
        let log = |job: &EngineJob| self.scene.log.get(job.log.as_ref()?).cloned();
        let cache = |job: &EngineJob| self.scene.cache.get(job.cache.as_ref()?).cloned();
        let engine = self.scene.engine.get(name).map(|job| {
            PageModel::Engine(Box::new(job.clone()), log(job), cache(job).map(Box::new))
        });
        let tree = || self.scene.tree.get(name).map(|job| PageModel::Tree(job.clone()));
        let mut model = engine.or_else(tree)?;
        model.make_quick(name, |key| self.quick.lowers(&self.params, key));
        Some(model)
    }

    /// The block job of the row; `None` for a benchmark.
    pub fn job(&self) -> Option<&Job> {
        match &self.workload {
            WorkloadKind::Job(name) => self.scene.job.get(name),
            _ => None,
        }
    }

    /// The requesters of the row, if they append to a log.
    pub fn appends(&self) -> Option<AppendJob> {
        let WorkloadKind::Job(name) = &self.workload else { return None };
        let mut job = self.scene.append.get(name).cloned()?;
        if self.quick.lowers(&self.params, &format!("append.{name}.fill_mib")) {
            job.make_quick();
        }
        Some(job)
    }

    /// The recorded trace of the row, if it plays one.
    pub fn trace(&self) -> Option<&Playing> {
        match &self.workload {
            WorkloadKind::Job(name) => self.scene.trace.get(name),
            _ => None,
        }
    }

    /// The flash cache before the device on which a trace is played, if it has one.
    pub fn trace_cache(&self) -> Option<&CacheJob> {
        self.scene.cache.get(self.trace()?.cache.as_ref()?)
    }
}

#[cfg(test)]
#[path = "experiment_tests.rs"]
mod tests;
