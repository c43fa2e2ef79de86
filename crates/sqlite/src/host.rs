//! The file layer below a guest, without the type of the device: synchronous calls that park the
//! guest.

use crate::context::Ctx;
use crate::error::Fail;
use libsqlite3_sys as ffi;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_files::{File, Files, FilesError, Promise};

/// The directory.
pub(crate) trait Host {
    fn open(&self, ctx: &Ctx, name: &[u8], how: Open) -> Result<Rc<dyn HostFile>, Fail>;
    /// A new file without a name, which is deleted when it is closed.
    fn temporary(&self, ctx: &Ctx) -> Result<Rc<dyn HostFile>, Fail>;
    fn delete(&self, ctx: &Ctx, name: &[u8], durable: bool) -> Result<(), Fail>;
    /// The size of a file, if it exists.
    fn size_of(&self, name: &[u8]) -> Option<u64>;
    /// The number of the file with this name.
    fn number_of(&self, name: &[u8]) -> Option<u64>;
}

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    Existing,
    Create,
    CreateNew,
}

/// An open file.
pub(crate) trait HostFile {
    fn read(&self, ctx: &Ctx, offset: u64, to: &mut [u8]) -> Result<usize, Fail>;
    fn write(&self, ctx: &Ctx, offset: u64, data: &[u8]) -> Result<(), Fail>;
    /// Writes all ranges or none; they are durable when it returns.
    fn write_atomic(&self, ctx: &Ctx, ranges: &[(u64, &[u8])]) -> Result<(), Fail>;
    fn truncate(&self, ctx: &Ctx, size: u64) -> Result<(), Fail>;
    fn sync(&self, ctx: &Ctx) -> Result<(), Fail>;
    fn size(&self) -> u64;
    /// The number of the file, independent of its name. (Files in memory have 0.)
    fn number(&self) -> u64;
}

pub(crate) struct FilesHost<D: BlockDevice> {
    pub files: Files<D>,
    temporaries: Cell<u64>,
}

impl<D: BlockDevice> FilesHost<D> {
    pub fn new(files: Files<D>) -> FilesHost<D> {
        FilesHost { files, temporaries: Cell::new(0) }
    }
}

impl<D: BlockDevice + 'static> Host for FilesHost<D> {
    fn open(&self, ctx: &Ctx, name: &[u8], how: Open) -> Result<Rc<dyn HostFile>, Fail> {
        let file = match (self.files.open(name), how) {
            (Ok(_), Open::CreateNew) => return Err(Fail::Code(ffi::SQLITE_CANTOPEN)),
            (Err(FilesError::NotFound(_)), Open::Create | Open::CreateNew) => {
                ctx.wait(self.files.create(name, Promise::Completed))??
            }
            (other, _) => other?,
        };
        Ok(Rc::new(file))
    }

    fn temporary(&self, ctx: &Ctx) -> Result<Rc<dyn HostFile>, Fail> {
        loop {
            let number = self.temporaries.get();
            self.temporaries.set(number + 1);
            let name = format!("temporary-{number}");
            match ctx.wait(self.files.create(name.as_bytes(), Promise::Completed))? {
                Ok(file) => {
                    // The deleted file exists while it is open, and is gone after a crash.
                    ctx.wait(self.files.delete(name.as_bytes(), Promise::Completed))??;
                    return Ok(Rc::new(file));
                }
                Err(FilesError::Exists(_)) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn delete(&self, ctx: &Ctx, name: &[u8], durable: bool) -> Result<(), Fail> {
        let promise = if durable { Promise::Durable } else { Promise::Completed };
        match ctx.wait(self.files.delete(name, promise))? {
            Err(FilesError::NotFound(_)) => Err(Fail::Code(ffi::SQLITE_IOERR_DELETE_NOENT)),
            other => Ok(other?),
        }
    }

    fn size_of(&self, name: &[u8]) -> Option<u64> {
        Some(self.files.open(name).ok()?.size())
    }

    fn number_of(&self, name: &[u8]) -> Option<u64> {
        Some(self.files.open(name).ok()?.number())
    }
}

impl<D: BlockDevice> HostFile for File<D> {
    fn read(&self, ctx: &Ctx, offset: u64, to: &mut [u8]) -> Result<usize, Fail> {
        Ok(ctx.wait(File::read(self, offset, to))??)
    }

    fn write(&self, ctx: &Ctx, offset: u64, data: &[u8]) -> Result<(), Fail> {
        Ok(ctx.wait(File::write(self, offset, data))??)
    }

    fn write_atomic(&self, ctx: &Ctx, ranges: &[(u64, &[u8])]) -> Result<(), Fail> {
        Ok(ctx.wait(File::write_atomic(self, ranges))??)
    }

    fn truncate(&self, ctx: &Ctx, size: u64) -> Result<(), Fail> {
        Ok(ctx.wait(File::truncate(self, size))??)
    }

    /// After a crash SQLite does not rely on the size of a file: a database has its number of pages
    /// in its header, and a journal or log ends at the first incomplete record. Zeros after the end
    /// do no harm, so the exact size need not be recorded with every sync.
    fn sync(&self, ctx: &Ctx) -> Result<(), Fail> {
        Ok(ctx.wait(self.sync_data())??)
    }

    fn size(&self) -> u64 {
        File::size(self)
    }

    fn number(&self) -> u64 {
        File::number(self)
    }
}

/// A temporary file in memory.
#[derive(Default)]
pub(crate) struct MemoryFile {
    bytes: RefCell<Vec<u8>>,
}

impl HostFile for MemoryFile {
    fn read(&self, _: &Ctx, offset: u64, to: &mut [u8]) -> Result<usize, Fail> {
        let bytes = self.bytes.borrow();
        let there = usize::try_from(offset).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
        let count = there.len().min(to.len());
        to[..count].copy_from_slice(&there[..count]);
        Ok(count)
    }

    fn write(&self, _: &Ctx, offset: u64, data: &[u8]) -> Result<(), Fail> {
        let end = usize::try_from(offset).ok().and_then(|at| at.checked_add(data.len()));
        let end = end.ok_or(Fail::Code(ffi::SQLITE_FULL))?;
        let mut bytes = self.bytes.borrow_mut();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[end - data.len()..end].copy_from_slice(data);
        Ok(())
    }

    /// Never called: only databases on the file layer use groups.
    fn write_atomic(&self, _: &Ctx, _: &[(u64, &[u8])]) -> Result<(), Fail> {
        Err(Fail::Code(ffi::SQLITE_IOERR_COMMIT_ATOMIC))
    }

    fn truncate(&self, _: &Ctx, size: u64) -> Result<(), Fail> {
        let size = usize::try_from(size).map_err(|_| Fail::Code(ffi::SQLITE_FULL))?;
        self.bytes.borrow_mut().resize(size, 0);
        Ok(())
    }

    fn sync(&self, _: &Ctx) -> Result<(), Fail> {
        Ok(())
    }

    fn size(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }

    fn number(&self) -> u64 {
        0
    }
}
