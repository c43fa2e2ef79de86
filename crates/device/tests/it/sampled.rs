//! The sampled device: what its tables say, and nothing that it did not promise.

use std::rc::Rc;
use tantalum_device::{
    Ack, Block, BlockDevice, Blocks, Bus, CommandKind, Data, DataMut, Durability, LatencyRow, Mode,
    Outlier, Overlap, Payload, RamDevice, SampledModel, Stall, StreamKind,
};
use tantalum_oracle::harness::{CrashPlan, CutAt, crash_run};
use tantalum_rt::{Nanos, Rt, Runtime};

/// The preset with all keys.
const PRESET: &str = include_str!("../../presets/usb-flash.toml");

fn row(command: CommandKind, stream: Option<StreamKind>, bytes: u64, us: &[u64]) -> LatencyRow {
    LatencyRow { command: command.name().to_string(), stream, bytes, us: us.to_vec() }
}

/// Reads take 100 µs, writes 200 µs for each 4 KiB, flushes 1 ms for each 64 KiB before.
fn plain() -> SampledModel {
    let latency = vec![
        row(CommandKind::Read, None, 4096, &[100]),
        row(CommandKind::Write, None, 4096, &[200]),
        row(CommandKind::Flush, None, 65_536, &[1000]),
    ];
    SampledModel { ack: Ack::Volatile, ..SampledModel::plain(512, 100_000, latency) }
}

/// Runs `test` on such a device; what it gives, and the hash of the run.
fn on<T: 'static, F: Future<Output = T> + 'static>(
    model: &SampledModel,
    seed: u64,
    test: impl FnOnce(Rt, RamDevice) -> F,
) -> (T, u64) {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let device = model.build(&rt, "sampled", Payload::Stamps, None).unwrap();
    let value = runtime.block_on(test(rt.clone(), device)).unwrap();
    (value, rt.trace_hash())
}

async fn timed<T>(rt: &Rt, what: impl Future<Output = T>) -> u64 {
    let before = rt.now();
    what.await;
    (rt.now() - before).0 / 1000
}

async fn write(device: &RamDevice, at: u64, blocks: usize) {
    let stamps = vec![at + 1; blocks];
    device.write(Block(at), Data::Stamps(&stamps), Durability::Normal).await.unwrap();
}

async fn read(device: &RamDevice, at: u64, blocks: usize) {
    device.read(Block(at), DataMut::Stamps(&mut vec![0; blocks])).await.unwrap();
}

/// Times of single writes of 4 KiB, µs: at random places that never overlap.
async fn random_writes(rt: Rt, device: RamDevice, count: u64) -> Vec<u64> {
    let mut all = Vec::new();
    for i in 0..count {
        let at = i * 7919 % 12_000 * 8;
        all.push(timed(&rt, write(&device, at, 8)).await);
    }
    all
}

#[test]
fn the_preset_can_be_read_and_written_and_its_mistakes_are_told() {
    let model: SampledModel = toml::from_str(PRESET).unwrap();
    model.check().unwrap();
    let text = toml::to_string(&model).unwrap();
    assert_eq!(toml::from_str::<SampledModel>(&text).unwrap(), model);
    let wrong = |from: &str, to: &str, told: &str| {
        assert!(PRESET.contains(from), "{from}");
        let text = PRESET.replacen(from, to, 1);
        let result: Result<SampledModel, _> = toml::from_str(&text);
        let said = match result {
            Err(e) => e.to_string(),
            Ok(model) => model.check().unwrap_err().to_string(),
        };
        assert!(said.contains(told), "{to}: {said}");
    };
    wrong("block_bytes = 512", "block_bytes = 500", "block_bytes is 500");
    wrong("blocks = 7812500", "blocks = 0", "blocks must be at least 1");
    wrong("queue_depth = 1", "queue_depth = 0", "queue_depth must be at least 1");
    wrong("command = \"read\"", "command = \"seek\"", "\"seek\"");
    wrong("us = [300, 350", "us = [350, 300", "must ascend");
    wrong("bytes = 65536", "bytes = 4096", "two latencies of read, 4096 bytes");
    wrong("percent = 6000", "percent = 60", "overlap");
    wrong("one_in = 400", "one_in = 0", "one_in");
    wrong("every_ms = [20000, 60000]", "every_ms = [0, 1]", "every_ms");
    wrong("lasts_ms = [5000, 30000]", "lasts_ms = [5000, 300]", "lasts_ms");
    wrong("weight = 9", "weight = 0", "weight");
    wrong("streams = 2", "strems = 2", "strems");
    let mut none = model.clone();
    none.latency.retain(|row| row.command != "read");
    assert!(none.check().unwrap_err().to_string().contains("no latency of a read"));
}

