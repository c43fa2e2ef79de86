//! What requesters append, and to what kind of log.

use super::AppendError;
use serde::{Deserialize, Serialize};
use tantalum_log::{CreateOptions, HedgeOptions, OpenOptions};

/// Bytes of a log block that are not bytes of the log.
const BLOCK_HEAD: u64 = 40;
/// What the log adds to a record.
const RECORD_HEAD: u64 = 8;

/// Requesters that append records of one size, each waiting until its record is durable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AppendJob {
    /// Tasks that append, each with one record under way.
    ///
    /// *Source*: own choice.
    pub requesters: u32,
    /// Bytes of a request on the device: a multiple of its blocks, of 4,096 bytes on a drive and of
    /// 512 on a USB stick.
    ///
    /// *Source*: FlashLogging: requests of one size.
    pub request_bytes: u64,
    /// Bytes of a stripe of a log that is striped over its devices, without recovery, to compare: a
    /// multiple of their blocks, as of `request_bytes`. 0: the flash log.
    ///
    /// *Source*: FlashLogging: striping, to compare.
    pub stripe_bytes: u64,
    /// Bytes of a group of the flash log, at most: a multiple of the blocks, as of `request_bytes`.
    /// With those of a request there is no group commit.
    ///
    /// *Source*: FlashLogging: group commit; its bound: own choice.
    pub group_bytes: u64,
    /// Partitions of each device.
    ///
    /// *Source*: FlashLogging.
    pub partitions: u16,
    /// Devices that have each record before it counts.
    ///
    /// *Source*: own choice.
    pub copies: u8,
    /// Whether slow writes are written again elsewhere.
    ///
    /// *Source*: FlashLogging: slow writes are hidden.
    pub hedging: bool,
    /// Share of each device for writes that are issued again, per cent. 0: they go behind what a
    /// device has, where the order of the records allows that.
    ///
    /// *Source*: FlashLogging: second streams; their share: own choice.
    pub second_percent: u32,
    /// MiB in the log before the requesters begin.
    ///
    /// *Source*: own choice.
    pub fill_mib: u64,
    /// Designs of further devices of the log, beside those of the row's design.
    ///
    /// *Source*: own choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// Design of the archive.
    ///
    /// *Source*: FlashLogging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
}

impl Default for AppendJob {
    fn default() -> AppendJob {
        AppendJob {
            requesters: 4,
            request_bytes: 4096,
            stripe_bytes: 0,
            group_bytes: 256 << 10,
            partitions: 1,
            copies: 1,
            hedging: true,
            second_percent: 20,
            fill_mib: 0,
            beside: Vec::new(),
            archive: None,
        }
    }
}

impl AppendJob {
    /// Whether it can be carried out on blocks of so many bytes.
    ///
    /// # Errors
    /// [`AppendError::Value`].
    pub fn check(&self, block: u32) -> Result<(), AppendError> {
        let block = u64::from(block);
        let whole = |n: u64| n > 0 && n <= 256 << 10 && n.is_multiple_of(block);
        let size = format!("a multiple of {block}, at most 262144");
        let (stripe, second) = (self.stripe_bytes, self.second_percent.into());
        let of_log = self.partitions == 1 && self.copies == 1 && self.fill_mib == 0;
        for (key, value, holds, must) in [
            (
                "requesters",
                self.requesters.into(),
                (1..=1024).contains(&self.requesters),
                "1 to 1024",
            ),
            ("request_bytes", self.request_bytes, whole(self.request_bytes), size.as_str()),
            ("stripe_bytes", stripe, stripe == 0 || whole(stripe), size.as_str()),
            ("group_bytes", self.group_bytes, whole(self.group_bytes), size.as_str()),
            ("partitions", self.partitions.into(), (1..=16).contains(&self.partitions), "1 to 16"),
            ("copies", self.copies.into(), (1..=2).contains(&self.copies), "1 or 2"),
            ("second_percent", second, second <= 50, "at most 50"),
            ("fill_mib", self.fill_mib, self.fill_mib <= 4096, "at most 4096"),
            (
                "stripe_bytes",
                stripe,
                stripe == 0 || of_log && self.archive.is_none(),
                "0 with partitions, copies, fill_mib or archive, which the baseline does not have",
            ),
        ] {
            if !holds {
                return Err(AppendError::Value { key, value, must: must.to_string() });
            }
        }
        Ok(())
    }

    /// The designs that it names: those beside the row's, and that of the archive.
    pub fn designs(&self) -> impl Iterator<Item = &String> {
        self.beside.iter().chain(&self.archive)
    }

    /// The same, small: for a first look, and for tests.
    pub fn make_quick(&mut self) {
        self.fill_mib = self.fill_mib.min(4);
    }

    /// How the flash log is made.
    pub fn create_options(&self) -> CreateOptions {
        CreateOptions {
            partitions: self.partitions,
            copies: self.copies,
            second_percent: self.second_percent,
            ..<_>::default()
        }
    }

    /// How it is opened. `unit` is the size of its blocks.
    pub fn open_options(&self, unit: u32) -> OpenOptions {
        OpenOptions {
            // (The log counts the header of a section in.)
            group_bytes: self.group_bytes + u64::from(unit),
            hedge: HedgeOptions { enabled: self.hedging, ..<_>::default() },
            ..<_>::default()
        }
    }

    /// Bytes of a record that fills the blocks of a request, in a log with blocks of `unit` bytes.
    pub fn record_bytes(&self, unit: u32) -> usize {
        let unit = u64::from(unit);
        let bytes = self.request_bytes / unit * (unit - BLOCK_HEAD) - RECORD_HEAD;
        bytes as usize
    }
}
