//! `tantalum bench`: how fast the simulation itself is.

use crate::out;
use clap::{Args, Subcommand};
use std::fmt::Write;
use tantalum_lab::bench::{self, BenchReport};

/// What to measure.
#[derive(Subcommand)]
pub enum BenchCommand {
    /// The simulated drive: 4 KiB random writes at queue depth 32, on the geometry on
    /// which other simulators were measured
    Drive(DriveArguments),
}

/// Arguments of `tantalum bench drive`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum bench drive
  tantalum bench drive --json

Rates are per second of processor time, so that a busy machine disturbs less. Compare
them as ratios, on one machine.")]
pub struct DriveArguments {
    /// Print JSON: {\"runs\": [{\"name\", \"requests_per_cpu_second\", \"write_amplification\",
    /// \"peak_rss_mib\"}], \"timer_events_per_second\"}
    #[arg(long)]
    json: bool,
    /// Only so many thousandths of the requests
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    thousandths: u64,
}

/// Carries it out; gives the exit code.
pub fn bench(command: &BenchCommand) -> u8 {
    let BenchCommand::Drive(arguments) = command;
    let report = bench::drive(arguments.thousandths, |what| out::note(format_args!("{what} ...")));
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&report).map(|json| json + "\n"),
        false => Ok(lines(&report)),
    };
    match text {
        Ok(text) => out::bytes(text.as_bytes()),
        Err(e) => out::error(e, out::FAILED),
    }
}

fn lines(report: &BenchReport) -> String {
    let mut text = String::new();
    for run in &report.runs {
        let rate = run.requests_per_cpu_second / 1e6;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {rate:.2} M requests per CPU-second, write amplification {:.2}, {:.0} MiB",
            run.name, run.write_amplification, run.peak_rss_mib
        );
    }
    let rate = report.timer_events_per_second / 1e6;
    let _ = writeln!(text, "bare runtime: {rate:.1} M timer events per CPU-second");
    text
}
