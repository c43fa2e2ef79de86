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

use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use tantalum_rt::mix64;
use tantalum_workload::database::Benchmark;
use tantalum_workload::linkbench::{LinkBench, LinkBenchScale};
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
    /// Changes to the design of every row.
    #[serde(default)]
    pub drive: toml::Table,
    /// The rows; each may stand for several.
    #[serde(rename = "row")]
    pub entries: Vec<Entry>,
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
            run_ms: [20, 200],
            outage_ms: [10, 2_000],
            page_bytes: 4096,
            cache_pages: 100,
            recovery_cut_percent: 20,
        }
    }
}

/// A `[[row]]` of the file: where a list is given, one row for each of its members.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    workload: OneOrMany<WorkloadKind>,
    design: OneOrMany<String>,
    #[serde(default = "default_journal")]
    journal: OneOrMany<Journal>,
    #[serde(default = "default_synchronous")]
    synchronous: OneOrMany<Synchronous>,
    #[serde(default)]
    expect: Expect,
    #[serde(default)]
    drive: toml::Table,
}

fn default_journal() -> OneOrMany<Journal> {
    OneOrMany(vec![Journal::Wal])
}

fn default_synchronous() -> OneOrMany<Synchronous> {
    OneOrMany(vec![Synchronous::Full])
}

/// Which benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkloadKind {
    /// [`LinkBench`].
    #[serde(rename = "linkbench")]
    LinkBench,
    /// [`Ycsb`], workload A.
    #[serde(rename = "ycsb-a")]
    YcsbA,
}

/// SQLite's journal mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Journal {
    /// A write-ahead log.
    Wal,
    /// A rollback journal, deleted at commit.
    Delete,
}

/// SQLite's `synchronous`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Synchronous {
    /// Every commit is synced, the removal of a rollback journal too.
    Extra,
    /// Every commit is synced, but a removed rollback journal may come back.
    Full,
    /// Synced at checkpoints only (WAL), or less often (rollback journal).
    Normal,
    /// Never synced.
    Off,
}

/// What a row must show for the run to succeed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// No acknowledged commit is lost and no database is damaged.
    #[default]
    Lossless,
    /// Something is lost: this row shows what the others are spared.
    Lossy,
    /// Whatever comes.
    Anything,
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
    /// SQLite's journal mode.
    pub journal: Journal,
    /// SQLite's `synchronous`.
    pub synchronous: Synchronous,
    /// What it must show.
    pub expect: Expect,
    /// Changes to the preset.
    pub drive: toml::Table,
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
        let wrong = |what: String| ExperimentError { file: file.to_string(), what };
        let e: Experiment =
            toml::from_str(text).map_err(|e| wrong(e.to_string().trim_end().into()))?;
        e.check().map_err(wrong)?;
        Ok(e)
    }

    fn check(&self) -> Result<(), String> {
        let run = &self.run;
        if self.cuts == 0 {
            return Err("cuts = 0: an experiment needs at least one power cut".into());
        }
        if !(1..=64).contains(&run.clients) {
            return Err(format!("run.clients = {}: must be 1 to 64", run.clients));
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
        let per_node = self.linkbench.links_per_node;
        if !(0.0..=100.0).contains(&per_node) {
            return Err(format!("linkbench.links_per_node = {per_node}: must be 0 to 100"));
        }
        let rows = self.rows();
        if rows.is_empty() {
            return Err("there is no [[row]]: nothing to run".into());
        }
        for (i, row) in rows.iter().enumerate() {
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
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.entries.iter().flat_map(|e| e.rows(&self.drive)).collect();
        rows.sort_by_key(|r| r.workload as u8);
        rows
    }

    /// The same experiment, small: for a first look, and for tests.
    #[must_use]
    pub fn quick(mut self) -> Experiment {
        self.cuts = self.cuts.min(6);
        self.linkbench.nodes = self.linkbench.nodes.min(500);
        self.ycsb.records = self.ycsb.records.min(400);
        self
    }

    /// The benchmark of a row, at the experiment's scale.
    pub fn benchmark(&self, kind: WorkloadKind) -> Box<dyn Benchmark> {
        match kind {
            WorkloadKind::LinkBench => Box::new(LinkBench::new(self.linkbench.clone())),
            WorkloadKind::YcsbA => Box::new(Ycsb::new(self.ycsb.clone())),
        }
    }

    /// The seed of the row with this name (invariant 2).
    pub fn row_seed(&self, name: &str) -> u64 {
        name.bytes().fold(mix64(self.seed), |h, b| mix64(h ^ u64::from(b)))
    }
}

impl Entry {
    fn rows(&self, common: &toml::Table) -> Vec<Row> {
        let mut rows = Vec::new();
        for &workload in &self.workload.0 {
            for design in &self.design.0 {
                for &journal in &self.journal.0 {
                    for &synchronous in &self.synchronous.0 {
                        let mut drive = common.clone();
                        merge(&mut drive, &self.drive);
                        rows.push(Row {
                            name: format!("{workload}/{design}/{journal}/{synchronous}"),
                            workload,
                            design: design.clone(),
                            journal,
                            synchronous,
                            expect: self.expect,
                            drive,
                        });
                    }
                }
            }
        }
        rows
    }
}

/// Puts the keys of `over` into `table`, going into tables that both have.
fn merge(table: &mut toml::Table, over: &toml::Table) {
    for (key, value) in over {
        match (table.get_mut(key), value) {
            (Some(toml::Value::Table(t)), toml::Value::Table(o)) => merge(t, o),
            _ => drop(table.insert(key.clone(), value.clone())),
        }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WorkloadKind::LinkBench => "linkbench",
            WorkloadKind::YcsbA => "ycsb-a",
        })
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Journal::Wal => "wal",
            Journal::Delete => "delete",
        })
    }
}

