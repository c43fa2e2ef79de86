//! The box that a process runs, of any kind, as one type. What is in front of it is compiled once, and
//! not once for each kind.
//!
//! 1. Every call goes to the box's own part of the same trait: no default stands for it, and no
//!    method of the box that has the same name.

use crate::members::{Member, Volume};
use tantalum_device::{
    AfterCut, Caps, Disk, Field, File, IoError, Line, LiveBox, PowerCycle, PowerState, RaidBox,
    RamDevice, ResizeError, ScrubOutcome, Shown, StartError, StartOutcome, UpkeepError,
    either_device,
};
use tantalum_drive::Drive;
use tantalum_log::LogVolume;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub enum ServedBox {
    /// A software SSD.
    Drive(Drive),
    /// A log volume.
    Log(LogVolume<Member, Member>),
    /// A cache volume.
    Cache(Volume),
    /// A RAM device.
    Ram(RamDevice),
    /// A magnetic disk.
    Disk(Disk),
    /// Disks, striped.
    Disks(RaidBox<Disk>),
    /// A file or block device of the host.
    File(File),
}

/// The host's end of the link to a box of this kind.
type LinkOf<B> = <B as PowerCycle>::Device;

/// The host's end of its link. Cheap to clone.
#[derive(Clone)]
pub enum ServedLink {
    /// To a software SSD.
    Drive(LinkOf<Drive>),
    /// To a log volume.
    Log(LinkOf<LogVolume<Member, Member>>),
    /// To a cache volume.
    Cache(LinkOf<Volume>),
    /// To a RAM device.
    Ram(LinkOf<RamDevice>),
    /// To a magnetic disk.
    Disk(LinkOf<Disk>),
    /// To disks, striped.
    Disks(LinkOf<RaidBox<Disk>>),
    /// To a file or block device of the host.
    File(LinkOf<File>),
}

/// The same call for each kind.
macro_rules! each {
    ($on:expr, $it:ident => $call:expr) => {
        match $on {
            ServedBox::Drive($it) => $call,
            ServedBox::Log($it) => $call,
            ServedBox::Cache($it) => $call,
            ServedBox::Ram($it) => $call,
            ServedBox::Disk($it) => $call,
            ServedBox::Disks($it) => $call,
            ServedBox::File($it) => $call,
        }
    };
}

either_device!(ServedLink: Drive, Log, Cache, Ram, Disk, Disks, File);

impl PowerCycle for ServedBox {
    type Device = ServedLink;

    fn device(&self) -> ServedLink {
        match self {
            ServedBox::Drive(b) => ServedLink::Drive(PowerCycle::device(b)),
            ServedBox::Log(b) => ServedLink::Log(PowerCycle::device(b)),
            ServedBox::Cache(b) => ServedLink::Cache(PowerCycle::device(b)),
            ServedBox::Ram(b) => ServedLink::Ram(PowerCycle::device(b)),
            ServedBox::Disk(b) => ServedLink::Disk(PowerCycle::device(b)),
            ServedBox::Disks(b) => ServedLink::Disks(PowerCycle::device(b)),
            ServedBox::File(b) => ServedLink::File(PowerCycle::device(b)),
        }
    }

    fn cut(&self) {
        each!(self, b => PowerCycle::cut(b));
    }

    async fn off(&self) {
        each!(self, b => PowerCycle::off(b).await);
    }

    async fn power_on(&self) -> Result<(), IoError> {
        each!(self, b => PowerCycle::power_on(b).await)
    }

    async fn set_bytes(&self, bytes: u64) -> Result<(), IoError> {
        each!(self, b => PowerCycle::set_bytes(b, bytes).await)
    }
}

impl LiveBox for ServedBox {
    fn title(&self) -> String {
        each!(self, b => LiveBox::title(b))
    }

    fn power_state(&self) -> PowerState {
        each!(self, b => LiveBox::power_state(b))
    }

    fn promises(&self) -> Caps {
        each!(self, b => LiveBox::promises(b))
    }

    async fn bring_up(&self, salvage: bool) -> Result<Vec<String>, StartError> {
        each!(self, b => LiveBox::bring_up(b, salvage).await)
    }

    async fn recovered(&self) -> Result<(), StartError> {
        each!(self, b => LiveBox::recovered(b).await)
    }

    fn verify(&self) -> Result<(), String> {
        each!(self, b => LiveBox::verify(b))
    }

    fn failure(&self) -> Option<String> {
        each!(self, b => LiveBox::failure(b))
    }

    fn stopped_by(&self) -> Option<String> {
        each!(self, b => LiveBox::stopped_by(b))
    }

    fn watch_cut(&self) -> AfterCut {
        each!(self, b => LiveBox::watch_cut(b))
    }

    fn last_start(&self) -> StartOutcome {
        each!(self, b => LiveBox::last_start(b))
    }

    fn left_behind(&self) -> Option<String> {
        each!(self, b => LiveBox::left_behind(b))
    }

    async fn resize(&self, flash_bytes: u64) -> Result<String, ResizeError> {
        each!(self, b => LiveBox::resize(b, flash_bytes).await)
    }

    async fn scrub(&self) -> Result<ScrubOutcome, UpkeepError> {
        each!(self, b => LiveBox::scrub(b).await)
    }

    async fn clean(&self) -> Result<(), UpkeepError> {
        each!(self, b => LiveBox::clean(b).await)
    }

    async fn detach(&self) -> Result<u64, UpkeepError> {
        each!(self, b => LiveBox::detach(b).await)
    }

    async fn close(&self) -> Result<(), IoError> {
        each!(self, b => LiveBox::close(b).await)
    }

    fn shut(&self) -> Result<(), String> {
        each!(self, b => LiveBox::shut(b))
    }

    fn status_fields(&self) -> Vec<Field> {
        each!(self, b => LiveBox::status_fields(b))
    }

    fn status_lines(&self) -> Vec<Line> {
        each!(self, b => LiveBox::status_lines(b))
    }

    fn shown(&self) -> Shown {
        each!(self, b => LiveBox::shown(b))
    }
}

#[cfg(test)]
mod tests {
    /// The names of the methods of a trait, in its text.
    fn methods<'a>(text: &'a str, of: &str) -> Vec<&'a str> {
        let body = text.split(&format!("\npub trait {of}")).nth(1).expect("the trait");
        let body = body.split("\n}\n").next().expect("its end");
        let begins = |line: &'a str| {
            let line = line.strip_prefix("    ")?;
            line.strip_prefix("async fn ").or(line.strip_prefix("fn "))?.split('(').next()
        };
        body.lines().filter_map(begins).collect()
    }

    /// (1) A method with a default, which is not here, would hide what a box does.
    #[test]
    fn each_method_goes_to_the_box() {
        let contract = include_str!("../../../../device/src/contract.rs");
        let live = include_str!("../../../../device/src/live.rs");
        let forward = include_str!("../../../../device/src/forward.rs");
        let (_, either) = forward.split_once("macro_rules! either_device").unwrap();
        let here = [include_str!("boxes.rs"), either].concat();
        let mut seen = 0;
        for (text, of) in [(contract, "BlockDevice"), (contract, "PowerCycle"), (live, "LiveBox")] {
            for name in methods(text, of) {
                assert!(here.contains(&format!("{of}::{name}(")), "{of}::{name}");
                seen += 1;
            }
        }
        assert!(seen > 30, "{seen}");
    }
}
