//! `tantalum cache create`.

use super::started::Failed;
use crate::drive::filesystem;
use crate::members::{
    Admit, CacheDescription, CacheDevices, Clean, LabelPlace, MemberLink, Policy, Sync, absolute,
    cache_open_code, is_description, make_missing, of_options, other_size, runtime, usual_batch,
};
use crate::{out, units};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use tantalum_cache::flash::{DeviceStore, FlashCache, OpenError, StoreState, page_sizes};
use tantalum_cache::volume::{BATCH_PAGES, VolumeError};
use tantalum_device::{BlockDevice, PowerCycle, bytes_in_words};
use tantalum_nand::Opening;

/// Arguments of `tantalum cache create`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  tantalum cache create c.toml --flash /dev/sdb --slow /dev/sdc
  tantalum cache create c.toml --flash a --flash-size 1GiB --slow b --slow-size 8GiB
                               --mode through
  tantalum cache create c.toml --flash model:ssd-840pro:256MiB
                               --slow model:4xdisk-15k6:4GiB
  tantalum cache create c.toml --flash /dev/sdb --slow /dev/sdc --adopt
  tantalum cache serve c.toml --unix c.sock

With --adopt data of the slow device stay where they are, from its beginning on, and the
volume begins there. The label takes its last 1 MiB, which has to be blank: make a file
system that reaches so far smaller before. It is a risk: nothing keeps the slow device
from being mounted without its cache, with old pages, and what is written then is lost or
mixed with newer ones.

Files that are not there are made with --flash-size and --slow-size. Nothing is changed
unless both devices can be used. With --force it is told whether pages may be lost with
the old cache. The slow device gets a label; behind its first 1 MiB, where the volume
begins, it keeps what it holds, but for labels of other caches (with --force these end).
It must not be sparse. The image of a drive (`tantalum drive create`) is that drive, and
not a file.
Exit codes: 0, the cache is made; 1, something failed while it was written; 2, a device
cannot be used, or there is such a description already.")]
pub struct CreateArguments {
    /// The description to write: NAME.toml
    #[arg(value_parser = crate::new_file::new_file())]
    description: PathBuf,
    /// The flash device: a file, a block device, the image of a drive, or model:NAME:SIZE
    #[arg(long, value_name = "PATH")]
    flash: PathBuf,
    /// The slow device, likewise; model:4xNAME:SIZE is an array of four
    #[arg(long, value_name = "PATH")]
    slow: PathBuf,
    /// Make a file of this size for a flash device that is not there
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    flash_size: Option<u64>,
    /// Make a file of this size for a slow device that is not there
    #[arg(long, value_name = "SIZE", value_parser = units::bytes)]
    slow_size: Option<u64>,
    /// A page: what is cached, and written as a whole
    #[arg(long, value_name = "SIZE", default_value = "4KiB",
          value_parser = units::bytes_within::<u32>(0..=1 << 30, 1))]
    page: u32,
    /// Pages of a batch: one write of the flash device has them, or what came before a flush.
    /// Memory has six batches at least
    #[arg(long, value_name = "N", default_value_t = usual_batch(),
          value_parser = units::whole::<u32>(
              u64::from(*BATCH_PAGES.start())..=u64::from(*BATCH_PAGES.end())))]
    batch: u32,
    /// When dirty pages reach the slow device
    #[arg(long, value_enum, default_value_t = Sync::Back)]
    mode: Sync,
    /// What leaves the cache
    #[arg(long, value_enum, default_value_t = Policy::Gsc)]
    policy: Policy,
    /// When clean pages enter the cache
    #[arg(long, value_enum, default_value_t = Clean::Read)]
    clean: Clean,
    /// Keep scans out: after so many consecutive pages clean ones no longer enter
    #[arg(long, value_name = "PAGES", value_parser = units::whole::<u32>(1..))]
    scan: Option<u32>,
    /// Which pages enter the cache
    #[arg(long, value_enum, default_value_t = Admit::Mixed)]
    admit: Admit,
    /// Tell what twice the size would gain in hits, in `stats` and `top`
    #[arg(long)]
    ghosts: bool,
    /// Keep the data of the slow device where they are, with the label at its end
    #[arg(long)]
    adopt: bool,
    /// Destroy what the flash device and the label hold, and overwrite the description
    #[arg(long)]
    force: bool,
    /// Print JSON (docs/json.md)
    #[arg(long)]
    json: bool,
}

