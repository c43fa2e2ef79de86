//! Zipfian numbers: rank `k` (from 1) has a probability proportional to `1 / k^theta`.
//!
//! 1. Constant memory and constant expected time for any number of ranks and any
//!    exponent, by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion
//!    to generate variates from monotone discrete distributions", 1996).
//! 2. The distribution is exact except for rounding.
//! 3. All functions are those of `libm`, so that every machine gives the same numbers.

use libm::{exp, expm1, floor, log, log1p};
use tantalum_rt::{Stream, mix64};

/// A zipfian distribution over the ranks `0..n`; 0 is the most frequent.
///
/// ```
/// use tantalum_rt::Stream;
/// use tantalum_workload::zipf::Zipf;
///
/// let zipf = Zipf::new(1000, 0.99);
/// let mut dice = Stream::new(1, "ranks");
/// let ranks: Vec<u64> = (0..1000).map(|_| zipf.sample(&mut dice)).collect();
/// let times = |rank| ranks.iter().filter(|r| **r == rank).count();
/// assert!(times(0) > times(100) && ranks.iter().all(|rank| *rank < 1000));
/// ```
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    theta: f64,
    /// The area under the curve up to the right end of the first rank, less the
    /// first rank's own share.
    low: f64,
    /// The area up to the right end of the last rank.
    high: f64,
    /// A rank within this distance of its middle is accepted without a further test.
    sure: f64,
}

impl Zipf {
    /// A distribution over `n` ranks (at least 1) with exponent `theta`. It is uniform if `theta`
    /// is not positive and finite.
    pub fn new(n: u64, theta: f64) -> Zipf {
        let n = n.max(1);
        let theta = if theta.is_finite() && theta > 0.0 { theta } else { 0.0 };
        let mut z = Zipf { n, theta, low: 0.0, high: 0.0, sure: 0.0 };
        z.low = z.area(1.5) - 1.0;
        z.high = z.area(n as f64 + 0.5);
        z.sure = 2.0 - z.area_inverse(z.area(2.5) - z.height(2.0));
        z
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u64 {
        self.n
    }

    /// A rank.
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        if self.theta == 0.0 {
            return stream.below(self.n);
        }
        loop {
            let u = self.high + stream.unit() * (self.low - self.high);
            let x = self.area_inverse(u);
            let k = floor(x + 0.5).clamp(1.0, self.n as f64);
            if k - x <= self.sure || u >= self.area(k + 0.5) - self.height(k) {
                return (k as u64 - 1).min(self.n - 1);
            }
        }
    }

    /// A rank, moved by [`scramble`] to its place among `0..n`, so that frequent ones are apart.
    pub fn sample_scrambled(&self, stream: &mut Stream, salt: u64) -> u64 {
        scramble(self.sample(stream), self.n, salt)
    }

    /// `1 / x^theta`.
    fn height(&self, x: f64) -> f64 {
        exp(-self.theta * log(x))
    }

    /// The integral of [`Zipf::height`] from 1 to `x`.
    fn area(&self, x: f64) -> f64 {
        let l = log(x);
        let t = (1.0 - self.theta) * l;
        // (e^t - 1) / t, which is 1 at 0.
        let factor = if t.abs() > 1e-8 { expm1(t) / t } else { 1.0 + t / 2.0 };
        factor * l
    }

    fn area_inverse(&self, a: f64) -> f64 {
        // Rounding must not push it past the pole.
        let t = (a * (1.0 - self.theta)).max(-1.0);
        let factor = if t.abs() > 1e-8 { log1p(t) / t } else { 1.0 - t / 2.0 };
        exp(factor * a)
    }
}

