//! Thinly provisioned drives against a model: they refuse new data exactly when there is no room
//! for them, keep and overwrite what they have, and never come to a standstill.

use crate::designs::{small, tiny};
use proptest::prelude::*;
use std::collections::BTreeSet;
use tantalum_device::{
    Block, BlockDevice, Blocks, Data, DataMut, Durability, Extent, IoError, Payload, PowerCycle,
};
use tantalum_drive::{CacheMode, Design, Drive, DriveLink};
use tantalum_oracle::harness::{CrashPlan, CutAt, crash_run};
use tantalum_rt::{Nanos, Rt, Runtime, Stream};

/// All the ways in which a drive takes a write in.
const KINDS: [&str; 8] = [
    "durassd",
    "durassd-bounded",
    "spartan-b",
    "spartan-es",
    "volatile",
    "volatile, disorder",
    "baseline",
    "baseline, through",
];

fn thin(base: &dyn Fn(&str) -> Design, kind: &str, percent: f64, spare: f64) -> Design {
    let mut design = base(kind.split(',').next().unwrap());
    design.space.over_provisioning = percent;
    design.space.thin_spare = spare;
    if kind.ends_with("through") {
        design.cache.mode = CacheMode::Through;
    }
    if kind.ends_with("disorder") {
        design.cache.reorder = 4;
    }
    let layout = design.check().unwrap();
    assert!(layout.is_thin() && u64::from(layout.room) < layout.raw, "{layout:?}");
    design
}

#[derive(Clone, Debug)]
enum Step {
    /// At a share of the capacity, so many blocks.
    Write(f64, u64, Durability),
    /// New data one after the other, until they are refused.
    Fill(u64),
    /// Live blocks, so many times.
    Overwrite(u32),
    Discard(f64, u64),
    Flush,
    Cut,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let want = prop_oneof![5 => Just(Durability::Normal), 1 => Just(Durability::Fua)];
    let step = prop_oneof![
        8 => (0.0..1.0, 1u64..9, want).prop_map(|(at, count, want)| Step::Write(at, count, want)),
        1 => (1u64..6).prop_map(Step::Fill),
        2 => (1u32..80).prop_map(Step::Overwrite),
        2 => (0.0..1.0, 1u64..100).prop_map(|(at, count)| Step::Discard(at, count)),
        1 => Just(Step::Flush),
        1 => Just(Step::Cut),
    ];
    prop::collection::vec(step, 1..60)
}

/// What each block may hold: one value, or after unpromised writes several once the power went.
struct Model {
    rt: Rt,
    drive: Drive,
    device: DriveLink,
    now: Vec<u64>,
    /// What a power loss may bring back.
    may: Vec<BTreeSet<u64>>,
    room: u64,
    stamp: u64,
    dice: Stream,
    refused: u64,
}

impl Model {
    async fn new(rt: &Rt, design: &Design) -> Model {
        let drive = Drive::new(rt, design, Payload::Stamps).unwrap();
        drive.power_on().await.unwrap();
        let blocks = drive.caps().blocks as usize;
        assert!(drive.caps().thin);
        Model {
            rt: rt.clone(),
            device: drive.device(),
            now: vec![0; blocks],
            may: vec![BTreeSet::from([0]); blocks],
            room: drive.layout().room.into(),
            stamp: 0,
            dice: rt.stream("a model"),
            refused: 0,
            drive,
        }
    }

    fn live(&self) -> u64 {
        self.now.iter().filter(|v| **v != 0).count() as u64
    }

    fn range(&self, at: f64, count: u64) -> std::ops::Range<usize> {
        let blocks = self.now.len();
        let first = ((at * blocks as f64) as usize).min(blocks - 1);
        first..(first + count as usize).min(blocks)
    }

    /// Whether there was room for it.
    async fn write(&mut self, range: std::ops::Range<usize>, want: Durability) -> bool {
        let new = self.now[range.clone()].iter().filter(|v| **v == 0).count() as u64;
        let stamps: Vec<u64> = range.clone().map(|i| self.stamp + 1 + i as u64).collect();
        self.stamp += 1_000_000;
        let fits = new == 0 || self.live() + new <= self.room;
        let done = self.device.write(Block(range.start as u64), Data::Stamps(&stamps), want).await;
        assert_eq!(done, if fits { Ok(()) } else { Err(IoError::NoSpace) }, "{range:?}, {new} new");
        if !fits {
            self.refused += 1;
            return false;
        }
        for (i, stamp) in range.zip(stamps) {
            self.set(i, stamp, want == Durability::Fua);
        }
        true
    }

    fn set(&mut self, i: usize, value: u64, durable: bool) {
        self.now[i] = value;
        if durable || self.drive.caps().ack.survives() {
            self.may[i].clear();
        }
        self.may[i].insert(value);
    }

    async fn read_all(&self) -> Vec<u64> {
        let mut found = vec![0; self.now.len()];
        self.device.read(Block(0), DataMut::Stamps(&mut found)).await.unwrap();
        found
    }

