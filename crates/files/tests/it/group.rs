//! Atomic groups of a file (invariant 9): power cuts at every moment, on devices that keep at a cut
//! only what they promised; limits; failures.

use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{
    Ack, AtomicError, Caps, CommandKind, Faults, GroupLimit, Payload, PowerCycle, RamDevice,
    RamOptions, Stats,
};
use tantalum_files::{File, Files, FilesError, FormatOptions, MountOptions, Promise};
use tantalum_rt::{Nanos, Rt, Runtime, Stream};

const CHUNK: u64 = 8192;
const FORMAT: FormatOptions =
    FormatOptions { chunk: CHUNK as u32, directory_bytes: 1024, journal_blocks: 12 };
const LIMIT: GroupLimit = GroupLimit { extents: 12, bytes: 80 << 10 };

fn caps(ack: Ack, ordered: bool, block_size: u32) -> Caps {
    Caps {
        block_size,
        blocks: (1 << 20) / u64::from(block_size),
        ack,
        flush: true,
        ordered,
        atomic_unit: 512,
        thin: false,
        atomic_group: Some(LIMIT),
        payload: Payload::Bytes,
    }
}

fn ram(rt: &Rt, caps: Caps) -> RamDevice {
    let mut options = RamOptions::new(caps);
    options.command = Nanos::from_micros(20);
    options.jitter = Nanos::from_micros(20);
    options.flush = Nanos::from_micros(20);
    RamDevice::new(rt, options)
}

fn on<F: Future<Output = T> + 'static, T: 'static>(seed: u64, test: impl FnOnce(Rt) -> F) -> T {
    let mut runtime = Runtime::virtual_time(seed);
    let main = test(runtime.handle());
    runtime.block_on(main).unwrap()
}

/// The bytes of a file that are certain.
type Known = Vec<Option<u8>>;
type Ranges = Vec<(u64, Vec<u8>)>;

fn put(file: &mut Known, at: u64, data: &[u8]) {
    let at = at as usize;
    if file.len() < at + data.len() {
        file.resize(at + data.len(), Some(0));
    }
    for (to, from) in file[at..].iter_mut().zip(data) {
        *to = Some(*from);
    }
}

fn any_group(dice: &mut Stream, size: u64) -> Ranges {
    let mut bytes = 0;
    let ranges = (0..1 + dice.below(4)).map(|_| {
        let (at, length) = match dice.below(4) {
            0 => (size + dice.below(3) * 4096, 4096),
            1 => (dice.below(4 * CHUNK) / 4096 * 4096, 4096 * (1 + dice.below(2))),
            2 => (dice.below(3 * CHUNK) / 512 * 512, 512),
            _ => (dice.below(size + 1), 1 + dice.below(6000)),
        };
        bytes += length;
        let mut data = vec![0; length as usize];
        dice.fill(&mut data);
        (at, data)
    });
    ranges.collect()
}

async fn write(file: &File<RamDevice>, group: &Ranges) -> Result<(), FilesError> {
    let ranges: Vec<(u64, &[u8])> = group.iter().map(|(at, data)| (*at, &data[..])).collect();
    file.write_atomic(&ranges).await
}

