//! Devices of a flash cache, and of the volume over one, that hold whatever they like.
//!
//! An input is a kind of cache and a list of changes to the devices of a valid one ([`Change`]). Some
//! changes mend checksums, so that what they made gets as far as the code behind the checks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_cache::flash::{DeviceStore, FlashCache, FormatOptions, Mode, NoHost, OpenOptions};
use tantalum_cache::volume::{CacheVolume, VolumeOptions};
use tantalum_device::{
    Block, BlockDevice, Caps, Data, DataMut, Durability, Payload, PowerCycle, RamDevice, RamOptions,
};
use tantalum_rt::{Nanos, Rt, Runtime};

const BLOCK: usize = 512;
/// Bytes of the flash device: a ring of some twenty batches.
const FLASH: usize = 100 << 10;
const PAGES: u64 = 40;
const SLOW: usize = (1 << 20) + PAGES as usize * BLOCK;
/// Changes of one input, at most.
const CHANGES: usize = 64;

/// Which cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    through: bool,
    closed: bool,
    volume: bool,
}

impl Kind {
    fn of(byte: u8) -> Kind {
        let bit = |n: u8| byte >> n & 1 == 1;
        Kind { through: bit(0), closed: bit(1), volume: bit(2) }
    }

    fn format(self) -> FormatOptions {
        FormatOptions {
            page: BLOCK as u32,
            frames: 4,
            mode: if self.through { Mode::Through } else { Mode::Back },
            identity: Some([7; 16]),
            ..FormatOptions::default()
        }
    }
}

fn open_options() -> OpenOptions {
    OpenOptions {
        linger: Nanos::from_micros(10),
        patience: Nanos::from_millis(1),
        ..OpenOptions::default()
    }
}

/// What flash and slow device of a valid cache hold, and every version of each page.
struct Valid {
    images: [Vec<u8>; 2],
    versions: BTreeMap<u64, Vec<Vec<u8>>>,
}

thread_local! {
    static VALID: RefCell<BTreeMap<Kind, Rc<Valid>>> = RefCell::default();
}

/// The bytes at a place of a device, as they are changed.
enum Change {
    /// Other bytes.
    Put(Vec<u8>),
    /// Zeros: so many blocks.
    Zero(usize),
    /// The blocks from another place.
    Copy(usize, usize),
    /// The checksum of a superblock or label.
    MendHead,
    /// The checksum of a descriptor or segment.
    MendPiece,
}

/// Reads changes from the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A block and a byte of it.
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
            5 => Change::MendHead,
            _ => Change::MendPiece,
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
            Change::MendHead => mend(image, block, BLOCK),
            Change::MendPiece => {
                let length: [u8; 4] = image[block + 4..block + 8].try_into().expect("4 bytes");
                let length = u32::from_le_bytes(length) as usize;
                if (8..=image.len() - block).contains(&length) {
                    mend(image, block, length);
                }
            }
        }
    }
}

/// Mends the checksum in the first four of so many bytes.
fn mend(image: &mut [u8], at: usize, length: usize) {
    let crc = crc32c::crc32c(&image[at + 4..at + length]);
    image[at..at + 4].copy_from_slice(&crc.to_le_bytes());
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

fn blank(rt: &Rt) -> [RamDevice; 2] {
    [ram(rt, FLASH), ram(rt, SLOW)]
}

fn volume_of(rt: &Rt, kind: Kind, devices: &[RamDevice; 2]) -> CacheVolume<RamDevice, RamDevice> {
    let options =
        VolumeOptions { format: kind.format(), cache: open_options(), ..VolumeOptions::default() };
    let [flash, slow] = devices.clone();
    CacheVolume::new(rt, flash, slow, options).expect("it suits")
}

async fn image(device: &RamDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.caps().bytes() as usize];
    device.read(Block(0), DataMut::Bytes(&mut bytes)).await.expect("RAM");
    bytes
}

