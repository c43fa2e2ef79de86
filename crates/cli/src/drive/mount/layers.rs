//! The layers above a drive: the file, a loop device on it, a file system on that. Each layer is
//! optional.

use super::busy::Busy;
use super::filesystem::{self, Kind};
use super::programs;
use super::table::{self, Mounted};
use crate::drive::live::{Failure, Live, Site};
use crate::out;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tantalum_device::{BlockDevice, LiveBox, PowerCycle, PowerState};
use tantalum_export::Volume;
use tantalum_export::fuse::{self, Directory, FILE_NAME, OneFile, Rights, Served};
use tantalum_export::nbd::OnCut;
use tantalum_files::{Files, FilesError, FormatOptions, MountOptions};
use tantalum_rt::Nanos;

/// Where the mount points of files with a loop device on them are.
const PRIVATE: &str = "/run/tantalum";

/// Time between two looks at a table of mounts that changes.
const PAUSE: Nanos = Nanos::from_millis(100);

/// The host's end of the drive's link.
type Device<B> = <Live<B> as PowerCycle>::Device;

/// Which layers to set up.
pub struct Recipe {
    /// The user's mount point.
    pub dir: PathBuf,
    /// The name in the table of mounts.
    pub source: String,
    /// `source` names an image, which no other process has: existing mounts of that name are
    /// leftovers.
    pub in_image: bool,
    /// The kernel's file system on the drive, if one is wanted.
    pub fs: Option<Kind>,
    /// The drive is mounted as a directory of files.
    pub files: bool,
    /// Options of the file system.
    pub options: Option<String>,
    /// What a cut does to the file.
    pub on_cut: OnCut,
}

/// See the module.
pub struct Layers<B: LiveBox> {
    site: Site<B>,
    recipe: Recipe,
    volume: Rc<Volume<Live<B>>>,
    /// Where the file is.
    file_dir: PathBuf,
    /// Owner and mode of the mount point before anything is mounted there.
    rights: Rights,
    /// Directories that were made, and are removed at the end.
    made: RefCell<Vec<PathBuf>>,
    served: RefCell<Option<Served>>,
    /// The mount of what is served.
    connected: RefCell<Option<Mounted>>,
    /// The files of the drive, if it is mounted as a directory of files.
    directory: RefCell<Option<Rc<Directory<Device<B>>>>>,
    /// The loop device.
    disk: RefCell<Option<String>>,
    /// The file system is mounted.
    mounted: Cell<bool>,
    /// The mount that was unmounted last, while another process may still have a copy of it.
    leaving: RefCell<Option<Mounted>>,
    /// What users see at the mount point, from the time when all layers are up until a cut.
    shown: RefCell<Option<Mounted>>,
    /// What users saw, once another process has unmounted it.
    taken: RefCell<Option<Mounted>>,
}

impl<B: LiveBox> Layers<B> {
    /// Takes down what a killed process left; sets up nothing yet.
    pub async fn new(site: &Site<B>, mut recipe: Recipe) -> Result<Layers<B>, Failure> {
        let failed = |why| (why, out::FAILED);
        let invalid = |why| (why, out::USAGE);
        if recipe.fs.is_some() && !rustix::process::geteuid().is_root() {
            let why =
                "--fs takes root, since it attaches a loop device and mounts it: run it with sudo";
            return Err(invalid(why.to_string()));
        }
        clean_up(site, &recipe).await.map_err(failed)?;
        // From here on the path is not resolved again: it may lead into the mount that this process
        // serves.
        let made = make_dir(&recipe.dir, 0o755).map_err(invalid)?;
        recipe.dir = super::path_in_full(&recipe.dir);
        let rights = rights(&recipe.dir).map_err(invalid)?;
        check_place(&recipe.dir).map_err(invalid)?;
        let made = if made { vec![recipe.dir.clone()] } else { Vec::new() };
        let file_dir = match recipe.fs {
            Some(_) => Path::new(PRIVATE).join(format!("drive-{}", std::process::id())),
            None => recipe.dir.clone(),
        };
        let volume = Volume::new(&site.rt, site.drive.clone());
        Ok(Layers {
            site: site.clone(),
            recipe,
            volume,
            file_dir,
            rights,
            made: RefCell::new(made),
            served: RefCell::default(),
            connected: RefCell::default(),
            directory: RefCell::default(),
            disk: RefCell::default(),
            mounted: Cell::new(false),
            leaving: RefCell::default(),
            shown: RefCell::default(),
            taken: RefCell::default(),
        })
    }

