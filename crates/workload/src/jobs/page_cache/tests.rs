use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tantalum_device::{GroupLimit, Payload, PowerCycle, RamDevice, RamOptions, Stats};
use tantalum_rt::{Runtime, join_all};

const BLOCKS: u64 = 64;
const MS: u64 = 1_000_000;

fn caps(ack: Ack) -> Caps {
    let atomic_group = Some(GroupLimit { extents: 64, bytes: 1 << 20 });
    Caps { ack, atomic_group, ..Caps::power_safe(BLOCKS, Payload::Stamps) }
}

/// A device with 20 µs for a command, and 100 for a flush.
fn ram(rt: &Rt, ack: Ack) -> RamDevice {
    let (command, flush) = (Nanos::from_micros(20), Nanos::from_micros(100));
    RamDevice::new(rt, RamOptions { command, flush, ..RamOptions::new(caps(ack)) })
}

/// A cache of 16 pages of which at most 8 may be dirty, and 4 without write-back.
fn small() -> Buffered {
    Buffered {
        call_ns: 1000,
        page_ns: 0,
        fsync_ns: 2000,
        cache_pages: 16,
        dirty_background_percent: 25,
        dirty_percent: 50,
        dirty_expire_ms: 30,
        writeback_ms: 5,
        command_pages: 4,
        depth: 4,
    }
}

/// A cache whose host writes nothing back by itself.
fn large() -> Buffered {
    Buffered { cache_pages: 4096, dirty_expire_ms: 1_000_000_000, ..small() }
}

/// Runs on a device behind a cache; what `test` returns.
fn with<T: 'static, F: Future<Output = T> + 'static>(
    settings: Buffered,
    barriers: bool,
    test: impl FnOnce(Rt, Stats<Link>, Cached<Stats<Link>>) -> F + 'static,
) -> T {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let done = runtime.block_on(async move {
        let ram = ram(&rt, Ack::Volatile);
        let below = Stats::new(&rt, ram.device());
        let cache = Cached::new(&rt, below.clone(), Some(settings), barriers);
        let done = test(rt, below, cache.clone()).await;
        cache.close(true).await.unwrap();
        done
    });
    let done = done.unwrap();
    runtime.drain().unwrap();
    done
}

type Link = <RamDevice as PowerCycle>::Device;

async fn put<D: BlockDevice>(device: &D, at: u64, stamps: &[u64]) {
    device.write(Block(at), Data::Stamps(stamps), Durability::Normal).await.unwrap();
}

async fn get<D: BlockDevice>(device: &D, at: u64) -> u64 {
    let mut stamp = [0];
    device.read(Block(at), DataMut::Stamps(&mut stamp)).await.unwrap();
    stamp[0]
}

/// Commands below the cache: reads, writes, flushes.
fn below(stats: &Stats<Link>) -> [u64; 3] {
    let s = stats.snapshot();
    [CommandKind::Read, CommandKind::Write, CommandKind::Flush].map(|k| s.of(k).commands)
}

#[test]
fn a_write_is_a_call_and_an_fsync_writes_neighbours_together() {
    with(large(), true, async |rt, device, cache| {
        let begin = rt.now();
        // Three neighbours, one that is alone, and six that are more than one command.
        for at in [3, 1, 2, 10, 20, 21, 22, 23, 24, 25, 2] {
            put(&cache, at, &[at + 100]).await;
        }
        assert_eq!((rt.now() - begin, below(&device)), (Nanos(11_000), [0, 0, 0]));
        cache.flush().await.unwrap();
        // Four commands side by side, then the flush.
        let spent = Nanos(11_000 + 2000 + 20_000 + 100_000);
        assert_eq!((rt.now() - begin, below(&device)), (spent, [0, 4, 1]));
        cache.flush().await.unwrap();
        assert_eq!(below(&device), [0, 4, 2]);
        assert_eq!((get(&cache, 24).await, get(&device, 24).await), (124, 124));
        assert_eq!(below(&device), [1, 4, 2]);
    });
}