/// A permutation of `0..n`, one for each `salt`: the place of `rank`. Ranks from `n` on wrap
/// around.
pub fn scramble(rank: u64, n: u64, salt: u64) -> u64 {
    if n <= 1 {
        return 0;
    }
    let bits = 64 - (n - 1).leading_zeros();
    let mask = u64::MAX >> (64 - bits);
    let shift = bits.div_ceil(2);
    let keys = [mix64(salt), mix64(mix64(salt)), mix64(salt ^ u64::MAX)];
    let mut x = rank % n;
    // Each step is a bijection on numbers of this many bits. Repeating it until the number is below
    // n makes it a bijection on 0..n.
    loop {
        for key in keys {
            x = x.wrapping_mul(key | 1).wrapping_add(key >> 32) & mask;
            x ^= x >> shift;
        }
        if x < n {
            return x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chi-squared distance of the frequencies of the first 50 ranks, and of the rest, from the
    /// exact probabilities. 99.9 % bound for 50 degrees of freedom: 86.7.
    fn chi_squared(z: &Zipf, theta: f64) -> f64 {
        let n = z.ranks();
        let mut stream = Stream::new(3, "zipf");
        const DRAWS: u64 = 400_000;
        let cells = n.min(50) as usize;
        let mut seen = vec![0u64; cells + 1];
        for _ in 0..DRAWS {
            let k = z.sample(&mut stream);
            assert!(k < n);
            seen[(k as usize).min(cells)] += 1;
        }
        let weight = |k: u64| libm::pow(k as f64, -theta);
        let total: f64 = (1..=n).map(weight).sum();
        let head: f64 = (1..=cells as u64).map(weight).sum();
        let mut chi = 0.0;
        for (k, s) in seen.iter().enumerate() {
            let p = if k < cells { weight(k as u64 + 1) } else { total - head } / total;
            let expected = p * DRAWS as f64;
            if expected < 5.0 {
                assert!(*s < 25, "n {n} theta {theta} rank {k}: {s} for {expected}");
                continue;
            }
            chi += (*s as f64 - expected) * (*s as f64 - expected) / expected;
        }
        chi
    }

    #[test]
    fn the_distribution_is_exact() {
        for theta in [0.0, 0.2, 0.606, 0.99, 1.0, 1.0 + 1e-10, 1.5, 3.0] {
            for n in [1, 2, 3, 10, 1000, 100_000] {
                let chi = chi_squared(&Zipf::new(n, theta), theta);
                assert!(chi < 86.7, "n {n} theta {theta}: chi-squared {chi}");
            }
        }
    }

    #[test]
    fn a_wrong_exponent_would_be_seen() {
        let chi = chi_squared(&Zipf::new(1000, 0.97), 0.99);
        assert!(chi > 200.0, "{chi}");
    }

    #[test]
    fn the_numbers_are_the_same_everywhere() {
        let z = Zipf::new(1_000_000_000_000, 0.99);
        let mut stream = Stream::new(1, "golden");
        let seen: Vec<u64> = (0..6).map(|_| z.sample(&mut stream)).collect();
        assert_eq!(seen, GOLDEN);
    }

    const GOLDEN: [u64; 6] =
        [19028981746, 519404681914, 132883161690, 289034935277, 31937469, 2381647];

    #[test]
    fn scrambling_is_a_permutation_that_scatters() {
        for n in [1, 2, 3, 5, 64, 1000, 4097] {
            let mut hit = vec![false; n as usize];
            for k in 0..n {
                let at = scramble(k, n, 7) as usize;
                assert!(!hit[at], "n {n}: {k} hits {at} again");
                hit[at] = true;
            }
        }
        let first: Vec<u64> = (0..100).map(|k| scramble(k, 1_000_000, 1)).collect();
        let quarter = |q: u64| first.iter().filter(|x| **x / 250_000 == q).count();
        for q in 0..4 {
            assert!((10..45).contains(&quarter(q)), "{first:?}");
        }
        let neighbours = first.windows(2).filter(|w| w[0].abs_diff(w[1]) < 1000).count();
        assert!(neighbours < 5, "{neighbours}");
        assert_ne!(first[0], scramble(0, 1_000_000, 2));
    }
}
