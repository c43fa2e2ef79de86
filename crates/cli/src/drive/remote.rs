//! `tantalum drive cut|restore|status|stats`: requests to the process that runs a drive.

use super::{size, words};
use crate::counted::counted;
use crate::members::{cache_told, is_cache, is_description};
use crate::out;
use clap::Args;
use serde::Serialize;
use std::fmt::Write;
use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use tantalum_export::control::{
    Client, ClientError, CutReport, Kind, Line, Power, RestoreReport, StatsReport, StatusReport,
    socket_beside,
};
use tantalum_nand::ImageFile;

/// Which drive, and the format of the answer.
#[derive(Args)]
pub struct Remote {
    /// The image of a running drive, or its control socket
    #[arg(value_name = "IMAGE|SOCKET")]
    drive: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `tantalum drive cut`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum drive cut disk.img              that of `tantalum drive serve disk.img`
  tantalum drive cut drive.control         that of --control drive.control
  tantalum drive cut disk.img --json | jq .discharge.complete

Exit codes: 0, the power is off (data lost from a volatile cache is no failure);
1, the emergency dump is not complete; 2, no such drive runs.")]
pub struct CutArguments {
    #[command(flatten)]
    remote: Remote,
}

/// Arguments of `tantalum drive restore`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum drive restore disk.img
  tantalum drive restore disk.img --salvage    even without its dump, or with damaged pages

Exit codes: 0, the drive has recovered; 1, it does not start; 2, no such drive
runs.")]
pub struct RestoreArguments {
    #[command(flatten)]
    remote: Remote,
    /// Start the drive even if its emergency dump is not complete, or pages that the start reads
    /// are damaged: data that only these had is lost
    #[arg(long)]
    salvage: bool,
}

/// Arguments of `tantalum drive status`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum drive status disk.img
  tantalum drive status disk.img --json | jq -r .power

Exit codes: 0, it runs, with or without power; 2, no such drive runs.")]
pub struct StatusArguments {
    #[command(flatten)]
    remote: Remote,
}

/// Arguments of `tantalum drive stats`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum drive stats disk.img
  tantalum drive stats disk.img --json | jq .drive.write_amplification

Exit codes: 0, it runs, with or without power; 2, no such drive runs.")]
pub struct StatsArguments {
    #[command(flatten)]
    remote: Remote,
}

/// Runs the command; returns the exit code.
pub fn cut(arguments: &CutArguments) -> u8 {
    let ask = |client: &mut Client| client.cut();
    answer(&arguments.remote, ask, cut_text, |r| r.complete)
}

/// Runs the command; returns the exit code.
pub fn restore(arguments: &RestoreArguments) -> u8 {
    let ask = |client: &mut Client| client.restore(arguments.salvage);
    answer(&arguments.remote, ask, restore_text, |_| true)
}

/// Runs the command; returns the exit code.
pub fn status(arguments: &StatusArguments) -> u8 {
    answer(&arguments.remote, Client::status, status_text, |_| true)
}

/// Runs the command; returns the exit code.
pub fn stats(arguments: &StatsArguments) -> u8 {
    answer(&arguments.remote, Client::stats, stats_text, |_| true)
}

fn answer<T: Serialize>(
    remote: &Remote,
    ask: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    text: impl FnOnce(&T) -> String,
    is_well: impl FnOnce(&T) -> bool,
) -> u8 {
    let report = match connect(&remote.drive) {
        Err(why) => return out::error(why, out::USAGE),
        Ok(mut client) => match ask(&mut client) {
            Ok(report) => report,
            Err(e) => return out::error(told(&remote.drive, &e), exit_code(&e)),
        },
    };
    let text = match remote.json {
        false => text(&report),
        true => match serde_json::to_string_pretty(&report) {
            Ok(json) => json + "\n",
            Err(e) => return out::error(e, out::FAILED),
        },
    };
    match out::bytes(text.as_bytes()) {
        out::OK if !is_well(&report) => out::FAILED,
        code => code,
    }
}

/// Why a request was not carried out. What does not start is named, and a cache in its words.
fn told(path: &Path, error: &ClientError) -> String {
    let name = path.display();
    match error {
        ClientError::Refused(refusal) if refusal.kind == Kind::DoesNotStart => {
            let is_cache = path.extension().is_some_and(|e| e == "toml") && is_cache(path);
            let why = if is_cache { cache_told(path, error) } else { error.to_string() };
            format!("{name}: {why}")
        }
        error => error.to_string(),
    }
}

/// The exit code for a request that was not carried out.
pub fn exit_code(error: &ClientError) -> u8 {
    match error {
        ClientError::Refused(refusal) => match refusal.kind {
            Kind::Version | Kind::TooManyClients => out::USAGE,
            _ => out::FAILED,
        },
        ClientError::Gone | ClientError::Nbd(_) => out::USAGE,
        _ => out::FAILED,
    }
}

/// Connects to the drive of this image, or at this control socket.
///
/// # Errors
/// Why there is none, in a line.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
pub fn connect(drive: &Path) -> Result<Client, String> {
    let name = drive.display();
    let is = std::fs::metadata(drive);
    let is_socket = is.as_ref().is_ok_and(|is| is.file_type().is_socket());
    let socket = if is_socket { drive.to_owned() } else { socket_beside(drive) };
    Client::connect(&socket).map_err(|e| match e {
        ClientError::NotThere(_) if is.as_ref().is_ok_and(Metadata::is_dir) => {
            format!("\"{name}\" is a folder: name the image of a drive, a description, or a control socket")
        }
        ClientError::NotThere(_) if is.is_ok() && is_file_alone(drive) => format!(
            "\"{name}\" does not run: it is neither an image nor a description. `tantalum drive serve --file \
             {name}` serves any file; if it is served, give its control socket"
        ),
        ClientError::NotThere(socket) if is.is_ok() => {
            let (noun, what) = kind(drive);
            format!(
                "{what} \"{name}\" does not run, or has its control socket elsewhere than at \"{}\": start it with \
                 `tantalum {noun} serve {name}` or `tantalum {noun} mount {name} DIR`, or give the socket",
                socket.display()
            )
        }
        ClientError::NotThere(socket) => format!(
            "there is neither \"{name}\" nor \"{}\": give {}, or its control socket",
            socket.display(),
            match is_description(drive) {
                true => "the description of a log or cache that `tantalum log serve` or `tantalum cache serve` runs",
                false => "the image of a drive that `tantalum drive serve` runs",
            }
        ),
        ClientError::NobodyListens(_) => {
            // A control socket has the name of what is served, and `.control`.
            let (noun, what) = kind(&if is_socket { drive.with_extension("") } else { drive.into() });
            format!(
                "{e}: {what} \"{name}\" does not run; its power went with the process, and comes back with \
                 `tantalum {noun} serve` or `tantalum {noun} mount`"
            )
        }
        e => e.to_string(),
    })
}

/// Connects to the process that serves what is at this path, or that has its control socket there;
/// `None`: nobody serves it.
///
/// # Errors
/// Why it cannot be asked, in a line.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
pub fn served(path: &Path) -> Result<Option<Client>, String> {
    let is_socket = std::fs::metadata(path).is_ok_and(|is| is.file_type().is_socket());
    if is_socket {
        return connect(path).map(Some);
    }
    match Client::connect(&socket_beside(path)) {
        Ok(client) => Ok(Some(client)),
        Err(ClientError::NotThere(_) | ClientError::NobodyListens(_)) => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}

/// Whether a file is neither the image of a drive nor a description.
fn is_file_alone(path: &Path) -> bool {
    !is_description(path) && ImageFile::is_at(path).is_ok_and(|is_image| !is_image)
}

/// The commands for what is in this file, and what it is: the description of a log or cache volume,
/// or else the image of a drive.
fn kind(path: &Path) -> (&'static str, &'static str) {
    match () {
        () if !is_description(path) => ("drive", "the drive in"),
        () if is_cache(path) => ("cache", "the volume of the cache"),
        () => ("log", "the volume of the log"),
    }
}

/// Lines of a name and a text.
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, text: impl std::fmt::Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{name:<11} {text}");
    }

