//! How the clock of a runtime on real time goes.

use crate::Nanos;

const MILLION: u64 = 1_000_000;

/// Real nanoseconds for each of the clock's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Millionths, at least 1.
    Millionths(u64),
    /// The clock goes as real time does, and jumps ahead where waiting would serve nobody.
    Jump,
}

impl Scale {
    /// `None`: no number between 0 and a million.
    pub fn new(scale: f64) -> Option<Scale> {
        match scale {
            0.0 => Some(Scale::Jump),
            s if s > 0.0 && s <= MILLION as f64 => {
                Some(Scale::Millionths(((s * MILLION as f64) as u64).max(1)))
            }
            _ => None,
        }
    }

    /// What the clock shows after so much real time.
    pub fn virtual_time(self, real: Nanos) -> Nanos {
        match self {
            Scale::Jump | Scale::Millionths(MILLION) => real,
            Scale::Millionths(s) => {
                let part = u128::from(real.0) * u128::from(MILLION) / u128::from(s);
                Nanos(part.min(u128::from(u64::MAX)) as u64)
            }
        }
    }

    /// The first real time at which the clock shows `at` or more.
    pub fn real(self, at: Nanos) -> Nanos {
        match self {
            Scale::Jump | Scale::Millionths(MILLION) => at,
            Scale::Millionths(s) => {
                let part = (u128::from(at.0) * u128::from(s)).div_ceil(u128::from(MILLION));
                Nanos(part.min(u128::from(u64::MAX)) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn real_is_the_first_time_at_which_it_is_due(s in 1u64..2_000_000, at in 0u64..1 << 50) {
            let scale = Scale::Millionths(s);
            let real = scale.real(Nanos(at));
            prop_assert!(scale.virtual_time(real).0 >= at);
            prop_assert!(real.0 == 0 || scale.virtual_time(real - Nanos(1)).0 < at);
        }
    }

    #[test]
    fn scales_that_make_no_sense_are_refused() {
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e7] {
            assert_eq!(Scale::new(bad), None);
        }
        assert_eq!(Scale::new(0.0), Some(Scale::Jump));
        assert_eq!(Scale::new(1e-9), Some(Scale::Millionths(1)));
        assert_eq!(Scale::new(0.1), Some(Scale::Millionths(100_000)));
    }
}
