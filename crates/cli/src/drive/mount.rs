//! `tantalum drive mount`: a drive as a file, or as a disk with a file system of the kernel's.
//!
//! 1. Every exit that can be caught takes down everything that was set up: the file system, the
//!    loop device, the file, directories that were made.
//! 2. What a killed process of the same image has left is taken down before anything is set up.
//! 3. After a cut the file system above is dead, even if it has not noticed: nothing that it still
//!    has in memory reaches the drive, because the open file fails permanently. After a restore a
//!    new mount replaces it.

mod busy;
pub mod filesystem;
mod layers;
mod programs;
mod table;

use super::live::{self, Build, Failure, Front, LiveArguments, OnCut, ServedBox, Site};
use super::size;
use crate::members::Group;
use crate::out;
use busy::Attempts;
use clap::Args;
use filesystem::{Content, Kind};
use layers::{Layers, Recipe};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use tantalum_device::{BlockDevice, LiveBox, PowerCycle};
use tantalum_rt::Nanos;

/// Time between two attempts to unmount a file system in use.
const AGAIN: Nanos = Nanos::from_millis(500);

/// Arguments of `tantalum drive mount`.
#[derive(Args, Clone)]
#[command(
    override_usage = "tantalum drive mount [OPTIONS] IMAGE DIR\n       \
                      tantalum drive mount [OPTIONS] --design DESIGN | --disk MODEL | --ram SIZE | --file PATH DIR",
    after_help = "\
Examples:
  tantalum drive create disk.img --design durassd --capacity 16GiB
  tantalum drive mount disk.img /mnt/flash                     the drive is the file /mnt/flash/drive
  tantalum drive mount disk.img /mnt/flash --fs xfs --fs-block 16KiB
  tantalum drive mount --design volatile --capacity 8GiB /mnt/flash --fs ext4 --time-scale 0
  tantalum drive mount disk.img /mnt/flash --files             files on the drive itself
  tantalum drive mount --disk 4xdisk-15k --capacity 8GiB /mnt/disks --fs xfs   a RAID-0 of four disks

When the drive is ready, the line \"ready: DIR\" is printed. --fs mounts a file system
through a loop device with direct I/O, and makes one on a blank drive; it needs root.
A file and --files need root, or fusermount3 (the package fuse3): then only you can
use them. For database pages that reach the drive in one piece, use XFS with blocks of
the database's page size.

SIGINT and SIGTERM unmount the drive and end it in good order. If it is in use, the
process names its users and waits; a second signal leaves the mount to its users.
`umount DIR` does the same, unless the power is off.
Killing the process is a power cut; the next process that mounts the image cleans up.
After `tantalum drive restore` the file system is checked and mounted again.
Exit codes: 0, it ended in good order; 1, it did not, or it cannot be mounted; 2,
nothing was done: an argument, a file or a design is invalid, not there or in use, or
something listens at an address already; 130, it was interrupted before it was ready."
)]
pub struct MountArguments {
    /// The image of the drive (see `tantalum drive create`) and the mount point; with --design,
    /// --disk, --ram or --file only the mount point
    #[arg(value_names = ["IMAGE", "DIR"], num_args = 1..=2, required = true)]
    places: Vec<PathBuf>,
    /// Mount the kernel's file system on the drive; it is made if the drive is blank
    #[arg(long, value_enum)]
    fs: Option<Kind>,
    /// Block size of a new file system. More than 4KiB needs XFS and Linux 6.12
    #[arg(long, value_name = "SIZE", value_parser = crate::units::bytes, requires = "fs")]
    fs_block: Option<u64>,
    /// More options for mount(8), separated by commas. nosuid,nodev,noatime are always set
    #[arg(long, value_name = "OPTIONS", requires = "fs")]
    fs_options: Option<String>,
    /// Mount the drive as one flat directory of files, with direct I/O, and with atomic pages and
    /// transactions (ioctls of Fusion-io and F2FS) where the drive can guarantee them. A blank
    /// drive becomes an empty directory. The directory belongs to the owner of DIR
    #[arg(long, conflicts_with = "fs")]
    files: bool,
    /// Make a new file system or directory, overwriting whatever is on the drive
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    live: LiveArguments,
}

