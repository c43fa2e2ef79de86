//! `tantalum log create`.

use crate::counted::counted;
use crate::members::{
    Description, Devices, absolute, in_words, is_description, linked, make_missing, open_code,
    other_size, runtime, volume_code,
};
use crate::random::random;
use crate::{out, units};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tantalum_device::{BlockDevice, Caps, PowerCycle};
use tantalum_log::{CreateOptions, Log};
use tantalum_nand::Opening;
use tantalum_rt::Runtime;

/// Arguments of `tantalum log create`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum log create wal.toml --device a --device b --size 1GiB
                               --backing disk --backing-size 8GiB
  tantalum log create wal.toml --device /dev/sdb --device /dev/sdc --copies 2
  tantalum log serve wal.toml --unix wal.sock

Files that are not there are made with --size and --backing-size. Nothing is
changed unless all devices can be used. The backing keeps what it holds, but for its
last two blocks. It must not be sparse. The image of a drive (`tantalum drive create`)
is that drive, and not a file: its power is cut with that of the log.
Exit codes: 0, the log is made; 1, something failed while it was written; 2, a
device cannot be used, or there is such a description already.")]
pub struct CreateArguments {
    /// The description to write: NAME.toml
    #[arg(value_parser = crate::new_file::new_file())]
    description: PathBuf,
    /// A device of the log: a file, a block device, the image of a drive, or model:NAME:SIZE; may be
    /// given several times
    #[arg(long = "device", value_name = "PATH", required = true)]
    devices: Vec<PathBuf>,
    /// A device that is good at large sequential writes, and gets everything in large pieces
    #[arg(long, value_name = "PATH")]
    archive: Option<PathBuf>,
    /// The device to which the volume over the log writes later
    #[arg(long, value_name = "PATH")]
    backing: Option<PathBuf>,
    /// Make files of this size for devices and an archive that are not there
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    size: Option<u64>,
    /// Make a file of this size for a backing that is not there
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    backing_size: Option<u64>,
    /// On how many devices each record is before it counts as durable
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = units::whole::<u8>(1..=2))]
    copies: u8,
    /// Parts that each device is divided into: 2 to 4 help some single solid-state drives, 8 where one
    /// write in a hundred is very slow
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = units::whole::<u16>(1..=64))]
    partitions: u16,
    /// Never write slow writes again on another device. (That takes io_uring.)
    #[arg(long)]
    no_hedging: bool,
    /// A preset of `tantalum log calibrate`, for all devices, or given once for each: how long
    /// writes take at first, until that is learned
    #[arg(long, value_name = "FILE")]
    latencies: Vec<PathBuf>,
    /// Destroy what the devices hold, and overwrite the description
    #[arg(long)]
    force: bool,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// What was made, as docs/json.md has it.
#[derive(Serialize)]
struct Report {
    log: String,
    devices: Vec<String>,
    /// Of all devices together, without the archive.
    bytes: u64,
    archive: Option<String>,
    backing: Option<String>,
    copies: u8,
    partitions: u16,
}

/// Runs the command; returns the exit code.
pub fn create(arguments: &CreateArguments) -> u8 {
    match try_create(arguments) {
        Ok(report) if arguments.json => out::json(&report),
        Ok(report) => out::bytes(said(&report).as_bytes()),
        Err((why, code)) => out::error(why, code),
    }
}

