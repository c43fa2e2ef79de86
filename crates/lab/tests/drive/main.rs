//! The simulated drives, held to what they promise.

mod crash;
mod designs;
mod exhaustive;
mod flush_cost;
mod rules;
