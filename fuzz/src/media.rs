//! Devices of a log, and of a log volume, that hold whatever they like.
//!
//! An input is a layout and a list of changes to the devices of a valid log (`image.rs`).

use super::image::{BLOCK, CHANGES, Input, number_at, put_on, ram, taken_from};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Data, DataMut, Durability, GroupLimit, PowerCycle, RamDevice,
};
use tantalum_log::{
    CreateOptions, Log, LogDevice, LogVolume, OpenOptions, Record, VolumeOptions, WhenFull,
};
use tantalum_rt::{Rt, Runtime};

/// Bytes of a device of a log: its head, and a little behind it.
const DEVICE: usize = (64 << 10) + (96 << 10);
/// Blocks of a volume's backing.
const BACKING: usize = 48;

/// Which log: devices of the array, whether there is an archive, copies, whether a volume is on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Layout {
    array: usize,
    archive: bool,
    copies: u8,
    volume: bool,
}

impl Layout {
    fn of(byte: u8) -> Layout {
        let array = 1 + usize::from(byte & 3) % 3;
        let copies = if byte & 4 != 0 && array > 1 { 2 } else { 1 };
        Layout { array, archive: byte & 8 != 0, copies, volume: byte & 16 != 0 }
    }

    fn create(self) -> CreateOptions {
        CreateOptions {
            copies: self.copies,
            section_bytes: Some(8 << 10),
            record_limit: Some(3000),
            identity: Some([7; 16]),
            ..CreateOptions::default()
        }
    }

    fn open(self) -> OpenOptions {
        OpenOptions {
            memory: 32 << 10,
            group_bytes: 4096,
            archive_bytes: 2048,
            archive_write_bytes: 8192,
            when_full: WhenFull::Fail,
            ..OpenOptions::default()
        }
    }

    fn volume(self) -> VolumeOptions {
        VolumeOptions {
            memory: 64 << 10,
            atomic_unit: 2048,
            atomic_group: GroupLimit { extents: 4, bytes: 2048 },
            log: self.open(),
            ..VolumeOptions::default()
        }
    }
}

/// What the devices hold, the archive behind the array, and the backing last.
type Images = Vec<Vec<u8>>;

/// A valid log: what its devices hold, and its records.
struct Valid {
    images: Images,
    records: Vec<Record>,
}

thread_local! {
    static VALID: RefCell<BTreeMap<Layout, Rc<Valid>>> = RefCell::default();
}

/// Mends a checksum: of a block of the log, of a superblock or label, or of a state.
fn mend(kind: u8, image: &mut [u8], block: usize) {
    match kind {
        0 => {
            let crc = crc32c::crc32c(&image[block + 4..block + BLOCK]);
            image[block..block + 4].copy_from_slice(&crc.to_le_bytes());
        }
        1 => seal(image, block, BLOCK),
        _ => {
            let length = number_at(image, block + 32);
            if (16..=image.len() - block).contains(&length) {
                seal(image, block, length);
            }
        }
    }
}

/// Mends a checksum at byte 12 of so many bytes.
fn seal(image: &mut [u8], at: usize, length: usize) {
    image[at + 12..at + 16].fill(0);
    let crc = crc32c::crc32c(&image[at..at + length]);
    image[at + 12..at + 16].copy_from_slice(&crc.to_le_bytes());
}

fn blank(rt: &Rt, layout: Layout) -> Vec<RamDevice> {
    let log = layout.array + usize::from(layout.archive);
    let mut all: Vec<RamDevice> = (0..log).map(|_| ram(rt, DEVICE)).collect();
    if layout.volume {
        all.push(ram(rt, BACKING * BLOCK));
    }
    all
}

fn named(devices: &[RamDevice]) -> Vec<LogDevice<RamDevice>> {
    let all = devices.iter().enumerate();
    all.map(|(i, d)| LogDevice::new(format!("device {i}"), d.device())).collect()
}

fn volume_of(rt: &Rt, layout: Layout, devices: &[RamDevice]) -> LogVolume<RamDevice, RamDevice> {
    let (backing, log) = devices.split_last().expect("a volume has a backing");
    let named = log.iter().enumerate().map(|(i, d)| (format!("device {i}"), d.clone()));
    let mut array: Vec<_> = named.collect();
    let archive = layout.archive.then(|| array.pop()).flatten();
    LogVolume::new(rt, array, archive, backing.clone(), layout.volume()).expect("it suits")
}

