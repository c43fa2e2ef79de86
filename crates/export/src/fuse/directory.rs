//! A file system with one directory, which has the files of the file layer.
//!
//! 1. **What is durable** is what the file layer keeps ([`tantalum_files`]): names, bytes and
//!    lengths. Owners and permissions are kept until the unmount, and times not at all. A file
//!    belongs to the user who made it, also after it has lost its name. A file of unknown owner
//!    belongs to the directory's first owner: it was there before the mount, or it is back because
//!    a power cut undid its deletion.
//! 2. **Open files and nodes end with the power.** After a cut all requests to them fail, also
//!    after the restart. A file that is looked up and opened after the restart works
//!    ([`Directory::renew`]). Without power there are no names and no lengths either, since those
//!    in memory may never have become durable. Only attributes of the directory and the space in
//!    use are still answered.
//! 3. **A file that has lost its name** exists until its last user has closed it.
//! 4. **Atomic pages** ([`PAGES_ATOMIC`], Fusion-io's) are confirmed only if an aligned page of up
//!    to a chunk is all or nothing after any crash: the device's atomic unit must be at least a
//!    chunk.
//! 5. **Atomic transactions** ([`BEGIN`], [`COMMIT`], F2FS's) are offered only if the device takes
//!    groups. Writes through a handle between the two are kept in memory, are read back through
//!    this handle only, and are written as one group at the commit. After a successful commit all
//!    of them are durable. After a failed commit, or a crash before the commit ends, none of them
//!    is there. A transaction that is longer than a group can be fails at its commit.

use super::session::{Failed, FileSystem};
use super::wire::{
    self, Attributes, DIRECTORY, NewAttributes, Operation, PERMISSIONS, REGULAR, Request, open, set,
};
use crate::budget::lengthen;
use crate::volume::Failure;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tantalum_device::{BlockDevice, GroupLimit, IoError};
use tantalum_files::{File, Files, FilesError, Promise};

/// F2FS: begins a transaction.
pub const BEGIN: u32 = 0xf501;
/// F2FS: ends the transaction; all of its writes become durable.
pub const COMMIT: u32 = 0xf502;
/// F2FS: ends the transaction; none of its writes happens.
pub const ABORT: u32 = 0xf505;
/// F2FS: asks for the features; [`FEATURE_TRANSACTIONS`] is one of them.
pub const FEATURES: u32 = 0x8004_f50c;
/// F2FS: transactions of one file.
pub const FEATURE_TRANSACTIONS: u32 = 4;
/// Fusion-io: asks that aligned pages are written whole.
pub const PAGES_ATOMIC: u32 = 0x4004_9502;

/// The most open files.
const HANDLES_MAX: usize = 4096;
/// The bits of a node from this one on count the restarts.
const LIFE_SHIFT: u32 = 40;
/// `RENAME_NOREPLACE` of renameat2(2): an existing file must not be replaced.
const NO_REPLACE: u32 = 1;

/// A file that the kernel knows.
struct Known<D: BlockDevice> {
    file: File<D>,
    lookups: u64,
}

/// What was written since a transaction began.
#[derive(Default)]
struct Pending {
    writes: Vec<(u64, Vec<u8>)>,
    bytes: u64,
    /// The writes are longer than a group can be.
    too_long: bool,
}

impl Pending {
    fn end(&self) -> u64 {
        self.writes.iter().map(|(at, data)| at + data.len() as u64).max().unwrap_or(0)
    }
}

/// An open file.
struct Handle<D: BlockDevice> {
    node: u64,
    file: File<D>,
    pending: RefCell<Option<Pending>>,
}

