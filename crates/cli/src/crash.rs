//! `tantalum crash`: cuts the power of drives at every moment, and shows what was found.

use crate::bar::Bar;
use crate::{out, repeat};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tantalum_lab::bench::process_cpu_seconds;
use tantalum_lab::explore::{
    Case, CrashFile, CrashRow, Moment, Reach, RowSurvey, Survey, Tally, Watch, survey,
};

/// Arguments of `tantalum crash`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum crash experiments/crash.toml                          some points of each row
  tantalum crash experiments/crash.toml --exhaustive --nested 2  all of them, and recoveries
  tantalum crash experiments/crash.toml --row durassd --samples 100000
  tantalum crash experiments/crash.toml --swarm 1000 --seed 7    random drives
  tantalum crash experiments/crash.toml --row durassd/default --case 3.412.17

A cut is explored in a copy of the drive: emergency dump, recovery, a check of all it holds,
more work, another cut, another check. What is found is made shorter, printed as a test, and
named by its case, which repeats it.
Exit codes: 0, nothing was found; 1, something was; 2, the file can not be meant.")]
pub struct CrashArguments {
    /// The file of the exploration (TOML)
    experiment: PathBuf,
    /// Cut at every medium operation and host command, before, inside and after it
    #[arg(long, conflicts_with_all = ["samples", "swarm"])]
    exhaustive: bool,
    /// So many cuts of each row, at random
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,
    /// So many random drives instead of the file's, with its mixes
    #[arg(long, value_name = "N", conflicts_with = "samples",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    swarm: Option<u64>,
    /// Cut recoveries, too, and the recoveries from that, so deep
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(..=16))]
    nested: Option<u32>,
    /// Another seed than the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Only rows whose name contains this; may be given several times
    #[arg(long = "row", value_name = "TEXT")]
    rows: Vec<String>,
    /// Repeat one case of one row, by the name that was printed when it was found
    #[arg(long, value_name = "CASE", conflicts_with_all = ["exhaustive", "samples"])]
    case: Option<String>,
    /// Write what was found as JSON to this file; `-`: to standard output, without the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Pieces of work at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

/// Carries it out; gives the exit code.
pub fn crash(arguments: &CrashArguments) -> u8 {
    let json = arguments.json.as_deref().filter(|p| *p != Path::new("-"));
    let input = ("EXPERIMENT", arguments.experiment.as_path());
    if let Err(message) = out::distinct([input], json.map(|path| ("--json", path))) {
        return out::error(message, out::USAGE);
    }
    let (file, rows) = match load(arguments) {
        Ok(loaded) => loaded,
        Err(message) => return out::error(message, out::USAGE),
    };
    quiet_panics();
    if let Some(id) = &arguments.case {
        return one_case(&file, &rows, id);
    }
    let json = match json.map(out::Sink::open).transpose() {
        Ok(json) => json,
        Err(message) => return out::error(message, out::USAGE),
    };
    let reach = match (arguments.swarm, arguments.exhaustive) {
        (Some(runs), _) => Reach::Runs(runs),
        (None, true) => Reach::Exhaustive(file.runs),
        (None, false) => Reach::Samples(arguments.samples.unwrap_or(file.samples)),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(cores, usize::from);
    let bar = Shown::new();
    bar.bar.end_at_interrupt();
    let began = process_cpu_seconds();
    let found = survey(&file, &rows, reach, threads, &bar);
    let spent = process_cpu_seconds() - began - bar.reducing_took();
    bar.bar.clear();
    let mut code = match arguments.json.as_deref() == Some(Path::new("-")) {
        true => out::bytes(found.to_json().as_bytes()),
        false => out::bytes(summary(&found, reach, spent).as_bytes()),
    };
    for row in &found.rows {
        if let Some(case) = &row.case {
            code = code.max(tell(&row.name, case));
            let again = again(arguments, &file, row, case);
            out::note(format_args!("  repeat it with: {again}"));
        }
    }
    if let Some(json) = json {
        code = code.max(json.put(&found.to_json()));
    }
    if found.interrupted {
        out::note("interrupted: what is shown is what was done until then");
        std::process::exit(out::INTERRUPTED);
    }
    code
}

fn load(arguments: &CrashArguments) -> Result<(CrashFile, Vec<CrashRow>), String> {
    let path = &arguments.experiment;
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("can not read the experiment file {}: {e}", path.display()))?;
    let name = path.display().to_string();
    let mut file = CrashFile::parse(&name, &text).map_err(|e| e.to_string())?;
    file.seed = arguments.seed.unwrap_or(file.seed);
    file.nested = arguments.nested.unwrap_or(file.nested);
    let rows = if arguments.swarm.is_some() { file.swarm() } else { file.rows() };
    let mut rows = rows.map_err(|e| format!("{name}: {e}"))?;
    for word in &arguments.rows {
        if !rows.iter().any(|r| r.name.contains(word.as_str())) {
            let names: Vec<_> = rows.iter().map(|r| r.name.as_str()).collect();
            let names = names.join(", ");
            return Err(format!("no row's name contains \"{word}\"; rows are: {names}"));
        }
    }
    if !arguments.rows.is_empty() {
        rows.retain(|r| arguments.rows.iter().any(|w| r.name.contains(w.as_str())));
    }
    Ok((file, rows))
}

