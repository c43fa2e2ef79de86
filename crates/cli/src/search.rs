//! `tantalum search`: the least energy with which a drive meets limits of speed and restart time.

use crate::bar::Bar;
use crate::counted::{counted, were};
use crate::file_kind::Kind;
use crate::{builtin, file_kind, init, out, table, units};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tantalum_drive::Voltages;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::search::{Effort, Findings, Limits, Search, Tried, Watch};
use tantalum_lab_page as page;
use tantalum_rt::Nanos;

/// The most Pareto-optimal candidates that are shown.
const MOST_SHOWN: usize = 40;

/// The design that candidates vary, if no other is named.
const BASE: &str = "spartan-es";

/// Arguments of `tantalum search`.
#[derive(Args)]
#[command(allow_negative_numbers = true)]
#[command(override_usage = "\
tantalum search --workload <NAME> --recovery-max <TIME> --slowdown-max <PERCENT> [OPTIONS] <EXPERIMENT>
       tantalum search --init <FILE>")]
#[command(after_help = "\
Examples:
  tantalum search                              the experiments that are built in, and their jobs
  tantalum search --init mine.toml             one to start from, commented
  tantalum search spartan --workload random --recovery-max 1s --slowdown-max 5%
  tantalum search spartan --workload tpcc-mix --recovery-max 50ms --slowdown-max 2%
  tantalum search mine.toml --workload w --base durassd --recovery-max 1s --slowdown-max 5% --html s.html
  tantalum search spartan --workload random --recovery-max 1s --slowdown-max 5% \\
                  --set drive.geometry.blocks=256

Candidates differ in these properties; all others are those of the base:
- what capacitors protect of the map: changed map pages, changed entries, or a journal of erase units,
  with or without summaries, spilled to flash when it is full (elastic) or not;
- how much of it, and when the map is stored;
- whether capacitors protect the map's directory;
- the size of the write buffer;
- whether erases are stopped at a cut.
Each candidate runs the job, its power is cut when the restart has the most to recover, and it must
start. Joules are by the full count of `tantalum energy`. The same seed gives the same result.
Exit codes: 0, one was found; 1, nothing meets the limits; 2, the command or a limit is invalid.")]
pub struct SearchArguments {
    /// The experiment file (TOML) with the job, the drive's geometry and its preconditioning, or the
    /// name of one that is built in; without it these are listed
    experiment: Option<PathBuf>,
    /// Write a short commented experiment with a job and a design to this new file, to start from
    #[arg(long, value_name = "FILE", exclusive = true, value_parser = crate::new_file::new_file())]
    init: Option<PathBuf>,
    /// The block job: the NAME of a [job.NAME] of the file
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// The longest restart, from the return of the power to a drive that takes commands: 50ms, 2s
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    recovery_max: Option<Nanos>,
    /// How much slower than with full protection the drive may be: 5%
    #[arg(long, value_name = "PERCENT", value_parser = slowdown)]
    slowdown_max: Option<f64>,
    /// The design that candidates vary: a preset or one of the file
    #[arg(long, value_name = "DESIGN", default_value = BASE)]
    base: String,
    /// Another value for a key of the experiment's TOML, as for `tantalum run`; may be given
    /// several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = crate::run::setting)]
    sets: Vec<crate::run::Setting>,
    /// The seed [default: the file's]
    #[arg(long, value_name = "N", value_parser = units::seed)]
    seed: Option<u64>,
    /// Power cuts of each candidate
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = units::whole::<u32>(1..=1000))]
    cuts: u32,
    /// The least load before each cut: as much is programmed as all dies can in this time, and
    /// whole rounds of the journal
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::time)]
    load: Nanos,
    /// Try all candidates, including those that need more energy or cannot meet the limits
    #[arg(long)]
    all: bool,
    /// Voltage of the charged capacitors
    #[arg(long, value_name = "V", default_value_t = 5.0, value_parser = units::number)]
    volts: f64,
    /// Lowest voltage at which the drive still works
    #[arg(long, value_name = "V", default_value_t = 2.7, value_parser = units::number)]
    least_volts: f64,
    /// Write the result as JSON to this file; `-`: to standard output, without the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result as a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Draw the plots to this file, as a self-contained SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Candidates tried at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = units::whole::<u16>(1..=256))]
    threads: Option<u16>,
}

