//! What the SSDs of a row did, and their wear.
//!
//! 1. Counters are those of the time under load, up to the cut, and, beside them, those of the time
//!    outside of it: all that lies between two loads (recovery, checks, warm-up), in which a drive
//!    goes on to collect. Everything between the first load and the last cut is in one of the two.
//!    Only dumps, which a cut begins, are counted over the whole row.
//! 2. Of several drives, counters and erase units are summed, and wear is that of all
//!    units together.

use serde::Serialize;
use tantalum_device::{counted, joules_in_words};
use tantalum_drive::{Drive, DriveStats, Wear as Worn};
use tantalum_nand::{SECTOR_BYTES, Unit};

/// Bars of a histogram of wear, at most.
pub const MOST_BUCKETS: usize = 32;

/// The figures of a row's SSDs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriveFigures {
    /// How many there are.
    pub drives: u32,
    /// Bytes of their flash.
    pub raw_bytes: u64,
    /// Bytes that they promise.
    pub capacity_bytes: u64,
    /// What they did under load.
    pub under_load: Counts,
    /// What they did outside of it, from the first load to the last cut: while they
    /// recovered, were checked and warmed up. Dumps are not in it.
    pub outside_load: Counts,
    /// Bytes that the host wrote to them outside of the load.
    pub outside_host_bytes: u64,
    /// Erase units that may hold data of the host or are free for them.
    pub data_units: u64,
    /// Of these, the units for superseded data when the whole capacity is in use and all reserves
    /// are full.
    pub spare_left_units: u64,
    /// The same, of a hundred units of the capacity; of several drives their mean.
    pub spare_left_percent: f64,
    /// Free erase units at the last look under load.
    pub free_units: u64,
    /// The fewest there were at any time with power before a look under load; `None` if
    /// there was none.
    pub free_units_least: Option<u64>,
    /// Emergency dumps that were completed.
    pub dumps: u64,
    /// Bytes programmed in emergency dumps.
    pub dump_bytes: u64,
    /// What their capacitors gave at the power cuts; `None` without capacitors.
    pub power: Option<PowerFigures>,
    /// What their restarts took.
    pub restarts: RestartFigures,
    /// How worn the erase units are.
    pub wear: Wear,
    /// How worn they were just before the last cut, by what they were for.
    pub roles: Roles,
}

/// How worn the erase units of some drives are, by what they are for; a unit that goes
/// from one use to another takes its erases with it. `None` where there are none such.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Roles {
    /// Those that hold data of the host, or are free for them.
    pub data: Option<Worn>,
    /// Those of the map log.
    pub map: Option<Worn>,
    /// Those kept for emergency dumps.
    pub dump: Option<Worn>,
}

impl Roles {
    /// Of drives that have power.
    fn of(drives: &[Drive]) -> Roles {
        let join = |a: Option<Worn>, b: Option<Worn>| match (a, b) {
            (Some(a), Some(b)) => Some(a.with(b)),
            (a, b) => a.or(b),
        };
        drives.iter().filter_map(Drive::wear).fold(Roles::default(), |all, w| Roles {
            data: join(all.data, w.data),
            map: join(all.map, w.map),
            dump: join(all.dump, w.dump),
        })
    }
}

/// What capacitors gave, over all power cuts. Of several drives each has its own: the most of
/// any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PowerFigures {
    /// Power cuts of drives that took commands, or were about to.
    pub losses: u64,
    /// Of these, with an emergency dump that was not complete.
    pub incomplete: u64,
    /// Joules in the capacitors.
    pub budget_j: f64,
    /// The most that were drawn at one cut.
    pub most_spent_j: f64,
    /// The most that were missing at one cut.
    pub most_missing_j: f64,
    /// The longest that a drive lived on them, nanoseconds.
    pub longest_ns: u64,
}

impl PowerFigures {
    /// What was missing, if a dump was not complete for lack of energy.
    pub fn shortage(&self) -> Option<String> {
        (self.incomplete > 0).then(|| {
            format!(
                "too little energy: {} of {} {} not complete; the capacitors had {}, and up to {} were \
                 missing",
                self.incomplete,
                counted(self.losses, "emergency dump", "emergency dumps"),
                if self.incomplete == 1 { "was" } else { "were" },
                joules_in_words(self.budget_j),
                joules_in_words(self.most_missing_j)
            )
        })
    }