#[test]
fn without_barriers_an_fsync_writes_back_and_flushes_nothing() {
    with(large(), false, async |_, device, cache| {
        put(&cache, 7, &[1]).await;
        cache.flush().await.unwrap();
        assert_eq!((below(&device), cache.caps().flush), ([0, 1, 0], false));
    });
}

#[test]
fn what_is_old_is_written_back_and_what_is_much_at_once() {
    with(small(), true, async |rt, device, cache| {
        for at in 0..4 {
            put(&cache, at * 2, &[1]).await;
        }
        rt.sleep(Nanos(29 * MS)).await;
        assert_eq!(below(&device), [0, 0, 0]);
        rt.sleep(Nanos(7 * MS)).await;
        assert_eq!(below(&device), [0, 4, 0]);
        // One more than the four that may be dirty is too many.
        for at in 0..5 {
            put(&cache, 20 + at * 2, &[1]).await;
        }
        rt.sleep(Nanos(MS)).await;
        assert_eq!(below(&device), [0, 5, 0]);
    });
}

#[test]
fn writes_wait_at_the_limit_and_memory_is_bounded() {
    with(small(), true, async |rt, device, cache| {
        let begin = rt.now();
        for at in 0..BLOCKS / 2 {
            put(&cache, at * 2, &[at]).await;
        }
        // The device takes four commands in 20 µs, and at most eight blocks are dirty.
        let took = rt.now() - begin;
        assert!(took >= Nanos::from_micros(20 * (32 - 8) / 4), "{took}");
        cache.flush().await.unwrap();
        let before = below(&device)[0];
        for at in (0..BLOCKS / 2).rev() {
            assert_eq!(get(&cache, at * 2).await, at);
        }
        assert_eq!(below(&device)[0] - before, 32 - 16);
        // Sixteen pages are what was read last.
        for at in 0..16 {
            assert_eq!(get(&cache, at * 2).await, at);
        }
        assert_eq!(below(&device)[0] - before, 32 - 16);
    });
}

#[test]
fn what_goes_past_the_cache_is_what_reads_return() {
    with(large(), true, async |_, device, cache| {
        put(&cache, 3, &[1, 1, 1]).await;
        let extent = |at, data| Extent { at: Block(at), data: Data::Stamps(data) };
        cache.write_atomic(&[extent(4, &[2]), extent(9, &[2])]).await.unwrap();
        // Only what was dirty at the place of the group had to be written first.
        assert_eq!(below(&device), [0, 1, 0]);
        cache.direct().write(Block(5), Data::Stamps(&[3]), Durability::Fua).await.unwrap();
        cache.discard(Blocks { start: Block(9), count: 1 }).await.unwrap();
        let all = [get(&cache, 3).await, get(&cache, 4).await, get(&cache, 5).await];
        assert_eq!((all, get(&cache, 9).await), ([1, 2, 3], 0));
        assert_eq!((get(&device, 4).await, get(&device, 5).await), (2, 3));
    });
}

#[test]
fn a_failed_write_back_fails_all_that_follows() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let main = async move {
        let ram = ram(&rt, Ack::PowerSafe);
        let cache = Cached::new(&rt, ram.device(), Some(large()), true);
        put(&cache, 1, &[5]).await;
        cache.flush().await.unwrap();
        put(&cache, 1, &[6]).await;
        ram.cut();
        // The host has no power either.
        let mut stamp = [0];
        let lost = Err(IoError::PowerLost);
        assert_eq!(cache.read(Block(1), DataMut::Stamps(&mut stamp)).await, lost);
        let write = cache.write(Block(2), Data::Stamps(&[7]), Durability::Normal);
        assert_eq!((write.await, cache.flush().await), (lost.clone(), lost));
        assert!(cache.close(false).await.is_ok());
        ram.power_on().await.unwrap();
        assert_eq!(get(&ram.device(), 1).await, 5);
    };
    runtime.block_on(main).unwrap();
    runtime.drain().unwrap();
}

/// Whether the memory has a block.
fn keeps(pages: &mut Pages, at: u64) -> bool {
    pages.read(at..at + 1, &mut DataMut::Stamps(&mut [0]))
}

