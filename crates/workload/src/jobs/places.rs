//! The places and lengths of a job's commands.
//!
//! 1. Every command is within the range, and begins at a multiple of the unit (but each sequential
//!    one begins where the one before ended).
//! 2. All randomness comes from the caller's stream and from the salt.
//! 3. A permutation visits each place once before it visits any again.

use super::{JobError, refused};
use crate::zipf::{Zipf, scramble};
use tantalum_device::{Block, Blocks};
use tantalum_rt::{Stream, mix64};

/// The pattern of places.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other, from the start of the range, again and again.
    Sequential,
    /// Each this many places after the one before. Each time around begins one place further. At
    /// least 1.
    Strided(u64),
    /// All places with equal probability.
    Random,
    /// All places once in random order; then all again in another order.
    Permutation,
    /// All places, with zipfian popularity of this exponent. The popular places are scattered.
    Zipf(f64),
    /// A share of the places gets another share of the commands. Within these places, and within
    /// the rest, the probability is equal.
    Hot(Hot),
    /// The enterprise workload of JEDEC's endurance standard (JESD219): half of the commands go to
    /// the first 5 % of the range, 30 % to the next 15 %, the rest to the remaining 80 %. Unless
    /// the job says otherwise, their sizes are those of the standard ([`JESD219_SIZES`]), and 40 %
    /// of them read. (Flushes and discards are as the job says; fio's example of this workload has
    /// none.)
    Jesd219,
}

/// The share of the places, and their share of the commands.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hot {
    /// The share of the places, above 0 to 1.
    pub space: f64,
    /// The share of the commands, 0 to 1.
    pub share: f64,
    /// Whether these places are scattered over the range. Otherwise they are at its start.
    #[serde(default)]
    pub scattered: bool,
}

/// Sizes in bytes, and their percentage of commands, by JESD219. Sizes below the device's block
/// size become whole blocks: with blocks of 4 KiB 77 % are of 4 KiB.
pub const JESD219_SIZES: [[u64; 2]; 12] = [
    [512, 4],
    [1024, 1],
    [1536, 1],
    [2048, 1],
    [2560, 1],
    [3072, 1],
    [3584, 1],
    [4096, 67],
    [8192, 10],
    [16_384, 7],
    [32_768, 3],
    [65_536, 3],
];

/// The share of reads by JESD219.
pub const JESD219_READS: f64 = 0.4;

/// Shares of the range and of the commands, in hundredths, by JESD219.
const JESD219_ZONES: [[u64; 2]; 3] = [[5, 50], [15, 30], [80, 20]];

/// The most sizes in a mix.
const MAX_SIZES: usize = 64;

/// Chooses places.
#[derive(Clone, Debug)]
pub struct Places {
    choice: Choice,
    /// Blocks from one place where a command may begin to the next.
    unit: u64,
    /// The number of places.
    slots: u64,
    /// Lengths of commands in blocks, and their weights.
    sizes: Vec<[u64; 2]>,
    weights: u64,
}

#[derive(Clone, Debug)]
enum Choice {
    /// The next block.
    Sequential(u64),
    /// The next place, and the stride.
    Strided(u64, u64),
    Random,
    /// The count of commands so far, and the salt.
    Permutation(u64, u64),
    Zipf(Zipf, u64),
    /// The number of hot places, their share of the commands, and the salt that scatters them.
    Hot(u64, f64, Option<u64>),
    Zones,
}

