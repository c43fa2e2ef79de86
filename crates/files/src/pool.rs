//! Free chunks and their states (invariants 5 and 6). Pure.

/// A set of chunk numbers.
#[derive(Clone, Debug)]
pub(crate) struct ChunkSet {
    words: Vec<u64>,
    count: u32,
}

impl ChunkSet {
    pub fn new(chunks: u32) -> ChunkSet {
        ChunkSet { words: vec![0; (chunks as usize).div_ceil(64)], count: 0 }
    }

    pub fn len(&self) -> u32 {
        self.count
    }

    pub fn contains(&self, chunk: u32) -> bool {
        let word = self.words.get(chunk as usize / 64).copied().unwrap_or(0);
        word >> (chunk % 64) & 1 == 1
    }

    /// Returns whether the chunk was not in the set before.
    pub fn insert(&mut self, chunk: u32) -> bool {
        let new = !self.contains(chunk);
        self.words[chunk as usize / 64] |= 1 << (chunk % 64);
        self.count += u32::from(new);
        new
    }

    pub fn remove(&mut self, chunk: u32) -> bool {
        let there = self.contains(chunk);
        if there {
            self.words[chunk as usize / 64] &= !(1 << (chunk % 64));
            self.count -= 1;
        }
        there
    }

    pub fn first(&self) -> Option<u32> {
        let (i, word) = self.words.iter().enumerate().find(|(_, w)| **w != 0)?;
        Some(i as u32 * 64 + word.trailing_zeros())
    }
}

/// The chunks that no file has.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Chunks that read as zeros, now and after any crash: may be given to a file.
    clean: ChunkSet,
    /// Chunks with any content whose former file cannot come back: may be discarded.
    free: ChunkSet,
    /// Chunks freed by a change that is not durable yet.
    pending: Vec<u32>,
}

impl Pool {
    /// All chunks but those in `used` are free.
    pub fn new(chunks: u32, used: &ChunkSet) -> Pool {
        let mut free = ChunkSet::new(chunks);
        (0..chunks).filter(|c| !used.contains(*c)).for_each(|c| {
            free.insert(c);
        });
        Pool { clean: ChunkSet::new(chunks), free, pending: Vec::new() }
    }

    pub fn clean(&self) -> u32 {
        self.clean.len()
    }

    pub fn free(&self) -> u32 {
        self.free.len()
    }

    pub fn pending(&self) -> u32 {
        self.pending.len() as u32
    }

    /// Takes a clean chunk, if possible the one after `previous`.
    pub fn take(&mut self, previous: Option<u32>) -> Option<u32> {
        let next = previous.map(|p| p + 1).filter(|c| self.clean.contains(*c));
        let chunk = next.or_else(|| self.clean.first())?;
        self.clean.remove(chunk);
        Some(chunk)
    }

    /// Takes up to `most` free chunks in a row, to be discarded.
    pub fn take_free_run(&mut self, most: u32) -> Option<(u32, u32)> {
        let first = self.free.first()?;
        let mut count = 0;
        while count < most && self.free.remove(first + count) {
            count += 1;
        }
        Some((first, count))
    }

    /// Adds chunks whose discard is durable.
    pub fn cleaned(&mut self, first: u32, count: u32) {
        (first..first + count).for_each(|c| {
            self.clean.insert(c);
        });
    }

    /// Adds chunks that no file has any more; `durable` if no crash can bring that file back.
    pub fn release(&mut self, chunks: &[u32], durable: bool) {
        if !durable {
            return self.pending.extend_from_slice(chunks);
        }
        for &c in chunks {
            let new = self.free.insert(c);
            debug_assert!(new, "chunk {c} is freed twice");
        }
    }

    /// Takes the chunks that a flush submitted now makes free.
    pub fn take_pending(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.pending)
    }
}
