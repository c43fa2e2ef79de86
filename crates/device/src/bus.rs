//! A bus: bandwidth that one or several devices take for their data, one after the other.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tantalum_rt::Nanos;

/// The wire that data take between host and devices. Cheap to clone; a clone is the same bus.
#[derive(Clone, Debug)]
pub struct Bus {
    bytes_per_s: u64,
    /// When it is taken: spans in order, which neither overlap nor touch.
    taken: Rc<RefCell<VecDeque<(Nanos, Nanos)>>>,
}

impl Bus {
    /// A bus of so many megabytes (of 1,000,000 bytes) each second.
    ///
    /// # Errors
    /// If it moves nothing.
    pub fn new(mb_per_s: u64) -> Result<Bus, String> {
        match mb_per_s.checked_mul(1_000_000) {
            None | Some(0) => Err("bus: it moves at least 1 MB each second".into()),
            Some(bytes_per_s) => Ok(Bus { bytes_per_s, taken: Rc::default() }),
        }
    }

    /// Another one, just as fast, that nobody has taken.
    pub(crate) fn idle(&self) -> Bus {
        Bus { bytes_per_s: self.bytes_per_s, taken: Rc::default() }
    }

    /// Takes the bus as soon as it is free for so long, at `begin` at the earliest. Returns when all
    /// bytes have passed. What is taken for a command that waits for its turn leaves the time until
    /// then to others.
    pub(crate) fn pass(&self, now: Nanos, begin: Nanos, bytes: u64) -> Nanos {
        let span = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        let span = Nanos(u64::try_from(span).unwrap_or(u64::MAX));
        let mut taken = self.taken.borrow_mut();
        while taken.front().is_some_and(|(_, to)| *to < now) {
            taken.pop_front();
        }
        let (mut at, mut before) = (begin, 0);
        for (from, to) in taken.iter() {
            if at.saturating_add(span) <= *from {
                break;
            }
            at = at.max(*to);
            before += 1;
        }
        let end = at.saturating_add(span);
        let joins_next = taken.get(before).is_some_and(|(from, _)| *from == end);
        let joins_last = before > 0 && taken[before - 1].1 == at;
        match (joins_last, joins_next) {
            (true, true) => {
                taken[before - 1].1 = taken[before].1;
                taken.remove(before);
            }
            (true, false) => taken[before - 1].1 = end,
            (false, true) => taken[before].0 = at,
            (false, false) => taken.insert(before, (at, end)),
        }
        end
    }
}