    /// The user's mount point.
    pub fn place(&self) -> PathBuf {
        match self.recipe.fs {
            None if !self.recipe.files => self.recipe.dir.join(FILE_NAME),
            _ => self.recipe.dir.clone(),
        }
    }

    async fn program(&self, program: &str, arguments: &[&str]) -> Result<programs::Ended, String> {
        programs::run(&self.site.rt, program, arguments).await
    }

    /// Sets up the layers that are missing. `made`: makes a file system with this block size.
    pub async fn up(&self, made: Option<u32>) -> Result<(), String> {
        self.set_up(made).await?;
        *self.shown.borrow_mut() = topmost(&self.recipe.dir);
        Ok(())
    }

    async fn set_up(&self, made: Option<u32>) -> Result<(), String> {
        if self.recipe.files {
            self.find_files().await?;
        }
        self.show().await?;
        let Some(kind) = self.recipe.fs else { return Ok(()) };
        // The kernel must not wait for this thread while this thread waits for memory.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        let disk = self.disk.borrow().clone();
        let disk = match disk {
            Some(disk) => disk,
            None => self.attach().await?,
        };
        if self.mounted.get() {
            return Ok(());
        }
        match made {
            Some(block) => filesystem::make(&self.site.rt, kind, block, &disk).await?,
            None => filesystem::check(&self.site.rt, kind, &disk).await?,
        }
        // An image may come from another user: its programs must not gain rights when they are
        // started, and its files must not be devices.
        let mut options = match kind {
            Kind::Ext4 => "nosuid,nodev,noatime,noinit_itable".to_string(),
            // The dead file system of the last power cycle may still have users, and has the same
            // UUID.
            Kind::Xfs => "nosuid,nodev,noatime,nouuid".to_string(),
        };
        if let Some(more) = &self.recipe.options {
            options = format!("{options},{more}");
        }
        let at = self.recipe.dir.to_string_lossy();
        let how = ["-i", "-t", kind.name(), "-o", &options, &disk, &at];
        self.program("mount", &how).await?.ok(&format!("mounting {} at {at}", kind.name()))?;
        self.mounted.set(true);
        Ok(())
    }

    /// Makes the file layer on the drive, overwriting its content.
    pub async fn format(&self) -> Result<(), String> {
        let _announced = self.site.rt.outstanding("the making of the file layer");
        Files::format(&self.site.rt, &self.site.drive.device(), &FormatOptions::default())
            .await
            .map_err(|e| format!("making the file layer: {e}"))
    }

