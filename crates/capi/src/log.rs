//! Flash logs on files and block devices: `tantalum_log`, which many threads share.
//!
//! 1. Records are copied during the call of whoever appends them; a record that was read is the
//!    reader's until its next call.
//! 2. The descriptor of a log is made at the first call that asks for it, and closed with the log.
//! 3. A log that is freed and was not closed ends as if the power had gone.

use crate::abi::*;
use crate::error::{Failure, boundary};
use crate::open::text;
use crate::record::{put, room, take};
use ::tantalum_log::{
    Appended, BlockingError, BlockingLog, BlockingOptions, BlockingRecords, CreateOptions,
    DeviceHealth, LogError, Lsn, OneCopy, OpenError, Record, WhenFull,
};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use std::ffi::{CString, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tantalum_device::SampledModel;
use tantalum_device::presets::SAMPLED;
use tantalum_rt::Nanos;

/// Devices of a log and pieces of a record, at most: more are a mistake.
const DEVICES_MAX: usize = 256;
const PIECES_MAX: usize = 1 << 20;

/// An open log.
#[allow(non_camel_case_types)]
pub struct tantalum_log {
    log: BlockingLog,
    /// Readable when the durable LSN has moved (2).
    moved: Mutex<Option<Arc<OwnedFd>>>,
}

/// Records on their way to a caller.
#[allow(non_camel_case_types)]
pub struct tantalum_log_reader {
    records: BlockingRecords,
    /// The one that the caller has.
    record: Option<Record>,
}

/// Bytes that one device has alone, on their way to a caller.
#[allow(non_camel_case_types)]
pub struct tantalum_log_parts {
    all: Vec<Part>,
    /// The one that comes next.
    next: usize,
}

/// A [`OneCopy`], with names for C.
struct Part {
    lsn: Lsn,
    end: Lsn,
    on: CString,
    place: Option<(CString, u64)>,
}

impl From<LogError> for Failure {
    fn from(e: LogError) -> Failure {
        let code = match &e {
            LogError::ReadOnly => TANTALUM_EREADONLY,
            LogError::RecordTooLong { .. } => TANTALUM_ETOOLARGE,
            LogError::Full { .. } => TANTALUM_ENOSPC,
            LogError::Damaged(_) => TANTALUM_EMEDIUM,
            LogError::Io { error, .. } => Failure::from(error.clone()).code,
            LogError::BeforeFirst { .. }
            | LogError::NotDurable { .. }
            | LogError::NoRecord { .. }
            | LogError::Replace(_) => TANTALUM_EINVAL,
            LogError::Failed(_) | LogError::Unanswered { .. } => TANTALUM_ELOG,
        };
        Failure::new(code, e.to_string())
    }
}

impl From<BlockingError> for Failure {
    fn from(e: BlockingError) -> Failure {
        let code = match &e {
            BlockingError::Log(e) => return e.clone().into(),
            BlockingError::Open(OpenError::Damaged(_)) => TANTALUM_EMEDIUM,
            BlockingError::Panicked(_) => TANTALUM_EINTERNAL,
            _ => TANTALUM_ELOG,
        };
        Failure::new(code, e.to_string())
    }
}

/// # Safety
/// `log` is null or open, for as long as `'a`.
unsafe fn of<'a>(log: *const tantalum_log) -> Result<&'a tantalum_log, Failure> {
    // SAFETY: the caller guarantees it.
    unsafe { log.as_ref() }.ok_or_else(|| Failure::invalid("the log is null"))
}

/// # Safety
/// `devices` has `count` strings of C.
unsafe fn paths<'a>(devices: *const *const c_char, count: usize) -> Result<Vec<&'a Path>, Failure> {
    if devices.is_null() || count == 0 {
        return Err(Failure::invalid("a log has at least one device"));
    }
    if count > DEVICES_MAX {
        return Err(Failure::invalid(format!("a log has {DEVICES_MAX} devices at most")));
    }
    let one = |i| {
        // SAFETY: one of the caller's strings.
        let path = unsafe { text(devices.add(i).read_unaligned(), "the path of a device") }?;
        path.map(Path::new).ok_or_else(|| Failure::invalid("the path of a device is null"))
    };
    (0..count).map(one).collect()
}

/// The caller's bytes.
///
/// # Safety
/// `data` has `bytes` bytes, for as long as `'a`.
unsafe fn bytes<'a>(data: *const c_void, bytes: u64) -> Result<&'a [u8], Failure> {
    let length = usize::try_from(bytes).ok().filter(|n| *n <= isize::MAX as usize);
    match length {
        Some(0) => Ok(&[]),
        Some(_) if data.is_null() => Err(Failure::invalid("the record is null")),
        // SAFETY: the caller guarantees it.
        Some(length) => Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) }),
        None => Err(Failure::invalid("a record cannot have so many bytes")),
    }
}

