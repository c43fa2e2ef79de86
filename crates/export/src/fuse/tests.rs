//! A kernel that sends whatever a test wants, over a socket pair that keeps messages apart.

#![allow(clippy::disallowed_methods, reason = "the kernel is another thread")]

use super::connection::{Connection, ROOM};
use super::session::{Failed, FileSystem, LIMIT, Session};
use super::wire::{IN_HEADER_BYTES, Put, ROOT, Request, fallocate, init, set};
use super::{ABORT, BEGIN, COMMIT, Directory, FEATURES, PAGES_ATOMIC};
use super::{End, OneFile, Rights, Served};
use crate::Volume;
use crate::budget::NoMemory;
use crate::nbd::OnCut;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Caps, CommandKind, GroupLimit, Payload, PowerCycle, RamDevice, RamOptions};
use tantalum_device::{DeviceStats, Stats};
use tantalum_files::{Files, FormatOptions, MountOptions};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::wall::WallOptions;
use tantalum_rt::{Nanos, Runtime};

const LOOKUP: u32 = 1;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const FSYNC: u32 = 20;
const HELLO: u32 = 26;
const READDIR: u32 = 28;
const UNLINK: u32 = 10;
const RENAME: u32 = 45;
const RELEASE: u32 = 18;
const CREATE: u32 = 35;
const IOCTL: u32 = 39;
const FALLOCATE: u32 = 43;
const FILE: u64 = 2;
const BLOCKS: u64 = 1024;
/// Bytes of the longest write and read here. A message of that length fits a socket pair of any
/// user. (`net.core.wmem_max` is 212,992 by default, and the kernel doubles the value that it is
/// given.)
const LONG: usize = 256 << 10;
const SEND_BUFFER: usize = 212_992;

/// The kernel's end of the connection.
struct Kernel {
    fd: OwnedFd,
    unique: u64,
    /// The user and group of requests.
    who: (u32, u32),
}

impl Kernel {
    fn send(&mut self, opcode: u32, node: u64, body: &[u8]) {
        self.unique += 1;
        let mut bytes = Vec::new();
        bytes.u32((IN_HEADER_BYTES + body.len()) as u32);
        bytes.u32(opcode);
        bytes.u64(self.unique);
        bytes.u64(node);
        bytes.u32(self.who.0);
        bytes.u32(self.who.1);
        bytes.u64(0);
        bytes.extend_from_slice(body);
        match rustix::net::send(&self.fd, &bytes, rustix::net::SendFlags::NOSIGNAL) {
            // The other end may be gone. Then no answer comes either.
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {}
            sent => assert_eq!(sent, Ok(bytes.len())),
        }
    }

    /// The next answer: the number of its request, its error, its body. `None` at the end.
    fn answer(&mut self) -> Option<(u64, i32, Vec<u8>)> {
        let mut bytes = vec![0; 2 << 20];
        let count = rustix::io::read(&self.fd, &mut bytes).unwrap_or(0);
        bytes.truncate(count);
        let head = bytes.first_chunk::<16>()?;
        assert_eq!(u32::from_ne_bytes(*head[..4].first_chunk()?) as usize, count);
        let error = i32::from_ne_bytes(*head[4..].first_chunk()?);
        Some((u64::from_ne_bytes(*head[8..].first_chunk()?), error, bytes[16..].to_vec()))
    }

