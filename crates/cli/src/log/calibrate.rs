//! `tantalum log calibrate`: measures a device and writes a preset of the sampled device.
//!
//! 1. A file of its own has no name while it is measured: however that ends, nothing is left of it.
//!    What exists already is overwritten only with `--force`.
//! 2. The preset is held to the same measurement: the device that it describes is measured in
//!    virtual time with the same commands, and both are printed.
//! 3. Slow single writes are outliers of the preset, and are not in its quantiles: their times would
//!    stretch those of all others. They are told in bands, so that a few very slow ones do not make
//!    all others as slow. How often they come is that of small commands in sequence.

use crate::bar::Bar;
use crate::interrupt;
use crate::members::{Files, in_words, make, open, runtime};
use crate::{out, units};
use clap::Args;
use comfy_table::Table;
use serde::Serialize;
use std::path::PathBuf;
use tantalum_device::{
    Block, BlockDevice, Data, DataMut, Durability, FileSettings, IoError, LatencyRow, Outlier,
    Payload, PowerCycle, SampledModel, StreamKind,
};
use tantalum_log::BlockingOptions;
use tantalum_rt::{Nanos, Rt, Runtime};

/// Arguments of `tantalum log calibrate`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum log calibrate /mnt/stick -o stick.toml      a file on the drive of this folder
  tantalum log calibrate /dev/sdx --force -o sdx.toml  a device: what is on it is destroyed
  tantalum log bench --model ./stick.toml              the log on it, in virtual time
  tantalum log calibrate /mnt/stick --json | jq -r .preset > stick.toml

Reads, and writes that are durable before they end, in sequence and at random. The
preset has the times of this device now; that it slows down for seconds at a time is
not looked for. Its keys may also stand under [design.NAME] in an experiment.
Exit codes: 0; 1, the device failed; 2, it cannot be used; 130, interrupted: what has
been measured is printed, and there is no preset.")]
pub struct CalibrateArguments {
    /// A folder, whose drive is measured with a file of its own; or a file or block device
    path: PathBuf,
    /// Where the preset goes [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How much of the device is used
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::bytes)]
    size: u64,
    /// How long each of the ten measurements takes, at most
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = units::time)]
    length: Nanos,
    /// Overwrite what the file or device holds, and a preset that is there
    #[arg(long)]
    force: bool,
    /// Print the measurements and the preset as JSON (docs/json.md), and no table
    #[arg(long)]
    json: bool,
}

/// The least size of what is measured: sixteen of the largest commands.
const LEAST: u64 = 16 * LARGE as u64;
const SMALL: u32 = 4096;
const MIDDLE: u32 = 16 << 10;
const LARGE: u32 = 128 << 10;
/// Steps of the quantiles.
const STEPS: usize = 20;
/// A command is an outlier from this multiple of the median on.
const OUTLIER: u64 = 3;
/// Which shares of the outliers, the quickest first, are a band of their own each, up to so many
/// percent.
const BANDS: [usize; 3] = [50, 90, 100];
/// The quantile that stands for the longest of the usual times.
const TOP: f64 = 0.995;
/// Commands of a measurement, at least and at most.
const COMMANDS: (usize, usize) = (32, 200_000);

type Failed = (String, u8);

/// What is measured: a command, of which streams, and its bytes.
#[derive(Clone, Copy)]
struct Aim {
    write: bool,
    stream: StreamKind,
    bytes: u32,
}

/// An aim, and how long each command took, rising.
struct Measured {
    aim: Aim,
    took: Vec<Nanos>,
}

/// Runs the command; returns the exit code.
pub fn calibrate(arguments: &CalibrateArguments) -> u8 {
    match try_calibrate(arguments) {
        Ok(code) => code,
        Err((why, code)) => out::error(why, code),
    }
}

fn usage(why: impl std::fmt::Display) -> Failed {
    (in_words(why), out::USAGE)
}

