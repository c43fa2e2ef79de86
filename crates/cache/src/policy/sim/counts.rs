//! What was asked of a cache, and what it asked of the devices.

use crate::policy::work::{Op, Work};

/// Sums since the start. Shares are `None` where nothing was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads of pages below RAM.
    pub reads: u64,
    /// Of these, how many the flash cache answered.
    pub read_hits: u64,
    /// Dirty pages that left RAM.
    pub writes: u64,
    /// Pages that were written to the slow store.
    pub slow_writes: u64,
    /// Read operations on flash.
    pub flash_reads: u64,
    /// Their bytes.
    pub flash_read_bytes: u64,
    /// Write operations on flash, with those of metadata.
    pub flash_writes: u64,
    /// Their bytes.
    pub flash_write_bytes: u64,
    /// Write operations on flash that are metadata only.
    pub metadata_writes: u64,
    /// Pages that were written to flash.
    pub flash_pages: u64,
    /// Write operations on flash that began where the one before ended.
    pub sequential_writes: u64,
    page_bytes: u64,
    /// Where the last write on flash ended.
    end: Option<u64>,
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Counts {
    /// Nothing, of pages of this size.
    pub fn new(page_bytes: u32) -> Counts {
        Counts { page_bytes: u64::from(page_bytes), ..Counts::default() }
    }

    /// Counts the work of a policy.
    pub fn carry_out(&mut self, work: &Work) {
        for op in work.ops() {
            match *op {
                Op::FlashRead { bytes, .. } => {
                    self.flash_reads += 1;
                    self.flash_read_bytes += bytes;
                }
                Op::FlashWrite { offset, bytes, pages, .. } => {
                    self.flash_writes += 1;
                    self.flash_write_bytes += bytes;
                    self.flash_pages += u64::from(pages);
                    self.metadata_writes += u64::from(pages == 0);
                    self.sequential_writes += u64::from(self.end == Some(offset));
                    self.end = Some(offset + bytes);
                }
                Op::SlowWrite { .. } => self.slow_writes += 1,
            }
        }
    }

    /// Pages that were read from the slow store.
    pub fn slow_reads(&self) -> u64 {
        self.reads - self.read_hits
    }

    /// The share of reads that flash answered.
    pub fn hit_rate(&self) -> Option<f64> {
        share(self.read_hits, self.reads)
    }

    /// The change of writes to the slow store against a slow store alone: -0.25 is a quarter less.
    pub fn slow_write_change(&self) -> Option<f64> {
        share(self.slow_writes, self.writes).map(|left| left - 1.0)
    }

    /// The share of writes on flash that continue the one before.
    pub fn sequential_share(&self) -> Option<f64> {
        share(self.sequential_writes, self.flash_writes)
    }

    /// Bytes of a write on flash, on the average.
    pub fn mean_write_bytes(&self) -> Option<f64> {
        share(self.flash_write_bytes, self.flash_writes)
    }

    /// Bytes written to flash for each read that flash answered.
    pub fn write_bytes_per_hit(&self) -> Option<f64> {
        share(self.flash_write_bytes, self.read_hits)
    }

    /// Bytes written to flash for each byte of pages that entered: more than 1 with metadata.
    pub fn write_overhead(&self) -> Option<f64> {
        share(self.flash_write_bytes, self.flash_pages * self.page_bytes)
    }
}
