//! The blueprints of a cache volume, and of a cache as its program uses it.
//!
//! 1. What is built has been formatted: that happens in a runtime of its own, and is not cut.

use crate::blueprints::BoxBlueprint;
use crate::boxes::AnyBox;
use crate::cache::bare::BareCacheBox;
use crate::cache::volume::CacheBox;
use crate::log::formatted;
use crate::subject::{Blueprint, Room};
use tantalum_cache::flash::{Admit, FormatOptions, Mode, OpenOptions, Replacement};
use tantalum_cache::volume::{CleanEntry, VolumeOptions};
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
    /// Which pages enter. (No volume has only clean ones.)
    pub admit: Admit,
    /// A batch is written at the latest so long after its first page came.
    pub linger: Nanos,
    /// Whether a cut may take the flash device along. (With write-through.)
    pub loss: bool,
    /// Of a volume: clean pages enter only when the host tells that they have left its memory
    /// (`Command::Exit`); else when they are read, too.
    pub on_exit: bool,
}

impl CacheBlueprint {
    /// How its volume is made and used.
    pub fn options(&self) -> VolumeOptions {
        let mode = if self.through { Mode::Through } else { Mode::Back };
        let replacement = match self.second_chance {
            true => Replacement::SecondChance,
            false => Replacement::Basic,
        };
        let clean = if self.on_exit { CleanEntry::OnExit } else { CleanEntry::OnRead };
        let (page, frames) = (self.page, self.frames);
        let (admit, linger) = (self.admit, self.linger);
        VolumeOptions {
            format: FormatOptions { page, frames, mode, ..FormatOptions::default() },
            cache: OpenOptions { replacement, admit, linger, ..OpenOptions::default() },
            clean,
            ..VolumeOptions::default()
        }
    }
}

impl CacheBlueprint {
    /// Its pages.
    pub(super) fn pages(&self) -> Result<u64, String> {
        let (block, page) = (u64::from(self.slow.block_bytes()), u64::from(self.page));
        if page == 0 || !page.is_multiple_of(block) {
            return Err(format!("a cache: pages are multiples of {block} bytes"));
        }
        let bytes = (self.slow.room()?.blocks * block).saturating_sub(DATA);
        match bytes / page {
            0 => Err("a cache: the slow device has no page behind its first 1 MiB".into()),
            pages => Ok(pages),
        }
    }

    /// What it is made of can be, as a volume or alone.
    fn check(&self) -> Result<(), String> {
        if self.loss && !self.through {
            return Err("a cache volume: `loss` takes what write-back has: set through".into());
        }
        self.flash.room().map(drop)
    }

    /// The flash device and the slow device, with power.
    async fn devices(&self, rt: &Rt) -> Result<[AnyBox; 2], String> {
        let mut devices = self.flash.build_boxes(rt, 1, "flash")?;
        devices.extend(self.slow.build_boxes(rt, 1, "slow")?);
        for device in &devices {
            device.power_on().await.map_err(|e| e.to_string())?;
        }
        <[_; 2]>::try_from(devices).map_err(|_| "two devices".to_string())
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
            let [flash, slow] = blueprint.devices(&rt).await?;
            let made = CacheBox::new(&rt, flash, slow, blueprint)?;
            made.volume().format(false).await.map_err(|e| e.to_string())?;
            Ok(made)
        })
    }

    fn room(&self) -> Result<Room, String> {
        self.check()?;
        if self.admit == Admit::Clean {
            return Err("a cache volume: it writes a page whole or not at all, and dirty pages \
                        enter: set admit to mixed or dirty"
                .into());
        }
        let blocks = self.page / self.slow.block_bytes().max(1);
        Ok(Room { blocks: self.pages()? * u64::from(blocks), faults: 0 })
    }

    fn step(&self) -> Nanos {
        self.flash.step() * STEPS
    }

    fn to_rust(&self) -> String {
        format!(
            "tantalum_explore::CacheBlueprint {{\n    flash: {}.into(),\n    slow: {}.into(),\n    \
             page: {},\n    frames: {},\n    through: {},\n    second_chance: {},\n    \
             admit: tantalum_cache::flash::Admit::{:?},\n    \
             linger: tantalum_rt::Nanos({}),\n    loss: {},\n    on_exit: {},\n    }}",
            self.flash.to_rust(),
            self.slow.to_rust(),
            self.page,
            self.frames,
            self.through,
            self.second_chance,
            self.admit,
            self.linger.0,
            self.loss,
            self.on_exit
        )
    }
}

/// A cache as its program uses it: what commands name are its pages.
#[derive(Clone, Debug, PartialEq)]
pub struct BareCacheBlueprint {
    /// The same as a volume.
    pub cache: CacheBlueprint,
}

impl Blueprint for BareCacheBlueprint {
    type Subject = BareCacheBox;

    fn name(&self) -> String {
        format!("bare {}", self.cache.name())
    }

    fn build(&self, rt: &Rt) -> Result<BareCacheBox, String> {
        let blueprint = self.cache.clone();
        formatted(rt, |rt| async move {
            let [flash, slow] = blueprint.devices(&rt).await?;
            let made = BareCacheBox::new(&rt, flash, slow, blueprint);
            made.format().await.map_err(|e| e.to_string())?;
            Ok(made)
        })
    }

    fn room(&self) -> Result<Room, String> {
        if self.cache.on_exit {
            return Err(
                "a cache: its program evicts clean pages itself: only a cache volume is told \
                        of exits"
                    .into(),
            );
        }
        self.cache.check()?;
        Ok(Room { blocks: self.cache.pages()?, faults: 0 })
    }

    fn step(&self) -> Nanos {
        self.cache.step()
    }

    fn to_rust(&self) -> String {
        format!(
            "tantalum_explore::BareCacheBlueprint {{\n    cache: {},\n    }}",
            self.cache.to_rust()
        )
    }
}
