//! The crash explorer: cuts the power of a subject at moments chosen among all of a run, and looks
//! at what comes back. A [`Subject`] is a drive, a RAM device, a disk, a sampled device, a RAID-0,
//! a flash log, a log volume, a cache volume, or one of your own.
//!
//! 1. A run goes forward once; at each point a copy of the subject is cut
//!    ([`Subject::cut_copy`]) and lives on in a runtime of its own: dump, recovery, check, more
//!    work, another cut, another check. The past is never replayed for a point.
//! 2. After each recovery its [`Judge`] checks all that the subject holds (for block devices
//!    against the contract, [`Contract`]), and the subject checks its own invariants
//!    ([`Subject::audit`]). Then comes a phase without faults, in which every command must succeed
//!    and be seen.
//! 3. A recovery is a run like any other: it is cut at its points, and so is the recovery from
//!    that, as deep as is asked for. A recovery without operations (of a disk, a RAM device, a
//!    sampled device) has no such points.
//! 4. A case is a [`Scenario`] and the times of its cuts, and nothing else. So a case that fails
//!    fails again; it can be shortened ([`reduce()`]) and printed as a test.
//!
//! What it cannot find, by construction, is listed in `docs/crash.md`.
//!
//! # An example
//!
//! A drive whose cache is lost with the power keeps what the contract says, wherever the power is cut.
//!
//! ```
//! use tantalum_device::Payload;
//! use tantalum_drive::Design;
//! use tantalum_explore::{DriveBlueprint, Ingredients, Nesting, Tally};
//!
//! let small = "geometry.blocks = 64\ngeometry.pages = 64".parse()?;
//! let design = Design::preset("volatile")?.with_overrides(&small)?;
//! let what = Ingredients { commands: 20, then: 4, ..Ingredients::default() };
//! let scenario = what.scenario(DriveBlueprint { design, payload: Payload::Stamps }, 1)?;
//!
//! // All points of the run, and ten at random times. Every fortieth is cut here.
//! let points = scenario.points(10).unwrap();
//! let some: Vec<_> = points.into_iter().enumerate().step_by(40).collect();
//! let mut tally = Tally::default();
//! let explored = scenario.explore(&some, Nesting::default(), &mut tally, &|| ());
//! assert_eq!(explored, Ok(()));
//! assert_eq!(tally.all_cuts() + tally.void, some.len() as u64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A subject of your own
//!
//! A subject implements [`Subject`], what it promises [`Judge`]:
//!
//! ```
#![doc = include_str!("../examples/kv.rs")]
//! ```

mod any;
mod blueprints;
mod boxes;
mod cache;
mod command;
mod contract;
mod failure;
mod log;
mod parallel;
mod play;
mod points;
mod reduce;
mod row;
mod scenario;
mod subject;
mod subjects;
mod survey;
mod swarm;

pub use any::{AnyBlueprint, AnyJudge, AnySession, AnySubject};
pub use blueprints::{
    BoxBlueprint, DiskBlueprint, DriveBlueprint, Raid0Blueprint, RamBlueprint, SampledBlueprint,
};
pub use boxes::{AnyBox, AnyLink};
pub use cache::{
    BareCacheBlueprint, BareCacheBox, CacheBlueprint, CacheBox, CacheJudge, CacheSession, OpenCache,
};
pub use command::{Command, Ingredients};
pub use contract::Contract;
pub use failure::{Failure, Stage};
pub use log::{
    Journal, LogBlueprint, LogBox, LogJudge, LogLink, LogMember, LogSession, LogShape, Open, Slow,
    SlowPlan, VolumeBlueprint, VolumeBox,
};
pub use parallel::side_by_side;
pub use points::{Moment, Point};
pub use reduce::{Reduced, reduce};
pub use row::{CrashRow, Exploration};
pub use scenario::{Found, Nesting, Scenario, Tally};
pub use subject::{Blueprint, Built, Fault, Judge, Room, Subject};
pub use survey::{Case, MOST, Over, Plan, Reach, RowState, RowSurvey, Survey, Watch, survey};
pub use swarm::{random_design, small_bounds};
