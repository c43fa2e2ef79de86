//! `tantalum log recover`.

use crate::members::{Description, Devices, in_words, open_code, runtime, volume_code};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tantalum_device::{LiveBox, PowerCycle, StartError};
use tantalum_log::{Log, Lsn, OpenOptions, VolumeError};
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
Exit codes: 0, the log is whole; 1, it is damaged, or a device fails; 2, there is no
such description, or a device of it, or the backing, is wrong or in use.")]
pub struct RecoverArguments {
    /// The description of the log
    description: PathBuf,
    /// Open a damaged log with what is before the damage; what is behind it is lost
    #[arg(long)]
    salvage: bool,
    /// Open a log with two copies although a device is of no use, or is not there: that device is
    /// lost to it, and the log can be served without it. If it was served before without a device that did
    /// not answer, do not open it with that one alone: it does not know what it missed
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
    /// It was damaged here, and what was behind is lost (--salvage).
    salvaged: Option<String>,
    /// What else has to be said: devices that are lost.
    notes: Vec<String>,
}

/// How often it is asked whether the backing has everything.
const LOOK: Nanos = Nanos::from_millis(20);

/// Runs the command; returns the exit code.
pub fn recover(arguments: &RecoverArguments) -> u8 {
    match try_recover(&arguments.description, arguments.salvage, arguments.degraded) {
        Ok(report) if arguments.json => out::json(&report),
        Ok(report) => {
            for note in &report.notes {
                out::note(format_args!(
                    "{note}; `tantalum log replace` puts a new device in its place"
                ));
            }
            out::bytes(said(&report).as_bytes())
        }
        Err((why, code)) => out::error(why, code),
    }
}

fn said(report: &Report) -> String {
    let Report { log, first, end, replayed, salvaged, .. } = report;
    let what = match (replayed, first, end) {
        (Some(1), ..) => "1 change was only in the log; the backing has everything".to_string(),
        (Some(n), ..) => format!("{n} changes were only in the log; the backing has everything"),
        (None, Some(first), Some(end)) => {
            let is = if salvaged.is_some() { "salvaged" } else { "whole" };
            format!("the log is {is}, from {} to {}", Lsn(*first), Lsn(*end))
        }
        _ => "the log is whole".to_string(),
    };
    match salvaged {
        Some(damage) => format!("{log}: {damage}: the rest is lost; {what}\n"),
        None => format!("{log}: {what}\n"),
    }
}

fn try_recover(path: &Path, salvage: bool, degraded: bool) -> Result<Report, (String, u8)> {
    let usage = |why| (why, out::USAGE);
    let failed = |why: String| (why, out::FAILED);
    let description = Description::lasting(path).map_err(usage)?;
    let mut runtime = runtime().map_err(failed)?;
    let rt = runtime.handle();
    let devices = Devices::open(&rt, &description, Opening::default()).map_err(usage)?;
    let members = devices.members();
    let log_name = path.display().to_string();
    let work = async move {
        if description.backing.is_none() {
            members.power_on().await.map_err(failed)?;
            let open = |salvage| {
                let options = OpenOptions { salvage, degraded, ..description.open_options() };
                Log::open(&rt, devices.of_log(), options)
            };
            let (opened, salvaged) = match open(false).await {
                Err(e) if salvage && e.salvaged().is_some() => (open(true).await, e.salvaged()),
                opened => (opened, None),
            };
            let log = opened.map_err(|e| (in_words(&e), open_code(&e)))?;
            let notes = log.stats().without().into_iter().collect();
            let (first, end) = (log.first(), log.end());
            log.close().await.map_err(|e| failed(in_words(e)))?;
            members.end().await.map_err(failed)?;
            let (first, end) = (Some(first.0), Some(end.0));
            return Ok(Report { log: log_name, first, end, replayed: None, salvaged, notes });
        }
        let volume = devices.volume(&rt, &description, degraded).map_err(usage)?;
        let mut started = volume.bring_up(false).await;
        let salvaged = match volume.start_failure() {
            Some(VolumeError::Open(e)) if salvage => e.salvaged(),
            _ => None,
        };
        if salvaged.is_some() {
            started = volume.bring_up(true).await;
        }
        match (started, volume.start_failure()) {
            (Ok(_), _) => {}
            (_, Some(e)) => return Err((in_words(&e), volume_code(&e))),
            (Err(StartError::Failed(why)), _) => return Err(failed(in_words(why))),
            (Err(_), _) => return Err(failed("the volume does not start".to_string())),
        }
        let notes = volume.log_stats().and_then(|log| log.without()).into_iter().collect();
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
        Ok(Report { log: log_name, first: None, end: None, replayed, salvaged, notes })
    };
    runtime.block_on(work).map_err(|e| failed(format!("the devices do not answer: {e}")))?
}