/// Writes two groups and cuts the power after a time. Returns the version of the file that was
/// found, how many groups were acknowledged, and whether the cut came after both.
fn cut(seed: u64, caps: Caps, after: Nanos) -> (usize, usize, bool) {
    on(seed, move |rt| async move {
        let device = ram(&rt, caps);
        Files::format(&rt, &device.device(), &FORMAT).await.unwrap();
        let files = Files::mount(&rt, device.device(), &MountOptions::default()).await.unwrap();
        let mut dice = rt.stream("the test");
        let file = files.create(b"f", Promise::Completed).await.unwrap();
        let mut base = vec![0; dice.below(3 * CHUNK) as usize];
        dice.fill(&mut base);
        file.write(0, &base).await.unwrap();
        file.sync().await.unwrap();
        let mut known: Known = base.into_iter().map(Some).collect();
        if dice.chance(1, 2) {
            // Chunks and bytes that are not durable yet when the groups begin.
            let (at, mut more) = (file.size(), vec![0; 1 + dice.below(2 * CHUNK) as usize]);
            dice.fill(&mut more);
            file.write(at, &more).await.unwrap();
            put(&mut known, at, &more);
            if !caps.ack.survives() {
                known[at as usize..].fill(None);
            }
        }
        let mut versions = vec![known];
        let mut groups = Vec::new();
        for _ in 0..2 {
            let mut next = versions.last().unwrap().clone();
            let group = any_group(&mut dice, next.len() as u64);
            group.iter().for_each(|(at, data)| put(&mut next, *at, data));
            versions.push(next);
            groups.push(group);
        }
        let acked = Rc::new(Cell::new(0));
        let (domain, told, other) = (rt.domain(), acked.clone(), files.clone());
        let noise = rt.stream("noise");
        domain.spawn("noise", async move {
            let mut noise = noise;
            let Ok(file) = other.create(b"noise", Promise::Completed).await else { return };
            while file.write(noise.below(20) * 4000, &[7; 3000]).await.is_ok() {}
        });
        domain.spawn("groups", async move {
            for group in groups {
                if write(&file, &group).await.is_err() {
                    return;
                }
                told.set(told.get() + 1);
            }
        });
        rt.sleep(after).await;
        let all = acked.get() == 2;
        device.cut();
        domain.kill();
        device.power_on().await.unwrap();
        let files = Files::mount(&rt, device.device(), &MountOptions::default()).await.unwrap();
        let file = files.open(b"f").unwrap();
        let mut found = vec![0xee; file.size() as usize];
        assert_eq!(file.read(0, &mut found).await.unwrap(), found.len());
        let fits = |version: &Known| {
            let same = |(k, f): (&Option<u8>, &u8)| k.is_none_or(|k| k == *f);
            // Only uncertain bytes may be missing at the end.
            let missing = version.iter().skip(found.len()).all(Option::is_none);
            missing && version.iter().zip(&found).all(same)
        };
        let k = versions.iter().rposition(fits).unwrap_or_else(|| {
            panic!("seed {seed}, {caps:?}, cut after {after}: neither old nor new")
        });
        assert!(k >= acked.get(), "seed {seed}, {caps:?}, cut after {after}: a group is lost");
        let rest = &found[versions[2].len().min(found.len())..];
        assert!(rest.iter().all(|&b| b == 0), "zeros behind the end");
        (k, acked.get(), all)
    })
}

fn hold(ack: Ack, ordered: bool) {
    let mut seen = [0; 3];
    for seed in 0..24 {
        let caps = caps(ack, ordered, [512, 4096][seed as usize % 2]);
        for micros in (seed % 7..2000).step_by(7) {
            let (version, _, all) = cut(seed, caps, Nanos::from_micros(micros));
            seen[version] += 1;
            if all {
                break;
            }
        }
    }
    assert!(seen.iter().all(|&n| n > 20), "too little happened: {seen:?}");
}

#[test]
fn i9_volatile_unordered() {
    hold(Ack::Volatile, false);
}

#[test]
fn i9_volatile_ordered() {
    hold(Ack::Volatile, true);
}

#[test]
fn i9_power_safe() {
    hold(Ack::PowerSafe, true);
}

#[test]
fn i9_on_media_unordered() {
    hold(Ack::OnMedia, false);
}