impl Places {
    /// Places in the first `range` bytes of a device with blocks of `block` bytes, for commands of
    /// these sizes and weights (rounded up to whole blocks), at multiples of `unit` bytes. `salt`
    /// scatters popular places and orders permutations.
    ///
    /// # Errors
    /// [`JobError::BlockSize`], [`JobError::Sizes`] or [`JobError::Value`].
    pub fn new(
        pattern: Pattern,
        sizes: &[[u64; 2]],
        unit: u64,
        (range, block): (u64, u32),
        salt: u64,
    ) -> Result<Places, JobError> {
        let size = u64::from(block);
        let slots = range.checked_div(unit).unwrap_or(0);
        if slots == 0 || !unit.is_multiple_of(size) {
            return Err(JobError::BlockSize { block_size: unit, device: block });
        }
        let unit = unit / size;
        let sizes: Vec<[u64; 2]> =
            sizes.iter().map(|[bytes, weight]| [bytes.div_ceil(size), *weight]).collect();
        let fit = |[blocks, weight]: &[u64; 2]| {
            (1..=slots * unit).contains(blocks) && (1..=1_000_000_000).contains(weight)
        };
        if sizes.is_empty() || sizes.len() > MAX_SIZES || !sizes.iter().all(fit) {
            return Err(JobError::Sizes);
        }
        let weights = sizes.iter().map(|s| s[1]).sum();
        let choice = match pattern {
            Pattern::Sequential => Choice::Sequential(0),
            Pattern::Strided(stride) => {
                if !(1..=slots).contains(&stride) {
                    let range = "at least 1, and at most the places in the range";
                    return refused("pattern.strided", &stride, range);
                }
                Choice::Strided(0, stride)
            }
            Pattern::Random => Choice::Random,
            Pattern::Permutation => Choice::Permutation(0, salt),
            Pattern::Zipf(theta) => Choice::Zipf(Zipf::new(slots, theta), salt),
            Pattern::Hot(Hot { space, share, scattered }) => {
                if !(space > 0.0 && space <= 1.0) {
                    return refused("pattern.hot.space", &space, "above 0 and at most 1");
                }
                if !(0.0..=1.0).contains(&share) {
                    return refused("pattern.hot.share", &share, "between 0 and 1");
                }
                let hot = ((slots as f64 * space) as u64).clamp(1, slots);
                Choice::Hot(hot, share, scattered.then_some(salt))
            }
            Pattern::Jesd219 => Choice::Zones,
        };
        Ok(Places { choice, unit, slots, sizes, weights })
    }

    /// How many commands cover the range once, on average.
    pub fn commands(&self) -> u64 {
        let sum: u128 = self.sizes.iter().map(|[n, w]| u128::from(*n) * u128::from(*w)).sum();
        let all = u128::from(self.slots * self.unit) * u128::from(self.weights);
        (all / sum.max(1)) as u64
    }

    /// Blocks of the longest command.
    pub fn longest(&self) -> u64 {
        self.sizes.iter().map(|s| s[0]).max().unwrap_or(0)
    }

    /// The blocks of the next command.
    pub fn next(&mut self, dice: &mut Stream) -> Blocks {
        let slots = self.slots;
        let slot = match &mut self.choice {
            Choice::Sequential(_) => 0,
            Choice::Strided(next, stride) => {
                let slot = *next;
                *next += *stride;
                if *next >= slots {
                    // (The place modulo the stride, plus one.)
                    *next = (slot % *stride + 1) % *stride;
                }
                slot
            }
            Choice::Random => dice.below(slots),
            Choice::Permutation(count, salt) => {
                let (pass, rank) = (*count / slots, *count % slots);
                *count += 1;
                scramble(rank, slots, *salt ^ mix64(pass))
            }
            Choice::Hot(hot, share, salt) => {
                let rank = match dice.unit() < *share || *hot == slots {
                    true => dice.below(*hot),
                    false => dice.range(*hot, slots),
                };
                salt.map_or(rank, |salt| scramble(rank, slots, salt))
            }
            Choice::Zipf(zipf, salt) => zipf.sample_scrambled(dice, *salt),
            Choice::Zones => in_zones(slots, dice),
        };
        let count = self.size(dice);
        let end = slots * self.unit;
        let start = match &mut self.choice {
            Choice::Sequential(next) => {
                let start = if *next + count > end { 0 } else { *next };
                *next = start + count;
                start
            }
            // A long command near the end begins earlier, so that it fits.
            _ => slot.min((end - count) / self.unit) * self.unit,
        };
        Blocks { start: Block(start), count }
    }

    fn size(&self, dice: &mut Stream) -> u64 {
        // With one size nothing is drawn.
        if let [[blocks, _]] = self.sizes[..] {
            return blocks;
        }
        let mut draw = dice.below(self.weights);
        let drawn = self.sizes.iter().find(|[_, weight]| {
            let hit = draw < *weight;
            draw = draw.saturating_sub(*weight);
            hit
        });
        drawn.map_or(1, |s| s[0])
    }
}

fn in_zones(slots: u64, dice: &mut Stream) -> u64 {
    let mut draw = dice.below(100);
    let mut from = 0;
    for [space, share] in JESD219_ZONES {
        let to = from + space;
        if draw < share {
            let edge = |percent: u64| (u128::from(slots) * u128::from(percent) / 100) as u64;
            let (low, high) = (edge(from), edge(to));
            return if low < high { dice.range(low, high) } else { low.min(slots - 1) };
        }
        (draw, from) = (draw - share, to);
    }
    slots - 1
}
