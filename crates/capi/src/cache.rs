//! Flash caches on files and block devices: `tantalum_cache`, which many threads share.
//!
//! 1. Pages are copied during the call.
//! 2. A cache that is freed and was not closed ends as if the power had gone.

use crate::abi::*;
use crate::callbacks::{Program, Store, no_host};
use crate::error::{Failure, boundary};
use crate::open::text;
use crate::record::{put, room, room_or_null, take};
use ::tantalum_cache::blocking::{BlockingCache, BlockingError, BlockingOptions, Slow};
use ::tantalum_cache::flash::{
    Admit, CacheError, Fetched, FormatOptions, Mode, OpenError, OpenOptions, Replacement,
};
use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tantalum_rt::Nanos;

/// An open cache.
#[allow(non_camel_case_types)]
pub struct tantalum_cache {
    cache: BlockingCache,
}

impl From<CacheError> for Failure {
    fn from(e: CacheError) -> Failure {
        let code = match &e {
            CacheError::Invalid(_) | CacheError::LogFirst { .. } | CacheError::Older { .. } => {
                TANTALUM_EINVAL
            }
            CacheError::Damaged { .. } => TANTALUM_EMEDIUM,
            CacheError::Full { .. } => TANTALUM_ENOSPC,
            CacheError::Flash(error) | CacheError::Slow(error) => Failure::from(error.clone()).code,
            CacheError::Stopped(_) => TANTALUM_ECACHE,
        };
        Failure::new(code, e.to_string())
    }
}

impl From<BlockingError> for Failure {
    fn from(e: BlockingError) -> Failure {
        let code = match &e {
            BlockingError::Open(OpenError::Damaged { .. } | OpenError::Head { .. }) => {
                TANTALUM_EMEDIUM
            }
            BlockingError::Panicked(_) => TANTALUM_EINTERNAL,
            _ => TANTALUM_ECACHE,
        };
        Failure::new(code, e.to_string())
    }
}

/// # Safety
/// `cache` is null or open, for as long as `'a`.
unsafe fn of<'a>(cache: *const tantalum_cache) -> Result<&'a BlockingCache, Failure> {
    // SAFETY: the caller guarantees it.
    let cache = unsafe { cache.as_ref() }.ok_or_else(|| Failure::invalid("the cache is null"))?;
    Ok(&cache.cache)
}

/// The caller's path.
///
/// # Safety
/// `path` is null or a string of C, for as long as `'a`.
unsafe fn path<'a>(path: *const c_char, what: &str) -> Result<&'a Path, Failure> {
    // SAFETY: the caller guarantees it.
    let found = unsafe { text(path, what) }?;
    found.map(Path::new).ok_or_else(|| Failure::invalid(format!("{what} is null")))
}

/// Where the pages end: a device, or a store of the program's.
///
/// # Safety
/// `device` is null or a string of C; `store` is null or points to a structure with a correct size
/// field.
unsafe fn slow(device: *const c_char, store: *const tantalum_cache_store) -> Result<Slow, Failure> {
    match (device.is_null(), store.is_null()) {
        (false, true) => {
            // SAFETY: the caller guarantees it.
            let path: PathBuf = unsafe { path(device, "the slow device") }?.to_path_buf();
            Ok(Slow::Path(path))
        }
        // SAFETY: the caller guarantees it.
        (true, false) => Ok(Slow::Store(Arc::new(Store::of(unsafe { take(store) }?)?))),
        _ => Err(Failure::invalid("a cache has a slow device or a store: name one of them")),
    }
}

/// The caller's page, or room for one.
fn bytes_of(cache: &BlockingCache, data: *const c_void, bytes: u64) -> Result<usize, Failure> {
    let page = cache.page_bytes();
    match bytes == page as u64 && !data.is_null() {
        true => Ok(page),
        false => Err(Failure::invalid(format!("{bytes} bytes: a page of this cache has {page}"))),
    }
}

