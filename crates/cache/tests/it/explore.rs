//! Caches and cache volumes under the crash explorer: honest ones are clean, each defect that can be
//! planted and shows there is found, and what is found can be made short and repeated.

use tantalum_cache::flash::Admit;
use tantalum_cache::{Defect, plant};
use tantalum_device::{Ack, Caps, Payload};
use tantalum_explore::{
    AnyBlueprint, BareCacheBlueprint, Blueprint, CacheBlueprint, Command, Found, Ingredients,
    Nesting, RamBlueprint, Scenario, Tally, reduce,
};
use tantalum_oracle::harness::Mix;
use tantalum_rt::{Nanos, Stream};

fn ram(blocks: u64, atomic_unit: u32) -> RamBlueprint {
    let caps = Caps {
        block_size: 512,
        blocks,
        ack: Ack::Volatile,
        ordered: false,
        atomic_unit,
        ..Caps::power_safe(1, Payload::Bytes)
    };
    let micros = Nanos::from_micros;
    let (command, jitter, flush) = (micros(60), micros(80), micros(100));
    RamBlueprint { command, jitter, flush, ..RamBlueprint::new(caps) }
}

/// A small ring in front of few pages.
fn small() -> CacheBlueprint {
    CacheBlueprint {
        flash: ram(152, 512).into(),
        slow: ram(2048 + 96, 512).into(),
        page: 512,
        frames: 4,
        through: false,
        second_chance: true,
        admit: Admit::Mixed,
        linger: Nanos::from_micros(400),
        loss: false,
        on_exit: false,
    }
}

/// Pages of several blocks, which are torn.
fn wide() -> CacheBlueprint {
    let (flash, slow) = (ram(480, 64).into(), ram(2048 + 96, 64).into());
    CacheBlueprint { flash, slow, page: 2048, ..small() }
}

/// Clean pages enter when the host tells that they have left its memory.
fn on_exit() -> CacheBlueprint {
    CacheBlueprint { on_exit: true, ..small() }
}

/// Dirty pages go past the cache.
fn only_clean() -> CacheBlueprint {
    CacheBlueprint { admit: Admit::Clean, ..small() }
}

fn what(run: u64) -> Ingredients {
    Ingredients {
        commands: 160,
        hosts: 2 + run as u32 % 3,
        mix: Mix { write: 8, fua: 1, group: 0, flush: 2, discard: 1, read: 3 },
        pause: 1,
        pause_us: 200,
        cycle: run % 2,
        ..Ingredients::default()
    }
}

fn volume(cache: CacheBlueprint) -> AnyBlueprint {
    AnyBlueprint::Cache(Box::new(cache))
}

fn bare(cache: CacheBlueprint) -> AnyBlueprint {
    AnyBlueprint::BareCache(Box::new(BareCacheBlueprint { cache }))
}

/// What is done to it: a host tells a volume of exits if that is how clean pages enter, and discards
/// more then.
fn done_to(subject: &AnyBlueprint, run: u64) -> Ingredients {
    let what = what(run);
    match subject {
        AnyBlueprint::Cache(cache) if cache.on_exit => Ingredients {
            hosts: 4,
            range: 48,
            mix: Mix { discard: 4, ..what.mix },
            exit: 8,
            ..what
        },
        _ => what,
    }
}

/// Explores runs of it, of each so many cuts.
fn hunt(
    subject: &AnyBlueprint,
    runs: u64,
    cuts: u64,
    tally: &mut Tally,
) -> Option<(Scenario, Found)> {
    for run in 0..runs {
        let scenario = done_to(subject, run).scenario(subject.clone(), run).unwrap();
        let mut dice = Stream::new(run, "points");
        let found = scenario.points(20).and_then(|points| {
            let count = points.len() as u64;
            let mut points: Vec<_> = points.into_iter().enumerate().collect();
            points.retain(|_| dice.chance(cuts, count.max(cuts)));
            let nesting = Nesting { depth: 1, inner: 3, stride: 2 };
            scenario.explore(&points, nesting, tally, &|| ())
        });
        if let Err(found) = found {
            return Some((scenario, found));
        }
    }
    None
}

#[test]
fn honest_caches_are_clean() {
    for subject in [
        small(),
        wide(),
        CacheBlueprint { through: true, ..small() },
        CacheBlueprint { through: true, second_chance: false, ..wide() },
        CacheBlueprint { second_chance: false, ..small() },
        CacheBlueprint { through: true, loss: true, ..small() },
    ] {
        is_clean(&volume(subject.clone()));
        is_clean(&bare(subject));
    }
}

