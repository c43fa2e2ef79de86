//! An open file: sizes, growth, truncation, sync. `io.rs` moves the bytes.

use crate::FilesError;
use crate::layer::Files;
use crate::meta::Node;
use crate::state::{Change, HOLE, Run};
use std::ops::Range;
use std::rc::Rc;
use tantalum_device::BlockDevice;

/// An open file. Cheap to clone; dropping the last clone closes the file, which writes nothing.
///
/// ```
/// use tantalum_device::{Caps, GroupLimit, Payload, RamDevice, RamOptions};
/// use tantalum_files::{Files, FilesError, FormatOptions, MountOptions, Promise};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let done = runtime.block_on(async move {
///     let limit = GroupLimit { extents: 8, bytes: 1 << 20 };
///     let caps = Caps::power_safe(4096, Payload::Bytes);
///     let caps = Caps { atomic_group: Some(limit), ..caps };
///     let device = RamDevice::new(&rt, RamOptions::new(caps));
///     Files::format(&rt, &device, &FormatOptions::default()).await?;
///     let files = Files::mount(&rt, device, &MountOptions::default()).await?;
///     let file = files.create(b"accounts", Promise::Durable).await?;
///
///     // After any crash both ranges are there, or none.
///     file.write_atomic(&[(0, b"alice 90"), (1 << 16, b"bob 10")]).await?;
///     let mut to = [0; 16];
///     assert_eq!(file.read(1 << 16, &mut to).await?, 6); // up to the end of the file
///     assert_eq!(&to[..6], b"bob 10");
///     file.truncate(5).await?;
///     assert_eq!((file.size(), file.read(0, &mut to).await?), (5, 5));
///     Ok::<(), FilesError>(())
/// });
/// done.unwrap().unwrap();
/// ```
pub struct File<D: BlockDevice> {
    pub(crate) files: Files<D>,
    pub(crate) node: Rc<Node>,
}

impl<D: BlockDevice> Clone for File<D> {
    fn clone(&self) -> File<D> {
        File::new(self.files.clone(), self.node.clone())
    }
}

impl<D: BlockDevice> Drop for File<D> {
    /// The last handle of a deleted file frees its chunks.
    fn drop(&mut self) {
        let left = self.node.handles.get() - 1;
        self.node.handles.set(left);
        if left == 0 {
            self.node.cache.take();
            let orphan = self.files.inner.state.borrow_mut().orphans.remove(&self.node.ino);
            if let Some(inode) = orphan {
                let chunks: Vec<u32> = inode.chunks.into_iter().filter(|&c| c != HOLE).collect();
                self.files.inner.release(&chunks);
            }
        }
    }
}

impl<D: BlockDevice> File<D> {
    pub(crate) fn new(files: Files<D>, node: Rc<Node>) -> File<D> {
        node.handles.set(node.handles.get() + 1);
        File { files, node }
    }

    /// The number of the file: it stays the same when the file is renamed, and no other existing
    /// file has it.
    pub fn number(&self) -> u64 {
        self.node.ino
    }

    /// Whether the device can be reached (invariant 10 of the crate).
    pub fn is_alive(&self) -> bool {
        self.files.inner.device.is_alive()
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.node.size.get()
    }