fn failed(why: impl std::fmt::Display) -> Failed {
    (in_words(why), out::FAILED)
}

fn try_calibrate(arguments: &CalibrateArguments) -> Result<u8, Failed> {
    if arguments.size < LEAST {
        return Err(usage(format!("--size is at least {} MiB", LEAST >> 20)));
    }
    if let Some(output) = arguments.output.as_ref().filter(|path| path.is_file())
        && !arguments.force
    {
        let name = output.display();
        return Err(usage(format!("there is a file \"{name}\" already: --force overwrites it")));
    }
    let paths = arguments.output.iter().map(|path| ("--output", path.as_path()));
    out::distinct([("PATH", arguments.path.as_path())], paths).map_err(usage)?;
    let sink = arguments.output.as_deref().map(out::Sink::open).transpose().map_err(usage)?;
    let mut runtime = runtime().map_err(usage)?;
    let (rt, length) = (runtime.handle(), arguments.length);
    let (file, whole, _files) = device(&rt, arguments)?;
    let span = arguments.size.min(whole.unwrap_or(u64::MAX));
    if span < LEAST {
        let (path, need) = (arguments.path.display(), LEAST >> 20);
        return Err(usage(format!("\"{path}\" is too small: {need} MiB are needed")));
    }
    let bar = Bar::new(10, "{bar:30} {pos}/{len} measurements, {msg}");
    bar.end_at_interrupt();
    let shown = bar.clone();
    let measured = runtime.block_on(async move {
        file.power_on().await?;
        let device = file.device();
        let block = device.caps().block_size;
        let tell = |aim: Aim| {
            shown.set_message(aim.words());
            shown.advance(1, "measurements");
        };
        let is_over = || shown.is_over();
        Ok::<_, IoError>((measure(&rt, &device, span, length, is_over, tell).await?, block))
    });
    bar.clear();
    let ended = measured.map_err(|e| failed(format!("the device does not answer: {e}")))?;
    let path = arguments.path.display();
    let (measured, block) = ended.map_err(|e| failed(format!("{path}: {e}")))?;
    let names: Vec<String> = aims(block).into_iter().map(Aim::words).collect();
    if measured.len() < names.len() {
        return Ok(interrupted(arguments, &measured, &names));
    }
    let preset = preset(&measured, block, whole.unwrap_or(span));
    let again = simulate(&preset, span, measured.iter().map(|m| m.took.len()).max())?;
    let text = text(&preset).map_err(failed)?;
    let code = match arguments.json {
        true => out::json(&Report::new(path.to_string(), Some(&text), &measured, &again)),
        false => {
            out::note(table(&measured, &again));
            out::OK
        }
    };
    let code = match sink {
        Some(sink) => code.max(sink.put(&text)),
        None if arguments.json => code,
        None => out::bytes(text.as_bytes()),
    };
    Ok(match bar.is_over() {
        true => interrupt::over(&names, names.len()),
        false => code,
    })
}

/// Prints what was measured until an interrupt; returns the exit code.
fn interrupted(arguments: &CalibrateArguments, measured: &[Measured], names: &[String]) -> u8 {
    if arguments.json {
        out::json(&Report::new(arguments.path.display().to_string(), None, measured, &[]));
    } else if !measured.is_empty() {
        out::note(table(measured, &[]));
    }
    let code = interrupt::over(names, measured.len());
    out::note("there is no preset: it needs all measurements");
    if let Some(output) = &arguments.output {
        out::note(format_args!("not written: {}", output.display()));
    }
    code
}

