//! The configuration of an engine, and the layout of its volumes.

use super::cache_job::CacheJob;
use super::doublewrite::{AreaPlace, BATCH_PAGES};
use super::redo::LogPlace;
use super::tpcc::TPCC_FILL_PERCENT;
use super::volume::{Host, journal_blocks};
use super::{Lsn, Mix, Order, PageWrites};
use tantalum_device::{Block, Caps, GroupLimit, counted};

/// The benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Benchmark {
    /// The social graph ([`crate::linkbench`]).
    LinkBench,
    /// Order entry, the standard mix, no think time.
    Tpcc,
}

/// The place of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogDevice {
    /// On a drive of its own, of the same design unless `log_design` names another.
    Own,
    /// At the end of the drive with the pages.
    Same,
}

/// An engine with a benchmark.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineJob {
    /// The benchmark.
    ///
    /// *Source*: DuraSSD.
    pub benchmark: Benchmark,
    /// Size of the database, MiB.
    ///
    /// *Source*: own choice; DuraSSD has 100 GB.
    pub database_mib: u64,
    /// Size of the buffer pool, per cent of the database.
    ///
    /// *Source*: DuraSSD: 10 GB of 100 GB.
    pub buffer_percent: f64,
    /// Bytes in a page: no less than a block of the drive.
    ///
    /// *Source*: DuraSSD: 4 to 16 KiB.
    pub page_bytes: u32,
    /// How pages are written. `true`: to the double-write area first, from which a torn page is
    /// repaired. `false`: to their places only. `"log"`: to their places, and the log has the whole page
    /// with its first change since it was last written (`full_page_writes`); not with a flash log.
    /// `"atomic"`: to their places as atomic groups. With a cache: `false`.
    ///
    /// *Source*: InnoDB; `"log"`: after PostgreSQL; `"atomic"`: Beyond Block I/O.
    pub double_write: PageWrites,
    /// Share of LinkBench's operations that change data, per cent. Left out: that of its mix, about
    /// 31. The operations that read keep their shares among themselves, and so do those that
    /// change.
    ///
    /// *Source*: Beyond Block I/O: shares of updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_percent: Option<f64>,
    /// Whether the host sends flushes.
    ///
    /// *Source*: DuraSSD.
    pub barriers: bool,
    /// Whether each write of a page is followed by a barrier of its own, as with O_DSYNC.
    ///
    /// *Source*: DuraSSD: its TPC-C.
    pub o_dsync: bool,
    /// Whether flushes run beside other commands. Over ATA they do not.
    ///
    /// *Source*: ATA: flushes are not queued.
    pub queued_flush: bool,
    /// Granularity of a file's time stamps, ms. The first write to a file in a tick changes them,
    /// and the file's next fsync commits the journal of the file system. 0: no commit (fdatasync).
    ///
    /// *Source*: Linux: time stamps have the kernel's tick; 10 ms: own choice.
    pub tick_ms: u64,
    /// Whether each table, and each partition of one, is a file (`innodb_file_per_table`). A batch
    /// of pages then ends with an fsync of each file that it wrote to, one after another.
    ///
    /// *Source*: MySQL 5.7: `innodb_file_per_table`.
    pub file_per_table: bool,
    /// Clients, without think time.
    ///
    /// *Source*: DuraSSD: its LinkBench.
    pub clients: u32,
    /// Processor cores.
    ///
    /// *Source*: DuraSSD: its machine has 32; the default: own choice.
    pub cores: u32,
    /// Processor time of a transaction, µs.
    ///
    /// *Source*: own choice; fitted in `linkbench.toml` and `flash-log.toml`.
    pub cpu_us: f64,
    /// Processor time for each page that a transaction uses, µs.
    ///
    /// *Source*: own choice.
    pub page_cpu_us: f64,
    /// Size of the redo log, MiB.
    ///
    /// *Source*: own choice.
    pub log_mib: u64,
    /// Where the redo log is.
    ///
    /// *Source*: `own`: DuraSSD; `same`: own choice.
    pub log_device: LogDevice,
    /// Design of the log's own drive. Left out: that of the drive with the pages.
    ///
    /// *Source*: own choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_design: Option<String>,
    /// Whether the log's own drive carries real bytes instead of stamps.
    ///
    /// *Source*: own choice.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log_bytes: bool,
    /// The log is a flash log: the name of a `[log.NAME]`. `log_device = "same"`, `log_design` and
    /// `log_bytes` are left out then.
    ///
    /// *Source*: FlashLogging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// A flash cache between the pool and the drive with the pages: the name of a `[cache.NAME]`.
    /// `double_write = false` then, since flash has a copy of each page that is being written.
    ///
    /// *Source*: FaCE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// Which page leaves the pool next.
    ///
    /// *Source*: `lru`: InnoDB; `clock`: after PostgreSQL, whose usage count goes up to 5; one
    /// mark: own choice.
    pub replacement: Order,
    /// Seconds between checkpoints, each of which writes all pages that changed before. 0: a
    /// checkpoint whenever it moves far enough in the log.
    ///
    /// *Source*: PostgreSQL: `checkpoint_timeout`.
    pub checkpoint_s: f64,
    /// Share of a page of TPC-C that rows fill, per cent. The database has so many more pages if it
    /// is small.
    ///
    /// *Source*: own choice.
    pub fill_percent: f64,
    /// After the first cut the engine restarts in virtual time as a database does, and so many
    /// transactions follow. 0: cuts are only judged. With `checkpoint_s` that cut comes in the
    /// middle between two checkpoints.
    ///
    /// *Source*: FaCE: the restart after a crash.
    pub restart: u64,
    /// Instances of the buffer pool (`innodb_buffer_pool_instances`), each with its own lists.
    ///
    /// *Source*: MySQL 5.7: `innodb_buffer_pool_instances`.
    pub instances: u32,
    /// Page cleaners. Each goes through all instances, one after another.
    ///
    /// *Source*: MySQL 5.7: `innodb_page_cleaners`, which share the instances; that each goes
    /// through all: own choice.
    pub cleaners: u32,
    /// Pages that a cleaner takes off the tail of the LRU list at a time. It frees clean ones and
    /// writes the others together (the chunk of 100 in MySQL 5.6's `buf_flush_LRU_tail`).
    ///
    /// *Source*: MySQL 5.6: `buf_flush_LRU_tail`, chunks of 100; later versions have no chunks.
    pub batch_pages: u32,
    /// Pages at the tail of an instance's LRU list that a cleaner looks at in a turn, and free
    /// frames that it tries to keep there.
    ///
    /// *Source*: MySQL 5.7: `innodb_lru_scan_depth`.
    pub lru_depth: u32,
    /// Time between turns of a cleaner that is not called, ms.
    ///
    /// *Source*: MySQL 5.7: `page_cleaner`, once a second.
    pub cleaner_ms: f64,
    /// Whether a reader without a clean frame writes one page itself (as in InnoDB). Otherwise it
    /// waits for a cleaner.
    ///
    /// *Source*: MySQL 5.7: `buf_flush_single_page_from_LRU`.
    pub single_page_flush: bool,
    /// Whether a reader without a clean frame also wakes a cleaner (MySQL from 5.7 on). Otherwise
    /// cleaners work by their clock alone (5.6).
    ///
    /// *Source*: MySQL 5.7: `buf_LRU_get_free_block` sets `buf_flush_event`; 5.6 does not.
    pub wake_cleaner: bool,
    /// Transactions before the measurement.
    ///
    /// *Source*: own choice.
    pub warmup: u64,
    /// Transactions of the measurement.
    ///
    /// *Source*: own choice; DuraSSD has 6.4 million.
    pub transactions: u64,
}

