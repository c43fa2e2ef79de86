//! What was received, and the buffers that hold it.
//!
//! 1. A payload is used where it was received: requests share the buffer, and it comes back
//!    when the last of them is done.
//! 2. A buffer grows only as its content arrives: to announce much costs the server nothing.

use super::stream::Stream;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// A receive asks for so many bytes; a longer request gets a longer buffer.
const USUAL_BYTES: usize = 512 << 10;
/// Up to this a buffer is made as long as a request needs at once.
const AT_ONCE_BYTES: usize = 1 << 20;
/// Buffers that are kept for further use.
const SPARE: usize = 4;

/// Buffers of the usual size that nobody uses.
#[derive(Default)]
pub(crate) struct Pool {
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Pool {
    fn get(&self) -> Vec<u8> {
        self.spare.borrow_mut().pop().unwrap_or_else(|| vec![0; USUAL_BYTES])
    }

    fn put(&self, bytes: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if bytes.len() == USUAL_BYTES && spare.len() < SPARE {
            spare.push(bytes);
        }
    }
}

/// A buffer that requests share.
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    pool: Rc<Pool>,
}

impl Chunk {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.bytes));
    }
}

/// What was received and not used yet: `buf[start..end]`.
pub(crate) struct Intake {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    pool: Rc<Pool>,
}

impl Intake {
    pub fn new() -> Intake {
        let pool = Rc::new(Pool::default());
        Intake { buf: pool.get(), start: 0, end: 0, pool }
    }

    /// Receives more; how much, 0 at the end of the stream.
    pub async fn fill(&mut self, stream: &impl Stream) -> io::Result<usize> {
        debug_assert!(self.end < self.buf.len());
        let (received, buf) = stream.recv(std::mem::take(&mut self.buf), self.end).await;
        self.buf = buf;
        let bytes = received?.min(self.buf.len() - self.end);
        self.end += bytes;
        Ok(bytes)
    }

    /// What is there.
    pub fn content(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// So many bytes were used.
    pub fn used(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
    }

    /// Makes room for a request of `need` bytes that begins here, or for some more of it.
    pub fn make_room(&mut self, need: usize) {
        let there = self.end - self.start;
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, there);
        }
        if need > self.buf.len() && there >= self.buf.len().min(AT_ONCE_BYTES) / 2 {
            let length = need.min(AT_ONCE_BYTES.max(2 * self.buf.len()));
            self.buf.resize(length, 0);
        }
    }

    /// What is there, to be shared, and the range in which it lies. Until
    /// [`Intake::go_on`] there is nothing here.
    pub fn share(&mut self) -> (Rc<Chunk>, usize, usize) {
        let bytes = std::mem::take(&mut self.buf);
        let (start, end) = (self.start, self.end);
        (self.start, self.end) = (0, 0);
        (Rc::new(Chunk { bytes, pool: self.pool.clone() }), start, end)
    }

    /// Goes on with what was not used of a chunk, from `start` to `end`.
    pub fn go_on(&mut self, mut chunk: Rc<Chunk>, start: usize, end: usize) {
        if let Some(chunk) = Rc::get_mut(&mut chunk) {
            self.buf = std::mem::take(&mut chunk.bytes);
            (self.start, self.end) = if start == end { (0, 0) } else { (start, end) };
            return;
        }
        let rest = &chunk.bytes[start..end];
        self.buf = self.pool.get();
        if rest.len() >= self.buf.len() {
            self.buf = vec![0; 2 * rest.len()];
        }
        self.buf[..rest.len()].copy_from_slice(rest);
        (self.start, self.end) = (0, rest.len());
    }
}
