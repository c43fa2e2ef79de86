//! The ring as numbers: which batch may be sealed, written and released. It decides, and does no
//! I/O.
//!
//! A batch is written in parts: one if it becomes full at once, more if some of it has to be durable
//! earlier. A part is *open* while pages enter it, *sealed* when it takes no more, *issued* when its
//! write has begun, *durable* when that write and all earlier ones have ended. A batch is *open* while
//! one of its parts is, *placed* when its second chances have been copied to the open batch, and
//! *released* when nothing needs it any more.
//!
//! 1. **What counts is a prefix.** A part is durable only when all before it are. Whoever waits for
//!    a part waits for that. So a restart gives up everything from the first part on that is not
//!    whole.
//! 2. **Released.** A batch is released when it is placed, its dirty pages are on the slow store for
//!    good, and every batch is durable that has a second chance out of it, or a newer version of a
//!    page in it.
//! 3. **No write lies over what counts.** The first part of a batch is issued only if a *durable*
//!    descriptor says that the batch in its slot was released. So a restart never looks at a slot
//!    that a torn write may have touched, apart from those of batches that are not durable.
//! 4. **Spare batches.** A part is sealed only if the batches are placed whose release its batch needs
//!    in order to be followed by another one. So there is always a batch that can be written next, and
//!    pages that get a second chance never wait for a slot that waits for them. Where they enter
//!    meanwhile there is room for all of a batch: no other part takes any of it.
//! 5. **After a crash** the batch at the front may be one whose second chances can go nowhere, since
//!    the open batch needs its slot. It was placed before the crash, and what it gave is durable. So
//!    it gives no more ([`Ring::may_give`]). If a part of the open batch is durable, the same is true
//!    of each batch that had to be placed before that part was sealed.
//! 6. **Resized.** The number of batches changes while no write is in flight. It becomes less only
//!    when the front is so far ahead that 2 to 5 hold for the new number, and the superblock knows the
//!    front. It becomes more only for batches that go to slots of their own (`resize.rs`).
//! 7. **A restart finds the rear.** It looks for batches from the last one on of which a superblock or
//!    a segment knows, so none is written over that one: a batch is issued only within a lap of it.
//! 8. **Bounded.** At most [`DEPTH`] parts are issued and not durable. At most [`leaving`] batches
//!    have pages on their way to the slow store. They are released in order.

use crate::flash::format::Part;
use crate::planted::planted;
use std::collections::VecDeque;

/// Parts that are sealed and not durable, at most.
pub(crate) const DEPTH: u64 = 4;
/// How far ahead of the open batch the front is placed, in batches, at least.
const AHEAD: u64 = DEPTH + 3;
/// Batches that the front is further ahead than those whose pages are on their way to the slow
/// store, in a ring that has room for that: so nobody waits for these pages.
const SPARE: u64 = 4;

/// How many batches may have pages on their way to the slow store, if a batch has so many frames of
/// `page` bytes: as many as have 4,096 frames and `bytes` together, and at least one
/// ([`OpenOptions::leaving`](crate::flash::OpenOptions::leaving)).
pub(crate) fn leaving(frames: u32, page: u32, bytes: u64) -> u64 {
    let (frames, page) = (u64::from(frames.max(1)), u64::from(page.max(1)));
    (4096 / frames).min(bytes / (frames * page)).max(1)
}

/// How far the front of a ring of so many batches is ahead of the open one when batches leave, if
/// `leaving` may have pages on their way to the slow store.
fn ahead(batches: u64, leaving: u64) -> u64 {
    AHEAD + (batches / 16).min(leaving + SPARE)
}

/// How many batches a ring of so many keeps: the others are free, or leave.
pub(crate) fn kept(batches: u64, leaving: u64) -> u64 {
    batches.saturating_sub(ahead(batches, leaving))
}

