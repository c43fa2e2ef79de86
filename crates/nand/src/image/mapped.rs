//! A file that is mapped into memory by one process, which reads and writes it in pieces.
//!
//! 1. What was stored is in the file, whatever happens to the process. A process that is killed at
//!    any instruction leaves all stores before that one, and none after it. (Only a crash of the
//!    host can lose more; [`Mapped::sync`] is for that.)
//! 2. [`Region::publish`] orders stores: if its word is in the file, then so is everything that was
//!    stored before it.
//! 3. No reference into the file leaves this module. So a process that writes to the file in spite
//!    of the lock can make data wrong, and do no other harm.
//!
//! If the host's file system is full, or the file is shortened, the system kills the process at its
//! next store (SIGBUS). For the drive that is a power cut like any other.

use super::host;
use super::sync::Tracker;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

pub(crate) struct Mapped {
    base: NonNull<u8>,
    len: usize,
    file: File,
    shared: bool,
    tracker: OnceCell<Tracker>,
}

impl Mapped {
    /// Maps a whole file of this length. The lock on the file lasts as long as the mapping. Without
    /// `shared`, stores stay in memory and the file does not change.
    pub fn new(file: File, len: u64, shared: bool) -> io::Result<Mapped> {
        let size = usize::try_from(len).ok().filter(|size| *size > 0);
        let size = size.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let how = if shared { MapFlags::SHARED } else { MapFlags::PRIVATE | MapFlags::NORESERVE };
        // SAFETY: a new mapping, at an address that the system chooses: nothing that exists is
        // touched. It is only ever accessed through raw pointers (3).
        let base = unsafe { mmap(std::ptr::null_mut(), size, access, how, &file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapped { base, len: size, file, shared, tracker: OnceCell::new() })
    }

    /// The file. Writes to it appear in a shared mapping, too.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Whether stores go to the file.
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// From now on `tracker` notes all changes.
    pub fn track(&self, tracker: Tracker) {
        let _ = self.tracker.set(tracker);
    }

    pub fn tracker(&self) -> Option<&Tracker> {
        self.tracker.get()
    }

    /// Notes a store.
    fn stored(&self, at: u64, len: u64) {
        if let Some(tracker) = self.tracker.get() {
            tracker.changed(at, len);
        }
        stored(at, len);
    }

    pub fn addresses(&self) -> Range<usize> {
        let from = self.base.as_ptr().addr();
        from..from + self.len
    }

    fn at(&self, at: u64, len: usize) -> *mut u8 {
        let fits = usize::try_from(at).ok().and_then(|at| at.checked_add(len));
        assert!(fits.is_some_and(|end| end <= self.len), "{len} bytes at {at} are not in the file");
        // SAFETY: within the mapping, as just checked.
        unsafe { self.base.as_ptr().add(at as usize) }
    }

    pub fn read(&self, at: u64, out: &mut [u8]) {
        // SAFETY: the source is as long as `out` and mapped; `out` is memory of this process
        // outside of the mapping, to which there are no references.
        unsafe {
            std::ptr::copy_nonoverlapping(self.at(at, out.len()), out.as_mut_ptr(), out.len())
        }
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        // SAFETY: as for `read`, the other way round. One thread has the mapping.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(at, bytes.len()), bytes.len())
        }
        self.stored(at, bytes.len() as u64);
    }

    fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "a word begins at {at}");
        // SAFETY: mapped for as long as `self` lives, aligned (the mapping begins at a page), and
        // an atomic may be changed by others.
        unsafe { AtomicU64::from_ptr(self.at(at, 8).cast()) }
    }

    /// Gives the space of this part back, which then reads as zeros. If the file system cannot do
    /// that, the part stays as it is.
    fn punch(&self, at: u64, len: u64) {
        if len > 0 && self.shared {
            let _ = host::punch(&self.file, at, len);
            self.punched(at, len);
        }
    }

    fn punched(&self, at: u64, len: u64) {
        if let Some(tracker) = self.tracker.get() {
            tracker.changed(at, len);
        }
        note_written(at, len);
    }

    /// Sets whole pages to zero. Their space is given back where that is possible.
    pub fn clear(&self, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        if self.shared && host::punch(&self.file, at, len).is_ok() {
            self.punched(at, len);
            return;
        }
        let mut page = [0; PAGE as usize];
        for at in (at..at + len).step_by(PAGE as usize) {
            self.read(at, &mut page);
            if page.iter().any(|b| *b != 0) {
                self.write(at, &[0; PAGE as usize]);
            }
        }
    }

    /// Waits until all that was stored survives a crash of the host.
    pub fn sync(&self) -> io::Result<()> {
        super::sync::settle(&self.file)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nobody uses it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A part of an image file: memory that outlives the process. Cheap to clone.
///
/// # Panics
/// Every function panics if it is asked for something beyond its end.
#[derive(Clone)]
pub struct Region {
    map: Rc<Mapped>,
    at: u64,
    len: u64,
}

impl Region {
    pub(crate) fn new(map: Rc<Mapped>, at: u64, len: u64) -> Region {
        Region { map, at, len }
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn place(&self, at: u64, len: usize) -> u64 {
        let end = at.checked_add(len as u64);
        assert!(end.is_some_and(|end| end <= self.len), "{len} bytes at {at} of {}", self.len);
        self.at + at
    }

    /// A part of it.
    pub fn part(&self, at: u64, len: u64) -> Region {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "{len} bytes at {at} of {}", self.len);
        Region { map: self.map.clone(), at: self.at + at, len }
    }

    /// Copies bytes out.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        self.map.read(self.place(at, out.len()), out);
    }

    /// Copies bytes in, in no particular order: a process that is killed meanwhile leaves any part
    /// of them.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.map.write(self.place(at, bytes.len()), bytes);
    }

    /// The word (8 bytes, little-endian) at a multiple of 8.
    pub fn word(&self, at: u64) -> u64 {
        u64::from_le(self.map.word(self.place(at, 8)).load(Ordering::Acquire))
    }

    /// Stores a word atomically, in no order with other stores.
    pub fn set_word(&self, at: u64, word: u64) {
        let at = self.place(at, 8);
        self.map.word(at).store(word.to_le(), Ordering::Relaxed);
        self.map.stored(at, 8);
    }

    /// Stores a word atomically, after everything that was stored before and before everything that
    /// is stored later.
    pub fn publish(&self, at: u64, word: u64) {
        let at = self.place(at, 8);
        self.map.word(at).store(word.to_le(), Ordering::Release);
        // Processor and file see the stores of one thread in order. Only the compiler might reorder
        // them.
        compiler_fence(Ordering::SeqCst);
        self.map.stored(at, 8);
    }

    /// Sets a part of whole host pages to zero, and gives its space back where that is possible. It
    /// happens in no particular order: a process that is killed meanwhile leaves any part of it.
    pub fn clear(&self, at: u64, len: u64) {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "{len} bytes at {at} of {}", self.len);
        self.map.clear(self.at + at, len);
    }

    /// Gives back the space of whole host pages in this part. They then read as zeros, or as before
    /// where that is not possible.
    pub fn give_back(&self, at: u64, len: u64) {
        let start = self.place(at, 0).next_multiple_of(PAGE);
        let end = (self.place(at, 0) + len.min(self.len - at)) / PAGE * PAGE;
        self.map.punch(start, end.saturating_sub(start));
    }
}

