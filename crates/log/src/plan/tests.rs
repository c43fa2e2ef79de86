//! The plan against a model: devices that take any time, stall and fail, in any order.

use super::*;
use crate::Standing;
use crate::format::block_of;
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAYLOAD: u64 = 100;

/// What the model knows of a log.
struct Model {
    plan: Plan,
    now: Nanos,
    in_flight: Vec<Order>,
    /// Bytes that are on devices: device, first, end, in this epoch or before its start.
    written: Vec<(usize, Lsn, Lsn)>,
    /// The last LSN of each stream in this epoch.
    last: BTreeMap<(usize, u8), Lsn>,
    durable: Lsn,
    copies: u32,
    array: usize,
    gone: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Step {
    Append(u64, bool),
    /// The n-th write in flight ends after so much time.
    End(usize, u64),
    Fail(usize),
    Wait(u64),
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..700u64, any::<bool>()).prop_map(|(b, want)| Step::Append(b, want)),
        8 => (0..8usize, 1..300u64).prop_map(|(i, t)| Step::End(i, t)),
        1 => (0..8usize).prop_map(Step::Fail),
        2 => (1..3000u64).prop_map(Step::Wait),
        1 => Just(Step::Checkpoint),
    ]
}

fn lanes(array: usize, partitions: u8, archive: bool, second: bool) -> Vec<LaneSpec> {
    let mut lanes = Vec::new();
    for device in 0..array {
        for partition in 0..partitions {
            lanes.push(LaneSpec {
                device,
                archive: false,
                stream: partition * 2,
                main: Area::new(0, 6, 12),
                second: second.then(|| Area::new(1000, 3, 12)),
                known: Latencies::default(),
            });
        }
    }
    if archive {
        let main = Area::new(0, 8, 40);
        let known = Latencies::default();
        lanes.push(LaneSpec { device: array, archive: true, stream: 0, main, second: None, known });
    }
    lanes
}

impl Model {
    fn new(array: usize, partitions: u8, archive: bool, copies: u32) -> Model {
        Model::with((array, partitions, archive), copies, true, Nanos(2000))
    }

    /// With or without second streams, and with a bound for stalls.
    fn with(devices: (usize, u8, bool), copies: u32, second: bool, stall: Nanos) -> Model {
        let (array, partitions, archive) = devices;
        let options = PlanOptions {
            payload: PAYLOAD,
            copies,
            group_units: 4,
            archive_bytes: 600,
            archive_units: 16,
            stall,
            hedge: HedgeOptions { samples: 4, ..HedgeOptions::default() },
        };
        let health = vec![Health::Present; array + usize::from(archive)];
        let lanes = lanes(array, partitions, archive, second);
        let plan = Plan::new(options, lanes, health, 1, Lsn(0), Lsn(0));
        Model {
            plan,
            now: Nanos(0),
            in_flight: vec![],
            written: vec![],
            last: BTreeMap::new(),
            durable: Lsn(0),
            copies,
            array,
            gone: vec![],
        }
    }

