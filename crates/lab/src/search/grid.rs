//! The designs that are searched. They differ in what the capacitors keep of the map and in how
//! much memory, in whether they keep its directory, in the size of the write buffer, and in whether
//! an erase under way has to be finished.
//!
//! 1. The energy of a candidate follows from its design alone, without a run.
//! 2. What is kept of the map fills whole programs of an emergency dump: less would cost as much.
//! 3. But no journal tells of more than about an eighth of all erase units before the map is
//!    stored: a restart would read as many.
//! 4. All that is not searched is that of the base; so are its promises: no buffer is smaller than
//!    what the base writes atomically.

use tantalum_drive::{CacheMode, Design, DesignError, EnergyModel, Kept, LayoutError};

/// What the capacitors keep of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keeps {
    /// Few map pages that have changed (`map.dirty_pages_max`).
    Pages,
    /// Entries that have changed (`map.dirty_max`).
    Entries {
        /// Whether all of the map that has changed is stored at once (`map.whole`).
        whole: bool,
    },
    /// Which erase units were written (`map.kept = "units"`).
    Units {
        /// Whether full units tell what is in them (`map.summary`).
        summary: bool,
        /// Whether a full journal is spilled to flash (`map.elastic`), rather than the map stored
        /// before it is.
        elastic: bool,
    },
}

/// What makes one candidate differ from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    /// What of the map is kept.
    pub keeps: Keeps,
    /// Ranges in the journal of units at which the map is stored; `None`: only its size counts.
    pub ranges: Option<u32>,
    /// Whether they keep where on flash the map is (`map.directory`).
    pub directory: bool,
    /// KiB of the write buffer.
    pub buffer_kib: u32,
    /// Programs of an emergency dump for what is kept of the map.
    pub programs: u32,
    /// Whether an erase under way is stopped.
    pub erase_abort: bool,
}

impl Choice {
    /// Whether both are the same but for their sizes and the erase.
    pub(super) fn is_family(&self, other: &Choice) -> bool {
        let family = |c: &Choice| (c.keeps, c.ranges, c.directory);
        family(self) == family(other)
    }
}

/// A design that may be the result.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// In short.
    pub choice: Choice,
    /// As a whole.
    pub design: Design,
    /// Joules that its capacitors have, by the full count.
    pub energy_j: f64,
}

impl Candidate {
    /// The energy as a number that is equal for candidates that need as many programs.
    pub(super) fn level(&self) -> u64 {
        (self.energy_j * 1e12).round() as u64
    }
}

/// Bytes of an entry of the journal of units, and of a changed map entry, in a dump.
const UNIT_ENTRY: u32 = 16;
const MAP_ENTRY: u32 = 8;
/// Bytes of a sector.
const SECTOR: u32 = 4096;

/// Write buffers, in quarters of what all dies program at a time.
const BUFFERS: [u32; 8] = [1, 2, 3, 4, 5, 6, 8, 16];

/// Programs for what is kept of the map.
const PROGRAMS: [u32; 11] = [1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256];

/// KiB of the write buffers to choose from, rising.
fn buffers(base: &Design) -> Vec<u32> {
    let g = &base.geometry;
    let (row_kib, unit) = (g.row_sectors() * 4, base.cache.atomic_unit_kib);
    let all = g.dies() * row_kib;
    let sizes = BUFFERS.iter().map(|n| (all * n / 4).next_multiple_of(4));
    let mut sizes: Vec<u32> = sizes.filter(|kib| *kib >= unit.max(2 * row_kib)).collect();
    sizes.dedup();
    sizes
}

/// All candidates around a base, those that need the least energy first.
pub(super) fn grid(base: &Design) -> Vec<Candidate> {
    let mut all = Vec::new();
    for buffer_kib in buffers(base) {
        for programs in PROGRAMS {
            for (erase_abort, directory) in
                [(true, true), (true, false), (false, true), (false, false)]
            {
                for (keeps, ranges) in kinds(base, programs) {
                    let choice =
                        Choice { keeps, ranges, directory, buffer_kib, programs, erase_abort };
                    all.extend(candidate(base, choice));
                }
            }
        }
    }
    all.sort_by_key(|c: &Candidate| (c.level(), c.choice));
    all
}