    fn of(drives: &[Drive]) -> Option<PowerFigures> {
        let kept: Vec<_> = drives.iter().filter(|d| d.design().is_protected()).collect();
        let sum = |a: PowerFigures, drive: &Drive| {
            let b = drive.power_losses();
            PowerFigures {
                losses: a.losses + b.count,
                incomplete: a.incomplete + b.incomplete,
                budget_j: a.budget_j.max(b.budget_j),
                most_spent_j: a.most_spent_j.max(b.most_spent_j),
                most_missing_j: a.most_missing_j.max(b.most_missing_j),
                longest_ns: a.longest_ns.max(b.longest.0),
            }
        };
        (!kept.is_empty()).then(|| kept.into_iter().fold(PowerFigures::default(), sum))
    }
}

/// What restarts took, all drives together; by the names of [`tantalum_drive::PHASES`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RestartFigures {
    /// How many restarts got to taking commands.
    pub count: u64,
    /// Of these, with commands taken before all was known.
    pub early: u64,
    /// Name, mean and longest of each phase, nanoseconds.
    pub phases: Vec<(&'static str, u64, u64)>,
}

impl RestartFigures {
    fn of(drives: &[Drive]) -> RestartFigures {
        let all = drives.iter().fold(tantalum_drive::Recoveries::default(), |all, drive| {
            all.with(&drive.recoveries())
        });
        let late = ["units", "map", "space", "whole"];
        let phase = |(name, phase): (&&'static str, &tantalum_drive::Phase)| {
            // What comes after the first command may have been cut.
            let count = if late.contains(name) { all.finished } else { all.count };
            (*name, phase.sum.0 / count.max(1), phase.max.0)
        };
        let phases = tantalum_drive::PHASES.iter().zip(&all.phases).map(phase).collect();
        RestartFigures { count: all.count, early: all.early, phases }
    }
}

/// What drives count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Bytes programmed with data of the host.
    pub host_bytes: u64,
    /// Bytes programmed with data that collection moved.
    pub collection_bytes: u64,
    /// Bytes programmed with the map.
    pub map_bytes: u64,
    /// Nanoseconds that commands waited for room in the buffer, summed over commands.
    pub buffer_wait_ns: u64,
    /// Nanoseconds that flushers waited for a free erase unit, summed over dies.
    pub space_wait_ns: u64,
    /// Erase operations.
    pub erases: u64,
    /// Erase units that went bad.
    pub retired_units: u64,
    /// Write commands completed.
    pub writes: u64,
    /// Atomic groups completed.
    pub groups: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Free erase units now: a state, which is left out of sums and differences.
    pub free_units: u64,
    /// The fewest there were since the drives last started: another state.
    pub free_units_least: u64,
}

/// How often units were erased.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Wear {
    /// The least worn unit.
    pub min: u32,
    /// The mean.
    pub mean: f64,
    /// The most worn unit.
    pub max: u32,
    /// How many erase counts one bar of the histogram covers.
    pub bucket: u32,
    /// The least erase count of each bar, and its units; at most [`MOST_BUCKETS`].
    pub histogram: Vec<(u32, u64)>,
}

impl Counts {
    /// Of drives, since they were made.
    pub fn of(drives: &[Drive]) -> Counts {
        let sum = |sum: Counts, s: DriveStats| {
            let one = Counts::one(&s);
            // For several drives states are summed, too.
            Counts {
                free_units: sum.free_units + one.free_units,
                free_units_least: sum.free_units_least + one.free_units_least,
                ..sum.plus(one)
            }
        };
        drives.iter().map(Drive::stats).fold(Counts::default(), sum)
    }

    fn one(s: &DriveStats) -> Counts {
        let others = s.host_program_bytes + s.meta_bytes + s.dump_bytes;
        Counts {
            host_bytes: s.host_program_bytes,
            collection_bytes: s.flash_program_bytes.saturating_sub(others),
            map_bytes: s.meta_bytes,
            buffer_wait_ns: s.buffer_wait.0,
            space_wait_ns: s.space_wait.0,
            erases: s.erases,
            retired_units: s.retired_units,
            writes: s.host_writes,
            groups: s.host_groups,
            flushes: s.flushes,
            free_units: s.free_units,
            free_units_least: s.free_units_min,
        }
    }