/// # Safety
/// `pieces` has `count` pieces, each with its bytes, for as long as `'a`.
unsafe fn all_bytes<'a>(
    pieces: *const tantalum_piece,
    count: usize,
) -> Result<Vec<&'a [u8]>, Failure> {
    if count > PIECES_MAX {
        return Err(Failure::invalid(format!("a record has {PIECES_MAX} pieces at most")));
    }
    if pieces.is_null() && count > 0 {
        return Err(Failure::invalid("the pieces are null"));
    }
    let one = |i| {
        // SAFETY: one of the caller's pieces.
        let piece = unsafe { pieces.add(i).read_unaligned() };
        // SAFETY: the caller guarantees it.
        unsafe { bytes(piece.data, piece.bytes) }
    };
    (0..count).map(one).collect()
}

/// # Safety
/// `out` is null or room for a number.
unsafe fn tell(out: *mut u64, value: u64) {
    if !out.is_null() {
        // SAFETY: the caller's room.
        unsafe { out.write_unaligned(value) };
    }
}

/// # Safety
/// `lsn` and `end` are null or room for a number.
unsafe fn appended(
    lsn: *mut u64,
    end: *mut u64,
    append: impl FnOnce() -> Result<Appended, Failure>,
) -> c_int {
    boundary(|| {
        let at = append()?;
        // SAFETY: the caller guarantees it.
        unsafe {
            tell(lsn, at.lsn.0);
            tell(end, at.end.0);
        }
        Ok(())
    })
}

fn number(value: u64, what: &str) -> Result<u32, Failure> {
    u32::try_from(value).map_err(|_| Failure::invalid(format!("{what}: {value} is too much")))
}

fn create_options(o: &tantalum_log_create_options) -> Result<CreateOptions, Failure> {
    let default = CreateOptions::default();
    let (unit, limit) = (number(o.unit, "unit")?, number(o.record_limit, "record_limit")?);
    let small = |value: u64, what: &str| {
        let value = value.max(1);
        u16::try_from(value).map_err(|_| Failure::invalid(format!("{what}: {value} is too much")))
    };
    Ok(CreateOptions {
        copies: small(o.copies, "copies")?.min(255) as u8,
        partitions: small(o.partitions, "partitions")?,
        unit: (unit > 0).then_some(unit),
        section_bytes: (o.section_bytes > 0).then_some(o.section_bytes),
        record_limit: (limit > 0).then_some(limit),
        force: o.force != 0,
        ..default
    })
}

/// How a log on these devices is used.
///
/// # Safety
/// `o.latencies` is null, or has a string of C or null for each device.
unsafe fn options(o: &tantalum_log_options, devices: &[&Path]) -> Result<BlockingOptions, Failure> {
    let mut options = BlockingOptions::default();
    let open = &mut options.open;
    for (i, device) in devices.iter().enumerate().filter(|_| !o.latencies.is_null()) {
        // SAFETY: one of the caller's strings.
        let preset = unsafe { text(o.latencies.add(i).read_unaligned(), "latencies") }?;
        if let Some(preset) = preset {
            open.latencies.push((device.display().to_string(), latencies(preset)?));
        }
    }
    let expected = |value: u64, what: &str| {
        let wrong = |_| Failure::invalid(format!("{what}: a log never has {value}"));
        u16::try_from(value).map(|value| Some(value).filter(|v| *v > 0)).map_err(wrong)
    };
    let copies = expected(o.expect_copies, "expect_copies")?;
    open.expects.copies = copies.map(|copies| copies.min(255) as u8);
    open.expects.partitions = expected(o.expect_partitions, "expect_partitions")?;
    if o.memory > 0 {
        open.memory = usize::try_from(o.memory).unwrap_or(usize::MAX);
    }
    if o.group_bytes > 0 {
        open.group_bytes = o.group_bytes;
    }
    if o.stall_ns > 0 {
        open.stall = Nanos(o.stall_ns);
    }
    if o.fail_when_full != 0 {
        open.when_full = WhenFull::Fail;
    }
    open.read_only = o.read_only != 0;
    open.salvage = o.salvage != 0;
    open.degraded = o.degraded != 0;
    open.hedge.enabled &= o.no_hedging == 0;
    options.file.buffered = o.buffered != 0;
    Ok(options)
}

