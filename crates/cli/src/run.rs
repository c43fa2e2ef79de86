//! `tantalum run`: an experiment file in, a table out.

mod bars;

use crate::counted::counted;
use crate::file_kind::Kind;
use crate::{builtin, file_kind, init, interrupt, near, out, repeat, table, units};
use bars::Bars;
use clap::Args;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tantalum_device::bytes_in_words;
use tantalum_lab::file::experiment::{Expect, Experiment, Row};
use tantalum_lab::report::published::Deviations;
use tantalum_lab::report::{CUTS_TO_SHOW_LOSS, Report, RowReport, Verdict};
use tantalum_lab::run::memory;
use tantalum_lab::run::record::Log;
use tantalum_lab::run::runner::{self, Progress};
use tantalum_lab::subject::BLOCK_BYTES;
use tantalum_lab_page::{self as page, Picture, UnknownPicture};
use tantalum_workload::trace::{LogOutput, LogWriter};

/// Arguments of `tantalum run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum run                                 the experiments that are built in
  tantalum run first                           one of them, in any folder
  tantalum run --init mine.toml                one to start from, commented
  tantalum run first --html first.html
  tantalum run first --svg throughput=first.svg
  tantalum run first --cuts 500 --json first.json
  tantalum run first --list                     the names of its rows
  tantalum run first --row linkbench/durassd --seed 7
  tantalum run first --set run.clients=8 --set drive.cache.buffer_kib=4096
  tantalum run first --quick --check-determinism
  tantalum run first --row ycsb-a/durassd/wal/full --log-writes w.log

The same seed gives the same table, and the same JSON and page to the last byte.
Exit codes: 0, every row is as expected; 1, one is not, or published numbers are too far away
(--published-within); 2, the file is invalid; 3, a row that is expected to lose data ended after too
few cuts to judge.")]
pub struct RunArguments {
    /// The experiment file (TOML), or the name of one that is built in; without it these are listed
    experiment: Option<PathBuf>,
    /// Write a short commented experiment to this new file, to start from
    #[arg(long, value_name = "FILE", exclusive = true, value_parser = crate::new_file::new_file())]
    init: Option<PathBuf>,
    /// Another value for a key of the experiment's TOML, with dots for tables; may be given several
    /// times. A value that is not TOML is taken as a string
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    sets: Vec<Setting>,
    /// Write the report as JSON to this file; `-`: to standard output, without the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as a page with plots to this file; it needs no other file and no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Draw one kind of plot to this file, as a self-contained SVG; WHAT is throughput, losses,
    /// flash, amplification, recovery or published; may be given several times
    #[arg(long, value_name = "WHAT=FILE", value_parser = drawing)]
    svg: Vec<Drawing>,
    /// Record the writes of a row to its drive in this file, in the format of dm-log-writes, with a
    /// mark at each power cut and after each atomic group (the format has no groups: replay up to
    /// marks or flushes to get whole groups); for one row, see --row. The file has all data that is
    /// written: an experiment that is not --quick takes GB
    #[arg(long, value_name = "FILE")]
    log_writes: Option<PathBuf>,
    /// The seed [default: the file's]
    #[arg(long, value_name = "N", value_parser = units::seed)]
    seed: Option<u64>,
    /// Power cuts for each row [default: the file's]
    #[arg(long, value_name = "N", value_parser = units::whole::<u32>(1..))]
    cuts: Option<u32>,
    /// Small databases and few cuts: seconds, for a first look. A key that --set gives keeps its
    /// value
    #[arg(long)]
    quick: bool,
    /// Run everything twice, and fail if the runs differ in any event
    #[arg(long)]
    check_determinism: bool,
    /// Fail if the results are off from the published numbers, of rows and ratios, by more than this
    /// on average
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, conflicts_with = "quick")]
    published_within: Option<f64>,
    /// Only rows whose name contains this (names are workload/design/journal/synchronous);
    /// may be given several times
    #[arg(long = "row", value_name = "TEXT")]
    rows: Vec<String>,
    /// Print the names of the rows, and run nothing
    #[arg(long)]
    list: bool,
    /// Rows that run at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = units::whole::<u16>(1..=256))]
    threads: Option<u16>,
}

impl RunArguments {
    /// The experiment as the user named it.
    fn named(&self) -> &Path {
        self.experiment.as_deref().unwrap_or(Path::new(""))
    }

