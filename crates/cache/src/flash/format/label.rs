//! The label of a slow store: which cache holds newer versions of its pages.
//!
//! ```text
//! label (512 bytes)
//!   0  4 CRC-32C of bytes 4 to 511         48  8 generation
//!   4  8 "TNTSLOW\0"                        56  8 epoch of the cache
//!  12  4 version (1)                       64  1 mode: 0 back, 1 through
//!  16 16 identity of the cache             65  1 state: 0 clean, 1 in use, 2 alone
//!  32 16 identity of the slow store        66  6 zeros
//!                                          72  8 bytes of the store; 0: not fixed, or not known
//!                                          80  . zeros
//! ```
//!
//! 1. It is written to both copies, as a superblock is.
//! 2. The epoch is written to the superblock first and then here. So a cache is the one of its label
//!    if their epochs are equal, or if the label's is one less and the superblock allows that.
//! 3. In state *alone* the pages are used without the cache: its epoch is beyond that of the cache,
//!    whose versions never count again.
//! 4. The store has at least as many bytes as the label says. (The number was always 0 once.)

use super::bytes::{
    COUNT_END, Found, HEAD_BYTES, Uuid, VERSION, begin_head, number, open_head, put, seal, uuid,
};
use super::mode::Mode;

const MAGIC: &[u8; 8] = b"TNTSLOW\0";

/// How a slow store was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelState {
    /// The cache has no newer version of any page.
    Clean,
    /// The cache may have newer versions.
    InUse,
    /// The store is used without the cache.
    Alone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub cache: Uuid,
    pub slow: Uuid,
    pub generation: u64,
    pub epoch: u64,
    pub mode: Mode,
    pub state: LabelState,
    /// Bytes of the store at the last start; 0: not fixed, or not known.
    pub bytes: u64,
}

impl Label {
    /// Bytes of the store at the last start, if they were fixed and are known.
    pub fn bytes(&self) -> Option<u64> {
        (self.bytes > 0).then_some(self.bytes)
    }

    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut b = begin_head(MAGIC, VERSION);
        b[16..32].copy_from_slice(&self.cache);
        b[32..48].copy_from_slice(&self.slow);
        put::<8>(&mut b, 48, self.generation);
        put::<8>(&mut b, 56, self.epoch);
        b[64] = self.mode.code();
        b[65] = match self.state {
            LabelState::Clean => 0,
            LabelState::InUse => 1,
            LabelState::Alone => 2,
        };
        put::<8>(&mut b, 72, self.bytes);
        seal(&mut b);
        b
    }

    pub fn decode(from: &[u8]) -> Found<Label> {
        let b = match open_head(MAGIC, VERSION, from) {
            Found::Good((b, _)) => b,
            Found::Newer(version) => return Found::Newer(version),
            Found::Damaged => return Found::Damaged,
            Found::Nothing => return Found::Nothing,
        };
        let state = match b[65] {
            0 => LabelState::Clean,
            1 => LabelState::InUse,
            2 => LabelState::Alone,
            _ => return Found::Damaged,
        };
        let Some(mode) = Mode::of_code(b[64]) else { return Found::Damaged };
        let (generation, epoch) = (number::<8>(b, 48), number::<8>(b, 56));
        if generation.max(epoch) >= COUNT_END {
            return Found::Damaged;
        }
        let (cache, slow, bytes) = (uuid(b, 16), uuid(b, 32), number::<8>(b, 72));
        Found::Good(Label { cache, slow, generation, epoch, mode, state, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_changed_byte_is_noticed(at in 0..HEAD_BYTES, change in 1..=255u8, state in 0..3usize) {
            let label = Label {
                cache: [1; 16],
                slow: [2; 16],
                generation: 9,
                epoch: 4,
                mode: Mode::Back,
                state: [LabelState::Clean, LabelState::InUse, LabelState::Alone][state],
                bytes: 77,
            };
            let mut bytes = label.encode();
            prop_assert_eq!(Label::decode(&bytes), Found::Good(label));
            bytes[at] ^= change;
            prop_assert!(!matches!(Label::decode(&bytes), Found::Good(_)));
        }
    }
}
