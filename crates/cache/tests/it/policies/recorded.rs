//! The recorded trace, against an independent replay and against ghosts.

use super::naive::{Fifo, Model};
use std::io::Read;
use std::rc::Rc;
use tantalum_cache::flash::{
    CacheStats, DeviceStore, FlashCache, FormatOptions, NoHost, OpenOptions, Replacement,
};
use tantalum_cache::policy::sim::{Counts, PageEvent, PageIo, Sim};
use tantalum_cache::policy::{Config, Kind, PageId};
use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
use tantalum_rt::Runtime;

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

/// What a flash cache of so many bytes does with the trace, on devices that take no time. It is
/// checkpointed after each so many I/Os, so that batches are written before they are full; 0: never.
fn on_flash(trace: &[PageIo], bytes: u64, options: OpenOptions, checkpoint: u64) -> CacheStats {
    const PAGE: u64 = 512;
    let pages = trace.iter().map(|io| io.page.0 + 1).max().expect("it is not empty");
    let trace = trace.to_vec();
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let replay = async move {
        let ram = |bytes: u64| {
            let caps = Caps::power_safe(bytes.div_ceil(PAGE), Payload::Bytes);
            RamDevice::new(&rt, RamOptions::new(Caps { block_size: PAGE as u32, ..caps }))
        };
        let flash = ram(bytes);
        let slow = DeviceStore::new(ram((1 << 20) + pages * PAGE), PAGE as u32).unwrap();
        let format = FormatOptions { page: PAGE as u32, ..FormatOptions::default() };
        FlashCache::format(&rt, &flash, &slow, &format).await.unwrap();
        let cache = FlashCache::open(&rt, flash, slow, Rc::new(NoHost), options).await.unwrap();
        let mut page = vec![0; PAGE as usize];
        for (io, now) in trace.iter().zip(1..) {
            let dirty = io.event == PageEvent::Write;
            if !dirty {
                cache.fetch(io.page.0, &mut page).await.unwrap();
            }
            while cache.stage(io.page.0, &page, dirty, now).unwrap().is_none() {
                cache.until_room().await.unwrap();
            }
            if checkpoint > 0 && now % checkpoint == 0 {
                cache.checkpoint().await.unwrap();
            }
        }
        cache.stats()
    };
    runtime.block_on(replay).expect("it does not stall")
}

/// The cache itself, beside one of twice the bytes that gets the same I/Os.
#[test]
fn a_running_cache_says_what_twice_its_size_gains() {
    let trace = &trace()[..600_000];
    for (replacement, frames, checkpoint) in [
        (Replacement::SecondChance, 4_000, 0),
        (Replacement::Basic, 12_000, 0),
        (Replacement::SecondChance, 20_000, 0),
        (Replacement::SecondChance, 16_000, 30),
    ] {
        let of = |times: u64, ghosts| {
            let options = OpenOptions { replacement, ghosts, ..OpenOptions::default() };
            // A page of a batch is 544 bytes, with its part of a descriptor.
            on_flash(trace, times * frames * 560, options, checkpoint)
        };
        let (now, twice) = (of(1, true), of(2, false));
        let rate = |of: &CacheStats| of.hits as f64 / of.fetches as f64;
        let (truth, gain) = (rate(&twice) - rate(&now), now.gain_of_twice().unwrap());
        let ghosts = now.ghosts.unwrap().estimate();
        println!(
            "{replacement:?} {frames} ({checkpoint}): {:.3}, ghosts {:.3}; gain {truth:+.3}, ghosts \
             {gain:+.3}; {} and {} frames, {} used",
            rate(&now),
            ghosts.now,
            now.frames,
            twice.frames,
            now.used,
        );
        assert!(truth > 0.03, "{truth}");
        assert!((gain - truth).abs() < 0.02, "{replacement:?} {frames}: {gain}, in truth {truth}");
    }
}
