//! The arithmetic of space: what of the raw flash is promised to the host, and
//! what the drive needs for itself.
//!
//! 1. What the drive needs for itself is set aside first, whatever it promises.
//! 2. Without protected memory the new data of atomic groups are kept beside the old. Units are set
//!    aside for `group_sectors` of them, at most half of the spare units.
//! 3. `room` sectors of live data, wherever they are, leave collection able to work. A drive that
//!    promises more is thinly provisioned, and `thin` keeps live data within `room`.

use crate::Design;
use crate::format::entries::{DELTA_ENTRIES, MAP_PAGE_ENTRIES, end_entry};
use crate::format::unit_journal::SECTOR_ENTRIES;
use tantalum_nand::{Geometry, Unit};

/// Free units that only collectors take, beside one for each die.
pub const SHARED_RESERVE: u32 = 2;

/// Rows of a dump area that may fail to program, wherever they are. Their content is written
/// elsewhere in the area.
pub const DUMP_SLACK_ROWS: u32 = 2;

/// One unit is kept to replace bad units of the dump areas, and one more for each so many units of
/// an area.
const UNITS_PER_DUMP_SPARE: u64 = 32;

/// Sectors of a dump that have the map's directory.
pub fn directory_sectors(design: &Design, map_pages: u32) -> u64 {
    match design.map.directory {
        true => u64::from(map_pages.div_ceil(MAP_PAGE_ENTRIES)),
        false => 0,
    }
}

/// Sectors of a dump with changes of the map, at most; without the directory.
pub fn dumped_map_sectors(design: &Design) -> u64 {
    match () {
        () if design.keeps_units() => {
            u64::from(design.map.journal_entries).div_ceil(SECTOR_ENTRIES as u64)
        }
        // Units that went bad are dirty beside those, and begin a row of their own.
        () if design.map.dirty_pages_max > 0 => {
            let row = design.geometry.row_sectors();
            u64::from(design.map.dirty_pages_max.next_multiple_of(row)) + 1
        }
        () => u64::from(design.map.dirty_max.div_ceil(DELTA_ENTRIES)) + 1,
    }
}

/// How the raw flash is divided. All but `logical` and `raw` in erase units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Sectors of the flash array.
    pub raw: u64,
    /// Sectors promised to the host.
    pub logical: u32,
    /// Sectors of these that may hold data at a time: all, or of a thinly provisioned drive as
    /// many as leave collection able to work.
    pub room: u32,
    /// Map pages, including those that say which erase units are bad and whether the drive's life
    /// is over.
    pub map_pages: u32,
    /// Units that the map log owns.
    pub map_units: u32,
    /// Units that hold the whole map once.
    pub map_live_units: u32,
    /// Units of one dump area; there are two.
    pub dump_units: u32,
    /// The units of an area that suffice for the largest dump.
    pub dump_units_least: u32,
    /// Units that are kept for dumps: those of the two areas, and a few to replace bad ones. They
    /// are the first units of the dies.
    pub dump_zone: u32,
    /// Units for data, live and spare.
    pub data_units: u32,
    /// Of these, needed beside the logical capacity: open units of both streams and the
    /// collector's reserve, for every die, and the reserve that the dies share.
    pub working_units: u32,
    /// Sectors of atomic groups that may be under way at a time, if the data that they replace are
    /// kept beside them. Units are set aside for these.
    pub group_sectors: u32,
    /// Units beyond all needs: so many may go bad before the drive takes no more writes.
    pub spare_units: u32,
}

/// The spare space is too small.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Too little over-provisioning.
    #[error(
        "{raw} erase units raw; {logical} for {}, {working} for open blocks and the \
         collectors' reserve ({dies} dies × {per_die}, and {shared}), {map} for the map log, {dump} for dumps: \
         {missing} too few; raise space.over_provisioning or geometry.blocks",
        if *.thin { "live data" } else { "the logical capacity" }
    )]
    Space {
        /// Units of the array.
        raw: u64,
        /// Units of the logical capacity; of a thinly provisioned drive the least for live data.
        logical: u64,
        /// Whether it is one.
        thin: bool,
        /// Open units and reserve.
        working: u64,
        /// Dies.
        dies: u64,
        /// Open units and reserve of each die.
        per_die: u64,
        /// The reserve that the dies share.
        shared: u64,
        /// Units of the map log.
        map: u64,
        /// Units that are kept for dumps.
        dump: u64,
        /// How many are missing.
        missing: u64,
    },
    /// The dump area cannot hold what may have to be dumped.
    #[error(
        "a dump area of {units} units has {have} rows; the buffer takes {buffer}, {dirty_max} changed map \
         entries take {map}, mark and end 2, rows that fail {slack}: raise map.dump_units or lower map.dirty_max or cache.buffer_kib"
    )]
    Dump {
        /// Units of a dump area.
        units: u32,
        /// Rows in them.
        have: u64,
        /// Rows for the buffer.
        buffer: u64,
        /// Changed entries at most.
        dirty_max: u32,
        /// Rows for them.
        map: u64,
        /// Rows that may fail.
        slack: u64,
    },
}

