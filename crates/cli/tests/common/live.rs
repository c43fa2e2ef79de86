//! Commands that run a drive, and an NBD client.

#![allow(dead_code, reason = "not all tests need all of it")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tantalum_testing::{Signal, Spot, send};

/// A process that runs a drive.
pub struct Serving {
    pub child: Child,
    /// The line that it printed when it was ready.
    pub uri: String,
    /// The second such line, if there is one.
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
        // All addresses are printed at once.
        if !out.buffer().is_empty() {
            out.read_line(&mut second).expect("a line");
        }
        Serving { child, uri: uri.trim_end().to_string(), second }
    }

    /// Stops it; returns its exit code.
    pub fn stop_quietly(mut self) -> Option<i32> {
        self.terminate();
        self.child.wait().expect("it ends").code()
    }

    /// Its standard error, after it has ended.
    pub fn said(&mut self) -> String {
        let mut said = String::new();
        let mut err = self.child.stderr.take().expect("standard error");
        err.read_to_string(&mut said).expect("text");
        said
    }

    fn terminate(&self) {
        send(Signal::TERM, &self.child);
    }

    /// Stops it; returns its exit code and its standard error.
    pub fn stop(self) -> (Option<i32>, String) {
        self.terminate();
        self.end()
    }

    /// Waits until it ends by itself; returns its exit code and its standard error.
    pub fn end(mut self) -> (Option<i32>, String) {
        let said = self.said();
        (self.child.wait().expect("it ends").code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Only if a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn tantalum(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A path that is short enough for a socket, unique to this run of the tests. The file there is
/// removed on drop.
pub fn socket(name: &str) -> Spot {
    Spot::new(name)
}

/// A client of the old style, one request at a time.
pub struct Nbd {
    stream: UnixStream,
    pub size: u64,
}

impl Nbd {
    /// Connects to the first export at this socket.
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

    /// Requests this many bytes from a block on, and does not read the answer.
    pub fn ask_for(&mut self, block: u64, length: u32) -> io::Result<()> {
        let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0];
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        bytes.extend((block * 4096).to_be_bytes());
        bytes.extend(length.to_be_bytes());
        self.stream.write_all(&bytes)
    }

    /// The error of the next answer, if it has one.
    pub fn error(&mut self) -> Option<u32> {
        let reply = self.get(16).ok()?;
        let errno = u32::from_be_bytes(reply[4..8].try_into().expect("four bytes"));
        (errno > 0).then_some(errno)
    }

    /// Sends a request for a block of 4 KiB; returns the server's error, if any.
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
