//! Reads a stream ahead of whoever wants it, in chunks.
//!
//! 1. At most [`AHEAD`] chunks wait: a reader is held back by how far delivery is.

use crate::member::MemberError;
use crate::scan::Stream;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{Domain, Rt};

/// Bytes of a chunk, at most.
const CHUNK: usize = 64 << 10;
const AHEAD: usize = 2;

/// Some units of a section.
pub(crate) struct Chunk {
    /// The index of the section among the stream's spans.
    pub span: usize,
    /// The first unit, counted in the section.
    pub unit: u32,
    pub bytes: Vec<u8>,
    /// Units, counted in the chunk, that could not be read.
    pub bad: Vec<usize>,
}

#[derive(Default)]
struct Queue {
    chunks: VecDeque<Result<Chunk, MemberError>>,
    ended: bool,
}

/// The chunks of one stream, from one place to its end.
pub(crate) struct Feed {
    queue: Rc<RefCell<Queue>>,
    filled: Rc<WaitQueue>,
    taken: Rc<WaitQueue>,
}

impl Feed {
    /// Begins to read at a section and a unit in it, in a task of `domain`.
    pub fn start<D: BlockDevice + 'static>(
        rt: &Rt,
        domain: &Domain,
        stream: Rc<Stream<D>>,
        from: (usize, u32),
    ) -> Feed {
        let feed = Feed {
            queue: Rc::default(),
            filled: Rc::new(WaitQueue::new(rt, "a piece of the log")),
            taken: Rc::new(WaitQueue::new(rt, "room for a piece of the log")),
        };
        let (queue, filled) = (feed.queue.clone(), feed.filled.clone());
        let taken = feed.taken.clone();
        domain.spawn_background("reader of a stream", async move {
            let (first, mut unit) = from;
            for span in first..stream.spans.len() {
                while unit < stream.spans[span].units {
                    taken.until(|| queue.borrow().chunks.len() < AHEAD).await;
                    let chunk = read_chunk(&stream, span, unit).await;
                    let failed = chunk.is_err();
                    if let Ok(chunk) = &chunk {
                        let size = stream.member.superblock.unit as usize;
                        unit += (chunk.bytes.len() / size) as u32;
                    }
                    queue.borrow_mut().chunks.push_back(chunk);
                    filled.notify_all();
                    if failed {
                        return;
                    }
                }
                unit = 0;
            }
            queue.borrow_mut().ended = true;
            filled.notify_all();
        });
        feed
    }

    /// The next chunk; `None` at the end of the stream.
    pub async fn next(&self) -> Option<Result<Chunk, MemberError>> {
        let ready = || {
            let queue = self.queue.borrow();
            !queue.chunks.is_empty() || queue.ended
        };
        self.filled.until(ready).await;
        let chunk = self.queue.borrow_mut().chunks.pop_front();
        self.taken.notify_all();
        chunk
    }
}

/// The next units of a section, as many as a chunk has.
pub(crate) async fn read_chunk<D: BlockDevice>(
    stream: &Stream<D>,
    span: usize,
    unit: u32,
) -> Result<Chunk, MemberError> {
    let (s, size) = (&stream.spans[span], stream.member.superblock.unit as usize);
    let units = (CHUNK / size).max(1).min((s.units - unit) as usize);
    let mut bytes = vec![0; units * size];
    let bad = stream.member.read(s.unit + u64::from(unit), &mut bytes).await?;
    Ok(Chunk { span, unit, bytes, bad })
}
