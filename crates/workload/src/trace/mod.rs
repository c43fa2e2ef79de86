//! Block traces: readers for the formats in which they are published and recorded.
//!
//! [`Trace::open`] takes any [`std::io::BufRead`], finds out the format (or is told),
//! and is then an iterator of [`Event`]s; [`Summary`] takes events and says what the
//! trace is like. Nothing here opens files.
//!
//! 1. **One type.** Whatever the format, an event's offset and length are bytes and its
//!    time is in nanoseconds.
//! 2. **No guessing.** A line or record that does not mean what its format says ends
//!    the trace with an error that names file, line (or byte) and what was expected.
//!    What a format contains besides requests (headers, file openings, other kinds
//!    of events) is passed over; if it is a line of its own, it is counted by
//!    [`Trace::skipped`].
//! 3. **No panic**, whatever the bytes.
//! 4. **Bounded.** Reading keeps one line or record and the names of the devices
//!    ([`MAX_DEVICES`]), never the trace.

mod blkparse;
mod blocks;
mod csv;
mod error;
mod fields;
mod fio;
mod format;
mod lines;
mod logwriter;
mod logwrites;
mod pages;
mod reader;
mod summary;

pub use error::{Place, TraceError};
pub use fields::MAX_DEVICES;
pub use format::{BlkparseEvent, Format, Options};
pub use logwriter::{LogOutput, LogWriter, Submitted};
pub use reader::Trace;
pub use summary::{FOOTPRINT_BLOCK, Report, Requests, Summary};

use tantalum_rt::Nanos;

/// The longest read or write in a trace, in bytes: 4 GiB. More is taken for damage.
pub const MAX_REQUEST: u64 = 1 << 32;

/// What was asked of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush of the device's cache; it has no offset and no length.
    Flush,
    /// A discard (trim).
    Discard,
    /// A mark in the recording; [`Event::label`] is its text.
    Mark,
}

/// What a request wants besides, as far as the format records it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Forced unit access: the write itself is durable when it completes.
    pub fua: bool,
    /// The device's cache is flushed before the request is carried out.
    pub preflush: bool,
    /// The request carries a file system's metadata.
    pub metadata: bool,
}

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, counted from an origin that the format chooses: only differences between
    /// times of one trace mean something. `None` if the format has no times. Traces
    /// are not always in order of time.
    pub time: Option<Nanos>,
    /// The device, as an index into [`Trace::devices`]; `None` if the format knows one
    /// device only.
    pub device: Option<u32>,
    /// The thread or process, if the format names it.
    pub thread: Option<u32>,
    /// What.
    pub kind: Kind,
    /// Where it starts, in bytes from the device's start.
    pub offset: u64,
    /// How long it is, in bytes. `offset + length` does not overflow; a read or write
    /// is at most [`MAX_REQUEST`] long.
    pub length: u64,
    /// What it wants besides.
    pub flags: Flags,
    /// The text of a mark.
    pub label: Option<Box<str>>,
}

impl Event {
    /// A request without time, device and flags.
    pub fn new(kind: Kind, offset: u64, length: u64) -> Event {
        let flags = Flags::default();
        Event { time: None, device: None, thread: None, kind, offset, length, flags, label: None }
    }
}
