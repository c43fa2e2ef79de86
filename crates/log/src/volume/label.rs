//! The label at the end of a backing: of which volume it is, and how new. All numbers are
//! little-endian.
//!
//! ```text
//! backing                                  label (512 bytes, the rest of the slot is zeros)
//!      0 the volume                         0  8 "TNTLVOL\0"
//!  end-2 slots of even generations          8  4 version (1)
//!  end-1 slots of odd generations          12  4 CRC-32C of these 512 bytes, with zeros here
//!                                          16 16 identity of the log
//! a slot has 4096 bytes, or a block        32  8 generation
//! if that is larger                        40  8 the backing has everything before this LSN
//!                                          48  4 bytes of a block
//!                                          52  4 zeros
//!                                          56  8 blocks of the volume
//! ```
//!
//! 1. A label of generation *g* + 1 is written only when the log's checkpoint has number *g*, with
//!    which the label of generation *g* is durable. Its slot is the other one. So one label is
//!    always whole.
//! 2. The checkpoint gets number *g* + 1 only when the label of that generation is durable. So a
//!    backing whose label is of generation *g* or *g* + 1 is the one that belongs to a log with
//!    number *g*. An older one is an older copy of the backing; a newer one says that the log is.

use crate::format::number;
use crate::superblock::Uuid;
use crate::volume::error::{Identity, VolumeError};
use crate::{Log, Lsn};
use crc32c::crc32c;
use tantalum_device::{Block, BlockDevice, Caps, Data, DataMut, Durability, IoError};

const MAGIC: &[u8; 8] = b"TNTLVOL\0";
const VERSION: u32 = 1;
const BYTES: usize = 512;
const SLOT: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    pub log: Uuid,
    pub generation: u64,
    pub destaged: Lsn,
    pub block: u32,
    pub blocks: u64,
}

/// What is at the end of a backing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Label(Label),
    Newer(u32),
    /// No label is whole.
    Damaged,
    /// Something else than zeros.
    Other,
    Nothing,
}

/// Blocks of a slot.
fn slot_blocks(block: u32) -> u64 {
    u64::from(SLOT.div_ceil(block).max(1))
}

/// What is left of the backing `name` for the volume.
pub(crate) fn volume_caps(backing: &Caps, name: &str) -> Result<Caps, VolumeError> {
    let blocks = backing.blocks.checked_sub(2 * slot_blocks(backing.block_size));
    match blocks.filter(|blocks| *blocks > 0) {
        Some(blocks) => Ok(Caps { blocks, ..*backing }),
        None => Err(VolumeError::Unsuitable(format!(
            "\"{name}\" has no room for a label: use a larger device"
        ))),
    }
}

