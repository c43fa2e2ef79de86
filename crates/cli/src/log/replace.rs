//! `tantalum log replace`.

use crate::members::{Description, Devices, in_words, log_code, open_code, runtime};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tantalum_log::{Log, Lsn, OpenError, OpenOptions};
use tantalum_nand::Opening;

const ONE_COPY: &str = "the log has one copy of each record, and what a lost device had is gone: \
                        create the log anew, with --copies 2 for the next time";

/// Arguments of `tantalum log replace`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fallocate -l 1GiB c
  tantalum log replace wal.toml --lost b --with c

For a log with two copies, while it is not served. The lost device is not touched and
need not be there any more; what it holds does not count from then on. The new one
gets everything from the checkpoint on, and takes its place in the description. In
the place of an archive comes a device like the others.
Exit codes: 0, the log has all its copies again; 1, something failed; 2, a device
cannot be used, or the log has no such device.")]
pub struct ReplaceArguments {
    /// The description of the log
    description: PathBuf,
    /// The device that is lost, as the description names it
    #[arg(long, value_name = "PATH")]
    lost: PathBuf,
    /// The device that takes its place
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
}

/// Runs the command; returns the exit code.
pub fn replace(arguments: &ReplaceArguments) -> u8 {
    match try_replace(arguments) {
        Ok(report) if arguments.json => out::json(&report),
        Ok(report) => out::bytes(said(&report).as_bytes()),
        Err((why, code)) => out::error(why, code),
    }
}

/// The description with `new` in the place of `lost`, and the number of that device.
fn replaced(of: &Description, lost: &Path, new: PathBuf) -> Option<(Description, usize)> {
    let mut of = of.clone();
    let index = of.devices.iter().chain(&of.archive).position(|path| path == lost)?;
    match of.devices.get_mut(index) {
        Some(device) => *device = new,
        None => {
            of.archive = None;
            of.devices.push(new);
        }
    }
    Some((of, index))
}

fn said(of: &Report) -> String {
    let (first, end) = (Lsn(of.first), Lsn(of.end));
    format!(
        "{}: {} has everything from {first} to {end}, and the place of {}\n",
        of.log, of.new, of.lost
    )
}

fn try_replace(arguments: &ReplaceArguments) -> Result<Report, (String, u8)> {
    let usage = |why| (why, out::USAGE);
    let failed = |why: String| (why, out::FAILED);
    let (path, name) = (&arguments.description, arguments.description.display());
    let whole = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let before = Description::lasting(path).map_err(usage)?;
    let (lost, new) = (whole(&arguments.lost), whole(&arguments.new));
    let new_name = new.display().to_string();
    let Some((description, index)) = replaced(&before, &lost, new) else {
        let known: Vec<String> = before.paths().map(|path| path.display().to_string()).collect();
        return Err(usage(format!(
            "{name} has no device {}: it has {}",
            lost.display(),
            known.join(", ")
        )));
    };
    let text = description.text().map_err(usage)?;
    let sink = out::Sink::open(path).map_err(usage)?;
    let mut runtime = runtime().map_err(failed)?;
    let rt = runtime.handle();
    let opened = Devices::open(&rt, &description, Opening::default()).map_err(usage)?;
    let (members, force) = (opened.members(), arguments.force);
    let work = async move {
        members.power_on().await.map_err(failed)?;
        let mut devices = opened.of_log();
        let at = devices.iter().position(|device| device.name == new_name);
        let at = at.ok_or_else(|| usage(format!("{new_name}: name a device that is there")))?;
        let new = devices.remove(at);
        let options = OpenOptions { degraded: true, ..before.open_options() };
        let opened = Log::open(&rt, devices, options).await;
        let log = opened.map_err(|e| match e {
            OpenError::Missing { .. } if before.copies < 2 => usage(ONE_COPY.to_string()),
            e => (in_words(&e), open_code(&e)),
        })?;
        let replaced = log.replace(index, new, force).await;
        replaced.map_err(|e| (in_words(&e), log_code(&e)))?;
        let (first, end) = (log.first(), log.end());
        log.close().await.map_err(|e| failed(in_words(e)))?;
        members.end().await.map_err(failed)?;
        Ok((first, end))
    };
    let ended = runtime.block_on(work);
    let (first, end) = ended.map_err(|e| failed(format!("the devices do not answer: {e}")))??;
    match sink.put(&text) {
        out::OK => Ok(Report {
            log: name.to_string(),
            lost: arguments.lost.display().to_string(),
            new: arguments.new.display().to_string(),
            first: first.0,
            end: end.0,
        }),
        _ => Err(failed(format!(
            "{name} could not be written, and the device is replaced: write this into it:\n{text}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_place_of_an_archive_comes_a_device_like_the_others() {
        let of = Description {
            devices: vec!["/a".into(), "/b".into()],
            archive: Some("/c".into()),
            backing: None,
            copies: 2,
            partitions: 1,
            hedging: true,
            latencies: Vec::new(),
            tables: Vec::new(),
        };
        let (now, index) = replaced(&of, Path::new("/a"), "/d".into()).expect("it is there");
        assert_eq!((now.devices, index), (vec!["/d".into(), "/b".into()], 0));
        let (now, index) = replaced(&of, Path::new("/c"), "/d".into()).expect("it is there");
        assert_eq!((now.devices.len(), now.archive, index), (3, None, 2));
        assert_eq!(replaced(&of, Path::new("/d"), "/e".into()), None);
    }
}