/// The owner and the permissions of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The permissions, as in a mode.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// A directory of files, which the file layer keeps on a box.
///
/// ```no_run
/// use std::path::Path;
/// use std::rc::Rc;
/// use tantalum_device::{Caps, Payload, PowerCycle, RamDevice, RamOptions};
/// use tantalum_export::fuse::{Directory, Rights, Served, mount};
/// use tantalum_export::nbd::OnCut;
/// use tantalum_files::{Files, FormatOptions, MountOptions};
/// use tantalum_rt::{Runtime, wall::WallOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut runtime = Runtime::wall_time(1, WallOptions::default())?;
/// let rt = runtime.handle();
/// let device = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(4096, Payload::Bytes)));
/// let io = rt.io().ok_or("it is on the wall clock")?;
/// // A folder that is there: until it is unmounted it shows the files on the device.
/// let connection = mount(&io, Path::new("/mnt/ram"), "ram")?;
/// runtime.block_on(async move {
///     device.power_on().await?;
///     Files::format(&rt, &device, &FormatOptions::default()).await?;
///     let files = Files::mount(&rt, device, &MountOptions::default()).await?;
///     let directory = Rc::new(Directory::new(files, Rights { mode: 0o755, uid: 0, gid: 0 }, 0));
///     Served::directory(&rt, connection, &directory, OnCut::Errors).end().await;
///     Ok(())
/// })?
/// # }
/// ```
pub struct Directory<D: BlockDevice> {
    files: RefCell<Files<D>>,
    life: Cell<u64>,
    /// The rights of files whose owner is not known.
    rights: Rights,
    /// By the number of the file. A node would not do, since it ends with the power.
    own: RefCell<BTreeMap<u64, Rights>>,
    /// Numbers of files that have lost their name but still have users.
    nameless: RefCell<BTreeSet<u64>>,
    root: Cell<Rights>,
    known: RefCell<BTreeMap<u64, Known<D>>>,
    handles: RefCell<BTreeMap<u64, Rc<Handle<D>>>>,
    next: Cell<u64>,
    /// Seconds since 1970.
    made: u64,
}

impl From<FilesError> for Failed {
    fn from(error: FilesError) -> Failed {
        Failed::Errno(match error {
            FilesError::Io(error) => return error.into(),
            FilesError::NotFound(_) => Errno::NOENT,
            FilesError::Exists(_) => Errno::EXIST,
            // The kernel sends no empty name, and no name with a NUL, so the name is too long.
            FilesError::BadName(_) => Errno::NAMETOOLONG,
            FilesError::NoSpace(_) => Errno::NOSPC,
            FilesError::Group(_) => Errno::FBIG,
            FilesError::NotFormatted
            | FilesError::Unsuitable(_)
            | FilesError::Corrupt { .. }
            | FilesError::Poisoned => Errno::IO,
        })
    }
}

impl<D: BlockDevice> Directory<D> {
    /// The files of this mount of the file layer, in a directory with these rights. Files that are
    /// there already belong to the directory's owner, and only the owner may read and write them:
    /// the drive keeps no modes, and 0600 is the strictest. `made` is the time of all files, in
    /// seconds since 1970.
    pub fn new(files: Files<D>, root: Rights, made: u64) -> Directory<D> {
        Directory {
            files: RefCell::new(files),
            life: Cell::new(0),
            rights: Rights { mode: 0o600, ..root },
            own: RefCell::default(),
            nameless: RefCell::default(),
            root: Cell::new(root),
            known: RefCell::default(),
            handles: RefCell::default(),
            next: Cell::new(1),
            made,
        }
    }

    /// Replaces the mount of the file layer after a restart.
    pub fn renew(&self, files: Files<D>) {
        self.life.set(self.life.get() + 1);
        let entries = files.list().into_iter();
        let numbers: BTreeSet<u64> =
            entries.filter_map(|entry| Some(files.open(&entry.name).ok()?.number())).collect();
        self.own.borrow_mut().retain(|number, _| numbers.contains(number));
        self.nameless.borrow_mut().clear();
        *self.files.borrow_mut() = files;
        // Old handles stay and fail, since their link is dead. No new node leads to them.
        self.known.borrow_mut().clear();
    }

    /// The files, for requests that are answered without power too.
    fn files(&self) -> Files<D> {
        self.files.borrow().clone()
    }

    /// The files; an error without power.
    fn live_files(&self) -> Result<Files<D>, Failed> {
        let files = self.files();
        if files.device().is_alive() { Ok(files) } else { Err(IoError::PowerLost.into()) }
    }

    fn node(&self, file: &File<D>) -> u64 {
        self.node_of(file.number())
    }

