//! Commands that logs and caches share with drives speak of what they are called on.

use clap::Command;

/// Of a command: its name, its usage, what it does, and what is behind its options.
pub type Words = (&'static str, &'static str, &'static str, &'static str);

/// The command `tantalum` with these words below `group`.
pub fn in_words_of(command: Command, group: &'static str, words: &[Words]) -> Command {
    let said = |group: Command, (name, usage, about, after): Words| {
        group.mut_subcommand(name, |of| of.override_usage(usage).about(about).after_help(after))
    };
    command.mut_subcommand(group, |group| words.iter().copied().fold(group, said))
}