/// How long the writes of a device take, as a preset says: one of the library, or a file.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the caller names")]
fn latencies(preset: &str) -> Result<SampledModel, Failure> {
    let invalid = |why: String| Failure::invalid(format!("latencies: {preset}{why}"));
    let known = SAMPLED.iter().find(|(name, _)| *name == preset);
    let read = match known {
        Some((_, text)) => text.to_string(),
        None if preset.ends_with(".toml") => std::fs::read_to_string(preset).map_err(|e| {
            invalid(format!(": {e}: name a file that `tantalum log calibrate` wrote"))
        })?,
        None => {
            let known: Vec<_> = SAMPLED.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            return Err(invalid(format!(": there is no such preset: use {known} or FILE.toml")));
        }
    };
    let model: SampledModel = toml::from_str(&read).map_err(|e| {
        let line = e.span().map(|at| read[..at.start].matches('\n').count() + 1);
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        invalid(format!("{line}: {}", e.message().replace('\n', ", ")))
    })?;
    model.check().map_err(|fault| invalid(format!(": {fault}")))?;
    Ok(model)
}

/// Files that were made for a log; dropped, it removes them.
#[derive(Default)]
struct Made<'a>(Vec<&'a Path>);

impl Drop for Made<'_> {
    #[allow(clippy::disallowed_methods, reason = "the edge: the files that this made")]
    fn drop(&mut self) {
        for path in &self.0 {
            // Whoever took it away meanwhile wanted the same.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Makes a log. See the header.
///
/// # Safety
/// `devices` has `count` strings of C; `archive` is null or a string of C; `create` points to a
/// structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_create(
    devices: *const *const c_char,
    count: usize,
    archive: *const c_char,
    create: *const tantalum_log_create_options,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let o = unsafe { take(create) }?;
        // SAFETY: the caller guarantees it.
        let (devices, archive) = unsafe { (paths(devices, count)?, text(archive, "the archive")?) };
        let (create, archive) = (create_options(&o)?, archive.map(Path::new));
        let mut used = BlockingOptions::default();
        used.file.buffered = o.buffered != 0;
        let mut made = Made::default();
        if o.file_bytes > 0 {
            for path in devices.iter().copied().chain(archive).filter(|path| !path.exists()) {
                BlockingLog::make_file(path, o.file_bytes, &used)?;
                made.0.push(path);
            }
        }
        BlockingLog::create(&devices, archive, &create, &used)?;
        made.0.clear();
        Ok(())
    })
}

/// Opens a log. See the header.
///
/// # Safety
/// `devices` has `count` strings of C; `how` points to a structure with a correct size field, whose
/// `latencies` are null or `count` strings of C or nulls; `log` to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_open(
    devices: *const *const c_char,
    count: usize,
    how: *const tantalum_log_options,
    log: *mut *mut tantalum_log,
) -> c_int {
    boundary(|| {
        if log.is_null() {
            return Err(Failure::invalid("there is no room for the log"));
        }
        // SAFETY: the caller's room for a pointer.
        unsafe { log.write(std::ptr::null_mut()) };
        // SAFETY: the caller guarantees it.
        let (devices, how) = unsafe { (paths(devices, count)?, take(how)?) };
        // SAFETY: as before.
        let options = unsafe { options(&how, &devices) }?;
        let opened = BlockingLog::open(&devices, options)?;
        let handle = Box::new(tantalum_log { log: opened, moved: Mutex::default() });
        // SAFETY: as before.
        unsafe { log.write(Box::into_raw(handle)) };
        Ok(())
    })
}