/// Only clean pages enter, or only dirty ones.
#[test]
fn honest_caches_that_some_pages_do_not_enter_are_clean() {
    let clean = only_clean();
    for subject in [
        clean.clone(),
        CacheBlueprint { admit: Admit::Clean, ..wide() },
        CacheBlueprint { through: true, loss: true, ..clean },
    ] {
        is_clean(&bare(subject));
    }
    let dirty = CacheBlueprint { admit: Admit::Dirty, ..small() };
    for subject in [dirty.clone(), CacheBlueprint { through: true, loss: true, ..dirty }] {
        is_clean(&volume(subject.clone()));
        is_clean(&bare(subject));
    }
}

/// No volume is over a cache that dirty pages do not enter.
#[test]
fn a_volume_whose_dirty_pages_do_not_enter_is_refused() {
    let refused = what(0).scenario(volume(only_clean()), 0).unwrap_err();
    assert!(refused.contains("mixed or dirty"), "{refused}");
}

#[test]
fn honest_volumes_that_are_told_of_exits_are_clean() {
    for subject in [
        on_exit(),
        CacheBlueprint { on_exit: true, ..wide() },
        CacheBlueprint { through: true, second_chance: false, ..on_exit() },
        CacheBlueprint { through: true, loss: true, ..on_exit() },
    ] {
        is_clean(&volume(subject));
    }
}

/// Exits of a cache as its program uses it are its own commands.
#[test]
fn a_cache_without_a_volume_is_told_of_no_exits() {
    let refused = what(0).scenario(bare(on_exit()), 0).unwrap_err();
    assert!(refused.contains("volume"), "{refused}");
}

fn is_clean(subject: &AnyBlueprint) {
    let mut tally = Tally::default();
    if let Some((scenario, found)) = hunt(subject, 3, 60, &mut tally) {
        let test = reduce(&scenario, &found, 1_000).to_test();
        panic!("{subject:?}: {found:?}\n{test}");
    }
    assert!(tally.all_cuts() > 120, "{tally:?}");
}

/// Defects that show below a volume, and where. The others need what a volume does not do: evictions
/// of what the cache has, closes, damage, or rings of many segments.
const BELOW_A_VOLUME: [Defect; 5] = [
    Defect::FrontBeforeSlowFlush,
    Defect::SupersededDroppedEarly,
    Defect::NoSpareBatch,
    Defect::SupersededNotCleaned,
    Defect::ExitsUnclaimed,
];

#[test]
fn planted_defects_are_found_below_a_volume_and_repeated() {
    for defect in BELOW_A_VOLUME {
        is_found(defect, &volume(shows(defect)));
    }
}

/// All but those that only a volume shows: one takes two evictions of a page at once, and one a host
/// that tells of exits.
#[test]
fn planted_defects_are_found_in_a_cache_and_repeated() {
    let of_volumes =
        |d: &Defect| matches!(d, Defect::SupersededNotCleaned | Defect::ExitsUnclaimed);
    for defect in Defect::ALL.iter().filter(|defect| !of_volumes(defect)) {
        is_found(*defect, &bare(shows(*defect)));
    }
}

/// What a defect shows in.
fn shows(defect: Defect) -> CacheBlueprint {
    match defect {
        Defect::SupersededNotCleaned => CacheBlueprint { through: true, loss: true, ..small() },
        Defect::ExitsUnclaimed => on_exit(),
        Defect::PastWithoutTombstone => only_clean(),
        Defect::ChecksumNotCompared | Defect::VouchesInFlight => wide(),
        _ => small(),
    }
}

fn is_found(defect: Defect, subject: &AnyBlueprint) {
    plant(Some(defect));
    let found = hunt(subject, 60, 200, &mut Tally::default());
    let Some((scenario, found)) = found else {
        plant(None);
        panic!("{defect:?} is not found")
    };
    println!("{defect:?}: {}: {}", found.stage, found.failure);
    let again = scenario.cut(&found.cuts);
    plant(None);
    assert_eq!(again.unwrap_err().failure, found.failure, "{defect:?}");
    if let Err(found) = scenario.cut(&found.cuts) {
        let test = reduce(&scenario, &found, 1_000).to_test();
        panic!("{defect:?}: without it there is {found:?}\n{test}");
    }
}

/// No cut at this moment or up to a millisecond later finds anything. (These were found when a start
/// wrote one superblock less.)
fn is_clean_around<B: Blueprint>(scenario: &Scenario<B>, cut: u64) {
    for later in (0..1_000_000).step_by(10_000) {
        assert_eq!(scenario.cut(&[Nanos(cut + later)]), Ok(()), "{later} ns later");
    }
}

