//! The devices and what wraps them, held to the contract.

mod bad_block;
#[cfg(feature = "file")]
mod both;
#[cfg(feature = "file")]
mod file;
#[cfg(feature = "file")]
mod file_oracle;
#[cfg(feature = "file")]
mod file_speed;
mod live;
mod partition;
mod ram;
mod sampled;
mod wrappers;
