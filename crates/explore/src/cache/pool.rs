//! The pool of the program above a cache, from which the cache pulls.

use crate::cache::versions::{Versions, content};
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_cache::flash::{Host, PageOut};
use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

/// Pages pulled into one batch, at most.
const PULLED: usize = 2;

/// See the module. Without a judge it is empty.
pub struct Pool {
    judged: RefCell<Option<Rc<RefCell<Versions>>>>,
    /// Notified when a page that was pulled is durable.
    pub(super) staged: WaitQueue,
    page_bytes: usize,
}

impl Pool {
    pub(super) fn new(rt: &Rt, page_bytes: u32) -> Pool {
        let staged = WaitQueue::new(rt, "a page that a cache pulled");
        Pool { judged: RefCell::default(), staged, page_bytes: page_bytes as usize }
    }

    /// From now on it has the pages that the judge knows.
    pub(super) fn attach(&self, versions: &Rc<RefCell<Versions>>) {
        *self.judged.borrow_mut() = Some(versions.clone());
    }

    fn with<T>(&self, of: impl FnOnce(&mut Versions) -> T) -> Option<T> {
        Some(of(&mut self.judged.borrow().as_ref()?.borrow_mut()))
    }
}

impl Host for Pool {
    fn pull(&self, room: usize) -> Vec<PageOut> {
        let cold = self.with(|versions| versions.cold(room.min(PULLED))).unwrap_or_default();
        let out = |(page, version, dirty)| PageOut {
            page,
            data: content(page, version, self.page_bytes),
            dirty,
            lsn: version,
        };
        cold.into_iter().map(out).collect()
    }

    fn taken(&self, page: u64, lsn: u64) {
        self.with(|versions| versions.pulled(page, lsn));
    }

    fn staged(&self, page: u64, lsn: u64) {
        self.with(|versions| versions.pulled_for_good(page, lsn));
        self.staged.notify_all();
    }
}
