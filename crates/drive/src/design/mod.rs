//! Designs: a drive as a composition of orthogonal choices, in TOML.

pub(crate) mod capacitor;
pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod energy;
pub(crate) mod group;
pub(crate) mod layout;

use crate::PowerDesign;
use crate::design::layout::LayoutError;
use crate::format::summary::summary_rows;
use crate::format::words::Places;
use crate::parse::{self, Fault, nearest_name};
use serde::{Deserialize, Serialize};
use tantalum_nand::{Geometry, GeometryError, SECTOR_BYTES, Timing};

/// A design: everything that distinguishes one drive from another.
///
/// ```
/// use tantalum_drive::Design;
///
/// let preset = Design::preset("durassd")?;
/// let mine = preset.with_overrides(&"geometry.blocks = 64\ngeometry.pages = 64".parse()?)?;
/// assert_eq!(mine.cache, preset.cache);
/// assert!(mine.geometry.sectors() < preset.geometry.sectors());
///
/// let wrong = preset.with_overrides(&"cache.bufer_kib = 64".parse()?);
/// assert!(wrong.unwrap_err().to_string().contains("bufer_kib"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// What it is called in reports.
    pub name: String,
    /// The shape of the flash array.
    pub geometry: Geometry,
    /// Its times.
    pub timing: Timing,
    /// Endurance of the cells, and wear levelling.
    pub wear: WearDesign,
    /// Spare space and collection.
    pub space: SpaceDesign,
    /// The link to the host.
    pub link: LinkDesign,
    /// The write buffer and what it promises.
    pub cache: CacheDesign,
    /// How the map is made persistent.
    pub map: MapDesign,
    /// Groups of writes that survive whole or not at all.
    #[serde(default)]
    pub atomic: AtomicDesign,
    /// The firmware's own time.
    pub firmware: FirmwareDesign,
    /// The energy that is left when the host's power is gone.
    #[serde(default)]
    pub power: PowerDesign,
}

/// What the cells last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearDesign {
    /// Erase cycles of a unit. After these it cannot be erased any more.
    ///
    /// *Source*: ONFI: parameter page, block endurance.
    pub endurance: u32,
    /// Erase counts of the units of a die that differ by so many are too far apart: cold
    /// data are moved then, so that their units wear too (static wear levelling). 0: off.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub spread_max: u32,
}

/// Spare space and collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceDesign {
    /// (raw − logical) / logical, in per cent, everything included. Below 0 the drive is thinly
    /// provisioned: it promises more than its raw flash (−50: twice of it), and refuses new data
    /// when what is live would leave too little for collection.
    ///
    /// *Source*: (physical − user) / user, as vendors of drives define it; below 0: own choice.
    pub over_provisioning: f64,
    /// Of a thinly provisioned drive: erase units that live data never fill, for collection and
    /// for those that go bad, in per cent of those that they may fill.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_thin_spare")]
    pub thin_spare: f64,
    /// Free erase units of a die below which it collects.
    ///
    /// *Source*: own choice.
    pub collect_below: u32,
    /// How it chooses what to collect.
    ///
    /// *Source*: greedy and cost-benefit: Rosenblum and Ousterhout (SOSP 1991); the cost 2u:
    /// Kawaguchi et al. (USENIX 1995).
    #[serde(default)]
    pub collector: Collector,
    /// While the host is idle, a die collects until it has this many free erase units. 0: it does
    /// nothing then.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub background_below: u32,
    /// The host is idle when it has sent no command for so long, µs, and waits for none.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_idle_us")]
    pub idle_us: u64,
}

fn default_thin_spare() -> f64 {
    7.0
}

fn default_idle_us() -> u64 {
    10_000
}

/// How a unit to collect is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collector {
    /// The fewest valid sectors.
    #[default]
    Greedy,
    /// The most free space for its cost, weighed with its age (Rosenblum and Ousterhout; Kawaguchi et al.).
    CostBenefit,
}

