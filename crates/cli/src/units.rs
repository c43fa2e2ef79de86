//! Sizes, times and percentages, on the command line and in messages.
//!
//! 1. Every option of a size, a time or a percentage is read here, so that it takes `1.5GiB`,
//!    `250us` or `5%`.
//! 2. An option that took a number without a unit before keeps the meaning of that number.

use std::fmt::Display;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use tantalum_device::bytes_in_words;
use tantalum_rt::Nanos;

/// Splits a number from its unit.
fn parts(text: &str) -> (&str, &str) {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    (number, unit.trim())
}

/// A size, a time or a percentage has no `-` before it: it is never negative, and what else begins
/// so is the next option. `needed` is said then.
fn without_dash(text: &str, needed: &str) -> Result<(), String> {
    let Some(behind) = text.trim().strip_prefix('-') else { return Ok(()) };
    match behind.bytes().next().is_some_and(|b| b.is_ascii_digit() || b == b'.') {
        true => Err("it must not be negative".to_string()),
        false => Err(format!("it needs {needed} before the next option")),
    }
}

/// Reads a whole number within these limits, and those of its type.
pub fn whole<T: TryFrom<u64>>(
    limits: impl RangeBounds<u64> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.trim().parse().ok().filter(|n| limits.contains(n));
        number.and_then(|n: u64| T::try_from(n).ok()).ok_or_else(|| {
            let least = match limits.start_bound() {
                Bound::Included(n) => *n,
                Bound::Excluded(n) => n + 1,
                Bound::Unbounded => 0,
            };
            let all = u64::MAX >> (64 - 8 * size_of::<T>());
            let most = match limits.end_bound() {
                Bound::Included(n) => *n,
                Bound::Excluded(n) => n - 1,
                Bound::Unbounded => all,
            };
            format!("it should be a whole number from {least} to {}", most.min(all))
        })
    }
}

/// Reads the seed of a run: any whole number.
///
/// # Errors
/// The expected form, in a line.
pub fn seed(text: &str) -> Result<u64, String> {
    whole(..)(text)
}

/// Reads a number of at least 0, with or without decimal places.
///
/// # Errors
/// The expected form, in a line.
pub fn number(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
    number.ok_or_else(|| "it should be a number of at least 0, as in 2.5".to_string())
}

/// What to say of a value that is too small or too large.
fn out_of_range(least: impl Display, most: impl Display) -> String {
    format!("it should be from {least} to {most}")
}

/// Reads a size, as in `8GiB`, `1.5GiB` or `500M`.
///
/// # Errors
/// The expected form, in a line.
pub fn bytes(text: &str) -> Result<u64, String> {
    let is_possible = |n: &u64| (1..=i64::MAX as u64).contains(n);
    any_bytes(text)?.filter(is_possible).ok_or_else(|| {
        "no device has that size: give one of at least 1 byte and below 8388608TiB".into()
    })
}

/// Reads a size within these limits. A number without a unit counts `bare` bytes.
pub fn bytes_within<T: TryFrom<u64>>(
    limits: RangeInclusive<u64>,
    bare: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let is_bare = parts(text).1.is_empty();
        let bytes =
            any_bytes(text)?.and_then(|n| if is_bare { n.checked_mul(bare) } else { Some(n) });
        let bytes = bytes.filter(|n| limits.contains(n)).and_then(|n| T::try_from(n).ok());
        bytes.ok_or_else(|| {
            out_of_range(bytes_in_words(*limits.start()), bytes_in_words(*limits.end()))
        })
    }
}

/// Reads a size of any number of bytes; `None`: there is no number that large.
fn any_bytes(text: &str) -> Result<Option<u64>, String> {
    without_dash(text, "a size, as in 8GiB,")?;
    let (number, unit) = parts(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(format!("\"{unit}\" is no unit; use KiB, MiB, GiB or TiB, as in 8GiB")),
    };
    let form = || "expected a number, as in 8GiB or 1.5GiB".to_string();
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let unit_bytes = 1u64 << shift;
    match number.split_once('.') {
        None if is_number => Ok(number.parse().ok().and_then(|n: u64| n.checked_mul(unit_bytes))),
        None | Some((_, "")) => Err(form()),
        Some((whole, part)) => {
            let whole: u64 = whole.parse().map_err(|_| form())?;
            let tenth: f64 = format!("0.{part}").parse().map_err(|_| form())?;
            // A part of a byte makes no size.
            let rest = tenth * unit_bytes as f64;
            if rest.fract() != 0.0 && shift == 0 {
                return Err("a byte has no parts".into());
            }
            let all = whole.checked_mul(unit_bytes);
            Ok(all.and_then(|n| n.checked_add(rest.round() as u64)))
        }
    }
}

/// The longest accepted time: a year.
const LONGEST: f64 = 365.0 * 86_400.0;

/// What to do about a unit that is none.
const UNITS: &str = "use ns, us, ms, s, m or h";

/// Reads a time, as in `10s` or `1.5h`.
///
/// # Errors
/// The expected form, in a line.
pub fn time(text: &str) -> Result<Nanos, String> {
    without_dash(text, "a time, as in 10s,")?;
    let (number, unit) = parts(text);
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "" if number.is_empty() => return Err("expected a time, as in 10s".to_string()),
        "" => return Err(format!("\"{number}\" has no unit: {UNITS}, as in {number}s")),
        unit => return Err(format!("\"{unit}\" is no unit of time: {UNITS}, as in 10s")),
    };
    let text = text.trim();
    let number: f64 = number.parse().map_err(|_| {
        format!("\"{text}\" does not begin with a number: give one and a unit, as in 10s")
    })?;
    match number * seconds {
        time if time <= LONGEST => Ok(Nanos((time * 1e9).round() as u64)),
        _ => Err("that is longer than a year: give a shorter time, as in 8h".to_string()),
    }
}

