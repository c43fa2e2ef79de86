//! Parts of batches are sealed in time and written: one write for each.
//!
//! 1. A part is written when the ring says so, and when no fetch reads what was in its slot before.
//! 2. What its descriptor says of other batches is taken in the poll in which the write begins.
//! 3. A failed write stops the cache: what waits for the part, or for a later one, fails.

use crate::flash::core::Core;
use crate::flash::format::{Descriptor, Part};
use crate::flash::slow::SlowStore;
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError};
use tantalum_rt::first;

impl<F: BlockDevice + 'static, S: SlowStore + 'static> Core<F, S> {
    /// Writes parts, one after the other. Several tasks do this side by side.
    pub async fn keep_writing(&self) {
        loop {
            self.work.until(|| self.is_stopped() || self.next_write().is_some()).await;
            if self.is_stopped() {
                return;
            }
            let Some(part) = self.next_write() else { continue };
            if let Err(error) = self.write(part).await {
                return self.stop(format!("a write of the flash device failed: {error}"));
            }
        }
    }

    fn next_write(&self) -> Option<Part> {
        let state = self.state.borrow();
        let next = state.ring.may_issue()?;
        let slot = self.medium.layout().before(next.batch);
        (!slot.is_some_and(|old| state.reads.contains_key(&old))).then_some(next)
    }

    async fn write(&self, part: Part) -> Result<(), IoError> {
        let (before, bytes) = {
            let state = &mut *self.state.borrow_mut();
            let (durable, front) = state.ring.issue();
            let content = state.index.batch(part.batch);
            let sealed = state.sealed.get_mut(&part).expect("an issued part is in memory");
            let layout = self.medium.layout();
            let frames = sealed.frames.len() as u64 * u64::from(layout.page);
            let descriptor = Descriptor {
                part,
                before: sealed.frames.start,
                more: sealed.more,
                epoch: self.heads.get().superblock.epoch,
                durable,
                front,
                frames: content.frames[sealed.frames.clone()].iter().map(|f| f.0).collect(),
                tombstones: content.tombstones[sealed.tombstones.clone()].to_vec(),
            };
            let bytes = Rc::get_mut(&mut sealed.bytes).expect("nobody else has them yet");
            descriptor.encode(self.medium.tag, &mut bytes[..layout.descriptor as usize]);
            state.stats.batches += 1;
            state.stats.flash_bytes += u64::from(layout.descriptor) + frames;
            (sealed.frames.start, sealed.bytes.clone())
        };
        self.medium.write_part(part, before, &bytes).await?;
        let pulled: Vec<(u64, u64)> = {
            let state = &mut *self.state.borrow_mut();
            state.ring.written(part);
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

    /// Has parts sealed that are not full in time, filled with pages from the pool.
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
            let Some((part, since)) = begun() else { continue };
            let changed = || self.is_stopped() || begun().is_none_or(|(open, _)| open != part);
            let late = self.rt.sleep_until(since.saturating_add(self.options.linger));
            first(self.work.until(changed), late).await;
            if begun().is_some_and(|(open, _)| open == part) {
                self.pull();
                self.hurry();
            }
        }
    }
}
