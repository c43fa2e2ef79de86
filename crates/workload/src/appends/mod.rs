//! Requesters that append to a log, without a database: the flash log, or one that is striped, to
//! compare.
//!
//! 1. A requester has one record under way. Its records have numbers that follow each other.
//! 2. What was acknowledged is noted before anything else happens, and what a log holds after a cut
//!    is held to that ([`Requesters::judge`]).

mod job;
mod stripe;

pub use job::AppendJob;
pub use stripe::StripedLog;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError};
use tantalum_log::{Log, LogError, Lsn};
use tantalum_rt::{Domain, Nanos, Rt};

/// The requester of the records that fill a log.
const FILLER: u32 = u32::MAX;

/// Why requesters stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// A value is out of its range.
    #[error("{key} = {value}: must be {must}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// Its allowed values.
        must: String,
    },
    /// The log failed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A device of the striped log failed.
    #[error("a device of the striped log failed: {0}")]
    Io(IoError),
}

/// Where records go.
pub enum Target<D: BlockDevice + Clone + 'static> {
    /// The flash log.
    Log(Log<D>),
    /// The baseline.
    Striped(StripedLog<D>),
}

/// What a requester was told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The number of its newest acknowledged record; 0: none.
    number: u64,
    /// Where that ends.
    end: Lsn,
}

/// What a cut has cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Acknowledged records that are gone.
    pub lost: u64,
    /// Records that are wrong: not in the order of their numbers, or of no requester.
    pub wrong: u64,
}

/// Requesters, over several power cycles.
#[derive(Clone)]
pub struct Requesters {
    rt: Rt,
    job: Rc<AppendJob>,
    told: Rc<RefCell<Vec<Told>>>,
    failure: Rc<RefCell<Option<AppendError>>>,
}

impl Requesters {
    /// Requesters that have done nothing yet.
    pub fn new(rt: &Rt, job: AppendJob) -> Requesters {
        let told = vec![Told::default(); job.requesters as usize];
        Requesters {
            rt: rt.clone(),
            job: Rc::new(job),
            told: Rc::new(RefCell::new(told)),
            failure: Rc::default(),
        }
    }

    /// Records that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.told.borrow().iter().map(|t| t.number).sum()
    }

    /// Why one of them stopped, if one has.
    pub fn failure(&self) -> Option<AppendError> {
        self.failure.borrow().clone()
    }

    /// Fills the log with as much as the job says.
    ///
    /// # Errors
    /// That of the log.
    pub async fn fill(
        &self,
        log: &Log<impl BlockDevice + Clone + 'static>,
    ) -> Result<(), LogError> {
        let (mut record, mut number) = (vec![0; 128 << 10], 0);
        let mut end = log.end();
        while number * (record.len() as u64) < self.job.fill_mib << 20 {
            number += 1;
            label(&mut record, FILLER, number);
            end = log.append(&record).await?.end;
        }
        log.wait_durable(end).await
    }

    /// Starts all of them in `domain`. They go on until that is killed, or the log fails. `done`
    /// hears of each record that was acknowledged, and of how long that took.
    pub fn start<D: BlockDevice + Clone + 'static>(
        &self,
        domain: &Domain,
        target: &Rc<Target<D>>,
        unit: u32,
        done: impl Fn(Nanos) + Clone + 'static,
    ) {
        for i in 0..self.job.requesters {
            let (all, target, done) = (self.clone(), target.clone(), done.clone());
            domain.spawn_background(format!("requester {i}"), async move {
                if let Err(error) = all.request(i, &target, unit, done).await {
                    all.failure.borrow_mut().get_or_insert(error);
                }
            });
        }
        if let Target::Log(log) = &**target {
            let (all, log) = (self.clone(), log.clone());
            domain.spawn_background("checkpoints", async move {
                if let Err(error) = all.checkpoints(&log).await {
                    all.failure.borrow_mut().get_or_insert(error.into());
                }
            });
        }
    }

    async fn request<D: BlockDevice + Clone + 'static>(
        &self,
        requester: u32,
        target: &Target<D>,
        unit: u32,
        done: impl Fn(Nanos),
    ) -> Result<(), AppendError> {
        let mut record = vec![0; self.job.record_bytes(unit)];
        let mut number = self.told.borrow()[requester as usize].number;
        loop {
            let start = self.rt.now();
            number += 1;
            label(&mut record, requester, number);
            let end = match target {
                Target::Log(log) => log.commit(&record).await?.end,
                Target::Striped(log) => {
                    log.append(self.job.request_bytes).await?;
                    Lsn::ZERO
                }
            };
            self.told.borrow_mut()[requester as usize] = Told { number, end };
            done(self.rt.now().saturating_sub(start));
        }
    }

    /// Moves the checkpoint whenever half of the room is in use.
    async fn checkpoints<D: BlockDevice + Clone + 'static>(
        &self,
        log: &Log<D>,
    ) -> Result<(), LogError> {
        for number in 1.. {
            log.nearly_full(50).await?;
            let end = self.told.borrow().iter().map(|t| t.end).max().unwrap_or_default();
            if end > log.first() {
                log.checkpoint(end, number).await?;
            }
            self.rt.sleep(Nanos::from_millis(10)).await;
        }
        Ok(())
    }

    /// Reads the whole log after a cut, and compares it with what was acknowledged. The requesters
    /// go on behind what is there.
    ///
    /// # Errors
    /// That of the log.
    pub async fn judge(
        &self,
        log: &Log<impl BlockDevice + Clone + 'static>,
    ) -> Result<Judged, LogError> {
        let (mut judged, first) = (Judged::default(), log.first());
        let found: RefCell<Vec<u64>> = RefCell::new(vec![0; self.job.requesters as usize]);
        let filled = Cell::new(0);
        let mut records = log.read(first)?;
        while let Some(record) = records.next().await? {
            let (requester, number) = read_label(&record.bytes);
            let mut found = found.borrow_mut();
            let last = match found.get_mut(requester as usize) {
                Some(last) => last,
                None if requester == FILLER => {
                    let last = filled.replace(number);
                    judged.wrong += u64::from(last != 0 && last + 1 != number);
                    continue;
                }
                None => {
                    judged.wrong += 1;
                    continue;
                }
            };
            judged.wrong += u64::from(*last != 0 && *last + 1 != number);
            *last = number;
        }
        for (told, found) in self.told.borrow_mut().iter_mut().zip(found.into_inner()) {
            if told.number > found && told.end > first {
                // (Without any, how many there were before the checkpoint is not known.)
                judged.lost += if found > 0 { told.number - found } else { 1 };
            }
            told.number = told.number.max(found);
        }
        Ok(judged)
    }

    /// After a cut of a log that nothing recovers: the requesters may begin anew.
    pub fn forget_failure(&self) {
        self.failure.borrow_mut().take();
    }
}

fn label(record: &mut [u8], requester: u32, number: u64) {
    record[..4].copy_from_slice(&requester.to_le_bytes());
    record[4..12].copy_from_slice(&number.to_le_bytes());
}

/// The requester and the number of a record; those of none if it is too short.
fn read_label(record: &[u8]) -> (u32, u64) {
    let requester = record.first_chunk::<4>().map_or(FILLER - 1, |b| u32::from_le_bytes(*b));
    let number = record.get(4..).and_then(|rest| rest.first_chunk::<8>());
    (requester, number.map_or(0, |b| u64::from_le_bytes(*b)))
}
