//! Many streams as one log: its blocks in the order of their LSNs.
//!
//! 1. **Order.** Blocks are delivered in the order of their LSNs, each once, until the first that
//!    no stream has whole.
//! 2. **What counts.** Of a block only the bytes count that its epoch may have
//!    ([`State::limit`]). Of several blocks with one LSN the one with the most bytes that count is
//!    delivered.
//! 3. **Archive first.** While the archive has the next block whole, nothing else is read. The
//!    other streams are read from the LSN on at which that ends.
//!
//! 4. **Copies.** With two copies ([`Merge::with_copies`]) a stream that cannot be read is as if it
//!    had ended. That is an error only if no other stream has the next block.
//!
//! That it is enough to look at the next block of each stream rests on this: in a stream the LSNs
//! of blocks that count do not decrease. Within an epoch that is how they are written; what a later
//! epoch writes begins no lower than what counts of the earlier ones ends; and what is copied to a
//! device ([`crate::copy`]) begins no lower than where that stream ends.

use crate::Lsn;
use crate::feed::Feed;
use crate::format::{Found, HEAD, Head, block_of, read_block};
use crate::member::MemberError;
use crate::planted::planted;
use crate::scan::Stream;
use crate::state::State;
use crate::superblock::Role;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::{Domain, Rt};

/// Unreadable units that a stream remembers, at most.
const SUSPECTS: usize = 256;

/// A block that counts.
struct Block {
    lsn: Lsn,
    /// The bytes that count.
    bytes: Vec<u8>,
}

/// Something in a stream that is no block.
struct Suspect {
    /// The LSNs of the blocks around it, as far as there are any.
    after: Option<Lsn>,
    before: Option<Lsn>,
    offset: u64,
    /// Only zeros are there. A write that was in flight at a crash may leave them, too.
    blank: bool,
}

/// One stream on the way through.
struct Source<D> {
    stream: Rc<Stream<D>>,
    feed: Option<Feed>,
    chunk: Option<(crate::feed::Chunk, usize)>,
    head: Option<Block>,
    ended: bool,
    seen: Seen,
    suspects: Vec<Suspect>,
    /// Zeros since the last block of this section, if there are any. A section may end with zeros,
    /// so they are suspect only once a block follows.
    blank: Option<Suspect>,
    last: Option<Lsn>,
}

/// What was seen in a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The highest watermark that counts.
    pub watermark: Lsn,
    /// The newest epoch.
    pub epoch: u32,
    /// The unit behind the last block of the log in the last section.
    pub next: u32,
}

/// The log as its blocks.
pub(crate) struct Merge<D> {
    rt: Rt,
    domain: Domain,
    sources: Vec<Source<D>>,
    state: Rc<State>,
    next: Lsn,
    payload: u64,
    /// All streams are being read, not the archive alone.
    all: bool,
    /// Whether there is a second copy of everything.
    copied: bool,
    /// Why a stream could not be read to its end, if one could not.
    failed: Option<MemberError>,
}

impl<D> Drop for Merge<D> {
    fn drop(&mut self) {
        self.domain.kill();
    }
}

