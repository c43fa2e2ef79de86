//! Times on the command line and in messages.

use tantalum_rt::Nanos;

/// The longest accepted time: a year.
const LONGEST: f64 = 365.0 * 86_400.0;

/// What to do about a unit that is none.
const UNITS: &str = "use ns, us, ms, s, m or h";

/// Reads a time, as in `10s` or `1.5h`.
///
/// # Errors
/// The expected form, in a line.
pub fn time(text: &str) -> Result<Nanos, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "" if text.is_empty() => return Err("expected a time, as in 10s".to_string()),
        "" => return Err(format!("\"{number}\" has no unit: {UNITS}, as in {number}s")),
        unit => return Err(format!("\"{unit}\" is no unit of time: {UNITS}, as in 10s")),
    };
    let number: f64 = number.parse().map_err(|_| {
        format!("\"{text}\" does not begin with a number: give one and a unit, as in 10s")
    })?;
    match number * seconds {
        time if time <= LONGEST => Ok(Nanos((time * 1e9).round() as u64)),
        _ => Err("that is longer than a year: give a shorter time, as in 8h".to_string()),
    }
}

/// A time for people: whole seconds, with minutes and hours if there are any.
pub fn said(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, 0) => format!("{m}m"),
        (0, m, s) => format!("{m}m {s}s"),
        (h, m, _) => format!("{h}h {m}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_says_how_one_is_given() {
        assert_eq!(time("250us"), Ok(Nanos::from_micros(250)));
        for (wrong, told) in [
            ("250", "\"250\" has no unit: use ns, us, ms, s, m or h, as in 250s"),
            ("250 parsec", "\"parsec\" is no unit of time: use ns"),
            ("1..5s", "\"1..5s\" does not begin with a number"),
            ("s", "\"s\" does not begin with a number: give one and a unit, as in 10s"),
            ("", "expected a time, as in 10s"),
            ("250000000h", "longer than a year: give a shorter time"),
        ] {
            let why = time(wrong).expect_err("it is no time");
            assert!(why.contains(told), "{wrong}: {why}");
        }
    }

    #[test]
    fn times_are_said_as_people_do() {
        for (seconds, words) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (125, "2m 5s"), (3600, "1h 0m"), (9000, "2h 30m")]
        {
            assert_eq!(said(seconds), words);
        }
    }
}
