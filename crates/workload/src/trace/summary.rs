//! Summarizes a trace.

use super::blocks::Blocks;
use super::{Event, Kind};
use std::collections::BTreeMap;
use tantalum_rt::Nanos;

/// The unit of footprints, in bytes.
pub const FOOTPRINT_BLOCK: u64 = 4096;

/// Memory for the footprint of a trace, in bytes.
const BUDGET: u64 = 1 << 30;
/// The most different request sizes that are counted.
const SIZES: usize = 1 << 20;

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Requests {
    /// Their number.
    pub count: u64,
    /// The sum of their lengths in bytes.
    pub bytes: u128,
}

impl Requests {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += u128::from(bytes);
    }
}

/// The summary of a trace. A value is `None` if the trace does not have it, or if it could not be
/// computed exactly in bounded memory.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Report {
    /// All events.
    pub events: u64,
    /// Reads.
    pub reads: Requests,
    /// Writes.
    pub writes: Requests,
    /// Flushes that are requests of their own.
    pub flushes: u64,
    /// Discards.
    pub discards: Requests,
    /// Marks.
    pub marks: u64,
    /// Writes with forced unit access.
    pub fua_writes: u64,
    /// Writes that flush the cache first.
    pub preflush_writes: u64,
    /// Devices with requests.
    pub devices: u64,
    /// Distinct blocks of [`FOOTPRINT_BLOCK`] bytes that were read or written, at
    /// least in part.
    pub footprint_blocks: Option<u64>,
    /// Distinct blocks that were read.
    pub footprint_read_blocks: Option<u64>,
    /// Distinct blocks that were written.
    pub footprint_written_blocks: Option<u64>,
    /// From the earliest to the latest event.
    pub duration_ns: Option<u64>,
    /// The mean length of reads and writes, in bytes.
    pub mean_request_bytes: Option<f64>,
    /// The median length, the lower one of two.
    pub median_request_bytes: Option<u64>,
    /// The share of reads and writes that start where the one before on the same device ended. The
    /// first one of a device counts as not sequential.
    pub sequential_share: Option<f64>,
    /// The share of writes that goes to the most written fifth of the written blocks (rounded up).
    /// Each write counts once for each block that it touches.
    pub hottest_fifth_share: Option<f64>,
    /// Writes per flush. Flushes before writes are included.
    pub writes_per_flush: Option<f64>,
    /// Flushes per second of the trace. Flushes before writes are included.
    pub flushes_per_second: Option<f64>,
}

/// Collects events for a [`Report`]. Memory stays below about 1.2 GiB for any trace.
pub struct Summary {
    events: u64,
    reads: Requests,
    writes: Requests,
    discards: Requests,
    flushes: u64,
    marks: u64,
    fua_writes: u64,
    preflush_writes: u64,
    sequential: u64,
    /// The end of the last read or write of each device.
    ends: BTreeMap<u32, Option<u64>>,
    times: Option<(Nanos, Nanos)>,
    sizes: BTreeMap<u64, u64>,
    sizes_complete: bool,
    blocks: Blocks,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary::new()
    }
}

impl Summary {
    /// A summary of no events.
    pub fn new() -> Summary {
        Summary {
            events: 0,
            reads: Requests::default(),
            writes: Requests::default(),
            discards: Requests::default(),
            flushes: 0,
            marks: 0,
            fua_writes: 0,
            preflush_writes: 0,
            sequential: 0,
            ends: BTreeMap::new(),
            times: None,
            sizes: BTreeMap::new(),
            sizes_complete: true,
            blocks: Blocks::new(BUDGET),
        }
    }

    /// Adds the next event of a trace.
    pub fn add(&mut self, event: &Event) {
        self.events += 1;
        if let Some(now) = event.time {
            let (first, last) = self.times.unwrap_or((now, now));
            self.times = Some((first.min(now), last.max(now)));
        }
        match event.kind {
            Kind::Read => self.reads.add(event.length),
            Kind::Write => {
                self.writes.add(event.length);
                self.fua_writes += u64::from(event.flags.fua);
                self.preflush_writes += u64::from(event.flags.preflush);
            }
            Kind::Discard => self.discards.add(event.length),
            Kind::Flush => self.flushes += 1,
            Kind::Mark => {
                self.marks += 1;
                return;
            }
        }
        let device = event.device.unwrap_or(0);
        let end = self.ends.entry(device).or_default();
        if !matches!(event.kind, Kind::Read | Kind::Write) {
            return;
        }
        self.sequential += u64::from(*end == Some(event.offset));
        *end = event.offset.checked_add(event.length);
        self.add_size(event.length);
        if let Some(last) = event.length.checked_sub(1) {
            let last = event.offset.saturating_add(last) / FOOTPRINT_BLOCK;
            let first = event.offset / FOOTPRINT_BLOCK;
            self.blocks.add(device, first, last, event.kind == Kind::Write);
        }
    }

    fn add_size(&mut self, size: u64) {
        if let Some(count) = self.sizes.get_mut(&size) {
            *count += 1;
        } else if self.sizes.len() < SIZES {
            self.sizes.insert(size, 1);
        } else {
            self.sizes_complete = false;
        }
    }