    /// Takes what the plan wants, and checks what it says.
    fn pump(&mut self) {
        self.check_durable();
        for round in 0.. {
            assert!(round < 1000, "the plan wants something for ever");
            self.plan.tick(self.now);
            loop {
                let keep = self.plan.keep();
                let Some(order) = self.plan.next(self.now) else { break };
                assert!(self.in_flight.iter().all(|o| o.lane != order.lane), "invariant 6");
                assert!(order.block >= keep, "memory has its bytes");
                assert!(order.watermark <= self.durable);
                assert_eq!(order.block, block_of(order.block, PAYLOAD));
                let last = self.last.entry((order.device, order.stream)).or_default();
                let from = block_of(*last, PAYLOAD);
                assert!(order.block >= from, "invariant 2: {order:?} after {last}");
                *last = order.to;
                assert!(!self.gone.contains(&order.device), "a device that is gone got something");
                self.in_flight.push(order);
            }
            match self.plan.chore() {
                None => break,
                Some(Chore::Restart { start, devices }) => {
                    assert_eq!(start, self.plan.durable());
                    // Writes of stalled lanes end before the plan is asked again.
                    while self.now.0.is_multiple_of(2) && !self.in_flight.is_empty() {
                        self.end(0, true);
                    }
                    self.check_durable();
                    if !self.plan.freeze_for(start, &devices) {
                        continue;
                    }
                    assert_eq!(start, self.plan.durable(), "nothing is durable behind it");
                    // Writes of stalled lanes end while the new epoch is made durable.
                    while !self.now.0.is_multiple_of(3) && !self.in_flight.is_empty() {
                        self.end(0, true);
                    }
                    assert_eq!(start, self.plan.durable(), "nothing counts any more");
                    for (device, standing) in &devices {
                        match standing {
                            Standing::Present => self.gone.retain(|d| d != device),
                            Standing::Left | Standing::Lost => self.gone.push(*device),
                        }
                    }
                    for (_, from, to) in &mut self.written {
                        (*from, *to) = ((*from).min(start), (*to).min(start));
                    }
                    self.last.clear();
                    self.plan.restarted(self.plan.epoch + 1, &devices);
                }
                Some(Chore::Return { device }) => {
                    self.gone.retain(|d| *d != device);
                    self.plan.returned(device);
                }
            }
        }
        assert_eq!(self.durable, self.plan.durable(), "only an end of a write moves it");
    }

    /// Every byte that has become durable is on as many devices as there must be copies.
    fn check_durable(&mut self) {
        let durable = self.plan.durable();
        assert!(durable >= self.durable, "invariant 3: it never decreases");
        let left = self.array - self.gone.iter().filter(|d| **d < self.array).count();
        let needed = (self.copies as usize).min(left).max(1);
        for byte in (self.durable.0..durable.0).map(Lsn) {
            let has = |w: &&(usize, Lsn, Lsn)| w.1 <= byte && byte < w.2;
            let mut on: Vec<usize> = self.written.iter().filter(has).map(|w| w.0).collect();
            on.sort_unstable();
            on.dedup();
            assert!(on.len() >= needed, "invariant 3: {byte} is on {on:?}");
        }
        self.durable = durable;
    }

    fn end(&mut self, i: usize, ok: bool) {
        let order = self.in_flight.remove(i);
        if ok && order.epoch == self.plan.epoch {
            self.written.push((order.device, order.block, order.to));
        }
        self.plan.done(self.now, order.ticket, ok);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append(bytes, want) => {
                if self.plan.has_room(bytes) && !self.plan.stopped() {
                    self.plan.append(bytes);
                    if want {
                        self.plan.want(self.plan.appended());
                    }
                }
            }
            Step::End(i, time) => {
                self.now += Nanos(time);
                if !self.in_flight.is_empty() {
                    self.end(i % self.in_flight.len(), true);
                }
            }
            Step::Fail(i) => {
                if !self.in_flight.is_empty() {
                    self.end(i % self.in_flight.len(), false);
                }
            }
            Step::Wait(time) => self.now += Nanos(time),
            Step::Checkpoint => {
                let durable = self.plan.durable();
                self.plan.move_checkpoint(durable);
            }
        }
        self.pump();
    }

    /// All that is in flight ends, as does what comes of it.
    fn settle(&mut self) {
        self.pump();
        for _ in 0..10_000 {
            if self.in_flight.is_empty() {
                break;
            }
            self.now += Nanos(10);
            self.end(0, true);
            self.pump();
        }
        assert!(self.in_flight.is_empty());
    }

    /// Then all is durable, unless nothing can be written. What finds no room, since a device took
    /// it along, finds some as soon as the checkpoint moves.
    fn finish(&mut self) {
        self.plan.want(self.plan.appended());
        self.settle();
        if self.plan.stopped() || self.durable == self.plan.appended() {
            return;
        }
        assert!(self.plan.lacks_room(), "it stands still for want of room only");
        assert!(self.plan.counts().restarts > 0, "and that after a device has gone");
        assert_eq!(self.plan.room(), 0, "whoever moves the checkpoint is told");
        self.plan.move_checkpoint(self.durable);
        self.settle();
        assert!(!self.plan.lacks_room());
        assert_eq!(self.durable, self.plan.appended());
    }
}

