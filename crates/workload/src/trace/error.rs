//! Why a trace cannot be read.

use super::Format;
use std::fmt;

/// A place in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a text, counted from 1.
    Line(u64),
    /// A byte of a binary format, counted from 0.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Why a trace cannot be read. Each error names the input.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The input could not be read.
    #[error("cannot read the trace \"{name}\" at {place}: {error}")]
    Io {
        /// The input's name.
        name: String,
        /// How far it was read.
        place: Place,
        /// The system's error.
        error: std::io::Error,
    },
    /// The input has no bytes.
    #[error("the trace \"{name}\" is empty: name one that was recorded")]
    Empty {
        /// The input's name.
        name: String,
    },
    /// The input is compressed.
    #[error(
        "the trace \"{name}\" is compressed ({compression}); decompress it first, e.g. \
         `{command} FILE | tantalum trace info -`"
    )]
    Compressed {
        /// The input's name.
        name: String,
        /// The compression.
        compression: &'static str,
        /// The command that decompresses it to standard output.
        command: &'static str,
    },
    /// The contents are of no known format.
    #[error(
        "the format of the trace \"{name}\" is not recognised; say which it is (--format), one of: {}",
        Format::names()
    )]
    Unrecognised {
        /// The input's name.
        name: String,
    },
    /// A line or record does not mean what its format says.
    #[error("{name}, {place}: expected {expected}, found {found} (format {format})")]
    Malformed {
        /// The input's name.
        name: String,
        /// The place of the line or record.
        place: Place,
        /// The format in which it was read.
        format: Format,
        /// What the format requires there.
        expected: &'static str,
        /// What was found there.
        found: String,
    },
}

/// What a line or record should have had. The reader adds the place.
#[derive(Debug)]
pub(super) struct Bad {
    pub expected: &'static str,
    pub found: String,
}

/// How many characters of a bad field an error shows.
const SHOWN: usize = 60;

impl Bad {
    pub fn new(expected: &'static str, found: &str) -> Bad {
        let mut shown: String = found.chars().take(SHOWN).flat_map(char::escape_debug).collect();
        if found.chars().nth(SHOWN).is_some() {
            shown.push_str("...");
        }
        Bad { expected, found: format!("\"{shown}\"") }
    }

    /// Something is missing.
    pub fn end(expected: &'static str) -> Bad {
        Bad { expected, found: "the end".into() }
    }
}