impl Label {
    fn encode(&self, slot: usize) -> Vec<u8> {
        let mut bytes = vec![0; slot];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.log);
        bytes[32..40].copy_from_slice(&self.generation.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.destaged.0.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.block.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.blocks.to_le_bytes());
        let crc = crc32c(&bytes[..BYTES]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(slot: &[u8]) -> Found {
        if slot.iter().all(|b| *b == 0) {
            return Found::Nothing;
        }
        if &slot[..8] != MAGIC {
            return Found::Other;
        }
        let mut bytes = slot[..BYTES].to_vec();
        bytes[12..16].fill(0);
        if u64::from(crc32c(&bytes)) != number(slot, 12, 4) {
            return Found::Damaged;
        }
        let version = number(slot, 8, 4) as u32;
        if version != VERSION {
            return Found::Newer(version);
        }
        let mut log = [0; 16];
        log.copy_from_slice(&slot[16..32]);
        Found::Label(Label {
            log,
            generation: number(slot, 32, 8),
            destaged: Lsn(number(slot, 40, 8)),
            block: number(slot, 48, 4) as u32,
            blocks: number(slot, 56, 8),
        })
    }

    /// Writes it as the first one of its volume: what an earlier volume left in the other slot does not
    /// count any more.
    pub async fn write_first<B: BlockDevice>(&self, backing: &B) -> Result<(), IoError> {
        let slot = slot_blocks(self.block);
        let other = self.blocks + (self.generation + 1) % 2 * slot;
        let zeros = vec![0; (slot * u64::from(self.block)) as usize];
        backing.write(Block(other), Data::Bytes(&zeros), Durability::Fua).await?;
        self.write(backing).await
    }

    /// Writes it to its slot. It is durable when this returns.
    pub async fn write<B: BlockDevice>(&self, backing: &B) -> Result<(), IoError> {
        let at = self.blocks + self.generation % 2 * slot_blocks(self.block);
        let bytes = self.encode((slot_blocks(self.block) * u64::from(self.block)) as usize);
        backing.write(Block(at), Data::Bytes(&bytes), Durability::Fua).await
    }
}

/// Looks for the newest label.
pub(crate) async fn find<B: BlockDevice>(backing: &B, blocks: u64) -> Result<Found, IoError> {
    let caps = *backing.caps();
    let slot = slot_blocks(caps.block_size);
    let mut found = [Found::Nothing; 2];
    for (i, found) in found.iter_mut().enumerate() {
        let mut bytes = vec![0; (slot * u64::from(caps.block_size)) as usize];
        let at = Block(blocks + i as u64 * slot);
        *found = match backing.read(at, DataMut::Bytes(&mut bytes)).await {
            Ok(()) => Label::decode(&bytes),
            // A torn label may be unreadable.
            Err(IoError::Uncorrectable(_)) => Found::Damaged,
            Err(e) => return Err(e),
        };
    }
    Ok(newest(found[0], found[1]))
}

/// Of two slots, what counts.
fn newest(a: Found, b: Found) -> Found {
    let rank = |f: &Found| match f {
        Found::Newer(_) => (4, 0),
        Found::Label(label) => (3, label.generation),
        Found::Damaged => (2, 0),
        Found::Other => (1, 0),
        Found::Nothing => (0, 0),
    };
    if rank(&a) >= rank(&b) { a } else { b }
}

/// The log as it was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogSide {
    pub identity: Uuid,
    /// The number of its checkpoint.
    pub number: u64,
    pub first: Lsn,
    pub end: Lsn,
}

impl LogSide {
    /// Of an open log.
    pub fn of<L: BlockDevice + Clone + 'static>(log: &Log<L>) -> LogSide {
        let (identity, number) = (log.identity(), log.checkpoint_number());
        LogSide { identity, number, first: log.first(), end: log.end() }
    }
}

/// Whether the backing `name`, which has room for `volume`, belongs to this log as it is.
pub(crate) fn check(
    found: Found,
    name: &str,
    volume: &Caps,
    log: LogSide,
) -> Result<(), VolumeError> {
    let backing = name.to_string();
    let label = match found {
        Found::Label(label) => label,
        Found::Newer(version) => return Err(VolumeError::Newer { backing, version }),
        Found::Damaged => return Err(VolumeError::LabelDamaged(backing)),
        Found::Other | Found::Nothing => {
            return Err(VolumeError::NoLabel { backing, log: Identity(log.identity) });
        }
    };
    if label.log != log.identity {
        let (other, log) = (Identity(label.log), Identity(log.identity));
        return Err(VolumeError::OtherLog { backing, other, log });
    }
    if (label.block, label.blocks) != (volume.block_size, volume.blocks) {
        let was = label.blocks.saturating_mul(label.block.into());
        let is = volume.bytes();
        return Err(VolumeError::Resized { backing, was, is });
    }
    let (generation, number) = (label.generation, log.number);
    if generation < number {
        return Err(VolumeError::OlderBacking { backing, generation, number });
    }
    let fits = match generation - number {
        0 => label.destaged == log.first,
        1 => (log.first..=log.end).contains(&label.destaged),
        _ => false,
    };
    if fits { Ok(()) } else { Err(VolumeError::OlderLog { backing, generation, number }) }
}