/// What can be done with so many programs of a dump.
fn kinds(base: &Design, programs: u32) -> Vec<(Keeps, Option<u32>)> {
    let mut all = vec![
        (Keeps::Pages, None),
        (Keeps::Entries { whole: false }, None),
        (Keeps::Entries { whole: true }, None),
    ];
    let entries = journal_entries(base, programs);
    if programs > 1 && journal_entries(base, programs - 1) == entries {
        return all;
    }
    let ranges = || std::iter::successors(Some(base.journal_slack()), |n| n.checked_mul(2));
    // Whatever its size, it is spilled when it is full.
    let elastic = ranges().take_while(|n| *n <= most_entries(base) / 2).map(Some);
    // The map is stored when half of the journal is full, in any case.
    let bounded = ranges().take_while(|n| *n < entries / 2).map(Some).chain([None]);
    let both = elastic.map(|bound| (true, bound)).chain(bounded.map(|bound| (false, bound)));
    for (elastic, bound) in both {
        let units = |summary| (Keeps::Units { summary, elastic }, bound);
        all.extend([units(false), units(true)]);
    }
    all
}

fn journal_entries(base: &Design, programs: u32) -> u32 {
    (programs * base.geometry.row_sectors() * (SECTOR / UNIT_ENTRY)).min(most_entries(base))
}

fn most_entries(base: &Design) -> u32 {
    (base.geometry.units() / 4).max(4 * base.journal_slack())
}

/// The design of this choice; `None` if it cannot be built.
fn candidate(base: &Design, choice: Choice) -> Option<Candidate> {
    let mut design = protected(base);
    design.cache.buffer_kib = choice.buffer_kib;
    design.power.erase_abort = choice.erase_abort;
    design.map.directory = choice.directory;
    let sectors = choice.programs * design.geometry.row_sectors();
    let map = &mut design.map;
    match choice.keeps {
        // (One row more, for units that went bad.)
        Keeps::Pages => {
            let row = design.geometry.row_sectors();
            map.dirty_pages_max = sectors.checked_sub(row).filter(|n| *n > 0)?;
        }
        // (One sector more, which is not full.)
        Keeps::Entries { whole } => {
            (map.dirty_max, map.whole) = ((sectors - 1) * (SECTOR / MAP_ENTRY), whole);
        }
        Keeps::Units { summary, elastic } => {
            (map.kept, map.summary, map.elastic) = (Kept::Units, summary, elastic);
            map.checkpoint_share = base.map.checkpoint_share;
            map.checkpoint_idle = base.map.checkpoint_idle;
            map.journal_entries = journal_entries(base, choice.programs);
            map.journal_ranges = choice.ranges.unwrap_or(map.journal_entries);
        }
    }
    if choice.keeps == Keeps::Pages {
        design.map.dirty_max = design.map.dirty_pages_max.saturating_mul(SECTOR / 4).max(1024);
    }
    built(design).map(|(design, energy_j)| Candidate { choice, design, energy_j })
}

/// The base with nothing bounded yet, and capacitors as it needs.
fn protected(base: &Design) -> Design {
    let mut design = base.clone();
    design.cache.mode = CacheMode::Protected;
    design.power.joules = 0.0;
    let map = &mut design.map;
    (map.kept, map.summary, map.whole, map.dirty_pages_max) = (Kept::Entries, false, false, 0);
    (map.elastic, map.checkpoint_share, map.checkpoint_idle) = (false, 0.0, false);
    design
}

/// The design that all are compared with: the whole map is protected, and the buffer is the
/// largest.
pub(super) fn full_protection(base: &Design) -> Result<(Design, f64), String> {
    let layout = base.check().map_err(|e| e.to_string())?;
    let mut design = protected(base);
    design.name = "full protection".into();
    design.cache.buffer_kib = buffers(base).last().copied().unwrap_or(base.cache.buffer_kib);
    // Nothing is stored before three quarters are changed.
    let entries = layout.map_pages.saturating_mul(SECTOR / 4);
    design.map.dirty_max = (entries / 3).saturating_mul(4).saturating_add(4096);
    let error = |d: &Design| d.check().err().map_or(String::new(), |e| e.to_string());
    let told = design.clone();
    built(design).ok_or_else(|| format!("full protection: {}", error(&with_room(told))))
}

