//! Threads that wait for a log: for an LSN, for room, for its end. All of it is under the lock of
//! [`crate::works`].
//!
//! 1. A thread that waits for an LSN waits at a gate whose end is at or behind it. A gate opens when
//!    everything before its end is durable, or the log has ended, in one call for all its threads.
//!    Threads whose records make one group wait at one gate. If a group ends within a gate, what
//!    some of its threads wait for is durable before the gate opens. Whoever goes away then may have
//!    been woken in order to write, and calls another one.
//! 2. Threads that wait for room take their turn in the order of their arrival.
//! 3. Whoever changes something takes [`Wakes`] along, and wakes once the lock is free.
//! 4. The runtime of the log is woken once, until it has looked again.
//! 5. **Gathering.** Threads that were woken by a write mostly commit again at once. The next group
//!    waits for as many as were woken, since one write for all is less than one for each half. It
//!    waits at most for half as long as the last write took, and one thread that waits minds that
//!    time. If they do not come, some groups do not wait, and more of them each time.

use crate::pen::Pen;
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
    pub lent: Vec<Option<(u64, Arc<dyn Pen>)>>,
    /// No appends are accepted any more.
    closing: bool,
    closed: Option<LogError>,
    /// There is something for the runtime of the log.
    news: bool,
    /// Wakes it.
    owner: Option<Waker>,
    /// When it looks by itself.
    pub timer: Option<Nanos>,
    gathering: Option<Gathering>,
    /// Threads that waited at the gates that were opened last.
    woken: u32,
    round: u64,
    /// Groups that do not gather, and how many there were the last time.
    skip: u32,
    pause: u32,
    /// Buffers for what threads write, with their sizes.
    spare: Vec<(usize, AlignedBuf)>,
}

/// Groups that do not gather after one has waited in vain, at most.
const PAUSE_MAX: u32 = 64;

/// A group that waits for threads.
#[derive(Clone, Copy)]
struct Gathering {
    round: u64,
    woken: u32,
    missing: u32,
    patience: Nanos,
    /// A thread minds the time.
    minded: bool,
}

struct Gate {
    begin: Lsn,
    end: Lsn,
    /// Threads that wait here, those that write meanwhile among them.
    waiting: u32,
    writing: u32,
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

    /// Where a thread waits for `lsn`. Groups are formed up to `formed`; one has `most` bytes at
    /// most.
    pub fn gate(&mut self, lsn: Lsn, formed: Lsn, most: u64) -> Arc<Event> {
        let at = self.gates.partition_point(|gate| gate.end < lsn);
        let fits = |last: &Gate| last.end > formed && lsn.since(last.begin) <= most;
        if at == self.gates.len() && !self.gates.back().is_some_and(fits) {
            let event = Arc::default();
            self.gates.push_back(Gate { begin: lsn, end: lsn, waiting: 0, writing: 0, event });
        }
        let last = self.gates.len() - 1;
        let gate = &mut self.gates[at.min(last)];
        gate.end = gate.end.max(lsn);
        gate.waiting += 1;
        gate.event.clone()
    }

    /// Whether threads may write to the device, which has this tag.
    pub fn is_lent(&self, device: usize, tag: u64) -> bool {
        matches!(self.lent.get(device), Some(Some((lent, _))) if *lent == tag)
    }

    /// What writes to a device that is lent.
    pub fn pen(&self, device: usize) -> Option<Arc<dyn Pen>> {
        self.lent.get(device)?.as_ref().map(|(_, pen)| pen.clone())
    }

    /// A thread has come to wait.
    pub fn arrived(&mut self) {
        if let Some(gathering) = &mut self.gathering {
            gathering.missing -= 1;
            if gathering.missing == 0 {
                (self.gathering, self.pause) = (None, 0);
            }
        }
    }

    /// Threads were woken by a write that took so long: the next group gathers, if that may pay.
    pub fn gather(&mut self, took: Nanos) {
        let waiting: u32 = self.gates.iter().map(|gate| gate.waiting).sum();
        let woken = self.woken;
        self.skip = self.skip.saturating_sub(1);
        self.round += 1;
        // Who waits for room would not come.
        let pays = woken > 0 && woken + waiting > 1 && self.skip == 0 && self.turns.is_empty();
        let (round, patience) = (self.round, Nanos(took.0 / 2));
        let gathering = Gathering { round, woken, missing: woken, patience, minded: false };
        self.gathering = pays.then_some(gathering);
    }

