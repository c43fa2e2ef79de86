//! What is exported, and what requests do to it.

use super::{Errno, Offer, RangeLock};
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, IoError, Payload, PowerCycle,
};
use tantalum_rt::Rt;

/// Bytes of zeros that are written in one go.
const ZERO_STEP: usize = 256 << 10;
/// Bytes that are discarded in one go: other commands go between.
const DISCARD_STEP: u64 = 64 << 20;
/// Advertised as the least length: that of a sector as old software knows it. Any other is
/// taken as well.
const BLOCK_MIN: u32 = 512;

/// Extents in one answer about what is allocated, at most; what lies behind is asked for anew.
const EXTENTS_MAX: usize = 64;
/// Bytes about which a device is asked for one answer, at most.
const STATUS_BYTES: u64 = 256 << 20;

/// Why exports can not be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The device carries stamps.
    #[error("export \"{0}\": the device carries stamps, not bytes: build it with payload")]
    Stamps(String),
    /// The name can not travel.
    #[error("export \"{0}\": a name has at most 4096 bytes, and no NUL among them")]
    Name(String),
    /// Two have one name.
    #[error("two exports are called \"{0}\": give each a name of its own")]
    Twice(String),
    /// There is none.
    #[error("there is nothing to export")]
    Nothing,
    /// A limit is out of bounds.
    #[error("the limit of {what} is {value}; it must be from {min} to {max}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// The limit.
        value: u64,
        /// The least that can be meant.
        min: u64,
        /// The most that can be meant.
        max: u64,
    },
}

/// A box with a plug, of which exports can be made. All exports of one box must come from one
/// volume: it keeps writes of parts of blocks apart.
pub struct Volume<P: PowerCycle> {
    plug: P,
    lock: RangeLock,
}

impl<P: PowerCycle> Volume<P> {
    /// The volume of this box.
    pub fn new(rt: &Rt, plug: P) -> Rc<Volume<P>> {
        Rc::new(Volume { plug, lock: RangeLock::new(rt) })
    }

    /// The box.
    pub fn plug(&self) -> &P {
        &self.plug
    }
}

/// A volume under a name.
pub struct Export<P: PowerCycle> {
    name: String,
    description: String,
    volume: Rc<Volume<P>>,
    read_only: bool,
}

impl<P: PowerCycle> Export<P> {
    /// The volume under this name. The first export of a server is also the one without a name.
    pub fn new(name: impl Into<String>, volume: &Rc<Volume<P>>) -> Export<P> {
        let (name, description) = (name.into(), String::new());
        Export { name, description, volume: volume.clone(), read_only: false }
    }

    /// With a line for people.
    pub fn described(mut self, description: impl Into<String>) -> Export<P> {
        self.description = description.into();
        self
    }

    /// The same, which can only be read.
    pub fn read_only(mut self) -> Export<P> {
        self.read_only = true;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its volume.
    pub fn volume(&self) -> &Rc<Volume<P>> {
        &self.volume
    }

    /// As clients see it.
    pub(crate) fn offer(&self, payload_max: u32) -> Result<Offer, ExportError> {
        let device = self.volume.plug.device();
        let caps = device.caps();
        if caps.payload != Payload::Bytes {
            return Err(ExportError::Stamps(self.name.clone()));
        }
        if self.name.len() > super::wire::NAME_BYTES || self.name.contains('\0') {
            return Err(ExportError::Name(self.name.clone()));
        }
        Ok(Offer {
            name: self.name.clone(),
            description: self.description.clone(),
            size: caps.bytes(),
            read_only: self.read_only,
            fast_zero: true,
            allocation: true,
            block_min: BLOCK_MIN.min(caps.block_size),
            block_preferred: caps.block_size,
            payload_max,
        })
    }

    /// The device as it is now.
    pub(crate) fn access(&self) -> Access<P> {
        Access { device: self.volume.plug.device(), volume: self.volume.clone() }
    }
}

/// Why a request failed, as it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Device(IoError),
    NotFast,
}

impl Failure {
    pub fn errno(&self) -> Errno {
        match self {
            Failure::Device(error) => error.into(),
            Failure::NotFast => Errno::NotSupported,
        }
    }
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Failure {
        Failure::Device(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Device(error) => error.fmt(f),
            Failure::NotFast => f.write_str("zeros that keep their space are not fast here"),
        }
    }
}

/// A client's way to the device: bytes to blocks. Ranges are inside the export; who calls has
/// checked that.
pub(crate) struct Access<P: PowerCycle> {
    device: P::Device,
    volume: Rc<Volume<P>>,
}

/// A range of bytes in blocks: those that it touches, and what of them lies before it.
struct Span {
    first: u64,
    end: u64,
    before: usize,
    whole: bool,
}

impl<P: PowerCycle> Access<P> {
    fn caps(&self) -> &Caps {
        self.device.caps()
    }

    fn span(&self, at: u64, length: usize) -> Span {
        let block = u64::from(self.caps().block_size);
        let end = at + length as u64;
        Span {
            first: at / block,
            end: end.div_ceil(block),
            before: (at % block) as usize,
            whole: at.is_multiple_of(block) && end.is_multiple_of(block),
        }
    }

    /// Whether commands can reach the device.
    pub async fn probe(&self) -> Result<(), IoError> {
        self.device.read(Block(0), DataMut::Bytes(&mut [])).await
    }

