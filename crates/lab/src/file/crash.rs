//! The file of a crash exploration: designs, command mixes, and how far to go.
//!
//! 1. A key that is not known here is refused, with the nearest name there is.
//! 2. A row's name is unique in the file, and its seed follows from that and from the
//!    file's seed alone.

use crate::file::entry::{OneOrMany, merge};
use crate::file::experiment::{ExperimentError, Scene};
use crate::file::parse::{self, Fault, Wrong};
use crate::subject::{BLOCK_BYTES, Model};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tantalum_cache::flash::Admit;
use tantalum_device::{Ack, Caps, GroupLimit, Payload};
use tantalum_explore::{
    AnyBlueprint, BareCacheBlueprint, Blueprint, BoxBlueprint, CacheBlueprint, CrashRow,
    Exploration, Ingredients, LogBlueprint, LogShape, Nesting, RamBlueprint, VolumeBlueprint,
};
use tantalum_rt::{Nanos, mix64};

/// What a row's `design` says if each of its runs has another one.
const RANDOM: &str = "random";

/// What the `design` of a log, a log volume or a cache volume says if its devices are RAM devices.
const RAM: &str = "ram";

/// Explorations, as their file says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrashFile {
    /// What it shows, in a line.
    ///
    /// *Source*: own choice.
    pub title: String,
    /// Seed of all random choices.
    ///
    /// *Source*: own choice.
    #[serde(default = "one")]
    pub seed: u64,
    /// Lists of commands for each row, if all points of these are explored.
    ///
    /// *Source*: own choice.
    #[serde(default = "one")]
    pub runs: u64,
    /// Cuts of each row, if points are chosen at random.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_samples")]
    pub samples: u64,
    /// Points at random times beside those of operations and commands, in each run.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_random_times")]
    pub random_times: u32,
    /// How deep recoveries are cut.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub nested: u32,
    /// Points of each recovery that is cut, chosen at random. 0: all of them.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_inner")]
    pub inner: u32,
    /// Only one in so many cuts has its recovery cut.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_stride")]
    pub stride: u32,
    /// Mixes of commands, by name, see below. Keys that one leaves out are as in `default`, which
    /// need not be there.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub mix: BTreeMap<String, Ingredients>,
    /// Changes to the SSD of every row.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    drive: toml::Table,
    /// Designs of the file's own, by name, as in an experiment.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    design: BTreeMap<String, toml::Table>,
    /// What is explored: a list of tables.
    ///
    /// *Source*: own choice.
    #[serde(rename = "row")]
    entries: Vec<Entry>,
}

fn one() -> u64 {
    1
}

fn default_samples() -> u64 {
    1_000
}

fn default_random_times() -> u32 {
    32
}

fn default_inner() -> u32 {
    4
}

fn default_stride() -> u32 {
    8
}

/// A `[[row]]`: one row for each design and mix.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// What is explored.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    subject: Kind,
    /// Which drives, disks, sampled devices or arrays; `random`: each run has another drive. A RAM
    /// device has none. Of a log or a cache: what its devices are, which may be `ram`.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    design: Option<OneOrMany<String>>,
    /// Which mixes of commands.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_mix")]
    mix: OneOrMany<String>,
    /// A suffix that distinguishes these rows from others of the same design and mix.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    name: Option<String>,
    /// Changes to its SSDs.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    drive: toml::Table,
    /// Changes to its magnetic disks.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    disk: toml::Table,
    /// Changes to its sampled devices.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    sampled: toml::Table,
    /// What its RAM devices promise, and how long they take, see below.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    ram: Option<Ram>,
    /// What its log or log volume is, see below.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    log: Option<FlashLog>,
    /// What its cache or cache volume is, see below.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    cache: Option<FlashCache>,
    /// What blocks carry.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    payload: Keeps,
}

/// The longest time of a device, a log or a cache, µs.
const LONGEST_US: u64 = 60_000_000;

/// The most KiB of a group, and of memory.
const MOST_KIB: u64 = 1 << 20;

/// The most blocks of a RAM device.
const MOST_BLOCKS: u64 = 1 << 32;

