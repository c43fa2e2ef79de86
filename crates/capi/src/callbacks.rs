//! What a flash cache asks of a program in C: its slow store, its log and its pool.
//!
//! 1. The functions of a store are called in threads of the library, several at once.
//! 2. Those of a host are called in the thread of the cache. What `pull` names is copied before it
//!    calls anything else.

use crate::abi::*;
use crate::error::Failure;
use ::tantalum_cache::blocking::BlockingStore;
use ::tantalum_cache::flash::{Host, PageOut};
use std::ffi::{c_int, c_void};
use tantalum_device::IoError;

/// A slow store of the program's.
pub(crate) struct Store(tantalum_cache_store);

// SAFETY: the header demands functions, and a context, that any thread may use.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// # Errors
    /// A function is missing.
    pub fn of(store: tantalum_cache_store) -> Result<Store, Failure> {
        let whole = store.read.is_some() && store.write.is_some() && store.flush.is_some();
        match whole && store.pages > 0 {
            true => Ok(Store(store)),
            false => {
                Err(Failure::invalid("a store has pages, and functions read, write and flush"))
            }
        }
    }
}

fn done(code: c_int) -> Result<(), IoError> {
    match code {
        TANTALUM_OK => Ok(()),
        _ => Err(IoError::Failed("a function of the program's slow store failed")),
    }
}

const MISSING: IoError = IoError::Invalid("a function of the slow store is missing");

impl BlockingStore for Store {
    fn pages(&self) -> u64 {
        self.0.pages
    }

    fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError> {
        let read = self.0.read.ok_or(MISSING)?;
        // SAFETY: the caller's function, as the header declares it; the buffer has its bytes.
        done(unsafe { read(self.0.context, page, buf.as_mut_ptr().cast(), buf.len() as u64) })
    }

    fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        let write = self.0.write.ok_or(MISSING)?;
        // SAFETY: as above.
        done(unsafe { write(self.0.context, first, data.as_ptr().cast(), data.len() as u64) })
    }

    fn flush(&self) -> Result<(), IoError> {
        let flush = self.0.flush.ok_or(MISSING)?;
        // SAFETY: the caller's function, as the header declares it.
        done(unsafe { flush(self.0.context) })
    }
}

/// The program's log and pool.
pub(crate) struct Program {
    pub calls: tantalum_cache_host,
    /// Bytes of a page.
    pub page: usize,
}

// SAFETY: the header demands functions, and a context, that the thread of the cache may use.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Host for Program {
    fn log_stable(&self) -> u64 {
        let Some(ask) = self.calls.log_stable else { return u64::MAX };
        // SAFETY: the caller's function, as the header declares it.
        unsafe { ask(self.calls.context) }
    }

    fn pull(&self, room: usize) -> Vec<PageOut> {
        let Some(pull) = self.calls.pull else { return Vec::new() };
        let nothing = tantalum_cache_page { page: 0, data: std::ptr::null(), dirty: 0, lsn: 0 };
        let mut pages = vec![nothing; room];
        // SAFETY: the caller's function, as the header declares it; there is room for so many.
        let count = unsafe { pull(self.calls.context, room as u64, pages.as_mut_ptr()) };
        pages.truncate(usize::try_from(count).unwrap_or(room));
        let named = pages.iter().filter(|page| !page.data.is_null());
        let copied = |page: &tantalum_cache_page| PageOut {
            page: page.page,
            // SAFETY: the caller's function has named the bytes of a page.
            data: unsafe { std::slice::from_raw_parts(page.data.cast(), self.page) }.to_vec(),
            dirty: page.dirty != 0,
            lsn: page.lsn,
        };
        named.map(copied).collect()
    }

    fn taken(&self, page: u64, lsn: u64) {
        if let Some(tell) = self.calls.taken {
            // SAFETY: the caller's function, as the header declares it.
            unsafe { tell(self.calls.context, page, lsn) };
        }
    }

    fn staged(&self, page: u64, lsn: u64) {
        if let Some(tell) = self.calls.staged {
            // SAFETY: as above.
            unsafe { tell(self.calls.context, page, lsn) };
        }
    }

    fn refused(&self, page: u64, error: &IoError) {
        if let Some(tell) = self.calls.refused {
            let code = Failure::from(error.clone()).code;
            // SAFETY: as above.
            unsafe { tell(self.calls.context, page, code) };
        }
    }
}

/// The context of a program without functions.
pub(crate) fn no_host() -> tantalum_cache_host {
    tantalum_cache_host { context: std::ptr::null_mut::<c_void>(), ..Default::default() }
}