proptest! {
    #[test]
    fn whatever_devices_do_the_plan_keeps_its_word(
        array in 1..4usize, partitions in 1..3u8, archive: bool, copies in 1..3u32, second: bool,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let copies = copies.min(array as u32);
        let mut model = Model::with((array, partitions, archive), copies, second, Nanos(2000));
        for step in steps {
            model.step(step);
        }
        model.finish();
    }

    /// Without failures everything accepted becomes durable without a checkpoint: room that was
    /// promised is there.
    #[test]
    fn what_is_accepted_finds_room(
        array in 1..4usize, partitions in 1..3u8, archive: bool, copies in 1..3u32, second: bool,
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let copies = copies.min(array as u32);
        // Devices may be slow, but none stalls.
        let forever = Nanos(u64::MAX / 4);
        let mut model = Model::with((array, partitions, archive), copies, second, forever);
        for step in steps {
            if !matches!(step, Step::Fail(_)) {
                model.step(step);
            }
        }
        model.finish();
        prop_assert_eq!(model.plan.durable(), model.plan.appended());
    }
}

/// A slow write may be written again to a main stream only as long as that takes no room which is
/// promised to what has been appended.
#[test]
fn a_slow_write_is_not_written_again_where_room_is_promised() {
    let forever = Nanos(u64::MAX / 4);
    let mut hedged = [0; 2];
    for (scarce, hedged) in hedged.iter_mut().enumerate() {
        let mut m = Model::with((2, 1, false), 1, false, forever);
        let write = |m: &mut Model, bytes: u64| {
            m.plan.append(bytes);
            m.plan.want(m.plan.appended());
            m.pump();
        };
        for _ in 0..50 {
            write(&mut m, 50);
            m.now += Nanos(100);
            m.end(0, true);
            m.pump();
            m.plan.move_checkpoint(m.durable);
        }
        let group = m.plan.group_bytes();
        while scarce == 1 && m.plan.has_room(2 * group + 1) {
            write(&mut m, group);
            m.now += Nanos(100);
            m.end(0, true);
            m.pump();
        }
        write(&mut m, 1);
        // All that is accepted is appended while the write is slow.
        if scarce == 1 {
            m.plan.append(m.plan.room_bytes());
        }
        let before = m.plan.counts().hedges;
        m.now += Nanos(5_000);
        m.pump();
        *hedged = m.plan.counts().hedges - before;
        m.finish();
        assert_eq!(m.plan.durable(), m.plan.appended());
    }
    assert_eq!(hedged, [1, 0]);
}

/// A thread's stalled write that ends after the plan said where a new epoch begins may make more
/// durable: then the epoch does not begin there.
#[test]
fn an_epoch_does_not_end_before_what_became_durable_meanwhile() {
    let mut m = Model::with((2, 1, false), 1, false, Nanos(2000));
    for _ in 0..2 {
        m.plan.append(m.plan.group_bytes());
        m.plan.want(m.plan.appended());
        m.pump();
    }
    assert_eq!(m.in_flight.len(), 2);
    m.now += Nanos(100);
    m.end(1, true);
    m.now += Nanos(5000);
    m.plan.tick(m.now);
    assert!(m.plan.leave_stalled());
    let Some(Chore::Restart { start, devices }) = m.plan.chore() else { panic!("a new epoch") };
    assert_eq!(start, Lsn(0));
    m.end(0, true);
    assert_eq!(m.plan.durable(), m.plan.appended());
    assert!(!m.plan.freeze_for(start, &devices));
    assert!(!m.plan.is_frozen());
    let Some(Chore::Restart { start, devices }) = m.plan.chore() else { panic!("a new epoch") };
    assert_eq!(start, m.plan.appended());
    assert!(m.plan.freeze_for(start, &devices));
    m.plan.restarted(2, &devices);
    assert_eq!(m.plan.durable(), m.plan.appended());
}