#[test]
fn latencies_go_by_command_and_size_and_a_flush_by_what_was_written() {
    let (times, _) = on(&plain(), 1, |rt, device| async move {
        let mut times = Vec::new();
        for blocks in [1, 8, 16] {
            times.push(timed(&rt, write(&device, 100, blocks)).await);
            times.push(timed(&rt, read(&device, 100, blocks)).await);
        }
        write(&device, 0, 231).await;
        times.push(timed(&rt, device.flush()).await);
        times.push(timed(&rt, device.discard(Blocks { start: Block(0), count: 8 })).await);
        times
    });
    // 25 + 231 blocks before the flush are twice the 64 KiB of the table.
    assert_eq!(times, [200, 100, 200, 100, 400, 200, 2000, 0]);
}

#[test]
fn latencies_between_two_sizes_are_interpolated_and_spread_as_the_table_says() {
    let mut model = plain();
    model.latency[1] = row(CommandKind::Write, None, 4096, &[100, 200, 1000]);
    model.latency.push(row(CommandKind::Write, None, 12_288, &[300, 400, 1200]));
    let (mut times, _) = on(&model, 5, |rt, device| random_writes(rt, device, 4000));
    times.sort_unstable();
    assert!(times[0] < 103 && times[3999] > 990 && times[3999] <= 1000, "{:?}", times[3999]);
    // Quantiles of the table are met: a sample of 4000 is off by 2 % at most, 3 sigma.
    let share = |us: u64| times.partition_point(|t| *t <= us) as f64 / 4000.0;
    assert!((share(200) - 0.5).abs() < 0.025 && (share(600) - 0.75).abs() < 0.025);
    let (times, _) = on(&model, 5, |rt, device| async move {
        let mut times = Vec::new();
        for i in 0..200 {
            times.push(timed(&rt, write(&device, i * 100, 16)).await);
        }
        times
    });
    // Half-way between the sizes.
    assert!(times.iter().all(|t| (200..=1100).contains(t)));
}

#[test]
fn a_few_sequential_streams_are_cheap_and_one_more_is_not() {
    let mut model = plain();
    model.latency[1] = row(CommandKind::Write, Some(StreamKind::Random), 4096, &[5000]);
    model.latency.push(row(CommandKind::Write, Some(StreamKind::Sequential), 4096, &[200]));
    let round_robin = |streams: u64| {
        on(&model, 1, move |rt, device| async move {
            let mut sum = 0;
            for i in 0..100 {
                for stream in 0..streams {
                    sum += timed(&rt, write(&device, stream * 10_000 + i * 8, 8)).await;
                }
            }
            sum / streams
        })
        .0
    };
    let first = 5000 + 99 * 200;
    assert_eq!((round_robin(1), round_robin(2), round_robin(3)), (first, first, 500_000));
}

#[test]
fn a_write_that_overlaps_one_of_the_last_takes_its_penalty() {
    let model = SampledModel { overlap: Some(Overlap { recent: 2, percent: 6000 }), ..plain() };
    let (times, _) = on(&model, 1, |rt, device| async move {
        let mut times = Vec::new();
        for at in [0, 100, 7, 300, 200, 100] {
            times.push(timed(&rt, write(&device, at, 8)).await);
        }
        times
    });
    // 7 shares a block with 0, the last but one; 100 is forgotten by then.
    assert_eq!(times, [200, 200, 12_000, 200, 200, 200]);
}

#[test]
fn outliers_come_as_often_as_the_table_says_and_only_to_their_commands() {
    let outlier = Outlier { command: Some("write".into()), one_in: 50, us: [30_000, 40_000] };
    let model = SampledModel { outlier: vec![outlier], ..plain() };
    let (times, _) = on(&model, 3, |rt, device| random_writes(rt, device, 5000));
    let slow: Vec<u64> = times.iter().copied().filter(|t| *t > 200).collect();
    assert!((60..=140).contains(&slow.len()), "{}", slow.len());
    assert!(slow.iter().all(|t| (30_200..=40_200).contains(t)));
    let (reads, _) = on(&model, 3, |rt, device| async move {
        let mut times = Vec::new();
        for i in 0..500 {
            times.push(timed(&rt, read(&device, i, 1)).await);
        }
        times
    });
    assert!(reads.iter().all(|t| *t == 100));
}

