//! A regular file, or a block device of the system, as a device on the wall clock.
//!
//! 1. **Ack.** A write completes when the host has taken it:
//!    [`Ack::Volatile`](crate::Ack::Volatile).
//! 2. **Flush** is `fdatasync`, and covers what completed before it was asked for. One sync is
//!    under way at a time; flushes that come meanwhile share the next one. Forced unit access is
//!    `RWF_DSYNC`, and a write in several parts is followed by one flush instead.
//! 3. **Atomic** is a sector, if one is known, or a block, if the kernel writes one atomically
//!    (`RWF_ATOMIC`). Otherwise the unit is one byte.
//! 4. **Failure.** After a failed flush or forced write nothing that changes the file is carried
//!    out until the next [`PowerCycle::power_on`], which opens the file anew. What was not synced
//!    may be lost then.
//! 5. **Dropping** the future of a command stops nothing: operations own their buffers, and go on.
//! 6. **Cut** means the link. The host keeps its power: operations under way end, and what was
//!    written is most likely there. [`PowerCycle::off`] waits for their end, and so does
//!    [`PowerCycle::power_on`]. A write of another thread ([`File::lend`]) is not waited for.
//! 7. **Space.** A discard frees the room of a file, or zeroes it (see
//!    [`FileSettings::keep_room`]). A later write there, or into a hole that was there before, may
//!    find no room. Then a write of one block is refused with [`IoError::NoSpace`]; a longer one
//!    fails, and a part of it may have been written.

mod error;
mod lend;
mod length;
mod live;
mod open;
mod pool;
mod received;
pub mod storage;

pub use error::FileError;
pub use lend::FileWriter;

use crate::{
    Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent,
    IoError, Link, PowerCycle,
};
use lend::Fate;
use length::Promised;
use pool::{Lease, Pool};
use received::Received;
use std::cell::{Cell, RefCell};
use std::fs::File as Owner;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tantalum_rt::sync::{Mutex, WaitQueue};
use tantalum_rt::wall::{AtomicWrites, Io, IoFile, Space, WriteOptions};
use tantalum_rt::{Rt, join_all};

/// The most that one operation moves.
const CHUNK: usize = 1 << 20;
/// Operations of one command that are under way at a time.
const PARTS: usize = 16;

/// How a file is used as a device.
///
/// See [`File`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// Bytes in a block: a power of two, at most 1 MiB. `None`: the smallest that the kernel
    /// allows, at least 512; 4096 if the kernel does not say.
    pub block_size: Option<u32>,
    /// Use the host's page cache instead of direct I/O.
    pub buffered: bool,
    /// Discarded blocks of a file keep their room: no write lacks room later, unless the file had
    /// holes when it was opened (then the device is [`Caps::thin`]). The next write of such a block
    /// changes metadata of the file system, so its sync costs more. (Block devices decide by
    /// themselves.)
    pub keep_room: bool,
    /// Nothing is written.
    pub read_only: bool,
    /// Buffers for this device, bytes: at least 2 MiB are taken.
    pub memory: usize,
}

impl Default for FileSettings {
    /// Direct I/O in blocks as the kernel says, discards that give room back, 16 MiB of buffers.
    fn default() -> FileSettings {
        FileSettings {
            block_size: None,
            buffered: false,
            keep_room: false,
            read_only: false,
            memory: 16 << 20,
        }
    }
}

impl FileSettings {
    fn memory(&self) -> usize {
        self.memory.max(2 * CHUNK)
    }
}