    /// Sends a request, and waits for the answer.
    fn ask(&mut self, opcode: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, Errno> {
        self.send(opcode, node, body);
        let (unique, error, body) = self.answer().ok_or(Errno::NODEV)?;
        assert_eq!(unique, self.unique);
        if error == 0 { Ok(body) } else { Err(Errno::from_raw_os_error(-error)) }
    }

    fn open(&mut self) -> Result<u64, Errno> {
        let body = self.ask(OPEN, FILE, &[0; 8])?;
        Ok(u64::from_ne_bytes(*body.first_chunk().expect("a handle")))
    }

    /// Makes a file. Returns its node and the handle.
    fn create(&mut self, name: &[u8]) -> Result<(u64, u64), Errno> {
        let mut body = Vec::new();
        // Flags, mode, umask, flags.
        for value in [0, 0o100640, 0o027, 0] {
            body.u32(value);
        }
        let told = self.ask(CREATE, ROOT, &[&body, name, b"\0"].concat())?;
        let number = |at: usize| u64::from_ne_bytes(*told[at..].first_chunk().expect("a number"));
        Ok((number(0), number(128)))
    }

    fn lookup(&mut self, name: &[u8]) -> Result<u64, Errno> {
        let told = self.ask(LOOKUP, ROOT, &[name, b"\0"].concat())?;
        Ok(u64::from_ne_bytes(*told.first_chunk().expect("a number")))
    }

    fn size(&mut self, node: u64) -> Result<u64, Errno> {
        let told = self.ask(GETATTR, node, &[0; 16])?;
        Ok(u64::from_ne_bytes(*told[24..].first_chunk().expect("a size")))
    }

    /// The number of its names.
    fn links(&mut self, node: u64) -> Result<u32, Errno> {
        let told = self.ask(GETATTR, node, &[0; 16])?;
        Ok(u32::from_ne_bytes(*told[80..].first_chunk().expect("a number")))
    }

    /// Mode, user and group.
    fn rights(&mut self, node: u64) -> Result<(u32, u32, u32), Errno> {
        let told = self.ask(GETATTR, node, &[0; 16])?;
        let number = |at: usize| u32::from_ne_bytes(*told[at..].first_chunk().expect("a number"));
        Ok((number(76), number(84), number(88)))
    }

    /// Changes the attributes of a file that `valid` names.
    fn change(&mut self, node: u64, valid: u32, (mode, uid, gid): (u32, u32, u32)) {
        let mut body = Vec::new();
        body.u32(valid);
        body.extend_from_slice(&[0; 64]);
        for value in [mode, 0, uid, gid, 0] {
            body.u32(value);
        }
        assert!(self.ask(SETATTR, node, &body).is_ok());
    }

    /// The output of an ioctl.
    fn control(&mut self, handle: u64, command: u32, input: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut body = Vec::new();
        body.u64(handle);
        body.u32(0);
        body.u32(command);
        body.u64(0);
        body.u32(input.len() as u32);
        body.u32(4);
        body.extend_from_slice(input);
        let told = self.ask(IOCTL, FILE, &body)?;
        assert_eq!(told[..16], [0; 16]);
        Ok(told[16..].to_vec())
    }

    fn write(&mut self, handle: u64, at: u64, sync: bool, data: &[u8]) -> Result<u32, Errno> {
        let told = self.ask(WRITE, FILE, &write(handle, at, sync, data))?;
        Ok(u32::from_ne_bytes(*told.first_chunk().expect("a count")))
    }

    fn read(&mut self, handle: u64, at: u64, length: u32) -> Result<Vec<u8>, Errno> {
        self.ask(READ, FILE, &numbers(&[handle, at, length.into(), 0, 0]))
    }
}

/// The body of a write.
fn write(handle: u64, at: u64, sync: bool, data: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.u64(handle);
    body.u64(at);
    body.u32(data.len() as u32);
    body.u32(0);
    body.u64(0);
    body.u32(if sync { 0o10000 } else { 0 });
    body.u32(0);
    body.extend_from_slice(data);
    body
}

fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// The body of a first request.
fn hello() -> Vec<u8> {
    let mut body = Vec::new();
    body.u32(7);
    body.u32(45);
    body.u32(1 << 17);
    body.u32((init::EXT | init::ASYNC_DIO | init::MAX_PAGES) as u32);
    body.u32((init::DIRECT_IO_ALLOW_MMAP >> 32) as u32);
    body.extend_from_slice(&[0; 44]);
    body
}

/// The rights of the served directory.
const ROOT_RIGHTS: Rights = Rights { mode: 0o750, uid: 33, gid: 34 };

/// A device with groups of up to 150 KiB in three extents, and an atomic unit of 16 KiB. With
/// `files` the device has this atomic unit instead, four times the blocks, and groups only if the
/// unit is more than a block.
fn device(rt: &tantalum_rt::Rt, files: Option<u32>) -> RamDevice {
    let mut caps =
        Caps::power_safe(if files.is_some() { 4 * BLOCKS } else { BLOCKS }, Payload::Bytes);
    caps.atomic_unit = files.unwrap_or(16 << 10);
    let limit = GroupLimit { extents: 3, bytes: 150 << 10 };
    caps.atomic_group = (caps.atomic_unit > 4096).then_some(limit);
    RamDevice::new(rt, RamOptions::new(caps))
}

/// A command to the test's runtime.
#[derive(PartialEq, Eq)]
enum Power {
    Cut,
    Restore,
}

/// Serves a device to a kernel that has had its first answer. Returns how the session ended, and
/// the device's counters.
fn with_kernel(
    on_cut: OnCut,
    body: impl FnOnce(&mut Kernel, &dyn Fn(Power)) + Send + 'static,
) -> (End, DeviceStats) {
    serve(on_cut, None, body)
}

/// The same for the files on a device with this atomic unit.
fn with_files(
    atomic_unit: u32,
    body: impl FnOnce(&mut Kernel, &dyn Fn(Power)) + Send + 'static,
) -> (End, DeviceStats) {
    serve(OnCut::Errors, Some(atomic_unit), body)
}

/// The server's end, and the kernel's.
fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .expect("a pair of sockets");
    for end in [&ends.0, &ends.1] {
        use rustix::net::sockopt::{set_socket_send_buffer_size, socket_send_buffer_size};
        set_socket_send_buffer_size(end, SEND_BUFFER).expect("a send buffer");
        let room = socket_send_buffer_size(end).expect("its length");
        assert!(room > LONG + 4096, "{room} bytes: net.core.wmem_max is below {SEND_BUFFER}");
    }
    ends
}

fn wall() -> Runtime {
    let options = WallOptions { time_scale: 0.0, ..WallOptions::default() };
    Runtime::wall_time(1, options).expect("a wall clock")
}