impl<D: BlockDevice + 'static> Merge<D> {
    /// The log from the block of `from` on.
    pub fn new(rt: &Rt, streams: Vec<Rc<Stream<D>>>, state: Rc<State>, from: Lsn) -> Merge<D> {
        let unit = streams.first().map_or(512, |s| s.member.superblock.unit);
        let payload = crate::format::payload(unit);
        let source = |stream: Rc<Stream<D>>| Source {
            stream,
            feed: None,
            chunk: None,
            head: None,
            ended: false,
            seen: Seen::default(),
            suspects: Vec::new(),
            blank: None,
            last: None,
        };
        let next = block_of(from, payload);
        let domain = rt.domain();
        let sources = streams.into_iter().map(source).collect();
        let mut merge = Merge {
            rt: rt.clone(),
            domain,
            sources,
            state,
            next,
            payload,
            all: false,
            copied: false,
            failed: None,
        };
        let archive = merge.sources.iter().position(Source::is_archive);
        match archive {
            Some(archive) => merge.start(archive),
            None => merge.start_all(),
        }
        merge
    }

    /// There is a second copy of everything: a stream that cannot be read is done without.
    #[must_use]
    pub fn with_copies(mut self) -> Merge<D> {
        self.copied = true;
        self
    }

    /// Bytes of the log in a full block.
    pub fn payload(&self) -> u64 {
        self.payload
    }

    fn start(&mut self, source: usize) {
        let s = &mut self.sources[source];
        if s.feed.is_none() {
            let from = s.stream.position(self.next);
            s.feed = Some(Feed::start(&self.rt, &self.domain, s.stream.clone(), from));
        }
    }

    fn start_all(&mut self) {
        self.all = true;
        for i in 0..self.sources.len() {
            let second = self.sources[i].is_second();
            if !(second && planted!(SecondStreamSkipped)) {
                self.start(i);
            }
        }
    }

    /// The LSN of the next block and the bytes of it that count; `None` if no stream has it. After
    /// a block that is not full there is nothing more.
    pub async fn next(&mut self) -> Result<Option<(Lsn, Vec<u8>)>, MemberError> {
        let lsn = self.next;
        if !self.all {
            let archived = self.take(lsn, true).await?;
            if let Some(bytes) = archived
                && bytes.len() as u64 == self.payload
            {
                self.next = lsn.plus(self.payload);
                return Ok(Some((lsn, bytes)));
            }
            // The archive's block, if it has a part of it, is not lost: it is read again.
            for s in self.sources.iter_mut().filter(|s| s.is_archive()) {
                (s.feed, s.chunk, s.head, s.ended) = (None, None, None, false);
            }
            self.start_all();
        }
        let Some(bytes) = self.take(lsn, false).await? else {
            // What is missing may be what could not be read.
            return self.failed.take().map_or(Ok(None), Err);
        };
        if bytes.len() as u64 == self.payload {
            self.next = lsn.plus(self.payload);
        } else {
            // Nothing has this LSN: the end.
            self.next = Lsn(u64::MAX);
        }
        Ok(Some((lsn, bytes)))
    }

    /// The best block with this LSN, of the archive or of all.
    async fn take(&mut self, lsn: Lsn, archive: bool) -> Result<Option<Vec<u8>>, MemberError> {
        let state = self.state.clone();
        let mut best: Option<Vec<u8>> = None;
        for s in self.sources.iter_mut().filter(|s| !archive || s.is_archive()) {
            loop {
                match s.fill(&state).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) if self.copied => {
                        (s.chunk, s.ended) = (None, true);
                        self.failed.get_or_insert(error);
                        break;
                    }
                    Err(error) => return Err(error),
                }
                let Some(head) = &mut s.head else { break };
                if head.lsn > lsn {
                    break;
                }
                let bytes = std::mem::take(&mut head.bytes);
                let here = head.lsn == lsn;
                s.head = None;
                if !here {
                    continue;
                }
                let better = match (&best, planted!(ShorterBlockWins)) {
                    (None, _) => true,
                    (Some(b), false) => bytes.len() > b.len(),
                    (Some(b), true) => bytes.len() < b.len(),
                };
                if better {
                    best = Some(bytes);
                }
            }
        }
        Ok(best)
    }

    /// Reads everything to its end. What was seen in each stream then is all that there is.
    pub async fn drain(&mut self) -> Result<(), MemberError> {
        self.start_all();
        let state = self.state.clone();
        for s in &mut self.sources {
            while s.fill(&state).await? {
                s.head = None;
            }
        }
        Ok(())
    }

    /// What was seen, for each stream in its place.
    pub fn seen(&self) -> Vec<Seen> {
        self.sources.iter().map(|s| s.seen).collect()
    }

    /// A place where something is that is no block, and where this LSN belongs. Zeros are named
    /// only if there is nothing else.
    pub fn suspect(&self, lsn: Lsn) -> Option<(String, u64)> {
        let fits = |s: &&Suspect| {
            s.after.is_none_or(|after| after <= lsn) && s.before.is_none_or(|before| before >= lsn)
        };
        let of = |source: &Source<D>, blank: bool| {
            let found = source.suspects.iter().filter(|s| s.blank == blank).find(fits)?;
            Some((source.stream.member.name.clone(), found.offset))
        };
        let find = |blank| self.sources.iter().find_map(|source| of(source, blank));
        find(false).or_else(|| find(true))
    }
}

