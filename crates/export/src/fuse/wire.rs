//! The protocol between kernel and file system: `include/uapi/linux/fuse.h`, major version 7.
//!
//! 1. [`Request::parse`] takes any bytes. It returns the request in them or `None`, and reads no
//!    byte after their end.
//! 2. All numbers are in the byte order of the machine.

/// The version of the protocol that is used here. A newer kernel adapts to it.
pub(super) const MAJOR: u32 = 7;
/// See [`MAJOR`].
pub(super) const MINOR: u32 = 40;

/// Bytes of a request's header.
pub(super) const IN_HEADER_BYTES: usize = 40;
/// Bytes of a reply's header.
pub(super) const OUT_HEADER_BYTES: usize = 16;
/// Bytes of a write before its data.
#[cfg(test)]
pub(super) const WRITE_BYTES: usize = 40;
/// The node of the root directory.
pub(super) const ROOT: u64 = 1;

/// Kinds of files, as in their modes.
pub(super) const DIRECTORY: u32 = 0o040000;
/// See [`DIRECTORY`].
pub(super) const REGULAR: u32 = 0o100000;
/// The bits of a mode that are permissions.
pub(super) const PERMISSIONS: u32 = 0o7777;

/// Flags of the first request and its answer.
pub(super) mod init {
    /// Concurrent reads of one file.
    pub const ASYNC_READ: u64 = 1 << 0;
    /// Writes longer than a page.
    pub const BIG_WRITES: u64 = 1 << 5;
    /// Asynchronous direct I/O.
    pub const ASYNC_DIO: u64 = 1 << 15;
    /// Concurrent operations in one directory.
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The answer has the most pages of a request.
    pub const MAX_PAGES: u64 = 1 << 22;
    /// There are more than 32 flags.
    pub const EXT: u64 = 1 << 30;
    /// Files with direct I/O can be mapped into memory.
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// Flags of an open file.
pub(super) mod open {
    /// I/O bypasses the page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// No flush at each close.
    pub const NOFLUSH: u32 = 1 << 5;
    /// Concurrent direct writes.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// The attributes that an [`Operation::SetAttributes`] changes.
pub(super) mod set {
    /// The mode.
    pub const MODE: u32 = 1 << 0;
    /// The owner.
    pub const UID: u32 = 1 << 1;
    /// The group.
    pub const GID: u32 = 1 << 2;
    /// The length.
    pub const SIZE: u32 = 1 << 3;
    /// The request has the handle of an open file.
    pub const HANDLE: u32 = 1 << 6;
}

/// Modes of `fallocate`.
pub(super) mod fallocate {
    /// The length stays.
    pub const KEEP_SIZE: u32 = 0x01;
    /// The range reads as zeros, and gives its space back.
    pub const PUNCH_HOLE: u32 = 0x02;
    /// The range reads as zeros.
    pub const ZERO_RANGE: u32 = 0x10;
}

/// The bits of open(2) that say what a file is opened for, and their value for reading only.
const O_ACCMODE: u32 = 3;
const O_RDONLY: u32 = 0;
/// `O_DSYNC`. `O_SYNC` includes this bit.
const O_DSYNC: u32 = 0o10000;

/// New attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewAttributes {
    pub valid: u32,
    pub size: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    /// Has no answer; see [`forgotten`].
    Forget,
    GetAttributes,
    SetAttributes(NewAttributes),
    Open {
        /// The file may be written to.
        writes: bool,
    },
    Read {
        handle: u64,
        at: u64,
        length: u32,
    },
    Write {
        handle: u64,
        at: u64,
        sync: bool,
        data: &'a [u8],
    },
    Statistics,
    Release {
        handle: u64,
    },
    Sync {
        handle: u64,
    },
    SyncDirectory,
    Unlink {
        name: &'a [u8],
    },
    /// With flags of renameat2(2).
    Rename {
        to: u64,
        flags: u32,
        name: &'a [u8],
        new_name: &'a [u8],
    },
    /// The kernel has applied the umask to the mode.
    Create {
        name: &'a [u8],
        mode: u32,
    },
    /// An ioctl(2): its input, and the room for its output.
    Control {
        handle: u64,
        command: u32,
        input: &'a [u8],
        room: u32,
    },
    Flush,
    OpenDirectory,
    ReadDirectory {
        at: u64,
        length: u32,
    },
    ReleaseDirectory,
    Destroy,
    Allocate {
        handle: u64,
        at: u64,
        length: u64,
        mode: u32,
    },
    /// Makes a directory, a link or a device, which do not exist here.
    Special,
    /// An operation that is not known here.
    Other,
}

/// A request of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    /// The number of the request, for the reply.
    pub unique: u64,
    /// The file or directory of the request.
    pub node: u64,
    /// The user who asks.
    pub uid: u32,
    /// The group of that user.
    pub gid: u32,
    pub operation: Operation<'a>,
}

