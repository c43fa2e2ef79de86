//! A medium that fails, content that goes bad, hosts that give up: nothing hangs, nothing
//! that is wrong is served.

use crate::designs::{small, tiny, with_spare};
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Blocks, Data, DataMut, Durability, IoError, Payload, PowerCycle,
};
use tantalum_drive::{Design, Drive, DriveLink};
use tantalum_nand::{NandArray, PageAddr, PageState, ReadRequest, Unit};
use tantalum_oracle::{Host, Oracle};
use tantalum_rt::{Nanos, Rt, Runtime};

fn on_drive<T: 'static, F: Future<Output = T> + 'static>(
    design: &Design,
    test: impl FnOnce(Rt, Drive) -> F,
) -> T {
    on_drive_of(5, design, test)
}

fn on_drive_of<T: 'static, F: Future<Output = T> + 'static>(
    seed: u64,
    design: &Design,
    test: impl FnOnce(Rt, Drive) -> F,
) -> T {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let drive = Drive::new(&rt, design, Payload::Stamps).unwrap();
    let label = design.name.clone();
    runtime.block_on(test(rt, drive)).unwrap_or_else(|e| panic!("{label}: {e}"))
}

pub async fn start(drive: &Drive) {
    let started = drive.power_on().await;
    started.unwrap_or_else(|e| panic!("{e}: {:?}", drive.last_failure()));
}

async fn fill(device: &DriveLink, base: u64) -> Result<(), IoError> {
    for at in 0..device.caps().blocks {
        device.write(Block(at), Data::Stamps(&[base + at]), Durability::Normal).await?;
    }
    Ok(())
}

async fn read(device: &DriveLink, at: u64) -> Result<u64, IoError> {
    let mut room = [0];
    device.read(Block(at), DataMut::Stamps(&mut room)).await?;
    Ok(room[0])
}

/// A discard of many blocks needs room for many changed entries: it gets it.
#[test]
fn a_large_discard_gets_room_in_a_small_map_log() {
    for preset in Design::presets() {
        on_drive(&small(preset), |_, drive| async move {
            drive.power_on().await.unwrap();
            let device = drive.device();
            let blocks = device.caps().blocks;
            for filled in (500..1100).step_by(25) {
                for at in 0..filled {
                    let stamps = [at + 1];
                    device
                        .write(Block(at), Data::Stamps(&stamps), Durability::Normal)
                        .await
                        .unwrap();
                }
                device.discard(Blocks { start: Block(0), count: blocks }).await.unwrap();
                assert_eq!(read(&device, filled / 2).await.unwrap(), 0);
            }
        });
    }
}

