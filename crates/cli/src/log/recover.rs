//! `tantalum log recover`.

use super::check::code;
use crate::members::{Description, Devices, in_words, runtime};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tantalum_device::{LiveBox, PowerCycle, StartError};
use tantalum_log::{Log, Lsn, OpenOptions};
use tantalum_nand::Opening;
use tantalum_rt::Nanos;

/// Arguments of `tantalum log recover`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum log recover wal.toml
  tantalum log recover wal.toml --salvage      keep what is before the damage
  tantalum log recover wal.toml --degraded     go on without a device (copies = 2)

Opens the log as a server would, and ends it in good order. With a backing it waits
until the backing has everything: then the log is empty.
Exit codes: 0, the log is whole; 1, it is damaged, or does not start; 2, there is no
such description, or a device of it cannot be opened.")]
pub struct RecoverArguments {
    /// The description of the log
    description: PathBuf,
    /// Open a damaged log with what is before the damage; what is behind it is lost
    #[arg(long)]
    salvage: bool,
    /// Open a log with two copies although a device is of no use, or is not there: that device is
    /// lost to it
    #[arg(long)]
    degraded: bool,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// What was found, as docs/json.md has it.
#[derive(Serialize)]
struct Report {
    log: String,
    /// Of a log without a backing: it is whole from here ...
    first: Option<u64>,
    /// ... to here.
    end: Option<u64>,
    /// Of one with a backing: so many changes were only in the log, and are in the backing now.
    replayed: Option<u64>,
}

/// How often it is asked whether the backing has everything.
const LOOK: Nanos = Nanos::from_millis(20);

/// Runs the command; returns the exit code.
pub fn recover(arguments: &RecoverArguments) -> u8 {
    match try_recover(&arguments.description, arguments.salvage, arguments.degraded) {
        Ok(report) if arguments.json => out::json(&report),
        Ok(report) => out::bytes(said(&report).as_bytes()),
        Err((why, code)) => out::error(why, code),
    }
}

fn said(Report { log, first, end, replayed }: &Report) -> String {
    match (replayed, first, end) {
        (Some(1), ..) => {
            format!("{log}: 1 change was only in the log; the backing has everything\n")
        }
        (Some(n), ..) => {
            format!("{log}: {n} changes were only in the log; the backing has everything\n")
        }
        (None, Some(first), Some(end)) => {
            format!("{log}: the log is whole, from {} to {}\n", Lsn(*first), Lsn(*end))
        }
        _ => format!("{log}: the log is whole\n"),
    }
}

fn try_recover(path: &Path, salvage: bool, degraded: bool) -> Result<Report, (String, u8)> {
    let usage = |why| (why, out::USAGE);
    let failed = |why: String| (why, out::FAILED);
    let mut description = Description::lasting(path).map_err(usage)?;
    if degraded {
        description.devices.retain(|device| {
            let is_there = device.exists();
            if !is_there {
                let (log, device) = (path.display(), device.display());
                out::note(format_args!(
                    "{device} is not there: what it holds does not count any more; `tantalum log \
                     replace {log} --lost {device} --with NEW` puts a new device in its place"
                ));
            }
            is_there
        });
    }
    let mut runtime = runtime().map_err(usage)?;
    let rt = runtime.handle();
    let devices = Devices::open(&rt, &description, Opening::default()).map_err(usage)?;
    let members = devices.members();
    let log_name = path.display().to_string();
    let work = async move {
        if description.backing.is_none() {
            members.power_on().await.map_err(failed)?;
            let options = OpenOptions { salvage, degraded, ..description.open_options() };
            let opened = Log::open(&rt, devices.of_log(), options).await;
            let log = opened.map_err(|e| (in_words(&e), code(&e)))?;
            let (first, end) = (log.first(), log.end());
            log.close().await.map_err(|e| failed(in_words(e)))?;
            members.end().await.map_err(failed)?;
            let (first, end) = (Some(first.0), Some(end.0));
            return Ok(Report { log: log_name, first, end, replayed: None });
        }
        let volume = devices.volume(&rt, &description, salvage, degraded).map_err(usage)?;
        match volume.bring_up(false).await {
            Ok(_) => {}
            Err(StartError::Failed(why)) => return Err(failed(in_words(why))),
            Err(_) => return Err(failed("the volume does not start".to_string())),
        }
        let replayed = volume.stats().map_or(0, |s| s.replayed);
        while volume.stats().is_some_and(|s| s.memory > 0) {
            if let Some(why) = volume.stopped() {
                return Err(failed(in_words(why)));
            }
            rt.sleep(LOOK).await;
        }
        volume.cut();
        volume.off().await;
        members.shut().map_err(failed)?;
        let replayed = Some(replayed);
        Ok(Report { log: log_name, first: None, end: None, replayed })
    };
    runtime.block_on(work).map_err(|e| failed(format!("the devices do not answer: {e}")))?
}