/// Takes numbers off the front of bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (now, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*now)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// The name up to the next zero byte, which stays.
    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|b| *b == 0)?;
        Some(&self.0[..end])
    }
}

impl<'a> Request<'a> {
    /// The request in these bytes; `None` if they are not a request.
    pub fn parse(bytes: &'a [u8]) -> Option<Request<'a>> {
        let mut r = Reader(bytes);
        let length = r.u32()?;
        let opcode = r.u32()?;
        let (unique, node) = (r.u64()?, r.u64()?);
        let (uid, gid) = (r.u32()?, r.u32()?);
        if length as usize != bytes.len() {
            return None;
        }
        r.0 = bytes.get(IN_HEADER_BYTES..)?;
        Some(Request { unique, node, uid, gid, operation: operation(opcode, r)? })
    }
}

fn operation<'a>(opcode: u32, mut r: Reader<'a>) -> Option<Operation<'a>> {
    Some(match opcode {
        1 => Operation::Lookup { name: r.name()? },
        2 | 42 => Operation::Forget,
        3 => Operation::GetAttributes,
        4 => {
            let (valid, _) = (r.u32()?, r.u32()?);
            let (_handle, size) = (r.u64()?, r.u64()?);
            // The lock owner, three times, and their nanoseconds.
            r.array::<44>()?;
            let (mode, _) = (r.u32()?, r.u32()?);
            let (uid, gid) = (r.u32()?, r.u32()?);
            Operation::SetAttributes(NewAttributes { valid, size, mode, uid, gid })
        }
        14 => Operation::Open { writes: r.u32()? & O_ACCMODE != O_RDONLY },
        15 => Operation::Read { handle: r.u64()?, at: r.u64()?, length: r.u32()? },
        16 => {
            let (handle, at, length) = (r.u64()?, r.u64()?, r.u32()?);
            let (_write_flags, _lock_owner, flags, _) = (r.u32()?, r.u64()?, r.u32()?, r.u32()?);
            let data = r.0.get(..length as usize)?;
            Operation::Write { handle, at, sync: flags & O_DSYNC != 0, data }
        }
        17 => Operation::Statistics,
        18 => Operation::Release { handle: r.u64()? },
        10 => Operation::Unlink { name: r.name()? },
        12 | 45 => {
            let to = r.u64()?;
            let flags = if opcode == 45 { r.u64()? as u32 } else { 0 };
            let name = r.name()?;
            r.0 = r.0.get(name.len() + 1..)?;
            Operation::Rename { to, flags, name, new_name: r.name()? }
        }
        // An `fdatasync` does the same as an `fsync` here, since it must keep the file's length
        // too.
        20 => Operation::Sync { handle: r.u64()? },
        25 => Operation::Flush,
        27 => Operation::OpenDirectory,
        28 => {
            let (_handle, at, length) = (r.u64()?, r.u64()?, r.u32()?);
            Operation::ReadDirectory { at, length }
        }
        29 => Operation::ReleaseDirectory,
        30 => Operation::SyncDirectory,
        35 => {
            let (_flags, mode, _umask, _) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
            Operation::Create { name: r.name()?, mode }
        }
        39 => {
            let (handle, _flags, command, _argument) = (r.u64()?, r.u32()?, r.u32()?, r.u64()?);
            let (length, room) = (r.u32()?, r.u32()?);
            let input = r.0.get(..length as usize)?;
            Operation::Control { handle, command, input, room }
        }
        38 => Operation::Destroy,
        43 => {
            let (handle, at, length) = (r.u64()?, r.u64()?, r.u64()?);
            Operation::Allocate { handle, at, length, mode: r.u32()? }
        }
        // symlink(2), mknod(2), mkdir(2), link(2).
        6 | 8 | 9 | 13 => Operation::Special,
        _ => Operation::Other,
    })
}

