//! The log and the log volume: from threads, cut at every moment, and on damaged media. What kills
//! processes is beside this (`killed`).

#[cfg(feature = "blocking")]
mod blocking;
mod crash;
mod explore;
mod media;
mod volume;