/// # Safety
/// `data` has `bytes` bytes, for as long as `'a`.
unsafe fn page_of<'a>(
    cache: &BlockingCache,
    data: *const c_void,
    bytes: u64,
) -> Result<&'a [u8], Failure> {
    let page = bytes_of(cache, data, bytes)?;
    // SAFETY: the caller guarantees it.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), page) })
}

fn small(value: u64, usual: u32, what: &str) -> Result<u32, Failure> {
    let value = if value == 0 { usual.into() } else { value };
    u32::try_from(value).map_err(|_| Failure::invalid(format!("{what}: {value} is too much")))
}

/// Makes a cache. See the header.
///
/// # Safety
/// `flash` is a string of C; `device` is null or one; `store` is null or points to a structure with
/// a correct size field, and so does `create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_create(
    flash: *const c_char,
    device: *const c_char,
    store: *const tantalum_cache_store,
    create: *const tantalum_cache_create_options,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let (o, flash) = unsafe { (take(create)?, path(flash, "the flash device")?) };
        // SAFETY: the caller guarantees it.
        let slow = unsafe { slow(device, store) }?;
        let usual = FormatOptions::default();
        let format = FormatOptions {
            page: small(o.page_bytes, usual.page, "page_bytes")?,
            frames: small(o.batch_pages, usual.frames, "batch_pages")?,
            mode: if o.through != 0 { Mode::Through } else { Mode::Back },
            force: o.force != 0,
            ..usual
        };
        let mut used = BlockingOptions::default();
        used.file.buffered = o.buffered != 0;
        let slow_path = match &slow {
            Slow::Path(path) => Some(path.as_path()),
            Slow::Store(_) => None,
        };
        for (path, bytes) in [(Some(flash), o.flash_bytes), (slow_path, o.slow_bytes)] {
            if let Some(path) = path.filter(|path| bytes > 0 && !path.exists()) {
                BlockingCache::make_file(path, bytes, &used)?;
            }
        }
        Ok(BlockingCache::format(flash, &slow, &format, &used)?)
    })
}

fn options(o: &tantalum_cache_options) -> Result<BlockingOptions, Failure> {
    let usual = OpenOptions::default();
    let time = |ns: u64, usual: Nanos| if ns > 0 { Nanos(ns) } else { usual };
    let mut options = BlockingOptions {
        open: OpenOptions {
            mode: match o.mode {
                TANTALUM_CACHE_AS_BEFORE => None,
                TANTALUM_CACHE_BACK => Some(Mode::Back),
                TANTALUM_CACHE_THROUGH => Some(Mode::Through),
                other => return Err(Failure::invalid(format!("there is no mode {other}"))),
            },
            replacement: match o.basic {
                0 => Replacement::SecondChance,
                _ => Replacement::Basic,
            },
            linger: time(o.linger_ns, usual.linger),
            retry: time(o.retry_ns, usual.retry),
            patience: time(o.patience_ns, usual.patience),
            depth: match o.depth {
                0 => usual.depth,
                depth => usize::try_from(depth).unwrap_or(usize::MAX).min(1024),
            },
            scan: match o.scan {
                0 => None,
                pages => Some(u32::try_from(pages).unwrap_or(u32::MAX)),
            },
            ghosts: o.ghosts != 0,
            admit: match o.admit {
                TANTALUM_CACHE_MIXED => Admit::Mixed,
                TANTALUM_CACHE_CLEAN_ONLY => Admit::Clean,
                TANTALUM_CACHE_DIRTY_ONLY => Admit::Dirty,
                other => return Err(Failure::invalid(format!("admit: there is no {other}"))),
            },
            ..usual
        },
        ..BlockingOptions::default()
    };
    options.file.buffered = o.buffered != 0;
    Ok(options)
}

