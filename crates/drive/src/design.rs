//! Designs: a drive as a composition of orthogonal choices, in TOML.

use crate::PowerDesign;
use crate::layout::{Layout, LayoutError};
use crate::summary::summary_rows;
use serde::{Deserialize, Serialize};
use tantalum_nand::{Geometry, GeometryError, SECTOR_BYTES, Timing};

/// All that makes one drive differ from another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Design {
    /// What it is called in reports.
    pub name: String,
    /// The shape of the flash array.
    pub geometry: Geometry,
    /// Its times.
    pub timing: Timing,
    /// What the cells last.
    pub wear: WearDesign,
    /// Spare space and collection.
    pub space: SpaceDesign,
    /// The link to the host.
    pub link: LinkDesign,
    /// The write buffer and what it promises.
    pub cache: CacheDesign,
    /// How the map is made persistent.
    pub map: MapDesign,
    /// The firmware's own time.
    pub firmware: FirmwareDesign,
    /// What is there when the power is gone.
    #[serde(default)]
    pub power: PowerDesign,
}

/// What the cells last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WearDesign {
    /// Erase cycles that a unit lasts; then it can not be erased any more.
    pub endurance: u32,
    /// Erase counts of the units of a die that differ by so many are too far apart: cold
    /// data are moved then, so that their units wear too (static wear levelling). 0: off.
    #[serde(default)]
    pub spread_max: u32,
}

/// Spare space and collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpaceDesign {
    /// (raw − logical) / logical, in per cent, everything included.
    pub over_provisioning: f64,
    /// Free erase units of a die below which it collects.
    pub collect_below: u32,
    /// How it chooses what to collect.
    #[serde(default)]
    pub collector: Collector,
    /// Free erase units of a die up to which it goes on to collect while the host is idle.
    /// 0: it does nothing then.
    #[serde(default)]
    pub background_below: u32,
    /// The host is idle when it has sent no command for so long, µs, and waits for none.
    #[serde(default = "default_idle_us")]
    pub idle_us: u64,
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
    /// The most free space for its cost, weighed with its age (Rosenblum and Ousterhout).
    CostBenefit,
}

/// The link to the host (spec of a SATA or NVMe drive).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkDesign {
    /// Bandwidth, MB/s.
    pub mb_s: u64,
    /// Bandwidth at which data of the host get into the buffer, MB/s, if that is less:
    /// the way from the link through the controller. 0: it is not.
    #[serde(default)]
    pub write_mb_s: u64,
    /// Time a command occupies the link beside its data, ns.
    pub occupancy_ns: u64,
    /// Time a command takes beside that, which overlaps with others, ns.
    pub latency_ns: u64,
    /// Commands that may be outstanding.
    pub queue_depth: u32,
}

/// What becomes of a write when it arrives.
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
    /// Completes once everything that arrived before is in the cache, if that is protected
    /// (DuraSSD, section 3.3); a cache that is not has to be drained all the same.
    Order,
    /// Completes at once and does nothing. A drive without protection declares then that
    /// its flushes mean nothing; forced unit access still does.
    Ignore,
}

/// The write buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheDesign {
    /// What it promises.
    pub mode: CacheMode,
    /// Its size, KiB.
    pub buffer_kib: u32,
    /// A write of up to this many KiB is all or nothing (protected cache only;
    /// others promise one block).
    pub atomic_unit_kib: u32,
    /// What a flush does.
    pub flush: FlushMode,
    /// Pages that the flusher keeps back and picks from at random: what a power loss leaves
    /// of unflushed writes is then any part of them. Commands are taken in piece by piece, and
    /// overtake each other. 0: in order of arrival. Not with a protected cache, whose order
    /// is a promise.
    #[serde(default)]
    pub reorder: u32,
    /// Pieces in which a page arrives, bytes: less than 4096, and a page of which only a part
    /// has arrived may be programmed so, the rest as it was before ("shorn write"). 512 to
    /// 4096, not with a protected cache. A stamp stands for a whole page and is never shorn.
    #[serde(default = "whole_pages")]
    pub shear_bytes: u32,
}

