//! Numbers with their nouns.

pub use tantalum_device::counted;

/// "cut" or "cuts", behind a number that comes from elsewhere.
pub fn cuts(n: u64) -> &'static str {
    if n == 1 { "cut" } else { "cuts" }
}

/// The verb of so many things.
pub fn were(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        let said = |n| format!("{} {} run", counted(n, "row", "rows"), were(n));
        assert_eq!([0, 1, 2].map(said), ["0 rows were run", "1 row was run", "2 rows were run"]);
    }
}
