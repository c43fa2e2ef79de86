//! Received bytes, and the buffers that hold them.
//!
//! 1. A payload is used in place: requests share the buffer in which they arrived, and the buffer
//!    comes back when the last of them is done.
//! 2. A buffer never grows. A payload that is longer than a buffer is handled in pieces.
//! 3. Each buffer is charged to the client with all of its bytes, as long as any request uses one
//!    of them or it is kept for reuse. The share is enough for a buffer to receive into as soon as
//!    the device is done with another one.

use super::memory::Accounts;
use super::stream::Stream;
use crate::budget::{Account, Grant, NoMemory, zeroed};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

/// A buffer, and the grant for its memory.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    _grant: Option<Grant>,
}

/// Buffers of a client.
struct Pool {
    account: Rc<Account>,
    size: usize,
    spare: RefCell<Vec<Buffer>>,
    /// Buffers that are shared with requests now.
    shared: Cell<u32>,
    returned: WaitQueue,
}

impl Pool {
    async fn get(&self) -> Result<Buffer, NoMemory> {
        loop {
            let spare = self.spare.borrow_mut().pop();
            if let Some(buffer) = spare {
                return Ok(buffer);
            }
            let grant = self.account.take(self.size as u64).await;
            match zeroed(self.size) {
                Ok(bytes) => return Ok(Buffer { bytes, _grant: Some(grant) }),
                // The caller holds the only buffer, so none would come back.
                Err(no) if self.shared.get() <= 1 => return Err(no),
                // The system is short of memory: wait for a buffer that is in use.
                Err(_) => {
                    drop(grant);
                    self.returned.wait().await;
                }
            }
        }
    }

    fn put(&self, buffer: Buffer) {
        self.shared.set(self.shared.get() - 1);
        // Memory beyond the share is given back at once.
        if self.account.is_at_ease() && !buffer.bytes.is_empty() {
            self.spare.borrow_mut().push(buffer);
        }
        self.returned.notify_all();
    }
}

/// A buffer that requests share.
pub(crate) struct Chunk {
    buffer: Buffer,
    pool: Rc<Pool>,
}

impl Chunk {
    pub fn bytes(&self) -> &[u8] {
        &self.buffer.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.buffer));
    }
}

/// Bytes that were received and not used yet: `buffer[start..end]`.
pub(crate) struct Intake {
    buffer: Buffer,
    start: usize,
    end: usize,
    pool: Rc<Pool>,
}

impl Intake {
    /// The intake of a client with these accounts.
    ///
    /// # Errors
    /// [`NoMemory`] if the system has no memory.
    pub async fn new(rt: &Rt, accounts: &Accounts) -> Result<Intake, NoMemory> {
        let pool = Rc::new(Pool {
            account: accounts.intake.clone(),
            size: accounts.plan.buffer as usize,
            spare: RefCell::default(),
            shared: Cell::new(0),
            returned: WaitQueue::new(rt, "a buffer that requests use"),
        });
        let buffer = pool.get().await?;
        Ok(Intake { buffer, start: 0, end: 0, pool })
    }

    /// Receives more bytes. Returns how many; 0 at the end of the stream.
    pub async fn fill(&mut self, stream: &impl Stream) -> io::Result<usize> {
        debug_assert!(self.end < self.buffer.bytes.len());
        let bytes = std::mem::take(&mut self.buffer.bytes);
        let (received, bytes) = stream.recv(bytes, self.end).await;
        self.buffer.bytes = bytes;
        let count = received?.min(self.buffer.bytes.len() - self.end);
        self.end += count;
        Ok(count)
    }

    /// The bytes that are there.
    pub fn content(&self) -> &[u8] {
        &self.buffer.bytes[self.start..self.end]
    }

    /// Marks the first bytes as used.
    pub fn used(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
    }

    /// Makes room for `need` bytes in all, which fit a buffer.
    pub fn make_room(&mut self, need: usize) {
        debug_assert!(need <= self.buffer.bytes.len());
        let there = self.end - self.start;
        if self.start > 0 {
            self.buffer.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, there);
        }
    }

    /// Gives out the buffer to be shared, and the range of unused bytes in it. Until
    /// [`Intake::go_on`] the intake is empty.
    pub fn share(&mut self) -> (Rc<Chunk>, usize, usize) {
        let buffer = std::mem::take(&mut self.buffer);
        let (start, end) = (self.start, self.end);
        (self.start, self.end) = (0, 0);
        self.pool.shared.set(self.pool.shared.get() + 1);
        (Rc::new(Chunk { buffer, pool: self.pool.clone() }), start, end)
    }

    /// Takes back the unused bytes of a chunk, from `start` to `end`.
    ///
    /// # Errors
    /// [`NoMemory`] if the system has no memory, and no request will give a buffer back.
    pub async fn go_on(
        &mut self,
        mut chunk: Rc<Chunk>,
        start: usize,
        end: usize,
    ) -> Result<(), NoMemory> {
        if self.take_whole(&mut chunk, start, end) {
            return Ok(());
        }
        let buffer = match self.pool.get().await {
            Ok(buffer) => buffer,
            Err(no) => {
                return if self.take_whole(&mut chunk, start, end) { Ok(()) } else { Err(no) };
            }
        };
        self.buffer = buffer;
        let rest = &chunk.bytes()[start..end];
        self.buffer.bytes[..rest.len()].copy_from_slice(rest);
        (self.start, self.end) = (0, rest.len());
        Ok(())
    }

    /// Takes back the buffer itself, if no request uses it.
    fn take_whole(&mut self, chunk: &mut Rc<Chunk>, start: usize, end: usize) -> bool {
        let Some(chunk) = Rc::get_mut(chunk) else { return false };
        self.buffer = std::mem::take(&mut chunk.buffer);
        (self.start, self.end) = if start == end { (0, 0) } else { (start, end) };
        true
    }
}
