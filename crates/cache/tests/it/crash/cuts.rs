//! Every cut point of short runs, cuts within recoveries, many laps, many lives.

use super::model::Work;
use super::rig::{Rig, Shape};
use tantalum_cache::flash::{Admit, Mode, Replacement, RestartBy};
use tantalum_device::Ack;
use tantalum_rt::{Nanos, Stream};

/// Cuts a run at each of its moments, or at one in so many, and opens what is left, twice.
pub fn every_cut(shape: &Shape, seed: u64, until: Nanos, one_in: u64) -> Result<usize, String> {
    let moments = Rig::new(shape, seed).moments(3, until);
    let mut rig = Rig::new(shape, seed);
    let owner = rig.start(3);
    let mut cuts = 0;
    for (i, moment) in
        moments.iter().enumerate().filter(|(i, _)| (*i as u64).is_multiple_of(one_in))
    {
        rig.runtime.run_until(*moment).map_err(|e| e.to_string())?;
        let what = |e| format!("seed {seed}, cut {i} at {moment}: {e}\n{shape:?}");
        if let Some(wrong) = owner.wrong.borrow().clone() {
            return Err(what(wrong));
        }
        let mut cut = rig.cut_copy(seed ^ i as u64);
        cut.check().map_err(what)?;
        let mut again = cut.cut_copy(seed + i as u64);
        again.check().map_err(|e| what(format!("the second time: {e}")))?;
        cuts += 1;
    }
    Ok(cuts)
}

fn hold(shape: &Shape, seeds: std::ops::Range<u64>, until: Nanos, one_in: u64) {
    for seed in seeds {
        match every_cut(shape, seed, until, one_in) {
            Ok(cuts) => println!("seed {seed}: {cuts} cuts"),
            Err(e) => panic!("{e}"),
        }
    }
}

const SHORT: Nanos = Nanos::from_millis(12);

#[test]
fn every_cut_with_volatile_devices() {
    hold(&Shape::volatile(), 0..2, SHORT, 1);
}

#[test]
fn every_cut_with_torn_blocks() {
    hold(&Shape { atomic: 64, ..Shape::volatile() }, 10..12, SHORT, 1);
}

#[test]
fn every_cut_with_power_safe_devices() {
    hold(&Shape { ack: Ack::PowerSafe, ..Shape::volatile() }, 20..22, SHORT, 1);
}

#[test]
fn every_cut_of_the_basic_form() {
    let shape = Shape {
        replacement: Replacement::Basic,
        frames: 6,
        flash_bytes: 95 << 10,
        ..Shape::volatile()
    };
    hold(&shape, 30..31, SHORT, 1);
}

#[test]
fn every_cut_with_write_through() {
    hold(&Shape { mode: Mode::Through, ..Shape::volatile() }, 40..42, SHORT, 1);
}

/// Clean pages do not enter at all, or only single ones.
#[test]
fn every_cut_while_scans_are_kept_out() {
    let shape = Shape { scan: Some(0), ghosts: true, ..Shape::volatile() };
    hold(&shape, 96..98, SHORT, 1);
    hold(&Shape { scan: Some(1), mode: Mode::Through, ..shape }, 98..99, SHORT, 1);
}

/// Only clean pages enter, or only dirty ones.
#[test]
fn every_cut_while_some_pages_do_not_enter() {
    for (seed, admit) in [(110, Admit::Clean), (112, Admit::Dirty)] {
        let shape = Shape { admit, ..Shape::volatile() };
        hold(&shape, seed..seed + 1, SHORT, 1);
        let torn = Shape { atomic: 64, ghosts: true, scan: Some(2), ..shape.clone() };
        hold(&torn, seed + 1..seed + 2, SHORT, 1);
        let through = Shape { mode: Mode::Through, closes: 2, resizes: true, ..shape };
        let through = Shape { flash_bytes: 150 << 10, ..through };
        hold(&through, seed + 4..seed + 5, Nanos::from_millis(20), 1);
    }
}