/// A log that was opened twice, with records of all lengths and a checkpoint.
async fn make(rt: Rt, layout: Layout) -> Valid {
    let devices = blank(&rt, layout);
    let mut records = Vec::new();
    if layout.volume {
        let volume = volume_of(&rt, layout, &devices);
        volume.format(&layout.create()).await.expect("blank");
        volume.power_on().await.expect("a volume");
        for i in 0..20u8 {
            let bytes = vec![i; BLOCK * (1 + usize::from(i) % 3)];
            let at = Block(u64::from(i) % 20);
            volume.device().write(at, Data::Bytes(&bytes), Durability::Normal).await.expect("RAM");
        }
        volume.cut();
        volume.off().await;
        for device in &devices {
            device.power_on().await.expect("RAM");
        }
    } else {
        let names = named(&devices);
        let (array, archive) = names.split_at(layout.array);
        Log::create(&rt, array, archive.first(), &layout.create()).await.expect("blank");
        for life in 0..2u8 {
            let log = Log::open(&rt, named(&devices), layout.open()).await.expect("a log");
            for i in 0..16u8 {
                let bytes = vec![life * 100 + i; usize::from(i) * 37 % 400];
                let at = log.commit(&bytes).await.expect("room");
                records.push(Record { lsn: at.lsn, end: at.end, bytes });
                if (life, i) == (0, 12) {
                    log.checkpoint(records[6].end, 1).await.expect("a record ends there");
                }
            }
            log.close().await.expect("it works");
        }
    }
    let mut images = Vec::new();
    for device in &devices {
        images.push(taken_from(&device.device()).await);
    }
    Valid { images, records }
}

fn valid(layout: Layout) -> Rc<Valid> {
    if let Some(known) = VALID.with_borrow(|all| all.get(&layout).cloned()) {
        return known;
    }
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let made = Rc::new(runtime.block_on(async move { make(rt, layout).await }).expect("it ends"));
    VALID.with_borrow_mut(|all| all.insert(layout, made.clone()));
    made
}

/// Opens what the input makes of a valid log. Asserts that it is refused, or is a prefix of that
/// log; if checksums were forged, that it ends.
pub fn media(input: &[u8]) {
    let mut input = Input(input);
    let Some(layout) = input.byte().map(Layout::of) else { return };
    let valid = valid(layout);
    let mut images = valid.images.clone();
    let mut forged = false;
    for _ in 0..CHANGES {
        let Some(device) = input.byte() else { break };
        let image = usize::from(device) % images.len();
        let image = &mut images[image];
        let Some(at) = input.place(image.len()) else { break };
        let Some(change) = input.change(image.len()) else { break };
        forged |= change.forges();
        change.apply(image, at, mend);
    }
    for salvage in [false, true] {
        let (images, valid) = (images.clone(), valid.clone());
        let mut runtime = Runtime::virtual_time(2);
        let rt = runtime.handle();
        let task =
            async move { open(rt, layout, images, salvage, (!forged).then_some(valid)).await };
        runtime.block_on(task).expect("the run ends");
    }
}

async fn open(rt: Rt, layout: Layout, images: Images, salvage: bool, valid: Option<Rc<Valid>>) {
    let devices = blank(&rt, layout);
    put_on(&devices, &images).await;
    if layout.volume {
        let volume = volume_of(&rt, layout, &devices);
        if volume.power_on().await.is_ok() {
            image_of_volume(&volume).await;
        } else {
            let why = volume.start_failure().expect("it says why").to_string();
            assert!(!why.contains('\n'), "one line: {why}");
        }
        return;
    }
    let options = OpenOptions { salvage, ..layout.open() };
    let log = match Log::open(&rt, named(&devices), options).await {
        Ok(log) => log,
        Err(why) => return assert!(!why.to_string().contains('\n'), "one line: {why}"),
    };
    let mut records = log.read(log.first()).expect("it begins there");
    let expected = valid.as_ref().map(|v| &v.records[..]).unwrap_or_default();
    let mut expected = expected.iter().filter(|r| r.lsn >= log.first());
    let mut end = log.first();
    while let Ok(Some(record)) = records.next().await {
        assert!(record.lsn == end && record.end > end, "records lie one behind the other");
        end = record.end;
        if valid.is_some() {
            assert_eq!(Some(&record), expected.next(), "it was never appended there");
        }
    }
    // It takes records, unless it is full.
    let _ = log.commit(b"more").await;
}

async fn image_of_volume(volume: &LogVolume<RamDevice, RamDevice>) {
    let device = volume.device();
    let mut bytes = vec![0; device.caps().bytes() as usize];
    let _ = device.read(Block(0), DataMut::Bytes(&mut bytes)).await;
    let _ = device.write(Block(0), Data::Bytes(&[1; BLOCK]), Durability::Normal).await;
}
