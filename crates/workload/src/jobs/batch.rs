//! Batches of writes: flushed one by one, all at once, or as an atomic group; direct or buffered.
//!
//! 1. No two writes of a batch touch the same block, so that each way leaves the same content.
//! 2. A batch that is refused for lack of space is not counted. Those of its blocks that were
//!    written stay.

use super::run::{Next, Shared, fill};
use super::{Batch, JobError, Together};
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, CommandKind, Data, Durability, Extent, IoError,
    OwnedData,
};
use tantalum_rt::join_all;

/// The most draws to find a place that is not taken yet.
const DRAWS: u32 = 1000;

impl<D: BlockDevice> Shared<D> {
    /// Writes a batch that begins with `first`.
    pub async fn batch(&self, first: Next, batch: Batch) -> Result<(), JobError> {
        let ranges = self.ranges(first.range, batch.writes);
        let caps = *self.device.caps();
        let data: Vec<OwnedData> = (0..)
            .zip(&ranges)
            .map(|(i, range)| {
                let mut data =
                    OwnedData::zeros(caps.payload, range.count as usize, caps.block_size);
                fill(&mut data, first.stamp.wrapping_add(i << 20));
                data
            })
            .collect();
        let writes: Vec<(Block, Data<'_>)> =
            ranges.iter().zip(&data).map(|(range, data)| (range.start, data.as_data())).collect();
        let start = self.rt.now();
        let (kind, done) = match batch.how {
            Together::Flushed => (CommandKind::Write, self.flushed(&writes, first.stamp).await),
            Together::Unordered if self.job.buffered.is_some() => {
                (CommandKind::Write, self.synced(&writes, first.stamp).await)
            }
            Together::Unordered => (CommandKind::Write, self.unordered(&writes).await),
            Together::Group => (CommandKind::Group, self.group(&writes).await),
        };
        match done {
            Err(JobError::Io { error: IoError::NoSpace, .. }) => return Ok(()),
            done => done?,
        }
        (self.done)(kind, self.rt.now().saturating_sub(start));
        Ok(())
    }

    /// The blocks of a batch's writes. There are fewer if not enough free places are found.
    fn ranges(&self, first: Blocks, writes: u32) -> Vec<Blocks> {
        let (mut places, mut dice) = (self.places.borrow_mut(), self.dice.borrow_mut());
        let mut ranges = vec![first];
        let apart = |a: &Blocks, b: &Blocks| {
            a.start.0 + a.count <= b.start.0 || b.start.0 + b.count <= a.start.0
        };
        for _ in 1..writes {
            let mut draws = (0..DRAWS).map(|_| places.next(&mut dice));
            match draws.find(|range| ranges.iter().all(|other| apart(range, other))) {
                Some(range) => ranges.push(range),
                None => break,
            }
        }
        ranges
    }

    async fn flushed(&self, writes: &[(Block, Data<'_>)], stamp: u64) -> Result<(), JobError> {
        for write in writes {
            self.synced(std::slice::from_ref(write), stamp).await?;
        }
        Ok(())
    }

    /// One after the other, then one fsync.
    async fn synced(&self, writes: &[(Block, Data<'_>)], stamp: u64) -> Result<(), JobError> {
        for write in writes {
            self.one(write).await?;
        }
        let (kind, at) = (CommandKind::Flush, writes[0].0);
        self.fsync(stamp).await.map_err(|error| JobError::Io { kind, at, error })
    }

    async fn unordered(&self, writes: &[(Block, Data<'_>)]) -> Result<(), JobError> {
        let all = writes.iter().map(|write| self.one(write)).collect();
        join_all(all).await.into_iter().collect()
    }

    async fn one(&self, (at, data): &(Block, Data<'_>)) -> Result<(), JobError> {
        let (kind, at) = (CommandKind::Write, *at);
        let done = self.device.write(at, *data, Durability::Normal).await;
        done.map_err(|error| JobError::Io { kind, at, error })
    }

    async fn group(&self, writes: &[(Block, Data<'_>)]) -> Result<(), JobError> {
        let group: Vec<Extent<'_>> =
            writes.iter().map(|(at, data)| Extent { at: *at, data: *data }).collect();
        let (kind, at) = (CommandKind::Group, writes[0].0);
        self.device.write_atomic(&group).await.map_err(|error| match error {
            AtomicError::Io(error) => JobError::Io { kind, at, error },
            error => JobError::Group(error),
        })
    }
}
