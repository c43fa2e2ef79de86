//! The locks of partitions: of all chains whose numbers end alike.
//!
//! 1. A lock is one word: 0, or its owner. It is held for some stores and never while anything is
//!    waited for; nobody holds two.
//! 2. Whoever waits for a lock asks whether its owner lives. If not, it takes the lock over, by a
//!    swap of the dead owner for itself, and mends the partition before it goes on. Dead owners
//!    never lock again, so the swap takes the lock that was looked at.
//! 3. Mending needs no record of what was under way: the chains say it (`chain.rs`, 3 and 4).
//!    `Filling` was not staged, `Leaving` was over, a second valid version was being replaced. If
//!    the mender dies too, the next one mends again.
//! 4. An entry that is `Filling` or `Leaving` under a lock that was just taken is not linked: it was
//!    not reached, or was unlinked, before its owner died.

use super::Directory;
use super::chain::{Place, frame_in};
use super::control::{Control, State};
use super::owner::Owner;
use super::sys::{Word, pause};

/// How often a lock is tried before its owner is asked about: asking is a call of the system.
#[cfg(not(loom))]
const PATIENCE: u32 = 512;
#[cfg(loom)]
const PATIENCE: u32 = 1;

/// A lock that is held. It is not given back by itself: who dies inside holds it still.
#[must_use]
pub(crate) struct Held {
    partition: u64,
}

impl Directory {
    pub(super) fn lock_word(&self, partition: u64) -> &Word {
        self.region.word(self.layout.locks + partition as usize * super::layout::LINE)
    }

    pub(crate) fn lock(&self, partition: u64) -> Held {
        let word = self.lock_word(partition);
        let me = self.owner.word();
        for turn in 1.. {
            match word.swap_if(0, me) {
                Ok(_) => break,
                Err(owner) if turn % PATIENCE == 0 && self.is_dead(owner) => {
                    if word.swap_if(owner, me).is_ok() {
                        self.mend(partition);
                        break;
                    }
                }
                Err(_) => pause(turn),
            }
        }
        Held { partition }
    }

    pub(crate) fn unlock(&self, held: Held) {
        self.lock_word(held.partition).set(0);
    }

    /// Whether this is an owner, and will never do anything again.
    pub(crate) fn is_dead(&self, owner: u64) -> bool {
        owner != self.owner.word()
            && Owner::new(owner).is_some_and(|owner| !self.living.is_alive(owner))
    }

    fn mend(&self, partition: u64) {
        let mut chain = partition;
        while chain < self.layout.chains {
            self.mend_chain(chain);
            chain += self.layout.partitions;
        }
    }

    fn mend_chain(&self, chain: u64) {
        let mut kept: Vec<(u64, u32)> = Vec::new();
        let mut before = None;
        let mut next = frame_in(self.head(chain).get());
        for _ in 0..self.layout.shape.frames {
            let Some(frame) = next else { break };
            next = frame_in(self.link(frame).get());
            let page = self.entry(frame).page.get();
            let place = Place { before, frame };
            let newer = kept.iter().find(|(kept, _)| *kept == page);
            match (Control(self.entry(frame).control.get()).state(), newer) {
                (State::Valid, None) => {
                    kept.push((page, frame));
                    before = Some(frame);
                }
                (State::Valid, Some(&(_, newer))) => self.supersede(chain, newer, place),
                (State::Filling | State::Leaving, _) => self.end(chain, place),
                (State::Free | State::Gone, _) => self.unlink(chain, place),
            }
        }
        self.bump(chain);
    }

    /// Waits until an entry is `Free`, `Valid` or `Gone`: for the live owner that changes it, or ends
    /// what a dead one began. Which it was then; a valid one may be changed at once.
    pub(crate) fn settle(&self, frame: u32) -> State {
        let control = |frame| Control(self.entry(frame).control.get());
        loop {
            let seen = control(frame);
            if !matches!(seen.state(), State::Filling | State::Leaving) {
                return seen.state();
            }
            let held = self.lock(seen.partition());
            let now = control(frame);
            let same = now.lap() == seen.lap() && now.partition() == seen.partition();
            if same && matches!(now.state(), State::Filling | State::Leaving) {
                self.change(frame, |control| control.with(State::Gone));
            }
            self.unlock(held);
        }
    }
}
