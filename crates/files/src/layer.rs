//! The layer as a whole: format, mount, and the directory.

use crate::error::name_of;
use crate::file::File;
use crate::format::FILE_BYTES;
use crate::meta::{Inner, Node};
use crate::state::Change;
use crate::{FilesError, mount};
use std::rc::Rc;
use tantalum_device::{BlockDevice, GroupLimit};
use tantalum_rt::Rt;

/// How a device is formatted.
///
/// See [`Files`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Bytes in a chunk, the unit of allocation: a power of two, no smaller than a
    /// block. An aligned page up to this size is written by one command.
    pub chunk: u32,
    /// Room for the directory in bytes: each file takes 21 and its name.
    pub directory_bytes: u32,
    /// Blocks in each of the two journals: a snapshot is written about every so many changes of the
    /// metadata.
    pub journal_blocks: u32,
}

impl Default for FormatOptions {
    /// Chunks of 64 KiB, 64 KiB for the directory, journals of 256 blocks.
    fn default() -> FormatOptions {
        FormatOptions { chunk: 64 << 10, directory_bytes: 64 << 10, journal_blocks: 256 }
    }
}

/// How a device is used.
///
/// See [`Files`] for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// Whether [`File::sync`] and [`Promise::Durable`] flush the device. Without barriers, they
    /// promise only what the device promises for completed writes. Flushes that keep the metadata
    /// consistent are always sent, on devices that need them.
    pub barriers: bool,
}

impl Default for MountOptions {
    /// With barriers.
    fn default() -> MountOptions {
        MountOptions { barriers: true }
    }
}

/// What a change of the directory promises when it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Promise {
    /// The change has completed on the device.
    #[default]
    Completed,
    /// The change survives any crash; this costs a flush.
    Durable,
}

/// A file in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its size in bytes.
    pub size: u64,
}

/// How full the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes in a chunk.
    pub chunk: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Chunks that no file has.
    pub free: u64,
}

