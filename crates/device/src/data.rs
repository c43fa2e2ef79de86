//! Payload: real bytes, or stamps. A stamp of eight bytes stands for a block. Runs that measure
//! speed or simulate a full-size drive use stamps, and copy and keep next to nothing.

use std::ops::Range;

/// Which kind of payload a device carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Real bytes.
    Bytes,
    /// An 8-byte stamp for each block.
    Stamps,
}

/// Blocks to write.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// The bytes of whole blocks.
    Bytes(&'a [u8]),
    /// One stamp for each block.
    Stamps(&'a [u64]),
}

/// Room for blocks that are read.
#[derive(Debug)]
pub enum DataMut<'a> {
    /// Room for the bytes of whole blocks.
    Bytes(&'a mut [u8]),
    /// Room for one stamp for each block.
    Stamps(&'a mut [u64]),
}

impl<'a> Data<'a> {
    /// Which kind this is.
    pub fn kind(&self) -> Payload {
        match self {
            Data::Bytes(_) => Payload::Bytes,
            Data::Stamps(_) => Payload::Stamps,
        }
    }

    /// How many blocks of `block_size` bytes; `None` if it is not a whole number.
    pub fn blocks(&self, block_size: u32) -> Option<u64> {
        match self {
            Data::Bytes(b) if b.len() % block_size as usize == 0 => {
                Some(b.len() as u64 / u64::from(block_size))
            }
            Data::Bytes(_) => None,
            Data::Stamps(s) => Some(s.len() as u64),
        }
    }

    /// Each block by itself: a scatter-gather list. What is less than a block is left out.
    pub fn each(self, block_size: u32) -> impl Iterator<Item = Data<'a>> {
        let blocks = match self {
            Data::Bytes(b) => b.len() / block_size as usize,
            Data::Stamps(s) => s.len(),
        };
        (0..blocks).map(move |i| self.slice(i..i + 1, block_size))
    }

    /// Whether nothing but zeros is here.
    pub fn is_zero(&self) -> bool {
        match self {
            Data::Bytes(b) => b.iter().all(|byte| *byte == 0),
            Data::Stamps(s) => s.iter().all(|stamp| *stamp == 0),
        }
    }

    /// The blocks in `range`, counted from the first one here.
    pub fn slice(&self, range: Range<usize>, block_size: u32) -> Data<'a> {
        let bs = block_size as usize;
        match self {
            Data::Bytes(b) => Data::Bytes(&b[range.start * bs..range.end * bs]),
            Data::Stamps(s) => Data::Stamps(&s[range]),
        }
    }
}

impl<'a> DataMut<'a> {
    /// The first `blocks` blocks, and the others.
    pub fn split_at(self, blocks: usize, block_size: u32) -> (DataMut<'a>, DataMut<'a>) {
        match self {
            DataMut::Bytes(b) => {
                let (first, rest) = b.split_at_mut(blocks * block_size as usize);
                (DataMut::Bytes(first), DataMut::Bytes(rest))
            }
            DataMut::Stamps(s) => {
                let (first, rest) = s.split_at_mut(blocks);
                (DataMut::Stamps(first), DataMut::Stamps(rest))
            }
        }
    }

    /// Which kind this is.
    pub fn kind(&self) -> Payload {
        match self {
            DataMut::Bytes(_) => Payload::Bytes,
            DataMut::Stamps(_) => Payload::Stamps,
        }
    }

    /// How many blocks of `block_size` bytes; `None` if it is not a whole number.
    pub fn blocks(&self, block_size: u32) -> Option<u64> {
        match self {
            DataMut::Bytes(b) => Data::Bytes(b).blocks(block_size),
            DataMut::Stamps(s) => Some(s.len() as u64),
        }
    }

    /// The same room, borrowed again.
    pub fn reborrow(&mut self) -> DataMut<'_> {
        match self {
            DataMut::Bytes(b) => DataMut::Bytes(b),
            DataMut::Stamps(s) => DataMut::Stamps(s),
        }
    }

    /// The blocks in `range`, counted from the first one here.
    pub fn slice(&mut self, range: Range<usize>, block_size: u32) -> DataMut<'_> {
        let bs = block_size as usize;
        match self {
            DataMut::Bytes(b) => DataMut::Bytes(&mut b[range.start * bs..range.end * bs]),
            DataMut::Stamps(s) => DataMut::Stamps(&mut s[range]),
        }
    }

    /// Copies `from`, which must be of the same kind and length.
    pub fn copy_from(&mut self, from: Data<'_>) {
        match (self, from) {
            (DataMut::Bytes(to), Data::Bytes(from)) => to.copy_from_slice(from),
            (DataMut::Stamps(to), Data::Stamps(from)) => to.copy_from_slice(from),
            _ => panic!("payload of two kinds in one run"),
        }
    }

    /// Copies the blocks in `range` to the front.
    pub fn move_to_front(&mut self, range: Range<usize>, block_size: u32) {
        let bs = block_size as usize;
        match self {
            DataMut::Bytes(b) => b.copy_within(range.start * bs..range.end * bs, 0),
            DataMut::Stamps(s) => s.copy_within(range, 0),
        }
    }

    /// Fills everything with zeros.
    pub fn zero(&mut self) {
        match self {
            DataMut::Bytes(b) => b.fill(0),
            DataMut::Stamps(s) => s.fill(0),
        }
    }
}

/// Blocks that somebody owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedData {
    /// The bytes of whole blocks.
    Bytes(Vec<u8>),
    /// One stamp for each block.
    Stamps(Vec<u64>),
}

impl OwnedData {
    /// `blocks` blocks of zeros.
    pub fn zeros(kind: Payload, blocks: usize, block_size: u32) -> OwnedData {
        match kind {
            Payload::Bytes => OwnedData::Bytes(vec![0; blocks * block_size as usize]),
            Payload::Stamps => OwnedData::Stamps(vec![0; blocks]),
        }
    }

    /// To read from.
    pub fn as_data(&self) -> Data<'_> {
        match self {
            OwnedData::Bytes(b) => Data::Bytes(b),
            OwnedData::Stamps(s) => Data::Stamps(s),
        }
    }

    /// To write to.
    pub fn as_mut(&mut self) -> DataMut<'_> {
        match self {
            OwnedData::Bytes(b) => DataMut::Bytes(b),
            OwnedData::Stamps(s) => DataMut::Stamps(s),
        }
    }
}

impl From<Data<'_>> for OwnedData {
    fn from(d: Data<'_>) -> OwnedData {
        match d {
            Data::Bytes(b) => OwnedData::Bytes(b.to_vec()),
            Data::Stamps(s) => OwnedData::Stamps(s.to_vec()),
        }
    }
}
