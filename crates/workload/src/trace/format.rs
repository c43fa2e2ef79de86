//! The formats, their names, and their detection.

use super::lines::{LineParser, Parsed};
use super::{fio, logwrites};
use std::fmt;
use std::str::FromStr;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Format {
    /// fio's I/O log, version 2.
    #[serde(rename = "fio-2")]
    Fio2,
    /// fio's I/O log, version 3.
    #[serde(rename = "fio-3")]
    Fio3,
    /// The text that blkparse prints by default.
    #[serde(rename = "blkparse")]
    Blkparse,
    /// The CSV of the MSR-Cambridge traces.
    #[serde(rename = "msr")]
    Msr,
    /// The format of the Storage Performance Council, as UMass publishes it.
    #[serde(rename = "spc")]
    Spc,
    /// The CSV of the SYSTOR '17 traces.
    #[serde(rename = "systor")]
    Systor,
    /// DiskSim's ASCII input.
    #[serde(rename = "disksim")]
    DiskSim,
    /// The log of Linux' dm-log-writes.
    #[serde(rename = "log-writes")]
    LogWrites,
    /// Recorded page numbers: little-endian u32 each, page × 2 + (1 = write).
    #[serde(rename = "pages")]
    Pages,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 9] = [
        Format::Fio2,
        Format::Fio3,
        Format::Blkparse,
        Format::Msr,
        Format::Spc,
        Format::Systor,
        Format::DiskSim,
        Format::LogWrites,
        Format::Pages,
    ];

    /// Its name for users.
    pub fn name(self) -> &'static str {
        match self {
            Format::Fio2 => "fio-2",
            Format::Fio3 => "fio-3",
            Format::Blkparse => "blkparse",
            Format::Msr => "msr",
            Format::Spc => "spc",
            Format::Systor => "systor",
            Format::DiskSim => "disksim",
            Format::LogWrites => "log-writes",
            Format::Pages => "pages",
        }
    }

    /// The names of all, with commas between.
    pub fn names() -> String {
        Format::ALL.map(Format::name).join(", ")
    }

    /// Whether it is made of lines.
    pub fn is_text(self) -> bool {
        !matches!(self, Format::LogWrites | Format::Pages)
    }

    /// The format of an input that starts with these bytes. `whole` says that these are all its
    /// bytes.
    pub(super) fn detect(start: &[u8], whole: bool) -> Option<Format> {
        if start.starts_with(&logwrites::MAGIC.to_le_bytes()) {
            return Some(Format::LogWrites);
        }
        for (version, format) in [(2, Format::Fio2), (3, Format::Fio3)] {
            if start.starts_with(fio::header(version).as_bytes()) {
                return Some(format);
            }
        }
        if looks_like_text(start) { Format::of_text(start, whole) } else { Format::of_pages(start) }
    }

    /// The first format in which one of the first lines is valid.
    fn of_text(start: &[u8], whole: bool) -> Option<Format> {
        const LINES: usize = 20;
        let text = String::from_utf8_lossy(start);
        // The last line may be cut off.
        let text = if whole { &*text } else { text.rsplit_once('\n')?.0 };
        let lines = text.lines().filter(|l| !l.trim().is_empty()).take(LINES);
        // A log of fio has a header. The other formats are recognized by their lines.
        let formats = [Format::Blkparse, Format::Msr, Format::Spc, Format::Systor, Format::DiskSim];
        lines.into_iter().find_map(|line| {
            formats.into_iter().find(|&format| {
                let mut parser = LineParser::new(format, BlkparseEvent::default());
                matches!(
                    parser.parse(line),
                    Ok(Parsed::Event(_) | Parsed::Skipped | Parsed::Header)
                )
            })
        })
    }

    /// Page numbers have no header. The input is taken for page numbers if all are below 2^23 (64
    /// GiB of 8 KiB pages) and not all are the same.
    fn of_pages(start: &[u8]) -> Option<Format> {
        let words = start.chunks_exact(4);
        let small = words.clone().all(|w| w[3] == 0);
        let differ = words.clone().zip(words.skip(1)).any(|(a, b)| a != b);
        (small && differ).then_some(Format::Pages)
    }
}

fn looks_like_text(start: &[u8]) -> bool {
    !start.iter().any(|&b| b < b' ' && !matches!(b, b'\n' | b'\r' | b'\t'))
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        let found = Format::ALL.into_iter().find(|f| f.name() == name);
        found.ok_or_else(|| format!("no such format; formats are: {}", Format::names()))
    }
}

/// Which of blkparse's events count as requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlkparseEvent {
    /// Q: queued in the block layer.
    #[default]
    Queued,
    /// D: issued to the driver.
    Issued,
    /// C: completed.
    Completed,
}

impl BlkparseEvent {
    /// Its letter in blkparse's output.
    pub fn letter(self) -> &'static str {
        match self {
            BlkparseEvent::Queued => "Q",
            BlkparseEvent::Issued => "D",
            BlkparseEvent::Completed => "C",
        }
    }
}

/// How to read a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The format; `None`: detected from the contents.
    pub format: Option<Format>,
    /// Which of blkparse's events count as requests.
    pub blkparse_event: BlkparseEvent,
    /// Bytes of a page in the format [`Format::Pages`].
    pub page_size: u32,
}

impl Default for Options {
    /// Detected format, blkparse's Q, pages of 8 KiB.
    fn default() -> Options {
        Options { format: None, blkparse_event: BlkparseEvent::default(), page_size: 8192 }
    }
}
