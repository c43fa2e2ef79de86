//! Blueprints of what comes with the project.

use crate::boxes::AnyBox;
use crate::subject::{Blueprint, Room};
use tantalum_device::{
    Ack, Bus, Caps, Disk, DiskModel, Payload, PowerCycle, RaidBox, RamDevice, RamOptions,
    SampledModel,
};
use tantalum_drive::{Design, Drive};
use tantalum_rt::{Nanos, Rt};

/// Bytes in a sector of a software SSD.
const SECTOR: u32 = 4096;

/// A software SSD.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveBlueprint {
    /// Its design.
    pub design: Design,
    /// What it keeps.
    pub payload: Payload,
}

impl Blueprint for DriveBlueprint {
    type Subject = Drive;

    fn name(&self) -> String {
        self.design.name.clone()
    }

    fn build(&self, rt: &Rt) -> Result<Drive, String> {
        Drive::new(rt, &self.design, self.payload).map_err(|e| e.to_string())
    }

    fn room(&self) -> Result<Room, String> {
        let layout = self.design.check().map_err(|e| e.to_string())?;
        Ok(Room { blocks: self.design.blocks(&layout), faults: layout.spare_units })
    }

    fn step(&self) -> Nanos {
        Nanos::from_micros(self.design.timing.program_us)
    }

    fn to_rust(&self) -> String {
        format!(
            "tantalum_explore::DriveBlueprint {{\n    \
             design: tantalum_drive::Design::from_toml(r#\"\n{}\"#).unwrap(),\n    \
             payload: tantalum_device::Payload::{:?},\n    }}",
            self.design.to_toml(),
            self.payload
        )
    }
}

/// A RAM device.
#[derive(Clone, Debug, PartialEq)]
pub struct RamBlueprint {
    /// What it promises.
    pub caps: Caps,
    /// Time for each read, write and discard.
    pub command: Nanos,
    /// Up to so much more, at random.
    pub jitter: Nanos,
    /// Time for each flush.
    pub flush: Nanos,
    /// Time from power to the first command.
    pub start: Nanos,
    /// Commands in its volatile cache, at most.
    pub cache_commands: usize,
}

impl RamBlueprint {
    /// A device with these promises, with times that let commands overtake each other.
    pub fn new(caps: Caps) -> RamBlueprint {
        RamBlueprint {
            caps,
            command: Nanos::from_micros(20),
            jitter: Nanos::from_micros(30),
            flush: Nanos::from_micros(40),
            start: Nanos::from_micros(100),
            cache_commands: 64,
        }
    }
}

impl RamBlueprint {
    /// A device of so many blocks of 4 KiB, of which it keeps stamps, with a volatile cache and
    /// no atomic groups.
    pub fn volatile(blocks: u64) -> RamBlueprint {
        RamBlueprint::new(Caps {
            block_size: 4096,
            blocks,
            thin: false,
            ack: Ack::Volatile,
            flush: true,
            ordered: false,
            atomic_unit: 4096,
            atomic_group: None,
            payload: Payload::Stamps,
        })
    }
}

impl RamBlueprint {
    /// One whose random streams have this name.
    fn build_named(&self, rt: &Rt, stream: String) -> Result<RamDevice, String> {
        let c = &self.caps;
        if c.blocks == 0 || c.block_size == 0 || c.atomic_unit == 0 {
            return Err("ram: blocks, block_size and atomic_unit must be at least 1".into());
        }
        let device = RamDevice::new(
            rt,
            RamOptions {
                command: self.command,
                jitter: self.jitter,
                flush: self.flush,
                start: self.start,
                cache_commands: self.cache_commands,
                stream,
                ..RamOptions::new(self.caps)
            },
        );
        PowerCycle::cut(&device); // It was made with its power on.
        Ok(device)
    }
}

impl Blueprint for RamBlueprint {
    type Subject = RamDevice;

    fn name(&self) -> String {
        "ram".into()
    }

    fn build(&self, rt: &Rt) -> Result<RamDevice, String> {
        self.build_named(rt, "ram".to_string())
    }

    fn room(&self) -> Result<Room, String> {
        Ok(Room { blocks: self.caps.blocks, faults: 0 })
    }

    fn step(&self) -> Nanos {
        self.command + self.jitter + self.flush
    }