    pub async fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Failure> {
        let span = self.span(at, out.len());
        if span.whole {
            self.device.read(Block(span.first), DataMut::Bytes(out)).await?;
            return Ok(());
        }
        let mut blocks = vec![0; self.bytes(span.end - span.first)];
        self.device.read(Block(span.first), DataMut::Bytes(&mut blocks)).await?;
        out.copy_from_slice(&blocks[span.before..][..out.len()]);
        Ok(())
    }

    pub async fn write(&self, at: u64, data: &[u8], fua: bool) -> Result<(), Failure> {
        let want = if fua { Durability::Fua } else { Durability::Normal };
        let span = self.span(at, data.len());
        let _held = self.volume.lock.take(span.first, span.end, !span.whole).await;
        if span.whole {
            self.device.write(Block(span.first), Data::Bytes(data), want).await?;
            return Ok(());
        }
        let block = self.bytes(1);
        let mut blocks = vec![0; self.bytes(span.end - span.first)];
        // What stays of the first and last block; with one block these are the same.
        let last = blocks.len() - block;
        if span.before > 0 || last == 0 {
            let first = DataMut::Bytes(&mut blocks[..block]);
            self.device.read(Block(span.first), first).await?;
        }
        if last > 0 && !(span.before + data.len()).is_multiple_of(block) {
            let tail = DataMut::Bytes(&mut blocks[last..]);
            self.device.read(Block(span.end - 1), tail).await?;
        }
        blocks[span.before..][..data.len()].copy_from_slice(data);
        self.device.write(Block(span.first), Data::Bytes(&blocks), want).await?;
        Ok(())
    }

    pub async fn flush(&self) -> Result<(), Failure> {
        Ok(self.device.flush().await?)
    }

    /// Gives back the whole blocks of a range.
    pub async fn trim(&self, at: u64, length: u32, fua: bool) -> Result<(), Failure> {
        let (first, end) = self.inner(at, length);
        self.discard(first, end).await?;
        self.force_discards(fua).await
    }

    /// Writes zeros; if `keep`, so that the space is not given back; if `fast`, only if that is
    /// faster than writing data.
    pub async fn zero(
        &self,
        at: u64,
        length: u32,
        fua: bool,
        keep: bool,
        fast: bool,
    ) -> Result<(), Failure> {
        let block = u64::from(self.caps().block_size);
        let keep = keep && self.caps().thin;
        if keep && fast {
            return Err(Failure::NotFast);
        }
        let (first, last) = self.inner(at, length);
        let end = at + u64::from(length);
        let zeros = vec![0; (block as usize * 2).max(if keep { ZERO_STEP } else { 0 })];
        if first == last {
            // Parts of two blocks at most.
            return self.write(at, &zeros[..length as usize], fua).await;
        }
        if at < first * block {
            self.write(at, &zeros[..(first * block - at) as usize], fua).await?;
        }
        if last * block < end {
            self.write(last * block, &zeros[..(end - last * block) as usize], fua).await?;
        }
        if keep {
            let mut next = first * block;
            while next < last * block {
                let count = (last * block - next).min(zeros.len() as u64);
                self.write(next, &zeros[..count as usize], fua).await?;
                next += count;
            }
            return Ok(());
        }
        self.discard(first, last).await?;
        self.force_discards(fua).await
    }

    /// What of a range is allocated, from its start on: bytes, and whether they are a hole. There
    /// is at least one extent, and with `one` no more.
    pub async fn status(
        &self,
        at: u64,
        length: u32,
        one: bool,
        extents: &mut Vec<(u32, bool)>,
    ) -> Result<(), Failure> {
        let block = u64::from(self.caps().block_size);
        let end = at + u64::from(length).min(STATUS_BYTES);
        let mut next = at;
        while next < end {
            let first = next / block;
            let range = Blocks { start: Block(first), count: end.div_ceil(block) - first };
            let found = self.device.allocation(range).await?;
            let until = ((first + found.blocks.max(1)) * block).min(end);
            let bytes = (until - next) as u32;
            let full = extents.len() == if one { 1 } else { EXTENTS_MAX };
            match extents.last_mut() {
                Some(last) if last.1 == found.hole => last.0 += bytes,
                _ if full => break,
                _ => extents.push((bytes, found.hole)),
            }
            next = until;
        }
        Ok(())
    }

    /// The whole blocks in a range of bytes: the first, and the one behind the last.
    fn inner(&self, at: u64, length: u32) -> (u64, u64) {
        let block = u64::from(self.caps().block_size);
        let first = at.div_ceil(block);
        (first, ((at + u64::from(length)) / block).max(first))
    }

    async fn discard(&self, first: u64, end: u64) -> Result<(), Failure> {
        let most = (DISCARD_STEP / u64::from(self.caps().block_size)).max(1);
        let mut next = first;
        while next < end {
            let count = most.min(end - next);
            let _held = self.volume.lock.take(next, next + count, false).await;
            self.device.discard(Blocks { start: Block(next), count }).await?;
            next += count;
        }
        Ok(())
    }

    /// A device knows forced unit access for writes only: what was discarded becomes durable
    /// with a flush, unless it is at once.
    async fn force_discards(&self, fua: bool) -> Result<(), Failure> {
        if fua && !self.caps().ack.survives() {
            self.device.flush().await?;
        }
        Ok(())
    }

    fn bytes(&self, blocks: u64) -> usize {
        (blocks * u64::from(self.caps().block_size)) as usize
    }
}
