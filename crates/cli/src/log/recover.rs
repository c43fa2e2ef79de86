//! `tantalum log recover`.

use super::check::code;
use crate::members::{Description, Devices, in_words, runtime};
use crate::out;
use clap::Args;
use std::path::{Path, PathBuf};
use tantalum_device::{LiveBox, PowerCycle, StartError};
use tantalum_log::{Log, OpenOptions};
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
}

/// How often it is asked whether the backing has everything.
const LOOK: Nanos = Nanos::from_millis(20);

/// Runs the command; returns the exit code.
pub fn recover(arguments: &RecoverArguments) -> u8 {
    match try_recover(&arguments.description, arguments.salvage, arguments.degraded) {
        Ok(text) => out::bytes(format!("{}: {text}\n", arguments.description.display()).as_bytes()),
        Err((why, code)) => out::error(why, code),
    }
}

fn try_recover(path: &Path, salvage: bool, degraded: bool) -> Result<String, (String, u8)> {
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
    let work = async move {
        if description.backing.is_none() {
            members.power_on().await.map_err(failed)?;
            let options = OpenOptions { salvage, degraded, ..description.open_options() };
            let opened = Log::open(&rt, devices.of_log(), options).await;
            let log = opened.map_err(|e| (in_words(&e), code(&e)))?;
            let (first, end) = (log.first(), log.end());
            log.close().await.map_err(|e| failed(in_words(e)))?;
            members.end().await.map_err(failed)?;
            return Ok(format!("the log is whole, from {first} to {end}"));
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
        Ok(format!("{replayed} changes were only in the log; the backing has everything"))
    };
    runtime.block_on(work).map_err(|e| failed(format!("the devices do not answer: {e}")))?
}