impl<D> Source<D> {
    fn is_archive(&self) -> bool {
        self.stream.member.superblock.role == Role::Archive
    }

    fn is_second(&self) -> bool {
        let superblock = &self.stream.member.superblock;
        superblock.second_sections > 0 && self.stream.stream % 2 == 1
    }

    /// Goes on to the next block that counts. Whether there is one.
    async fn fill(&mut self, state: &State) -> Result<bool, MemberError> {
        while self.head.is_none() && !self.ended {
            let Some((chunk, at)) = &mut self.chunk else {
                let Some(feed) = &self.feed else { return Ok(false) };
                match feed.next().await {
                    Some(chunk) => self.chunk = Some((chunk?, 0)),
                    None => self.ended = true,
                }
                continue;
            };
            let size = self.stream.member.superblock.unit as usize;
            let i = *at;
            if i * size >= chunk.bytes.len() {
                self.chunk = None;
                continue;
            }
            *at += 1;
            let block = &chunk.bytes[i * size..(i + 1) * size];
            let unit = chunk.unit + i as u32;
            let (span, found) = (chunk.span, read_block(block));
            let newest = span + 1 == self.stream.spans.len();
            match found {
                Found::Bytes(head) if belongs(&self.stream, &head, span) => {
                    let limit = state.limit(head.epoch);
                    let counts = u64::from(head.bytes).min(limit.since(head.lsn)) as usize;
                    let bytes = block[HEAD..HEAD + counts].to_vec();
                    note(&mut self.seen, &head, limit, newest.then_some(unit));
                    if counts > 0 {
                        let room = self.suspects.len() < SUSPECTS;
                        self.suspects.extend(self.blank.take().filter(|_| room));
                        for s in self.suspects.iter_mut().filter(|s| s.before.is_none()) {
                            s.before = Some(head.lsn);
                        }
                        self.last = Some(head.lsn);
                        self.head = Some(Block { lsn: head.lsn, bytes });
                    }
                }
                Found::Section(head, _) if belongs(&self.stream, &head, span) => {
                    let limit = state.limit(head.epoch);
                    note(&mut self.seen, &head, limit, newest.then_some(unit));
                    self.blank = None;
                }
                Found::Nothing => {
                    let at = self.stream.spans[span].unit + u64::from(unit);
                    let blank = !chunk.bad.contains(&i) && block.iter().all(|b| *b == 0);
                    let (after, offset) = (self.last, at * size as u64);
                    let suspect = Suspect { after, before: None, offset, blank };
                    if blank {
                        self.blank.get_or_insert(suspect);
                    } else if self.suspects.len() < SUSPECTS {
                        self.suspects.push(suspect);
                    }
                }
                _ => {}
            }
        }
        Ok(self.head.is_some())
    }
}

/// Whether a block is of this log, device, stream and section.
pub(crate) fn belongs<D>(stream: &Stream<D>, head: &Head, span: usize) -> bool {
    head.tag == stream.member.tag
        && head.stream == stream.stream
        && head.section == stream.spans[span].section.number
}

/// Notes a block, and its unit if it is in the newest section.
fn note(seen: &mut Seen, head: &Head, limit: Lsn, unit: Option<u32>) {
    seen.watermark = seen.watermark.max(head.watermark.min(limit));
    seen.epoch = seen.epoch.max(head.epoch);
    if let Some(unit) = unit {
        seen.next = seen.next.max(unit + 1);
    }
}
