//! The text that blkparse prints in its default format:
//! `MAJOR,MINOR CPU SEQUENCE TIME PID ACTION RWBS SECTOR + SECTORS [PROCESS]`.
//!
//! One request appears several times: when it is queued (Q), issued to the driver (D), completed
//! (C), and merged, split and remapped between. So only one kind of event is read, by default Q:
//! every device has it, and it has flush and FUA as they were requested. (A device-mapper or RAID
//! device has no D. A drive without volatile cache gets D without flush and FUA. Merging happens
//! between Q and D.)
//!
//! RWBS consists of: F if the cache is flushed before; W, R, D, F or N for the kind; F for FUA;
//! then letters with further attributes (A, S, M, ...). So `FWFS` is a synchronous write with flush
//! before and FUA. A flush is `FN`, `FF`, or `FWS` without sectors. The statistics that blkparse
//! prints after the events end the trace.

use super::error::Bad;
use super::fields::{Devices, SECTOR, number, number32, request, time};
use super::lines::Parsed;
use super::{BlkparseEvent, Event, Flags, Kind};

/// Reads a line.
pub(super) fn line(
    text: &str,
    wanted: BlkparseEvent,
    devices: &mut Devices,
) -> Result<Parsed, Bad> {
    let mut fields = text.split_ascii_whitespace();
    let device = fields.next().ok_or_else(|| Bad::end("a device (major,minor)"))?;
    if device.starts_with("CPU") || device == "Total" {
        return Ok(Parsed::End);
    }
    if text.starts_with("Input file ") {
        return Ok(Parsed::Header);
    }
    let numbers = device.split_once(',');
    if !numbers.is_some_and(|(a, b)| [a, b].iter().all(|n| number32(Some(n), "").is_ok())) {
        return Err(Bad::new("a device (major,minor)", device));
    }
    number32(fields.next(), "the number of a CPU")?;
    number(fields.next(), "a sequence number")?;
    let at = time(fields.next(), 1_000_000_000, "a time in seconds")?;
    let thread = number32(fields.next(), "a process id")?;
    let action = fields.next().ok_or_else(|| Bad::end("an action (Q, D, C, ...)"))?;
    if action != wanted.letter() {
        // Messages (m) have text in place of RWBS.
        let known = action.len() <= 2 && action.bytes().all(|b| b.is_ascii_alphabetic());
        let expected = "an action (Q, D, C, ...)";
        return if known { Ok(Parsed::Skipped) } else { Err(Bad::new(expected, action)) };
    }
    let word = fields.next().ok_or_else(|| Bad::end("RWBS"))?;
    let (kind, flags) = rwbs(word).ok_or_else(|| Bad::new("RWBS, such as WS or FWFS", word))?;
    let (sector, sectors) = extent(fields.next(), fields.next(), fields.next())?;
    let event = match kind {
        Some(Kind::Flush) => Event::new(Kind::Flush, 0, 0),
        _ if sectors == 0 && flags.preflush => Event::new(Kind::Flush, 0, 0),
        // Commands that are passed through carry no sectors.
        Some(_) if sectors == 0 => return Ok(Parsed::Skipped),
        Some(kind) => Event { flags, ..request(kind, sector, sectors, SECTOR)? },
        None => return Ok(Parsed::Skipped),
    };
    let device = Some(devices.index(device)?);
    Ok(Parsed::Event(Event { time: Some(at), device, thread: Some(thread), ..event }))
}

/// `SECTOR + SECTORS`, or a form without sectors: `[PROCESS]`, `SECTOR [ERROR]`, `BYTES (COMMAND)`.
fn extent(a: Option<&str>, b: Option<&str>, c: Option<&str>) -> Result<(u64, u64), Bad> {
    let bracket = |field: Option<&str>| field.is_none_or(|f| f.starts_with(['[', '(']));
    match (a, b) {
        (a, _) if bracket(a) => Ok((0, 0)),
        (a, Some("+")) => Ok((number(a, "a sector")?, number(c, "a number of sectors")?)),
        (a, b) if bracket(b) => number(a, "a sector").map(|sector| (sector, 0)),
        (_, b) => Err(Bad::new("sector + sectors", b.unwrap_or_default())),
    }
}

/// Parses a RWBS field. The kind is `None` for a request without data (N) or an operation on zones.
fn rwbs(word: &str) -> Option<(Option<Kind>, Flags)> {
    let mut flags = Flags::default();
    let mut letters = word.bytes().peekable();
    let mut first = letters.next()?;
    if first == b'F' && letters.peek().is_some_and(|l| b"WRDNFZ".contains(l)) {
        flags.preflush = true;
        first = letters.next()?;
    }
    let kind = match first {
        b'R' => Some(Kind::Read),
        b'W' => Some(Kind::Write),
        b'D' => Some(Kind::Discard),
        b'F' => Some(Kind::Flush),
        b'N' => None,
        // The following letters of zone operations have other meanings.
        b'Z' => return Some((None, flags)),
        _ => return None,
    };
    if letters.next_if_eq(&b'F').is_some() {
        flags.fua = true;
    }
    for letter in letters {
        match letter {
            b'M' => flags.metadata = true,
            // Kernels before 2.6.37: a barrier, which is both flush and FUA.
            b'B' => (flags.preflush, flags.fua) = (true, true),
            b'A' | b'S' | b'E' | b'U' => {}
            _ => return None,
        }
    }
    Some((kind, flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rwbs_is_read_from_its_places() {
        let f = |preflush, fua, metadata| Flags { preflush, fua, metadata };
        let cases = [
            ("R", Some(Kind::Read), f(false, false, false)),
            ("RAM", Some(Kind::Read), f(false, false, true)),
            ("WS", Some(Kind::Write), f(false, false, false)),
            ("WFSM", Some(Kind::Write), f(false, true, true)),
            ("FWS", Some(Kind::Write), f(true, false, false)),
            ("FWFS", Some(Kind::Write), f(true, true, false)),
            ("WB", Some(Kind::Write), f(true, true, false)),
            ("DE", Some(Kind::Discard), f(false, false, false)),
            ("F", Some(Kind::Flush), f(false, false, false)),
            ("FF", Some(Kind::Flush), f(true, false, false)),
            ("FN", None, f(true, false, false)),
            ("N", None, f(false, false, false)),
            ("ZR", None, f(false, false, false)),
        ];
        for (word, kind, flags) in cases {
            assert_eq!(rwbs(word), Some((kind, flags)), "{word}");
        }
        for word in ["", "X", "WX", "WFF", "+"] {
            assert_eq!(rwbs(word), None, "{word}");
        }
    }
}
