//! Replacements for commands that a build does not have. (In a build that has the commands, these
//! modules are compiled only for their tests.)
//!
//! 1. What a help says of a command that is not there, in a line, begins with [`MARK`].
//! 2. `--help` of such a command says what it does, and how to get it.

#[cfg(any(test, not(feature = "live")))]
pub mod cache;
#[cfg(any(test, not(feature = "live")))]
pub mod log;
#[cfg(any(test, not(feature = "live")))]
pub mod running;
pub mod torture;

use crate::out;
use crate::table::lines;
use clap::{Args, Command};
use std::ffi::OsString;

/// How to get a build that has all commands.
const HOW: &str = "`cargo install --locked --path crates/cli --features full` in the checkout \
                   installs all parts (Linux)";
/// See the module.
const MARK: &str = "Not in this build: ";
/// Columns of a help.
const WIDTH: usize = 88;

/// Any arguments.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct Anything {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

impl Anything {
    /// Says of a command, which is below `tantalum` by these names, what it does, if that was asked for;
    /// else that this build has it not, but `lacks` something. Returns the exit code.
    pub fn told(&self, names: &[&str], lacks: &str) -> u8 {
        if self.words.iter().any(|word| word == "--help" || word == "-h") {
            return out::bytes(help(&crate::command(), names, lacks).as_bytes());
        }
        out::error(why(lacks), out::USAGE)
    }
}

/// Why the command is not there, and how to get it.
fn why(lacks: &str) -> String {
    format!("this build has {lacks}: {HOW}")
}

/// What the command does, in a paragraph.
fn help(all: &Command, names: &[&str], lacks: &str) -> String {
    let command = names.iter().try_fold(all, |above, name| above.find_subcommand(name));
    let about = command.and_then(Command::get_about).map(ToString::to_string).unwrap_or_default();
    let does = about.strip_prefix(MARK).unwrap_or(&about);
    let text = format!("`tantalum {}`: {does}. But {}.", names.join(" "), why(lacks));
    lines(&text, WIDTH).join("\n") + "\n"
}

fn is_missing(command: &Command) -> bool {
    command.get_about().is_some_and(|about| about.to_string().starts_with(MARK))
}

/// Whether this line of a help is the example of a command that is not there.
pub fn is_missing_example(all: &Command, line: &str) -> bool {
    let mut words = line.strip_prefix("  tantalum ").unwrap_or_default().split_whitespace();
    let mut next = |above: &Command| above.find_subcommand(words.next()?).cloned();
    let Some(command) = next(all) else { return false };
    is_missing(&command) || next(&command).as_ref().is_some_and(is_missing)
}

/// The text without the lines that `is_missing`, and without those that continue one.
fn examples(text: &str, is_missing: impl Fn(&str) -> bool) -> String {
    let mut is_left_out = false;
    let is_kept = |line: &&str| {
        is_left_out = if line.starts_with("   ") { is_left_out } else { is_missing(line) };
        !is_left_out
    };
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// The whole command line, whose examples are of commands that are there.
pub fn with_examples_of_this_build(all: Command) -> Command {
    fn each(command: Command, all: &Command) -> Command {
        let after = match command.get_after_help() {
            _ if is_missing(&command) => Some(format!("{HOW}.")),
            help => help.map(|text| examples(&text.to_string(), |l| is_missing_example(all, l))),
        };
        let command = after.into_iter().fold(command, |command, after| command.after_help(after));
        command.mut_subcommands(|below| each(below, all))
    }
    each(all.clone(), &all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Parser, Subcommand};

    #[derive(Parser)]
    enum Missing {
        #[command(flatten)]
        Running(running::RunningCommand),
        #[command(subcommand)]
        Cache(Below),
        /// Not in this build: flash logs
        #[command(after_help = "Examples:\n  tantalum log create")]
        Log(log::LogCommand),
        Torture(torture::TortureArguments),
        /// Everybody has it
        #[command(after_help = "\
Examples:
  tantalum trace info w.log
  tantalum log create
             which goes on
  tantalum cache scrub c.toml

Columns:
     of the table")]
        Trace,
    }

    #[derive(Subcommand)]
    enum Below {
        #[command(flatten)]
        Missing(cache::MissingCommand),
    }

    fn parsed(words: &str) -> Missing {
        let words = ["tantalum"].into_iter().chain(words.split(' '));
        Missing::try_parse_from(words).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn whatever_a_missing_command_is_given_it_says_that_it_is_missing() {
        for (words, code) in [
            ("serve disk.img --unix drive.sock", out::USAGE),
            ("mount disk.img /mnt --fs ext4", out::USAGE),
            ("mount --ram 64MiB /mnt", out::USAGE),
            ("cut disk.img", out::USAGE),
            ("restore", out::USAGE),
            ("status --json", out::USAGE),
            ("stats --help", out::OK),
            ("top -h", out::OK),
            ("cache create c.toml --flash a", out::USAGE),
            ("cache scrub --help", out::OK),
            ("log create wal.toml --device a", out::USAGE),
            ("log --help", out::OK),
            ("log create --help", out::OK),
            ("torture --db postgres --cuts 100", out::USAGE),
            ("torture --db postgres -h", out::OK),
        ] {
            let told = match parsed(words) {
                Missing::Running(command) => running::running(&command),
                Missing::Cache(Below::Missing(command)) => cache::missing(&command),
                Missing::Log(command) => log::log(&command),
                Missing::Torture(arguments) => torture::torture(&arguments),
                Missing::Trace => panic!("{words}"),
            };
            assert_eq!(told, code, "{words}");
        }
    }

    #[test]
    fn the_reason_says_what_is_not_there() {
        let Missing::Running(command) = parsed("mount /mnt") else {
            panic!("it is a command of drives that run")
        };
        let (verb, lacks, _) = running::of(&command);
        assert_eq!((verb, why(lacks)), ("mount", format!("this build has no FUSE: {HOW}")));
    }

    #[test]
    fn the_help_says_what_the_command_does_and_how_to_get_it() {
        let all = <Missing as clap::CommandFactory>::command();
        let help = help(&all, &["cache", "scrub"], "no caches on devices");
        let begins =
            "`tantalum cache scrub`: give up damaged pages that the slow device has, too. ";
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.starts_with(begins), "{help}");
        assert!(words.ends_with(&format!("But this build has no caches on devices: {HOW}.")));
        assert!(help.lines().all(|line| line.len() <= WIDTH), "{help}");
    }

    #[test]
    fn examples_of_missing_commands_are_left_out() {
        let all = with_examples_of_this_build(<Missing as clap::CommandFactory>::command());
        let after = |name: &str| {
            let command = all.find_subcommand(name).expect("it is there");
            command.get_after_help().expect("it has one").to_string()
        };
        let kept = "Examples:\n  tantalum trace info w.log\n\nColumns:\n     of the table";
        assert_eq!(after("trace"), kept);
        assert_eq!(after("log"), format!("{HOW}."));
    }
}