#[derive(Debug)]
pub(crate) struct Ring {
    batches: u64,
    /// At most so many batches have pages on their way to the slow store.
    leaving_most: u64,
    /// A ring that grows has so many batches until this one is open.
    growing: Option<(u64, u64)>,
    /// Batches before this one leave, whether or not room is needed.
    leave_to: u64,
    /// The part that pages enter.
    open: Part,
    /// Parts that are sealed and not durable, in their order.
    sealed: VecDeque<Flight>,
    /// How many of these were issued.
    issued: usize,
    /// Everything before this part is durable.
    durable: Part,
    /// What durable descriptors say at most about the front.
    durable_front: u64,
    /// A superblock, or a segment and another one behind it, says that batches before this one are
    /// durable.
    vouched: u64,
    /// Batches before this one are placed.
    placed: u64,
    /// Batches that are placed and not released, from the front on: which batch must be durable
    /// first, and whether its dirty pages are on the slow store.
    leaving: VecDeque<(Part, bool)>,
    /// Those whose dirty pages are not on the slow store.
    destaging: u64,
    /// Batches before this one are released.
    front: u64,
}

/// A part that is sealed and not durable.
#[derive(Debug)]
struct Flight {
    part: Part,
    /// What its descriptor says of the front.
    front: u64,
    written: bool,
}

impl Ring {
    /// A ring that holds the batches from `front` to before `rear`, all durable. At most `leaving`
    /// batches will have pages on their way to the slow store.
    pub fn new(batches: u32, leaving: u64, front: u64, rear: Part) -> Ring {
        Ring {
            batches: batches.into(),
            leaving_most: leaving,
            growing: None,
            leave_to: 0,
            open: rear,
            sealed: VecDeque::new(),
            issued: 0,
            durable: rear,
            durable_front: front,
            vouched: rear.batch,
            placed: front,
            leaving: VecDeque::new(),
            destaging: 0,
            front,
        }
    }

    /// It has another number of batches from now on, since a durable superblock says so, and says
    /// that this is the front; `growing`: it has only so many until this batch is open. No part is in
    /// flight.
    pub fn resize(&mut self, batches: u32, growing: Option<(u64, u64)>, front: u64) {
        assert!(self.sealed.is_empty(), "a ring is resized between writes");
        (self.batches, self.growing) = (batches.into(), growing);
        self.durable_front = self.durable_front.max(front);
        self.leave_to = 0;
    }

    /// The batches of the ring for a batch that is to be written.
    fn room(&self, batch: u64) -> u64 {
        match self.growing {
            Some((batches, until)) if batch < until => batches,
            _ => self.batches,
        }
    }

    /// Batches before this one leave, whether or not room is needed.
    pub fn leave_to(&mut self, batch: u64) {
        self.leave_to = batch;
    }

    /// A superblock, or a segment and another one behind it, says that batches before this one are
    /// durable (7).
    pub fn vouch(&mut self, batch: u64) {
        self.vouched = self.vouched.max(batch);
    }

    /// Whether a superblock should say what is durable, lest writes wait (7).
    pub fn wants_vouching(&self) -> bool {
        self.durable.batch - self.vouched >= self.room(self.open.batch) * 3 / 4
    }

    /// Whether every part that was sealed is durable.
    pub fn is_settled(&self) -> bool {
        self.durable == self.open
    }

    /// What the front has to reach so that the ring can have so many batches.
    pub fn front_for(&self, batches: u32) -> u64 {
        (self.open.batch + AHEAD + 2).saturating_sub(batches.into())
    }

    /// The part that pages enter.
    pub fn open(&self) -> Part {
        self.open
    }

    /// Everything before this part is durable.
    pub fn durable(&self) -> Part {
        self.durable
    }

    /// The first batch that is not placed.
    pub fn placed(&self) -> u64 {
        self.placed
    }

    /// The first batch that is not released.
    pub fn front(&self) -> u64 {
        self.front
    }

    /// Whether pages may enter the open batch: every second chance that has to go there is there
    /// (4).
    pub fn may_enter(&self) -> bool {
        self.placed + self.room(self.open.batch) >= self.open.batch + 3
    }

    /// Whether the open part may be sealed.
    pub fn may_seal(&self) -> bool {
        self.may_enter() && self.sealed.len() < DEPTH as usize
    }

