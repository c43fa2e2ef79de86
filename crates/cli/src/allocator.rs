//! The allocator of the command.
//!
//! Thousands of simulated drives are made and dropped, in many small pieces: the crash explorer spends
//! a quarter of its time on allocating and freeing memory. Mimalloc gives memory that was freed back to
//! the system after 10 ms, and the next drive asks for it again: a sixth of the time of an experiment
//! with power cuts. So it waits longer here.

use libmimalloc_sys::{mi_option_get, mi_option_set, mi_option_t};
use std::ffi::c_long;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc 2: how long memory that was freed is kept, in ms. (The crate
/// gives it no name.)
const PURGE_DELAY: mi_option_t = 15;
/// What it is by default.
const BY_DEFAULT: c_long = 10;
/// What it is here.
const PATIENT: c_long = 1000;

/// Has memory kept for a second before the system gets it back. Called first, by one thread. What the
/// environment says (`MIMALLOC_PURGE_DELAY`) counts more.
pub fn keep_memory() {
    // SAFETY: both functions take any number of an option, and no other thread runs yet.
    unsafe {
        if mi_option_get(PURGE_DELAY) == BY_DEFAULT {
            mi_option_set(PURGE_DELAY, PATIENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of mimalloc may have other numbers: the default tells this option from others.
    #[test]
    fn the_number_is_that_of_the_delay() {
        // SAFETY: any number of an option is taken.
        let was = unsafe { mi_option_get(PURGE_DELAY) };
        assert!([BY_DEFAULT, PATIENT].contains(&was), "{was}");
        keep_memory();
        // SAFETY: the same.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, PATIENT);
    }
}
