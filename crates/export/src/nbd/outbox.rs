//! Replies that wait to be sent.
//!
//! 1. The bytes of a reply stay together, except for chunks of a structured reply.
//! 2. Small replies are gathered, so that one send carries many. A long reply is sent from the
//!    buffer into which it was read.
//! 3. Each piece has the cost and the memory of the requests that it answers. They are given back
//!    when the piece was sent.
//! 4. While one reply is sent in parts ([`Outbox::hold`]), all others wait behind it.

use crate::budget::{Grant, NoMemory, room};
use crate::crew::Load;
use std::collections::VecDeque;

/// Small replies are gathered up to this size.
const BATCH_BYTES: usize = 128 << 10;

/// The bytes of one send.
#[derive(Default)]
pub(crate) struct Piece {
    pub bytes: Vec<u8>,
    pub answers: Load,
    pub grant: Option<Grant>,
    /// The task that filled the buffer waits for it, to fill it again.
    pub comes_back: bool,
    /// More may be appended.
    open: bool,
}

impl Piece {
    /// A long reply, or the last part of one, in a buffer of its own.
    pub fn long(bytes: Vec<u8>, answers: Load, grant: Option<Grant>) -> Piece {
        Piece { bytes, answers, grant, comes_back: false, open: false }
    }

    /// A part of a reply, from a buffer that a task waits for.
    pub fn part(bytes: Vec<u8>) -> Piece {
        Piece { comes_back: true, ..Piece::long(bytes, Load::default(), None) }
    }

    /// Whether it is made of small replies.
    pub fn is_open(&self) -> bool {
        self.open
    }

    fn add(&mut self, answers: Load, grant: Option<Grant>) {
        self.answers = self.answers.plus(answers);
        match (&mut self.grant, grant) {
            (Some(grant), Some(more)) => grant.join(more),
            (none, more) => *none = none.take().or(more),
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Outbox {
    pieces: VecDeque<Piece>,
    /// Replies that wait for the last part of another one.
    held: Option<VecDeque<Piece>>,
    spare: Option<Vec<u8>>,
}

impl Outbox {
    /// Appends a small reply of at most `bytes`.
    pub fn append(
        &mut self,
        bytes: usize,
        answers: Load,
        grant: Option<Grant>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), NoMemory> {
        let pieces = self.held.as_mut().unwrap_or(&mut self.pieces);
        let fits = |p: &Piece| p.open && p.bytes.len() < BATCH_BYTES;
        if !pieces.back().is_some_and(fits) {
            let bytes = self.spare.take().unwrap_or_default();
            pieces.push_back(Piece { bytes, open: true, ..Piece::default() });
        }
        if let Some(piece) = pieces.back_mut() {
            room(&mut piece.bytes, bytes)?;
            encode(&mut piece.bytes);
            piece.add(answers, grant);
        }
        Ok(())
    }

    /// Appends a long reply, or a chunk.
    pub fn push(&mut self, piece: Piece) {
        self.held.as_mut().unwrap_or(&mut self.pieces).push_back(piece);
    }

    /// Makes other replies wait from now on.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Appends a part of the reply for which the others wait.
    pub fn push_part(&mut self, piece: Piece) {
        self.pieces.push_back(piece);
    }

    /// The last part was appended: the others may go.
    pub fn release(&mut self) {
        self.pieces.extend(self.held.take().unwrap_or_default());
    }

    /// The next piece to send.
    pub fn pop(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// Drops all replies. Returns the cost of the requests that they would have answered.
    pub fn clear(&mut self) -> Load {
        self.release();
        self.pieces.drain(..).fold(Load::default(), |all, piece| all.plus(piece.answers))
    }

    /// Takes back a buffer of small replies that was sent.
    pub fn give_back(&mut self, mut bytes: Vec<u8>) {
        if bytes.capacity() <= 2 * BATCH_BYTES && self.spare.is_none() {
            bytes.clear();
            self.spare = Some(bytes);
        }
    }
}