#[test]
fn forced_writes_have_the_outliers_of_writes_unless_some_are_their_own() {
    let outlier = |name: &str, us| Outlier { command: Some(name.into()), one_in: 50, us: [us, us] };
    let longest = |outliers: Vec<Outlier>| {
        let model = SampledModel { outlier: outliers, ..plain() };
        let (times, _) = on(&model, 3, |rt, device| async move {
            let mut times = Vec::new();
            for i in 0..1000 {
                let stamps = [i; 8];
                let forced = device.write(Block(i * 8), Data::Stamps(&stamps), Durability::Fua);
                times.push(timed(&rt, async { forced.await.unwrap() }).await);
            }
            times
        });
        times.into_iter().max().unwrap()
    };
    assert!((30_000..31_000).contains(&longest(vec![outlier("write", 30_000)])));
    let both = vec![outlier("write", 30_000), outlier("fua", 50_000)];
    assert!((50_000..51_000).contains(&longest(both)));
    assert!(longest(vec![outlier("read", 30_000)]) < 1000);
}

#[test]
fn nothing_ends_during_a_stall() {
    let stall = Stall { every_ms: [40, 60], lasts_ms: [10, 10] };
    let model = SampledModel { stall: vec![stall], ..plain() };
    let (ends, _) = on(&model, 1, |rt, device| async move {
        let mut ends = vec![0];
        for i in 0..5000 {
            write(&device, i * 8 % 90_000, 8).await;
            ends.push(rt.now().0 / 1000);
        }
        ends
    });
    let gaps: Vec<u64> = ends.windows(2).map(|w| w[1] - w[0]).filter(|g| *g > 200).collect();
    let last = ends[5000];
    assert!(gaps.iter().all(|g| *g == 10_200), "a write of 200 µs, and the stall: {gaps:?}");
    let stalls = gaps.len() as u64;
    assert!((last / 71_000..=last / 49_000).contains(&stalls), "{stalls} in {last} µs");
    // While the device rests they pass all the same.
    let (slow, _) = on(&model, 1, |rt, device| async move {
        let mut slow = 0;
        for i in 0..1000 {
            rt.sleep(Nanos::from_millis(500)).await;
            slow += u64::from(timed(&rt, write(&device, i * 8, 8)).await > 200);
        }
        slow
    });
    assert!((80..=250).contains(&slow), "{slow} of 1000 met a stall, which are 10 of 60 ms");
}

#[test]
fn modes_last_for_seconds() {
    let mode = |weight, write_percent| Mode {
        weight,
        lasts_ms: [2000, 3000],
        read_percent: 100,
        write_percent,
    };
    let model = SampledModel { mode: vec![mode(1, 100), mode(1, 400)], ..plain() };
    let (times, _) = on(&model, 2, |rt, device| async move {
        let mut times = Vec::new();
        for i in 0..50_000 {
            let before = rt.now();
            times.push((before, timed(&rt, write(&device, i * 8 % 90_000, 8)).await));
        }
        times
    });
    assert!(times.iter().all(|(_, t)| [200, 800].contains(t)));
    let changes: Vec<Nanos> =
        times.windows(2).filter(|w| w[0].1 != w[1].1).map(|w| w[1].0).collect();
    assert!(changes.len() >= 2, "{changes:?}");
    let lasted = changes.windows(2).map(|w| w[1] - w[0]);
    assert!(lasted.clone().all(|l| l >= Nanos::from_millis(1990)), "{:?}", lasted.min());
}

#[test]
fn places_of_the_queue_work_side_by_side_and_a_bus_is_shared() {
    let model = SampledModel { queue_depth: 4, ..plain() };
    let all = |bus: Option<u64>, devices: usize| {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let bus = bus.map(|mb| Bus::new(mb).unwrap());
        let hosts: Vec<_> = (0..devices)
            .flat_map(|d| {
                let name = format!("device {d}");
                let device = model.build(&rt, &name, Payload::Stamps, bus.as_ref()).unwrap();
                let rt = rt.clone();
                (0..8u64).map(move |i| {
                    let device = device.clone();
                    rt.spawn("host", async move { write(&device, i * 1000, 8).await })
                })
            })
            .collect();
        let rt2 = rt.clone();
        let end = runtime.block_on(async move {
            for host in hosts {
                host.await.unwrap();
            }
            rt2.now().0 / 1000
        });
        end.unwrap()
    };
    // Eight writes on four places are two rounds, on however many devices.
    assert_eq!((all(None, 1), all(None, 3)), (400, 400));
    // 4 KiB at 8 MB/s are 512 µs each: the bus is what counts, and all share it.
    assert_eq!((all(Some(8), 1), all(Some(8), 3)), (8 * 512, 24 * 512));
    assert!(Bus::new(0).is_err() && Bus::new(u64::MAX).is_err());
}