    async fn step(&mut self, step: &Step) {
        match *step {
            Step::Write(at, count, want) => {
                self.write(self.range(at, count), want).await;
            }
            Step::Fill(count) => {
                while let Some(first) = self.now.iter().position(|v| *v == 0) {
                    let end = (first + count as usize).min(self.now.len());
                    if !self.write(first..end, Durability::Normal).await {
                        break;
                    }
                }
            }
            Step::Overwrite(times) => {
                let live: Vec<usize> = (0..self.now.len()).filter(|i| self.now[*i] != 0).collect();
                for _ in 0..times.min(1000 * live.len() as u32) {
                    let i = live[self.dice.below(live.len() as u64) as usize];
                    assert!(self.write(i..i + 1, Durability::Normal).await, "an overwrite");
                }
            }
            Step::Discard(at, count) => {
                let range = self.range(at, count);
                let blocks = Blocks { start: Block(range.start as u64), count: range.len() as u64 };
                self.device.discard(blocks).await.unwrap();
                range.for_each(|i| self.set(i, 0, false));
            }
            Step::Flush => {
                self.device.flush().await.unwrap();
                for (may, now) in self.may.iter_mut().zip(&self.now) {
                    *may = BTreeSet::from([*now]);
                }
            }
            Step::Cut => {
                self.drive.cut();
                self.drive.off().await;
                self.drive.power_on().await.unwrap();
                self.device = self.drive.device();
                let found = self.read_all().await;
                for (i, (may, found)) in self.may.iter_mut().zip(&found).enumerate() {
                    assert!(may.contains(found), "block {i}: {found}, not of {may:?}");
                    *may = BTreeSet::from([*found]);
                }
                self.now = found;
            }
        }
        self.drive.audit().unwrap();
        assert!(self.live() <= self.room);
    }
}

fn play(design: &Design, seed: u64, steps: Vec<Step>) -> u64 {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let design = design.clone();
    let run = async move {
        let mut model = Model::new(&rt, &design).await;
        for step in &steps {
            model.step(step).await;
        }
        assert_eq!(model.read_all().await, model.now);
        model.rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!(model.drive.stats().refused_writes, model.refused);
        model.refused
    };
    runtime.block_on(run).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn a_thin_drive_does_what_a_small_model_does(
        kind in prop::sample::select(&KINDS[..]),
        spare in prop::sample::select(&[0.0, 7.0, 60.0][..]),
        seed in 0u64..1000,
        steps in steps(),
    ) {
        play(&thin(&tiny, kind, -50.0, spare), seed, steps);
    }
}

/// With exactly as much live as there is room for, and nothing set aside beyond that: it goes
/// on for as long as one likes.
#[test]
fn a_full_thin_drive_is_overwritten_for_ever() {
    for kind in KINDS {
        for (base, percent) in [(&tiny as &dyn Fn(&str) -> Design, -50.0), (&small, -20.0)] {
            let design = thin(base, kind, percent, 0.0);
            let room = design.check().unwrap().room;
            let life = [Step::Fill(1), Step::Overwrite(3 * room), Step::Cut, Step::Fill(3)];
            let more = [Step::Discard(0.0, 40), Step::Fill(2), Step::Overwrite(room), Step::Flush];
            let steps = [&life[..], &more[..], &life[..], &more[..]].concat();
            assert!(play(&design, 1, steps) >= 4, "{kind}");
        }
    }
}

/// How new data get into the room that a discard has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Into {
    Group,
    Fua,
    Writes,
}

/// Fills a drive, then discards some pages, writes as many others without a flush in between, and
/// cuts the power after `wait`; several times.
async fn discard_and_write(rt: Rt, design: Design, how: Into, wait: Nanos) {
    let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
    drive.power_on().await.unwrap();
    let room = u64::from(drive.layout().room);
    for round in 1..=5 {
        let device = drive.device();
        let mut held = vec![0; device.caps().blocks as usize];
        device.read(Block(0), DataMut::Stamps(&mut held)).await.unwrap();
        let mut live: Vec<u64> = (0..).zip(&held).filter(|b| *b.1 != 0).map(|b| b.0).collect();
        assert!(live.len() as u64 <= room, "{} blocks of {room}, round {round}", live.len());
        let mut new = (0..).zip(&held).filter(|b| *b.1 == 0).map(|b| b.0);
        for at in new.by_ref().take((room - live.len() as u64) as usize) {
            let filled = device.write(Block(at), Data::Stamps(&[round]), Durability::Normal).await;
            assert_eq!(filled, Ok(()), "block {at}");
            live.push(at);
        }
        device.flush().await.unwrap();
        let most = device.caps().atomic_group.unwrap().extents as usize;
        let count = most.min(6);
        for at in live.iter().rev().take(count) {
            device.discard(Blocks { start: Block(*at), count: 1 }).await.unwrap();
        }
        let new: Vec<u64> = new.take(count).collect();
        match how {
            Into::Group => {
                let stamps = [round];
                let extent = |at: &u64| Extent { at: Block(*at), data: Data::Stamps(&stamps) };
                let group: Vec<Extent<'_>> = new.iter().map(extent).collect();
                device.write_atomic(&group).await.unwrap();
            }
            Into::Fua | Into::Writes => {
                let want = if how == Into::Fua { Durability::Fua } else { Durability::Normal };
                for at in &new {
                    device.write(Block(*at), Data::Stamps(&[round]), want).await.unwrap();
                }
            }
        }
        let gone = live[live.len() - 1];
        let more = device.write(Block(gone), Data::Stamps(&[round]), Durability::Normal).await;
        assert_eq!(more, Err(IoError::NoSpace), "it is full again");
        assert_eq!(drive.audit(), Ok(()));
        rt.sleep(wait).await;
        drive.cut();
        drive.off().await;
        drive.power_on().await.unwrap();
        drive.settled().await;
        assert_eq!(drive.audit(), Ok(()), "round {round}");
    }
}

