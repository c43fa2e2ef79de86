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

use crate::entry::Entry;
pub use crate::kinds::{Expect, Journal, Synchronous, WorkloadKind};
use crate::model::Model;
use crate::pages::PageModel;
use crate::parse::{self, Wrong};
use crate::precondition::{Overwrites, Precondition, PreconditionError};
use crate::published::{Ratio, Source};
use crate::source;
use serde::Deserialize;
use std::collections::BTreeMap;
use tantalum_rt::mix64;
use tantalum_workload::database::Benchmark;
use tantalum_workload::jobs::Job;
use tantalum_workload::linkbench::{LinkBench, LinkBenchScale};
use tantalum_workload::pages::{AppendTreeJob, EngineJob};
use tantalum_workload::replay::Playing;
use tantalum_workload::tpcc::{Tpcc, TpccScale};
use tantalum_workload::ycsb::{Ycsb, YcsbScale};

/// An experiment, as its file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What it shows, in a line.
    pub title: String,
    /// The seed of all randomness.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Power cuts for each row.
    pub cuts: u32,
    /// How the clients run, and when the power goes.
    #[serde(default)]
    pub run: RunParameters,
    /// The size of LinkBench's graph.
    #[serde(default)]
    pub linkbench: LinkBenchScale,
    /// The size of YCSB's table.
    #[serde(default)]
    pub ycsb: YcsbScale,
    /// The size of TPC-C's database.
    #[serde(default)]
    pub tpcc: TpccScale,
    /// Block jobs, by name: what a row's `workload` may name beside the benchmarks.
    #[serde(default)]
    pub job: BTreeMap<String, Job>,
    /// Recorded block traces and how they are played, by name: the same.
    #[serde(default)]
    pub trace: BTreeMap<String, Playing>,
    /// Database engines as models, by name: a row's `workload` may name them, too.
    #[serde(default)]
    pub engine: BTreeMap<String, EngineJob>,
    /// Append-only trees as models, by name: the same.
    #[serde(default)]
    pub tree: BTreeMap<String, AppendTreeJob>,
    /// Designs of the file's own, by name: `base` names a preset (or is left out: then the
    /// table is a whole design), the rest changes it.
    #[serde(default)]
    pub design: BTreeMap<String, toml::Table>,
    /// Changes to the SSD of every row.
    #[serde(default)]
    pub drive: toml::Table,
    /// Changes to the magnetic disk of every row.
    #[serde(default)]
    pub disk: toml::Table,
    /// How the drive of each row is preconditioned; not at all without it.
    #[serde(default)]
    pub precondition: Option<Precondition>,
    /// Where the numbers that rows and ratios name as published come from.
    #[serde(default)]
    pub published: Option<Source>,
    /// Quotients of rows, beside those that were published.
    #[serde(default, rename = "ratio")]
    pub ratios: Vec<Ratio>,
    /// How often each row runs, each time with a seed of its own.
    #[serde(default = "default_repetitions")]
    pub repetitions: u32,
    /// The rows; each may stand for several.
    #[serde(rename = "row")]
    pub entries: Vec<Entry>,
    /// The file as a table, with what was set from outside: rows change it further.
    #[serde(skip)]
    table: toml::Table,
    /// Its own name, from which the files of traces are looked for.
    #[serde(skip)]
    file: String,
    #[serde(skip)]
    quick: bool,
}

/// What a row runs with: the parts of an experiment that a row's parameters may change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Scene {
    /// How the clients run, and when the power goes.
    pub run: RunParameters,
    /// The size of LinkBench's graph.
    pub linkbench: LinkBenchScale,
    /// The size of YCSB's table.
    pub ycsb: YcsbScale,
    /// The size of TPC-C's database.
    pub tpcc: TpccScale,
    /// Block jobs, by name.
    pub job: BTreeMap<String, Job>,
    /// Recorded block traces, by name; their files as seen from the program.
    pub trace: BTreeMap<String, Playing>,
    /// Database engines as models, by name.
    pub engine: BTreeMap<String, EngineJob>,
    /// Append-only trees as models, by name.
    pub tree: BTreeMap<String, AppendTreeJob>,
    /// Designs of the file's own, by name.
    pub design: BTreeMap<String, toml::Table>,
    /// Changes to SSDs.
    pub drive: toml::Table,
    /// Changes to magnetic disks.
    pub disk: toml::Table,
    /// How the drive is preconditioned, if it is.
    pub precondition: Option<Precondition>,
}

