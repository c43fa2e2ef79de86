//! The recorded trace, against an independent replay and against ghosts.

use super::naive::{Fifo, Model};
use std::io::Read;
use tantalum_cache::policy::sim::{Counts, PageEvent, PageIo, Sim};
use tantalum_cache::policy::{Config, Kind, PageId};

/// PostgreSQL 15 below a pool of 32 MB: a million I/Os of 8 KiB.
fn trace() -> Vec<PageIo> {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/traces/pg15-tpcc-32mb.u32.xz");
    #[allow(clippy::disallowed_methods, reason = "a test reads the recording")]
    let packed = std::fs::read(path).expect("the recording is in the repository");
    let mut words = Vec::new();
    let mut reader = lzma_rust2::XzReader::new(packed.as_slice(), true);
    reader.read_to_end(&mut words).expect("it is whole");
    let ios = words.chunks_exact(4).map(|w| {
        let word = u32::from_le_bytes([w[0], w[1], w[2], w[3]]);
        let event = if word & 1 == 1 { PageEvent::Write } else { PageEvent::Read };
        PageIo { page: PageId(u64::from(word >> 1)), client: 0, event }
    });
    ios.collect()
}

fn replay(trace: &[PageIo], config: &Config) -> Counts {
    let mut sim = Sim::new(config, None).expect("it can be built");
    trace.iter().for_each(|&io| sim.step(io));
    sim.counts().clone()
}

fn config(kind: Kind, frames: u32) -> Config {
    Config::new(kind, frames, 8192)
}

/// The read hits and the change of writes to the slow store of the naive model.
fn naive(trace: &[PageIo], frames: usize, second_chance: bool) -> (f64, f64) {
    let mut model = Fifo::new(frames, 64, second_chance);
    let (mut reads, mut hits, mut writes) = (0.0, 0.0, 0.0);
    for io in trace {
        if io.event == PageEvent::Write {
            writes += 1.0;
            model.write(io.page.0);
        } else {
            reads += 1.0;
            hits += f64::from(u8::from(model.read(io.page.0)));
        }
    }
    (hits / reads, model.slow_writes() as f64 / writes - 1.0)
}

#[test]
fn the_recorded_trace_gives_what_an_independent_replay_gave() {
    let trace = trace();
    assert_eq!(trace.len(), 1_000_000);
    for (kind, frames, hits, slow) in [
        (Kind::MvFifo, 12_000, 0.375, -0.265),
        (Kind::Gsc, 12_000, 0.444, -0.349),
        (Kind::MvFifo, 25_000, 0.601, -0.523),
        (Kind::Gsc, 25_000, 0.709, -0.598),
    ] {
        let counts = replay(&trace, &config(kind, frames));
        let (ours, change) = (counts.hit_rate().unwrap(), counts.slow_write_change().unwrap());
        println!("{kind} {frames}: read hits {ours:.4}, disk writes {:+.2} %", change * 100.0);
        assert!((ours - hits).abs() < 0.005, "{kind} {frames}: {ours}");
        assert!((change - slow).abs() < 0.005, "{kind} {frames}: {change}");
        // The same frames as a whole number of batches: the two agree to the last page.
        let naive = naive(&trace, frames as usize / 64 * 64, kind == Kind::Gsc);
        assert_eq!((ours, change), naive, "{kind} {frames}");
    }
}

#[test]
fn ghosts_say_what_twice_the_size_gains() {
    let trace = trace();
    for kind in Kind::ALL {
        if kind == Kind::None {
            continue;
        }
        for frames in [12_000, 25_000] {
            let config = config(kind, frames);
            let mut sim = Sim::new(&config, Some(8)).expect("it can be built");
            trace.iter().for_each(|&io| sim.step(io));
            let gain = sim.estimate().expect("it has ghosts").gain();
            let twice = replay(&trace, &Config { frames: 2 * frames, ..config });
            let now = sim.counts().hit_rate().unwrap();
            let truth = twice.hit_rate().unwrap() - now;
            println!("{kind} {frames}: {now:.3}, gain {truth:+.3}, ghosts say {gain:+.3}");
            assert!((gain - truth).abs() < 0.02, "{kind} {frames}: {gain}, in truth {truth}");
        }
    }
}
