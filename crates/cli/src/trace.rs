//! `tantalum trace`: recorded block traces.

use crate::{input, out, units};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use std::io::{BufRead, BufReader, stdin};
use std::path::{Path, PathBuf};
use tantalum_rt::Nanos;
use tantalum_workload::trace::{
    BlkparseEvent, FOOTPRINT_BLOCK, Format, Options, Report, Requests, Summary, Trace,
};

/// Commands for traces.
#[derive(Subcommand)]
pub enum TraceCommand {
    /// Summarise a trace: how much is read and written, where, how often flushed
    Info(InfoArguments),
}

/// Arguments of `tantalum trace info`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum trace info prxy_0.csv
  tantalum trace info --json web.log
  xz -dc pages.u32.xz | tantalum trace info --format pages -
  blkparse -i sda | tantalum trace info --event issued -

Formats: fio-2 and fio-3 (fio's write_iolog), blkparse (its default output), msr
(MSR-Cambridge CSV), spc (UMass), systor (SYSTOR '17 CSV), disksim (ASCII), log-writes
(dm-log-writes), pages (little-endian u32: page number * 2 + 1 if written).")]
pub struct InfoArguments {
    /// The trace; - is standard input
    file: PathBuf,
    /// Its format [default: recognised from its contents]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<Format>,
    /// Print JSON, sizes in bytes, times in nanoseconds, null for unknown values
    #[arg(long)]
    json: bool,
    /// Which of blkparse's events count as requests
    #[arg(long, value_enum, default_value_t = Event::Queued)]
    event: Event,
    /// The size of a page in the format pages
    #[arg(long, value_name = "SIZE", default_value = "8KiB",
          value_parser = units::bytes_within::<u32>(1..=1 << 30, 1))]
    page_size: u32,
}

/// Reads the name of a format.
pub fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).try_map(|name| name.parse::<Format>())
}

/// The states of a request in blkparse's output.
#[derive(Clone, Copy, ValueEnum)]
pub enum Event {
    /// Q: as asked of the block layer
    Queued,
    /// D: as issued to the driver, after merging
    Issued,
    /// C: as completed
    Completed,
}

impl From<Event> for BlkparseEvent {
    fn from(event: Event) -> BlkparseEvent {
        match event {
            Event::Queued => BlkparseEvent::Queued,
            Event::Issued => BlkparseEvent::Issued,
            Event::Completed => BlkparseEvent::Completed,
        }
    }
}

/// The summary that is printed.
#[derive(serde::Serialize)]
struct Info {
    format: Format,
    skipped: u64,
    device_names: Vec<String>,
    #[serde(flatten)]
    report: Report,
}

/// How a trace comes to be.
const RECORDS: &str = "name a recorded trace, or - for standard input; `tantalum run EXPERIMENT --row \
                       ROW --log-writes FILE` records one";

/// Runs the command; returns the exit code.
pub fn trace(command: &TraceCommand) -> u8 {
    let TraceCommand::Info(arguments) = command;
    let info = match read(arguments) {
        Ok(info) => info,
        Err(message) => return out::error(message, out::USAGE),
    };
    if info.format == Format::Blkparse && info.report.events == 0 {
        let letter = BlkparseEvent::from(arguments.event).letter();
        out::note(format_args!("note: no {letter} events with data; see --event"));
    }
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&info).map(|json| json + "\n"),
        false => Ok(table(&info)),
    };
    match text {
        Ok(text) => out::bytes(text.as_bytes()),
        Err(e) => out::error(e, out::FAILED),
    }
}

fn read(arguments: &InfoArguments) -> Result<Info, String> {
    let options = Options {
        format: arguments.format,
        blkparse_event: arguments.event.into(),
        page_size: arguments.page_size,
    };
    let path = &arguments.file;
    if path == Path::new("-") {
        return summarise("standard input", stdin().lock(), &options);
    }
    let unreadable = |e: &std::io::Error| input::unreadable("the trace", path, e, RECORDS);
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    let file = std::fs::File::open(path).map_err(|e| unreadable(&e))?;
    if path.is_dir() {
        return Err(unreadable(&std::io::ErrorKind::IsADirectory.into()));
    }
    summarise(&path.display().to_string(), BufReader::with_capacity(1 << 18, file), &options)
}

fn summarise(name: &str, input: impl BufRead, options: &Options) -> Result<Info, String> {
    let mut trace = Trace::open(name, input, options).map_err(|e| e.to_string())?;
    let mut summary = Summary::new();
    for event in &mut trace {
        summary.add(&event.map_err(|e| e.to_string())?);
    }
    Ok(Info {
        format: trace.format(),
        skipped: trace.skipped(),
        device_names: trace.devices().to_vec(),
        report: summary.report(),
    })
}

fn table(info: &Info) -> String {
    let r = &info.report;
    let percent = |x: Option<f64>| x.map_or("-".into(), |x| format!("{:.1} %", x * 100.0));
    let number = |x: Option<f64>| x.map_or("-".into(), |x| format!("{x:.1}"));
    let footprint = |blocks: Option<u64>| {
        blocks.map_or("-".into(), |b| {
            format!("{b} blocks, {}", size(u128::from(b) * u128::from(FOOTPRINT_BLOCK)))
        })
    };
    let requests = |r: Requests| format!("{}, {}", r.count, size(r.bytes));
    let rows = [
        ("format", info.format.to_string()),
        ("events", r.events.to_string()),
        ("reads", requests(r.reads)),
        ("writes", requests(r.writes)),
        ("  with FUA", r.fua_writes.to_string()),
        ("  with flush before", r.preflush_writes.to_string()),
        ("flushes", r.flushes.to_string()),
        ("discards", requests(r.discards)),
        ("marks", r.marks.to_string()),
        ("not requests, passed over", info.skipped.to_string()),
        ("devices", r.devices.to_string()),
        ("footprint (4 KiB blocks)", footprint(r.footprint_blocks)),
        ("  read", footprint(r.footprint_read_blocks)),
        ("  written", footprint(r.footprint_written_blocks)),
        ("duration", r.duration_ns.map_or("-".into(), |ns| Nanos(ns).to_string())),
        ("mean request", r.mean_request_bytes.map_or("-".into(), |b| size(b as u128))),
        ("median request", r.median_request_bytes.map_or("-".into(), |b| size(b.into()))),
        ("sequential requests", percent(r.sequential_share)),
        ("writes on hottest 20 %", percent(r.hottest_fifth_share)),
        ("writes per flush", number(r.writes_per_flush)),
        ("flushes per second", number(r.flushes_per_second)),
    ];
    rows.map(|(name, value)| format!("{name:<26}{value}\n")).concat()
}

/// Bytes with a fitting unit.
fn size(bytes: u128) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while value >= 1024.0
        && let Some(next) = units.next()
    {
        (value, unit) = (value / 1024.0, Some(next));
    }
    format!("{value:.1} {}", unit.unwrap_or(&""))
}
