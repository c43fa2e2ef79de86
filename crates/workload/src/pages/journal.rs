//! The content of an engine's log, beside the log: what its records say, and which commits were
//! acknowledged.
//!
//! 1. A journal outlives a power cut. A recovery may use a record only if the log on the devices
//!    reaches it.

use super::{LOADED, Lsn, PageNo};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// The beginning of the first record of a log.
const FIRST: Lsn = Lsn(4096);

/// A record: the page that changed, and its last change before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The end of the record: the page's log sequence number after it.
    pub end: Lsn,
    /// The page.
    pub page: PageNo,
    /// The page's log sequence number before it.
    pub before: Lsn,
    /// It has the whole page after the change.
    pub whole: bool,
}

/// A change of a page, of which the log gets a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The page.
    pub page: PageNo,
    /// The end of its last change before.
    pub before: Lsn,
    /// Bytes of the record, without an image.
    pub bytes: u32,
    /// Bytes of the whole page, if the record has it; otherwise 0.
    pub image: u32,
}

/// The records of a log, and its promises, for the check after a cut. Cheap to clone: a clone is
/// the same journal.
#[derive(Clone)]
pub struct Journal {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Clone)]
struct Inner {
    /// Records after the checkpoint.
    records: VecDeque<Record>,
    /// For each page, its last change before the checkpoint.
    settled: Vec<Lsn>,
    /// Acknowledged commits after the checkpoint.
    acknowledged: Vec<Lsn>,
    commits: u64,
    next: Lsn,
}

impl Journal {
    /// The journal of a freshly loaded database of this many pages.
    pub fn new(pages: u32) -> Journal {
        let inner = Inner {
            records: VecDeque::new(),
            settled: vec![LOADED; pages as usize],
            acknowledged: Vec::new(),
            commits: 0,
            next: FIRST,
        };
        Journal { inner: Rc::new(RefCell::new(inner)) }
    }

    /// A separate journal with the same content, for a copy of the device.
    #[must_use]
    pub fn fork(&self) -> Journal {
        Journal { inner: Rc::new(RefCell::new(self.inner.borrow().clone())) }
    }

    /// The beginning of the next record.
    pub fn next(&self) -> Lsn {
        self.inner.borrow().next
    }

    /// The number of commits ever acknowledged.
    pub fn commits(&self) -> u64 {
        self.inner.borrow().commits
    }

    /// The number of acknowledged commits that end after `end`.
    pub fn acknowledged_after(&self, end: Lsn) -> u64 {
        self.inner.borrow().acknowledged.iter().filter(|a| **a > end).count() as u64
    }

    /// The number of acknowledged commits after the checkpoint.
    pub fn unsettled_commits(&self) -> u64 {
        self.inner.borrow().acknowledged.len() as u64
    }

    /// For each page, its last change before the checkpoint.
    pub fn settled(&self) -> Vec<Lsn> {
        self.inner.borrow().settled.clone()
    }

    /// The records that end in this range, in order.
    pub fn records(&self, range: Range<Lsn>) -> Vec<Record> {
        let inner = self.inner.borrow();
        let each = inner.records.iter().filter(|r| r.end > range.start && r.end <= range.end);
        each.copied().collect()
    }

    pub(super) fn append(&self, change: Change) -> (Lsn, Lsn) {
        let Change { page, before, bytes, image } = change;
        let mut inner = self.inner.borrow_mut();
        let begin = inner.next;
        let end = Lsn(begin.0 + u64::from(bytes) + u64::from(image));
        inner.next = end;
        inner.records.push_back(Record { end, page, before, whole: image > 0 });
        (begin, end)
    }

    pub(super) fn acknowledge(&self, lsn: Lsn) {
        let mut inner = self.inner.borrow_mut();
        inner.commits += 1;
        inner.acknowledged.push(lsn);
    }

    pub(super) fn settle(&self, checkpoint: Lsn) {
        let mut inner = self.inner.borrow_mut();
        while let Some(r) = inner.records.front().copied().filter(|r| r.end <= checkpoint) {
            inner.records.pop_front();
            inner.settled[r.page.0 as usize] = r.end;
        }
        inner.acknowledged.retain(|a| *a > checkpoint);
    }

    /// After a recovery: sets the last change of each page, and where the log goes on.
    pub fn restart(&self, pages: Vec<Lsn>, next: Lsn) {
        let mut inner = self.inner.borrow_mut();
        inner.records.clear();
        inner.acknowledged.clear();
        inner.settled = pages;
        inner.next = next;
    }
}