/// A mounted file layer. Cheap to clone; a clone is the same mount.
///
/// ```
/// use tantalum_device::{Ack, Caps, Payload, PowerCycle, RamDevice, RamOptions};
/// use tantalum_files::{Files, FormatOptions, MountOptions, Promise};
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let done = runtime.block_on(async move {
///     let caps = Caps::power_safe(4096, Payload::Bytes);
///     let caps = Caps { ack: Ack::Volatile, ordered: false, ..caps };
///     let ram = RamDevice::new(&rt, RamOptions::new(caps));
///     Files::format(&rt, &ram.device(), &FormatOptions::default()).await?;
///     let files = Files::mount(&rt, ram.device(), &MountOptions::default()).await?;
///     files.create(b"settings", Promise::Durable).await?.write(0, b"old").await?;
///     // The new file takes the place of the old one, or after a crash the old one is there.
///     let new = files.create(b"settings.new", Promise::Completed).await?;
///     new.write(0, b"newer").await?;
///     new.sync().await?;
///     files.rename(b"settings.new", b"settings", Promise::Durable).await?;
///
///     ram.cut();
///     ram.power_on().await?;
///     let files = Files::mount(&rt, ram.device(), &MountOptions::default()).await?;
///     let names = files.list().into_iter().map(|entry| (entry.name, entry.size));
///     assert_eq!(names.collect::<Vec<_>>(), [(b"settings".to_vec(), 5)]);
///     Ok::<(), Box<dyn std::error::Error>>(())
/// });
/// done.unwrap().unwrap();
/// ```
pub struct Files<D> {
    pub(crate) inner: Rc<Inner<D>>,
}

impl<D> Clone for Files<D> {
    fn clone(&self) -> Files<D> {
        Files { inner: self.inner.clone() }
    }
}

impl<D: BlockDevice> Files<D> {
    /// Makes an empty file layer on a device, and overwrites its content. After a crash meanwhile
    /// the device must be formatted again.
    ///
    /// # Errors
    /// [`FilesError::Unsuitable`] if device and options do not fit, and those of the device.
    pub async fn format(rt: &Rt, device: &D, options: &FormatOptions) -> Result<(), FilesError> {
        mount::format(rt, device, options).await
    }

    /// Mounts the files on a device. The power may be cut at any point, any number of times. Only
    /// one mount of a device may be in use at a time.
    ///
    /// # Errors
    /// [`FilesError::NotFormatted`], [`FilesError::Corrupt`],
    /// [`FilesError::Unsuitable`], and those of the device.
    pub async fn mount(rt: &Rt, device: D, options: &MountOptions) -> Result<Files<D>, FilesError> {
        Ok(Files { inner: Rc::new(mount::mount(rt, device, options).await?) })
    }

    /// The device below.
    pub fn device(&self) -> &D {
        &self.inner.device
    }

    /// Bytes in a chunk: aligned pages up to this size are one write of the device.
    pub fn chunk(&self) -> u64 {
        self.inner.layout.chunk_bytes()
    }

    /// The largest group that [`File::write_atomic`] takes, in whole blocks and contiguous pieces
    /// of the device. `None`: groups cannot be promised, because the device takes none, or because
    /// changes that a group depends on could be lost (completed writes do not survive, and flushes
    /// do nothing).
    pub fn group_limit(&self) -> Option<GroupLimit> {
        let caps = self.inner.device.caps();
        caps.atomic_group.filter(|_| caps.ack.survives() || caps.flush)
    }

    /// All files, sorted by name.
    pub fn list(&self) -> Vec<Entry> {
        let (state, nodes) = (self.inner.state.borrow(), self.inner.nodes.borrow());
        let size = |ino: &u64| nodes.get(ino).map_or(0, |n| n.size.get());
        let names = state.names.iter();
        names.map(|(name, ino)| Entry { name: name.to_vec(), size: size(ino) }).collect()
    }

    /// Whether there is a file of that name.
    pub fn exists(&self, name: &[u8]) -> bool {
        self.inner.state.borrow().names.contains_key(name)
    }

    /// How full the device is.
    pub fn space(&self) -> Space {
        let pool = self.inner.pool.borrow();
        Space {
            chunk: self.inner.layout.chunk_bytes(),
            chunks: u64::from(self.inner.layout.chunks),
            free: u64::from(pool.clean()) + u64::from(pool.free()) + u64::from(pool.pending()),
        }
    }

    /// Opens a file that exists.
    ///
    /// # Errors
    /// [`FilesError::NotFound`].
    pub fn open(&self, name: &[u8]) -> Result<File<D>, FilesError> {
        let ino = self.inner.state.borrow().names.get(name).copied();
        let node = ino.and_then(|ino| self.inner.nodes.borrow().get(&ino).cloned());
        let node = node.ok_or_else(|| FilesError::NotFound(name_of(name)))?;
        Ok(File::new(self.clone(), node))
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// [`FilesError::Exists`], [`FilesError::BadName`], [`FilesError::NoSpace`] if
    /// the directory is full, [`FilesError::Poisoned`], and those of the device.
    pub async fn create(&self, name: &[u8], promise: Promise) -> Result<File<D>, FilesError> {
        let inner = &*self.inner;
        inner.check()?;
        check_name(name)?;
        if self.exists(name) {
            return Err(FilesError::Exists(name_of(name)));
        }
        self.directory_room((FILE_BYTES + name.len()) as u64, 0)?;
        let ino = inner.state.borrow().next_ino;
        inner.change(&Change::Create { ino, name })?;
        let node = Rc::new(Node::new(&inner.rt, ino, 0, false));
        inner.nodes.borrow_mut().insert(ino, node.clone());
        let file = File::new(self.clone(), node);
        self.settle(promise).await?;
        Ok(file)
    }

    /// Opens a file; creates it if it does not exist.
    ///
    /// # Errors
    /// Those of [`Files::create`].
    pub async fn open_or_create(&self, name: &[u8]) -> Result<File<D>, FilesError> {
        match self.open(name) {
            Err(FilesError::NotFound(_)) => self.create(name, Promise::Completed).await,
            other => other,
        }
    }

    /// Deletes a file. Open handles keep it, without a name, until the last one is closed; after a
    /// crash it is gone.
    ///
    /// # Errors
    /// [`FilesError::NotFound`], [`FilesError::Poisoned`], and those of the device.
    pub async fn delete(&self, name: &[u8], promise: Promise) -> Result<(), FilesError> {
        self.inner.check()?;
        // The handle keeps the chunks until the change has been committed.
        let file = self.open(name)?;
        self.unlink(&file)?;
        self.settle(promise).await
    }

    /// Renames a file; an existing file of the new name is replaced atomically. The exact size is
    /// recorded with the rename.
    ///
    /// # Errors
    /// [`FilesError::NotFound`], [`FilesError::BadName`], [`FilesError::NoSpace`] if
    /// the directory is full, [`FilesError::Poisoned`], and those of the device.
    pub async fn rename(&self, from: &[u8], to: &[u8], promise: Promise) -> Result<(), FilesError> {
        let inner = &*self.inner;
        check_name(to)?;
        let file = self.open(from)?;
        let _turn = file.node.lock.lock().await;
        inner.check()?;
        let ino = file.node.ino;
        if inner.state.borrow().names.get(from) != Some(&ino) {
            return Err(FilesError::NotFound(name_of(from)));
        }
        let replaced = self.open(to).ok();
        let room = replaced.as_ref().map_or(0, |_| FILE_BYTES + to.len());
        self.directory_room(to.len() as u64, (from.len() + room) as u64)?;
        if from != to {
            if let Some(old) = &replaced {
                self.unlink(old)?;
            }
            inner.change(&Change::Rename { ino, name: to })?;
        }
        file.record_size()?;
        self.settle(promise).await
    }

    /// Makes all earlier changes of the directory, and all earlier writes, durable.
    ///
    /// # Errors
    /// [`FilesError::Poisoned`], and those of the device.
    pub async fn sync_all(&self) -> Result<(), FilesError> {
        self.settle(Promise::Durable).await
    }

    fn unlink(&self, file: &File<D>) -> Result<(), FilesError> {
        let ino = file.node.ino;
        self.inner.change(&Change::Delete { ino })?;
        self.inner.nodes.borrow_mut().remove(&ino);
        Ok(())
    }

    async fn settle(&self, promise: Promise) -> Result<(), FilesError> {
        self.inner.commit().await?;
        match promise {
            Promise::Durable if self.inner.barriers => self.inner.flush().await,
            _ => Ok(()),
        }
    }

    fn directory_room(&self, more: u64, less: u64) -> Result<(), FilesError> {
        let used = self.inner.state.borrow().directory_bytes;
        if used + more > u64::from(self.inner.layout.directory_bytes) + less {
            return Err(FilesError::NoSpace("the directory is full"));
        }
        Ok(())
    }
}

fn check_name(name: &[u8]) -> Result<(), FilesError> {
    match name.len() {
        0 => Err(FilesError::BadName("it is empty")),
        1..=255 if name.contains(&0) => Err(FilesError::BadName("it contains a NUL")),
        1..=255 => Ok(()),
        _ => Err(FilesError::BadName("it is longer than 255 bytes")),
    }
}
