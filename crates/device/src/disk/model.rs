//! The parameters of a disk, and the times that follow from them.
//!
//! The model of seek, rotation and transfer follows Ruemmler and Wilkes, "An introduction
//! to disk drive modeling" (IEEE Computer, 1994).

use serde::{Deserialize, Serialize};
use tantalum_rt::Nanos;

/// Cached blocks that follow each other are written in one go, up to so many bytes.
const RUN_BYTES: u64 = 256 << 10;

/// The parameters of a disk.
///
/// See [`Disk`](crate::Disk) for an example.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskModel {
    /// Bytes in a block, which is a sector: a power of two, 512 to 65536. It is written whole or
    /// not at all.
    ///
    /// *Source*: own choice.
    #[serde(default = "usual_block")]
    pub block_bytes: u32,
    /// Capacity, blocks.
    ///
    /// *Source*: data sheet of the Cheetah 15K.6 for `disk-15k6`; others: own choice.
    pub blocks: u64,
    /// Revolutions per minute.
    ///
    /// *Source*: DuraSSD, FlashLogging and FaCE: their disks.
    pub rpm: u64,
    /// Blocks on a track.
    ///
    /// *Source*: Ruemmler and Wilkes (IEEE Computer 1994).
    pub track_blocks: u64,
    /// Tracks of a cylinder (heads).
    ///
    /// *Source*: Ruemmler and Wilkes (IEEE Computer 1994).
    pub heads: u64,
    /// Blocks by which the tracks of each cylinder begin later than those of the cylinder before it
    /// (cylinder skew), so that a seek to the next cylinder is over when its first block comes.
    ///
    /// *Source*: Ruemmler and Wilkes (IEEE Computer 1994).
    #[serde(default)]
    pub skew_blocks: u64,
    /// A seek to the next cylinder before a read, µs.
    ///
    /// *Source*: Ruemmler and Wilkes (IEEE Computer 1994); of `disk-15k6` from its data sheet,
    /// others: own choice.
    pub seek_track_us: u64,
    /// A seek over all cylinders before a read, µs. The time of a shorter seek grows with the root
    /// of the distance.
    ///
    /// *Source*: own choice; the root: Ruemmler and Wilkes (IEEE Computer 1994), for short seeks;
    /// that it holds for all: own choice.
    pub seek_full_us: u64,
    /// A seek before a write takes so much longer, µs: the head must have settled on its track.
    ///
    /// *Source*: own choice; of `disk-15k` fitted to DuraSSD, of `disk-15k6` from its data sheet.
    #[serde(default)]
    pub write_settle_us: u64,
    /// Controller time of a command, µs.
    ///
    /// *Source*: Ruemmler and Wilkes (IEEE Computer 1994); the values: own choice.
    pub command_us: u64,
    /// Whether the controller prepares a command as soon as it comes, while the arm is at work on
    /// others. Otherwise the arm waits for that before each job.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub prepares_ahead: bool,
    /// Bandwidth of the interface, MB/s.
    ///
    /// *Source*: SATA, SAS; the values: own choice.
    pub interface_mb_s: u64,
    /// Commands that may be outstanding.
    ///
    /// *Source*: SATA, SCSI.
    pub queue_depth: u32,
    /// Outstanding commands among which the arm chooses, the oldest; 0: all of them. A command counts
    /// once, however long it is.
    ///
    /// *Source*: own choice; of `disk-15k6` fitted to FaCE.
    #[serde(default)]
    pub queue_window: usize,
    /// The write cache, KiB.
    ///
    /// *Source*: DuraSSD: 16 MB; of `disk-15k6` from its data sheet.
    pub cache_kib: u64,
    /// Whether it is on.
    ///
    /// *Source*: DuraSSD: its disk, with the cache on and off.
    pub write_cache: bool,
    /// Cached writes among which the arm chooses, the oldest. A write counts once, however long it
    /// is.
    ///
    /// *Source*: own choice; of `disk-15k` fitted to DuraSSD, of `disk-15k6` to FaCE.
    pub cache_window: usize,
    /// A command that has waited this long, ms, goes first; so does the oldest cached write when it
    /// has been the oldest for so long.
    ///
    /// *Source*: own choice.
    #[serde(default = "usual_expiry")]
    pub expiry_ms: u64,
    /// From power to the first command, ms.
    ///
    /// *Source*: own choice.
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
        if self.skew_blocks >= self.track_blocks {
            let most = self.track_blocks - 1;
            return Err(format!("disk: skew_blocks is {}, at most {most}", self.skew_blocks));
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

    /// The time from now, with the arm at a cylinder, until `block` begins to pass the head, for a
    /// job that came at `came`.
    pub(super) fn position(
        &self,
        now: Nanos,
        arm: u64,
        block: u64,
        writes: bool,
        came: Nanos,
    ) -> u64 {
        let cylinder = self.cylinder(block);
        let seek = self.controller(now, came) + self.seek(arm, cylinder, writes);
        let revolution = self.revolution();
        let from_index = (block + cylinder * self.skew_blocks) % self.track_blocks;
        let angle = from_index * revolution / self.track_blocks;
        let there = (now.0 + seek) % revolution;
        seek + (angle + revolution - there) % revolution
    }

    /// The time from now until the controller has prepared a job that came at `came`.
    fn controller(&self, now: Nanos, came: Nanos) -> u64 {
        let takes = self.command_us * 1000;
        match self.prepares_ahead {
            true => (came.0 + takes).saturating_sub(now.0),
            false => takes,
        }
    }

    /// How long these blocks take to pass the head. Between two cylinders it is their skew longer.
    pub(super) fn transfer(&self, at: u64, blocks: u64) -> u64 {
        let last = at + blocks.saturating_sub(1);
        let skewed = (self.cylinder(last) - self.cylinder(at)) * self.skew_blocks;
        (blocks + skewed) * self.revolution() / self.track_blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> DiskModel {
        let text = include_str!("../../presets/disk-15k6.toml");
        toml::from_str(text).expect("a preset")
    }

    /// How long jobs of so many blocks take, one behind the other from block 0 on over so many
    /// cylinders, all of which came at the start.
    fn sequence(model: &DiskModel, blocks: u64, cylinders: u64, writes: bool) -> u64 {
        let (mut now, mut arm) = (Nanos::ZERO, 0);
        let all = cylinders * model.heads * model.track_blocks;
        for at in (0..all).step_by(blocks as usize) {
            let count = blocks.min(all - at);
            now += Nanos(model.position(now, arm, at, writes, Nanos::ZERO));
            now += Nanos(model.transfer(at, count));
            arm = model.cylinder(at + count - 1);
        }
        now.0
    }

    #[test]
    fn a_sequence_misses_no_revolution_if_commands_are_prepared_and_cylinders_are_skewed() {
        let model = model();
        let (revolution, track) = (model.revolution(), model.track_blocks);
        let tracks = 10 * model.heads;
        // The first command waits for its controller time, and so for the first block.
        let whole = tracks * revolution + 9 * model.skew_blocks * revolution / track + revolution;
        for writes in [false, true] {
            for blocks in [1, 7, 64, 1000] {
                let took = sequence(&model, blocks, 10, writes);
                assert!(took.abs_diff(whole) < 10_000, "{blocks}: {took} instead of {whole}");
            }
        }
        // Without skew the seek to each next cylinder misses its first block.
        let straight = DiskModel { skew_blocks: 0, ..model.clone() };
        let took = sequence(&straight, track, 10, false);
        assert!(took.abs_diff((tracks + 10) * revolution) < 10_000, "{took}");
        // And each command misses its first block if the arm waits for the controller.
        let waits = DiskModel { prepares_ahead: false, ..straight };
        let took = sequence(&waits, track, 10, false);
        assert!(took.abs_diff(2 * tracks * revolution) < 10_000, "{took}");
    }

    #[test]
    fn a_command_that_comes_to_an_idle_arm_waits_for_the_controller() {
        let model = model();
        let now = Nanos::from_millis(3);
        let takes = model.command_us * 1000;
        assert_eq!(model.controller(now, now), takes);
        assert_eq!(model.controller(now + Nanos(takes / 4), now), takes - takes / 4);
        assert_eq!(model.controller(now + Nanos(2 * takes), now), 0);
    }

    #[test]
    fn a_skew_is_less_than_a_track() {
        let model = model();
        let wide = DiskModel { skew_blocks: model.track_blocks, ..model };
        assert_eq!(wide.check(), Err("disk: skew_blocks is 156, at most 155".to_string()));
    }
}
