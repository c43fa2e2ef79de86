//! A hint to the processor.

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
