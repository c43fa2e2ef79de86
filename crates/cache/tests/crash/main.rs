//! The cache on devices that lose their power: at every moment, again and again, for many laps.

mod cuts;
mod model;
mod planted;
mod rig;
