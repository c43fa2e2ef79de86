//! The parameters of a disk, and the times that follow from them.
//!
//! The model of seek, rotation and transfer follows Ruemmler and Wilkes, "An introduction
//! to disk drive modeling" (IEEE Computer, 1994).

use serde::{Deserialize, Serialize};
use tantalum_rt::Nanos;

/// Cached blocks that follow each other are written in one go, up to so many bytes.
const RUN_BYTES: u64 = 256 << 10;

/// The parameters of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskModel {
    /// Bytes in a block, which is a sector: a power of two, 512 to 65536. It is written whole or
    /// not at all.
    #[serde(default = "usual_block")]
    pub block_bytes: u32,
    /// Capacity, blocks.
    pub blocks: u64,
    /// Revolutions per minute.
    pub rpm: u64,
    /// Blocks on a track.
    pub track_blocks: u64,
    /// Tracks of a cylinder (heads).
    pub heads: u64,
    /// A seek to the next cylinder before a read, µs.
    pub seek_track_us: u64,
    /// A seek over all cylinders before a read, µs. The time of a shorter seek grows with the root
    /// of the distance.
    pub seek_full_us: u64,
    /// A seek before a write takes so much longer, µs: the head must have settled on its track.
    #[serde(default)]
    pub write_settle_us: u64,
    /// Controller time of a command, µs.
    pub command_us: u64,
    /// Bandwidth of the interface, MB/s.
    pub interface_mb_s: u64,
    /// Commands that may be outstanding.
    pub queue_depth: u32,
    /// Outstanding commands among which the arm chooses, the oldest; 0: all of them. A command counts
    /// once, however long it is.
    #[serde(default)]
    pub queue_window: usize,
    /// The write cache, KiB.
    pub cache_kib: u64,
    /// Whether it is on.
    pub write_cache: bool,
    /// Cached writes among which the arm chooses, the oldest. A write counts once, however long it
    /// is.
    pub cache_window: usize,
    /// A command that has waited this long, ms, goes first; so does the oldest cached write when it
    /// has been the oldest for so long.
    #[serde(default = "usual_expiry")]
    pub expiry_ms: u64,
    /// From power to the first command, ms.
    pub spin_up_ms: u64,
}

fn usual_block() -> u32 {
    4096
}

fn usual_expiry() -> u64 {
    500
}

impl DiskModel {
    /// Checks that a disk can have these parameters.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        let at_least_one = [
            ("blocks", self.blocks),
            ("rpm", self.rpm),
            ("track_blocks", self.track_blocks),
            ("heads", self.heads),
            ("interface_mb_s", self.interface_mb_s),
            ("queue_depth", self.queue_depth.into()),
            ("cache_window", self.cache_window as u64),
            ("expiry_ms", self.expiry_ms),
        ];
        if let Some((name, _)) = at_least_one.iter().find(|p| p.1 == 0) {
            return Err(format!("disk: {name} must be at least 1"));
        }
        if !self.block_bytes.is_power_of_two() || !(512..=65_536).contains(&self.block_bytes) {
            let is = self.block_bytes;
            return Err(format!("disk: block_bytes is {is}: a power of two, 512 to 65536"));
        }
        let least = RUN_BYTES >> 10;
        if self.write_cache && self.cache_kib < least {
            return Err(format!("disk: cache_kib is {}, at least {least}", self.cache_kib));
        }
        if self.seek_full_us < self.seek_track_us || self.seek_full_us > 1_000_000 {
            return Err("disk: seek_full_us must be at least seek_track_us, at most 1000000".into());
        }
        let at_most = [
            ("write_settle_us", self.write_settle_us, 1_000_000),
            ("command_us", self.command_us, 1_000_000),
            ("expiry_ms", self.expiry_ms, 1_000_000),
        ];
        match at_most.iter().find(|p| p.1 > p.2) {
            Some((name, is, most)) => Err(format!("disk: {name} is {is}, at most {most}")),
            None => Ok(()),
        }
    }

    /// The most blocks in a run.
    pub(super) fn run(&self) -> u64 {
        RUN_BYTES / u64::from(self.block_bytes)
    }

    /// Blocks that the cache holds.
    pub(super) fn cache_blocks(&self) -> u64 {
        (self.cache_kib << 10) / u64::from(self.block_bytes)
    }

    /// Outstanding commands among which the arm chooses.
    pub(super) fn commands(&self) -> usize {
        if self.queue_window == 0 { usize::MAX } else { self.queue_window }
    }

    pub(super) fn expiry(&self) -> Nanos {
        Nanos::from_millis(self.expiry_ms)
    }

    fn revolution(&self) -> u64 {
        60_000_000_000 / self.rpm
    }

    pub(super) fn cylinder(&self, block: u64) -> u64 {
        block / (self.track_blocks * self.heads)
    }

    fn cylinders(&self) -> u64 {
        self.cylinder(self.blocks.saturating_sub(1)) + 1
    }

    fn seek(&self, from: u64, to: u64, writes: bool) -> u64 {
        let distance = from.abs_diff(to);
        if distance == 0 {
            return 0;
        }
        let share = libm::sqrt(distance as f64 / self.cylinders() as f64);
        let range = (self.seek_full_us - self.seek_track_us) as f64;
        let settle = if writes { self.write_settle_us } else { 0 };
        (self.seek_track_us + settle) * 1000 + (range * share * 1000.0) as u64
    }

    /// The time from now, with the arm at a cylinder, until `block` begins to pass the head.
    pub(super) fn position(&self, now: Nanos, arm: u64, block: u64, writes: bool) -> u64 {
        let seek = self.command_us * 1000 + self.seek(arm, self.cylinder(block), writes);
        let revolution = self.revolution();
        let angle = block % self.track_blocks * revolution / self.track_blocks;
        let there = (now.0 + seek) % revolution;
        seek + (angle + revolution - there) % revolution
    }

    pub(super) fn transfer(&self, blocks: u64) -> u64 {
        blocks * self.revolution() / self.track_blocks
    }
}