fn serve(
    on_cut: OnCut,
    files: Option<u32>,
    body: impl FnOnce(&mut Kernel, &dyn Fn(Power)) + Send + 'static,
) -> (End, DeviceStats) {
    let (ours, theirs) = pair();
    let mut runtime = wall();
    let rt = runtime.handle();
    let io = rt.io().expect("on the wall clock");
    let (post, mut inbox) = rt.inbox_of(1);
    let kernel = std::thread::spawn(move || {
        let mut kernel = Kernel { fd: theirs, unique: 0, who: (0, 0) };
        let told = kernel.ask(HELLO, 0, &hello()).expect("an answer to the first request");
        assert_eq!(told.len(), 64);
        // Commands are carried out before the post returns.
        let power = |power| {
            let (done, wait) = std::sync::mpsc::channel();
            post.post((power, done)).unwrap_or_else(|_| panic!("it is gone"));
            wait.recv().expect("it is done");
        };
        body(&mut kernel, &power);
    });
    let done = runtime.block_on(async move {
        let device = Stats::new(&rt, device(&rt, files));
        let volume = Volume::new(&rt, device.clone());
        device.power_on().await.expect("power");
        let connection = Connection::new(&io, ours).expect("a connection");
        let mut directory = None;
        let served = match files {
            None => {
                let file = Rc::new(OneFile::new(&volume, (0, 0), 0).expect("a file"));
                Served::one_file(&rt, connection, &file, on_cut)
            }
            Some(_) => {
                let link = device.device();
                Files::format(&rt, &link, &FormatOptions::default()).await.expect("formatted");
                let files = Files::mount(&rt, link, &MountOptions::default()).await.expect("files");
                let files = Rc::new(Directory::new(files, ROOT_RIGHTS, 0));
                directory = Some(files.clone());
                Served::directory(&rt, connection, &files, on_cut)
            }
        };
        let (plug, again) = (device.clone(), rt.clone());
        rt.spawn_background("the plug", async move {
            while let Some((power, done)) = inbox.next().await {
                match power {
                    Power::Cut => plug.cut(),
                    Power::Restore => {
                        plug.power_on().await.expect("power");
                        if let Some(directory) = &directory {
                            let (link, options) = (plug.device(), MountOptions::default());
                            let files = Files::mount(&again, link, &options).await;
                            directory.renew(files.expect("files"));
                        }
                    }
                }
                done.send(()).expect("the kernel waits");
            }
        });
        let end = served.end().await;
        (end, device.snapshot())
    });
    kernel.join().expect("the kernel is content");
    done.expect("it runs")
}

#[test]
fn what_is_written_is_read_whatever_its_bounds() {
    let (end, _) = with_kernel(OnCut::Errors, |kernel, _| {
        assert!(kernel.ask(LOOKUP, ROOT, b"drive\0").is_ok());
        assert_eq!(kernel.ask(LOOKUP, ROOT, b"other\0"), Err(Errno::NOENT));
        let handle = kernel.open().expect("a file");
        let data: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(kernel.write(handle, 1234, false, &data), Ok(10_000));
        assert_eq!(kernel.read(handle, 1234, 10_000), Ok(data.clone()));
        // Only the middle is not zero.
        let all = kernel.read(handle, 0, 16_384).expect("read");
        assert!(all[..1234].iter().chain(&all[11_234..]).all(|b| *b == 0));
        // A hole from the middle of one block to the middle of another.
        let mode = u64::from(fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE);
        assert!(kernel.ask(FALLOCATE, FILE, &numbers(&[handle, 2000, 7000, mode])).is_ok());
        let all = kernel.read(handle, 1234, 10_000).expect("read");
        assert_eq!((&all[..766], &all[7766..]), (&data[..766], &data[7766..]));
        assert!(all[766..7766].iter().all(|b| *b == 0));
        // At the end, and beyond it.
        let end = BLOCKS * 4096;
        assert_eq!(kernel.write(handle, end - 5, false, b"hello, world"), Ok(5));
        assert_eq!(kernel.read(handle, end - 5, 100), Ok(b"hello".to_vec()));
        assert_eq!(kernel.read(handle, end + 5, 100), Ok(Vec::new()));
        assert_eq!(kernel.write(handle, end, false, b"x"), Err(Errno::NOSPC));
        let beyond = numbers(&[handle, end - 1, 2, mode]);
        assert_eq!(kernel.ask(FALLOCATE, FILE, &beyond), Err(Errno::NOSPC));
        assert_eq!(kernel.read(77, 0, 1), Err(Errno::BADF));
    });
    assert!(matches!(end, End::Unmounted), "{end}");
}

