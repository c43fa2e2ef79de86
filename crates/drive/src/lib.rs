//! The software SSD: translation layer, write buffer, map, collection, and what
//! becomes of them when the power goes.
//!
//! A [`Drive`] is a box with a plug; its [`Design`] is a composition of orthogonal
//! choices. Follow one write through the files: [`DriveLink`] (`host`) admits it to the
//! `buffer`; the flusher (`write`) programs it and changes the `map`; the `keeper`
//! stores that change in the `maplog`; the collector (`collect`) moves it later. At a
//! cut `dump` stores what is protected; `recover` starts again from flash.
//!
//! What each part guarantees is in a numbered list at the head of its file. Over all
//! of them:
//!
//! 1. What was acknowledged as the capabilities say survives: see the contract in
//!    `tantalum-device`.
//! 2. An erase unit is erased only when every change that superseded its sectors is
//!    itself durable or protected.
//! 3. Late programs never override newer mappings; what was discarded and flushed
//!    does not come back.
//! 4. The collector always makes progress: its last free units are its own, and a
//!    geometry without the space for that is refused with the arithmetic.
//!
//! Sources: Kang, Lee, Moon, Kee, Oh, "Durable Write Cache in Flash Memory SSD for
//! Relational and NoSQL Databases" (SIGMOD 2014).

mod areas;
mod audit;
mod bounds;
mod buffer;
mod capacitor;
mod capacity;
mod census;
mod check;
mod collect;
mod design;
mod drive;
mod dump;
mod energy;
mod firmware;
mod flag;
mod group;
#[cfg(test)]
mod guards;
mod host;
mod image;
mod journal;
mod journal_replay;
mod keeper;
mod layout;
mod level;
mod map;
mod map_load;
mod maplog;
mod mirror;
#[cfg(test)]
mod models;
mod phases;
mod planted;
mod recover;
mod replay;
mod retire;
mod salvage;
mod scan;
mod settle;
mod space;
mod stats;
mod summary;
mod supply;
mod thin;
mod types;
mod victims;
mod wear;
mod write;
mod zone;

pub use capacitor::{CapacitorType, Parts, Service, VoltageError, Voltages};
pub use census::Census;
pub use design::{
    AtomicDesign, CacheDesign, CacheMode, Collector, Design, DesignError, FirmwareDesign,
    FlushMode, GroupScheme, Kept, LinkDesign, MapDesign, SpaceDesign, WearDesign, nearest_name,
};
pub use drive::{Drive, PowerState};
pub use energy::{Budget, Component, EnergyModel, InFlight, PowerDesign, Saving, SavingCount};
pub use host::DriveLink;
pub use image::{DriveImageError, is_dump_owed};
pub use layout::{Layout, LayoutError};
pub use phases::{PHASES, Phase, Recoveries};
#[cfg(feature = "planted")]
pub use planted::{Defect, plant};
pub use recover::{RecoveryError, RecoveryReport};
pub use stats::DriveStats;
pub use supply::{PowerLoss, PowerLosses};
pub use wear::{Wear, WearReport};