    /// The lines of the box itself.
    fn all(&mut self, lines: &[Line]) {
        lines.iter().for_each(|line| self.add(&line.label, &line.text));
    }
}

fn cut_text(r: &CutReport) -> String {
    let mut lines = Lines(String::new());
    lines.add("cut", words::cut_in_a_line(r));
    if r.was != Power::On {
        return lines.0;
    }
    lines.all(&r.lines);
    lines.add("lost", lost_in_a_line(r));
    if !r.complete {
        let how = "`tantalum drive restore --salvage` rebuilds the map from the flash, if the drive \
                   does not start without the dump";
        lines.add("restore", how);
    }
    lines.add("real time", words::time(r.real_ns));
    lines.0
}

/// What a cut of a box that took commands may have lost.
fn lost_in_a_line(r: &CutReport) -> String {
    let blocks = counted(r.lost_blocks_at_most, "acknowledged block", "acknowledged blocks");
    match (r.complete, r.lost_blocks_at_most, r.acknowledged_is_safe) {
        (true, 0, true) => "nothing: acknowledged writes survive".to_string(),
        (true, 0, false) => "nothing: all acknowledged writes had been flushed".to_string(),
        (true, ..) => format!("up to {blocks} of 4 KiB"),
        (false, 0, _) => "no written block; discards may be undone".to_string(),
        (false, ..) => format!("up to {blocks} of 4 KiB; discards may be undone"),
    }
}