    /// Whether standard output gets JSON, and no table.
    fn prints_json(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// The files that get results at the end.
    fn files(&self) -> Vec<String> {
        let json = self.json.as_deref().filter(|_| !self.prints_json());
        let named = [json, self.html.as_deref()].into_iter().flatten();
        let drawn = self.svg.iter().map(|drawing| drawing.file.as_path());
        named.chain(drawn).map(|path| path.display().to_string()).collect()
    }

    /// All words of the command that repeats this run, but the program and the choice of rows. They
    /// name what was changed on the command line, and the seed and the number of cuts whether they
    /// were or not: the file may change.
    fn words(&self, report: &Report) -> Vec<String> {
        let mut words = vec!["run".to_string(), self.named().display().to_string()];
        for set in &self.sets {
            words.extend(["--set".into(), format!("{}={}", set.key, set.text)]);
        }
        words.extend(["--seed".into(), report.seed.to_string()]);
        words.extend(["--cuts".into(), report.cuts.to_string()]);
        if self.quick {
            words.push("--quick".into());
        }
        words
    }

    /// The command that repeats one row of this run.
    fn again(&self, row: &RowReport, report: &Report) -> String {
        let mut words = self.words(report);
        words.extend(["--row".into(), row.name.clone()]);
        repeat::command(&words)
    }
}

/// Whether the report is as near to what was published as the command line demands.
fn near(report: &Report, within: f64) -> u8 {
    let deviations = report.deviations();
    match deviations.as_ref().and_then(Deviations::mean_percent) {
        Some(mean) if mean <= within => out::OK,
        Some(mean) => out::error(
            format_args!(
                "off from the published numbers by {mean:.1} % on average, more than {within} %"
            ),
            out::FAILED,
        ),
        None => out::error(
            "--published-within: no row or ratio that ran has a published number and a result",
            out::FAILED,
        ),
    }
}

/// `KEY=VALUE` of the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The key, with dots.
    pub key: String,
    /// The value's text, as given.
    pub text: String,
    value: toml::Value,
}

/// Reads `KEY=VALUE`.
///
/// # Errors
/// The expected form, in a line.
pub fn setting(argument: &str) -> Result<Setting, String> {
    let Some((key, text)) = argument.split_once('=') else {
        return Err("expected a key and its value, as in --set cuts=100".into());
    };
    let (key, text) = (key.trim(), text.trim());
    if key.is_empty() {
        return Err("there is no key before the =".into());
    }
    let one_line = (!text.contains('\n')).then(|| format!("x = {text}"));
    let table = one_line.and_then(|line| line.parse::<toml::Table>().ok());
    let value = table.and_then(|mut t| t.remove("x"));
    let value = value.unwrap_or_else(|| toml::Value::String(text.to_string()));
    Ok(Setting { key: key.to_string(), text: text.to_string(), value })
}

impl Setting {
    /// Key and value.
    pub fn pair(&self) -> (String, toml::Value) {
        (self.key.clone(), self.value.clone())
    }
}

/// `WHAT=FILE` of the command line.
#[derive(Clone, Debug, PartialEq)]
struct Drawing {
    what: Picture,
    file: PathBuf,
}

fn drawing(argument: &str) -> Result<Drawing, String> {
    match argument.split_once('=') {
        Some((what, file)) if !file.is_empty() => {
            let what = what.trim().parse().map_err(|e: UnknownPicture| e.to_string())?;
            Ok(Drawing { what, file: file.into() })
        }
        _ => Err("expected a kind of plot and a file, as in --svg throughput=plot.svg".into()),
    }
}