#[test]
fn the_length_stays_what_it_is() {
    with_kernel(OnCut::Errors, |kernel, _| {
        let size = |told: &[u8]| u64::from_ne_bytes(*told[24..].first_chunk().expect("a size"));
        let set_size = |kernel: &mut Kernel, size: u64, more: u32| {
            let mut body = Vec::new();
            body.u32(set::SIZE | more);
            body.u32(0);
            body.u64(0);
            body.u64(size);
            body.extend_from_slice(&[0; 64]);
            kernel.ask(SETATTR, FILE, &body)
        };
        let told = kernel.ask(GETATTR, FILE, &[0; 16]).expect("attributes");
        assert_eq!(size(&told), BLOCKS * 4096);
        // `O_TRUNC` is ignored. Changing the length is refused.
        assert_eq!(size(&set_size(kernel, 0, 0).expect("passed over")), BLOCKS * 4096);
        assert_eq!(set_size(kernel, 0, set::HANDLE), Err(Errno::PERM));
        assert_eq!(set_size(kernel, 4096, 0), Err(Errno::PERM));
        assert!(set_size(kernel, BLOCKS * 4096, 0).is_ok());
        // ".", ".." and the file; then the rest of the list with room for one entry.
        let list = kernel.ask(READDIR, ROOT, &numbers(&[0, 0, 4096])).expect("a list");
        assert_eq!(list.len(), 96);
        let rest = kernel.ask(READDIR, ROOT, &numbers(&[0, 2, 40])).expect("a list");
        assert_eq!(&rest[24..29], b"drive");
        assert_eq!(kernel.ask(READDIR, ROOT, &numbers(&[0, 3, 4096])), Ok(Vec::new()));
    });
}

#[test]
fn one_write_is_one_command_as_long_as_that_can_be_whole() {
    let (_, stats) = with_kernel(OnCut::Errors, |kernel, _| {
        let handle = kernel.open().expect("a file");
        let data = vec![7; LONG];
        // A write of the atomic unit, and one of a part of a block.
        assert_eq!(kernel.write(handle, 0, false, &data[..16 << 10]), Ok(16 << 10));
        assert_eq!(kernel.write(handle, 100, true, &data[..100]), Ok(100));
        // A group at any place.
        assert_eq!(kernel.write(handle, 4096, false, &data[..128 << 10]), Ok(128 << 10));
        // Three writes: up to 128 KiB, to 256 KiB, and the rest.
        assert_eq!(kernel.write(handle, 8192, false, &data), Ok(LONG as u32));
        assert!(kernel.ask(FSYNC, FILE, &numbers(&[handle, 0])).is_ok());
        assert_eq!(
            kernel.read(handle, 0, LONG as u32).map(|b| b[4096..] == data[4096..]),
            Ok(true)
        );
    });
    // The rest after 256 KiB is a write of two blocks.
    assert_eq!(stats.of(CommandKind::Group).commands, 3);
    assert_eq!(stats.of(CommandKind::Write).commands, 2);
    assert_eq!(stats.of(CommandKind::Fua).commands, 1);
    assert_eq!(stats.of(CommandKind::Flush).commands, 1);
    let bytes = (16 << 10) + 4096 + (128 << 10) + LONG as u64;
    assert_eq!(stats.bytes_written(), bytes);
}

#[test]
fn a_file_that_was_open_at_a_cut_fails_for_ever_and_one_opened_later_works() {
    let (end, _) = with_kernel(OnCut::Errors, |kernel, power| {
        let old = kernel.open().expect("a file");
        assert_eq!(kernel.write(old, 0, false, &[1; 4096]), Ok(4096));
        power(Power::Cut);
        assert_eq!(kernel.write(old, 0, false, &[2; 4096]), Err(Errno::IO));
        assert_eq!(kernel.open(), Err(Errno::IO));
        power(Power::Restore);
        assert_eq!(kernel.write(old, 0, false, &[3; 4096]), Err(Errno::IO));
        assert_eq!(kernel.read(old, 0, 4096), Err(Errno::IO));
        let new = kernel.open().expect("a file");
        assert_eq!(kernel.read(new, 0, 4096), Ok(vec![1; 4096]));
    });
    assert!(matches!(end, End::Unmounted), "{end}");
}

#[test]
fn a_connection_that_is_to_drop_with_the_power_does() {
    let (end, _) = with_kernel(OnCut::Drop, |kernel, power| {
        let handle = kernel.open().expect("a file");
        power(Power::Cut);
        assert_eq!(kernel.read(handle, 0, 4096), Err(Errno::IO));
        assert_eq!(kernel.answer(), None);
    });
    assert!(matches!(end, End::PowerLost), "{end}");
}

#[test]
fn requests_side_by_side_are_all_answered() {
    with_kernel(OnCut::Errors, |kernel, _| {
        let handle = kernel.open().expect("a file");
        let first = kernel.unique + 1;
        for i in 0..600u64 {
            let length = if i % 8 == 0 { LONG as u64 } else { 4096 };
            kernel.send(READ, FILE, &numbers(&[handle, 4096 * i, length, 0, 0]));
            // No more than the socket pair holds.
            if i % 4 == 3 {
                for _ in 0..4 {
                    let (unique, error, _) = kernel.answer().expect("an answer");
                    assert!(unique >= first && error == 0);
                }
            }
        }
    });
}

#[test]
fn what_is_unknown_is_refused_and_what_is_no_request_ends_the_session() {
    let (end, _) = with_kernel(OnCut::Errors, |kernel, _| {
        // mkdir(2), and rmdir(2), which the kernel never sends if there are no directories.
        assert_eq!(kernel.ask(9, ROOT, b"\0\0\0\0\0\0\0\0dir\0"), Err(Errno::PERM));
        assert_eq!(kernel.ask(11, ROOT, b"dir\0"), Err(Errno::NOSYS));
        assert_eq!(kernel.ask(4095, 99, &[]), Err(Errno::NOSYS));
        // A FORGET gets no answer.
        kernel.send(2, FILE, &[0; 8]);
        assert!(kernel.ask(GETATTR, ROOT, &[0; 16]).is_ok());
        kernel.send(WRITE, FILE, &[0; 7]);
        assert_eq!(kernel.answer(), None);
    });
    assert!(matches!(end, End::NotARequest), "{end}");
}

