//! A flash cache between an engine's pool and the device with its pages.

use super::job::JobError;
use super::storage::PullKind;
use tantalum_cache::flash::{self, FormatOptions, OpenOptions, Replacement, RestartBy};
use tantalum_cache::policy::{Admit, Config, Kind, Mode};
use tantalum_device::{Block, Blocks};
use tantalum_rt::Nanos;

/// A flash cache of an engine.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheJob {
    /// The design of the flash drive.
    ///
    /// *Source*: FaCE.
    pub flash: String,
    /// MiB at the beginning of that drive that the cache has, with its metadata.
    ///
    /// *Source*: FaCE: 4 to 20 GB; others: own choice.
    pub size_mib: u64,
    /// `gsc`, `mvfifo`: the flash cache itself, with and without second chances. `lc`, `tac`,
    /// `bcache-lru`, `bcache-fifo`, `lru`, `clock`, `s3-fifo`, `sieve`: policies to compare with,
    /// whose operations are carried out on the same drives, and so is `mvfifo` with `batch = 1`. Of
    /// these a cut loses the directory: what only flash has is written back when the engine is
    /// judged.
    ///
    /// *Source*: FaCE: `gsc` and `mvfifo`, beside `lc`, `tac` and Bcache; `s3-fifo`: Yang et al.
    /// (SOSP 2023); `sieve`: Zhang et al. (NSDI 2024); `lru`, `clock`: textbooks.
    pub policy: String,
    /// Dirty pages go to the slow drive when they leave flash (`back`), or when they leave the pool
    /// (`through`).
    ///
    /// *Source*: FaCE: its sync policy.
    pub mode: String,
    /// `mixed`: clean and dirty pages enter. `clean`: only clean ones, and dirty ones go to the
    /// slow drive, where a cut may tear them. `dirty`: only dirty ones (`gsc`, `mvfifo`).
    ///
    /// *Source*: FaCE.
    pub admit: String,
    /// Which pages from the cold end of the pool fill up batches, of those that `admit` lets in
    /// (`gsc`). With `mode = "through"` no dirty ones.
    ///
    /// *Source*: FaCE: group second chance; which kinds: own choice.
    pub pull: PullKind,
    /// Pages of a batch (`gsc`, `mvfifo`). `mvfifo` also takes 1: each page is a write by itself,
    /// as in the published basic form.
    ///
    /// *Source*: FaCE: 64 or 128 pages.
    pub batch: u32,
    /// After this time a batch is written though it is not full, ms (`gsc`, `mvfifo`).
    ///
    /// *Source*: own choice.
    pub linger_ms: f64,
    /// Writes to the slow drive side by side.
    ///
    /// *Source*: own choice.
    pub depth: u32,
    /// Whether a restart keeps the reference marks. False: as published.
    ///
    /// *Source*: FaCE without them; with them: own choice.
    pub marks: bool,
    /// Whether a restart also reads the frames of two segments, as published.
    ///
    /// *Source*: FaCE.
    pub scan: bool,
    /// Share of the flash drive that is written in sequence before anything else: a fresh drive
    /// collects nothing.
    ///
    /// *Source*: own choice.
    pub prepare: f64,
    /// How often the cache is written over before the measurement, without time.
    ///
    /// *Source*: own choice.
    pub laps: f64,
}

impl Default for CacheJob {
    /// Group second chance on 1 GiB of an `ssd-840pro`.
    fn default() -> CacheJob {
        CacheJob {
            flash: "ssd-840pro".into(),
            size_mib: 1024,
            policy: Kind::Gsc.name().into(),
            mode: "back".into(),
            admit: "mixed".into(),
            pull: PullKind::Mixed,
            batch: 64,
            linger_ms: 2.0,
            depth: 16,
            marks: true,
            scan: false,
            prepare: 1.0,
            laps: 1.5,
        }
    }
}

impl CacheJob {
    /// The policy.
    pub(super) fn kind(&self) -> Kind {
        self.policy.parse().unwrap_or(Kind::Gsc)
    }

