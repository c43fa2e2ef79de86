//! The flash cache, its policies and the cache volume: from threads, cut at every moment, and on
//! damaged media. What kills processes is beside this (`processes`).

#[cfg(feature = "blocking")]
mod blocking;
mod crash;
mod explore;
mod media;
mod policies;
mod volume;