/// Parts of the file begin at multiples of this.
pub(crate) const PAGE: u64 = 4096;

/// A change of an image, for tests. Offsets are from the beginning of the file.
#[cfg(feature = "stores")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// These bytes changed in memory or in the page cache of the host.
    Stored(Range<u64>),
    /// These bytes, or all, are on the host's disk now.
    Synced(Option<Range<u64>>),
}

#[cfg(feature = "stores")]
type Watcher<T> = std::cell::RefCell<Option<Box<T>>>;

#[cfg(feature = "stores")]
thread_local! {
    static WATCHER: Watcher<dyn FnMut()> = const { std::cell::RefCell::new(None) };
    static CHANGES: Watcher<dyn FnMut(Change)> = const { std::cell::RefCell::new(None) };
}

/// From now on `watcher` is called after each store to an image in this thread, except during its
/// own calls. It is for tests in which the process ends there.
#[cfg(feature = "stores")]
pub fn watch_stores(watcher: Option<Box<dyn FnMut()>>) {
    WATCHER.with(|w| *w.borrow_mut() = watcher);
}

/// From now on `watcher` is called after each change of an image file in this thread, except during
/// its own calls. It is for tests in which the host crashes there.
#[cfg(feature = "stores")]
pub fn watch_changes(watcher: Option<Box<dyn FnMut(Change)>>) {
    CHANGES.with(|w| *w.borrow_mut() = watcher);
}

#[cfg(feature = "stores")]
thread_local! {
    static SYNCS_FAIL: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// From now on every sync in this thread fails, or none does. It is for tests with a broken disk.
#[cfg(feature = "stores")]
pub fn fail_syncs(fail: bool) {
    SYNCS_FAIL.set(fail);
}

/// Called before each sync.
pub(crate) fn before_sync() -> io::Result<()> {
    #[cfg(feature = "stores")]
    if SYNCS_FAIL.get() {
        return Err(rustix::io::Errno::IO.into());
    }
    Ok(())
}

#[cfg(feature = "stores")]
fn tell(change: Change) {
    CHANGES.with(|w| {
        if let Ok(mut watcher) = w.try_borrow_mut()
            && let Some(watcher) = &mut *watcher
        {
            watcher(change);
        }
    });
}

/// Reports a store to the watchers.
#[cfg_attr(not(feature = "stores"), expect(unused_variables, reason = "there are no watchers"))]
fn stored(at: u64, len: u64) {
    #[cfg(feature = "stores")]
    {
        tell(Change::Stored(at..at + len));
        WATCHER.with(|w| {
            if let Ok(mut watcher) = w.try_borrow_mut()
                && let Some(watcher) = &mut *watcher
            {
                watcher();
            }
        });
    }
}

/// Reports a write to the file, or space that was given back.
#[cfg_attr(not(feature = "stores"), expect(unused_variables, reason = "there are no watchers"))]
pub(crate) fn note_written(at: u64, len: u64) {
    #[cfg(feature = "stores")]
    tell(Change::Stored(at..at + len));
}

/// Reports that this part of the file, or all of it, is durable.
#[cfg_attr(not(feature = "stores"), expect(unused_variables, reason = "there are no watchers"))]
pub(crate) fn note_synced(part: Option<Range<u64>>) {
    #[cfg(feature = "stores")]
    tell(Change::Synced(part));
}
