//! What a row runs with: the parts of an experiment file that a row's parameters may change.
//!
//! 1. A value that could not be carried out is refused when the file is read, with its key.
//! 2. A workload is checked as the rows change it that run it. One that no row runs is checked as
//!    it is in the file.

use crate::file::kinds::WorkloadKind;
use crate::file::parse::{self, Fault};
use crate::run::precondition::{Precondition, PreconditionError};
use crate::subject::Model;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tantalum_workload::appends::{AppendError, AppendJob};
use tantalum_workload::jobs::Job;
use tantalum_workload::linkbench::LinkBenchScale;
use tantalum_workload::pages::{AppendTreeJob, CacheJob, EngineJob, FlashLogJob, JobError};
use tantalum_workload::replay::{Playing, ReplayError};
use tantalum_workload::tpcc::TpccScale;
use tantalum_workload::ycsb::YcsbScale;

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
    /// Requesters that append to a log, by name.
    pub append: BTreeMap<String, AppendJob>,
    /// Database engines as models, by name.
    pub engine: BTreeMap<String, EngineJob>,
    /// Logs of engines over several devices, by name.
    pub log: BTreeMap<String, FlashLogJob>,
    /// Flash caches, by name.
    pub cache: BTreeMap<String, CacheJob>,
    /// Append-only trees as models, by name.
    pub tree: BTreeMap<String, AppendTreeJob>,
    /// Designs of the file's own, by name.
    pub design: BTreeMap<String, toml::Table>,
    /// Changes to SSDs.
    pub drive: toml::Table,
    /// Changes to magnetic disks.
    pub disk: toml::Table,
    /// Changes to sampled devices.
    pub sampled: toml::Table,
    /// How the drive is preconditioned, if it is.
    pub precondition: Option<Precondition>,
}

/// The names of the benchmarks on SQLite.
pub(crate) const BENCHMARKS: [&str; 3] = ["linkbench", "ycsb-a", "tpcc"];

/// Bytes of the smallest blocks that a device can have.
pub(crate) const LEAST_BLOCK: u32 = 512;

/// Bytes of a device that is larger than any: on it a job's range is no bound.
const ANY_BYTES: u64 = 1 << 50;

/// How the clients run, and when the power goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunParameters {
    /// Clients, each with a connection of its own.
    ///
    /// *Source*: own choice.
    pub clients: u32,
    /// Load before the measurement, after each start, ms. Block jobs only.
    ///
    /// *Source*: own choice.
    pub warm_up_ms: u64,
    /// Load until the power is cut: at least and at most, ms.
    ///
    /// *Source*: own choice.
    pub run_ms: [u64; 2],
    /// Time without power: at least and at most, ms.
    ///
    /// *Source*: own choice.
    pub outage_ms: [u64; 2],
    /// Bytes in a page of the database.
    ///
    /// *Source*: SQLite: `page_size`.
    pub page_bytes: u32,
    /// Pages in the cache of each connection.
    ///
    /// *Source*: SQLite: `cache_size`; 100 pages: own choice.
    pub cache_pages: u32,
    /// Share of the recoveries in which the power is cut again, per cent.
    ///
    /// *Source*: own choice.
    pub recovery_cut_percent: u32,
    /// Whether the bytes and commands that a commit costs the drive are reported. SQLite only.
    ///
    /// *Source*: own choice.
    pub commit_costs: bool,
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
            commit_costs: false,
        }
    }
}

