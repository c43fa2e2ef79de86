//! Which full unit of a die the collector takes next.
//!
//! 1. Units are in buckets by valid count, so that a choice never looks at all of them.
//!    Those in which everything is valid are in one of their own: they hide no other.
//! 2. Greedy: the fewest valid sectors, within a bucket's width, in constant amortised
//!    time.
//! 3. Cost-benefit: the largest (1 − u) · age / 2u, where u is the valid share and age
//!    counts the units filled on any die since this one was; of each bucket the oldest is
//!    looked at, in logarithmic time. So it is the best, but for a bucket's width of u.
//! 4. Where space is short the unit with the fewest valid sectors is taken, whatever the policy.
//!    Each unit must give back more than power losses spoil meanwhile.
//!
//! Sources: Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured
//! File System" (TOCS 1992), section 3.5; Kawaguchi, Nishioka, Motoda, "A Flash-Memory
//! Based File System" (USENIX 1995), from which the cost 2u is.

use crate::Collector;
use std::collections::BTreeSet;
use tantalum_nand::Unit;

const NONE: u32 = u32::MAX;
const BUCKETS: u32 = 64;

/// Units of one bucket that are looked at.
const FEW: usize = 8;

/// What a choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Valid sectors.
    pub valid: u32,
    /// How many units had been filled when this one was.
    pub filled: u32,
}

impl Candidate {
    /// Whether collecting this one is worth more than that, of units of `sectors` sectors
    /// when `now` units have been filled.
    pub fn beats(self, other: Candidate, sectors: u32, now: u32) -> bool {
        let gain = |c: Candidate| {
            u128::from(sectors - c.valid) * u128::from(now.saturating_sub(c.filled) + 1)
        };
        gain(self) * u128::from(other.valid) > gain(other) * u128::from(self.valid)
    }
}

#[derive(Clone)]
enum Order {
    /// Lists of the units of each bucket: the last change of bucket at the tail.
    Greedy { links: Vec<(u32, u32)>, heads: Vec<u32>, tails: Vec<u32>, lowest: u32 },
    /// Bucket, fill count, unit.
    CostBenefit(BTreeSet<(u32, u32, u32)>),
}

/// The full units of one die.
#[derive(Clone)]
pub struct Victims {
    first: u32,
    sectors: u32,
    width: u32,
    order: Order,
}

impl Victims {
    /// Of the `blocks` units from `first` on, of `sectors` sectors each.
    pub fn new(collector: Collector, first: Unit, blocks: u32, sectors: u32) -> Victims {
        let order = match collector {
            Collector::Greedy => Order::Greedy {
                links: vec![(NONE, NONE); blocks as usize],
                heads: vec![NONE; BUCKETS as usize + 1],
                tails: vec![NONE; BUCKETS as usize + 1],
                lowest: BUCKETS,
            },
            Collector::CostBenefit => Order::CostBenefit(BTreeSet::new()),
        };
        Victims { first: first.0, sectors, width: Victims::width(sectors), order }
    }

    /// Valid counts in one bucket, of units of so many sectors.
    pub fn width(sectors: u32) -> u32 {
        (sectors + 1).div_ceil(BUCKETS)
    }

    /// The bucket of a valid count.
    pub fn bucket(&self, valid: u32) -> u32 {
        if valid == self.sectors { BUCKETS } else { valid / self.width }
    }

    /// All of them, with the bucket that each is in.
    ///
    /// # Errors
    /// If the lists contradict themselves.
    pub fn members(&self) -> Result<Vec<(u32, Unit)>, String> {
        match &self.order {
            Order::Greedy { links, heads, tails, lowest } => {
                let mut all = Vec::new();
                for (bucket, (&head, &tail)) in (0u32..).zip(heads.iter().zip(tails)) {
                    let (mut at, mut last) = (head, NONE);
                    while at != NONE {
                        let sound = links[at as usize].0 == last && all.len() < links.len();
                        if !sound || bucket < *lowest {
                            return Err(format!("bucket {bucket} of full units is no list"));
                        }
                        all.push((bucket, Unit(self.first + at)));
                        (last, at) = (at, links[at as usize].1);
                    }
                    if head != NONE && tail != last {
                        return Err(format!("bucket {bucket} of full units has another end"));
                    }
                }
                Ok(all)
            }
            Order::CostBenefit(set) => Ok(set.iter().map(|u| (u.0, Unit(u.2))).collect()),
        }
    }

