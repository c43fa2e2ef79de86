//! Files and block devices of the system, read and written at offsets.

use super::io::Io;
use super::net::count;
use super::work::{Kind, Span, Work};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::ReadWriteFlags;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::rc::Rc;

/// What the kernel wants of buffers, offsets and lengths of direct I/O, at most.
const ALIGNMENT: usize = 4096;

/// How to open a file for [`Io::open`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// For writing too.
    pub write: bool,
    /// Makes it if it is not there, readable for all and writable for the owner (less the
    /// process's mask). Needs `write`.
    pub create: bool,
    /// Past the page cache (`O_DIRECT`). Offsets and lengths must then be multiples of the
    /// device's logical block, and buffers [`AlignedBuf`]s.
    pub direct: bool,
}

/// What one write asks of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// The write is durable when it ends (`RWF_DSYNC`).
    pub durable: bool,
    /// The write survives a power loss as a whole or not at all (`RWF_ATOMIC`). Its length must be
    /// a power of two within [`Storage::atomic`](super::Storage::atomic), and its offset a multiple
    /// of its length.
    pub atomic: bool,
}

/// Since Linux 6.11; not among the names that rustix has.
const RWF_ATOMIC: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x40);

impl WriteOptions {
    fn flags(self) -> ReadWriteFlags {
        let durable = if self.durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        if self.atomic { durable | RWF_ATOMIC } else { durable }
    }
}

/// What [`IoFile::allocate`] does with a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Room for all of it, so that writes there do not fail for want of room. What had no room
    /// reads as zeros. The file grows to the end of the range.
    Reserve,
    /// It reads as zeros and keeps its room, where the file system can do that.
    Zero,
    /// It reads as zeros, and its room is given back.
    Punch,
}

impl Space {
    fn mode(self) -> FallocateFlags {
        match self {
            Space::Reserve => FallocateFlags::empty(),
            Space::Zero => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            Space::Punch => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        }
    }
}

/// An open file. Dropping it closes it, once what was under way has ended.
///
/// ```
/// use tantalum_rt::Runtime;
/// use tantalum_rt::wall::{FileOptions, WallOptions, WriteOptions};
///
/// # let path = std::env::temp_dir().join(format!("tantalum-iofile-doc-{}", std::process::id()));
/// # let at = path.clone();
/// let mut runtime = Runtime::wall_time(1, WallOptions::default())?;
/// let io = runtime.handle().io().expect("on the wall clock");
/// let read = runtime.block_on(async move {
///     let options = FileOptions { write: true, create: true, ..FileOptions::default() };
///     let file = io.open(&path, options)?;
///     let durable = WriteOptions { durable: true, ..WriteOptions::default() };
///     file.write_with(b"hello world".to_vec(), 0, durable).await.0?;
///     let (count, buf) = file.read_at(vec![0; 100], 6).await;
///     Ok::<_, std::io::Error>(buf[..count?].to_vec()) // as far as the file goes
/// });
/// assert_eq!(read.unwrap()?, b"world");
/// # std::fs::remove_file(at)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct IoFile {
    io: Io,
    pub(super) fd: Rc<OwnedFd>,
    direct: bool,
    keeps: Option<Rc<OwnedFd>>,
}

/// A buffer whose address is a multiple of 4096, for direct I/O.
pub struct AlignedBuf(Span);

impl AlignedBuf {
    /// `len` zeroes.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let bytes = vec![0; len + ALIGNMENT - 1];
        let from = bytes.as_ptr().align_offset(ALIGNMENT);
        AlignedBuf(Span { bytes, from, to: from + len })
    }

    /// Changes the length, up to that with which the buffer was made. What lies there stays as it
    /// was: bytes that are added are those of an earlier use.
    ///
    /// # Panics
    /// If the buffer was made shorter than `len`.
    pub fn set_len(&mut self, len: usize) {
        let to = self.0.from + len;
        assert!(to <= self.0.bytes.len(), "a buffer was made shorter than {len} bytes");
        self.0.to = to;
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0.bytes[self.0.from..self.0.to]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.part_mut()
    }
}

/// What can be lent to an operation: `Vec<u8>` (all of it) and [`AlignedBuf`].
pub trait IoBuf: sealed::Lent {}
impl IoBuf for Vec<u8> {}
impl IoBuf for AlignedBuf {}

mod sealed {
    use super::{AlignedBuf, Span};

    pub trait Lent {
        #[expect(private_interfaces, reason = "nobody else implements or calls it")]
        fn lend(self) -> Span;
        #[expect(private_interfaces, reason = "as above")]
        fn back(span: Span) -> Self;
    }

    #[expect(private_interfaces, reason = "as above")]
    impl Lent for Vec<u8> {
        fn lend(self) -> Span {
            let to = self.len();
            Span { bytes: self, from: 0, to }
        }
        fn back(span: Span) -> Vec<u8> {
            span.bytes
        }
    }

    #[expect(private_interfaces, reason = "as above")]
    impl Lent for AlignedBuf {
        fn lend(self) -> Span {
            self.0
        }
        fn back(span: Span) -> AlignedBuf {
            AlignedBuf(span)
        }
    }
}