    /// Mounts the file layer; `None`: there is none.
    pub async fn files(&self) -> Result<Option<Files<Device<B>>>, String> {
        let _announced = self.site.rt.outstanding("the files on the drive");
        let device = self.site.drive.device();
        match Files::mount(&self.site.rt, device, &MountOptions::default()).await {
            Ok(files) => Ok(Some(files)),
            Err(FilesError::NotFormatted) => Ok(None),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Mounts the file layer after the power has returned.
    async fn find_files(&self) -> Result<(), String> {
        let files = self.files().await?.ok_or("the file layer is gone")?;
        let directory = self.directory.borrow().clone();
        match directory {
            Some(directory) => directory.renew(files),
            None => {
                let directory = Rc::new(Directory::new(files, self.rights, now()));
                *self.directory.borrow_mut() = Some(directory);
            }
        }
        Ok(())
    }

    async fn show(&self) -> Result<(), String> {
        let served = self.served.borrow_mut().take();
        if let Some(served) = served {
            if !served.is_over() && self.is_connected().await {
                *self.served.borrow_mut() = Some(served);
                return Ok(());
            }
            // It was unmounted while the power was off. It may be about to end, or another process
            // has a copy of the mount: one of a drive that has lost its power.
            served.stop().await;
        }
        if self.recipe.fs.is_some() {
            self.make_dir(Path::new(PRIVATE), 0o755)?;
        }
        self.make_dir(&self.file_dir, if self.recipe.fs.is_some() { 0o700 } else { 0o755 })?;
        let file = OneFile::new(&self.volume, owner(), now());
        let file = Rc::new(file.map_err(|e| e.to_string())?);
        let connection = fuse::mount(&self.site.io, &self.file_dir, &self.recipe.source)
            .map_err(|e| e.to_string())?;
        let (rt, on_cut) = (&self.site.rt, self.recipe.on_cut);
        let served = match &*self.directory.borrow() {
            Some(directory) => Served::directory(rt, connection, directory, on_cut),
            None => Served::one_file(rt, connection, &file, on_cut),
        };
        *self.served.borrow_mut() = Some(served);
        *self.connected.borrow_mut() = topmost(&self.file_dir);
        Ok(())
    }

    /// Whether the mount of what is served is still there.
    async fn is_connected(&self) -> bool {
        let connected = self.connected.borrow().clone();
        let is_there = || connected.as_ref().is_none_or(is_there);
        if is_there() {
            return true;
        }
        // (A table that changes may be read without one of its lines.)
        self.site.io.sleep(PAUSE).await;
        is_there()
    }

    /// Makes a directory that is not below the mount of this process.
    fn make_dir(&self, dir: &Path, mode: u32) -> Result<(), String> {
        if make_dir(dir, mode)? {
            self.made.borrow_mut().push(dir.to_path_buf());
        }
        Ok(())
    }

    async fn attach(&self) -> Result<String, String> {
        let file = self.file_dir.join(FILE_NAME);
        let file = file.to_string_lossy();
        let sector = filesystem::SECTOR.to_string();
        let how = ["--find", "--show", "--direct-io=on", "--sector-size", &sector, &file];
        let mut last = Ok(String::new());
        // Two processes that look for a free loop device may find the same one.
        for _ in 0..5 {
            let ended = self.program("losetup", &how).await?;
            last = ended.ok("attaching a loop device").map(|out| out.trim().to_string());
            if let Ok(disk) = &last {
                *self.disk.borrow_mut() = Some(disk.clone());
                break;
            }
        }
        self.tell_of_flushes(&last?).await
    }

    /// Makes the kernel send flushes to the disk if they mean anything there. A device that keeps
    /// what it acknowledged, and whose flushes do nothing, is spared them: each would be one more
    /// request to this process for every commit. The kernel keeps the setting of a loop device when
    /// the device is attached to another file, so it is always set.
    async fn tell_of_flushes(&self, disk: &str) -> Result<String, String> {
        let device = self.site.drive.device();
        let spared = device.caps().ack.survives() && !device.caps().flush;
        let word = if spared { "write through" } else { "write back" };
        let knob = disk.replacen("/dev/", "/sys/block/", 1) + "/queue/write_cache";
        let script = r#"[ "$(cat "$0")" = "$1" ] || echo "$1" >"$0"; [ "$(cat "$0")" = "$1" ]"#;
        let ended = self.program("sh", &["-c", script, &knob, word]).await?;
        let what = format!("telling the kernel whether to send flushes ({knob} as \"{word}\")");
        ended.ok(&what).map(|_| disk.to_string())
    }

    /// After a cut: from now on users may unmount what is left, until all layers are up again.
    pub fn expect_nothing(&self) {
        self.shown.take();
    }

    /// Waits until another process has unmounted what users see, while the drive has power. From
    /// then on the layers below can only be taken down. Returns the mount point.
    ///
    /// # Errors
    /// The system's: it does not tell of changes of the table of mounts.
    pub async fn until_unmounted(&self) -> io::Result<&Path> {
        let changes = table::Changes::new(&self.site.io)?;
        let gone = loop {
            // (Twice, since a table that changes may be read without one of its lines.)
            if self.is_gone().is_some() {
                self.site.io.sleep(PAUSE).await;
                if let Some(gone) = self.is_gone() {
                    break gone;
                }
            }
            changes.next().await?;
            // Many changes at once are looked at once.
            self.site.io.sleep(PAUSE).await;
        };
        match self.recipe.fs {
            Some(_) => self.mounted.set(false),
            None => *self.leaving.borrow_mut() = Some(gone.clone()),
        }
        *self.taken.borrow_mut() = Some(gone);
        Ok(&self.recipe.dir)
    }

    /// What users saw, if it is mounted nowhere any more though the drive has power.
    fn is_gone(&self) -> Option<Mounted> {
        let shown = self.shown.borrow().clone()?;
        let is_on = self.site.drive.inner().power_state() == PowerState::On;
        (is_on && !is_there(&shown)).then_some(shown)
    }

    /// Whether another process has unmounted the file. What is mounted there now, if anything, is not
    /// this process's.
    fn file_is_taken(&self) -> bool {
        let taken = self.taken.borrow();
        let gone = taken.as_ref().filter(|_| self.recipe.fs.is_none());
        gone.is_some_and(|gone| !topmost(&self.file_dir).is_some_and(|m| m.is_copy_of(gone)))
    }

    /// Takes down the layers in good order, from the top, as far as they are not in use.
    pub async fn down(&self) -> Result<(), Busy> {
        if self.mounted.get() {
            self.unmount(&self.recipe.dir).await?;
            self.mounted.set(false);
        }
        self.detach_disk().await;
        let served = self.served.borrow().is_some();
        if served {
            match self.file_is_taken() {
                true => self.copies_are_gone(&self.file_dir)?,
                false => self.unmount(&self.file_dir).await?,
            }
            let served = self.served.borrow_mut().take();
            if let Some(served) = served {
                served.end().await;
            }
        }
        self.remove_dirs();
        Ok(())
    }

    /// Unmounts for all processes: while another process has a copy of the mount, it is in use.
    async fn unmount(&self, at: &Path) -> Result<(), Busy> {
        if let Some(mount) = topmost(at) {
            *self.leaving.borrow_mut() = Some(mount);
        }
        let name = at.to_string_lossy();
        let (program, how) = unmounting(false);
        let ended = self.program(program, &[how, &[&name]].concat()).await;
        let ended = ended.and_then(|ended| ended.ok("unmounting").map(drop));
        match ended {
            Err(why) if is_mounted(at) => {
                Err(Busy { at: at.to_path_buf(), users: table::users(at), why: Some(why) })
            }
            // It is unmounted here, by this process or another.
            _ => self.copies_are_gone(at),
        }
    }

    /// Whether no process has a copy of the mount that was unmounted here.
    fn copies_are_gone(&self, at: &Path) -> Result<(), Busy> {
        let Some(left) = self.leaving.take() else { return Ok(()) };
        // The file's connection ends with the last copy of the mount.
        if self.served.borrow().as_ref().is_none_or(Served::is_over) {
            return Ok(());
        }
        let users = table::copies(|mount| mount.is_copy_of(&left));
        if users.is_empty() {
            return Ok(());
        }
        *self.leaving.borrow_mut() = Some(left);
        Err(Busy { at: at.to_path_buf(), users, why: None })
    }

    async fn detach_disk(&self) {
        let disk = self.disk.borrow_mut().take();
        if let Some(disk) = disk {
            // If it is in use, it is detached when its last user ends.
            if let Err(why) = self.program("losetup", &["-d", &disk]).await {
                out::note(format_args!("{disk} is not detached: {why}"));
            }
        }
    }

    /// Ends the file's connection: its users get errors.
    pub async fn hang_up(&self) {
        let served = self.served.borrow_mut().take();
        if let Some(served) = served {
            served.stop().await;
            if !self.file_is_taken() {
                detach(&self.site, &self.file_dir).await;
            }
        }
    }

    /// After a cut: leaves a mounted file system to its users, who get errors.
    pub async fn leave_the_dead(&self) {
        if self.mounted.replace(false) {
            detach(&self.site, &self.recipe.dir).await;
        }
        self.detach_disk().await;
    }

    /// Takes down all layers, even if they are in use.
    pub async fn down_at_once(&self) {
        let dir = self.recipe.dir.to_string_lossy();
        let of_it: Option<&[&str]> = match (self.mounted.get(), self.taken.borrow().is_some()) {
            (true, _) => Some(&["-f", &dir]),
            // A file system that was unmounted while files are open has no path.
            (false, true) if self.recipe.fs.is_some() => Some(&[]),
            (false, _) => None,
        };
        let is_on = self.site.drive.inner().power_state() == PowerState::On;
        if let Some(of_it) = of_it.filter(|_| is_on) {
            // Users may lose data that is not written yet, because this process is about to end.
            let _ = self.program("sync", of_it).await;
        }
        self.leave_the_dead().await;
        self.hang_up().await;
        self.remove_dirs();
    }

    fn remove_dirs(&self) {
        for dir in self.made.borrow_mut().drain(..).rev() {
            // A directory that others use by now stays.
            let _ = rustix::fs::rmdir(dir);
        }
    }
}

/// The mount of a drive, of any process.
struct Mount {
    /// The file, or directory, through FUSE.
    fuse: Mounted,
    /// Loop devices on it.
    disks: Vec<String>,
    /// Mount points of these loop devices.
    above: Vec<PathBuf>,
}

impl Mount {
    fn all() -> Vec<Mount> {
        let (mounts, loops) = (table::mounts().unwrap_or_default(), table::loops());
        let one = |fuse: &Mounted| {
            let disks = loops.iter().filter(|(_, file)| file.starts_with(&fuse.at));
            let disks: Vec<String> = disks.map(|(name, _)| name.clone()).collect();
            let above = mounts.iter().filter(|m| disks.contains(&m.source));
            Mount { fuse: fuse.clone(), above: above.map(|m| m.at.clone()).collect(), disks }
        };
        mounts.iter().filter(|m| m.kind == fuse::KIND).map(one).collect()
    }

    fn is_at(&self, dir: &Path) -> bool {
        self.fuse.at == dir || self.above.iter().any(|at| at == dir)
    }
}

/// Takes down what a killed process has left: mounts of this image, and dead mounts at the mount
/// point.
///
/// # Errors
/// If a live drive is mounted there.
async fn clean_up<B: LiveBox>(site: &Site<B>, recipe: &Recipe) -> Result<(), String> {
    let dir = super::path_in_full(&recipe.dir);
    for mount in Mount::all() {
        let at = &mount.fuse.at;
        let ours = recipe.in_image && mount.fuse.source == recipe.source;
        let in_our_way = mount.is_at(&dir) || mount.is_at(&recipe.dir);
        if !ours && in_our_way && !is_dead(at) {
            return Err(format!(
                "{}: another drive is mounted there ({}): take another directory",
                recipe.dir.display(),
                mount.fuse.source
            ));
        }
        if !ours && !in_our_way {
            continue;
        }
        out::note(format_args!("{}: left by a process that was killed: taken down", at.display()));
        for at in &mount.above {
            detach(site, at).await;
        }
        for disk in &mount.disks {
            let _ = programs::run(&site.rt, "losetup", &["-d", disk]).await;
        }
        detach(site, at).await;
        if at.starts_with(PRIVATE) {
            let _ = rustix::fs::rmdir(at);
        }
    }
    Ok(())
}

/// The program that unmounts for this user, and how it is called.
fn unmounting(lazily: bool) -> (&'static str, &'static [&'static str]) {
    match (rustix::process::geteuid().is_root(), lazily) {
        (true, false) => ("umount", &["-i"]),
        (true, true) => ("umount", &["-i", "-l"]),
        (false, false) => ("fusermount3", &["-u", "--"]),
        (false, true) => ("fusermount3", &["-u", "-z", "--"]),
    }
}

/// Unmounts lazily: only processes that use it keep it.
async fn detach<B: LiveBox>(site: &Site<B>, at: &Path) {
    let (program, how) = unmounting(true);
    let name = at.to_string_lossy();
    let ended = programs::run(&site.rt, program, &[how, &[&name]].concat()).await;
    match ended.and_then(|ended| ended.ok("unmounting").map(drop)) {
        Err(why) if is_mounted(at) => out::note(format_args!("{}: {why}", at.display())),
        _ => {}
    }
}

impl<B: LiveBox> Drop for Layers<B> {
    fn drop(&mut self) {
        // In case the drive did not start.
        self.remove_dirs();
    }
}

/// The owner of the drive as a file.
fn owner() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

/// Owner and mode of a directory.
fn rights(dir: &Path) -> Result<Rights, String> {
    let told = rustix::fs::stat(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mode = Mode::from_raw_mode(told.st_mode).as_raw_mode();
    Ok(Rights { mode, uid: told.st_uid, gid: told.st_gid })
}

/// Seconds since the beginning of 1970.
fn now() -> u64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec.max(0) as u64
}

/// Refuses what nothing can be mounted on, and `/`: nobody would see a mount there.
fn check_place(dir: &Path) -> Result<(), String> {
    let what = match dir {
        dir if !dir.is_dir() => "it is no folder",
        dir if dir.parent().is_none() => "it is the root of all files",
        _ => return Ok(()),
    };
    Err(format!("cannot mount at {}: {what}: name a folder, or one to be made", dir.display()))
}

/// Makes a directory; returns whether it did not exist.
fn make_dir(dir: &Path, mode: u32) -> Result<bool, String> {
    match rustix::fs::mkdir(dir, Mode::from_raw_mode(mode)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(Errno::NOENT) if dir.parent().is_some_and(Path::is_dir) => Err(format!(
            "cannot make the directory {}: its file system refuses folders: name another place",
            dir.display()
        )),
        Err(e) => Err(out::cannot("make the directory", dir, &e.into())),
    }
}

/// Whether something is mounted there, as far as that is known.
fn is_mounted(at: &Path) -> bool {
    table::mounts().is_none_or(|all| all.iter().any(|mount| mount.at == at))
}

/// Whether this is mounted, as far as that is known: elsewhere, if it was moved.
fn is_there(one: &Mounted) -> bool {
    table::mounts().is_none_or(|all| all.iter().any(|mount| mount.is_copy_of(one)))
}

/// What is mounted there last, and so hides the other mounts.
fn topmost(at: &Path) -> Option<Mounted> {
    table::mounts()?.into_iter().rev().find(|mount| mount.at == at)
}

/// Whether the process that served the file system there has ended.
fn is_dead(at: &Path) -> bool {
    matches!(rustix::fs::stat(at), Err(Errno::NOTCONN | Errno::CONNABORTED))
}
