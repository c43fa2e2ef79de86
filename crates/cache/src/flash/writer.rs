//! Batches are sealed in time and written: one write for each.
//!
//! 1. A batch is written when the ring says so, and when no fetch reads from its slot.
//! 2. What its descriptor says of other batches is taken in the poll in which the write begins.
//! 3. A failed write stops the cache: what waits for the batch, or for a later one, fails.

use crate::flash::core::Core;
use crate::flash::format::Descriptor;
use crate::flash::slow::SlowStore;
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError};
use tantalum_rt::first;

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    /// Writes batches, one after the other. Several tasks do this side by side.
    pub async fn keep_writing(&self) {
        loop {
            self.work.until(|| self.is_stopped() || self.next_write().is_some()).await;
            if self.is_stopped() {
                return;
            }
            let Some(batch) = self.next_write() else { continue };
            if let Err(error) = self.write(batch).await {
                return self.stop(format!("a write of the flash device failed: {error}"));
            }
        }
    }

    fn next_write(&self) -> Option<u64> {
        let state = self.state.borrow();
        let next = state.ring.may_issue()?;
        let slot = self.medium.layout().before(next);
        (!slot.is_some_and(|old| state.reads.contains_key(&old))).then_some(next)
    }

    async fn write(&self, batch: u64) -> Result<(), IoError> {
        let bytes = {
            let state = &mut *self.state.borrow_mut();
            let (durable, front) = state.ring.issue();
            let content = state.index.batch(batch);
            let frames = content.frames.len() as u64;
            let layout = self.medium.layout();
            let batch_bytes = u64::from(layout.descriptor) + frames * u64::from(layout.page);
            let descriptor = Descriptor {
                batch,
                epoch: self.heads.get().superblock.epoch,
                durable,
                front,
                frames: content.frames.iter().map(|f| f.0).collect(),
                tombstones: content.tombstones.clone(),
            };
            let sealed = state.sealed.get_mut(&batch).expect("an issued batch is in memory");
            let bytes = Rc::get_mut(&mut sealed.bytes).expect("nobody else has them yet");
            let room = &mut bytes[..self.medium.layout().descriptor as usize];
            descriptor.encode(self.medium.tag, room);
            state.stats.batches += 1;
            state.stats.flash_bytes += batch_bytes;
            sealed.bytes.clone()
        };
        self.medium.write_batch(batch, &bytes).await?;
        let pulled: Vec<(u64, u64)> = {
            let state = &mut *self.state.borrow_mut();
            state.ring.written(batch);
            let rest = state.sealed.split_off(&state.ring.durable());
            let durable = std::mem::replace(&mut state.sealed, rest);
            durable.into_values().flat_map(|s| s.pulled).collect()
        };
        pulled.into_iter().for_each(|(page, lsn)| self.host.staged(page, lsn));
        self.release();
        self.turn();
        self.durable.notify_all();
        self.room.notify_all();
        self.work.notify_all();
        Ok(())
    }

    /// Has batches sealed that are not full in time, filled with pages from the pool.
    pub async fn keep_sealing(&self) {
        let begun = || {
            let state = self.state.borrow();
            let since = state.open.since.filter(|_| !state.open.due);
            since.map(|since| (state.ring.open(), since))
        };
        loop {
            self.work.until(|| self.is_stopped() || begun().is_some()).await;
            if self.is_stopped() {
                return;
            }
            let Some((batch, since)) = begun() else { continue };
            let changed = || self.is_stopped() || begun().is_none_or(|(open, _)| open != batch);
            let late = self.rt.sleep_until(since.saturating_add(self.options.linger));
            first(self.work.until(changed), late).await;
            if begun().is_some_and(|(open, _)| open == batch) {
                self.pull();
                self.hurry();
            }
        }
    }
}
