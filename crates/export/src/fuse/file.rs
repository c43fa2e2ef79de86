//! A file system with one file: the drive.
//!
//! 1. The length is the device's capacity and never changes. Opening the file with `O_TRUNC` leaves
//!    it as it was, as with a disk.
//! 2. A device that caches is told of pages that have left the memory of a program (`exit.rs`).
//! 3. An open file ends with the power: after a cut all requests to it fail, and a file that is
//!    opened after the restart works. So no request from before the cut reaches the drive after it.

use super::exit::Exit;
use super::session::{Failed, FileSystem};
use super::wire::{
    self, Attributes, DIRECTORY, NewAttributes, Operation, PERMISSIONS, REGULAR, Request,
    fallocate, open, set,
};
use crate::budget::lengthen;
use crate::volume::{Access, Failure, Volume};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{BlockDevice, Payload, PowerCycle};

/// The name of the file.
pub const FILE_NAME: &str = "drive";
/// The node of the file.
const FILE: u64 = 2;
/// The most open files.
const HANDLES_MAX: usize = 4096;
/// The kernel may cache attributes for this many seconds: only the kernel's own requests change
/// them.
const VALID_SECONDS: u64 = 3600;
/// The device carries stamps, not bytes: it cannot be a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device carries stamps, not bytes: build it with payload")]
pub struct NoBytes;

/// A box as the only file of a file system. Requests of the file reach the box as commands on whole
/// blocks.
///
/// ```no_run
/// use std::path::Path;
/// use std::rc::Rc;
/// use tantalum_device::{Caps, Payload, PowerCycle, RamDevice, RamOptions};
/// use tantalum_export::Volume;
/// use tantalum_export::fuse::{OneFile, Served, mount};
/// use tantalum_export::nbd::OnCut;
/// use tantalum_rt::{Runtime, wall::WallOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut runtime = Runtime::wall_time(1, WallOptions::default())?;
/// let rt = runtime.handle();
/// let device = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(1024, Payload::Bytes)));
/// let file = Rc::new(OneFile::new(&Volume::new(&rt, device.clone()), (0, 0), 0)?);
/// let io = rt.io().ok_or("it is on the wall clock")?;
/// // A folder that is there: the device is its file `drive` until it is unmounted.
/// let connection = mount(&io, Path::new("/mnt/ram"), "ram")?;
/// runtime.block_on(async move {
///     device.power_on().await?;
///     Served::one_file(&rt, connection, &file, OnCut::Errors).end().await;
///     Ok(())
/// })?
/// # }
/// ```
pub struct OneFile<P: PowerCycle> {
    volume: Rc<Volume<P>>,
    bytes: u64,
    block: u32,
    thin: bool,
    owner: Cell<(u32, u32)>,
    mode: Cell<u32>,
    /// Seconds since 1970.
    made: u64,
    /// Whether the device caches, and wants to be told of exits.
    exits: bool,
    handles: RefCell<BTreeMap<u64, Handle<P>>>,
    next: Cell<u64>,
}

/// An open file. Cheap to clone.
struct Handle<P: PowerCycle> {
    access: Rc<Access<P>>,
    /// It was opened for writing.
    writes: bool,
}

impl<P: PowerCycle> OneFile<P> {
    /// The volume as a file that only this user may open (mode 0600), with this group. `made` is
    /// the time of the file in seconds since 1970.
    ///
    /// # Errors
    /// [`NoBytes`].
    pub fn new(
        volume: &Rc<Volume<P>>,
        owner: (u32, u32),
        made: u64,
    ) -> Result<OneFile<P>, NoBytes> {
        let device = volume.plug().device();
        let caps = device.caps();
        if caps.payload != Payload::Bytes {
            return Err(NoBytes);
        }
        Ok(OneFile {
            volume: volume.clone(),
            bytes: caps.bytes(),
            block: caps.block_size,
            thin: caps.thin,
            exits: device.wants_exits(),
            owner: Cell::new(owner),
            mode: Cell::new(0o600),
            made,
            handles: RefCell::default(),
            next: Cell::new(1),
        })
    }

    /// How many times the file is open.
    pub fn open_count(&self) -> usize {
        self.handles.borrow().len()
    }

    fn attributes(&self, node: u64) -> Attributes {
        let (uid, gid) = self.owner.get();
        let file = node == FILE;
        let bytes = if file { self.bytes } else { 0 };
        Attributes {
            node,
            size: bytes,
            allocated: bytes,
            mode: if file { REGULAR | self.mode.get() } else { DIRECTORY | 0o755 },
            links: if file { 1 } else { 2 },
            uid,
            gid,
            time: self.made,
            valid: VALID_SECONDS,
        }
    }

    async fn open(&self, writes: bool) -> Result<u64, Failed> {
        if self.handles.borrow().len() >= HANDLES_MAX {
            return Err(Errno::NFILE.into());
        }
        let access = Volume::access(&self.volume);
        access.probe().await?;
        let handle = self.next.get();
        self.next.set(handle + 1);
        let access = Rc::new(access);
        self.handles.borrow_mut().insert(handle, Handle { access, writes });
        Ok(handle)
    }

    fn handle(&self, handle: u64) -> Result<Rc<Access<P>>, Errno> {
        let handles = self.handles.borrow();
        handles.get(&handle).map(|handle| handle.access.clone()).ok_or(Errno::BADF)
    }