fn whole_pages() -> u32 {
    SECTOR_BYTES
}

/// What of the map capacitors keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// The entries that changed since they were last stored (DuraSSD).
    #[default]
    Entries,
    /// Only which erase units were written since then: what is in them is found out again at
    /// a restart (SpartanSSD, block-level journal).
    Units,
}

/// How the map is made persistent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapDesign {
    /// Map entries that may have changed since they were last stored: with a
    /// protected cache what the emergency dump must hold, else what the journal
    /// gathers before it is written unasked.
    pub dirty_max: u32,
    /// Map pages that may have changed since they were last stored; 0: only `dirty_max` counts.
    /// Protected cache only.
    #[serde(default)]
    pub dirty_pages_max: u32,
    /// Whether all of the map that has changed is stored at once, when half of `dirty_max` is
    /// reached, rather than what has changed longest, bit by bit.
    #[serde(default)]
    pub whole: bool,
    /// What of it capacitors keep. Protected cache only.
    #[serde(default)]
    pub kept: Kept,
    /// Entries of 16 bytes that the journal of units has room for.
    #[serde(default = "default_journal")]
    pub journal_entries: u32,
    /// Ranges of pages in the journal of units at which all changed map pages are stored: a
    /// restart reads what is written beside each page of these.
    #[serde(default = "default_ranges")]
    pub journal_ranges: u32,
    /// Whether the last rows of a unit with data tell what is beside its other pages, so that a
    /// restart reads only these of full units (SpartanSSD, summary pages). With `kept = "units"`.
    #[serde(default)]
    pub summary: bool,
    /// Erase units into which the map is written at the same time.
    pub write_points: u32,
    /// Erase units of one dump area (there are two); more units, on more dies, are
    /// faster to write. Protected cache only.
    pub dump_units: u32,
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
    pub through_us: u64,
    /// Firmware time of a flush that finds something to program, µs.
    pub flush_us: u64,
    /// Firmware time of storing the map because the host waits for it, µs.
    pub map_us: u64,
}