/// The names of the benchmarks on SQLite.
const BENCHMARKS: [&str; 3] = ["linkbench", "ycsb-a", "tpcc"];

fn default_repetitions() -> u32 {
    1
}

fn default_seed() -> u64 {
    1
}

/// How the clients run, and when the power goes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunParameters {
    /// Clients, each with its own connection, 1 to 64.
    pub clients: u32,
    /// So many virtual milliseconds of load come before the measurement, after each start
    /// (block jobs only).
    pub warm_up_ms: u64,
    /// The power is cut after so many virtual milliseconds of load: at least, at most.
    pub run_ms: [u64; 2],
    /// The power stays off for so many virtual milliseconds: at least, at most.
    pub outage_ms: [u64; 2],
    /// Bytes in a page of the database: a power of two, 512 to 65536.
    pub page_bytes: u32,
    /// Pages in each connection's cache.
    pub cache_pages: u32,
    /// In so many of a hundred recoveries the power goes again.
    pub recovery_cut_percent: u32,
}

impl Default for RunParameters {
    fn default() -> RunParameters {
        RunParameters {
            clients: 4,
            warm_up_ms: 0,
            run_ms: [20, 200],
            outage_ms: [10, 2_000],
            page_bytes: 4096,
            cache_pages: 100,
            recovery_cut_percent: 20,
        }
    }
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
    /// What it must show.
    pub expect: Expect,
    /// What it was told apart by in the file: parameters and their values.
    pub params: BTreeMap<String, toml::Value>,
    /// The number that was published for it, if any: of transactions or commands in a
    /// second.
    pub published: Option<f64>,
    /// All it runs with.
    pub scene: Scene,
    /// Whether it is to be small.
    pub quick: bool,
}

/// Why an experiment can not be run.
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
        // The text first: its errors have lines.
        let mut e: Experiment = parse::read(text).map_err(wrong)?;
        let mut table: toml::Table = parse::read(text).map_err(wrong)?;
        if !sets.is_empty() {
            for (key, value) in sets {
                parse::set(&mut table, key, value.clone()).map_err(told)?;
            }
            e = parse::read_table(table.clone())
                .map_err(|w| told(format!("with what was set: {}", w.what)))?;
        }
        table.remove("row");
        e.table = table;
        e.file = file.to_string();
        e.check().map_err(told)?;
        Ok(e)
    }

    fn check(&mut self) -> Result<(), String> {
        if self.cuts == 0 {
            return Err("cuts = 0: an experiment needs at least one power cut".into());
        }
        if !(1..=100).contains(&self.repetitions) {
            return Err(format!("repetitions = {}: must be 1 to 100", self.repetitions));
        }
        let rows = self.rows()?;
        if rows.is_empty() {
            return Err("there is no [[row]]: nothing to run".into());
        }
        // (Those that rows use are checked with what the rows change.)
        let unused = self.design.keys().filter(|d| rows.iter().all(|r| r.design != **d));
        for name in unused {
            let (design, drive) = (self.design.clone(), self.drive.clone());
            let scene = Scene { design, drive, ..Scene::default() };
            Model::of(name, &scene).map_err(|e| format!("[design.{name}]: {e}"))?;
        }
        for ratio in &mut self.ratios {
            ratio.resolve(&rows)?;
        }
        for (i, row) in rows.iter().enumerate() {
            row.scene.check()?;
            let how = row.scene.precondition.as_ref();
            if row.job().is_none() && how.is_some_and(|p| p.pattern == Overwrites::Job) {
                return Err(format!("row \"{}\": {}", row.name, PreconditionError::NoJob));
            }
            if rows[..i].iter().any(|r| r.name == row.name) {
                return Err(format!(
                    "there are two rows \"{}\": give each combination once",
                    row.name
                ));
            }
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

    /// The same experiment, small: for a first look, and for tests.
    #[must_use]
    pub fn quick(mut self) -> Experiment {
        self.cuts = self.cuts.min(6);
        self.repetitions = 1;
        self.quick = true;
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
            "engine",
            "tree",
            "design",
            "drive",
            "disk",
            "precondition",
        ];
        for key in params.keys() {
            let first = key.split('.').next().unwrap_or(key);
            if !known.contains(&first) {
                return Err(parse::unknown("params: unknown key", first, known.into_iter()));
            }
        }
        let mut scene: Scene =
            parse::read_table(table).map_err(|w| format!("params: {}", w.what))?;
        if self.quick {
            scene.run.warm_up_ms = scene.run.warm_up_ms.min(1000);
            scene.run.run_ms = scene.run.run_ms.map(|ms| ms.min(1000));
            if let Some(how) = &mut scene.precondition {
                how.passes_max = how.passes_max.min(0.1);
            }
            scene.linkbench.nodes = scene.linkbench.nodes.min(500);
            scene.ycsb.records = scene.ycsb.records.min(400);
            let tpcc = &mut scene.tpcc;
            tpcc.warehouses = tpcc.warehouses.min(2);
            tpcc.items = tpcc.items.min(200);
            tpcc.customers_per_district = tpcc.customers_per_district.min(9);
            tpcc.orders_per_district = tpcc.orders_per_district.map(|n| n.min(9));
        }
        for how in scene.trace.values_mut() {
            how.file = source::beside(&self.file, &how.file);
        }
        Ok(scene)
    }

    /// Whether its rows are to be small.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick
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
        if self.job.contains_key(name) || self.trace.contains_key(name) {
            return Ok(workload.clone());
        }
        let own = self.job.keys().chain(self.trace.keys());
        let own = own.chain(self.engine.keys()).chain(self.tree.keys());
        let known = BENCHMARKS.into_iter().chain(own.map(String::as_str));
        Err(parse::unknown("unknown workload", name, known))
    }

    /// The seed of the row with this name (invariant 2).
    pub fn row_seed(&self, name: &str) -> u64 {
        name.bytes().fold(mix64(self.seed), |h, b| mix64(h ^ u64::from(b)))
    }
}

