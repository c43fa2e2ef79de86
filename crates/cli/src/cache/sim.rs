//! `tantalum cache sim`.
//!
//! 1. The same trace with the same options gives the same bytes, unless `--time` is asked for.
//! 2. Counts are those of the whole replay, with the time in which the cache fills.

use super::recording::{self, OWN, Recording};
use super::size::Size;
use crate::bar::Began;
use crate::counted::counted;
use crate::interrupt::{self, Finished};
use crate::trace::{Event, formats};
use crate::{out, units};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::path::PathBuf;
use tantalum_cache::policy::sim::Sim;
use tantalum_cache::policy::{Admit, Config, Kind, Mode};
use tantalum_device::bytes_in_words;
use tantalum_workload::trace::{Format, Options};

/// Arguments of `tantalum cache sim`.
#[derive(Args, Clone)]
#[command(after_help = "\
Examples:
  tantalum cache sim                                 all policies on the trace that is built in
  tantalum cache sim --policy mvfifo,gsc --size 12000,25000
  tantalum cache sim web.log --page 4KiB --size 1GiB --ghosts
  tantalum cache sim prxy_0.csv --mode through --json
  blkparse -i sda | tantalum cache sim --page 4KiB -

Policies: mvfifo and gsc (FaCE: sequential batches; group second chance), lc (lazy
cleaning: LRU-2 in place), tac (temperatures), bcache-lru and bcache-fifo (buckets of
512 KiB), lru, clock, s3-fifo and sieve (in place), none. docs/cache.md has their rules.
Traces: those of `tantalum trace info`, also packed with xz. A read is a page that RAM
missed, a write a dirty page that left RAM. Traces are kept in memory: 16 bytes for each
page of each request.
Columns: read hits, the share of reads that flash answered; disk writes, against a disk
alone; flash writes, with those of metadata; sequential, the share of these that begin
where the one before ended; old, the share of frames with superseded versions.
Exit codes: 0; 2, a trace or an option makes no sense; 130, interrupted: the rows that
have ended are printed.")]
pub struct SimArguments {
    /// Traces; - is standard input [default: one that is built in, PostgreSQL under TPC-C]
    traces: Vec<PathBuf>,
    /// Policies, with commas between [default: all]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = policies())]
    policy: Vec<Kind>,
    /// Sizes of the cache: pages (12000), bytes (100MiB), or a share of the pages that the trace
    /// touches (10%)
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "10%,20%")]
    size: Vec<Size>,
    /// Bytes of a page
    #[arg(long, value_name = "SIZE", default_value = "8KiB", value_parser = units::bytes)]
    page: u64,
    /// Pages of a batch of mvfifo and gsc
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = units::whole::<u32>(..))]
    batch: u32,
    /// When dirty pages go to the slow store: back, when they leave flash; through, at once
    #[arg(long, value_enum, default_value_t = Sync::Back)]
    mode: Sync,
    /// Which pages mvfifo and gsc admit
    #[arg(long, value_enum, default_value_t = Entry::Mixed)]
    admit: Entry,
    /// The share of dirty frames above which lc cleans
    #[arg(long, value_name = "PERCENT", default_value = "90%", value_parser = units::whole_percent)]
    dirty: u8,
    /// Keep scans out: after so many consecutive pages clean ones no longer enter
    #[arg(long, value_name = "PAGES", value_parser = units::whole::<u32>(..))]
    scan: Option<u32>,
    /// Say what twice the size would gain in read hits, from ghost entries of one in eight pages
    #[arg(long)]
    ghosts: bool,
    /// Replay each trace so many times, one after the other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole::<u32>(1..))]
    rounds: u32,
    /// Replay the first 100,000 pages of a trace
    #[arg(long)]
    quick: bool,
    /// Say how long each replay took on this machine
    #[arg(long)]
    time: bool,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
    /// The format of the traces [default: recognised from their contents]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<Format>,
    /// Which of blkparse's events count as requests
    #[arg(long, value_enum, default_value_t = Event::Queued)]
    event: Event,
}

fn policies() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| name.parse::<Kind>())
}

/// [`Mode`] on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum Sync {
    Back,
    Through,
}

/// [`Admit`] on the command line.
#[derive(Clone, Copy, ValueEnum)]
enum Entry {
    Mixed,
    Clean,
    Dirty,
}

/// Ghosts are of one in so many pages.
const ONE_IN: u32 = 8;
/// Pages of a trace with `--quick`.
const QUICK: usize = 100_000;

