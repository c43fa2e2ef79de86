//! Seeded, independent streams of random numbers.
//!
//! The arithmetic from random word to number is our own and on integers, so
//! that a run does not change with the version of a library or the machine.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// One stream of random numbers: PCG, 128-bit state (O'Neill 2014).
///
/// See [`Rt::stream`](crate::Rt::stream) for an example.
#[derive(Clone, Debug)]
pub struct Stream {
    pcg: Pcg64Mcg,
}

impl Stream {
    /// The stream called `name` of the run with this `seed`. Streams of different
    /// names, or of different seeds, are independent.
    pub fn new(seed: u64, name: &str) -> Stream {
        let mut h = mix64(seed ^ 0x7461_6e74_616c_756d);
        for b in name.bytes() {
            h = mix64(h ^ u64::from(b));
        }
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&h.to_le_bytes());
        bytes[8..].copy_from_slice(&mix64(h).to_le_bytes());
        Stream { pcg: Pcg64Mcg::from_seed(bytes) }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.pcg.next_u64()
    }

    /// A number in `0..n`. `n` must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0)");
        // Multiply-shift; the bias is below n / 2^64.
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `low..high`. The range must not be empty.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low)
    }

    /// True with probability `num / den`.
    pub fn chance(&mut self, num: u64, den: u64) -> bool {
        self.below(den) < num
    }

    /// A number in `[0, 1)`, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

/// A mixing function on 64 bits (the finaliser of splitmix64): a bijection.
pub fn mix64(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