/// A file or block device as a device, and the box around it. Cheap to clone: a handle to one
/// file on one link.
///
/// ```
/// use tantalum_device::{Block, BlockDevice, Data, DataMut, Durability, File, FileSettings};
/// use tantalum_rt::Runtime;
/// use tantalum_rt::wall::WallOptions;
///
/// let path = std::env::temp_dir().join(format!("tantalum-file-doc-{}", std::process::id()));
/// # let at = path.clone();
/// let mut runtime = Runtime::wall_time(1, WallOptions::default())?;
/// let rt = runtime.handle();
/// runtime.block_on(async move {
///     // Without direct I/O, since not every file system of temporary files has that.
///     let settings = FileSettings { buffered: true, ..FileSettings::default() };
///     let file = File::create(&rt, &path, 1 << 20, &settings).await?;
///     let size = file.caps().block_size as usize;
///     // It survives a power loss when this returns.
///     file.write(Block(7), Data::Bytes(&vec![42; size]), Durability::Fua).await?;
///     let mut block = vec![0; size];
///     file.read(Block(7), DataMut::Bytes(&mut block)).await?;
///     assert_eq!(block, vec![42; size]);
///     Ok::<_, Box<dyn std::error::Error>>(())
/// })??;
/// # std::fs::remove_file(at)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct File {
    inner: Rc<Inner>,
    life: Option<Rc<Life>>,
}

struct Inner {
    rt: Rt,
    io: Io,
    path: PathBuf,
    settings: FileSettings,
    promised: Promised,
    /// One change of the length at a time.
    length: Mutex,
    /// If set, every write is atomic in blocks.
    atomic: Option<AtomicWrites>,
    /// Of the file at the path, which must not be replaced.
    identity: (u64, u64),
    /// It is a regular file.
    is_file: bool,
    /// Has the lock.
    owner: IoFile,
    /// Have the locks of the files under it, if it is a loop device.
    _under: Vec<Owner>,
    pool: Rc<Pool>,
    blank: Cell<Blank>,
    life: RefCell<Option<Rc<Life>>>,
    cuts: Cell<u64>,
    under_way: Cell<usize>,
    idle: WaitQueue,
}

/// What a device has while it has power.
struct Life {
    link: Link,
    data: IoFile,
    sync: IoFile,
    fate: Arc<Fate>,
    syncing: Cell<bool>,
    /// The number of the last sync that was begun, and of the last one that succeeded.
    begun: Cell<u64>,
    ended: Cell<u64>,
    synced: WaitQueue,
}

/// How blocks are made to read as zeros. If the host cannot do it in one way, the next is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blank {
    Punch,
    Zero,
    Write,
}

/// An operation under way, whether or not a task still waits for it.
struct Busy(Rc<Inner>);

impl Busy {
    fn new(inner: &Rc<Inner>) -> Busy {
        inner.under_way.set(inner.under_way.get() + 1);
        Busy(inner.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let left = self.0.under_way.get() - 1;
        self.0.under_way.set(left);
        if left == 0 {
            self.0.idle.notify_all();
        }
    }
}

/// Bytes of a command that one operation moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    offset: u64,
    /// Where it begins within the command.
    from: usize,
    len: usize,
}

/// Divides `len` bytes at `offset`; if they are to be `atomic`, into powers of two at multiples of
/// themselves.
fn parts(
    offset: u64,
    len: usize,
    atomic: Option<AtomicWrites>,
) -> impl Iterator<Item = Part> + Clone {
    let mut from = 0;
    std::iter::from_fn(move || {
        let left = len - from;
        if left == 0 {
            return None;
        }
        let at = offset + from as u64;
        let len = match atomic {
            None => left.min(CHUNK),
            Some(a) => {
                let aligned = 1 << at.trailing_zeros().min(30);
                let most = (a.max as usize).min(CHUNK).min(aligned);
                most.min(1 << left.ilog2())
            }
        };
        let part = Part { offset: at, from, len };
        from += len;
        Some(part)
    })
}

impl File {
    /// Where the file is.
    pub fn path(&self) -> &std::path::Path {
        &self.inner.path
    }

