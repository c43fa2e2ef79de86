//! Logs and log volumes under the crash explorer: honest ones are clean, each defect that can be
//! planted is found, and what is found can be made short and repeated.

use tantalum_device::{Ack, Caps, Payload};
use tantalum_explore::{
    AnyBlueprint, Found, Ingredients, LogBlueprint, LogShape, Nesting, RamBlueprint, Scenario,
    Tally, VolumeBlueprint, reduce,
};
use tantalum_log::{Defect, plant};
use tantalum_oracle::harness::Mix;
use tantalum_rt::{Nanos, Stream};

fn ram(kib: u64, atomic_unit: u32) -> RamBlueprint {
    let caps = Caps {
        block_size: 512,
        blocks: kib * 2,
        ack: Ack::Volatile,
        ordered: false,
        atomic_unit,
        ..Caps::power_safe(1, Payload::Bytes)
    };
    let micros = Nanos::from_micros;
    let (command, jitter, flush) = (micros(60), micros(80), micros(100));
    RamBlueprint { command, jitter, flush, ..RamBlueprint::new(caps) }
}

fn log(kib: u64, shape: LogShape) -> AnyBlueprint {
    AnyBlueprint::Log(Box::new(LogBlueprint { device: ram(kib, 512).into(), shape }))
}

fn volume(memory: u64, shape: LogShape) -> AnyBlueprint {
    let log = LogBlueprint { device: ram(160, 512).into(), shape };
    let (backing, linger) = (ram(40, 512).into(), Nanos::from_millis(3));
    AnyBlueprint::Volume(Box::new(VolumeBlueprint {
        log,
        backing,
        memory,
        linger,
        full_limits: false,
    }))
}

/// A log that wraps, on devices some of whose writes are slow.
fn laps(devices: u32) -> AnyBlueprint {
    log(104, LogShape { devices, slow_one_in: 6, ..LogShape::default() })
}

fn what(run: u64) -> Ingredients {
    Ingredients {
        commands: 160,
        hosts: 2 + run as u32 % 3,
        mix: Mix { write: 6, fua: 8, group: 1, flush: 1, discard: 1, read: 1 },
        pause: 1,
        pause_us: 300,
        cycle: run % 2,
        faults: 1,
        ..Ingredients::default()
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
        let scenario = what(run).scenario(subject.clone(), run).unwrap();
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
fn honest_logs_and_volumes_are_clean() {
    let shape = LogShape::default;
    for subject in [
        laps(1),
        laps(3),
        log(136, LogShape { archive: true, slow_one_in: 8, ..shape() }),
        log(240, LogShape { partitions: 2, ..shape() }),
        log(136, LogShape { devices: 3, copies: 2, loss: true, ..shape() }),
        log(136, LogShape { archive: true, copies: 2, loss: true, ..shape() }),
        volume(64 << 10, shape()),
        volume(8 << 10, LogShape { devices: 1, ..shape() }),
        volume(8 << 10, LogShape { devices: 3, copies: 2, loss: true, ..shape() }),
    ] {
        let mut tally = Tally::default();
        if let Some((scenario, found)) = hunt(&subject, 3, 60, &mut tally) {
            let test = reduce(&scenario, &found, 1_000).to_test();
            panic!("{subject:?}: {found:?}\n{test}");
        }
        assert!(tally.all_cuts() > 120, "{tally:?}");
    }
}

/// Where a defect shows.
fn subject(defect: Defect) -> AnyBlueprint {
    let shape = LogShape::default;
    match defect {
        Defect::AckedBeforeEarlier | Defect::SecondStreamSkipped => laps(3),
        Defect::ArchiveBeforeFlush => {
            log(136, LogShape { archive: true, slow_one_in: 8, ..shape() })
        }
        Defect::OneDeviceTwice => {
            log(240, LogShape { copies: 2, partitions: 2, loss: true, ..shape() })
        }
        Defect::DestagedWithoutFlush => volume(6 << 10, LogShape { devices: 1, ..shape() }),
        _ => laps(3),
    }
}

#[test]
fn each_planted_defect_is_found_and_repeated() {
    for &defect in Defect::ALL {
        plant(Some(defect));
        let found = hunt(&subject(defect), 24, 120, &mut Tally::default());
        let Some((scenario, found)) = found else {
            plant(None);
            panic!("{defect:?} is not found")
        };
        println!("{defect:?}: {}: {}", found.stage, found.failure);
        let again = scenario.cut(&found.cuts);
        plant(None);
        assert_eq!(again.unwrap_err().failure, found.failure, "{defect:?}");
        assert_eq!(scenario.cut(&found.cuts), Ok(()), "{defect:?}: it is the defect that it shows");
    }
}

/// Once the search for an LSN skipped what counts, behind the copies of an opening that was cut.
#[test]
fn log_of_2_ram_survives_these_cuts() {
    use tantalum_explore::{Command, Scenario};
    use tantalum_rt::Nanos;
    let subject = tantalum_explore::LogBlueprint {
        device: tantalum_explore::RamBlueprint {
            caps: tantalum_device::Caps {
                block_size: 512,
                blocks: 272,
                thin: false,
                ack: tantalum_device::Ack::Volatile,
                flush: true,
                ordered: false,
                atomic_unit: 512,
                atomic_group: None,
                payload: tantalum_device::Payload::Bytes,
            },
            command: tantalum_rt::Nanos(60000),
            jitter: tantalum_rt::Nanos(80000),
            flush: tantalum_rt::Nanos(100000),
            start: tantalum_rt::Nanos(100000),
            cache_commands: 64,
        }
        .into(),
        shape: tantalum_explore::LogShape {
            devices: 2,
            archive: true,
            copies: 2,
            partitions: 1,
            slow_one_in: 0,
            slow_by: tantalum_rt::Nanos(3000000),
            stall: tantalum_rt::Nanos(20000000),
            loss: true,
        },
    };
    let scenario = Scenario {
        subject,
        seed: 0,
        hosts: 2,
        commands: vec![
            Command::Flush,
            Command::Pause(228),
            Command::Write(210, 1),
            Command::Fua(81, 5),
            Command::Fua(148, 4),
            Command::Discard(97, 1),
            Command::Read(199, 1),
            Command::Write(14, 3),
            Command::Fua(157, 6),
            Command::Fua(49, 3),
            Command::Write(177, 1),
            Command::Discard(37, 1),
            Command::Fua(2, 4),
            Command::Write(166, 1),
            Command::Write(167, 1),
            Command::Fua(55, 6),
            Command::Write(84, 1),
            Command::Read(237, 6),
            Command::Discard(188, 5),
            Command::Group(32, 2, 216),
        ],
        then: vec![],
        faults: 1,
    };
    let cuts: [Nanos; 2] = [Nanos(3315475), Nanos(3042465)];
    let found = scenario.cut(&cuts);
    assert!(found.is_ok(), "{found:?}");
}