    fn set(&self, node: u64, new: &NewAttributes) -> Result<(), Errno> {
        if node != FILE {
            return Err(Errno::PERM);
        }
        // For `O_TRUNC` the kernel sets the length 0 without a handle.
        let truncates = new.size == 0 && new.valid & set::HANDLE == 0;
        if new.valid & set::SIZE != 0 && new.size != self.bytes && !truncates {
            return Err(Errno::PERM);
        }
        if new.valid & set::MODE != 0 {
            self.mode.set(new.mode & PERMISSIONS);
        }
        let (uid, gid) = self.owner.get();
        let uid = if new.valid & set::UID != 0 { new.uid } else { uid };
        let gid = if new.valid & set::GID != 0 { new.gid } else { gid };
        self.owner.set((uid, gid));
        Ok(())
    }

    /// An ioctl: pages have left the memory of a program.
    async fn control(&self, handle: u64, command: u32, input: &[u8]) -> Result<(), Failed> {
        if !self.exits {
            return Err(Errno::NOTTY.into());
        }
        let exit = Exit::parse(command, input, (self.bytes, self.block.into()))?;
        let access = self.handle(handle)?;
        let writes = self.handles.borrow().get(&handle).is_some_and(|handle| handle.writes);
        if exit.data.is_some() && !writes {
            return Err(Errno::BADF.into());
        }
        Ok(access.left(exit.at, exit.length, exit.data).await?)
    }

    async fn allocate(&self, handle: u64, at: u64, length: u64, mode: u32) -> Result<(), Failed> {
        let access = self.handle(handle)?;
        let end = at.checked_add(length).ok_or(Errno::FBIG)?;
        if end > self.bytes {
            return Err(Errno::NOSPC.into());
        }
        match mode & !fallocate::KEEP_SIZE {
            _ if length == 0 => Ok(()),
            // A device that is not thin always has room for every block.
            0 if !self.thin => Ok(()),
            fallocate::PUNCH_HOLE => Ok(access.zero(at, length, false, false, false).await?),
            fallocate::ZERO_RANGE => Ok(access.zero(at, length, false, true, false).await?),
            _ => Err(Errno::OPNOTSUPP.into()),
        }
    }
}

impl<P: PowerCycle + 'static> FileSystem for OneFile<P> {
    async fn carry_out(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failed> {
        let node = request.node;
        match request.operation {
            Operation::Read { handle, at, length } => {
                let access = self.handle(handle)?;
                let count = self.bytes.saturating_sub(at).min(length.into()) as usize;
                let begin = out.len();
                if count > 0 {
                    let touched = access.touched(at, count as u64) as usize;
                    lengthen(out, begin + touched).map_err(Failure::from)?;
                    access.read(at, count, &mut out[begin..]).await?;
                    out.truncate(begin + count);
                }
            }
            Operation::Write { handle, at, sync, data } => {
                let access = self.handle(handle)?;
                let room = self.bytes.saturating_sub(at);
                let count = data.len().min(usize::try_from(room).unwrap_or(usize::MAX));
                if count == 0 && !data.is_empty() {
                    return Err(Errno::NOSPC.into());
                }
                access.write_atomic(at, &data[..count], sync).await?;
                wire::written(out, count as u32);
            }
            Operation::Sync { handle } => self.handle(handle)?.flush().await?,
            Operation::Allocate { handle, at, length, mode } => {
                self.allocate(handle, at, length, mode).await?;
            }
            Operation::Lookup { name } if node == wire::ROOT && name == FILE_NAME.as_bytes() => {
                wire::entry(out, &self.attributes(FILE));
            }
            Operation::Lookup { .. } => return Err(Errno::NOENT.into()),
            Operation::GetAttributes => wire::attributes(out, &self.attributes(node)),
            Operation::SetAttributes(ref new) => {
                self.set(node, new)?;
                wire::attributes(out, &self.attributes(node));
            }
            Operation::Open { writes } if node == FILE => {
                let handle = self.open(writes).await?;
                let flags = open::DIRECT_IO | open::NOFLUSH | open::PARALLEL_DIRECT_WRITES;
                wire::opened(out, handle, flags);
            }
            Operation::Open { .. } => return Err(Errno::ISDIR.into()),
            Operation::Release { handle } => drop(self.handles.borrow_mut().remove(&handle)),
            Operation::Statistics => {
                wire::statistics(out, self.block, self.bytes / u64::from(self.block), 0, 1);
            }
            Operation::OpenDirectory => wire::opened(out, 0, 0),
            Operation::ReadDirectory { at, length } => {
                let entries: [(u64, bool, &[u8]); 3] = [
                    (wire::ROOT, true, b"."),
                    (wire::ROOT, true, b".."),
                    (FILE, false, FILE_NAME.as_bytes()),
                ];
                for (i, (node, directory, name)) in
                    entries.into_iter().enumerate().skip(at as usize)
                {
                    let entry = (node, i as u64 + 1, directory, name);
                    if !wire::directory_entry(out, length as usize, entry) {
                        break;
                    }
                }
            }
            Operation::Flush | Operation::ReleaseDirectory | Operation::Destroy => {}
            Operation::Unlink { .. } | Operation::Rename { .. } | Operation::Create { .. } => {
                return Err(Errno::PERM.into());
            }
            Operation::Control { handle, command, input, .. } => {
                self.control(handle, command, input).await?;
                wire::controlled(out, &[]);
            }
            Operation::SyncDirectory => {}
            Operation::Special => return Err(Errno::PERM.into()),
            Operation::Forget | Operation::Other => return Err(Errno::NOSYS.into()),
        }
        Ok(())
    }
}
