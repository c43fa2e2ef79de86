//! What a drive has done, over all its power cycles.

use std::cell::Cell;
use tantalum_rt::Nanos;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of a drive since it was made, over all power cycles. Bytes are
        /// bytes of whole sectors, or of whole pages where pages are named.
        ///
        /// See [`Drive::stats`](crate::Drive::stats) for an example.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct DriveStats { $($(#[$doc])* pub $name: u64,)*
            /// Time that commands waited for room in the buffer, summed over commands.
            pub buffer_wait: Nanos,
            /// Time that flushers waited for a free erase unit, summed over dies: while all
            /// of them do, writes wait for collection.
            pub space_wait: Nanos,
            /// Free erase units now; 0 without power.
            pub free_units: u64,
            /// The fewest there were since the drive last started.
            pub free_units_min: u64,
        }

        /// The counters while they count.
        #[derive(Default)]
        pub(crate) struct Stats {
            $(pub $name: Counter,)*
            pub buffer_wait: Counter,
            pub space_wait: Counter,
        }

        impl Stats {
            pub fn snapshot(&self) -> DriveStats {
                DriveStats {
                    $($name: self.$name.get(),)*
                    buffer_wait: Nanos(self.buffer_wait.get()),
                    space_wait: Nanos(self.space_wait.get()),
                    free_units: 0,
                    free_units_min: 0,
                }
            }
        }
    };
}

counters! {
    /// Write commands completed.
    host_writes,
    /// Atomic groups completed, which are not among these commands.
    host_groups,
    /// Bytes written by the host.
    host_write_bytes,
    /// Write commands refused for want of space.
    refused_writes,
    /// Read commands completed.
    host_reads,
    /// Bytes read by the host.
    host_read_bytes,
    /// Flush commands completed.
    flushes,
    /// Discarded bytes.
    discard_bytes,
    /// Bytes of writes that replaced an older copy in the buffer.
    coalesced_bytes,
    /// Sectors that were completed with what they held, because a command had only some of their
    /// blocks.
    merged_sectors,
    /// Of the reads of the flash array, those for such sectors.
    rest_reads,
    /// Bytes of pages programmed, for whatever reason.
    flash_program_bytes,
    /// Bytes of pages programmed with data of the host.
    host_program_bytes,
    /// Bytes of sectors moved by the collector, for whatever reason.
    gc_copied_bytes,
    /// Of these, moved while the host was idle.
    background_bytes,
    /// Of these, moved to level wear.
    levelled_bytes,
    /// Of these, pages of atomic groups that were not whole yet.
    group_moved_bytes,
    /// Bytes of pages programmed with the map.
    meta_bytes,
    /// Checkpoints of the journal of units completed.
    checkpoints,
    /// Entries of the journal of units spilled to flash.
    spilled_entries,
    /// Bytes of pages programmed in emergency dumps.
    dump_bytes,
    /// Read operations of the flash array.
    flash_reads,
    /// Erase operations.
    erases,
    /// Erase units that went bad.
    retired_units,
    /// Emergency dumps completed.
    dumps,
    /// Power cuts.
    cuts,
}

impl DriveStats {
    /// Bytes programmed on flash for each byte written by the host.
    pub fn write_amplification(&self) -> f64 {
        match self.host_write_bytes {
            0 => 0.0,
            host => self.flash_program_bytes as f64 / host as f64,
        }
    }
}

#[derive(Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get() + n);
    }

    pub fn get(&self) -> u64 {
        self.0.get()
    }
}