/// Reads a time within these limits. A number without a unit has the unit `bare`.
#[cfg(any(test, feature = "live"))]
pub fn time_within(
    limits: RangeInclusive<Nanos>,
    bare: &'static str,
) -> impl Fn(&str) -> Result<Nanos, String> + Clone {
    move |text| {
        let is_bare = text.trim().parse::<f64>().is_ok();
        let time = if is_bare { time(&format!("{text}{bare}")) } else { time(text) }?;
        match limits.contains(&time) {
            true => Ok(time),
            false => Err(out_of_range(limits.start(), limits.end())),
        }
    }
}

/// Reads a percentage, as in `5%` or `5`.
///
/// # Errors
/// The expected form, in a line.
pub fn percent(text: &str) -> Result<f64, String> {
    without_dash(text, "a percentage, as in 12%,")?;
    let text = text.trim();
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("expected a percentage of at least 0, as in 12 or 12%".into()),
    }
}

/// Reads a percentage of at most 100.
///
/// # Errors
/// The expected form, in a line.
pub fn percent_of_all(text: &str) -> Result<f64, String> {
    let number = percent(text)?;
    if number <= 100.0 { Ok(number) } else { Err(out_of_range("0%", "100%")) }
}

/// Reads a percentage of at most 100 without decimal places.
///
/// # Errors
/// The expected form, in a line.
pub fn whole_percent(text: &str) -> Result<u8, String> {
    match percent_of_all(text)? {
        number if number.fract() == 0.0 => Ok(number as u8),
        number => Err(format!("expected a whole number, as in {number:.0}%")),
    }
}

/// Reads a multiple: a percentage as in `50%`, or a number as in `0.5`.
///
/// # Errors
/// The expected form, in a line.
pub fn multiple(text: &str) -> Result<f64, String> {
    let number =
        percent(text).map_err(|_| "expected a percentage, as in 50%, or a multiple, as in 0.5")?;
    Ok(if text.contains('%') { number / 100.0 } else { number })
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
            ("-5s", "it must not be negative"),
            ("-.5s", "it must not be negative"),
        ] {
            let why = time(wrong).expect_err("it is no time");
            assert!(why.contains(told), "{wrong}: {why}");
        }
    }

    #[test]
    fn numbers_without_a_unit_keep_their_meaning() {
        let seconds = time_within(Nanos::from_millis(50)..=Nanos::from_secs(60), "s");
        assert_eq!(seconds("0.2"), Ok(Nanos::from_millis(200)));
        assert_eq!(seconds("250ms"), Ok(Nanos::from_millis(250)));
        let far = seconds("250us").expect_err("it is too short");
        assert!(far.contains("should be from 50.00 ms to 60.00 s"), "{far}");
        let kib = bytes_within::<u32>(1 << 10..=1 << 20, 1 << 10);
        assert_eq!((kib("64"), kib("64KiB")), (Ok(64 << 10), Ok(64 << 10)));
        assert_eq!(bytes_within::<u32>(0..=1 << 20, 1)("0"), Ok(0));
        for wrong in ["0", "1.5GiB", "1025", "18446744073709551616"] {
            let why = kib(wrong).expect_err(wrong);
            assert_eq!(why, "it should be from 1.00 KiB to 1.00 MiB", "{wrong}");
        }
        assert_eq!((multiple("0.5"), multiple("50%"), multiple("2")), (Ok(0.5), Ok(0.5), Ok(2.0)));
    }

    #[test]
    fn whole_numbers_say_their_limits() {
        assert_eq!((whole::<u8>(1..=2)("2"), seed("18446744073709551615")), (Ok(2), Ok(u64::MAX)));
        for (why, limits) in [
            (whole::<u8>(1..=2)("3").map(u64::from), "1 to 2"),
            (whole::<u16>(..)("65536").map(u64::from), "0 to 65535"),
            (whole::<u32>(1..)("-5").map(u64::from), "1 to 4294967295"),
            (whole::<u64>(1..10)("10"), "1 to 9"),
            (seed("x"), "0 to 18446744073709551615"),
        ] {
            assert_eq!(why, Err(format!("it should be a whole number from {limits}")));
        }
    }

    #[test]
    fn what_is_negative_is_said_to_be() {
        let negative = "it must not be negative".to_string();
        for text in ["-5", "-5GiB", "-.5GiB", " -5M"] {
            assert_eq!(bytes(text), Err(negative.clone()), "{text}");
        }
        assert_eq!((percent("-5%"), whole_percent("-5")), (Err(negative.clone()), Err(negative)));
        // What is no number is no negative one, but the next option.
        for (why, needed) in [
            (bytes("--json").map(drop), "a size, as in 8GiB"),
            (time("--json").map(drop), "a time, as in 10s"),
            (percent("-q").map(drop), "a percentage, as in 12%"),
        ] {
            assert_eq!(why, Err(format!("it needs {needed}, before the next option")));
        }
    }

    #[test]
    fn percentages_may_have_a_sign() {
        for text in ["5", "5%", "5 %", " 5% "] {
            assert_eq!((percent(text), whole_percent(text)), (Ok(5.0), Ok(5)), "{text}");
        }
        assert_eq!(percent("150%"), Ok(150.0));
        for wrong in ["", "%", "x", "-1", "NaN", "inf", "5%%"] {
            assert!(percent(wrong).is_err() && multiple(wrong).is_err(), "{wrong}");
        }
        assert!(percent_of_all("101%").is_err() && whole_percent("2.5%").is_err());
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
