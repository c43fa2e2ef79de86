//! The directory of a cache in memory of the caller's, which processes may share.
//!
//! 1. A handle is for the process that made it: the process is the owner of what it stages.
//! 2. Numbers from C are checked before the directory sees them: no frame beyond the ring.
//! 3. What a call tells has room before the call does anything.

use crate::abi::*;
use crate::error::{Failure, boundary};
use crate::record::{put, room, room_or_null, stride, take};
use ::tantalum_cache::directory::{
    AttachError, Batch, BatchError, Directory, Entry, Fate, Found, Front, FrontError, Processes,
    Region, ReleaseError, Replacement, ReserveError, Shape, ShapeError, Since, StageError, Staged,
    Version,
};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A directory, as this process works on it.
#[allow(non_camel_case_types)]
pub struct tantalum_directory {
    directory: Directory,
}

macro_rules! codes {
    ($($error:ty: $e:ident => $code:expr;)*) => { $(
        impl From<$error> for Failure {
            fn from($e: $error) -> Failure {
                Failure::new($code, $e.to_string())
            }
        }
    )* };
}

codes! {
    ShapeError: e => TANTALUM_EINVAL;
    AttachError: e => match &e {
        AttachError::TooSmall { .. } => TANTALUM_ENOSPC,
        AttachError::Misaligned | AttachError::Shape(_) | AttachError::First(_) => TANTALUM_EINVAL,
        _ => TANTALUM_ECACHE,
    };
    ReserveError: e => TANTALUM_ENOSPC;
    StageError: e => match e {
        StageError::Full => TANTALUM_ENOSPC,
        StageError::Older { .. } | StageError::Closed => TANTALUM_EINVAL,
    };
    BatchError: e => TANTALUM_EINVAL;
    FrontError: e => match e {
        FrontError::Empty => TANTALUM_EINVAL,
        FrontError::Unsettled(_) | FrontError::Busy(_) => TANTALUM_EBUSY,
    };
    ReleaseError: e => match e {
        ReleaseError::Dirty(_) | ReleaseError::NotYours(_) => TANTALUM_EINVAL,
        ReleaseError::Waits(_) => TANTALUM_EBUSY,
    };
}

/// # Safety
/// `directory` is null or open, for as long as `'a`.
unsafe fn of<'a>(directory: *const tantalum_directory) -> Result<&'a Directory, Failure> {
    // SAFETY: the caller guarantees it.
    let directory = unsafe { directory.as_ref() };
    Ok(&directory.ok_or_else(|| Failure::invalid("the directory is null"))?.directory)
}

fn small(value: u64, what: &str) -> Result<u32, Failure> {
    u32::try_from(value).map_err(|_| Failure::invalid(format!("{what}: {value} is too much")))
}

fn shape(frames: u64, batch: u64) -> Result<Shape, Failure> {
    Ok(Shape { frames, batch: small(batch, "the frames of a batch")? })
}

/// # Safety
/// `memory` has `bytes` bytes, until no directory is on them any more.
unsafe fn region(memory: *mut c_void, bytes: u64) -> Result<Region, Failure> {
    let bytes = usize::try_from(bytes).ok().filter(|n| *n <= isize::MAX as usize);
    let bytes = bytes.ok_or_else(|| Failure::invalid("there is not so much memory"))?;
    if memory.is_null() {
        return Err(Failure::invalid("the memory is null"));
    }
    // SAFETY: the caller guarantees it.
    Ok(unsafe { Region::shared(memory.cast(), bytes) }?)
}

/// Hands a directory to the caller.
///
/// # Safety
/// `out` is null or room for a pointer.
unsafe fn hand_out(
    out: *mut *mut tantalum_directory,
    make: impl FnOnce() -> Result<Directory, Failure>,
) -> c_int {
    boundary(|| {
        if out.is_null() {
            return Err(Failure::invalid("there is no room for the directory"));
        }
        // SAFETY: the caller's room for a pointer.
        unsafe { out.write(std::ptr::null_mut()) };
        let handle = Box::new(tantalum_directory { directory: make()? });
        // SAFETY: as before.
        unsafe { out.write(Box::into_raw(handle)) };
        Ok(())
    })
}