/// Runs the command; returns the exit code.
pub fn mount(arguments: &MountArguments, of: Option<Group>) -> u8 {
    let own = arguments.clone();
    let (image, dir) = match (&arguments.places[..], arguments.live.names_a_box()) {
        ([image, dir], false) => (Some(image.clone()), dir.clone()),
        ([dir], true) => (None, dir.clone()),
        ([image], false) => {
            let image = image.display();
            let why = format!(
                "give the folder to mount it at, too, as in `tantalum drive mount {image} DIR` (with --design, \
                 --disk, --ram or --file the folder alone)"
            );
            return out::error(why, out::USAGE);
        }
        _ => return out::error("give either an image or a design", out::USAGE),
    };
    if arguments.force && arguments.fs.is_none() && !arguments.files {
        return out::error("--force: use it with --fs or --files", out::USAGE);
    }
    let block = arguments.fs_block.unwrap_or(4096);
    if !block.is_power_of_two() || !(4096..=65536).contains(&block) {
        return out::error("--fs-block: it must be 4, 8, 16, 32 or 64 KiB", out::USAGE);
    }
    if block > 4096 && arguments.fs == Some(Kind::Ext4) {
        let message = "--fs-block: ext4 has blocks of at most 4 KiB here; use --fs xfs";
        return out::error(message, out::USAGE);
    }
    let name = image.as_deref().or(arguments.live.file.as_deref()).map(path_in_full);
    let source = match name {
        Some(path) => path.display().to_string(),
        None => own.live.name(),
    };
    live::run(&arguments.live, image.as_deref(), of, Mount { arguments: own, dir, source })
}

/// How the mount is built.
struct Mount {
    arguments: MountArguments,
    dir: PathBuf,
    source: String,
}

impl Build for Mount {
    type Front = MountFront<ServedBox>;

    async fn build(self, site: Site<ServedBox>) -> Result<MountFront<ServedBox>, Failure> {
        MountFront::new(site, self.arguments, &self.dir, &self.source).await
    }
}

/// The path with all links resolved, so that every name of the image gives the same path.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
fn path_in_full(path: &Path) -> PathBuf {
    let absolute = |_| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    std::fs::canonicalize(path).unwrap_or_else(absolute)
}

/// The mount in front of the drive.
struct MountFront<B: LiveBox> {
    site: Site<B>,
    arguments: MountArguments,
    layers: Layers<B>,
    /// Who has the mount in use while it is to be unmounted.
    in_use: RefCell<Option<String>>,
}

impl<B: LiveBox> MountFront<B> {
    async fn new(
        site: Site<B>,
        arguments: MountArguments,
        dir: &Path,
        source: &str,
    ) -> Result<MountFront<B>, Failure> {
        let recipe = Recipe {
            dir: dir.to_path_buf(),
            source: format!("tantalum:{source}"),
            in_image: !arguments.live.names_a_box() || arguments.live.file.is_some(),
            fs: arguments.fs,
            files: arguments.files,
            options: arguments.fs_options.clone(),
            on_cut: arguments.live.on_cut.into(),
        };
        let layers = Layers::new(&site, recipe).await?;
        Ok(MountFront { site, arguments, layers, in_use: RefCell::default() })
    }