/// The nodes that an [`Operation::Forget`] is about, and how many lookups of each the kernel
/// forgets.
pub(super) fn forgotten(bytes: &[u8]) -> Vec<(u64, u64)> {
    let list = || {
        let mut r = Reader(bytes);
        let (_length, opcode, _unique, node) = (r.u32()?, r.u32()?, r.u64()?, r.u64()?);
        r.0 = bytes.get(IN_HEADER_BYTES..)?;
        if opcode == 2 {
            return Some(vec![(node, r.u64()?)]);
        }
        let (count, _) = (r.u32()?, r.u32()?);
        let one = |_| Some((r.u64()?, r.u64()?));
        Some((0..count).map_while(one).collect())
    };
    list().unwrap_or_default()
}

/// The kernel's first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub unique: u64,
    pub major: u32,
    pub minor: u32,
    pub readahead: u32,
    pub flags: u64,
}

impl Hello {
    /// The first request, in these bytes.
    pub fn parse(bytes: &[u8]) -> Option<Hello> {
        let mut r = Reader(bytes);
        let (_length, opcode, unique) = (r.u32()?, r.u32()?, r.u64()?);
        if opcode != 26 {
            return None;
        }
        r.0 = bytes.get(IN_HEADER_BYTES..)?;
        let (major, minor) = (r.u32()?, r.u32()?);
        let (readahead, low) = (r.u32()?, u64::from(r.u32()?));
        let high = if low & init::EXT != 0 { u64::from(r.u32()?) << 32 } else { 0 };
        Some(Hello { unique, major, minor, readahead, flags: low | high })
    }
}

/// Puts numbers behind bytes.
pub(super) trait Put {
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
}

impl Put for Vec<u8> {
    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_ne_bytes());
    }
}

/// Room for the header of a reply; [`seal`] fills it.
pub(super) fn begin(out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; OUT_HEADER_BYTES]);
}

/// Fills the header of the reply in `out`. A reply with an error has no body.
pub(super) fn seal(out: &mut Vec<u8>, unique: u64, error: Option<i32>) {
    if error.is_some() {
        out.truncate(OUT_HEADER_BYTES);
    }
    let length = out.len() as u32;
    out[0..4].copy_from_slice(&length.to_ne_bytes());
    out[4..8].copy_from_slice(&(-error.unwrap_or(0)).to_ne_bytes());
    out[8..16].copy_from_slice(&unique.to_ne_bytes());
}

/// The flags of the connection, how many requests the kernel keeps under way for writeback and
/// asynchronous I/O, and how long a request may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub flags: u64,
    pub background: u16,
    pub longest: u32,
}

/// The body of the answer to [`Hello`].
pub(super) fn hello(out: &mut Vec<u8>, hello: &Hello, terms: &Terms) {
    let flags = terms.flags & hello.flags;
    out.u32(MAJOR);
    out.u32(MINOR);
    out.u32(hello.readahead);
    out.u32(flags as u32);
    out.extend_from_slice(&terms.background.to_ne_bytes());
    // Above this number the kernel makes writers wait.
    out.extend_from_slice(&(terms.background / 4 * 3).to_ne_bytes());
    out.u32(terms.longest);
    // The granularity of times: 1 ns.
    out.u32(1);
    out.extend_from_slice(&((terms.longest / 4096) as u16).to_ne_bytes());
    out.extend_from_slice(&0u16.to_ne_bytes());
    out.u32((flags >> 32) as u32);
    out.extend_from_slice(&[0; 28]);
}

/// The attributes of a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    pub node: u64,
    pub size: u64,
    /// Bytes that it occupies.
    pub allocated: u64,
    /// Kind and permissions.
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    /// Seconds since 1970.
    pub time: u64,
    /// For how many seconds the kernel may cache this.
    pub valid: u64,
}

pub(super) fn attributes(out: &mut Vec<u8>, a: &Attributes) {
    out.u64(a.valid);
    out.u64(0);
    put_attributes(out, a);
}

pub(super) fn entry(out: &mut Vec<u8>, a: &Attributes) {
    out.u64(a.node);
    out.u64(0);
    out.u64(a.valid);
    out.u64(a.valid);
    out.u64(0);
    put_attributes(out, a);
}

