//! The files, block devices and images of a log or cache, opened.
//!
//! 1. No two paths are one file, by links, by loop devices or otherwise.
//! 2. All are opened, and so locked, before anything is written.
//! 3. The image of a drive is a drive: it is never written to as a file.

use super::member::{Member, MemberLink};
use super::{in_words, model};
use crate::fault;
use crate::members::Description;
use crate::out;
use std::cell::RefCell;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use tantalum_device::storage::{SYS, Shared, Storage};
use tantalum_device::{BlockDevice, File, FileSettings, LiveBox, PowerCycle};
use tantalum_drive::Drive;
use tantalum_log::{LogDevice, LogVolume, OpenOptions, VolumeOptions};
use tantalum_nand::{ImageFile, Opening};
use tantalum_rt::wall::WallOptions;
use tantalum_rt::{Rt, Runtime, join_all};

/// What a log consists of.
pub struct Devices {
    /// With the name of each.
    pub array: Vec<(String, Member)>,
    pub archive: Option<(String, Member)>,
    pub backing: Option<Member>,
}

/// Opens devices, each with the name by which messages call it: images as `opening` says. If that is a
/// view, nothing is changed, and files are opened for reading only. Drives have no power yet.
///
/// # Errors
/// Which device cannot be used, why, and what to do, in a line.
pub fn open_all<'a>(
    rt: &Rt,
    paths: impl Iterator<Item = &'a PathBuf> + Clone,
    opening: Opening,
) -> Result<Vec<(String, Member)>, String> {
    distinct(paths.clone())?;
    let all = paths.clone();
    let open = |(place, path): (usize, &PathBuf)| {
        open_one(rt, path, place, name_of(path, place, all.clone()), opening)
    };
    paths.enumerate().map(open).collect()
}

/// The name of a device, and the device, or why it cannot be used.
pub type Tried = (String, Result<Member, String>);

/// Opens each by itself, as [`open_all`] does, only to look at it. What cannot be opened has the
/// reason in its place, in a line.
///
/// # Errors
/// In a line, that two paths are one device, or that none of those can be opened that are there.
pub fn open_each<'a>(
    rt: &Rt,
    paths: impl Iterator<Item = &'a PathBuf> + Clone,
) -> Result<Vec<Tried>, String> {
    let view = Opening { view: true, ..Opening::default() };
    distinct(paths.clone().filter(|path| no_device(path).is_none()))?;
    let mut refused = None;
    let mut all = Vec::new();
    for (place, path) in paths.clone().enumerate() {
        let name = name_of(path, place, paths.clone());
        let opened = match no_device(path) {
            Some(why) => Err(not_there(&name, why)),
            None => open_one(rt, path, place, name.clone(), view)
                .map(|(_, member)| member)
                .inspect_err(|why| refused = Some(refused.take().unwrap_or(why.clone()))),
        };
        all.push((name, opened));
    }
    match refused {
        Some(why) if all.iter().all(|(_, opened)| opened.is_err()) => Err(why),
        _ => Ok(all),
    }
}

/// Opens one more device beside these others, as [`open_all`] does. Others that are not there are no
/// hindrance.
///
/// # Errors
/// Why it cannot be used, and what to do, in a line.
pub fn open_another<'a>(
    rt: &Rt,
    path: &'a PathBuf,
    place: usize,
    others: impl Iterator<Item = &'a PathBuf> + Clone,
    opening: Opening,
) -> Result<(String, Member), String> {
    distinct(others.filter(|path| no_device(path).is_none()).chain([path]))?;
    open_one(rt, path, place, numbered(path, place), opening)
}

/// What messages call a device, which has this place among all: as the user has written it. Several
/// models may be written alike, and are numbered then.
pub fn name_of<'a>(path: &Path, place: usize, all: impl Iterator<Item = &'a PathBuf>) -> String {
    let is_alike = |(at, other): (usize, &PathBuf)| at != place && other == path;
    match all.enumerate().any(is_alike) {
        true => numbered(path, place),
        false => path.display().to_string(),
    }
}

/// The same of a device that comes to others later: models are numbered.
pub fn numbered(path: &Path, place: usize) -> String {
    match model::is_model(path) {
        true => format!("{} (member {place})", path.display()),
        false => path.display().to_string(),
    }
}