    fn each(self, other: Counts, f: impl Fn(u64, u64) -> u64) -> Counts {
        Counts {
            host_bytes: f(self.host_bytes, other.host_bytes),
            collection_bytes: f(self.collection_bytes, other.collection_bytes),
            map_bytes: f(self.map_bytes, other.map_bytes),
            buffer_wait_ns: f(self.buffer_wait_ns, other.buffer_wait_ns),
            space_wait_ns: f(self.space_wait_ns, other.space_wait_ns),
            erases: f(self.erases, other.erases),
            retired_units: f(self.retired_units, other.retired_units),
            writes: f(self.writes, other.writes),
            groups: f(self.groups, other.groups),
            flushes: f(self.flushes, other.flushes),
            ..Counts::default()
        }
    }

    fn plus(self, other: Counts) -> Counts {
        self.each(other, u64::saturating_add)
    }

    fn since(self, before: Counts) -> Counts {
        self.each(before, u64::saturating_sub)
    }

    /// Bytes programmed by host, collection and map.
    pub fn programmed(&self) -> [u64; 3] {
        [self.host_bytes, self.collection_bytes, self.map_bytes]
    }
}

impl DriveFigures {
    /// Counts what was done between two looks while the power was on.
    pub fn count_load(&mut self, before: Counts, after: Counts) {
        self.under_load = self.under_load.plus(after.since(before));
        self.free_units = after.free_units;
        let least = self.free_units_least.map_or(u64::MAX, |least| least);
        self.free_units_least = Some(least.min(after.free_units_least));
    }

    /// Counts what was done between two looks, outside of the load, and what the host wrote.
    pub fn count_outside(&mut self, before: Counts, after: Counts, host_bytes: u64) {
        self.outside_load = self.outside_load.plus(after.since(before));
        self.outside_host_bytes += host_bytes;
    }

    /// Looks at what the erase units of the drives are for, which only a drive with power
    /// knows; the last look counts. It goes through all units: once for each cut, not for
    /// each reading of the counters.
    pub fn look_at_roles(&mut self, drives: &[Drive]) {
        self.roles = Roles::of(drives);
    }

    /// Looks at the drives, which need no power; the last look counts.
    pub fn look_at(&mut self, drives: &[Drive]) {
        self.drives = drives.len() as u32;
        let layouts = || drives.iter().map(Drive::layout);
        let bytes = |sectors: u64| sectors * u64::from(SECTOR_BYTES);
        self.raw_bytes = bytes(layouts().map(|l| l.raw).sum());
        self.capacity_bytes = bytes(layouts().map(|l| u64::from(l.logical)).sum());
        self.data_units = layouts().map(|l| u64::from(l.data_units)).sum();
        self.spare_left_units =
            drives.iter().map(|d| u64::from(d.layout().spare_left(d.design()))).sum();
        let percents = drives.iter().map(|d| d.layout().spare_left_percent(d.design()));
        self.spare_left_percent = percents.sum::<f64>() / drives.len().max(1) as f64;
        self.dumps = drives.iter().map(|d| d.stats().dumps).sum();
        self.dump_bytes = drives.iter().map(|d| d.stats().dump_bytes).sum();
        self.power = PowerFigures::of(drives);
        self.restarts = RestartFigures::of(drives);
        self.wear = Wear::of(drives.iter().flat_map(|d| {
            // Units kept for dumps are not levelled with the others.
            let g = &d.design().geometry;
            let units = (0..g.units()).map(Unit);
            let levelled = units.filter(|unit| !d.layout().keeps_for_dumps(g, *unit));
            levelled.map(|unit| d.array().erase_count(unit))
        }));
    }

    /// (raw − promised) / promised, in per cent, everything included; below 0 of thinly
    /// provisioned drives.
    pub fn over_provisioning_percent(&self) -> f64 {
        let spare = self.raw_bytes as f64 - self.capacity_bytes as f64;
        100.0 * spare / self.capacity_bytes.max(1) as f64
    }
}