/// Pages at the front got second chances while the cache was closed. The batch with them was written
/// behind the last one that the clean mark counts, and the next one over a batch that it counts.
#[test]
fn second_chances_at_a_close_are_durable_before_it() {
    let scenario = what(5).scenario(bare(small()), 5).unwrap();
    is_clean_around(&scenario, 35_286_092);
}

/// While a cache was given up a batch that was leaving gave a dirty page a second chance. The slow
/// store then seemed to need the cache that had ended.
#[test]
fn a_second_chance_does_not_keep_a_cache_from_being_given_up() {
    let write = Command::Write;
    let scenario = Scenario {
        subject: bare(CacheBlueprint { admit: Admit::Dirty, ..small() }),
        seed: 16216098872519410642,
        hosts: 2,
        commands: vec![
            write(91, 1),
            Command::Flush,
            Command::Flush,
            write(15, 5),
            Command::Group(22, 2, 34),
            write(35, 2),
            write(73, 1),
            Command::Flush,
            Command::Flush,
            Command::Fua(1, 5),
            Command::Flush,
        ],
        then: vec![Command::Group(3, 7, 14), write(9, 2), Command::Flush],
        faults: 0,
    };
    is_clean_around(&scenario, 9_789_451);
}

/// With write-through a fetch wrote a page to the slow store whose eviction was not on flash yet. A cut
/// tore it, and no copy was whole.
#[test]
fn a_fetch_writes_through_what_flash_has() {
    let write = Command::Write;
    let scenario = Scenario {
        subject: bare(CacheBlueprint { through: true, second_chance: false, ..wide() }),
        seed: 0,
        hosts: 2,
        commands: vec![
            write(14, 3),
            write(19, 5),
            Command::Discard(16, 1),
            write(8, 5),
            write(4, 2),
            write(4, 5),
        ],
        then: Vec::new(),
        faults: 0,
    };
    is_clean_around(&scenario, 2_703_818);
}

/// With write-through a version was cleaned, and then superseded by one that was not durable. An
/// older version, which was on its way to the slow store, was written over it.
#[test]
fn no_older_version_is_written_over_one_that_was_cleaned() {
    let cache = CacheBlueprint {
        flash: ram(480, 64).into(),
        slow: ram(2048 + 96, 64).into(),
        page: 2048,
        through: true,
        second_chance: false,
        ..small()
    };
    let scenario = Scenario {
        subject: BareCacheBlueprint { cache },
        seed: 1445606190451968761,
        hosts: 2,
        commands: vec![
            Command::Write(12, 4),
            Command::Write(5, 6),
            Command::Write(14, 6),
            Command::Write(11, 1),
            Command::Read(6, 3),
            Command::Fua(3, 4),
            Command::Write(0, 5),
            Command::Write(8, 4),
            Command::Group(1, 5, 4),
            Command::Fua(10, 2),
            Command::Write(15, 1),
            Command::Write(19, 5),
            Command::Group(9, 8, 2),
            Command::Write(9, 6),
            Command::Group(15, 3, 3),
            Command::Fua(4, 6),
            Command::Group(2, 8, 3),
            Command::Group(8, 5, 2),
            Command::Flush,
            Command::Write(12, 3),
            Command::Write(7, 1),
            Command::Write(5, 2),
            Command::Fua(8, 3),
            Command::Write(6, 3),
            Command::Discard(20, 4),
            Command::Read(8, 2),
            Command::Write(6, 5),
            Command::Group(0, 4, 7),
            Command::Write(20, 4),
            Command::Write(14, 1),
            Command::Write(14, 1),
            Command::Write(6, 3),
            Command::Read(6, 1),
            Command::Discard(17, 5),
            Command::Group(12, 3, 3),
            Command::Write(5, 3),
            Command::Write(1, 3),
            Command::Read(10, 2),
            Command::Group(11, 7, 1),
            Command::Write(8, 6),
            Command::Read(4, 4),
            Command::Fua(6, 2),
            Command::Flush,
            Command::Group(1, 4, 3),
            Command::Read(7, 2),
            Command::Fua(8, 1),
            Command::Write(12, 1),
            Command::Write(0, 2),
            Command::Write(6, 6),
            Command::Write(13, 6),
            Command::Write(13, 5),
            Command::Write(13, 3),
            Command::Discard(13, 3),
        ],
        then: vec![
            Command::Write(17, 2),
            Command::Write(0, 5),
            Command::Write(17, 2),
            Command::Write(1, 6),
            Command::Write(5, 2),
            Command::Read(19, 3),
            Command::Write(4, 3),
            Command::Write(8, 4),
            Command::Write(2, 2),
        ],
        faults: 0,
    };
    is_clean_around(&scenario, 26_122_747);
}