    /// The report on the events so far.
    pub fn report(&self) -> Report {
        let requests = self.reads.count + self.writes.count;
        let bytes = self.reads.bytes + self.writes.bytes;
        let flushes = self.flushes + self.preflush_writes;
        let duration = self.times.map(|(first, last)| last.saturating_sub(first));
        let totals = self.blocks.is_complete().then(|| self.blocks.totals());
        let totals = totals.as_ref();
        Report {
            events: self.events,
            reads: self.reads,
            writes: self.writes,
            flushes: self.flushes,
            discards: self.discards,
            marks: self.marks,
            fua_writes: self.fua_writes,
            preflush_writes: self.preflush_writes,
            devices: self.ends.len() as u64,
            footprint_blocks: totals.map(|t| t.touched),
            footprint_read_blocks: totals.map(|t| t.read),
            footprint_written_blocks: totals.map(|t| t.written),
            duration_ns: duration.map(|d| d.0),
            mean_request_bytes: ratio(bytes as f64, requests as f64),
            median_request_bytes: self.median(requests),
            sequential_share: ratio(self.sequential as f64, requests as f64),
            hottest_fifth_share: totals.and_then(|t| hottest_fifth(&t.by_writes, t.written)),
            writes_per_flush: ratio(self.writes.count as f64, flushes as f64),
            flushes_per_second: duration.and_then(|d| ratio(flushes as f64, d.as_secs_f64())),
        }
    }

    fn median(&self, requests: u64) -> Option<u64> {
        let mut left = requests.div_ceil(2);
        let reached = |(size, count): (&u64, &u64)| {
            left = left.saturating_sub(*count);
            (left == 0).then_some(*size)
        };
        self.sizes.iter().find_map(reached).filter(|_| self.sizes_complete)
    }
}

/// `None` in place of a division by zero.
fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

fn hottest_fifth(by_writes: &BTreeMap<u32, u64>, written: u64) -> Option<f64> {
    let mut left = written.div_ceil(5);
    let (mut hot, mut all) = (0, 0);
    for (&writes, &blocks) in by_writes.iter().rev() {
        let taken = blocks.min(left);
        left -= taken;
        hot += taken * u64::from(writes);
        all += blocks * u64::from(writes);
    }
    ratio(hot as f64, all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Flags;

    fn report(events: &[Event]) -> Report {
        let mut summary = Summary::new();
        events.iter().for_each(|e| summary.add(e));
        summary.report()
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let report = report(&[]);
        assert_eq!(report.footprint_blocks, Some(0));
        assert_eq!(report.mean_request_bytes, None);
        assert_eq!(report.median_request_bytes, None);
        assert_eq!(report.hottest_fifth_share, None);
        assert_eq!(report.flushes_per_second, None);
    }

    #[test]
    fn blocks_are_counted_whole_and_per_device() {
        let on = |device, e: Event| Event { device: Some(device), ..e };
        let report = report(&[
            on(0, Event::new(Kind::Write, 4095, 2)),
            on(0, Event::new(Kind::Read, 0, 4096)),
            on(1, Event::new(Kind::Read, 0, 1)),
            on(1, Event::new(Kind::Read, 0, 0)),
            on(0, Event::new(Kind::Discard, 0, 1 << 40)),
        ]);
        assert_eq!(report.footprint_blocks, Some(3));
        assert_eq!(report.footprint_read_blocks, Some(2));
        assert_eq!(report.footprint_written_blocks, Some(2));
        assert_eq!(report.devices, 2);
        assert_eq!(report.discards, Requests { count: 1, bytes: 1 << 40 });
        assert_eq!(report.median_request_bytes, Some(1));
        assert_eq!(report.mean_request_bytes, Some(4099.0 / 4.0));
    }

    #[test]
    fn heat_follows_the_most_written_fifth() {
        // Ten blocks, two of them written nine times more than the others.
        let write = |block: u64| Event::new(Kind::Write, block * 4096, 4096);
        let mut events: Vec<_> = (0..10).map(write).collect();
        events.extend((0..18).map(|n| write(n % 2 * 7)));
        let share = report(&events).hottest_fifth_share.unwrap();
        assert!((share - 20.0 / 28.0).abs() < 1e-12, "{share}");
    }

    #[test]
    fn runs_flushes_and_times() {
        let at = |s, e: Event| Event { time: Some(Nanos::from_secs(s)), ..e };
        let preflush = Flags { preflush: true, fua: true, metadata: false };
        let report = report(&[
            at(10, Event::new(Kind::Write, 0, 8192)),
            at(12, Event::new(Kind::Flush, 0, 0)),
            at(8, Event::new(Kind::Write, 8192, 4096)),
            at(9, Event { flags: preflush, ..Event::new(Kind::Write, 0, 4096) }),
            at(9, Event::new(Kind::Read, 4096, 4096)),
        ]);
        assert_eq!(report.sequential_share, Some(0.5));
        assert_eq!(report.duration_ns, Some(4_000_000_000));
        assert_eq!(report.writes_per_flush, Some(1.5));
        assert_eq!(report.flushes_per_second, Some(0.5));
        assert_eq!((report.fua_writes, report.preflush_writes), (1, 1));
    }
}
