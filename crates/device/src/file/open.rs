//! Files and block devices: made, opened, locked.
//!
//! 1. One owner at a time: the lock is taken before anything is written, and held until the last
//!    operation has ended. A block device that the kernel uses is refused. A loop device takes the
//!    lock of its file, too, and a file under a loop device is refused.
//! 2. A new file holds zeros that were written and synced, and its directory was synced. A file
//!    that could not be finished is removed.
//! 3. Writing and syncing have an open file each: the kernel reports an error of writing back once
//!    to each open file, and a durable write must not use up the report that a flush has to see.
#![allow(clippy::disallowed_methods, reason = "the edge at which a device gets a file")]

use super::length::Promised;
use super::pool::Pool;
use super::storage::{self, SYS};
use super::{Blank, CHUNK, File, FileError, FileSettings, Inner, Life};
use crate::{Ack, Caps, Link, Payload};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::fs::{File as Owner, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tantalum_rt::sync::{Mutex, WaitQueue};
use tantalum_rt::wall::{
    AlignedBuf, AtomicWrites, DirectIo, FileOptions, Io, IoFile, Space, Storage, StorageKind,
    WriteOptions,
};
use tantalum_rt::{FileLockError, Rt, join_all, lock_file};

/// The mode of a new file: its user's alone.
const PRIVATE: u32 = 0o600;
/// The smallest sector that a disk has.
const SECTOR: u32 = 512;
/// The block where the kernel does not say which one direct I/O needs.
const USUAL: u32 = 4096;
/// Writes of zeros that are under way at a time.
const DEPTH: usize = 4;

fn system(path: &Path, what: &'static str) -> impl Fn(io::Error) -> FileError {
    move |source| FileError::System { path: path.to_path_buf(), what, source }
}

fn io_of(rt: &Rt) -> Result<Io, FileError> {
    rt.io().ok_or(FileError::VirtualClock)
}

/// Takes an open file for this owner.
fn own(file: &Owner, path: &Path) -> Result<(), FileError> {
    lock(file, path, true)
}

fn lock(file: &Owner, path: &Path, alone: bool) -> Result<(), FileError> {
    lock_file(file, alone).map_err(|e| match e {
        FileLockError::InUse => FileError::InUse(path.to_path_buf()),
        FileLockError::System(e) => system(path, "it cannot be locked")(e),
    })
}

/// Refuses a file that a loop device is over. One that was detached a moment ago may still be there.
fn refuse_under_loop(path: &Path) -> Result<(), FileError> {
    let mut tries = 10;
    while let Some(device) = storage::loop_over(path, Path::new(SYS)) {
        if tries == 0 {
            return Err(FileError::UnderLoop { path: path.to_path_buf(), device });
        }
        tries -= 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Takes the files under a loop device for its owner; partitions of it share them.
fn own_under(owner: &Owner, path: &Path) -> Result<Vec<Owner>, FileError> {
    let (is, sys) = (owner.metadata(), Path::new(SYS));
    let is = is.map_err(system(path, "it cannot be looked at"))?;
    let disk = storage::Storage::of(&is, sys);
    // (What is gone, or not this user's to open, has no lock.)
    let there = disk.files(sys).filter_map(|under| Owner::open(&under).ok());
    let alone = !disk.is_partition();
    there.map(|file| lock(&file, path, alone).map(|()| file)).collect()
}

/// One of the two open files of a life.
fn open_one(io: &Io, path: &Path, settings: &FileSettings) -> Result<IoFile, FileError> {
    let direct = !settings.buffered;
    let options = FileOptions { write: !settings.read_only, create: false, direct };
    io.open(path, options).map_err(|e| match Errno::from_io_error(&e) {
        Some(Errno::INVAL) if direct => FileError::NoDirectIo(path.to_path_buf()),
        _ => system(path, "it cannot be opened")(e),
    })
}

/// What a device over this storage promises.
fn caps(path: &Path, storage: &Storage, settings: &FileSettings) -> Result<Caps, FileError> {
    let path = || path.to_path_buf();
    if storage.kind == StorageKind::Other {
        return Err(FileError::NoStorage(path()));
    }
    let is_file = storage.kind == StorageKind::File;
    let least = match storage.direct {
        _ if settings.buffered => storage.logical_block.unwrap_or(SECTOR),
        DirectIo::None => return Err(FileError::NoDirectIo(path())),
        DirectIo::Aligned { memory, .. } if memory > 4096 => {
            return Err(FileError::NoDirectIo(path()));
        }
        DirectIo::Aligned { offset, .. } => offset.max(SECTOR),
        DirectIo::Unknown => storage.logical_block.unwrap_or(SECTOR),
    };
    let usual = match storage.direct {
        DirectIo::Unknown | DirectIo::None if is_file => USUAL.max(least),
        _ => least,
    };
    let (block_size, most) = (settings.block_size.unwrap_or(usual), CHUNK as u32);
    if !block_size.is_power_of_two() || block_size < least || block_size > most {
        return Err(FileError::BlockSize { path: path(), block_size, least, most });
    }
    let bytes = storage.bytes;
    if bytes == 0 || !bytes.is_multiple_of(block_size.into()) {
        return Err(FileError::Length { path: path(), bytes, block_size });
    }
    Ok(Caps {
        block_size,
        blocks: bytes / u64::from(block_size),
        thin: is_file && !settings.read_only && !(settings.keep_room && storage.allocated >= bytes),
        ack: Ack::Volatile,
        flush: true,
        ordered: false,
        atomic_unit: match atomic_writes(storage, settings, block_size) {
            Some(_) => block_size,
            None if settings.buffered => 1,
            None => sector(storage).min(block_size),
        },
        atomic_group: None,
        payload: Payload::Bytes,
    })
}

/// Bytes that direct I/O does not tear, as far as that is known: at least one.
fn sector(storage: &Storage) -> u32 {
    match (storage.logical_block, storage.direct) {
        (Some(sector), _) => sector,
        (None, DirectIo::Aligned { .. }) => SECTOR,
        (None, _) => 1,
    }
}

/// The kernel's atomic writes, if it has them for a block that is larger than a sector.
fn atomic_writes(
    storage: &Storage,
    settings: &FileSettings,
    block_size: u32,
) -> Option<AtomicWrites> {
    let offers = |a: &AtomicWrites| a.min <= block_size && block_size <= a.max;
    let helps = !settings.buffered && block_size > sector(storage);
    storage.atomic.filter(|a| helps && offers(a))
}

impl File {
    /// Makes a file of `bytes` zeros, which are written and synced, and opens it. The file is
    /// readable and writable by its user alone. Dropping this future early removes the file.
    ///
    /// # Errors
    /// [`FileError`]. Nothing is left of a file that could not be made; one that is there already
    /// is left alone.
    pub async fn create(
        rt: &Rt,
        path: impl AsRef<Path>,
        bytes: u64,
        settings: &FileSettings,
    ) -> Result<File, FileError> {
        let path = path.as_ref();
        let io = io_of(rt)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(PRIVATE);
        let owner = options.open(path).map_err(system(path, "it cannot be made"))?;
        let mut unfinished = Unfinished(Some(path.to_path_buf()));
        own(&owner, path)?;
        owner.set_len(bytes).map_err(system(path, "it cannot be given its length"))?;
        let setup = FileSettings { read_only: false, ..settings.clone() };
        let file = open_one(&io, path, &setup)?;
        let storage = file.storage().map_err(system(path, "it cannot be looked at"))?;
        caps(path, &storage, settings)?;
        write_zeros(&file, bytes).await.map_err(system(path, "zeros cannot be written to it"))?;
        let synced = owner.sync_all().and_then(|()| sync_directory(path));
        synced.map_err(system(path, "it cannot be synced"))?;
        let made = File::over(rt, io, (owner, Vec::new()), path, settings)?;
        unfinished.0 = None;
        Ok(made)
    }

    /// Opens a regular file or a block device, with its power on. The call holds up the thread,
    /// for up to half a second if somebody else has the file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(
        rt: &Rt,
        path: impl AsRef<Path>,
        settings: &FileSettings,
    ) -> Result<File, FileError> {
        let path = path.as_ref();
        let io = io_of(rt)?;
        let found = std::fs::metadata(path).map_err(system(path, "it cannot be opened"))?;
        let kind = found.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(FileError::NoStorage(path.to_path_buf()));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(!settings.read_only);
        if kind.is_block_device() {
            options.custom_flags(OFlags::EXCL.bits() as i32);
        }
        let owner = options.open(path).map_err(|e| match Errno::from_io_error(&e) {
            // Another owner has claimed it, too.
            Some(Errno::BUSY) => match Owner::open(path).map(|file| own(&file, path)) {
                Ok(Err(e)) => e,
                _ => FileError::Claimed(path.to_path_buf()),
            },
            _ => system(path, "it cannot be opened")(e),
        })?;
        if kind.is_file() {
            refuse_under_loop(path)?;
        }
        own(&owner, path)?;
        let under = if kind.is_file() { Vec::new() } else { own_under(&owner, path)? };
        File::over(rt, io, (owner, under), path, settings)
    }

    fn over(
        rt: &Rt,
        io: Io,
        (owner, under): (Owner, Vec<Owner>),
        path: &Path,
        settings: &FileSettings,
    ) -> Result<File, FileError> {
        let owner = io.file(owner.into(), false);
        let storage = owner.storage().map_err(system(path, "it cannot be looked at"))?;
        let caps = caps(path, &storage, settings)?;
        let inner = Rc::new(Inner {
            rt: rt.clone(),
            io,
            path: path.to_path_buf(),
            settings: settings.clone(),
            promised: Promised::new(caps),
            length: Mutex::new(rt, "another length of the file"),
            atomic: atomic_writes(&storage, settings, caps.block_size),
            identity: storage.identity,
            is_file: storage.kind == StorageKind::File,
            owner,
            _under: under,
            pool: Pool::new(rt, settings.memory()),
            blank: Cell::new(if settings.keep_room { Blank::Zero } else { Blank::Punch }),
            life: RefCell::default(),
            cuts: Cell::new(0),
            under_way: Cell::new(0),
            idle: WaitQueue::new(rt, "the file's operations under way"),
        });
        let life = inner.start()?;
        *inner.life.borrow_mut() = Some(life.clone());
        Ok(File { inner, life: Some(life) })
    }
}

impl Inner {
    /// What a device has while it has power.
    pub(super) fn start(&self) -> Result<Rc<Life>, FileError> {
        let open = || {
            let file = open_one(&self.io, &self.path, &self.settings)?;
            let storage = file.storage().map_err(system(&self.path, "it cannot be looked at"))?;
            let is = (storage.identity, storage.bytes);
            match is == (self.identity, self.caps().bytes()) {
                true => Ok(file),
                false => Err(FileError::Replaced(self.path.clone())),
            }
        };
        Ok(Rc::new(Life {
            link: Link::new(&self.rt),
            data: open()?.under_lock_of(&self.owner),
            sync: open()?.under_lock_of(&self.owner),
            fate: Arc::default(),
            syncing: Cell::new(false),
            begun: Cell::new(0),
            ended: Cell::new(0),
            synced: WaitQueue::new(&self.rt, "a sync of the file"),
        }))
    }
}

/// A file that is removed unless it is finished.
struct Unfinished(Option<PathBuf>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // If it cannot be removed, the error that is already reported says enough.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Room first, so that a full file system is found at once.
async fn write_zeros(file: &IoFile, bytes: u64) -> io::Result<()> {
    super::error::check_room(file, bytes)?;
    match file.allocate(Space::Reserve, 0, bytes).await {
        Err(e) if e.kind() != io::ErrorKind::Unsupported => return Err(e),
        _ => {}
    }
    let chunk = CHUNK as u64;
    let lanes = (0..DEPTH as u64).map(|lane| async move {
        let mut zeros = AlignedBuf::zeroed(CHUNK);
        let mut at = lane * chunk;
        while at < bytes {
            zeros.set_len(chunk.min(bytes - at) as usize);
            let (result, buf) = file.write_with(zeros, at, WriteOptions::default()).await;
            result?;
            (zeros, at) = (buf, at + DEPTH as u64 * chunk);
        }
        Ok(())
    });
    join_all(lanes.collect()).await.into_iter().collect()
}

/// A new file survives a crash of the host when its directory has its name.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    Owner::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage() -> Storage {
        Storage {
            kind: StorageKind::File,
            identity: (0, 1),
            bytes: 1 << 20,
            allocated: 1 << 20,
            direct: DirectIo::Aligned { memory: 4, offset: 512 },
            logical_block: None,
            preferred_block: 4096,
            atomic: None,
        }
    }

    fn promise(storage: Storage, settings: &FileSettings) -> Result<Caps, FileError> {
        caps(Path::new("x"), &storage, settings)
    }

    #[test]
    fn blocks_are_what_the_kernel_needs_or_what_is_asked_for_if_that_can_be() {
        let of = |direct, logical_block, block_size, buffered| {
            let kind = match logical_block {
                Some(_) => StorageKind::BlockDevice,
                None => StorageKind::File,
            };
            let settings = FileSettings { block_size, buffered, ..FileSettings::default() };
            let storage = Storage { direct, logical_block, kind, ..storage() };
            promise(storage, &settings).map(|c| c.block_size).map_err(|e| e.to_string())
        };
        let aligned = |offset| DirectIo::Aligned { memory: 4, offset };
        assert_eq!(of(aligned(512), None, None, false), Ok(512));
        assert_eq!(of(aligned(4096), None, None, false), Ok(4096));
        assert_eq!(of(DirectIo::Unknown, None, None, false), Ok(4096));
        assert_eq!(of(DirectIo::Unknown, Some(512), None, false), Ok(512));
        assert_eq!(of(DirectIo::None, None, None, true), Ok(4096));
        assert_eq!(of(aligned(512), None, Some(16_384), false), Ok(16_384));
        for (direct, block) in
            [(aligned(4096), 512), (aligned(512), 256), (aligned(512), 1000), (aligned(1), 1 << 21)]
        {
            let refused = of(direct, None, Some(block), false).unwrap_err();
            assert!(refused.contains(&format!("blocks of {block} bytes")), "{refused}");
        }
        assert!(of(DirectIo::None, None, None, false).unwrap_err().contains("no direct I/O"));
    }

    #[test]
    fn an_atomic_unit_is_promised_only_where_it_is_known() {
        let of = |atomic, logical_block, direct, block_size, buffered| {
            let block_size = Some(block_size);
            let settings = FileSettings { block_size, buffered, ..FileSettings::default() };
            let kind = match logical_block {
                Some(_) => StorageKind::BlockDevice,
                None => StorageKind::File,
            };
            let storage = Storage { atomic, logical_block, direct, kind, ..storage() };
            promise(storage, &settings).unwrap().atomic_unit
        };
        let direct = DirectIo::Aligned { memory: 4, offset: 512 };
        let offered = Some(AtomicWrites { min: 4096, max: 65_536 });
        assert_eq!(of(None, None, direct, 4096, false), 512, "a file on a disk: a sector");
        assert_eq!(of(None, Some(4096), direct, 16_384, false), 4096, "a disk: its sector");
        assert_eq!(of(None, None, DirectIo::Unknown, 4096, false), 1, "nothing is known");
        assert_eq!(of(None, None, direct, 4096, true), 1, "through the page cache nothing is");
        assert_eq!(of(offered, None, direct, 16_384, false), 16_384, "offered by the kernel");
        assert_eq!(of(offered, None, direct, 131_072, false), 512, "not in blocks so large");
        assert_eq!(of(offered, None, direct, 512, false), 512, "nor so small");
        assert_eq!(of(offered, None, direct, 16_384, true), 1);
        let sectors = atomic_writes(
            &Storage { atomic: offered, logical_block: Some(4096), ..storage() },
            &FileSettings::default(),
            4096,
        );
        assert_eq!(sectors, None, "a sector needs no help");
    }

    #[test]
    fn a_file_that_gives_room_back_may_lack_it_later_and_a_block_device_may_not() {
        let thin = |kind, keep_room| {
            let settings = FileSettings { keep_room, ..FileSettings::default() };
            promise(Storage { kind, ..storage() }, &settings).unwrap().thin
        };
        assert!(thin(StorageKind::File, false));
        assert!(!thin(StorageKind::File, true) && !thin(StorageKind::BlockDevice, false));
        let settings = FileSettings { keep_room: true, ..FileSettings::default() };
        let holes = Storage { allocated: (1 << 20) - 512, ..storage() };
        assert!(promise(holes, &settings).unwrap().thin, "what is a hole has no room to keep");
        let other =
            promise(Storage { kind: StorageKind::Other, ..storage() }, &FileSettings::default());
        assert!(matches!(other, Err(FileError::NoStorage(_))));
    }
}
