//! The words that change in one step: the control word of an entry, and that of a batch.

/// What a frame is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing was put into it in this lap.
    Free = 0,
    /// Its entry is being written; it may be linked.
    Filling = 1,
    /// It has the current version of its page.
    Valid = 2,
    /// Its version is not current any more; it may be linked still.
    Leaving = 3,
    /// It has an old version or none, and is not linked.
    Gone = 4,
}

/// The control word of an entry: `state 3 | dirty 1 | referenced 1 | void 1 | – 10 | partition 16 |
/// lap 32`, from the lowest bit on. A void entry never had a version of a page in this lap.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control(pub u64);

const DIRTY: u64 = 1 << 3;
const REFERENCED: u64 = 1 << 4;
const VOID: u64 = 1 << 5;

impl Control {
    pub fn free(lap: u32) -> Control {
        Control(u64::from(lap) << 32)
    }

    /// No version of a page comes into this frame any more.
    pub fn void(lap: u32) -> Control {
        Control(Control::free(lap).0 | VOID | State::Gone as u64)
    }

    /// Void until it is valid.
    pub fn filling(lap: u32, partition: u64, dirty: bool, referenced: bool) -> Control {
        let marks = if dirty { DIRTY } else { 0 } | if referenced { REFERENCED } else { 0 };
        Control(u64::from(lap) << 32 | partition << 16 | marks | VOID | State::Filling as u64)
    }

    pub fn state(self) -> State {
        match self.0 & 7 {
            0 => State::Free,
            1 => State::Filling,
            2 => State::Valid,
            3 => State::Leaving,
            _ => State::Gone,
        }
    }

    pub fn with(self, state: State) -> Control {
        Control(self.0 & !7 | state as u64)
    }

    pub fn valid(self) -> Control {
        Control(self.with(State::Valid).0 & !VOID)
    }

    pub fn clean(self) -> Control {
        Control(self.0 & !DIRTY)
    }

    pub fn referenced(self) -> Control {
        Control(self.0 | REFERENCED)
    }

    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    pub fn is_referenced(self) -> bool {
        self.0 & REFERENCED != 0
    }

    pub fn is_void(self) -> bool {
        self.0 & VOID != 0
    }

    pub fn partition(self) -> u64 {
        self.0 >> 16 & 0xffff
    }

    pub fn lap(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What a batch of frames is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its frames may be written over.
    Free = 0,
    /// It takes pages.
    Open = 1,
    /// It takes no more; it is being written.
    Closed = 2,
    /// It is being given up: what its pages replaced is put back.
    Doomed = 3,
    /// It is durable.
    Published = 4,
    /// It was given up before it was durable.
    Abandoned = 5,
}

/// The word of a batch: `taken frames 8 | phase 8 | sequence number 48`, from the lowest bit on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchWord(pub u64);

impl BatchWord {
    pub fn new(seq: u64, phase: Phase, taken: u32) -> BatchWord {
        BatchWord(seq << 16 | (phase as u64) << 8 | u64::from(taken))
    }

    pub fn seq(self) -> u64 {
        self.0 >> 16
    }

    pub fn taken(self) -> u32 {
        (self.0 & 0xff) as u32
    }

    pub fn phase(self) -> Phase {
        match self.0 >> 8 & 0xff {
            0 => Phase::Free,
            1 => Phase::Open,
            2 => Phase::Closed,
            3 => Phase::Doomed,
            4 => Phase::Published,
            _ => Phase::Abandoned,
        }
    }

    pub fn with(self, phase: Phase) -> BatchWord {
        BatchWord::new(self.seq(), phase, self.taken())
    }

    pub fn with_one_more(self) -> BatchWord {
        BatchWord(self.0 + 1)
    }

    /// Whether all that comes of this batch has come: it is durable, or will never be.
    pub fn is_settled(self) -> bool {
        matches!(self.phase(), Phase::Published | Phase::Abandoned)
    }

    /// Whether none of its pages ever becomes durable in it.
    pub fn is_given_up(self) -> bool {
        matches!(self.phase(), Phase::Doomed | Phase::Abandoned)
    }

    /// Whether it belongs to whoever fills or writes it.
    pub fn is_at_work(self) -> bool {
        matches!(self.phase(), Phase::Open | Phase::Closed | Phase::Doomed)
    }
}
