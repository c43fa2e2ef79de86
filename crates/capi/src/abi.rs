//! The types for C: codes, constants and structures, as in `include/tantalum.h`.
//!
//! 1. A structure only grows at its end. Its first field is the caller's `sizeof`; nothing beyond
//!    that is read or written, and fields that the caller does not have are zero.
//! 2. All fields are 8 bytes wide or pointers, so there is no padding.

use std::ffi::{c_char, c_int, c_void};
use std::mem::size_of;

/// The number of this ABI: programs built for another one must not be run with this library.
pub const TANTALUM_ABI_VERSION: u32 = 1;

/// Success.
pub const TANTALUM_OK: c_int = 0;
/// An argument, or a command, is invalid. Nothing was done.
pub const TANTALUM_EINVAL: c_int = -1;
/// The drive has no power, or lost it before the command completed.
pub const TANTALUM_EPOWER: c_int = -2;
/// Data that was written cannot be read back.
pub const TANTALUM_EMEDIUM: c_int = -3;
/// The drive failed the command.
pub const TANTALUM_EFAILED: c_int = -4;
/// A durability step failed before: no writes until the drive was restarted.
pub const TANTALUM_EPOISONED: c_int = -5;
/// No space for new data. Nothing was done.
pub const TANTALUM_ENOSPC: c_int = -6;
/// The drive is worn out and can only be read.
pub const TANTALUM_EREADONLY: c_int = -7;
/// The drive does not support this.
pub const TANTALUM_ENOTSUP: c_int = -8;
/// The atomic group is larger than the drive's limit. Nothing was done.
pub const TANTALUM_ETOOLARGE: c_int = -9;
/// Two extents of the atomic group overlap. Nothing was done.
pub const TANTALUM_EOVERLAP: c_int = -10;
/// There is no such design, or it cannot be built.
pub const TANTALUM_EDESIGN: c_int = -11;
/// Not enough memory. Nothing was done.
pub const TANTALUM_ENOMEM: c_int = -12;
/// Too much is submitted and not waited for. Nothing was done.
pub const TANTALUM_EBUSY: c_int = -13;
/// There is no such ticket, or it was waited for already.
pub const TANTALUM_ETICKET: c_int = -14;
/// The drive does not start: its emergency dump is not complete.
pub const TANTALUM_EDUMP: c_int = -15;
/// A defect of the library; the handle can only be closed.
pub const TANTALUM_EINTERNAL: c_int = -16;

/// The log cannot be made or opened, or takes nothing any more.
pub const TANTALUM_ELOG: c_int = -17;

/// All codes, with the texts of [`crate::tantalum_strerror`].
pub(crate) const CODES: [(c_int, &std::ffi::CStr); 18] = [
    (TANTALUM_OK, c"success"),
    (TANTALUM_EINVAL, c"an argument or a command is invalid"),
    (TANTALUM_EPOWER, c"the drive lost its power"),
    (TANTALUM_EMEDIUM, c"data cannot be read back"),
    (TANTALUM_EFAILED, c"the drive failed the command"),
    (TANTALUM_EPOISONED, c"no writes until the drive is restarted"),
    (TANTALUM_ENOSPC, c"no space left on the drive"),
    (TANTALUM_EREADONLY, c"the drive is worn out and can only be read"),
    (TANTALUM_ENOTSUP, c"the drive does not do that"),
    (TANTALUM_ETOOLARGE, c"the atomic group is larger than the drive's limit"),
    (TANTALUM_EOVERLAP, c"extents of the atomic group overlap"),
    (TANTALUM_EDESIGN, c"there is no such design, or it cannot be built"),
    (TANTALUM_ENOMEM, c"not enough memory"),
    (TANTALUM_EBUSY, c"too much is submitted and not waited for"),
    (TANTALUM_ETICKET, c"no such ticket, or it was waited for already"),
    (TANTALUM_EDUMP, c"the drive's emergency dump is not complete"),
    (TANTALUM_EINTERNAL, c"a defect of the library"),
    (TANTALUM_ELOG, c"the log cannot be made or opened, or takes nothing any more"),
];

/// Flag of a write: durable before it completes (forced unit access).
pub const TANTALUM_FUA: u32 = 1;

/// Most tickets of one handle that are not waited for.
pub const TANTALUM_TICKETS_MAX: usize = 4096;
/// Most bytes of submitted commands that are not waited for; a single command may be larger.
pub const TANTALUM_SUBMITTED_BYTES_MAX: u64 = 256 << 20;
/// The longest [`crate::tantalum_sleep`]: a day.
pub const TANTALUM_SLEEP_MAX_NS: u64 = 86_400_000_000_000;

/// A completed write may be lost with the power until a flush returns.
pub const TANTALUM_ACK_VOLATILE: u64 = 0;
/// A completed write survives, in protected memory.
pub const TANTALUM_ACK_POWER_SAFE: u64 = 1;
/// A completed write survives, on the medium.
pub const TANTALUM_ACK_ON_MEDIA: u64 = 2;