/// What was made, as docs/json.md has it.
#[derive(Serialize)]
struct Report {
    cache: String,
    flash: String,
    flash_bytes: u64,
    slow: String,
    /// What the volume offers to the host.
    volume_bytes: u64,
    page_bytes: u32,
    /// All is in memory, while it is served.
    modelled: bool,
    /// The data of the slow device stayed in place.
    adopted: bool,
}

/// Runs the command; returns the exit code.
pub fn create(arguments: &CreateArguments) -> u8 {
    match try_create(arguments) {
        Ok(report) if arguments.json => out::json(&report),
        Ok(report) => out::bytes(said(&report).as_bytes()),
        Err((why, code)) => out::error(why, code),
    }
}

fn said(of: &Report) -> String {
    format!(
        "{}: a cache of {} on \"{}\", and a volume of {} over \"{}\"{}{}\n",
        of.cache,
        bytes_in_words(of.flash_bytes),
        of.flash,
        bytes_in_words(of.volume_bytes),
        of.slow,
        if of.modelled { ", all in memory while it is served" } else { "" },
        if of.adopted {
            "\nnever mount or write to the slow device itself: it has old pages now"
        } else {
            ""
        },
    )
}

/// Refuses to adopt a file system that reaches beyond the volume, and tells of one that `mount --fs`
/// does not mount.
async fn check_adopted(
    of: &CacheDescription,
    devices: &CacheDevices,
    volume: u64,
) -> Result<(), Failed> {
    let device = devices.slow.device();
    let slow = of.slow.display();
    let found = filesystem::found(&device).await;
    let found = found.map_err(|e| (format!("\"{slow}\": {e}"), out::FAILED))?;
    let Some(found) = found else { return Ok(()) };
    let kind = found.kind.name();
    if found.bytes > volume {
        let how = match found.kind {
            filesystem::Kind::Ext4 => {
                let size = volume >> 10;
                format!("make it smaller (`e2fsck -f \"{slow}\"`, `resize2fs \"{slow}\" {size}K`)")
            }
            filesystem::Kind::Xfs => {
                "XFS does not become smaller: copy its files elsewhere, and back to a smaller one"
                    .to_string()
            }
        };
        let why = format!(
            "the {kind} on the slow device \"{slow}\" has {} bytes, and the volume would have {volume}: {how}, \
             or use --force",
            found.bytes
        );
        return Err((why, out::USAGE));
    }
    if let Some(why) = found.too_fine() {
        out::note(format_args!("note: \"{slow}\": {why}"));
    }
    Ok(())
}

/// What is lost if a cache is made on these devices, which have power: pages that a cache has, and its
/// slow device does not. (What else is there is told if --force is missing.)
async fn lost(of: &CacheDescription, devices: &CacheDevices) -> Vec<String> {
    let (flash, slow) = (of.flash.display(), of.slow.display());
    let found = FlashCache::<_, DeviceStore<MemberLink>>::describe(&devices.flash.device()).await;
    let cache = found.as_ref().ok();
    let mut lost = Vec::new();
    let mut is_ours = false;
    let device = || devices.slow.device();
    // (All of them end with --force, those of pages of another size, too.)
    let at_end = page_sizes().map(|page| DeviceStore::adopting(device(), page));
    let stores = [DeviceStore::new(device(), of.page_bytes)].into_iter().chain(at_end);
    let mut seen = Vec::new();
    for store in stores.flatten() {
        if seen.contains(&store.label_at()) {
            continue;
        }
        seen.push(store.label_at());
        let label = FlashCache::<MemberLink, _>::describe_store(&store).await;
        let label = match label {
            Ok(Some(label)) => label,
            Ok(None) | Err(OpenError::NoLabel | OpenError::Io { .. }) => continue,
            Err(why) => {
                lost.push(format!(
                    "the label of a cache on \"{slow}\" cannot be read ({why}): pages may have their newest versions \
                     only on its flash device, and these are lost with a new cache"
                ));
                continue;
            }
        };
        let is_here = cache.is_some_and(|cache| cache.cache == label.cache);
        is_ours |= is_here;
        if label.state == StoreState::NeedsCache {
            let place = match (is_here, &found) {
                (true, _) => format!("\"{flash}\""),
                (false, Ok(_) | Err(OpenError::NoCache)) => {
                    format!("another flash device than \"{flash}\"")
                }
                // Perhaps it is this one, and damaged.
                (false, Err(_)) => "its flash device".to_string(),
            };
            lost.push(format!(
                "pages of \"{slow}\" may have their newest versions only on {place}: these are lost with a \
                 new cache (`tantalum cache detach` of the old one brings them to \"{slow}\" before)"
            ));
        }
    }
    if cache.is_some() && !is_ours {
        lost.push(format!(
            "\"{flash}\" is the flash device of another cache, whose slow device may lack pages that it \
             has: these are lost with a new cache"
        ));
    }
    lost
}