/// The link to the host (spec of a SATA or NVMe drive).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkDesign {
    /// Bandwidth, MB/s.
    ///
    /// *Source*: SATA, NVMe.
    pub mb_s: u64,
    /// Bandwidth at which data of the host get from the link through the controller into the
    /// buffer, MB/s, if that is less than the link's. 0: it is not less.
    ///
    /// *Source*: own choice; fitted where the preset says so, to DuraSSD's table, to FaCE or to
    /// data sheets.
    #[serde(default)]
    pub write_mb_s: u64,
    /// Time a command occupies the link beside its data, ns.
    ///
    /// *Source*: own choice; fitted where the preset says so, to DuraSSD's table, to FaCE or to
    /// data sheets.
    pub occupancy_ns: u64,
    /// Time a command takes beside that, which overlaps with others, ns.
    ///
    /// *Source*: own choice; fitted where the preset says so, to DuraSSD's table, to FaCE or to
    /// data sheets.
    pub latency_ns: u64,
    /// Time that each 4 KiB of a command's data take beside the link (the controller, DMA), ns. The
    /// 4 KiB of a row (planes × page) come one after the other. The rows of a command overlap, and
    /// so do commands.
    ///
    /// *Source*: own choice; fitted to DuraSSD's table where the preset says so.
    #[serde(default)]
    pub page_ns: u64,
    /// Time that each extent of an atomic group occupies the link beside its data (its descriptor is
    /// made, fetched and checked), ns. The group's command is charged besides, once.
    ///
    /// *Source*: own choice; fitted to Beyond Block I/O.
    #[serde(default)]
    pub extent_ns: u64,
    /// Bytes that a block of 4 KiB is on the link: 512 to 4096, a power of two. Less than 4096: the
    /// link is charged as if the host's blocks were so small. Behind it they stay 4 KiB. Not with
    /// `logical_bytes` below 4096.
    ///
    /// *Source*: own choice.
    #[serde(default = "whole_pages")]
    pub block_bytes: u32,
    /// Bytes in a block of the host: 512 to 4096, a power of two. The drive maps sectors of 4 KiB. If
    /// blocks are smaller (512e), it completes a sector that a command covers in part with what the
    /// sector holds, and writes it whole: buffer, flash and groups count whole sectors. A group has
    /// at most as many blocks as it may have sectors. Such a drive keeps bytes, not stamps. Not with
    /// `cache.shear_bytes` below 4096.
    ///
    /// *Source*: Advanced Format (512e); 1024 and 2048: own choice.
    #[serde(default = "whole_pages")]
    pub logical_bytes: u32,
    /// Commands that may be outstanding.
    ///
    /// *Source*: SATA, NVMe.
    pub queue_depth: u32,
}

/// When a write completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// Complete when it is in the buffer, which capacitors protect.
    Protected,
    /// Complete when it is in the buffer, which is lost with the power.
    Volatile,
    /// Complete when it is programmed.
    Off,
    /// Complete when it is programmed and its change of the map is stored.
    Through,
}

/// What a flush does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushMode {
    /// Programs everything and stores the map, as a conventional drive does.
    Drain,
    /// Completes once everything that arrived before is in the cache, if the cache is protected
    /// (DuraSSD, section 3.3). A cache without protection is drained.
    Order,
    /// Completes at once and does nothing. A drive without protection declares then that
    /// its flushes mean nothing; forced unit access still does.
    Ignore,
}

/// What a write with forced unit access waits for, where the cache is volatile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForcedAccess {
    /// Its own pages and their entries of the map (NVMe). A drive that promises an order, or whose
    /// groups are told by flags, waits for what was buffered before, too.
    #[default]
    OwnPages,
    /// All that is buffered, as for a flush. Over SATA a host sends a flush after the write instead,
    /// unless it was told that the drive can do without (Linux: `libata.fua`, 0 by default).
    Flush,
}