/// One extent of an atomic group.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct tantalum_extent {
    /// The first block.
    pub block: u64,
    /// The data: `blocks` times the block size.
    pub data: *const c_void,
    /// How many blocks.
    pub blocks: u64,
}

/// A piece of a record of a log.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct tantalum_piece {
    /// Its bytes; may be null if there are none.
    pub data: *const c_void,
    /// How many.
    pub bytes: u64,
}

/// A structure that grows with the versions of the library.
///
/// # Safety
/// The type is `repr(C)`, without padding, and begins with a `u64` that is its size in bytes. Any
/// bytes are a valid value of it.
pub(crate) unsafe trait Record: Copy + Default {}

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $ty:ty,)* })*) => { $(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(non_camel_case_types)]
        pub struct $name {
            /// Bytes of this structure: the caller's `sizeof`.
            pub size: u64,
            $($(#[$fdoc])* pub $field: $ty,)*
        }

        impl Default for $name {
            /// Zeros, except for the size.
            fn default() -> $name {
                // SAFETY: zeros are a valid value of numbers, pointers and records of them.
                let mut record: $name = unsafe { std::mem::zeroed() };
                record.size = size_of::<$name>() as u64;
                record
            }
        }

        // SAFETY: `repr(C)`; numbers of 8 bytes, pointers and records of them, after the size.
        unsafe impl Record for $name {}

        impl $name {
            /// The offset of each field, for the test that compares them with the header.
            pub const LAYOUT: &[(&str, usize)] = &[
                ("size", 0),
                $((stringify!($field), std::mem::offset_of!($name, $field)),)*
            ];
        }
    )* };
}

/// Counts of one kind of command: see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub struct tantalum_command_stats {
    /// Commands that succeeded.
    pub commands: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Bytes that the successful ones moved.
    pub bytes: u64,
    /// Median latency of the successful ones, ns of virtual time.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

