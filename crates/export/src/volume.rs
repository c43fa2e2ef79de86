//! Byte-range access to a block device, for every protocol that exports it.
//!
//! 1. **Whole blocks in one piece.** [`Access::write`] makes one write of the device, whatever its
//!    length, so that it is atomic up to the device's atomic unit. [`Access::write_atomic`] makes
//!    one atomic group of a longer write, if the device takes groups of that length.
//! 2. **Parts of blocks** may be written although the device writes whole blocks only: the rest of
//!    the first and last block is read first, and [`RangeLock`] keeps other writes from coming
//!    between. A trim leaves blocks that it covers only in part as they are.
//! 3. **An access ends with the power.** After a cut all its commands fail, also after the restart.
//!    To go on, take a new access.

use crate::RangeLock;
use crate::budget::{NoMemory, zeroed};
use std::cell::OnceCell;
use std::rc::Rc;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, IoError,
    PowerCycle,
};
use tantalum_rt::Rt;

/// Zeros are written in steps of this many bytes.
const ZERO_STEP: usize = 256 << 10;
/// Bytes that are discarded in one step. Other commands may come between steps.
const DISCARD_STEP: u64 = 64 << 20;
/// The most extents in one answer about allocation. The client asks again for the rest.
const EXTENTS_MAX: usize = 64;
/// The most bytes that one request about allocation covers.
const STATUS_BYTES: u64 = 256 << 20;

/// A box with a plug, from which exports and files are made. All exports and files of one box must
/// share one volume, since it keeps their writes of parts of blocks apart.
///
/// See [the crate](crate) for an example.
pub struct Volume<P: PowerCycle> {
    plug: P,
    lock: RangeLock,
    /// Zeros to write, shared by all accesses.
    zeros: OnceCell<Vec<u8>>,
}

impl<P: PowerCycle> Volume<P> {
    /// The volume of this box.
    pub fn new(rt: &Rt, plug: P) -> Rc<Volume<P>> {
        Rc::new(Volume { plug, lock: RangeLock::new(rt), zeros: OnceCell::new() })
    }

    /// The box.
    pub fn plug(&self) -> &P {
        &self.plug
    }

    /// The device as it is now.
    pub(crate) fn access(this: &Rc<Volume<P>>) -> Access<P> {
        Access { device: this.plug.device(), volume: this.clone() }
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Device(IoError),
    NotFast,
    NoMemory,
}

impl From<NoMemory> for Failure {
    fn from(_: NoMemory) -> Failure {
        Failure::NoMemory
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
            Failure::NoMemory => NoMemory.fmt(f),
        }
    }
}

/// The least common multiple of the atomic unit and the block size. The device may tear a longer
/// write at its multiples anyway.
pub(crate) fn unit(caps: &Caps) -> u64 {
    let (block, unit) = (u64::from(caps.block_size), u64::from(caps.atomic_unit).max(1));
    common_multiple(block, unit)
}

/// The least common multiple.
pub(crate) fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// A client's access to the device, in bytes. The caller has checked that ranges are inside the
/// device.
pub(crate) struct Access<P: PowerCycle> {
    device: P::Device,
    volume: Rc<Volume<P>>,
}