impl Entry {
    /// Whether its numbers are ones with which one can calculate.
    fn check(&self) -> Result<(), Fault> {
        let block = self.ram.as_ref().map(|ram| ram.block_bytes);
        if let Some(n) = block.filter(|n| !n.is_power_of_two() || !(512..=1 << 20).contains(n)) {
            let what = format!("ram.block_bytes = {n}: must be a power of two, 512 to 1048576");
            return Err(Fault::at(&["ram", "block_bytes"], what));
        }
        let ram = self.ram.iter().flat_map(|ram| {
            let times = [
                ("command_us", ram.command_us),
                ("jitter_us", ram.jitter_us),
                ("flush_us", ram.flush_us),
                ("start_us", ram.start_us),
            ];
            let times = times.map(|(key, us)| ("ram", key, us, LONGEST_US));
            let sizes = [
                ("ram", "group_kib", ram.group_kib, MOST_KIB),
                ("ram", "blocks", ram.blocks, MOST_BLOCKS),
            ];
            times.into_iter().chain(sizes)
        });
        let log = self.log.iter().flat_map(|log| {
            let times = [
                ("slow_us", log.slow_us),
                ("stall_us", log.stall_us),
                ("linger_us", log.linger_us),
            ];
            let times = times.map(|(key, us)| ("log", key, us, LONGEST_US));
            let sizes = [
                ("log", "memory_kib", log.memory_kib, MOST_KIB),
                ("log", "backing_blocks", log.backing_blocks, MOST_BLOCKS),
            ];
            times.into_iter().chain(sizes)
        });
        let cache = self.cache.iter().flat_map(|cache| {
            [
                ("cache", "linger_us", cache.linger_us, LONGEST_US),
                ("cache", "slow_blocks", cache.slow_blocks, MOST_BLOCKS),
            ]
        });
        match ram.chain(log).chain(cache).find(|(.., value, most)| value > most) {
            Some((table, key, value, most)) => {
                let what = format!("{table}.{key} = {value}: must be at most {most}");
                Err(Fault::at(&[table, key], what))
            }
            None => Ok(()),
        }
    }
}

/// What a row explores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// An SSD.
    #[default]
    Drive,
    /// A RAM device.
    Ram,
    /// A magnetic disk.
    Disk,
    /// A sampled device; give it few `blocks`.
    Sampled,
    /// A RAID-0: a design of the file with `raid0`.
    Raid0,
    /// A flash log over devices of one design.
    Log,
    /// A log volume over devices of one design, with a backing of the same.
    LogVolume,
    /// A cache volume over two devices of one design.
    CacheVolume,
    /// A flash cache as its program uses it, over the same.
    Cache,
}

impl Kind {
    /// What a row without a design stands for.
    fn designs(self, row: &Entry) -> Result<Vec<String>, String> {
        match (self, &row.design) {
            (Kind::Ram, None) => Ok(vec![RAM.into()]),
            (Kind::Ram, Some(_)) => {
                Err("a row of subject = \"ram\" has no design: its keys are under `ram`".into())
            }
            (kind, Some(_)) if row.cache.is_some() && !kind.is_cache() => {
                Err("`cache` is for rows of subject = \"cache\" or \"cache-volume\"".into())
            }
            (kind, Some(designs)) if kind.is_cache() && row.log.is_none() => Ok(designs.0.clone()),
            (Kind::Log | Kind::LogVolume, Some(designs)) => Ok(designs.0.clone()),
            (_, Some(_)) if row.log.is_some() => {
                Err("`log` is for rows of subject = \"log\" or \"log-volume\"".into())
            }
            (_, Some(designs)) if row.ram.is_none() => Ok(designs.0.clone()),
            (_, Some(_)) => Err(
                "`ram` is for rows of subject = \"ram\", and for logs and caches over RAM devices"
                    .into(),
            ),
            (_, None) => Err("a row names a design, unless its subject is \"ram\"".into()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Drive => "drive",
            Kind::Ram => "ram",
            Kind::Disk => "disk",
            Kind::Sampled => "sampled",
            Kind::Raid0 => "raid0",
            Kind::Log => "log",
            Kind::LogVolume => "log-volume",
            Kind::CacheVolume => "cache-volume",
            Kind::Cache => "cache",
        }
    }

    fn is_cache(self) -> bool {
        matches!(self, Kind::Cache | Kind::CacheVolume)
    }

    /// Whether it is made of RAM devices, if its design is that.
    fn over_ram(self, design: &str) -> bool {
        (matches!(self, Kind::Log | Kind::LogVolume) || self.is_cache()) && design == RAM
    }
}

/// A RAM device in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Ram {
    /// Blocks.
    ///
    /// *Source*: own choice.
    blocks: u64,
    /// Bytes in a block.
    ///
    /// *Source*: own choice.
    block_bytes: u32,
    /// A write of up to so many bytes is all or nothing.
    ///
    /// *Source*: own choice.
    atomic_unit: u32,
    /// Extents of an atomic group, at most. 0: there are no groups.
    ///
    /// *Source*: Beyond Block I/O: atomic groups; their bounds: own choice.
    group_extents: u32,
    /// KiB of an atomic group, at most. 0: there are no groups.
    ///
    /// *Source*: Beyond Block I/O: atomic groups; their bounds: own choice.
    group_kib: u64,
    /// What a completed write means.
    ///
    /// *Source*: own choice.
    ack: Ack,
    /// Whether a flush makes completed writes durable.
    ///
    /// *Source*: own choice.
    flush: bool,
    /// Whether what survives a cut is a prefix of what arrived.
    ///
    /// *Source*: DuraSSD: what survives is a prefix.
    ordered: bool,
    /// Time of a command, µs.
    ///
    /// *Source*: own choice.
    command_us: u64,
    /// By so much a command may take longer, at random, µs.
    ///
    /// *Source*: own choice.
    jitter_us: u64,
    /// Time of a flush, µs.
    ///
    /// *Source*: own choice.
    flush_us: u64,
    /// From power to the first command, µs.
    ///
    /// *Source*: own choice.
    start_us: u64,
    /// Commands that a volatile cache holds, at most.
    ///
    /// *Source*: own choice.
    cache_commands: usize,
}

