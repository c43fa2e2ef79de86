//! Erase units against a plain list of what each holds.

use crate::Collector;
use crate::design::layout::SHARED_RESERVE;
use crate::format::words::{Places, Ppa, Version};
use crate::state::space::{FreeUnit, Space, WriteStream};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tantalum_nand::{Geometry, Unit};

const GEOMETRY: Geometry = Geometry {
    channels: 2,
    packages: 1,
    chips: 1,
    planes: 2,
    blocks: 6,
    pages: 2,
    page_bytes: 8192,
    oob_bytes: 64,
};

#[derive(Clone, Debug)]
enum Step {
    Open(u32, bool),
    Program(u32, bool, u32),
    /// Which of the programs under way ends, and which of its sectors count.
    Land(usize, u8),
    Invalidate(usize),
    /// Takes a victim and gives it back, or frees it if it is empty.
    Collect(u32, u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..2u32, any::<bool>()).prop_map(|(d, s)| Step::Open(d, s)),
        6 => (0..2u32, any::<bool>(), 1..4u32).prop_map(|(d, s, n)| Step::Program(d, s, n)),
        6 => (any::<usize>(), any::<u8>()).prop_map(|(w, m)| Step::Land(w, m)),
        6 => any::<usize>().prop_map(Step::Invalidate),
        2 => (0..2u32, 1..9u32).prop_map(|(d, b)| Step::Collect(d, b)),
    ]
}

fn stream(moved: bool) -> WriteStream {
    if moved { WriteStream::Moved } else { WriteStream::Host }
}

/// What is known without counters and lists.
#[derive(Default)]
struct World {
    valid: BTreeSet<u32>,
    free: BTreeSet<u32>,
    /// Pages programmed in each unit that is not free.
    written: BTreeMap<u32, u32>,
    flying: Vec<(Unit, u32, u32)>,
    superseded: BTreeMap<u32, u64>,
    version: u64,
}

impl World {
    fn valid_in(&self, unit: u32) -> u32 {
        let sectors = GEOMETRY.unit_sectors();
        self.valid.range(unit * sectors..(unit + 1) * sectors).count() as u32
    }

    /// Full, with nothing under way.
    fn collectable(&self, die: u32) -> impl Iterator<Item = u32> + '_ {
        let flies = |unit: u32| self.flying.iter().any(|f| f.0.0 == unit);
        let full = self.written.iter().filter(|w| *w.1 == GEOMETRY.unit_pages());
        full.map(|w| *w.0).filter(move |&u| GEOMETRY.die(Unit(u)) == die && !flies(u))
    }
}

/// Carries out a step in the model and in the space, and compares what the space answers.
fn apply(
    step: Step,
    space: &mut Space,
    places: &Places,
    world: &mut World,
) -> Result<(), TestCaseError> {
    match step {
        Step::Open(die, moved) => {
            if space.has_point(die, stream(moved)) {
                return Ok(());
            }
            let on_die = world.free.iter().filter(|u| GEOMETRY.die(Unit(**u)) == die).count();
            let spare = on_die > 1 && world.free.len() as u32 > 2 + SHARED_RESERVE;
            let may = if moved { on_die > 0 } else { spare };
            let free = space.take_free(die, stream(moved));
            // Invariant 3: the reserve is the collectors'.
            prop_assert_eq!(free.is_some(), may);
            if let Some(free) = free {
                prop_assert!(world.free.remove(&free.unit.0));
                world.written.insert(free.unit.0, 0);
                space.open(stream(moved), free.unit, 0);
            }
        }
        Step::Program(die, moved, pages) => {
            let left = space.row_left(die, stream(moved));
            let Some((at, count)) = space.place(die, stream(moved), pages) else { return Ok(()) };
            prop_assert_eq!(count, pages.min(left));
            prop_assert_eq!(at.page / 2, (at.page + count - 1) / 2, "one row");
            let written = world.written.get_mut(&at.unit.0).unwrap();
            prop_assert_eq!(*written, at.page, "page by page");
            *written += count;
            let first = places.ppa(at, 0).0;
            world.flying.push((at.unit, first, count * places.page_sectors));
        }
        Step::Land(which, mask) => {
            if world.flying.is_empty() {
                return Ok(());
            }
            let (unit, first, count) = world.flying.remove(which % world.flying.len());
            for i in (0..count).filter(|i| mask >> i & 1 == 1) {
                space.validate(Ppa(first + i));
                world.valid.insert(first + i);
            }
            space.landed(unit, count / places.page_sectors);
        }
        Step::Invalidate(which) => {
            let Some(&ppa) = world.valid.iter().nth(which % world.valid.len().max(1)) else {
                return Ok(());
            };
            world.valid.remove(&ppa);
            world.version += 1;
            space.invalidate(Ppa(ppa), Version(world.version));
            world.superseded.insert(places.unit(Ppa(ppa)).0, world.version);
        }
        Step::Collect(die, below) => {
            let victim = space.take_victim(die, below);
            let least = world.collectable(die).map(|u| world.valid_in(u)).min();
            // Units of 8 sectors: a bucket for each count.
            prop_assert_eq!(victim.map(|u| world.valid_in(u.0)), least.filter(|l| *l < below));
            let Some(unit) = victim else { return Ok(()) };
            prop_assert!(world.collectable(die).any(|u| u == unit.0));
            let first = world.valid_in(unit.0);
            let found = space.next_valid(unit, 0);
            prop_assert_eq!(found.is_some(), first > 0);
            if first > 0 {
                space.file(unit);
                return Ok(());
            }
            let superseded = world.superseded.remove(&unit.0).unwrap_or(0);
            prop_assert_eq!(space.superseded(unit), Version(superseded));
            world.written.remove(&unit.0);
            world.free.insert(unit.0);
            space.give_free(FreeUnit { unit, erase_first: false }, 0);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn units_are_where_they_belong(steps in prop::collection::vec(step(), 1..200)) {
        let places = Places::of(&GEOMETRY);
        let mut space = Space::new(&GEOMETRY, Places::of(&GEOMETRY), Collector::Greedy, false);
        let mut world = World::default();
        for unit in 0..GEOMETRY.units() {
            space.give_free(FreeUnit { unit: Unit(unit), erase_first: false }, 0);
            world.free.insert(unit);
        }
        for step in steps {
            apply(step, &mut space, &places, &mut world)?;
            for unit in 0..GEOMETRY.units() {
                prop_assert_eq!(space.valid_in(Unit(unit)), world.valid_in(unit));
            }
            for die in 0..2 {
                let free = world.free.iter().filter(|u| GEOMETRY.die(Unit(**u)) == die).count();
                prop_assert_eq!(space.free_units(die), free as u32);
            }
        }
    }
}
