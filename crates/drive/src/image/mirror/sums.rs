//! Checksums of the tables: what a crash of the host left of them is not taken for one of them.
//!
//! 1. Each block of a table (4096 bytes, but those of the journal) has a checksum, and all of these
//!    together have one in the table's head. Both change in the same list of words as what they are
//!    of, so that a process that is killed leaves them true.
//! 2. A checksum is the sum over all words of what each is mixed to, so that it follows from the
//!    one before and the word that changes; a word of 0 adds nothing.

use super::tables::{ALIGN, TOP, Table, Wrong};

/// What a word at this offset of a table adds.
pub(crate) fn mixed(at: u64, word: u64) -> u64 {
    if word == 0 {
        return 0;
    }
    let mut x = word.wrapping_add((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for _ in 0..2 {
        x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

/// The checksums of a table; of one without any there are none.
#[derive(Default)]
pub(crate) struct Sums {
    blocks: Vec<u64>,
    top: u64,
}

impl Sums {
    /// Those of an empty table.
    pub fn blank(table: &Table<'_>) -> Sums {
        Sums { blocks: vec![0; table.shape.blocks()], top: 0 }
    }

    /// Those that a process left behind.
    pub fn read(table: &Table<'_>) -> Result<Sums, Wrong> {
        let mut sums = Sums::blank(table);
        let (region, shape) = (table.region, table.shape);
        for (i, sum) in (0..).zip(&mut sums.blocks) {
            let at = shape.sums + 8 * i;
            *sum = region.word(table.at + at);
            sums.top = sums.top.wrapping_add(mixed(at, *sum));
        }
        if shape.is_summed && sums.top != region.word(table.at + TOP) {
            let what = "the checksums of the table have not theirs".to_string();
            return Err((table.at + TOP, what));
        }
        Ok(sums)
    }

    /// Holds a block against its checksum.
    pub fn check(&self, table: &Table<'_>, block: usize) -> Result<(), Wrong> {
        let Some(want) = self.blocks.get(block) else { return Ok(()) };
        let first = block as u64 * ALIGN;
        let mut sum = 0u64;
        for at in (first..first + ALIGN).step_by(8).filter(|at| *at != TOP) {
            sum = sum.wrapping_add(mixed(at, table.region.word(table.at + at)));
        }
        match sum == *want {
            true => Ok(()),
            false => Err((table.at + first, "this block has not its checksum".to_string())),
        }
    }

    /// A word of the region changes; the block that has it.
    fn change(&mut self, table: &Table<'_>, at: u64, old: u64, word: u64) -> Option<usize> {
        let at = at.checked_sub(table.at)?;
        if table.shape.is_journal(at) {
            return None;
        }
        let sum = self.blocks.get_mut((at / ALIGN) as usize)?;
        *sum = sum.wrapping_sub(mixed(at, old)).wrapping_add(mixed(at, word));
        Some((at / ALIGN) as usize)
    }

    /// Puts a word into a table that does not count yet.
    pub fn put(&mut self, table: &Table<'_>, at: u64, word: u64) {
        if !self.blocks.is_empty() {
            self.change(table, at, table.region.word(at), word);
        }
        table.region.set_word(at, word);
    }

    /// Puts the checksums there, when all else is in place.
    pub fn finish(&mut self, table: &Table<'_>) {
        if self.blocks.is_empty() {
            return;
        }
        self.top = 0;
        for (i, sum) in (0..).zip(&self.blocks).filter(|(_, sum)| **sum != 0) {
            let at = table.shape.sums + 8 * i;
            table.region.set_word(table.at + at, *sum);
            self.top = self.top.wrapping_add(mixed(at, *sum));
        }
        table.region.set_word(table.at + TOP, self.top);
    }

    /// Adds the checksums that change with the words of a list.
    pub fn seal(&mut self, table: &Table<'_>, list: &mut Vec<(u64, u64)>) {
        if self.blocks.is_empty() || list.is_empty() {
            return;
        }
        // The same word may be there more than once, always with what it is in the end.
        list.sort_unstable();
        list.dedup_by_key(|(at, _)| *at);
        let words = list.len();
        let (mut last, mut before) = (usize::MAX, 0);
        for i in 0..=words {
            let next = list.get(i).filter(|_| i < words).copied();
            let block =
                next.map_or(usize::MAX - 1, |(at, _)| (at.wrapping_sub(table.at) / ALIGN) as usize);
            if block != last {
                if let Some(sum) = self.blocks.get(last).copied().filter(|sum| *sum != before) {
                    let at = table.shape.sums + 8 * last as u64;
                    self.top =
                        self.top.wrapping_sub(mixed(at, before)).wrapping_add(mixed(at, sum));
                    list.push((table.at + at, sum));
                }
                (last, before) = (block, self.blocks.get(block).copied().unwrap_or(0));
            }
            if let Some((at, word)) = next {
                self.change(table, at, table.region.word(at), word);
            }
        }
        if list.len() > words {
            list.push((table.at + TOP, self.top));
        }
    }
}
