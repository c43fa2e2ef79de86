//! The log on devices that lose their power: at every moment, again and again, for many laps.

mod caught_up;
mod copies;
mod cuts;
mod degraded;
mod loss;
mod model;
mod opening;
mod planted;
mod replaced;
mod rig;
mod running;
