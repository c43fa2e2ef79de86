//! Hints to the processor and to the system, for tables that are larger than the processor's
//! caches. A hint changes nothing but speed.

/// Begins to load the memory at `place` into the processor's cache, without waiting for it. It
/// helps with tables larger than the cache, when the next access is known early. On processors
/// other than x86-64 it does nothing.
pub fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction; it changes nothing but caches,
        // and does not even fault.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Bytes of a large page of the system, and of the smallest table that is worth some.
#[cfg(target_os = "linux")]
const LARGE: usize = 2 << 20;

/// Asks the system for large pages under a table that is read and written in no order: with
/// small ones nearly every access waits for its address to be translated, too. Best called while
/// the table is untouched. A table that is smaller than some large pages stays as it is, and so
/// does any where the system has none.
pub fn large_pages<T>(table: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let range = table.as_mut_ptr_range();
        let first = (range.start as usize).next_multiple_of(LARGE);
        let end = range.end as usize / LARGE * LARGE;
        if first + 4 * LARGE <= end {
            let start = range.start.wrapping_byte_add(first - range.start as usize);
            // SAFETY: the range is inside the table, which is borrowed alone. The advice changes
            // no content, only how the system maps it.
            let advised = unsafe { madvise(start.cast(), end - first, Advice::LinuxHugepage) };
            // Without large pages all is as before.
            let _ = advised;
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = table;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_its_content_under_large_pages_whatever_its_size() {
        for size in [0, 1, 4096, 5 << 20, 33 << 20] {
            let mut table: Vec<u8> = vec![0; size];
            table.iter_mut().step_by(4099).for_each(|byte| *byte = 7);
            large_pages(&mut table);
            table.iter().step_by(4099).for_each(|byte| assert_eq!(*byte, 7));
            assert_eq!(table.iter().filter(|byte| **byte == 7).count(), size.div_ceil(4099));
        }
    }
}
