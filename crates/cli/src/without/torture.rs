//! Replacement for `tantalum torture`, in a build without it.

pub use crate::without::Anything as TortureArguments;

/// Says that the command is missing, or what it does; returns the exit code.
pub fn torture(words: &TortureArguments) -> u8 {
    words.told(&["torture"], "no databases on mounted drives")
}