impl fmt::Display for Synchronous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Synchronous::Extra => "extra",
            Synchronous::Full => "full",
            Synchronous::Normal => "normal",
            Synchronous::Off => "off",
        })
    }
}

/// A value, or a list of them.
#[derive(Clone, Debug)]
struct OneOrMany<T>(Vec<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // By hand, since an untagged enum would swallow what was wrong.
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
        let rows = e.rows();
        let names: Vec<_> = rows.iter().map(|r| r.name.as_str()).collect();
        let expected = [
            "linkbench/durassd/wal/full",
            "linkbench/durassd/wal/off",
            "ycsb-a/durassd/wal/full",
            "ycsb-a/durassd/wal/off",
        ];
        assert_eq!(names, expected);
        let over: toml::Table = toml::from_str("a = 1\ndeep = { x = 1, y = 3 }").unwrap();
        assert!(rows.iter().all(|r| r.drive == over && r.expect == Expect::Lossless));
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
            ("cuts = 3", "cutz = 3", "unknown field `cutz`"),
            (
                "\"ycsb-a\",",
                "\"ycsb-b\",",
                "unknown variant `ycsb-b`, expected `linkbench` or `ycsb-a`",
            ),
            ("cuts = 3", "cuts = 0", "at least one power cut"),
            ("[drive]", "[run]\nclients = 0\n[drive]", "run.clients = 0"),
            ("[drive]", "[run]\nclient = 2\n[drive]", "unknown field `client`, expected one of"),
            ("[drive]", "[run]\npage_bytes = 5000\n[drive]", "power of two"),
            ("[\"full\", \"off\"]", "[\"full\", \"full\"]", "two rows"),
            ("[\"full\", \"off\"]", "[]", "nothing to run"),
            ("[\"full\", \"off\"]", "7", "a name or a list of names"),
            ("[drive]", "[drive", "expected"),
        ];
        for (from, to, expected) in cases {
            let text = SMALL.replace(from, to);
            assert_ne!(text, SMALL);
            let error = Experiment::parse("small.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with("small.toml: "), "{error}");
            assert!(error.contains(expected), "{to}: {error}");
        }
        let line = Experiment::parse("f", &SMALL.replace("cuts", "cutz")).unwrap_err();
        assert!(line.to_string().contains("line 3"), "{line}");
    }
}
