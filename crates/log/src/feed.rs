//! Reads a stream ahead of whoever wants it, in chunks.
//!
//! 1. At most [`AHEAD`] chunks are being read or wait: a reader is held back by how far delivery is.
//!    So a disk has the next command before the chunk that it reads has ended, and loses no turn.
//! 2. Chunks come in their order, whichever read ends first.

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
const AHEAD: usize = 4;

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

/// A chunk that was read; `None`: its read has not ended.
type Slot = Rc<RefCell<Option<Result<Chunk, MemberError>>>>;

#[derive(Default)]
struct Queue {
    chunks: VecDeque<Slot>,
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
        let (taken, reads) = (feed.taken.clone(), domain.clone());
        domain.spawn_background("reader of a stream", async move {
            let (first, mut unit) = from;
            for span in first..stream.spans.len() {
                while unit < stream.spans[span].units {
                    taken.until(|| queue.borrow().chunks.len() < AHEAD).await;
                    let slot = Slot::default();
                    queue.borrow_mut().chunks.push_back(slot.clone());
                    let (stream, filled) = (stream.clone(), filled.clone());
                    let at = unit;
                    unit += units_of(&stream, span, at);
                    reads.spawn_background("a chunk of a stream", async move {
                        let chunk = read_chunk(&stream, span, at).await;
                        *slot.borrow_mut() = Some(chunk);
                        filled.notify_all();
                    });
                }
                unit = 0;
            }
            queue.borrow_mut().ended = true;
            filled.notify_all();
        });
        feed
    }

    /// The next chunk; `None` at the end of the stream. After an error there is nothing to take.
    pub async fn next(&self) -> Option<Result<Chunk, MemberError>> {
        let ready = || {
            let queue = self.queue.borrow();
            queue.chunks.front().map_or(queue.ended, |slot| slot.borrow().is_some())
        };
        self.filled.until(ready).await;
        let slot = self.queue.borrow_mut().chunks.pop_front();
        self.taken.notify_all();
        slot.and_then(|slot| slot.take())
    }
}

/// How many units a chunk from this one on has.
fn units_of<D>(stream: &Stream<D>, span: usize, unit: u32) -> u32 {
    let size = stream.member.superblock.unit as usize;
    (CHUNK / size).max(1).min((stream.spans[span].units - unit) as usize) as u32
}

/// The next units of a section, as many as a chunk has.
pub(crate) async fn read_chunk<D: BlockDevice>(
    stream: &Stream<D>,
    span: usize,
    unit: u32,
) -> Result<Chunk, MemberError> {
    let (s, size) = (&stream.spans[span], stream.member.superblock.unit as usize);
    let mut bytes = vec![0; units_of(stream, span, unit) as usize * size];
    let bad = stream.member.read(s.unit + u64::from(unit), &mut bytes).await?;
    Ok(Chunk { span, unit, bytes, bad })
}
