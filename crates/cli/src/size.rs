//! Sizes on the command line.

/// Reads a size, as in `8GiB`, `1.5GiB` or `500M`.
///
/// # Errors
/// The expected form, in a line.
pub fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(format!("\"{unit}\" is no unit; use K, M, G or T, as in 8GiB")),
    };
    let form = || "expected a number, as in 8GiB or 1.5GiB".to_string();
    let unit_bytes = 1u64 << shift;
    let bytes = match number.split_once('.') {
        None => number.parse::<u64>().map_err(|_| form())?.checked_mul(unit_bytes),
        Some((_, "")) => return Err(form()),
        Some((whole, part)) => {
            let whole: u64 = whole.parse().map_err(|_| form())?;
            let tenth: f64 = format!("0.{part}").parse().map_err(|_| form())?;
            // A part of a byte makes no size.
            let rest = tenth * unit_bytes as f64;
            if rest.fract() != 0.0 && shift == 0 {
                return Err("a byte has no parts".into());
            }
            whole.checked_mul(unit_bytes).and_then(|n| n.checked_add(rest.round() as u64))
        }
    };
    let is_possible = |n: &u64| (1..=i64::MAX as u64).contains(n);
    bytes.filter(is_possible).ok_or_else(|| {
        "no device has that size: give one of at least 1 byte and below 8388608TiB".into()
    })
}
