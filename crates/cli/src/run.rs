//! `tantalum run`: an experiment file in, a table out.

use crate::{out, table};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tantalum_lab::experiment::{Experiment, Row};
use tantalum_lab::report::{Report, RowReport, Verdict};
use tantalum_lab::runner::{self, Progress};

/// Arguments of `tantalum run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum run experiments/first.toml
  tantalum run experiments/first.toml --cuts 500 --json first.json
  tantalum run experiments/first.toml --row linkbench/durassd --seed 7

The same seed gives the same table, and the same JSON to the last byte.
Exit codes: 0, every row is as expected; 1, one is not; 2, the file can not be meant.")]
pub struct RunArguments {
    /// The experiment file (TOML)
    experiment: PathBuf,
    /// Write what was found as JSON to this file; `-`: to standard output, without the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Another seed than the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// So many power cuts for each row
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cuts: Option<u32>,
    /// Small databases and few cuts: seconds, for a first look
    #[arg(long)]
    quick: bool,
    /// Only rows whose name contains this (names are workload/design/journal/synchronous);
    /// may be given several times
    #[arg(long = "row", value_name = "TEXT")]
    rows: Vec<String>,
    /// Rows that run at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

/// Carries it out; gives the exit code.
pub fn run(arguments: &RunArguments) -> u8 {
    let experiment = match load(arguments) {
        Ok(experiment) => experiment,
        Err(message) => return out::error(message, out::USAGE),
    };
    let rows = match choose(&experiment, &arguments.rows) {
        Ok(rows) => rows,
        Err(message) => return out::error(message, out::USAGE),
    };
    if let Err(e) = runner::check(&rows) {
        let message = format!("{}: {e}", arguments.experiment.display());
        return out::error(message, out::USAGE);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(cores, usize::from);
    let bar = progress_bar(rows.len() as u64 * u64::from(experiment.cuts));
    let shown = bar.clone();
    let watch: runner::Watch = Arc::new(move |progress| match progress {
        Progress::Cut => shown.inc(1),
        Progress::RowDone(name) => shown.set_message(name.to_string()),
    });
    let report = runner::run(&experiment, &rows, threads, &watch);
    bar.finish_and_clear();
    print(&report, arguments)
}

fn load(arguments: &RunArguments) -> Result<Experiment, String> {
    let path = &arguments.experiment;
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("can not read the experiment file {}: {e}", path.display()))?;
    let parsed = Experiment::parse(&path.display().to_string(), &text);
    let mut experiment = parsed.map_err(|e| e.to_string())?;
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
            let names: Vec<_> = rows.iter().map(|r| format!("  {}", r.name)).collect();
            return Err(format!(
                "no row's name contains \"{word}\"; rows are:\n{}",
                names.join("\n")
            ));
        }
    }
    if !words.is_empty() {
        rows.retain(|r| words.iter().any(|w| r.name.contains(w.as_str())));
    }
    Ok(rows)
}

/// Drawn on standard error, and only if that is a terminal.
fn progress_bar(cuts: u64) -> ProgressBar {
    let style = "{bar:20} {pos}/{len} power cuts, {eta} left  {wide_msg}";
    let bar = ProgressBar::new(cuts);
    match ProgressStyle::with_template(style) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn print(report: &Report, arguments: &RunArguments) -> u8 {
    let json_to_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    let mut code = if json_to_stdout {
        out::bytes(report.to_json().as_bytes())
    } else {
        out::bytes(table::tables(report).as_bytes())
    };
    if let Some(file) = arguments.json.as_ref().filter(|_| !json_to_stdout) {
        #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
        if let Err(e) = std::fs::write(file, report.to_json()) {
            code = out::error(format_args!("can not write {}: {e}", file.display()), out::FAILED);
        }
    }
    for row in report.unexpected() {
        code = out::FAILED;
        out::error(why(row), out::FAILED);
        for problem in &row.findings.problems {
            out::note(format_args!("  {problem}"));
        }
        out::note(format_args!("  repeat it with: {}", repeat(row, report, arguments)));
    }
    code
}

fn why(row: &RowReport) -> String {
    let f = &row.findings;
    match row.verdict {
        Verdict::Failed => {
            let nothing =
                "it did nothing, so that it shows nothing, or its ledger is ahead of its clients";
            let error = row.error.as_deref().unwrap_or(nothing);
            format!("{} failed: {error}", row.name)
        }
        Verdict::Violated => format!(
            "{} breaks what its drive and settings promise: {} violations ({} acknowledged lost, {} databases damaged)",
            row.name, f.violations, f.commits_lost, f.databases_corrupt
        ),
        Verdict::NothingLost => format!(
            "{} is expected to lose something, but lost nothing in {} power cuts",
            row.name, f.cuts
        ),
        Verdict::Lost | Verdict::AsExpected => format!(
            "{} must lose nothing, but lost {} acknowledged commits and damaged {} databases",
            row.name, f.commits_lost, f.databases_corrupt
        ),
    }
}

fn repeat(row: &RowReport, report: &Report, arguments: &RunArguments) -> String {
    let quick = if arguments.quick { " --quick" } else { "" };
    format!(
        "tantalum run {} --seed {} --cuts {}{quick} --row {}",
        arguments.experiment.display(),
        report.seed,
        report.cuts,
        row.name
    )
}