/// A slowdown, as a share: a drive that is 100 % slower does nothing.
fn slowdown(text: &str) -> Result<f64, String> {
    match units::percent(text)? / 100.0 {
        share if share < 1.0 => Ok(share),
        _ => Err("it should be from 0% to less than 100%".into()),
    }
}

/// The block jobs of an experiment that can be searched around the design that is the default: its
/// geometry may be too small for that.
fn searched(experiment: &Experiment) -> Vec<&str> {
    let limits = Limits { recovery: Nanos::from_secs(1), slowdown: 0.05 };
    let effort = Effort { cuts: 1, measured: Nanos::from_millis(20), all: false };
    let can_be = |job: &&str| Search::new(experiment, job, BASE, limits, effort).is_ok();
    experiment.job.keys().map(String::as_str).filter(can_be).collect()
}

/// What is built in, for a user who named nothing.
fn list() -> String {
    let title = "Built-in experiments with block jobs; search one, which takes minutes, with\n\
                 `tantalum search NAME --workload JOB --recovery-max 1s --slowdown-max 5%`";
    let with_jobs = with_jobs().map(|(one, jobs)| (one, format!("jobs: {}", jobs.join(", "))));
    builtin::list(title, with_jobs) + &builtin::own("search")
}

/// The same as JSON.
fn list_as_json() -> serde_json::Value {
    let all = with_jobs().map(
        |(one, jobs)| serde_json::json!({"name": one.name, "title": one.title(), "jobs": jobs}),
    );
    serde_json::json!({"built_in": all.collect::<Vec<_>>()})
}

/// The experiments that are built in and have block jobs, with these.
fn with_jobs() -> impl Iterator<Item = (&'static builtin::BuiltIn, Vec<String>)> {
    builtin::RUNS.iter().filter_map(|one| {
        let experiment = Experiment::parse(one.name, one.text).ok()?;
        let jobs: Vec<String> = searched(&experiment).into_iter().map(String::from).collect();
        (!jobs.is_empty()).then_some((one, jobs))
    })
}