/// Rows of a dump at most: those of the buffer, and those of the map.
fn dump_rows(design: &Design, map_pages: u32) -> (u64, u64) {
    let row = u64::from(design.geometry.row_sectors());
    let buffer = u64::from(design.buffer_slots()).div_ceil(row);
    let map = dumped_map_sectors(design).div_ceil(row)
        + directory_sectors(design, map_pages).div_ceil(row);
    (buffer, map)
}

/// Rows of a dump beside these: its mark and its end.
const DUMP_MARK_ROWS: u64 = 2;

/// Rows of a dump area that suffice, and rows of an erase unit.
fn rows_needed(design: &Design, map_pages: u32) -> (u64, u64) {
    let (buffer, map) = dump_rows(design, map_pages);
    let g = &design.geometry;
    let in_unit = u64::from(g.unit_pages() / g.planes);
    (buffer + map + DUMP_MARK_ROWS + u64::from(DUMP_SLACK_ROWS), in_unit)
}

/// Units of a dump area that suffice for what may have to be dumped.
fn dump_units_least(design: &Design, map_pages: u32) -> Result<u32, LayoutError> {
    if !design.is_protected() {
        return Ok(0);
    }
    let units = design.map.dump_units;
    let (need, in_unit) = rows_needed(design, map_pages);
    let have = u64::from(units) * in_unit;
    if have < need {
        let (buffer, map) = dump_rows(design, map_pages);
        let (dirty_max, slack) = (design.map.dirty_max, DUMP_SLACK_ROWS.into());
        return Err(LayoutError::Dump { units, have, buffer, dirty_max, map, slack });
    }
    Ok(need.div_ceil(in_unit) as u32)
}

/// Sectors that a drive of this design promises.
fn logical(design: &Design) -> u32 {
    let g = &design.geometry;
    let logical = (g.sectors() as f64 / (1.0 + design.space.over_provisioning / 100.0)) as u64;
    // The entries of units behind them have numbers, too.
    let most = u64::from(u32::MAX - MAP_PAGE_ENTRIES) - u64::from(g.units()) - 1;
    logical.min(most) as u32
}

/// Pages of its map.
fn map_pages(design: &Design) -> u32 {
    let last = end_entry(logical(design), design.geometry.units()).0;
    (last + 1).div_ceil(MAP_PAGE_ENTRIES)
}

/// Entries of its map. Its geometry is valid.
pub(crate) fn map_entries(design: &Design) -> u32 {
    map_pages(design).saturating_mul(MAP_PAGE_ENTRIES)
}

/// The fewest units of a dump area with which a drive of this design can be built. Its geometry is
/// valid.
pub(crate) fn dump_units_needed(design: &Design) -> u32 {
    let (need, in_unit) = rows_needed(design, map_pages(design));
    u32::try_from(need.div_ceil(in_unit)).unwrap_or(u32::MAX)
}

/// Of `spare` units those for new data of atomic groups beside the old, and for how many sectors.
fn group_units(design: &Design, in_unit: u32, spare: u64) -> (u64, u32) {
    if design.is_protected() || design.atomic.group_kib == 0 {
        return (0, 0);
    }
    let wanted = u64::from(design.atomic.outstanding_kib.max(design.atomic.group_kib) / 4);
    let units = wanted.div_ceil(in_unit.into()).min(spare / 2);
    (units, wanted.min(units * u64::from(in_unit)) as u32)
}

/// Units that each die needs beside its data: an open one for the host's stream, an
/// open one for moved data, and the collector's reserve.
const WORKING_PER_DIE: u32 = 3;