/// One replay. The names are those of the JSON.
#[derive(Serialize)]
struct Row {
    trace: String,
    policy: &'static str,
    pages: u32,
    reads: u64,
    read_hits: u64,
    hit_rate: Option<f64>,
    writes: u64,
    slow_writes: u64,
    slow_write_change: Option<f64>,
    flash_reads: u64,
    flash_read_bytes: u64,
    flash_writes: u64,
    flash_write_bytes: u64,
    metadata_writes: u64,
    sequential_share: Option<f64>,
    mean_write_bytes: Option<f64>,
    write_bytes_per_hit: Option<f64>,
    frames_used: u64,
    frames_valid: u64,
    frames_dirty: u64,
    flash_bytes: u64,
    twice_gain: Option<f64>,
    seconds: Option<f64>,
}

#[derive(Serialize)]
struct Document {
    page_bytes: u64,
    rounds: u32,
    rows: Vec<Row>,
}

/// Runs the command; returns the exit code.
pub fn sim(arguments: &SimArguments) -> u8 {
    let of = arguments.clone();
    let finished = Finished::printed_at_interrupt(move |rows: Vec<Row>| {
        let ended = rows.len();
        if of.json || ended > 0 {
            print(&of, rows);
        }
        interrupt::over(&names(&of), ended);
    });
    match replay_all(arguments, &finished) {
        Ok(()) => finished.end(|rows| print(arguments, rows)),
        Err(message) => out::error(message, out::USAGE),
    }
}

fn print(arguments: &SimArguments, rows: Vec<Row>) -> u8 {
    let SimArguments { page: page_bytes, rounds, .. } = *arguments;
    match arguments.json {
        true => out::json(&Document { page_bytes, rounds, rows }),
        false => out::bytes(table(arguments, &rows).as_bytes()),
    }
}

/// What all rows are called, in the order of [`replay_all`].
fn names(arguments: &SimArguments) -> Vec<String> {
    let own = [PathBuf::from(OWN)];
    let traces = if arguments.traces.is_empty() { &own[..] } else { &arguments.traces };
    let mut names = Vec::new();
    for trace in traces {
        for size in &arguments.size {
            for kind in kinds(arguments) {
                let name = format!("{} at {size}", kind.name());
                names.push(match traces {
                    [_] => name,
                    _ => format!("{}: {name}", trace.display()),
                });
            }
        }
    }
    names
}

fn replay_all(arguments: &SimArguments, finished: &Finished<Row>) -> Result<(), String> {
    let page_bytes = u32::try_from(arguments.page)
        .map_err(|_| format!("--page: pages of {} bytes are too large", arguments.page))?;
    let options = Options {
        format: arguments.format,
        blkparse_event: arguments.event.into(),
        page_size: page_bytes,
    };
    let most = if arguments.quick { QUICK } else { usize::MAX };
    let replay = |recording: &Recording| -> Result<(), String> {
        for &size in &arguments.size {
            for kind in kinds(arguments) {
                finished.add(replay(arguments, recording, kind, size, page_bytes)?);
            }
        }
        Ok(())
    };
    // The options are looked at before a long trace is read.
    probe(arguments, page_bytes)?;
    if arguments.traces.is_empty() {
        replay(&recording::own(&options, page_bytes, most)?)?;
    }
    for path in &arguments.traces {
        replay(&recording::from_file(path, &options, page_bytes, most)?)?;
    }
    Ok(())
}

fn kinds(arguments: &SimArguments) -> Vec<Kind> {
    match arguments.policy.is_empty() {
        true => Kind::ALL.to_vec(),
        false => arguments.policy.clone(),
    }
}

