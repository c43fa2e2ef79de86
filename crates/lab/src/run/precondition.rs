//! Bringing a drive to a steady state before it is measured: a fresh drive has not collected yet,
//! and is faster than it will ever be again.
//!
//! 1. It always ends: with the fill, with a steady state, or at the bound of
//!    [`Precondition::passes_max`]; and says which of them.
//! 2. Only commands of a host bring the state about.
//! 3. What is written are zeros, and so reads give zeros as from a blank drive, and later
//!    comparisons of blocks need not know of it. The drive makes no difference between zeros and
//!    other data.
//! 4. Commands follow from the parameters and the seed alone.

use crate::run::row::{RowBox, Traffic};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Blocks, Caps, Durability, IoError, OwnedData};
use tantalum_rt::{Rt, Stream};
use tantalum_workload::jobs::{Job, JobError, Pattern, Places};

/// Blocks in a command of the fill.
const FILL_BLOCKS: u64 = 256;
/// Commands in flight.
const QUEUE_DEPTH: u32 = 32;
/// Progress is told so many times in one write of the whole drive.
const STEPS: u64 = 200;
/// Bytes of a block.
const SECTOR: u64 = 4096;

/// How a drive is preconditioned: first written in sequence, in large commands, then
/// overwritten until the write amplification is steady.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Precondition {
    /// Share of the capacity that is written in sequence first.
    ///
    /// *Source*: own choice.
    pub fill: f64,
    /// How it is overwritten then, within what was filled (everywhere, after a fill of 0).
    ///
    /// *Source*: own choice.
    pub pattern: Overwrites,
    /// Bytes of an overwrite. With the pattern `job` those of the job's commands are taken.
    ///
    /// *Source*: own choice.
    pub block_size: u64,
    /// Overwrites at most, as a multiple of the capacity. 0: only the fill.
    ///
    /// *Source*: own choice.
    pub passes_max: f64,
    /// Writes of a window of the write amplification, as a share of the capacity.
    ///
    /// *Source*: own choice.
    pub window: f64,
    /// Successive windows that are compared.
    ///
    /// *Source*: own choice.
    pub windows: u32,
    /// The state is steady if the largest of them is not more above the smallest than this share of
    /// their mean, and all flash was programmed once by then.
    ///
    /// *Source*: own choice.
    pub steady_within: f64,
}

/// Where a drive is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overwrites {
    /// Anywhere, with equal probability.
    Random,
    /// One after the other.
    Sequential,
    /// Anywhere, with zipfian popularity of this exponent.
    Zipf(f64),
    /// As the row's own job writes: its pattern, sizes and range.
    Job,
}

impl Default for Precondition {
    fn default() -> Precondition {
        Precondition {
            fill: 1.0,
            pattern: Overwrites::Random,
            block_size: 4096,
            passes_max: 4.0,
            window: 0.1,
            windows: 5,
            steady_within: 0.05,
        }
    }
}

/// What ended the preconditioning of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// The fill: no overwrites were asked for.
    Filled,
    /// The write amplification was steady.
    Steady,
    /// The bound of overwrites, before it was steady.
    Bound,
}

/// How a drive was preconditioned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preconditioned {
    /// What ended it.
    pub ended: Ended,
    /// Bytes written, as a multiple of the capacity; the fill included.
    pub drive_writes: f64,
    /// Write amplification over the last windows (of the fill, if there are none).
    pub write_amplification: f64,
    /// Virtual time that it took, ns.
    pub time_ns: u64,
}

/// What is done to the drive of a row before anything else.
#[derive(Clone)]
pub struct Preparation {
    /// How.
    pub how: Precondition,
    /// The job of the row, if it is one of a block job.
    pub job: Option<Job>,
    /// Called with the share that is done.
    pub tell: Rc<dyn Fn(f64)>,
}

impl Preparation {
    /// Does it, with the seed of the run.
    ///
    /// # Errors
    /// As for [`run`].
    pub async fn carry_out<S: RowBox>(
        &self,
        rt: &Rt,
        subject: &S,
    ) -> Result<Preconditioned, PreconditionError> {
        let tell = self.tell.clone();
        run(rt, subject, &self.how, self.job.as_ref(), rt.seed(), move |share| tell(share)).await
    }
}

impl fmt::Debug for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preparation").field("how", &self.how).finish_non_exhaustive()
    }
}

