//! The command line that repeats one row of a run, for pasting into a shell.

use crate::run::RunArguments;
use tantalum_lab::report::{Report, RowReport};
use tantalum_lab_page::Command;

/// The command line. It has all changes of the command line, and always the seed and the number of
/// cuts, because the file may change.
pub fn command(row: &RowReport, report: &Report, arguments: &RunArguments) -> String {
    let mut words = all(report, arguments);
    words.extend(["--row".into(), row.name.clone()]);
    format!("{} {}", program(), line(&words))
}

/// The command line of these words.
pub fn of_words(words: &[String]) -> String {
    format!("{} {}", program(), line(words))
}

/// The same for a page, without the program's path.
pub fn of_page(report: &Report, arguments: &RunArguments) -> Command {
    let rows = arguments.rows.iter().map(|row| format!(" --row {}", quoted(row))).collect();
    Command { base: format!("tantalum {}", line(&all(report, arguments))), rows }
}

/// All words but the program and the choice of rows.
fn all(report: &Report, arguments: &RunArguments) -> Vec<String> {
    let mut words = vec!["run".to_string(), arguments.experiment.display().to_string()];
    for set in &arguments.sets {
        words.extend(["--set".into(), format!("{}={}", set.key, set.text)]);
    }
    words.extend(["--seed".into(), report.seed.to_string()]);
    words.extend(["--cuts".into(), report.cuts.to_string()]);
    if arguments.quick {
        words.push("--quick".into());
    }
    words
}

fn line(words: &[String]) -> String {
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
