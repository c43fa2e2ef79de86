//! Devices of a log, and of a log volume, that hold whatever they like.
//!
//! An input is a layout and a list of changes to the devices of a valid log ([`Change`]). Some
//! changes mend checksums, so that what they made gets as far as the code behind the checks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Caps, Data, DataMut, Durability, GroupLimit, Payload, PowerCycle,
    RamDevice, RamOptions,
};
use tantalum_log::{
    CreateOptions, Log, LogDevice, LogVolume, OpenOptions, Record, VolumeOptions, WhenFull,
};
use tantalum_rt::{Nanos, Rt, Runtime};

const BLOCK: usize = 512;
/// Bytes of a device of a log: its head, and a little behind it.
const DEVICE: usize = (64 << 10) + (96 << 10);
/// Blocks of a volume's backing.
const BACKING: usize = 48;
/// Changes of one input, at most.
const CHANGES: usize = 64;

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

/// The bytes at `at` of a device, as they are changed.
enum Change {
    /// Other bytes.
    Put(Vec<u8>),
    /// Zeros: so many blocks.
    Zero(usize),
    /// The blocks from another place.
    Copy(usize, usize),
    /// The checksum of a block of the log.
    MendBlock,
    /// The checksum of a superblock or of a label.
    MendHead,
    /// The checksum of a state.
    MendState,
}

/// Reads changes from the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A place: most bytes of a device are far from anything, so it is a block and a byte of it.
    fn place(&mut self, length: usize) -> Option<usize> {
        let (low, high, byte) = (self.byte()?, self.byte()?, self.byte()?);
        let block = usize::from(u16::from_le_bytes([low, high])) % (length / BLOCK);
        Some(block * BLOCK + usize::from(byte) * 2)
    }

    fn change(&mut self, length: usize) -> Option<Change> {
        Some(match self.byte()? % 8 {
            0..=2 => {
                let count = usize::from(self.byte()? % 16) + 1;
                let (here, rest) = self.0.split_at(count.min(self.0.len()));
                self.0 = rest;
                Change::Put(here.to_vec())
            }
            3 => Change::Zero(usize::from(self.byte()?) + 1),
            4 => Change::Copy(self.place(length)?, usize::from(self.byte()? % 16) + 1),
            5 => Change::MendBlock,
            6 => Change::MendHead,
            _ => Change::MendState,
        })
    }
}

impl Change {
    /// Whether what results may pass for something that was written.
    fn forges(&self) -> bool {
        !matches!(self, Change::Put(_) | Change::Zero(_))
    }

    fn apply(&self, image: &mut [u8], at: usize) {
        let block = at / BLOCK * BLOCK;
        match self {
            Change::Put(bytes) => {
                let end = (at + bytes.len()).min(image.len());
                image[at..end].copy_from_slice(&bytes[..end - at]);
            }
            Change::Zero(count) => {
                let end = (block + count * BLOCK).min(image.len());
                image[block..end].fill(0);
            }
            Change::Copy(from, count) => {
                let from = from / BLOCK * BLOCK;
                let length = (count * BLOCK).min(image.len() - from.max(block));
                image.copy_within(from..from + length, block);
            }
            Change::MendBlock => {
                let crc = crc32c::crc32c(&image[block + 4..block + BLOCK]);
                image[block..block + 4].copy_from_slice(&crc.to_le_bytes());
            }
            Change::MendHead => mend(image, block, BLOCK),
            Change::MendState => {
                let length: [u8; 4] = image[block + 32..block + 36].try_into().expect("4 bytes");
                let length = u32::from_le_bytes(length) as usize;
                if (16..=image.len() - block).contains(&length) {
                    mend(image, block, length);
                }
            }
        }
    }
}

/// Mends a checksum at byte 12 of so many bytes.
fn mend(image: &mut [u8], at: usize, length: usize) {
    image[at + 12..at + 16].fill(0);
    let crc = crc32c::crc32c(&image[at..at + length]);
    image[at + 12..at + 16].copy_from_slice(&crc.to_le_bytes());
}

fn ram(rt: &Rt, bytes: usize) -> RamDevice {
    let blocks = (bytes / BLOCK) as u64;
    let caps = Caps {
        block_size: BLOCK as u32,
        atomic_unit: BLOCK as u32,
        ..Caps::power_safe(blocks, Payload::Bytes)
    };
    RamDevice::new(rt, RamOptions { command: Nanos::from_micros(10), ..RamOptions::new(caps) })
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

async fn image(device: &RamDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.caps().bytes() as usize];
    device.read(Block(0), DataMut::Bytes(&mut bytes)).await.expect("RAM");
    bytes
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
        images.push(image(&device.device()).await);
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
        change.apply(image, at);
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
    for (device, image) in devices.iter().zip(&images) {
        device.write(Block(0), Data::Bytes(image), Durability::Normal).await.expect("RAM");
    }
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
