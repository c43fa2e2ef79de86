//! The software SSD: translation layer, write buffer, map, collection, and what
//! becomes of them when the power goes.
//!
//! A [`Drive`] is a box with a plug; its [`Design`] is a composition of orthogonal
//! choices. Follow one write through the files: [`DriveLink`] (`tasks/host`) admits it to
//! the `state/buffer`; the `tasks/flusher` programs it and changes the `state/map`; the
//! `tasks/keeper` stores that change in the `state/maplog`; the `tasks/collector` moves it
//! later. At a cut `power/dump` stores what is protected; `start` begins again from flash.
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
//! # An example
//!
//! ```
#![doc = include_str!("../examples/power_cut.rs")]
//! ```
//!
//! # Sources
//!
//! Kang, Lee, Moon, Kee, Oh, "Durable Write Cache in Flash Memory SSD for
//! Relational and NoSQL Databases" (SIGMOD 2014).

mod design;
mod drive;
mod firmware;
mod format;
mod image;
mod live;
pub mod parse;
mod planted;
mod power;
mod start;
mod state;
mod tasks;

pub use design::capacitor::{CapacitorType, Parts, Service, VoltageError, Voltages};
pub use design::energy::{
    Budget, Component, EnergyModel, InFlight, PowerDesign, Saving, SavingCount,
};
pub use design::layout::{Layout, LayoutError};
pub use design::{
    AtomicDesign, CacheDesign, CacheMode, Collector, Design, DesignError, FirmwareDesign,
    FlushMode, ForcedAccess, GroupScheme, Kept, LinkDesign, MapDesign, SpaceDesign, WearDesign,
};
pub use drive::Drive;
pub use firmware::stats::DriveStats;
pub use image::{DriveImageError, is_dump_owed};
pub use parse::nearest_name;
#[cfg(feature = "planted")]
pub use planted::{Defect, plant};
pub use power::supply::{PowerLoss, PowerLosses};
pub use start::phases::{PHASES, Phase, Recoveries};
pub use start::report::{RecoveryError, RecoveryReport};
pub use state::census::Census;
pub use state::wear::{Wear, WearReport};
pub use tantalum_device::PowerState;
pub use tasks::host::DriveLink;
