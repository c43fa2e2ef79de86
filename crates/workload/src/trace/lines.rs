//! Reads and parses lines of a text.

use super::error::Bad;
use super::fields::Devices;
use super::{BlkparseEvent, Event, Format, blkparse, csv, fio};
use std::io::{self, BufRead, Read};
use tantalum_rt::Nanos;

/// The longest valid line in bytes.
pub(super) const MAX_LINE: usize = 16_384;

/// The outcome of parsing a line.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A request.
    Event(Event),
    /// A valid line without a request.
    Skipped,
    /// The same, and not counted as skipped.
    Header,
    /// The trace ends before this line.
    End,
}

/// A parser for the lines of one format.
pub(super) struct LineParser {
    format: Format,
    blkparse_event: BlkparseEvent,
    first: bool,
    waited: Option<Nanos>,
    pub devices: Devices,
}

impl LineParser {
    pub fn new(format: Format, blkparse_event: BlkparseEvent) -> LineParser {
        let devices = Devices::default();
        LineParser { format, blkparse_event, first: true, waited: None, devices }
    }

    /// Parses the next line.
    pub fn parse(&mut self, line: &str) -> Result<Parsed, Bad> {
        if line.trim().is_empty() {
            return Ok(Parsed::Header);
        }
        let first = std::mem::take(&mut self.first);
        let devices = &mut self.devices;
        match self.format {
            Format::Fio2 => fio::line(line, 2, first, &mut self.waited, devices),
            Format::Fio3 => fio::line(line, 3, first, &mut self.waited, devices),
            Format::Blkparse => blkparse::line(line, self.blkparse_event, devices),
            Format::Msr => csv::msr(line, first, devices),
            Format::Spc => csv::spc(line, devices),
            Format::Systor => csv::systor(line, first, devices),
            Format::DiskSim => csv::disksim(line, devices),
            // These formats have no lines and are not read here.
            Format::LogWrites | Format::Pages => Ok(Parsed::End),
        }
    }
}

/// Reads the next line without its end into `line`; false at the input's end. A line
/// that is too long is cut at one byte more than [`MAX_LINE`].
pub(super) fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', line)?;
    for end in *b"\n\r" {
        if line.last() == Some(&end) {
            line.pop();
        }
    }
    Ok(read > 0)
}
