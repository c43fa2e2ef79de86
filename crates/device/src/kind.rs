//! The kinds of commands, for whoever counts or fails them.

use crate::Durability;
use std::fmt;

/// A kind of command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommandKind {
    /// A read.
    Read,
    /// A plain write.
    Write,
    /// A write with forced unit access.
    Fua,
    /// An atomic group.
    Group,
    /// A flush.
    Flush,
    /// A discard.
    Discard,
}

impl CommandKind {
    /// All kinds.
    pub const ALL: [CommandKind; 6] = [
        CommandKind::Read,
        CommandKind::Write,
        CommandKind::Fua,
        CommandKind::Group,
        CommandKind::Flush,
        CommandKind::Discard,
    ];

    /// The kind of a write with this wish.
    pub fn of_write(want: Durability) -> CommandKind {
        match want {
            Durability::Normal => CommandKind::Write,
            Durability::Fua => CommandKind::Fua,
        }
    }

    /// Its place in [`CommandKind::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            CommandKind::Read => "read",
            CommandKind::Write => "write",
            CommandKind::Fua => "fua",
            CommandKind::Group => "group",
            CommandKind::Flush => "flush",
            CommandKind::Discard => "discard",
        }
    }
}

impl fmt::Display for CommandKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