/// Runs the command; returns the exit code.
pub fn run(arguments: &RunArguments) -> u8 {
    if let Some(file) = &arguments.init {
        return init::RUN.write(file);
    }
    if arguments.experiment.is_none() {
        let list = builtin::list_with_times("run", "experiments", builtin::RUNS);
        return builtin::show(arguments.json.as_deref(), &list, &builtin::as_json(builtin::RUNS));
    }
    if let Err(message) = distinct(arguments) {
        return out::error(message, out::USAGE);
    }
    let experiment = match load(arguments) {
        Ok(experiment) => experiment,
        Err(message) => return out::error(message, out::USAGE),
    };
    let rows = match choose(&experiment, &arguments.rows) {
        Ok(rows) => rows,
        Err(message) => return out::error(message, out::USAGE),
    };
    if arguments.list {
        return match &arguments.json {
            Some(file) => out::json_to(&list(&rows), file),
            None => out::lines(rows.iter().map(|row| row.name.as_str())),
        };
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(cores, usize::from);
    let possible = runner::check(&rows).and_then(|()| memory::check(&experiment, &rows, threads));
    if let Err(e) = possible {
        let message = format!("{}: {e}", arguments.named().display());
        return out::error(message, out::USAGE);
    }
    if arguments.log_writes.is_some() && rows.len() > 1 {
        let names: Vec<_> = rows.iter().map(|r| r.name.as_str()).collect();
        let told = near::some(&names);
        return out::error(
            format_args!("--log-writes records one row; choose it with --row; {told}"),
            out::USAGE,
        );
    }
    let passes = if arguments.check_determinism { 2 } else { 1 };
    let bars =
        Bars::new(rows.len() as u64, passes * rows.len() as u64 * u64::from(experiment.cuts));
    let done = Done::default();
    end_at_interrupt(&bars, &experiment, &rows, &done, arguments);
    let json = arguments.json.as_deref().filter(|p| *p != Path::new("-"));
    let open = |file: Option<&Path>| file.map(out::Sink::open).transpose();
    let (json, html) = match (open(json), open(arguments.html.as_deref())) {
        (Ok(json), Ok(html)) => (json, html),
        (Err(message), _) | (_, Err(message)) => return out::error(message, out::USAGE),
    };
    let sinks = arguments.svg.iter().map(|d| Ok::<_, String>((d.what, out::Sink::open(&d.file)?)));
    let pictures: Vec<(Picture, out::Sink)> = match sinks.collect() {
        Ok(pictures) => pictures,
        Err(message) => return out::error(message, out::USAGE),
    };
    if experiment.cuts < CUTS_TO_SHOW_LOSS && rows.iter().any(|r| r.expect == Expect::Lossy) {
        out::note(format_args!(
            "note: rows that are expected to lose data are cut until they do, up to \
             {CUTS_TO_SHOW_LOSS} times"
        ));
    }
    out::note(beginning(&experiment, rows.len(), threads));
    if let Some(path) = &arguments.log_writes {
        out::note(format_args!(
            "note: {} gets all data that the row writes, which may be GB (--quick writes less)",
            path.display()
        ));
    }
    let shown = bars.clone();
    let watch: runner::Watch = Arc::new(move |progress| {
        if let Progress::RowDone(row) = progress {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            // With `--check-determinism` each row ends twice.
            if done.iter().all(|ended| ended.name != row.name) {
                done.push(row.clone());
            }
        }
        shown.show(progress);
    });
    let log = match arguments.log_writes.as_deref().map(create_log).transpose() {
        Ok(log) => log,
        Err(message) => return out::error(message, out::USAGE),
    };
    let report = runner::run_recorded(&experiment, &rows, threads, &watch, log.as_ref());
    let again =
        arguments.check_determinism.then(|| runner::run(&experiment, &rows, threads, &watch));
    bars.clear();
    let mut code = print(&report, arguments);
    if let Some(within) = arguments.published_within {
        let far = near(&report, within);
        code = if far == out::OK { code } else { far };
    }
    if let (Some(log), Some(path)) = (log, &arguments.log_writes) {
        code = code.max(end_log(log, path));
    }
    if let Some(json) = json {
        code = code.max(json.put(&report.to_json()));
    }
    if let Some(html) = html {
        let page =
            page::experiment(&report, &repeat::of_page(&arguments.words(&report), &arguments.rows));
        code = code.max(html.put(&page));
    }
    for (what, sink) in pictures {
        code = code.max(sink.put(&what.draw(&report)));
    }
    if let Some(again) = again {
        code = code.max(compare(&report, &again, arguments));
    }
    code
}

/// The rows as JSON.
fn list(rows: &[Row]) -> serde_json::Value {
    let row = |row: &Row| {
        serde_json::json!({
            "name": row.name,
            "workload": row.workload.to_string(),
            "design": row.design,
            "expect": row.expect,
        })
    };
    serde_json::json!({"list": rows.iter().map(row).collect::<Vec<_>>()})
}

/// The line that is printed first.
fn beginning(experiment: &Experiment, rows: usize, threads: usize) -> String {
    let threads = threads.min(rows);
    let rows = counted(rows as u64, "row", "rows");
    let cuts = counted(experiment.cuts.into(), "power cut", "power cuts");
    format!("{}: {rows}, {cuts} each, {threads} at a time", experiment.title)
}

/// Checks that its files are all different.
fn distinct(arguments: &RunArguments) -> Result<(), String> {
    let json = arguments.json.as_deref().filter(|p| *p != Path::new("-"));
    let named = [
        ("--json", json),
        ("--html", arguments.html.as_deref()),
        ("--log-writes", arguments.log_writes.as_deref()),
    ];
    let named = named.into_iter().filter_map(|(name, path)| Some((name, path?)));
    let svg = arguments.svg.iter().map(|drawing| ("--svg", drawing.file.as_path()));
    out::distinct([("EXPERIMENT", arguments.named())], named.chain(svg))
}

/// A log of writes into this file.
fn create_log(path: &Path) -> Result<Log, String> {
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    let file = File::create(path).map_err(|e| out::unwritable(path, &e))?;
    let out: Box<dyn LogOutput> = Box::new(BufWriter::new(file));
    Ok(Arc::new(Mutex::new(LogWriter::new(out, BLOCK_BYTES))))
}

fn end_log(log: Log, path: &Path) -> u8 {
    let Some(log) = Arc::into_inner(log) else {
        return out::error(
            format_args!("{} is not complete: the run still writes to it", path.display()),
            out::FAILED,
        );
    };
    let log = log.into_inner().unwrap_or_else(PoisonError::into_inner);
    let written = log.written();
    match log.finish() {
        Ok(_) => {
            #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
            let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
            out::note(format_args!(
                "{}: {} in all: {} of {}, and what describes them",
                path.display(),
                bytes_in_words(bytes),
                counted(written.count, "write", "writes"),
                bytes_in_words(written.bytes)
            ));
            out::OK
        }
        Err(e) => out::error(out::unwritable(path, &e), out::FAILED),
    }
}

/// The rows that have ended, for a user who interrupts the run.
type Done = Arc<Mutex<Vec<RowReport>>>;

/// Makes an interrupt print the rows that have ended, name those that are missing, and end the program.
/// Files are left as they were: an older report of all rows is worth more than a new one of some.
fn end_at_interrupt(
    bars: &Bars,
    experiment: &Experiment,
    rows: &[Row],
    done: &Done,
    arguments: &RunArguments,
) {
    let (bars, experiment, done) = (bars.clone(), experiment.clone(), done.clone());
    let json_to_stdout = arguments.prints_json();
    let files = arguments.files();
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    interrupt::at_each(move || {
        bars.clear();
        let mut ended = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
        ended.sort_by_key(|row| names.iter().position(|name| *name == row.name));
        let missing: Vec<&str> = names.iter().map(String::as_str).collect();
        let missing: Vec<&str> =
            missing.into_iter().filter(|name| ended.iter().all(|row| row.name != *name)).collect();
        let is_empty = ended.is_empty();
        let report = runner::report(&experiment, ended);
        if json_to_stdout {
            out::bytes(report.to_json_without(&missing).as_bytes());
        } else if !is_empty {
            out::bytes(table::tables(&report).as_bytes());
        }
        out::note(interrupt::told(&missing, names.len()));
        if !files.is_empty() {
            out::note(format_args!("not written: {}", files.join(", ")));
        }
        std::process::exit(out::INTERRUPTED);
    });
}

/// Whether two runs were equal, to the last event.
fn compare(one: &Report, two: &Report, arguments: &RunArguments) -> u8 {
    let mut code = out::OK;
    for (one_row, two_row) in one.rows.iter().zip(&two.rows) {
        let (a, b) = (one_row.findings.trace_hash, two_row.findings.trace_hash);
        if a != b {
            code = out::error(
                format_args!(
                    "{} ran differently the second time: trace hash {a:016x}, then {b:016x}",
                    one_row.name
                ),
                out::FAILED,
            );
            let again = arguments.again(one_row, one);
            out::note(format_args!("  repeat it with: {again} --check-determinism"));
        }
    }
    if code == out::OK {
        out::note("ran twice: the trace hashes of all rows are equal");
    }
    code
}

fn load(arguments: &RunArguments) -> Result<Experiment, String> {
    let path = arguments.named();
    let text = builtin::read(path, builtin::RUNS)?;
    let sets: Vec<_> = arguments.sets.iter().map(Setting::pair).collect();
    let name = path.display().to_string();
    let parsed = Experiment::parse_with(&name, &text, &sets);
    let mut experiment = parsed.map_err(|e| file_kind::told(Kind::Experiment, &name, &text, e))?;
    if arguments.quick {
        experiment = experiment.quick();
    }
    experiment.seed = arguments.seed.unwrap_or(experiment.seed);
    experiment.cuts = arguments.cuts.unwrap_or(experiment.cuts);
    Ok(experiment)
}

/// The rows whose names contain one of these words; all of them without words.
fn choose(experiment: &Experiment, words: &[String]) -> Result<Vec<Row>, String> {
    let mut rows = experiment.rows()?;
    for word in words {
        if !rows.iter().any(|r| r.name.contains(word.as_str())) {
            let names: Vec<_> = rows.iter().map(|r| r.name.as_str()).collect();
            return Err(near::no_row(word, &names));
        }
    }
    if !words.is_empty() {
        rows.retain(|r| words.iter().any(|w| r.name.contains(w.as_str())));
    }
    Ok(rows)
}

fn print(report: &Report, arguments: &RunArguments) -> u8 {
    let mut code = if arguments.prints_json() {
        out::bytes(report.to_json().as_bytes())
    } else {
        out::bytes(table::tables(report).as_bytes())
    };
    for row in report.unexpected() {
        let kind = if row.verdict == Verdict::NotJudged { out::UNKNOWN } else { out::FAILED };
        // A failure takes precedence over a missing verdict.
        code = if code == out::FAILED { code } else { kind };
        out::error(why(row), kind);
        if let Some(shortage) = row.shortage() {
            out::note(format_args!("  {shortage}. That explains what follows"));
        }
        for problem in &row.findings.problems {
            out::note(format_args!("  {problem}"));
        }
        out::note(format_args!("  repeat it with: {}", arguments.again(row, report)));
    }
    code
}

fn why(row: &RowReport) -> String {
    let f = &row.findings;
    let terms = row.workload.terms();
    let lost = if f.commits_lost == 1 { terms.write } else { terms.writes };
    let databases = match row.is_job() {
        true => String::new(),
        false => {
            format!(" and damaged {}", counted(f.databases_corrupt.into(), "database", "databases"))
        }
    };
    match row.verdict {
        Verdict::Failed => {
            let nothing =
                "it did nothing, so that it shows nothing, or its ledger is ahead of its clients";
            let error = row.error.as_deref().unwrap_or(nothing);
            format!("{} failed: {error}", row.name)
        }
        Verdict::Violated => format!(
            "{} breaks what its drive and settings promise: {}; it lost {} acknowledged {lost}{databases}",
            row.name,
            counted(f.violations, "violation", "violations"),
            f.commits_lost
        ),
        Verdict::NotJudged => format!(
            "{} is expected to lose something, but it ended after {}: too few to judge",
            row.name,
            counted(f.cuts.into(), "power cut", "power cuts")
        ),
        Verdict::NothingLost => format!(
            "{} is expected to lose something, but lost nothing in {}",
            row.name,
            counted(f.cuts.into(), "power cut", "power cuts")
        ),
        Verdict::Lost | Verdict::AsExpected => format!(
            "{} must lose nothing, but lost {} acknowledged {lost}{databases}",
            row.name, f.commits_lost
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toml::Value;

    #[test]
    fn settings_are_toml_or_else_strings() {
        let value = |argument: &str| setting(argument).map(|s| (s.key, s.value));
        let is = |key: &str, value: Value| Ok((key.to_string(), value));
        let string = |s: &str| Value::String(s.into());
        assert_eq!(value("cuts=100"), is("cuts", Value::Integer(100)));
        assert_eq!(value("a.b = 1.5"), is("a.b", Value::Float(1.5)));
        assert_eq!(value("cache.mode=off"), is("cache.mode", string("off")));
        assert_eq!(value("mode=\"a b\""), is("mode", string("a b")));
        let list = Value::Array(vec![Value::Integer(1), Value::Integer(2)]);
        assert_eq!(value("run_ms=[1, 2]"), is("run_ms", list));
        assert_eq!(value("a=b=c"), is("a", string("b=c")));
        assert_eq!(value("a=1\ny=2"), is("a", string("1\ny=2")));
        assert!(value("cuts").is_err() && value("=3").is_err());
    }

    #[test]
    fn pictures_have_names() {
        let drawn = drawing("losses=a=b.svg");
        assert_eq!(drawn, Ok(Drawing { what: Picture::Losses, file: "a=b.svg".into() }));
        assert!(drawing("losses").is_err() && drawing("losses=").is_err());
        let names = drawing("loss=x").unwrap_err();
        assert!(Picture::names().iter().all(|n| names.contains(n)), "{names}");
    }
}