/// Opens a cache. See the header.
///
/// # Safety
/// `flash` is a string of C; `device` is null or one; `store` and `host` are null or point to a
/// structure with a correct size field, `how` points to one; `cache` is room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_open(
    flash: *const c_char,
    device: *const c_char,
    store: *const tantalum_cache_store,
    host: *const tantalum_cache_host,
    how: *const tantalum_cache_options,
    cache: *mut *mut tantalum_cache,
) -> c_int {
    boundary(|| {
        if cache.is_null() {
            return Err(Failure::invalid("there is no room for the cache"));
        }
        // SAFETY: the caller's room for a pointer.
        unsafe { cache.write(std::ptr::null_mut()) };
        // SAFETY: the caller guarantees it.
        let (flash, how) = unsafe { (path(flash, "the flash device")?, take(how)?) };
        // SAFETY: the caller guarantees it.
        let slow = unsafe { slow(device, store) }?;
        let options = options(&how)?;
        let calls = match host.is_null() {
            true => no_host(),
            // SAFETY: the caller guarantees it.
            false => unsafe { take(host) }?,
        };
        let page = BlockingCache::describe(flash, &options)?.page as usize;
        let host = Arc::new(Program { calls, page });
        let opened = BlockingCache::open(flash, &slow, host, options)?;
        let handle = Box::new(tantalum_cache { cache: opened });
        // SAFETY: as before.
        unsafe { cache.write(Box::into_raw(handle)) };
        Ok(())
    })
}

/// Fetches a page. See the header.
///
/// # Safety
/// `cache` is null or open; `buf` has room for `bytes` bytes; `found` is null or points to a
/// structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_fetch(
    cache: *const tantalum_cache,
    page: u64,
    buf: *mut c_void,
    bytes: u64,
    found: *mut tantalum_cache_found,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let cache = unsafe { of(cache) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room_or_null(found) }?;
        let mut data = vec![0u8; bytes_of(cache, buf, bytes)?];
        let fetched = cache.fetch(page, &mut data)?;
        // SAFETY: the caller's room, of that length.
        unsafe { buf.cast::<u8>().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
        if found.is_null() {
            return Ok(());
        }
        let record = match fetched {
            Fetched::Slow => tantalum_cache_found::default(),
            Fetched::Flash { lsn, dirty } => {
                tantalum_cache_found { hit: 1, lsn, dirty: dirty.into(), ..Default::default() }
            }
        };
        // SAFETY: the caller guarantees it.
        unsafe { put(found, &record) }
    })
}

/// Hands the caller's page over to a cache, by this call.
///
/// # Safety
/// `cache` is null or open; `data` has `bytes` bytes.
unsafe fn hand_over(
    cache: *const tantalum_cache,
    data: *const c_void,
    bytes: u64,
    call: impl FnOnce(&BlockingCache, &[u8]) -> Result<(), CacheError>,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let cache = unsafe { of(cache) }?;
        // SAFETY: the caller guarantees it.
        let data = unsafe { page_of(cache, data, bytes) }?;
        Ok(call(cache, data)?)
    })
}

/// A page leaves RAM, and is durable then. See the header.
///
/// # Safety
/// `cache` is null or open; `data` has `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_evict(
    cache: *const tantalum_cache,
    page: u64,
    data: *const c_void,
    bytes: u64,
    dirty: c_int,
    lsn: u64,
) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { hand_over(cache, data, bytes, |c, data| c.evict(page, data, dirty != 0, lsn)) }
}

/// A page leaves RAM, and is durable with the next checkpoint. See the header.
///
/// # Safety
/// As [`tantalum_cache_evict`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_stage(
    cache: *const tantalum_cache,
    page: u64,
    data: *const c_void,
    bytes: u64,
    dirty: c_int,
    lsn: u64,
) -> c_int {
    let dirty = dirty != 0;
    // SAFETY: the caller guarantees it.
    unsafe { hand_over(cache, data, bytes, |c, data| c.stage(page, data, dirty, lsn).map(drop)) }
}

/// Pages are forgotten. See the header.
///
/// # Safety
/// `cache` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_forget(
    cache: *const tantalum_cache,
    first: u64,
    count: u64,
) -> c_int {
    boundary(|| {
        let end = first.checked_add(count);
        let end = end.ok_or_else(|| Failure::invalid("there are not so many pages"))?;
        // SAFETY: the caller guarantees it.
        Ok(unsafe { of(cache) }?.forget(first..end)?)
    })
}

