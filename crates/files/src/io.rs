//! Transfers between a file and the device (invariant 7).

use crate::FilesError;
use crate::meta::{Inner, Node};
use crate::state::HOLE;
use tantalum_device::{Block, BlockDevice, Data, DataMut, Durability, IoError};

/// A part of a file that is contiguous on the device.
pub(crate) struct Piece {
    pub length: usize,
    /// Its first byte on the device; `None`: a hole.
    pub at: Option<u64>,
}

/// Held while a command on chunks of a file is in progress: the chunks are not freed.
pub(crate) struct User<'a> {
    node: &'a Node,
}

impl<'a> User<'a> {
    pub fn new(node: &'a Node) -> User<'a> {
        node.users.set(node.users.get() + 1);
        User { node }
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.node.users.set(self.node.users.get() - 1);
        if self.node.users.get() == 0 {
            self.node.idle.notify_all();
        }
    }
}

impl<D: BlockDevice> Inner<D> {
    /// The piece at `from`, `limit` bytes at most.
    pub fn piece(&self, node: &Node, from: u64, limit: usize) -> Piece {
        let l = &self.layout;
        let chunk_bytes = l.chunk_bytes();
        let state = self.state.borrow();
        let Some(inode) = state.inode(node.ino) else { return Piece { length: limit, at: None } };
        let mut index = from / chunk_bytes;
        let chunk = inode.chunk(index);
        let within = from % chunk_bytes;
        let mut length = chunk_bytes - within;
        let mut follows = chunk;
        while length < limit as u64 {
            index += 1;
            follows = if chunk == HOLE { HOLE } else { follows + 1 };
            if inode.chunk(index) != follows {
                break;
            }
            length += chunk_bytes;
        }
        let at = (chunk != HOLE).then(|| l.chunk_at(chunk).0 * u64::from(l.block_size) + within);
        Piece { length: limit.min(length as usize), at }
    }

    /// Reads a range that lies within the file.
    pub async fn get(&self, node: &Node, offset: u64, to: &mut [u8]) -> Result<(), FilesError> {
        let _user = User::new(node);
        let (mut offset, mut rest) = (offset, to);
        while !rest.is_empty() {
            let piece = self.piece(node, offset, rest.len());
            let (now, later) = rest.split_at_mut(piece.length);
            match piece.at {
                None => now.fill(0),
                Some(at) => self.get_piece(node, offset, at, now).await?,
            }
            offset += piece.length as u64;
            rest = later;
        }
        Ok(())
    }

    async fn get_piece(
        &self,
        node: &Node,
        offset: u64,
        at: u64,
        to: &mut [u8],
    ) -> Result<(), FilesError> {
        let bs = u64::from(self.layout.block_size);
        let skip = (offset % bs) as usize;
        let blocks = (skip + to.len()).div_ceil(bs as usize);
        if skip == 0 && (to.len() as u64).is_multiple_of(bs) {
            return Ok(self.device.read(Block(at / bs), DataMut::Bytes(to)).await?);
        }
        let first = offset / bs;
        if blocks == 1 && node.cache.borrow_mut().copy(first, skip, to) {
            return Ok(());
        }
        let ticket = node.cache.borrow().begin_read();
        let mut bytes = self.take_scratch();
        bytes.resize(blocks * bs as usize, 0);
        let done = self.device.read(Block(at / bs), DataMut::Bytes(&mut bytes)).await;
        if done.is_ok() {
            to.copy_from_slice(&bytes[skip..skip + to.len()]);
            // The rest of the last block is likely to be read next.
            let mut cache = node.cache.borrow_mut();
            if cache.may_keep(ticket) {
                let last = blocks - 1;
                cache.keep(first + last as u64, &bytes[last * bs as usize..]);
            }
        }
        self.give_scratch(bytes);
        Ok(done?)
    }

    /// Writes a range whose chunks are allocated. The blocks that begin at or after `zero_from` are
    /// known to hold zeros.
    pub async fn put(
        &self,
        node: &Node,
        offset: u64,
        data: &[u8],
        zero_from: u64,
    ) -> Result<(), FilesError> {
        let _user = User::new(node);
        let (mut offset, mut rest) = (offset, data);
        while !rest.is_empty() {
            let piece = self.piece(node, offset, rest.len());
            let (now, later) = rest.split_at(piece.length);
            // A hole: the file was truncated since the call began, which counts as after the write.
            if let Some(at) = piece.at {
                self.put_piece(node, offset, at, now, zero_from).await?;
            }
            offset += piece.length as u64;
            rest = later;
        }
        Ok(())
    }

    async fn put_piece(
        &self,
        node: &Node,
        offset: u64,
        at: u64,
        data: &[u8],
        zero_from: u64,
    ) -> Result<(), FilesError> {
        let bs = self.layout.block_size as usize;
        let first = offset / bs as u64;
        let skip = (offset % bs as u64) as usize;
        let blocks = (skip + data.len()).div_ceil(bs);
        let end = first + blocks as u64;
        let device_at = Block(at / bs as u64);
        if skip == 0 && data.len().is_multiple_of(bs) {
            let ticket = node.cache.borrow_mut().begin_write(first, end);
            let done = self.write_blocks(device_at, data).await;
            node.cache.borrow_mut().end_write(ticket, first, end);
            return done;
        }
        let mut bytes = self.take_scratch();
        bytes.clear();
        bytes.resize(blocks * bs, 0);
        let partial_end = !(skip + data.len()).is_multiple_of(bs);
        let last = blocks - 1;
        if skip != 0 || (blocks == 1 && partial_end) {
            self.fetch(node, first, device_at, &mut bytes[..bs], zero_from).await?;
        }
        if partial_end && blocks > 1 {
            let device_last = Block(device_at.0 + last as u64);
            let block = first + last as u64;
            self.fetch(node, block, device_last, &mut bytes[last * bs..], zero_from).await?;
        }
        bytes[skip..skip + data.len()].copy_from_slice(data);
        let ticket = node.cache.borrow_mut().begin_write(first, end);
        let done = self.write_blocks(device_at, &bytes).await;
        {
            let mut cache = node.cache.borrow_mut();
            let may_keep = cache.end_write(ticket, first, end);
            if may_keep && done.is_ok() {
                if skip != 0 && blocks > 1 {
                    cache.keep(first, &bytes[..bs]);
                }
                if partial_end || blocks == 1 {
                    cache.keep(first + last as u64, &bytes[last * bs..]);
                }
            }
        }
        self.give_scratch(bytes);
        done
    }

    /// Reads a block that is about to be overwritten in part; `to` holds zeros.
    pub async fn fetch(
        &self,
        node: &Node,
        block: u64,
        at: Block,
        to: &mut [u8],
        zero_from: u64,
    ) -> Result<(), FilesError> {
        let start = block.saturating_mul(u64::from(self.layout.block_size));
        if start >= zero_from || node.cache.borrow_mut().copy(block, 0, to) {
            return Ok(());
        }
        Ok(self.device.read(at, DataMut::Bytes(to)).await?)
    }

    async fn write_blocks(&self, at: Block, data: &[u8]) -> Result<(), FilesError> {
        self.check()?;
        loop {
            let unsure = self.unsure();
            let done = self.device.write(at, Data::Bytes(data), Durability::Normal).await;
            unsure.all_well();
            // A write refused for lack of space has changed nothing, so it may be retried.
            if done != Err(IoError::NoSpace) || !self.give_back().await? {
                return Ok(done?);
            }
        }
    }
}
