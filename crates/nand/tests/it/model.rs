//! Random operations and cuts against a simple model: a list of what was issued, and a slow
//! simulation of when it runs.

use crate::common::reference::Reference;
use crate::common::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{Data, Payload};
use tantalum_nand::{NandArray, OpError, OpKind, PageState, Timing, Unit};
use tantalum_rt::Nanos;

#[derive(Clone, Debug)]
enum Step {
    /// At the next page of the unit plus `off` (0 keeps the rule).
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
    /// A read that a task awaits.
    Await {
        unit: u32,
        page: u32,
    },
    Wait {
        ns: u64,
    },
    Cut,
    /// Continue from a snapshot.
    Fork,
}

fn step() -> impl Strategy<Value = Step> {
    let unit = || 0..12u32;
    prop_oneof![
        12 => (unit(), prop_oneof![8 => Just(0), 1 => 1..8u32], 1..3u32)
            .prop_map(|(unit, off, pages)| Step::Program { unit, off, pages }),
        3 => unit().prop_map(|unit| Step::Erase { unit }),
        6 => (unit(), 0..8u32).prop_map(|(unit, page)| Step::Read { unit, page }),
        6 => (unit(), 0..8u32).prop_map(|(unit, page)| Step::Await { unit, page }),
        6 => prop_oneof![0..200u64, Just(20_000), Just(50_000), Just(TR), 0..200_000u64, 0..4_000_000u64, Just(TPROG), Just(PAGE_MOVE)]
            .prop_map(|ns| Step::Wait { ns }),
        2 => Just(Step::Cut),
        1 => Just(Step::Fork),
    ]
}