    /// Whether it is the flash cache itself, and no rival.
    pub fn is_flash_cache(&self) -> bool {
        self.has_batches() && self.batch > 1
    }

    fn has_batches(&self) -> bool {
        matches!(self.kind(), Kind::Gsc | Kind::MvFifo)
    }

    /// Which pages enter.
    pub(super) fn admits(&self) -> Admit {
        match self.admit.as_str() {
            "clean" => Admit::Clean,
            "dirty" => Admit::Dirty,
            _ => Admit::Mixed,
        }
    }

    /// Which pages are pulled: only such that enter, with write-through no dirty ones, and none by
    /// the basic form.
    pub(super) fn pulls(&self) -> PullKind {
        if self.kind() != Kind::Gsc {
            return PullKind::None;
        }
        let takes = |kind| self.pull == PullKind::Mixed || self.pull == kind;
        let clean = self.admits() != Admit::Dirty && takes(PullKind::Clean);
        let dirty = self.admits() != Admit::Clean && !self.is_through() && takes(PullKind::Dirty);
        match (clean, dirty) {
            (true, true) => PullKind::Mixed,
            (true, false) => PullKind::Clean,
            (false, true) => PullKind::Dirty,
            (false, false) => PullKind::None,
        }
    }

    pub(super) fn is_through(&self) -> bool {
        self.mode == "through"
    }

    /// The part of a flash device with such blocks that the cache has.
    pub fn blocks_of(&self, block: u32) -> Blocks {
        Blocks { start: Block(0), count: (self.size_mib << 20) / u64::from(block) }
    }

    /// How the flash cache is made, with pages of so many bytes.
    pub fn format(&self, page: u32) -> FormatOptions {
        let mode = if self.is_through() { flash::Mode::Through } else { flash::Mode::Back };
        FormatOptions { page, frames: self.batch, mode, ..FormatOptions::default() }
    }

    /// How the flash cache is used.
    pub fn open(&self) -> OpenOptions {
        let second_chance = self.kind() == Kind::Gsc;
        OpenOptions {
            replacement: if second_chance { Replacement::SecondChance } else { Replacement::Basic },
            admit: self.admits(),
            restart: if self.scan { RestartBy::Frames } else { RestartBy::Descriptors },
            marks: self.marks,
            linger: Nanos((self.linger_ms * 1e6) as u64),
            depth: self.depth as usize,
            ..OpenOptions::default()
        }
    }

    /// The configuration of a rival's policy for pages of this size. Its frames leave room for its
    /// metadata.
    pub(super) fn config(&self, page_bytes: u32) -> Config {
        let bytes = self.size_mib << 20;
        let frames = match self.has_batches() {
            true => bytes.saturating_sub(SEGMENTS) / u64::from(page_bytes + ENTRY),
            false => {
                let table = if self.kind() == Kind::Tac { ENTRY } else { 0 };
                bytes.saturating_sub(METADATA) / u64::from(page_bytes + table)
            }
        };
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        Config {
            mode: if self.is_through() { Mode::Through } else { Mode::Back },
            admit: self.admits(),
            batch: self.batch,
            ..Config::new(self.kind(), frames, page_bytes)
        }
    }