fn content(page: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![page as u8; BLOCK];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// A cache that was used for two laps, with pages of several versions and some that were forgotten.
async fn make(rt: Rt, kind: Kind) -> Valid {
    let devices = blank(&rt);
    let mut versions: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    for page in 0..PAGES {
        versions.insert(page, vec![vec![0; BLOCK]]);
    }
    if kind.volume {
        let volume = volume_of(&rt, kind, &devices);
        volume.format(false).await.expect("blank");
        volume.power_on().await.expect("a volume");
        for n in 1..90u64 {
            let (page, bytes) = (n * 7 % PAGES, content(n * 7 % PAGES, n));
            let device = volume.device();
            device.write(Block(page), Data::Bytes(&bytes), Durability::Normal).await.expect("RAM");
            device.flush().await.expect("RAM");
            versions.entry(page).or_default().push(bytes);
        }
        if kind.closed {
            volume.close().await.expect("it works");
        }
        volume.cut();
        volume.off().await;
        for device in &devices {
            device.power_on().await.expect("RAM");
        }
    } else {
        let [flash, slow] = devices.clone();
        let store = DeviceStore::new(slow.device(), BLOCK as u32).expect("it suits");
        let format = kind.format();
        FlashCache::format(&rt, &flash.device(), &store, &format).await.expect("blank");
        let host = Rc::new(NoHost);
        let opened = FlashCache::open(&rt, flash.device(), store, host, open_options());
        let cache = opened.await.expect("a cache");
        for n in 1..90u64 {
            let (page, bytes) = (n * 7 % PAGES, content(n * 7 % PAGES, n));
            cache.evict(page, &bytes, true, n).await.expect("room");
            versions.entry(page).or_default().push(bytes);
            if n % 20 == 0 {
                cache.forget(page..page + 2).await.expect("room");
            }
        }
        if kind.closed {
            cache.close().await.expect("it works");
        }
    }
    let images = [image(&devices[0].device()).await, image(&devices[1].device()).await];
    Valid { images, versions }
}

fn valid(kind: Kind) -> Rc<Valid> {
    if let Some(known) = VALID.with_borrow(|all| all.get(&kind).cloned()) {
        return known;
    }
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let made = Rc::new(runtime.block_on(async move { make(rt, kind).await }).expect("it ends"));
    VALID.with_borrow_mut(|all| all.insert(kind, made.clone()));
    made
}

/// Opens what the input makes of a valid cache. Asserts that it is refused in one line, or that each
/// page is an error or one of its versions, if only the flash device was damaged and no checksum was
/// forged; and that it ends.
pub fn media(input: &[u8]) {
    let mut input = Input(input);
    let Some(kind) = input.byte().map(Kind::of) else { return };
    let valid = valid(kind);
    let mut images = valid.images.clone();
    let mut forged = false;
    for _ in 0..CHANGES {
        let Some(device) = input.byte() else { break };
        // The slow device has little to look at.
        let device = usize::from(device % 8 == 7);
        let image = &mut images[device];
        let length = if device == 1 { 64 * BLOCK } else { image.len() };
        let Some(at) = input.place(length) else { break };
        let Some(change) = input.change(length) else { break };
        forged |= change.forges();
        change.apply(&mut image[..length], at);
    }
    let mut runtime = Runtime::virtual_time(2);
    let rt = runtime.handle();
    let judge = (!forged).then_some(valid);
    let task = async move { open(rt, kind, images, judge).await };
    runtime.block_on(task).expect("the run ends");
}

async fn open(rt: Rt, kind: Kind, images: [Vec<u8>; 2], valid: Option<Rc<Valid>>) {
    let devices = blank(&rt);
    for (device, image) in devices.iter().zip(&images) {
        device.write(Block(0), Data::Bytes(image), Durability::Normal).await.expect("RAM");
    }
    let check = |page: u64, bytes: &[u8]| {
        if let Some(valid) = &valid {
            let known = valid.versions[&page].iter().any(|version| version == bytes);
            assert!(known, "page {page} has bytes that it never had");
        }
    };
    let mut bytes = vec![0; BLOCK];
    if kind.volume {
        let volume = volume_of(&rt, kind, &devices);
        if volume.power_on().await.is_err() {
            let why = volume.start_failure().expect("it says why").to_string();
            return assert!(!why.contains('\n'), "one line: {why}");
        }
        let device = volume.device();
        for page in 0..PAGES {
            if device.read(Block(page), DataMut::Bytes(&mut bytes)).await.is_ok() {
                check(page, &bytes);
            }
        }
        let _ = device.write(Block(0), Data::Bytes(&[1; BLOCK]), Durability::Normal).await;
        let _ = device.flush().await;
        return;
    }
    let [flash, slow] = devices;
    let store = DeviceStore::new(slow.device(), BLOCK as u32).expect("it suits");
    let checked = FlashCache::check(flash.device(), &store, &open_options()).await;
    let host = Rc::new(NoHost);
    let cache = match FlashCache::open(&rt, flash.device(), store, host, open_options()).await {
        Ok(cache) => cache,
        Err(why) => return assert!(!why.to_string().contains('\n'), "one line: {why}"),
    };
    assert!(checked.is_ok(), "{checked:?}");
    if cache.page_bytes() != BLOCK {
        return;
    }
    for page in 0..PAGES {
        if cache.fetch(page, &mut bytes).await.is_ok() {
            check(page, &bytes);
        }
    }
    let _ = cache.scrub().await;
    // It goes on, unless the slow store would have to take a page that it has not.
    for n in 0..30 {
        let _ = cache.evict(n % PAGES, &content(n % PAGES, 1 << 40), true, 1 << 40).await;
    }
    let _ = cache.close().await;
}