    fn node_of(&self, number: u64) -> u64 {
        // The numbers of files begin at 0, and the root is 1.
        self.life.get() << LIFE_SHIFT | (number + 2)
    }

    /// A file has lost its name. It exists as long as the kernel knows it or it is open.
    fn lost_name(&self, number: u64) {
        self.nameless.borrow_mut().insert(number);
        self.let_go(number);
    }

    /// A user of a file is gone. After the last user of a file without a name, nothing is kept of
    /// the file.
    fn let_go(&self, number: u64) {
        if !self.nameless.borrow().contains(&number) {
            return;
        }
        let node = self.node_of(number);
        let open = || self.handles.borrow().values().any(|handle| handle.node == node);
        if !self.known.borrow().contains_key(&node) && !open() {
            self.nameless.borrow_mut().remove(&number);
            self.own.borrow_mut().remove(&number);
        }
    }

    fn handle(&self, handle: u64) -> Result<Rc<Handle<D>>, Failed> {
        let handle = self.handles.borrow().get(&handle).cloned().ok_or(Errno::BADF)?;
        if handle.file.is_alive() { Ok(handle) } else { Err(IoError::PowerLost.into()) }
    }

    /// The file of a node that the kernel knows.
    fn file(&self, node: u64) -> Result<File<D>, Failed> {
        let known = self.known.borrow().get(&node).map(|known| known.file.clone());
        let open = || {
            let handles = self.handles.borrow();
            handles.values().find(|h| h.node == node).map(|h| h.file.clone())
        };
        let file = known.or_else(open).ok_or(Errno::STALE)?;
        if file.is_alive() { Ok(file) } else { Err(IoError::PowerLost.into()) }
    }

    fn attributes(&self, node: u64, file: Option<&File<D>>) -> Attributes {
        let rights = match file {
            None => self.root.get(),
            Some(file) => self.own.borrow().get(&file.number()).copied().unwrap_or(self.rights),
        };
        let pending = || {
            let handles = self.handles.borrow();
            let own = handles.values().filter(|h| h.node == node);
            own.filter_map(|h| h.pending.borrow().as_ref().map(Pending::end)).max().unwrap_or(0)
        };
        let links = |file: &File<D>| (!self.nameless.borrow().contains(&file.number())).into();
        let size = file.map_or(0, |file| file.size().max(pending()));
        Attributes {
            node,
            size,
            allocated: size,
            mode: rights.mode | if file.is_some() { REGULAR } else { DIRECTORY },
            links: file.map_or(2, links),
            uid: rights.uid,
            gid: rights.gid,
            time: self.made,
            valid: 0,
        }
    }

    /// Answers with a file. That counts as a lookup, until the kernel forgets it.
    fn tell(&self, file: &File<D>, out: &mut Vec<u8>) -> u64 {
        let node = self.node(file);
        wire::entry(out, &self.attributes(node, Some(file)));
        let mut known = self.known.borrow_mut();
        let known = known.entry(node).or_insert_with(|| Known { file: file.clone(), lookups: 0 });
        known.lookups += 1;
        node
    }

    fn open(&self, node: u64, file: File<D>) -> Result<u64, Errno> {
        if self.handles.borrow().len() >= HANDLES_MAX {
            return Err(Errno::NFILE);
        }
        let number = self.next.get();
        self.next.set(number + 1);
        let handle = Rc::new(Handle { node, file, pending: RefCell::default() });
        self.handles.borrow_mut().insert(number, handle);
        Ok(number)
    }

    async fn set(&self, node: u64, new: &NewAttributes) -> Result<Attributes, Failed> {
        let file = if node == wire::ROOT { None } else { Some(self.file(node)?) };
        if new.valid & set::SIZE != 0 {
            file.as_ref().ok_or(Errno::ISDIR)?.truncate(new.size).await?;
        }
        if new.valid & (set::MODE | set::UID | set::GID) != 0 {
            let old = self.attributes(node, file.as_ref());
            let pick = |flag, now, old| if new.valid & flag != 0 { now } else { old };
            let rights = Rights {
                mode: pick(set::MODE, new.mode, old.mode) & PERMISSIONS,
                uid: pick(set::UID, new.uid, old.uid),
                gid: pick(set::GID, new.gid, old.gid),
            };
            match &file {
                None => self.root.set(rights),
                Some(file) => drop(self.own.borrow_mut().insert(file.number(), rights)),
            }
        }
        Ok(self.attributes(node, file.as_ref()))
    }

