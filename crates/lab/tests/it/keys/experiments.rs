//! The keys of experiments and of explorations.
//!
//! 1. A range is what the checks of the whole file accept, in a small file that has the table.
//! 2. What the code does not fill in has a value in that small file, from which ranges are looked
//!    for.

use super::fields::fields;
use super::probe::Kind;
use super::table::{Keys, Words, defaults, rows, words};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Write;
use tantalum_lab::file::crash::CrashFile;
use tantalum_lab::file::entry::Entry;
use tantalum_lab::file::experiment::{Experiment, RunParameters};
use tantalum_lab::report::published::Source;
use tantalum_lab::report::ratio::Ratio;
use tantalum_lab::run::precondition::Precondition;
use tantalum_workload::appends::AppendJob;
use tantalum_workload::jobs::{Buffered, Elevator, Fsync, Job};
use tantalum_workload::linkbench::LinkBenchScale;
use tantalum_workload::pages::{AppendTreeJob, CacheJob, EngineJob, FlashLogJob};
use tantalum_workload::replay::Playing;
use tantalum_workload::tpcc::TpccScale;
use tantalum_workload::ycsb::YcsbScale;
use toml::{Table, Value};

macro_rules! source {
    ($path:literal) => {
        include_str!(concat!("../../../../", $path))
    };
}

const EXPERIMENT: &str = source!("lab/src/file/experiment.rs");
const ENTRY: &str = source!("lab/src/file/entry.rs");
const KINDS: &str = source!("lab/src/file/kinds.rs");
const SCENE: &str = source!("lab/src/file/scene.rs");
const PUBLISHED: &str = source!("lab/src/report/published.rs");
const RATIO: &str = source!("lab/src/report/ratio.rs");
const PRECONDITION: &str = source!("lab/src/run/precondition.rs");
const CRASH: &str = source!("lab/src/file/crash.rs");
const JOBS: &str = source!("workload/src/jobs/mod.rs");
const PLACES: &str = source!("workload/src/jobs/places.rs");
const ELEVATOR: &str = source!("workload/src/jobs/elevator.rs");
const BUFFERED: &str = source!("workload/src/jobs/page_cache/settings.rs");
const APPENDS: &str = source!("workload/src/appends/job.rs");
const REPLAY: &str = source!("workload/src/replay.rs");
const FORMAT: &str = source!("workload/src/trace/format.rs");
const LINKBENCH: &str = source!("workload/src/linkbench.rs");
const YCSB: &str = source!("workload/src/ycsb.rs");
const TPCC: &str = source!("workload/src/tpcc/mod.rs");
const ENGINE: &str = source!("workload/src/pages/job.rs");
const POOL: &str = source!("workload/src/pages/pool.rs");
const FLASH_LOG: &str = source!("workload/src/pages/flash_log.rs");
const CACHE: &str = source!("workload/src/pages/cache_job.rs");
const STORAGE: &str = source!("workload/src/pages/storage.rs");
const TREE: &str = source!("workload/src/pages/append_tree.rs");
const COMMAND: &str = source!("explore/src/command.rs");
const CONTRACT: &str = source!("device/src/contract.rs");

/// A table of keys on the page.
struct Section {
    heading: &'static str,
    /// What stands above the table.
    about: &'static str,
    source: &'static str,
    /// The name of its type in the source.
    of: &'static str,
    /// Where it is in the small file.
    path: &'static [&'static str],
    /// A file that has the table, beside what all have.
    file: &'static str,
    /// Keys that are needed, with a value: no other file can be read.
    needed: &'static str,
    defaults: Table,
    /// All keys that the code knows.
    known: BTreeSet<String>,
}

/// A section whose type can be read by itself.
fn section<T: Serialize + DeserializeOwned>(
    heading: &'static str,
    about: &'static str,
    (source, of): (&'static str, &'static str),
    path: &'static [&'static str],
    (file, needed): (&'static str, &'static str),
) -> Section {
    let (defaults, known) = (defaults::<T>(needed), known::<T>());
    Section { heading, about, source, of, path, file, needed, defaults, known }
}

/// The keys that serde knows: an unknown one is answered by all of them.
fn known<T: DeserializeOwned>() -> BTreeSet<String> {
    names(&toml::from_str::<T>("no-such-key = 1").err().expect("it is unknown").to_string())
}

