//! The runtime; the wall clock has tests of its own beside this.

#[path = "../both/mod.rs"]
mod both;
mod calls;
mod invariants;
mod storage;
