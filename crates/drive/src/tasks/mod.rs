//! What runs while the drive has power: commands of the host, and the tasks of the firmware.

pub(crate) mod collector;
pub(crate) mod flusher;
pub(crate) mod group;
pub(crate) mod host;
pub(crate) mod keeper;
pub(crate) mod levelling;
pub(crate) mod parts;
pub(crate) mod thin;