#[test]
fn files_come_and_go_and_keep_what_is_in_them() {
    let (end, _) = with_files(4096, |kernel, power| {
        let (a, handle) = kernel.create(b"a").expect("made");
        assert_eq!(kernel.write(handle, 0, false, b"hello"), Ok(5));
        assert_eq!((kernel.size(a), kernel.lookup(b"a")), (Ok(5), Ok(a)));
        assert_eq!(kernel.lookup(b"b"), Err(Errno::NOENT));
        let rename = |flags: u64| [&numbers(&[ROOT, flags])[..], b"a\0b\0"].concat();
        assert!(kernel.ask(RENAME, ROOT, &rename(0)).is_ok());
        assert_eq!((kernel.lookup(b"a"), kernel.lookup(b"b")), (Err(Errno::NOENT), Ok(a)));
        let (second, _) = kernel.create(b"a").expect("made");
        assert!(second != a);
        // RENAME_NOREPLACE, and RENAME_EXCHANGE, which is not supported.
        assert_eq!(kernel.ask(RENAME, ROOT, &rename(1)), Err(Errno::EXIST));
        assert_eq!(kernel.ask(RENAME, ROOT, &rename(2)), Err(Errno::INVAL));
        assert_eq!(kernel.create(&[b'n'; 256]).err(), Some(Errno::NAMETOOLONG));
        let longer = [&numbers(&[ROOT, 0])[..], b"b\0", &[b'n'; 256], b"\0"].concat();
        assert_eq!(kernel.ask(RENAME, ROOT, &longer), Err(Errno::NAMETOOLONG));
        let list = kernel.ask(READDIR, ROOT, &numbers(&[0, 0, 4096])).expect("a list");
        assert_eq!(list.len(), 4 * 32);
        // A file without a name exists until it is closed.
        assert!(kernel.ask(UNLINK, ROOT, b"b\0").is_ok());
        assert_eq!(kernel.ask(UNLINK, ROOT, b"b\0"), Err(Errno::NOENT));
        assert_eq!(kernel.read(handle, 0, 100), Ok(b"hello".to_vec()));
        assert_eq!(kernel.size(a), Ok(5));
        assert!(kernel.ask(RELEASE, a, &numbers(&[handle, 0, 0])).is_ok());
        kernel.send(2, a, &numbers(&[3]));
        assert_eq!(kernel.size(a), Err(Errno::STALE));
        // After a restart open files fail, and a file has another node.
        let (_, old) = kernel.create(b"c").expect("made");
        assert_eq!(kernel.write(old, 0, true, b"survives"), Ok(8));
        power(Power::Cut);
        assert_eq!(kernel.write(old, 0, false, b"lost"), Err(Errno::IO));
        power(Power::Restore);
        assert_eq!(kernel.write(old, 0, false, b"lost"), Err(Errno::IO));
        let c = kernel.lookup(b"c").expect("it is there");
        let told = kernel.ask(OPEN, c, &[0; 8]).expect("opened");
        let new = u64::from_ne_bytes(*told.first_chunk().expect("a handle"));
        assert_eq!(kernel.read(new, 0, 8), Ok(b"survives".to_vec()));
    });
    assert!(matches!(end, End::Unmounted), "{end}");
}

#[test]
fn what_was_synced_keeps_its_length_however_it_was_synced() {
    let (end, _) = with_files(64 << 10, |kernel, power| {
        let mut files = Vec::new();
        for (name, forced, sync) in
            [(b"a", false, Some(0)), (b"b", false, Some(1)), (b"c", true, None)]
        {
            let (node, handle) = kernel.create(name).expect("made");
            for at in [0, 100] {
                assert_eq!(kernel.write(handle, at, forced, &[1; 100]), Ok(100));
                // fsync and fdatasync.
                if let Some(flags) = sync {
                    assert!(kernel.ask(FSYNC, node, &numbers(&[handle, flags])).is_ok());
                }
            }
            files.push(name);
        }
        power(Power::Cut);
        power(Power::Restore);
        for name in files {
            let node = kernel.lookup(name).expect("it is there");
            assert_eq!(kernel.size(node), Ok(200), "{name:?}");
        }
    });
    assert!(matches!(end, End::Unmounted), "{end}");
}

