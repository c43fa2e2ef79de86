//! What it takes to survive a power loss, in joules (Lee et al., "SpartanSSD: a Reliable
//! SSD under Capacitance Constraints", the energy model).
//!
//! 1. Durability: what is protected is programmed, a row of all planes at a time; each
//!    such program takes the power of a chip for the time of a program.
//! 2. Consistency: what is in flight is finished; at worst each chip has just begun that operation
//!    which takes the most, be it a program or an erase.
//! 3. Two counts stand side by side and are never mixed: the published one has only the
//!    mapping table and the metadata of collection, the full one has every component.

use crate::design::layout::{DUMP_SLACK_ROWS, dumped_map_sectors};
use crate::format::entries::{DELTA_ENTRIES, MAP_PAGE_ENTRIES};
use crate::{Design, Layout};
use serde::{Deserialize, Serialize};
use tantalum_nand::SECTOR_BYTES;

/// The energy that a drive has when the host's power is gone, and what draws on it. A drive without
/// protection has none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PowerDesign {
    /// Joules in the capacitors; 0: as many as a dump can take at worst ([`EnergyModel::full`]).
    ///
    /// *Source*: SpartanSSD: energy of programs and erases.
    pub joules: f64,
    /// What a chip draws while it programs, mW (SpartanSSD: 82.5).
    ///
    /// *Source*: SpartanSSD.
    pub program_mw: f64,
    /// What a chip draws while it erases, mW (SpartanSSD: 82.5).
    ///
    /// *Source*: SpartanSSD.
    pub erase_mw: f64,
    /// Erases under way are stopped, and done again after the restart (SpartanSSD, selective
    /// abort).
    ///
    /// *Source*: SpartanSSD: selective abort.
    pub erase_abort: bool,
}

impl Default for PowerDesign {
    fn default() -> PowerDesign {
        PowerDesign { joules: 0.0, program_mw: 82.5, erase_mw: 82.5, erase_abort: false }
    }
}

impl Design {
    /// Joules that the capacitors of a drive of this design have.
    pub fn joules(&self, layout: &Layout) -> f64 {
        match self.power.joules {
            0.0 => EnergyModel::of(self, layout).full().total_j(),
            joules => joules,
        }
    }
}

impl PowerDesign {
    /// Checks the values.
    pub(crate) fn check(&self) -> Result<(), String> {
        const MOST: f64 = 1e6;
        for (name, value) in [
            ("power.joules", self.joules),
            ("power.program_mw", self.program_mw),
            ("power.erase_mw", self.erase_mw),
        ] {
            if !(0.0..=MOST).contains(&value) {
                return Err(format!("{name} is {value}; it must be at least 0 and at most {MOST}"));
            }
        }
        Ok(())
    }
}

/// A part of the drive's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Component {
    /// What it is.
    pub name: &'static str,
    /// Its size, bytes.
    pub bytes: u64,
    /// Whether capacitors keep it.
    pub protected: bool,
    /// Whether the published count includes it.
    pub published: bool,
}

/// The two terms of a budget, joules.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// To program what is protected.
    pub durability_j: f64,
    /// To finish what is in flight on every chip.
    pub consistency_j: f64,
}

impl Budget {
    /// Both terms.
    pub fn total_j(&self) -> f64 {
        self.durability_j + self.consistency_j
    }
}

/// What can be in flight on a chip, at worst, and has to be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum InFlight {
    /// Nothing has to be finished: what is torn was not promised.
    Nothing,
    /// A program; an erase may be aborted, and is done again at the restart.
    Program,
    /// An erase, or a program if that takes more.
    Erase,
}

/// A drive as its energy model sees it.
///
/// See [`EnergyModel::of`] for an example.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnergyModel {
    /// What it is called.
    pub name: String,
    /// Power of a chip.
    pub power: PowerDesign,
    /// Time of a program, µs.
    pub program_us: u64,
    /// Time of an erase, µs.
    pub erase_us: u64,
    /// Chips (dies).
    pub chips: u32,
    /// Bytes that one program moves: a page on each plane.
    pub program_bytes: u64,
    /// The memory.
    pub memory: Vec<Component>,
    /// What must be finished.
    pub in_flight: InFlight,
}