fn names(error: &str) -> BTreeSet<String> {
    let (_, list) = error.split_once(", expected ").expect("a list");
    list.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// What all small files of experiments begin with, and end with.
const BEGIN: &str = "title = \"t\"\ncuts = 1\nseed = 1\nrepetitions = 1\n";
const END: &str = "\n[[row]]\nworkload = \"w\"\ndesign = \"durassd\"\n";

fn of_experiments() -> Vec<Section> {
    let job = "[job.w]\ncommands = 100\npasses = 1.0\nseconds = 1.0\nreads = 0.5\n[job.w.fsync]\n\
               [job.w.elevator]\ndepth = 32\n[job.w.buffered]\n[published]\nsource = \"s\"\n\
               mean_within = 10.0\neach_within = 10.0\n[[ratio]]\nwhat = \"r\"\n\
               of = \"w/durassd\"\nto = \"w/durassd\"\nmore_than = 1.0\nwithin = 10.0\n";
    let engine = "[engine.w]\nupdate_percent = 50.0\n";
    let log = "[engine.w]\nlog = \"l\"\n[log.l]\ndevices = [\"durassd\", \"durassd\"]\n\
               block_bytes = 4096\n\
               bus_mb_s = 60\n";
    let cache = "[engine.w]\ncache = \"c\"\ndouble_write = false\n[cache.c]\n";
    vec![
        section::<Experiment>(
            "The file",
            "",
            (EXPERIMENT, "Experiment"),
            &[],
            (job, "title = \"t\"\ncuts = 1\nrow = []"),
        ),
        section::<Entry>(
            "`[[row]]`",
            "A list instead of one value gives a row for each of its values.",
            (ENTRY, "Entry"),
            &["row", "0"],
            (job, "workload = \"w\"\ndesign = \"durassd\""),
        ),
        section::<RunParameters>("`[run]`", "", (SCENE, "RunParameters"), &["run"], (job, "")),
        section::<LinkBenchScale>(
            "`[linkbench]`",
            "",
            (LINKBENCH, "LinkBenchScale"),
            &["linkbench"],
            (job, ""),
        ),
        section::<YcsbScale>("`[ycsb]`", "", (YCSB, "YcsbScale"), &["ycsb"], (job, "")),
        section::<TpccScale>(
            "`[tpcc]`",
            "",
            (TPCC, "TpccScale"),
            &["tpcc"],
            ("[job.w]\ncommands = 1\n[tpcc]\norders_per_district = 30", ""),
        ),
        section::<AppendJob>(
            "`[append.NAME]`",
            "Requesters append records to a log, and each waits until its record is durable.",
            (APPENDS, "AppendJob"),
            &["append", "w"],
            ("[append.w]", ""),
        ),
        section::<EngineJob>(
            "`[engine.NAME]`",
            "A database engine in InnoDB's shape, as a model of its pages.",
            (ENGINE, "EngineJob"),
            &["engine", "w"],
            (engine, ""),
        ),
        section::<FlashLogJob>(
            "`[log.NAME]`",
            "A flash log for engines ([log.md](log.md)).",
            (FLASH_LOG, "FlashLogJob"),
            &["log", "l"],
            (log, ""),
        )
        .needs("devices = [\"durassd\"]"),
        section::<CacheJob>(
            "`[cache.NAME]`",
            "A flash cache under an engine or a trace ([cache.md](cache.md)).",
            (CACHE, "CacheJob"),
            &["cache", "c"],
            (cache, ""),
        ),
        section::<AppendTreeJob>(
            "`[tree.NAME]`",
            "An append-only tree with one thread, as a model of its pages.",
            (TREE, "AppendTreeJob"),
            &["tree", "w"],
            ("[tree.w]", ""),
        ),
        section::<Job>(
            "`[job.NAME]`",
            "A synthetic block job. It ends with the first of `commands`, `passes` and `seconds` that \
             it\nreaches; at least one is needed.",
            (JOBS, "Job"),
            &["job", "w"],
            (job, ""),
        ),
        section::<Fsync>(
            "`fsync` of a job",
            "",
            (JOBS, "Fsync"),
            &["job", "w", "fsync"],
            (job, ""),
        ),
        section::<Elevator>(
            "`elevator` of a job",
            "The defaults are those of Linux's `deadline`.",
            (ELEVATOR, "Elevator"),
            &["job", "w", "elevator"],
            (job, ""),
        ),
        section::<Buffered>(
            "`buffered` of a job",
            "`call_ns` and `fsync_ns` are fitted to a host of 2010\n\
             (`experiments/atomic-latency.toml`), `page_ns` is an own estimate. The other defaults \
             are\nthose of Linux before 4.3, for a cache of 1 GiB.",
            (BUFFERED, "Buffered"),
            &["job", "w", "buffered"],
            (job, ""),
        ),
        section::<Playing>(
            "`[trace.NAME]`",
            "A recorded block trace.",
            (REPLAY, "Playing"),
            &["trace", "w"],
            ("[trace.w]\nfile = \"t\"\nqueue_depth = 1\nspan_mib = 1\n", "file = \"t\""),
        ),
        section::<Precondition>(
            "`[precondition]`",
            "",
            (PRECONDITION, "Precondition"),
            &["precondition"],
            (job, ""),
        ),
        section::<Source>(
            "`[published]`",
            "",
            (PUBLISHED, "Source"),
            &["published"],
            (job, "source = \"s\""),
        ),
        section::<Ratio>(
            "`[[ratio]]`",
            "A row divided by another (`to`), less another (`minus`), or alone.",
            (RATIO, "Ratio"),
            &["ratio", "0"],
            (job, "what = \"r\"\nof = \"a\""),
        ),
    ]
}

/// A small file of explorations, of a RAM device.
const OF_RAM: &str =
    "title = \"t\"\n[mix.default]\n[[row]]\nsubject = \"ram\"\n[row.ram]\nblocks = 96\n";
const OF_LOG: &str = "title = \"t\"\n[[row]]\nsubject = \"log-volume\"\ndesign = \"ram\"\n[row.log]\n\
                      [row.ram]\nblocks = 1024\n";
const OF_CACHE: &str = "title = \"t\"\n[[row]]\nsubject = \"cache-volume\"\ndesign = \"ram\"\n\
                        [row.cache]\n[row.ram]\nblocks = 1024\n";

/// A section of a file of explorations, whose types are private: they are read in a whole file.
fn of_file(
    heading: &'static str,
    about: &'static str,
    (source, of): (&'static str, &'static str),
    path: &'static [&'static str],
    (file, needed): (&'static str, &'static str),
) -> Section {
    let read: CrashFile = toml::from_str(file).unwrap_or_else(|e| panic!("{heading}: {e}"));
    let whole = Value::Table(Table::try_from(read).expect("a table"));
    let mut defaults = at(&whole, path).as_table().expect("a table").clone();
    let needed_keys: Table = needed.parse().expect("TOML");
    defaults.retain(|key, _| !needed_keys.contains_key(key));
    let mut unknown = Value::Table(file.parse().expect("TOML"));
    let table = at_mut(&mut unknown, path).as_table_mut().expect("a table");
    table.insert("no-such-key".into(), 1.into());
    let unknown = unknown.as_table().expect("a table").to_string();
    let known = toml::from_str::<CrashFile>(&unknown).err();
    let known = names(&known.expect("it is unknown").to_string());
    Section { heading, about, source, of, path, file, needed, defaults, known }
}