    async fn write(
        &self,
        handle: &Handle<D>,
        at: u64,
        data: &[u8],
        sync: bool,
    ) -> Result<(), Failed> {
        if let Some(pending) = &mut *handle.pending.borrow_mut() {
            let limit = self.files().group_limit().map_or(0, |limit| limit.bytes);
            pending.bytes += data.len() as u64;
            pending.too_long |=
                pending.bytes > limit || at.checked_add(data.len() as u64).is_none();
            if pending.too_long {
                pending.writes.clear();
            } else {
                pending.writes.push((at, data.to_vec()));
            }
            return Ok(());
        }
        handle.file.write(at, data).await?;
        if sync {
            handle.file.sync().await?;
        }
        Ok(())
    }

    async fn read(&self, handle: &Handle<D>, at: u64, to: &mut [u8]) -> Result<usize, Failed> {
        let mut count = handle.file.read(at, to).await?;
        if let Some(pending) = &*handle.pending.borrow() {
            if pending.too_long {
                return Err(Errno::IO.into());
            }
            for (begin, data) in &pending.writes {
                let from = at.max(*begin);
                let end = (at + to.len() as u64).min(begin + data.len() as u64);
                if from < end {
                    let part = &data[(from - begin) as usize..(end - begin) as usize];
                    to[(from - at) as usize..(end - at) as usize].copy_from_slice(part);
                    count = count.max((end - at) as usize);
                }
            }
        }
        Ok(count)
    }

    /// The limit of transactions, if they are offered.
    fn transactions(&self) -> Option<GroupLimit> {
        self.files().group_limit().filter(|limit| limit.extents > 0)
    }

    /// Whether an aligned page of up to a chunk is all or nothing.
    fn pages_are_atomic(&self) -> bool {
        let files = self.files();
        u64::from(files.device().caps().atomic_unit) >= files.chunk()
    }

    async fn control(
        &self,
        handle: u64,
        (command, input, room): (u32, &[u8], u32),
        out: &mut Vec<u8>,
    ) -> Result<(), Failed> {
        let handle = self.handle(handle)?;
        match command {
            FEATURES if self.transactions().is_some() && room >= 4 => {
                wire::controlled(out, &FEATURE_TRANSACTIONS.to_ne_bytes());
            }
            BEGIN if self.transactions().is_some() => {
                let mut pending = handle.pending.borrow_mut();
                if pending.is_some() {
                    return Err(Errno::INVAL.into());
                }
                *pending = Some(Pending::default());
                wire::controlled(out, &[]);
            }
            COMMIT => {
                let pending = handle.pending.borrow_mut().take().ok_or(Errno::INVAL)?;
                if pending.too_long {
                    return Err(Errno::FBIG.into());
                }
                let writes: Vec<(u64, &[u8])> =
                    pending.writes.iter().map(|(at, data)| (*at, &data[..])).collect();
                handle.file.write_atomic(&writes).await?;
                wire::controlled(out, &[]);
            }
            ABORT => {
                handle.pending.borrow_mut().take();
                wire::controlled(out, &[]);
            }
            PAGES_ATOMIC if self.pages_are_atomic() && input.len() == 4 => {
                wire::controlled(out, &[]);
            }
            _ => return Err(Errno::NOTTY.into()),
        }
        Ok(())
    }

    async fn rename(&self, name: &[u8], new_name: &[u8], flags: u32) -> Result<(), Failed> {
        let files = self.live_files()?;
        match flags {
            0 => {}
            NO_REPLACE if files.exists(new_name) => return Err(Errno::EXIST.into()),
            NO_REPLACE => {}
            _ => return Err(Errno::INVAL.into()),
        }
        let replaced = files.open(new_name).ok().map(|file| file.number());
        let moved = files.open(name)?.number();
        files.rename(name, new_name, Promise::Completed).await?;
        if let Some(number) = replaced.filter(|number| *number != moved) {
            self.lost_name(number);
        }
        Ok(())
    }