    /// The block size of the file system to make; `None`: there is a file system already.
    async fn to_be_made(&self, kind: Kind) -> Result<Option<u32>, String> {
        let wanted = self.arguments.fs_block.map(|block| block as u32);
        if self.arguments.force {
            return Ok(Some(wanted.unwrap_or(4096)));
        }
        let device = self.site.drive.device();
        let _announced = self.site.rt.outstanding("what is on the drive");
        let content = filesystem::content(&device)
            .await
            .map_err(|e| format!("the drive cannot be read: {e}"))?;
        match content {
            Content::Nothing => Ok(Some(wanted.unwrap_or(4096))),
            Content::Known(there) if there.kind != kind => Err(format!(
                "there is a file system on the drive already, {}: use --fs {}, or --force to overwrite it",
                there.kind.name(),
                there.kind.name()
            )),
            Content::Known(there) if wanted.is_some_and(|wanted| wanted != there.block) => {
                Err(format!(
                    "there is {} with blocks of {} bytes on the drive already: leave out \
                     --fs-block, or use --force to overwrite it",
                    kind.name(),
                    there.block
                ))
            }
            Content::Known(there) => match there.too_fine() {
                Some(why) => Err(format!("{why}; or use --force to overwrite it")),
                None => Ok(None),
            },
            Content::Unknown => Err(
                "there is something on the drive that is neither ext4 nor XFS: use --force to overwrite it"
                    .to_string(),
            ),
        }
    }

    /// Makes the file layer, if there is none.
    async fn make_directory(&self) -> Result<(), String> {
        if !self.arguments.force {
            if self.layers.files().await?.is_some() {
                return Ok(());
            }
            let device = self.site.drive.device();
            match filesystem::content(&device).await {
                Ok(Content::Nothing) => {}
                Ok(_) => {
                    let message = "there is something on the drive that is no directory of files: use \
                                   --force to overwrite it";
                    return Err(message.to_string());
                }
                Err(e) => return Err(format!("the drive cannot be read: {e}")),
            }
        }
        self.layers.format().await
    }

    async fn begin(&self) -> Result<(), String> {
        match self.arguments.fs {
            None if !self.arguments.files => self.layers.up(None).await,
            None => {
                self.make_directory().await?;
                self.layers.up(None).await
            }
            Some(kind) => {
                let made = self.to_be_made(kind).await?;
                self.layers.up(made).await
            }
        }
    }
}

impl<B: LiveBox> Front for MountFront<B> {
    async fn start(&self) -> Result<String, String> {
        if let Err(why) = self.begin().await {
            self.layers.down_at_once().await;
            return Err(why);
        }
        let bytes = self.site.drive.device().caps().bytes();
        Ok(format!("ready: {} ({})\n", self.layers.place().display(), size(bytes)))
    }

    async fn left(&self) -> String {
        match self.layers.until_unmounted().await {
            Ok(at) => {
                format!("{} was unmounted by another process: this process ends", at.display())
            }
            Err(e) => {
                out::note(format_args!("unmounting from outside is not noticed: {e}"));
                std::future::pending().await
            }
        }
    }

    async fn cut(&self) {
        self.layers.expect_nothing();
        if self.arguments.live.on_cut == OnCut::Drop {
            self.layers.hang_up().await;
        }
    }

    async fn before_restore(&self) -> Result<(), String> {
        self.layers.leave_the_dead().await;
        Ok(())
    }

    async fn after_restore(&self) -> Result<Vec<String>, String> {
        let again = self.layers.up(None).await;
        again.map_err(|why| format!("it is not mounted again: {why}"))?;
        Ok(match self.arguments.fs.is_some() || self.arguments.live.on_cut == OnCut::Drop {
            true => vec![format!("remounted: {}", self.layers.place().display())],
            false => Vec::new(),
        })
    }

    async fn stop(&self) -> Result<(), String> {
        let mut attempts = Attempts::default();
        while let Err(busy) = self.layers.down().await {
            if attempts.found(&busy) {
                out::note(busy::left_by_a_second_signal(&busy));
                *self.in_use.borrow_mut() = Some(busy.to_string());
            }
            self.site.io.sleep(AGAIN).await;
        }
        *self.in_use.borrow_mut() = None;
        Ok(())
    }

    fn in_use(&self) -> Option<String> {
        self.in_use.borrow().clone()
    }

    async fn give_up(&self) {
        self.layers.down_at_once().await;
    }
}