impl Scene {
    fn check(&self) -> Result<(), String> {
        let run = &self.run;
        if !(1..=64).contains(&run.clients) {
            return Err(format!("run.clients = {}: must be 1 to 64", run.clients));
        }
        if run.warm_up_ms > 3_600_000 {
            return Err(format!("run.warm_up_ms = {}: at most an hour", run.warm_up_ms));
        }
        for (key, [low, high]) in [("run_ms", run.run_ms), ("outage_ms", run.outage_ms)] {
            if low > high || high > 3_600_000 {
                return Err(format!(
                    "run.{key} = [{low}, {high}]: must be [least, most], at most an hour"
                ));
            }
        }
        if run.recovery_cut_percent > 90 {
            let percent = run.recovery_cut_percent;
            return Err(format!("run.recovery_cut_percent = {percent}: must be 0 to 90"));
        }
        if run.run_ms[1] == 0 {
            return Err("run.run_ms: the power must be on for some time".into());
        }
        if !run.page_bytes.is_power_of_two() || !(512..=65536).contains(&run.page_bytes) {
            let page = run.page_bytes;
            return Err(format!("run.page_bytes = {page}: must be a power of two, 512 to 65536"));
        }
        for (key, n) in
            [("linkbench.nodes", self.linkbench.nodes), ("ycsb.records", self.ycsb.records)]
        {
            if !(1..=100_000_000).contains(&n) {
                return Err(format!("{key} = {n}: must be 1 to 100000000"));
            }
        }
        self.tpcc.check().map_err(|e| format!("tpcc.{e}"))?;
        for (kind, mut names) in [
            ("job", self.job.keys().collect::<Vec<_>>()),
            ("trace", self.trace.keys().collect()),
            ("engine", self.engine.keys().collect()),
            ("tree", self.tree.keys().collect()),
        ] {
            names.retain(|name| BENCHMARKS.contains(&name.as_str()));
            if let Some(name) = names.first() {
                return Err(format!(
                    "[{kind}.{name}]: \"{name}\" is a benchmark: give it another name"
                ));
            }
        }
        if let Some(name) = self.trace.keys().find(|name| self.job.contains_key(*name)) {
            return Err(format!("\"{name}\" is a [job] and a [trace]: give one another name"));
        }
        for (name, how) in &self.trace {
            how.check().map_err(|e| format!("trace.{name}: {e}"))?;
        }
        if let Some(how) = &self.precondition {
            how.check().map_err(|e| e.to_string())?;
        }
        let per_node = self.linkbench.links_per_node;
        if !(0.0..=100.0).contains(&per_node) {
            return Err(format!("linkbench.links_per_node = {per_node}: must be 0 to 100"));
        }
        Ok(())
    }
}