/// What is measured: without power, its bytes unless it is a file made here, and what to remove.
#[allow(clippy::disallowed_methods, reason = "the edge: the path that the user names")]
fn device(
    rt: &Rt,
    arguments: &CalibrateArguments,
) -> Result<(tantalum_device::File, Option<u64>, Files), Failed> {
    let path = &arguments.path;
    let named = path.display();
    let is = std::fs::metadata(path)
        .map_err(|e| usage(format!("{named}: {e}: name a folder, a file or a block device")))?;
    let mut options = BlockingOptions::default();
    options.file.keep_room = true;
    if is.is_dir() {
        let own = path.join(format!("tantalum-calibrate-{}.tmp", std::process::id()));
        let files = Files(vec![own.clone()]);
        make(&own, arguments.size, &mut options)?;
        let file = open(rt, &own, &options.file).map_err(usage)?;
        // It is open: from here on it has no name.
        drop(files);
        return Ok((file, None, Files(Vec::new())));
    }
    if !arguments.force {
        return Err(usage(format!(
            "\"{named}\" would be overwritten: say --force, or name a folder"
        )));
    }
    let settings = FileSettings { keep_room: true, ..FileSettings::default() };
    let file = open(rt, path, &settings).map_err(usage)?;
    let bytes = file.device().caps().bytes();
    Ok((file, Some(bytes), Files(Vec::new())))
}

impl Aim {
    fn command(self) -> &'static str {
        if self.write { "write" } else { "read" }
    }

    fn words(self) -> String {
        let stream = match self.stream {
            StreamKind::Sequential => "in sequence",
            StreamKind::Random => "at random",
        };
        format!("{}s of {} KiB {stream}", self.command(), self.bytes >> 10)
    }
}

/// All aims: writes in sequence of the largest size come first, since the reads need something to
/// read.
fn aims(block: u32) -> Vec<Aim> {
    let mut aims = Vec::new();
    for (write, stream, sizes) in [
        (true, StreamKind::Sequential, &[LARGE, MIDDLE, SMALL][..]),
        (true, StreamKind::Random, &[SMALL, MIDDLE, LARGE]),
        (false, StreamKind::Sequential, &[SMALL, LARGE]),
        (false, StreamKind::Random, &[SMALL, LARGE]),
    ] {
        let sizes = sizes.iter().filter(|bytes| bytes.is_multiple_of(block));
        aims.extend(sizes.map(|&bytes| Aim { write, stream, bytes }));
    }
    aims
}

/// Carries out the commands of each aim on the first `span` bytes of a device. Once `is_over`, only
/// the aims are returned that were measured to their end.
async fn measure<D: BlockDevice>(
    rt: &Rt,
    device: &D,
    span: u64,
    length: Nanos,
    is_over: impl Fn() -> bool,
    tell: impl Fn(Aim),
) -> Result<Vec<Measured>, IoError> {
    let (block, ack) = (device.caps().block_size, device.caps().ack);
    let want = if ack.survives() { Durability::Normal } else { Durability::Fua };
    let mut dice = rt.stream("calibrate");
    let mut bytes = vec![0; LARGE as usize];
    dice.fill(&mut bytes);
    let mut all = Vec::new();
    for (i, aim) in aims(block).into_iter().enumerate() {
        tell(aim);
        let places = span / u64::from(aim.bytes);
        let each = u64::from(aim.bytes / block);
        // The first writes fill all of it.
        let least = if i == 0 { places as usize } else { COMMANDS.0 };
        let (began, mut took) = (rt.now(), Vec::new());
        while took.len() < least
            || rt.now().saturating_sub(began) < length && took.len() < COMMANDS.1
        {
            if is_over() {
                return Ok(all);
            }
            let place = match aim.stream {
                StreamKind::Sequential => took.len() as u64 % places,
                StreamKind::Random => dice.below(places),
            };
            let (at, part) = (Block(place * each), &mut bytes[..aim.bytes as usize]);
            let start = rt.now();
            match aim.write {
                true => device.write(at, Data::Bytes(part), want).await?,
                false => device.read(at, DataMut::Bytes(part)).await?,
            }
            took.push(rt.now().saturating_sub(start));
        }
        took.sort();
        all.push(Measured { aim, took });
    }
    Ok(all)
}