/// What a saving is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SavingCount {
    /// Bytes of protected memory.
    Memory,
    /// Energy of both terms, by the published count.
    Paper,
    /// Energy of both terms, by the full count.
    Full,
}

/// What the published drive needs less than with full protection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saving {
    /// With this protection.
    pub drive: String,
    /// Of what.
    pub count: SavingCount,
    /// Per cent, as published; `None` if it was not.
    pub published_percent: Option<f64>,
    /// Per cent, from the parameters.
    pub percent: f64,
}

/// Metadata of collection for each block: a bit for each of 256 pages and a count. With it
/// the published sizes come out: 9 MiB for 512 GiB.
const COLLECTION_BYTES: u64 = 36;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl EnergyModel {
    /// The drive of the publication: 512 GB, 64 chips, pages of 8 KiB, a program of two
    /// planes. Its sizes are those that are printed.
    fn published(name: &str, journaling: bool, in_flight: InFlight) -> EnergyModel {
        let part =
            |name, bytes, protected, published| Component { name, bytes, protected, published };
        let mut memory = vec![
            part("write buffer", 128 * KIB, true, false),
            part("mapping table", 512 * MIB, !journaling, !journaling),
            part("map directory", MIB, true, false),
            part("allocation metadata", MIB, true, false),
            part("collection metadata", 9 * MIB, true, true),
        ];
        if journaling {
            memory.push(part("journal area", 16 * KIB, true, false));
        }
        EnergyModel {
            name: name.into(),
            power: PowerDesign::default(),
            program_us: 1300,
            erase_us: 3800,
            chips: 64,
            program_bytes: 16 * KIB,
            memory,
            in_flight,
        }
    }

    /// The published drive under the three protections that the publication compares.
    pub fn all_published() -> Vec<EnergyModel> {
        EnergyModel::three().into()
    }

    fn three() -> [EnergyModel; 3] {
        [
            EnergyModel::published("full protection", false, InFlight::Erase),
            EnergyModel::published("journaling", true, InFlight::Erase),
            EnergyModel::published("journaling, erase abort", true, InFlight::Program),
        ]
    }

    /// What the published drive saves beside full protection, under each count. Of the published
    /// figures 97.87 % is the share of the map in the memory. The energies as they are printed,
    /// 3.576 + 0.020 and 0.0618 + 0.020 J, make 97.73 %, and 98.1 % if erases are aborted.
    pub fn published_savings() -> Vec<Saving> {
        let [full, journaling, abort] = EnergyModel::three();
        let memory = |m: &EnergyModel| m.protected_bytes() as f64;
        let paper = |m: &EnergyModel| m.paper().total_j();
        let every = |m: &EnergyModel| m.full().total_j();
        type Measure<'a> = &'a dyn Fn(&EnergyModel) -> f64;
        let rows: [(&EnergyModel, SavingCount, Option<f64>, Measure<'_>); 6] = [
            (&journaling, SavingCount::Memory, Some(97.87), &memory),
            (&journaling, SavingCount::Paper, Some(97.73), &paper),
            (&journaling, SavingCount::Full, None, &every),
            (&abort, SavingCount::Memory, Some(97.87), &memory),
            (&abort, SavingCount::Paper, Some(98.1), &paper),
            (&abort, SavingCount::Full, None, &every),
        ];
        let saving = |(model, count, published_percent, of): (&EnergyModel, _, _, Measure<'_>)| {
            let percent = 100.0 * (1.0 - of(model) / of(&full));
            Saving { drive: model.name.clone(), count, published_percent, percent }
        };
        rows.into_iter().map(saving).collect()
    }

    /// Bytes of memory that capacitors keep.
    pub fn protected_bytes(&self) -> u64 {
        self.memory.iter().filter(|c| c.protected).map(|c| c.bytes).sum()
    }

    /// A drive of this design. Everything that its dump holds is protected, each part at its bound:
    /// the write buffer, the map entries that may have changed, and the directory if the design
    /// says so. Allocation and collection metadata are found again at a restart, and need no
    /// energy; the published count includes the metadata of collection, as the publication does.
    ///
    /// ```
    /// use tantalum_drive::{Design, EnergyModel};
    ///
    /// let joules = |preset| {
    ///     let design = Design::preset(preset)?;
    ///     Ok::<_, tantalum_drive::DesignError>(EnergyModel::of(&design, &design.check()?).full().total_j())
    /// };
    /// // The larger the part of the map that the capacitors protect, the more they must hold.
    /// assert!(joules("durassd")? < joules("full-protection")?);
    /// # Ok::<(), tantalum_drive::DesignError>(())
    /// ```
    pub fn of(design: &Design, layout: &Layout) -> EnergyModel {
        let entries = u64::from(layout.map_pages) * u64::from(MAP_PAGE_ENTRIES);
        let changed = dumped_map_sectors(design).min(entries.div_ceil(DELTA_ENTRIES.into()) + 1);
        EnergyModel::holding(design, layout, u64::from(design.cache.buffer_kib) * KIB, changed)
    }

    /// The same while it holds no more than this: bytes in the write buffer, and sectors of what
    /// has changed in the map.
    pub(crate) fn holding(
        design: &Design,
        layout: &Layout,
        buffered: u64,
        changed: u64,
    ) -> EnergyModel {
        let g = &design.geometry;
        let kept = design.is_protected();
        let entries = u64::from(layout.map_pages) * u64::from(MAP_PAGE_ENTRIES);
        let told = if design.keeps_units() { "journal of units" } else { "changed map entries" };
        let row = u64::from(g.page_bytes) * u64::from(g.planes);
        let frame = row * u64::from(1 + DUMP_SLACK_ROWS);
        let blocks = u64::from(g.units()) * u64::from(g.planes);
        let directory = u64::from(layout.map_pages) * 4;
        let part =
            |name, bytes, protected, published| Component { name, bytes, protected, published };
        let memory = vec![
            part("write buffer", buffered, kept, false),
            part(told, changed * u64::from(SECTOR_BYTES), kept, kept && !design.keeps_units()),
            part("end of the dump, rows that fail", frame, kept, false),
            part("mapping table", entries * 4, false, false),
            part("map directory", directory, design.map.directory, false),
            part("allocation metadata", blocks * 4, false, false),
            part("collection metadata", blocks * COLLECTION_BYTES, false, kept),
        ];
        EnergyModel {
            name: design.name.clone(),
            power: design.power,
            program_us: design
                .timing
                .program_by_page_us
                .iter()
                .copied()
                .fold(design.timing.program_us, u64::max),
            erase_us: design.timing.erase_us,
            chips: g.dies(),
            program_bytes: row,
            memory,
            in_flight: match kept {
                false => InFlight::Nothing,
                true if design.power.erase_abort => InFlight::Program,
                true => InFlight::Erase,
            },
        }
    }

    /// Joules to program so many bytes.
    pub fn programs_j(&self, bytes: u64) -> f64 {
        let programs = bytes.div_ceil(self.program_bytes);
        programs as f64 * self.power.program_mw / 1e3 * self.program_us as f64 / 1e6
    }

    fn consistency_j(&self) -> f64 {
        let program = self.power.program_mw / 1e3 * self.program_us as f64 / 1e6;
        let erase = self.power.erase_mw / 1e3 * self.erase_us as f64 / 1e6;
        let most = match self.in_flight {
            InFlight::Nothing => 0.0,
            InFlight::Program => program,
            InFlight::Erase => erase.max(program),
        };
        f64::from(self.chips) * most
    }

    /// Of these components, each in programs of its own.
    fn budget(&self, counts: impl Fn(&Component) -> bool) -> Budget {
        let parts = self.memory.iter().filter(|c| counts(c));
        let durability_j = parts.fold(0.0, |sum, c| sum + self.programs_j(c.bytes));
        Budget { durability_j, consistency_j: self.consistency_j() }
    }

    /// As published: mapping table and metadata of collection only.
    pub fn paper(&self) -> Budget {
        self.budget(|c| c.published)
    }

    /// Everything that is protected.
    pub fn full(&self) -> Budget {
        self.budget(|c| c.protected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, digits: i32) -> bool {
        (a - b).abs() < 0.5 * 10f64.powi(-digits)
    }

    #[test]
    fn the_published_energies_come_out_of_the_parameters() {
        let [full, journaling, abort] =
            EnergyModel::all_published().try_into().expect("three protections");
        assert!(close(full.paper().durability_j, 3.576, 3));
        assert!(close(full.paper().consistency_j, 0.020, 3));
        assert!(close(journaling.paper().durability_j, 0.0618, 4));
        assert!(close(journaling.paper().consistency_j, 0.020, 3));
        assert!(close(abort.paper().consistency_j, 64.0 * 0.0825 * 0.0013, 9));
    }

    #[test]
    fn the_published_savings_come_out_each_by_its_count() {
        let savings = EnergyModel::published_savings();
        assert_eq!(savings.iter().filter(|s| s.published_percent.is_some()).count(), 4);
        for s in &savings {
            // (The energies are printed rounded: from them 97.73, from the parameters 97.724.)
            let near = |published: f64| (s.percent - published).abs() < 0.02;
            assert!(s.published_percent.is_none_or(near), "{s:?}");
        }
        let by = |drive: usize, count| savings[3 * drive + count as usize].percent;
        assert!(close(by(0, SavingCount::Memory), 97.87, 2));
        assert!(close(by(0, SavingCount::Paper), 97.724, 3));
        assert!(close(by(1, SavingCount::Paper), 98.1, 1));
        assert!(by(0, SavingCount::Full) < by(0, SavingCount::Paper), "more is counted that stays");
        // The map's share of the memory, which the first one is published as.
        let full = &EnergyModel::all_published()[0];
        let map = full.memory.iter().find(|c| c.name == "mapping table").unwrap();
        assert!(close(100.0 * map.bytes as f64 / full.protected_bytes() as f64, 97.87, 2));
    }

    #[test]
    fn the_full_count_has_every_protected_component() {
        for model in EnergyModel::all_published() {
            let (paper, full) = (model.paper(), model.full());
            assert!(full.durability_j > paper.durability_j);
            let kept = model.protected_bytes();
            // Each component may end with a program that is not full.
            let least = model.programs_j(kept);
            let most = least + model.memory.len() as f64 * model.programs_j(1);
            assert!((least..=most).contains(&full.durability_j));
        }
    }

    /// Whatever takes longer on this flash, and draws more.
    #[test]
    fn what_is_in_flight_at_worst_is_what_takes_the_most() {
        let consistency = |program: (u64, f64), erase: (u64, f64), erase_abort| {
            let mut design = Design::preset("durassd").unwrap();
            (design.timing.program_us, design.power.program_mw) = program;
            (design.timing.erase_us, design.power.erase_mw) = erase;
            design.power.erase_abort = erase_abort;
            let model = EnergyModel::of(&design, &design.check().unwrap());
            model.full().consistency_j * 1e9 / f64::from(model.chips)
        };
        for (program, erase, abort, most) in [
            ((1300, 80.0), (3800, 80.0), false, 3800.0 * 80.0),
            ((1300, 80.0), (500, 80.0), false, 1300.0 * 80.0),
            ((1300, 80.0), (3800, 20.0), false, 1300.0 * 80.0),
            ((1300, 80.0), (3800, 80.0), true, 1300.0 * 80.0),
            ((1300, 80.0), (500, 300.0), false, 500.0 * 300.0),
        ] {
            let found = consistency(program, erase, abort);
            assert!((found - most).abs() < 1e-3, "{program:?} {erase:?} {abort}: {found}");
        }
    }

    #[test]
    fn presets_without_capacitors_need_no_energy_and_others_what_their_dump_holds() {
        for name in Design::presets() {
            let design = Design::preset(name).unwrap();
            let model = EnergyModel::of(&design, &design.check().unwrap());
            let (paper, full) = (model.paper(), model.full());
            if !design.is_protected() {
                assert_eq!((paper.total_j(), full.total_j()), (0.0, 0.0), "{name}");
                continue;
            }
            let buffer = u64::from(design.cache.buffer_kib) * 1024;
            assert!(full.durability_j > model.programs_j(buffer), "{name}");
            assert!(full.consistency_j > 0.0, "{name}");
        }
    }
}