#[test]
fn nothing_is_answered_from_memory_for_a_drive_without_power() {
    let (end, _) = with_files(64 << 10, |kernel, power| {
        let (node, old) = kernel.create(b"a").expect("made");
        assert_eq!(kernel.write(old, 0, true, &[1; 100]), Ok(100));
        assert_eq!(kernel.read(old, 0, 100), Ok(vec![1; 100]));
        let told = kernel.ask(OPEN, node, &[0; 8]).expect("opened");
        let begun = u64::from_ne_bytes(*told.first_chunk().expect("a handle"));
        assert!(kernel.control(begun, BEGIN, &[]).is_ok());
        let of_the_past = |kernel: &mut Kernel| {
            // A range that was written, and one beyond the end.
            assert_eq!(kernel.read(old, 0, 100), Err(Errno::IO));
            assert_eq!(kernel.read(old, 4096, 100), Err(Errno::IO));
            assert_eq!(kernel.write(old, 0, false, &[2; 100]), Err(Errno::IO));
            assert_eq!(kernel.ask(FSYNC, node, &numbers(&[old, 0])), Err(Errno::IO));
            assert_eq!(kernel.size(node), Err(Errno::IO));
            // The open transaction cannot go on.
            assert_eq!(kernel.write(begun, 0, false, &[2; 100]), Err(Errno::IO));
            assert_eq!(kernel.control(begun, COMMIT, &[]), Err(Errno::IO));
        };
        power(Power::Cut);
        of_the_past(kernel);
        assert_eq!(kernel.lookup(b"a"), Err(Errno::IO));
        assert_eq!(kernel.lookup(b"b"), Err(Errno::IO));
        assert_eq!(kernel.create(b"a"), Err(Errno::IO));
        assert_eq!(kernel.ask(OPEN, node, &[0; 8]), Err(Errno::IO));
        assert_eq!(kernel.ask(READDIR, ROOT, &numbers(&[0, 0, 4096])), Err(Errno::IO));
        assert_eq!(kernel.size(ROOT), Ok(0));
        power(Power::Restore);
        of_the_past(kernel);
        let new = kernel.lookup(b"a").expect("it is there");
        let told = kernel.ask(OPEN, new, &[0; 8]).expect("opened");
        let handle = u64::from_ne_bytes(*told.first_chunk().expect("a handle"));
        assert_eq!(kernel.read(handle, 0, 100), Ok(vec![1; 100]));
        assert_eq!(kernel.write(handle, 50, false, &[3; 50]), Ok(50));
        of_the_past(kernel);
        // The kernel can still close it.
        assert!(kernel.ask(RELEASE, node, &numbers(&[old, 0, 0])).is_ok());
        assert_eq!(kernel.read(old, 0, 100), Err(Errno::BADF));
    });
    assert!(matches!(end, End::Unmounted), "{end}");
}

#[test]
fn files_belong_to_who_made_them() {
    with_files(4096, |kernel, power| {
        assert_eq!(kernel.rights(ROOT), Ok((0o040750, 33, 34)));
        kernel.who = (106, 112);
        let (a, _) = kernel.create(b"a").expect("made");
        let (b, _) = kernel.create(b"b").expect("made");
        assert_eq!(kernel.rights(a), Ok((0o100640, 106, 112)));
        // The owner is the same for any user who looks, and after a rename.
        kernel.who = (0, 0);
        kernel.change(b, set::MODE | set::UID, (0o600, 7, 8));
        let rename = [&numbers(&[ROOT, 0])[..], b"b\0c\0"].concat();
        assert!(kernel.ask(RENAME, ROOT, &rename).is_ok());
        assert_eq!(kernel.rights(b), Ok((0o100600, 7, 112)));
        // An O_CREAT on an existing file does not change its owner.
        let (again, handle) = kernel.create(b"a").expect("opened");
        assert_eq!((again, kernel.rights(a)), (a, Ok((0o100640, 106, 112))));
        assert!(kernel.ask(FSYNC, a, &numbers(&[handle, 0])).is_ok());
        power(Power::Cut);
        power(Power::Restore);
        let a = kernel.lookup(b"a").expect("it is there");
        assert_eq!(kernel.rights(a), Ok((0o100640, 106, 112)));
        // A new file of that name is another file.
        assert!(kernel.ask(UNLINK, ROOT, b"a\0").is_ok());
        let (new, _) = kernel.create(b"a").expect("made");
        assert_eq!(kernel.rights(new), Ok((0o100640, 0, 0)));
    });
}

#[test]
fn a_file_without_a_name_belongs_to_whom_it_did() {
    with_files(4096, |kernel, power| {
        kernel.who = (106, 112);
        let (a, _) = kernel.create(b"a").expect("made");
        let (b, _) = kernel.create(b"b").expect("made");
        let (c, _) = kernel.create(b"c").expect("made");
        kernel.who = (0, 0);
        assert!(kernel.ask(UNLINK, ROOT, b"a\0").is_ok());
        let rename = [&numbers(&[ROOT, 0])[..], b"c\0b\0"].concat();
        assert!(kernel.ask(RENAME, ROOT, &rename).is_ok());
        for (node, links) in [(a, 0), (b, 0), (c, 1)] {
            assert_eq!(kernel.rights(node), Ok((0o100640, 106, 112)));
            assert_eq!(kernel.links(node), Ok(links));
        }
        // Its owner can still be changed.
        kernel.change(a, set::UID, (0, 7, 0));
        assert_eq!(kernel.rights(a), Ok((0o100640, 7, 112)));
        // Files with a name are the same after a restart.
        power(Power::Cut);
        power(Power::Restore);
        assert_eq!(kernel.lookup(b"a"), Err(Errno::NOENT));
        let b = kernel.lookup(b"b").expect("it is there");
        assert_eq!((kernel.rights(b), kernel.links(b)), (Ok((0o100640, 106, 112)), Ok(1)));
    });
}

