//! Memory in blocks of one size, for what units keep: side by side in large tables under large
//! pages of the system. In memory of their own, units of a full-size drive would each lie on
//! other pages, and nearly every access would wait for its address to be translated.
//!
//! 1. A place of a table belongs to one block at a time, and is free again when that drops.
//! 2. Tables are never given back while the pool lives. The system gives memory to a table as it is
//!    written.
//! 3. A new block has any content.

use std::cell::{Ref, RefCell, RefMut};
use std::rc::Rc;
use tantalum_rt::{large_pages, prefetch};

/// Words of the largest table: 32 MiB.
const TABLE: usize = 8 << 20;

/// The least share of all blocks that a table has room for.
const SHARE: usize = 8;

/// 32-bit words of a processor's cache line.
const LINE: usize = 16;

pub(crate) struct Pool {
    /// Words of a block.
    size: usize,
    /// Blocks of a table.
    in_table: usize,
    tables: RefCell<Vec<Vec<u32>>>,
    free: RefCell<Vec<u32>>,
}

impl Pool {
    /// For about `count` blocks of `size` words.
    pub fn new(size: usize, count: usize) -> Pool {
        let size = size.next_multiple_of(LINE).max(LINE);
        let in_table = (TABLE / size).min(count / SHARE).max(1);
        Pool { size, in_table, tables: RefCell::default(), free: RefCell::default() }
    }

    fn take(&self) -> u32 {
        if let Some(place) = self.free.borrow_mut().pop() {
            return place;
        }
        let mut tables = self.tables.borrow_mut();
        let first = tables.len() * self.in_table;
        let mut table = vec![0; self.size * self.in_table];
        large_pages(&mut table);
        tables.push(table);
        let others = first as u32 + 1..(first + self.in_table) as u32;
        self.free.borrow_mut().extend(others.rev());
        first as u32
    }
}

/// A block of a pool. A clone is a block of its own.
pub(crate) struct Block {
    pool: Rc<Pool>,
    place: u32,
}

impl Block {
    /// A new one.
    pub fn new(pool: &Rc<Pool>) -> Block {
        Block { pool: pool.clone(), place: pool.take() }
    }

    /// Its table, and where in it the block begins.
    fn place(&self) -> (usize, usize) {
        let place = self.place as usize;
        (place / self.pool.in_table, place % self.pool.in_table * self.pool.size)
    }

    /// Its words, to be read.
    pub fn words(&self) -> Ref<'_, [u32]> {
        let (table, first) = self.place();
        Ref::map(self.pool.tables.borrow(), |tables| &tables[table][first..][..self.pool.size])
    }

    /// Its words, to be changed.
    pub fn words_mut(&mut self) -> RefMut<'_, [u32]> {
        let (table, first) = self.place();
        let tables = self.pool.tables.borrow_mut();
        RefMut::map(tables, |tables| &mut tables[table][first..][..self.pool.size])
    }

    /// These words are needed soon: the processor may fetch them meanwhile.
    pub fn look_ahead(&self, words: std::ops::Range<usize>) {
        let block = self.words();
        let end = words.end.min(block.len());
        for word in (words.start..end).step_by(LINE).chain(end.checked_sub(1)) {
            if let Some(word) = block.get(word) {
                prefetch(word);
            }
        }
    }
}

impl Clone for Block {
    fn clone(&self) -> Block {
        let clone = Block::new(&self.pool);
        let (from, to) = (self.place(), clone.place());
        let size = self.pool.size;
        let mut tables = clone.pool.tables.borrow_mut();
        if from.0 == to.0 {
            tables[from.0].copy_within(from.1..from.1 + size, to.1);
        } else if let Ok([source, target]) = tables.get_disjoint_mut([from.0, to.0]) {
            target[to.1..][..size].copy_from_slice(&source[from.1..][..size]);
        }
        drop(tables);
        clone
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.free.borrow_mut().push(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap_and_places_are_used_again() {
        let pool = Rc::new(Pool::new(40, 24));
        let mut blocks: Vec<Block> = (0..50).map(|_| Block::new(&pool)).collect();
        for (number, block) in (0..).zip(&mut blocks) {
            block.words_mut().fill(number);
        }
        let copies = blocks.clone();
        blocks.iter_mut().for_each(|block| block.words_mut().fill(u32::MAX));
        for (number, copy) in (0..).zip(&copies) {
            assert_eq!(*copy.words(), [number; 48]);
        }
        drop(copies);
        let tables = pool.tables.borrow().len();
        let again: Vec<Block> = (0..50).map(|_| Block::new(&pool)).collect();
        assert_eq!(pool.tables.borrow().len(), tables);
        again.iter().for_each(|block| block.look_ahead(0..usize::MAX));
        assert!(blocks.iter().all(|block| *block.words() == [u32::MAX; 48]));
    }
}
