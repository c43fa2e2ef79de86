//! A cache on devices that take no time, for tests of single calls.

use super::model::content;
use std::rc::Rc;
use tantalum_cache::flash::{
    DeviceStore, Fetched, FlashCache, FormatOptions, Host, NoHost, OpenError, OpenOptions,
};
use tantalum_device::{
    Block, BlockDevice, Caps, Data, DataMut, Durability, Payload, RamDevice, RamOptions,
};
use tantalum_rt::{Nanos, Rt, Runtime};

pub const PAGE: usize = 512;
pub const PAGES: u64 = 200;

pub type Cache = FlashCache<RamDevice, DeviceStore<RamDevice>>;

pub fn run<T: 'static>(test: impl AsyncFnOnce(Rt) -> T + 'static) -> T {
    let mut runtime = Runtime::virtual_time(3);
    let rt = runtime.handle();
    runtime.block_on(async move { test(rt).await }).unwrap()
}

pub fn device(rt: &Rt, bytes: u64) -> RamDevice {
    let caps = Caps { block_size: 512, ..Caps::power_safe(bytes / 512, Payload::Bytes) };
    RamDevice::new(rt, RamOptions::new(caps))
}

/// One whose commands take so long.
pub fn slow_device(rt: &Rt, bytes: u64, command: Nanos) -> RamDevice {
    let caps = Caps { block_size: 512, ..Caps::power_safe(bytes / 512, Payload::Bytes) };
    RamDevice::new(rt, RamOptions { command, ..RamOptions::new(caps) })
}

pub fn options() -> FormatOptions {
    FormatOptions { page: PAGE as u32, frames: 4, ..FormatOptions::default() }
}

/// The devices of a cache, and how to open it.
#[derive(Clone)]
pub struct Bench {
    pub rt: Rt,
    pub flash: RamDevice,
    pub slow: RamDevice,
}

impl Bench {
    /// A new cache of so many bytes.
    pub async fn new(rt: &Rt, bytes: u64, options: &FormatOptions) -> Bench {
        Bench::on(rt, device(rt, bytes), options).await
    }

    /// A new cache on this flash device.
    pub async fn on(rt: &Rt, flash: RamDevice, options: &FormatOptions) -> Bench {
        let slow = device(rt, (1 << 20) + PAGES * PAGE as u64);
        let bench = Bench { rt: rt.clone(), flash, slow };
        FlashCache::format(rt, &bench.flash, &bench.store(), options).await.unwrap();
        bench
    }

    pub fn store(&self) -> DeviceStore<RamDevice> {
        DeviceStore::new(self.slow.clone(), PAGE as u32).unwrap()
    }

    pub async fn try_open(&self, options: OpenOptions) -> Result<Cache, OpenError> {
        self.open_with(Rc::new(NoHost), options).await
    }

    pub async fn open_with(
        &self,
        host: Rc<dyn Host>,
        options: OpenOptions,
    ) -> Result<Cache, OpenError> {
        FlashCache::open(&self.rt, self.flash.clone(), self.store(), host, options).await
    }

    pub async fn open(&self) -> Cache {
        self.try_open(OpenOptions::default()).await.unwrap()
    }

    /// Opening fails with this, and changes nothing.
    pub async fn refused(&self, options: OpenOptions) -> OpenError {
        let before = (bytes_of(&self.flash).await, bytes_of(&self.slow).await);
        let error = self.try_open(options).await.err().expect("it is refused");
        let after = (bytes_of(&self.flash).await, bytes_of(&self.slow).await);
        assert!(before == after, "{error}: something was changed");
        let text = error.to_string();
        assert!(!text.contains('\n') && text.len() < 250, "{text}");
        println!("{text}");
        error
    }
}

/// Evicts a dirty version of a page.
pub async fn evict(cache: &Cache, page: u64, version: u64) {
    cache.evict(page, &content(page, version, PAGE), true, version).await.unwrap();
}

/// Fetches a page, which has this version.
pub async fn fetch(cache: &Cache, page: u64, version: u64) -> Fetched {
    let mut bytes = vec![0xEE; PAGE];
    let found = cache.fetch(page, &mut bytes).await.unwrap();
    assert!(
        bytes == content(page, version, PAGE),
        "page {page} is not version {version}: {found:?}"
    );
    found
}

pub async fn bytes_of(device: &RamDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.caps().bytes() as usize];
    device.read(Block(0), DataMut::Bytes(&mut bytes)).await.unwrap();
    bytes
}

/// Changes one block.
pub async fn put(device: &RamDevice, block: u64, change: impl Fn(&mut [u8])) {
    let mut bytes = vec![0; 512];
    device.read(Block(block), DataMut::Bytes(&mut bytes)).await.unwrap();
    change(&mut bytes);
    device.write(Block(block), Data::Bytes(&bytes), Durability::Normal).await.unwrap();
}

/// The last block that holds this version of a page.
pub async fn find(device: &RamDevice, page: u64, version: u64) -> u64 {
    let bytes = bytes_of(device).await;
    let wanted = content(page, version, PAGE);
    bytes.chunks(512).rposition(|b| b == wanted).expect("it was written") as u64
}
