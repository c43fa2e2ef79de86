//! Numbers with their nouns.

/// "1 row", "2 rows".
pub fn counted(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}