/// More dies than the map log has room for changes: they take turns.
#[test]
fn many_dies_share_a_small_map_log() {
    let table: toml::Table = "[geometry]\nchannels = 8\npackages = 4\nchips = 2\nplanes = 4\nblocks = 12\npages = 4\npage_bytes = 16384\n\
         [space]\nover_provisioning = 120\n\
         [cache]\nbuffer_kib = 8192\n\
         [map]\ndirty_max = 1024\nwrite_points = 1\ndump_units = 60"
        .parse()
        .unwrap();
    let design = Design::preset("durassd").unwrap().with_overrides(&table).unwrap();
    on_drive(&design, |rt, drive| async move {
        drive.power_on().await.unwrap();
        let device = drive.device();
        let blocks = device.caps().blocks;
        let writers: Vec<_> = (0..16)
            .map(|i| {
                let device = device.clone();
                rt.spawn("writer", async move {
                    let stamps = [7; 16];
                    for round in 0..800 {
                        let at = Block((round * 16 + i) * 16 % (blocks - 16));
                        device.write(at, Data::Stamps(&stamps), Durability::Normal).await.unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        drive.cut();
        drive.off().await;
        drive.power_on().await.unwrap();
    });
}

/// A program or an erase fails, of whatever: every command completes, and nothing is lost
/// or goes back, neither now nor after a restart.
#[test]
fn a_failed_program_or_erase_is_overcome() {
    for preset in Design::presets() {
        for (erase, after) in (0..60).map(|n| (n % 2 == 1, n * 7)) {
            on_drive(&with_spare(preset), |rt, drive| async move {
                start(&drive).await;
                let oracle = Rc::new(Oracle::new(drive.caps()));
                let run = |round: u64| {
                    let (rt, drive, oracle) = (rt.clone(), drive.clone(), oracle.clone());
                    async move {
                        let host = |i| mixed(rt.clone(), oracle.host(drive.device()), i, 250);
                        let hosts: Vec<_> =
                            (0..4).map(|i| rt.spawn("host", host(round * 10 + i))).collect();
                        for host in hosts {
                            host.await.unwrap();
                        }
                    }
                };
                run(0).await;
                match erase {
                    true => drive.array().fail_erase(after / 7),
                    false => drive.array().fail_program(after),
                }
                run(1).await;
                assert_eq!(drive.stats().retired_units, 1, "erase: {erase}, {after}");
                assert_eq!(drive.bad_units(), 1);
                for round in 2..4 {
                    // What says that the life is over needs its time to get to flash.
                    rt.sleep(Nanos::from_secs(1)).await;
                    drive.cut();
                    drive.off().await;
                    start(&drive).await;
                    let found = oracle.check(&drive.device()).await.unwrap();
                    assert!(found.is_empty(), "erase: {erase}, {after}: {found:?}");
                    assert_eq!(drive.bad_units(), 1, "what is bad is known after a restart");
                    run(round).await;
                }
                assert_eq!(drive.stats().retired_units, 1, "it was never used again");
            });
        }
    }
}

/// Commands that all succeed.
async fn mixed(rt: Rt, host: Host<DriveLink>, which: u64, commands: u64) {
    let mut dice = rt.stream(&format!("host {which}"));
    let blocks = host.device().caps().blocks;
    for _ in 0..commands {
        let count = dice.range(1, 5);
        let range = Blocks { start: Block(dice.below(blocks - 4)), count };
        let ended = match dice.below(9) {
            0 => host.flush().await,
            1 => host.discard(range).await,
            2 => host.write(range, Durability::Fua).await,
            3 => host.read(range).await,
            _ => host.write(range, Durability::Normal).await,
        };
        ended.unwrap();
    }
}

/// Units wear out until none is to spare: writes are refused then, and whatever was
/// acknowledged can be read, for ever.
#[test]
fn at_the_end_of_its_life_a_drive_can_be_read() {
    for preset in Design::presets() {
        for (endurance, rate) in [(20, 0), (12, 0), (u32::MAX, 20_000)] {
            let mut design = with_spare(preset);
            design.wear.endurance = endurance;
            assert!(a_life_ends(5, &design, rate), "{preset}: another end than it was to have");
        }
    }
}

/// A drive of which so many of a million erases fail, and a tenth as many programs. Whether
/// too many units were bad; else the map log had none left before (retire.rs, 6).
fn a_life_ends(seed: u64, design: &Design, rate: u64) -> bool {
    on_drive_of(seed, design, |rt, drive| async move {
        start(&drive).await;
        drive.array().set_failure_rates(rate / 10, rate);
        let oracle = Rc::new(Oracle::new(drive.caps()));
        let hosts: Vec<_> = (0..4)
            .map(|i| rt.spawn("host", to_the_end(rt.clone(), oracle.clone(), drive.clone(), i)))
            .collect();
        for host in hosts {
            host.await.unwrap();
        }
        let spare = drive.layout().spare_units;
        let worn_out = drive.bad_units() > spare;
        let all = Blocks { start: Block(0), count: drive.caps().blocks };
        for restart in 0..4 {
            let host = oracle.host(drive.device());
            host.read(all).await.unwrap();
            let one = Blocks { start: Block(3), count: 2 };
            for want in [Durability::Normal, Durability::Fua] {
                assert_eq!(host.write(one, want).await, Err(IoError::ReadOnly));
            }
            assert_eq!(host.discard(one).await, Err(IoError::ReadOnly));
            if restart > 0 || drive.design().is_protected() {
                assert_eq!(host.flush().await, Ok(()));
            }
            drive.cut();
            drive.off().await;
            start(&drive).await;
            let found = oracle.check(&drive.device()).await.unwrap();
            assert!(found.is_empty(), "restart {restart}: {found:?}");
            if !worn_out {
                break; // It may take writes once more.
            }
            assert!(drive.bad_units() > spare, "restart {restart}: a mark is lost");
        }
        worn_out
    })
}

/// Writes until the drive takes no more.
pub async fn to_the_end(rt: Rt, oracle: Rc<Oracle>, drive: Drive, which: u64) {
    let mut dice = rt.stream(&format!("host {which}"));
    let host = oracle.host(drive.device());
    let blocks = drive.caps().blocks;
    loop {
        let count = dice.range(1, 5);
        let range = Blocks { start: Block(dice.below(blocks - 4)), count };
        let ended = match dice.below(40) {
            0 => host.flush().await,
            1 => host.discard(range).await,
            2 => host.write(range, Durability::Fua).await,
            _ => host.write(range, Durability::Normal).await,
        };
        match ended {
            Ok(()) => {}
            Err(IoError::ReadOnly | IoError::Failed(_)) => return,
            Err(e) => panic!("{e}"),
        }
    }
}

/// Programs that fail in the emergency dump are made good in the same dump.
#[test]
fn a_dump_gets_over_programs_that_fail() {
    for first in 0..12 {
        for second in [0, 1, 5] {
            on_drive(&with_spare("durassd"), |rt, drive| async move {
                start(&drive).await;
                fill(&drive.device(), 1).await.unwrap();
                drive.array().fail_program(first);
                drive.cut();
                for _ in 0..second {
                    rt.sleep(Nanos::from_micros(500)).await;
                }
                drive.array().fail_program(second);
                drive.off().await;
                for _ in 0..3 {
                    start(&drive).await;
                    let device = drive.device();
                    for at in 0..device.caps().blocks {
                        assert_eq!(read(&device, at).await.unwrap(), at + 1);
                    }
                    drive.cut();
                    drive.off().await;
                }
                start(&drive).await;
                fill(&drive.device(), 1000).await.unwrap();
            });
        }
    }
}

/// A protected drive whose emergency dump failed has lost what it promised: it says so
/// and does not serve what its map said long ago.
#[test]
fn a_failed_dump_is_not_passed_over() {
    for failing in 0..6 {
        on_drive(&tiny("durassd"), move |rt, drive| async move {
            drive.power_on().await.unwrap();
            // The first dump has one page beside its end; of later ones older ones exist.
            let stamps = [1];
            let device = drive.device();
            device.write(Block(0), Data::Stamps(&stamps), Durability::Normal).await.unwrap();
            for round in 0..failing {
                drive.cut();
                drive.off().await;
                drive.power_on().await.unwrap();
                fill(&drive.device(), 1 + round * 1000).await.unwrap();
            }
            // All that was under way has ended: the next program is one of the dump.
            rt.sleep(Nanos::from_millis(100)).await;
            drive.array().set_failure_rates(1_000_000, 0);
            drive.cut();
            drive.off().await;
            assert!(matches!(drive.power_on().await, Err(IoError::Failed(_))), "{failing}");
            let why = drive.last_failure().unwrap().to_string();
            assert!(why.contains("dump"), "{why}");
        });
    }
}

/// Any one page goes bad while the power is off: the drive says so at its start, or
/// serves everything else as it should be; nothing wrong, no panic. Only the last program of
/// the map log, which nothing was written after, looks as if the power loss had torn it: what
/// it told may be missing.
#[test]
fn a_page_that_goes_bad_is_never_served_as_something_else() {
    for preset in Design::presets() {
        for lives in 1..=3 {
            a_page_goes_bad(5, &tiny(preset), lives);
        }
    }
}

/// Each page of a drive that had so many lives, one after the other.
fn a_page_goes_bad(seed: u64, design: &Design, lives: u64) {
    let (image, newest) = on_drive_of(seed, design, |rt, drive| async move {
        let blocks = drive.caps().blocks;
        let mut newest = vec![0; blocks as usize];
        let mut dice = rt.stream("writes");
        for life in 0..lives {
            start(&drive).await;
            let device = drive.device();
            // The lives end at different places of a row.
            for stamp in life * 1000 + 1..life * 1000 + 700 + life * 16 {
                let at = if stamp <= blocks { stamp - 1 } else { dice.below(blocks) };
                let stamps = [stamp];
                device.write(Block(at), Data::Stamps(&stamps), Durability::Normal).await.unwrap();
                newest[at as usize] = stamp;
                if stamp % 16 == 0 {
                    device.flush().await.unwrap();
                }
            }
            device.flush().await.unwrap();
            // All that was under way has ended: nothing is torn.
            rt.sleep(Nanos::from_secs(1)).await;
            drive.cut();
            drive.off().await;
        }
        (drive.array().snapshot(), Rc::new(newest))
    });
    let pages = design.geometry.unit_pages();
    let (mut refused, mut unread, mut excused) = (0, 0, 0);
    for bad in 0..design.geometry.units() * pages {
        let at = PageAddr { unit: Unit(bad / pages), page: bad % pages };
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        let array = NandArray::from_image(&rt, &image);
        array.power_off();
        let drive = Drive::with_array(&rt, design, array).unwrap();
        let ended = runtime.block_on(starts_with_a_bad_page(drive, at, newest.clone())).unwrap();
        match ended {
            None => refused += 1,
            Some((lost, stale)) => {
                unread += lost;
                excused += u32::from(stale);
            }
        }
    }
    let label = &design.name;
    println!("{label}, {lives} lives: {refused} stop it, {unread} blocks lost, {excused} stale");
    // (A journal of units has all pages of so short a run in it: each stops the start.)
    assert!(unread > 0 || design.keeps_units());
    assert!(excused <= design.geometry.planes, "more than one program");
}

/// This page goes bad: how many blocks are lost, and whether old ones are served. `None`: the
/// drive does not start.
async fn starts_with_a_bad_page(
    drive: Drive,
    at: PageAddr,
    newest: Rc<Vec<u64>>,
) -> Option<(u32, bool)> {
    let may_be_torn = !drive.design().is_protected() && is_last_program(&drive, at);
    if !drive.array().corrupt(at) {
        return Some((0, false));
    }
    if let Err(e) = drive.power_on().await {
        assert!(matches!(e, IoError::Failed(_)), "{e}");
        return None;
    }
    let label = &drive.design().name;
    let device = drive.device();
    let (mut unread, mut stale) = (0, false);
    for (block, stamp) in newest.iter().enumerate() {
        match read(&device, block as u64).await {
            Ok(found) if may_be_torn && found < *stamp => stale = true,
            Ok(found) => assert_eq!(found, *stamp, "{label}: block {block}, bad: {at:?}"),
            Err(IoError::Uncorrectable(b)) => {
                assert_eq!(b, Block(block as u64));
                unread += 1;
            }
            Err(IoError::Failed(_)) if drive.last_failure().is_some() => return None,
            Err(e) => panic!("{e}"),
        }
    }
    drive.settled().await;
    if drive.last_failure().is_some() {
        return None;
    }
    // Some more writes, and what was lost can be written again.
    fill(&device, 10_000).await.unwrap();
    fill(&device, 20_000).await.unwrap();
    for block in 0..device.caps().blocks {
        assert_eq!(read(&device, block).await.unwrap(), 20_000 + block);
    }
    Some((unread, stale))
}

/// Whether this page is of the program of the map log that was the last of all: each of
/// its pages says how many pages of its program come before it.
fn is_last_program(drive: &Drive, at: PageAddr) -> bool {
    let g = drive.array().geometry();
    drive.array().power_on();
    let mut newest = (0, at, 0);
    for i in 0..g.units() * g.unit_pages() {
        let page = PageAddr { unit: Unit(i / g.unit_pages()), page: i % g.unit_pages() };
        let mut states = [PageState::Erased];
        let mut oob = vec![0; drive.array().oob_words()];
        let read = drive.array().read(ReadRequest {
            at: page,
            count: 1,
            first: 0,
            data: None,
            oob: Some(&mut oob),
            states: &mut states,
        });
        assert!(read.is_ok());
        let (kind, sequence) = (oob[0] >> 56, oob[0] << 8 >> 8);
        let of_log = kind == 3 || kind == 4; // Images of map pages, changes.
        if states[0] == PageState::Programmed && of_log && sequence > newest.0 {
            newest = (sequence, page, (oob[1] >> 48) as u32);
        }
    }
    drive.array().power_off();
    let (_, last, before) = newest;
    at.unit == last.unit && at.page + before >= last.page
}