impl Default for EngineJob {
    /// An engine like MySQL's, with the settings of the published LinkBench runs.
    fn default() -> EngineJob {
        EngineJob {
            benchmark: Benchmark::LinkBench,
            database_mib: 800,
            buffer_percent: 10.0,
            page_bytes: 16384,
            double_write: PageWrites::Double,
            update_percent: None,
            barriers: true,
            o_dsync: false,
            queued_flush: false,
            tick_ms: 10,
            file_per_table: true,
            clients: 128,
            cores: 32,
            cpu_us: 300.0,
            page_cpu_us: 20.0,
            log_mib: 64,
            log_device: LogDevice::Own,
            log_design: None,
            log_bytes: false,
            log: None,
            cache: None,
            replacement: Order::Lru,
            checkpoint_s: 0.0,
            fill_percent: TPCC_FILL_PERCENT,
            restart: 0,
            instances: 1,
            cleaners: 1,
            batch_pages: 100,
            lru_depth: 1024,
            cleaner_ms: 1000.0,
            single_page_flush: true,
            wake_cleaner: true,
            warmup: 40_000,
            transactions: 40_000,
        }
    }
}

/// Why an engine cannot run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JobError {
    /// A value is out of its range.
    #[error("{key} = {value}: must be {must}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Its allowed values.
        must: String,
    },
    /// The drive is too small.
    #[error("the {what} needs {need} blocks of {block} bytes, and the drive has {have}")]
    Space {
        /// What does not fit.
        what: &'static str,
        /// Blocks needed.
        need: u64,
        /// Bytes of a block.
        block: u32,
        /// Blocks of the drive.
        have: u64,
    },
    /// The drive has blocks that do not fit.
    #[error(
        "{what} of {bytes} bytes must be a whole number of the drive's blocks, and these have \
         {block} bytes (`block_bytes` of its design): a power of two is needed, 512 to {bytes}"
    )]
    Blocks {
        /// What does not consist of such blocks.
        what: &'static str,
        /// Bytes of that.
        bytes: u32,
        /// Bytes of a block.
        block: u32,
    },
    /// The drive cannot write a page as an atomic group.
    #[error(
        "double_write = \"atomic\" needs a drive that takes atomic groups of at least {page} bytes, \
         and this one {has}: take another drive, or true or false"
    )]
    Groups {
        /// Bytes of a page.
        page: u32,
        /// The drive's limit, in words.
        has: String,
    },
}

