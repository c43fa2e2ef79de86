//! What boxes say of themselves is so: how much a cut may lose, and how far they have power.

use tantalum_device::{
    Ack, Block, BlockDevice, Blocks, Caps, Data, DataMut, Disk, DiskModel, Durability, IoError,
    LiveBox, Payload, PowerCycle, PowerState, RaidBox, RamDevice, RamOptions, StartError, Value,
};
use tantalum_rt::{Nanos, Rt, Runtime};

const BLOCKS: u64 = 256;

fn volatile() -> Caps {
    let safe = Caps::power_safe(BLOCKS, Payload::Stamps);
    Caps { ack: Ack::Volatile, ordered: false, ..safe }
}

fn disk() -> DiskModel {
    DiskModel {
        block_bytes: 4096,
        blocks: BLOCKS,
        rpm: 15000,
        track_blocks: 64,
        heads: 1,
        skew_blocks: 0,
        seek_track_us: 600,
        seek_full_us: 7000,
        command_us: 100,
        prepares_ahead: false,
        interface_mb_s: 300,
        queue_depth: 32,
        queue_window: 0,
        cache_kib: 512,
        write_cache: true,
        write_settle_us: 500,
        cache_window: 8,
        expiry_ms: 500,
        spin_up_ms: 3000,
    }
}

/// Two disks, striped, without power.
fn array(rt: &Rt) -> RaidBox<Disk> {
    let model = DiskModel { blocks: BLOCKS / 2, ..disk() };
    let disk = |_| Disk::new(rt, &model, Payload::Stamps).expect("a disk");
    RaidBox::new((0..2).map(disk).collect(), 4).expect("an array")
}

async fn put(device: &impl BlockDevice, at: u64, stamps: &[u64]) {
    device.write(Block(at), Data::Stamps(stamps), Durability::Normal).await.expect("written");
}

async fn content(device: &impl BlockDevice) -> Vec<u64> {
    let mut all = vec![0; BLOCKS as usize];
    device.read(Block(0), DataMut::Stamps(&mut all)).await.expect("read");
    all
}

/// Writes and discards, some of it flushed and some of it over each other, cuts, and holds what is missing
/// to what was told. Gives both.
async fn lose(of: impl LiveBox) -> (u64, u64) {
    let device = of.device();
    put(&device, 0, &[1; 40]).await;
    device.flush().await.expect("flushed");
    for turn in 2..6 {
        put(&device, 20, &[turn; 30]).await;
    }
    put(&device, 100, &[9]).await;
    device.discard(Blocks { start: Block(10), count: 20 }).await.expect("discarded");
    let before = content(&device).await;
    let after = of.watch_cut();
    of.cut();
    of.off().await;
    let outcome = after();
    assert_eq!(of.power_state(), PowerState::Off);
    assert!(outcome.complete);
    assert_eq!(of.bring_up(false).await, Ok(Vec::new()));
    assert_eq!(of.recovered().await, Ok(()));
    let found = content(&of.device()).await;
    assert!(found[..10].iter().all(|stamp| *stamp == 1), "what was flushed");
    let missing = before.iter().zip(&found).filter(|(was, is)| was != is).count() as u64;
    assert!(missing <= outcome.lost_blocks, "{missing} are missing: {outcome:?}");
    (missing, outcome.lost_blocks)
}

fn each_seed<F: Future<Output = (u64, u64)> + 'static>(run: impl Fn(Rt) -> F) -> Vec<(u64, u64)> {
    let one = |seed| {
        let mut runtime = Runtime::virtual_time(seed);
        let rt = runtime.handle();
        runtime.block_on(run(rt)).expect("it ends")
    };
    (0..100).map(one).collect()
}

