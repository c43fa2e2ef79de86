//! The memory of a directory: the caller's, or its own.

#[cfg(not(loom))]
use super::error::AttachError;
use super::layout::LINE;
use super::sys::Word;
use std::sync::Arc;

/// Memory for a directory.
#[derive(Clone)]
pub struct Region {
    #[cfg(not(loom))]
    first: std::ptr::NonNull<Word>,
    #[cfg(not(loom))]
    words: usize,
    /// The memory, if it is the region's own. (A model of threads has no other.)
    _own: Option<Arc<Vec<Line>>>,
}

#[repr(align(64))]
struct Line(
    #[cfg_attr(not(loom), expect(dead_code, reason = "read through the pointer"))] [Word; LINE],
);

// SAFETY: a region is nothing but atomic words, which every thread may use; whoever gave its memory
// promised that it stays.
#[cfg(not(loom))]
unsafe impl Send for Region {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Region {}

impl Region {
    /// Memory of this process alone, all zero. `bytes` is rounded up to whole cache lines.
    #[must_use]
    pub fn owned(bytes: usize) -> Region {
        let count = bytes.div_ceil(size_of::<u64>() * LINE);
        let mut lines: Vec<Line> = Vec::with_capacity(count);
        // Asked for before the first write, and never moved: the system gives large pages to memory
        // that is written for the first time.
        #[cfg(not(loom))]
        tantalum_rt::large_pages(lines.spare_capacity_mut());
        lines.resize_with(count, || Line(std::array::from_fn(|_| Word::new(0))));
        let own = Arc::new(lines);
        Region {
            #[cfg(not(loom))]
            first: std::ptr::NonNull::from(own.as_slice()).cast(),
            #[cfg(not(loom))]
            words: own.len() * LINE,
            _own: Some(own),
        }
    }

    /// The caller's memory: perhaps shared by several processes, each of which may have it at
    /// another address.
    ///
    /// # Errors
    /// [`AttachError::Misaligned`]: it does not begin at a cache line of 64 bytes.
    ///
    /// # Safety
    /// `bytes` bytes from `memory` on can be read and written, until the last copy of this region and
    /// of each [`super::Directory`] on it is gone. Nobody writes to them but directories.
    #[cfg(not(loom))]
    pub unsafe fn shared(memory: *mut u8, bytes: usize) -> Result<Region, AttachError> {
        match std::ptr::NonNull::new(memory.cast::<Word>()) {
            Some(first) if memory.addr().is_multiple_of(align_of::<Line>()) => {
                Ok(Region { first, words: bytes / size_of::<u64>(), _own: None })
            }
            _ => Err(AttachError::Misaligned),
        }
    }

    /// Bytes of it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words() * size_of::<u64>()
    }

    #[cfg(not(loom))]
    fn words(&self) -> usize {
        self.words
    }

    #[cfg(loom)]
    fn words(&self) -> usize {
        self._own.as_ref().map_or(0, |lines| lines.len() * LINE)
    }

    #[inline]
    pub(crate) fn word(&self, at: usize) -> &Word {
        #[cfg(not(loom))]
        {
            assert!(at < self.words, "a word behind the end of the directory's memory");
            // SAFETY: it is inside the memory, which is aligned and stays as long as this region;
            // a word is atomic, so any other thread or process may use it at the same time.
            unsafe { self.first.add(at).as_ref() }
        }
        #[cfg(loom)]
        {
            let own = self._own.as_ref().expect("a model has memory of its own");
            &own[at / LINE].0[at % LINE]
        }
    }
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;
    use std::fs::read_to_string;

    /// The flags of the mapping that has this address.
    #[expect(clippy::disallowed_methods, reason = "the system tells of mappings in a file")]
    fn flags(at: usize) -> String {
        let all = read_to_string("/proc/self/smaps").expect("the mappings of this process");
        let mut inside = false;
        for line in all.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            if let Some((from, to)) = range {
                let number = |text| usize::from_str_radix(text, 16).ok();
                inside = number(from) <= Some(at) && Some(at) < number(to);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
                return flags.to_owned();
            }
        }
        panic!("no mapping has {at:x}");
    }

    #[test]
    fn its_own_memory_is_zero_and_asks_for_large_pages() {
        let region = Region::owned(24 << 20);
        assert_eq!(region.bytes(), 24 << 20);
        assert!((0..region.words()).all(|at| region.word(at).get() == 0));
        // (A kernel that is built without large pages refuses to be asked.)
        if std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            let middle = std::ptr::from_ref(region.word(region.words() / 2)).addr();
            let flags = flags(middle);
            assert!(flags.split(' ').any(|flag| flag == "hg"), "{flags}");
        }
    }
}