/// The layout of the volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Blocks in a page.
    pub page_blocks: u32,
    /// Pages of the database.
    pub pages: u32,
    /// The double-write area.
    pub area: AreaPlace,
    /// The first block of the first page.
    pub first: Block,
    /// The log, on its volume.
    pub log: LogPlace,
}

impl Layout {
    /// The place of a page.
    pub fn place(&self, page: super::PageNo) -> Block {
        Block(self.first.0 + u64::from(page.0) * u64::from(self.page_blocks))
    }

    /// Blocks that the drive with the pages needs.
    pub fn data_blocks(&self) -> u64 {
        self.first.0 + u64::from(self.pages) * u64::from(self.page_blocks)
    }
}

impl JobError {
    /// The key of the job that is to be changed, if it is one.
    pub fn key(&self) -> Option<&'static str> {
        match self {
            JobError::Value { key, .. } => Some(*key),
            JobError::Groups { .. } => Some("double_write"),
            JobError::Blocks { what: PAGE, .. } => Some("page_bytes"),
            JobError::Blocks { .. } | JobError::Space { .. } => None,
        }
    }
}

impl EngineJob {
    /// The mix of its transactions.
    pub fn mix(&self) -> Mix {
        let fill = self.fill_percent / 100.0;
        Mix::filled(self.benchmark, self.database_mib, self.page_bytes, fill)
            .updating(self.update_percent)
    }

    /// The host on which it runs.
    pub fn host(&self) -> Host {
        let EngineJob { barriers, queued_flush, tick_ms, .. } = *self;
        Host { barriers, queued_flush, tick_ms }
    }

    /// Frames of the buffer pool.
    pub fn frames(&self) -> u32 {
        let bytes = self.database_mib as f64 * 1048576.0 * self.buffer_percent / 100.0;
        (bytes / f64::from(self.page_bytes)) as u32
    }