fn put_attributes(out: &mut Vec<u8>, a: &Attributes) {
    out.u64(a.node);
    out.u64(a.size);
    out.u64(a.allocated.div_ceil(512));
    for _ in 0..3 {
        out.u64(a.time);
    }
    for _ in 0..3 {
        out.u32(0);
    }
    for value in [a.mode, a.links, a.uid, a.gid, 0, 4096, 0] {
        out.u32(value);
    }
}

/// An opened file or directory.
pub(super) fn opened(out: &mut Vec<u8>, handle: u64, flags: u32) {
    out.u64(handle);
    out.u32(flags);
    out.u32(0);
}

/// The result of an ioctl, which its output follows.
pub(super) fn controlled(out: &mut Vec<u8>, output: &[u8]) {
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(output);
}

pub(super) fn written(out: &mut Vec<u8>, count: u32) {
    out.u32(count);
    out.u32(0);
}

/// How much room there is.
pub(super) fn statistics(out: &mut Vec<u8>, block: u32, blocks: u64, free: u64, files: u64) {
    for value in [blocks, free, free, files, 0] {
        out.u64(value);
    }
    for value in [block, 255, block] {
        out.u32(value);
    }
    out.extend_from_slice(&[0; 28]);
}

/// An entry of a directory, if it fits into `room` bytes of body.
pub(super) fn directory_entry(
    out: &mut Vec<u8>,
    room: usize,
    (node, next, directory, name): (u64, u64, bool, &[u8]),
) -> bool {
    let length = (24 + name.len()).next_multiple_of(8);
    let begin = out.len();
    if begin - OUT_HEADER_BYTES + length > room {
        return false;
    }
    out.u64(node);
    out.u64(next);
    out.u32(name.len() as u32);
    out.u32(if directory { 4 } else { 8 });
    out.extend_from_slice(name);
    out.resize(begin + length, 0);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.u32((IN_HEADER_BYTES + body.len()) as u32);
        bytes.u32(opcode);
        bytes.u64(77);
        bytes.u64(2);
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_write_is_what_it_says() {
        let mut body = Vec::new();
        body.u64(3);
        body.u64(8192);
        body.u32(5);
        body.u32(0);
        body.u64(0);
        body.u32(O_DSYNC);
        body.u32(0);
        assert_eq!(body.len(), WRITE_BYTES);
        body.extend_from_slice(b"hello");
        let bytes = request(16, &body);
        let operation = Operation::Write { handle: 3, at: 8192, sync: true, data: b"hello" };
        let (uid, gid) = (0, 0);
        let whole = Request { unique: 77, node: 2, uid, gid, operation };
        assert_eq!(Request::parse(&bytes), Some(whole));
        // One byte of its data is missing.
        let short = request(16, &body[..body.len() - 1]);
        assert_eq!(Request::parse(&short), None);
    }

    #[test]
    fn replies_have_the_lengths_of_the_protocol() {
        let length = |encode: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            encode(&mut out);
            out.len()
        };
        let a = Attributes {
            node: 1,
            size: 0,
            allocated: 0,
            mode: 0,
            links: 1,
            uid: 0,
            gid: 0,
            time: 0,
            valid: 1,
        };
        let said = Hello { unique: 1, major: 7, minor: 40, readahead: 0, flags: u64::MAX };
        let terms = Terms { flags: 0, background: 64, longest: 1 << 20 };
        assert_eq!(length(&|out| hello(out, &said, &terms)), 64);
        assert_eq!(length(&|out| attributes(out, &a)), 104);
        assert_eq!(length(&|out| entry(out, &a)), 128);
        assert_eq!(length(&|out| opened(out, 1, 0)), 16);
        assert_eq!(length(&|out| written(out, 1)), 8);
        assert_eq!(length(&|out| statistics(out, 4096, 1, 0, 1)), 80);
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_parsed_or_refused(
            opcode in 0u32..64,
            body in proptest::collection::vec(any::<u8>(), 0..100),
            cut in 0usize..200,
        ) {
            let whole = request(opcode, &body);
            let _ = Request::parse(&whole);
            let _ = Hello::parse(&whole);
            let part = &whole[..cut.min(whole.len())];
            if part.len() < whole.len() {
                prop_assert_eq!(Request::parse(part), None);
            }
            let _ = Hello::parse(part);
        }
    }
}
