//! `tantalum crash`: cuts the power of drives at every moment, and prints the findings.

mod findings;
mod progress;
mod summary;

use crate::counted::{counted, were};
use crate::file_kind::Kind;
use crate::random::random;
use crate::{builtin, file_kind, init, near, out, repeat, units};
use clap::Args;
use findings::Findings;
use progress::Progress;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tantalum_explore::{Case, CrashRow, MOST, Over, Plan, Reach, RowState, Survey, survey};
use tantalum_lab::bench::process_cpu_seconds;
use tantalum_lab::file::crash::CrashFile;
use tantalum_lab::report::crash::survey_json;
use tantalum_rt::Nanos;

/// Findings of a row that are printed. Further ones are only counted.
const NAMED: usize = 4;

/// Arguments of `tantalum crash`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum crash                                                 what is built in
  tantalum crash --init mine.toml                                one to start from, commented
  tantalum crash crash                                           some points of each row
  tantalum crash crash --exhaustive --nested 2                   all of them, and recoveries
  tantalum crash crash --row durassd --samples 100000
  tantalum crash crash --for 2m --seed random                    a new seed, for two minutes
  tantalum crash crash --for 8h --seed random --findings found.jsonl
  tantalum crash crash --swarm 1000 --seed 7                     random drives
  tantalum crash crash --row durassd/default --case 3.412.17

A cut is explored in a copy of the drive: emergency dump, recovery, a check of its whole content,
more work, another cut, another check. All rows get equal shares. The exploration continues after a
finding. Each finding has a case that repeats it; the first one of a row is reduced and printed as a
test. docs/crash.md says what no number of cuts can find.
Exit codes: 0, nothing was found; 1, something was found; 2, the file is invalid; 3, nothing was
found, but --for was too short for some rows; 130, interrupted.")]
pub struct CrashArguments {
    /// The file of the exploration (TOML), or the name of one that is built in; without it these are
    /// listed
    experiment: Option<PathBuf>,
    /// Write a short commented exploration to this new file, to start from
    #[arg(long, value_name = "FILE", exclusive = true, value_parser = crate::new_file::new_file())]
    init: Option<PathBuf>,
    /// Cut at every medium operation and host command, before, inside and after it
    #[arg(long, conflicts_with_all = ["samples", "swarm"])]
    exhaustive: bool,
    /// Random cuts of each row [default: the file's number]
    #[arg(long, value_name = "N", value_parser = units::whole::<u64>(1..))]
    samples: Option<u64>,
    /// Explore this many random drives instead of the file's, with the file's mixes
    #[arg(long, value_name = "N", conflicts_with = "samples",
          value_parser = units::whole::<u64>(1..=1_000_000))]
    swarm: Option<u64>,
    /// End after this time, as in 120s or 8h; without another number of cuts, random points until
    /// then. (Findings are reduced after that.)
    #[arg(long = "for", value_name = "TIME", value_parser = budget)]
    budget: Option<Nanos>,
    /// Also cut recoveries, and the recoveries from these cuts, to this depth
    #[arg(long, value_name = "K", value_parser = units::whole::<u32>(..=16))]
    nested: Option<u32>,
    /// The seed [default: the file's]; `random`: a new one, which is printed
    #[arg(long, value_name = "N")]
    seed: Option<Seed>,
    /// Only rows whose name contains this; may be given several times
    #[arg(long = "row", value_name = "TEXT")]
    rows: Vec<String>,
    /// Print the names of the rows, and run nothing
    #[arg(long)]
    list: bool,
    /// Repeat one case of one row; its name was printed when it was found
    #[arg(long, value_name = "CASE",
          conflicts_with_all = [
              "exhaustive", "samples", "budget", "findings", "stop_at_first", "json",
          ])]
    case: Option<String>,
    /// End at the first finding
    #[arg(long)]
    stop_at_first: bool,
    /// Append each finding to this file at once: a line of JSON, with the command that repeats it
    #[arg(long, value_name = "FILE")]
    findings: Option<PathBuf>,
    /// Write the findings as JSON to this file; `-`: to standard output, without the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = units::whole::<u16>(1..=256))]
    threads: Option<u16>,
}

impl CrashArguments {
    /// The exploration as the user named it.
    fn named(&self) -> &Path {
        self.experiment.as_deref().unwrap_or(Path::new(""))
    }
}

/// `N` or `random` of the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seed {
    Is(u64),
    Random,
}

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Seed, String> {
        match text {
            "random" => Ok(Seed::Random),
            _ => text.parse().map(Seed::Is).map_err(|_| "expected a number or `random`".into()),
        }
    }
}

impl Seed {
    /// The seed. A random one has at most ten digits, so that it can be copied by hand.
    fn number(self) -> Result<u64, String> {
        if let Seed::Is(number) = self {
            return Ok(number);
        }
        let bytes = random().map_err(|e| format!("the system gives no random number: {e}"))?;
        Ok(u32::from_ne_bytes(bytes).into())
    }
}

