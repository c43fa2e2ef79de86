//! The slow store under a cache.

use crate::flash::carrier::{Beside, Carrier};
use crate::flash::error::OpenError;
use crate::flash::format::{COPIES, Found, HEAD_BYTES, Label, page_sizes};
use crate::flash::medium::write_head;
use std::fmt;
use tantalum_device::{Block, BlockDevice, DurableBy, IoError, Payload};

/// Bytes of a label's two copies, and what lies between them.
pub(crate) const LABEL_BYTES: usize = COPIES[1] as usize + HEAD_BYTES;

/// Where pages come from and end: disks, a network volume, the files of a database.
///
/// Reads see what was written before. The cache never has two writes of one page under way, and
/// none of a page that is forgotten.
///
/// ```
/// use std::cell::RefCell;
/// use tantalum_cache::flash::SlowStore;
/// use tantalum_device::IoError;
///
/// /// Pages of 4 KiB in memory, which nothing survives.
/// struct Memory(RefCell<Vec<u8>>);
///
/// impl SlowStore for Memory {
///     fn pages(&self) -> u64 {
///         self.0.borrow().len() as u64 / 4096
///     }
///
///     async fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError> {
///         let at = page as usize * 4096;
///         buf.copy_from_slice(&self.0.borrow()[at..at + buf.len()]);
///         Ok(())
///     }
///
///     async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
///         let at = first as usize * 4096;
///         self.0.borrow_mut()[at..at + data.len()].copy_from_slice(data);
///         Ok(())
///     }
///
///     async fn flush(&self) -> Result<(), IoError> {
///         Ok(())
///     }
/// }
/// ```
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait SlowStore {
    /// How many pages there are: their numbers are below.
    fn pages(&self) -> u64;

    /// Its bytes, if they do not change while it is used as it should be. Then a store that has become
    /// smaller is refused: a device that was cut off, for example. `None`: it may become shorter.
    fn fixed_bytes(&self) -> Option<u64> {
        None
    }

    /// Reads a page.
    async fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError>;

    /// Writes pages side by side, from `first` on.
    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError>;

    /// Writes a page; it is durable when this returns.
    async fn write_durably(&self, page: u64, data: &[u8]) -> Result<(), IoError> {
        self.write(page, data).await?;
        self.flush().await
    }

    /// Everything survives that was written before.
    async fn flush(&self) -> Result<(), IoError>;

    /// Reads the label's room, `buf.len()` bytes. `false`: the store keeps no label. Then nobody
    /// notices that it is used without its cache.
    async fn read_label(&self, buf: &mut [u8]) -> Result<bool, IoError> {
        let _ = buf;
        Ok(false)
    }

    /// Reads what lies where another store on the same device would have its label, as
    /// [`SlowStore::read_label`] does, and says which end of the device that is. `None`: there is no
    /// such place.
    async fn read_other_label(&self, buf: &mut [u8]) -> Result<Option<LabelEnd>, IoError> {
        let _ = buf;
        Ok(None)
    }

    /// Whether the device has the label of another store: at its other end, or near this one's, of
    /// pages of another size. With `end` they are overwritten with zeros, durably: a cache that is
    /// opened with one of them would know nothing of what comes after.
    async fn other_labels(&self, end: bool) -> Result<bool, IoError> {
        let _ = end;
        Ok(false)
    }

    /// Writes one copy of the label, at this byte of its room; it is durable when this returns.
    async fn write_label(&self, at: u64, label: &[u8]) -> Result<(), IoError> {
        let _ = (at, label);
        Ok(())
    }
}

/// An end of a slow device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelEnd {
    /// Its beginning.
    Beginning,
    /// Its end.
    End,
}

impl fmt::Display for LabelEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LabelEnd::Beginning => "beginning",
            LabelEnd::End => "end",
        })
    }
}

/// A block device as a slow store: a label at its beginning, and the pages from 1 MiB on. One that
/// [adopts](DeviceStore::adopting) what is on the device has the pages first, and the label behind
/// them.
///
/// See [`FlashCache`](crate::flash::FlashCache) for an example.
#[derive(Clone, Debug)]
pub struct DeviceStore<D> {
    device: D,
    page: u32,
    by: DurableBy,
    beside: Beside,
    /// The label is at the end.
    adopts: bool,
}

