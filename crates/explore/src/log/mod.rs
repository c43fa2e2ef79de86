//! Flash logs and log volumes under the explorer.
//!
//! A log is no block device, so it has a judge of its own ([`LogJudge`]), which holds it to what
//! [`Journal`] says. A log volume is held to the contract.

mod blueprint;
mod journal;
mod judge;
mod member;
mod shape;
mod slow;
mod subject;
mod volume;

pub(crate) use blueprint::formatted;
pub use blueprint::{LogBlueprint, VolumeBlueprint};
pub use journal::Journal;
pub use judge::{LogJudge, LogSession};
pub use member::{LogLink, LogMember};
pub use shape::LogShape;
pub use slow::{Slow, SlowPlan};
pub use subject::{LogBox, Open};
pub use volume::VolumeBox;
