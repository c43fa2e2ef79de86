//! The box that a process runs, of any kind, as one type. What is in front of it is compiled once, and
//! not once for each kind.
//!
//! 1. Every call goes to the box's own part of the same trait: no default stands for it, and no
//!    method of the box that has the same name.

use crate::members::{Member, Volume};
use tantalum_device::{
    AfterCut, Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Disk,
    Durability, Extent, Field, File, IoError, Line, LiveBox, PowerCycle, PowerState, RaidBox,
    RamDevice, ResizeError, ScrubOutcome, Shown, StartError, StartOutcome, UpkeepError,
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
    ($on:expr, $of:ident, $it:ident => $call:expr) => {
        match $on {
            $of::Drive($it) => $call,
            $of::Log($it) => $call,
            $of::Cache($it) => $call,
            $of::Ram($it) => $call,
            $of::Disk($it) => $call,
            $of::Disks($it) => $call,
            $of::File($it) => $call,
        }
    };
}

impl BlockDevice for ServedLink {
    fn caps(&self) -> &Caps {
        each!(self, ServedLink, d => BlockDevice::caps(d))
    }

    fn is_alive(&self) -> bool {
        each!(self, ServedLink, d => BlockDevice::is_alive(d))
    }

    fn arm_queue(&self) -> Option<u32> {
        each!(self, ServedLink, d => BlockDevice::arm_queue(d))
    }

    fn blocks_its_thread(&self) -> bool {
        each!(self, ServedLink, d => BlockDevice::blocks_its_thread(d))
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        each!(self, ServedLink, d => BlockDevice::read(d, at, buf).await)
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        each!(self, ServedLink, d => BlockDevice::write(d, at, data, want).await)
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        each!(self, ServedLink, d => BlockDevice::write_atomic(d, group).await)
    }

    async fn flush(&self) -> Result<(), IoError> {
        each!(self, ServedLink, d => BlockDevice::flush(d).await)
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        each!(self, ServedLink, d => BlockDevice::discard(d, range).await)
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        each!(self, ServedLink, d => BlockDevice::allocation(d, range).await)
    }

    fn wants_exits(&self) -> bool {
        each!(self, ServedLink, d => BlockDevice::wants_exits(d))
    }

    async fn left(&self, range: Blocks, data: Option<Data<'_>>) -> Result<(), IoError> {
        each!(self, ServedLink, d => BlockDevice::left(d, range, data).await)
    }
}

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
        each!(self, ServedBox, b => PowerCycle::cut(b));
    }

    async fn off(&self) {
        each!(self, ServedBox, b => PowerCycle::off(b).await);
    }

    async fn power_on(&self) -> Result<(), IoError> {
        each!(self, ServedBox, b => PowerCycle::power_on(b).await)
    }

    async fn set_bytes(&self, bytes: u64) -> Result<(), IoError> {
        each!(self, ServedBox, b => PowerCycle::set_bytes(b, bytes).await)
    }
}

impl LiveBox for ServedBox {
    fn title(&self) -> String {
        each!(self, ServedBox, b => LiveBox::title(b))
    }

    fn power_state(&self) -> PowerState {
        each!(self, ServedBox, b => LiveBox::power_state(b))
    }

    fn promises(&self) -> Caps {
        each!(self, ServedBox, b => LiveBox::promises(b))
    }

    async fn bring_up(&self, salvage: bool) -> Result<Vec<String>, StartError> {
        each!(self, ServedBox, b => LiveBox::bring_up(b, salvage).await)
    }

    async fn recovered(&self) -> Result<(), StartError> {
        each!(self, ServedBox, b => LiveBox::recovered(b).await)
    }

    fn verify(&self) -> Result<(), String> {
        each!(self, ServedBox, b => LiveBox::verify(b))
    }

    fn failure(&self) -> Option<String> {
        each!(self, ServedBox, b => LiveBox::failure(b))
    }

    fn stopped_by(&self) -> Option<String> {
        each!(self, ServedBox, b => LiveBox::stopped_by(b))
    }

    fn watch_cut(&self) -> AfterCut {
        each!(self, ServedBox, b => LiveBox::watch_cut(b))
    }

    fn last_start(&self) -> StartOutcome {
        each!(self, ServedBox, b => LiveBox::last_start(b))
    }

    fn left_behind(&self) -> Option<String> {
        each!(self, ServedBox, b => LiveBox::left_behind(b))
    }

    async fn resize(&self, flash_bytes: u64) -> Result<String, ResizeError> {
        each!(self, ServedBox, b => LiveBox::resize(b, flash_bytes).await)
    }

    async fn scrub(&self) -> Result<ScrubOutcome, UpkeepError> {
        each!(self, ServedBox, b => LiveBox::scrub(b).await)
    }

    async fn clean(&self) -> Result<(), UpkeepError> {
        each!(self, ServedBox, b => LiveBox::clean(b).await)
    }

    async fn detach(&self) -> Result<u64, UpkeepError> {
        each!(self, ServedBox, b => LiveBox::detach(b).await)
    }

    async fn close(&self) -> Result<(), IoError> {
        each!(self, ServedBox, b => LiveBox::close(b).await)
    }

    fn shut(&self) -> Result<(), String> {
        each!(self, ServedBox, b => LiveBox::shut(b))
    }

    fn status_fields(&self) -> Vec<Field> {
        each!(self, ServedBox, b => LiveBox::status_fields(b))
    }

    fn status_lines(&self) -> Vec<Line> {
        each!(self, ServedBox, b => LiveBox::status_lines(b))
    }

    fn shown(&self) -> Shown {
        each!(self, ServedBox, b => LiveBox::shown(b))
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
        let here = include_str!("boxes.rs");
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