fn open_one(
    rt: &Rt,
    path: &Path,
    place: usize,
    name: String,
    opening: Opening,
) -> Result<(String, Member), String> {
    let said = |e: &dyn std::fmt::Display| format!("{name}: {e}");
    let unreadable = |e: &std::io::Error| match e.kind() {
        std::io::ErrorKind::PermissionDenied => {
            said(&"you may not read it: run this as a user who may, or name another")
        }
        _ => said(e),
    };
    let member = if model::is_model(path) {
        Member::Model(model::build(rt, path, place)?)
    } else if !ImageFile::is_at(path).map_err(|e| unreadable(&e))? {
        let read_only = opening.view;
        let settings = FileSettings { read_only, keep_room: true, ..FileSettings::default() };
        Member::File(open(rt, path, &settings)?)
    } else {
        let image = ImageFile::open_with(path, opening).map_err(|e| said(&e))?;
        let drive = Drive::on_file(rt, image.clone()).map_err(|e| said(&e))?;
        let then = if opening.view { fault::NOTHING } else { fault::POWER_CUT };
        let told = fault::tell(&[(path, &image)], then);
        told.map_err(|e| format!("cannot wait for signals: {e}"))?;
        Member::Drive(drive)
    };
    Ok((name, member))
}

impl Devices {
    /// Opens the devices of a description, as [`open_all`] says. Drives have no power yet. Devices of a
    /// log with copies that are not there, or are none, are told and left out: the log says whether it
    /// needs them.
    ///
    /// # Errors
    /// Which device cannot be used, why, and what to do, in a line.
    pub fn open(rt: &Rt, of: &Description, opening: Opening) -> Result<Devices, String> {
        let there = there(of);
        if there.devices.is_empty() && there.archive.is_none() && !of.devices.is_empty() {
            return Err("no device of the log is there: bring one back".to_string());
        }
        Devices::open_whole(rt, &there, opening)
    }

    /// The same; all devices have to be there.
    ///
    /// # Errors
    /// The same.
    pub fn open_whole(rt: &Rt, of: &Description, opening: Opening) -> Result<Devices, String> {
        let mut opened = open_all(rt, of.paths(), opening)?;
        let backing = of.backing.as_ref().and_then(|_| opened.pop()).map(|(_, member)| member);
        let archive = of.archive.as_ref().and_then(|_| opened.pop());
        Ok(Devices { array: opened, archive, backing })
    }

    /// All members.
    pub fn members(&self) -> Members {
        let log = self.array.iter().chain(&self.archive).map(|(_, member)| member);
        Members::of(log.chain(&self.backing).cloned().collect())
    }

    /// All devices of the log itself.
    pub fn of_log(&self) -> Vec<LogDevice<MemberLink>> {
        self.array.iter().chain(&self.archive).map(linked).collect()
    }

    /// The volume over them, without power.
    ///
    /// # Errors
    /// Why there can be none, in a line.
    pub fn volume(
        self,
        rt: &Rt,
        of: &Description,
        degraded: bool,
    ) -> Result<LogVolume<Member, Member>, String> {
        let (Some(backing), Some(path)) = (self.backing, &of.backing) else {
            return Err("the log has no backing, and so no volume: create one with --backing PATH"
                .to_string());
        };
        let log = OpenOptions { degraded, ..of.open_options() };
        let backing_name = path.display().to_string();
        let options = VolumeOptions { backing_name, log, ..VolumeOptions::default() };
        LogVolume::new(rt, self.array, self.archive, backing, options).map_err(in_words)
    }
}

/// The description without what is no device, of a log with copies: that is told.
fn there(of: &Description) -> Description {
    let mut of = of.clone();
    let is_there = |device: &PathBuf| {
        let why = no_device(device);
        if let Some(why) = why {
            out::note(format_args!("\"{}\" {why}", device.display()));
        }
        why.is_none()
    };
    if of.copies > 1 {
        of.devices.retain(is_there);
        of.archive = of.archive.take().filter(is_there);
    }
    of
}

/// What to say of something in whose place is no device, for this reason.
pub fn not_there(name: &str, why: &str) -> String {
    format!("\"{name}\" {why}: bring it back, or restore it from a copy")
}

/// Why there is no device at this path that could hold anything; `None`: there may be one.
#[allow(clippy::disallowed_methods, reason = "the edge: the files that the user names")]
pub fn no_device(path: &Path) -> Option<&'static str> {
    if model::is_model(path) {
        return None;
    }
    let is = match std::fs::metadata(path) {
        Ok(is) => is,
        Err(e) if e.kind() == ErrorKind::NotFound => return Some("is not there"),
        // Opening it tells.
        Err(_) => return None,
    };
    match is.file_type() {
        kind if kind.is_block_device() => None,
        kind if kind.is_dir() => Some("is a folder, and no device"),
        kind if !kind.is_file() => Some("is neither a file nor a block device"),
        _ if is.len() == 0 => Some("is empty"),
        _ => None,
    }
}

