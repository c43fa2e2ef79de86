//! The crash explorer: cuts the power of a drive at every moment of a run, and looks at
//! what comes back.
//!
//! 1. A run goes forward once; at each point a copy of the drive is cut
//!    ([`tantalum_drive::Drive::cut_copy`]) and lives on in a runtime of its own: dump, recovery,
//!    check, more work, another cut, another check. The past is never replayed for a point.
//! 2. After each recovery the whole range is held to the contract ([`crate::oracle`]) and the
//!    firmware to its own invariants ([`tantalum_drive::Drive::audit`]). Then comes a phase without
//!    faults, in which every command must succeed and be seen.
//! 3. A recovery is a run like any other: it is cut at its points, and so is the recovery from
//!    that, as deep as is asked for.
//! 4. A case is a [`Scenario`] and the times of its cuts, and nothing else: what fails, fails
//!    again, can be shortened ([`reduce()`]) and printed as a test.

mod command;
mod dive;
mod failure;
mod file;
mod json;
mod play;
mod points;
mod reduce;
mod scenario;
mod survey;
mod swarm;

pub use command::{Command, Ingredients};
pub use failure::{Failure, Stage};
pub use file::{CrashFile, CrashRow};
pub use points::{Moment, Point};
pub use reduce::{Reduced, reduce};
pub use scenario::{Found, Nesting, Scenario, Tally};
pub use survey::{Case, Reach, RowSurvey, Survey, Watch, survey};
pub use swarm::{random_design, small_bounds};
