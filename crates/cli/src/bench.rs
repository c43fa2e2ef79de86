//! `tantalum drive bench`: how fast the simulation itself is.

use crate::bar::{Bar, Began, Lines};
use crate::interrupt::{self, Finished};
use crate::{out, units};
use clap::Args;
use std::fmt::Write;
use std::rc::Rc;
use tantalum_drive::Design;
use tantalum_lab::bench::{self, BenchReport, BenchRun};
use tantalum_lab::subject::ssd_preset;

/// Arguments of `tantalum drive bench`.
#[derive(Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "\
Examples:
  tantalum drive bench
  tantalum drive bench --json
  tantalum drive bench --design durassd --fill 100% --overwrite 50%

Rates are per second of processor time, so a busy machine disturbs them less. Compare
them as ratios, on one machine.
Exit codes: 0; 1, the drive failed; 2, there is no such design; 130, interrupted: the
runs that have ended are printed.")]
pub struct DriveArguments {
    /// Print JSON: {"runs": [{"name", "requests_per_cpu_second", "start_up_s",
    /// "write_amplification", "peak_rss_mib"}], "timer_events_per_second"}
    #[arg(long)]
    json: bool,
    /// Thousandths of the requests to run
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = units::whole::<u64>(1..=100_000))]
    thousandths: u64,
    /// Instead fill and overwrite a drive of this design at its full size (480 GB: ten minutes, up
    /// to 4 GB of memory)
    #[arg(long, value_name = "DESIGN")]
    design: Option<String>,
    /// How much of the capacity to fill; a number alone is a share: 0.5 is 50%
    #[arg(long, value_name = "PERCENT", default_value = "100%", requires = "design",
          value_parser = units::multiple)]
    fill: f64,
    /// Random overwrites of 4 KiB after that, of the capacity; a number alone is a multiple
    #[arg(long, value_name = "PERCENT", default_value = "100%", requires = "design",
          value_parser = units::multiple)]
    overwrite: f64,
}

/// Runs the command; returns the exit code.
pub fn bench(arguments: &DriveArguments) -> u8 {
    let design = match arguments.design.as_deref().map(ssd_preset).transpose() {
        Ok(design) => design,
        Err(message) => return out::error(message, out::USAGE),
    };
    let DriveArguments { json, thousandths, fill, overwrite, .. } = *arguments;
    let names = match &design {
        None => bench::names_of_drive(),
        Some(design) => bench::names_of_full(design, fill, overwrite),
    };
    let style = "{bar:20} {percent} %, {eta} left  {wide_msg}";
    let bar = design.as_ref().map(|_| Bar::new(WHOLE, style));
    let shown = bar.clone();
    let finished = Finished::printed_at_interrupt(move |runs: Vec<BenchRun>| {
        shown.iter().for_each(Bar::clear);
        let ended = runs.len();
        if json || ended > 0 {
            print(&BenchReport { runs, timer_events_per_second: None }, json);
        }
        interrupt::over(&names, ended);
    });
    let ended = |run: &BenchRun| finished.add(run.clone());
    let report = match design.zip(bar) {
        None => Ok(bench::drive(thousandths, |what| out::note(format_args!("{what} ...")), ended)),
        Some((design, bar)) => full(&design, arguments, &bar, ended),
    };
    match report {
        Ok(report) => finished.end(|_| print(&report, json)),
        Err(message) => out::error(message, out::FAILED),
    }
}

fn print(report: &BenchReport, json: bool) -> u8 {
    let text = match json {
        true => serde_json::to_string_pretty(report).map(|json| json + "\n"),
        false => Ok(lines(report)),
    };
    match text {
        Ok(text) => out::bytes(text.as_bytes()),
        Err(e) => out::error(e, out::FAILED),
    }
}

/// Length of the progress bar.
const WHOLE: u64 = 1000;
/// Seconds between two lines where there is no terminal.
const EVERY: u64 = 10;

fn full(
    design: &Design,
    arguments: &DriveArguments,
    bar: &Bar,
    ended: impl FnMut(&BenchRun),
) -> Result<BenchReport, String> {
    let (began, lines) = (Began::now(), Rc::new(Lines::new(EVERY, !bar.is_hidden())));
    let shown = bar.clone();
    let tell = move |what: &str, done: f64| {
        if shown.message() != what {
            shown.set_message(what.to_string());
            shown.reset();
        }
        shown.set_position((done * WHOLE as f64) as u64);
        let seconds = began.seconds();
        if lines.is_due(seconds) {
            let after = units::said(seconds as u64);
            out::note(format_args!("{after}: {what}: {:.0} %", done * 100.0));
        }
    };
    let report = bench::full(design, arguments.fill, arguments.overwrite, tell, ended);
    bar.clear();
    report.map_err(|e| e.to_string())
}

fn lines(report: &BenchReport) -> String {
    let mut text = String::new();
    for run in &report.runs {
        let rate = run.requests_per_cpu_second / 1e6;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {rate:.2} M requests per CPU-second, write amplification {:.2}, {:.0} MiB, \
             drive up in {:.3} CPU-seconds",
            run.name, run.write_amplification, run.peak_rss_mib, run.start_up_s
        );
    }
    if let Some(rate) = report.timer_events_per_second {
        let _ = writeln!(text, "bare runtime: {:.1} M timer events per CPU-second", rate / 1e6);
    }
    text
}
