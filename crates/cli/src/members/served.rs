//! A log that this process serves, whose lost devices are replaced meanwhile.
//!
//! 1. The description is written when the new device has its place, and not before. If that does not
//!    succeed, or the process ends before, the same request again only writes it.
//! 2. One device at a time.

use super::description::{ONE_COPY, Replaced};
use super::devices::{Members, numbered, open_another};
use super::model::is_model;
use super::{Description, Member, absolute, in_words_of_replace, put_another};
use crate::out;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tantalum_export::control::{Kind, Refusal, ReplaceReport};
use tantalum_log::{DeviceHealth, DeviceStats, LogError, LogStats, LogVolume, ReplaceError};
use tantalum_nand::Opening;
use tantalum_rt::sync::Mutex;
use tantalum_rt::{Nanos, Rt};

/// How often one looks whether a device is lost, and at first, until the log has started.
const LOOK: Nanos = Nanos::from_millis(250);
const FIRST_LOOK: Nanos = Nanos::from_millis(10);

/// A log that is served, beside the volume over it.
pub struct ServedLog {
    rt: Rt,
    volume: LogVolume<Member, Member>,
    members: Members,
    at: PathBuf,
    description: RefCell<Description>,
    opening: Opening,
    turn: Mutex,
}

impl ServedLog {
    /// The log of this description, at this path.
    pub fn new(
        rt: &Rt,
        volume: &LogVolume<Member, Member>,
        members: Members,
        (at, description): (&Path, Description),
        opening: Opening,
    ) -> ServedLog {
        ServedLog {
            rt: rt.clone(),
            volume: volume.clone(),
            members,
            at: std::path::absolute(at).unwrap_or_else(|_| at.to_path_buf()),
            description: RefCell::new(description),
            opening,
            turn: Mutex::new(rt, "the turn to replace a device of the log"),
        }
    }

    /// Says from now on which devices the log loses. (What is lost at a start is told by that.)
    pub fn watch(self: &Rc<ServedLog>) {
        let (log, Some(io)) = (self.clone(), self.rt.io()) else { return };
        self.rt.spawn_background("the watch over the devices of the log", async move {
            let mut known = BTreeSet::new();
            let mut is_begun = false;
            loop {
                let Some(stats) = log.volume.log_stats() else {
                    io.sleep(if is_begun { LOOK } else { FIRST_LOOK }).await;
                    continue;
                };
                let lost = stats.devices.iter().filter(|d| d.health == DeviceHealth::Failed);
                let lost: BTreeMap<usize, &str> = lost.map(|d| (d.index, &*d.name)).collect();
                let has_stopped = lost.len() == stats.devices.len();
                for (index, name) in lost.iter().filter(|(i, _)| is_begun && !known.contains(*i)) {
                    out::note(log.is_lost(*index, name, has_stopped));
                }
                (known, is_begun) = (lost.into_keys().collect(), true);
                io.sleep(LOOK).await;
            }
        });
    }

    /// What has to be said of a device that is lost to the log from now on.
    fn is_lost(&self, index: usize, name: &str, has_stopped: bool) -> String {
        let at = self.at.display();
        let what = format!("{at}: device {index} (\"{name}\") is lost");
        if has_stopped {
            return format!(
                "{what}, and the log has stopped: end this process, see to its devices, and serve \
                 the log again"
            );
        }
        match self.description.borrow().copies < 2 {
            true => format!("{what}, and takes nothing before the log starts again: see to it"),
            false => format!("{what}, and records have fewer copies: {}", put_another(at, name)),
        }
    }

    /// Whether a device of this machine is among its own, which takes its own time.
    pub fn is_real(&self) -> bool {
        self.members.are_real()
    }

    /// Ends the use of the devices, after they are off.
    ///
    /// # Errors
    /// Why an image is not durable, in a line.
    pub fn shut(&self) -> Result<(), String> {
        self.members.shut()
    }

