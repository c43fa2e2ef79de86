//! fio's I/O logs, versions 2 and 3.
//!
//! A header line, then `FILE ACTION [OFFSET LENGTH]`. In version 3 a time in microseconds comes
//! first. Version 2 has no times, but `wait` lines whose offset is microseconds: from the first one
//! on, events carry the sum of the waits.

use super::error::Bad;
use super::fields::{Devices, number, request, time};
use super::lines::Parsed;
use super::{Event, Kind};
use tantalum_rt::Nanos;

/// The first line of a version.
pub(super) fn header(version: u8) -> &'static str {
    match version {
        2 => "fio version 2 iolog",
        _ => "fio version 3 iolog",
    }
}

/// Reads a line. `waited` is the sum of version 2's waits.
pub(super) fn line(
    text: &str,
    version: u8,
    first: bool,
    waited: &mut Option<Nanos>,
    devices: &mut Devices,
) -> Result<Parsed, Bad> {
    if text.starts_with("fio version ") {
        if first && text.trim_end() == header(version) {
            return Ok(Parsed::Header);
        }
        let expected = "the header of this version as the first line";
        return Err(Bad::new(expected, text));
    }
    let mut fields = text.split_ascii_whitespace();
    let at = match version {
        2 => None,
        _ => Some(time(fields.next(), 1_000, "a time in microseconds")?),
    };
    let file = fields.next().ok_or_else(|| Bad::end("a file name"))?;
    const ACTION: &str =
        "add, open, close, unlink, read, write, sync, datasync, sync_file_range, trim or wait";
    let action = fields.next().ok_or_else(|| Bad::end(ACTION))?;
    let kind = match action {
        "add" | "open" | "close" | "unlink" => return Ok(Parsed::Skipped),
        "read" => Kind::Read,
        "write" => Kind::Write,
        "sync" | "datasync" | "sync_file_range" => Kind::Flush,
        "trim" => Kind::Discard,
        "wait" if version == 2 => {
            let us = number(fields.next(), "microseconds to wait")?;
            let sum =
                us.checked_mul(1_000).and_then(|ns| ns.checked_add(waited.map_or(0, |w| w.0)));
            let fits = "waits that fit in 64 bits of nanoseconds";
            *waited = Some(Nanos(sum.ok_or_else(|| Bad::new(fits, &us.to_string()))?));
            return Ok(Parsed::Skipped);
        }
        "wait" => return Err(Bad::new("no wait in version 3, whose lines have times", text)),
        _ => return Err(Bad::new(ACTION, action)),
    };
    let event = match kind {
        // fio writes numbers here too, without a meaning.
        Kind::Flush => Event::new(kind, 0, 0),
        _ => {
            let offset = number(fields.next(), "an offset in bytes")?;
            let length = number(fields.next(), "a length in bytes")?;
            request(kind, offset, length, 1)?
        }
    };
    let device = Some(devices.index(file)?);
    Ok(Parsed::Event(Event { time: at.or(*waited), device, ..event }))
}