/// The write buffer.
///
/// ```
/// use tantalum_drive::{CacheDesign, CacheMode, Design};
///
/// let durassd = Design::preset("durassd")?;
/// assert_eq!(durassd.cache.mode, CacheMode::Protected);
/// // The same drive without capacitors; a group of blocks is not all or nothing then.
/// let cache = CacheDesign { mode: CacheMode::Volatile, atomic_unit_kib: 4, ..durassd.cache };
/// assert!(cache.buffer_kib > 0 && cache.reorder == 0);
/// # Ok::<(), tantalum_drive::DesignError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheDesign {
    /// What it promises.
    ///
    /// *Source*: DuraSSD: `protected`, against `volatile` and `off`; `through`: SpartanSSD, its
    /// Baseline.
    pub mode: CacheMode,
    /// Its size, KiB.
    ///
    /// *Source*: DuraSSD.
    pub buffer_kib: u32,
    /// A write of up to this many KiB is all or nothing (protected cache only;
    /// others promise one block).
    ///
    /// *Source*: DuraSSD.
    pub atomic_unit_kib: u32,
    /// What a flush does.
    ///
    /// *Source*: DuraSSD: `drain`, and `order`, which it names and does not build; `ignore`: own
    /// choice.
    pub flush: FlushMode,
    /// What a write with forced unit access waits for. It makes no difference where the cache is
    /// protected or off.
    ///
    /// *Source*: NVMe: `own-pages`; Linux over SATA: `flush`.
    #[serde(default)]
    pub fua: ForcedAccess,
    /// Pages that the flusher keeps back and picks from at random. A power loss then leaves any
    /// part of the unflushed writes. Commands are taken in piece by piece, and overtake each other.
    /// 0: in order of arrival. Not with a protected cache, whose order is a promise.
    ///
    /// *Source*: Zheng et al. (FAST 2013).
    #[serde(default)]
    pub reorder: u32,
    /// Pieces in which a page arrives, bytes: less than 4096, and a page of which only a part
    /// has arrived may be programmed so, the rest as it was before ("shorn write"). 512 to
    /// 4096, not with a protected cache. A stamp stands for a whole page and is never shorn.
    ///
    /// *Source*: Zheng et al. (FAST 2013).
    #[serde(default = "whole_pages")]
    pub shear_bytes: u32,
}

fn whole_pages() -> u32 {
    SECTOR_BYTES
}

/// What the capacitors keep of the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// The entries that changed since they were last stored (DuraSSD).
    #[default]
    Entries,
    /// Only which erase units were written since then. A restart reads what is in them (SpartanSSD,
    /// block-level journal).
    Units,
}

/// How the map is made persistent.
///
/// ```
/// use tantalum_drive::{Design, Kept};
///
/// // Entries that changed are in the dump, so their number is bounded...
/// assert_eq!(Design::preset("durassd")?.map.kept, Kept::Entries);
/// // ...or only the units that were written are, and a restart reads what is in them.
/// let spartan = Design::preset("spartan-es")?.map;
/// assert!(spartan.kept == Kept::Units && spartan.elastic);
/// # Ok::<(), tantalum_drive::DesignError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapDesign {
    /// Map entries that may have changed since they were last stored. With a protected cache the
    /// emergency dump must hold them. Otherwise the journal is written unasked when it has gathered
    /// so many.
    ///
    /// *Source*: DuraSSD: what the dump holds is bounded.
    pub dirty_max: u32,
    /// Map pages that may have changed since they were last stored; 0: only `dirty_max` counts.
    /// Protected cache only.
    ///
    /// *Source*: SpartanSSD: DuraSSD with small capacitors.
    #[serde(default)]
    pub dirty_pages_max: u32,
    /// Whether all changed map pages are stored at once when half of `dirty_max` is reached.
    /// Otherwise those that changed longest ago are stored bit by bit.
    ///
    /// *Source*: SpartanSSD, design B.
    #[serde(default)]
    pub whole: bool,
    /// What the capacitors keep of it. Protected cache only.
    ///
    /// *Source*: DuraSSD: `entries`; SpartanSSD, design E: `units`.
    #[serde(default)]
    pub kept: Kept,
    /// Entries of 16 bytes that the journal of units has room for.
    ///
    /// *Source*: SpartanSSD, design E.
    #[serde(default = "default_journal")]
    pub journal_entries: u32,
    /// Ranges of pages in the journal of units at which all changed map pages are stored: a
    /// restart reads what is written beside each page of these.
    ///
    /// *Source*: own choice.
    #[serde(default = "default_ranges")]
    pub journal_ranges: u32,
    /// Whether the journal is elastic: when it is full, what is in it is written to flash as it
    /// is, and only `journal_ranges` and idle times end with a checkpoint (SpartanSSD, elastic
    /// journaling). With `kept = "units"`.
    ///
    /// *Source*: SpartanSSD, design E.
    #[serde(default)]
    pub elastic: bool,
    /// All changed map pages are stored as soon as that programs no more than this share of
    /// what was programmed since they were stored before, in per cent: a restart then reads
    /// little where little of the map changes. 0: only when the journal asks for it. With
    /// `kept = "units"`.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub checkpoint_share: f64,
    /// Whether they are stored when the host is idle (see `space.idle_us`). With
    /// `kept = "units"`.
    ///
    /// *Source*: SpartanSSD, design E.
    #[serde(default)]
    pub checkpoint_idle: bool,
    /// Whether the last rows of a unit with data tell what is beside its other pages, so that a
    /// restart reads only these of full units (SpartanSSD, summary pages). With `kept = "units"`.
    ///
    /// *Source*: SpartanSSD, design ES.
    #[serde(default)]
    pub summary: bool,
    /// Whether the dump says where on flash each map page is: then a restart takes commands as
    /// soon as it has read the dump, and reads map pages when they are asked for, before all
    /// are loaded. Protected cache only.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub directory: bool,
    /// Erase units into which the map is written at the same time.
    ///
    /// *Source*: own choice.
    pub write_points: u32,
    /// Erase units of one dump area (there are two); more units, on more dies, are
    /// faster to write. Protected cache only.
    ///
    /// *Source*: DuraSSD: blocks kept erased for the dump; two areas: own choice.
    pub dump_units: u32,
}