/// Appends a record. See the header.
///
/// # Safety
/// `log` is null or open; `data` has `length` bytes; `lsn` and `end` are null or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_append(
    log: *const tantalum_log,
    data: *const c_void,
    length: u64,
    lsn: *mut u64,
    end: *mut u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { appended(lsn, end, || Ok(of(log)?.log.append(bytes(data, length)?)?)) }
}

/// Appends a record and waits until it is durable. See the header.
///
/// # Safety
/// As [`tantalum_log_append`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_commit(
    log: *const tantalum_log,
    data: *const c_void,
    length: u64,
    lsn: *mut u64,
    end: *mut u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { appended(lsn, end, || Ok(of(log)?.log.commit(bytes(data, length)?)?)) }
}

/// Appends a record of several pieces. See the header.
///
/// # Safety
/// `log` is null or open; `pieces` has `count` pieces; `lsn` and `end` are null or room for a
/// number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_append_pieces(
    log: *const tantalum_log,
    pieces: *const tantalum_piece,
    count: usize,
    lsn: *mut u64,
    end: *mut u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { appended(lsn, end, || Ok(of(log)?.log.append_pieces(&all_bytes(pieces, count)?)?)) }
}

/// Appends a record of several pieces and waits until it is durable. See the header.
///
/// # Safety
/// As [`tantalum_log_append_pieces`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_commit_pieces(
    log: *const tantalum_log,
    pieces: *const tantalum_piece,
    count: usize,
    lsn: *mut u64,
    end: *mut u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { appended(lsn, end, || Ok(of(log)?.log.commit_pieces(&all_bytes(pieces, count)?)?)) }
}

/// Waits until everything before `lsn` is durable.
///
/// # Safety
/// `log` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_wait_durable(log: *const tantalum_log, lsn: u64) -> c_int {
    // SAFETY: the caller guarantees it.
    boundary(|| Ok(unsafe { of(log) }?.log.wait_durable(Lsn(lsn))?))
}

/// Waits until everything appended is durable.
///
/// # Safety
/// `log` is null or open; `end` is null or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_flush(log: *const tantalum_log, end: *mut u64) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let flushed = unsafe { of(log) }?.log.flush()?;
        // SAFETY: the caller guarantees it.
        unsafe { tell(end, flushed.0) };
        Ok(())
    })
}

/// What is durable, and where the log ends.
///
/// # Safety
/// `log` is null or open; `durable` and `end` are null or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_ends(
    log: *const tantalum_log,
    durable: *mut u64,
    end: *mut u64,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let log = &unsafe { of(log) }?.log;
        // SAFETY: the caller guarantees it.
        unsafe {
            tell(durable, log.durable().0);
            tell(end, log.end().0);
        }
        Ok(())
    })
}

/// A descriptor that tells when more is durable. See the header.
///
/// # Safety
/// `log` is null or open; `fd` is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_fd(log: *const tantalum_log, fd: *mut c_int) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let log = unsafe { of(log) }?;
        if fd.is_null() {
            return Err(Failure::invalid("there is no room for the descriptor"));
        }
        let mut moved = log.moved.lock().unwrap_or_else(|e| e.into_inner());
        if moved.is_none() {
            // It begins readable: the caller looks once, and has missed nothing.
            let made = eventfd(1, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
            let made = made.map_err(|e| Failure::new(TANTALUM_ENOMEM, e.to_string()))?;
            let made = Arc::new(made);
            let mine = made.clone();
            log.log.subscribe(move |_| {
                // It fails only at a count that nobody reaches, and is readable then.
                let _ = rustix::io::write(&*mine, &1u64.to_ne_bytes());
                ControlFlow::Continue(())
            })?;
            *moved = Some(made);
        }
        let number = moved.as_ref().map_or(-1, |made| made.as_raw_fd());
        // SAFETY: the caller's room.
        unsafe { fd.write_unaligned(number) };
        Ok(())
    })
}