fn budget(text: &str) -> Result<Nanos, String> {
    match units::time(text)? {
        Nanos(0) => Err("the time must be longer than 0".into()),
        time => Ok(time),
    }
}

/// Runs the command; returns the exit code.
pub fn crash(arguments: &CrashArguments) -> u8 {
    if let Some(file) = &arguments.init {
        return init::CRASH.write(file);
    }
    if arguments.experiment.is_none() {
        let list = builtin::list_with_times("crash", "explorations", builtin::CRASHES);
        let as_json = builtin::as_json(builtin::CRASHES);
        return builtin::show(arguments.json.as_deref(), &list, &as_json);
    }
    let json = arguments.json.as_deref().filter(|p| *p != Path::new("-"));
    let input = ("EXPERIMENT", arguments.named());
    let outputs = [("--json", json), ("--findings", arguments.findings.as_deref())];
    let outputs = outputs.into_iter().filter_map(|(name, path)| Some((name, path?)));
    if let Err(message) = out::distinct([input], outputs) {
        return out::error(message, out::USAGE);
    }
    let (file, rows) = match load(arguments) {
        Ok(loaded) => loaded,
        Err(message) => return out::error(message, out::USAGE),
    };
    if arguments.list {
        return match &arguments.json {
            Some(file) => out::json_to(&list(&rows), file),
            None => out::lines(rows.iter().map(|row| row.name.as_str())),
        };
    }
    quiet_panics();
    if let Some(id) = &arguments.case {
        return one_case(&file, &rows, id);
    }
    let opened = (
        json.map(out::Sink::open).transpose(),
        arguments.findings.as_deref().map(Findings::open).transpose(),
    );
    let (json, findings) = match opened {
        (Ok(json), Ok(findings)) => (json, findings),
        (Err(message), _) | (_, Err(message)) => return out::error(message, out::USAGE),
    };
    let plan = plan(arguments, &file);
    let said = arguments.budget.map(|budget| units::said(budget.as_secs_f64().ceil() as u64));
    let repeat = |row: &str, case: &str| again(arguments, file.seed, row, case);
    let seconds = arguments.budget.map(Nanos::as_secs_f64);
    let began = process_cpu_seconds();
    let progress = Progress::new(file.seed, &rows, seconds, findings.as_ref(), &repeat);
    progress.end_at_interrupt();
    out::note(beginning(&file, &rows, plan.reach, said.as_deref()));
    let found = survey(&file.exploration(), &rows, plan, &progress);
    let spent = process_cpu_seconds() - began - progress.reducing_took();
    progress.clear();
    let mut code = match arguments.json.as_deref() == Some(Path::new("-")) {
        true => out::bytes(survey_json(&found).as_bytes()),
        false => {
            let text = summary::summary(&found, plan.reach, said.as_deref(), spent);
            out::bytes(text.as_bytes())
        }
    };
    code = code.max(tell_all(&found, arguments));
    if let Some(json) = json {
        code = code.max(json.put(&survey_json(&found)));
    }
    code = code.max(findings.map_or(out::OK, |findings| findings.code()));
    if found.over == Some(Over::Interrupted) {
        out::note("interrupted: these are the results until then");
        std::process::exit(out::INTERRUPTED);
    }
    let not_run = found.count(RowState::NotRun);
    if code == out::OK && not_run > 0 {
        let rows = counted(found.rows.len() as u64, "row", "rows");
        let were = were(not_run as u64);
        let what = format!("{not_run} of {rows} {were} not run: give a longer --for");
        return out::error(what, out::UNKNOWN);
    }
    code
}

/// The rows as JSON.
fn list(rows: &[CrashRow]) -> serde_json::Value {
    let row = |row: &CrashRow| serde_json::json!({"name": row.name});
    serde_json::json!({"list": rows.iter().map(row).collect::<Vec<_>>()})
}