/// A file system whose requests wait until the gate opens.
struct Gate {
    open: Cell<bool>,
    opened: WaitQueue,
    changed: WaitQueue,
    under_way: Cell<usize>,
    done: Cell<usize>,
}

impl FileSystem for Gate {
    async fn carry_out(&self, _: &Request<'_>, _: &mut Vec<u8>) -> Result<(), Failed> {
        self.under_way.set(self.under_way.get() + 1);
        self.changed.notify_all();
        self.opened.until(|| self.open.get()).await;
        self.under_way.set(self.under_way.get() - 1);
        self.done.set(self.done.get() + 1);
        self.changed.notify_all();
        Ok(())
    }
}

#[test]
fn no_more_is_taken_than_may_be_in_flight() {
    const WRITES: usize = 80;
    const READS: usize = 280;
    let (ours, theirs) = pair();
    let mut runtime = wall();
    let rt = runtime.handle();
    let io = rt.io().expect("on the wall clock");
    let (post, mut inbox) = rt.inbox_of(1);
    let kernel = std::thread::spawn(move || {
        let mut kernel = Kernel { fd: theirs, unique: 0, who: (0, 0) };
        kernel.ask(HELLO, 0, &hello()).expect("an answer to the first request");
        let body = write(0, 0, false, &[0; 70 << 10]);
        for _ in 0..WRITES {
            kernel.send(WRITE, FILE, &body);
        }
        for _ in 0..WRITES {
            assert!(kernel.answer().is_some_and(|(_, error, _)| error == 0));
        }
        for _ in 0..READS {
            kernel.send(READ, FILE, &numbers(&[0, 0, 4096, 0, 0]));
        }
        post.post(()).unwrap_or_else(|_| panic!("it is gone"));
        assert_eq!(kernel.answer(), None);
    });
    let done = runtime.block_on(async move {
        let connection = Connection::new(&io, ours).expect("a connection");
        let gate = Rc::new(Gate {
            open: Cell::new(false),
            opened: WaitQueue::new(&rt, "a gate"),
            changed: WaitQueue::new(&rt, "requests to begin or end"),
            under_way: Cell::new(0),
            done: Cell::new(0),
        });
        let session = Session::new(&rt, connection, &gate, OnCut::Errors);
        let served = rt.spawn_background("a session", session.clone().run());
        // Each request is in a buffer of the longest request's length.
        let most = LIMIT.bytes as usize / ROOM;
        gate.changed.until(|| gate.under_way.get() >= most).await;
        io.sleep(Nanos::from_millis(20)).await;
        assert_eq!(gate.under_way.get(), most);
        gate.open.set(true);
        gate.opened.notify_all();
        gate.changed.until(|| gate.done.get() == WRITES).await;
        gate.open.set(false);
        // All reads are sent, and as many are taken as may be in flight. After the stop no more are
        // taken.
        inbox.next().await.expect("they are sent");
        let most = LIMIT.requests as usize;
        gate.changed.until(|| gate.under_way.get() == most).await;
        session.stop();
        rt.yield_now().await;
        gate.open.set(true);
        gate.opened.notify_all();
        let end = served.await.expect("it ends");
        assert!(matches!(end, End::Stopped), "{end}");
        assert_eq!(gate.done.get(), WRITES + most);
    });
    done.expect("it runs");
    kernel.join().expect("the kernel is content");
}

#[test]
fn a_session_goes_on_without_memory() {
    const WRITES: usize = 5;
    let (ours, theirs) = pair();
    let mut runtime = wall();
    let rt = runtime.handle();
    let io = rt.io().expect("on the wall clock");
    let kernel = std::thread::spawn(move || {
        let mut kernel = Kernel { fd: theirs, unique: 0, who: (0, 0) };
        kernel.ask(HELLO, 0, &hello()).expect("an answer to the first request");
        let body = write(0, 0, false, &[0; 70 << 10]);
        for _ in 0..WRITES {
            kernel.send(WRITE, FILE, &body);
        }
        for _ in 0..WRITES {
            assert!(kernel.answer().is_some_and(|(_, error, _)| error == 0));
        }
    });
    let done = runtime.block_on(async move {
        let connection = Connection::new(&io, ours).expect("a connection");
        let gate = Rc::new(Gate {
            open: Cell::new(false),
            opened: WaitQueue::new(&rt, "a gate"),
            changed: WaitQueue::new(&rt, "requests to begin or end"),
            under_way: Cell::new(0),
            done: Cell::new(0),
        });
        // There is one buffer, and there is never memory for another one.
        let session = Session::with(&rt, connection, &gate, OnCut::Errors, || Err(NoMemory));
        let served = rt.spawn_background("a session", session.clone().run());
        gate.changed.until(|| gate.under_way.get() == 1).await;
        io.sleep(Nanos::from_millis(20)).await;
        assert_eq!(gate.under_way.get(), 1);
        gate.open.set(true);
        gate.opened.notify_all();
        gate.changed.until(|| gate.done.get() == WRITES).await;
        let end = served.await.expect("it ends");
        assert!(matches!(end, End::Unmounted), "{end}");
    });
    done.expect("it runs");
    kernel.join().expect("the kernel is content");
}

