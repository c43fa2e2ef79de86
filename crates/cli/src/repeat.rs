//! Command lines that repeat something, for pasting into a shell.

use tantalum_lab_page::Command;

/// The command line of these words.
pub fn command(words: &[String]) -> String {
    format!("{} {}", program(), line(words))
}

/// The same for a page, without the path of the program. The page has a choice of
/// rows, and `rows` is the one that was made.
pub fn of_page(words: &[String], rows: &[String]) -> Command {
    let rows = rows.iter().map(|row| format!(" --row {}", quoted(row))).collect();
    Command { base: format!("tantalum {}", line(words)), rows }
}

/// Words as a shell reads them.
pub fn line(words: &[String]) -> String {
    words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ")
}

/// How the program was started: by cargo, or by its name.
#[allow(clippy::disallowed_methods, reason = "the edge: how the user started the program")]
fn program() -> String {
    match std::env::var_os("CARGO") {
        Some(_) => "cargo run --release --".into(),
        None => quoted(&std::env::args().next().unwrap_or_else(|| "tantalum".into())),
    }
}

/// A word, quoted for a shell where necessary.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("ycsb-a/durassd/wal/full"), "ycsb-a/durassd/wal/full");
        assert_eq!(quoted("run.run_ms=[1, 2]"), "'run.run_ms=[1, 2]'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
