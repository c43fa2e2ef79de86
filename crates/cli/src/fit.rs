//! `tantalum fit`: the parameters with which a design gives numbers that were measured on a drive.

use crate::bar::Bar;
use crate::file_kind::Kind;
use crate::{file_kind, input, out, table};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tantalum_lab::fit::{Effort, Findings, Fit, Fitted, NOTHING, Residual, Watch, parse_numbers};

/// Arguments of `tantalum fit`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum fit numbers.toml --design tlc-modern --out mine.toml
  tantalum fit numbers.toml --design mine.toml --free link.latency_ns,timing.read_us
  tantalum drive create disk.img --design mine.toml --capacity 16GiB

The file of numbers has any of these keys, as in `read_4k_us = 78.5`; measure them with fio (the
script measure-drive of the repository does): read_4k_us, read_4k_iops_32, read_4k_iops_128, write_4k_us,
write_16k_us, write_4k_iops_32, write_4k_iops_128, read_mb_s, write_mb_s, fsync_1_per_s, fsync_32_per_s,
fsync_256_per_s. The drive of the model has few blocks, does not collect garbage, and is measured in
virtual time. Parameters on which no number depends stay as they are. The same numbers, design and
seed give the same result.
Exit codes: 0, fitted; 1, the mean deviation is above --within; 2, the command, the file of numbers
or the design is invalid.")]
pub struct FitArguments {
    /// The numbers (TOML), of what was measured on the drive
    numbers: PathBuf,
    /// The design to begin with: a preset, or a file with a design. What is not free stays as it is
    #[arg(long, value_name = "DESIGN")]
    design: String,
    /// Parameters that may change: integers of the design's link, timing and firmware
    /// [default: the link's bandwidths and times, tR, tPROG, the firmware's times]
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    free: Option<Vec<String>>,
    /// Write the fitted design to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The mean deviation with which the command still ends well
    #[arg(long, value_name = "PERCENT", value_parser = crate::units::percent)]
    within: Option<f64>,
    /// Measure for a shorter time, and end sooner
    #[arg(long)]
    quick: bool,
    /// Print the result as JSON (docs/json.md)
    #[arg(long)]
    json: bool,
    /// The seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::units::seed)]
    seed: u64,
    /// Numbers measured at the same time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = crate::units::whole::<u16>(1..=256))]
    threads: Option<u16>,
}

/// A bar, as what a fit tells its progress to.
struct Progress(Bar);