/// Runs the command; returns the exit code.
pub fn search(arguments: &SearchArguments) -> u8 {
    if let Some(file) = &arguments.init {
        return init::SEARCH.write(file);
    }
    let Some(path) = &arguments.experiment else {
        return builtin::show(arguments.json.as_deref(), &list(), &list_as_json());
    };
    let to_stdout = arguments.json.as_deref() == Some(Path::new("-"));
    let volts = match Voltages::new(arguments.volts, arguments.least_volts) {
        Ok(volts) => volts,
        Err(e) => return out::error(e, out::USAGE),
    };
    let (experiment, search) = match prepare(arguments, path) {
        Ok(ready) => ready,
        Err(message) => return out::error(message, out::USAGE),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(cores, usize::from);
    if let Err(message) = search.check_memory(&experiment, threads) {
        return out::error(message, out::USAGE);
    }
    let json = arguments.json.as_deref().filter(|_| !to_stdout);
    let inputs = [("EXPERIMENT", path.as_path())];
    let outputs = [("--json", json), ("--html", arguments.html.as_deref())];
    let outputs = outputs.into_iter().chain([("--svg", arguments.svg.as_deref())]);
    let outputs = outputs.filter_map(|(name, path)| Some((name, path?)));
    if let Err(message) = out::distinct(inputs, outputs) {
        return out::error(message, out::USAGE);
    }
    let open = |file: Option<&Path>| file.map(out::Sink::open).transpose();
    let sinks = (open(json), open(arguments.html.as_deref()), open(arguments.svg.as_deref()));
    let (json, html, svg) = match sinks {
        (Ok(json), Ok(html), Ok(svg)) => (json, html, svg),
        (Err(e), ..) | (_, Err(e), _) | (.., Err(e)) => return out::error(e, out::USAGE),
    };
    let style = "{bar:20} {pos} of at most {len} candidates, {elapsed}";
    let bar = Bar::new(search.candidates().len() as u64, style);
    bar.end_at_interrupt();
    let found = search.run(&experiment, threads, &bar);
    bar.clear();
    let found = match found {
        Ok(found) => found,
        Err(message) => return out::error(message, out::FAILED),
    };
    let mut code = match to_stdout {
        true => out::bytes(found.to_json(volts).as_bytes()),
        false => out::bytes(summary(&found, volts).as_bytes()),
    };
    if let Some(json) = json {
        code = code.max(json.put(&found.to_json(volts)));
    }
    if let Some(html) = html {
        code = code.max(html.put(&page::search(&found, |j| volts.farads(j))));
    }
    if let Some(svg) = svg {
        code = code.max(svg.put(&page::search_picture(&found)));
    }
    if found.interrupted {
        out::note("interrupted: these are the results until then");
        std::process::exit(out::INTERRUPTED);
    }
    if found.winner.is_none() {
        code = code.max(out::error(missed(&found), out::FAILED));
    }
    code
}

fn prepare(arguments: &SearchArguments, path: &Path) -> Result<(Experiment, Search), String> {
    let (name, text) = (path.display().to_string(), builtin::read(path, builtin::RUNS)?);
    let sets: Vec<_> = arguments.sets.iter().map(crate::run::Setting::pair).collect();
    let parsed = Experiment::parse_with(&name, &text, &sets);
    let mut experiment = parsed.map_err(|e| file_kind::told(Kind::Experiment, &name, &text, e))?;
    experiment.seed = arguments.seed.unwrap_or(experiment.seed);
    if experiment.job.is_empty() {
        return Err(format!(
            "\"{name}\" has no block job: describe one under [job.NAME], as `tantalum search \
             --init FILE` does"
        ));
    }
    let Some(workload) = &arguments.workload else {
        let jobs: Vec<&str> = experiment.job.keys().map(String::as_str).collect();
        return Err(format!("name a job of \"{name}\" with --workload: {}", jobs.join(", ")));
    };
    let (Some(recovery), Some(slowdown)) = (arguments.recovery_max, arguments.slowdown_max) else {
        return Err(
            "give both limits: --recovery-max, as in 1s, and --slowdown-max, as in 5%".into()
        );
    };
    let limits = Limits { recovery, slowdown };
    let effort = Effort { cuts: arguments.cuts, measured: arguments.load, all: arguments.all };
    let base = &arguments.base;
    let search = Search::new(&experiment, workload, base, limits, effort);
    Ok((experiment, search.map_err(|e| format!("{name}: {e}"))?))
}

impl Watch for Bar {
    fn done(&self, candidates: usize) {
        self.advance(candidates as u64, "candidates");
    }

    fn is_over(&self) -> bool {
        Bar::is_over(self)
    }
}

/// The ranks of the columns: farads follow from joules, and most of the requests from the slowdown.
const RANKS: &[u8] = &[0, 3, 0, 0, 1, 1, 0, 0, 2, 0, 0, 0];

fn summary(found: &Findings, volts: Voltages) -> String {
    let limits = &found.limits;
    let mut text = format!(
        "The least energy for {}: restarts of at most {}, at most {:.1} % slower than full protection\n\
         around {}, seed {}; times are virtual\n\n",
        found.workload,
        limits.recovery,
        limits.slowdown * 100.0,
        found.base,
        found.seed
    );
    let mut table = Table::new();
    table
        .load_preset(comfy_table::presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "mJ",
        "mF",
        "buffer",
        "kept of the map",
        "summary",
        "directory",
        "stored",
        "erases",
        "requests/s",
        "slower %",
        "restart",
        "",
    ]);
    let shown = shown(found);
    for i in &shown {
        let t = &found.tried[*i];
        let result = match () {
            () if Some(*i) == found.winner => "FOUND",
            () if Some(*i) == found.nearest => "nearest",
            () if t.meets(limits) => "meets both",
            () => "",
        };
        table.add_row(line(t, volts, result));
    }
    let joules = found.reference_j;
    table.add_row([
        format!("{:.3}", joules * 1e3),
        format!("{:.3}", volts.farads(joules) * 1e3),
        String::new(),
        "all of it".into(),
        String::new(),
        String::new(),
        "never".into(),
        "finished".into(),
        format!("{:.0}", found.reference_rate),
        "0.0".into(),
        found.reference_recovery.to_string(),
        "full protection".into(),
    ]);
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if [0, 1, 2, 8, 9, 10].contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    // Writing to a string does not fail.
    let is_good = |cell: &str| (cell == "FOUND").then_some(true);
    let _ = writeln!(text, "{}", table::ranked(table, RANKS, is_good));
    if shown.len() < found.pareto.len() {
        let _ = writeln!(text, "({} more are in --json)", found.pareto.len() - shown.len());
    }
    let _ = writeln!(
        text,
        "None of these is better in energy, slowdown and restart at once. Of {} {} {} tried,\n\
         {} left out because they could not meet the limits; farads from {} V down to {} V.",
        counted(found.candidates as u64, "candidate", "candidates"),
        found.tried.len(),
        were(found.tried.len() as u64),
        found.left_out,
        volts.charged,
        volts.least
    );
    for (candidate, error) in &found.failed {
        let _ = writeln!(text, "failed: {}: {error}", candidate.choice);
    }
    if let (Some(_), Some(toml)) = (found.winner, &found.toml) {
        let _ = write!(text, "\n{toml}");
        if !found.conflicts.is_empty() {
            let keys = found.conflicts.join(", ");
            let _ = writeln!(
                text,
                "# [drive] of this file has other values, which take precedence: remove {keys}"
            );
        }
    }
    text
}

