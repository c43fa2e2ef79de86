//! The blueprint of a cache volume.
//!
//! 1. What is built has been formatted: that happens in a runtime of its own, and is not cut.

use crate::blueprints::BoxBlueprint;
use crate::cache::volume::CacheBox;
use crate::log::formatted;
use crate::subject::{Blueprint, Room};
use tantalum_cache::flash::{FormatOptions, Mode, OpenOptions, Replacement};
use tantalum_cache::volume::VolumeOptions;
use tantalum_device::PowerCycle;
use tantalum_rt::{Nanos, Rt};

/// A write to a volume is several changes of its devices.
const STEPS: u64 = 8;
/// The volume begins here on the slow device.
const DATA: u64 = 1 << 20;

/// A cache volume.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheBlueprint {
    /// Its flash device, which carries bytes.
    pub flash: BoxBlueprint,
    /// Its slow device, likewise.
    pub slow: BoxBlueprint,
    /// Bytes of a page.
    pub page: u32,
    /// Frames of a batch.
    pub frames: u32,
    /// Write-through; else write-back.
    pub through: bool,
    /// Whether pages that were read get a second chance.
    pub second_chance: bool,
    /// A batch is written at the latest so long after its first page came.
    pub linger: Nanos,
    /// Whether a cut may take the flash device along. (With write-through.)
    pub loss: bool,
}

impl CacheBlueprint {
    /// How its volume is made and used.
    pub fn options(&self) -> VolumeOptions {
        let mode = if self.through { Mode::Through } else { Mode::Back };
        let replacement = match self.second_chance {
            true => Replacement::SecondChance,
            false => Replacement::Basic,
        };
        let (page, frames) = (self.page, self.frames);
        VolumeOptions {
            format: FormatOptions { page, frames, mode, ..FormatOptions::default() },
            cache: OpenOptions { replacement, linger: self.linger, ..OpenOptions::default() },
            ..VolumeOptions::default()
        }
    }
}

impl Blueprint for CacheBlueprint {
    type Subject = CacheBox;

    fn name(&self) -> String {
        format!("cache of {} over {}", self.flash.name(), self.slow.name())
    }

    fn build(&self, rt: &Rt) -> Result<CacheBox, String> {
        let blueprint = self.clone();
        formatted(rt, |rt| async move {
            let mut devices = blueprint.flash.build_boxes(&rt, 1, "flash")?;
            devices.extend(blueprint.slow.build_boxes(&rt, 1, "slow")?);
            let [flash, slow] = <[_; 2]>::try_from(devices).map_err(|_| "two devices")?;
            flash.power_on().await.map_err(|e| e.to_string())?;
            slow.power_on().await.map_err(|e| e.to_string())?;
            let made = CacheBox::new(&rt, flash, slow, blueprint)?;
            made.volume().format(false).await.map_err(|e| e.to_string())?;
            Ok(made)
        })
    }

    fn room(&self) -> Result<Room, String> {
        if self.loss && !self.through {
            return Err("a cache volume: `loss` takes what write-back has: set through".into());
        }
        self.flash.room()?;
        let (block, page) = (u64::from(self.slow.block_bytes()), u64::from(self.page));
        if page == 0 || !page.is_multiple_of(block) {
            return Err(format!("a cache volume: pages are multiples of {block} bytes"));
        }
        let bytes = (self.slow.room()?.blocks * block).saturating_sub(DATA);
        match bytes / page {
            0 => Err("a cache volume: the slow device has no page behind its first 1 MiB".into()),
            pages => Ok(Room { blocks: pages * (page / block), faults: 0 }),
        }
    }

    fn step(&self) -> Nanos {
        self.flash.step() * STEPS
    }

    fn to_rust(&self) -> String {
        format!(
            "tantalum_explore::CacheBlueprint {{\n    flash: {}.into(),\n    slow: {}.into(),\n    \
             page: {},\n    frames: {},\n    through: {},\n    second_chance: {},\n    \
             linger: tantalum_rt::Nanos({}),\n    loss: {},\n    }}",
            self.flash.to_rust(),
            self.slow.to_rust(),
            self.page,
            self.frames,
            self.through,
            self.second_chance,
            self.linger.0,
            self.loss
        )
    }
}
