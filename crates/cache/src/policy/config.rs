//! Which policy, how large, and with which options.

use super::bcache::{BUCKET, Bcache};
use super::clock::Clock;
use super::contract::{Admit, Mode, Policy};
use super::guarded::Guarded;
use super::in_place::InPlace;
use super::lc::LazyCleaning;
use super::lru::Lru;
use super::mvfifo::MvFifo;
use super::none::NoCache;
use super::s3fifo::S3Fifo;
use super::sieve::Sieve;
use super::tac::Tac;
use std::fmt;
use std::str::FromStr;
use tantalum_device::counted;

/// A policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Multi-version FIFO, the basic form.
    MvFifo,
    /// Multi-version FIFO with group second chance and pulling.
    Gsc,
    /// Lazy cleaning: LRU-2 in place, with a cleaner above a threshold.
    Lc,
    /// Temperature per extent, on entry, write-through.
    Tac,
    /// Buckets of 512 KiB, emptied in order of their last read.
    BcacheLru,
    /// Buckets of 512 KiB, emptied in the order in which they were filled.
    BcacheFifo,
    /// Least recently used, on entry, in place.
    Lru,
    /// CLOCK, on entry, in place.
    Clock,
    /// S3-FIFO, on entry, in place.
    S3Fifo,
    /// SIEVE, on entry, in place.
    Sieve,
    /// No cache.
    None,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 11] = [
        Kind::MvFifo,
        Kind::Gsc,
        Kind::Lc,
        Kind::Tac,
        Kind::BcacheLru,
        Kind::BcacheFifo,
        Kind::Lru,
        Kind::Clock,
        Kind::S3Fifo,
        Kind::Sieve,
        Kind::None,
    ];

    /// Its name for users.
    pub fn name(self) -> &'static str {
        match self {
            Kind::MvFifo => "mvfifo",
            Kind::Gsc => "gsc",
            Kind::Lc => "lc",
            Kind::Tac => "tac",
            Kind::BcacheLru => "bcache-lru",
            Kind::BcacheFifo => "bcache-fifo",
            Kind::Lru => "lru",
            Kind::Clock => "clock",
            Kind::S3Fifo => "s3-fifo",
            Kind::Sieve => "sieve",
            Kind::None => "none",
        }
    }

    /// Whether it caches pages when they leave RAM; the others do when they come from the slow
    /// store.
    pub fn is_on_exit(self) -> bool {
        matches!(self, Kind::MvFifo | Kind::Gsc | Kind::Lc)
    }

    fn has_batches(self) -> bool {
        matches!(self, Kind::MvFifo | Kind::Gsc)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let found = Kind::ALL.into_iter().find(|k| k.name() == name);
        let names = || Kind::ALL.map(Kind::name).join(", ");
        found.ok_or_else(|| format!("no such policy; policies are: {}", names()))
    }
}

/// A policy with its size and its options.
///
/// See [`Sim`](super::sim::Sim) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The policy.
    pub kind: Kind,
    /// Frames. Policies with batches or buckets use whole ones, as many as fit.
    pub frames: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages of a batch (mvFIFO, GSC). With 1, each page is a write by itself, as in the published
    /// basic form.
    pub batch: u32,
    /// Write-back or write-through. TAC is write-through in either case.
    pub mode: Mode,
    /// Which pages mvFIFO and GSC admit.
    pub admit: Admit,
    /// Whether a newer version inherits the reference mark of the one before (mvFIFO, GSC).
    pub inherits: bool,
    /// The threshold of LC's cleaner in per cent of the frames.
    pub dirty_percent: u8,
    /// Protection from scans: a clean page does not enter if it makes a run of consecutive pages
    /// longer than this. Sixteen interleaved runs are told apart. `None`: all enter.
    pub scan: Option<u32>,
}

impl Config {
    /// A policy with usual options: batches of 64, write-back, all pages enter, marks are inherited,
    /// LC cleans above 90 %, no protection from scans.
    pub fn new(kind: Kind, frames: u32, page_bytes: u32) -> Config {
        Config {
            kind,
            frames,
            page_bytes,
            batch: 64,
            mode: Mode::Back,
            admit: Admit::Mixed,
            inherits: true,
            dirty_percent: 90,
            scan: None,
        }
    }

    /// The fewest frames with which it can be built.
    pub fn frames_min(&self) -> u32 {
        match self.kind {
            kind if kind.has_batches() => self.batch.saturating_mul(2),
            Kind::BcacheLru | Kind::BcacheFifo => 2 * self.bucket_pages(),
            Kind::None => 0,
            _ => 2,
        }
    }

