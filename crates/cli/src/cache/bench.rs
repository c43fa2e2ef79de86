//! `tantalum cache bench`: the directory in memory, or a cache on devices.

#[cfg(feature = "live")]
mod devices;
mod directory;

use crate::out;
use clap::Args;
use comfy_table::Table;
use serde::Serialize;

/// Arguments of `tantalum cache bench`.
#[derive(Args)]
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
Exit codes: 0; 1, the cache failed; 2, a device cannot be used.")
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
    if let Some(runs) = devices::measured(&arguments.devices) {
        return match runs {
            Ok(runs) => print(&runs, devices::table, arguments.json),
            Err((why, code)) => out::error(why, code),
        };
    }
    print(&directory::measured(arguments), directory::table, arguments.json)
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