impl Layout {
    pub(crate) fn of(design: &Design) -> Result<Layout, LayoutError> {
        let g = &design.geometry;
        let (raw, logical, map_pages) = (g.sectors(), logical(design), map_pages(design));
        let unit = g.unit_sectors();
        // Cleaning packs the images of one old unit tightly, but for its last page; what is
        // spilled of the journal may have a page for each sector.
        let spilled = design.spilled_max() * g.page_sectors();
        let map_live_units = (map_pages + spilled).div_ceil(unit - (g.page_sectors() - 1));
        // Twice the map and the open units: one is kept free to write the other anew. With
        // less to spare beyond that, cleaning would gain nothing, for ever.
        let map_units = 2 * (u64::from(map_live_units) + u64::from(design.map.write_points)) + 3;
        let dump_units = if design.is_protected() { design.map.dump_units } else { 0 };
        let dump_units_least = dump_units_least(design, map_pages)?;
        let in_unit = design.data_pages() * g.page_sectors();
        let units = u64::from(g.units());
        // Levelling has an open unit of its own.
        let per_die = WORKING_PER_DIE + u32::from(design.wear.spread_max > 0);
        let working = u64::from(per_die) * u64::from(g.dies()) + u64::from(SHARED_RESERVE);
        let dump = match u64::from(dump_units) {
            0 => 0,
            n => 2 * n + 1 + n / UNITS_PER_DUMP_SPARE,
        };
        let beside = working + map_units + dump;
        let thin = design.space.over_provisioning < 0.0;
        let live_units = match thin {
            true => {
                let left = units.saturating_sub(beside) as f64;
                ((left / (1.0 + design.space.thin_spare / 100.0)) as u64).max(1)
            }
            false => u64::from(logical.div_ceil(in_unit)),
        };
        let room = (live_units * u64::from(in_unit)).min(logical.into()) as u32;
        let need = live_units + beside;
        if need > units {
            return Err(LayoutError::Space {
                raw: units,
                logical: live_units,
                thin,
                working,
                dies: g.dies().into(),
                per_die: per_die.into(),
                shared: SHARED_RESERVE.into(),
                map: map_units,
                dump,
                missing: need - units,
            });
        }
        // Where there are units to spare, some of them are for dumps.
        let spare = units - need;
        let more = if thin { 0 } else { (spare / 4).min(dump_units.into()) };
        // And some, without capacitors, for atomic groups: old data beside new.
        let (groups, group_sectors) = group_units(design, in_unit, spare);
        Ok(Layout {
            raw,
            logical,
            room,
            map_pages,
            map_units: map_units as u32,
            map_live_units,
            dump_units,
            dump_units_least,
            dump_zone: (dump + more) as u32,
            data_units: (units - map_units - dump - more) as u32,
            working_units: working as u32,
            group_sectors,
            spare_units: (spare - more - groups) as u32,
        })
    }

    /// Of the spare units, those that are left for superseded data while the collectors keep
    /// `space.collect_below` units of each die free: what keeps the write amplification low.
    pub fn spare_left(&self, design: &Design) -> u32 {
        // One of each die is among the working units.
        let kept = design.space.collect_below.saturating_sub(1);
        self.spare_units.saturating_sub(kept.saturating_mul(design.geometry.dies()))
    }

    /// The same, of a hundred units of the logical capacity.
    pub fn spare_left_percent(&self, design: &Design) -> f64 {
        let in_unit = u64::from(design.data_pages() * design.geometry.page_sectors());
        let spare = u64::from(self.spare_left(design)) * in_unit;
        100.0 * spare as f64 / f64::from(self.logical.max(1))
    }

    /// Whether more is promised than can hold data at a time.
    pub fn is_thin(&self) -> bool {
        self.room < self.logical
    }

    /// The units that are kept for dumps.
    pub fn kept_for_dumps(&self, g: &Geometry) -> impl Iterator<Item = Unit> + use<> {
        let (dies, blocks) = (g.dies(), g.blocks);
        (0..self.dump_zone).map(move |n| Unit(n % dies * blocks + n / dies))
    }

    /// Whether a unit is one of these.
    pub fn keeps_for_dumps(&self, g: &Geometry, unit: Unit) -> bool {
        unit.0 % g.blocks * g.dies() + unit.0 / g.blocks < self.dump_zone
    }
}