fn me() -> Result<::tantalum_cache::directory::Owner, Failure> {
    Processes::this().map_err(|e| Failure::new(TANTALUM_ECACHE, e.to_string()))
}

fn entry_record(entry: Option<Entry>, fate: u64) -> tantalum_entry {
    match entry {
        None => tantalum_entry::default(),
        Some(e) => tantalum_entry {
            found: 1,
            page: e.page,
            lsn: e.lsn,
            checksum: e.checksum.into(),
            frame: e.frame.into(),
            lap: e.lap.into(),
            valid: e.valid.into(),
            dirty: e.dirty.into(),
            referenced: e.referenced.into(),
            durable: e.durable.into(),
            fate,
            ..Default::default()
        },
    }
}

/// An entry that the caller was given before (2).
///
/// # Safety
/// `entry` points to a structure with a correct size field.
unsafe fn entry_of(directory: &Directory, entry: *const tantalum_entry) -> Result<Entry, Failure> {
    // SAFETY: the caller guarantees it.
    let e = unsafe { take(entry) }?;
    if e.found == 0 || e.frame >= directory.shape().frames {
        return Err(Failure::invalid("this is no entry of the directory"));
    }
    Ok(Entry {
        page: e.page,
        lsn: e.lsn,
        checksum: small(e.checksum, "the checksum")?,
        frame: small(e.frame, "the frame")?,
        lap: small(e.lap, "the lap")?,
        valid: e.valid != 0,
        dirty: e.dirty != 0,
        referenced: e.referenced != 0,
        durable: e.durable != 0,
    })
}

fn batch_record(directory: &Directory, found: Option<(u64, u32)>) -> tantalum_batch {
    match found {
        None => tantalum_batch::default(),
        Some((seq, first_frame)) => tantalum_batch {
            found: 1,
            seq,
            first_frame: first_frame.into(),
            frames: directory.shape().batch.into(),
            ..Default::default()
        },
    }
}

/// # Safety
/// `batch` points to a structure with a correct size field.
unsafe fn batch_of(batch: *const tantalum_batch) -> Result<Batch, Failure> {
    // SAFETY: the caller guarantees it.
    let b = unsafe { take(batch) }?;
    if b.found == 0 || b.seq >= 1 << 48 {
        return Err(Failure::invalid("this is no batch of the directory"));
    }
    Ok(Batch { seq: b.seq, first_frame: small(b.first_frame, "the first frame")? })
}

/// # Safety
/// `batch` points to a structure with a correct size field.
unsafe fn front_of(batch: *const tantalum_batch) -> Result<Front, Failure> {
    // SAFETY: the caller guarantees it.
    let Batch { seq, first_frame } = unsafe { batch_of(batch) }?;
    Ok(Front { seq, first_frame })
}

fn version_of(v: &tantalum_page_version) -> Result<Version, Failure> {
    let checksum = small(v.checksum, "the checksum")?;
    Ok(Version { page: v.page, lsn: v.lsn, checksum, dirty: v.dirty != 0 })
}

/// # Safety
/// `out` is null or points to a structure with a correct size field.
unsafe fn tell_staged(out: *mut tantalum_staged, staged: Option<Staged>) -> Result<(), Failure> {
    if out.is_null() {
        return Ok(());
    }
    let record = match staged {
        None => tantalum_staged::default(),
        Some(s) => tantalum_staged {
            found: 1,
            frame: s.frame.into(),
            slot: s.slot.into(),
            lap: s.lap.into(),
            ..Default::default()
        },
    };
    // SAFETY: the caller guarantees it.
    unsafe { put(out, &record) }
}

/// Bytes of memory that a directory needs. See the header.
///
/// # Safety
/// `bytes` is null or room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_bytes(
    frames: u64,
    batch: u64,
    bytes: *mut u64,
) -> c_int {
    boundary(|| {
        let needed = shape(frames, batch)?.bytes_needed()?;
        if bytes.is_null() {
            return Err(Failure::invalid("there is no room for the number"));
        }
        // SAFETY: the caller's room.
        unsafe { bytes.write_unaligned(needed as u64) };
        Ok(())
    })
}

