//! The replacement policies: against naive models, against devices that check every version, and on
//! a recorded trace.

mod devices;
mod events;
mod naive;
mod recorded;
mod scans;
mod sound;