    /// Seals the open part; the next one is open, in the same batch if there are `more`.
    pub fn seal(&mut self, more: bool) {
        assert!(self.may_seal(), "a part is sealed only when another batch can follow");
        self.sealed.push_back(Flight { part: self.open, front: 0, written: false });
        self.open = if more { self.open.next() } else { Part::first(self.open.batch + 1) };
    }

    /// The sealed part that may be issued now.
    pub fn may_issue(&self) -> Option<Part> {
        let part = self.sealed.get(self.issued)?.part;
        if part.number > 0 {
            return Some(part);
        }
        let next = part.batch;
        let released = self.front + self.room(next) >= next + 2;
        let known = self.durable_front + self.room(next) > next;
        let found = next < self.vouched + self.room(next);
        let free = (released && known && found) || planted!(NoSpareBatch);
        free.then_some(part)
    }

    /// Issues the next part. Returns what its descriptor says: up to where all is durable, and the
    /// front.
    pub fn issue(&mut self) -> (Part, u64) {
        let part = self.may_issue().expect("a batch is issued only when its slot is free");
        self.sealed[self.issued].front = self.front;
        self.issued += 1;
        let durable = if planted!(VouchesInFlight) { part } else { self.durable };
        (durable, self.front)
    }

    /// The write of a part has ended well.
    pub fn written(&mut self, part: Part) {
        if let Some(flight) = self.sealed.iter_mut().find(|flight| flight.part == part) {
            flight.written = true;
        }
        while let Some(done) = self.sealed.pop_front_if(|flight| flight.written) {
            self.issued -= 1;
            self.durable_front = self.durable_front.max(done.front);
            self.durable = self.sealed.front().map_or(self.open, |next| next.part);
        }
    }

    /// The batch whose pages should leave now, if the front has to move.
    pub fn must_leave(&self) -> Option<u64> {
        let batches = self.room(self.open.batch);
        let ahead = ahead(batches, self.leaving_most);
        let due = self.placed + batches <= self.open.batch + ahead || self.placed < self.leave_to;
        (due && self.placed < self.durable.batch && self.destaging < self.leaving_most)
            .then_some(self.placed)
    }

    /// Whether pages of the next batch to be placed may get a second chance in the open batch (5).
    pub fn may_give(&self) -> bool {
        let others = if self.open.number == 0 { 2 } else { 3 };
        self.open.batch + others <= self.placed + self.room(self.open.batch)
    }

    /// The next batch is placed. `entangled`: it had second chances, or versions that are
    /// superseded. `begun`: the open part has something.
    pub fn place(&mut self, entangled: bool, begun: bool) {
        // What is superseded just after a crash is so by what is durable: nothing has entered.
        let entangled = entangled && self.may_give();
        let after = match (entangled, begun) {
            (false, _) => Part::default(),
            (true, false) => self.open,
            (true, true) => self.open.next(),
        };
        self.leaving.push_back((after, false));
        self.destaging += 1;
        self.placed += 1;
    }

    /// The dirty pages of this batch, which is placed, are on the slow store for good.
    pub fn destaged(&mut self, batch: u64) {
        let leaving = &mut self.leaving[(batch - self.front) as usize];
        if !std::mem::replace(&mut leaving.1, true) {
            self.destaging -= 1;
        }
    }

    /// The pages of a batch that is placed do not go to the slow store: it is never released.
    pub fn give_up(&mut self) {
        self.destaging -= 1;
    }

    /// Batches whose pages are on their way to the slow store.
    pub fn destaging(&self) -> u64 {
        self.destaging
    }