/// Priorities of reads, and times by page.
fn rules() -> impl Strategy<Value = Timing> {
    let list = |us: [u64; 3]| prop_oneof![Just(Vec::new()), Just(us.to_vec())];
    let priority = prop::sample::select(vec![0, 1, 3, 100]);
    let of_planes = (any::<bool>(), 1..3u32);
    let suspend = (prop::sample::select(vec![0, 20]), prop::sample::select(vec![0, 50]), 0..4u32);
    (list([20, 50, 90]), list([300, 1000, 2000]), priority, suspend, of_planes).prop_map(
        |(read_by_page_us, program_by_page_us, read_priority, suspend, of_planes)| Timing {
            independent_reads: of_planes.0,
            pages_per_program: of_planes.1,
            read_by_page_us,
            program_by_page_us,
            read_priority,
            suspend_program_us: suspend.0,
            suspend_erase_us: suspend.1,
            suspend_limit: suspend.2,
            ..timing()
        },
    )
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Page {
    Erased,
    Holds(u64, usize),
    /// Torn or complete: the first look decides for good.
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

/// The units after all operations that certainly ended, and the changes issued since, each with its
/// number in the reference.
struct Model {
    settled: Vec<UnitModel>,
    issued: Vec<(Change, usize)>,
    times: Reference,
    /// The number of operations before the first one that the array records.
    unrecorded: usize,
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
    fn new(timing: &Timing) -> Model {
        let blank = UnitModel { pages: [Page::Erased; 8], next: 0, wear: 0, half_erased: false };
        let times = Reference::new(timing);
        Model { settled: vec![blank; 12], issued: Vec::new(), times, unrecorded: 0 }
    }

    /// Adds an operation. Returns its number.
    fn issue(&mut self, kind: OpKind, unit: u32, pages: (u32, u32)) -> usize {
        let (t, row) = (&self.times.timing, pages.0 / 2);
        let (moved, work) = match kind {
            OpKind::Read => (PAGE_MOVE, t.read(row, 1, 2, 0..2)),
            OpKind::Program if pages.1 == 1 => (PAGE_MOVE, t.program(row)),
            OpKind::Program => (ROW_MOVE, t.program(row)),
            OpKind::Erase => (0, t.erase()),
        };
        self.times.issue(kind, Unit(unit), pages, moved, work.0);
        self.times.ops.len() - 1
    }

    /// Checks that the array's records are those of the reference.
    fn compare(&mut self, a: &NandArray) {
        let records = a.take_ops();
        let ops = &self.times.ops[self.unrecorded..];
        assert_eq!(records.len(), ops.len());
        for (i, (record, op)) in records.iter().zip(ops).enumerate() {
            assert_eq!(record.kind, op.kind);
            if let Some(start) = op.start {
                assert_eq!(record.start.0, start, "{i}: {record:?}, {op:?}");
            }
            if let Some(end) = op.end {
                assert_eq!(record.end.0, end, "{i}: {record:?}, {op:?}");
            }
        }
        self.unrecorded = self.times.ops.len();
    }

    /// The units as seen with power: after everything that was issued.
    fn seen(&self) -> Vec<UnitModel> {
        let mut units = self.settled.clone();
        for (change, _) in &self.issued {
            apply(&mut units, *change, false);
        }
        units
    }

    fn cut(&mut self) {
        for (change, op) in std::mem::take(&mut self.issued) {
            let op = &self.times.ops[op];
            match (op.start, op.end) {
                (_, Some(_)) => apply(&mut self.settled, change, false),
                (Some(_), None) => apply(&mut self.settled, change, true),
                (None, None) => {}
            }
        }
        self.times.cut();
    }

    /// Compares one page, and learns the outcome of a torn one.
    fn check(&mut self, a: &NandArray, unit: usize, at: u32) {
        let before = a.ops_issued();
        self.check_content(a, unit, at);
        for _ in before..a.ops_issued() {
            self.issue(OpKind::Read, unit as u32, (at, 1));
        }
    }

    fn check_content(&mut self, a: &NandArray, unit: usize, at: u32) {
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

/// For each awaited operation: its number, when the wait ended, and whether it succeeded.
type Ended = Rc<RefCell<Vec<(usize, u64, bool)>>>;

fn play(seed: u64, timing: Timing, steps: Vec<Step>) -> u64 {
    run(seed, move |rt| async move {
        let mut a = Rc::new(
            NandArray::new(&rt, &geometry(), &timing, Payload::Stamps, WORDS as u32).unwrap(),
        );
        a.power_on();
        a.record_ops();
        let mut model = Model::new(&timing);
        let (ended, mut forked) = (Ended::default(), 0);
        for (tag, step) in steps.into_iter().enumerate() {
            let tag = tag as u64 + 1;
            match step {
                Step::Program { unit, off, pages } => {
                    let u = &model.seen()[unit as usize];
                    let at = (u.next + off) % 8;
                    let allowed = at == u.next && !u.half_erased && at % 2 + pages <= 2;
                    let (data, words) = (stamps(tag, pages), oob(tag, pages));
                    let done = a.program(page(Unit(unit), at), Data::Stamps(&data), &words);
                    assert_eq!(done.is_ok(), allowed, "unit {unit} page {at}, {pages} pages");
                    let end = match done {
                        Ok(end) => end,
                        Err(e) => {
                            assert!(matches!(e, OpError::Rule { .. }));
                            continue;
                        }
                    };
                    let op = model.issue(OpKind::Program, unit, (at, pages));
                    let (rt2, ended) = (rt.clone(), ended.clone());
                    rt.spawn("a wait", async move {
                        let well = end.await.is_ok();
                        ended.borrow_mut().push((op, rt2.now().0, well));
                    });
                    let unit = unit as usize;
                    model.issued.push((Change::Program { unit, at, pages, tag }, op));
                }
                Step::Erase { unit } => {
                    let end = a.erase(Unit(unit)).unwrap();
                    let op = model.issue(OpKind::Erase, unit, (0, 8));
                    let (rt2, ended) = (rt.clone(), ended.clone());
                    rt.spawn("a wait", async move {
                        let well = end.await.is_ok();
                        ended.borrow_mut().push((op, rt2.now().0, well));
                    });
                    model.issued.push((Change::Erase { unit: unit as usize }, op));
                }
                Step::Read { unit, page: at } => model.check(&a, unit as usize, at),
                Step::Await { unit, page: at } => {
                    let op = model.issue(OpKind::Read, unit, (at, 1));
                    let (rt2, a2, ended) = (rt.clone(), a.clone(), ended.clone());
                    rt.spawn("a wait", async move {
                        let (mut data, mut words, mut states) =
                            (vec![0; 2], vec![0; WORDS], [PageState::Erased]);
                        let request = tantalum_nand::ReadRequest {
                            at: page(Unit(unit), at),
                            count: 1,
                            first: 0,
                            data: Some(tantalum_device::DataMut::Stamps(&mut data)),
                            oob: Some(&mut words),
                            states: &mut states,
                        };
                        a2.read(request).unwrap().await;
                        ended.borrow_mut().push((op, rt2.now().0, true));
                    });
                    rt.yield_now().await;
                }
                Step::Wait { ns } => {
                    rt.sleep(Nanos(ns)).await;
                    model.times.advance(rt.now().0);
                }
                Step::Cut => {
                    model.compare(&a);
                    a.power_off();
                    model.cut();
                    a.power_on();
                }
                Step::Fork => {
                    model.compare(&a);
                    let image = a.snapshot();
                    let old = std::mem::replace(&mut a, NandArray::from_image(&rt, &image).into());
                    a.record_ops();
                    // The original changes on its own.
                    for unit in 0..12 {
                        wipe(&old, Unit(unit));
                    }
                    old.power_off();
                    // Tasks that await operations of the original learn nothing about the copy.
                    forked = model.times.ops.len();
                }
            }
        }
        model.check_all(&a);
        model.compare(&a);
        a.power_off();
        model.cut();
        a.power_on();
        model.check_all(&a);
        rt.sleep(Nanos::from_secs(1)).await;
        model.times.advance(rt.now().0);
        model.compare(&a);
        model.check_all(&a);
        for (op, at, well) in ended.borrow().iter().filter(|e| e.0 >= forked) {
            let op = &model.times.ops[*op];
            let end = if op.kind == OpKind::Read { op.moved } else { op.end };
            if let (true, Some(end)) = (*well, end) {
                assert_eq!(*at, end, "{op:?}");
            }
            assert!(*well == end.is_some() || op.kind == OpKind::Read, "{op:?}");
        }
        rt.trace_hash()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_array_does_what_the_model_says(
        seed in any::<u64>(),
        timing in rules(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let hash = play(seed, timing.clone(), steps.clone());
        prop_assert_eq!(hash, play(seed, timing, steps), "the same seed, another run");
    }
}