    pub fn is_gathering(&self) -> bool {
        self.gathering.is_some()
    }

    /// For how long the thread is to mind the time, and of which round, if it is.
    pub fn mind(&mut self) -> Option<(Nanos, u64)> {
        let gathering = self.gathering.as_mut().filter(|g| !g.minded)?;
        gathering.minded = true;
        Some((gathering.patience, gathering.round))
    }

    /// The thread that minded this round does so no longer. `late`: nobody waits any longer.
    pub fn minded(&mut self, round: u64, late: bool) {
        let Some(gathering) = self.gathering.as_mut().filter(|g| g.round == round) else { return };
        gathering.minded = false;
        if late {
            if gathering.missing * 4 > gathering.woken {
                self.pause = (self.pause * 2).clamp(1, PAUSE_MAX);
                self.skip = self.pause;
            }
            self.gathering = None;
        }
    }

    /// A thread waits for room.
    pub fn add_turn(&mut self, parker: Arc<Parker>) {
        self.turns.push_back(parker);
        self.gathering = None;
    }

    /// A buffer of `len` bytes, of unknown content, and how many it may have.
    pub fn buffer(&mut self, len: usize) -> (usize, AlignedBuf) {
        let fits = |(size, _): &(usize, AlignedBuf)| *size >= len;
        let (size, mut buf) = self.spare.pop().filter(fits).unwrap_or_else(|| {
            let size = len.next_power_of_two();
            (size, AlignedBuf::zeroed(size))
        });
        buf.set_len(len);
        (size, buf)
    }

    /// The buffer is not needed any more.
    pub fn keep(&mut self, size: usize, buf: AlignedBuf) {
        if self.spare.len() < self.lent.len() {
            self.spare.push((size, buf));
        }
    }

    /// Everything before `durable` is.
    pub fn open_gates(&mut self, durable: Lsn, wakes: &mut Wakes) {
        self.woken = 0;
        while self.gates.front().is_some_and(|gate| gate.end <= durable) {
            let Some(gate) = self.gates.pop_front() else { return };
            self.woken += gate.waiting;
            // Whoever minds the time may be among them.
            self.gathering = None;
            gate.event.open();
            wakes.all.push(gate.event);
        }
    }

    /// There is something to look at for all that wait.
    pub fn wake_gates(&self, wakes: &mut Wakes) {
        wakes.all.extend(self.gates.iter().map(|gate| gate.event.clone()));
    }

    /// A thread that waited at this gate does so no longer.
    pub fn leave(&mut self, event: &Arc<Event>) {
        self.gates.retain_mut(|gate| {
            gate.waiting -= u32::from(Arc::ptr_eq(&gate.event, event));
            gate.waiting > 0
        });
    }

    /// A thread that waits at this gate writes, or does so no longer.
    pub fn writes(&mut self, event: &Arc<Event>, begins: bool) {
        let gate = self.gates.iter_mut().find(|gate| Arc::ptr_eq(&gate.event, event));
        if let Some(gate) = gate {
            gate.writing = if begins { gate.writing + 1 } else { gate.writing - 1 };
        }
    }

    /// The append whose turn it is writes, and lets others go on meanwhile.
    pub fn leave_turn(&mut self, mine: &Arc<Parker>, wakes: &mut Wakes) {
        self.turns.retain(|turn| !Arc::ptr_eq(turn, mine));
        self.next_turn(wakes);
    }

    /// It is the first one again.
    pub fn resume_turn(&mut self, mine: Arc<Parker>) {
        self.turns.push_front(mine);
    }

    /// There may be room.
    pub fn next_turn(&self, wakes: &mut Wakes) {
        wakes.parkers.extend(self.turns.front().cloned());
    }

    /// Whether some thread would write what is behind `formed`.
    pub fn would_write(&self, formed: Lsn) -> bool {
        !self.turns.is_empty() || self.gate_of_writer(formed).is_some()
    }

    /// The first gate at which a thread would write what is behind `formed`. One that writes
    /// already may be held up by its device.
    fn gate_of_writer(&self, formed: Lsn) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.end > formed && gate.waiting > gate.writing)
    }

    /// Wakes a thread that would write what is behind `formed`.
    pub fn call_writer(&self, formed: Lsn, wakes: &mut Wakes) {
        match self.gate_of_writer(formed) {
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
