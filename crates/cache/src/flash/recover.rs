//! A restart: what the ring holds, from segments, descriptors and, where nothing vouches for them,
//! frames. It writes nothing, so it can be cut and repeated at any point.
//!
//! 1. **A prefix counts.** Of the batches that no segment, no superblock and no later descriptor
//!    vouches for, those count that are whole, up to the first one that is not. Nobody was told that
//!    a batch behind that is durable.
//! 2. **Damage is no end.** If a batch that was durable has neither a segment nor a descriptor, the
//!    cache is refused: its dirty pages are not known. With write-through nothing is lost: what is
//!    not newer than that batch is given up.
//! 3. **One version.** Of several versions of a page the one with the highest LSN is valid, of equal
//!    ones the last. A tombstone ends what is before it.
//! 4. What is rebuilt from a descriptor is dirty. What a segment says to be clean is clean.

use crate::flash::error::OpenError;
use crate::flash::format::Mode;
use crate::flash::format::{Descriptor, Frame, Segment, SegmentBatch, Superblock, checksum};
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
    /// The batch after the last one that counts.
    pub rear: u64,
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
        for batch in front..rear {
            apply(&mut index, known.get(&batch)?);
        }
        let stats = RestartStats { clean: true, ..self.stats };
        Some(Recovered { index, front, rear, stats })
    }

    async fn after_crash(
        mut self,
        segments: Vec<Segment>,
        by: RestartBy,
    ) -> Result<Recovered, OpenError> {
        let newest = |of: fn(&Segment) -> u64| segments.iter().map(of).max().unwrap_or(0);
        let mut vouched = self.superblock.rear.max(newest(Segment::end));
        let mut front = self.superblock.front.max(newest(|s| s.front));
        let mut descriptors = self.scan(vouched).await?;
        for descriptor in descriptors.values() {
            vouched = vouched.max(descriptor.durable);
            front = front.max(descriptor.front);
        }
        // What no one vouches for counts while it is whole (1).
        let mut rear = vouched;
        while let Some(descriptor) = descriptors.get(&rear) {
            if !self.is_whole(descriptor).await? {
                break;
            }
            rear += 1;
        }
        // A ring never holds more than its slots. A forged piece may say otherwise.
        let layout = self.medium.layout();
        let slots = layout.older.map_or(0, |older| older.batches).max(layout.batches);
        let least = rear.saturating_sub(slots.into());
        if front < least {
            if self.superblock.mode == Mode::Back {
                return Err(OpenError::Damaged { batch: front, at: layout.batch_at(front) });
            }
            front = least;
        }
        let mut known: BTreeMap<u64, SegmentBatch> = BTreeMap::new();
        for segment in segments {
            known.extend((segment.first..).zip(segment.batches));
        }
        let mut first = front;
        for batch in front..rear {
            if known.contains_key(&batch) {
                continue;
            }
            if planted!(OneSegmentRescanned) && layout.segment_of(batch) < layout.segment_of(rear) {
                known.insert(batch, SegmentBatch::default());
                continue;
            }
            let descriptor = match descriptors.remove(&batch) {
                Some(descriptor) => Some(descriptor),
                None => self.read_descriptor(batch).await?,
            };
            match descriptor {
                Some(descriptor) => drop(known.insert(batch, self.rebuild(descriptor))),
                None if self.superblock.mode == Mode::Through => first = batch + 1,
                None => {
                    return Err(OpenError::Damaged { batch, at: layout.batch_at(batch) });
                }
            }
        }
        if by == RestartBy::Frames {
            self.read_frames(first, rear, &known).await?;
        }
        let mut index = Index::new(first);
        for batch in first..rear {
            apply(&mut index, &known[&batch]);
        }
        Ok(Recovered { index, front: first, rear, stats: self.stats })
    }

    async fn read_descriptor(&mut self, batch: u64) -> Result<Option<Descriptor>, OpenError> {
        self.stats.descriptors += 1;
        self.stats.bytes += u64::from(self.medium.layout().descriptor);
        let found = self.medium.read_descriptor(batch).await.map_err(flash)?;
        let epoch = self.superblock.epoch;
        let counts = |d: &Descriptor| {
            // From the rear of the last start on only what was written since counts.
            if batch < self.superblock.rear { d.epoch <= epoch } else { d.epoch == epoch }
        };
        Ok(found.filter(counts))
    }

    /// The descriptors from `first` on, up to a gap that is longer than what can have been in
    /// flight.
    async fn scan(&mut self, first: u64) -> Result<BTreeMap<u64, Descriptor>, OpenError> {
        let mut found = BTreeMap::new();
        let (mut batch, mut missing) = (first, 0);
        while missing < DEPTH && batch < first + u64::from(self.medium.layout().batches) {
            match self.read_descriptor(batch).await? {
                Some(descriptor) => {
                    found.insert(batch, descriptor);
                    missing = 0;
                }
                None => missing += 1,
            }
            batch += 1;
        }
        Ok(found)
    }

    /// Whether all frames have their checksums.
    async fn is_whole(&mut self, descriptor: &Descriptor) -> Result<bool, OpenError> {
        let frames = &descriptor.frames;
        if frames.is_empty() || planted!(ChecksumNotCompared) {
            return Ok(true);
        }
        let page = self.medium.page();
        let read = self.medium.read_frames(descriptor.batch, frames.len()).await;
        let bytes = read.map_err(flash)?;
        self.stats.compared += 1;
        self.stats.bytes += self.medium.frame_bytes(bytes.len());
        let same = |(f, bytes): (&Frame, &[u8])| f.damaged || checksum(bytes) == f.checksum;
        Ok(frames.iter().zip(bytes.chunks_exact(page)).all(same))
    }

    /// What a descriptor tells, all of it dirty (4).
    fn rebuild(&mut self, descriptor: Descriptor) -> SegmentBatch {
        self.stats.rebuilt += descriptor.frames.len() as u64;
        let dirty = !planted!(RebuiltTakenForClean);
        let frame = |frame: Frame| (Frame { dirty, ..frame }, false);
        SegmentBatch {
            frames: descriptor.frames.into_iter().map(frame).collect(),
            tombstones: descriptor.tombstones,
        }
    }

    /// Reads the frames of two segments' worth of batches, as published.
    async fn read_frames(
        &mut self,
        front: u64,
        rear: u64,
        known: &BTreeMap<u64, SegmentBatch>,
    ) -> Result<(), OpenError> {
        let worth = 2 * u64::from(self.medium.layout().segment_batches);
        for batch in front.max(rear.saturating_sub(worth))..rear {
            let frames = known[&batch].frames.len();
            if frames > 0 {
                let bytes = self.medium.read_frames(batch, frames).await.map_err(flash)?;
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
    for (i, (frame, referenced)) in batch.frames.iter().enumerate() {
        while let Some(t) = tombstones.next_if(|t| t.before as usize <= i) {
            index.bury(t.first, t.count);
        }
        match index.find(frame.page) {
            Some((_, newer)) if newer.lsn > frame.lsn => index.push_void(*frame, *referenced),
            _ => index.push(*frame, *referenced),
        };
    }
    tombstones.for_each(|t| index.bury(t.first, t.count));
}