impl Scene {
    /// Checks its values, except for workloads.
    ///
    /// # Errors
    /// What cannot, with its key.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.run.check().map_err(|f| f.below(&["run"]))?;
        let (nodes, records) = (self.linkbench.nodes, self.ycsb.records);
        let link = self.linkbench.link_bytes;
        for (kind, key, n, least, most) in [
            ("linkbench", "nodes", nodes, 1, 100_000_000),
            ("linkbench", "node_bytes", self.linkbench.node_bytes, 1, 1 << 20),
            ("linkbench", "link_bytes", link, 1, 255),
            ("ycsb", "records", records, 1, 100_000_000),
            ("ycsb", "field_bytes", self.ycsb.field_bytes, 16, 1 << 20),
            ("ycsb", "update_percent", self.ycsb.update_percent, 0, 100),
        ] {
            if !(least..=most).contains(&n) {
                let what = format!("{kind}.{key} = {n}: must be {least} to {most}");
                return Err(Fault::at(&[kind, key], what));
            }
        }
        let per_node = self.linkbench.links_per_node;
        if !(0.0..=100.0).contains(&per_node) {
            let what = format!("linkbench.links_per_node = {per_node}: must be 0 to 100");
            return Err(Fault::at(&["linkbench", "links_per_node"], what));
        }
        self.tpcc.check().map_err(|e| {
            let key = e.split(' ').next().unwrap_or_default().to_string();
            Fault::at(&["tpcc", &key], format!("tpcc.{e}"))
        })?;
        for (kind, mut names) in [
            ("job", self.job.keys().collect::<Vec<_>>()),
            ("trace", self.trace.keys().collect()),
            ("append", self.append.keys().collect()),
            ("engine", self.engine.keys().collect()),
            ("tree", self.tree.keys().collect()),
        ] {
            names.retain(|name| BENCHMARKS.contains(&name.as_str()));
            if let Some(name) = names.first() {
                let what =
                    format!("[{kind}.{name}]: \"{name}\" is a benchmark: give it another name");
                return Err(Fault::at(&[kind, name.as_str()], what));
            }
        }
        if let Some(name) = self.trace.keys().find(|name| self.job.contains_key(*name)) {
            let what = format!("\"{name}\" is a [job] and a [trace]: give one another name");
            return Err(Fault::at(&["trace", name.as_str()], what));
        }
        for (name, log) in &self.log {
            let told = |key: &str, what: String| {
                Fault::at(&["log", name, key], format!("log.{name}: {what}"))
            };
            log.check().map_err(|e| told(e.key().unwrap_or("devices"), e.to_string()))?;
            for design in log.designs() {
                let is_archive = !log.devices.iter().any(|d| d == design);
                let key = if is_archive { "archive" } else { "devices" };
                Model::of(design, self).map_err(|e| told(key, e))?;
            }
        }
        for (name, cache) in &self.cache {
            let told = |key: &str, what: String| {
                Fault::at(&["cache", name, key], format!("cache.{name}: {what}"))
            };
            cache.check().map_err(|e| told(e.key().unwrap_or("policy"), e.to_string()))?;
            Model::of(&cache.flash, self).map_err(|e| told("flash", e))?;
        }
        let taken = |name: &&String| self.job.contains_key(*name) || self.trace.contains_key(*name);
        if let Some(name) = self.append.keys().find(taken) {
            let what = format!("\"{name}\" is also a [job] or [trace]: give one another name");
            return Err(Fault::at(&["append", name.as_str()], what));
        }
        if let Some(how) = &self.precondition {
            how.check().map_err(|e| {
                let key = match &e {
                    PreconditionError::Value { key, .. } => key,
                    _ => "pattern",
                };
                Fault::at(&["precondition", key], e.to_string())
            })?;
        }
        Ok(())
    }

    /// Checks the values of a workload of the file, which runs on blocks of so many bytes.
    ///
    /// # Errors
    /// What cannot, with its key.
    pub(crate) fn check_workload(&self, workload: &WorkloadKind, block: u32) -> Result<(), Fault> {
        let (WorkloadKind::Job(name) | WorkloadKind::Pages(name)) = workload else {
            return Ok(());
        };
        let fault = |kind: &str, key: Option<&str>, what: String| {
            let parts = [kind, name].into_iter().chain(key.into_iter().flat_map(|k| k.split('.')));
            Fault::at(&parts.collect::<Vec<_>>(), format!("{kind}.{name}: {what}"))
        };
        let modelled = |kind: &str, e: JobError| fault(kind, e.key(), e.to_string());
        if let Some(job) = self.job.get(name) {
            let sound = job.check().and_then(|()| job.fits(ANY_BYTES, block));
            sound.map_err(|e| fault("job", e.key(), e.to_string()))?;
        }
        if let Some(how) = self.trace.get(name) {
            how.check().map_err(|e| {
                let key = match &e {
                    ReplayError::Value { name, .. } => Some(*name),
                    _ => None,
                };
                fault("trace", key, e.to_string())
            })?;
            if let Some(cache) = self.cache_named(how.cache.as_ref()) {
                let cache = cache.map_err(|what| fault("trace", Some("cache"), what))?;
                cache.check_volume().map_err(|e| fault("trace", Some("cache"), e.to_string()))?;
            }
        }
        if let Some(job) = self.append.get(name) {
            let others = job.designs().filter_map(|name| Model::of(name, self).ok());
            let block = others.map(|model| model.block_bytes()).fold(block, u32::max);
            job.check(block).map_err(|e| {
                let key = match &e {
                    AppendError::Value { key, .. } => Some(*key),
                    _ => None,
                };
                fault("append", key, e.to_string())
            })?;
        }
        if let Some(engine) = self.engine.get(name) {
            let named = engine.log_design.as_ref().and_then(|name| Model::of(name, self).ok());
            let log = named.map_or(block, |log| log.block_bytes());
            let sound = engine.check().and_then(|()| engine.fits_blocks(block, log));
            sound.map_err(|e| modelled("engine", e))?;
            if let Some(log) = engine.log.as_ref().filter(|log| !self.log.contains_key(*log)) {
                let known = self.log.keys().map(String::as_str);
                let what = parse::unknown("log: there is no table [log.NAME] with", log, known);
                return Err(fault("engine", Some("log"), what));
            }
        }
        if let Some(engine) = self.engine.get(name)
            && let Some(cache) = self.cache_named(engine.cache.as_ref())
        {
            let cache = cache.map_err(|what| fault("engine", Some("cache"), what))?;
            engine.check_cache(cache).map_err(|e| modelled("engine", e))?;
        }
        if let Some(tree) = self.tree.get(name) {
            let sound = tree.check(None).and_then(|()| tree.fits_blocks(block));
            sound.map_err(|e| modelled("tree", e))?;
        }
        Ok(())
    }

    /// The flash cache of this name, if there is a name; or that there is none.
    fn cache_named(&self, name: Option<&String>) -> Option<Result<&CacheJob, String>> {
        let name = name?;
        Some(self.cache.get(name).ok_or_else(|| {
            let known = self.cache.keys().map(String::as_str);
            parse::unknown("cache: there is no table [cache.NAME] with", name, known)
        }))
    }

    /// Its workloads that are no benchmarks.
    pub(crate) fn workloads(&self) -> impl Iterator<Item = WorkloadKind> {
        let jobs = self.job.keys().chain(self.trace.keys()).chain(self.append.keys());
        let jobs = jobs.cloned().map(WorkloadKind::Job);
        let models = self.engine.keys().chain(self.tree.keys()).cloned().map(WorkloadKind::Pages);
        jobs.chain(models)
    }
}

