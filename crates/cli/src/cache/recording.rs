//! Recorded traces as events of single pages, in memory: 16 bytes for each.
//!
//! 1. A request is an event of each page that it touches. Flushes and marks are none.
//! 2. A discard forgets pages that were touched before, and no others.
//! 3. Devices of a trace do not share pages.

use crate::input;
use std::io::{BufRead, BufReader, Cursor};
use std::path::Path;
use tantalum_cache::policy::PageId;
use tantalum_cache::policy::sim::{PageEvent, PageIo};
use tantalum_workload::trace::{Event, Kind, Options, Trace, TraceError};

/// The name of the trace that the program has with it.
pub const OWN: &str = "pg15-tpcc-32mb";
const OWN_PACKED: &[u8] = include_bytes!("../../experiments/traces/pg15-tpcc-32mb.u32.xz");

/// The first bytes of what xz packed.
const XZ: &[u8] = b"\xfd7zXZ\0";
/// A page's number on its device is below this.
const PAGES_MAX: u64 = 1 << 47;

/// See the module.
pub struct Recording {
    pub name: String,
    pub ios: Vec<PageIo>,
    /// How many pages are read or written.
    pub touched: usize,
}

/// The trace that the program has with it.
///
/// # Errors
/// The options do not fit it.
pub fn own(options: &Options, page_bytes: u32, most: usize) -> Result<Recording, String> {
    read(OWN.into(), Cursor::new(OWN_PACKED), options, page_bytes, most)
}

/// A trace in a file, which xz may have packed; `most` events of it.
///
/// # Errors
/// What is wrong with the file, and where.
pub fn from_file(
    path: &Path,
    options: &Options,
    page_bytes: u32,
    most: usize,
) -> Result<Recording, String> {
    let name = path.display().to_string();
    if path == Path::new("-") {
        return read("standard input".into(), std::io::stdin().lock(), options, page_bytes, most);
    }
    let unreadable = |e: &std::io::Error| {
        let advice = format!("name a recorded trace, or none: then {OWN} is replayed");
        input::unreadable("the trace", path, e, advice)
    };
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    let file = std::fs::File::open(path).map_err(|e| unreadable(&e))?;
    if path.is_dir() {
        return Err(unreadable(&std::io::ErrorKind::IsADirectory.into()));
    }
    read(name, BufReader::with_capacity(1 << 18, file), options, page_bytes, most)
}

fn read(
    name: String,
    mut input: impl BufRead,
    options: &Options,
    page_bytes: u32,
    most: usize,
) -> Result<Recording, String> {
    // What is shorter than the magic is no trace either, and the reader says so.
    let packed = input.fill_buf().is_ok_and(|start| start.starts_with(XZ));
    let input: Box<dyn BufRead> = match packed {
        true => Box::new(BufReader::new(lzma_rust2::XzReader::new(input, true))),
        false => Box::new(input),
    };
    let told = |e: TraceError| match e {
        TraceError::Io { error, .. } if packed && is_damage(&error) => format!(
            "{name}: what xz packed is cut off or damaged ({error}): copy it again, or name another trace"
        ),
        e => e.to_string(),
    };
    let mut trace = Trace::open(&name, input, options).map_err(told)?;
    let page_bytes = u64::from(page_bytes);
    let mut pages = Pages { page_bytes, ios: Vec::new(), touched: Default::default() };
    for event in &mut trace {
        let event = event.map_err(told)?;
        pages.add(&event).map_err(|e| format!("{name}: {e}"))?;
        if pages.ios.len() >= most {
            pages.ios.truncate(most);
            break;
        }
    }
    if !pages.ios.iter().any(|io| io.event != PageEvent::Forget) {
        return Err(format!("{name}: no reads and no writes"));
    }
    let touched = pages.touched.len();
    Ok(Recording { name, ios: pages.ios, touched })
}

/// Whether the bytes are not as they were written.
fn is_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

struct Pages {
    page_bytes: u64,
    ios: Vec<PageIo>,
    touched: rustc_hash::FxHashSet<u64>,
}

impl Pages {
    fn add(&mut self, event: &Event) -> Result<(), String> {
        let what = match event.kind {
            Kind::Read => PageEvent::Read,
            Kind::Write => PageEvent::Write,
            Kind::Discard => PageEvent::Forget,
            Kind::Flush | Kind::Mark => return Ok(()),
        };
        if event.length == 0 {
            return Ok(());
        }
        let (first, last) = match what {
            // A page of which a part is discarded stays.
            PageEvent::Forget => {
                let end = (event.offset + event.length) / self.page_bytes;
                let first = event.offset.div_ceil(self.page_bytes);
                if end <= first {
                    return Ok(());
                }
                (first, end - 1)
            }
            _ => {
                let last = event.offset + (event.length - 1);
                (event.offset / self.page_bytes, last / self.page_bytes)
            }
        };
        if last >= PAGES_MAX {
            return Err(format!("a request at byte {} is beyond any device", event.offset));
        }
        let device = u64::from(event.device.unwrap_or(0)) * PAGES_MAX;
        let client = event.thread.or(event.device).unwrap_or(0);
        let push = |page| self.ios.push(PageIo { page: PageId(page), client, event: what });
        let (first, last) = (device + first, device + last);
        if what != PageEvent::Forget {
            self.touched.extend(first..=last);
            (first..=last).for_each(push);
        } else if last - first < self.touched.len() as u64 {
            (first..=last).filter(|page| self.touched.contains(page)).for_each(push);
        } else {
            let mut gone: Vec<u64> =
                self.touched.iter().copied().filter(|p| (first..=last).contains(p)).collect();
            gone.sort_unstable();
            gone.into_iter().for_each(push);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(events: &[(Kind, u64, u64)]) -> Result<Vec<(u64, PageEvent)>, String> {
        let mut pages = Pages { page_bytes: 4096, ios: Vec::new(), touched: Default::default() };
        for &(kind, offset, length) in events {
            pages.add(&Event::new(kind, offset, length))?;
        }
        Ok(pages.ios.iter().map(|io| (io.page.0, io.event)).collect())
    }

    #[test]
    fn a_request_is_an_event_of_each_page() {
        use PageEvent::{Forget, Read, Write};
        let events = [
            (Kind::Write, 4095, 2),
            (Kind::Flush, 0, 0),
            (Kind::Read, 8192, 8192),
            (Kind::Read, 0, 0),
            (Kind::Discard, 4095, 12_289),
            (Kind::Discard, 0, 4095),
            (Kind::Discard, 0, 1 << 58),
        ];
        let expected = [
            (0, Write),
            (1, Write),
            (2, Read),
            (3, Read),
            (1, Forget),
            (2, Forget),
            (3, Forget),
            (0, Forget),
            (1, Forget),
            (2, Forget),
            (3, Forget),
        ];
        assert_eq!(pages(&events), Ok(expected.to_vec()));
    }

    #[test]
    fn a_request_beyond_any_device_is_an_error() {
        assert!(pages(&[(Kind::Read, u64::MAX - 1, 1)]).unwrap_err().contains("beyond"));
    }

    #[test]
    fn the_own_trace_is_whole() {
        let own = own(&Options::default(), 8192, usize::MAX).unwrap();
        let writes = own.ios.iter().filter(|io| io.event == PageEvent::Write).count();
        assert_eq!((own.ios.len(), own.touched, writes), (1_000_000, 66_565, 309_093));
    }
}
