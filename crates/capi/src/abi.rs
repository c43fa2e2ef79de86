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

/// The cache cannot be made or opened, or takes no changes any more.
pub const TANTALUM_ECACHE: c_int = -18;

/// All codes, with the texts of [`crate::tantalum_strerror`].
pub(crate) const CODES: [(c_int, &std::ffi::CStr); 19] = [
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
    (TANTALUM_ECACHE, c"the cache cannot be made or opened, or takes no changes any more"),
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

/// A cache is used in the mode of the last time.
pub const TANTALUM_CACHE_AS_BEFORE: u64 = 0;
/// Write-back: dirty pages reach the slow store when they leave flash.
pub const TANTALUM_CACHE_BACK: u64 = 1;
/// Write-through: dirty pages reach the slow store before their eviction ends.
pub const TANTALUM_CACHE_THROUGH: u64 = 2;

/// Clean and dirty pages enter.
pub const TANTALUM_CACHE_MIXED: u64 = 0;
/// Dirty pages are evicted to the slow store.
pub const TANTALUM_CACHE_CLEAN_ONLY: u64 = 1;
/// Clean pages are let go.
pub const TANTALUM_CACHE_DIRTY_ONLY: u64 = 2;

/// What was found in a directory is the current version of its page.
pub const TANTALUM_ENTRY_CURRENT: u64 = 0;
/// Its frame has its version still, but there is a newer one, or none.
pub const TANTALUM_ENTRY_OLD: u64 = 1;
/// Its frame may have another page.
pub const TANTALUM_ENTRY_REUSED: u64 = 2;

/// The slow store has what leaves the directory.
pub const TANTALUM_FATE_DROP: u64 = 0;
/// It goes to the slow store.
pub const TANTALUM_FATE_DESTAGE: u64 = 1;
/// It enters once more.
pub const TANTALUM_FATE_AGAIN: u64 = 2;

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

/// A page that may leave the program's pool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct tantalum_cache_page {
    /// The page.
    pub page: u64,
    /// Its bytes.
    pub data: *const c_void,
    /// Not 0: it was changed since it was fetched, evicted or pulled last.
    pub dirty: u64,
    /// The newest log record about it.
    pub lsn: u64,
}