/// The members of a log, for their power.
pub struct Members(RefCell<Vec<Member>>);

impl Members {
    /// These.
    pub fn of(members: Vec<Member>) -> Members {
        Members(RefCell::new(members))
    }

    /// One more.
    pub fn add(&self, member: Member) {
        self.0.borrow_mut().push(member);
    }

    fn all(&self) -> Vec<Member> {
        self.0.borrow().clone()
    }

    /// Whether a device of this machine is among them, which takes its own time.
    pub fn are_real(&self) -> bool {
        self.0.borrow().iter().any(|member| matches!(member, Member::File(_)))
    }

    /// How many bytes each has, in the order of the description.
    pub fn sizes(&self) -> Vec<u64> {
        self.0.borrow().iter().map(|member| member.device().caps().bytes()).collect()
    }

    /// Powers all of them, side by side: a disk takes seconds to spin up.
    ///
    /// # Errors
    /// Why one does not start, in a line: of the first of them.
    pub async fn power_on(&self) -> Result<(), String> {
        let all = self.all();
        let started = join_all(all.iter().map(PowerCycle::power_on).collect()).await;
        started.into_iter().collect::<Result<(), _>>().map_err(in_words)
    }

    /// Takes their power, and ends their use.
    ///
    /// # Errors
    /// Why an image is not durable, in a line.
    pub async fn end(&self) -> Result<(), String> {
        let all = self.all();
        all.iter().for_each(PowerCycle::cut);
        join_all(all.iter().map(PowerCycle::off).collect()).await;
        self.shut()
    }

    /// Ends their use, after they are off: makes images durable.
    ///
    /// # Errors
    /// Why one is not, in a line.
    pub fn shut(&self) -> Result<(), String> {
        self.all().iter().try_for_each(|member| match member {
            Member::Drive(drive) => drive.shut(),
            Member::File(_) | Member::Model(_) => Ok(()),
        })
    }
}

/// What the log is given of a member.
pub fn linked((name, member): &(String, Member)) -> LogDevice<MemberLink> {
    LogDevice::new(name.clone(), member.device())
}

/// Opens a file or block device, through the page cache where there is no direct I/O.
///
/// # Errors
/// In a line.
pub fn open(rt: &Rt, path: &Path, settings: &FileSettings) -> Result<File, String> {
    File::open(rt, path, settings)
        .or_else(|e| match e {
            // Memory file systems have no direct I/O.
            tantalum_device::FileError::NoDirectIo(_) => {
                File::open(rt, path, &FileSettings { buffered: true, ..settings.clone() })
            }
            e => Err(e),
        })
        .map_err(|e| e.to_string())
}

/// No two paths are one file, and none is a part of another one (1).
#[allow(clippy::disallowed_methods, reason = "the edge: the files that the user names")]
fn distinct<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Result<(), String> {
    let mut known: Vec<(Storage, &PathBuf)> = Vec::new();
    for path in paths {
        if model::is_model(path) {
            continue;
        }
        let is = std::fs::metadata(path).map_err(|e| {
            format!("{}: {e}: name a file or block device that is there", path.display())
        })?;
        let storage = Storage::of(&is, Path::new(SYS));
        for (other, at) in &known {
            let (path, at) = (path.display(), at.display());
            match storage.shares(other) {
                None => {}
                Some(Shared::All) => {
                    return Err(format!(
                        "\"{at}\" and \"{path}\" are the same device: name each once"
                    ));
                }
                Some(Shared::ByLoop) => {
                    return Err(format!(
                        "\"{at}\" and \"{path}\" are the same device, by a loop device: name each once"
                    ));
                }
                Some(Shared::Disk) => {
                    return Err(format!(
                        "\"{at}\" and \"{path}\" are a disk and a partition of it: name one of them"
                    ));
                }
            }
        }
        known.push((storage, path));
    }
    Ok(())
}

/// A runtime on the wall clock.
///
/// # Errors
/// Why there is none, in a line.
pub fn runtime() -> Result<Runtime, String> {
    Runtime::wall_time(1, WallOptions::default())
        .map_err(|e| format!("the wall clock does not start: {e}"))
}