    /// Reads from `offset` on, up to the end of the file or the length of `to`; returns the number
    /// of bytes.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn read(&self, offset: u64, to: &mut [u8]) -> Result<usize, FilesError> {
        let there = self.size().saturating_sub(offset);
        let count = usize::try_from(there).unwrap_or(usize::MAX).min(to.len());
        self.files.inner.get(&self.node, offset, &mut to[..count]).await?;
        Ok(count)
    }

    /// Writes `data` at `offset`. A gap after the old end reads as zeros. After an error of the
    /// device, any of the blocks of the range may have been written.
    ///
    /// # Errors
    /// [`FilesError::NoSpace`], [`FilesError::Poisoned`], and those of the device.
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<(), FilesError> {
        let (inner, node) = (&*self.files.inner, &*self.node);
        inner.check()?;
        let end = offset.saturating_add(data.len() as u64);
        if data.is_empty() {
            return Ok(());
        }
        let bs = u64::from(inner.layout.block_size);
        let whole_blocks = offset.is_multiple_of(bs) && end.is_multiple_of(bs);
        if whole_blocks && end <= node.size.get() && self.missing(offset, end).next().is_none() {
            return inner.put(node, offset, data, u64::MAX).await;
        }
        let _turn = node.lock.lock().await;
        inner.check()?;
        self.make_room(std::slice::from_ref(&(offset..end))).await?;
        let size = node.size.get();
        let zero_from = if node.stale.get() { u64::MAX } else { size };
        let done = inner.put(node, offset, data, zero_from).await;
        if end > size {
            match done {
                Ok(()) => node.size.set(end),
                // Some of it may have been written.
                Err(_) => node.stale.set(true),
            }
        }
        done
    }

    /// Makes the file `size` bytes long: frees the chunks beyond, or adds zeros. The exact size is
    /// recorded.
    ///
    /// # Errors
    /// [`FilesError::NoSpace`], [`FilesError::Poisoned`], and those of the device.
    pub async fn truncate(&self, size: u64) -> Result<(), FilesError> {
        let (inner, node) = (&*self.files.inner, &*self.node);
        let _turn = node.lock.lock().await;
        inner.check()?;
        let old = node.size.get();
        if size > old {
            self.check_end(size)?;
            self.clear_tail().await?;
        }
        if self.recorded() == size && old == size {
            return Ok(());
        }
        let freed = inner.change(&Change::Resize { ino: node.ino, size })?;
        if size < old {
            node.size.set(size);
            node.stale.set(!size.is_multiple_of(inner.layout.chunk_bytes()));
            node.cache.borrow_mut().forget_from(size / u64::from(inner.layout.block_size));
        }
        inner.commit().await?;
        node.size.set(size);
        node.idle.until(|| node.users.get() == 0).await;
        inner.release(&freed);
        Ok(())
    }

    /// Makes all earlier writes to the file durable, its exact size, and all earlier changes of the
    /// directory.
    ///
    /// # Errors
    /// [`FilesError::Poisoned`], and those of the device.
    pub async fn sync(&self) -> Result<(), FilesError> {
        let inner = &*self.files.inner;
        if self.recorded() != self.size() {
            let _turn = self.node.lock.lock().await;
            self.record_size()?;
            inner.commit().await?;
        }
        if inner.barriers { inner.flush().await } else { inner.check() }
    }

    /// Like [`File::sync`], except that after a crash the file may be longer (with zeros) by less
    /// than a chunk. This saves a metadata write for a file that grows.
    ///
    /// # Errors
    /// [`FilesError::Poisoned`], and those of the device.
    pub async fn sync_data(&self) -> Result<(), FilesError> {
        let inner = &*self.files.inner;
        if inner.barriers { inner.flush().await } else { inner.check() }
    }

    /// Records the exact size. The caller holds the file's lock, and must commit.
    pub(crate) fn record_size(&self) -> Result<(), FilesError> {
        let size = self.size();
        if self.recorded() != size {
            self.files.inner.check()?;
            // The recorded size ends in the chunk of the exact size, so no chunk is freed.
            self.files.inner.change(&Change::Resize { ino: self.node.ino, size })?;
        }
        Ok(())
    }

    fn recorded(&self) -> u64 {
        self.files.inner.state.borrow().inode(self.node.ino).map_or(0, |i| i.size)
    }

    /// The chunks in a range that are not allocated.
    pub(crate) fn missing(&self, offset: u64, end: u64) -> impl Iterator<Item = u32> {
        let inner = &self.files.inner;
        let chunk = inner.layout.chunk_bytes();
        let state = inner.state.borrow();
        let ino = self.node.ino;
        (offset / chunk..=(end - 1) / chunk)
            .filter(move |&i| state.inode(ino).is_some_and(|inode| inode.chunk(i) == HOLE))
            .map(|i| i as u32)
    }

    pub(crate) fn check_end(&self, end: u64) -> Result<(), FilesError> {
        let l = &self.files.inner.layout;
        if end.div_ceil(l.chunk_bytes()) > u64::from(l.chunks) {
            return Err(FilesError::NoSpace("a file cannot be larger than the device"));
        }
        Ok(())
    }

    /// Allocates the chunks for writes of these ascending ranges, and ensures that a crash after
    /// the writes cannot leave the file too short. The caller holds the file's lock.
    pub(crate) async fn make_room(&self, ranges: &[Range<u64>]) -> Result<(), FilesError> {
        let (inner, node) = (&*self.files.inner, &*self.node);
        let end = ranges.last().map_or(0, |range| range.end);
        self.check_end(end)?;
        if end > node.size.get() {
            self.clear_tail().await?;
        }
        let recorded = self.recorded();
        let mut missing: Vec<u32> =
            ranges.iter().flat_map(|range| self.missing(range.start, range.end)).collect();
        missing.dedup();
        if missing.is_empty() && end <= recorded {
            return Ok(());
        }
        let previous = missing.first().and_then(|&first| {
            let state = inner.state.borrow();
            let before = state.inode(node.ino)?.chunk(u64::from(first).checked_sub(1)?);
            (before != HOLE).then_some(before)
        });
        let chunks = match missing.len() as u32 {
            0 => Vec::new(),
            count => inner.allocate(count, previous).await?,
        };
        let mut runs: Vec<Run> = Vec::new();
        for (&file_chunk, &chunk) in missing.iter().zip(&chunks) {
            match runs.last_mut() {
                Some(r) if r.file_chunk + r.count == file_chunk && r.chunk + r.count == chunk => {
                    r.count += 1;
                }
                _ => runs.push(Run { file_chunk, chunk, count: 1 }),
            }
        }
        let size = if end > recorded {
            end.next_multiple_of(inner.layout.chunk_bytes())
        } else {
            recorded
        };
        inner.change(&Change::Grow { ino: node.ino, size, runs: &runs })?;
        inner.commit().await
    }

    /// Zeros the bytes after the end of the file in its last chunk. The caller holds the file's
    /// lock.
    async fn clear_tail(&self) -> Result<(), FilesError> {
        let (inner, node) = (&*self.files.inner, &*self.node);
        let size = node.size.get();
        if !node.stale.get() {
            return Ok(());
        }
        let end = size.next_multiple_of(inner.layout.chunk_bytes());
        if size < end && self.missing(size, end).next().is_none() {
            let mut zeros = inner.take_scratch();
            zeros.clear();
            zeros.resize((end - size) as usize, 0);
            let done = inner.put(node, size, &zeros, u64::MAX).await;
            inner.give_scratch(zeros);
            done?;
            if inner.needs_barrier() {
                inner.flush().await?;
            }
        }
        node.stale.set(false);
        Ok(())
    }
}
