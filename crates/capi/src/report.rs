//! Counters as the statistics for C.

use crate::abi::{tantalum_command_stats, tantalum_stats};
use crate::command::Chassis;
use tantalum_device::{CommandKind, DeviceStats, Stats};
use tantalum_drive::{Drive, DriveStats};
use tantalum_rt::Nanos;

/// The counters so far.
pub(crate) struct Snapshot {
    now: Nanos,
    device: DeviceStats,
    drive: Option<DriveStats>,
    cuts: u64,
}

pub(crate) fn snapshot<B: Chassis>(now: Nanos, chassis: &Stats<B>) -> Snapshot {
    let drive = chassis.inner().drive().map(Drive::stats);
    Snapshot { now, device: chassis.snapshot(), drive, cuts: chassis.inner().cuts() }
}

impl Snapshot {
    pub fn record(&self) -> tantalum_stats {
        let of = |kind| {
            let k = self.device.of(kind);
            tantalum_command_stats {
                commands: k.commands,
                failed: k.failed,
                bytes: k.bytes,
                p50_ns: k.latency.p50().0,
                p99_ns: k.latency.p99().0,
                max_ns: k.latency.max().0,
            }
        };
        // A RAM drive has no flash: zeros.
        let flash = self.drive.unwrap_or_default();
        tantalum_stats {
            now_ns: self.now.0,
            read: of(CommandKind::Read),
            write: of(CommandKind::Write),
            fua: of(CommandKind::Fua),
            group: of(CommandKind::Group),
            flush: of(CommandKind::Flush),
            discard: of(CommandKind::Discard),
            power_cuts: self.cuts,
            flash_program_bytes: flash.flash_program_bytes,
            flash_host_bytes: flash.host_program_bytes,
            flash_map_bytes: flash.meta_bytes,
            flash_dump_bytes: flash.dump_bytes,
            flash_moved_bytes: flash.gc_copied_bytes,
            flash_reads: flash.flash_reads,
            flash_erases: flash.erases,
            flash_bad_units: flash.retired_units,
            ..Default::default()
        }
    }
}
