//! How a cache volume is made and used.

use crate::flash::{FormatOptions, OpenOptions};
use tantalum_rt::Nanos;

/// When a page that the slow device has enters the cache of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CleanEntry {
    /// When it is read, and when the host tells that it has left its memory.
    #[default]
    OnRead,
    /// Only when the host tells ([`BlockDevice::left`](tantalum_device::BlockDevice::left)): until
    /// then a copy on flash would be of no use.
    OnExit,
}

/// How a cache volume is made and used.
///
/// See [`CacheVolume`](crate::volume::CacheVolume) for an example.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// How its cache is made, also in place of a lost one. A volume with pages of another size than
    /// these does not start.
    pub format: FormatOptions,
    /// How its cache is used; `mode` is that of `format`.
    pub cache: OpenOptions,
    /// The slow device had data: they stay where they are, and the label is at its end
    /// ([`DeviceStore::adopting`](crate::flash::DeviceStore::adopting)).
    pub adopts: bool,
    /// When clean pages enter.
    pub clean: CleanEntry,
}

impl Default for VolumeOptions {
    /// A batch waits longer for more pages than that of a program which waits for each eviction: a
    /// flush does not wait for it.
    fn default() -> VolumeOptions {
        VolumeOptions {
            format: FormatOptions::default(),
            cache: OpenOptions { linger: Nanos::from_millis(100), ..OpenOptions::default() },
            adopts: false,
            clean: CleanEntry::default(),
        }
    }
}
