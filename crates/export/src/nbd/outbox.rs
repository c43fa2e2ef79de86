//! Replies that wait to be sent.
//!
//! 1. A reply's bytes stay together.
//! 2. Small replies are gathered, so that one send carries many; a long one is sent from the
//!    buffer into which it was read.
//! 3. Each piece says for which requests it answers: these are no longer in flight when it has
//!    been sent.

use crate::crew::Load;
use std::collections::VecDeque;

/// Small replies are gathered up to this size.
const BATCH_BYTES: usize = 256 << 10;
/// Buffers that are kept for further use.
const SPARE: usize = 2;

/// What is sent in one go.
#[derive(Default)]
pub(crate) struct Piece {
    pub bytes: Vec<u8>,
    pub answers: Load,
    /// More may be appended.
    open: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Outbox {
    pieces: VecDeque<Piece>,
    spare: Vec<Vec<u8>>,
}

impl Outbox {
    /// Appends a small reply.
    pub fn append(&mut self, answers: Load, encode: impl FnOnce(&mut Vec<u8>)) {
        let fits = |p: &Piece| p.open && p.bytes.len() < BATCH_BYTES;
        if !self.pieces.back().is_some_and(fits) {
            let bytes = self.spare.pop().unwrap_or_default();
            self.pieces.push_back(Piece { bytes, answers: Load::default(), open: true });
        }
        if let Some(piece) = self.pieces.back_mut() {
            encode(&mut piece.bytes);
            piece.answers = piece.answers.plus(answers);
        }
    }

    /// A long reply, in a buffer of its own.
    pub fn push(&mut self, answers: Load, bytes: Vec<u8>) {
        self.pieces.push_back(Piece { bytes, answers, open: false });
    }

    /// What is to be sent next.
    pub fn pop(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// A buffer that was sent.
    pub fn give_back(&mut self, mut bytes: Vec<u8>) {
        let usual = bytes.capacity() <= 2 * BATCH_BYTES;
        if usual && self.spare.len() < SPARE {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