/// Whether the options make caches, of any size.
fn probe(arguments: &SimArguments, page_bytes: u32) -> Result<(), String> {
    for kind in kinds(arguments) {
        let config = config(arguments, kind, 0, page_bytes);
        let frames = config.frames_min();
        Config { frames, ..config }.build().map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn config(arguments: &SimArguments, kind: Kind, frames: u32, page_bytes: u32) -> Config {
    Config {
        batch: arguments.batch,
        mode: match arguments.mode {
            Sync::Back => Mode::Back,
            Sync::Through => Mode::Through,
        },
        admit: match arguments.admit {
            Entry::Mixed => Admit::Mixed,
            Entry::Clean => Admit::Clean,
            Entry::Dirty => Admit::Dirty,
        },
        dirty_percent: arguments.dirty,
        scan: arguments.scan,
        ..Config::new(kind, frames, page_bytes)
    }
}

fn replay(
    arguments: &SimArguments,
    recording: &Recording,
    kind: Kind,
    size: Size,
    page_bytes: u32,
) -> Result<Row, String> {
    let pages = size.frames(page_bytes, recording.touched)?;
    let config = config(arguments, kind, pages, page_bytes);
    let ghosts = (arguments.ghosts && kind != Kind::None).then_some(ONE_IN);
    let mut sim = Sim::new(&config, ghosts).map_err(|e| {
        let of = if ghosts.is_some() { " (or its ghosts)" } else { "" };
        let pages = counted(pages.into(), "page", "pages");
        format!("{}, a cache of {pages}{of}: {e}; see --size", recording.name)
    })?;
    let began = Began::now();
    for _ in 0..arguments.rounds {
        recording.ios.iter().for_each(|&io| sim.step(io));
    }
    let seconds = began.seconds();
    let (counts, occupancy) = (sim.counts(), sim.occupancy());
    Ok(Row {
        trace: recording.name.clone(),
        policy: kind.name(),
        pages,
        reads: counts.reads,
        read_hits: counts.read_hits,
        hit_rate: counts.hit_rate(),
        writes: counts.writes,
        slow_writes: counts.slow_writes,
        slow_write_change: counts.slow_write_change(),
        flash_reads: counts.flash_reads,
        flash_read_bytes: counts.flash_read_bytes,
        flash_writes: counts.flash_writes,
        flash_write_bytes: counts.flash_write_bytes,
        metadata_writes: counts.metadata_writes,
        sequential_share: counts.sequential_share(),
        mean_write_bytes: counts.mean_write_bytes(),
        write_bytes_per_hit: counts.write_bytes_per_hit(),
        frames_used: occupancy.used,
        frames_valid: occupancy.valid,
        frames_dirty: occupancy.dirty,
        flash_bytes: sim.flash_bytes(),
        twice_gain: sim.estimate().map(|e| e.gain()),
        seconds: arguments.time.then_some(seconds),
    })
}

fn table(arguments: &SimArguments, rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    let mut titles = vec!["trace"];
    titles.extend(["policy", "pages", "read\nhits", "disk\nwrites", "flash\nwrites"]);
    titles.extend(["sequen-\ntial", "mean\nwrite", "flash\nwritten", "written/\nhit", "old"]);
    titles.extend(arguments.ghosts.then_some("twice\nthe size"));
    titles.extend(arguments.time.then_some("seconds"));
    table.set_header(titles);
    for row in rows {
        table.add_row(cells(arguments, row));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if i > 1 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let name = |row: &Row| row.trace.clone();
    if rows.first().map(name) == rows.last().map(name)
        && let Some(column) = table.column_mut(0)
    {
        column.set_constraint(comfy_table::ColumnConstraint::Hidden);
    }
    let own = if arguments.traces.is_empty() { format!("{OWN}: ") } else { String::new() };
    let reads = counted(rows.first().map_or(0, |row| row.reads), "page", "pages");
    let writes = rows.first().map_or(0, |row| row.writes);
    match rows.first().map(name) == rows.last().map(name) {
        true => format!("{own}{reads} read, {writes} written\n\n{table}\n"),
        false => format!("{table}\n"),
    }
}

fn cells(arguments: &SimArguments, row: &Row) -> Vec<String> {
    let or_dash = |x: Option<f64>, show: fn(f64) -> String| x.map_or("-".into(), show);
    let old = (row.frames_used > 0).then(|| 1.0 - row.frames_valid as f64 / row.frames_used as f64);
    let mut cells = vec![
        row.trace.clone(),
        row.policy.to_string(),
        row.pages.to_string(),
        or_dash(row.hit_rate, |x| format!("{x:.3}")),
        or_dash(row.slow_write_change, |x| format!("{:+.1} %", x * 100.0)),
        row.flash_writes.to_string(),
        or_dash(row.sequential_share, |x| format!("{:.1} %", x * 100.0)),
        or_dash(row.mean_write_bytes, |x| bytes_in_words(x as u64)),
        bytes_in_words(row.flash_write_bytes),
        or_dash(row.write_bytes_per_hit, |x| bytes_in_words(x as u64)),
        or_dash(old, |x| format!("{:.1} %", x * 100.0)),
    ];
    if arguments.ghosts {
        cells.push(or_dash(row.twice_gain, |x| format!("{x:+.3}")));
    }
    if arguments.time {
        cells.push(or_dash(row.seconds, |x| format!("{x:.2}")));
    }
    cells
}