/// Everything that left RAM is durable. See the header.
///
/// # Safety
/// `cache` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_checkpoint(cache: *const tantalum_cache) -> c_int {
    // SAFETY: the caller guarantees it.
    boundary(|| Ok(unsafe { of(cache) }?.checkpoint()?))
}

/// Compares every frame with its checksum. See the header.
///
/// # Safety
/// `cache` is null or open; `scrubbed` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_scrub(
    cache: *const tantalum_cache,
    scrubbed: *mut tantalum_cache_scrubbed,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let cache = unsafe { of(cache) }?;
        // SAFETY: the caller guarantees it.
        unsafe { room(scrubbed) }?;
        let s = cache.scrub()?;
        let record = tantalum_cache_scrubbed {
            frames: s.frames,
            repaired: s.repaired,
            damaged: s.damaged.len() as u64,
            first_damaged: s.damaged.first().copied().unwrap_or(0),
            ..Default::default()
        };
        // SAFETY: the caller guarantees it.
        unsafe { put(scrubbed, &record) }
    })
}

/// Every dirty page goes to the slow store. See the header.
///
/// # Safety
/// `cache` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_clean(cache: *const tantalum_cache) -> c_int {
    // SAFETY: the caller guarantees it.
    boundary(|| Ok(unsafe { of(cache) }?.clean()?))
}

/// The cache has so many bytes of the flash device from now on. See the header.
///
/// # Safety
/// `cache` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_resize(cache: *const tantalum_cache, bytes: u64) -> c_int {
    // SAFETY: the caller guarantees it.
    boundary(|| Ok(unsafe { of(cache) }?.resize(bytes)?))
}

/// What the cache has done, and how it is. See the header.
///
/// # Safety
/// `cache` is null or open; `stats` points to a structure with a correct size field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_get_stats(
    cache: *const tantalum_cache,
    stats: *mut tantalum_cache_stats,
) -> c_int {
    boundary(|| {
        // SAFETY: the caller guarantees it.
        let cache = unsafe { of(cache) }?;
        let s = cache.stats()?;
        let ghosts = s.ghosts.unwrap_or_default();
        let record = tantalum_cache_stats {
            page_bytes: cache.page_bytes() as u64,
            store_pages: cache.pages(),
            fetches: s.fetches,
            hits: s.hits,
            evictions: s.evictions,
            dirty_evictions: s.dirty_evictions,
            dropped: s.dropped,
            pulled: s.pulled,
            forgotten: s.forgotten,
            second_chances: s.second_chances,
            slow_writes: s.slow_writes,
            slow_flushes: s.slow_flushes,
            slow_refusals: s.slow_refusals,
            batches: s.batches,
            flash_bytes: s.flash_bytes,
            repaired: s.repaired,
            damaged: s.damaged,
            pages: s.pages,
            dirty: s.dirty,
            used: s.used,
            frames: s.frames,
            warm: s.restart.clean.into(),
            found: s.restart.found,
            kept_out: s.kept_out,
            ghost_fetches: ghosts.fetches,
            ghost_hits: ghosts.hits,
            ghost_twice_hits: ghosts.twice_hits,
            ..Default::default()
        };
        // SAFETY: the caller guarantees it.
        unsafe { put(stats, &record) }
    })
}

/// Gives up the flash device. See the header.
///
/// # Safety
/// `cache` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_detach(cache: *const tantalum_cache) -> c_int {
    // SAFETY: the caller guarantees it.
    boundary(|| Ok(unsafe { of(cache) }?.detach()?))
}

/// Ends a cache. See the header.
///
/// # Safety
/// `cache` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_close(cache: *const tantalum_cache) -> c_int {
    // SAFETY: the caller guarantees it.
    boundary(|| Ok(unsafe { of(cache) }?.close()?))
}

/// Frees a cache. See the header.
///
/// # Safety
/// `cache` is null, or open and not in use by any other call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_cache_free(cache: *mut tantalum_cache) {
    boundary(|| {
        if !cache.is_null() {
            // SAFETY: made by `tantalum_cache_open`, and the caller no longer uses it.
            drop(unsafe { Box::from_raw(cache) });
        }
        Ok(())
    });
}
