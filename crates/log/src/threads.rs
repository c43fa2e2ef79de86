//! Threads that wait for a log: for an LSN, for room, for its end. All of it is under the lock of
//! [`crate::works`].
//!
//! 1. A thread that waits for an LSN waits at a gate whose end is at or behind it. A gate opens when
//!    everything before its end is durable, or the log has ended, in one call for all its threads.
//!    Threads whose records make one group wait at one gate.
//! 2. Threads that wait for room take their turn in the order of their arrival.
//! 3. Whoever changes something takes [`Wakes`] along, and wakes once the lock is free.
//! 4. The runtime of the log is woken once, until it has looked again.

use crate::sys::{Event, Parker};
use crate::{LogError, Lsn};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use tantalum_rt::Nanos;
use tantalum_rt::wall::AlignedBuf;

#[derive(Default)]
pub(crate) struct Threads {
    gates: VecDeque<Gate>,
    pub turns: VecDeque<Arc<Parker>>,
    ends: Vec<Arc<Parker>>,
    /// The devices that threads may write to, by index, with the tag of each.
    pub lent: Vec<Option<u64>>,
    /// No appends are accepted any more.
    closing: bool,
    closed: Option<LogError>,
    /// There is something for the runtime of the log.
    news: bool,
    /// Wakes it.
    owner: Option<Waker>,
    /// When it looks by itself.
    pub timer: Option<Nanos>,
    /// Buffers for what threads write, with their sizes.
    spare: Vec<(usize, AlignedBuf)>,
}

struct Gate {
    begin: Lsn,
    end: Lsn,
    event: Arc<Event>,
}

/// Who is to be woken.
#[derive(Default)]
#[must_use]
pub(crate) struct Wakes {
    all: Vec<Arc<Event>>,
    one: Option<Arc<Event>>,
    parkers: Vec<Arc<Parker>>,
    owner: Option<Waker>,
}

impl Wakes {
    pub fn is_empty(&self) -> bool {
        let nobody = self.all.is_empty() && self.parkers.is_empty();
        nobody && self.one.is_none() && self.owner.is_none()
    }

    /// Without the lock.
    pub fn wake(self) {
        // Whoever is to go on writing comes first.
        if let Some(event) = self.one {
            event.wake_one();
        }
        if let Some(owner) = self.owner {
            owner.wake();
        }
        self.parkers.iter().for_each(|p| p.wake());
        self.all.iter().for_each(|e| e.wake_all());
    }
}

/// What every call returns once the log was closed.
pub(crate) fn closed() -> LogError {
    LogError::Failed("it was closed".to_string())
}

impl Threads {
    /// # Errors
    /// Why appends are not accepted, if they are not.
    pub fn check_open(&self) -> Result<(), LogError> {
        self.check_closed()?;
        if self.closing { Err(closed()) } else { Ok(()) }
    }

    /// # Errors
    /// Why the log has ended, if it has.
    pub fn check_closed(&self) -> Result<(), LogError> {
        self.closed.clone().map_or(Ok(()), Err)
    }

    /// Where to wait for `lsn`. Groups are formed up to `formed`; one has `most` bytes at most.
    pub fn gate(&mut self, lsn: Lsn, formed: Lsn, most: u64) -> Arc<Event> {
        let at = self.gates.partition_point(|gate| gate.end < lsn);
        if let Some(gate) = self.gates.get(at) {
            return gate.event.clone();
        }
        match self.gates.back_mut() {
            Some(last) if last.end > formed && lsn.since(last.begin) <= most => {
                last.end = lsn;
                last.event.clone()
            }
            _ => {
                let event = Arc::new(Event::default());
                self.gates.push_back(Gate { begin: lsn, end: lsn, event: event.clone() });
                event
            }
        }
    }

    /// A buffer of `len` bytes, of unknown content.
    pub fn buffer(&mut self, len: usize) -> AlignedBuf {
        let fits = |(size, _): &(usize, AlignedBuf)| *size >= len;
        let mut buf = match self.spare.pop().filter(fits) {
            Some((_, buf)) => buf,
            None => AlignedBuf::zeroed(len.next_power_of_two()),
        };
        buf.set_len(len);
        buf
    }

    /// The buffer, with which bytes of this length were written, is not needed any more.
    pub fn keep(&mut self, buf: AlignedBuf) {
        // Each device has one write in flight, or one for each of its partitions.
        if self.spare.len() < self.lent.len() {
            self.spare.push((buf.len(), buf));
        }
    }

    /// Everything before `durable` is.
    pub fn open_gates(&mut self, durable: Lsn, wakes: &mut Wakes) {
        while self.gates.front().is_some_and(|gate| gate.end <= durable) {
            wakes.all.extend(self.gates.pop_front().map(|gate| gate.event));
        }
    }

    /// There may be room.
    pub fn next_turn(&self, wakes: &mut Wakes) {
        wakes.parkers.extend(self.turns.front().cloned());
    }

    /// Whether some thread would write what is behind `formed`.
    pub fn would_write(&self, formed: Lsn) -> bool {
        !self.turns.is_empty() || self.gates.back().is_some_and(|gate| gate.end > formed)
    }

    /// Wakes a thread that would write what is behind `formed`.
    pub fn call_writer(&self, formed: Lsn, wakes: &mut Wakes) {
        match self.gates.iter().find(|gate| gate.end > formed) {
            Some(gate) => wakes.one = Some(gate.event.clone()),
            None => self.next_turn(wakes),
        }
    }

    /// Something for the runtime of the log.
    pub fn tell(&mut self, wakes: &mut Wakes) {
        self.news = true;
        if let Some(owner) = self.owner.take() {
            wakes.owner = Some(owner);
        }
    }

    /// The runtime looks at everything now.
    pub fn looked(&mut self) {
        self.news = false;
    }

    /// From now on news wake the runtime of the log; `false` if there are news already.
    pub fn arm(&mut self, waker: &Waker) -> bool {
        self.owner = (!self.news).then(|| waker.clone());
        !self.news
    }

    /// Accepts no appends any more.
    pub fn stop_appends(&mut self, wakes: &mut Wakes) {
        self.closing = true;
        wakes.parkers.extend(self.turns.drain(..));
    }

    /// Something to wait for until the log has ended.
    pub fn wait_for_end(&mut self) -> Arc<Parker> {
        let parker = Parker::new();
        self.ends.push(parker.clone());
        parker
    }

    /// The log has ended. Every call fails from now on; the first reason counts.
    pub fn close(&mut self, why: LogError, wakes: &mut Wakes) {
        self.closed.get_or_insert(why);
        wakes.all.extend(self.gates.drain(..).map(|gate| gate.event));
        wakes.parkers.extend(self.turns.drain(..).chain(self.ends.drain(..)));
    }

    /// The holder of the lock panics.
    pub fn panicked(&mut self) {
        let mut wakes = Wakes::default();
        let why = "a thread panicked while it changed the log: open it again";
        self.close(LogError::Failed(why.to_string()), &mut wakes);
        self.tell(&mut wakes);
        wakes.wake();
    }
}
