//! Filling a directory with what was found on flash.

use super::Directory;
use super::batch::Batch;
use super::error::{ReserveError, StageError};
use super::stage::{Staged, Version};

/// An entry that was found on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The version of the page.
    pub version: Version,
    /// Whether it was referenced since it entered.
    pub referenced: bool,
}

impl Directory {
    /// Puts a batch back: for each frame what was found in it. Called batch after batch, in the
    /// order of the ring, on a directory that was just formatted. Of several versions of a page the
    /// one with the highest LSN is current, of the same LSN the last. What was forgotten before is
    /// not given, or a tombstone is carried out by [`Directory::forget`] between two batches.
    ///
    /// # Errors
    /// [`ReserveError::Full`]: these are more batches than the ring has.
    ///
    /// # Panics
    /// If there are more entries than frames in a batch.
    pub fn restore(&self, entries: &[Option<Found>]) -> Result<Batch, ReserveError> {
        assert!(entries.len() <= self.layout.shape.batch as usize, "more entries than frames");
        let batch = self.reserve()?;
        for entry in entries {
            let put = entry.map(|found| self.put_found(&batch, found));
            if !matches!(put, Some(Ok(_))) {
                // The frame has nothing, or an old version: nothing is put into it.
                let _ = self.take_slot(&batch);
            }
        }
        // It is this owner's, which lives.
        let done = self.close(&batch).and_then(|()| self.publish(&batch));
        debug_assert_eq!(done, Ok(()));
        Ok(batch)
    }

    fn put_found(&self, batch: &Batch, found: Found) -> Result<Staged, StageError> {
        let chain = self.chain_of(found.version.page);
        let held = self.lock(self.partition_of(chain));
        let older = self.find(chain, found.version.page);
        let put = self.put(batch, chain, found.version, found.referenced, older);
        self.unlock(held);
        put
    }
}