/// The cache is idle again and again.
#[test]
fn every_cut_while_batches_are_vouched_for() {
    let mut shape = Shape { idle: Nanos::from_micros(1), ..Shape::volatile() };
    shape.work = Work { clients: 1, ..shape.work };
    hold(&shape, 36..38, SHORT, 1);
    hold(&Shape { atomic: 64, mode: Mode::Through, ..shape.clone() }, 38..39, SHORT, 1);
    let resizes = Shape { flash_bytes: 150 << 10, resizes: true, closes: 2, ..shape };
    hold(&resizes, 39..40, Nanos::from_millis(20), 1);
}

#[test]
fn every_cut_while_it_is_closed_and_opened() {
    let mut shape = Shape { closes: 1, ..Shape::volatile() };
    shape.work = Work { steps: 12, ..shape.work };
    hold(&shape, 50..52, Nanos::from_millis(25), 1);
}

#[test]
fn every_cut_while_it_is_resized() {
    let shape = Shape { flash_bytes: 150 << 10, resizes: true, ..Shape::volatile() };
    hold(&shape, 90..92, Nanos::from_millis(20), 1);
    let through = Shape { mode: Mode::Through, ..shape.clone() };
    hold(&through, 92..93, Nanos::from_millis(20), 1);
    let closes = Shape { closes: 1, work: Work { steps: 12, ..shape.work }, ..shape.clone() };
    hold(&closes, 93..94, Nanos::from_millis(20), 1);
    let stamps = Shape { stamps: true, replacement: Replacement::Basic, ..shape };
    hold(&stamps, 94..95, Nanos::from_millis(20), 1);
}

#[test]
fn every_cut_while_it_is_scrubbed() {
    let shape = Shape { scrubs: true, ..Shape::volatile() };
    hold(&shape, 100..101, SHORT, 1);
    hold(&Shape { atomic: 64, mode: Mode::Through, ..shape.clone() }, 101..102, SHORT, 1);
    let resizes = Shape { flash_bytes: 150 << 10, resizes: true, closes: 2, ..shape };
    hold(&resizes, 102..103, Nanos::from_millis(20), 1);
}

#[test]
fn every_cut_with_devices_that_carry_stamps() {
    let stamps = Shape { stamps: true, ..Shape::volatile() };
    hold(&stamps, 80..82, SHORT, 1);
    let pages = Shape { page: 1024, flash_bytes: 130 << 10, ..stamps.clone() };
    hold(&pages, 82..83, SHORT, 1);
    hold(&Shape { mode: Mode::Through, ..stamps }, 83..84, SHORT, 1);
}

/// After many laps: cuts are less dense, and reach every part of the ring.
#[test]
fn cuts_after_many_laps() {
    let mut shape = Shape { restart: RestartBy::Frames, ..Shape::volatile() };
    shape.work = Work { steps: 400, clients: 5, ..shape.work };
    hold(&shape, 60..61, Nanos::from_millis(150), 17);
    shape.work = Work { changes: 4, forgets: 0, ..shape.work };
    hold(&shape, 61..62, Nanos::from_millis(150), 17);
}

/// A recovery is cut at each of its moments, and so is the one after it.
#[test]
fn every_cut_of_a_recovery() {
    let shape = Shape::volatile();
    for seed in 70..74 {
        let mut rig = Rig::new(&shape, seed);
        let _owner = rig.start(3);
        let at = Nanos::from_millis(5 + 4 * (seed - 70)) + Nanos(seed * 1237);
        rig.runtime.run_until(at).unwrap();
        let moments = {
            let mut cut = rig.cut_copy(seed);
            cut.power();
            cut.moments(1, Nanos::from_millis(14))
        };
        let mut cut = rig.cut_copy(seed);
        cut.power();
        let before = cut.runtime.handle().now();
        let owner = cut.start(1);
        for (i, moment) in moments.iter().enumerate() {
            cut.runtime.run_until((*moment).max(before)).unwrap();
            assert_eq!(*owner.wrong.borrow(), None, "seed {seed}, nested cut {i}");
            let mut nested = cut.cut_copy(seed ^ ((i as u64) << 8));
            nested.check().unwrap_or_else(|e| panic!("seed {seed}, nested cut {i}: {e}"));
        }
        println!("seed {seed}: {} cuts in the second life", moments.len());
    }
}

