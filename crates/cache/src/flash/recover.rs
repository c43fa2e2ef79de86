//! A restart: what the ring holds, from segments, descriptors and, where nothing vouches for them,
//! frames. It writes nothing, so it can be cut and repeated at any point.
//!
//! 1. **A prefix counts.** Of the parts that no segment, no superblock and no later descriptor
//!    vouches for, those count that are whole, up to the first one that is not. Nobody was told that
//!    a part behind that is durable.
//! 2. **Damage is no end.** If a part that was durable has neither a segment nor a descriptor, the
//!    cache is refused: its dirty pages are not known. With write-through nothing is lost: what is
//!    not newer than its batch is given up.
//! 3. **One version.** Of several versions of a page the one with the highest LSN is valid, of equal
//!    ones the last. A tombstone ends what is before it.
//! 4. Where a descriptor is missing, later parts of its batch may lie anywhere behind it: the rest of
//!    the slot is read.
//! 5. What is rebuilt from a descriptor is dirty. What a segment says to be clean is clean.

use crate::flash::error::OpenError;
use crate::flash::format::Mode;
use crate::flash::format::{Descriptor, Frame, Part, Segment, SegmentBatch, Superblock, checksum};
use crate::flash::index::Index;
use crate::flash::medium::Medium;
use crate::flash::options::RestartBy;
use crate::flash::ring::DEPTH;
use crate::flash::stats::RestartStats;
use crate::planted::planted;
use std::collections::BTreeMap;
use tantalum_device::{BlockDevice, IoError};

/// What a restart found.
pub(crate) struct Recovered {
    pub index: Index,
    pub front: u64,
    /// The part after the last one that counts.
    pub rear: Part,
    pub stats: RestartStats,
}

/// A restart under way.
struct Restart<'a, F> {
    medium: &'a Medium<F>,
    superblock: &'a Superblock,
    stats: RestartStats,
}

fn flash(error: IoError) -> OpenError {
    OpenError::Io { device: "the flash device", error }
}

/// Reads what the ring holds.
pub(crate) async fn recover<F: BlockDevice>(
    medium: &Medium<F>,
    superblock: &Superblock,
    by: RestartBy,
) -> Result<Recovered, OpenError> {
    medium.settle().await.map_err(flash)?;
    let mut restart = Restart { medium, superblock, stats: RestartStats::default() };
    let segments = restart.read_segments().await?;
    if superblock.clean
        && let Some(recovered) = restart.clean(&segments)
    {
        return Ok(recovered);
    }
    restart.after_crash(segments, by).await
}