/// A device that is slow once in a while is helped out, and a write that was helped out of its way
/// does not delay what is behind it.
#[test]
fn a_slow_write_is_written_again_to_a_second_stream() {
    let mut m = Model::new(2, 1, false, 1);
    for _ in 0..20 {
        m.plan.append(50);
        m.plan.want(m.plan.appended());
        m.pump();
        m.now += Nanos(100);
        while !m.in_flight.is_empty() {
            m.end(0, true);
        }
        m.pump();
        m.plan.move_checkpoint(m.durable);
    }
    m.plan.append(50);
    m.plan.want(m.plan.appended());
    m.pump();
    let slow = m.in_flight[0].clone();
    m.now += Nanos(150);
    m.pump();
    assert_eq!(m.in_flight.len(), 1, "not slow yet");
    let wake = m.plan.wake_at(m.now).unwrap();
    assert_eq!(wake, m.now + Nanos(150), "three times the median");
    m.now = wake;
    m.pump();
    assert_eq!(m.in_flight.len(), 2);
    let again = m.in_flight[1].clone();
    assert_eq!((again.to, again.stream), (slow.to, 1));
    assert_ne!(again.device, slow.device);
    m.now += Nanos(100);
    m.end(1, true);
    m.pump();
    assert_eq!(m.durable, m.plan.appended(), "the first that ends counts");
    assert_eq!(m.plan.counts().hedges_won, 1);
    m.now += Nanos(500);
    m.end(0, true);
    assert!(m.plan.hedges());
}

/// A lane that does not answer is left, and the log goes on; when it answers it takes part again.
#[test]
fn a_stalled_device_is_left_and_comes_back() {
    let mut m = Model::new(2, 1, false, 1);
    for _ in 0..2 {
        m.plan.append(50);
        m.plan.want(m.plan.appended());
        m.pump();
    }
    assert_eq!(m.in_flight.len(), 2);
    m.end(1, true);
    m.pump();
    assert_eq!(m.durable, Lsn(100), "the second group repeats the first");
    // A whole block: the next one does not repeat it.
    for bytes in [150, 50] {
        m.plan.append(bytes);
        m.plan.want(m.plan.appended());
        m.pump();
    }
    let stuck = m.in_flight[0].clone();
    m.now = Nanos(4000);
    for _ in 0..10 {
        m.pump();
        while m.in_flight.len() > 1 {
            m.end(1, true);
        }
        m.now += Nanos(100);
    }
    m.pump();
    assert_eq!(m.in_flight, [stuck]);
    assert_eq!(m.durable, m.plan.appended());
    m.end(0, true);
    m.pump();
    assert!(m.gone.is_empty());
    for _ in 0..2 {
        m.plan.append(150);
        m.plan.want(m.plan.appended());
        m.pump();
    }
    let devices: Vec<usize> = m.in_flight.iter().map(|o| o.device).collect();
    assert_eq!(devices.len(), 2, "both are used again: {devices:?}");
}

/// Once what had been written of the epoch before kept its sections in use until the checkpoint was
/// beyond it, which it could not be.
#[test]
fn what_counts_no_more_keeps_no_section_in_use() {
    let mut area = Area::new(0, 3, 12);
    let (checkpoint, end) = (Lsn(100), Lsn(900));
    area.take(10, Lsn(0), checkpoint, Lsn(0)).unwrap();
    area.take(10, Lsn(100), end, checkpoint).unwrap();
    area.take(10, Lsn(100), end, checkpoint).unwrap();
    assert!(area.take_fits(10, checkpoint));
    area.take(10, Lsn(100), end, checkpoint).unwrap();
    assert!(!area.take_fits(10, checkpoint));
    area.begin_epoch(checkpoint);
    area.forget_from(checkpoint);
    assert!(area.take_fits(10, checkpoint));
}

