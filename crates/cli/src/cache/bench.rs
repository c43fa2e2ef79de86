//! `tantalum cache bench`: the directory in memory, or a cache on devices.

#[cfg(feature = "live")]
mod devices;
mod directory;

use crate::interrupt::Finished;
#[cfg(feature = "live")]
use crate::interrupt::{self, Stop};
use crate::out;
use clap::Args;
use comfy_table::Table;
use directory::Round;
use serde::Serialize;

/// Arguments of `tantalum cache bench`.
#[derive(Args, Clone)]
#[cfg_attr(
    feature = "live",
    command(after_help = "\
Examples:
  tantalum cache bench                         the directory, in memory
  tantalum cache bench --flash /ssd --slow /disk
                                               a cache on a file in each of these folders
  tantalum cache bench --flash model:ssd-840pro:256MiB --slow model:4xdisk-15k6:1GiB
                                               on models, in virtual time

Without devices it measures lookups and stage-ins of random pages in a directory that is
full, in interleaved rounds, per second of processor time; each number is the median.
With devices, tasks use pages: each use fetches one and evicts it, changed or not. Half
of the uses are of an eighth of the pages. The cache is filled before. On files the
numbers are those of this machine now: compare them within one run. On models they are
the same each time.
Exit codes: 0; 1, the cache failed; 2, a device cannot be used; 130, interrupted: what
has ended is printed.")
)]
#[cfg_attr(
    not(feature = "live"),
    command(after_help = "\
Examples:
  tantalum cache bench
  tantalum cache bench --pages 2000000 --threads 1,4
  tantalum cache bench --rounds 9 --json

It measures lookups and stage-ins of random pages in a directory that is full, in
interleaved rounds, per second of processor time; each number is the median.
Exit codes: 0; 130, interrupted: the medians of the rounds that have ended are printed.")
)]
pub struct BenchArguments {
    /// Pages in the directory
    #[arg(long, value_name = "N", default_value_t = 500_000,
          value_parser = crate::units::whole::<u64>(1024..=1 << 26))]
    pages: u64,
    /// Threads on the directory
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 2],
          value_parser = crate::units::whole::<u64>(1..=256))]
    threads: Vec<u64>,
    /// Operations of each thread in a round
    #[arg(long, value_name = "N", default_value_t = 500_000,
          value_parser = crate::units::whole::<u64>(1..=1 << 32))]
    operations: u64,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = crate::units::whole::<u32>(1..=1000))]
    rounds: u32,
    #[cfg(feature = "live")]
    #[command(flatten)]
    devices: devices::DeviceArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command; returns the exit code.
pub fn bench(arguments: &BenchArguments) -> u8 {
    #[cfg(feature = "live")]
    if let Some(places) = arguments.devices.places() {
        return on_devices(arguments, places);
    }
    let of = arguments.clone();
    let finished = Finished::printed_at_interrupt(move |rounds: Vec<Round>| {
        if of.json || !rounds.is_empty() {
            print(&directory::runs(&of, &rounds), directory::table, of.json);
        }
        out::note(directory::interrupted(rounds.len(), of.rounds));
    });
    directory::measure(arguments, &finished);
    finished
        .end(|rounds| print(&directory::runs(arguments, &rounds), directory::table, arguments.json))
}

#[cfg(feature = "live")]
fn on_devices(arguments: &BenchArguments, places: devices::Places<'_>) -> u8 {
    let stop = Stop::default();
    stop.set_at_interrupt(|| ());
    let runs = match devices::measured(&arguments.devices, places, &stop) {
        Ok(runs) => runs,
        Err((why, code)) => return out::error(why, code),
    };
    if !stop.is_set() {
        return print(&runs, devices::table, arguments.json);
    }
    if arguments.json || !runs.is_empty() {
        print(&runs, devices::table, arguments.json);
    }
    interrupt::over(&arguments.devices.names(), runs.len())
}

fn print<T: Serialize>(runs: &[T], table: fn(&[T]) -> Table, json: bool) -> u8 {
    let text = match json {
        true => serde_json::to_string_pretty(runs).map_err(|e| e.to_string()),
        false => Ok(table(runs).to_string()),
    };
    match text {
        Ok(text) => out::bytes((text + "\n").as_bytes()),
        Err(e) => out::error(e, out::FAILED),
    }
}

fn markdown(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(header);
    table
}