fn try_create(arguments: &CreateArguments) -> Result<Report, Failed> {
    let usage = |why| (why, out::USAGE);
    let failed = |why| (why, out::FAILED);
    let (path, name) = (&arguments.description, arguments.description.display());
    if !is_description(path) {
        return Err(usage(format!("{name}: a description has a name that ends with .toml")));
    }
    let devices = [("--flash", &*arguments.flash), ("--slow", &*arguments.slow)];
    out::distinct(devices, [("the description", &**path)]).map_err(usage)?;
    if path.exists() && !arguments.force {
        return Err(usage(format!("there is a file \"{name}\" already: --force overwrites it")));
    }
    let description = CacheDescription {
        flash: absolute(&arguments.flash),
        slow: absolute(&arguments.slow),
        page_bytes: arguments.page,
        batch_pages: arguments.batch,
        mode: arguments.mode,
        policy: arguments.policy,
        label: if arguments.adopt { LabelPlace::End } else { LabelPlace::Begin },
        clean: arguments.clean,
        scan: arguments.scan,
        admit: arguments.admit,
        ghosts: arguments.ghosts,
    };
    description.check().map_err(|fault| usage(of_options(fault)))?;
    let text = description.text().map_err(usage)?;
    let file = out::Sink::open(path).and_then(|sink| sink.ready(text)).map_err(usage)?;
    let files = [
        (&description.flash, arguments.flash_size, "--flash-size"),
        (&description.slow, arguments.slow_size, "--slow-size"),
    ];
    let mut made = make_missing(files.into_iter())?;
    let mut runtime = runtime().map_err(usage)?;
    let rt = runtime.handle();
    let devices = CacheDevices::open(&rt, &description, Opening::default()).map_err(usage)?;
    let volume = devices.volume(&rt, &description).map_err(usage)?;
    let sizes = (devices.flash.device().caps().bytes(), volume.caps().bytes());
    let slow_bytes = devices.slow.device().caps().bytes();
    let devices_have = [(&description.flash, sizes.0), (&description.slow, slow_bytes)];
    devices_have.iter().filter_map(|(path, bytes)| other_size(path, *bytes)).for_each(out::note);
    let (force, modelled, of) = (arguments.force, description.is_modelled(), description.clone());
    let format = async move {
        let members = devices.members();
        members.power_on().await.map_err(usage)?;
        let lost = lost(&of, &devices).await;
        if force {
            lost.iter().for_each(|lost| out::note(format_args!("note: {lost}")));
        } else if of.label == LabelPlace::End {
            check_adopted(&of, &devices, volume.caps().bytes()).await?;
        }
        let formatted = volume.format(force).await.map_err(|e| match &e {
            VolumeError::Open(open @ OpenError::NotBlank { .. }) => {
                let told = [vec![of.told(open)], lost].concat();
                (told.join("; "), cache_open_code(open))
            }
            VolumeError::Open(open) => (of.told(open), cache_open_code(open)),
            _ => (of.told(&e), out::FAILED),
        });
        formatted.and(members.end().await.map_err(failed))
    };
    // On models it is made anew whenever it is served. Here it is seen whether that can be.
    runtime.block_on(format).map_err(|e| failed(format!("the cache has stalled: {e}")))??;
    made.0.clear(); // They are the cache now.
    match file.put() {
        out::OK => Ok(Report {
            cache: name.to_string(),
            flash: description.flash.display().to_string(),
            flash_bytes: sizes.0,
            slow: description.slow.display().to_string(),
            volume_bytes: sizes.1,
            page_bytes: description.page_bytes,
            modelled,
            adopted: description.label == LabelPlace::End,
        }),
        _ => Err(failed(format!(
            "\"{name}\" could not be written; the cache is made: try again with --force"
        ))),
    }
}
