//! Buffers for direct I/O.
//!
//! 1. A buffer belongs to one operation from [`Pool::lease`] until its [`Lease`] drops.
//! 2. Leases and the buffers that lie ready take at most as many bytes as the pool has. If there is
//!    too little room, the largest ready ones go, and leases wait in the order of asking.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_rt::Rt;
use tantalum_rt::sync::Semaphore;
use tantalum_rt::wall::AlignedBuf;

/// The smallest buffer.
const LEAST: usize = 4096;

pub(super) struct Pool {
    room: Semaphore,
    bytes: usize,
    /// Buffers that lie ready, by the exponent of their length.
    ready: RefCell<Vec<Vec<AlignedBuf>>>,
    ready_bytes: Cell<usize>,
}

/// A buffer, and the room that it takes in the pool.
pub(super) struct Lease {
    pool: Rc<Pool>,
    size: usize,
    buf: Option<AlignedBuf>,
}

impl Pool {
    /// With room for `bytes`.
    pub fn new(rt: &Rt, bytes: usize) -> Rc<Pool> {
        Rc::new(Pool {
            room: Semaphore::new(rt, "a buffer for a file", bytes as u64),
            bytes,
            ready: RefCell::default(),
            ready_bytes: Cell::new(0),
        })
    }

    /// A buffer of `len` bytes, of unknown content. `len`, rounded up to a power of two, is at
    /// most what the pool has.
    pub async fn lease(self: &Rc<Pool>, len: usize) -> Lease {
        let size = len.next_power_of_two().max(LEAST);
        debug_assert!(size <= self.bytes, "{size} of {}", self.bytes);
        self.room.take(size as u64).await;
        let class = size.trailing_zeros() as usize;
        let ready = self.ready.borrow_mut().get_mut(class).and_then(Vec::pop);
        let mut buf = match ready {
            Some(buf) => {
                self.ready_bytes.set(self.ready_bytes.get() - size);
                buf
            }
            None => {
                self.make_room();
                AlignedBuf::zeroed(size)
            }
        };
        buf.set_len(len);
        Lease { pool: self.clone(), size, buf: Some(buf) }
    }

    /// Drops buffers that lie ready, the largest first, until all have room beside the leases.
    fn make_room(&self) {
        let mut ready = self.ready.borrow_mut();
        while self.ready_bytes.get() > self.room.free() as usize {
            let Some(class) = ready.iter().rposition(|some| !some.is_empty()) else { return };
            ready[class].pop();
            self.ready_bytes.set(self.ready_bytes.get() - (1 << class));
        }
    }

    fn keep(&self, size: usize, buf: AlignedBuf) {
        self.ready_bytes.set(self.ready_bytes.get() + size);
        let class = size.trailing_zeros() as usize;
        let mut ready = self.ready.borrow_mut();
        if ready.len() <= class {
            ready.resize_with(class + 1, Vec::new);
        }
        ready[class].push(buf);
    }

    /// Bytes that are leased.
    #[cfg(test)]
    pub fn leased(&self) -> usize {
        self.bytes - self.room.free() as usize
    }
}

impl Lease {
    /// The buffer, to be lent to an operation.
    pub fn lend(&mut self) -> AlignedBuf {
        self.buf.take().expect("a buffer is lent to one operation at a time")
    }

    /// The buffer is back.
    pub fn back(&mut self, buf: AlignedBuf) {
        self.buf = Some(buf);
    }

    pub fn bytes(&self) -> &[u8] {
        self.buf.as_deref().expect("the operation has ended")
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buf.as_deref_mut().expect("no operation has begun")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(buf) = self.buf.take() {
            self.pool.keep(self.size, buf);
        }
        self.pool.room.release(self.size as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_rt::{First, Nanos, Runtime, first, join_all};

    /// 2.
    #[test]
    fn leases_and_buffers_that_lie_ready_stay_within_the_pool() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let pool = Pool::new(&rt, 64 << 10);
        let seen = pool.clone();
        let main = async move {
            let users = (0..40u64).map(|i| {
                let (pool, rt) = (&pool, &rt);
                async move {
                    let len = 512 << (i % 6);
                    let mut lease = pool.lease(len).await;
                    assert_eq!(lease.bytes().len(), len);
                    lease.bytes_mut().fill(i as u8);
                    rt.sleep(Nanos(10 + i)).await;
                    assert!(lease.bytes().iter().all(|&b| b == i as u8), "another's buffer");
                    assert!(pool.leased() + pool.ready_bytes.get() <= pool.bytes);
                }
            });
            join_all(users.collect()).await;
            // A lease that gives up waiting takes nothing.
            let all = pool.lease(64 << 10).await;
            let waits = first(pool.lease(1), rt.sleep(Nanos(1))).await;
            assert!(matches!(waits, First::B(())));
            drop((waits, all));
        };
        runtime.block_on(main).unwrap();
        assert_eq!(seen.leased(), 0);
    }
}