/// With dump areas that are large enough, and its energy.
fn built(design: Design) -> Option<(Design, f64)> {
    let design = with_room(design);
    let layout = design.check().ok()?;
    let energy_j = EnergyModel::of(&design, &layout).full().total_j();
    Some((design, energy_j))
}

fn with_room(mut design: Design) -> Design {
    if let Err(DesignError::Layout { error, .. }) = design.check()
        && let LayoutError::Dump { units, have, buffer, map, slack, .. } = error
    {
        let rows = have / u64::from(units.max(1));
        let need = (buffer + map + 2 + slack).div_ceil(rows.max(1));
        design.map.dump_units = u32::try_from(need).unwrap_or(u32::MAX);
    }
    design
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(name: &str) -> Design {
        let changes = "[geometry]\nchannels = 2\npackages = 2\nchips = 1\nplanes = 1\nblocks = 64\npages = 32\n\
                       [space]\nover_provisioning = 60\n[cache]\nbuffer_kib = 64\natomic_unit_kib = 16\n[map]\nwrite_points = 2\n";
        Design::preset(name).unwrap().with_overrides(&changes.parse().unwrap()).unwrap()
    }

    #[test]
    fn what_is_kept_fills_its_programs() {
        let base = base("spartan-es");
        let all = grid(&base);
        assert!(all.is_sorted_by_key(Candidate::level));
        for c in &all {
            let energy = |d: &Design| EnergyModel::of(d, &d.check().unwrap()).full().total_j();
            assert_eq!(energy(&c.design), c.energy_j);
            // One more of what is kept costs more, unless it is all there can be.
            let mut more = c.design.clone();
            match c.choice.keeps {
                Keeps::Pages => more.map.dirty_pages_max += 1,
                Keeps::Entries { .. } => more.map.dirty_max += 1,
                Keeps::Units { .. } => more.map.journal_entries += 1,
            }
            let mut whole = full_protection(&base).unwrap().0;
            whole.map.directory = c.choice.directory;
            let most =
                energy(&Design { cache: c.design.cache.clone(), power: c.design.power, ..whole });
            let units = matches!(c.choice.keeps, Keeps::Units { .. });
            let is_most = units && more.map.journal_entries > 4 * base.journal_slack();
            assert!(energy(&more) > c.energy_j || c.energy_j >= most || is_most, "{:?}", c.choice);
        }
        // Each kind is there, and those of a level need as many programs.
        for keeps in [
            Keeps::Pages,
            Keeps::Entries { whole: false },
            Keeps::Entries { whole: true },
            Keeps::Units { summary: false, elastic: false },
            Keeps::Units { summary: true, elastic: false },
            Keeps::Units { summary: false, elastic: true },
            Keeps::Units { summary: true, elastic: true },
        ] {
            for directory in [false, true] {
                let is = |c: &Choice| (c.keeps, c.directory) == (keeps, directory);
                assert!(all.iter().any(|c| is(&c.choice)), "{keeps:?}, directory {directory}");
            }
        }
        let same = |a: &&Candidate| a.choice.buffer_kib == 64 && a.choice.programs == 8;
        let kind = |c: &Candidate| (c.choice.erase_abort, c.choice.directory);
        let levels: Vec<_> = all.iter().filter(same).map(|c| (kind(c), c.level())).collect();
        assert!(
            levels.iter().all(|l| levels.iter().all(|m| l.0 != m.0 || l.1 == m.1)),
            "{levels:?}"
        );
    }

    #[test]
    fn the_promises_of_the_base_are_kept() {
        let mut base = base("spartan-b");
        base.cache.atomic_unit_kib = 48;
        assert!(grid(&base).iter().all(|c| c.design.cache.buffer_kib >= 48));
        let (full, joules) = full_protection(&base).unwrap();
        assert!(full.is_protected() && joules > 0.0);
        let layout = full.check().unwrap();
        assert!(full.map.dirty_max / 4 * 3 >= layout.map_pages * 1024);
    }
}
