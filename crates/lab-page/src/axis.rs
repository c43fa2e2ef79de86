//! Axes: the coordinates of values, and the values that are marked.

/// Maps values to coordinates.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    values: [f64; 2],
    coordinates: [f64; 2],
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A mark at each multiple of this.
    Linear(f64),
    Logarithmic,
    /// This many places, each with its mark.
    Places(usize),
}

impl Axis {
    /// From 0 to a round number at or above `most`.
    pub fn linear(most: f64, coordinates: [f64; 2]) -> Axis {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        Axis::between([0.0, most], coordinates)
    }

    /// From a round number at or below the first value to one at or above the second.
    pub fn between([least, most]: [f64; 2], coordinates: [f64; 2]) -> Axis {
        let least = if least.is_finite() { least } else { 0.0 };
        let most = if most.is_finite() && most > least { most } else { least + 1.0 };
        let step = step(most - least);
        let low = (least / step + 1e-9).floor() * step;
        let top = (most / step - 1e-9).ceil() * step;
        Axis { values: [low, top], coordinates, kind: Kind::Linear(step) }
    }

    /// Whole decades around `values`, which are positive.
    pub fn logarithmic([least, most]: [f64; 2], coordinates: [f64; 2]) -> Axis {
        let sane = |v: f64| if v.is_finite() { v.max(1.0) } else { 1.0 };
        let low = libm::log10(sane(least)).floor();
        let high = libm::log10(sane(most)).ceil().max(low + 1.0);
        let values = [libm::exp10(low), libm::exp10(high)];
        Axis { values, coordinates, kind: Kind::Logarithmic }
    }

    /// The places 0, 1, … of `count` things side by side.
    pub fn places(count: usize, coordinates: [f64; 2]) -> Axis {
        let values = [-0.4, count.max(1) as f64 - 0.6];
        Axis { values, coordinates, kind: Kind::Places(count) }
    }

    /// The coordinate of a value; a value beyond an end has the coordinate of that end.
    pub fn at(&self, value: f64) -> f64 {
        let [low, high] = self.values;
        let value = if value.is_nan() { low } else { value.clamp(low, high) };
        let share = match self.kind {
            Kind::Logarithmic => libm::log10(value / low) / libm::log10(high / low),
            Kind::Linear(_) | Kind::Places(_) => (value - low) / (high - low),
        };
        let [from, to] = self.coordinates;
        from + share * (to - from)
    }

    /// The values to mark: round ones, decades, or each place.
    pub fn ticks(&self) -> Vec<f64> {
        let [low, high] = self.values;
        match self.kind {
            Kind::Logarithmic => {
                let decades = libm::log10(high / low).round() as i32;
                (0..=decades).map(|i| low * libm::exp10(f64::from(i))).collect()
            }
            Kind::Linear(step) => {
                let (first, last) = ((low / step).round(), (high / step).round());
                (0..=(last - first) as u32).map(|i| (first + f64::from(i)) * step).collect()
            }
            Kind::Places(count) => (0..count).map(|i| i as f64).collect(),
        }
    }
}

/// A round step that divides 0 to `most` into about four.
fn step(most: f64) -> f64 {
    let rough = most / 4.0;
    let decade = libm::exp10(libm::log10(rough).floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|s| s * decade);
    steps.into_iter().find(|s| *s >= rough * 0.999).unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(Axis::linear(3170.0, [0.0, 1.0]).ticks(), [0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
        assert_eq!(Axis::linear(1.0, [0.0, 1.0]).ticks(), [0.0, 0.25, 0.5, 0.75, 1.0]);
        for most in [1e-9, 0.7, 3.0, 10.0, 99.0, 101.0, 12345.0, 9e12] {
            let axis = Axis::linear(most, [0.0, 1.0]);
            let ticks = axis.ticks();
            assert!((4..=6).contains(&ticks.len()), "{most}: {ticks:?}");
            assert!(ticks.last().is_some_and(|t| *t >= most * 0.999), "{most}: {ticks:?}");
        }
        let between = Axis::between([3001.0, 3009.0], [0.0, 1.0]);
        assert_eq!(between.ticks(), [3000.0, 3002.0, 3004.0, 3006.0, 3008.0, 3010.0]);
        assert_eq!(Axis::places(3, [0.0, 1.0]).ticks(), [0.0, 1.0, 2.0]);
        let decades = Axis::logarithmic([150.0, 2e6], [0.0, 1.0]).ticks();
        assert_eq!(decades.len(), 6);
        assert_eq!(decades[0], 100.0);
    }

    #[test]
    fn coordinates_stay_within_the_ends() {
        let axes =
            [Axis::linear(10.0, [100.0, 0.0]), Axis::logarithmic([10.0, 1000.0], [100.0, 0.0])];
        for axis in axes {
            for v in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 5.0, 1e300] {
                assert!((0.0..=100.0).contains(&axis.at(v)), "{v}");
            }
        }
        assert_eq!(axes[0].at(5.0), 50.0);
        // Places are within the ends, at equal distances.
        let places = [0.0, 1.0, 2.0].map(|i| Axis::places(3, [0.0, 100.0]).at(i));
        assert!(0.0 < places[0] && places[2] < 100.0 && (places[1] - 50.0).abs() < 1e-9);
        assert!(Axis::places(0, [0.0, 100.0]).at(0.0).is_finite());
        assert!((axes[1].at(100.0) - 50.0).abs() < 1e-9);
        for v in [f64::NAN, f64::INFINITY, 0.0, -3.0] {
            assert_eq!(Axis::linear(v, [0.0, 1.0]).at(1.0), 1.0);
            assert!(Axis::logarithmic([v, v], [0.0, 1.0]).at(1.0).is_finite());
            assert!(Axis::between([v, v], [0.0, 1.0]).at(1.0).is_finite());
        }
    }
}
