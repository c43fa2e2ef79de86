//! A device of a cache, whichever payload it carries: pages, and records (superblocks, labels,
//! descriptors, segments).
//!
//! 1. **Pages.** In memory a page has its bytes, or, on a device of stamps, the stamps of its blocks:
//!    eight bytes for each, little-endian.
//! 2. **Records.** On a device of stamps the blocks of a record get stamps that no other write ever
//!    has. The bytes lie [`Beside`], and count only if every block of the record has its stamp. So a
//!    record is torn when the device tears it, and is lost when the device loses it.
//! 3. What lies beside outlives a power cut, as the device does. It keeps every version of a record
//!    that the device may still return.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tantalum_device::{
    Block, BlockDevice, Data, DataMut, Durability, DurableBy, IoError, Payload, read_or_zeros,
    read_stamps_or_zeros,
};
use tantalum_rt::mix64;

/// The bytes of the records on a device of stamps. Cheap to clone: a clone is the same. A device of
/// bytes has nothing beside.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Clone, Debug, Default)]
struct Inner {
    /// Records ever written.
    written: u64,
    /// Of each first block, the versions that the device may return, oldest first.
    records: BTreeMap<u64, Vec<Record>>,
}

#[derive(Clone, Debug)]
struct Record {
    number: u64,
    blocks: usize,
    bytes: Arc<[u8]>,
}

/// The stamp of a block of a record.
fn stamp(record: u64, block: usize) -> u64 {
    mix64(mix64(record) ^ block as u64) | 1 << 63
}

impl Record {
    fn stamps(&self) -> impl Iterator<Item = u64> {
        (0..self.blocks).map(|block| stamp(self.number, block))
    }
}

impl Beside {
    /// The same content, for a copy of the device.
    #[must_use]
    pub fn fork(&self) -> Beside {
        Beside { inner: Arc::new(Mutex::new(self.inner().clone())) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Notes a record that is about to be written from this block on. Returns its number, and the
    /// stamps of its blocks.
    fn begin(&self, at: Block, blocks: usize, bytes: &[u8]) -> (u64, Vec<u64>) {
        let mut inner = self.inner();
        inner.written += 1;
        let record = Record { number: inner.written, blocks, bytes: bytes.into() };
        let stamps = record.stamps().collect();
        let number = record.number;
        inner.records.entry(at.0).or_default().push(record);
        (number, stamps)
    }

    /// The record is durable: the device never returns an older one.
    fn end(&self, at: Block, number: u64) {
        if let Some(versions) = self.inner().records.get_mut(&at.0) {
            versions.retain(|record| record.number >= number);
        }
    }

    /// Fills in the records among these stamps, which were read from this block on.
    fn fill(&self, at: Block, stamps: &[u64], block_bytes: usize, buf: &mut [u8]) {
        let inner = self.inner();
        for (first, versions) in inner.records.range(at.0..at.0 + stamps.len() as u64) {
            let place = (first - at.0) as usize;
            let stamped = |record: &&Record| {
                let here = stamps.get(place..place + record.blocks);
                here.is_some_and(|here| here.iter().copied().eq(record.stamps()))
            };
            if let Some(record) = versions.iter().find(stamped) {
                let byte = place * block_bytes;
                buf[byte..byte + record.bytes.len()].copy_from_slice(&record.bytes);
            }
        }
    }
}

/// Stamps as a page has them in memory.
fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn put_words(stamps: &[u64], buf: &mut [u8]) {
    buf.as_chunks_mut::<8>().0.iter_mut().zip(stamps).for_each(|(to, s)| *to = s.to_le_bytes());
}

/// A device and what lies beside it.
pub(crate) struct Carrier<'a, D> {
    pub device: &'a D,
    pub by: DurableBy,
    pub beside: &'a Beside,
}

impl<D: BlockDevice> Carrier<'_, D> {
    fn block_bytes(&self) -> u64 {
        self.device.caps().block_size.into()
    }