records! {
    /// Which drive [`crate::tantalum_open_drive`] opens.
    tantalum_drive_options {
        /// Seed of the run.
        seed: u64,
        /// Name of a preset, or null.
        preset: *const c_char,
        /// A design as TOML, or null. One of the two.
        design: *const c_char,
        /// Changes to the design as TOML, or null.
        overrides: *const c_char,
    }

    /// Which drive [`crate::tantalum_open_ram`] opens.
    tantalum_ram_options {
        /// Seed of the run.
        seed: u64,
        /// Blocks.
        blocks: u64,
        /// Bytes in a block; 0: 4096.
        block_size: u64,
        /// What a completed write means: `TANTALUM_ACK_…`.
        ack: u64,
        /// Not 0: its flushes do nothing.
        flush_ignored: u64,
        /// Not 0: writes that survive a cut are a prefix of those that arrived.
        ordered: u64,
        /// Bytes of a write that are all or nothing; 0: a block.
        atomic_unit: u64,
        /// Extents in an atomic group, at most; 0: groups are refused.
        group_extents: u64,
        /// Bytes in an atomic group, at most.
        group_bytes: u64,
        /// Time of each read, write, group and discard, ns.
        command_ns: u64,
        /// Each takes up to this much longer, at random, ns.
        jitter_ns: u64,
        /// Time of each flush, ns.
        flush_ns: u64,
        /// Time from power to the first command, ns.
        start_ns: u64,
    }

    /// What a drive promises.
    tantalum_caps {
        /// Bytes in a block.
        block_size: u64,
        /// Blocks.
        blocks: u64,
        /// What a completed write means: `TANTALUM_ACK_…`.
        ack: u64,
        /// 1: a flush makes completed writes durable; 0: it does nothing.
        flush: u64,
        /// 1: writes that survive a cut are a prefix of those that arrived.
        ordered: u64,
        /// Bytes of a write that are all or nothing.
        atomic_unit: u64,
        /// Extents in an atomic group, at most; 0: groups are refused.
        group_extents: u64,
        /// Bytes in an atomic group, at most.
        group_bytes: u64,
        /// 1: it may refuse new data for lack of space.
        thin: u64,
    }

    /// The outcome of a power cut.
    tantalum_power_loss {
        /// Virtual time from the cut until the drive was off, ns.
        took_ns: u64,
        /// 1: the emergency dump was complete, or none was needed.
        dump_complete: u64,
        /// Joules in the capacitors.
        budget_j: f64,
        /// Joules drawn.
        spent_j: f64,
        /// Joules missing.
        missing_j: f64,
    }

    /// The last restart.
    tantalum_recovery {
        /// Virtual time from power to the first command, ns.
        ready_ns: u64,
        /// Virtual time from power until the restart was complete, ns; 0: not yet.
        whole_ns: u64,
        /// 1: nothing had ever been written.
        blank: u64,
        /// 1: there was no complete dump; the last acknowledged writes may be lost.
        salvaged: u64,
        /// Looking for the emergency dump, ns.
        find_ns: u64,
        /// Reading it, ns.
        dump_ns: u64,
        /// Reading the first pages of all erase units, ns.
        scan_ns: u64,
        /// Reading the map log, ns.
        map_ns: u64,
        /// Buffered pages found in the dump.
        dump_pages: u64,
        /// Changed map entries found in the dump.
        dump_entries: u64,
        /// Map pages read.
        map_pages: u64,
        /// Deltas of the map log replayed.
        map_deltas: u64,
    }

    /// Counts since the drive was opened, over all power cycles.
    tantalum_stats {
        /// Virtual time since the drive was opened, ns.
        now_ns: u64,
        /// Plain reads.
        read: tantalum_command_stats,
        /// Plain writes.
        write: tantalum_command_stats,
        /// Writes with forced unit access.
        fua: tantalum_command_stats,
        /// Atomic groups.
        group: tantalum_command_stats,
        /// Flushes.
        flush: tantalum_command_stats,
        /// Discards.
        discard: tantalum_command_stats,
        /// Power cuts.
        power_cuts: u64,
        /// Bytes of all pages programmed.
        flash_program_bytes: u64,
        /// Of these, with data of the host.
        flash_host_bytes: u64,
        /// Of these, for the map.
        flash_map_bytes: u64,
        /// Of these, in emergency dumps.
        flash_dump_bytes: u64,
        /// Bytes of sectors moved by garbage collection.
        flash_moved_bytes: u64,
        /// Read operations of the flash array.
        flash_reads: u64,
        /// Erase operations.
        flash_erases: u64,
        /// Erase units that went bad.
        flash_bad_units: u64,
    }

    /// How [`crate::tantalum_log_create`] makes a log. 0: the default.
    tantalum_log_create_options {
        /// Devices on which each record is before it is durable: 1 (default) or 2.
        copies: u64,
        /// Virtual devices on each device of the array.
        partitions: u64,
        /// Bytes of a record, at most.
        record_limit: u64,
        /// Bytes of a log block.
        unit: u64,
        /// Bytes of a section.
        section_bytes: u64,
        /// Files that are not there are made, with so many bytes; 0: each must be there.
        file_bytes: u64,
        /// Not 0: what the devices hold is destroyed.
        force: u64,
        /// Not 0: files are used through the page cache.
        buffered: u64,
    }

    /// How [`crate::tantalum_log_open`] uses a log. 0: the default.
    tantalum_log_options {
        /// Bytes of memory for the newest part of the log.
        memory: u64,
        /// Bytes of a group, at most.
        group_bytes: u64,
        /// When a write takes longer, its device is left until it answers, ns.
        stall_ns: u64,
        /// Not 0: without room, appends and waits fail with `TANTALUM_ENOSPC`; else they wait.
        fail_when_full: u64,
        /// Not 0: no records are taken.
        read_only: u64,
        /// Not 0: a damaged log is opened with what is before the damage.
        salvage: u64,
        /// Not 0: a log with copies is opened without a device that is missing or fails.
        degraded: u64,
        /// Not 0: slow writes are not written again elsewhere.
        no_hedging: u64,
        /// Not 0: files are used through the page cache.
        buffered: u64,
    }

    /// What a log has done since it was opened, and how it is.
    tantalum_log_stats {
        /// The checkpoint: the log begins here.
        first: u64,
        /// The number that was given with the checkpoint.
        checkpoint_number: u64,
        /// Everything before this LSN is durable.
        durable: u64,
        /// The end of what was appended.
        end: u64,
        /// How often the log was opened, and began anew while it ran.
        epoch: u64,
        /// Records appended.
        records: u64,
        /// Bytes of these.
        record_bytes: u64,
        /// Groups written.
        groups: u64,
        /// Bytes of these.
        group_bytes: u64,
        /// Bytes written to the array.
        array_bytes: u64,
        /// Groups that may be in flight at once.
        width: u64,
        /// Writes that took longer than most while a group waited for them.
        slow: u64,
        /// Of these, written again on another device.
        hedges: u64,
        /// Of these, ended before the write that they replaced.
        hedges_won: u64,
        /// Writes that took longer than the bound.
        stalls: u64,
        /// New epochs while the log ran.
        restarts: u64,
        /// Writes to the archive.
        archive_writes: u64,
        /// Groups of the largest size for which there is room.
        room: u64,
        /// Sections in use.
        sections_used: u64,
        /// Sections.
        sections: u64,
        /// 1: records have fewer copies than the log was made for.
        degraded: u64,
        /// Devices of the log, the archive among them.
        devices: u64,
        /// Of these, those that take part.
        devices_present: u64,
    }

    /// A record of a log.
    tantalum_log_record {
        /// 1: there is one; 0: there are no more.
        found: u64,
        /// Where it begins.
        lsn: u64,
        /// Where it ends: where the next one begins.
        end: u64,
        /// Its bytes, valid until the reader's next call.
        data: *const c_void,
        /// How many.
        bytes: u64,
    }
}
