//! The simulated drives, held to what they promise.

mod crash;
mod designs;
mod disorder;
mod energy;
mod explore;
mod faults;
mod flush_cost;
mod flush_modes;
mod groups;
mod idle;
mod keeper;
mod page;
mod parts;
mod planted;
mod progress;
mod protected;
mod refused;
mod rules;
mod start;
mod thin;
mod wear;
mod worn;
mod zone;
