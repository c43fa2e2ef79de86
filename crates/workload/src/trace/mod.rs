//! Readers for published and recorded formats of block traces.
//!
//! [`Trace::open`] takes any [`std::io::BufRead`], detects the format unless it is given, and is
//! then an iterator of [`Event`]s. [`Summary`] takes events and summarizes the trace. Nothing here
//! opens files.
//!
//! ```
//! use tantalum_workload::trace::{Format, Options, Summary, Trace};
//!
//! let log = "fio version 3 iolog\n\
//!            0 /dev/vdb add\n\
//!            1 /dev/vdb write 0 4096\n\
//!            2 /dev/vdb write 4096 4096\n\
//!            3 /dev/vdb read 8192 512\n";
//! let mut trace = Trace::open("a log", log.as_bytes(), &Options::default())?;
//! assert_eq!(trace.format(), Format::Fio3);
//! let mut summary = Summary::new();
//! for event in &mut trace {
//!     summary.add(&event?);
//! }
//! let report = summary.report();
//! assert_eq!((report.writes.count, report.writes.bytes, report.reads.count), (2, 8192, 1));
//! assert_eq!(trace.devices(), ["/dev/vdb"]);
//! # Ok::<(), tantalum_workload::trace::TraceError>(())
//! ```
//!
//! 1. **One type.** In every format an event's offset and length are in bytes, and its time is in
//!    nanoseconds.
//! 2. **No guessing.** A malformed line or record ends the trace with an error that names file,
//!    line (or byte) and what was expected. What a format contains besides requests (headers, file
//!    openings, other kinds of events) is skipped. [`Trace::skipped`] counts skipped lines, except
//!    headers and blank ones.
//! 3. **No panic** for any bytes.
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
pub use logwriter::{LogOutput, LogWriter, LoggedWrites, Submitted};
pub use reader::Trace;
pub use summary::{FOOTPRINT_BLOCK, Report, Requests, Summary};

use tantalum_rt::Nanos;

/// A small trace for a first look, in fio's format: one of the samples of the tests.
pub const SAMPLE: &[u8] = include_bytes!("../../tests/samples/fio3.log");

/// The longest read or write in a trace in bytes: 4 GiB. A longer one is an error.
pub const MAX_REQUEST: u64 = 1 << 32;

/// The kind of a request.
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

/// Flags of a request, as far as the format records them.
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
    /// Its time, counted from an origin that the format chooses: only differences within one trace
    /// have a meaning. `None` if the format has no times. Traces are not always in order of time.
    pub time: Option<Nanos>,
    /// The device as an index into [`Trace::devices`]; `None` if the format has one device only.
    pub device: Option<u32>,
    /// The thread or process, if the format names it.
    pub thread: Option<u32>,
    /// Its kind.
    pub kind: Kind,
    /// Where it starts, in bytes from the device's start.
    pub offset: u64,
    /// Its length in bytes. `offset + length` does not overflow. A read or write has at most
    /// [`MAX_REQUEST`] bytes.
    pub length: u64,
    /// Its flags.
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