    /// The fewest frames with which it runs: each client may hold one, and the cleaners must find
    /// others. Each instance has one.
    pub fn frames_least(&self) -> u32 {
        (self.clients + self.cleaners * self.batch_pages).max(self.instances)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first value that is not valid.
    pub fn check(&self) -> Result<(), JobError> {
        let wrong =
            |key, value: String, must: &str| JobError::Value { key, value, must: must.into() };
        let page = self.page_bytes;
        if !page.is_power_of_two() || !(4096..=65536).contains(&page) {
            return Err(wrong("page_bytes", page.to_string(), "a power of two, 4096 to 65536"));
        }
        let numbers = [
            ("database_mib", self.database_mib, DATABASE_MIB[0], DATABASE_MIB[1]),
            ("clients", self.clients.into(), 1, 4096),
            ("cores", self.cores.into(), 1, 4096),
            ("log_mib", self.log_mib, 4, 65_536),
            ("instances", self.instances.into(), 1, 64),
            ("cleaners", self.cleaners.into(), 1, 256),
            ("batch_pages", self.batch_pages.into(), 1, BATCH_PAGES.into()),
            ("lru_depth", self.lru_depth.into(), 1, 1 << 20),
            ("transactions", self.transactions, 1, 1 << 40),
            ("tick_ms", self.tick_ms, 0, 1_000_000),
        ];
        for (key, value, least, most) in numbers {
            if !(least..=most).contains(&value) {
                return Err(wrong(key, value.to_string(), &format!("{least} to {most}")));
            }
        }
        let times = [
            ("cpu_us", self.cpu_us, 0.0, 1e6),
            ("page_cpu_us", self.page_cpu_us, 0.0, 1e6),
            ("cleaner_ms", self.cleaner_ms, 0.01, 1e6),
            ("buffer_percent", self.buffer_percent, 0.1, 100.0),
            ("checkpoint_s", self.checkpoint_s, 0.0, 1e6),
            ("fill_percent", self.fill_percent, 10.0, 100.0),
        ];
        for (key, value, least, most) in times {
            if !(least..=most).contains(&value) {
                return Err(wrong(key, value.to_string(), &format!("{least} to {most}")));
            }
        }
        if let Some(log) = &self.log
            && (self.log_device == LogDevice::Same || self.log_design.is_some() || self.log_bytes)
        {
            let must = "left out, or log_device = \"same\", log_design and log_bytes must be: the \
                        log has the devices of its own table";
            return Err(wrong("log", log.clone(), must));
        }
        if self.double_write == PageWrites::Logged && self.log.is_some() {
            let must = "true, false or \"atomic\" with a flash log, whose records have no pages";
            return Err(wrong("double_write", self.double_write.to_string(), must));
        }
        if self.log_device == LogDevice::Same {
            let must = "left out: the log has no drive of its own (log_device = \"same\")";
            if let Some(design) = &self.log_design {
                return Err(wrong("log_design", design.clone(), must));
            }
            if self.log_bytes {
                return Err(wrong("log_bytes", "true".into(), must));
            }
        }
        if let Some(share) = self.update_percent {
            let fits = self.benchmark == Benchmark::LinkBench && (0.0..=100.0).contains(&share);
            if !fits {
                let must = "0 to 100 (only the benchmark linkbench has this key)";
                return Err(wrong("update_percent", share.to_string(), must));
            }
        }
        let least = self.frames_least();
        if self.frames() < least {
            let must = format!(
                "larger: {} frames are too few for {} clients and {} of {} pages",
                self.frames(),
                self.clients,
                counted(self.cleaners.into(), "cleaner", "cleaners"),
                self.batch_pages
            );
            return Err(JobError::Value {
                key: "buffer_percent",
                value: self.buffer_percent.to_string(),
                must,
            });
        }
        Ok(())
    }

    /// Checks what it needs of its flash cache.
    ///
    /// # Errors
    /// The first value that does not fit the cache.
    pub fn check_cache(&self, cache: &CacheJob) -> Result<(), JobError> {
        let wrong =
            |key, value: String, must: &str| JobError::Value { key, value, must: must.into() };
        if self.double_write != PageWrites::InPlace {
            let value = self.double_write.to_string();
            let must = "false with a cache, which has a copy of each page that is being written";
            return Err(wrong("double_write", value, must));
        }
        if !self.barriers {
            return Err(wrong("barriers", "false".into(), "true with a cache"));
        }
        if self.restart > 0 && !cache.is_flash_cache() {
            let must = "0 with this policy of the cache, which has no restart: take gsc or mvfifo";
            return Err(wrong("restart", self.restart.to_string(), must));
        }
        Ok(())
    }

    /// Whether it can run on drives with blocks of so many bytes, of the pages and of the log.
    ///
    /// # Errors
    /// [`JobError::Blocks`].
    pub fn fits_blocks(&self, block: u32, log: u32) -> Result<(), JobError> {
        whole_blocks(PAGE, self.page_bytes, block)?;
        match self.log_device {
            LogDevice::Own if self.log.is_none() => whole_blocks("the log's room", LOG_UNIT, log),
            _ => Ok(()),
        }
    }

    /// The layout for a database of this many pages, on a drive like this one, with the log on a
    /// drive like `log` if it has its own.
    ///
    /// # Errors
    /// What does not fit.
    pub fn layout(&self, pages: u32, caps: &Caps, log: &Caps) -> Result<Layout, JobError> {
        self.check()?;
        self.fits_blocks(caps.block_size, log.block_size)?;
        if self.double_write == PageWrites::Atomic {
            let has = match caps.atomic_group {
                Some(limit) if pages_in(limit, self.page_bytes) > 0 => None,
                Some(limit) => {
                    Some(format!("takes {} extents and {} bytes", limit.extents, limit.bytes))
                }
                None => Some("takes none".into()),
            };
            if let Some(has) = has {
                return Err(JobError::Groups { page: self.page_bytes, has });
            }
        }
        let log = if self.log_device == LogDevice::Own { log } else { caps };
        let (layout, data) = self.places(pages, caps.block_size, log.block_size);
        let needs = [("database", data, caps), ("log", layout.log.blocks, log)];
        // (A flash log says itself what it lacks.)
        let own = if self.log.is_some() { 1 } else { 2 };
        for (what, files, caps) in needs.into_iter().take(own) {
            let (need, have) = (files + journal_blocks(caps.block_size), caps.blocks);
            if need > have {
                return Err(JobError::Space { what, need, block: caps.block_size, have });
            }
        }
        Ok(layout)
    }

    /// The places on drives with blocks of so many bytes, and the blocks of the drive with the pages
    /// that these take.
    fn places(&self, pages: u32, block: u32, log: u32) -> (Layout, u64) {
        let page_blocks = self.page_bytes / block;
        let area = AreaPlace::of(Block(0), self.page_bytes, page_blocks);
        let mut layout = Layout {
            page_blocks,
            pages,
            area,
            first: Block(area.blocks()),
            log: LogPlace::of(Block(0), self.log_mib << 20, log),
        };
        let mut data = layout.data_blocks();
        if self.log_device == LogDevice::Same {
            layout.log.first = Block(data);
            data += layout.log.blocks;
        }
        (layout, data)
    }

    /// Whether a drive with so many blocks of so many bytes has room for its pages, and for the log
    /// if that is on the same drive.
    pub fn has_room(&self, block: u32, blocks: u64) -> bool {
        let (_, data) = self.places(self.mix().pages(), block, block);
        data + journal_blocks(block) <= blocks
    }

    /// The largest `database_mib` for which such a drive has room; `None` if there is none.
    pub fn largest_database(&self, block: u32, blocks: u64) -> Option<u64> {
        let fits = |mib| EngineJob { database_mib: mib, ..self.clone() }.has_room(block, blocks);
        let (mut most, mut beyond) = (DATABASE_MIB[0], DATABASE_MIB[1] + 1);
        if !fits(most) {
            return None;
        }
        while beyond - most > 1 {
            let middle = most.midpoint(beyond);
            let bound = if fits(middle) { &mut most } else { &mut beyond };
            *bound = middle;
        }
        Some(most)
    }
}

/// The least and the most MiB of a database.
const DATABASE_MIB: [u64; 2] = [16, 65_536];

/// What consists of the blocks of the drive with the pages.
const PAGE: &str = "a page";

/// What the room of a log is a multiple of, bytes.
const LOG_UNIT: u32 = 1 << 20;

/// Whether so many bytes are a whole number of blocks on which an engine can run.
pub(super) fn whole_blocks(what: &'static str, bytes: u32, block: u32) -> Result<(), JobError> {
    match block.is_power_of_two() && (512..=bytes).contains(&block) {
        true => Ok(()),
        false => Err(JobError::Blocks { what, bytes, block }),
    }
}

/// The most pages of this size in an atomic group.
pub(super) fn pages_in(limit: GroupLimit, page_bytes: u32) -> usize {
    u64::from(limit.extents).min(limit.bytes / u64::from(page_bytes)) as usize
}

/// The first log sequence number that does not fit a stamp.
pub(super) const LSN_END: Lsn = Lsn(1 << 40);
