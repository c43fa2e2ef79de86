//! `tantalum log replace`: by the process that serves the log, or here if nobody does.
//!
//! 1. The description is written once the new device has its place, and not before.
//! 2. A command that was interrupted is repeated as it was: what it has copied is found, and so is a
//!    new device that has its place already, and everything.
//! 3. What is refused changes nothing. In particular the device that is said to be lost, and may be
//!    well, is not declared lost.

use crate::drive::remote;
use crate::members::{
    Description, Devices, ONE_COPY, Replaced, absolute, in_words, in_words_of_replace, log_code,
    no_device, open_code, runtime,
};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tantalum_device::BlockDevice;
use tantalum_export::control::{Client, ClientError, Kind, ReplaceReport};
use tantalum_log::{DeviceDescription, Log, LogDevice, Lsn, OpenError, OpenOptions};
use tantalum_nand::Opening;

/// Arguments of `tantalum log replace`.
#[derive(Args)]
#[command(
    override_usage = "tantalum log replace [OPTIONS] --lost <PATH> --with <PATH> <LOG.toml|SOCKET>",
    after_help = "\
Examples:
  fallocate -l 1GiB c
  tantalum log replace wal.toml --lost b --with c
  tantalum log replace wal.control --lost b --with c    that of --control wal.control

For a log with two copies. The log may be served meanwhile: then its process does it,
while the volume is used; the device must be lost to the log (`tantalum log status`).
The lost device is not touched and need not be there any more; what it holds does not
count from then on. The new one gets everything from the checkpoint on, and takes its
place in the description. In the place of an archive comes a device like the others.
If the command is interrupted, repeat it.
Exit codes: 0, the log has all its copies again; 1, something failed; 2, a device
cannot be used, or the log has no such device, or it is not lost."
)]
pub struct ReplaceArguments {
    /// The description of the log, or the control socket of the process that serves it
    #[arg(value_name = "LOG.toml|SOCKET")]
    log: PathBuf,
    /// The device that is lost, as the description names it
    #[arg(long, value_name = "PATH")]
    lost: PathBuf,
    /// The device that takes its place: a file, a block device or the image of a drive
    #[arg(long = "with", value_name = "PATH")]
    new: PathBuf,
    /// Destroy what the new device holds
    #[arg(long)]
    force: bool,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// What was done, as docs/json.md has it.
#[derive(Serialize)]
struct Report {
    log: String,
    lost: String,
    new: String,
    /// The new device has everything from here ...
    first: u64,
    /// ... to here.
    end: u64,
    /// It was copied now; else the device had that place already.
    copied: bool,
}

type Failed = (String, u8);

/// Runs the command; returns the exit code.
pub fn replace(arguments: &ReplaceArguments) -> u8 {
    let replaced = match remote::served(&arguments.log) {
        Ok(Some(client)) => ask(client, arguments),
        Ok(None) => try_replace(arguments),
        Err(why) => Err((why, out::USAGE)),
    };
    let report = match replaced {
        Ok(ReplaceReport { first, end, copied }) => Report {
            log: arguments.log.display().to_string(),
            lost: arguments.lost.display().to_string(),
            new: arguments.new.display().to_string(),
            first,
            end,
            copied,
        },
        Err((why, code)) => return out::error(why, code),
    };
    match arguments.json {
        true => out::json(&report),
        false => out::bytes(said(&report).as_bytes()),
    }
}

fn said(of: &Report) -> String {
    let (first, end) = (Lsn(of.first), Lsn(of.end));
    let already = if of.copied { "" } else { "; it had them already" };
    format!(
        "{}: \"{}\" has everything from {first} to {end}, and the place of \"{}\"{already}\n",
        of.log, of.new, of.lost
    )
}

/// What to say when it begins, since it may take a while.
fn begins(arguments: &ReplaceArguments) -> String {
    let (log, new) = (arguments.log.display(), arguments.new.display());
    format!("{log}: \"{new}\" gets what the log has ...")
}

/// Asks the process that serves the log.
fn ask(mut client: Client, arguments: &ReplaceArguments) -> Result<ReplaceReport, Failed> {
    let whole = |path: &Path| match absolute(path).into_os_string().into_string() {
        Ok(text) => Ok(text),
        Err(path) => Err((format!("{}: the path is no text", path.display()), out::USAGE)),
    };
    let (lost, new) = (whole(&arguments.lost)?, whole(&arguments.new)?);
    let log = arguments.log.display();
    out::note(format_args!(
        "{log}: the process that serves it is asked to put \"{}\" in the place of \"{}\" ...",
        arguments.new.display(),
        arguments.lost.display()
    ));
    client.replace(&lost, &new, arguments.force).map_err(|e| match &e {
        // What is copied, and a place that it has already, are found by the next one (2).
        ClientError::Gone => (
            format!(
                "{log}: the process that serves it has ended, or has closed this connection, before \
                 it said that the device is replaced: repeat the command"
            ),
            out::FAILED,
        ),
        ClientError::Refused(refusal) if refusal.kind == Kind::Device => {
            (format!("{log}: {e}"), out::USAGE)
        }
        _ => (format!("{log}: {e}"), remote::exit_code(&e)),
    })
}

/// The index of the only device of the log that is not among these; `None` if that is not known.
async fn missing<D: BlockDevice>(others: &[LogDevice<D>]) -> Option<usize> {
    let mut known = BTreeSet::new();
    let mut all = 0;
    for other in others {
        if let Ok(device) = DeviceDescription::read(other).await {
            known.insert(device.index);
            all = device.devices;
        }
    }
    let missing: Vec<usize> = (0..all).filter(|index| !known.contains(index)).collect();
    (missing.len() == 1).then(|| missing[0])
}

/// # Errors
/// That a device which has the place already lacks something of the log.
async fn whole<D: BlockDevice + Clone + 'static>(log: &Log<D>, new: &str) -> Result<(), Failed> {
    let parts = log.one_copy().await.map_err(|e| (in_words(&e), log_code(&e)))?;
    match parts.first() {
        None => Ok(()),
        Some(part) => Err((
            format!(
                "\"{new}\" has the place already, and not everything: {part}: --force writes all of it \
                 anew"
            ),
            out::FAILED,
        )),
    }
}