    fn list(&self, at: u64, length: u32, out: &mut Vec<u8>) -> Result<(), Failed> {
        let files = self.live_files()?;
        let named = files.list().into_iter().filter_map(|entry| {
            let file = files.open(&entry.name).ok()?;
            Some((file.number() + 3, self.node(&file), false, entry.name))
        });
        // Sorted by number, so that a place in the list stays valid when files come and go.
        let mut all =
            vec![(1, wire::ROOT, true, b".".to_vec()), (2, wire::ROOT, true, b"..".to_vec())];
        all.extend(named);
        all.sort_unstable_by_key(|entry| entry.0);
        for (place, node, directory, name) in all.into_iter().filter(|entry| entry.0 > at) {
            if !wire::directory_entry(out, length as usize, (node, place, directory, &name)) {
                break;
            }
        }
        Ok(())
    }
}

impl<D: BlockDevice + 'static> FileSystem for Directory<D> {
    async fn carry_out(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Result<(), Failed> {
        let node = request.node;
        let flags = open::DIRECT_IO | open::NOFLUSH;
        match request.operation {
            Operation::Read { handle, at, length } => {
                let handle = self.handle(handle)?;
                let begin = out.len();
                let end = begin + length.min(super::connection::LONGEST) as usize;
                lengthen(out, end).map_err(Failure::from)?;
                let count = self.read(&handle, at, &mut out[begin..]).await?;
                out.truncate(begin + count);
            }
            Operation::Write { handle, at, sync, data } => {
                let handle = self.handle(handle)?;
                self.write(&handle, at, data, sync).await?;
                wire::written(out, data.len() as u32);
            }
            Operation::Sync { handle } => self.handle(handle)?.file.sync().await?,
            Operation::SyncDirectory => self.live_files()?.sync_all().await?,
            Operation::Lookup { name } => {
                let file = self.live_files()?.open(name)?;
                self.tell(&file, out);
            }
            Operation::Create { name, mode } => {
                let files = self.live_files()?;
                let file = match files.create(name, Promise::Completed).await {
                    Err(FilesError::Exists(_)) => files.open(name)?,
                    made => {
                        let (file, uid, gid) = (made?, request.uid, request.gid);
                        let rights = Rights { mode: mode & PERMISSIONS, uid, gid };
                        self.own.borrow_mut().insert(file.number(), rights);
                        file
                    }
                };
                let handle = self.open(self.node(&file), file.clone())?;
                self.tell(&file, out);
                wire::opened(out, handle, flags);
            }
            Operation::Open { .. } if node == wire::ROOT => return Err(Errno::ISDIR.into()),
            Operation::Open { .. } => {
                let handle = self.open(node, self.file(node)?)?;
                wire::opened(out, handle, flags);
            }
            Operation::Release { handle } => {
                let released = self.handles.borrow_mut().remove(&handle);
                if let Some(handle) = released {
                    self.let_go(handle.file.number());
                }
            }
            Operation::Unlink { name } => {
                let files = self.live_files()?;
                let number = files.open(name)?.number();
                files.delete(name, Promise::Completed).await?;
                self.lost_name(number);
            }
            Operation::Rename { flags, name, new_name, .. } => {
                self.rename(name, new_name, flags).await?;
            }
            Operation::GetAttributes if node == wire::ROOT => {
                wire::attributes(out, &self.attributes(node, None));
            }
            Operation::GetAttributes => {
                let file = self.file(node)?;
                wire::attributes(out, &self.attributes(node, Some(&file)));
            }
            Operation::SetAttributes(ref new) => wire::attributes(out, &self.set(node, new).await?),
            Operation::Control { handle, command, input, room } => {
                self.control(handle, (command, input, room), out).await?;
            }
            Operation::Statistics => {
                let (files, space) = (self.files(), self.files().space());
                let count = files.list().len() as u64;
                wire::statistics(out, space.chunk as u32, space.chunks, space.free, count);
            }
            Operation::OpenDirectory => wire::opened(out, 0, 0),
            Operation::ReadDirectory { at, length } => self.list(at, length, out)?,
            Operation::Allocate { .. } => return Err(Errno::OPNOTSUPP.into()),
            Operation::Flush | Operation::ReleaseDirectory | Operation::Destroy => {}
            Operation::Special => return Err(Errno::PERM.into()),
            Operation::Forget | Operation::Other => return Err(Errno::NOSYS.into()),
        }
        Ok(())
    }

    fn forget(&self, node: u64, lookups: u64) {
        let mut all = self.known.borrow_mut();
        let Some(known) = all.get_mut(&node) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 {
            let number = known.file.number();
            all.remove(&node);
            drop(all);
            self.let_go(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::{Caps, Payload, PowerCycle, RamDevice, RamOptions};
    use tantalum_files::{FormatOptions, MountOptions};
    use tantalum_rt::Runtime;

    type Shown = Directory<RamDevice>;

    async fn ask(directory: &Shown, node: u64, operation: Operation<'_>) {
        let request = Request { unique: 1, node, uid: 7, gid: 8, operation };
        let done = directory.carry_out(&request, &mut Vec::new()).await;
        assert_eq!(done, Ok(()), "{request:?}");
    }

    /// Makes a file. Returns its node and the handle.
    async fn create(directory: &Shown, name: &[u8]) -> (u64, u64) {
        ask(directory, wire::ROOT, Operation::Create { name, mode: 0o600 }).await;
        let file = directory.files().open(name).expect("it is there");
        (directory.node(&file), directory.next.get() - 1)
    }

    async fn unlink(directory: &Shown, name: &[u8]) {
        ask(directory, wire::ROOT, Operation::Unlink { name }).await;
    }

    /// The numbers of files with an owner of their own, and of files without a name.
    fn kept(directory: &Shown) -> (usize, usize) {
        (directory.own.borrow().len(), directory.nameless.borrow().len())
    }

    #[test]
    fn nothing_is_kept_of_a_file_without_name_and_users() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let done = runtime.block_on(async move {
            let device =
                RamDevice::new(&rt, RamOptions::new(Caps::power_safe(4096, Payload::Bytes)));
            device.power_on().await.expect("power");
            let link = device.device();
            Files::format(&rt, &link, &FormatOptions::default()).await.expect("formatted");
            let files = Files::mount(&rt, link, &MountOptions::default()).await.expect("files");
            let root = Rights { mode: 0o755, uid: 0, gid: 0 };
            let directory = Directory::new(files, root, 0);
            // In turn: the kernel's forget comes last, the close comes last, the loss of the name
            // comes last.
            let (node, handle) = create(&directory, b"a").await;
            unlink(&directory, b"a").await;
            assert_eq!(kept(&directory), (1, 1));
            ask(&directory, node, Operation::Release { handle }).await;
            assert_eq!(kept(&directory), (1, 1));
            directory.forget(node, 1);
            assert_eq!(kept(&directory), (0, 0));
            let (node, handle) = create(&directory, b"b").await;
            unlink(&directory, b"b").await;
            directory.forget(node, 1);
            assert_eq!(kept(&directory), (1, 1));
            ask(&directory, node, Operation::Release { handle }).await;
            assert_eq!(kept(&directory), (0, 0));
            let (node, handle) = create(&directory, b"c").await;
            ask(&directory, node, Operation::Release { handle }).await;
            directory.forget(node, 1);
            assert_eq!(kept(&directory), (1, 0));
            unlink(&directory, b"c").await;
            assert_eq!(kept(&directory), (0, 0));
            // After a restart only files with a name are known.
            create(&directory, b"d").await;
            create(&directory, b"e").await;
            unlink(&directory, b"e").await;
            assert_eq!(kept(&directory), (2, 1));
            device.cut();
            device.power_on().await.expect("power");
            let files = Files::mount(&rt, device.device(), &MountOptions::default()).await;
            directory.renew(files.expect("files"));
            assert_eq!(kept(&directory), (1, 0));
        });
        done.expect("it runs");
    }
}
