//! How a log volume is used. It may be different at each start.

use crate::OpenOptions;
use tantalum_device::GroupLimit;
use tantalum_rt::Nanos;

/// How a log volume is used.
///
/// See [`LogVolume`](crate::LogVolume) for an example.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// The name by which messages call the backing, for example its path.
    pub backing_name: String,
    /// Bytes of memory for changes that are not destaged. Changes wait while it is full.
    pub memory: u64,
    /// Changes are destaged at the latest so long after they came, if nothing else calls for it.
    pub linger: Nanos,
    /// Bytes of a write that is all or nothing: a multiple of the backing's blocks.
    pub atomic_unit: u32,
    /// The largest atomic group.
    pub atomic_group: GroupLimit,
    /// How the log is used. It always waits when it is full, and is never opened only for reading.
    pub log: OpenOptions,
}

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        VolumeOptions {
            backing_name: "backing".to_string(),
            memory: 64 << 20,
            linger: Nanos::from_secs(1),
            atomic_unit: 128 << 10,
            atomic_group: GroupLimit { extents: 256, bytes: 1 << 20 },
            log: OpenOptions::default(),
        }
    }
}