    /// Releases the batch at the front, if it can be.
    pub fn release(&mut self) -> Option<u64> {
        let (after, destaged) = *self.leaving.front()?;
        if !destaged || after > self.durable {
            return None;
        }
        self.leaving.pop_front();
        self.front += 1;
        Some(self.front - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn few_large_batches_leave_at_a_time_and_many_small_ones() {
        for (frames, page, bytes, batches) in [
            (64, 4096, 32 << 20, 64),
            (64, 16 << 10, 32 << 20, 32),
            (128, 4096, 32 << 20, 32),
            (16, 16 << 10, 32 << 20, 128),
            (1, 512, 32 << 20, 4096),
            (64, 8192, 1 << 20, 2),
            (64, 1 << 20, 32 << 20, 1),
            (4096, 1 << 20, 0, 1),
        ] {
            assert_eq!(leaving(frames, page, bytes), batches, "{frames} frames of {page}");
        }
    }

    proptest! {
        /// A small cache in numbers: whatever the order of events, also with crashes, it never
        /// stops, and no write lies over a batch that a restart would look at.
        #[test]
        fn it_goes_round(
            choices in proptest::collection::vec(any::<u16>(), 300..900),
            batches in prop_oneof![12..20u32, 20..300u32],
            leaving in 1..40u64,
        ) {
            let n = u64::from(batches);
            let mut ring = Ring::new(batches, leaving, 1, Part::first(1));
            let mut flying: Vec<Part> = Vec::new();
            // What the descriptor of each part says of the front; what a restart knows besides.
            let mut said: BTreeMap<Part, u64> = BTreeMap::new();
            let mut base = 1;
            let mut destaging: Vec<u64> = Vec::new();
            let mut vouched = 1;
            for choice in &choices {
                let choice = usize::from(*choice);
                if choice % 40 == 0 {
                    // A crash: some of what was in flight is whole.
                    let all: Vec<Part> = ring.sealed.iter().map(|flight| flight.part).collect();
                    let whole = all.iter().take_while(|part| flying.contains(part)).count();
                    let mut left = all.iter().copied().chain([ring.open()]);
                    let rear = left.nth(choice / 40 % (whole + 1)).unwrap();
                    base = said.range(..rear).map(|(_, front)| *front).max().unwrap_or(base).max(base);
                    ring = Ring::new(batches, leaving, base, rear);
                    vouched = rear.batch;
                    said.split_off(&rear);
                    flying.clear();
                    destaging.clear();
                    continue;
                }
                // What can happen now.
                let mut steps = Vec::new();
                steps.extend(ring.may_seal().then_some(0));
                steps.extend(ring.may_issue().map(|_| 1));
                steps.extend((!flying.is_empty()).then_some(2));
                steps.extend(ring.must_leave().map(|_| 3));
                steps.extend((!destaging.is_empty()).then_some(4));
                steps.extend(ring.wants_vouching().then_some(5));
                prop_assert!(!steps.is_empty(), "it stands: {:?}", ring);
                prop_assert_eq!(ring.destaging(), destaging.len() as u64);
                prop_assert!(ring.destaging() <= leaving);
                match steps[choice % steps.len()] {
                    0 => ring.seal(choice & 256 == 0),
                    1 => {
                        let part = ring.may_issue().unwrap();
                        let (durable, front) = ring.issue();
                        prop_assert!(durable <= part && front <= durable.batch);
                        // The slot's last batch is before the front that any restart finds.
                        let known = said.range(..ring.durable()).map(|(_, f)| *f).max().unwrap_or(0);
                        prop_assert!(part.batch < known.max(base) + n);
                        prop_assert!(flying.len() < DEPTH as usize);
                        prop_assert!(part.batch < vouched + n, "a restart does not find the rear");
                        said.insert(part, front);
                        flying.push(part);
                    }
                    2 => {
                        let part = flying.remove(choice / 5 % flying.len());
                        ring.written(part);
                    }
                    3 => {
                        destaging.push(ring.must_leave().unwrap());
                        ring.place(choice & 64 == 0, choice & 128 == 0);
                    }
                    4 => ring.destaged(destaging.remove(choice / 5 % destaging.len())),
                    _ => {
                        vouched = ring.durable().batch;
                        ring.vouch(vouched);
                    }
                }
                while let Some(batch) = ring.release() {
                    prop_assert!(batch < ring.durable().batch && !destaging.contains(&batch));
                }
            }
            prop_assert!(ring.open().batch > 3);
        }
    }
}