impl Default for Ram {
    fn default() -> Ram {
        Ram {
            blocks: 96,
            block_bytes: BLOCK_BYTES,
            atomic_unit: 512,
            group_extents: 16,
            group_kib: 256,
            ack: Ack::Volatile,
            flush: true,
            ordered: false,
            command_us: 20,
            jitter_us: 30,
            flush_us: 40,
            start_us: 100,
            cache_commands: 64,
        }
    }
}

impl Ram {
    fn blueprint(&self, payload: Payload) -> RamBlueprint {
        let group = GroupLimit { extents: self.group_extents, bytes: self.group_kib * 1024 };
        RamBlueprint {
            caps: Caps {
                block_size: self.block_bytes,
                blocks: self.blocks,
                thin: false,
                ack: self.ack,
                flush: self.flush,
                ordered: self.ordered,
                atomic_unit: self.atomic_unit,
                atomic_group: (group.extents > 0 && group.bytes > 0).then_some(group),
                payload,
            },
            command: Nanos::from_micros(self.command_us),
            jitter: Nanos::from_micros(self.jitter_us),
            flush: Nanos::from_micros(self.flush_us),
            start: Nanos::from_micros(self.start_us),
            cache_commands: self.cache_commands,
        }
    }
}

/// A log or a log volume in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FlashLog {
    /// Devices of the array.
    ///
    /// *Source*: FlashLogging.
    devices: u32,
    /// Whether there is an archive, a device like the others.
    ///
    /// *Source*: FlashLogging.
    archive: bool,
    /// Devices on which each record is before it counts as durable.
    ///
    /// *Source*: own choice.
    copies: u8,
    /// Virtual devices that each device is divided into.
    ///
    /// *Source*: FlashLogging.
    partitions: u16,
    /// One write in so many takes `slow_us` longer. 0: none.
    ///
    /// *Source*: FlashLogging: outliers.
    slow_one_in: u64,
    /// How much longer such a write takes, µs.
    ///
    /// *Source*: FlashLogging: outliers.
    slow_us: u64,
    /// A device whose write takes longer is left, µs.
    ///
    /// *Source*: own choice.
    stall_us: u64,
    /// Whether a device may fail, or be gone after a cut and perhaps be back after the next; always
    /// the same one. Takes two copies.
    ///
    /// *Source*: own choice.
    loss: bool,
    /// Of a log volume: memory for what is not destaged, KiB.
    ///
    /// *Source*: own choice.
    memory_kib: u64,
    /// Of a log volume: how long a change may stay there, µs.
    ///
    /// *Source*: own choice.
    linger_us: u64,
    /// Of a log volume over RAM devices: blocks of its backing. 0: as many as the others have.
    ///
    /// *Source*: own choice.
    backing_blocks: u64,
    /// Of a log volume: whether its limits are those that it has by itself, an atomic unit of 128 KiB
    /// and groups of 256 extents and 1 MiB. Else they are so small that few blocks reach them.
    ///
    /// *Source*: own choice.
    full_limits: bool,
}