/// The value of which this share is below.
fn quantile(sorted: &[Nanos], share: f64) -> Nanos {
    let at = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

impl Measured {
    /// Those that are no outliers, and the outliers.
    fn parted(&self) -> (&[Nanos], &[Nanos]) {
        let bound = Nanos(quantile(&self.took, 0.5).0.saturating_mul(OUTLIER));
        self.took.split_at(self.took.partition_point(|took| *took <= bound))
    }
}

/// In µs, at least one.
fn micros(time: Nanos) -> u64 {
    (time.0.div_ceil(1000)).max(1)
}

/// The preset of what was measured.
fn preset(measured: &[Measured], block: u32, whole: u64) -> SampledModel {
    let row = |m: &Measured| {
        let (usual, _) = m.parted();
        let at = |step| micros(quantile(usual, (step as f64 / STEPS as f64).min(TOP)));
        LatencyRow {
            command: m.aim.command().to_string(),
            stream: Some(m.aim.stream),
            bytes: m.aim.bytes.into(),
            us: (0..=STEPS).map(at).collect(),
        }
    };
    // Measured are writes that are durable when they end.
    let latency = measured.iter().map(row).collect();
    SampledModel {
        outlier: [true, false].into_iter().flat_map(|write| outliers(measured, write)).collect(),
        ..SampledModel::plain(block, whole / u64::from(block), latency)
    }
}

/// The outliers of small writes or reads in sequence.
fn outliers(measured: &[Measured], write: bool) -> Vec<Outlier> {
    let is = |m: &&Measured| {
        m.aim.write == write && m.aim.stream == StreamKind::Sequential && m.aim.bytes == SMALL
    };
    let Some(of) = measured.iter().find(is) else { return Vec::new() };
    let (usual, slow) = of.parted();
    let median = quantile(usual, 0.5);
    let more = |took: &Nanos| micros(took.saturating_sub(median));
    let end = |percent: usize| (slow.len() * percent).div_ceil(100);
    let starts = [0].into_iter().chain(BANDS.map(end));
    let bands = starts.zip(BANDS.map(end)).map(|(from, to)| &slow[from..to]);
    let outlier = |band: &[Nanos]| {
        let (first, last) = (band.first()?, band.last()?);
        Some(Outlier {
            command: Some(of.aim.command().to_string()),
            one_in: (of.took.len() as f64 / band.len() as f64).round() as u64,
            us: [more(first), more(last)],
        })
    };
    bands.filter_map(outlier).collect()
}

/// The same measurement of the preset, in virtual time, with so many commands of each at most.
fn simulate(
    preset: &SampledModel,
    span: u64,
    commands: Option<usize>,
) -> Result<Vec<Measured>, Failed> {
    let (mut runtime, preset) = (Runtime::virtual_time(1), preset.clone());
    let rt = runtime.handle();
    // As many commands as there were, of the slowest.
    let slowest = preset.latency.iter().filter_map(|row| row.us.last()).max();
    let length = Nanos::from_micros(slowest.copied().unwrap_or(1))
        .0
        .saturating_mul(commands.unwrap_or(1).min(10_000) as u64);
    let work = async move {
        let device = preset.build(&rt, "calibrated", Payload::Bytes, None).map_err(failed)?;
        measure(&rt, &device.device(), span, Nanos(length), || false, |_| ()).await.map_err(failed)
    };
    runtime.block_on(work).map_err(|e| failed(format!("the preset stands still: {e}")))?
}

/// What was measured, as docs/json.md has it.
#[derive(Serialize)]
struct Report<'a> {
    path: String,
    /// The preset, as TOML; none after an interrupt.
    preset: Option<&'a str>,
    measurements: Vec<Measurement>,
}

/// The commands of one aim.
#[derive(Serialize)]
struct Measurement {
    /// "read" or "write".
    command: &'static str,
    /// "sequential" or "random".
    stream: StreamKind,
    bytes: u32,
    commands: usize,
    /// Quantiles of the device.
    measured: Quantiles,
    /// The same of its preset, in virtual time.
    preset: Option<Quantiles>,
}