    fn bucket_pages(&self) -> u32 {
        (BUCKET / u64::from(self.page_bytes.max(1))).max(1) as u32
    }

    fn check(&self) -> Result<(), ConfigError> {
        if !(512..=1 << 16).contains(&self.page_bytes) || !self.page_bytes.is_power_of_two() {
            return Err(ConfigError::PageBytes(self.page_bytes));
        }
        let least = if self.kind == Kind::Gsc { 2 } else { 1 };
        if self.kind.has_batches() && !(least..=1024).contains(&self.batch) {
            return Err(ConfigError::Batch { kind: self.kind, batch: self.batch, least });
        }
        if self.dirty_percent > 100 {
            return Err(ConfigError::DirtyPercent(self.dirty_percent));
        }
        let least = self.frames_min();
        if self.frames < least {
            return Err(ConfigError::Frames { kind: self.kind, frames: self.frames, least });
        }
        if self.frames > 1 << 30 {
            return Err(ConfigError::TooManyFrames(self.frames));
        }
        Ok(())
    }

    /// The frames that it uses: whole batches or buckets.
    pub fn usable_frames(&self) -> u32 {
        match self.kind {
            kind if kind.has_batches() => self.frames / self.batch.max(1) * self.batch,
            Kind::BcacheLru | Kind::BcacheFifo => {
                self.frames / self.bucket_pages() * self.bucket_pages()
            }
            Kind::None => 0,
            _ => self.frames,
        }
    }

    /// Builds the policy, with an empty cache.
    ///
    /// # Errors
    /// The options make no cache.
    pub fn build(&self) -> Result<Box<dyn Policy>, ConfigError> {
        self.check()?;
        let policy = self.unguarded(u64::from(self.page_bytes));
        Ok(match self.scan {
            Some(run) => Box::new(Guarded::new(policy, run)),
            None => policy,
        })
    }

    fn unguarded(&self, page: u64) -> Box<dyn Policy> {
        let (frames, mode) = (self.frames as usize, self.mode);
        let ring = |second_chance| {
            let batches = self.frames / self.batch;
            let made = MvFifo::new(batches, self.batch, page, second_chance, mode, self.admit);
            made.inheriting(self.inherits)
        };
        let bcache = |lru| {
            let pages = self.bucket_pages();
            Bcache::new(self.frames / pages, pages, page, lru, mode)
        };
        match self.kind {
            Kind::MvFifo => Box::new(ring(false)),
            Kind::Gsc => Box::new(ring(true)),
            Kind::Lc => Box::new(LazyCleaning::new(frames, page, mode, self.dirty_percent)),
            Kind::Tac => Box::new(Tac::new(frames, page)),
            Kind::BcacheLru => Box::new(bcache(true)),
            Kind::BcacheFifo => Box::new(bcache(false)),
            Kind::Lru => Box::new(InPlace::new(frames, page, mode, Lru::new(frames))),
            Kind::Clock => Box::new(InPlace::new(frames, page, mode, Clock::new(frames))),
            Kind::S3Fifo => Box::new(InPlace::new(frames, page, mode, S3Fifo::new(frames))),
            Kind::Sieve => Box::new(InPlace::new(frames, page, mode, Sieve::new(frames))),
            Kind::None => Box::new(NoCache),
        }
    }
}

/// Why a policy cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Too few frames.
    #[error("{kind} needs at least {least} frames, and has {frames}")]
    Frames {
        /// The policy.
        kind: Kind,
        /// Its frames.
        frames: u32,
        /// What it needs.
        least: u32,
    },
    /// Too many frames.
    #[error("{0} frames are more than a policy can have: 1073741824")]
    TooManyFrames(u32),
    /// A page size that no policy takes.
    #[error(
        "pages of {}: expected a power of two from 512 to 65536",
        counted(u64::from(*.0), "byte", "bytes")
    )]
    PageBytes(u32),
    /// A batch that is too small or too large.
    #[error(
        "batches of {}: expected {least} to 1024 with {kind}",
        counted(u64::from(*.batch), "page", "pages")
    )]
    Batch {
        /// The policy.
        kind: Kind,
        /// Its batch.
        batch: u32,
        /// The smallest that it takes.
        least: u32,
    },
    /// A threshold above 100 %.
    #[error("a threshold of {0} % of dirty frames: expected at most 100")]
    DirtyPercent(u8),
}