    fn to_rust(&self) -> String {
        let c = &self.caps;
        let group = c.atomic_group.map_or("None".to_string(), |g| {
            let (extents, bytes) = (g.extents, g.bytes);
            format!("Some(tantalum_device::GroupLimit {{ extents: {extents}, bytes: {bytes} }})")
        });
        let nanos =
            |name: &str, t: Nanos| format!("        {name}: tantalum_rt::Nanos({}),\n", t.0);
        let times = [
            nanos("command", self.command),
            nanos("jitter", self.jitter),
            nanos("flush", self.flush),
            nanos("start", self.start),
        ];
        format!(
            "tantalum_explore::RamBlueprint {{\n        \
             caps: tantalum_device::Caps {{\n            \
             block_size: {},\n            blocks: {},\n            thin: {},\n            \
             ack: tantalum_device::Ack::{:?},\n            flush: {},\n            \
             ordered: {},\n            atomic_unit: {},\n            atomic_group: {group},\n            \
             payload: tantalum_device::Payload::{:?},\n        }},\n{}        cache_commands: {},\n    }}",
            c.block_size,
            c.blocks,
            c.thin,
            c.ack,
            c.flush,
            c.ordered,
            c.atomic_unit,
            c.payload,
            times.concat(),
            self.cache_commands
        )
    }
}

/// A magnetic disk.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskBlueprint {
    /// Its mechanics.
    pub model: DiskModel,
    /// What it keeps.
    pub payload: Payload,
    /// MB (1,000,000 bytes) each second of a bus that several of them share.
    pub shared_bus_mb_s: Option<u64>,
}

impl Blueprint for DiskBlueprint {
    type Subject = Disk;

    fn name(&self) -> String {
        "disk".into()
    }

    fn build(&self, rt: &Rt) -> Result<Disk, String> {
        let mut one = self.build_several(rt, 1)?;
        one.pop().ok_or_else(|| "disk: there is none".to_string())
    }

    /// Each tears by itself.
    fn build_several(&self, rt: &Rt, count: u32) -> Result<Vec<Disk>, String> {
        let bus = self.shared_bus_mb_s.map(Bus::new).transpose()?;
        let one = |place| Disk::on_bus(rt, &self.model, self.payload, bus.as_ref(), place);
        (0..count).map(one).collect()
    }

    fn room(&self) -> Result<Room, String> {
        self.model.check()?;
        Ok(Room { blocks: self.model.blocks, faults: 0 })
    }

    /// A revolution.
    fn step(&self) -> Nanos {
        Nanos(60_000_000_000 / self.model.rpm.max(1))
    }

    fn to_rust(&self) -> String {
        // (The model has numbers and truth values only: as it is printed, it is written.)
        format!(
            "tantalum_explore::DiskBlueprint {{\n        model: tantalum_device::{:?},\n        \
             payload: tantalum_device::Payload::{:?},\n        shared_bus_mb_s: {:?},\n    }}",
            self.model, self.payload, self.shared_bus_mb_s
        )
    }
}

/// A device whose times are drawn from tables.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledBlueprint {
    /// Its tables.
    pub model: SampledModel,
    /// What it keeps.
    pub payload: Payload,
    /// MB (1,000,000 bytes) each second of a bus that several of them share; `None`: each has its
    /// own, if its model says so.
    pub shared_bus_mb_s: Option<u64>,
}

impl SampledBlueprint {
    /// Of a model as TOML, as [`Blueprint::to_rust`] prints it.
    ///
    /// # Errors
    /// What is wrong with it, in a line.
    pub fn from_toml(
        text: &str,
        payload: Payload,
        shared_bus_mb_s: Option<u64>,
    ) -> Result<SampledBlueprint, String> {
        let model: SampledModel = toml::from_str(text).map_err(|e| e.message().to_string())?;
        Ok(SampledBlueprint { model, payload, shared_bus_mb_s })
    }
}

impl SampledBlueprint {
    fn build_at(&self, rt: &Rt, place: u32, bus: Option<&Bus>) -> Result<RamDevice, String> {
        let device = self.model.build(rt, &format!("sampled {place}"), self.payload, bus)?;
        PowerCycle::cut(&device); // It was made with its power on.
        Ok(device)
    }
}

impl Blueprint for SampledBlueprint {
    type Subject = RamDevice;

    fn name(&self) -> String {
        "sampled".into()
    }

