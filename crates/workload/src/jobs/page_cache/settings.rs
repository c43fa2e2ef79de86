//! The settings of a page cache.

use super::super::{JobError, refused};

/// How a host's page cache works. The defaults of memory and write-back are those of Linux, for a
/// host with 1 GiB to spare. Those of processor time are fitted to a host of 2010, for a page a call
/// (`experiments/atomic-latency.toml`); how much of it is copying is an own estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table: `buffered = {}` has the defaults")]
pub struct Buffered {
    /// Processor time of a read or write without copying, ns.
    ///
    /// *Source*: own choice; fitted to Beyond Block I/O.
    pub call_ns: u64,
    /// Processor time to copy 4 KiB, ns.
    ///
    /// *Source*: own choice.
    pub page_ns: u64,
    /// Processor time of an fsync, ns.
    ///
    /// *Source*: own choice; fitted to Beyond Block I/O.
    pub fsync_ns: u64,
    /// Pages of 4 KiB in the cache. The clean one that was used longest ago makes room.
    ///
    /// *Source*: Linux: the page cache; its size: own choice.
    pub cache_pages: u64,
    /// The host writes back while more of the cache is dirty, per cent.
    ///
    /// *Source*: Linux: `dirty_background_ratio`.
    pub dirty_background_percent: u64,
    /// Writes wait while so much of the cache is dirty or being written, per cent: more than
    /// `dirty_background_percent`.
    ///
    /// *Source*: Linux: `dirty_ratio`.
    pub dirty_percent: u64,
    /// What has been dirty for so long is written back, ms.
    ///
    /// *Source*: Linux: `dirty_expire_centisecs`.
    pub dirty_expire_ms: u64,
    /// How often the host looks for what has been dirty for too long, ms.
    ///
    /// *Source*: Linux: `dirty_writeback_centisecs`.
    pub writeback_ms: u64,
    /// Pages of 4 KiB in a command of write-back, at most.
    ///
    /// *Source*: Linux before 4.3: `max_sectors_kb`, 512.
    pub command_pages: u64,
    /// Commands of write-back at the device, at most.
    ///
    /// *Source*: Linux: `nr_requests`, 128.
    pub depth: u64,
}

impl Default for Buffered {
    fn default() -> Buffered {
        Buffered {
            call_ns: 3200,
            page_ns: 400,
            fsync_ns: 4700,
            cache_pages: 262_144,
            dirty_background_percent: 10,
            dirty_percent: 20,
            dirty_expire_ms: 30_000,
            writeback_ms: 5000,
            command_pages: 128,
            depth: 128,
        }
    }
}

impl Buffered {
    /// Checks its numbers.
    ///
    /// # Errors
    /// [`JobError::Value`].
    pub(in super::super) fn check(&self) -> Result<(), JobError> {
        const SECOND: u64 = 1_000_000_000;
        let percent = (0..=99, "0 to 99");
        let more = self.dirty_background_percent.saturating_add(1);
        let values = [
            ("buffered.call_ns", self.call_ns, 1..=SECOND, "1 to 1000000000"),
            ("buffered.page_ns", self.page_ns, 0..=SECOND, "0 to 1000000000"),
            ("buffered.fsync_ns", self.fsync_ns, 0..=SECOND, "0 to 1000000000"),
            ("buffered.cache_pages", self.cache_pages, 16..=1 << 32, "16 to 4294967296"),
            (
                "buffered.dirty_background_percent",
                self.dirty_background_percent,
                percent.0,
                percent.1,
            ),
            (
                "buffered.dirty_percent",
                self.dirty_percent,
                more..=100,
                "more than `dirty_background_percent`, and at most 100",
            ),
            ("buffered.dirty_expire_ms", self.dirty_expire_ms, 0..=SECOND, "0 to 1000000000"),
            ("buffered.writeback_ms", self.writeback_ms, 1..=SECOND, "1 to 1000000000"),
            ("buffered.command_pages", self.command_pages, 1..=65_536, "1 to 65536"),
            ("buffered.depth", self.depth, 1..=65_536, "1 to 65536"),
        ];
        match values.into_iter().find(|(_, value, allowed, _)| !allowed.contains(value)) {
            Some((name, value, _, range)) => refused(name, &value, range),
            None => Ok(()),
        }
    }
}
