//! What a log under the explorer is made of, and how it is used.

use tantalum_log::{CreateOptions, HedgeOptions, OpenOptions};
use tantalum_rt::Nanos;

/// What a log is made of, beside its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    /// Devices of the array.
    pub devices: u32,
    /// Whether there is an archive, a device like the others.
    pub archive: bool,
    /// Copies of each record.
    pub copies: u8,
    /// Partitions of each device.
    pub partitions: u16,
    /// One write in so many is slow; 0: none.
    pub slow_one_in: u64,
    /// How much longer that takes.
    pub slow_by: Nanos,
    /// When a write takes longer its device is left.
    pub stall: Nanos,
    /// Whether a device may fail or be gone after a cut. It takes two copies.
    pub loss: bool,
}

impl Default for LogShape {
    fn default() -> LogShape {
        LogShape {
            devices: 2,
            archive: false,
            copies: 1,
            partitions: 1,
            slow_one_in: 0,
            slow_by: Nanos::from_millis(3),
            stall: Nanos::from_millis(20),
            loss: false,
        }
    }
}

impl LogShape {
    /// Devices, the archive with them.
    pub fn all(&self) -> u32 {
        self.devices + u32::from(self.archive)
    }

    /// The name of a device.
    pub(super) fn name(&self, device: usize) -> String {
        match self.archive && device as u32 == self.devices {
            true => "archive".to_string(),
            false => format!("log {device}"),
        }
    }

    /// # Errors
    /// In a line, what cannot be.
    pub(super) fn check(&self) -> Result<(), String> {
        match () {
            () if self.devices == 0 || self.devices > 16 => {
                Err(format!("log: devices = {}: must be 1 to 16", self.devices))
            }
            () if !(1..=2).contains(&self.copies) || u32::from(self.copies) > self.devices => {
                Err(format!("log: copies = {}: must be 1, or 2 on two devices", self.copies))
            }
            () if self.loss && self.copies < 2 => {
                Err("log: loss = true: a log bears that only with copies = 2".to_string())
            }
            () => Ok(()),
        }
    }

    /// How it is made, of units of so many bytes.
    pub(super) fn create(&self, unit: u32, record_limit: u32) -> CreateOptions {
        CreateOptions {
            copies: self.copies,
            partitions: self.partitions,
            unit: Some(unit),
            section_bytes: Some(16 * u64::from(unit)),
            record_limit: Some(record_limit),
            ..CreateOptions::default()
        }
    }

    /// How it is used: little memory, small groups, many hedges.
    pub(super) fn open(&self, unit: u32) -> OpenOptions {
        let times = u64::from(unit / 512).max(1);
        OpenOptions {
            memory: 16 << 10 << times.ilog2(),
            group_bytes: 4096 * times,
            archive_bytes: 2048 * times,
            archive_write_bytes: 8192 * times,
            stall: self.stall,
            hedge: HedgeOptions { samples: 4, budget_percent: 50, ..HedgeOptions::default() },
            degraded: self.loss,
            ..OpenOptions::default()
        }
    }
}