/// Invariant 4 of `thin`: a power loss may take a discard and leave the write that came into its
/// room. The drive then has no more than it has room for; and a write into such room waits for
/// nothing but the drive itself.
#[test]
fn a_power_loss_brings_back_no_more_than_there_is_room_for() {
    for kind in KINDS {
        for how in [Into::Group, Into::Fua, Into::Writes] {
            for us in [0, 400, 3_000, 20_000] {
                let design = thin(&tiny, kind, -50.0, 7.0);
                let mut runtime = Runtime::virtual_time(us);
                let run = discard_and_write(runtime.handle(), design, how, Nanos(us * 1000));
                let ended = runtime.block_on(run);
                ended.unwrap_or_else(|e| panic!("{kind}, {how:?}, {us} us: {e}"));
            }
        }
    }
}

/// Only a write that has no other room makes discards durable: what was discarded is written again
/// at once, and so is anything else while there is room.
#[test]
fn a_discard_of_a_thin_drive_costs_nothing_while_there_is_room() {
    let design = thin(&tiny, "volatile", -50.0, 7.0);
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let run = async move {
        let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
        drive.power_on().await.unwrap();
        let (device, room) = (drive.device(), u64::from(drive.layout().room));
        let write = async |at: u64| {
            device.write(Block(at), Data::Stamps(&[at + 1]), Durability::Normal).await.unwrap();
        };
        for at in 0..room - 2 {
            write(at).await;
        }
        device.flush().await.unwrap();
        let meta = || drive.stats().meta_bytes;
        let before = meta();
        device.discard(Blocks { start: Block(0), count: 4 }).await.unwrap();
        for at in [0, 1, 2, 3, room, room + 1] {
            write(at).await;
        }
        assert_eq!(meta(), before);
        device.discard(Blocks { start: Block(0), count: 1 }).await.unwrap();
        assert_eq!(meta(), before);
        write(room + 2).await;
        assert!(meta() > before, "the discard is not durable");
    };
    runtime.block_on(run).unwrap();
}

/// Many hosts at a time, and cuts: whatever was let in is kept as promised, what was refused is
/// never seen, and nobody waits for ever.
#[test]
fn full_thin_drives_under_random_cuts() {
    for kind in KINDS {
        for seed in 0..20 {
            let mut dice = Stream::new(seed, "a random plan");
            let spare = dice.below(10) as f64;
            let mut design = thin(&tiny, kind, -60.0, spare);
            if design.cache.reorder > 0 && dice.chance(1, 2) {
                design.cache.shear_bytes = 512;
            }
            let plan = CrashPlan {
                rounds: 5,
                depth: dice.range(1, 17) as u32,
                commands: dice.range(100, 1200) as u32,
                max_blocks: dice.range(1, 30),
                cut: CutAt::Within(Nanos::from_millis(dice.range(20, 500))),
                restart_within: Nanos::from_millis(10),
                ..CrashPlan::default()
            };
            let payload = if dice.chance(1, 4) { Payload::Bytes } else { Payload::Stamps };
            let make = |rt: &Rt| Drive::new(rt, &design, payload).unwrap();
            let report = crash_run(seed, &plan, make).unwrap_or_else(|e| panic!("{kind}: {e}"));
            assert!(report.is_clean(), "{kind}, seed {seed}: {report}");
        }
    }
}

/// What is promised, set aside and taken.
#[test]
fn what_a_thin_drive_sets_aside() {
    let design = thin(&small, "durassd", -50.0, 10.0);
    let layout = design.check().unwrap();
    assert_eq!(u64::from(layout.logical), 2 * layout.raw);
    let in_unit = design.data_pages() * design.geometry.page_sectors();
    let aside = layout.map_units + layout.dump_zone + layout.working_units;
    let left = design.geometry.units() - aside;
    assert_eq!(layout.room / in_unit, left * 10 / 11);
    assert_eq!(layout.spare_units, left - left * 10 / 11);
    // What promises too much has no room for the map of it.
    let mut design = design;
    design.space.over_provisioning = -99.9;
    let error = design.check().unwrap_err().to_string();
    assert!(error.contains("1 for live data") && error.contains("for the map log"), "{error}");
    for wrong in [-100.0, -1000.0, 0.0, f64::NAN] {
        design.space.over_provisioning = wrong;
        assert!(design.check().unwrap_err().to_string().contains("above -100"), "{wrong}");
    }
}