impl Io {
    /// Opens a file. This call itself is not awaited: it holds up the thread.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self, path: impl AsRef<Path>, options: FileOptions) -> io::Result<IoFile> {
        let mut flags = OFlags::CLOEXEC;
        flags |= if options.write { OFlags::RDWR } else { OFlags::RDONLY };
        flags.set(OFlags::CREATE, options.create);
        flags.set(OFlags::DIRECT, options.direct);
        let fd = rustix::fs::open(path.as_ref(), flags, Mode::from_raw_mode(0o644))?;
        Ok(self.file(fd, options.direct))
    }

    /// A file that was opened elsewhere; `direct`: past the page cache.
    pub fn file(&self, fd: OwnedFd, direct: bool) -> IoFile {
        IoFile { io: self.clone(), fd: Rc::new(fd), direct, keeps: None }
    }
}

impl IoFile {
    /// The same file; as long as an operation on it is under way, the other one stays open, too, and
    /// with it a lock that this one is read and written under.
    #[must_use]
    pub fn under_lock_of(self, other: &IoFile) -> IoFile {
        IoFile { keeps: Some(other.fd.clone()), ..self }
    }

    fn work(&self, kind: Kind, span: Span) -> Work {
        Work { _keeps: self.keeps.clone(), ..Work::new(kind, &self.fd, span) }
    }

    /// Reads into all of `buf`; how many bytes. Less than its length only at the end of the
    /// file. If this future is dropped before its end, the buffer is gone.
    ///
    /// # Errors
    /// The system's.
    pub async fn read_at<B: IoBuf>(&self, buf: B, offset: u64) -> (io::Result<usize>, B) {
        let (result, span) = self.all(Kind::ReadAt, buf.lend(), offset, true).await;
        (result, B::back(span))
    }

    /// Writes all of `buf`. If this future is dropped before its end, any part of it may
    /// have been written, or be written yet.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::WriteZero`] if it takes no more.
    pub async fn write_at<B: IoBuf>(&self, buf: B, offset: u64) -> (io::Result<()>, B) {
        self.write_with(buf, offset, WriteOptions::default()).await
    }

    /// As [`IoFile::write_at`], with `options`.
    ///
    /// # Errors
    /// As [`IoFile::write_at`]. [`io::ErrorKind::InvalidInput`] or
    /// [`io::ErrorKind::Unsupported`] if the file cannot do what an option asks for.
    pub async fn write_with<B: IoBuf>(
        &self,
        buf: B,
        offset: u64,
        options: WriteOptions,
    ) -> (io::Result<()>, B) {
        let span = buf.lend();
        let want = span.to - span.from;
        let flags = options.flags();
        let kind = |offset| Kind::WriteAt(offset, flags);
        let (result, span) = self.all(kind, span, offset, !options.atomic).await;
        let result = result.and_then(|done| match done == want {
            true => Ok(()),
            false => Err(io::ErrorKind::WriteZero.into()),
        });
        (result, B::back(span))
    }

    /// As much of the span as can be; if `go_on`, in several operations.
    async fn all(
        &self,
        kind: impl Fn(u64) -> Kind,
        mut span: Span,
        offset: u64,
        go_on: bool,
    ) -> (io::Result<usize>, Span) {
        let begin = span.from;
        let mut result = Ok(());
        while span.from < span.to {
            let done = span.from - begin;
            let kind = kind(offset + done as u64);
            let work = self.work(kind, span);
            let (outcome, back) = self.io.run(work, "a file").await;
            span = back;
            let count = match outcome {
                Ok(value) => count(value),
                Err(e) => {
                    result = Err(e.into());
                    break;
                }
            };
            span.from += count;
            // Direct I/O that ends between two blocks has met the end of the file, and
            // could not go on from there.
            if count == 0 || !go_on || (self.direct && count % 512 != 0) {
                break;
            }
        }
        let done = span.from - begin;
        span.from = begin;
        (result.map(|()| done), span)
    }

    /// Another descriptor of the same open file, which another thread may use. It is non-blocking or
    /// not as this one is, and outlives it.
    ///
    /// # Errors
    /// The system's.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// All that was written before this was begun is durable when it ends (`fdatasync`).
    ///
    /// # Errors
    /// The system's. What was written before may then be lost, whatever a later call says.
    pub async fn sync_data(&self) -> io::Result<()> {
        let work = self.work(Kind::SyncData, Span::default());
        self.io.run(work, "a file to be synced").await.0?;
        Ok(())
    }

    /// Reserves, zeroes or frees a range (`fallocate`).
    ///
    /// # Errors
    /// The system's: [`io::ErrorKind::Unsupported`] if the file system or the block device cannot
    /// do it, [`io::ErrorKind::StorageFull`] if there is no room.
    pub async fn allocate(&self, space: Space, offset: u64, len: u64) -> io::Result<()> {
        let kind = Kind::Fallocate { mode: space.mode(), offset, len };
        let work = self.work(kind, Span::default());
        self.io.run(work, "a file's room").await.0?;
        Ok(())
    }

    /// The length of the file, bytes; of a block device 0 (see [`IoFile::storage`]). It holds up
    /// the thread, as [`IoFile::set_len`] does.
    ///
    /// # Errors
    /// The system's.
    pub fn len(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&*self.fd)?.st_size as u64)
    }

    /// Whether it has no byte.
    ///
    /// # Errors
    /// The system's.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Bytes that its file system has room for, of those that every user may have; `None` if it does
    /// not tell. Quotas are not looked at.
    pub fn room(&self) -> Option<u64> {
        crate::room::room_of(&rustix::fs::fstatvfs(&*self.fd).ok()?)
    }

    /// Cuts the file off there, or extends it by a hole.
    ///
    /// # Errors
    /// The system's.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&*self.fd, len)?)
    }
}

impl AsFd for IoFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