    /// A unit is full.
    pub fn add(&mut self, unit: Unit, c: Candidate) {
        let bucket = self.bucket(c.valid);
        let at = unit.0 - self.first;
        match &mut self.order {
            Order::Greedy { links, heads, tails, lowest } => {
                let tail = std::mem::replace(&mut tails[bucket as usize], at);
                links[at as usize] = (tail, NONE);
                match tail {
                    NONE => heads[bucket as usize] = at,
                    tail => links[tail as usize].1 = at,
                }
                *lowest = bucket.min(*lowest);
            }
            Order::CostBenefit(set) => {
                set.insert((bucket, c.filled, unit.0));
            }
        }
    }

    /// A unit is not to be chosen any more.
    pub fn remove(&mut self, unit: Unit, c: Candidate) {
        let bucket = self.bucket(c.valid) as usize;
        match &mut self.order {
            Order::Greedy { links, heads, tails, .. } => {
                let (prev, next) = links[(unit.0 - self.first) as usize];
                match prev {
                    NONE => heads[bucket] = next,
                    prev => links[prev as usize].1 = next,
                }
                match next {
                    NONE => tails[bucket] = prev,
                    next => links[next as usize].0 = prev,
                }
            }
            Order::CostBenefit(set) => {
                set.remove(&(bucket as u32, c.filled, unit.0));
            }
        }
    }

    /// The valid count of a unit changed.
    pub fn changed(&mut self, unit: Unit, before: Candidate, after: Candidate) {
        if self.bucket(before.valid) != self.bucket(after.valid) {
            self.remove(unit, before);
            self.add(unit, after);
        }
    }

    /// The unit with the fewest valid sectors, within a bucket's width, if it has less than
    /// all. `valid` tells the valid sectors of a unit.
    pub fn emptiest(&mut self, valid: impl Fn(Unit) -> u32) -> Option<Unit> {
        let sectors = self.sectors;
        match &mut self.order {
            Order::Greedy { .. } => self.best(sectors, 0, valid),
            Order::CostBenefit(set) => {
                let lowest = set.first()?.0;
                let few = set.range((lowest, 0, 0)..(lowest + 1, 0, 0)).take(FEW);
                let counts = few.map(|&(.., unit)| (valid(Unit(unit)), Unit(unit)));
                counts.filter(|c| c.0 < sectors).min().map(|c| c.1)
            }
        }
    }

    /// The unit to collect, with fewer than `below` valid sectors, when `now` units have
    /// been filled. `valid` tells the valid sectors of a unit.
    pub fn best(&mut self, below: u32, now: u32, valid: impl Fn(Unit) -> u32) -> Option<Unit> {
        let (first, sectors) = (self.first, self.sectors);
        match &mut self.order {
            Order::Greedy { links, heads, lowest, .. } => {
                while *lowest < BUCKETS && heads[*lowest as usize] == NONE {
                    *lowest += 1;
                }
                // The best of the first few of the bucket.
                let mut at = heads[*lowest as usize];
                let mut best = None;
                let mut least = below;
                for _ in 0..FEW {
                    if at == NONE {
                        break;
                    }
                    let unit = Unit(first + at);
                    let count = valid(unit);
                    if count < least {
                        (least, best) = (count, Some(unit));
                    }
                    at = links[at as usize].1;
                }
                best
            }
            Order::CostBenefit(set) => {
                let mut best: Option<(Candidate, Unit)> = None;
                let mut from = 0;
                while let Some(&(bucket, ..)) = set.range((from, 0, 0)..).next() {
                    let of_bucket = set.range((bucket, 0, 0)..(bucket + 1, 0, 0));
                    let mut oldest = of_bucket.take(FEW).map(|&(_, filled, unit)| {
                        (Candidate { valid: valid(Unit(unit)), filled }, Unit(unit))
                    });
                    if let Some((c, unit)) = oldest.find(|o| o.0.valid < below)
                        && best.is_none_or(|(b, _)| c.beats(b, sectors, now))
                    {
                        best = Some((c, unit));
                    }
                    from = bucket + 1;
                }
                best.map(|b| b.1)
            }
        }
    }
}