    /// Checks whether it can be a cache volume, which has no pool above it.
    ///
    /// # Errors
    /// The first value that does not fit.
    pub fn check_volume(&self) -> Result<(), JobError> {
        let wrong = |key, value: &str, must: &str| {
            Err(JobError::Value { key, value: value.into(), must: must.into() })
        };
        if !self.is_flash_cache() {
            let must = "gsc or mvfifo with batches of 2 or more, under what has no buffer pool";
            return wrong("policy", &self.policy, must);
        }
        match self.admits() {
            Admit::Mixed | Admit::Dirty => Ok(()),
            Admit::Clean => {
                wrong("admit", &self.admit, "mixed or dirty, under what has no buffer pool")
            }
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first value that is not valid.
    pub fn check(&self) -> Result<(), JobError> {
        let wrong =
            |key, value: String, must: &str| JobError::Value { key, value, must: must.into() };
        if self.policy.parse::<Kind>().is_err() {
            let policies = Kind::ALL.into_iter().filter(|kind| *kind != Kind::None);
            let names: Vec<&str> = policies.map(Kind::name).collect();
            let must = format!("one of {}", names.join(", "));
            return Err(wrong("policy", self.policy.clone(), &must));
        }
        if self.kind() == Kind::None {
            let must = "a policy that caches; leave `cache` out of the engine to have none";
            return Err(wrong("policy", self.policy.clone(), must));
        }
        if !["back", "through"].contains(&self.mode.as_str()) {
            return Err(wrong("mode", self.mode.clone(), "back or through"));
        }
        if !["mixed", "clean", "dirty"].contains(&self.admit.as_str()) {
            return Err(wrong("admit", self.admit.clone(), "mixed, clean or dirty"));
        }
        if self.admit != "mixed" && !self.has_batches() {
            return Err(wrong("admit", self.admit.clone(), "mixed with this policy"));
        }
        let least = if self.kind() == Kind::Gsc { 2 } else { 1 };
        for (key, value, least, most) in [
            ("size_mib", self.size_mib, 4, 1 << 20),
            ("batch", self.batch.into(), least, 1024),
            ("depth", self.depth.into(), 1, 4096),
        ] {
            if !(least..=most).contains(&value) {
                return Err(wrong(key, value.to_string(), &format!("{least} to {most}")));
            }
        }
        for (key, value, least, most) in [
            ("linger_ms", self.linger_ms, 0.001, 1e4),
            ("laps", self.laps, 0.0, 100.0),
            ("prepare", self.prepare, 0.0, 1.0),
        ] {
            if !(least..=most).contains(&value) {
                return Err(wrong(key, value.to_string(), &format!("{least} to {most}")));
            }
        }
        Ok(())
    }
}

/// Bytes that rivals leave for a journal, and for the parts of blocks that a table leaves empty.
const METADATA: u64 = 4 << 20;

/// Bytes of an entry of a directory or of the table of TAC, and what the segments of a directory take
/// beside their entries: a part of one, and two to spare.
const ENTRY: u32 = 32;
const SEGMENTS: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_such_pages_are_pulled_that_enter() {
        use PullKind::{Clean, Dirty, Mixed, None};
        let pulls = |policy: &str, mode: &str, admit: &str, pull| {
            let [policy, mode, admit] = [policy, mode, admit].map(String::from);
            CacheJob { policy, mode, admit, pull, ..CacheJob::default() }.pulls()
        };
        let all = [Mixed, Clean, Dirty, None];
        for (policy, mode, admit, pulled) in [
            ("gsc", "back", "mixed", all),
            ("gsc", "back", "clean", [Clean, Clean, None, None]),
            ("gsc", "back", "dirty", [Dirty, None, Dirty, None]),
            ("gsc", "through", "mixed", [Clean, Clean, None, None]),
            ("gsc", "through", "clean", [Clean, Clean, None, None]),
            ("gsc", "through", "dirty", [None; 4]),
            ("mvfifo", "back", "mixed", [None; 4]),
        ] {
            assert_eq!(all.map(|pull| pulls(policy, mode, admit, pull)), pulled, "{mode} {admit}");
        }
    }

    /// Once the table of TAC had no room beside more than 512 MiB of frames.
    #[test]
    fn metadata_of_every_rival_fits_beside_its_frames() {
        for policy in ["mvfifo", "lc", "tac", "bcache-lru", "bcache-fifo", "lru", "s3-fifo"] {
            for (size_mib, page_bytes) in [(64, 4096), (1024, 4096), (3000, 4096), (1024, 16384)] {
                let job = CacheJob { policy: policy.into(), size_mib, ..CacheJob::default() };
                let job = CacheJob { batch: 1, ..job };
                let used = job.config(page_bytes).build().unwrap().flash_bytes();
                let (most, least) = (size_mib << 20, (size_mib - 24) << 20);
                assert!((least..=most).contains(&used), "{policy}, {size_mib} MiB: {used} bytes");
            }
        }
    }
}
