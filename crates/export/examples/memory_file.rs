//! A minimal FUSE file with direct I/O: bytes in memory, served by the `fuser` crate.
//! `scripts/bench-mount` compares the file of a drive with it.
//!
//! `memory_file DIR BYTES` mounts it at DIR as `drive`, prints "ready", and ends at the unmount.

#![allow(clippy::disallowed_types, reason = "the crate's times are the system's")]

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

const FILE: INodeNo = INodeNo(2);
const VALID: Duration = Duration::from_secs(3600);

struct Memory(Mutex<Vec<u8>>);

impl Memory {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let file = ino == FILE;
        let size = if file { self.bytes().len() as u64 } else { 0 };
        FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if file { FileType::RegularFile } else { FileType::Directory },
            perm: if file { 0o600 } else { 0o755 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Memory {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES);
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(128);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == "drive" {
            true => reply.entry(&VALID, &self.attributes(FILE), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&VALID, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(1), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let bytes = self.bytes();
        let from = (offset as usize).min(bytes.len());
        let to = (from + size as usize).min(bytes.len());
        reply.data(&bytes[from..to]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.bytes().get_mut(offset as usize..).and_then(|b| b.get_mut(..data.len())) {
            Some(room) => room.copy_from_slice(data),
            None => return reply.error(Errno::ENOSPC),
        }
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        match self.bytes().get_mut(offset as usize..).and_then(|b| b.get_mut(..length as usize)) {
            Some(range) => range.fill(0),
            None => return reply.error(Errno::ENOSPC),
        }
        reply.ok();
    }
}

#[allow(clippy::disallowed_methods, reason = "a program with arguments")]
fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, dir, bytes] = &arguments[..] else {
        return Err(io::Error::other("give a directory and a length"));
    };
    let bytes = bytes.parse().map_err(io::Error::other)?;
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("memory".to_string())];
    let session = Session::new(Memory(Mutex::new(vec![0; bytes])), dir, &config)?;
    println!("ready");
    session.run()
}