/// Groups of scattered writes that survive a power loss whole or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AtomicDesign {
    /// KiB in one group, at most; less where the buffer is smaller. Without a protected cache
    /// at most 2048, and no more than there are spare erase units for. 0: groups are refused.
    ///
    /// *Source*: own choice.
    pub group_kib: u32,
    /// Extents in one group, at most.
    ///
    /// *Source*: own choice.
    pub extents: u32,
    /// KiB of all groups that are under way, at most, without a protected cache. Their old and new
    /// data are kept side by side until they are whole, in erase units that are set aside for that.
    ///
    /// *Source*: own choice.
    pub outstanding_kib: u32,
    /// How a drive without a protected cache knows that a group is whole.
    ///
    /// *Source*: Beyond Block I/O: `flag`; `record`: own choice.
    pub scheme: GroupScheme,
}

/// How a drive without a protected cache knows, after a power loss, that a group is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupScheme {
    /// A record of the map log, in one page, names its pages.
    #[default]
    Record,
    /// One flag beside each of its pages says whether more come after it (Ouyang et al., "Beyond
    /// Block I/O", section 3): one group at a time, nothing else is written meanwhile, and a
    /// restart reads what is beside every page.
    Flag,
}

impl Default for AtomicDesign {
    fn default() -> AtomicDesign {
        let scheme = GroupScheme::default();
        AtomicDesign { group_kib: 1024, extents: 256, outstanding_kib: 8192, scheme }
    }
}

fn default_journal() -> u32 {
    1024
}

fn default_ranges() -> u32 {
    64
}

/// The firmware's own time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirmwareDesign {
    /// Firmware time of a write with the cache off, µs.
    ///
    /// *Source*: own choice; fitted to DuraSSD's table where the preset says so.
    pub through_us: u64,
    /// Firmware time of a flush that finds something to program, µs.
    ///
    /// *Source*: own choice; fitted to DuraSSD's table where the preset says so.
    pub flush_us: u64,
    /// Firmware time of storing the map because the host waits for it, µs.
    ///
    /// *Source*: own choice; fitted to DuraSSD's table where the preset says so.
    pub map_us: u64,
}