fn try_replace(arguments: &ReplaceArguments) -> Result<ReplaceReport, Failed> {
    let usage = |why| (why, out::USAGE);
    let failed = |why: String| (why, out::FAILED);
    let (path, name) = (&arguments.log, arguments.log.display().to_string());
    let (lost, new) = (absolute(&arguments.lost), absolute(&arguments.new));
    let (new_name, new_path) = (new.display().to_string(), new.clone());
    let before = Description::lasting(path).map_err(usage)?;
    let replaced = before.replaced(&lost, &new);
    let known = replaced.map_err(|why| usage(format!("{name}: {why}")))?;
    let Replaced { of: description, index, unknown } = known;
    let text = description.text().map_err(usage)?;
    let sink = out::Sink::open(path).map_err(usage)?;
    if let Some(why) = no_device(&new_path) {
        let why = format!(
            "\"{new_name}\" {why}: name a file or block device as large as the other devices"
        );
        return Err(usage(why));
    }
    let mut runtime = runtime().map_err(failed)?;
    let rt = runtime.handle();
    let opened = Devices::open(&rt, &description, Opening::default()).map_err(usage)?;
    let (members, force) = (opened.members(), arguments.force);
    let begins = begins(arguments);
    let work = async move {
        members.power_on().await.map_err(failed)?;
        let mut devices = opened.of_log();
        let at = devices.iter().position(|device| device.name == new_name);
        let at = at.ok_or_else(|| usage(format!("{new_name}: name a device that is there")))?;
        let new = devices.remove(at);
        if devices.is_empty() {
            return Err(usage(match before.copies < 2 {
                true => ONE_COPY.to_string(),
                false => format!(
                    "{name}: no other device of the log is there from which \"{new_name}\" could get \
                     what the log has"
                ),
            }));
        }
        // The description may name the devices in any order.
        let index = missing(&devices).await.unwrap_or(index);
        let place = Log::place_of(&devices, &new).await.map_err(|e| failed(in_words(e)))?;
        let copied = match place {
            None => true,
            Some(place) if place == index => force || lost == new_path,
            Some(place) => {
                let why =
                    format!("\"{new_name}\" is device {place} of the log already: name another");
                return Err(usage(why));
            }
        };
        if let (Some(unknown), true) = (unknown, copied) {
            return Err(usage(format!("{name}: {unknown}")));
        }
        if !copied {
            devices.push(new.clone());
        }
        let refused = |e| match e {
            OpenError::Missing { .. } if before.copies < 2 => usage(ONE_COPY.to_string()),
            e => (in_words_of_replace(&e), open_code(&e)),
        };
        // What is refused changes nothing: the lost device may be well.
        let options = OpenOptions { degraded: copied, ..before.open_options() };
        let reading = OpenOptions { read_only: true, ..options.clone() };
        let mut log = Log::open(&rt, devices.clone(), reading).await.map_err(refused)?;
        if copied {
            let can = log.can_replace(index, &new, force).await;
            can.map_err(|e| (in_words_of_replace(&e), open_code(&e)))?;
            out::note(begins);
            log.close().await.map_err(|e| failed(in_words(e)))?;
            log = Log::open(&rt, devices, options).await.map_err(refused)?;
            let replaced = log.replace(index, new, force).await;
            replaced.map_err(|e| (in_words_of_replace(&e), log_code(&e)))?;
        } else {
            whole(&log, &new_name).await?;
        }
        let (first, end) = (log.first().0, log.end().0);
        log.close().await.map_err(|e| failed(in_words(e)))?;
        members.end().await.map_err(failed)?;
        Ok(ReplaceReport { first, end, copied })
    };
    let ended = runtime.block_on(work);
    let report = ended.map_err(|e| failed(format!("the devices do not answer: {e}")))??;
    sink.try_put(&text).map_err(|e| {
        failed(format!(
            "{e}, and the device is replaced: repeat the command, so that the description says so"
        ))
    })?;
    Ok(report)
}
