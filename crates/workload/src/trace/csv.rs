//! Published traces with one request per line: MSR-Cambridge, SPC, SYSTOR '17, and DiskSim's ASCII
//! input.

use super::error::Bad;
use super::fields::{Devices, SECTOR, number, request, time};
use super::lines::Parsed;
use super::{Event, Kind};

const SECONDS: u64 = 1_000_000_000;
const MILLISECONDS: u64 = 1_000_000;
/// The unit of a Windows file time.
const FILETIME: u64 = 100;

/// MSR-Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times
/// in units of 100 ns since 1601, the rest in bytes.
pub(super) fn msr(text: &str, first: bool, devices: &mut Devices) -> Result<Parsed, Bad> {
    if first && text.starts_with("Timestamp,Hostname,") {
        return Ok(Parsed::Header);
    }
    let mut fields = text.split(',');
    let at = time(fields.next(), FILETIME, "a time in units of 100 ns")?;
    let host = fields.next().ok_or_else(|| Bad::end("a host name"))?;
    let disk = fields.next().ok_or_else(|| Bad::end("a disk number"))?;
    number(Some(disk), "a disk number")?;
    let kind = match fields.next().map(str::trim) {
        Some("Read") => Kind::Read,
        Some("Write") => Kind::Write,
        Some(other) => return Err(Bad::new("Read or Write", other)),
        None => return Err(Bad::end("Read or Write")),
    };
    let offset = number(fields.next(), "an offset in bytes")?;
    let size = number(fields.next(), "a size in bytes")?;
    number(fields.next(), "a response time in units of 100 ns")?;
    if let Some(more) = fields.next() {
        return Err(Bad::new("seven fields", more));
    }
    // The device's name is both fields as in the line, with the comma.
    let start = text.find(',').map_or(0, |comma| comma + 1);
    let name = text.get(start..start + host.len() + 1 + disk.len()).unwrap_or(host);
    let device = Some(devices.index(name)?);
    let event = request(kind, offset, size, 1)?;
    Ok(Parsed::Event(Event { time: Some(at), device, ..event }))
}

/// SPC: `ASU,LBA,Size,Opcode,Timestamp[,...]`, addresses in blocks of 512 bytes, sizes in bytes,
/// times in seconds. Further fields are ignored.
pub(super) fn spc(text: &str, devices: &mut Devices) -> Result<Parsed, Bad> {
    let mut fields = text.split(',');
    let unit = fields.next().unwrap_or_default().trim();
    number(Some(unit), "the number of an application storage unit")?;
    let block = number(fields.next(), "an address in blocks of 512 bytes")?;
    let size = number(fields.next(), "a size in bytes")?;
    let kind = match fields.next().map(str::trim) {
        Some("r" | "R") => Kind::Read,
        Some("w" | "W") => Kind::Write,
        Some(other) => return Err(Bad::new("r or w", other)),
        None => return Err(Bad::end("r or w")),
    };
    let at = time(fields.next(), SECONDS, "a time in seconds")?;
    let fits = "an address below 2^64 bytes";
    let offset = block.checked_mul(SECTOR).ok_or_else(|| Bad::new(fits, &block.to_string()))?;
    let event = request(kind, offset, size, 1)?;
    let device = Some(devices.index(unit)?);
    Ok(Parsed::Event(Event { time: Some(at), device, ..event }))
}

/// SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size`, times in seconds, the rest in bytes.
/// The type is empty if the recording missed the response. Such a line is skipped.
pub(super) fn systor(text: &str, first: bool, devices: &mut Devices) -> Result<Parsed, Bad> {
    if first && text.starts_with("Timestamp,Response,") {
        return Ok(Parsed::Header);
    }
    let mut fields = text.split(',');
    let at = time(fields.next(), SECONDS, "a time in seconds")?;
    let response = fields.next().ok_or_else(|| Bad::end("a response time"))?.trim();
    // Without a response its time is empty. Negative response times occur, since the clocks of a
    // mirrored port differ.
    if !response.is_empty() {
        let length = response.strip_prefix('-').unwrap_or(response);
        time(Some(length), SECONDS, "a response time in seconds")?;
    }
    let kind = match fields.next().map(str::trim) {
        Some("R") => Some(Kind::Read),
        Some("W") => Some(Kind::Write),
        Some("") => None,
        Some(other) => return Err(Bad::new("R, W or nothing", other)),
        None => return Err(Bad::end("R, W or nothing")),
    };
    let lun = fields.next().unwrap_or_default().trim();
    number(Some(lun), "the number of a LUN")?;
    let offset = number(fields.next(), "an offset in bytes")?;
    let size = number(fields.next(), "a size in bytes")?;
    if let Some(more) = fields.next() {
        return Err(Bad::new("six fields", more));
    }
    let Some(kind) = kind else { return Ok(Parsed::Skipped) };
    let event = request(kind, offset, size, 1)?;
    let device = Some(devices.index(lun)?);
    Ok(Parsed::Event(Event { time: Some(at), device, ..event }))
}

/// DiskSim's ASCII input: `TIME DEVICE BLOCK BLOCKS FLAGS`, time in milliseconds, blocks of 512
/// bytes, flags hexadecimal. The lowest flag marks a read.
pub(super) fn disksim(text: &str, devices: &mut Devices) -> Result<Parsed, Bad> {
    let mut fields = text.split_ascii_whitespace();
    let at = time(fields.next(), MILLISECONDS, "a time in milliseconds")?;
    let device = fields.next().unwrap_or_default();
    number(Some(device), "the number of a device")?;
    let block = number(fields.next(), "a block of 512 bytes")?;
    let blocks = number(fields.next(), "a number of blocks")?;
    let flags = fields.next().ok_or_else(|| Bad::end("hexadecimal flags"))?;
    let digits = flags.strip_prefix("0x").unwrap_or(flags);
    // `from_str_radix` would accept a sign.
    let hexadecimal = digits.bytes().all(|b| b.is_ascii_hexdigit());
    let bits = u32::from_str_radix(digits, 16).ok().filter(|_| hexadecimal);
    let bits = bits.ok_or_else(|| Bad::new("hexadecimal flags", flags))?;
    if let Some(more) = fields.next() {
        return Err(Bad::new("five fields", more));
    }
    let kind = if bits & 1 == 1 { Kind::Read } else { Kind::Write };
    let event = request(kind, block, blocks, SECTOR)?;
    let device = Some(devices.index(device)?);
    Ok(Parsed::Event(Event { time: Some(at), device, ..event }))
}
