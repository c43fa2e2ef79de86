//! Commands that let a drive run, and a client of theirs.

#![allow(dead_code, reason = "not all tests need all of it")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tantalum_testing::Spot;

/// A process that lets a drive run.
pub struct Serving {
    pub child: Child,
    /// What it printed once it could be used.
    pub uri: String,
    /// The second line of that, if there is one.
    pub second: String,
}

impl Serving {
    pub fn start(mut command: Command) -> Serving {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (mut uri, mut second) = (String::new(), String::new());
        let out = child.stdout.take().expect("standard output");
        let mut out = BufReader::new(out);
        out.read_line(&mut uri).expect("a line");
        // All addresses are printed in one go.
        if !out.buffer().is_empty() {
            out.read_line(&mut second).expect("a line");
        }
        Serving { child, uri: uri.trim_end().to_string(), second }
    }

    /// Asks it to stop; its exit code.
    pub fn stop_quietly(mut self) -> Option<i32> {
        self.terminate();
        self.child.wait().expect("it ends").code()
    }

    /// What it said on standard error; it has ended.
    pub fn said(&mut self) -> String {
        let mut said = String::new();
        let mut err = self.child.stderr.take().expect("standard error");
        err.read_to_string(&mut said).expect("text");
        said
    }

    fn terminate(&self) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &pid]).status().expect("kill starts");
        assert!(killed.success());
    }

    /// Asks it to stop; its exit code, and what it said meanwhile.
    pub fn stop(self) -> (Option<i32>, String) {
        self.terminate();
        self.end()
    }

    /// Its end, of its own accord: its exit code, and what it said.
    pub fn end(mut self) -> (Option<i32>, String) {
        let said = self.said();
        (self.child.wait().expect("it ends").code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // If a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn tantalum(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A path that is short enough for a socket, and not that of another run of the tests. What is there goes when
/// this is dropped.
pub fn socket(name: &str) -> Spot {
    Spot::new(name)
}

/// A client of the old style, one request at a time.
pub struct Nbd {
    stream: UnixStream,
    pub size: u64,
}

impl Nbd {
    /// Of the first export at this socket.
    pub fn connect(socket: &Path) -> io::Result<Nbd> {
        let mut nbd = Nbd { stream: UnixStream::connect(socket)?, size: 0 };
        assert_eq!(nbd.get(18)?[..16], *b"NBDMAGICIHAVEOPT");
        nbd.stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0")?;
        let told = nbd.get(10)?;
        nbd.size = u64::from_be_bytes(told[..8].try_into().expect("eight bytes"));
        Ok(nbd)
    }

    fn get(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Asks for so many bytes from a block on, and leaves the answer where it is.
    pub fn ask_for(&mut self, block: u64, length: u32) -> io::Result<()> {
        let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0];
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        bytes.extend((block * 4096).to_be_bytes());
        bytes.extend(length.to_be_bytes());
        self.stream.write_all(&bytes)
    }

    /// The error of the next answer, if it is one.
    pub fn error(&mut self) -> Option<u32> {
        let reply = self.get(16).ok()?;
        let errno = u32::from_be_bytes(reply[4..8].try_into().expect("four bytes"));
        (errno > 0).then_some(errno)
    }

    /// Sends a request on a block of 4 KiB; the answer is an error if the server says so.
    fn ask(&mut self, kind: u16, block: u64, length: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0];
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        bytes.extend((block * 4096).to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)?;
        let reply = self.get(16)?;
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        assert_eq!(reply[8..], [0, 0, 0, 0, 0, 0, 0, 7]);
        match u32::from_be_bytes(reply[4..8].try_into().expect("four bytes")) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }

    pub fn read(&mut self, block: u64) -> io::Result<Vec<u8>> {
        self.ask(0, block, 4096, &[])?;
        self.get(4096)
    }

    pub fn write(&mut self, block: u64, data: &[u8; 4096]) -> io::Result<()> {
        self.ask(1, block, 4096, data)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.ask(3, 0, 0, &[])
    }
}
