//! What devices hold, changed as an input likes. Some changes mend checksums, so that what they made
//! gets as far as the code behind the checks.

use tantalum_device::{
    Block, BlockDevice, Caps, Data, DataMut, Durability, Payload, RamDevice, RamOptions,
};
use tantalum_rt::{Nanos, Rt};

/// Bytes of a block of all devices.
pub const BLOCK: usize = 512;
/// Changes of one input, at most.
pub const CHANGES: usize = 64;

/// The bytes at a place of a device, as they are changed.
pub enum Change {
    /// Other bytes.
    Put(Vec<u8>),
    /// Zeros: so many blocks.
    Zero(usize),
    /// The blocks from another place.
    Copy(usize, usize),
    /// A checksum, of one of three kinds.
    Mend(u8),
}

/// Reads changes from the input.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// The next byte, if there is one.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A place in so many bytes: most bytes of a device are far from anything, so it is a block and a
    /// byte of it.
    pub fn place(&mut self, length: usize) -> Option<usize> {
        let (low, high, byte) = (self.byte()?, self.byte()?, self.byte()?);
        let block = usize::from(u16::from_le_bytes([low, high])) % (length / BLOCK);
        Some(block * BLOCK + usize::from(byte) * 2)
    }

    /// A change of so many bytes.
    pub fn change(&mut self, length: usize) -> Option<Change> {
        Some(match self.byte()? % 8 {
            0..=2 => {
                let count = usize::from(self.byte()? % 16) + 1;
                let (here, rest) = self.0.split_at(count.min(self.0.len()));
                self.0 = rest;
                Change::Put(here.to_vec())
            }
            3 => Change::Zero(usize::from(self.byte()?) + 1),
            4 => Change::Copy(self.place(length)?, usize::from(self.byte()? % 16) + 1),
            kind => Change::Mend(kind - 5),
        })
    }
}

impl Change {
    /// Whether what results may pass for something that was written.
    pub fn forges(&self) -> bool {
        !matches!(self, Change::Put(_) | Change::Zero(_))
    }

    /// Changes the bytes at a place. `mend` mends a checksum of this kind in a block that begins
    /// there.
    pub fn apply(&self, image: &mut [u8], at: usize, mend: fn(u8, &mut [u8], usize)) {
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
            Change::Mend(kind) => mend(*kind, image, block),
        }
    }
}

/// The number at a place.
pub fn number_at(image: &[u8], at: usize) -> usize {
    let bytes: [u8; 4] = image[at..at + 4].try_into().expect("4 bytes");
    u32::from_le_bytes(bytes) as usize
}

/// A device in memory.
pub fn ram(rt: &Rt, bytes: usize) -> RamDevice {
    let blocks = (bytes / BLOCK) as u64;
    let caps = Caps {
        block_size: BLOCK as u32,
        atomic_unit: BLOCK as u32,
        ..Caps::power_safe(blocks, Payload::Bytes)
    };
    RamDevice::new(rt, RamOptions { command: Nanos::from_micros(10), ..RamOptions::new(caps) })
}

/// All that a device holds.
pub async fn taken_from<D: BlockDevice>(device: &D) -> Vec<u8> {
    let mut bytes = vec![0; device.caps().bytes() as usize];
    device.read(Block(0), DataMut::Bytes(&mut bytes)).await.expect("RAM");
    bytes
}

/// Gives devices what they are to hold.
pub async fn put_on<D: BlockDevice>(devices: &[D], images: &[Vec<u8>]) {
    for (device, image) in devices.iter().zip(images) {
        device.write(Block(0), Data::Bytes(image), Durability::Normal).await.expect("RAM");
    }
}
