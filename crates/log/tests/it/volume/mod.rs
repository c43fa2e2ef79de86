//! The log volume on devices that lose their power, held to its promises by the oracle.

mod cuts;
mod labels;
mod planted;
mod replaced;
mod rig;
mod running;
mod runs;
mod salvage;
mod slow;
