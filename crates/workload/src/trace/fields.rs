//! Fields of a line: numbers, times, and the names of devices.

use super::error::Bad;
use super::{Event, Kind, MAX_REQUEST};
use std::collections::BTreeMap;
use tantalum_rt::Nanos;

/// The most devices that one trace can have.
pub const MAX_DEVICES: usize = 65_536;

/// The unit in which block layers count.
pub(super) const SECTOR: u64 = 512;

/// A whole number in decimal.
pub(super) fn number(field: Option<&str>, expected: &'static str) -> Result<u64, Bad> {
    let field = field.ok_or_else(|| Bad::end(expected))?.trim();
    // `parse` would accept a sign.
    if !field.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Bad::new(expected, field));
    }
    field.parse().map_err(|_| Bad::new(expected, field))
}

/// The same with 32 bits.
pub(super) fn number32(field: Option<&str>, expected: &'static str) -> Result<u32, Bad> {
    let number = number(field, expected)?;
    u32::try_from(number).map_err(|_| Bad::new(expected, &number.to_string()))
}

/// A time with an optional fraction, in a unit of this many nanoseconds (a power of ten). Digits
/// below a nanosecond are dropped.
pub(super) fn time(
    field: Option<&str>,
    unit_ns: u64,
    expected: &'static str,
) -> Result<Nanos, Bad> {
    let field = field.ok_or_else(|| Bad::end(expected))?.trim();
    let (whole, fraction) = field.split_once('.').unwrap_or((field, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Bad::new(expected, field));
    }
    let mut ns = number(Some(whole), expected)?.checked_mul(unit_ns);
    let mut digit_ns = unit_ns;
    for digit in fraction.bytes() {
        digit_ns /= 10;
        ns = ns.and_then(|ns| ns.checked_add(u64::from(digit - b'0') * digit_ns));
    }
    ns.map(Nanos).ok_or_else(|| Bad::new("a time that fits in 64 bits of nanoseconds", field))
}

/// A request of `count` units that begins at unit `at`.
pub(super) fn request(kind: Kind, at: u64, count: u64, unit: u64) -> Result<Event, Bad> {
    let bytes = at.checked_mul(unit).zip(count.checked_mul(unit));
    let fits = bytes.filter(|(offset, length)| {
        let limit = if kind == Kind::Discard { u64::MAX } else { MAX_REQUEST };
        *length <= limit && offset.checked_add(*length).is_some()
    });
    let (offset, length) = fits.ok_or_else(|| {
        let expected = "a request of at most 4 GiB that ends below 2^64 bytes";
        Bad::new(expected, &format!("{count} from {at} on, in units of {unit} bytes"))
    })?;
    Ok(Event::new(kind, offset, length))
}

/// The devices of a trace, in order of their first appearance.
#[derive(Default)]
pub(super) struct Devices {
    names: Vec<String>,
    index: BTreeMap<String, u32>,
    last: u32,
}

impl Devices {
    /// The index of the device with this name.
    pub fn index(&mut self, name: &str) -> Result<u32, Bad> {
        if self.names.get(self.last as usize).is_some_and(|last| last == name) {
            return Ok(self.last);
        }
        if let Some(&index) = self.index.get(name) {
            self.last = index;
            return Ok(index);
        }
        if self.names.len() == MAX_DEVICES {
            return Err(Bad::new("at most 65536 devices", name));
        }
        let index = self.names.len() as u32;
        self.names.push(name.into());
        self.index.insert(name.into(), index);
        self.last = index;
        Ok(index)
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        let ns = |text, unit| time(Some(text), unit, "").map(|t| t.0).ok();
        assert_eq!(ns("1456095145.133076001", 1_000_000_000), Some(1_456_095_145_133_076_001));
        assert_eq!(ns("0.0262149999", 1_000_000_000), Some(26_214_999));
        assert_eq!(ns("13.191135", 1_000_000), Some(13_191_135));
        assert_eq!(ns("7", 100), Some(700));
        assert_eq!(ns("18446744073.709551615", 1_000_000_000), Some(u64::MAX));
        for bad in ["", "-1", "+1", "1e3", "1.-5", "18446744073.709551616", "x"] {
            assert_eq!(ns(bad, 1_000_000_000), None, "{bad}");
        }
    }

    #[test]
    fn requests_never_overflow() {
        assert!(request(Kind::Read, u64::MAX / 512 - 1, 1, 512).is_ok());
        assert!(request(Kind::Read, u64::MAX / 512, 1, 512).is_err());
        assert!(request(Kind::Read, u64::MAX, 1, 512).is_err());
        assert!(request(Kind::Write, 0, MAX_REQUEST, 1).is_ok());
        assert!(request(Kind::Write, 0, MAX_REQUEST + 1, 1).is_err());
        assert!(request(Kind::Discard, 0, MAX_REQUEST + 1, 1).is_ok());
    }

    #[test]
    fn devices_are_numbered_as_they_appear_and_bounded() {
        let mut devices = Devices::default();
        let order = ["8,0", "8,16", "8,0", "8,16", "8,16"].map(|n| devices.index(n).unwrap());
        assert_eq!(order, [0, 1, 0, 1, 1]);
        for n in 2..MAX_DEVICES {
            devices.index(&n.to_string()).unwrap();
        }
        assert!(devices.index("one more").is_err());
        assert_eq!(devices.index("8,16").unwrap(), 1);
    }
}