fn of_explorations() -> Vec<Section> {
    vec![
        of_file("The file", "", (CRASH, "CrashFile"), &[], (OF_RAM, "title = \"t\"\nrow = []")),
        of_file(
            "`[[row]]`",
            "A list of designs or mixes gives a row for each of its members.",
            (CRASH, "Entry"),
            &["row", "0"],
            (OF_RAM, ""),
        ),
        of_file(
            "`[mix.NAME]`",
            "What the commands of a run are.",
            (COMMAND, "Ingredients"),
            &["mix", "default"],
            (OF_RAM, ""),
        ),
        of_file("`ram` of a row", "", (CRASH, "Ram"), &["row", "0", "ram"], (OF_RAM, "")),
        of_file("`log` of a row", "", (CRASH, "FlashLog"), &["row", "0", "log"], (OF_LOG, "")),
        of_file(
            "`cache` of a row",
            "",
            (CRASH, "FlashCache"),
            &["row", "0", "cache"],
            (OF_CACHE, ""),
        ),
    ]
}

/// What is at a path; numbers are places in lists.
fn at<'a>(root: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(root, |at, part| match at {
        Value::Array(list) => &list[part.parse::<usize>().expect("a place")],
        at => &at[*part],
    })
}

/// The same, to be changed; tables that are not there are made.
fn at_mut<'a>(root: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(root, |at, part| match at {
        Value::Array(list) => &mut list[part.parse::<usize>().expect("a place")],
        Value::Table(table) => table.entry(*part).or_insert_with(|| Value::Table(Table::new())),
        _ => panic!("{part} is in no table"),
    })
}

