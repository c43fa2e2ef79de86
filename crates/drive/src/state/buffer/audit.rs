//! The buffer held against itself (buffer, invariants 1, 3 and 6).

use super::{Buffer, Entry, NONE, State};
use crate::state::audit::ensure;
use std::collections::BTreeSet;

impl Buffer {
    /// Whether queue, index, chains of copies, free slots and epochs are consistent.
    ///
    /// # Errors
    /// What is not so.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_queue()?;
        self.audit_copies()?;
        let free: BTreeSet<u32> = self.free.iter().copied().collect();
        let is_free = |at: u32| self.entries[at as usize].state == State::Free;
        let all = (0..self.entries.len() as u32).filter(|at| is_free(*at)).count();
        ensure(free.len() == self.free.len() && free.len() == all, || {
            format!("{all} slots are free, listed are {:?}", self.free)
        })?;
        ensure(free.iter().all(|at| is_free(*at)), || {
            format!("a slot that is listed as free is not: {free:?}")
        })?;
        let mut open = vec![0; self.open.len()];
        for e in self.entries.iter().filter(|e| e.state != State::Free) {
            let place = e.epoch.checked_sub(self.first_epoch).map(|i| i as usize);
            match place.and_then(|i| open.get_mut(i)) {
                Some(count) => *count += 1,
                None => return Err(format!("{} is of the epoch {}, now past", e.lpn, e.epoch)),
            }
        }
        ensure(self.open.iter().eq(&open), || {
            format!("pages of the open epochs are {open:?}, counted {:?}", self.open)
        })
    }

    fn audit_queue(&self) -> Result<(), String> {
        for (queue, is_hasty) in self.queues.iter().zip([false, true]) {
            let (mut at, mut prev, mut count) = (queue.head, NONE, 0);
            while at != NONE && count <= self.entries.len() {
                let e = &self.entries[at as usize];
                let fits = e.state == State::Waiting && e.prev == prev && e.hasty == is_hasty;
                ensure(fits, || {
                    format!("slot {at} in the queue is {:?} behind {}", e.state, e.prev as i32)
                })?;
                let newer = self.entries.get(e.successor as usize);
                ensure(is_hasty || newer.is_none_or(|newer| !newer.hasty), || {
                    format!("slot {at} is not in haste, and holds back one that is")
                })?;
                (prev, at, count) = (at, e.next, count + 1);
            }
            let is_here = |e: &&Entry| e.state == State::Waiting && e.hasty == is_hasty;
            let waiting = self.entries.iter().filter(is_here).count();
            let fits = queue.tail == prev && count == waiting && count == queue.count as usize;
            ensure(fits, || {
                format!("{waiting} pages wait, {count} are queued, counted {}", queue.count)
            })?;
        }
        Ok(())
    }

    fn audit_copies(&self) -> Result<(), String> {
        let mut held = BTreeSet::new();
        for (at, e) in self.entries.iter().enumerate() {
            if e.successor == NONE {
                continue;
            }
            let newer = &self.entries[e.successor as usize];
            let fits = matches!(e.state, State::Flying | State::Waiting | State::Void)
                && newer.state == State::Held
                && newer.lpn == e.lpn
                && held.insert(e.successor);
            ensure(fits, || format!("slot {at} ({:?}) holds back {:?}", e.state, newer.state))?;
        }
        let mut newest = BTreeSet::new();
        for (at, e) in (0u32..).zip(&self.entries) {
            match e.state {
                State::Held => ensure(held.contains(&at), || format!("nothing holds slot {at}"))?,
                State::Waiting | State::Flying if e.successor == NONE => {
                    let own = self.index.get(&e.lpn.0) == Some(&at);
                    ensure(own, || format!("{} in slot {at} cannot be found", e.lpn))?;
                }
                _ => {}
            }
        }
        for (lpn, at) in &self.index {
            let e = &self.entries[*at as usize];
            let counts = matches!(e.state, State::Waiting | State::Flying | State::Held);
            let fits = e.lpn.0 == *lpn && counts && e.successor == NONE && newest.insert(*at);
            ensure(fits, || format!("page {lpn} is looked for in slot {at}, {:?}", e.state))?;
        }
        Ok(())
    }
}