/// A design that cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DesignError {
    /// There is no such preset.
    #[error("there is no design \"{name}\"; presets are: {}", Design::presets().join(", "))]
    UnknownPreset {
        /// The name asked for.
        name: String,
    },
    /// The text is not a design.
    #[error("not a design: {}{}", on(*.line), .fault.what)]
    Toml {
        /// The line of the text, counted from 1; `None` if it is not known, or if there is no text.
        line: Option<usize>,
        /// The key, and what is wrong with it.
        fault: Fault,
    },
    /// A value makes no sense.
    #[error("design \"{design}\": {what}")]
    Value {
        /// The design.
        design: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The geometry of the flash array is invalid.
    #[error("design \"{design}\": {error}")]
    Geometry {
        /// The design.
        design: String,
        /// Why.
        error: GeometryError,
    },
    /// The spare space does not suffice.
    #[error("design \"{design}\": {error}")]
    Layout {
        /// The design.
        design: String,
        /// The arithmetic.
        error: LayoutError,
    },
}

/// Where something is wrong, for a message.
fn on(line: Option<usize>) -> String {
    line.map_or(String::new(), |line| format!("line {line}: "))
}

const PRESETS: &[(&str, &str)] = &[
    ("baseline", include_str!("../../presets/baseline.toml")),
    ("volatile", include_str!("../../presets/volatile.toml")),
    ("shearing", include_str!("../../presets/shearing.toml")),
    ("durassd", include_str!("../../presets/durassd.toml")),
    ("ssd-a", include_str!("../../presets/ssd-a.toml")),
    ("ssd-b", include_str!("../../presets/ssd-b.toml")),
    ("full-protection", include_str!("../../presets/full-protection.toml")),
    ("durassd-bounded", include_str!("../../presets/durassd-bounded.toml")),
    ("spartan-b", include_str!("../../presets/spartan-b.toml")),
    ("spartan-e", include_str!("../../presets/spartan-e.toml")),
    ("spartan-es", include_str!("../../presets/spartan-es.toml")),
    ("ssd-840pro", include_str!("../../presets/ssd-840pro.toml")),
    ("ssd-850evo", include_str!("../../presets/ssd-850evo.toml")),
    ("dc-s3500", include_str!("../../presets/dc-s3500.toml")),
    ("p3700", include_str!("../../presets/p3700.toml")),
    ("slc", include_str!("../../presets/slc.toml")),
    ("tlc-modern", include_str!("../../presets/tlc-modern.toml")),
    ("tlc-datacenter", include_str!("../../presets/tlc-datacenter.toml")),
    ("qlc", include_str!("../../presets/qlc.toml")),
];

const PRESET_NAMES: [&str; PRESETS.len()] = {
    let mut names = [""; PRESETS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = PRESETS[i].0;
        i += 1;
    }
    names
};

impl Design {
    /// The arithmetic of addresses on a drive of this design.
    pub(crate) fn places(&self) -> Places {
        Places { data_pages: self.data_pages(), ..Places::of(&self.geometry) }
    }