/// A device whose queue is full does not keep the bus from another that has nothing to wait for.
#[test]
fn an_idle_device_finds_the_bus_free_between_commands_of_a_busy_one() {
    let model = SampledModel { queue_depth: 1, ..plain() };
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    // 4 KiB at 50 MB/s are 82 of the 200 µs that a write takes.
    let bus = Bus::new(50).unwrap();
    let build = |name| model.build(&rt, name, Payload::Stamps, Some(&bus)).unwrap();
    let (busy, idle) = (build("busy"), build("idle"));
    let rt2 = rt.clone();
    let took = runtime.block_on(async move {
        let hosts: Vec<_> = (0..20u64)
            .map(|i| {
                let device = busy.clone();
                rt2.spawn("host", async move { write(&device, i * 1000, 8).await })
            })
            .collect();
        rt2.sleep(Nanos::from_micros(10)).await;
        let took = timed(&rt2, write(&idle, 0, 8)).await;
        for host in hosts {
            host.await.unwrap();
        }
        (took, rt2.now().0 / 1000)
    });
    // Its data pass in the 118 µs between those of two others.
    assert_eq!(took.unwrap(), (200, 20 * 200));
}

#[test]
fn a_seed_is_a_run() {
    let model: SampledModel = toml::from_str(PRESET).unwrap();
    let run = |seed| on(&model, seed, |rt, device| random_writes(rt, device, 2000));
    let (a, again, other) = (run(1), run(1), run(2));
    assert_eq!(a, again);
    assert!(a.0 != other.0 && a.1 != other.1);
}

/// It keeps its word whatever it promises, and whatever its times are.
#[test]
fn the_oracle_finds_nothing() {
    let preset: SampledModel = toml::from_str(PRESET).unwrap();
    let preset = SampledModel { blocks: 64, start_ms: 1, ..preset };
    let (mut cuts, mut interrupted) = (0, 0);
    for ack in [Ack::Volatile, Ack::PowerSafe, Ack::OnMedia] {
        for (ordered, queue_depth) in [(false, 8), (true, 8), (false, 1)] {
            for payload in [Payload::Bytes, Payload::Stamps] {
                let model = SampledModel { ack, ordered, queue_depth, ..preset.clone() };
                let model = Rc::new(model);
                let cut = CutAt::Within(Nanos::from_millis(400));
                let plan = CrashPlan { cut, ..CrashPlan::default() };
                for seed in 0..3 {
                    let build = |rt: &Rt| model.build(rt, "sampled", payload, None).unwrap();
                    let report = crash_run(seed, &plan, build).unwrap();
                    assert!(report.is_clean(), "{ack:?} {ordered} {payload:?}\n{report}");
                    (cuts, interrupted) = (cuts + report.cuts, interrupted + report.interrupted);
                }
            }
        }
    }
    assert!(cuts > 500 && interrupted > 1000, "{cuts} cuts, {interrupted} interrupted");
}

/// Each preset is a device, and does what its head says: the median of a small write in sequence,
/// and how much longer an outlier takes.
#[test]
fn presets_do_what_they_stand_for() {
    let outliers = |name: &str| match name {
        "usb-c" | "net-volume" => 60.0..200.0,
        "usb-a" | "usb-b" => 2.0..20.0,
        "usb-flash" => 40.0..200.0,
        _ => 0.0..0.0,
    };
    for (name, text) in tantalum_device::presets::SAMPLED {
        let model: SampledModel = toml::from_str(text).unwrap();
        let blocks = (4096 / model.block_bytes) as usize;
        // (Modes last for seconds; it ends with the other one.)
        let bimodal = *name == "bimodal-disk";
        let writes = if bimodal { 2_000_000 } else { 4000 };
        let (mut took, _) = on(&model, 7, async move |rt: Rt, device: RamDevice| {
            use tantalum_device::PowerCycle;
            device.power_on().await.unwrap();
            let device = device.device();
            let mut took = Vec::new();
            for n in 0..writes {
                let (at, data) = (Block(n * blocks as u64), vec![n; blocks]);
                let write = device.write(at, Data::Stamps(&data), Durability::Normal);
                let us = timed(&rt, async { write.await.unwrap() }).await;
                took.push(us);
                if bimodal && us > 1000 && n > 4000 {
                    break;
                }
            }
            took
        });
        took.sort_unstable();
        let (median, most) = (took[took.len() / 2] as f64, took[took.len() - 1] as f64);
        if !model.outlier.is_empty() {
            assert!(outliers(name).contains(&(most / median)), "{name}: {median} {most}");
        }
        if bimodal {
            assert!(took[0] < 200 && most > 2000.0, "{} {most}", took[0]);
        }
    }
    for (name, text) in tantalum_device::presets::DISKS {
        toml::from_str::<tantalum_device::DiskModel>(text).expect(name);
    }
}
