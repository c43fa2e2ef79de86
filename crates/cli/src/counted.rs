//! Numbers with their nouns.

/// The verb of so many things.
pub fn were(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

/// "1 row", "2 rows".
pub fn counted(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
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