/// Bytes that are set aside for the label.
const LABEL_ROOM: u64 = 1 << 20;

impl<D: BlockDevice> DeviceStore<D> {
    /// The pages of a device.
    ///
    /// # Errors
    /// [`OpenError::Unsuitable`] if the device cannot make anything durable, may refuse writes for
    /// want of space, has blocks that do not divide a page, or is too small.
    pub fn new(device: D, page: u32) -> Result<DeviceStore<D>, OpenError> {
        DeviceStore::with_beside(device, page, Beside::default())
    }

    /// The same, with what lies beside a device of stamps.
    ///
    /// # Errors
    /// The same.
    pub fn with_beside(device: D, page: u32, beside: Beside) -> Result<DeviceStore<D>, OpenError> {
        DeviceStore::placed(device, page, beside, false)
    }

    /// The pages of a device that has data: they stay where they are, from its beginning on. The label
    /// takes the last 1 MiB, or somewhat more, which nobody else may use. A label at the end does not
    /// keep others from using the device without its cache, which then has older pages than it should.
    ///
    /// # Errors
    /// Those of [`DeviceStore::new`].
    pub fn adopting(device: D, page: u32) -> Result<DeviceStore<D>, OpenError> {
        DeviceStore::placed(device, page, Beside::default(), true)
    }

    fn placed(
        device: D,
        page: u32,
        beside: Beside,
        adopts: bool,
    ) -> Result<DeviceStore<D>, OpenError> {
        let caps = device.caps();
        let wrong = |what: String| Err(OpenError::Unsuitable(format!("the slow store {what}")));
        if caps.thin {
            return wrong("is thinly provisioned and may refuse pages: use another".to_string());
        }
        let Some(by) = DurableBy::of(caps) else {
            return wrong("loses what it acknowledged, and flushes do nothing: use another".into());
        };
        if page == 0 || !page.is_multiple_of(caps.block_size) {
            let block = caps.block_size;
            return wrong(format!(
                "has blocks of {block} bytes, and pages have {page}: use multiples"
            ));
        }
        if !LABEL_ROOM.is_multiple_of(caps.block_size.into())
            || caps.bytes() < LABEL_ROOM + u64::from(page)
        {
            return wrong(format!(
                "has no page beside the {LABEL_ROOM} bytes of its label: use a larger one"
            ));
        }
        Ok(DeviceStore { device, page, by, beside, adopts })
    }

    /// The byte from which on the device has the label's room.
    pub fn label_at(&self) -> u64 {
        if self.adopts { self.pages() * u64::from(self.page) } else { 0 }
    }

    /// Reads what lies where the label is, or would be, of a store that adopts or does not.
    async fn read_label_at(&self, adopts: bool, buf: &mut [u8]) -> Result<(), IoError> {
        let block = self.device.caps().block_size as usize;
        let mut blocks = vec![0; buf.len().next_multiple_of(block)];
        let at = if adopts { self.pages() * u64::from(self.page) } else { 0 };
        self.on().read_records(at, &mut blocks).await?;
        buf.copy_from_slice(&blocks[..buf.len()]);
        Ok(())
    }

    /// The bytes at which stores on this device that differ in their pages, or in the end at which
    /// they have their label, have a copy of it.
    fn other_places(&self) -> Vec<u64> {
        let caps = self.device.caps();
        let sizes = page_sizes().map(u64::from);
        let sizes = sizes.filter(|page| page.is_multiple_of(caps.block_size.into()));
        let ends = sizes.map(|page| (caps.bytes() - LABEL_ROOM) / page * page);
        let copies = |room: u64| COPIES.map(|copy| room + copy);
        let own = copies(self.label_at());
        let mut all: Vec<u64> = ends.chain([0]).flat_map(copies).collect();
        all.retain(|at| !own.contains(at));
        all
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn on(&self) -> Carrier<'_, D> {
        Carrier { device: &self.device, by: self.by, beside: &self.beside }
    }

    fn byte(&self, page: u64) -> u64 {
        let first = if self.adopts { 0 } else { LABEL_ROOM };
        first + page * u64::from(self.page)
    }