/// Why a drive cannot be preconditioned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PreconditionError {
    /// An invalid value.
    #[error("precondition.{key} = {value}: must be {range}")]
    Value {
        /// Which.
        key: &'static str,
        /// What it is.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// The pattern is that of a job where there is none.
    #[error("precondition.pattern = \"job\": only rows of a block job have one")]
    NoJob,
    /// Commands that the drive cannot take.
    #[error("preconditioning: {0}")]
    Commands(#[from] JobError),
    /// The drive failed a command.
    #[error("preconditioning: a write or flush at {at} failed: {error}")]
    Io {
        /// Where.
        at: Block,
        /// What the drive said.
        error: IoError,
    },
}

impl Precondition {
    /// Checks its values.
    ///
    /// # Errors
    /// [`PreconditionError::Value`].
    pub fn check(&self) -> Result<(), PreconditionError> {
        let wrong = |key, value, range| Err(PreconditionError::Value { key, value, range });
        if !(0.0..=1.0).contains(&self.fill) {
            return wrong("fill", self.fill, "0 to 1");
        }
        if !(0.0..=1000.0).contains(&self.passes_max) {
            return wrong("passes_max", self.passes_max, "0 to 1000");
        }
        if !(0.001..=10.0).contains(&self.window) {
            return wrong("window", self.window, "0.001 to 10");
        }
        if !(2..).contains(&self.windows) {
            return wrong("windows", self.windows.into(), "at least 2");
        }
        if !(0.0..=1.0).contains(&self.steady_within) {
            return wrong("steady_within", self.steady_within, "0 to 1");
        }
        if self.block_size == 0 || !self.block_size.is_multiple_of(SECTOR) {
            return wrong("block_size", self.block_size as f64, "a multiple of 4096");
        }
        Ok(())
    }
}

/// Preconditions a drive that is on, with the pattern of `job` if that is asked for; `tell`
/// hears now and then which share of the most that may be written is written. Ends with a
/// flush.
///
/// # Errors
/// [`PreconditionError`]: parameters that make no sense, or the first write that failed.
pub async fn run<S: RowBox>(
    rt: &Rt,
    subject: &S,
    how: &Precondition,
    job: Option<&Job>,
    seed: u64,
    tell: impl Fn(f64) + 'static,
) -> Result<Preconditioned, PreconditionError> {
    how.check()?;
    let device = subject.device();
    let caps = *device.caps();
    let share = |share: f64| (caps.blocks as f64 * share) as u64;
    let (filled, bound) = (share(how.fill), share(how.passes_max));
    let mut overwrites = Path::overwrites(how, job, &caps, seed)?;
    let writer = Rc::new(Writer {
        rt: rt.clone(),
        device,
        written: Cell::new(0),
        most: filled + bound,
        step: (caps.blocks / STEPS).max(1),
        tell: Box::new(tell),
    });
    let (began, mut before) = (rt.now(), subject.traffic());
    // Before all flash was programmed once nothing has to be collected, so the state is not steady.
    let raw: u64 = subject.drives().iter().map(|d| d.layout().raw * SECTOR).sum();
    let blank = before.flash_bytes.unwrap_or(0) + raw;
    let filled_once = || subject.traffic().flash_bytes.is_none_or(|now| now >= blank);
    let mut amplification = || {
        let from = std::mem::replace(&mut before, subject.traffic());
        amplification(from, subject.traffic())
    };
    let flush = async || {
        let flushed = writer.device.flush().await;
        flushed.map_err(|error| PreconditionError::Io { at: Block(0), error })
    };
    Writer::write(&writer, Path::Fill(0, filled), filled).await?;
    flush().await?;
    let of_fill = amplification();
    let mut windows = Windows { of: VecDeque::new(), keep: how.windows as usize };
    let mut ended = if bound == 0 { Ended::Filled } else { Ended::Bound };
    let mut left = bound;
    while left > 0 {
        let window = share(how.window).clamp(1, left);
        overwrites = Writer::write(&writer, overwrites, window).await?;
        left -= window;
        windows.push(amplification());
        if filled_once() && windows.are_within(how.steady_within) {
            ended = Ended::Steady;
            break;
        }
    }
    flush().await?;
    (writer.tell)(1.0);
    Ok(Preconditioned {
        ended,
        drive_writes: writer.written.get() as f64 / caps.blocks.max(1) as f64,
        write_amplification: windows.mean().unwrap_or(of_fill),
        time_ns: rt.now().saturating_sub(began).0,
    })
}

fn amplification(from: Traffic, to: Traffic) -> f64 {
    let host = to.host_bytes - from.host_bytes;
    match (from.flash_bytes, to.flash_bytes) {
        (Some(from), Some(to)) if host > 0 => (to - from) as f64 / host as f64,
        _ => 0.0,
    }
}

/// The write amplification of the last windows.
struct Windows {
    of: VecDeque<f64>,
    keep: usize,
}

impl Windows {
    fn push(&mut self, amplification: f64) {
        self.of.push_back(amplification);
        if self.of.len() > self.keep {
            self.of.pop_front();
        }
    }

    fn mean(&self) -> Option<f64> {
        let sum: f64 = self.of.iter().sum();
        (!self.of.is_empty()).then(|| sum / self.of.len() as f64)
    }

    fn are_within(&self, share: f64) -> bool {
        let largest = self.of.iter().copied().fold(0.0, f64::max);
        let smallest = self.of.iter().copied().fold(f64::INFINITY, f64::min);
        self.of.len() == self.keep
            && self.mean().is_some_and(|mean| largest - smallest <= share * mean)
    }
}

/// Where commands go.
enum Path {
    /// From here on, up to the end.
    Fill(u64, u64),
    Overwrites(Places, Stream),
}

impl Path {
    fn overwrites(
        how: &Precondition,
        job: Option<&Job>,
        caps: &Caps,
        seed: u64,
    ) -> Result<Path, PreconditionError> {
        let pattern = match how.pattern {
            Overwrites::Random | Overwrites::Job => Pattern::Random,
            Overwrites::Sequential => Pattern::Sequential,
            Overwrites::Zipf(theta) => Pattern::Zipf(theta),
        };
        // What was not filled stays as it is.
        let range = if how.fill > 0.0 { how.fill } else { 1.0 };
        let own = Job { pattern, block_size: how.block_size, range, ..Job::default() };
        let job = match how.pattern {
            Overwrites::Job => job.ok_or(PreconditionError::NoJob)?,
            _ => &own,
        };
        Ok(Path::Overwrites(job.places(caps, seed)?, Stream::new(seed, "preconditioning")))
    }

    /// Blocks of the longest command.
    fn longest(&self) -> u64 {
        match self {
            Path::Fill(..) => FILL_BLOCKS,
            Path::Overwrites(places, _) => places.longest(),
        }
    }

    fn next(&mut self) -> Blocks {
        match self {
            Path::Fill(at, end) => {
                let range = Blocks { start: Block(*at), count: FILL_BLOCKS.min(*end - *at) };
                *at += range.count;
                range
            }
            Path::Overwrites(places, dice) => places.next(dice),
        }
    }
}

struct Writer<D> {
    rt: Rt,
    device: D,
    /// Blocks so far, and at most.
    written: Cell<u64>,
    most: u64,
    step: u64,
    tell: Box<dyn Fn(f64)>,
}

impl<D: BlockDevice + 'static> Writer<D> {
    /// Writes about `amount` blocks; gives back the path, to go on there.
    async fn write(
        writer: &Rc<Writer<D>>,
        path: Path,
        amount: u64,
    ) -> Result<Path, PreconditionError> {
        let work = Rc::new(RefCell::new((path, amount)));
        let tasks: Vec<_> = (0..QUEUE_DEPTH)
            .map(|_| writer.rt.spawn("preconditioning", Writer::work(writer.clone(), work.clone())))
            .collect();
        let mut result = Ok(());
        for task in tasks {
            // Never cancelled: it belongs to no power domain.
            result = result.and(task.await.unwrap_or(Ok(())));
        }
        result?;
        let work = Rc::into_inner(work).expect("its tasks have ended");
        Ok(work.into_inner().0)
    }

    async fn work(
        writer: Rc<Writer<D>>,
        work: Rc<RefCell<(Path, u64)>>,
    ) -> Result<(), PreconditionError> {
        let caps = *writer.device.caps();
        let most = work.borrow().0.longest();
        let zeros = OwnedData::zeros(caps.payload, most as usize, caps.block_size);
        loop {
            let Blocks { start: at, count } = {
                let (path, left) = &mut *work.borrow_mut();
                if *left == 0 {
                    return Ok(());
                }
                let range = path.next();
                *left = left.saturating_sub(range.count);
                range
            };
            let data = zeros.as_data().slice(0..count as usize, caps.block_size);
            let result = writer.device.write(at, data, Durability::Normal).await;
            if let Err(error) = result {
                work.borrow_mut().1 = 0;
                return Err(PreconditionError::Io { at, error });
            }
            writer.count(count);
        }
    }

    fn count(&self, blocks: u64) {
        let before = self.written.replace(self.written.get() + blocks);
        if before / self.step != (before + blocks) / self.step {
            (self.tell)((before + blocks) as f64 / self.most.max(1) as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::{Payload, PowerCycle};
    use tantalum_drive::{Design, Drive};
    use tantalum_explore::AnyBox;
    use tantalum_rt::Runtime;

    /// 64 MiB, of which a quarter is spare.
    fn design() -> Design {
        let changes = "[geometry]\nchannels = 2\npackages = 1\nchips = 1\nblocks = 32\npages = 64\n\
                       [space]\nover_provisioning = 60\ncollect_below = 2\n\
                       [map]\nwrite_points = 1\n[cache]\nbuffer_kib = 256";
        let changes = changes.parse().expect("valid TOML");
        Design::preset("volatile").expect("a preset").with_overrides(&changes).expect("valid")
    }

    fn precondition(how: Precondition, job: Option<Job>) -> (Preconditioned, Vec<f64>, u64) {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let drive = Drive::new(&rt, &design(), Payload::Stamps).expect("it can be built");
        let told: Rc<RefCell<Vec<f64>>> = Rc::default();
        let (heard, subject, on) = (told.clone(), AnyBox::Ssd(drive.clone()), rt.clone());
        let main = async move {
            subject.power_on().await.expect("it starts");
            run(&on, &subject, &how, job.as_ref(), 7, move |s| heard.borrow_mut().push(s)).await
        };
        let done = runtime.block_on(main).expect("no stall").expect("a healthy drive");
        (done, told.take(), rt.trace_hash())
    }

    #[test]
    fn it_ends_with_the_fill_a_steady_state_or_the_bound() {
        let fill = Precondition { fill: 0.5, passes_max: 0.0, ..Precondition::default() };
        let (done, told, _) = precondition(fill, None);
        assert_eq!(done.ended, Ended::Filled);
        assert!((done.drive_writes - 0.5).abs() < 0.001, "{done:?}");
        assert!((done.write_amplification - 1.0).abs() < 0.1, "{done:?}");
        assert!(told.is_sorted() && told.last() == Some(&1.0), "{told:?}");

        let steady = Precondition { passes_max: 30.0, ..Precondition::default() };
        let (done, told, _) = precondition(steady.clone(), None);
        assert_eq!(done.ended, Ended::Steady, "{done:?}");
        assert!((1.5..20.0).contains(&done.drive_writes), "{done:?}");
        assert!(done.write_amplification > 1.05, "it must collect: {done:?}");
        assert!(told.is_sorted() && told.last() == Some(&1.0), "{told:?}");

        // A quarter of the flash is still blank then, whatever the windows say.
        let any = Precondition { passes_max: 0.3, window: 0.1, windows: 2, ..steady.clone() };
        let any = Precondition { fill: 0.4, steady_within: 1.0, ..any };
        let (done, ..) = precondition(any, None);
        assert_eq!(done.ended, Ended::Bound, "{done:?}");

        let never = Precondition { passes_max: 0.75, steady_within: 0.0, ..steady };
        let (done, ..) = precondition(never, None);
        assert_eq!(done.ended, Ended::Bound);
        assert!((done.drive_writes - 1.75).abs() < 0.01, "{done:?}");
    }

    #[test]
    fn the_pattern_may_be_the_jobs_and_a_seed_makes_a_run() {
        let how = Precondition { pattern: Overwrites::Job, passes_max: 1.0, ..Default::default() };
        let job = |range| Some(Job { range, ..Job::default() });
        let (one, _, hash) = precondition(how.clone(), job(0.1));
        assert_eq!(precondition(how.clone(), job(0.1)).2, hash);
        let (other, _, else_) = precondition(how, job(1.0));
        assert_ne!(hash, else_);
        assert!(one.write_amplification < other.write_amplification, "{one:?} {other:?}");
    }

    #[test]
    fn values_that_can_not_be_are_refused_with_their_key() {
        let text = |text: &str| toml::from_str::<Precondition>(text);
        let told = |t: &str| text(t).expect("sound").check().expect_err("refused").to_string();
        assert_eq!(told("fill = 1.5"), "precondition.fill = 1.5: must be 0 to 1");
        assert!(told("passes_max = -1.0").starts_with("precondition.passes_max = -1"));
        assert!(told("windows = 1").contains("at least 2"));
        assert!(told("block_size = 5000").contains("a multiple of 4096"));
        assert!(text("filll = 1.0").is_err());
        let zipf = text("pattern = { zipf = 0.9 }").expect("sound");
        assert_eq!(zipf.pattern, Overwrites::Zipf(0.9));
        assert_eq!(text("pattern = \"job\"").expect("sound").pattern, Overwrites::Job);
    }
}
