//! Where to cut.

use std::collections::BTreeMap;
use std::fmt;
use tantalum_device::Operation;
use tantalum_rt::{Nanos, Stream};

/// What a point is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Right before an operation of the medium is issued.
    Before,
    /// The medium begins: nothing has changed yet.
    Begin,
    /// Inside an operation that changes the medium.
    Inside,
    /// One nanosecond before its end.
    Ending,
    /// At its end, before anybody hears of it.
    End,
    /// A host's command is issued or completes, or has just done so.
    Host,
    /// A random time.
    Random,
}

impl Moment {
    /// All kinds.
    pub const ALL: [Moment; 7] = [
        Moment::Before,
        Moment::Begin,
        Moment::Inside,
        Moment::Ending,
        Moment::End,
        Moment::Host,
        Moment::Random,
    ];
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Moment::Before => "before",
            Moment::Begin => "begin",
            Moment::Inside => "inside",
            Moment::Ending => "ending",
            Moment::End => "end",
            Moment::Host => "host",
            Moment::Random => "random",
        })
    }
}

/// A moment at which to cut: before anything else happens at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub at: Nanos,
    /// What that is of.
    pub moment: Moment,
}

/// The points inside an operation: these shares of its time, in sixteenths.
const SHARES: [u64; 3] = [4, 8, 13];

/// Points by time; of several at one time the first kind counts.
#[derive(Default)]
pub(super) struct Points(BTreeMap<Nanos, Moment>);

impl Points {
    fn add(&mut self, at: Nanos, moment: Moment) {
        let known = self.0.entry(at).or_insert(moment);
        *known = moment.min(*known);
    }

    /// Every operation of the medium. What is read changes nothing: only its ends count.
    pub fn add_ops(&mut self, ops: &[Operation]) {
        for op in ops {
            self.add(op.issued, Moment::Before);
            self.add(op.end, Moment::End);
            if !op.changes || op.begin == op.end {
                continue; // Nothing changes, or there is no moment inside.
            }
            self.add(op.begin, Moment::Begin);
            self.add(op.begin + Nanos(1), Moment::Inside);
            let span = (op.end - op.begin).0;
            for share in SHARES {
                self.add(op.begin + Nanos(span * share / 16), Moment::Inside);
            }
            self.add(op.end - Nanos(1), Moment::Ending);
            // The issuer has learned of its end, and has acted on it.
            self.add(op.end + Nanos(1), Moment::End);
        }
    }

    /// The boundaries of a host's commands, before and after.
    pub fn add_host(&mut self, times: impl Iterator<Item = Nanos>) {
        for at in times {
            self.add(at, Moment::Host);
            self.add(at + Nanos(1), Moment::Host);
        }
    }

    /// So many random times up to `end`.
    pub fn add_random(&mut self, dice: &mut Stream, count: u32, end: Nanos) {
        for _ in 0..count {
            self.add(Nanos(dice.below(end.0 + 1)), Moment::Random);
        }
    }

    /// In order of time, from `from` on; `from` is time 0.
    pub fn since(self, from: Nanos) -> Vec<Point> {
        let all = self.0.into_iter().filter(|p| p.0 >= from);
        all.map(|(at, moment)| Point { at: at - from, moment }).collect()
    }
}