/// Moves the checkpoint. See the header.
///
/// # Safety
/// `log` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_checkpoint(
    log: *const tantalum_log,
    lsn: u64,
    number: u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    boundary(|| Ok(unsafe { of(log) }?.log.checkpoint(Lsn(lsn), number)?))
}

/// Waits until the checkpoint should move. See the header.
///
/// # Safety
/// `log` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_nearly_full(log: *const tantalum_log, percent: u64) -> c_int {
    // SAFETY: the caller guarantees it.
    boundary(|| Ok(unsafe { of(log) }?.log.nearly_full(percent)?))
}

/// Puts another device in the place of a lost one. See the header.
///
/// # Safety
/// `log` is null or open; `lost` is null or a string of C, and so is `device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_replace(
    log: *const tantalum_log,
    lost: *const c_char,
    device: *const c_char,
    force: c_int,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let log = &unsafe { of(log) }?.log;
        // SAFETY: the caller guarantees it.
        let (lost, new) = unsafe { (text(lost, "the lost device")?, text(device, "the device")?) };
        let new = new.ok_or_else(|| Failure::invalid("the path of the device is null"))?;
        let index = lost_index(log, lost)?;
        Ok(log.replace(index, Path::new(new), force != 0)?)
    })
}

/// The index of the device that is called so, or of the one that is lost.
fn lost_index(log: &BlockingLog, named: Option<&str>) -> Result<usize, Failure> {
    let devices = log.stats()?.devices;
    let mut all = devices.iter();
    let Some(name) = named else {
        let lost = all.position(|d| d.health == DeviceHealth::Failed);
        return lost.ok_or_else(|| Failure::invalid("no device of the log is lost"));
    };
    all.position(|d| d.name == name).ok_or_else(|| {
        Failure::invalid(format!(
            "\"{name}\" was no device of the log when it was opened: null stands for the one that is lost"
        ))
    })
}

/// What the log has done, and how it is.
///
/// # Safety
/// `log` is null or open; `stats` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_get_stats(
    log: *const tantalum_log,
    stats: *mut tantalum_log_stats,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let s = unsafe { of(log) }?.log.stats()?;
        let present = s.devices.iter().filter(|d| d.health == DeviceHealth::Present).count();
        let record = tantalum_log_stats {
            first: s.first.0,
            checkpoint_number: s.checkpoint_number,
            durable: s.durable.0,
            end: s.end.0,
            epoch: s.epoch.into(),
            records: s.records,
            record_bytes: s.record_bytes,
            groups: s.groups,
            group_bytes: s.group_bytes,
            array_bytes: s.array_bytes,
            width: s.width as u64,
            slow: s.slow,
            hedges: s.hedges,
            hedges_won: s.hedges_won,
            stalls: s.stalls,
            restarts: s.restarts,
            archive_writes: s.archive_writes,
            room: s.room,
            sections_used: s.sections_used,
            sections: s.sections,
            degraded: s.degraded.into(),
            devices: s.devices.len() as u64,
            devices_present: present as u64,
            ..Default::default()
        };
        // SAFETY: the caller guarantees it.
        unsafe { put(stats, &record) }
    })
}

/// Begins to read. See the header.
///
/// # Safety
/// `log` is null or open; `reader` is null or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_read(
    log: *const tantalum_log,
    from: u64,
    reader: *mut *mut tantalum_log_reader,
) -> c_int {
    boundary(|| {
        if reader.is_null() {
            return Err(Failure::invalid("there is no room for the reader"));
        }
        // SAFETY: the caller's room for a pointer.
        unsafe { reader.write(std::ptr::null_mut()) };
        // SAFETY: the caller guarantees it.
        let records = unsafe { of(log) }?.log.read(Lsn(from))?;
        let made = Box::new(tantalum_log_reader { records, record: None });
        // SAFETY: as before.
        unsafe { reader.write(Box::into_raw(made)) };
        Ok(())
    })
}

