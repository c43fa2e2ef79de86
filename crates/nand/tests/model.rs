//! Random operations and cuts against a model that is too simple to be wrong: a
//! list of what was issued, and when the array says it ran.

mod common;

use common::*;
use proptest::prelude::*;
use tantalum_device::{Data, Payload};
use tantalum_nand::{NandArray, OpError, OpKind, OpRecord, PageState, Unit};
use tantalum_rt::Nanos;

#[derive(Clone, Debug)]
enum Step {
    /// At the place where the unit goes on, plus `off` (0 keeps the rule).
    Program {
        unit: u32,
        off: u32,
        pages: u32,
    },
    Erase {
        unit: u32,
    },
    Read {
        unit: u32,
        page: u32,
    },
    Wait {
        ns: u64,
    },
    Cut,
    /// Go on from a snapshot.
    Fork,
}

fn step() -> impl Strategy<Value = Step> {
    let unit = || 0..12u32;
    prop_oneof![
        12 => (unit(), prop_oneof![8 => Just(0), 1 => 1..8u32], 1..3u32)
            .prop_map(|(unit, off, pages)| Step::Program { unit, off, pages }),
        3 => unit().prop_map(|unit| Step::Erase { unit }),
        6 => (unit(), 0..8u32).prop_map(|(unit, page)| Step::Read { unit, page }),
        4 => prop_oneof![0..200u64, 0..200_000u64, 0..4_000_000u64, Just(TPROG), Just(PAGE_MOVE)]
            .prop_map(|ns| Step::Wait { ns }),
        2 => Just(Step::Cut),
        1 => Just(Step::Fork),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Page {
    Erased,
    Holds(u64, usize),
    /// Torn or complete: the first look decides, for good.
    Perhaps(u64, usize),
    Torn,
}

#[derive(Clone, Debug)]
struct UnitModel {
    pages: [Page; 8],
    next: u32,
    wear: u32,
    half_erased: bool,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Program { unit: usize, at: u32, pages: u32, tag: u64 },
    Erase { unit: usize },
}

/// What has certainly ended, and what was issued since.
struct Model {
    settled: Vec<UnitModel>,
    issued: Vec<(Change, OpRecord)>,
}

fn apply(units: &mut [UnitModel], change: Change, torn: bool) {
    match change {
        Change::Program { unit, at, pages, tag } => {
            let u = &mut units[unit];
            for i in 0..pages as usize {
                u.pages[at as usize + i] =
                    if torn { Page::Perhaps(tag, i) } else { Page::Holds(tag, i) };
            }
            u.next = at + pages;
        }
        Change::Erase { unit } => {
            let u = &mut units[unit];
            *u = UnitModel {
                pages: [if torn { Page::Torn } else { Page::Erased }; 8],
                next: 0,
                wear: u.wear + 1,
                half_erased: torn,
            };
        }
    }
}

impl Model {
    fn new() -> Model {
        let blank = UnitModel { pages: [Page::Erased; 8], next: 0, wear: 0, half_erased: false };
        Model { settled: vec![blank; 12], issued: Vec::new() }
    }

    /// As seen while there is power: everything that was issued.
    fn seen(&self) -> Vec<UnitModel> {
        let mut units = self.settled.clone();
        for (change, _) in &self.issued {
            apply(&mut units, *change, false);
        }
        units
    }

    fn cut(&mut self, now: Nanos) {
        for (change, op) in std::mem::take(&mut self.issued) {
            if op.end <= now {
                apply(&mut self.settled, change, false);
            } else if op.start < now {
                apply(&mut self.settled, change, true);
            }
        }
    }

    /// Compares one page, and learns what became of a torn one.
    fn check(&mut self, a: &NandArray, unit: usize, at: u32) {
        let (addr, want) = (page(Unit(unit as u32), at), self.seen()[unit].pages[at as usize]);
        match want {
            Page::Erased => assert_erased(a, addr),
            Page::Torn => assert_unreadable(a, addr),
            Page::Holds(tag, i) => assert_holds(a, addr, tag, i),
            Page::Perhaps(tag, i) => {
                let found = match state(a, addr) {
                    PageState::Uncorrectable => Page::Torn,
                    _ => Page::Holds(tag, i),
                };
                if found == Page::Torn {
                    assert_unreadable(a, addr);
                } else {
                    assert_holds(a, addr, tag, i);
                }
                self.settled[unit].pages[at as usize] = found;
            }
        }
    }

    fn check_all(&mut self, a: &NandArray) {
        for unit in 0..12 {
            for at in 0..8 {
                self.check(a, unit, at);
            }
            assert_eq!(a.erase_count(Unit(unit as u32)), self.seen()[unit].wear);
        }
    }
}

/// The record of the operation issued last: times are plausible, and kept apart by die.
fn record(a: &NandArray, kind: OpKind, die_ends: &mut Nanos, now: Nanos) -> OpRecord {
    let ops = a.take_ops();
    assert_eq!(ops.len(), 1);
    assert_eq!((ops[0].kind, ops[0].issued), (kind, now));
    assert!(ops[0].start >= now && ops[0].start >= *die_ends, "two operations at a time");
    *die_ends = ops[0].end;
    ops[0]
}

fn play(seed: u64, steps: Vec<Step>) -> u64 {
    run(seed, move |rt| async move {
        let g = geometry();
        let mut a = array(&rt, Payload::Stamps);
        a.record_ops();
        let mut model = Model::new();
        let mut die_ends = [Nanos::ZERO; 4];
        for (tag, step) in steps.into_iter().enumerate() {
            let (tag, now) = (tag as u64 + 1, rt.now());
            match step {
                Step::Program { unit, off, pages } => {
                    let u = &model.seen()[unit as usize];
                    let at = (u.next + off) % 8;
                    let allowed = at == u.next && !u.half_erased && at % 2 + pages <= 2;
                    let (data, words) = (stamps(tag, pages), oob(tag, pages));
                    let done = a.program(page(Unit(unit), at), Data::Stamps(&data), &words);
                    assert_eq!(done.is_ok(), allowed, "unit {unit} page {at}, {pages} pages");
                    match done {
                        Ok(end) => drop(end),
                        Err(e) => {
                            assert!(matches!(e, OpError::Rule { .. }));
                            continue;
                        }
                    }
                    let die = g.die(Unit(unit)) as usize;
                    let op = record(&a, OpKind::Program, &mut die_ends[die], now);
                    assert_eq!(op.end - op.start, Nanos(TPROG));
                    let unit = unit as usize;
                    model.issued.push((Change::Program { unit, at, pages, tag }, op));
                }
                Step::Erase { unit } => {
                    wipe(&a, Unit(unit));
                    let die = g.die(Unit(unit)) as usize;
                    let op = record(&a, OpKind::Erase, &mut die_ends[die], now);
                    assert_eq!(op.end - op.start, Nanos(TBERS));
                    model.issued.push((Change::Erase { unit: unit as usize }, op));
                }
                Step::Read { unit, page: at } => {
                    model.check(&a, unit as usize, at);
                    // A look at a torn page takes two reads.
                    for op in a.take_ops() {
                        let ends = &mut die_ends[g.die(Unit(unit)) as usize];
                        assert!(op.start >= now && op.start >= *ends);
                        assert_eq!(op.end - op.start, Nanos(TR));
                        *ends = op.end;
                    }
                }
                Step::Wait { ns } => rt.sleep(Nanos(ns)).await,
                Step::Cut => {
                    a.power_off();
                    model.cut(now);
                    a.power_on();
                    die_ends = [now; 4];
                }
                Step::Fork => {
                    let image = a.snapshot();
                    let old = std::mem::replace(&mut a, NandArray::from_image(&rt, &image).into());
                    a.record_ops();
                    // The original goes its own way.
                    for unit in 0..12 {
                        wipe(&old, Unit(unit));
                    }
                    old.power_off();
                }
            }
        }
        model.check_all(&a);
        a.power_off();
        model.cut(rt.now());
        a.power_on();
        model.check_all(&a);
        rt.sleep(Nanos::from_secs(1)).await;
        model.check_all(&a);
        rt.trace_hash()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_array_does_what_the_model_says(
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let hash = play(seed, steps.clone());
        prop_assert_eq!(hash, play(seed, steps), "the same seed, another run");
    }
}