#[test]
fn nothing_clean_is_kept_where_a_command_passes() {
    let mut pages = Pages::new(Payload::Stamps, 4096, 8);
    let (stamp, now) = (Data::Stamps(&[1]), Nanos::ZERO);
    pages.write(2, stamp, now);
    let run = pages.take(EVERYWHERE, u64::MAX, 1).unwrap();
    pages.written(&run);
    let early = pages.begin_fill(3..4);
    assert!(keeps(&mut pages, 2));
    pages.begin_pass(2..4);
    assert!(!keeps(&mut pages, 2));
    // Reads that began before and while it passes, and a write that is written back meanwhile.
    let late = pages.begin_fill(2..4);
    pages.end_fill(3..4, early, Some(stamp));
    pages.end_fill(2..4, late, Some(Data::Stamps(&[1, 1])));
    assert!(!keeps(&mut pages, 2) && !keeps(&mut pages, 3));
    pages.write(2, stamp, now);
    let run = pages.take(EVERYWHERE, u64::MAX, 1).unwrap();
    assert!(keeps(&mut pages, 2));
    // It is under way: no second command of it.
    pages.write(2, stamp, now);
    assert!(pages.take(EVERYWHERE, u64::MAX, 1).is_none());
    pages.written(&run);
    let run = pages.take(EVERYWHERE, u64::MAX, 1).unwrap();
    pages.written(&run);
    assert!(!keeps(&mut pages, 2));
    pages.end_pass(2..4);
    let after = pages.begin_fill(2..4);
    pages.end_fill(2..4, after, Some(Data::Stamps(&[1, 1])));
    assert!(keeps(&mut pages, 2) && keeps(&mut pages, 3));
    assert_eq!((pages.unclean(), pages.is_pending(EVERYWHERE, u64::MAX)), (0, false));
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let told = |b: Buffered| b.check().unwrap_err().key().unwrap();
    assert_eq!(Buffered::default().check(), Ok(()));
    assert_eq!(told(Buffered { call_ns: 0, ..small() }), "buffered.call_ns");
    assert_eq!(told(Buffered { cache_pages: 15, ..small() }), "buffered.cache_pages");
    assert_eq!(told(Buffered { dirty_percent: 25, ..small() }), "buffered.dirty_percent");
    assert_eq!(told(Buffered { dirty_percent: 101, ..small() }), "buffered.dirty_percent");
    assert_eq!(told(Buffered { depth: 0, ..small() }), "buffered.depth");
}

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, count: u64 },
    Together { first: u64, second: u64 },
    Group { at: u64, other: u64 },
    Read { at: u64, count: u64 },
    Discard { at: u64 },
    Fsync,
    Wait { us: u64 },
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..BLOCKS - 8;
    prop_oneof![
        8 => (at(), 1u64..8).prop_map(|(at, count)| Step::Write { at, count }),
        2 => (at(), at()).prop_map(|(first, second)| Step::Together { first, second }),
        2 => (at(), at()).prop_map(|(at, other)| Step::Group { at, other }),
        4 => (at(), 1u64..8).prop_map(|(at, count)| Step::Read { at, count }),
        1 => at().prop_map(|at| Step::Discard { at }),
        2 => Just(Step::Fsync),
        2 => (0u64..20_000).prop_map(|us| Step::Wait { us }),
        1 => Just(Step::Cut),
    ]
}

/// The small model: what each block holds for a reader, and what may be there after a cut: what
/// was durable, and all that was written since.
#[derive(Default)]
struct Model {
    now: BTreeMap<u64, u64>,
    durable: BTreeMap<u64, u64>,
    since: BTreeMap<u64, BTreeSet<u64>>,
}

impl Model {
    fn write(&mut self, at: u64, stamp: u64, is_durable: bool) {
        self.now.insert(at, stamp);
        if is_durable {
            self.durable.insert(at, stamp);
            self.since.remove(&at);
        } else {
            self.since.entry(at).or_default().insert(stamp);
        }
    }

    fn fsync(&mut self) {
        self.durable = self.now.clone();
        self.since.clear();
    }