/// The next record. See the header.
///
/// # Safety
/// `reader` is null or open, and used by this thread alone; `record` points to a structure with a
/// correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_next(
    reader: *mut tantalum_log_reader,
    record: *mut tantalum_log_record,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let reader = unsafe { reader.as_mut() };
        let reader = reader.ok_or_else(|| Failure::invalid("the reader is null"))?;
        // SAFETY: the caller guarantees it.
        unsafe { room(record) }?;
        reader.record = reader.records.next().transpose()?;
        let found = match &reader.record {
            None => tantalum_log_record::default(),
            Some(found) => tantalum_log_record {
                found: 1,
                lsn: found.lsn.0,
                end: found.end.0,
                data: found.bytes.as_ptr().cast(),
                bytes: found.bytes.len() as u64,
                ..Default::default()
            },
        };
        // SAFETY: the caller guarantees it.
        unsafe { put(record, &found) }
    })
}

/// Ends a reader.
///
/// # Safety
/// `reader` is null, or open and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_read_end(reader: *mut tantalum_log_reader) {
    boundary(|| {
        if !reader.is_null() {
            // SAFETY: made by `tantalum_log_read`, and the caller no longer uses it.
            drop(unsafe { Box::from_raw(reader) });
        }
        Ok(())
    });
}

/// Which bytes have one copy. See the header.
///
/// # Safety
/// `log` is null or open; `parts` is null or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_one_copy(
    log: *const tantalum_log,
    parts: *mut *mut tantalum_log_parts,
) -> c_int {
    boundary(|| {
        if parts.is_null() {
            return Err(Failure::invalid("there is no room for the parts"));
        }
        // SAFETY: the caller's room for a pointer.
        unsafe { parts.write(std::ptr::null_mut()) };
        // SAFETY: the caller guarantees it.
        let found = unsafe { of(log) }?.log.one_copy()?;
        let name = |text: String| CString::new(text).unwrap_or_default();
        let part = |OneCopy { lsn, end, on, place }| Part {
            lsn,
            end,
            on: name(on),
            place: place.map(|(device, offset)| (name(device), offset)),
        };
        let all = found.into_iter().map(part).collect();
        // SAFETY: as before.
        unsafe { parts.write(Box::into_raw(Box::new(tantalum_log_parts { all, next: 0 }))) };
        Ok(())
    })
}

/// The next part. See the header.
///
/// # Safety
/// `parts` is null or open, and used by this thread alone; `part` points to a structure with a
/// correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_next_part(
    parts: *mut tantalum_log_parts,
    part: *mut tantalum_log_part,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let parts = unsafe { parts.as_mut() };
        let parts = parts.ok_or_else(|| Failure::invalid("the parts are null"))?;
        let found = match parts.all.get(parts.next) {
            None => tantalum_log_part::default(),
            Some(next) => tantalum_log_part {
                found: 1,
                lsn: next.lsn.0,
                end: next.end.0,
                on: next.on.as_ptr(),
                damaged: next.place.as_ref().map_or(std::ptr::null(), |(on, _)| on.as_ptr()),
                offset: next.place.as_ref().map_or(0, |(_, offset)| *offset),
                ..Default::default()
            },
        };
        // SAFETY: the caller guarantees it.
        unsafe { put(part, &found) }?;
        parts.next += 1;
        Ok(())
    })
}

/// Ends the parts.
///
/// # Safety
/// `parts` is null, or open and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_parts_end(parts: *mut tantalum_log_parts) {
    boundary(|| {
        if !parts.is_null() {
            // SAFETY: made by `tantalum_log_one_copy`, and the caller no longer uses it.
            drop(unsafe { Box::from_raw(parts) });
        }
        Ok(())
    });
}

/// Ends a log. See the header.
///
/// # Safety
/// `log` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_close(log: *const tantalum_log) -> c_int {
    // SAFETY: the caller guarantees it.
    boundary(|| Ok(unsafe { of(log) }?.log.close()?))
}

/// Frees a log. See the header.
///
/// # Safety
/// `log` is null, or open and not in use by any other call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_log_free(log: *mut tantalum_log) {
    boundary(|| {
        if !log.is_null() {
            // SAFETY: made by `tantalum_log_open`, and the caller no longer uses it.
            drop(unsafe { Box::from_raw(log) });
        }
        Ok(())
    });
}
