//! `tantalum manual`: the reference of all commands, made from the command line itself: Markdown for
//! the site (`scripts/book`), pages for man(1).
//!
//! 1. A test holds docs/exit-codes.md to the codes of this program.

use crate::out;
use crate::table::lines;
use clap::{Arg, Args, Command, Subcommand};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What of the reference.
#[derive(Subcommand)]
pub enum ManualCommand {
    /// Print the reference of all commands as Markdown
    #[command(after_help = "\
Examples:
  tantalum manual markdown > commands.md")]
    Markdown,
    /// Write a page for man(1) for each command into a folder
    #[command(after_help = "\
Examples:
  tantalum manual pages /usr/local/share/man/man1")]
    Pages(PagesArguments),
}

/// Arguments of `tantalum manual pages`.
#[derive(Args)]
pub struct PagesArguments {
    /// The folder, which must be there
    folder: PathBuf,
}

/// Runs the command on the whole command line; returns the exit code.
pub fn manual(what: &ManualCommand, command: Command) -> u8 {
    match what {
        ManualCommand::Markdown => out::bytes(markdown(command).as_bytes()),
        ManualCommand::Pages(arguments) => match pages(command, &arguments.folder) {
            Ok(()) => out::OK,
            Err(e) => {
                use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
                let is_wrong = matches!(e.kind(), NotFound | NotADirectory | PermissionDenied);
                let code = if is_wrong { out::USAGE } else { out::FAILED };
                out::error(out::cannot("write pages into", &arguments.folder, &e), code)
            }
        },
    }
}

/// A page for each command: `tantalum-drive-cut.1`.
fn pages(command: Command, folder: &Path) -> std::io::Result<()> {
    clap_mangen::generate_to(without_help(command), folder)
}

/// `help` of each group says nothing of its own.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// The commands that a user sees, with the words that call them, outer ones first.
pub fn commands(command: &Command) -> Vec<(String, &Command)> {
    fn walk<'a>(command: &'a Command, words: &str, found: &mut Vec<(String, &'a Command)>) {
        let words = format!("{words} {}", command.get_name()).trim().to_string();
        found.push((words.clone(), command));
        let inner = command.get_subcommands();
        for inner in inner.filter(|c| !c.is_hide_set() && c.get_name() != "help") {
            walk(inner, &words, found);
        }
    }
    let mut found = Vec::new();
    walk(command, "", &mut found);
    found
}

const HEAD: &str = "\
# Commands

`tantalum COMMAND --help` prints the same. This page is made by `tantalum manual markdown`.

Sizes are bytes, or have K, M, G, T, KiB, MiB, GiB or TiB behind them (powers of 1024), as in
`1.5GiB`. Times have ns, us, ms, s, m or h behind them, as in `250us`. Shares are in per cent, as in
`5%`. What a number alone means is said at each option. `NO_COLOR` switches colours off.

## Exit codes

| code | meaning | when |
|---|---|---|
";

/// The reference.
fn markdown(command: Command) -> String {
    let command = command.term_width(0);
    let mut text = HEAD.to_string();
    for (code, meaning, when) in out::CODES {
        let _ = writeln!(text, "| {code} | {meaning} | {when} |");
    }
    let mut command = command;
    command.build();
    for (words, command) in commands(&command) {
        let level = "#".repeat(1 + words.split(' ').count());
        let _ = writeln!(text, "\n{level} {words}\n");
        let about = command.get_long_about().or(command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "{}.", lines(about.trim_end_matches('.'), 99).join("\n"));
        arguments(&mut text, command);
        if let Some(after) = command.get_after_help() {
            let _ = writeln!(text, "\n```text\n{}\n```", after.to_string().trim());
        }
    }
    text
}

/// The table of a command's arguments.
fn arguments(text: &mut String, command: &Command) {
    let shown = |arg: &&Arg| !arg.is_hide_set() && !is_everywhere(arg);
    let args: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if args.is_empty() {
        return;
    }
    text.push_str("\n| argument | what |\n|---|---|\n");
    for arg in args {
        let help = arg.get_long_help().or(arg.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let mut help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let defaults = arg.get_default_values().iter().map(|v| v.to_string_lossy());
        let defaults = defaults.collect::<Vec<_>>().join(", ");
        if !defaults.is_empty() && arg.get_action().takes_values() {
            help += &format!(" [default: {defaults}]");
        }
        let values = arg.get_possible_values();
        if !values.is_empty() && arg.get_action().takes_values() {
            let names: Vec<_> = values.iter().map(|v| v.get_name().to_string()).collect();
            help += &format!(" [one of: {}]", names.join(", "));
        }
        let _ = writeln!(text, "| `{}` | {} |", named(arg).replace('|', "\\|"), cell(&help));
    }
}

/// Arguments that each command has.
fn is_everywhere(arg: &Arg) -> bool {
    matches!(arg.get_id().as_str(), "help" | "version" | "quiet")
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// An argument as it is given: `--row <TEXT>`, `EXPERIMENT`.
fn named(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    let values = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    match arg.get_long() {
        Some(long) => format!("--{long} {values}").trim().to_string(),
        None => values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of exit codes of docs/exit-codes.md is that of this program.
    #[test]
    fn the_page_of_exit_codes_has_them_all() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
        #[allow(clippy::disallowed_methods, reason = "a test reads a document")]
        let page = std::fs::read_to_string(path).expect("the page is there");
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        let codes = out::CODES
            .iter()
            .map(|(code, meaning, when)| format!("| {code} | {meaning} | {when} |"));
        assert_eq!(rows, codes.collect::<Vec<_>>());
    }

    #[cfg(feature = "torture")]
    #[test]
    fn each_command_has_examples_and_only_codes_of_the_table() {
        let mut command = crate::command();
        command.build();
        let all = commands(&command);
        assert!(all.len() > 10, "{}", all.len());
        for (words, command) in all {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:\n  "), "{words} has no examples");
            // Some commands that logs share with drives have the examples of drives.
            let shared = words.replace("tantalum log ", "tantalum drive ");
            let begins = |line: &str| line.starts_with(&words) || line.starts_with(&shared);
            let example = after.lines().any(|line| begins(line.trim_start()));
            assert!(example, "{words}: no example begins with it");
            let Some((_, codes)) = after.split_once("Exit codes: ") else { continue };
            let codes = codes.replace('\n', " ");
            // A code stands at the beginning, or behind a semicolon.
            for part in codes.split("; ") {
                let number: String = part.chars().take_while(char::is_ascii_digit).collect();
                let Ok(code) = number.parse::<u8>() else { continue };
                assert!(out::CODES.iter().any(|c| c.0 == code), "{words}: {code}");
            }
        }
    }

    #[test]
    fn there_is_a_page_for_man() {
        let mut page = Vec::new();
        let rendered = clap_mangen::Man::new(crate::command()).render(&mut page);
        rendered.expect("memory can be written");
        let page = String::from_utf8(page).expect("text");
        assert!(page.contains(".TH tantalum 1") && page.contains("Examples"), "{page}");
    }
}