/// Lives of a cache one after the other, each cut at random, some while it recovers; the ring goes
/// round many times.
pub fn lives(shape: &Shape, seed: u64, lives: u64) -> Result<u64, String> {
    let mut dice = Stream::new(seed, "lives");
    let mut rig = Rig::new(shape, seed);
    let mut opened = 0;
    for life in 0..lives {
        let owner = rig.start(4);
        // Most recoveries are let through; some are cut.
        let span = if dice.chance(1, 4) { dice.below(6_000_000) } else { dice.below(60_000_000) };
        let until = rig.runtime.handle().now() + Nanos(span);
        rig.runtime.run_until(until).map_err(|e| e.to_string())?;
        let what = |e| format!("seed {seed}, life {life}: {e}\n{shape:?}");
        if let Some(e) = owner.wrong.borrow().clone() {
            return Err(what(e));
        }
        opened += *owner.opened.borrow();
        let mut cut = rig.cut_copy(dice.next_u64());
        if dice.chance(1, 4) {
            // It recovers and is used, and the power goes again, unseen.
            cut.power();
            let owner = cut.start(1);
            let until = cut.runtime.handle().now() + Nanos(dice.below(9_000_000));
            cut.runtime.run_until(until).map_err(|e| e.to_string())?;
            if let Some(e) = owner.wrong.borrow().clone() {
                return Err(what(e));
            }
            cut = cut.cut_copy(dice.next_u64());
        }
        cut.check().map_err(what)?;
        rig = cut;
    }
    Ok(opened)
}

/// A shape by the dice.
pub fn any_shape(dice: &mut Stream) -> Shape {
    let pick = |dice: &mut Stream, of: &[u32]| of[dice.below(of.len() as u64) as usize];
    let frames = pick(dice, &[1, 2, 4, 7, 16]);
    let mut shape = Shape {
        frames,
        // From twelve batches on.
        flash_bytes: (52 << 10) + u64::from(frames) * 512 * dice.range(14, 40),
        pages: dice.range(20, 200),
        atomic: pick(dice, &[64, 512, 4096]),
        stamps: dice.chance(1, 3),
        ack: if dice.chance(1, 3) { Ack::PowerSafe } else { Ack::Volatile },
        mode: if dice.chance(1, 4) { Mode::Through } else { Mode::Back },
        replacement: if dice.chance(1, 3) { Replacement::Basic } else { Replacement::SecondChance },
        restart: if dice.chance(1, 4) { RestartBy::Frames } else { RestartBy::Descriptors },
        closes: dice.below(4),
        resizes: dice.chance(1, 4),
        scrubs: dice.chance(1, 4),
        ..Shape::volatile()
    };
    shape.work = Work {
        clients: dice.range(1, 7),
        steps: dice.range(5, 120),
        held: dice.below(4) as usize,
        forgets: dice.below(3) * 12,
        changes: dice.range(1, 5),
    };
    shape.scan = dice.chance(1, 3).then(|| dice.below(3) as u32);
    shape.ghosts = dice.chance(1, 2);
    shape.admit = [Admit::Mixed, Admit::Mixed, Admit::Clean, Admit::Dirty][dice.below(4) as usize];
    shape.idle = [Nanos(1), Nanos::from_micros(200), shape.idle][dice.below(3) as usize];
    shape
}

#[test]
fn random_lives_of_random_caches() {
    for seed in 100..150 {
        let shape = any_shape(&mut Stream::new(seed, "shape"));
        match lives(&shape, seed, 12) {
            Ok(opened) => println!("seed {seed}: opened {opened} times"),
            Err(e) => panic!("{e}"),
        }
    }
}

/// The same seed gives the same run.
#[test]
fn a_run_is_repeated_to_the_event() {
    let hash = |ghosts| {
        let mut rig = Rig::new(&Shape { ghosts, ..Shape::volatile() }, 9);
        let _owner = rig.start(2);
        rig.runtime.run_until(Nanos::from_millis(20)).unwrap();
        (rig.runtime.handle().trace_hash(), rig.flash.bytes_written())
    };
    assert_eq!(hash(false), hash(false));
    // Nothing depends on ghosts.
    assert_eq!(hash(false), hash(true));
}
