//! The cache on devices that lose their power: at every moment, again and again, for many laps.

mod bench;
mod cuts;
mod damage;
mod lost;
mod model;
mod opening;
mod passes;
mod planted;
mod resizing;
mod rig;
mod running;
mod slow_writes;
