//! Numbers as people read them.

use tantalum_rt::Nanos;

/// Shown where there is no number.
pub const MISSING: &str = "–";

/// What a number is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Things, whole ones.
    Count,
    /// A number of any size, such as a rate: three digits or more.
    Number,
    /// One thing divided by another: two digits after the point, fewer if it is large.
    Ratio,
}

/// A number with its unit; [`MISSING`] if there is none, or none that is a number.
pub fn value(value: Option<f64>, unit: Unit) -> String {
    let Some(v) = value.filter(|v| v.is_finite()) else { return MISSING.to_string() };
    match unit {
        Unit::Nanoseconds => Nanos(v.max(0.0) as u64).to_string(),
        Unit::Microseconds => Nanos((v.max(0.0) * 1e3).round() as u64).to_string(),
        Unit::Count => format!("{v:.0}"),
        Unit::Number if v.abs() >= 1e7 => format!("{:.1} M", v / 1e6),
        Unit::Number if v.abs() >= 1e6 => format!("{:.2} M", v / 1e6),
        Unit::Number if v.abs() >= 100.0 => format!("{v:.0}"),
        Unit::Number => format!("{v:.1}"),
        Unit::Ratio if v.abs() >= 100.0 => format!("{v:.0}"),
        Unit::Ratio if v.abs() >= 10.0 => format!("{v:.1}"),
        Unit::Ratio => format!("{v:.2}"),
    }
}

/// A quotient of two like values, to three digits after the point.
pub fn ratio(ratio: Option<f64>) -> String {
    match ratio.filter(|r| r.is_finite()) {
        Some(r) => format!("{r:.3}"),
        None => MISSING.to_string(),
    }
}

/// A time on an axis, without digits that say nothing.
pub fn short_time(ns: f64) -> String {
    let (value, unit) = match ns {
        _ if ns <= 0.0 => return "0".to_string(),
        _ if ns < 1e3 => (ns, "ns"),
        _ if ns < 1e6 => (ns / 1e3, "µs"),
        _ if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", short(value))
}

/// A number on an axis.
pub fn short(value: f64) -> String {
    if value >= 1e6 {
        return format!("{} M", short(value / 1e6));
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_a_dash() {
        for v in [None, Some(f64::NAN), Some(f64::INFINITY), Some(f64::NEG_INFINITY)] {
            for unit in
                [Unit::Nanoseconds, Unit::Microseconds, Unit::Count, Unit::Number, Unit::Ratio]
            {
                assert_eq!(value(v, unit), MISSING);
            }
            assert_eq!(ratio(v), MISSING);
        }
    }

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!(value(Some(187_800.0), Unit::Nanoseconds), "187.8 µs");
        assert_eq!(value(Some(187.8), Unit::Microseconds), "187.8 µs");
        assert_eq!(value(Some(2478.4), Unit::Number), "2478");
        assert_eq!(value(Some(3_456_789.0), Unit::Number), "3.46 M");
        assert_eq!(value(Some(1.234), Unit::Ratio), "1.23");
        assert_eq!(ratio(Some(0.5)), "0.500");
        let times = [0.0, 1e2, 1e4, 2.5e6, 1e9, 2e10].map(short_time);
        assert_eq!(times, ["0", "100 ns", "10 µs", "2.5 ms", "1 s", "20 s"]);
        assert_eq!([0.0, 500.0, 1500.0, 2e6].map(short), ["0", "500", "1500", "2 M"]);
    }
}