/// Once this waited for ever. The room was there when the bytes were accepted.
#[test]
fn what_finds_no_room_after_a_device_is_lost_says_so() {
    let mut m = Model::new(3, 1, false, 2);
    while m.plan.has_room(900) {
        m.plan.append(300);
        m.plan.want(m.plan.appended());
        m.settle();
    }
    let rest = m.plan.room_bytes();
    m.plan.append(rest);
    m.plan.want(m.plan.appended());
    m.pump();
    assert!(!m.plan.lacks_room());
    m.end(0, false);
    m.settle();
    assert!(m.plan.lacks_room());
    m.finish();
    assert_eq!(m.durable, m.plan.appended());
    assert_eq!(m.gone.len(), 1);
}

/// Once a new epoch began for ever: what held up the archive was to be left, which gave no room, and
/// what had been left was to be left again.
#[test]
fn whoever_has_no_room_to_give_is_not_left_for_want_of_it() {
    let mut m = Model::with((3, 1, true), 2, true, Nanos(2000));
    let end_array = |m: &mut Model| {
        m.pump();
        while let Some(i) = m.in_flight.iter().position(|order| order.device < m.array) {
            m.now += Nanos(10);
            m.end(i, true);
            m.pump();
        }
    };
    while m.plan.has_room(900) {
        m.plan.append(300);
        m.plan.want(m.plan.appended());
        end_array(&mut m);
    }
    m.plan.append(m.plan.room_bytes());
    m.plan.want(m.plan.appended());
    m.pump();
    let of_array = m.in_flight.iter().position(|order| order.device < m.array).unwrap();
    // The new epoch does not wait for the archive.
    m.now += Nanos(2500);
    m.end(of_array, false);
    end_array(&mut m);
    assert!(m.plan.lacks_room());
    let archive: Vec<usize> = m.in_flight.iter().map(|order| order.device).collect();
    assert_eq!(archive, [m.array]);
    let restarts = m.plan.counts().restarts;
    m.now += Nanos(10_000);
    m.pump();
    assert_eq!(m.plan.counts().restarts, restarts);
    m.finish();
    assert_eq!(m.durable, m.plan.appended());
}

/// Commits of one thread, each of which takes as long as that lane does. How many each lane got.
#[cfg(feature = "blocking")]
fn lanes_of_one_thread(took: impl Fn(usize, usize) -> u64) -> [usize; 4] {
    let mut m = Model::new(1, 4, false, 1);
    m.plan.set_threads(|_| None);
    let mut used = [0; 4];
    for i in 0..640 {
        m.plan.append(150);
        m.plan.want(m.plan.appended());
        m.pump();
        let lane = m.in_flight[0].lane;
        used[lane] += 1;
        m.now += Nanos(took(i, lane));
        m.end(0, true);
        m.pump();
        m.plan.move_checkpoint(m.durable);
    }
    used
}

/// Threads begin with a group for each disk: four devices of the array, and an archive.
#[cfg(feature = "blocking")]
#[test]
fn threads_begin_with_a_group_for_each_disk() {
    let width = |copies: u32, disk: fn(usize) -> Option<u64>| {
        let mut m = Model::new(4, 1, true, copies);
        m.plan.set_threads(disk);
        m.plan.width()
    };
    assert_eq!(width(1, |_| None), 4, "each is a disk of its own");
    assert_eq!(width(1, |_| Some(7)), 1);
    assert_eq!(width(1, |device| Some(device as u64 % 2)), 2);
    assert_eq!(width(1, |device| (device > 1).then_some(7)), 3);
    assert_eq!(width(2, |device| Some(device as u64 % 2)), 1, "a group takes two");
    // What lies elsewhere than the array does not count.
    assert_eq!(width(1, |device| (device < 4).then_some(7)), 1, "the archive");
}