impl RunParameters {
    fn check(&self) -> Result<(), Fault> {
        let wrong = |key: &str, value: &dyn std::fmt::Display, must: &str| {
            Err(Fault::at(&[key], format!("run.{key} = {value}: must be {must}")))
        };
        if !(1..=64).contains(&self.clients) {
            return wrong("clients", &self.clients, "1 to 64");
        }
        if self.warm_up_ms > 3_600_000 {
            return wrong("warm_up_ms", &self.warm_up_ms, "at most an hour");
        }
        for (key, [low, high]) in [("run_ms", self.run_ms), ("outage_ms", self.outage_ms)] {
            if low > high || high > 3_600_000 {
                let value = format!("[{low}, {high}]");
                return wrong(key, &value, "[least, most], at most an hour");
            }
        }
        if self.run_ms[1] == 0 {
            let what = "run.run_ms: the power must be on for some time";
            return Err(Fault::at(&["run_ms"], what));
        }
        if self.recovery_cut_percent > 90 {
            return wrong("recovery_cut_percent", &self.recovery_cut_percent, "0 to 90");
        }
        if !self.page_bytes.is_power_of_two() || !(512..=65536).contains(&self.page_bytes) {
            return wrong("page_bytes", &self.page_bytes, "a power of two, 512 to 65536");
        }
        Ok(())
    }
}
