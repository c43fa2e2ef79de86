//! Which blocks are in memory, and what they hold.
//!
//! 1. Pieces do not overlap: of each block there is the newest change that was inserted.
//! 2. Bytes are shared with the record that brought them, and never copied here.

use crate::Lsn;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// What some blocks hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Zeros,
    /// The bytes of a record, and where in it those of the first block are.
    Bytes(Rc<Vec<u8>>, usize),
}

impl Content {
    /// The same from `blocks` further on.
    fn skip(&self, blocks: u64, block: usize) -> Content {
        match self {
            Content::Zeros => Content::Zeros,
            Content::Bytes(bytes, at) => {
                Content::Bytes(bytes.clone(), at + blocks as usize * block)
            }
        }
    }

    /// Copies the first bytes to `to`.
    pub fn copy(&self, to: &mut [u8]) {
        match self {
            Content::Zeros => to.fill(0),
            Content::Bytes(bytes, at) => to.copy_from_slice(&bytes[*at..*at + to.len()]),
        }
    }
}

/// Some blocks and what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub blocks: Range<u64>,
    /// The end of the record that brought it.
    pub lsn: Lsn,
    pub content: Content,
}

/// The blocks in memory.
#[derive(Debug)]
pub(crate) struct Map {
    /// Bytes in a block.
    block: usize,
    /// By first block.
    pieces: BTreeMap<u64, Piece>,
}

impl Map {
    pub fn new(block: usize) -> Map {
        Map { block, pieces: BTreeMap::new() }
    }

    /// A piece that is newer than what is here.
    pub fn insert(&mut self, piece: Piece) {
        if piece.blocks.is_empty() {
            return;
        }
        self.split(piece.blocks.start);
        self.split(piece.blocks.end);
        let covered: Vec<u64> = self.pieces.range(piece.blocks.clone()).map(|(s, _)| *s).collect();
        for start in covered {
            self.pieces.remove(&start);
        }
        self.pieces.insert(piece.blocks.start, piece);
    }

    /// A piece begins at `at`, if `at` is in one.
    fn split(&mut self, at: u64) {
        let Some((_, piece)) = self.pieces.range_mut(..at).next_back() else { return };
        if piece.blocks.end <= at {
            return;
        }
        let content = piece.content.skip(at - piece.blocks.start, self.block);
        let behind = Piece { blocks: at..piece.blocks.end, lsn: piece.lsn, content };
        piece.blocks.end = at;
        self.pieces.insert(at, behind);
    }

    /// What is here of `range`, ascending, cut to it.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + '_ {
        let before = self.pieces.range(..range.start).next_back().map(|(_, p)| p);
        let inside = self.pieces.range(range.start..range.end.max(range.start)).map(|(_, p)| p);
        before.into_iter().chain(inside).filter_map(move |p| {
            let start = p.blocks.start.max(range.start);
            let end = p.blocks.end.min(range.end);
            let content = p.content.skip(start - p.blocks.start, self.block);
            (start < end).then_some(Piece { blocks: start..end, lsn: p.lsn, content })
        })
    }

    /// The parts of `range` that are not here, ascending.
    pub fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut next = range.start;
        for piece in self.within(range.clone()) {
            if next < piece.blocks.start {
                gaps.push(next..piece.blocks.start);
            }
            next = piece.blocks.end;
        }
        if next < range.end {
            gaps.push(next..range.end);
        }
        gaps
    }

    /// Puts what is here of the blocks from `start` on into `buf`, and leaves the rest of it.
    pub fn overlay(&self, start: u64, buf: &mut [u8]) {
        let end = start + (buf.len() / self.block) as u64;
        for piece in self.within(start..end) {
            let from = (piece.blocks.start - start) as usize * self.block;
            let to = (piece.blocks.end - start) as usize * self.block;
            piece.content.copy(&mut buf[from..to]);
        }
    }

    /// What records brought that end at `lsn` or before, ascending.
    pub fn up_to(&self, lsn: Lsn) -> impl Iterator<Item = &Piece> {
        self.pieces.values().filter(move |p| p.lsn <= lsn)
    }

    /// Forgets what records brought that end at `lsn` or before.
    pub fn forget(&mut self, lsn: Lsn) {
        self.pieces.retain(|_, p| p.lsn > lsn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: usize = 4;

    fn piece(start: u64, count: u64, lsn: u64, zeros: bool) -> Piece {
        let bytes: Vec<u8> =
            (0..3 + count as usize * BLOCK).map(|i| (lsn as usize + i) as u8).collect();
        let content = if zeros { Content::Zeros } else { Content::Bytes(Rc::new(bytes), 3) };
        Piece { blocks: start..start + count, lsn: Lsn(lsn), content }
    }

    proptest! {
        #[test]
        fn of_each_block_it_has_the_newest_change(
            changes in proptest::collection::vec((0..40u64, 0..12u64, any::<bool>()), 0..30),
            forget in 0..40u64, (from, count) in (0..45u64, 0..20u64),
        ) {
            let mut map = Map::new(BLOCK);
            let mut model: Vec<Option<(u64, Vec<u8>)>> = vec![None; 70];
            for (i, (start, count, zeros)) in changes.into_iter().enumerate() {
                let lsn = 1 + i as u64;
                let piece = piece(start, count, lsn, zeros);
                let mut bytes = vec![0; count as usize * BLOCK];
                piece.content.copy(&mut bytes);
                for (b, data) in bytes.chunks(BLOCK).enumerate() {
                    model[start as usize + b] = Some((lsn, data.to_vec()));
                }
                map.insert(piece);
            }
            let old = |m: &&Option<(u64, Vec<u8>)>| m.as_ref().is_some_and(|m| m.0 <= forget);
            let chosen: u64 = map.up_to(Lsn(forget)).map(|p| p.blocks.end - p.blocks.start).sum();
            prop_assert_eq!(chosen as usize, model.iter().filter(old).count());
            map.forget(Lsn(forget));
            for block in &mut model {
                if old(&&*block) {
                    *block = None;
                }
            }
            let mut seen = vec![0xEE; count as usize * BLOCK];
            map.overlay(from, &mut seen);
            let gaps = map.gaps(from..from + count);
            for (i, data) in seen.chunks(BLOCK).enumerate() {
                let block = from + i as u64;
                let wanted = &model[block as usize];
                let missing = wanted.is_none();
                prop_assert_eq!(gaps.iter().any(|g| g.contains(&block)), missing);
                let wanted = wanted.as_ref().map_or(vec![0xEE; BLOCK], |w| w.1.clone());
                prop_assert_eq!(data, &wanted[..]);
            }
        }
    }
}
