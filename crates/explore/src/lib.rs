//! The crash explorer: cuts the power of a subject at every moment of a run, and looks at
//! what comes back. A [`Subject`] is a drive, a RAM device, a disk, a RAID-0, or one of your own.
//!
//! 1. A run goes forward once; at each point a copy of the subject is cut
//!    ([`Subject::cut_copy`]) and lives on in a runtime of its own: dump, recovery, check, more
//!    work, another cut, another check. The past is never replayed for a point.
//! 2. After each recovery its [`Judge`] checks all that the subject holds (for block devices
//!    against the contract, [`Contract`]), and the subject checks its own invariants
//!    ([`Subject::audit`]). Then comes a phase without faults, in which every command must succeed
//!    and be seen.
//! 3. A recovery is a run like any other: it is cut at its points, and so is the recovery from
//!    that, as deep as is asked for.
//! 4. A case is a [`Scenario`] and the times of its cuts, and nothing else. So a case that fails
//!    fails again; it can be shortened ([`reduce()`]) and printed as a test.
//!
//! # What it cannot find
//!
//! By construction, so that more seeds and more cuts do not help:
//!
//! - **Long lives.** A run begins on a blank drive and has some hundred commands. Wear, units that
//!   fail one by one over months, counters that come near their bounds, and states that take more
//!   than a few fillings of the drive are not reached. No row is preconditioned.
//! - **Large drives.** Designs of rows have some hundreds or thousands of flash pages, random ones
//!   less than 1 GiB. A defect that takes more (a number that does not fit into its bits, a list
//!   with a bound that a small map never comes to) does not show.
//! - **More than two power cycles that are cut.** After each cut the drive works on, is cut once
//!   more at one random time, and recovers; then its life ends. That second recovery is never cut.
//!   Cuts of recoveries go as deep as [`Nesting::depth`] says, and of these only `inner` points of
//!   one cut in `stride`, chosen at random, unless all are asked for.
//! - **Power that does not fail at once.** A cut is one moment. The supply does not sag, come back
//!   for a moment, or fail while capacitors charge; they are full at each start.
//! - **Reads that fail.** A page that was written is read as it was, or as the cut left it. There
//!   are no read errors, bits that flip, read disturb or loss of charge, and no whole die or
//!   channel that fails.
//! - **Faults beyond the orders.** Programs and erases fail only where the commands or the dice of
//!   a recovery order it ([`Ingredients::faults`]), within the units that the design has to spare.
//!   Between a recovery and the last cut nothing fails. In a recovery at most one program and one
//!   erase fail, and each only while the faults of its run allow it. Salvage after a dump that was
//!   not complete (too few joules) is not reached by any design of `experiments/crash.toml`.
//! - **Other hosts.** The commands are those of one list, and two commands of one time are taken in
//!   one order, which follows from the seed. A host waits for each of its commands: none is given
//!   up half-way. Data are stamps or patterns, never of a file system.
//! - **What the oracle allows.** A violation is what [`tantalum_oracle`] or
//!   [`tantalum_drive::Drive::audit`] reports as one. Defects of speed (a drive that becomes slow,
//!   but ends within the patience of the player) are not looked for.
//! - **What is around the drive.** Images in files, crashes of processes and hosts, real time,
//!   threads, NBD, FUSE, and files and databases on the drive have their own tests.
//! - **Every moment.** A program or an erase is cut at some points, not at each. Between
//!   two events all moments are taken to be the same; only some random ones are tried. A cut comes
//!   before everything else that happens at its time, so events at the same time are never
//!   separated.
//! - **A second finding below one cut.** Only the first finding of a cut is reported; later cuts of
//!   its recovery are left out.

mod blueprints;
mod boxes;
mod command;
mod contract;
mod dive;
mod failure;
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
mod work;

pub use blueprints::{
    AnyBlueprint, DiskBlueprint, DriveBlueprint, Raid0Blueprint, RamBlueprint, SampledBlueprint,
};
pub use boxes::{AnyBox, AnyLink};
pub use command::{Command, Ingredients};
pub use contract::Contract;
pub use failure::{Failure, Stage};
pub use parallel::side_by_side;
pub use points::{Moment, Point};
pub use reduce::{Reduced, reduce};
pub use row::{CrashRow, Exploration};
pub use scenario::{Found, Nesting, Scenario, Tally};
pub use subject::{Blueprint, Built, Fault, Judge, Room, Subject};
pub use survey::{Case, MOST, Over, Plan, Reach, RowState, RowSurvey, Survey, Watch, survey};
pub use swarm::{random_design, small_bounds};