/// Makes an empty directory. See the header.
///
/// # Safety
/// `memory` has `bytes` bytes, until no directory is on them any more; nobody uses them.
/// `directory` is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_format(
    memory: *mut c_void,
    bytes: u64,
    frames: u64,
    batch: u64,
    first: u64,
    directory: *mut *mut tantalum_directory,
) -> c_int {
    let make = || {
        let shape = shape(frames, batch)?;
        // SAFETY: the caller guarantees it.
        let region = unsafe { region(memory, bytes) }?;
        Ok(Directory::format(region, shape, first, me()?, Arc::new(Processes))?)
    };
    // SAFETY: the caller guarantees it.
    unsafe { hand_out(directory, make) }
}

/// Works on the directory that is in the memory. See the header.
///
/// # Safety
/// `memory` has `bytes` bytes, until no directory is on them any more; only directories write there.
/// `directory` is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_attach(
    memory: *mut c_void,
    bytes: u64,
    directory: *mut *mut tantalum_directory,
) -> c_int {
    let make = || {
        // SAFETY: the caller guarantees it.
        let region = unsafe { region(memory, bytes) }?;
        Ok(Directory::attach(region, me()?, Arc::new(Processes))?)
    };
    // SAFETY: the caller guarantees it.
    unsafe { hand_out(directory, make) }
}

/// Frees a handle; the directory stays in its memory. See the header.
///
/// # Safety
/// `directory` is null, or open and not in use by any other call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_free(directory: *mut tantalum_directory) {
    boundary(|| {
        if !directory.is_null() {
            // SAFETY: made by `hand_out`, and the caller no longer uses it.
            drop(unsafe { Box::from_raw(directory) });
        }
        Ok(())
    });
}

/// The current version of a page. See the header.
///
/// # Safety
/// `directory` is null or open; `entry` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_lookup(
    directory: *const tantalum_directory,
    page: u64,
    entry: *mut tantalum_entry,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room(entry) }?;
        let found = directory.lookup(page);
        // SAFETY: the caller guarantees it.
        unsafe { put(entry, &entry_record(found, 0)) }
    })
}

/// Loads what calls for these pages will need. See the header.
///
/// # Safety
/// `directory` is null or open; `pages` has `count` numbers, or `count` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_prefetch(
    directory: *const tantalum_directory,
    pages: *const u64,
    count: u64,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        let most = isize::MAX as usize / size_of::<u64>();
        let count = usize::try_from(count).ok().filter(|count| *count <= most);
        let count = count.ok_or_else(|| Failure::invalid("there cannot be so many pages"))?;
        if count > 0 {
            if pages.is_null() {
                return Err(Failure::invalid("the pages are null"));
            }
            // SAFETY: the caller's numbers, so many.
            directory.prefetch(unsafe { std::slice::from_raw_parts(pages, count) });
        }
        Ok(())
    })
}

/// What became of an entry since it was found. See the header.
///
/// # Safety
/// `directory` is null or open; `entry` points to a structure with a correct size field; `since` is
/// room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_check(
    directory: *const tantalum_directory,
    entry: *const tantalum_entry,
    since: *mut u64,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        // SAFETY: the caller guarantees it.
        let found = unsafe { entry_of(directory, entry) }?;
        if since.is_null() {
            return Err(Failure::invalid("there is no room for the answer"));
        }
        let now = match directory.check(&found) {
            Since::Current => TANTALUM_ENTRY_CURRENT,
            Since::Old => TANTALUM_ENTRY_OLD,
            Since::Reused => TANTALUM_ENTRY_REUSED,
        };
        // SAFETY: the caller's room.
        unsafe { since.write_unaligned(now) };
        Ok(())
    })
}

/// Reserves the next batch at the rear. See the header.
///
/// # Safety
/// `directory` is null or open; `batch` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_reserve(
    directory: *const tantalum_directory,
    batch: *mut tantalum_batch,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room(batch) }?;
        let b = directory.reserve()?;
        let record = batch_record(directory, Some((b.seq, b.first_frame)));
        // SAFETY: the caller guarantees it.
        unsafe { put(batch, &record) }
    })
}