/// The Pareto-optimal candidates, thinned out if they are many; the winner or the nearest is among
/// them.
fn shown(found: &Findings) -> Vec<usize> {
    let step = found.pareto.len().div_ceil(MOST_SHOWN).max(1);
    let mut all: Vec<usize> = found.pareto.iter().copied().step_by(step).collect();
    all.extend(found.winner.or(found.nearest));
    all.sort_unstable();
    all.dedup();
    all
}

fn line(t: &Tried, volts: Voltages, result: &str) -> Vec<String> {
    let (c, d) = (&t.candidate, &t.candidate.design);
    vec![
        format!("{:.3}", c.energy_j * 1e3),
        format!("{:.3}", volts.farads(c.energy_j) * 1e3),
        format!("{} KiB", d.cache.buffer_kib),
        c.choice.kept(d),
        if d.map.summary { "yes" } else { "" }.into(),
        if d.map.directory { "yes" } else { "" }.into(),
        c.choice.stored(d),
        if d.power.erase_abort { "stopped" } else { "finished" }.into(),
        format!("{:.0}", t.rate),
        format!("{:.1}", t.slowdown * 100.0),
        t.recovery.to_string(),
        result.into(),
    ]
}

/// Says that nothing was found, and by how much the nearest candidate misses the limits.
fn missed(found: &Findings) -> String {
    let Some(t) = found.nearest.map(|i| &found.tried[i]) else {
        return "no candidate could be tried".into();
    };
    let limits = &found.limits;
    let mut by = Vec::new();
    if t.recovery > limits.recovery {
        let more = t.recovery.saturating_sub(limits.recovery);
        by.push(format!("its restart takes {}, {more} too long", t.recovery));
    }
    if t.slowdown > limits.slowdown {
        let more = 100.0 * (t.slowdown - limits.slowdown);
        by.push(format!("it is {:.1} % slower, {more:.1} too much", t.slowdown * 100.0));
    }
    format!(
        "nothing meets the limits; the nearest is {}: {}",
        t.candidate.choice,
        by.join(", and ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once an experiment was listed whose geometry is too small for the design.
    #[test]
    fn what_is_listed_can_be_searched() {
        let list = list();
        let names = |name: &str| list.lines().any(|l| l.trim_start().starts_with(name));
        assert!(names("spartan") && !names("flush"), "{list}");
    }
}
