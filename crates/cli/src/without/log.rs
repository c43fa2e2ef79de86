//! Replacement for `tantalum log`, in a build without it.

pub use crate::without::Anything as LogCommand;

/// Says that the command is missing, or what it does; returns the exit code.
pub fn log(words: &LogCommand) -> u8 {
    words.told(&["log"], "no flash logs on devices")
}