impl Row {
    /// What it runs on.
    ///
    /// # Errors
    /// In a line: there is no such design, or it can not be built.
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
        let engine = self.scene.engine.get(name).map(|job| PageModel::Engine(job.clone()));
        let tree = || self.scene.tree.get(name).map(|job| PageModel::Tree(job.clone()));
        let mut model = engine.or_else(tree)?;
        if self.quick {
            model.make_quick();
        }
        Some(model)
    }

    /// The block job of the row; `None` for a benchmark.
    pub fn job(&self) -> Option<&Job> {
        match &self.workload {
            WorkloadKind::Job(name) => self.scene.job.get(name),
            _ => None,
        }
    }

    /// The recorded trace of the row, if it plays one.
    pub fn trace(&self) -> Option<&Playing> {
        match &self.workload {
            WorkloadKind::Job(name) => self.scene.trace.get(name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
        title = "small"
        cuts = 3
        [drive]
        a = 1
        deep = { x = 1, y = 2 }
        [[row]]
        workload = ["ycsb-a", "linkbench"]
        design = "durassd"
        synchronous = ["full", "off"]
        drive = { deep = { y = 3 } }
    "#;

    #[test]
    fn rows_are_the_product_and_overrides_go_deep() {
        let e = Experiment::parse("small.toml", SMALL).unwrap();
        let rows = e.rows().unwrap();
        let names: Vec<_> = rows.iter().map(|r| r.name.as_str()).collect();
        let expected = [
            "linkbench/durassd/wal/full",
            "linkbench/durassd/wal/off",
            "ycsb-a/durassd/wal/full",
            "ycsb-a/durassd/wal/off",
        ];
        assert_eq!(names, expected);
        let over: toml::Table = toml::from_str("a = 1\ndeep = { x = 1, y = 3 }").unwrap();
        assert!(rows.iter().all(|r| r.scene.drive == over && r.expect == Expect::Promised));
    }

    #[test]
    fn a_rows_seed_depends_on_its_name_and_the_seed_alone() {
        let mut e = Experiment::parse("small.toml", SMALL).unwrap();
        let seed = e.row_seed("ycsb-a/durassd/wal/off");
        assert_ne!(seed, e.row_seed("ycsb-a/durassd/wal/full"));
        e.entries.clear();
        assert_eq!(seed, e.row_seed("ycsb-a/durassd/wal/off"));
        e.seed += 1;
        assert_ne!(seed, e.row_seed("ycsb-a/durassd/wal/off"));
    }

    #[test]
    fn errors_name_file_line_and_key() {
        let cases = [
            ("cuts = 3", "cutz = 3", "small.toml:3: unknown key \"cutz\"; did you mean \"cuts\"?"),
            ("\"ycsb-a\",", "\"ycsb-b\",", "unknown workload \"ycsb-b\"; did you mean \"ycsb-a\"?"),
            ("cuts = 3", "cuts = 0", "at least one power cut"),
            ("[drive]", "[run]\nclients = 0\n[drive]", "run.clients = 0"),
            (
                "[drive]",
                "[run]\nclient = 2\n[drive]",
                "unknown key \"client\"; did you mean \"clients\"?",
            ),
            ("[drive]", "[run]\npage_bytes = 5000\n[drive]", "power of two"),
            ("[\"full\", \"off\"]", "[\"full\", \"full\"]", "two rows"),
            ("[\"full\", \"off\"]", "[]", "nothing to run"),
            ("[\"full\", \"off\"]", "7", "a name or a list of names"),
            ("[drive]", "[drive", "expected"),
            ("[drive]", "[job.tpcc]\nseconds = 1.0\n[drive]", "\"tpcc\" is a benchmark"),
            // No row uses it. (What is in [drive] here is none of a drive's.)
            (
                "[drive]",
                "[design.x]\nbase = \"durassd\"\nkind = \"raid0\"\n[disk]",
                "[design.x]: not a design: a design has no `kind`",
            ),
            ("[drive]", "[design.x]\nbase = \"durasd\"\n[disk]", "did you mean \"durassd\"?"),
        ];
        for (from, to, expected) in cases {
            let text = SMALL.replace(from, to);
            assert_ne!(text, SMALL);
            let error = Experiment::parse("small.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with("small.toml:"), "{error}");
            assert!(!error.contains('\n'), "{error}");
            assert!(error.contains(expected), "{to}: {error}");
        }
    }
}
