//! `tantalum drive inspect`.

use super::create::makes_one;
use super::view::{View, ViewError};
use super::{serial, size};
use crate::counted::counted;
use crate::{input, out};
use clap::Args;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tantalum_device::Payload;
use tantalum_drive::{Census, Drive, DriveImageError, Wear, is_dump_owed};
use tantalum_nand::{Geometry, ImageError};

/// Arguments of `tantalum drive inspect`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum drive inspect disk.img
  tantalum drive inspect disk.img --json | jq .state.units
  tantalum drive inspect disk.img --design > my-drive.toml

The drive is started on a private view of the image, with its dump: the file
does not change. An image that is in use is refused.
Exit codes: 0, the drive starts; 1, it does not, or the image is damaged; 2,
there is no image, or it is in use, or of a newer format.")]
pub struct InspectArguments {
    /// The image
    image: PathBuf,
    /// Open an image even if the host crashed while it was in use: all of it is verified, and pages
    /// that are not what was programmed cannot be read
    #[arg(long)]
    host_crashed: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print only the design of the image, as TOML
    #[arg(long, conflicts_with = "json")]
    design: bool,
}

#[derive(Serialize)]
struct Report {
    image: String,
    format: u32,
    serial: String,
    /// Length of the file, and the space that it takes.
    file_bytes: u64,
    allocated_bytes: u64,
    payload: &'static str,
    openings: u64,
    operations_under_way: u64,
    /// The last process was killed while the drive had power. That was a power cut; the next start
    /// writes the dump.
    dump_owed: bool,
    design: DesignReport,
    /// Why the drive does not start.
    failure: Option<String>,
    state: Option<State>,
}

#[derive(Serialize)]
struct DesignReport {
    name: String,
    capacity_bytes: u64,
    flash_bytes: u64,
    protected: bool,
    geometry: Geometry,
    erase_units: u32,
}

/// The state that a start finds.
#[derive(Serialize)]
struct State {
    units: Census,
    wear: Option<Wear>,
    /// Contents of the dump.
    dump: Option<Dump>,
    recovery_ns: u64,
    whole_ns: u64,
}

#[derive(Serialize)]
struct Dump {
    buffered_pages: u64,
    map_entries: u64,
    journal_entries: u64,
    /// The energy of the dump, if this start wrote it.
    joules: Option<f64>,
}

/// The exit code for an image that cannot be opened: damage is what a command may find, and all else
/// is an invalid request.
pub fn code(error: &ImageError) -> u8 {
    match error {
        ImageError::Damaged { .. } | ImageError::Length { .. } | ImageError::HostCrashed => {
            out::FAILED
        }
        _ => out::USAGE,
    }
}

/// The exit code for an image that cannot be used.
pub fn refused(path: &Path, error: &ViewError) -> u8 {
    let code = match error {
        ViewError::Image(DriveImageError::Image(e)) => code(e),
        ViewError::Run(_) | ViewError::Image(_) => out::FAILED,
    };
    use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
    if let ViewError::Image(DriveImageError::Image(ImageError::Io { source, .. })) = error
        && matches!(source.kind(), NotFound | IsADirectory | NotADirectory | PermissionDenied)
    {
        return out::error(input::unreadable("the image", path, source, makes_one(path)), code);
    }
    match error {
        ViewError::Image(DriveImageError::Image(e)) => {
            out::error(format_args!("{}: {}", path.display(), in_words(e)), code)
        }
        e => out::error(format_args!("{}: {e}", path.display()), code),
    }
}

/// Why an image cannot be opened, and what to do about a file of something else.
pub fn in_words(error: &ImageError) -> String {
    match error {
        ImageError::Foreign => format!(
            "{error}; `tantalum drive create FILE --design durassd` makes one in a new file, and --file \
             of `tantalum drive serve` takes any file as it is"
        ),
        ImageError::InUse => {
            format!(
                "{error}: `tantalum drive status` asks that one, and Ctrl-C ends it in good order"
            )
        }
        e => e.to_string(),
    }
}

/// Runs the command; returns the exit code.
pub fn inspect(arguments: &InspectArguments) -> u8 {
    let path = &arguments.image;
    let mut view = match View::open(path, arguments.host_crashed) {
        Ok(view) => view,
        Err(e) => return refused(path, &e),
    };
    if arguments.design {
        return out::bytes(view.image.spec().design.as_bytes());
    }
    let report = match report(path, &mut view) {
        Ok(report) => report,
        Err(e) => return refused(path, &e),
    };
    let starts = report.failure.is_none();
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&report).map(|json| json + "\n"),
        false => Ok(text(&report)),
    };
    match text {
        Ok(text) => match out::bytes(text.as_bytes()) {
            out::OK if !starts => out::FAILED,
            code => code,
        },
        Err(e) => out::error(e, out::FAILED),
    }
}