#[test]
fn a_transaction_is_one_group_or_nothing() {
    let (_, stats) = with_files(64 << 10, |kernel, power| {
        let (node, handle) = kernel.create(b"db").expect("made");
        assert_eq!(kernel.control(handle, FEATURES, &[]), Ok(4u32.to_ne_bytes().to_vec()));
        assert_eq!(kernel.write(handle, 0, true, &[1; 40_960]), Ok(40_960));
        // Begun and aborted: its writes were seen through this handle only.
        assert!(kernel.control(handle, BEGIN, &[]).is_ok());
        assert_eq!(kernel.control(handle, BEGIN, &[]), Err(Errno::INVAL));
        assert_eq!(kernel.write(handle, 4096, false, &[2; 4096]), Ok(4096));
        assert_eq!(kernel.write(handle, 40_960, false, &[2; 4096]), Ok(4096));
        assert_eq!(kernel.read(handle, 4096, 4096), Ok(vec![2; 4096]));
        assert_eq!(kernel.size(node), Ok(45_056));
        let told = kernel.ask(OPEN, node, &[0; 8]).expect("opened");
        let other = u64::from_ne_bytes(*told.first_chunk().expect("a handle"));
        assert_eq!(kernel.read(other, 4096, 4096), Ok(vec![1; 4096]));
        assert!(kernel.control(handle, ABORT, &[]).is_ok());
        assert_eq!(kernel.size(node), Ok(40_960));
        assert_eq!(kernel.read(handle, 4096, 4096), Ok(vec![1; 4096]));
        assert_eq!(kernel.control(handle, COMMIT, &[]), Err(Errno::INVAL));
        // Committed: one group of two extents.
        assert!(kernel.control(handle, BEGIN, &[]).is_ok());
        assert_eq!(kernel.write(handle, 4096, false, &[3; 4096]), Ok(4096));
        assert_eq!(kernel.write(handle, 20_480, false, &[4; 4096]), Ok(4096));
        assert!(kernel.control(handle, COMMIT, &[]).is_ok());
        assert_eq!(kernel.read(other, 4096, 4096), Ok(vec![3; 4096]));
        // More bytes than a group can have.
        assert!(kernel.control(handle, BEGIN, &[]).is_ok());
        assert_eq!(kernel.write(handle, 0, false, &vec![5; LONG]), Ok(LONG as u32));
        assert_eq!(kernel.read(handle, 0, 4096), Err(Errno::IO));
        assert_eq!(kernel.control(handle, COMMIT, &[]), Err(Errno::FBIG));
        assert_eq!(kernel.read(handle, 4096, 4096), Ok(vec![3; 4096]));
        // More extents than a group can have.
        assert!(kernel.control(handle, BEGIN, &[]).is_ok());
        for i in 0..4 {
            assert_eq!(kernel.write(handle, i * 8192, false, &[6; 4096]), Ok(4096));
        }
        assert_eq!(kernel.control(handle, COMMIT, &[]), Err(Errno::FBIG));
        // Open at a cut: none of its writes happens.
        assert!(kernel.control(handle, BEGIN, &[]).is_ok());
        assert_eq!(kernel.write(handle, 0, false, &[7; 4096]), Ok(4096));
        power(Power::Cut);
        assert_eq!(kernel.control(handle, COMMIT, &[]), Err(Errno::IO));
        power(Power::Restore);
        let node = kernel.lookup(b"db").expect("it is there");
        let told = kernel.ask(OPEN, node, &[0; 8]).expect("opened");
        let new = u64::from_ne_bytes(*told.first_chunk().expect("a handle"));
        let content = kernel.read(new, 0, 40_960).expect("read");
        let pages: Vec<u8> = content.chunks(4096).map(|page| page[0]).collect();
        assert_eq!(pages, [1, 3, 1, 1, 1, 4, 1, 1, 1, 1]);
        assert!(content.chunks(4096).all(|page| page.iter().all(|b| *b == page[0])));
    });
    assert_eq!(stats.of(CommandKind::Group).commands, 1);
}

#[test]
fn atomic_writes_are_confirmed_only_where_they_are() {
    with_files(64 << 10, |kernel, _| {
        let (_, handle) = kernel.create(b"db").expect("made");
        assert_eq!(kernel.control(handle, PAGES_ATOMIC, &1u32.to_ne_bytes()), Ok(Vec::new()));
        assert_eq!(kernel.control(handle, 0x5401, &[]), Err(Errno::NOTTY));
    });
    with_files(4096, |kernel, _| {
        let (_, handle) = kernel.create(b"db").expect("made");
        for command in [PAGES_ATOMIC, FEATURES, BEGIN] {
            let refused = kernel.control(handle, command, &1u32.to_ne_bytes());
            assert_eq!(refused, Err(Errno::NOTTY), "{command:x}");
        }
    });
}
