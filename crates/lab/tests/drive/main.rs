//! The simulated drives, held to what they promise.

mod crash;
mod designs;
mod exhaustive;
mod faults;
mod flush_cost;
mod idle;
mod progress;
mod protected;
mod rules;
mod wear;
