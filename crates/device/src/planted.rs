//! Defects planted on purpose, to show that they are found: only with the feature `planted`,
//! and then only what a test has asked for on its own thread.
//!
//! 1. Without the feature nothing of this is compiled: `planted!` is `false`.
//! 2. Each defect is one that a device could really have, in one place of it.

/// Declares what a crate's defects are: `planted!`, whether one of them is planted, and with the
/// feature `planted` of that crate `Defect` with `Defect::ALL`, and `plant`. It stands in the
/// crate's module `planted`, whose names the crate exports. For the crates of the project, each of
/// which has defects of its own.
#[doc(hidden)]
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "the crate that has the defects is meant")]
macro_rules! defects {
    ($($(#[$doc:meta])+ $name:ident,)*) => {
        /// Whether a defect is planted.
        #[cfg(feature = "planted")]
        macro_rules! planted {
            $(($name) => { crate::planted::is(crate::planted::Defect::$name) };)*
        }

        /// No defect is.
        #[cfg(not(feature = "planted"))]
        macro_rules! planted {
            $(($name) => { false };)*
        }

        pub(crate) use planted;

        #[cfg(feature = "planted")]
        pub(crate) use defects::is;
        #[cfg(feature = "planted")]
        pub use defects::{Defect, plant};

        #[cfg(feature = "planted")]
        mod defects {
            /// A defect that can be planted in what this crate has.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum Defect { $($(#[$doc])+ $name,)* }

            impl Defect {
                /// All of them.
                pub const ALL: &[Defect] = &[$(Defect::$name,)*];
            }

            ::std::thread_local! {
                static PLANTED: ::std::cell::Cell<Option<Defect>> =
                    const { ::std::cell::Cell::new(None) };
            }

            /// Plants a defect in what this thread runs, or removes it.
            pub fn plant(defect: Option<Defect>) {
                PLANTED.set(defect);
            }

            pub(crate) fn is(defect: Defect) -> bool {
                PLANTED.get() == Some(defect)
            }
        }
    };
}

crate::defects! {
    /// A flush of a RAM device forgets the newest write that it covers.
    RamForgetsFlushed,
    /// A cut tears an atomic group of a RAM device that was in flight.
    RamTearsGroup,
    /// A RAM device keeps a write with forced unit access in its volatile cache.
    RamCachesFua,
    /// A flush of a disk completes at once.
    DiskFlushesEarly,
    /// A disk keeps a write with forced unit access in its cache.
    DiskCachesFua,
    /// A flush of a RAID-0 is a flush of its first member only.
    Raid0FlushesOne,
}
