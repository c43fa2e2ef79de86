//! What the devices of a description say of themselves, and whether they are one log.

use super::Device;
use crate::members::{Member, MemberLink, in_words, no_device, put_another};
use std::path::Path;
use tantalum_device::{BlockDevice, PowerCycle};
use tantalum_log::{
    BackingDescription, DeviceDescription, Expects, LabelDescription, LogDescription, LogDevice,
    OpenError,
};

/// A device, as far as it can be read.
pub struct Seen {
    link: Option<LogDevice<MemberLink>>,
    pub name: String,
    pub found: Option<DeviceDescription>,
    /// What is wrong with it.
    pub failure: Option<String>,
}

impl Seen {
    /// What the device of this name says, or why it cannot be opened.
    pub async fn of(name: String, member: Result<Member, String>) -> Seen {
        let (link, found, failure) = match linked(&name, member).await {
            Err(why) => (None, None, Some(why)),
            Ok(link) => match DeviceDescription::read(&link).await {
                Err(e) => (Some(link), None, Some(in_words(e))),
                Ok(found) => {
                    let failure = fault(&name, link.device.caps().bytes(), &found);
                    (Some(link), Some(found), failure)
                }
            },
        };
        Seen { link, name, found, failure }
    }
}

/// A device that has power, or why it cannot be used.
async fn linked(
    name: &str,
    member: Result<Member, String>,
) -> Result<LogDevice<MemberLink>, String> {
    let member = member?;
    member.power_on().await.map_err(|e| format!("{name}: {e}: see to the device"))?;
    Ok(LogDevice::new(name, member.device()))
}

/// What is wrong with a device that has `has` bytes.
fn fault(name: &str, has: u64, found: &DeviceDescription) -> Option<String> {
    if has < found.bytes {
        let bytes = found.bytes;
        return Some(format!("\"{name}\" has {has} bytes, and had {bytes}: give it its old size"));
    }
    if found.state.is_none() {
        return Some(in_words(OpenError::State(name.to_string())));
    }
    found.damaged.map(|at| superblock_damaged(name, at))
}

/// What to say of a copy of a superblock that is damaged.
pub fn superblock_damaged(name: &str, at: u64) -> String {
    format!(
        "\"{name}\" has one whole superblock of two, that at byte {at} is damaged: `tantalum log \
         recover` writes it again"
    )
}

/// The log of these devices; `None`: none can be read.
pub fn together(seen: &[Seen]) -> Option<LogDescription> {
    let found = seen.iter().filter_map(|seen| Some((&*seen.name, seen.found.as_ref()?)));
    LogDescription::of(&found.collect::<Vec<_>>())
}

/// Says of each device how it stands to the log that is described at `path`. Devices of the log that
/// the description lacks come back.
pub fn judge(path: &Path, seen: &mut [Seen], log: &LogDescription) -> Vec<Device> {
    let mut judged = log.refused.iter().zip(&log.lost);
    // If all others are there, what cannot be read is the one that is lost.
    let lost_one = match &log.without[..] {
        [index] if log.missing.is_empty() => Some(*index),
        _ => None,
    };
    let mut others = 0;
    for Seen { name, found, failure, .. } in seen {
        let put = || put_another(path.display(), &*name);
        let Some(found) = found else {
            others += 1;
            let why = no_device(Path::new(&*name));
            let why = why.unwrap_or("has nothing of the log that can be read");
            if let Some(index) = lost_one {
                let lost = format!("\"{name}\" {why}, and device {index} is lost to the log");
                *failure = Some(format!("{lost}: {}", put()));
            }
            continue;
        };
        match judged.next() {
            Some((Some(why), _)) => {
                others += usize::from(!matches!(why, OpenError::Older { .. }));
                *failure = Some(in_words(why));
            }
            Some((None, true)) => {
                others += 1;
                let lost =
                    format!("\"{name}\" was device {} of the log, which has lost it", found.index);
                *failure = Some(format!("{lost}: what it holds does not count: {}", put()));
            }
            _ => {}
        }
    }
    // Which of the missing ones others stand for is not known: these are to be put right first.
    let lacking = if others == 0 { &log.missing[..] } else { &[] };
    let device = |why: &OpenError| Device::new(path.display().to_string(), Some(in_words(why)));
    lacking.iter().map(device).collect()
}

/// Says that the log was made otherwise than it is described at `path`. Its devices say the same, so
/// the first one is enough.
pub fn described_otherwise(
    path: &Path,
    seen: &[Seen],
    log: &LogDescription,
    expects: &Expects,
) -> Option<Device> {
    let found = seen.iter().filter_map(|seen| Some((&*seen.name, seen.found.as_ref()?)));
    let mut ours = found.filter(|(_, found)| found.log == log.log);
    let differs = ours.find_map(|(name, found)| found.check(name, expects).err())?;
    Some(Device::new(path.display().to_string(), Some(in_words(differs))))
}

/// What the label of the backing says, and what is wrong with it beside the log of these devices.
pub async fn backing(
    name: &str,
    member: Result<Member, String>,
    seen: &[Seen],
    log: Option<&LogDescription>,
) -> (Option<LabelDescription>, Option<String>) {
    let link = match linked(name, member).await {
        Ok(link) => link,
        Err(why) => return (None, Some(format!("the backing {why}"))),
    };
    let found = match BackingDescription::read(&link).await {
        Ok(found) => found,
        Err(e) => return (None, Some(in_words(e))),
    };
    let Some(log) = log else { return (found.label(), None) };
    let is_ours = |seen: &&Seen| seen.found.as_ref().is_some_and(|found| found.log == log.log);
    let devices: Vec<_> = seen.iter().filter(is_ours).filter_map(|s| s.link.clone()).collect();
    (found.label(), found.check_devices(log.log, &devices).await.err().map(in_words))
}