/// Repeats one case.
fn one_case(file: &CrashFile, rows: &[CrashRow], id: &str) -> u8 {
    // A name may be the beginning of others.
    let shortest = rows.iter().min_by_key(|r| r.name.len());
    let row = match (rows, shortest) {
        ([row], _) => row,
        (all, Some(row)) if all.iter().all(|r| r.name.starts_with(&row.name)) => row,
        _ => {
            let names = rows.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(", ");
            let what = format!("a case is one of one row; choose it with --row: {names}");
            return out::error(what, out::USAGE);
        }
    };
    match Case::repeat(file, row, id) {
        Ok(Some(case)) => tell(&row.name, &case),
        Ok(None) => out::bytes(format!("{}, case {id}: nothing is wrong\n", row.name).as_bytes()),
        Err(message) => out::error(message, out::USAGE),
    }
}

/// Says what was found; gives the exit code.
fn tell(row: &str, case: &Case) -> u8 {
    let found = &case.found;
    out::error(
        format_args!("{row}, case {}: {}: {}", case.id, found.stage, found.failure),
        out::FAILED,
    );
    if let Some(reduced) = &case.reduced {
        out::note(format_args!(
            "  {} commands and {} cuts of {} and {} are enough:\n",
            reduced.scenario.commands.len(),
            reduced.found.cuts.len(),
            case.scenario.commands.len(),
            found.cuts.len()
        ));
        out::note(reduced.to_test());
    }
    out::FAILED
}

/// The command that repeats a case.
fn again(arguments: &CrashArguments, file: &CrashFile, row: &RowSurvey, case: &Case) -> String {
    let mut words = vec!["crash".to_string(), arguments.experiment.display().to_string()];
    if arguments.swarm.is_some() {
        words.extend(["--swarm".into(), "1".into()]);
    }
    words.extend(["--row".into(), row.name.clone()]);
    words.extend(["--seed".into(), file.seed.to_string()]);
    words.extend(["--case".into(), case.id.clone()]);
    repeat::of_words(&words)
}

/// What the copies of a drive panic with is told when it is found.
fn quiet_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let of_drives = panic.location().is_some_and(|l| l.file().contains("crates/drive"));
        let of_medium = panic.location().is_some_and(|l| l.file().contains("crates/nand"));
        if !of_drives && !of_medium {
            usual(panic);
        }
    }));
}

/// Shows how far it is.
#[derive(Clone)]
struct Shown {
    bar: Bar,
    /// Processor time when the first case began to be made shorter.
    reducing: Arc<Mutex<Option<f64>>>,
}

impl Shown {
    fn new() -> Shown {
        let bar = Bar::new(0, "{bar:20} {pos}/{len} cuts, {eta} left  {wide_msg}");
        Shown { bar, reducing: Arc::default() }
    }

    /// Processor time that was spent on making cases shorter.
    fn reducing_took(&self) -> f64 {
        let began = self.reducing.lock().unwrap_or_else(PoisonError::into_inner);
        began.map_or(0.0, |began| process_cpu_seconds() - began)
    }
}

impl Watch for Shown {
    fn expect(&self, cuts: u64) {
        self.bar.set_length(cuts);
    }

    fn cut(&self) {
        self.bar.inc(1);
        if self.bar.position() > self.bar.length().unwrap_or(0) {
            self.bar.set_length(self.bar.position());
        }
    }

    fn reducing(&self, row: &str) {
        let mut began = self.reducing.lock().unwrap_or_else(PoisonError::into_inner);
        began.get_or_insert_with(process_cpu_seconds);
        self.bar.set_message(format!("making a case of {row} shorter"));
    }

    fn is_over(&self) -> bool {
        self.bar.is_over()
    }
}

fn summary(found: &Survey, reach: Reach, cpu_seconds: f64) -> String {
    let how = match reach {
        Reach::Exhaustive(1) => "every point of one run of each row".to_string(),
        Reach::Exhaustive(runs) => format!("every point of {runs} runs of each row"),
        Reach::Samples(cuts) => format!("{cuts} random points of each row"),
        Reach::Runs(runs) => format!("random points of {runs} runs of each row"),
    };
    let mut text = format!("{}\n{how}, seed {}\n\n", found.title, found.seed);
    let mut rows = Table::new();
    rows.load_preset(comfy_table::presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled);
    let moments = Moment::ALL.iter().map(ToString::to_string);
    let titles = ["row", "runs", "cuts"].map(String::from).into_iter().chain(moments);
    let more = ["nested", "cycles", "result"].map(String::from);
    rows.set_header(titles.chain(more).collect::<Vec<_>>());
    for row in &found.rows {
        rows.add_row(line(&row.name, row.runs, &row.tally, row.case.is_some()));
    }
    for column in rows.column_iter_mut().skip(1).take(Moment::ALL.len() + 4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let total = found.total();
    let cases = found.rows.iter().filter(|r| r.case.is_some()).count();
    let rate = total.cycles as f64 / cpu_seconds.max(1e-9);
    let what = match cases {
        0 => "nothing found".to_string(),
        n => format!("something found in {n} of {} rows", found.rows.len()),
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{rows}\n\n{} cuts, {} cut-and-recover cycles, {rate:.0} per CPU-second: {what}",
        total.all_cuts(),
        total.cycles,
    );
    text
}

fn line(name: &str, runs: u64, tally: &Tally, found: bool) -> Vec<String> {
    let of = |moment: &Moment| tally.cuts.get(moment).copied().unwrap_or(0).to_string();
    let mut cells = vec![name.to_string(), runs.to_string(), tally.all_cuts().to_string()];
    cells.extend(Moment::ALL.iter().map(of));
    let nested: Vec<String> = tally.nested.iter().map(ToString::to_string).collect();
    let nested = if nested.is_empty() { "-".into() } else { nested.join("+") };
    let result = if found { "FOUND" } else { "clean" };
    cells.extend([nested, tally.cycles.to_string(), result.to_string()]);
    cells
}
