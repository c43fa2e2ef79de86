//! A stream in memory for clients in the same runtime: tests, and programs that embed a server.

use super::stream::Stream;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

/// One direction.
struct Way {
    bytes: RefCell<VecDeque<u8>>,
    capacity: usize,
    ended: Cell<bool>,
    changed: WaitQueue,
}

impl Way {
    fn end(&self) {
        self.ended.set(true);
        self.changed.notify_all();
    }
}

/// One end of a pipe; dropping it ends both directions.
pub struct PipeEnd {
    incoming: Rc<Way>,
    outgoing: Rc<Way>,
}

/// A pipe in memory with two ends. Each direction holds up to `capacity` bytes.
pub fn pipe(rt: &Rt, capacity: usize) -> (PipeEnd, PipeEnd) {
    let way = || {
        Rc::new(Way {
            bytes: RefCell::default(),
            capacity: capacity.max(1),
            ended: Cell::new(false),
            changed: WaitQueue::new(rt, "the other end of a pipe"),
        })
    };
    let (there, back) = (way(), way());
    let one = PipeEnd { incoming: there.clone(), outgoing: back.clone() };
    (one, PipeEnd { incoming: back, outgoing: there })
}

impl Stream for PipeEnd {
    async fn recv(&self, mut buf: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let way = &self.incoming;
        way.changed.until(|| !way.bytes.borrow().is_empty() || way.ended.get()).await;
        let mut bytes = way.bytes.borrow_mut();
        let count = bytes.len().min(buf.len() - from);
        for (to, byte) in buf[from..].iter_mut().zip(bytes.drain(..count)) {
            *to = byte;
        }
        drop(bytes);
        way.changed.notify_all();
        (Ok(count), buf)
    }

    async fn send(&self, buf: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let way = &self.outgoing;
        let mut sent = 0;
        while sent < buf.len() {
            way.changed.until(|| way.bytes.borrow().len() < way.capacity || way.ended.get()).await;
            if way.ended.get() {
                return (Err(io::ErrorKind::BrokenPipe.into()), buf);
            }
            let mut bytes = way.bytes.borrow_mut();
            let count = (way.capacity - bytes.len()).min(buf.len() - sent);
            bytes.extend(&buf[sent..sent + count]);
            sent += count;
            drop(bytes);
            way.changed.notify_all();
        }
        (Ok(()), buf)
    }

    fn shutdown(&self) {
        self.incoming.end();
        self.outgoing.end();
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        self.shutdown();
    }
}
