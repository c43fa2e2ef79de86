//! `tantalum drive create`.

use super::{inspect, serial, size};
use crate::designs::listed;
use crate::file_kind::Kind;
use crate::random::random;
use crate::run::{Setting, setting};
use crate::units::bytes;
use crate::{file_kind, input, out};
use clap::Args;
use serde::Serialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tantalum_device::Payload;
use tantalum_drive::{Design, DesignError, Drive, DriveImageError};
use tantalum_lab::subject::ssd_preset;
use tantalum_nand::ImageError;
use tantalum_rt::room_at;

/// Arguments of `tantalum drive create`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum drive create disk.img --design durassd --capacity 8GiB
  tantalum drive create disk.img --design my-drive.toml --json
  tantalum drive create disk.img --design volatile --capacity 500M --set cache.buffer_kib=1024
  tantalum drive create disk.img --design spartan-es --capacity 16GiB --force

The file is sparse: it takes only the space of the data on the drive's flash.
--capacity changes the number of flash blocks or their size, and on a small drive what
is set aside for dumps; the number of dies is that of the design.
Exit codes: 0, the image is made; 1, the file cannot be written; 2, no such drive
can be built, or the file exists already.")]
pub struct CreateArguments {
    /// The file to create
    #[arg(value_parser = crate::new_file::new_file())]
    image: PathBuf,
    /// A preset, or a file with a design (TOML, see `tantalum designs NAME --all`)
    #[arg(long, value_name = "D", default_value = "durassd")]
    design: String,
    /// The least capacity of the drive [default: that of its design]. Bytes, or with K, M, G, T,
    /// KiB, MiB, GiB, TiB (powers of 1024)
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    capacity: Option<u64>,
    /// Another value for a key of the design, with dots into tables; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    sets: Vec<Setting>,
    /// Overwrite an existing file of any kind, unless it is an image in use
    #[arg(long)]
    force: bool,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// What was made, as docs/json.md has it.
#[derive(Serialize)]
struct Report {
    image: String,
    design: String,
    capacity_bytes: u64,
    serial: String,
    /// The most that the file takes on disk.
    file_bytes: u64,
}

/// Runs the command; returns the exit code.
pub fn create(arguments: &CreateArguments) -> u8 {
    let design = match design(arguments) {
        Ok(design) => design,
        Err(e) => return out::error(e, out::USAGE),
    };
    let number = match random() {
        Ok(number) => number,
        Err(e) => return out::error(format_args!("no serial number: {e}"), out::FAILED),
    };
    let (path, name) = (&arguments.image, arguments.image.display());
    match Drive::create_image(path, &design, Payload::Bytes, number, arguments.force) {
        Ok(image) => {
            let capacity = design.check().map_or(0, |layout| u64::from(layout.logical) * 4096);
            let report = Report {
                image: name.to_string(),
                design: design.name.clone(),
                capacity_bytes: capacity,
                serial: serial(&image.spec().serial),
                file_bytes: image.bytes(),
            };
            // (A capacity is rounded up by a block of each die, which is less than a tenth.)
            if let Some(asked) = arguments.capacity.filter(|asked| capacity > asked + asked / 10) {
                out::note(format_args!(
                    "note: --capacity is {}, but a {} has at least {}: its dies stay as many, and each \
                     needs erase units to work with",
                    size(asked),
                    design.name,
                    size(capacity)
                ));
            }
            if let Some(room) = room_at(path).filter(|room| *room < image.bytes()) {
                out::note(format_args!(
                    "note: the file system has room for {}: when that is full the drive's process ends (SIGBUS)",
                    size(room)
                ));
            }
            if arguments.json {
                return out::json(&report);
            }
            let text = format!(
                "{name}: a blank {} of {} ({capacity} bytes), serial {}, up to {} on disk\n",
                report.design,
                size(capacity),
                report.serial,
                size(report.file_bytes),
            );
            out::bytes(text.as_bytes())
        }
        Err(DriveImageError::Image(ImageError::Exists)) if path.is_dir() => {
            out::error(out::cannot("make", path, &ErrorKind::IsADirectory.into()), out::USAGE)
        }
        Err(DriveImageError::Image(ImageError::Exists)) => out::error(
            format_args!("there is a file \"{name}\" already: --force overwrites it"),
            out::USAGE,
        ),
        // Where no file can be is a wrong request; a disk that is full is not.
        Err(DriveImageError::Image(ImageError::Io { ref source, .. })) => {
            use ErrorKind::{IsADirectory, NotADirectory, NotFound, PermissionDenied};
            let is_wrong =
                matches!(source.kind(), NotFound | PermissionDenied | IsADirectory | NotADirectory);
            let code = if is_wrong { out::USAGE } else { out::FAILED };
            out::error(out::cannot("make", &arguments.image, source), code)
        }
        Err(DriveImageError::Image(ref e)) => {
            out::error(format_args!("{name}: {}", inspect::in_words(e)), out::USAGE)
        }
        Err(e) => out::error(format_args!("{name}: {e}"), out::USAGE),
    }
}

fn design(arguments: &CreateArguments) -> Result<Design, String> {
    let mut design = named(&arguments.design)?;
    // All overrides together: a single one may make the design invalid.
    let mut table = toml::Table::new();
    for set in &arguments.sets {
        let (key, value) = set.pair();
        let mut at = &mut table;
        let (last, tables) = key.rsplit_once('.').map_or((&*key, ""), |(t, last)| (last, t));
        for name in tables.split('.').filter(|name| !name.is_empty()) {
            let inner = at.entry(name).or_insert_with(|| toml::Table::new().into());
            at = inner.as_table_mut().ok_or("a table was expected")?;
        }
        at.insert(last.to_string(), value);
    }
    if !table.is_empty() {
        design = design.with_overrides(&table).map_err(|e| e.to_string())?;
    }
    if let Some(bytes) = arguments.capacity {
        design = design.with_capacity(bytes).map_err(|e| e.to_string())?;
    }
    Ok(design)
}

/// What to do where no image is.
pub fn makes_one(path: &Path) -> String {
    format!("`tantalum drive create {} --design durassd` makes one", path.display())
}

/// A preset, or the design in a file of this name.
pub fn named(name: &str) -> Result<Design, String> {
    let looks_like_a_file = name.ends_with(".toml") || name.contains(std::path::MAIN_SEPARATOR);
    if !looks_like_a_file {
        return ssd_preset(name).map_err(|e| listed(&e));
    }
    let advice = "name a file with a design, or a preset (`tantalum designs` lists all)";
    let text = input::text("the design", Path::new(name), advice)?;
    Design::from_toml(&text).map_err(|e| {
        let why = match e {
            DesignError::Toml { line: Some(line), fault } => {
                format!("{name}:{line}: {}", fault.what)
            }
            e => format!("{name}: {e}"),
        };
        file_kind::told(Kind::Design, name, &text, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_that_cannot_be_read_is_told_by_key_and_line() {
        let text =
            Design::preset_text("durassd").unwrap().replace("buffer_kib = 4096", "buffer_kib = -1");
        let path = std::env::temp_dir().join(format!("tantalum-{}.toml", std::process::id()));
        #[allow(clippy::disallowed_methods, reason = "a test writes the file that it names")]
        std::fs::write(&path, &text).unwrap();
        let why = named(path.to_str().unwrap()).unwrap_err();
        #[allow(clippy::disallowed_methods, reason = "a test removes its file")]
        std::fs::remove_file(&path).unwrap();
        let line = 1 + text.lines().position(|line| line.starts_with("buffer_kib")).unwrap();
        assert!(why.contains(&format!(".toml:{line}: cache.buffer_kib: invalid value")), "{why}");
        assert_eq!(why.lines().count(), 1, "{why}");
    }

    #[test]
    fn sizes_are_what_they_say() {
        for (text, want) in [
            ("4096", Ok(4096)),
            ("8GiB", Ok(8 << 30)),
            ("8g", Ok(8 << 30)),
            ("500M", Ok(500 << 20)),
            ("1 TiB", Ok(1 << 40)),
            ("1.5GiB", Ok(3 << 29)),
            ("0.25k", Ok(256)),
        ] {
            assert_eq!(bytes(text), want, "{text}");
        }
        for text in
            ["", "x", "0", "0.0M", "1.5", "1.", "1.2.3K", "8 parsec", "-1", "99999999999999T"]
        {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