impl<F: BlockDevice> Restart<'_, F> {
    async fn read_segments(&mut self) -> Result<Vec<Segment>, OpenError> {
        let layout = self.medium.layout();
        let mut segments = Vec::new();
        for slot in 0..u64::from(layout.segments) {
            let found = self.medium.read_segment(slot).await.map_err(flash)?;
            self.stats.bytes += layout.segment_bytes() as u64;
            let fits = |s: &Segment| {
                s.number % u64::from(layout.segments) == slot
                    && s.epoch <= self.superblock.epoch
                    && s.number <= layout.segment_of(s.first)
                    && s.end() <= layout.batches_of(s.number).end
                    && s.front <= s.end()
                    && s.batches.iter().all(|batch| {
                        batch.frames.len() <= layout.frames_with(batch.parts.len() as u32)
                            && batch.tombstones.len() <= layout.tombstones()
                    })
                    && (!s.goes_on
                        || s.batches.last().is_some_and(|last| {
                            last.frames.len() < layout.frames_with(last.parts.len() as u32 + 1)
                        }))
            };
            segments.extend(found.filter(fits));
        }
        self.stats.segments = segments.len() as u64;
        segments.sort_by_key(|s| s.number);
        Ok(segments)
    }

    /// The directory of a cache that was closed, if the segments have all of it.
    fn clean(&mut self, segments: &[Segment]) -> Option<Recovered> {
        let Superblock { front, rear, epoch, .. } = *self.superblock;
        let mut known: BTreeMap<u64, &SegmentBatch> = BTreeMap::new();
        for segment in segments.iter().filter(|s| s.epoch == epoch) {
            known.extend((segment.first..).zip(&segment.batches));
        }
        let mut index = Index::new(front);
        for batch in front..rear.last_batch() + 1 {
            let content = *known.get(&batch)?;
            if batch == rear.batch && content.parts.len() as u32 + 1 != rear.number {
                return None;
            }
            apply(&mut index, content);
        }
        let stats = RestartStats { clean: true, ..self.stats };
        Some(Recovered { index, front, rear, stats })
    }

    async fn after_crash(
        mut self,
        segments: Vec<Segment>,
        by: RestartBy,
    ) -> Result<Recovered, OpenError> {
        let mut known: BTreeMap<u64, SegmentBatch> = BTreeMap::new();
        let mut vouched = self.superblock.rear;
        let mut front = self.superblock.front;
        // What segments know of batches that went on.
        let mut begun: BTreeMap<u64, SegmentBatch> = BTreeMap::new();
        for mut segment in segments {
            front = front.max(segment.front);
            vouched = vouched.max(segment.durable());
            let last = segment.end().saturating_sub(1);
            begun
                .extend(segment.batches.pop_if(|_| segment.goes_on).map(|content| (last, content)));
            known.extend((segment.first..).zip(segment.batches));
        }
        let layout = self.medium.layout();
        let at = self.place_of(vouched, begun.get(&vouched.batch)).await?;
        let found = self.scan(vouched, at).await?;
        for descriptor in found.values() {
            vouched = vouched.max(descriptor.durable);
            front = front.max(descriptor.front);
        }
        // What no one vouches for counts while it is whole (1).
        let mut rear = vouched;
        while let Some(descriptor) = found.get(&rear) {
            if !self.is_whole(descriptor).await? {
                break;
            }
            rear = descriptor.next();
        }
        // A ring never holds more than its slots. A forged piece may say otherwise.
        let slots = layout.older.map_or(0, |older| older.batches).max(layout.batches);
        let least = rear.batch.saturating_sub(slots.into());
        if front < least {
            if self.superblock.mode == Mode::Back {
                return Err(OpenError::Damaged { batch: front, at: layout.batch_at(front) });
            }
            front = least;
        }
        let mut first = front;
        for batch in front..rear.last_batch() + 1 {
            if known.contains_key(&batch) {
                continue;
            }
            if planted!(OneSegmentRescanned)
                && layout.segment_of(batch) < layout.segment_of(rear.batch)
            {
                known.insert(batch, SegmentBatch::default());
                continue;
            }
            match self.rebuild(batch, rear, begun.remove(&batch), &found).await? {
                Ok(content) => drop(known.insert(batch, content)),
                Err(_) if self.superblock.mode == Mode::Through => first = batch + 1,
                Err(at) => return Err(OpenError::Damaged { batch, at }),
            }
        }
        if first > rear.batch {
            // The batch that goes on is given up, too.
            rear = Part::first(first);
        }
        if by == RestartBy::Frames {
            self.read_frames(first, rear, &known).await?;
        }
        let mut index = Index::new(first);
        for batch in first..rear.last_batch() + 1 {
            apply(&mut index, &known[&batch]);
        }
        Ok(Recovered { index, front: first, rear, stats: self.stats })
    }

    /// Where this part lies, if the parts before it are there.
    async fn place_of(
        &mut self,
        part: Part,
        begun: Option<&SegmentBatch>,
    ) -> Result<Option<u64>, OpenError> {
        let layout = self.medium.layout();
        let known = begun.filter(|content| content.parts.len() < part.number as usize);
        let (mut at, mut before) = (Part::first(part.batch), 0);
        if let Some(content) = known {
            (at.number, before) = (content.parts.len() as u32 + 1, content.frames.len());
        }
        while at < part {
            match self.read_descriptor(at, layout.part_at(at, before)).await? {
                Some(found) => (at, before) = (at.next(), found.end()),
                None => return Ok(None),
            }
        }
        Ok(Some(layout.part_at(part, before)))
    }

    /// The descriptor of a part, which lies there.
    async fn read_descriptor(
        &mut self,
        part: Part,
        at: u64,
    ) -> Result<Option<Descriptor>, OpenError> {
        self.stats.descriptors += 1;
        self.stats.bytes += u64::from(self.medium.layout().descriptor);
        let found = self.medium.read_descriptor(part.batch, at).await.map_err(flash)?;
        Ok(found.filter(|d| d.part == part && self.counts(d)))
    }

    /// From the rear of the last start on only what was written since counts.
    fn counts(&self, d: &Descriptor) -> bool {
        let Superblock { epoch, rear, .. } = *self.superblock;
        if d.part < rear { d.epoch <= epoch } else { d.epoch == epoch }
    }

    /// The descriptors from `first` on, which lies there, if that is known; up to a gap that is longer
    /// than what can have been in flight.
    async fn scan(
        &mut self,
        first: Part,
        at: Option<u64>,
    ) -> Result<BTreeMap<Part, Descriptor>, OpenError> {
        let layout = self.medium.layout();
        let mut found = BTreeMap::new();
        let (mut part, mut missing) = (first, 0);
        if at.is_none() {
            // What is before it is damaged, and the batch is given up.
            part = Part::first(first.batch + 1);
        }
        let mut at = at.unwrap_or(layout.batch_at(part.batch));
        while missing < DEPTH && part.batch < first.batch + u64::from(layout.batches) {
            let mut next = self.read_descriptor(part, at).await?;
            if next.is_none() {
                missing += 1;
                next = self.later_part(part, at).await?;
            }
            let Some(descriptor) = next else {
                part = Part::first(part.batch + 1);
                at = layout.batch_at(part.batch);
                continue;
            };
            if descriptor.part == part {
                missing = 0;
            }
            part = descriptor.next();
            at = layout.part_at(part, if part.number > 0 { descriptor.end() } else { 0 });
            found.insert(descriptor.part, descriptor);
        }
        Ok(found)
    }

    /// A part of the batch behind this one, whose descriptor is missing (4).
    async fn later_part(&mut self, part: Part, at: u64) -> Result<Option<Descriptor>, OpenError> {
        let found = self.medium.read_behind(part.batch, at).await.map_err(flash)?;
        self.stats.bytes += self.medium.layout().batch_bytes() as u64;
        Ok(found.into_iter().filter(|d| d.part > part && self.counts(d)).min_by_key(|d| d.part))
    }

    /// Whether all frames have their checksums.
    async fn is_whole(&mut self, descriptor: &Descriptor) -> Result<bool, OpenError> {
        let frames = &descriptor.frames;
        if frames.is_empty() || planted!(ChecksumNotCompared) {
            return Ok(true);
        }
        let page = self.medium.page();
        let read =
            self.medium.read_part(descriptor.part, descriptor.before..descriptor.end()).await;
        let bytes = read.map_err(flash)?;
        self.stats.compared += 1;
        self.stats.bytes += self.medium.frame_bytes(bytes.len());
        let same = |(f, bytes): (&Frame, &[u8])| f.damaged || checksum(bytes) == f.checksum;
        Ok(frames.iter().zip(bytes.chunks_exact(page)).all(same))
    }

    /// What the descriptors of a batch tell, all of it dirty (5); behind what a segment knows of it.
    /// Else where a descriptor is missing.
    async fn rebuild(
        &mut self,
        batch: u64,
        rear: Part,
        begun: Option<SegmentBatch>,
        found: &BTreeMap<Part, Descriptor>,
    ) -> Result<Result<SegmentBatch, u64>, OpenError> {
        let layout = self.medium.layout();
        let mut part = Part::first(batch);
        part.number = begun.as_ref().map_or(0, |content| content.parts.len() as u32 + 1);
        let mut content = begun.unwrap_or_default();
        let dirty = !planted!(RebuiltTakenForClean);
        while part < rear {
            let before = content.frames.len();
            let at = layout.part_at(part, before);
            let descriptor = match found.get(&part) {
                Some(descriptor) if descriptor.before == before => Some(descriptor.clone()),
                _ => self.read_descriptor(part, at).await?,
            };
            let Some(descriptor) = descriptor else { return Ok(Err(at)) };
            self.stats.rebuilt += descriptor.frames.len() as u64;
            if part.number > 0 {
                content.parts.push(before);
            }
            part = descriptor.next();
            let frames = descriptor.frames.into_iter();
            content.frames.extend(frames.map(|frame| (Frame { dirty, ..frame }, false)));
            content.tombstones.extend(descriptor.tombstones);
            if part.batch > batch {
                break;
            }
        }
        let sane = content.tombstones.len() <= layout.tombstones()
            && (batch < rear.batch || content.parts.len() as u32 + 1 == rear.number);
        Ok(if sane { Ok(content) } else { Err(layout.batch_at(batch)) })
    }

    /// Reads the frames of two segments' worth of batches, as published.
    async fn read_frames(
        &mut self,
        front: u64,
        rear: Part,
        known: &BTreeMap<u64, SegmentBatch>,
    ) -> Result<(), OpenError> {
        let worth = 2 * u64::from(self.medium.layout().segment_batches);
        let end = rear.last_batch() + 1;
        for batch in front.max(end.saturating_sub(worth))..end {
            let bytes = self.medium.read_batch(batch, &known[&batch]).await.map_err(flash)?;
            if !bytes.is_empty() {
                self.stats.compared += 1;
                self.stats.bytes += self.medium.frame_bytes(bytes.len());
            }
        }
        Ok(())
    }
}

/// Adds a batch to the index (3).
fn apply(index: &mut Index, batch: &SegmentBatch) {
    index.begin_batch();
    let mut tombstones = batch.tombstones.iter().peekable();
    let mut parts = batch.parts.iter().peekable();
    for (i, (frame, referenced)) in batch.frames.iter().enumerate() {
        while parts.next_if(|before| **before == i).is_some() {
            index.begin_part();
        }
        while let Some(t) = tombstones.next_if(|t| t.before as usize <= i) {
            index.bury(t.first, t.count);
        }
        match index.find(frame.page) {
            Some((_, newer)) if newer.lsn > frame.lsn => index.push_void(*frame, *referenced),
            _ => index.push(*frame, *referenced),
        };
    }
    parts.for_each(|_| index.begin_part());
    tombstones.for_each(|t| index.bury(t.first, t.count));
}