#[derive(Serialize)]
struct Quantiles {
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
}

impl Quantiles {
    fn of(measured: &Measured) -> Quantiles {
        let at = |share| quantile(&measured.took, share).0;
        Quantiles { p50_ns: at(0.5), p99_ns: at(0.99), p999_ns: at(0.999) }
    }
}

impl<'a> Report<'a> {
    /// `again` is empty without a preset.
    fn new(
        path: String,
        preset: Option<&'a str>,
        measured: &[Measured],
        again: &[Measured],
    ) -> Self {
        let each = |(i, m): (usize, &Measured)| Measurement {
            command: m.aim.command(),
            stream: m.aim.stream,
            bytes: m.aim.bytes,
            commands: m.took.len(),
            measured: Quantiles::of(m),
            preset: again.get(i).map(Quantiles::of),
        };
        Report { path, preset, measurements: measured.iter().enumerate().map(each).collect() }
    }
}

/// Measured and simulated side by side; `again` is empty without a preset.
fn table(measured: &[Measured], again: &[Measured]) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    let title = if again.is_empty() { "measured" } else { "measured, preset" };
    table.set_header([title, "commands", "p50", "p99", "p99.9"]);
    for (i, m) in measured.iter().enumerate() {
        let both = |share| {
            let is = quantile(&m.took, share);
            match again.get(i) {
                Some(a) => format!("{is}, {}", quantile(&a.took, share)),
                None => is.to_string(),
            }
        };
        let commands = m.took.len().to_string();
        table.add_row([m.aim.words(), commands, both(0.5), both(0.99), both(0.999)]);
    }
    table.to_string()
}

/// The preset as a file.
fn text(preset: &SampledModel) -> Result<String, String> {
    let table = toml::to_string(preset).map_err(|e| format!("the preset is no TOML: {e}"))?;
    Ok(format!(
        "# A sampled device, measured by `tantalum log calibrate`: one command at a time, writes that\n\
         # are durable when they end. Latencies are quantiles at even steps, in \u{b5}s. `blocks` is the\n\
         # size of what was measured.\n{table}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(write: bool, took: Vec<u64>) -> Measured {
        let took = took.into_iter().map(Nanos::from_micros).collect();
        Measured { aim: Aim { write, stream: StreamKind::Sequential, bytes: SMALL }, took }
    }

    #[test]
    fn slow_single_commands_are_outliers_and_not_in_the_quantiles() {
        let mut writes = vec![100; 297];
        writes.extend([900, 1000, 5000]);
        let preset = preset(&[of(true, writes), of(false, vec![50; 10])], 512, 1 << 20);
        assert_eq!(preset.latency[0].us, vec![100; STEPS + 1]);
        let outliers = preset.outlier.iter().map(|o| (o.one_in, o.us));
        assert_eq!(outliers.collect::<Vec<_>>(), [(150, [800, 900]), (300, [4900, 4900])]);
        preset.check().expect("a preset that can be used");
    }

    #[test]
    fn a_preset_that_is_written_is_read_and_gives_what_was_measured() {
        let rising: Vec<u64> = (100..200).collect();
        let all = [of(true, rising.clone()), of(false, rising)];
        let preset = preset(&all, 4096, LEAST);
        let text = text(&preset).expect("text");
        assert_eq!(tantalum_lab::file::parse::read::<SampledModel>(&text), Ok(preset.clone()));
        let again = simulate(&preset, LEAST, Some(100)).expect("it is measured");
        let small =
            again.iter().find(|m| m.aim.bytes == SMALL && m.aim.write).expect("it is there");
        let median = quantile(&small.took, 0.5);
        assert!((Nanos::from_micros(140)..Nanos::from_micros(160)).contains(&median), "{median}");
    }
}
