//! A restart after a power cut as a database does it, in virtual time: the log is read, pages are
//! read and changed as it says, and a checkpoint ends that.
//!
//! 1. Only what the devices return counts, as in [`super::recover`]: records up to where the log
//!    reaches, each on a page whose last change is the one before the record.
//! 2. Records are redone one after another, by one process, and pages go through the pool.
//! 3. No checkpoint moves until all records are redone and every changed page is written.

use super::engine::{Engine, EngineError};
use super::storage::{After, LogStore, PageStore};
use super::{Journal, Lsn};
use std::rc::Rc;
use tantalum_rt::Nanos;

/// What a restart did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restarted {
    /// Records after the checkpoint.
    pub records: u64,
    /// Of these, such that changed a page.
    pub redone: u64,
    /// Pages read, and those of them that the cache had.
    pub reads: u64,
    /// See there.
    pub hits: u64,
    /// From the beginning until the log was read.
    pub log_time: Nanos,
    /// From then on until every record was redone.
    pub redo_time: Nanos,
    /// From then on until the checkpoint was written.
    pub checkpoint_time: Nanos,
    /// Acknowledged commits that the log has lost.
    pub commits_lost: u64,
}

impl<P: PageStore, L: LogStore> Engine<P, L> {
    /// Restarts after a power cut. The store of pages is open; cleaners run when this returns, and
    /// [`Engine::start`] is left to start the clients.
    ///
    /// # Errors
    /// The stores' errors, or a page that the log does not fit.
    pub async fn restart(self: &Rc<Self>, journal: &Journal) -> Result<Restarted, EngineError> {
        let begin = self.rt.now();
        self.redoing.set(true);
        let (checkpoint, end) = self.log.recover().await?;
        let mut done = Restarted {
            commits_lost: journal.acknowledged_after(end),
            log_time: self.rt.now().saturating_sub(begin),
            ..Restarted::default()
        };
        self.start_cleaners();
        let before = self.cache_counts().unwrap_or_default();
        let reads = self.counts().page_reads;
        let mut newest = journal.settled();
        let (redo, mut from) = (self.rt.now(), checkpoint);
        for record in journal.records(checkpoint..end) {
            done.records += 1;
            newest[record.page.0 as usize] = record.end;
            done.redone += u64::from(self.redo(&record, from).await?);
            from = record.end;
        }
        let after = self.cache_counts().unwrap_or_default();
        done.reads = self.counts().page_reads - reads;
        done.hits = after.hits - before.hits;
        done.redo_time = self.rt.now().saturating_sub(redo);
        let writing = self.rt.now();
        self.write_all(Lsn(u64::MAX)).await?;
        let next = self.log.restart(end.max(checkpoint)).await?;
        journal.restart(newest, next);
        self.log.window().restart();
        self.redoing.set(false);
        done.checkpoint_time = self.rt.now().saturating_sub(writing);
        Ok(done)
    }

    /// Writes all pages whose changes begin before `lsn`. They stay in the pool.
    pub(super) async fn write_all(self: &Rc<Self>, lsn: Lsn) -> Result<(), EngineError> {
        loop {
            let old = self.pool.borrow().oldest_dirty_before(self.job.batch_pages as usize, lsn);
            if !old.is_empty() {
                self.flush_batch(old, After::Stays).await?;
                continue;
            }
            // What somebody else writes has to be durable, too.
            let pending = self.pool.borrow().oldest_change().is_some_and(|oldest| oldest < lsn)
                || self.unsynced.borrow().values().any(|oldest| *oldest < lsn);
            if !pending {
                return Ok(());
            }
            self.rt.sleep(LOOK).await;
        }
    }
}

/// How often it looks whether others have written what they write.
const LOOK: Nanos = Nanos::from_micros(200);
