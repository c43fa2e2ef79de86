//! Devices of a flash cache, and of the volume over one, that hold whatever they like.
//!
//! An input is a kind of cache and a list of changes to the devices of a valid one (`image.rs`).

use super::image::{BLOCK, CHANGES, Input, number_at, put_on, ram, taken_from};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_cache::flash::{DeviceStore, FlashCache, FormatOptions, Mode, NoHost, OpenOptions};
use tantalum_cache::volume::{CacheVolume, VolumeOptions};
use tantalum_device::{Block, BlockDevice, Data, DataMut, Durability, PowerCycle, RamDevice};
use tantalum_rt::{Nanos, Rt, Runtime};

/// Bytes of the flash device: a ring of some twenty batches.
const FLASH: usize = 100 << 10;
const PAGES: u64 = 40;
const SLOW: usize = (1 << 20) + PAGES as usize * BLOCK;

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

/// Mends a checksum: of a superblock or label, or of a descriptor or segment.
fn mend(kind: u8, image: &mut [u8], block: usize) {
    let length = if kind == 0 { BLOCK } else { number_at(image, block + 4) };
    if (8..=image.len() - block).contains(&length) {
        seal(image, block, length);
    }
}

/// Mends the checksum in the first four of so many bytes.
fn seal(image: &mut [u8], at: usize, length: usize) {
    let crc = crc32c::crc32c(&image[at + 4..at + length]);
    image[at..at + 4].copy_from_slice(&crc.to_le_bytes());
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
    let images = [taken_from(&devices[0].device()).await, taken_from(&devices[1].device()).await];
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
        change.apply(&mut image[..length], at, mend);
    }
    let mut runtime = Runtime::virtual_time(2);
    let rt = runtime.handle();
    let judge = (!forged).then_some(valid);
    let task = async move { open(rt, kind, images, judge).await };
    runtime.block_on(task).expect("the run ends");
}

async fn open(rt: Rt, kind: Kind, images: [Vec<u8>; 2], valid: Option<Rc<Valid>>) {
    let devices = blank(&rt);
    put_on(&devices, &images).await;
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
