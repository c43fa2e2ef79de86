//! The ways in which a device can break the contract.

use crate::content::Id;
use std::fmt;
use tantalum_device::{Block, IoError};

/// Why a command had to survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It completed, and the device's ack survives.
    Acked,
    /// It completed with forced unit access.
    Fua,
    /// It completed before a flush that returned.
    Flushed,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Acked => "acknowledged as surviving",
            Cause::Fua => "completed with forced unit access",
            Cause::Flushed => "covered by a flush",
        })
    }
}

/// What a block held: a command's data, or zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Found(pub Id);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("zeros"),
            crate::content::GARBAGE => f.write_str("a mix of data"),
            id => write!(f, "command {id}"),
        }
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One breach of the contract. Commands are named by their place in the order of
/// arrival.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A write that had to survive did not (contract, 1 and 2).
    #[error("{block} lost command {expected}, which was {cause}: found {found}, which is older")]
    Lost {
        /// Where.
        block: Block,
        /// The write that is lost.
        expected: Id,
        /// Why it had to survive.
        cause: Cause,
        /// What is there instead.
        found: Found,
    },
    /// Discarded data came back although the discard had to survive.
    #[error("{block} undid discard {expected}, which was {cause}: found {found}, which is older")]
    DiscardUndone {
        /// Where.
        block: Block,
        /// The discard.
        expected: Id,
        /// Why it had to survive.
        cause: Cause,
        /// What came back.
        found: Found,
    },
    /// Of one atomic unit, or of one group, a part survived and a part did not
    /// (contract, 3).
    #[error(
        "command {command} is torn in its atomic unit {unit}: {new} has it, {old} has {found}, which is older"
    )]
    Torn {
        /// The write or group.
        command: Id,
        /// Which unit of it, from 0.
        unit: u64,
        /// A block that has the new data.
        new: Block,
        /// A block that has not.
        old: Block,
        /// What the latter has.
        found: Found,
    },
    /// Inside an atomic unit, a block holds a mix of data, or data of another block.
    #[error("{block} holds a mix of data, or data of another block, at byte {offset}")]
    Mixed {
        /// Where.
        block: Block,
        /// The first byte of the mixed piece.
        offset: u32,
    },
    /// The survivors are no prefix of what arrived (contract, 4).
    #[error(
        "the survivors are no prefix of what arrived: {kept_at} has command {kept} (or had to keep it), while {missing_at} has {found} in place of command {missing}"
    )]
    OutOfOrder {
        /// A command that survived, or had to.
        kept: Id,
        /// Where it is.
        kept_at: Block,
        /// A command that arrived earlier and did not survive.
        missing: Id,
        /// Where it is missing.
        missing_at: Block,
        /// What is there instead.
        found: Found,
    },
    /// Data that the device had given up for good came back, or never were there.
    #[error(
        "{block} has {found}, which is older than what was durable, or was never written there"
    )]
    Resurrected {
        /// Where.
        block: Block,
        /// What is there.
        found: Found,
    },
    /// Data that nobody ever wrote.
    #[error("{block} has {found}, which was never written")]
    NeverWritten {
        /// Where.
        block: Block,
        /// What is there.
        found: Found,
    },
    /// A read saw data older than what was complete when it was submitted
    /// (contract, 5).
    #[error("a read of {block} saw {found}, but command {expected} was complete before")]
    StaleRead {
        /// Where.
        block: Block,
        /// The newest command complete before the read.
        expected: Id,
        /// What it saw.
        found: Found,
    },
    /// A block cannot be read.
    #[error("{block} cannot be read: {error}")]
    Unreadable {
        /// Where.
        block: Block,
        /// What the device said.
        error: IoError,
    },
    /// A command succeeded after a durability step had failed (contract, 6).
    #[error("command {command} succeeded although a durability step had failed before")]
    Pretended {
        /// The write, discard or group; or 0, for a flush.
        command: Id,
    },
    /// A group that the device does not promise was accepted (contract, 3).
    #[error("group {command} succeeded although it is beyond what the device promises")]
    Unrefused {
        /// The group.
        command: Id,
    },
}