/// A version of a page, for a directory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct tantalum_page_version {
    /// The page.
    pub page: u64,
    /// The LSN of its last change.
    pub lsn: u64,
    /// Checksum of the frame: 32 bits.
    pub checksum: u64,
    /// Not 0: it is newer than the slow store's.
    pub dirty: u64,
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
        /// Null, or for each device how long its writes take: a string of C, or null.
        latencies: *const *const c_char,
        /// Copies with which the log has to have been made; 0: any.
        expect_copies: u64,
        /// Partitions, in the same way.
        expect_partitions: u64,
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

    /// Acknowledged bytes of a log that one device has alone.
    tantalum_log_part {
        /// 1: there is such a part; 0: there are no more.
        found: u64,
        /// The first LSN.
        lsn: u64,
        /// Where they end.
        end: u64,
        /// The device that has them.
        on: *const c_char,
        /// The device with the damaged copy, or null.
        damaged: *const c_char,
        /// The offset there, in bytes.
        offset: u64,
    }

    /// A slow store of the program's: see the header.
    tantalum_cache_store {
        /// What its functions are given first.
        context: *mut c_void,
        /// How many pages there are.
        pages: u64,
        /// Reads a page.
        read: Option<unsafe extern "C" fn(*mut c_void, u64, *mut c_void, u64) -> c_int>,
        /// Writes pages side by side.
        write: Option<unsafe extern "C" fn(*mut c_void, u64, *const c_void, u64) -> c_int>,
        /// Makes durable what was written.
        flush: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    }

    /// The log and the pool of a program: see the header.
    tantalum_cache_host {
        /// What its functions are given first.
        context: *mut c_void,
        /// Up to where the log is durable.
        log_stable: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
        /// Names pages from the cold end of the pool.
        pull: Option<unsafe extern "C" fn(*mut c_void, u64, *mut tantalum_cache_page) -> u64>,
        /// A pulled version is in the cache, and not durable yet.
        taken: Option<unsafe extern "C" fn(*mut c_void, u64, u64)>,
        /// A pulled version is durable.
        staged: Option<unsafe extern "C" fn(*mut c_void, u64, u64)>,
        /// The slow store refuses a page.
        refused: Option<unsafe extern "C" fn(*mut c_void, u64, c_int)>,
    }

    /// How [`crate::tantalum_cache_create`] makes a cache. 0: the default.
    tantalum_cache_create_options {
        /// Bytes of a page.
        page_bytes: u64,
        /// Pages of a batch.
        batch_pages: u64,
        /// Not 0: write-through.
        through: u64,
        /// A flash file that is not there is made, with so many bytes.
        flash_bytes: u64,
        /// A slow file that is not there is made, with so many bytes.
        slow_bytes: u64,
        /// Not 0: what flash device and label hold is destroyed.
        force: u64,
        /// Not 0: files are used through the page cache.
        buffered: u64,
    }

    /// How [`crate::tantalum_cache_open`] uses a cache. 0: the default.
    tantalum_cache_options {
        /// `TANTALUM_CACHE_…`.
        mode: u64,
        /// Not 0: no second chance.
        basic: u64,
        /// A batch is written at the latest so long after its first page came, ns.
        linger_ns: u64,
        /// A page that the slow store refused is tried again so much later, ns.
        retry_ns: u64,
        /// So long dirty pages wait for a slow store that refuses, ns.
        patience_ns: u64,
        /// Writes to the slow store side by side, at most.
        depth: u64,
        /// Not 0: files are used through the page cache.
        buffered: u64,
        /// Not 0: clean pages of longer runs of consecutive pages do not enter.
        scan: u64,
        /// Not 0: it tells what twice its size would gain.
        ghosts: u64,
        /// `TANTALUM_CACHE_…`: which pages enter.
        admit: u64,
    }

    /// Where a page was found.
    tantalum_cache_found {
        /// 1: in the cache; 0: on the slow store.
        hit: u64,
        /// The LSN with which it left RAM.
        lsn: u64,
        /// 1: the slow store has an older version.
        dirty: u64,
    }

    /// What a scrubber found.
    tantalum_cache_scrubbed {
        /// Frames that were compared.
        frames: u64,
        /// Damaged frames of clean pages, which were given up.
        repaired: u64,
        /// Dirty pages whose newest version is lost.
        damaged: u64,
        /// The first of these.
        first_damaged: u64,
    }

    /// What a cache has done since it was opened, and how it is.
    tantalum_cache_stats {
        /// Bytes of a page.
        page_bytes: u64,
        /// Pages of the slow store.
        store_pages: u64,
        /// Fetches.
        fetches: u64,
        /// Of these, found in the cache.
        hits: u64,
        /// Evictions.
        evictions: u64,
        /// Of these, dirty ones.
        dirty_evictions: u64,
        /// Evictions that were not written.
        dropped: u64,
        /// Pages pulled from the pool.
        pulled: u64,
        /// Pages that were forgotten, as asked for.
        forgotten: u64,
        /// Second chances.
        second_chances: u64,
        /// Pages written to the slow store.
        slow_writes: u64,
        /// Flushes of the slow store.
        slow_flushes: u64,
        /// Tries of the slow store that failed.
        slow_refusals: u64,
        /// Batches written.
        batches: u64,
        /// Bytes of batches and segments written.
        flash_bytes: u64,
        /// Damaged frames of clean pages.
        repaired: u64,
        /// Damaged frames of dirty pages.
        damaged: u64,
        /// Pages in the cache.
        pages: u64,
        /// Of these, dirty ones.
        dirty: u64,
        /// Frames in use.
        used: u64,
        /// Frames of the ring.
        frames: u64,
        /// 1: it had been closed when it was opened.
        warm: u64,
        /// Pages that were found then.
        found: u64,
        /// Clean pages of scans that were kept out.
        kept_out: u64,
        /// Fetches that the ghosts have a sample of.
        ghost_fetches: u64,
        /// Of these, hits with this size.
        ghost_hits: u64,
        /// Of these, hits with twice the size.
        ghost_twice_hits: u64,
    }

    /// What a directory knows of a frame.
    tantalum_entry {
        /// 1: there is one; 0: there is none.
        found: u64,
        /// The page.
        page: u64,
        /// The LSN of this version of it.
        lsn: u64,
        /// The checksum of the frame.
        checksum: u64,
        /// The frame.
        frame: u64,
        /// How often the ring had come round when the frame got this version.
        lap: u64,
        /// 1: this version is current.
        valid: u64,
        /// 1: it is newer than the slow store's.
        dirty: u64,
        /// 1: it was looked up since it entered.
        referenced: u64,
        /// 1: its batch is durable on flash.
        durable: u64,
        /// `TANTALUM_FATE_…`, of an entry at the front.
        fate: u64,
    }

    /// A batch of frames.
    tantalum_batch {
        /// 1: there is one; 0: there is none.
        found: u64,
        /// Its sequence number.
        seq: u64,
        /// Its first frame.
        first_frame: u64,
        /// Its frames.
        frames: u64,
    }

    /// A version that was staged.
    tantalum_staged {
        /// 1: it was staged; 0: it is not current any more.
        found: u64,
        /// The frame that it has.
        frame: u64,
        /// Which of its batch's frames that is.
        slot: u64,
        /// The lap of the frame.
        lap: u64,
    }

    /// What is in a directory.
    tantalum_directory_stats {
        /// Frames of the ring.
        frames: u64,
        /// Frames of a batch.
        batch: u64,
        /// The first batch whose frames are in use.
        front: u64,
        /// The batch after the last one.
        rear: u64,
        /// Batches that can be reserved before the front has to be released.
        free_batches: u64,
    }
}