#[test]
fn no_more_is_lost_than_was_told() {
    let all = each_seed(|rt| lose(RamDevice::new(&rt, RamOptions::new(volatile()))));
    // Blocks 10 to 49, and block 100: those that were changed several times count once.
    assert!(all.iter().all(|(_, told)| *told == 41), "{all:?}");
    assert!(all.iter().any(|(missing, _)| *missing == 41), "{all:?}");
    assert!(all.iter().any(|(missing, _)| *missing == 0), "{all:?}");

    let safe = Caps::power_safe(BLOCKS, Payload::Stamps);
    let all = each_seed(|rt| lose(RamDevice::new(&rt, RamOptions::new(safe))));
    assert!(all.iter().all(|lost| *lost == (0, 0)), "{all:?}");

    let all = each_seed(async |rt| {
        let disk = Disk::new(&rt, &disk(), Payload::Stamps).expect("a disk");
        assert_eq!(disk.power_state(), PowerState::Off);
        disk.bring_up(false).await.expect("it starts");
        lose(disk).await
    });
    assert!(all.iter().any(|(missing, _)| *missing > 0), "{all:?}");

    let all = each_seed(async |rt| {
        let array = array(&rt);
        assert_eq!(array.power_state(), PowerState::Off);
        array.bring_up(false).await.expect("it starts");
        lose(array).await
    });
    assert!(all.iter().any(|(missing, _)| *missing > 0), "{all:?}");
}

fn count(of: &impl LiveBox, name: &str) -> u64 {
    let fields = of.shown().fields;
    let field = fields.iter().find(|field| field.name == name).expect("a field");
    let Value::Count(count) = field.value else { panic!("{field:?}") };
    count
}

/// What was discarded takes no memory, and a volatile cache holds so much and no more.
#[test]
fn memory_is_taken_for_what_is_there() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let disk = Disk::new(&rt, &disk(), Payload::Stamps).expect("a disk");
        disk.bring_up(false).await.expect("it starts");
        let ram = RamDevice::new(&rt, RamOptions::new(volatile()));
        async fn fill_and_discard(of: &impl LiveBox) {
            let device = of.device();
            put(&device, 0, &[7; 40]).await;
            device.flush().await.expect("flushed");
            assert_eq!(count(of, "stored_blocks"), 40);
            device.discard(Blocks { start: Block(0), count: 250 }).await.expect("discarded");
            put(&device, 30, &[8; 2]).await;
            device.flush().await.expect("flushed");
            assert_eq!(count(of, "stored_blocks"), 2);
            assert_eq!(content(&device).await.iter().filter(|stamp| **stamp == 8).count(), 2);
        }
        fill_and_discard(&ram).await;
        fill_and_discard(&disk).await;
        let array = array(&rt);
        array.bring_up(false).await.expect("it starts");
        fill_and_discard(&array).await;

        // 64 MiB of blocks, in fewer commands than the cache may have.
        let caps = Caps { blocks: 1 << 20, ..volatile() };
        let large = RamDevice::new(&rt, RamOptions::new(caps));
        for turn in 0..40 {
            put(&large, turn * 1024, &[turn + 1; 1024]).await;
        }
        assert_eq!(count(&large, "cache.blocks"), 16 * 1024);
        assert_eq!(count(&large, "stored_blocks"), 40 * 1024);
    });
    done.expect("it ends");
}

/// A flush leaves nothing to be lost, and that is what the fields say.
#[test]
fn fields_follow_what_is_done() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let ram = RamDevice::new(&rt, RamOptions::new(volatile()));
        let count = |name: &str| count(&ram, name);
        put(&ram, 3, &[1, 2]).await;
        put(&ram, 4, &[3]).await;
        assert_eq!((count("cache.commands"), count("cache.blocks")), (2, 2));
        assert_eq!(count("stored_blocks"), 2);
        ram.flush().await.expect("flushed");
        assert_eq!((count("cache.commands"), count("cache.blocks")), (0, 0));
        assert_eq!(count("stored_blocks"), 2);
        assert_eq!(ram.failure().or(ram.stopped_by()), None);
        let shown = ram.shown();
        assert_eq!(shown.lines.len(), shown.panels[0].lines.len());
    });
    done.expect("it ends");
}