    /// Whether a durability step has failed since the power came (contract, 6).
    pub fn is_poisoned(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.fate.is_poisoned())
    }

    async fn command<T>(
        &self,
        what: &'static str,
        body: impl AsyncFnOnce(&Rc<Life>) -> Result<T, IoError>,
    ) -> Result<T, IoError> {
        let life = self.life.as_ref().ok_or(IoError::PowerLost)?;
        life.link.command(what, body(life)).await
    }

    fn check_writable(&self, life: &Life) -> Result<(), IoError> {
        match () {
            () if self.inner.settings.read_only => {
                Err(IoError::Failed("the file was opened to be read only"))
            }
            () if life.fate.is_poisoned() => Err(IoError::Poisoned),
            () => Ok(()),
        }
    }

    async fn read_part(&self, life: &Rc<Life>, part: Part, room: &mut [u8]) -> Result<(), IoError> {
        let mut lease = self.inner.pool.lease(part.len).await;
        let (busy, life) = (Busy::new(&self.inner), life.clone());
        let body = async move {
            let _busy = busy;
            let (result, buf) = life.data.read_at(lease.lend(), part.offset).await;
            lease.back(buf);
            (result, lease)
        };
        let (result, lease) = Received::new(&self.inner.rt, "a read of a file", body).await;
        let block = Block(part.offset / u64::from(self.inner.caps().block_size));
        match result.map_err(|e| error::of_read(&e, block))? {
            count if count == part.len => {
                room.copy_from_slice(lease.bytes());
                Ok(())
            }
            _ => Err(IoError::Failed("the file has become shorter than the device is")),
        }
    }

    async fn write_part(
        &self,
        life: &Rc<Life>,
        part: Part,
        durable: bool,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), IoError> {
        let mut lease = self.inner.pool.lease(part.len).await;
        // A durability step may have failed while this waited.
        self.check_writable(life)?;
        fill(lease.bytes_mut());
        let options = WriteOptions { durable, atomic: self.inner.atomic.is_some() };
        let body = carry_out_write(Busy::new(&self.inner), life.clone(), lease, part, options);
        Received::new(&self.inner.rt, "a write of a file", body).await
    }

    /// Writes `count` bytes, which `fill` provides part by part.
    async fn write_parts(
        &self,
        life: &Rc<Life>,
        offset: u64,
        count: usize,
        want: Durability,
        fill: impl Fn(Part, &mut [u8]),
    ) -> Result<(), IoError> {
        let mut parts = parts(offset, count, self.inner.atomic).peekable();
        let Some(first) = parts.next() else { return Ok(()) };
        let durable = want == Durability::Fua;
        if parts.peek().is_none() {
            return self.write_part(life, first, durable, |room| fill(first, room)).await;
        }
        let mut parts = std::iter::once(first).chain(parts).peekable();
        while parts.peek().is_some() {
            let some = parts.by_ref().take(PARTS).map(|part| {
                let fill = &fill;
                self.write_part(life, part, false, move |room| fill(part, room))
            });
            join_all(some.collect()).await.into_iter().collect::<Result<(), IoError>>()?;
        }
        if durable { self.sync(life).await } else { Ok(()) }
    }

    /// 2.
    async fn sync(&self, life: &Rc<Life>) -> Result<(), IoError> {
        let need = life.begun.get() + 1;
        while life.ended.get() < need {
            if life.fate.is_poisoned() {
                return Err(IoError::Poisoned);
            }
            if life.syncing.get() {
                life.synced.until(|| !life.syncing.get()).await;
                continue;
            }
            life.syncing.set(true);
            life.begun.set(life.begun.get() + 1);
            let body = carry_out_sync(Busy::new(&self.inner), life.clone());
            Received::new(&self.inner.rt, "a sync of a file", body).await?;
        }
        Ok(())
    }

    async fn blank(&self, life: &Rc<Life>, offset: u64, len: u64) -> Result<(), IoError> {
        loop {
            let how = self.inner.blank.get();
            let (space, next) = match how {
                Blank::Punch => (Space::Punch, Blank::Zero),
                Blank::Zero => (Space::Zero, Blank::Write),
                Blank::Write => break,
            };
            let (busy, of) = (Busy::new(&self.inner), life.clone());
            let body = async move {
                let _busy = busy;
                of.data.allocate(space, offset, len).await
            };
            match Received::new(&self.inner.rt, "a discard of a file", body).await {
                Err(e) if e.kind() == std::io::ErrorKind::Unsupported => {
                    self.inner.blank.set(next);
                }
                other => return other.map_err(|e| error::of_command(&e)),
            }
        }
        let mut done = 0;
        while done < len {
            let some = (len - done).min((PARTS * CHUNK) as u64);
            let zeros = |_: Part, room: &mut [u8]| room.fill(0);
            let normal = Durability::Normal;
            self.write_parts(life, offset + done, some as usize, normal, zeros).await?;
            done += some;
        }
        Ok(())
    }
}