impl Default for FlashLog {
    fn default() -> FlashLog {
        let shape = LogShape::default();
        FlashLog {
            devices: shape.devices,
            archive: shape.archive,
            copies: shape.copies,
            partitions: shape.partitions,
            slow_one_in: shape.slow_one_in,
            slow_us: shape.slow_by.0 / 1000,
            stall_us: shape.stall.0 / 1000,
            loss: shape.loss,
            memory_kib: 64,
            linger_us: 3000,
            backing_blocks: 0,
            full_limits: false,
        }
    }
}

impl FlashLog {
    fn blueprint(&self, kind: Kind, device: BoxBlueprint) -> AnyBlueprint {
        let shape = LogShape {
            devices: self.devices,
            archive: self.archive,
            copies: self.copies,
            partitions: self.partitions,
            slow_one_in: self.slow_one_in,
            slow_by: Nanos::from_micros(self.slow_us),
            stall: Nanos::from_micros(self.stall_us),
            loss: self.loss,
        };
        let mut backing = device.clone();
        if let (BoxBlueprint::Ram(ram), true) = (&mut backing, self.backing_blocks > 0) {
            ram.caps.blocks = self.backing_blocks;
        }
        let log = LogBlueprint { device, shape };
        if kind == Kind::Log {
            return AnyBlueprint::Log(Box::new(log));
        }
        let (memory, linger) = (self.memory_kib << 10, Nanos::from_micros(self.linger_us));
        let full_limits = self.full_limits;
        let volume = VolumeBlueprint { log, backing, memory, linger, full_limits };
        AnyBlueprint::Volume(Box::new(volume))
    }
}

/// A cache or a cache volume in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FlashCache {
    /// Bytes of a page.
    ///
    /// *Source*: FaCE.
    page_bytes: u32,
    /// Frames of a batch.
    ///
    /// *Source*: FaCE: batches, of 64 or 128 pages; so few: own choice.
    frames: u32,
    /// Write-through. False: write-back.
    ///
    /// *Source*: FaCE.
    through: bool,
    /// Whether pages that were read stay (GSC). False: mvFIFO.
    ///
    /// *Source*: FaCE.
    second_chance: bool,
    /// Which pages enter: `"mixed"`, `"clean"` or `"dirty"` ones. Of a cache volume not `"clean"`.
    ///
    /// *Source*: FaCE.
    admit: Admits,
    /// A batch is written at the latest after this time, µs.
    ///
    /// *Source*: own choice.
    linger_us: u64,
    /// With `through`: after a third of the cuts the flash device is gone, and a blank one is in
    /// its place.
    ///
    /// *Source*: own choice.
    loss: bool,
    /// Of a cache volume: when clean pages enter. `"read"`: on a read. `"exit"`: only when the host
    /// tells that they have left its memory.
    ///
    /// *Source*: own choice.
    clean: Clean,
    /// Over RAM devices: blocks of the slow device. 0: as many as the flash device has.
    ///
    /// *Source*: own choice.
    slow_blocks: u64,
}

/// Which pages enter a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Admits {
    /// Clean and dirty ones.
    #[default]
    Mixed,
    /// Clean ones; dirty ones go to the slow device.
    Clean,
    /// Dirty ones.
    Dirty,
}

impl From<Admits> for Admit {
    fn from(admits: Admits) -> Admit {
        match admits {
            Admits::Mixed => Admit::Mixed,
            Admits::Clean => Admit::Clean,
            Admits::Dirty => Admit::Dirty,
        }
    }
}

/// When clean pages enter a cache volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Clean {
    /// When they are read, and when the host tells that they have left its memory.
    #[default]
    Read,
    /// Only when the host tells.
    Exit,
}

impl Default for FlashCache {
    fn default() -> FlashCache {
        FlashCache {
            page_bytes: BLOCK_BYTES,
            frames: 4,
            through: false,
            second_chance: true,
            admit: Admits::default(),
            linger_us: 400,
            loss: false,
            clean: Clean::default(),
            slow_blocks: 0,
        }
    }
}

