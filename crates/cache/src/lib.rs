//! The flash cache: a second level of pages on flash, between a database's buffer pool in RAM and a
//! slow, large store (Kang, Lee, Moon, "Flash as cache extension for online transactional
//! workloads", VLDB Journal 2016, called *FaCE* here).
//!
//! A page enters the cache when it leaves RAM, clean or dirty. Flash sees only sequential batches of
//! pages: the cache is a ring of frames that is written at its rear and replaced at its front.
//!
//! # Map
//!
//! `directory` knows which frame has which version of which page. It decides and does no I/O.
//!
//! `policy` compares ways to decide: mvFIFO and its rivals behind one interface, each with the device
//! work of its nature, and a simulator over recorded page I/Os.
//!
//! `flash` is the cache on devices: what it writes, in which order, and how it starts again.
//!
//! `blocking` is the same for threads, with calls that block.
//!
//! `volume` is a block device over a cache, for software that knows nothing of it.

pub mod bench;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod directory;
pub mod flash;
mod planted;
pub mod policy;
pub mod volume;

#[cfg(feature = "planted")]
pub use planted::{Defect, plant};