impl Inner {
    fn caps(&self) -> &Caps {
        self.promised.now()
    }

    fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        let all = |hole| Allocation { blocks: range.count, hole };
        if !self.is_file {
            return Ok(all(false));
        }
        let size = u64::from(self.caps().block_size);
        let (from, to) = (range.start.0 * size, (range.start.0 + range.count) * size);
        let data = self.owner.next_data(from).map_err(|e| error::of_command(&e))?;
        Ok(match data.filter(|data| data.start < to) {
            None => all(true),
            // A block that is a hole in part holds data.
            Some(data) if data.start - from >= size => {
                Allocation { blocks: (data.start - from) / size, hole: true }
            }
            Some(data) => {
                let blocks = (data.end.min(to) - from).div_ceil(size);
                Allocation { blocks: blocks.max(1), hole: false }
            }
        })
    }
}

/// The operation of a write, and what follows from its end.
async fn carry_out_write(
    busy: Busy,
    life: Rc<Life>,
    mut lease: Lease,
    part: Part,
    options: WriteOptions,
) -> Result<(), IoError> {
    let (result, buf) = life.data.write_with(lease.lend(), part.offset, options).await;
    lease.back(buf);
    result.map_err(|e| {
        let inner = &busy.0;
        let one = part.len == inner.caps().block_size as usize && !inner.settings.buffered;
        if inner.caps().thin && one && error::is_full(&e) {
            return IoError::NoSpace;
        }
        if options.durable {
            life.fate.poison();
        }
        error::of_command(&e)
    })
}

/// The operation of a sync, and what follows from its end.
async fn carry_out_sync(busy: Busy, life: Rc<Life>) -> Result<(), IoError> {
    let number = life.begun.get();
    let result = life.sync.sync_data().await;
    match &result {
        Ok(()) => life.ended.set(number),
        Err(_) => life.fate.poison(),
    }
    life.syncing.set(false);
    life.synced.notify_all();
    drop(busy);
    result.map_err(|e| error::of_command(&e))
}