fn plan(arguments: &CrashArguments, file: &CrashFile) -> Plan {
    let reach = match (arguments.swarm, arguments.exhaustive, arguments.samples) {
        (Some(runs), _, _) => Reach::Runs(runs),
        (None, true, _) => Reach::Exhaustive(file.runs),
        (None, false, Some(cuts)) => Reach::Samples(cuts),
        (None, false, None) if arguments.budget.is_some() => Reach::Endless,
        (None, false, None) => Reach::Samples(file.samples),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(cores, usize::from);
    Plan { reach, threads, stop_at_first: arguments.stop_at_first }
}

/// The line that is printed first: a user who interrupts the exploration needs the seed.
fn beginning(file: &CrashFile, rows: &[CrashRow], reach: Reach, budget: Option<&str>) -> String {
    let count = counted(rows.len() as u64, "row", "rows");
    let what = match reach {
        Reach::Exhaustive(1) => ", every point of one run of each".to_string(),
        Reach::Exhaustive(runs) => format!(", every point of {runs} runs of each"),
        Reach::Samples(cuts) => {
            format!(", {} of the runs of each", counted(cuts, "cut", "cuts"))
        }
        Reach::Runs(runs) => format!(", {} of each", counted(runs, "run", "runs")),
        Reach::Endless => String::new(),
    };
    let budget = budget.map_or(String::new(), |budget| format!(", for {budget}"));
    format!("seed {}: {count}{what}{budget}", file.seed)
}

fn load(arguments: &CrashArguments) -> Result<(CrashFile, Vec<CrashRow>), String> {
    let path = arguments.named();
    let text = builtin::read(path, builtin::CRASHES)?;
    let name = path.display().to_string();
    let parsed = CrashFile::parse(&name, &text);
    let mut file = parsed.map_err(|e| file_kind::told(Kind::Exploration, &name, &text, e))?;
    if arguments.case.is_some() && arguments.seed == Some(Seed::Random) {
        return Err(
            "--case needs the seed with which the case was found: give that to --seed".into()
        );
    }
    file.seed = arguments.seed.map_or(Ok(file.seed), Seed::number)?;
    file.nested = arguments.nested.unwrap_or(file.nested);
    let rows = if arguments.swarm.is_some() { file.swarm() } else { file.rows() };
    let mut rows = rows.map_err(|e| format!("{name}: {e}"))?;
    for word in &arguments.rows {
        if !rows.iter().any(|r| r.name.contains(word.as_str())) {
            let names: Vec<_> = rows.iter().map(|r| r.name.as_str()).collect();
            return Err(near::no_row(word, &names));
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
            let names: Vec<_> = rows.iter().map(|r| r.name.as_str()).collect();
            let told = near::some(&names);
            let what = format!("--case repeats a case of one row; choose it with --row; {told}");
            return out::error(what, out::USAGE);
        }
    };
    match Case::repeat(&file.exploration(), row, id) {
        Ok(Some(case)) => tell(&row.name, &case),
        Ok(None) => out::bytes(format!("{}, case {id}: nothing is wrong\n", row.name).as_bytes()),
        Err(message) => out::error(message, out::USAGE),
    }
}

/// Prints all findings; returns the exit code.
fn tell_all(found: &Survey, arguments: &CrashArguments) -> u8 {
    let mut code = out::OK;
    for row in &found.rows {
        for case in row.cases.iter().take(NAMED) {
            code = code.max(tell(&row.name, case));
            let again = again(arguments, found.seed, &row.name, &case.id);
            out::note(format_args!("  repeat it with: {again}"));
        }
        if row.cases.len() > NAMED {
            let (name, more) = (&row.name, row.cases.len() - NAMED);
            out::note(format_args!("{name}: {more} more; --findings and --json name them all"));
        }
        if row.state == RowState::GivenUp {
            out::note(format_args!("{}: given up after {MOST} findings", row.name));
        }
    }
    code
}

/// Prints a finding; returns the exit code.
fn tell(row: &str, case: &Case) -> u8 {
    let found = &case.found;
    out::error(
        format_args!("{row}, case {}: {}: {}", case.id, found.stage, found.failure),
        out::FAILED,
    );
    if let Some(reduced) = &case.reduced {
        let (commands, cuts) = (reduced.scenario.commands.len(), reduced.found.cuts.len());
        out::note(format_args!(
            "  {} and {} of {} and {} are enough:\n",
            counted(commands as u64, "command", "commands"),
            counted(cuts as u64, "cut", "cuts"),
            case.scenario.commands.len(),
            found.cuts.len()
        ));
        out::note(reduced.to_test());
    }
    out::FAILED
}

/// The command that repeats a case.
fn again(arguments: &CrashArguments, seed: u64, row: &str, case: &str) -> String {
    let mut words = vec!["crash".to_string(), arguments.named().display().to_string()];
    if arguments.swarm.is_some() {
        words.extend(["--swarm".into(), "1".into()]);
    }
    words.extend(["--row".into(), row.to_string()]);
    words.extend(["--seed".into(), seed.to_string()]);
    words.extend(["--case".into(), case.to_string()]);
    repeat::command(&words)
}

/// Makes a panic in a copy of a drive silent: it is printed as a finding.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers_or_new_ones() {
        assert_eq!("7".parse(), Ok(Seed::Is(7)));
        assert_eq!(Seed::Is(u64::MAX).number(), Ok(u64::MAX));
        assert!("rnd".parse::<Seed>().is_err() && "-1".parse::<Seed>().is_err());
        let new = || "random".parse::<Seed>().and_then(Seed::number).expect("a number");
        // Two random seeds are equal once in four billion times; eight equal ones do not occur.
        let first = new();
        assert!((0..8).any(|_| new() != first));
    }
}