/// The blocks that a range of bytes touches, and how many bytes of the first one are before it.
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

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.caps().block_size.into()
    }

    /// A write may be split at multiples of this many bytes from its first block on: the device may
    /// tear it there anyway.
    pub fn unit(&self) -> u64 {
        unit(self.caps())
    }

    /// Bytes of the blocks that this range touches. [`Access::read`] needs a buffer of this length,
    /// and so does [`Access::write`] for a range that is not of whole blocks.
    pub fn touched(&self, at: u64, length: u64) -> u64 {
        let block = self.block();
        ((at + length).div_ceil(block) - at / block) * block
    }

    /// Bytes of memory that a write of this range takes beside its data.
    pub fn beside(&self, at: u64, length: u64) -> u64 {
        let block = self.block();
        let whole = at.is_multiple_of(block) && length.is_multiple_of(block);
        if whole { 0 } else { self.touched(at, length) }
    }

    /// The same for writing zeros. Only the first and last block can be partial, and they are
    /// written one after the other.
    pub fn beside_zeros(&self, at: u64, length: u64) -> u64 {
        self.beside(at, length).min(2 * self.block())
    }

    /// Reads `length` bytes to the front of `buf`, which has room for all blocks that they touch
    /// ([`Access::touched`]). The bytes behind them are undefined.
    pub async fn read(&self, at: u64, length: usize, buf: &mut [u8]) -> Result<(), Failure> {
        let span = self.span(at, length);
        let blocks = &mut buf[..self.bytes(span.end - span.first)];
        self.device.read(Block(span.first), DataMut::Bytes(blocks)).await?;
        if span.before > 0 {
            blocks.copy_within(span.before..span.before + length, 0);
        }
        Ok(())
    }

    /// Writes `data` as one write of the device.
    pub async fn write(&self, at: u64, data: &[u8], fua: bool) -> Result<(), Failure> {
        self.put(at, data, fua, false).await
    }

    /// Writes `data` in as few pieces as the device can promise to be whole. Up to the atomic unit
    /// that is one write. A longer write is one atomic group up to the device's limit, if
    /// acknowledged writes survive on this device. A still longer one is split at multiples of
    /// [`Access::piece`]. (On other devices a group would also make the data durable, which nobody
    /// asked for and which costs time.)
    pub async fn write_atomic(&self, at: u64, data: &[u8], fua: bool) -> Result<(), Failure> {
        let Some(piece) = self.piece() else { return self.put(at, data, fua, false).await };
        let (mut at, mut rest) = (at, data);
        while !rest.is_empty() {
            let room = if rest.len() as u64 <= piece { piece } else { piece - at % piece };
            let (now, later) = rest.split_at((room as usize).min(rest.len()));
            self.put(at, now, fua, true).await?;
            (at, rest) = (at + now.len() as u64, later);
        }
        Ok(())
    }

    /// The longest useful atomic group of whole blocks in one extent, in bytes: a power of two.
    fn piece(&self) -> Option<u64> {
        let caps = self.caps();
        let limit = caps.atomic_group.filter(|l| caps.ack.survives() && l.extents > 0)?;
        let piece = 1 << limit.bytes.checked_ilog2()?;
        (piece > u64::from(caps.atomic_unit)).then_some(piece)
    }

    /// Writes whole blocks: as one write or, if that would not be atomic, as one group.
    async fn blocks(&self, at: u64, data: &[u8], fua: bool, group: bool) -> Result<(), Failure> {
        let unit = u64::from(self.caps().atomic_unit);
        let limit = self.caps().atomic_group.map_or(0, |limit| limit.bytes);
        let bytes = data.len() as u64;
        let (at, data) = (Block(at), Data::Bytes(data));
        if group && bytes > unit && bytes <= limit {
            return match self.device.write_atomic(&[Extent { at, data }]).await {
                Ok(()) => Ok(()),
                Err(AtomicError::Io(error)) => Err(error.into()),
                // The group is within the limit that the device has stated.
                Err(_) => {
                    Err(IoError::Failed("it refuses an atomic group within its limit").into())
                }
            };
        }
        let want = if fua { Durability::Fua } else { Durability::Normal };
        Ok(self.device.write(at, data, want).await?)
    }

    async fn put(&self, at: u64, data: &[u8], fua: bool, group: bool) -> Result<(), Failure> {
        let span = self.span(at, data.len());
        let _held = self.volume.lock.take(span.first, span.end, !span.whole).await;
        if span.whole {
            return self.blocks(span.first, data, fua, group).await;
        }
        let block = self.bytes(1);
        let mut blocks = zeroed(self.bytes(span.end - span.first))?;
        // Read the bytes that stay in the first and the last block, which may be the same block.
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
        self.blocks(span.first, &blocks, fua, group).await
    }

    pub async fn flush(&self) -> Result<(), Failure> {
        Ok(self.device.flush().await?)
    }

    /// Whole blocks have left the memory of a client as they came ([`BlockDevice::left`]).
    pub async fn left(&self, at: u64, length: u64, data: Option<&[u8]>) -> Result<(), Failure> {
        let span = self.span(at, length as usize);
        let range = Blocks { start: Block(span.first), count: span.end - span.first };
        Ok(self.device.left(range, data.map(Data::Bytes)).await?)
    }

    /// Gives back the whole blocks of a range.
    pub async fn trim(&self, at: u64, length: u64, fua: bool) -> Result<(), Failure> {
        let (first, end) = self.inner(at, length);
        self.discard(first, end).await?;
        self.force_discards(fua).await
    }

    /// Writes zeros. With `keep` the space is not given back. With `fast` it fails if that is not
    /// faster than writing data.
    pub async fn zero(
        &self,
        at: u64,
        length: u64,
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
        let end = at + length;
        let zeros = self.zeros()?;
        if first == last {
            // No whole block: at most parts of two.
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

    /// Zeros: at least two blocks, and at least one step.
    fn zeros(&self) -> Result<&[u8], Failure> {
        let zeros = &self.volume.zeros;
        if zeros.get().is_none() {
            // It fails only if another task has set it meanwhile, to the same zeros.
            let _ = zeros.set(zeroed(self.bytes(2).max(ZERO_STEP))?);
        }
        zeros.get().map(Vec::as_slice).ok_or(Failure::NoMemory)
    }

    /// The allocation of a range from its start on, as extents: their bytes, and whether they are a
    /// hole. There is at least one extent; with `one` there is exactly one.
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

    /// The whole blocks in a range of bytes: the first one, and the one after the last.
    fn inner(&self, at: u64, length: u64) -> (u64, u64) {
        let block = u64::from(self.caps().block_size);
        let first = at.div_ceil(block);
        (first, ((at + length) / block).max(first))
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

    /// Makes discards durable if `fua` asks for it. Devices have forced unit access for writes
    /// only, so this takes a flush, unless acknowledged commands survive anyway.
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