fn report(path: &Path, view: &mut View) -> Result<Report, ViewError> {
    let spec = view.image.spec().clone();
    let (openings, under_way) = (view.image.openings(), view.image.under_way());
    let dump_owed = is_dump_owed(&view.image);
    let drive = view.off()?;
    let started = view.start(&drive)?;
    let design = drive.design();
    let layout = drive.layout();
    Ok(Report {
        image: path.display().to_string(),
        format: spec.version,
        serial: serial(&spec.serial),
        file_bytes: view.image.bytes(),
        allocated_bytes: allocated(path),
        payload: if spec.payload == Payload::Bytes { "bytes" } else { "stamps" },
        openings,
        operations_under_way: under_way,
        dump_owed,
        design: DesignReport {
            name: design.name.clone(),
            capacity_bytes: u64::from(layout.logical) * 4096,
            flash_bytes: design.geometry.bytes(),
            protected: design.is_protected(),
            geometry: design.geometry.clone(),
            erase_units: design.geometry.units(),
        },
        state: started.is_ok().then(|| state(&drive)),
        failure: started.err(),
    })
}

fn state(drive: &Drive) -> State {
    let recovery = drive.last_recovery().unwrap_or_default();
    let dump = (drive.design().is_protected() && !recovery.blank).then_some(Dump {
        buffered_pages: recovery.dump_pages,
        map_entries: recovery.dump_entries,
        journal_entries: recovery.journal_entries,
        joules: drive.last_power_loss().map(|loss| loss.spent_j),
    });
    State {
        units: drive.census().unwrap_or_default(),
        wear: drive.wear().map(|wear| wear.all),
        dump,
        recovery_ns: recovery.total.0,
        whole_ns: recovery.whole.0,
    }
}

/// The space that the file takes in its file system.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
fn allocated(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map_or(0, |is| is.blocks() * 512)
}

fn text(r: &Report) -> String {
    let mut t = String::new();
    let g = &r.design.geometry;
    let mut line = |name: &str, text: String| {
        let _ = writeln!(t, "{name:<12}{text}");
    };
    line("image", format!("{}, format {}, serial {}", r.image, r.format, r.serial));
    line("file", format!("{} on disk, of at most {}", size(r.allocated_bytes), size(r.file_bytes)));
    line(
        "design",
        format!(
            "{}: {} promised ({} bytes), {} of flash",
            r.design.name,
            size(r.design.capacity_bytes),
            r.design.capacity_bytes,
            size(r.design.flash_bytes)
        ),
    );
    line(
        "flash",
        format!(
            "{}, {} of {} × {} × {} bytes",
            counted(g.dies().into(), "die", "dies"),
            counted(r.design.erase_units.into(), "erase unit", "erase units"),
            counted(g.planes.into(), "plane", "planes"),
            counted(g.pages.into(), "page", "pages"),
            g.page_bytes
        ),
    );
    line(
        "last user",
        match (r.dump_owed, r.operations_under_way) {
            _ if r.openings == 0 => "none yet".to_string(),
            (false, 0) => {
                format!("switched the drive off (opened {})", counted(r.openings, "time", "times"))
            }
            (true, n) => format!(
                "was killed: its dump is due, {} under way",
                counted(n, "operation", "operations")
            ),
            (false, n) => {
                format!("was killed, with {} under way", counted(n, "operation", "operations"))
            }
        },
    );
    let Some(state) = &r.state else {
        line("state", format!("does not start: {}", r.failure.as_deref().unwrap_or_default()));
        return t;
    };
    let u = &state.units;
    let mapped = u64::from(u.mapped_pages);
    line("mapped", format!("{}, {}", counted(mapped, "page", "pages"), size(mapped * 4096)));
    line(
        "units",
        format!(
            "{} free, {} open, {} full, {} of the map log, {} for dumps, {} bad",
            u.free,
            u.open,
            u.full + u.leaving,
            u.map,
            u.dump,
            u.bad
        ),
    );
    if let Some(wear) = &state.wear {
        line(
            "wear",
            format!(
                "{}; of a unit {} to {}, {:.1} on average",
                counted(wear.erases, "erase", "erases"),
                wear.min,
                wear.max,
                wear.mean()
            ),
        );
    }
    line(
        "dump",
        match &state.dump {
            None if r.design.protected => "none yet".to_string(),
            None => "none: nothing is protected".to_string(),
            Some(dump) => format!(
                "{}, {}, {} of the journal of units",
                counted(dump.buffered_pages, "buffered page", "buffered pages"),
                counted(dump.map_entries, "map entry", "map entries"),
                counted(dump.journal_entries, "entry", "entries")
            ),
        },
    );
    let ms = |ns: u64| ns as f64 / 1e6;
    let times = (ms(state.recovery_ns), ms(state.whole_ns));
    line("start", format!("{:.2} ms until it takes commands, {:.2} ms in all", times.0, times.1));
    t
}