impl BlockDevice for File {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn is_alive(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.link.is_alive())
    }

    /// So it is without io_uring ([`Backend::Poll`](tantalum_rt::wall::Backend::Poll)).
    fn blocks_its_thread(&self) -> bool {
        self.inner.io.backend() == tantalum_rt::wall::Backend::Poll
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let size = self.inner.caps().block_size;
        let body = async |life: &Rc<Life>| {
            self.inner.caps().check(at, buf.kind(), buf.blocks(size))?;
            let DataMut::Bytes(mut rest) = buf else { return Ok(()) };
            let mut parts = parts(at.0 * u64::from(size), rest.len(), None).peekable();
            while let Some(first) = parts.next() {
                let (room, behind) = std::mem::take(&mut rest).split_at_mut(first.len);
                rest = behind;
                if parts.peek().is_none() {
                    return self.read_part(life, first, room).await;
                }
                let mut some = vec![self.read_part(life, first, room)];
                for part in parts.by_ref().take(PARTS - 1) {
                    let (room, behind) = std::mem::take(&mut rest).split_at_mut(part.len);
                    rest = behind;
                    some.push(self.read_part(life, part, room));
                }
                join_all(some).await.into_iter().collect::<Result<(), IoError>>()?;
            }
            Ok(())
        };
        self.command("a read of a file", body).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let size = self.inner.caps().block_size;
        let body = async |life: &Rc<Life>| {
            self.inner.caps().check(at, data.kind(), data.blocks(size))?;
            self.check_writable(life)?;
            let Data::Bytes(bytes) = data else { return Ok(()) };
            let fill = |part: Part, room: &mut [u8]| {
                room.copy_from_slice(&bytes[part.from..part.from + part.len]);
            };
            self.write_parts(life, at.0 * u64::from(size), bytes.len(), want, fill).await
        };
        self.command("a write of a file", body).await
    }

    async fn write_atomic(&self, _group: &[Extent<'_>]) -> Result<(), AtomicError> {
        Err(AtomicError::Unsupported)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let body = async |life: &Rc<Life>| match self.inner.settings.read_only {
            true => Ok(()),
            false => self.sync(life).await,
        };
        self.command("a flush of a file", body).await
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let size = u64::from(self.inner.caps().block_size);
        let body = async |life: &Rc<Life>| {
            self.inner.caps().check_range(range)?;
            self.check_writable(life)?;
            match range.count {
                0 => Ok(()),
                count => self.blank(life, range.start.0 * size, count * size).await,
            }
        };
        self.command("a discard of a file", body).await
    }

    /// As the file system tells it. A block device does not tell.
    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        let body = async |_: &Rc<Life>| {
            self.inner.caps().check_range(range)?;
            self.inner.allocation(range)
        };
        self.command("a look at the room of a file", body).await
    }
}

impl PowerCycle for File {
    type Device = File;

    fn device(&self) -> File {
        File { inner: self.inner.clone(), life: self.inner.life.borrow().clone() }
    }

    fn cut(&self) {
        self.inner.cuts.set(self.inner.cuts.get() + 1);
        if let Some(life) = self.inner.life.take() {
            life.link.cut();
            life.fate.end();
        }
    }

    async fn off(&self) {
        self.inner.idle.until(|| self.inner.under_way.get() == 0).await;
    }

    /// Opens the file anew.
    async fn power_on(&self) -> Result<(), IoError> {
        let inner = &self.inner;
        if inner.life.borrow().is_some() {
            return Ok(());
        }
        let cuts = inner.cuts.get();
        self.off().await;
        if inner.cuts.get() != cuts {
            return Err(IoError::PowerLost);
        }
        // A concurrent start may have finished first.
        if inner.life.borrow().is_none() {
            let life = inner.start().map_err(|e| match e {
                FileError::Replaced(_) => {
                    IoError::Failed("another file is there now, or it has another length")
                }
                _ => IoError::Failed("the file cannot be opened again"),
            })?;
            *inner.life.borrow_mut() = Some(life);
        }
        Ok(())
    }

    async fn set_bytes(&self, bytes: u64) -> Result<(), IoError> {
        self.give_bytes(bytes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is divided is covered once and in order, and atomic parts are what the kernel
        /// takes as atomic writes.
        #[test]
        fn parts_cover_a_command(
            block in 9u32..20,
            at in 0u64..5000,
            count in 0usize..600,
            limits in proptest::option::of((0u32..4, 0u32..4)),
        ) {
            let (size, offset) = (1usize << block, at << block);
            // A block is among what can be atomic.
            let atomic = limits.map(|(less, more)| AtomicWrites {
                min: 1 << (block - less),
                max: 1 << (block + more),
            });
            let mut done = 0;
            for part in parts(offset, count * size, atomic) {
                prop_assert_eq!((part.from, part.offset), (done, offset + done as u64));
                prop_assert!(part.len > 0 && part.len % size == 0 && part.len <= CHUNK.max(size));
                if let Some(a) = atomic {
                    let len = part.len as u64;
                    prop_assert!(len.is_power_of_two() && part.offset % len == 0);
                    prop_assert!(len >= a.min.into() && len <= a.max.into());
                }
                done += part.len;
            }
            prop_assert_eq!(done, count * size);
        }
    }
}