fn restore_text(r: &RestoreReport) -> String {
    let mut lines = Lines(String::new());
    lines.add("restored", words::restore_in_a_line(r));
    if r.was != Power::On {
        let phases: Vec<String> =
            r.phases.iter().map(|p| format!("{} {}", p.name, words::time(p.ns))).collect();
        if !phases.is_empty() {
            lines.add("phases", phases.join(", "));
        }
        if let Some(found) = &r.found {
            lines.add("found", found);
        }
        let times = (words::time(r.real_ready_ns), words::time(r.real_ns));
        lines.add("real time", format!("{} until it took commands, {} in all", times.0, times.1));
    }
    r.notes.iter().for_each(|note| lines.add("note", note));
    lines.0
}

/// The state in one word.
pub fn power(power: Power) -> &'static str {
    match power {
        Power::Off => "off",
        Power::Starting => "starting",
        Power::On => "on",
        Power::Dying => "dying",
    }
}

/// The state of a drive, in lines.
pub fn status_text(r: &StatusReport) -> String {
    let mut lines = Lines(String::new());
    let place = r.image.clone().unwrap_or_else(|| "memory".to_string());
    let what = match r.image.as_deref().map(Path::new) {
        Some(path) if is_description(path) => kind(path).0,
        _ => "drive",
    };
    lines.add(what, format!("{} of {}, in {place}", r.design, size(r.capacity_bytes)));
    lines.add("power", power(r.power));
    lines.add(
        "process",
        format!(
            "{}, for {}; time scale {}, seed {}",
            r.pid,
            words::time(r.real_now_ns),
            r.time_scale,
            r.seed
        ),
    );
    lines.all(&r.lines);
    lines.add("cuts", r.cuts);
    if let Some(cut) = &r.last_cut {
        lines.add("last cut", words::cut_in_a_line(cut));
    }
    if let Some(restore) = &r.last_restore {
        lines.add("restored", words::restore_in_a_line(restore));
    }
    if let Some(failure) = &r.failure {
        lines.add("failure", failure);
    }
    if let Some(defect) = &r.defect {
        lines.add("defect", format!("it takes no writes until it is restored: {defect}"));
    }
    lines.0
}

/// The counters of a drive, in lines.
pub fn stats_text(r: &StatsReport) -> String {
    let mut lines = Lines(String::new());
    lines.add("power", power(r.power));
    for (kind, c) in r.commands.iter().filter(|(_, c)| c.done + c.failed > 0) {
        let l = &c.latency;
        lines.add(
            kind,
            format!(
                "{} done, {} failed, {}; median {}, 99 % {}, longest {}",
                c.done,
                c.failed,
                size(c.bytes),
                words::time(l.p50_ns),
                words::time(l.p99_ns),
                words::time(l.max_ns)
            ),
        );
    }
    lines.add("under way", r.under_way);
    lines.all(&r.lines);
    if let Some(c) = &r.clients {
        let (used, most) = (size(c.memory_bytes), size(c.memory_most_bytes));
        let of = size(c.memory_limit_bytes);
        lines.add("clients", format!("{}; {used} of memory, at most {most}, of {of}", c.connected));
    }
    lines.add("cuts", r.values.count("outages.cuts").unwrap_or_default());
    lines.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_export::control::Values;

    /// What `cut` says of a drive with capacitors.
    fn said(lost_blocks_at_most: u64, complete: bool) -> String {
        cut_text(&CutReport {
            was: Power::On,
            acknowledged_is_safe: true,
            lost_blocks_at_most,
            real_ns: 1,
            complete,
            words: "off".to_string(),
            lines: Vec::new(),
            values: Values::default(),
        })
    }

    /// Without its dump the drive does not start, and has lost something: at least discards.
    #[test]
    fn a_cut_without_its_dump_never_lost_nothing() {
        let safe = said(0, true);
        assert!(safe.contains("lost        nothing: acknowledged writes survive\n"), "{safe}");
        assert!(!safe.contains("--salvage"), "{safe}");
        let weak = said(0, false);
        assert!(weak.contains("lost        no written block; discards may be undone\n"), "{weak}");
        assert!(weak.contains("--salvage") && !weak.contains("nothing"), "{weak}");
        for (blocks, words) in [(1, "1 acknowledged block of"), (2, "2 acknowledged blocks of")] {
            let weak = said(blocks, false);
            let lost = format!("lost        up to {words} 4 KiB; discards may be undone\n");
            assert!(weak.contains(&lost) && weak.contains("--salvage"), "{weak}");
        }
    }

    /// A name of the user's may be a word of the sentence.
    #[test]
    fn names_in_sentences_are_quoted() {
        let Err(why) = connect(Path::new("nothing")) else { panic!("there is no such drive") };
        assert!(why.starts_with("there is neither \"nothing\" nor \"nothing.control\": "), "{why}");
    }
}
