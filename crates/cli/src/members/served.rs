//! A log that this process serves, whose lost devices are replaced meanwhile.
//!
//! 1. The description is written when the new device has its place, and not before. If that does not
//!    succeed, or the process ends before, the same request again only writes it.
//! 2. One device at a time.

use super::description::{ONE_COPY, Replaced};
use super::devices::{Members, name_of, open_another};
use super::{Description, Member, in_words_of_replace};
use crate::out;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use tantalum_export::control::{Kind, Refusal, ReplaceReport};
use tantalum_log::{DeviceHealth, LogError, LogStats, LogVolume, ReplaceError};
use tantalum_nand::Opening;
use tantalum_rt::Rt;
use tantalum_rt::sync::Mutex;

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
        let Replaced { of: description, index, unknown } = known.map_err(invalid)?;
        let text = description.text().map_err(invalid)?;
        let sink = out::Sink::open(&self.at).map_err(invalid)?;
        let off = || failed(ReplaceError::Off.to_string());
        let stats = self.volume.log_stats().ok_or_else(off)?;
        let place = description.paths().count();
        let has_it = |stats: &LogStats| {
            let device = stats.devices.get(index);
            device.is_some_and(|device| {
                device.name == name_of(new, place) && device.health == DeviceHealth::Present
            })
        };
        let copied = !has_it(&stats);
        if let (Some(unknown), true) = (unknown, copied) {
            return Err(invalid(unknown));
        }
        let stats = match copied {
            false => stats,
            true => self.put(&description, index, place, force).await?,
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
        index: usize,
        place: usize,
        force: bool,
    ) -> Result<LogStats, Refusal> {
        let new = &description.devices[index];
        let others = description.paths().enumerate().filter(|(at, _)| *at != index);
        let others = others.map(|(_, path)| path);
        let opened = open_another(&self.rt, new, place, others, self.opening);
        let (name, member) = opened.map_err(|why| Refusal::new(Kind::Device, why))?;
        out::note(format_args!("{name} gets what the log has, in the place of device {index}"));
        let replaced = self.volume.replace(index, name.clone(), member.clone(), force).await;
        match replaced {
            Ok(stats) => {
                self.members.add(member);
                out::note(format_args!("{name} is device {index} of the log now"));
                Ok(stats)
            }
            Err(error) => {
                out::note(format_args!("{name} is no device of the log: {error}"));
                Err(refusal(&error))
            }
        }
    }
}

fn refusal(error: &ReplaceError) -> Refusal {
    let kind = match error {
        ReplaceError::Device { .. } | ReplaceError::Log(LogError::Replace(_)) => Kind::Device,
        ReplaceError::Off | ReplaceError::Cut | ReplaceError::Log(_) => Kind::NotReplaced,
    };
    Refusal::new(kind, in_words_of_replace(error))
}