    fn survives(&self, at: u64, found: u64) -> bool {
        let durable = self.durable.get(&at).copied().unwrap_or(0);
        found == durable || self.since.get(&at).is_some_and(|all| all.contains(&found))
    }

    fn restart(&mut self, found: &[u64]) {
        self.now = (0..).zip(found.iter().copied()).collect();
        self.fsync();
    }
}

/// Reads see the newest writes; after a cut each block holds what was synced, or something written
/// since; and groups are durable at once.
async fn agrees(rt: Rt, steps: Vec<Step>, settings: Buffered, ack: Ack) -> u64 {
    let ram = ram(&rt, ack);
    let mut cache = Cached::new(&rt, ram.device(), Some(settings), true);
    let (mut model, mut stamp) = (Model::default(), 0);
    for step in steps {
        stamp += 1000;
        match step {
            Step::Write { at, count } => {
                let stamps: Vec<u64> = (0..count).map(|i| stamp + i).collect();
                put(&cache, at, &stamps).await;
                (at..).zip(stamps).for_each(|(at, stamp)| model.write(at, stamp, false));
            }
            Step::Together { first, second } if first != second => {
                let writes = [(first, [stamp]), (second, [stamp + 1])];
                join_all(writes.iter().map(|(at, stamp)| put(&cache, *at, stamp)).collect()).await;
                writes.iter().for_each(|(at, stamp)| model.write(*at, stamp[0], false));
            }
            Step::Group { at, other } if at != other => {
                let extent = |at, stamp| Extent { at: Block(at), data: Data::Stamps(stamp) };
                let (one, two) = ([stamp], [stamp + 1]);
                cache.write_atomic(&[extent(at, &one), extent(other, &two)]).await.unwrap();
                model.write(at, stamp, true);
                model.write(other, stamp + 1, true);
            }
            Step::Read { at, count } => {
                let mut read = vec![0; count as usize];
                cache.read(Block(at), DataMut::Stamps(&mut read)).await.unwrap();
                let known = |at| model.now.get(&at).copied().unwrap_or(0);
                assert_eq!(read, (at..at + count).map(known).collect::<Vec<_>>());
            }
            Step::Discard { at } => {
                cache.discard(Blocks { start: Block(at), count: 2 }).await.unwrap();
                (at..at + 2).for_each(|at| model.write(at, 0, false));
            }
            Step::Fsync => {
                cache.flush().await.unwrap();
                model.fsync();
            }
            Step::Wait { us } => rt.sleep(Nanos::from_micros(us)).await,
            Step::Cut => {
                ram.cut();
                cache.close(false).await.unwrap();
                ram.power_on().await.unwrap();
                let mut found = vec![0; BLOCKS as usize];
                ram.device().read(Block(0), DataMut::Stamps(&mut found)).await.unwrap();
                for (at, found) in (0..).zip(&found) {
                    assert!(model.survives(at, *found), "block {at} holds {found}");
                }
                model.restart(&found);
                cache = Cached::new(&rt, ram.device(), Some(settings), true);
            }
            Step::Together { .. } | Step::Group { .. } => {}
        }
    }
    cache.close(true).await.unwrap();
    for at in 0..BLOCKS {
        assert_eq!(get(&ram.device(), at).await, model.now.get(&at).copied().unwrap_or(0));
    }
    rt.trace_hash()
}

fn run(steps: &[Step], settings: Buffered, ack: Ack) -> u64 {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let hash = runtime.block_on(agrees(rt, steps.to_vec(), settings, ack)).unwrap();
    runtime.drain().unwrap();
    hash
}

proptest! {
    #[test]
    fn it_agrees_with_the_small_model(
        steps in prop::collection::vec(step(), 1..120),
        is_small in any::<bool>(),
        survives in any::<bool>(),
    ) {
        let settings = if is_small { small() } else { large() };
        let ack = if survives { Ack::PowerSafe } else { Ack::Volatile };
        let hash = run(&steps, settings, ack);
        prop_assert_eq!(hash, run(&steps, settings, ack));
    }
}
