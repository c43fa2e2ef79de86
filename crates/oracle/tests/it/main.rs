//! The oracle on honest devices and on one that lies.

mod disks;
mod liar;
mod oracle;
mod page_cache;