fn try_create(arguments: &CreateArguments) -> Result<Report, (String, u8)> {
    let usage = |why| (why, out::USAGE);
    let (path, name) = (&arguments.description, arguments.description.display());
    if !is_description(path) {
        return Err(usage(format!("{name}: a description has a name that ends with .toml")));
    }
    let named = |of: &'static str| move |path| (of, path);
    let members = arguments.devices.iter().map(named("--device"));
    let members = members.chain(arguments.archive.iter().map(named("--archive")));
    let members = members.chain(arguments.backing.iter().map(named("--backing")));
    let members = members.chain(arguments.latencies.iter().map(named("--latencies")));
    let members = members.map(|(of, path): (_, &PathBuf)| (of, path.as_path()));
    out::distinct(members, [("the description", path.as_path())]).map_err(usage)?;
    if path.exists() && !arguments.force {
        return Err(usage(format!("there is a file \"{name}\" already: --force overwrites it")));
    }
    let whole = |path: &PathBuf| absolute(path);
    let mut description = Description {
        devices: arguments.devices.iter().map(whole).collect(),
        archive: arguments.archive.as_ref().map(whole),
        backing: arguments.backing.as_ref().map(whole),
        copies: arguments.copies,
        partitions: arguments.partitions,
        hedging: !arguments.no_hedging,
        latencies: arguments.latencies.iter().map(whole).collect(),
        tables: Vec::new(),
    };
    description.check().map_err(|fault| usage(fault.what))?;
    if let Some(gone) = arguments.latencies.iter().find(|path| !path.exists()) {
        return Err(usage(format!(
            "--latencies: there is no \"{}\": name a preset, which `tantalum log calibrate -o FILE` \
             writes",
            gone.display()
        )));
    }
    description.read_tables().map_err(usage)?;
    let text = description.text().map_err(usage)?;
    let file = out::Sink::open(path).and_then(|sink| sink.ready(text)).map_err(usage)?;
    let of_log = description.devices.iter().chain(&description.archive);
    let of_log = of_log.map(|path| (path, arguments.size, "--size"));
    let of_backing = |path| (path, arguments.backing_size, "--backing-size");
    let backing = description.backing.iter().map(of_backing);
    let mut made = make_missing(of_log.chain(backing))?;
    let failed = |why| (why, out::FAILED);
    let modelled = description.is_modelled();
    // Models are made anew whenever they are served. This is a trial, and takes no real time.
    let runtime = if modelled { Ok(Runtime::virtual_time(1)) } else { runtime() };
    let mut runtime = runtime.map_err(failed)?;
    let rt = runtime.handle();
    let devices = Devices::open_whole(&rt, &description, Opening::default()).map_err(usage)?;
    let members = devices.members();
    let identity = random().map_err(|e| usage(format!("no identity for the log: {e}")))?;
    let (force, identity) = (arguments.force, Some(identity));
    let options = CreateOptions { force, identity, ..description.options() };
    let bytes: u64 = devices.array.iter().map(|(_, d)| d.device().caps().bytes()).sum();
    let sizes = description.paths().zip(members.sizes());
    sizes.filter_map(|(path, bytes)| other_size(path, bytes)).for_each(out::note);
    let of_log = devices.array.iter().chain(&devices.archive);
    let thin = of_log.filter(|(_, device)| device.device().caps().thin);
    let thin: Vec<String> =
        thin.map(|(name, device)| is_thin(name, device.device().caps())).collect();
    let format = {
        let description = description.clone();
        let make = async move {
            match description.backing {
                Some(_) => {
                    let volume = devices.volume(&rt, &description, false).map_err(usage)?;
                    let made = volume.format(&options).await;
                    made.map_err(|e| (in_words(&e), volume_code(&e)))
                }
                None => {
                    let array: Vec<_> = devices.array.iter().map(linked).collect();
                    let archive = devices.archive.as_ref().map(linked);
                    let made = Log::create(&rt, &array, archive.as_ref(), &options).await;
                    made.map_err(|e| (in_words(&e), open_code(&e)))
                }
            }
        };
        async move {
            members.power_on().await.map_err(usage)?;
            let made = make.await;
            made.and(members.end().await.map_err(failed))
        }
    };
    runtime.block_on(format).map_err(|e| failed(format!("the log has stalled: {e}")))??;
    made.0.clear(); // They are the log now.
    thin.into_iter().for_each(out::note);
    match file.put() {
        out::OK => Ok(report(path, &description, bytes)),
        _ => Err(failed(format!(
            "\"{name}\" could not be written; the log is made: try again with --force"
        ))),
    }
}

/// A write that its file system refuses makes the log lose the device.
fn is_thin(name: &str, caps: &Caps) -> String {
    format!(
        "\"{name}\" is sparse or thinly provisioned: the log stops, or loses it, if a write finds no room; \
         `fallocate -l {} {name}` gives a file all of its room",
        caps.bytes()
    )
}

fn report(path: &Path, of: &Description, bytes: u64) -> Report {
    let named = |path: &PathBuf| path.display().to_string();
    Report {
        log: path.display().to_string(),
        devices: of.devices.iter().map(named).collect(),
        bytes,
        archive: of.archive.as_ref().map(named),
        backing: of.backing.as_ref().map(named),
        copies: of.copies,
        partitions: of.partitions,
    }
}

fn said(of: &Report) -> String {
    let volume = match &of.backing {
        Some(backing) => format!(", and a volume over \"{backing}\""),
        None => String::new(),
    };
    let archive = if of.archive.is_some() { " and an archive" } else { "" };
    format!(
        "{}: a log on {} of {} together{archive}, copies: {}{volume}\n",
        of.log,
        counted(of.devices.len() as u64, "device", "devices"),
        tantalum_device::bytes_in_words(of.bytes),
        of.copies
    )
}