impl FlashCache {
    fn blueprint(&self, kind: Kind, flash: BoxBlueprint) -> AnyBlueprint {
        let mut slow = flash.clone();
        if let (BoxBlueprint::Ram(ram), true) = (&mut slow, self.slow_blocks > 0) {
            ram.caps.blocks = self.slow_blocks;
        }
        let cache = CacheBlueprint {
            flash,
            slow,
            page: self.page_bytes,
            frames: self.frames,
            through: self.through,
            second_chance: self.second_chance,
            admit: self.admit.into(),
            linger: Nanos::from_micros(self.linger_us),
            loss: self.loss,
            on_exit: self.clean == Clean::Exit,
        };
        match kind {
            Kind::Cache => AnyBlueprint::BareCache(Box::new(BareCacheBlueprint { cache })),
            _ => AnyBlueprint::Cache(Box::new(cache)),
        }
    }
}

fn default_mix() -> OneOrMany<String> {
    OneOrMany(vec!["default".into()])
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Keeps {
    /// A number for each.
    #[default]
    Stamps,
    /// All of their bytes.
    Bytes,
}

impl CrashFile {
    /// Reads the text of a file; `file` is named in errors.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(file: &str, text: &str) -> Result<CrashFile, ExperimentError> {
        let wrong = |w: Wrong| ExperimentError {
            file: w.line.map_or(file.to_string(), |line| format!("{file}:{line}")),
            what: w.what,
        };
        let read: CrashFile = parse::read(text).map_err(wrong)?;
        read.check().map_err(|fault| {
            wrong(Wrong { line: parse::line_of(text, &fault.key), what: fault.what })
        })?;
        Ok(read)
    }

    /// What holds for all of its rows.
    pub fn exploration(&self) -> Exploration {
        Exploration {
            title: self.title.clone(),
            seed: self.seed,
            random_times: self.random_times,
            nesting: Nesting { depth: self.nested, inner: self.inner, stride: self.stride },
        }
    }

    /// All rows, in the order of the file.
    ///
    /// # Errors
    /// In a line: a design or a mix that does not exist, or is invalid.
    pub fn rows(&self) -> Result<Vec<CrashRow>, String> {
        let mut rows: Vec<CrashRow> = Vec::new();
        for entry in &self.entries {
            for design in &entry.subject.designs(entry)? {
                for mix in &entry.mix.0 {
                    let row = self.row(entry, design, mix)?;
                    if rows.iter().any(|r| r.name == row.name) {
                        let name = row.name;
                        return Err(format!("there are two rows \"{name}\": give one a name"));
                    }
                    rows.push(row);
                }
            }
        }
        match rows.is_empty() {
            true => Err("there is no [[row]]: nothing to explore".into()),
            false => Ok(rows),
        }
    }

    fn row(&self, entry: &Entry, design: &str, mix: &str) -> Result<CrashRow, String> {
        let mut name = format!("{design}/{mix}");
        if let Some(own) = &entry.name {
            name += &format!("/{own}");
        }
        let told = |what: String| format!("row \"{name}\": {what}");
        let what = self.ingredients(mix)?;
        what.check().map_err(told)?;
        let payload = match entry.payload {
            Keeps::Stamps => Payload::Stamps,
            Keeps::Bytes => Payload::Bytes,
        };
        let subject = match (entry.subject, design) {
            (Kind::Drive, RANDOM) => None,
            (Kind::Ram, _) => {
                let ram = entry.ram.clone().unwrap_or_default();
                let ram = BoxBlueprint::Ram(ram.blueprint(payload));
                Some(ram.into())
            }
            (kind @ (Kind::Log | Kind::LogVolume), _) => {
                let device = self.device_of_log(entry, design).map_err(told)?;
                Some(entry.log.clone().unwrap_or_default().blueprint(kind, device))
            }
            (kind @ (Kind::Cache | Kind::CacheVolume), _) => {
                let device = self.device_of_log(entry, design).map_err(told)?;
                Some(entry.cache.clone().unwrap_or_default().blueprint(kind, device))
            }
            (kind, _) => Some(self.blueprint(entry, kind, design, payload).map_err(told)?.into()),
        };
        if let Some(subject) = &subject {
            subject.room().map_err(told)?;
        }
        let seed = name.bytes().fold(mix64(self.seed), |h, b| mix64(h ^ u64::from(b)));
        Ok(CrashRow { name, seed, subject, what })
    }

    /// What each device of a log or a cache volume is. It carries bytes.
    fn device_of_log(&self, entry: &Entry, design: &str) -> Result<BoxBlueprint, String> {
        if entry.subject.over_ram(design) {
            let ram = entry.ram.clone().unwrap_or_default();
            return Ok(BoxBlueprint::Ram(ram.blueprint(Payload::Bytes)));
        }
        Model::of(design, &self.scene(entry))?.blueprint(Payload::Bytes)
    }

    /// What a design of the file or a preset is, if it is of this kind.
    fn blueprint(
        &self,
        entry: &Entry,
        kind: Kind,
        design: &str,
        payload: Payload,
    ) -> Result<BoxBlueprint, String> {
        let scene = self.scene(entry);
        let model = Model::of(design, &scene)?;
        match (kind, &model) {
            (Kind::Drive, Model::Ssd(_))
            | (Kind::Disk, Model::Disk(_))
            | (Kind::Sampled, Model::Sampled(_))
            | (Kind::Raid0, Model::Raid0 { .. }) => model.blueprint(payload),
            _ => {
                let kind = kind.name();
                let fits = match model {
                    Model::Ssd(_) => "drive",
                    Model::Disk(_) => "disk",
                    Model::Sampled(_) => "sampled",
                    Model::Raid0 { .. } => "raid0",
                };
                Err(format!("it is no {kind}: set subject = \"{fits}\""))
            }
        }
    }

    /// What designs, disks and sampled devices of a row are changed by.
    fn scene(&self, entry: &Entry) -> Scene {
        let (disk, sampled) = (entry.disk.clone(), entry.sampled.clone());
        let mut drive = self.drive.clone();
        merge(&mut drive, &entry.drive);
        Scene { drive, disk, sampled, design: self.design.clone(), ..Scene::default() }
    }

    /// Whether anything is explored, and the models of its rows can be built, as far as a fault has
    /// a key.
    fn check(&self) -> Result<(), Fault> {
        let counts =
            [("runs", self.runs), ("samples", self.samples), ("stride", self.stride.into())];
        if let Some((key, _)) = counts.into_iter().find(|(_, n)| *n == 0) {
            return Err(Fault::at(&[key], format!("{key} = 0: must be at least 1")));
        }
        for (i, entry) in self.entries.iter().enumerate() {
            let (scene, place) = (self.scene(entry), i.to_string());
            entry.check().map_err(|fault| fault.below(&["row", &place]))?;
            for design in entry.subject.designs(entry).unwrap_or_default() {
                if entry.subject.over_ram(&design) {
                    continue;
                }
                let Err(fault) = Model::read(&design, &scene) else { continue };
                if fault.key.is_empty() {
                    continue; // It is told with the row.
                }
                let own = match fault.key.first().map(String::as_str) {
                    Some("disk" | "sampled") => true,
                    Some("drive") => fault.key.get(1).is_some_and(|k| entry.drive.contains_key(k)),
                    _ => false,
                };
                return Err(if own { fault.below(&["row", &place]) } else { fault });
            }
        }
        Ok(())
    }

    fn ingredients(&self, mix: &str) -> Result<Ingredients, String> {
        match self.mix.get(mix) {
            Some(what) => Ok(what.clone()),
            None if mix == "default" => Ok(Ingredients::default()),
            None => {
                let known = self.mix.keys().map(String::as_str).chain(["default"]);
                Err(parse::unknown("unknown mix", mix, known))
            }
        }
    }

    /// For each mix a row whose runs all have a random design.
    ///
    /// # Errors
    /// A mix that cannot be.
    pub fn swarm(&self) -> Result<Vec<CrashRow>, String> {
        let mixes = self.mix.keys().cloned().chain(["default".to_string()]);
        let mixes: std::collections::BTreeSet<String> = mixes.collect();
        let entry = Entry {
            subject: Kind::Drive,
            design: None,
            mix: OneOrMany(Vec::new()),
            name: None,
            drive: toml::Table::new(),
            disk: toml::Table::new(),
            sampled: toml::Table::new(),
            ram: None,
            log: None,
            cache: None,
            payload: Keeps::Stamps,
        };
        mixes.iter().map(|mix| self.row(&entry, RANDOM, mix)).collect()
    }
}