impl Watch for Progress {
    fn done(&self) {
        self.0.advance(1, "measurements");
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// Runs the command; returns the exit code.
pub fn fit(arguments: &FitArguments) -> u8 {
    let fit = match prepare(arguments) {
        Ok(fit) => fit,
        Err(message) => return out::error(message, out::USAGE),
    };
    let inputs = [("NUMBERS", arguments.numbers.as_path())];
    let inputs = inputs.into_iter().chain(file(&arguments.design).map(|path| ("--design", path)));
    let outputs = arguments.out.as_deref().map(|path| ("--out", path));
    if let Err(message) = out::distinct(inputs, outputs) {
        return out::error(message, out::USAGE);
    }
    let sink = match arguments.out.as_deref().map(out::Sink::open).transpose() {
        Ok(sink) => sink,
        Err(e) => return out::error(e, out::USAGE),
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.map_or(cores, usize::from);
    let bar = Bar::new(fit.trials(), "{bar:20} {pos} of at most {len} measurements, {elapsed}");
    bar.end_at_interrupt();
    let found = fit.run(threads, &Progress(bar.clone()));
    bar.clear();
    let found = match found {
        Ok(found) => found,
        Err(message) => return out::error(message, out::FAILED),
    };
    let toml = toml(&found, &arguments.numbers);
    let mut code = match arguments.json {
        true => out::json(&document(&found, &toml)),
        false => out::bytes(summary(&found, sink.is_none().then_some(&toml)).as_bytes()),
    };
    if let Some(sink) = sink {
        code = code.max(sink.put(&toml));
    }
    if found.interrupted {
        out::note("interrupted: this is the result until then");
        std::process::exit(out::INTERRUPTED);
    }
    match arguments.within {
        Some(within) if found.mean_percent() > within => code.max(out::error(
            format_args!(
                "the numbers are off by {:.1} % on average, more than {within} %",
                found.mean_percent()
            ),
            out::FAILED,
        )),
        _ => code,
    }
}

/// The result as docs/json.md has it.
fn document(found: &Findings, toml: &str) -> Value {
    let number = |r: &Residual| {
        json!({
            "key": r.number.key,
            "what": r.number.what,
            "unit": r.number.unit.name(),
            "measured": r.measured,
            "before": r.before,
            "fitted": r.model,
            "off_percent": r.percent(),
        })
    };
    let parameter = |p: &Fitted| {
        json!({
            "key": p.key,
            "before": p.before,
            "fitted": p.after,
            "matters_percent": p.matters,
        })
    };
    json!({
        "design": toml,
        "mean_off_percent": found.mean_percent(),
        "numbers": found.residuals.iter().map(number).collect::<Vec<_>>(),
        "parameters": found.parameters.iter().map(parameter).collect::<Vec<_>>(),
        "interrupted": found.interrupted,
    })
}

/// The file that a design's name is, if it is one.
fn file(design: &str) -> Option<&Path> {
    let path = Path::new(design);
    path.exists().then_some(path)
}

fn prepare(arguments: &FitArguments) -> Result<Fit, String> {
    let name = arguments.numbers.display();
    let advice = "measure them with fio: the script measure-drive of the repository does it, and \
                  `tantalum fit --help` names them";
    let text = input::text("the file of numbers", &arguments.numbers, advice)?;
    let numbers = parse_numbers(&text).map_err(|e| {
        file_kind::told(Kind::Numbers, &name.to_string(), &text, format!("{name}: {e}"))
    })?;
    let base = crate::drive::named(&arguments.design)?;
    let effort = if arguments.quick { Effort::QUICK } else { Effort::FULL };
    let free = arguments.free.as_deref();
    Fit::new(&base, numbers, free, effort, arguments.seed).map_err(|e| format!("--free: {e}"))
}

/// The design, with a line about where it comes from.
fn toml(found: &Findings, numbers: &Path) -> String {
    let keys: Vec<&str> = found.parameters.iter().map(|p| p.key.as_str()).collect();
    format!(
        "# Fitted to {} by `tantalum fit`, off by {:.1} % on average. Free were:\n#   {}\n{}",
        numbers.file_name().unwrap_or_default().display(),
        found.mean_percent(),
        keys.join("\n#   "),
        found.design.to_toml()
    )
}

fn table(header: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table
        .load_preset(comfy_table::presets::ASCII_MARKDOWN)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if i >= left {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Three digits, or all before the point.
fn digits(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

fn summary(found: &Findings, toml: Option<&String>) -> String {
    let mut numbers = table(&["number", "", "measured", "before", "fitted", "off"], 2);
    for r in &found.residuals {
        numbers.add_row([
            r.number.what.to_string(),
            r.number.unit.name().to_string(),
            digits(r.measured),
            digits(r.before),
            digits(r.model),
            format!("{:+.1} %", r.percent()),
        ]);
    }
    let mut parameters = table(&["parameter", "before", "fitted", "10 % more changes"], 1);
    for p in &found.parameters {
        parameters.add_row([
            p.key.clone(),
            p.before.to_string(),
            p.after.to_string(),
            match p.matters < NOTHING {
                true => "no number".into(),
                false => format!("one by {:.1} %", p.matters),
            },
        ]);
    }
    let [numbers, parameters] = [numbers, parameters].map(|table| table::shown(table, |_| None));
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{numbers}\n\n{parameters}\n\nOff by {:.1} % on average.",
        found.mean_percent()
    );
    if let Some(toml) = toml {
        let _ = write!(text, "\n{toml}");
    }
    text
}