impl Section {
    /// These keys are needed, too: the checks refuse what the code fills in.
    fn needs(mut self, needed: &'static str) -> Section {
        let keys: Table = needed.parse().expect("TOML");
        self.defaults.retain(|key, _| !keys.contains_key(key));
        self.needed = needed;
        self
    }

    /// Its small file, in which every key has a value.
    fn whole(&self, text: &str) -> Table {
        let table: Table = text.parse().unwrap_or_else(|e| panic!("{}: {e}", self.heading));
        let mut root = Value::Table(table);
        let own = at_mut(&mut root, self.path).as_table_mut().expect("a table");
        for (key, value) in self.defaults.iter().filter(|(_, value)| !value.is_table()) {
            own.entry(key).or_insert_with(|| value.clone());
        }
        let Value::Table(table) = root else { panic!("{}: no table", self.heading) };
        table
    }

    fn add(&self, text: &mut String, whole: Table, accepts: fn(&Table) -> bool, words: &Words) {
        assert!(accepts(&whole), "{}: its small file is refused:\n{whole}", self.heading);
        let _ = writeln!(text, "\n### {}\n", self.heading);
        if !self.about.is_empty() {
            let _ = writeln!(text, "{}\n", self.about);
        }
        let needed: Table = self.needed.parse().expect("TOML");
        let needed: Vec<&str> = needed.keys().map(String::as_str).collect();
        for key in &needed {
            let mut less = Value::Table(whole.clone());
            at_mut(&mut less, self.path).as_table_mut().expect("a table").remove(*key);
            let less = less.as_table().expect("a table");
            assert!(!accepts(less), "{}: {key} is not needed", self.heading);
        }
        let kind = Kind { bases: vec![("", whole)], texts: Vec::new(), accepts };
        let all = fields(self.source, self.of);
        let (of, path, defaults) = (self.of, self.path, &self.defaults);
        let keys = Keys { of, path, all: &all, defaults, needed: &needed };
        rows(text, &keys, &kind, words);
    }
}

/// Adds the tables of experiment files.
pub fn add_experiments(text: &mut String) {
    let words = words(&[
        ("Journal", KINDS),
        ("Synchronous", KINDS),
        ("Expect", KINDS),
        ("Pick", RATIO),
        ("Overwrites", PRECONDITION),
        ("Pattern", PLACES),
        ("Mode", REPLAY),
        ("Addresses", REPLAY),
        ("Format", FORMAT),
        ("BlkparseEvent", FORMAT),
        ("Benchmark", ENGINE),
        ("LogDevice", ENGINE),
        ("Order", POOL),
        ("PullKind", STORAGE),
        ("Counted", TREE),
    ]);
    for section in of_experiments() {
        let whole = section.whole(&format!("{BEGIN}{}{END}", section.file));
        let accepts = |table: &Table| Experiment::parse("keys.toml", &table.to_string()).is_ok();
        section.add(text, whole, accepts, &words);
    }
}

/// Adds the tables of files of explorations.
pub fn add_explorations(text: &mut String) {
    let words = words(&[("Kind", CRASH), ("Keeps", CRASH), ("Ack", CONTRACT)]);
    for section in of_explorations() {
        let accepts = |table: &Table| {
            CrashFile::parse("keys.toml", &table.to_string()).is_ok_and(|f| f.rows().is_ok())
        };
        section.add(text, section.whole(section.file), accepts, &words);
    }
}

/// Each key that the code knows is on the page, in its table, and no other.
#[test]
fn no_key_of_a_file_is_missing() {
    for section in of_experiments().into_iter().chain(of_explorations()) {
        let of_page = fields(section.source, section.of).into_iter().map(|f| f.name);
        assert_eq!(of_page.collect::<BTreeSet<_>>(), section.known, "{}", section.heading);
    }
}