/// A design that can not be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DesignError {
    /// There is no such preset.
    #[error("there is no design \"{name}\"; presets are: {}", Design::presets().join(", "))]
    UnknownPreset {
        /// The name asked for.
        name: String,
    },
    /// The text is not a design.
    #[error("not a design: {0}")]
    Toml(String),
    /// A value makes no sense.
    #[error("design \"{design}\": {what}")]
    Value {
        /// The design.
        design: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The flash array can not be.
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

/// 1 GiB: more than any drive has for it.
const MAX_BUFFER_KIB: u32 = 1 << 20;

/// 2 GiB of deltas.
const MAX_DIRTY: u64 = 1 << 28;

const PRESETS: [(&str, &str); 13] = [
    ("baseline", include_str!("../presets/baseline.toml")),
    ("volatile", include_str!("../presets/volatile.toml")),
    ("durassd", include_str!("../presets/durassd.toml")),
    ("ssd-a", include_str!("../presets/ssd-a.toml")),
    ("ssd-b", include_str!("../presets/ssd-b.toml")),
    ("full-protection", include_str!("../presets/full-protection.toml")),
    ("durassd-bounded", include_str!("../presets/durassd-bounded.toml")),
    ("spartan-b", include_str!("../presets/spartan-b.toml")),
    ("spartan-e", include_str!("../presets/spartan-e.toml")),
    ("spartan-es", include_str!("../presets/spartan-es.toml")),
    ("slc", include_str!("../presets/slc.toml")),
    ("tlc-modern", include_str!("../presets/tlc-modern.toml")),
    ("qlc", include_str!("../presets/qlc.toml")),
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
    /// [`DesignError`], if it is not one or can not be built.
    pub fn from_toml(text: &str) -> Result<Design, DesignError> {
        let design: Design =
            toml::from_str(text).map_err(|e| DesignError::Toml(e.to_string().trim_end().into()))?;
        design.check()?;
        Ok(design)
    }

    /// This design with other values: tables and keys as in the TOML of a design,
    /// each of which must exist already.
    ///
    /// # Errors
    /// [`DesignError`], if the result is not a design or can not be built.
    pub fn with_overrides(&self, overrides: &toml::Table) -> Result<Design, DesignError> {
        let mut table =
            toml::Table::try_from(self).map_err(|e| DesignError::Toml(e.to_string()))?;
        merge(&mut table, overrides, "")?;
        let design: Design =
            table.try_into().map_err(|e| DesignError::Toml(e.to_string().trim_end().into()))?;
        design.check()?;
        Ok(design)
    }

    /// Whether the drive can be built.
    ///
    /// # Errors
    /// [`DesignError`] says why not, with the arithmetic.
    pub fn check(&self) -> Result<Layout, DesignError> {
        let value = |what: String| DesignError::Value { design: self.name.clone(), what };
        self.geometry
            .check()
            .map_err(|error| DesignError::Geometry { design: self.name.clone(), error })?;
        self.power.check().map_err(value)?;
        let op = self.space.over_provisioning;
        if !(op.is_finite() && op > 0.0 && op <= 1000.0) {
            return Err(value(format!(
                "space.over_provisioning is {op} per cent; it must be above 0 and at most 1000"
            )));
        }
        if self.space.collect_below < 2 {
            return Err(value("space.collect_below must be at least 2".into()));
        }
        let background = self.space.background_below;
        if background != 0
            && !(self.space.collect_below..self.geometry.blocks).contains(&background)
        {
            return Err(value(format!(
                "space.background_below is {background}; it must be 0 (off), or at least \
                 space.collect_below and less than geometry.blocks"
            )));
        }
        if self.wear.spread_max != 0 && self.wear.spread_max < 4 {
            return Err(value("wear.spread_max must be 0 (off), or at least 4".into()));
        }
        if self.link.mb_s == 0 || self.link.queue_depth == 0 || self.timing.channel_mb_s == 0 {
            return Err(value(
                "link.mb_s, link.queue_depth and timing.channel_mb_s must be at least 1".into(),
            ));
        }
        self.check_times().map_err(value)?;
        self.check_priorities().map_err(value)?;
        let slots = u64::from(self.buffer_slots());
        let row = u64::from(self.geometry.row_sectors());
        if slots < 2 * row || self.cache.buffer_kib > MAX_BUFFER_KIB {
            return Err(value(format!(
                "cache.buffer_kib is {}; two rows of pages need {} KiB, and it may be at most {MAX_BUFFER_KIB}",
                self.cache.buffer_kib,
                2 * row * 4
            )));
        }
        let unit = self.cache.atomic_unit_kib;
        if unit < 4 || !unit.is_multiple_of(4) || unit > self.cache.buffer_kib {
            return Err(value(format!(
                "cache.atomic_unit_kib is {unit}; it must be a multiple of 4 and fit the buffer of {} KiB",
                self.cache.buffer_kib
            )));
        }
        self.check_disorder().map_err(value)?;
        // A quarter of the changes must hold a row: see `Firmware::begin_changes`.
        let least = (4 * row).max(1024);
        let pages = self.map.dirty_pages_max;
        if pages > 0 && (u64::from(pages) < 2 * row || !self.is_protected() || self.keeps_units()) {
            return Err(value(format!(
                "map.dirty_pages_max is {pages}; it must be 0 or at least {}, and is for a protected \
                 cache that keeps entries",
                2 * row
            )));
        }
        self.check_journal().map_err(value)?;
        let dirty = u64::from(self.map.dirty_max);
        if self.map.write_points == 0 || dirty < least || dirty > MAX_DIRTY {
            return Err(value(format!(
                "map.write_points is {} and must be at least 1; map.dirty_max is {dirty} and must be \
                 {least} to {MAX_DIRTY}",
                self.map.write_points
            )));
        }
        Layout::of(self).map_err(|error| DesignError::Layout { design: self.name.clone(), error })
    }

    /// No operation of the medium is free, and none takes longer than a run may last.
    fn check_times(&self) -> Result<(), String> {
        const MAX_US: u64 = 60_000_000;
        let t = &self.timing;
        for (name, us, least) in [
            ("timing.read_us", t.read_us, 1),
            ("timing.program_us", t.program_us, 1),
            ("timing.erase_us", t.erase_us, 1),
            ("timing.command_ns", t.command_ns.div_ceil(1000), 0),
            ("link.occupancy_ns", self.link.occupancy_ns.div_ceil(1000), 0),
            ("link.latency_ns", self.link.latency_ns.div_ceil(1000), 0),
            ("firmware.through_us", self.firmware.through_us, 0),
            ("firmware.flush_us", self.firmware.flush_us, 0),
            ("firmware.map_us", self.firmware.map_us, 0),
            ("space.idle_us", self.space.idle_us, 1),
            ("timing.read_planes_us", t.read_planes_us, 0),
            ("timing.read_sector_us", t.read_sector_us, 0),
            ("timing.suspend_program_us", t.suspend_program_us, 0),
            ("timing.suspend_erase_us", t.suspend_erase_us, 0),
        ] {
            if us < least || us > MAX_US {
                return Err(format!("{name} must be at least {least}, and at most one minute"));
            }
        }
        Ok(())
    }

    /// Reads that go ahead: bounded, and only where something can give way.
    fn check_priorities(&self) -> Result<(), String> {
        const MOST: u32 = 1 << 16;
        let t = &self.timing;
        for (name, list) in [
            ("timing.read_by_page_us", &t.read_by_page_us),
            ("timing.program_by_page_us", &t.program_by_page_us),
        ] {
            if list.len() > 64 || list.iter().any(|us| !(1..=60_000_000).contains(us)) {
                return Err(format!(
                    "{name} has at most 64 times, each at least 1 and at most one minute"
                ));
            }
        }
        for (name, n) in
            [("timing.read_priority", t.read_priority), ("timing.suspend_limit", t.suspend_limit)]
        {
            if n > MOST {
                return Err(format!("{name} is {n}; it may be at most {MOST}"));
            }
        }
        let suspends = t.suspend_program_us > 0 || t.suspend_erase_us > 0;
        if suspends && (t.read_priority == 0 || t.suspend_limit == 0) {
            return Err("timing.suspend_program_us and timing.suspend_erase_us do nothing unless \
                        timing.read_priority and timing.suspend_limit are at least 1"
                .into());
        }
        Ok(())
    }

    /// Room in the journal of units for all that is written at once, twice: before and since
    /// a checkpoint began.
    fn check_journal(&self) -> Result<(), String> {
        const MOST: u32 = 1 << 20;
        let (m, least) = (&self.map, 2 * self.journal_slack() + 4 * self.geometry.row_sectors());
        if !self.is_protected() && m.kept != Kept::Entries {
            return Err("map.kept is for a protected cache: nothing else is kept".into());
        }
        if !self.keeps_units() {
            return match m.summary {
                true => Err("map.summary is for a journal of units: nobody else reads it".into()),
                false => Ok(()),
            };
        }
        let g = &self.geometry;
        if m.summary && 2 * summary_rows(g) * g.planes > g.unit_pages() {
            return Err(format!(
                "map.summary takes {} of the {} rows of an erase unit: too many",
                summary_rows(g),
                g.unit_pages() / g.planes
            ));
        }
        if !(least..=MOST).contains(&m.journal_entries) {
            return Err(format!(
                "map.journal_entries is {}; this geometry takes at least {least}, and at most {MOST}",
                m.journal_entries
            ));
        }
        if m.journal_ranges < self.journal_slack() || m.journal_ranges > m.journal_entries {
            return Err(format!(
                "map.journal_ranges is {}; it must be at least {} and at most map.journal_entries",
                m.journal_ranges,
                self.journal_slack()
            ));
        }
        Ok(())
    }

    /// Entries of the journal of units that nobody asks for: of each stream of each die one
    /// unit that is written, one that is full and not mapped yet, both entered anew when a
    /// checkpoint begins, and the next one; and a few bad units.
    pub(crate) fn journal_slack(&self) -> u32 {
        9 * self.geometry.dies() + 8
    }

    /// What a drive without protection may do to order and pages.
    fn check_disorder(&self) -> Result<(), String> {
        let c = &self.cache;
        if c.reorder > self.buffer_slots() / 2 {
            return Err(format!(
                "cache.reorder is {}; at most half of the buffer's {} pages can be kept back",
                c.reorder,
                self.buffer_slots()
            ));
        }
        if !c.shear_bytes.is_power_of_two() || !(512..=SECTOR_BYTES).contains(&c.shear_bytes) {
            return Err(format!(
                "cache.shear_bytes is {}; it must be 512, 1024, 2048 or {SECTOR_BYTES} (whole pages)",
                c.shear_bytes
            ));
        }
        if self.is_protected() && (c.reorder > 0 || c.shear_bytes < SECTOR_BYTES) {
            return Err(format!(
                "cache.reorder and cache.shear_bytes are for drives without protection: a protected \
                 cache keeps order and pages; leave them at 0 and {SECTOR_BYTES}"
            ));
        }
        Ok(())
    }

    /// 4 KiB pages that the buffer holds.
    pub fn buffer_slots(&self) -> u32 {
        self.cache.buffer_kib / 4
    }

    /// Whether the drive may take commands in, and pages out, in another order than they
    /// came, or in parts.
    pub fn is_disorderly(&self) -> bool {
        self.cache.reorder > 0 || self.cache.shear_bytes < SECTOR_BYTES
    }

    /// Pages of an erase unit in which data may be.
    pub fn data_pages(&self) -> u32 {
        let g = &self.geometry;
        g.unit_pages() - if self.map.summary { summary_rows(g) * g.planes } else { 0 }
    }

    /// Whether of the map capacitors keep only which units were written.
    pub fn keeps_units(&self) -> bool {
        self.is_protected() && self.map.kept == Kept::Units
    }

    /// Whether capacitors keep the buffer and the map.
    pub fn is_protected(&self) -> bool {
        self.cache.mode == CacheMode::Protected
    }
}

fn merge(into: &mut toml::Table, from: &toml::Table, path: &str) -> Result<(), DesignError> {
    for (key, value) in from {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match (into.get_mut(key), value) {
            (Some(toml::Value::Table(into)), toml::Value::Table(from)) => merge(into, from, &path)?,
            (Some(toml::Value::Table(_)), _) => {
                return Err(DesignError::Toml(format!("`{path}` is a table of a design")));
            }
            (Some(toml::Value::Float(f)), toml::Value::Integer(i)) => *f = *i as f64,
            (Some(old), new) => *old = new.clone(),
            (None, _) => {
                let near = nearest_name(key, into.keys().map(String::as_str));
                let near = near.map(|near| {
                    let table = path.strip_suffix(key.as_str()).unwrap_or_default();
                    format!("; did you mean `{table}{near}`?")
                });
                let near = near.unwrap_or_default();
                return Err(DesignError::Toml(format!("a design has no `{path}`{near}")));
            }
        }
    }
    Ok(())
}

/// The name nearest to a misspelt one, if any is near at all: for messages.
pub fn nearest_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|k| (strsim::jaro_winkler(name, k), k));
    let best = near.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.75).then_some(best.1)
}