impl Wear {
    /// Of units with these erase counts.
    pub fn of(counts: impl Iterator<Item = u32> + Clone) -> Wear {
        let (mut units, mut sum) = (0_u64, 0_u64);
        let (mut min, mut max) = (u32::MAX, 0);
        for count in counts.clone() {
            units += 1;
            sum += u64::from(count);
            min = min.min(count);
            max = max.max(count);
        }
        if units == 0 {
            return Wear::default();
        }
        let values = u64::from(max - min) + 1;
        let bucket = values.div_ceil(MOST_BUCKETS as u64) as u32;
        let bars = values.div_ceil(u64::from(bucket)) as u32;
        let mut histogram: Vec<(u32, u64)> = (0..bars).map(|i| (min + i * bucket, 0)).collect();
        for count in counts {
            histogram[((count - min) / bucket) as usize].1 += 1;
        }
        Wear { min, mean: sum as f64 / units as f64, max, bucket, histogram }
    }

    /// How much more the most worn unit was erased than the least worn.
    pub fn spread(&self) -> u32 {
        self.max - self.min
    }

    /// All units.
    pub fn units(&self) -> u64 {
        self.histogram.iter().map(|b| b.1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_shortage_has_its_numbers_in_words() {
        let told = |incomplete, losses| {
            let figures = PowerFigures { incomplete, losses, ..PowerFigures::default() };
            figures.shortage().expect("a dump is not complete")
        };
        let (one, two) = (told(1, 1), told(2, 3));
        assert!(one.contains(": 1 of 1 emergency dump was not complete; "), "{one}");
        assert!(two.contains(": 2 of 3 emergency dumps were not complete; "), "{two}");
    }

    #[test]
    fn counters_are_differences_and_add_up() {
        let one = |n: u64| {
            let flash_program_bytes = 10 * n;
            let (host_program_bytes, meta_bytes, dump_bytes) = (3 * n, 2 * n, n);
            let counted = DriveStats { flash_program_bytes, host_program_bytes, ..<_>::default() };
            Counts::one(&DriveStats { meta_bytes, dump_bytes, erases: n, ..counted })
        };
        assert_eq!(one(5).programmed(), [15, 20, 10]);
        assert_eq!(one(5).since(one(2)), one(3));
        assert_eq!(one(5).plus(one(2)), one(7));
        // Of free units the last look counts, and the least of all looks.
        let look = |free_units, free_units_least| Counts {
            free_units,
            free_units_least,
            ..one(free_units)
        };
        let mut figures = DriveFigures::default();
        for (before, after) in [(look(9, 8), look(10, 3)), (look(20, 20), look(21, 5))] {
            figures.count_load(before, after);
        }
        assert_eq!((figures.free_units, figures.free_units_least), (21, Some(3)));
        assert_eq!(figures.under_load.host_bytes, 2 * 3);
    }

    #[test]
    fn over_provisioning_is_what_is_spare_of_what_is_promised() {
        let f = DriveFigures { raw_bytes: 125, capacity_bytes: 100, ..DriveFigures::default() };
        assert_eq!(f.over_provisioning_percent(), 25.0);
        let thin = DriveFigures { capacity_bytes: 250, ..f };
        assert_eq!(thin.over_provisioning_percent(), -50.0);
        assert_eq!(DriveFigures::default().over_provisioning_percent(), 0.0);
        assert_eq!(Wear::of(std::iter::empty()), Wear::default());
    }

    proptest! {
        /// Each unit is in the bar of its count, bars follow each other, and are few.
        #[test]
        fn a_histogram_has_every_unit(
            counts in prop::collection::vec(prop_oneof![0_u32..9, 0_u32..5000, Just(u32::MAX)], 1..300)
        ) {
            let wear = Wear::of(counts.iter().copied());
            prop_assert!(wear.histogram.len() <= MOST_BUCKETS);
            prop_assert_eq!(wear.min, *counts.iter().min().unwrap());
            prop_assert_eq!(wear.max, *counts.iter().max().unwrap());
            prop_assert_eq!(wear.units(), counts.len() as u64);
            prop_assert_eq!(wear.histogram[0].0, wear.min);
            for &(from, units) in &wear.histogram {
                let end = u64::from(from) + u64::from(wear.bucket);
                let inside = |c: &&u32| **c >= from && u64::from(**c) < end;
                prop_assert_eq!(counts.iter().filter(inside).count() as u64, units);
            }
        }
    }
}