    /// Puts a device in the place of a lost one, which the description names so. Both paths are
    /// whole.
    ///
    /// # Errors
    /// Why that cannot be, or was not done.
    pub async fn replace(
        &self,
        lost: &Path,
        new: &Path,
        force: bool,
    ) -> Result<ReplaceReport, Refusal> {
        let _turn = self.turn.lock().await;
        let invalid = |why: String| Refusal::new(Kind::Device, why);
        let failed = |why: String| Refusal::new(Kind::NotReplaced, why);
        if self.description.borrow().copies < 2 {
            return Err(invalid(ONE_COPY.to_string()));
        }
        let known = self.description.borrow().replaced(lost, new);
        let Replaced { of: description, index: position, unknown } = known.map_err(invalid)?;
        let text = description.text().map_err(invalid)?;
        let sink = out::Sink::open(&self.at).map_err(invalid)?;
        let off = || failed(ReplaceError::Off.to_string());
        let stats = self.volume.log_stats().ok_or_else(off)?;
        let place = description.paths().count();
        let is_new = |device: &DeviceStats| is_named(device, new, place);
        let takes_part = |d: &DeviceStats| is_new(d) && d.health == DeviceHealth::Present;
        // It has a place, and not since the description says so.
        let described = self.description.borrow().paths().any(|path| absolute(path) == new);
        let is_done = unknown.is_some() || !described;
        let copied = !(is_done && stats.devices.iter().any(takes_part));
        if let (Some(unknown), true) = (unknown, copied) {
            return Err(invalid(unknown));
        }
        let stats = match copied {
            false => stats,
            true => {
                let index = of_log(&stats, lost, position).unwrap_or(position);
                let health = stats.devices.get(index).map(|d| d.health);
                if let Some(DeviceHealth::Present | DeviceHealth::Left) = health {
                    let left = match health {
                        Some(DeviceHealth::Left) => " does not answer, and takes part when it does",
                        _ => "",
                    };
                    let why = format!(
                        "device {index}{left}: only a device that is lost to the log can be \
                         replaced: to do without this one, end this process, take the device away, and \
                         `tantalum log recover --degraded` goes on without it"
                    );
                    return Err(invalid(why));
                }
                self.put(&description, (position, index), place, force).await?
            }
        };
        let written = sink.try_put(&text);
        written.map_err(|e| {
            failed(format!(
                "{e}, and the device is replaced: replace it again, so that the description says so"
            ))
        })?;
        *self.description.borrow_mut() = description;
        Ok(ReplaceReport { first: stats.first.0, end: stats.durable.0, copied })
    }

    /// Gives the new device of this description everything, and its place.
    async fn put(
        &self,
        description: &Description,
        (position, index): (usize, usize),
        place: usize,
        force: bool,
    ) -> Result<LogStats, Refusal> {
        let new = &description.devices[position];
        let others = description.paths().enumerate().filter(|(at, _)| *at != position);
        let others = others.map(|(_, path)| path);
        let opened = open_another(&self.rt, new, place, others, self.opening);
        let (name, member) = opened.map_err(|why| Refusal::new(Kind::Device, why))?;
        out::note(format_args!("\"{name}\" gets what the log has, in the place of device {index}"));
        let replaced = self.volume.replace(index, name.clone(), member.clone(), force).await;
        match replaced {
            Ok(stats) => {
                self.members.add(member);
                out::note(format_args!("\"{name}\" is device {index} of the log now"));
                Ok(stats)
            }
            Err(error) => {
                out::note(format_args!("\"{name}\" is no device of the log: {error}"));
                Err(refusal(&error))
            }
        }
    }
}

/// The index in the log of the device of this name: the log knows the names of the description, also
/// that of one that is not there. (The description may name the devices in any order.) `None` if
/// that is not known.
fn of_log(stats: &LogStats, path: &Path, place: usize) -> Option<usize> {
    let devices = &stats.devices;
    let named = devices.iter().find(|device| is_named(device, path, place));
    let device = named.or_else(|| devices.iter().find(|device| is_written(device, path)))?;
    Some(device.index)
}

/// Whether this device of the log is the one at this path, which is whole, and has this place in the
/// description. (There its path may be relative.)
fn is_named(device: &DeviceStats, path: &Path, place: usize) -> bool {
    device.name == numbered(path, place) || !is_model(path) && is_written(device, path)
}

/// Whether this device is called by this path, which is whole.
fn is_written(device: &DeviceStats, path: &Path) -> bool {
    absolute(Path::new(&device.name)) == path
}

fn refusal(error: &ReplaceError) -> Refusal {
    let kind = match error {
        ReplaceError::Device { .. } | ReplaceError::Log(LogError::Replace(_)) => Kind::Device,
        ReplaceError::Off | ReplaceError::Cut | ReplaceError::Log(_) => Kind::NotReplaced,
    };
    Refusal::new(kind, in_words_of_replace(error))
}