/// Puts a version of a page into the next frame of a batch. See the header.
///
/// # Safety
/// `directory` is null or open; `batch` points to a structure with a correct size field; `version` is
/// null or points to one; `staged` is null or points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_stage(
    directory: *const tantalum_directory,
    batch: *const tantalum_batch,
    version: *const tantalum_page_version,
    staged: *mut tantalum_staged,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let (directory, batch) = unsafe { (of(directory)?, batch_of(batch)?) };
        if version.is_null() {
            return Err(Failure::invalid("the version is null"));
        }
        // SAFETY: the caller's structure.
        let version = version_of(&unsafe { version.read_unaligned() })?;
        // SAFETY: the caller guarantees it.
        unsafe { room_or_null(staged) }?;
        let done = directory.stage(&batch, version)?;
        // SAFETY: the caller guarantees it.
        unsafe { tell_staged(staged, Some(done)) }
    })
}

/// Gives a version a second chance. See the header.
///
/// # Safety
/// As [`tantalum_directory_stage`]; `entry` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_stage_again(
    directory: *const tantalum_directory,
    batch: *const tantalum_batch,
    entry: *const tantalum_entry,
    staged: *mut tantalum_staged,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let (directory, batch) = unsafe { (of(directory)?, batch_of(batch)?) };
        // SAFETY: the caller guarantees it.
        let entry = unsafe { entry_of(directory, entry) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room_or_null(staged) }?;
        let done = directory.stage_again(&batch, &entry)?;
        // SAFETY: the caller guarantees it.
        unsafe { tell_staged(staged, done) }
    })
}

/// One step of a batch.
///
/// # Safety
/// `directory` is null or open; `batch` points to a structure with a correct size field.
unsafe fn step(
    directory: *const tantalum_directory,
    batch: *const tantalum_batch,
    step: fn(&Directory, &Batch) -> Result<(), BatchError>,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let (directory, batch) = unsafe { (of(directory)?, batch_of(batch)?) };
        Ok(step(directory, &batch)?)
    })
}

/// A batch takes no more pages. See the header.
///
/// # Safety
/// `directory` is null or open; `batch` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_close(
    directory: *const tantalum_directory,
    batch: *const tantalum_batch,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { step(directory, batch, Directory::close) }
}

/// A batch is durable. See the header.
///
/// # Safety
/// As [`tantalum_directory_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_publish(
    directory: *const tantalum_directory,
    batch: *const tantalum_batch,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { step(directory, batch, Directory::publish) }
}

/// A batch will never be durable. See the header.
///
/// # Safety
/// As [`tantalum_directory_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_abandon(
    directory: *const tantalum_directory,
    batch: *const tantalum_batch,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { step(directory, batch, Directory::abandon) }
}

/// A batch of a dead owner. See the header.
///
/// # Safety
/// As [`tantalum_directory_reserve`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_adopt(
    directory: *const tantalum_directory,
    batch: *mut tantalum_batch,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room(batch) }?;
        let found = directory.adopt().map(|b| (b.seq, b.first_frame));
        // SAFETY: the caller guarantees it.
        unsafe { put(batch, &batch_record(directory, found)) }
    })
}

/// Takes the front batch. See the header.
///
/// # Safety
/// As [`tantalum_directory_reserve`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_take_front(
    directory: *const tantalum_directory,
    front: *mut tantalum_batch,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room(front) }?;
        let taken = directory.take_front()?;
        let record = batch_record(directory, Some((taken.seq, taken.first_frame)));
        // SAFETY: the caller guarantees it.
        unsafe { put(front, &record) }
    })
}

