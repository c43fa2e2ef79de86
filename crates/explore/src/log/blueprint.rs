//! Blueprints of logs and log volumes.
//!
//! 1. What is built has been formatted: that happens in a runtime of its own, and is not cut.

use crate::blueprints::BoxBlueprint;
use crate::boxes::AnyBox;
use crate::log::judge::RECORD;
use crate::log::member::Members;
use crate::log::shape::LogShape;
use crate::log::subject::LogBox;
use crate::log::volume::VolumeBox;
use crate::subject::{Blueprint, Room, Subject};
use tantalum_device::{GroupLimit, PowerCycle};
use tantalum_log::{Log, LogDevice, VolumeOptions};
use tantalum_rt::{Nanos, Rt, Runtime};

/// Numbers that commands name to a log.
const PLACES: u64 = 256;
/// A write to a log is several of its devices' changes.
const STEPS: u64 = 8;
/// Bytes of a slot of a volume's label; a block if that is larger.
const LABEL: u64 = 4096;

/// A flash log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogBlueprint {
    /// Each of its devices, which carries bytes.
    pub device: BoxBlueprint,
    /// What it makes of them.
    pub shape: LogShape,
}

/// A log volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeBlueprint {
    /// Its log.
    pub log: LogBlueprint,
    /// Its backing, which carries bytes.
    pub backing: BoxBlueprint,
    /// Bytes of memory for what is not destaged.
    pub memory: u64,
    /// Changes are destaged at the latest after this time.
    pub linger: Nanos,
    /// Whether its limits are those that a volume has by itself: an atomic unit of 128 KiB, groups of
    /// 256 extents and 1 MiB. Else they are small, so that a few blocks reach them: a unit of 4 blocks,
    /// groups of 4 extents and 8 blocks.
    pub full_limits: bool,
}

impl LogBlueprint {
    fn boxes(&self, rt: &Rt) -> Result<Vec<AnyBox>, String> {
        self.shape.check()?;
        self.device.build_boxes(rt, self.shape.all(), "log")
    }

    /// Faults are writes of one device that fail. Half of them are the commands' share.
    fn faults(&self) -> u32 {
        if self.shape.loss { 2 } else { 0 }
    }
}

/// Builds in a runtime of its own, and copies what that left.
pub(crate) fn formatted<S: Subject, F: Future<Output = Result<S, String>> + 'static>(
    rt: &Rt,
    make: impl FnOnce(Rt) -> F,
) -> Result<S, String> {
    let mut runtime = Runtime::virtual_time(rt.stream("format").next_u64());
    let making = make(runtime.handle());
    let made = runtime.block_on(async move {
        let made = making.await?;
        made.cut();
        made.off().await;
        Ok::<S, String>(made)
    });
    let made = made.map_err(|e| e.to_string())??;
    made.cut_copy(rt).ok_or_else(|| "the power does not go".to_string())
}

impl Blueprint for LogBlueprint {
    type Subject = LogBox;

    fn name(&self) -> String {
        format!("log of {} {}", self.shape.devices, self.device.name())
    }

    fn build(&self, rt: &Rt) -> Result<LogBox, String> {
        let (blueprint, unit) = (self.clone(), self.device.block_bytes());
        formatted(rt, |rt| async move {
            let members = Members::new(&rt, blueprint.boxes(&rt)?, &blueprint.shape);
            for member in members.all.iter() {
                member.power_on().await.map_err(|e| e.to_string())?;
            }
            let (array, archive) = members.named();
            let named =
                |(name, member): (String, _)| LogDevice::new(name, PowerCycle::device(&member));
            let array: Vec<_> = array.into_iter().map(named).collect();
            let create = blueprint.shape.create(unit, RECORD as u32);
            let archive = archive.map(named);
            let made = Log::create(&rt, &array, archive.as_ref(), &create).await;
            made.map_err(|e| e.to_string())?;
            Ok(LogBox::new(&rt, members, unit))
        })
    }

    fn room(&self) -> Result<Room, String> {
        self.shape.check()?;
        self.device.room()?;
        Ok(Room { blocks: PLACES, faults: self.faults() })
    }

    fn step(&self) -> Nanos {
        self.device.step() * STEPS
    }

    fn to_rust(&self) -> String {
        let s = &self.shape;
        format!(
            "tantalum_explore::LogBlueprint {{\n    device: {}.into(),\n    \
             shape: tantalum_explore::LogShape {{\n        devices: {},\n        archive: {},\n        \
             copies: {},\n        partitions: {},\n        slow_one_in: {},\n        \
             slow_by: tantalum_rt::Nanos({}),\n        stall: tantalum_rt::Nanos({}),\n        \
             loss: {},\n    }},\n    }}",
            self.device.to_rust(),
            s.devices,
            s.archive,
            s.copies,
            s.partitions,
            s.slow_one_in,
            s.slow_by.0,
            s.stall.0,
            s.loss
        )
    }
}

impl VolumeBlueprint {
    fn options(&self) -> VolumeOptions {
        let block = self.backing.block_bytes();
        let mut log = self.log.shape.open(self.log.device.block_bytes().max(block));
        let full = VolumeOptions::default();
        if self.full_limits {
            (log.memory, log.group_bytes) = (full.log.memory, full.log.group_bytes);
        }
        let (atomic_unit, atomic_group) = match self.full_limits {
            true => (full.atomic_unit, full.atomic_group),
            false => (4 * block, GroupLimit { extents: 4, bytes: 8 * u64::from(block) }),
        };
        let (memory, linger) = (self.memory, self.linger);
        VolumeOptions { memory, linger, atomic_unit, atomic_group, log, ..full }
    }
}

impl Blueprint for VolumeBlueprint {
    type Subject = VolumeBox;

    fn name(&self) -> String {
        format!("log volume over {}", self.log.name())
    }

    fn build(&self, rt: &Rt) -> Result<VolumeBox, String> {
        let (blueprint, unit) = (self.clone(), self.log.device.block_bytes());
        formatted(rt, |rt| async move {
            let members = Members::new(&rt, blueprint.log.boxes(&rt)?, &blueprint.log.shape);
            let mut backing = blueprint.backing.build_boxes(&rt, 1, "backing")?;
            let backing = backing.pop().ok_or_else(|| "there is no backing".to_string())?;
            for member in members.all.iter() {
                member.power_on().await.map_err(|e| e.to_string())?;
            }
            backing.power_on().await.map_err(|e| e.to_string())?;
            let made = VolumeBox::new(&rt, members, backing, blueprint.options())?;
            let create = blueprint.log.shape.create(unit, RECORD as u32);
            made.volume().format(&create).await.map_err(|e| e.to_string())?;
            Ok(made)
        })
    }

    fn room(&self) -> Result<Room, String> {
        self.log.room()?;
        let block = u64::from(self.backing.block_bytes());
        let label = 2 * LABEL.max(block) / block;
        let blocks = self.backing.room()?.blocks.checked_sub(label + 1);
        let blocks = blocks.ok_or("log volume: the backing is too small for its label")? + 1;
        Ok(Room { blocks, faults: self.log.faults() })
    }

    fn step(&self) -> Nanos {
        self.log.step()
    }

    fn to_rust(&self) -> String {
        format!(
            "tantalum_explore::VolumeBlueprint {{\n    log: {},\n    backing: {}.into(),\n    \
             memory: {},\n    linger: tantalum_rt::Nanos({}),\n    full_limits: {},\n    }}",
            self.log.to_rust(),
            self.backing.to_rust(),
            self.memory,
            self.linger.0,
            self.full_limits
        )
    }
}