    /// Where so many bytes of pages begin, as they are in memory. Pages that the store has not, which
    /// a damaged cache may name, are refused: behind the last one may be the label.
    fn place(&self, first: u64, bytes: usize) -> Result<u64, IoError> {
        let count = (bytes / self.on().memory(self.page.into())) as u64;
        match first.checked_add(count).is_some_and(|end| end <= self.pages()) {
            true => Ok(self.byte(first)),
            false => Err(IoError::Invalid("the slow store has no such page")),
        }
    }

    /// Where a page begins.
    pub(crate) fn block(&self, page: u64) -> Block {
        Block(self.byte(page) / u64::from(self.device.caps().block_size))
    }
}

impl<D: BlockDevice> SlowStore for DeviceStore<D> {
    fn pages(&self) -> u64 {
        (self.device.caps().bytes() - LABEL_ROOM) / u64::from(self.page)
    }

    fn fixed_bytes(&self) -> Option<u64> {
        Some(self.device.caps().bytes())
    }

    async fn read(&self, page: u64, buf: &mut [u8]) -> Result<(), IoError> {
        self.on().read_pages(self.place(page, buf.len())?, buf).await
    }

    async fn write(&self, first: u64, data: &[u8]) -> Result<(), IoError> {
        self.on().write_pages(self.place(first, data.len())?, data).await
    }

    async fn write_durably(&self, page: u64, data: &[u8]) -> Result<(), IoError> {
        self.on().write_pages_durably(self.place(page, data.len())?, data).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        if self.by == DurableBy::Ack {
            return Ok(());
        }
        self.device.flush().await
    }

    async fn read_label(&self, buf: &mut [u8]) -> Result<bool, IoError> {
        self.read_label_at(self.adopts, buf).await?;
        Ok(true)
    }

    async fn read_other_label(&self, buf: &mut [u8]) -> Result<Option<LabelEnd>, IoError> {
        self.read_label_at(!self.adopts, buf).await?;
        Ok(Some(if self.adopts { LabelEnd::Beginning } else { LabelEnd::End }))
    }

    async fn other_labels(&self, end: bool) -> Result<bool, IoError> {
        let caps = self.device.caps();
        if caps.payload == Payload::Stamps {
            return Ok(false); // A model, of one store.
        }
        let mut any = false;
        let mut head = vec![0; HEAD_BYTES.next_multiple_of(caps.block_size as usize)];
        for at in self.other_places() {
            self.on().read_records(at, &mut head).await?;
            if Label::decode(&head) != Found::Nothing {
                any = true;
                if end {
                    write_head(&self.on(), at, &[]).await?;
                }
            }
        }
        Ok(any)
    }

    async fn write_label(&self, at: u64, label: &[u8]) -> Result<(), IoError> {
        write_head(&self.on(), self.label_at() + at, label).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::{Caps, Data, Durability, PowerCycle, RamDevice, RamOptions};
    use tantalum_rt::Runtime;

    #[test]
    fn what_is_behind_the_last_page_is_not_touched() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let task = async move {
            let device =
                RamDevice::new(&rt, RamOptions::new(Caps::power_safe(512, Payload::Bytes)));
            let at = |store: &DeviceStore<_>| Block(store.label_at() / 4096);
            for adopts in [false, true] {
                let store = DeviceStore::placed(device.device(), 4096, Beside::default(), adopts)
                    .expect("it suits");
                let label = Data::Bytes(&[7; 4096]);
                store.device().write(at(&store), label, Durability::Normal).await.expect("RAM");
                let (pages, mut bytes) = (store.pages(), vec![0; 8192]);
                for first in [pages, pages - 1, u64::MAX / 4096, u64::MAX] {
                    assert!(store.write(first, &bytes).await.is_err(), "{first}");
                    assert!(store.read(first, &mut bytes).await.is_err(), "{first}");
                }
                assert!(store.write_durably(pages, &bytes[..4096]).await.is_err());
                assert!(store.write(pages - 2, &bytes).await.is_ok());
                let mut found = vec![0; 4096];
                assert!(store.read_label(&mut found).await.expect("RAM"));
                assert_eq!(found, [7; 4096]);
            }
        };
        runtime.block_on(task).expect("it ends");
    }
}