/// What becomes of a version at the front: the one in this frame of the batch. See the header.
///
/// # Safety
/// `directory` is null or open; `front` points to a structure with a correct size field; `entries` has
/// `count` structures with a correct size field; `found` is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_fates(
    directory: *const tantalum_directory,
    front: *const tantalum_batch,
    basic: c_int,
    entries: *mut tantalum_entry,
    count: u64,
    found: *mut u64,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let (directory, front) = unsafe { (of(directory)?, front_of(front)?) };
        if count < directory.shape().batch.into() || entries.is_null() || found.is_null() {
            let frames = directory.shape().batch;
            let why = format!("there is no room for the {frames} entries of a batch");
            return Err(Failure::invalid(why));
        }
        let replacement = match basic {
            0 => Replacement::SecondChance,
            _ => Replacement::Basic,
        };
        // SAFETY: the caller guarantees it.
        let apart = unsafe { stride(entries) }?;
        let fates = directory.fates(&front, replacement);
        for (i, (entry, fate)) in fates.iter().enumerate() {
            let fate = match fate {
                Fate::Drop => TANTALUM_FATE_DROP,
                Fate::Destage => TANTALUM_FATE_DESTAGE,
                Fate::SecondChance => TANTALUM_FATE_AGAIN,
            };
            // SAFETY: one of the caller's structures.
            unsafe { put(entries.byte_add(i * apart), &entry_record(Some(*entry), fate)) }?;
        }
        // SAFETY: the caller's room.
        unsafe { found.write_unaligned(fates.len() as u64) };
        Ok(())
    })
}

/// The slow store has a version. See the header.
///
/// # Safety
/// `directory` is null or open; `entry` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_mark_clean(
    directory: *const tantalum_directory,
    entry: *const tantalum_entry,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        // SAFETY: the caller guarantees it.
        directory.mark_clean(&unsafe { entry_of(directory, entry) }?);
        Ok(())
    })
}

/// Releases the frames of the front batch. See the header.
///
/// # Safety
/// As [`tantalum_directory_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_release(
    directory: *const tantalum_directory,
    front: *const tantalum_batch,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let (directory, front) = unsafe { (of(directory)?, front_of(front)?) };
        Ok(directory.release(&front)?)
    })
}

/// Gives the front batch back. See the header.
///
/// # Safety
/// As [`tantalum_directory_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_leave(
    directory: *const tantalum_directory,
    front: *const tantalum_batch,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let (directory, front) = unsafe { (of(directory)?, front_of(front)?) };
        directory.leave(&front);
        Ok(())
    })
}

/// A page was dropped. See the header.
///
/// # Safety
/// `directory` is null or open; `entry` is null or points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_forget(
    directory: *const tantalum_directory,
    page: u64,
    entry: *mut tantalum_entry,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room_or_null(entry) }?;
        let ended = directory.forget(page);
        if entry.is_null() {
            return Ok(());
        }
        // SAFETY: the caller guarantees it.
        unsafe { put(entry, &entry_record(ended, 0)) }
    })
}

/// Puts a batch back that was found on flash. See the header.
///
/// # Safety
/// `directory` is null or open; `entries` has `count` structures with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_restore(
    directory: *const tantalum_directory,
    entries: *const tantalum_entry,
    count: u64,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        if count > directory.shape().batch.into() || (entries.is_null() && count > 0) {
            return Err(Failure::invalid("these are more entries than a batch has frames"));
        }
        // SAFETY: the caller guarantees it.
        let apart = if count > 0 { unsafe { stride(entries) }? } else { 0 };
        let found = |i: u64| {
            // SAFETY: one of the caller's structures.
            let e = unsafe { take(entries.byte_add(i as usize * apart)) }?;
            let (page, lsn, dirty) = (e.page, e.lsn, e.dirty != 0);
            let version =
                Version { page, lsn, checksum: small(e.checksum, "the checksum")?, dirty };
            Ok((e.found != 0).then_some(Found { version, referenced: e.referenced != 0 }))
        };
        let found = (0..count).map(found).collect::<Result<Vec<_>, Failure>>()?;
        directory.restore(&found)?;
        Ok(())
    })
}

/// How a directory is. See the header.
///
/// # Safety
/// `directory` is null or open; `stats` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_directory_get_stats(
    directory: *const tantalum_directory,
    stats: *mut tantalum_directory_stats,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let directory = unsafe { of(directory) }?;
        let (shape, ring) = (directory.shape(), directory.ring());
        let record = tantalum_directory_stats {
            frames: shape.frames,
            batch: shape.batch.into(),
            front: ring.start,
            rear: ring.end,
            free_batches: directory.free_batches(),
            ..Default::default()
        };
        // SAFETY: the caller guarantees it.
        unsafe { put(stats, &record) }
    })
}
