//! `tantalum log create`.

use super::check::code;
use crate::members::{Description, Devices, in_words, is_description, is_model, linked, runtime};
use crate::out;
use crate::random::random;
use clap::Args;
use std::path::{Path, PathBuf};
use tantalum_device::{BlockDevice, PowerCycle};
use tantalum_log::{CreateOptions, Log};

/// Arguments of `tantalum log create`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fallocate -l 1GiB a; fallocate -l 1GiB b; fallocate -l 8GiB disk
  tantalum log create wal.toml --device a --device b --backing disk
  tantalum log create wal.toml --device /dev/sdb --device /dev/sdc --copies 2
  tantalum log serve wal.toml --unix wal.sock

All devices exist already; nothing is changed unless all of them can be used. The
backing keeps what it holds, but for its last two blocks. It must not be sparse.
Exit codes: 0, the log is made; 1, something failed while it was written; 2, a
device cannot be used, or there is such a description already.")]
pub struct CreateArguments {
    /// The description to write: NAME.toml
    description: PathBuf,
    /// A device of the log: a file, a block device or model:NAME:SIZE; may be given several times
    #[arg(long = "device", value_name = "PATH", required = true)]
    devices: Vec<PathBuf>,
    /// A device that is good at large sequential writes, and gets everything in large pieces
    #[arg(long, value_name = "PATH")]
    archive: Option<PathBuf>,
    /// The device to which the volume over the log writes later
    #[arg(long, value_name = "PATH")]
    backing: Option<PathBuf>,
    /// On how many devices each record is before it counts as durable
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=2))]
    copies: u8,
    /// Parts that each device is divided into: 2 to 4 help some single solid-state drives
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    partitions: u16,
    /// Never write slow writes again on another device. (That takes io_uring.)
    #[arg(long)]
    no_hedging: bool,
    /// Destroy what the devices hold, and overwrite the description
    #[arg(long)]
    force: bool,
}

/// Runs the command; returns the exit code.
pub fn create(arguments: &CreateArguments) -> u8 {
    match try_create(arguments) {
        Ok(text) => out::bytes(text.as_bytes()),
        Err((why, code)) => out::error(why, code),
    }
}

fn try_create(arguments: &CreateArguments) -> Result<String, (String, u8)> {
    let usage = |why| (why, out::USAGE);
    let (path, name) = (&arguments.description, arguments.description.display());
    if !is_description(path) {
        return Err(usage(format!("{name}: a description has a name that ends with .toml")));
    }
    if path.exists() && !arguments.force {
        return Err(usage(format!("there is a {name} already: --force overwrites it")));
    }
    let whole = |path: &PathBuf| match is_model(path) {
        true => path.clone(),
        false => std::path::absolute(path).unwrap_or_else(|_| path.clone()),
    };
    let description = Description {
        devices: arguments.devices.iter().map(whole).collect(),
        archive: arguments.archive.as_ref().map(whole),
        backing: arguments.backing.as_ref().map(whole),
        copies: arguments.copies,
        partitions: arguments.partitions,
        hedging: !arguments.no_hedging,
    };
    description.check().map_err(usage)?;
    let text = description.text().map_err(usage)?;
    let sink = out::Sink::open(path).map_err(usage)?;
    let mut runtime = runtime().map_err(usage)?;
    let rt = runtime.handle();
    let devices = Devices::open(&rt, &description, false).map_err(usage)?;
    let identity = random().map_err(|e| usage(format!("no identity for the log: {e}")))?;
    let (force, identity) = (arguments.force, Some(identity));
    let options = CreateOptions { force, identity, ..description.options() };
    let bytes: u64 = devices.array.iter().map(|(_, d)| d.device().caps().bytes()).sum();
    let modelled = description.is_modelled();
    let format = {
        let description = description.clone();
        async move {
            match description.backing {
                // It is made anew whenever it is served.
                _ if modelled => Ok(()),
                Some(_) => {
                    let volume = devices.volume(&rt, &description, false, false).map_err(usage)?;
                    volume.format(&options).await.map_err(|e| usage(in_words(e)))
                }
                None => {
                    let array: Vec<_> = devices.array.iter().map(linked).collect();
                    let archive = devices.archive.as_ref().map(linked);
                    let made = Log::create(&rt, &array, archive.as_ref(), &options).await;
                    made.map_err(|e| (in_words(&e), code(&e)))
                }
            }
        }
    };
    let failed = |why| (why, out::FAILED);
    runtime.block_on(format).map_err(|e| failed(format!("the log has stalled: {e}")))??;
    match sink.put(&text) {
        out::OK => Ok(said(path, &description, bytes)),
        _ => Err(failed(format!(
            "{name} could not be written; the log is made: try again with --force"
        ))),
    }
}

fn said(path: &Path, of: &Description, bytes: u64) -> String {
    let volume = match &of.backing {
        Some(backing) => format!(", and a volume over {}", backing.display()),
        None => String::new(),
    };
    let archive = if of.archive.is_some() { " and an archive" } else { "" };
    format!(
        "{}: a log on {} devices of {} together{archive}, copies: {}{volume}\n",
        path.display(),
        of.devices.len(),
        tantalum_device::bytes_in_words(bytes),
        of.copies
    )
}