    /// The names of the presets.
    pub fn presets() -> &'static [&'static str] {
        &PRESET_NAMES
    }

    /// A preset by name.
    ///
    /// # Errors
    /// [`DesignError::UnknownPreset`] lists those that there are.
    pub fn preset(name: &str) -> Result<Design, DesignError> {
        match PRESETS.iter().find(|p| p.0 == name) {
            Some((_, text)) => Design::from_toml(text),
            None => Err(DesignError::UnknownPreset { name: name.to_string() }),
        }
    }

    /// The text of a preset, comments included.
    ///
    /// # Errors
    /// [`DesignError::UnknownPreset`] lists those that there are.
    pub fn preset_text(name: &str) -> Result<&'static str, DesignError> {
        let found = PRESETS.iter().find(|p| p.0 == name);
        found.map(|p| p.1).ok_or_else(|| DesignError::UnknownPreset { name: name.to_string() })
    }

    /// The design as TOML with every key, also those that its text leaves to their
    /// defaults.
    pub fn to_toml(&self) -> String {
        // Whatever was read from TOML can be written as TOML.
        toml::to_string(self).unwrap_or_default()
    }

    /// A design from TOML.
    ///
    /// # Errors
    /// [`DesignError`], if it is not one or cannot be built.
    pub fn from_toml(text: &str) -> Result<Design, DesignError> {
        let design: Design =
            parse::read_lines(text).map_err(|(line, fault)| DesignError::Toml { line, fault })?;
        design.check()?;
        Ok(design)
    }

    /// This design with other values: tables and keys as in the TOML of a design,
    /// each of which must exist already.
    ///
    /// ```
    /// use tantalum_drive::Design;
    ///
    /// let durassd = Design::preset("durassd")?;
    /// let small = durassd.with_overrides(&"geometry.blocks = 64\ncache.buffer_kib = 2048".parse()?)?;
    /// assert_eq!(small.geometry.blocks, 64);
    /// assert_eq!(small.geometry.channels, durassd.geometry.channels);
    ///
    /// // A key that there is not, and a drive that cannot be built, are errors.
    /// assert!(durassd.with_overrides(&"cache.bufer_kib = 2048".parse()?).is_err());
    /// assert!(durassd.with_overrides(&"geometry.blocks = 1".parse()?).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`DesignError`], if the result is not a design or cannot be built.
    pub fn with_overrides(&self, overrides: &toml::Table) -> Result<Design, DesignError> {
        let wrong = |fault| DesignError::Toml { line: None, fault };
        let mut table =
            toml::Table::try_from(self).map_err(|e| wrong(Fault::from(e.to_string())))?;
        merge(&mut table, overrides, &[]).map_err(wrong)?;
        // As a text only to name the key that is wrong: swarms and searches come by here often.
        let design = table.clone().try_into::<Design>();
        let design = design.or_else(|_| parse::read_keys(&table)).map_err(wrong)?;
        design.check()?;
        Ok(design)
    }

    /// 4 KiB pages that the buffer holds.
    pub fn buffer_slots(&self) -> u32 {
        self.cache.buffer_kib / 4
    }

    /// Whether the drive may take in commands, and program pages, in another order than that of
    /// their arrival, or in parts.
    pub fn is_disorderly(&self) -> bool {
        self.cache.reorder > 0 || self.cache.shear_bytes < SECTOR_BYTES
    }

    /// Pages of an erase unit in which data may be.
    pub fn data_pages(&self) -> u32 {
        let g = &self.geometry;
        g.unit_pages() - if self.map.summary { summary_rows(g) * g.planes } else { 0 }
    }

    /// Sectors to which the journal of units may be spilled, at most.
    pub(crate) fn spilled_max(&self) -> u32 {
        if self.map.elastic { self.map.journal_entries / 8 } else { 0 }
    }

    /// Whether of the map capacitors keep only which units were written.
    pub fn keeps_units(&self) -> bool {
        self.is_protected() && self.map.kept == Kept::Units
    }

    /// Whether flags tell which groups are whole.
    pub fn flags_groups(&self) -> bool {
        self.atomic.scheme == GroupScheme::Flag
    }

    /// Whether capacitors keep the buffer and the map.
    pub fn is_protected(&self) -> bool {
        self.cache.mode == CacheMode::Protected
    }
}

fn merge(into: &mut toml::Table, from: &toml::Table, above: &[&str]) -> Result<(), Fault> {
    for (key, value) in from {
        let path = [above, &[key]].concat();
        match (into.get_mut(key), value) {
            (Some(toml::Value::Table(into)), toml::Value::Table(from)) => merge(into, from, &path)?,
            (Some(toml::Value::Table(_)), _) => {
                let what = format!("`{}` is a table of a design", path.join("."));
                return Err(Fault::at(&path, what));
            }
            (Some(toml::Value::Float(f)), toml::Value::Integer(i)) => *f = *i as f64,
            (Some(old), new) => *old = new.clone(),
            (None, _) => {
                let near = nearest_name(key, into.keys().map(String::as_str));
                let tip = match near {
                    Some(near) => {
                        format!("did you mean `{}`?", [above, &[near]].concat().join("."))
                    }
                    None => {
                        let known: Vec<&str> = into.keys().map(String::as_str).collect();
                        format!("known are: {}", known.join(", "))
                    }
                };
                let what = format!("a design has no `{}`; {tip}", path.join("."));
                return Err(Fault::at(&path, what));
            }
        }
    }
    Ok(())
}