    fn build(&self, rt: &Rt) -> Result<RamDevice, String> {
        let mut one = self.build_several(rt, 1)?;
        one.pop().ok_or_else(|| "sampled: there is none".to_string())
    }

    /// Each has random streams of its own.
    fn build_several(&self, rt: &Rt, count: u32) -> Result<Vec<RamDevice>, String> {
        let bus = self.shared_bus_mb_s.map(Bus::new).transpose()?;
        (0..count).map(|place| self.build_at(rt, place, bus.as_ref())).collect()
    }

    fn room(&self) -> Result<Room, String> {
        self.model.check().map_err(|fault| fault.to_string())?;
        Ok(Room { blocks: self.model.blocks, faults: 0 })
    }

    /// The longest latency of its tables, without outliers and stalls.
    fn step(&self) -> Nanos {
        let most = self.model.latency.iter().flat_map(|row| &row.us).max();
        Nanos::from_micros(most.copied().unwrap_or(0).max(1))
    }

    fn to_rust(&self) -> String {
        let model = toml::to_string(&self.model).unwrap_or_default();
        format!(
            "tantalum_explore::SampledBlueprint::from_toml(\n    r#\"\n{model}\"#,\n    \
             tantalum_device::Payload::{:?},\n    {:?},\n    ).unwrap()",
            self.payload, self.shared_bus_mb_s
        )
    }
}

/// Several of one blueprint as a RAID-0 on one plug.
#[derive(Clone, Debug, PartialEq)]
pub struct Raid0Blueprint<B> {
    /// Each member.
    pub member: B,
    /// How many there are.
    pub members: u32,
    /// Blocks of a stripe on one member.
    pub chunk: u64,
}

impl<B: Blueprint> Blueprint for Raid0Blueprint<B>
where
    B::Subject: PowerCycle,
{
    type Subject = RaidBox<B::Subject>;

    fn name(&self) -> String {
        format!("raid0 of {} {}", self.members, self.member.name())
    }

    fn build(&self, rt: &Rt) -> Result<RaidBox<B::Subject>, String> {
        RaidBox::new(self.member.build_several(rt, self.members)?, self.chunk)
    }

    fn room(&self) -> Result<Room, String> {
        if self.members == 0 || self.chunk == 0 {
            return Err("raid-0: members and chunk must be at least 1".into());
        }
        let one = self.member.room()?;
        let blocks = one.blocks / self.chunk * self.chunk * u64::from(self.members);
        Ok(Room { blocks, ..one })
    }

    fn step(&self) -> Nanos {
        self.member.step()
    }

    fn to_rust(&self) -> String {
        format!(
            "tantalum_explore::Raid0Blueprint {{\n    member: {},\n    members: {},\n    \
             chunk: {},\n    }}",
            self.member.to_rust(),
            self.members,
            self.chunk
        )
    }
}

/// Of a box of any kind: a block device, or an array of them.
#[derive(Clone, Debug, PartialEq)]
pub enum BoxBlueprint {
    /// A software SSD.
    Drive(Box<DriveBlueprint>),
    /// A RAM device.
    Ram(RamBlueprint),
    /// A magnetic disk.
    Disk(DiskBlueprint),
    /// A device whose times are drawn from tables.
    Sampled(SampledBlueprint),
    /// SSDs, striped.
    Drives(Box<Raid0Blueprint<DriveBlueprint>>),
    /// RAM devices, striped.
    Rams(Raid0Blueprint<RamBlueprint>),
    /// Disks, striped.
    Disks(Raid0Blueprint<DiskBlueprint>),
    /// Devices whose times are drawn from tables, striped.
    Sampleds(Raid0Blueprint<SampledBlueprint>),
}

impl From<RamBlueprint> for BoxBlueprint {
    fn from(ram: RamBlueprint) -> BoxBlueprint {
        BoxBlueprint::Ram(ram)
    }
}

impl From<DiskBlueprint> for BoxBlueprint {
    fn from(disk: DiskBlueprint) -> BoxBlueprint {
        BoxBlueprint::Disk(disk)
    }
}

impl From<SampledBlueprint> for BoxBlueprint {
    fn from(sampled: SampledBlueprint) -> BoxBlueprint {
        BoxBlueprint::Sampled(sampled)
    }
}

