//! The cache volume on devices that lose their power, held to its promises by the oracle.

mod cuts;
mod exits;
mod lost;
mod planted;
mod rig;
mod running;
mod runs;
