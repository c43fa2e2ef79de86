//! A doubly linked list of numbers below a bound, as two arrays.
//!
//! 1. A number is in the list at most once.
//! 2. No operation allocates after [`List::new`].

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// See the module.
pub(super) struct List {
    /// The neighbours of each number: towards the head, towards the tail.
    links: Vec<(u32, u32)>,
    head: u32,
    tail: u32,
    len: usize,
}

impl List {
    /// An empty list of numbers below `bound`.
    pub fn new(bound: usize) -> List {
        List { links: vec![(NONE, NONE); bound], head: NONE, tail: NONE, len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The number at the tail, or [`NONE`].
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The neighbour towards the head, or [`NONE`].
    pub fn before(&self, n: u32) -> u32 {
        self.links[n as usize].0
    }

    pub fn push_head(&mut self, n: u32) {
        self.links[n as usize] = (NONE, self.head);
        match self.head {
            NONE => self.tail = n,
            head => self.links[head as usize].0 = n,
        }
        self.head = n;
        self.len += 1;
    }

    /// Removes a number that is in the list.
    pub fn remove(&mut self, n: u32) {
        let (before, after) = self.links[n as usize];
        match before {
            NONE => self.head = after,
            b => self.links[b as usize].1 = after,
        }
        match after {
            NONE => self.tail = before,
            a => self.links[a as usize].0 = before,
        }
        self.len -= 1;
    }

    /// Moves a number that is in the list to its head.
    pub fn move_to_head(&mut self, n: u32) {
        if self.head != n {
            self.remove(n);
            self.push_head(n);
        }
    }
}
