//! A trace as an iterator of events.

use super::error::Bad;
use super::lines::{LineParser, MAX_LINE, Parsed, next_line};
use super::logwrites::{Failure, LogWrites};
use super::pages::Pages;
use super::{Event, Format, Options, Place, TraceError};
use std::io::{BufRead, Chain, Cursor, Read};

/// How many bytes of the input are used to detect its format.
const START: usize = 65_536;

/// The first bytes of compressed files, the compression, and the command that decompresses.
const COMPRESSED: [(&[u8], &str, &str); 4] = [
    (b"\xfd7zXZ\0", "xz", "xz -dc"),
    (b"\x1f\x8b", "gzip", "gzip -dc"),
    (b"BZh", "bzip2", "bzip2 -dc"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"),
];

/// A trace that is being read: an iterator of its events in the order of the input. It ends after
/// the first error.
pub struct Trace<R> {
    name: String,
    format: Format,
    input: Chain<Cursor<Vec<u8>>, R>,
    state: State,
    skipped: u64,
    over: bool,
}

enum State {
    Lines { parser: LineParser, line: Vec<u8>, number: u64 },
    LogWrites(LogWrites),
    Pages(Pages),
}

impl<R: BufRead> Trace<R> {
    /// Starts reading. Errors call the input `name`.
    ///
    /// # Errors
    /// The input cannot be read, is empty or compressed, or its format is neither given nor
    /// recognized.
    pub fn open(name: &str, mut input: R, options: &Options) -> Result<Trace<R>, TraceError> {
        let mut start = Vec::new();
        let read = input.by_ref().take(START as u64).read_to_end(&mut start);
        read.map_err(|error| {
            let place = Place::Byte(start.len() as u64);
            TraceError::Io { name: name.into(), place, error }
        })?;
        if start.is_empty() {
            return Err(TraceError::Empty { name: name.into() });
        }
        let detected = || {
            for (magic, compression, command) in COMPRESSED {
                if start.starts_with(magic) {
                    let name = name.into();
                    return Err(TraceError::Compressed { name, compression, command });
                }
            }
            Format::detect(&start, start.len() < START)
                .ok_or_else(|| TraceError::Unrecognised { name: name.into() })
        };
        let format = options.format.map_or_else(detected, Ok)?;
        let state = match format {
            Format::LogWrites => State::LogWrites(LogWrites::default()),
            Format::Pages => State::Pages(Pages { page_size: options.page_size, record: 0 }),
            _ => {
                let parser = LineParser::new(format, options.blkparse_event);
                State::Lines { parser, line: Vec::new(), number: 0 }
            }
        };
        let input = Cursor::new(start).chain(input);
        Ok(Trace { name: name.into(), format, input, state, skipped: 0, over: false })
    }

    /// The format in which it is read.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The names of the devices so far. [`Event::device`] is an index into them.
    pub fn devices(&self) -> &[String] {
        match &self.state {
            State::Lines { parser, .. } => parser.devices.names(),
            _ => &[],
        }
    }

    /// How many lines or entries so far were valid but not requests (or, with blkparse, requests in
    /// another state than the wanted one).
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn read(&mut self) -> Result<Option<Event>, Failure> {
        match &mut self.state {
            State::Pages(pages) => pages.next(&mut self.input),
            State::LogWrites(log) => {
                let (event, skipped) = log.next(&mut self.input)?;
                self.skipped += skipped;
                Ok(event)
            }
            State::Lines { parser, line, number } => loop {
                *number += 1;
                if !next_line(&mut self.input, line).map_err(Failure::Io)? {
                    return Ok(None);
                }
                let text = String::from_utf8_lossy(line);
                if line.len() > MAX_LINE {
                    return Err(Bad::new("a line of at most 16384 bytes", &text).into());
                }
                match parser.parse(&text)? {
                    Parsed::Event(event) => return Ok(Some(event)),
                    Parsed::Skipped => self.skipped += 1,
                    Parsed::Header => {}
                    Parsed::End => return Ok(None),
                }
            },
        }
    }

    fn place(&self) -> Place {
        match &self.state {
            State::Lines { number, .. } => Place::Line(*number),
            State::LogWrites(log) => Place::Byte(log.record),
            State::Pages(pages) => Place::Byte(pages.record),
        }
    }
}

impl<R: BufRead> Iterator for Trace<R> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Result<Event, TraceError>> {
        if self.over {
            return None;
        }
        let failure = match self.read() {
            Ok(Some(event)) => return Some(Ok(event)),
            Ok(None) => {
                self.over = true;
                return None;
            }
            Err(failure) => failure,
        };
        self.over = true;
        let (name, place) = (self.name.clone(), self.place());
        Some(Err(match failure {
            Failure::Io(error) => TraceError::Io { name, place, error },
            Failure::Bad(Bad { expected, found }) => {
                TraceError::Malformed { name, place, format: self.format, expected, found }
            }
        }))
    }
}
