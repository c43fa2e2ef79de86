//! Whether a write that takes too long is written again elsewhere.
//!
//! 1. **Nothing is guessed.** Without latencies learned of a device none of its writes is too slow.
//! 2. **Budget.** What is written again is at most [`HedgeOptions::budget_percent`] of all that
//!    was written, and a small allowance.
//! 3. **By what it saved.** Each hedge is judged when both writes have ended: the time that it
//!    saved less the time that it took from others. If hedges cost more than they save, only few
//!    are tried, fewer each time, until one pays.

/// When and how often a slow write is written again on another device.
///
/// ```
/// use tantalum_device::{LatencyRow, Outlier, Payload, SampledModel};
/// use tantalum_log::{CreateOptions, HedgeOptions, Log, LogDevice, OpenOptions};
/// use tantalum_rt::{Nanos, Runtime};
///
/// /// The time of 500 commits on devices of which one write in 50 takes 20 ms longer.
/// fn time(hedge: HedgeOptions) -> Nanos {
///     let row = |command: &str| LatencyRow {
///         command: command.into(),
///         stream: None,
///         bytes: 512,
///         us: vec![90, 110],
///     };
///     let slow = Outlier { command: Some("write".into()), one_in: 50, us: [20_000, 20_000] };
///     let mut model = SampledModel::plain(512, 20_000, vec![row("read"), row("write")]);
///     model.outlier = vec![slow];
///     let mut runtime = Runtime::virtual_time(1);
///     let rt = runtime.handle();
///     let took = runtime.block_on(async move {
///         let device = |name| {
///             let device = model.build(&rt, name, Payload::Bytes, None).unwrap();
///             LogDevice::new(name, device)
///         };
///         let devices = ["sda", "sdb", "sdc"].map(device);
///         Log::create(&rt, &devices, None, &CreateOptions::default()).await.unwrap();
///         let options = OpenOptions { hedge, ..OpenOptions::default() };
///         let log = Log::open(&rt, devices.into(), options).await.unwrap();
///         let began = rt.now();
///         for _ in 0..500 {
///             log.commit(&[1; 300]).await.unwrap();
///         }
///         rt.now() - began
///     });
///     took.unwrap()
/// }
///
/// let without = time(HedgeOptions { enabled: false, ..HedgeOptions::default() });
/// assert!(time(HedgeOptions::default()) * 2 < without);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HedgeOptions {
    /// Whether at all.
    pub enabled: bool,
    /// A write is slow when it takes longer than this share of the latencies learned of its device
    /// and size, in percent,
    pub quantile_percent: u32,
    /// and longer than this multiple of their median, in percent.
    pub multiple_percent: u32,
    /// Bytes written again, at most, in percent of the bytes written.
    pub budget_percent: u32,
    /// Latencies that must be learned first.
    pub samples: u32,
}

impl Default for HedgeOptions {
    /// Slower than 95 % of all, and than three times the median; at most 10 % more bytes. Twice the
    /// median, as in the paper, writes 4 % of all again on volumes with 1 % of slow writes; three
    /// times writes 1 %, and the 99.9th percentile stays below four times the median.
    fn default() -> HedgeOptions {
        HedgeOptions {
            enabled: true,
            quantile_percent: 95,
            multiple_percent: 300,
            budget_percent: 10,
            samples: 16,
        }
    }
}

/// Units that may be written again before anything was written.
const ALLOWANCE: u64 = 64;
/// Hedges that must be judged before hedging is given up.
const LEAST_JUDGED: u32 = 8;
/// While it is given up one outlier in so many is hedged, at first and at last.
const RARE_MIN: u32 = 16;
const RARE_MAX: u32 = 1024;

#[derive(Clone, Debug)]
pub(crate) struct Hedge {
    options: HedgeOptions,
    written: u64,
    again: u64,
    judged: u32,
    /// The mean gain in nanoseconds; newer hedges weigh more.
    gain: i64,
    /// Given up: outliers until the next trial, and how many there were before.
    given_up: Option<(u32, u32)>,
}

impl Hedge {
    pub fn new(options: HedgeOptions) -> Hedge {
        Hedge { options, written: 0, again: 0, judged: 0, gain: 0, given_up: None }
    }

    pub fn options(&self) -> &HedgeOptions {
        &self.options
    }

    /// Whether slow writes are looked for.
    pub fn is_on(&self) -> bool {
        self.options.enabled && self.given_up.is_none()
    }

    /// Whether hedges have saved more than they cost.
    #[cfg(feature = "blocking")]
    pub fn pays(&self) -> bool {
        self.is_on() && self.judged >= LEAST_JUDGED && self.gain > 0
    }

    /// So many units were written for the first time.
    pub fn wrote(&mut self, units: u32) {
        self.written += u64::from(units);
    }

    /// Whether the next slow write may be written again.
    #[cfg(feature = "blocking")]
    pub fn would_hedge(&self) -> bool {
        self.options.enabled && self.given_up.is_none_or(|(left, _)| left <= 1)
    }

    /// A slow write was found. Whether it is one that may be written again.
    pub fn found_slow(&mut self) -> bool {
        match &mut self.given_up {
            _ if !self.options.enabled => false,
            None => true,
            Some((left, _)) => {
                *left = left.saturating_sub(1);
                *left == 0
            }
        }
    }

    /// Whether so many units may be written again.
    pub fn affords(&self, units: u32) -> bool {
        let budget = self.written / 100 * u64::from(self.options.budget_percent) + ALLOWANCE;
        self.again + u64::from(units) <= budget
    }

    /// So many units are written again.
    pub fn hedged(&mut self, units: u32) {
        self.again += u64::from(units);
    }

    /// A hedge has ended, and saved so much time, or cost it.
    pub fn judge(&mut self, nanos: i64) {
        self.judged += 1;
        self.gain = if self.judged == 1 { nanos } else { self.gain / 8 * 7 + nanos / 8 };
        match self.given_up {
            None if self.gain < 0 && self.judged >= LEAST_JUDGED => {
                self.given_up = Some((RARE_MIN, RARE_MIN));
            }
            Some(_) if nanos > 0 => {
                (self.given_up, self.gain, self.judged) = (None, nanos, 1);
            }
            Some((0, rare)) => {
                let rare = (rare * 2).min(RARE_MAX);
                self.given_up = Some((rare, rare));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_pay_is_given_up_and_tried_again() {
        let mut hedge = Hedge::new(HedgeOptions::default());
        for _ in 0..LEAST_JUDGED {
            assert!(hedge.found_slow());
            hedge.judge(-1000);
        }
        assert!(!hedge.is_on());
        let mut tried = 0;
        for _ in 0..10_000 {
            if hedge.found_slow() {
                tried += 1;
                hedge.judge(-1000);
            }
        }
        assert!((5..30).contains(&tried), "{tried}");
        while !hedge.found_slow() {}
        hedge.judge(1000);
        assert!(hedge.is_on() && hedge.found_slow());
    }

    #[test]
    fn the_budget_holds() {
        let mut hedge = Hedge::new(HedgeOptions::default());
        let mut again = 0;
        for _ in 0..1000 {
            hedge.wrote(8);
            if hedge.affords(8) {
                hedge.hedged(8);
                again += 8;
            }
        }
        assert!((790..=800 + ALLOWANCE).contains(&again), "{again}");
    }
}