impl From<DriveBlueprint> for BoxBlueprint {
    fn from(drive: DriveBlueprint) -> BoxBlueprint {
        BoxBlueprint::Drive(Box::new(drive))
    }
}

/// The same call for each kind.
macro_rules! any {
    ($on:expr, $it:ident => $call:expr) => {
        match $on {
            BoxBlueprint::Drive($it) => $call,
            BoxBlueprint::Ram($it) => $call,
            BoxBlueprint::Disk($it) => $call,
            BoxBlueprint::Sampled($it) => $call,
            BoxBlueprint::Drives($it) => $call,
            BoxBlueprint::Rams($it) => $call,
            BoxBlueprint::Disks($it) => $call,
            BoxBlueprint::Sampleds($it) => $call,
        }
    };
}

impl BoxBlueprint {
    /// So many boxes. All but SSDs and arrays have random streams of their own.
    pub(crate) fn build_boxes(
        &self,
        rt: &Rt,
        count: u32,
        name: &str,
    ) -> Result<Vec<AnyBox>, String> {
        match self {
            BoxBlueprint::Ram(b) => {
                let one = |i| b.build_named(rt, format!("{name} {i}")).map(AnyBox::Ram);
                (0..count).map(one).collect()
            }
            BoxBlueprint::Sampled(b) => {
                Ok(b.build_several(rt, count)?.into_iter().map(AnyBox::Ram).collect())
            }
            BoxBlueprint::Disk(b) => {
                Ok(b.build_several(rt, count)?.into_iter().map(AnyBox::Disk).collect())
            }
            _ => (0..count).map(|_| self.build(rt)).collect(),
        }
    }

    /// A box beside others of its runtime, blank and without power. Those that are built at different
    /// places are slow, or tear, at different times (SSDs and arrays do not). With a `bus` a disk or a
    /// sampled device shares it with others.
    ///
    /// # Errors
    /// That it cannot be built, in a line.
    pub fn build_at(&self, rt: &Rt, place: u32, bus: Option<&Bus>) -> Result<AnyBox, String> {
        match self {
            BoxBlueprint::Sampled(b) => b.build_at(rt, place, bus).map(AnyBox::Ram),
            BoxBlueprint::Disk(b) => {
                Disk::on_bus(rt, &b.model, b.payload, bus, place).map(AnyBox::Disk)
            }
            _ => self.build(rt),
        }
    }

    /// Bytes in a block of it.
    pub fn block_bytes(&self) -> u32 {
        match self {
            BoxBlueprint::Drive(_) | BoxBlueprint::Drives(_) => SECTOR,
            BoxBlueprint::Ram(b) => b.caps.block_size,
            BoxBlueprint::Rams(b) => b.member.caps.block_size,
            BoxBlueprint::Disk(b) => b.model.block_bytes,
            BoxBlueprint::Disks(b) => b.member.model.block_bytes,
            BoxBlueprint::Sampled(b) => b.model.block_bytes,
            BoxBlueprint::Sampleds(b) => b.member.model.block_bytes,
        }
    }
}

impl Blueprint for BoxBlueprint {
    type Subject = AnyBox;

    fn name(&self) -> String {
        any!(self, b => b.name())
    }

    fn build(&self, rt: &Rt) -> Result<AnyBox, String> {
        Ok(match self {
            BoxBlueprint::Drive(b) => AnyBox::Ssd(b.build(rt)?),
            BoxBlueprint::Ram(b) => AnyBox::Ram(b.build(rt)?),
            BoxBlueprint::Disk(b) => AnyBox::Disk(b.build(rt)?),
            BoxBlueprint::Sampled(b) => AnyBox::Ram(b.build(rt)?),
            BoxBlueprint::Drives(b) => AnyBox::Ssds(b.build(rt)?),
            BoxBlueprint::Rams(b) => AnyBox::Rams(b.build(rt)?),
            BoxBlueprint::Disks(b) => AnyBox::Disks(b.build(rt)?),
            BoxBlueprint::Sampleds(b) => AnyBox::Rams(b.build(rt)?),
        })
    }

    fn room(&self) -> Result<Room, String> {
        any!(self, b => b.room())
    }

    fn step(&self) -> Nanos {
        any!(self, b => b.step())
    }

    fn to_rust(&self) -> String {
        any!(self, b => b.to_rust())
    }
}