    fn block(&self, byte: u64) -> Block {
        Block(byte / self.block_bytes())
    }

    fn has_stamps(&self) -> bool {
        self.device.caps().payload == Payload::Stamps
    }

    /// Bytes in memory of so many bytes of pages (1).
    pub fn memory(&self, bytes: u64) -> usize {
        let each = if self.has_stamps() { 8 * (bytes / self.block_bytes()) } else { bytes };
        each as usize
    }

    /// Reads pages from this byte on.
    pub async fn read_pages(&self, byte: u64, buf: &mut [u8]) -> Result<(), IoError> {
        let at = self.block(byte);
        if !self.has_stamps() {
            return self.device.read(at, DataMut::Bytes(buf)).await;
        }
        let mut stamps = vec![0; buf.len() / 8];
        self.device.read(at, DataMut::Stamps(&mut stamps)).await?;
        put_words(&stamps, buf);
        Ok(())
    }

    /// The same; blocks that the device reports as unreadable are zeros.
    pub async fn read_pages_or_zeros(&self, byte: u64, buf: &mut [u8]) -> Result<(), IoError> {
        let at = self.block(byte);
        if !self.has_stamps() {
            return read_or_zeros(self.device, at, buf).await.map(drop);
        }
        let mut stamps = vec![0; buf.len() / 8];
        read_stamps_or_zeros(self.device, at, &mut stamps).await?;
        put_words(&stamps, buf);
        Ok(())
    }

    /// Writes pages from this byte on; they are durable only after a flush, or if the device keeps
    /// what it acknowledges.
    pub async fn write_pages(&self, byte: u64, data: &[u8]) -> Result<(), IoError> {
        let at = self.block(byte);
        match self.has_stamps() {
            true => self.device.write(at, Data::Stamps(&words(data)), Durability::Normal).await,
            false => self.device.write(at, Data::Bytes(data), Durability::Normal).await,
        }
    }

    /// Writes pages, durably.
    pub async fn write_pages_durably(&self, byte: u64, data: &[u8]) -> Result<(), IoError> {
        let at = self.block(byte);
        match self.has_stamps() {
            true => self.by.write(self.device, at, Data::Stamps(&words(data))).await,
            false => self.by.write(self.device, at, Data::Bytes(data)).await,
        }
    }

    /// Reads so many bytes from this one on, in which records may be. Blocks that the device reports
    /// as unreadable are zeros. A stamp that is of no record reads as its eight bytes.
    pub async fn read_records(&self, byte: u64, buf: &mut [u8]) -> Result<(), IoError> {
        let at = self.block(byte);
        if !self.has_stamps() {
            return read_or_zeros(self.device, at, buf).await.map(drop);
        }
        let each = self.block_bytes() as usize;
        let mut stamps = vec![0; buf.len() / each];
        read_stamps_or_zeros(self.device, at, &mut stamps).await?;
        buf.fill(0);
        buf.chunks_exact_mut(each).zip(&stamps).for_each(|(b, s)| put_words(&[*s], &mut b[..8]));
        self.beside.fill(at, &stamps, each, buf);
        Ok(())
    }

    /// Writes a record, and the pages behind it (as they are in memory), in one durable write. The
    /// bytes of both, on a device of bytes, are whole blocks.
    pub async fn write_record(&self, byte: u64, all: &[u8], record: usize) -> Result<(), IoError> {
        let at = self.block(byte);
        if !self.has_stamps() {
            return self.by.write(self.device, at, Data::Bytes(all)).await;
        }
        let (record, pages) = all.split_at(record);
        let blocks = record.len() / self.block_bytes() as usize;
        let (number, mut stamps) = self.beside.begin(at, blocks, record);
        stamps.extend(words(pages));
        self.by.write(self.device, at, Data::Stamps(&stamps)).await?;
        self.beside.end(at, number);
        Ok(())
    }
}