#[test]
fn what_is_refused_changes_nothing() {
    on(1, |rt| async move {
        let device = Stats::new(&rt, ram(&rt, caps(Ack::Volatile, false, 4096)));
        Files::format(&rt, &device, &FORMAT).await.unwrap();
        let files = Files::mount(&rt, device.clone(), &MountOptions::default()).await.unwrap();
        assert_eq!(files.group_limit(), Some(LIMIT));
        let file = files.create(b"f", Promise::Durable).await.unwrap();
        file.write(0, &[1; 100]).await.unwrap();
        let (space, before) = (files.space(), device.snapshot().bytes_written());
        let page = [2; 4096];
        let scattered: Vec<(u64, &[u8])> = (0..13).map(|i| (i * 2 * 4096, &page[..])).collect();
        let told = file.write_atomic(&scattered).await.unwrap_err();
        assert_eq!(
            told.to_string(),
            "the group has 13 extents and 53248 bytes; the limit is 12 extents and 81920 bytes"
        );
        let large = vec![3; (80 << 10) + 1];
        let told = file.write_atomic(&[(0, &large)]).await.unwrap_err();
        assert!(matches!(told, FilesError::Group(AtomicError::TooLarge { .. })), "{told}");
        let far = [(u64::MAX - 10, &page[..])];
        assert!(matches!(file.write_atomic(&far).await, Err(FilesError::NoSpace(_))));
        assert!(matches!(
            file.write_atomic(&[(2 << 20, &page)]).await,
            Err(FilesError::NoSpace(_))
        ));
        assert_eq!((files.space(), device.snapshot().bytes_written()), (space, before));
        assert_eq!(file.size(), 100);
        // With one extent less it is accepted: it is one command, after one record for the chunks.
        device.reset();
        file.write_atomic(&scattered[..12]).await.unwrap();
        let seen = device.snapshot();
        assert_eq!(seen.of(CommandKind::Group).commands, 1);
        assert_eq!(seen.of(CommandKind::Group).bytes, 12 * 4096);
        assert_eq!(seen.of(CommandKind::Write).commands, 1, "the metadata");
        // Overwriting in place needs nothing else; nor do ranges without bytes.
        device.reset();
        file.write_atomic(&scattered[..12]).await.unwrap();
        file.write_atomic(&[(9 << 30, &[])]).await.unwrap();
        let seen = device.snapshot();
        let others = [CommandKind::Write, CommandKind::Read, CommandKind::Flush];
        assert_eq!(others.map(|kind| seen.of(kind).commands), [0; 3]);
        assert_eq!(seen.of(CommandKind::Group).commands, 1);
        // Where ranges overlap, the later one counts; parts of a block keep the rest.
        file.write_atomic(&[(10, &[5; 20]), (20, &[6; 20]), (4090, &[7; 12])]).await.unwrap();
        let mut back = [0; 48];
        file.read(0, &mut back).await.unwrap();
        assert_eq!((back[9], back[10], back[19], back[20], back[39], back[40]), (2, 5, 5, 6, 6, 2));
        file.read(4089, &mut back).await.unwrap();
        assert_eq!((back[0], back[1], back[12], back[13]), (2, 7, 7, 0));
    });
}

#[test]
fn devices_that_promise_too_little_take_none() {
    on(1, |rt| async move {
        let none = Caps { atomic_group: None, ..caps(Ack::PowerSafe, true, 4096) };
        let lax = Caps { flush: false, ..caps(Ack::Volatile, false, 4096) };
        for caps in [none, lax] {
            let device = ram(&rt, caps);
            Files::format(&rt, &device, &FORMAT).await.unwrap();
            let files = Files::mount(&rt, device, &MountOptions::default()).await.unwrap();
            assert_eq!(files.group_limit(), None);
            let file = files.create(b"f", Promise::Durable).await.unwrap();
            let told = file.write_atomic(&[(0, &[1; 10])]).await;
            assert_eq!(told, Err(FilesError::Group(AtomicError::Unsupported)));
            assert_eq!(file.size(), 0);
        }
    });
}

#[test]
fn a_group_that_fails_leaves_what_was_there() {
    on(1, |rt| async move {
        let device = Faults::new(&rt, ram(&rt, caps(Ack::PowerSafe, true, 4096)), "faults");
        Files::format(&rt, &device, &FORMAT).await.unwrap();
        let files = Files::mount(&rt, device.clone(), &MountOptions::default()).await.unwrap();
        let file = files.create(b"f", Promise::Durable).await.unwrap();
        file.write(0, &[1; 5000]).await.unwrap();
        device.fail_nth(CommandKind::Group, 1);
        let group: [(u64, &[u8]); 2] = [(4000, &[2; 500]), (20_000, &[2; 500])];
        assert!(matches!(file.write_atomic(&group).await, Err(FilesError::Io(_))));
        assert_eq!(file.size(), 5000);
        let mut back = vec![0; 5000];
        file.read(0, &mut back).await.unwrap();
        assert!(back.iter().all(|&b| b == 1));
        file.write_atomic(&group).await.unwrap();
        assert_eq!(file.size(), 20_500);
        let mut back = vec![9; 20_500];
        file.read(0, &mut back).await.unwrap();
        assert!(back[5000..20_000].iter().all(|&b| b == 0), "the gap is zeros");
        assert!(back[4000..4500].iter().chain(&back[20_000..]).all(|&b| b == 2));
    });
}
