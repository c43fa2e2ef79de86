//! Sizes on the command line.

/// Reads a size, as in `8GiB` or `500M`.
///
/// # Errors
/// The expected form, in a line.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(format!("\"{unit}\" is no unit; use K, M, G or T, as in 8GiB")),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number, as in 8GiB".to_string())?;
    number.checked_mul(1 << shift).filter(|n| *n > 0).ok_or_else(|| "no drive has that size".into())
}