/// An array shows what its disks have together, and which arm is busy.
#[test]
fn an_array_shows_the_sums_of_its_disks() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let array = array(&rt);
        array.bring_up(false).await.expect("it starts");
        assert_eq!(array.title(), "2 disks");
        assert_eq!(array.promises().blocks, BLOCKS);
        let of_each = |name: &str| -> Vec<u64> {
            array.members().iter().map(|disk| count(disk, name)).collect()
        };
        // Chunks of four blocks: blocks 0 to 3 and 8 to 9 are on the first disk.
        put(&array.device(), 0, &[7; 10]).await;
        assert_eq!(of_each("interface_write_bytes"), [6 * 4096, 4 * 4096]);
        for name in ["interface_write_bytes", "cache.used", "cache.blocks", "stored_blocks"] {
            assert_eq!(count(&array, name), of_each(name).iter().sum::<u64>(), "{name}");
        }
        let device = array.device();
        let read = |at| {
            let device = device.clone();
            rt.spawn("a read", async move {
                device.read(Block(at), DataMut::Stamps(&mut [0])).await.expect("read");
            })
        };
        // All are on the second disk; one of them has its arm.
        let reads = [44, 60, 76, 92].map(read);
        rt.sleep(Nanos::from_micros(500)).await;
        assert_eq!(of_each("queued")[0], 0);
        assert!(count(&array, "queued") >= 2, "{:?}", of_each("queued"));
        let lines = array.shown().lines;
        let arms = lines.iter().find(|line| line.label == "arms").expect("a line");
        let waiting = count(&array, "queued");
        assert_eq!(arms.text, format!("0, {waiting} commands wait for them"));
        for read in reads {
            read.await.expect("it ends");
        }
        assert_eq!(count(&array, "queued"), 0);
    });
    done.expect("it ends");
}

/// A cut meets a box that starts.
#[test]
fn a_start_that_is_cut_is_told_apart() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    async fn cut_a_start(rt: &Rt, of: impl LiveBox) {
        let starting = of.clone();
        let started = rt.spawn("a start", async move { starting.bring_up(false).await });
        rt.sleep(Nanos::from_millis(1000)).await;
        assert_eq!(of.power_state(), PowerState::Starting);
        of.cut();
        assert_eq!(started.await, Ok(Err(StartError::CutAgain)));
        assert_eq!(
            (of.power_state(), of.recovered().await),
            (PowerState::Off, Err(StartError::CutAgain))
        );
    }
    let done = runtime.block_on(async move {
        cut_a_start(&rt, Disk::new(&rt, &disk(), Payload::Stamps).expect("a disk")).await;
        cut_a_start(&rt, array(&rt)).await;
    });
    done.expect("it ends");
}

/// What holds nothing.
async fn runs(device: &impl BlockDevice) -> Vec<(u64, bool)> {
    let told = async |at| {
        let rest = Blocks { start: Block(at), count: BLOCKS - at };
        let told = device.allocation(rest).await.expect("told");
        (told.blocks, told.hole)
    };
    tantalum_testing::runs(BLOCKS, told).await
}

/// Blank, then with data in a cache, behind it, and discarded.
async fn holes(of: impl LiveBox) {
    of.power_on().await.expect("power");
    let device = of.device();
    assert_eq!(runs(&device).await, [(0, true)]);
    put(&device, 10, &[1; 20]).await;
    device.flush().await.expect("flushed");
    put(&device, 40, &[2; 5]).await;
    let told = [(0, true), (10, false), (30, true), (40, false), (45, true)];
    assert_eq!(runs(&device).await, told);
    device.discard(Blocks { start: Block(10), count: 30 }).await.expect("discarded");
    device.flush().await.expect("flushed");
    assert_eq!(runs(&device).await, [(0, true), (40, false), (45, true)]);
    let beyond = Blocks { start: Block(BLOCKS), count: 1 };
    assert!(matches!(device.allocation(beyond).await, Err(IoError::Invalid(_))));
    of.cut();
    let first = Blocks { start: Block(0), count: 1 };
    assert_eq!(device.allocation(first).await, Err(IoError::PowerLost));
}

#[test]
fn memory_and_disks_tell_what_holds_nothing() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let main = async move {
        holes(RamDevice::new(&rt, RamOptions::new(volatile()))).await;
        holes(Disk::new(&rt, &disk(), Payload::Stamps).expect("a disk")).await;
        holes(array(&rt)).await;
    };
    runtime.block_on(main).expect("nothing stands still");
}