/// How many wait for a group is what says that there are more of them than places.
#[cfg(feature = "blocking")]
#[test]
fn a_group_is_shared_if_several_wait_for_it() {
    let mut m = Model::new(1, 1, false, 1);
    let mut groups = |records: usize, waits: bool| {
        for _ in 0..records {
            m.plan.append(20);
            if waits {
                m.plan.want(m.plan.appended());
            }
        }
        m.plan.want(m.plan.appended());
        m.pump();
        let shared = m.plan.groups.back().map(|group| group.shared);
        m.end(0, true);
        m.pump();
        m.plan.move_checkpoint(m.durable);
        shared
    };
    assert_eq!(groups(1, true), Some(false));
    assert_eq!(groups(3, true), Some(true));
    assert_eq!(groups(3, false), Some(false), "one waits for three records");
    assert_eq!(groups(1, true), Some(false), "nothing is left of the group before");
}

/// Files of one disk: the one that was used last goes on, and the others are tried now and then.
#[cfg(feature = "blocking")]
#[test]
fn a_thread_stays_on_its_lane_while_no_other_one_is_clearly_quicker() {
    let last = std::cell::Cell::new((usize::MAX, 0));
    let used = lanes_of_one_thread(|i, lane| {
        let (before, changes) = last.get();
        last.set((lane, changes + usize::from(lane != before)));
        100 + (i * 7 % 20) as u64
    });
    let changes = last.get().1;
    assert!(changes <= 640 / 64 + 4, "{changes} changes: {used:?}");
    assert!(used.iter().all(|n| *n > 0), "all are known: {used:?}");
    let used = lanes_of_one_thread(|_, lane| if lane == 2 { 100 } else { 200 });
    assert!(used[2] > 560, "one that is clearly quicker is found: {used:?}");
}

/// Once the log waited for the device that did not answer, whoever else did.
#[test]
fn a_device_that_was_left_comes_back_if_no_other_one_answers() {
    let mut plan = Model::new(2, 1, false, 1).plan;
    plan.pause();
    plan.restarted(2, &[(1, Standing::Left)]);
    plan.device_silent(1);
    plan.device_silent(0);
    assert_eq!(plan.chore(), None, "nobody answers");
    plan.answered(1);
    let devices = vec![(0, Standing::Left), (1, Standing::Present)];
    assert_eq!(plan.chore(), Some(Chore::Restart { start: Lsn(0), devices: devices.clone() }));
    plan.restarted(3, &devices);
    assert_eq!(plan.health(), [Health::Left, Health::Present]);
    assert_eq!(plan.chore(), None);
    plan.answered(0);
    assert_eq!(plan.chore(), Some(Chore::Return { device: 0 }));
}

/// Once a write that was to replace a slow one was waited for however long it took.
#[test]
fn what_was_written_again_is_written_once_more_if_that_is_slow() {
    let mut m = Model::new(3, 1, false, 1);
    for _ in 0..200 {
        m.plan.append(150);
        m.plan.want(m.plan.appended());
        m.pump();
        m.now += Nanos(100);
        m.settle();
        m.plan.move_checkpoint(m.durable);
    }
    m.plan.append(150);
    m.plan.want(m.plan.appended());
    for writes in 1..=3 {
        m.pump();
        assert_eq!(m.in_flight.len(), writes, "on as many devices");
        m.now += Nanos(1000);
        m.plan.tick(m.now);
    }
    m.end(2, true);
    m.pump();
    assert_eq!(m.durable, m.plan.appended());
    assert_eq!(m.plan.counts().hedges, 2);
}
