//! `tantalum drive serve` as a user and as systemd start it.

#![allow(clippy::disallowed_methods, reason = "tests start programs and open sockets")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ARGUMENTS: [&str; 8] =
    ["drive", "serve", "--design", "volatile", "--capacity", "2GiB", "--time-scale", "0"];

struct Serving {
    child: Child,
    /// What it printed once it could be used.
    uri: String,
}

impl Serving {
    fn start(mut command: Command) -> Serving {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut uri = String::new();
        let out = child.stdout.take().expect("standard output");
        BufReader::new(out).read_line(&mut uri).expect("a line");
        Serving { child, uri: uri.trim_end().to_string() }
    }

    /// Asks it to stop; its exit code, and what it said meanwhile.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-TERM", &pid]).status().expect("kill starts");
        assert!(killed.success());
        let mut said = String::new();
        let mut err = self.child.stderr.take().expect("standard error");
        err.read_to_string(&mut said).expect("text");
        (self.child.wait().expect("it ends").code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // If a test fails.
        let _ = self.child.kill();
    }
}

fn tantalum(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A path that is short enough for a socket.
fn socket(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tantalum-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

/// Writes a block and reads it back, as a client of the old style.
fn use_it(socket: &Path) {
    talk(socket, true);
}

/// Reads the block that [`use_it`] wrote; writes it before, if `write`.
fn talk(socket: &Path, write: bool) {
    let mut stream = UnixStream::connect(socket).expect("a server");
    let get = |stream: &mut UnixStream, count: usize| {
        let mut bytes = vec![0; count];
        stream.read_exact(&mut bytes).expect("bytes");
        bytes
    };
    assert_eq!(get(&mut stream, 18)[..16], *b"NBDMAGICIHAVEOPT");
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").expect("sent");
    let told = get(&mut stream, 10);
    assert!(u64::from_be_bytes(told[..8].try_into().expect("eight")) >= 2 << 30);
    let request = |kind: u8| {
        let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, kind];
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        bytes.extend([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 16, 0]);
        bytes
    };
    let done = [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    if write {
        stream.write_all(&request(1)).expect("sent");
        stream.write_all(&[0x5a; 4096]).expect("sent");
        assert_eq!(get(&mut stream, 16), done);
    }
    stream.write_all(&request(0)).expect("sent");
    assert_eq!(get(&mut stream, 16), done);
    assert!(get(&mut stream, 4096).iter().all(|b| *b == 0x5a));
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let path = socket("serve.sock");
    let mut command = tantalum(&ARGUMENTS);
    command.args(["--verbose", "--export", "my drive", "--unix"]).arg(&path);
    let serving = Serving::start(command);
    assert_eq!(serving.uri, format!("nbd+unix:///my%20drive?socket={}", path.display()));
    use_it(&path);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("uses export \"my drive\""), "{said}");
    assert!(!path.exists(), "the socket is still there");
}

/// A process that is killed has cut the power of its drive: what a durable cache had
/// acknowledged is there again.
#[test]
fn an_image_is_served_after_its_server_was_killed() {
    let path = socket("image.sock");
    let image = Path::new(env!("CARGO_TARGET_TMPDIR")).join("served.img");
    let name = image.to_str().expect("text");
    let create = ["drive", "create", name, "--capacity", "4GiB", "--force"];
    assert!(tantalum(&create).status().expect("it starts").success());
    let serve = || {
        let mut command = tantalum(&["drive", "serve", name, "--time-scale", "0", "--unix"]);
        command.arg(&path);
        command
    };
    let mut serving = Serving::start(serve());
    use_it(&path);
    let second = tantalum(&["drive", "serve", name, "--tcp", "0"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.code() == Some(1) && said.contains("in use"), "{said}");
    serving.child.kill().expect("it can be killed");
    serving.child.wait().expect("it ends");

    let serving = Serving::start(serve());
    talk(&path, false);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    let check = tantalum(&["drive", "check", name]).output().expect("it starts");
    let said = String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success() && said.ends_with("all is well\n"), "{said}");
    std::fs::remove_file(&image).expect("the image is there");
}

#[test]
fn it_serves_sockets_that_are_handed_over() {
    let path = socket("activated.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let mut command = Command::new("sh");
    // As systemd does: the socket is descriptor 3, and the process is told by its number.
    let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"";
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_tantalum")]).args(ARGUMENTS);
    command.stdin(Stdio::from(OwnedFd::from(listener)));
    let serving = Serving::start(command);
    use_it(&path);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    // It is not the server's to remove.
    std::fs::remove_file(&path).expect("the socket is there");
}

#[test]
fn what_can_not_be_served_is_refused() {
    for (arguments, code, why) in [
        (&[][..], 1, "there is nowhere to listen"),
        (&["--unix", "/nonexistent/socket"], 1, "can not listen at /nonexistent/socket"),
        (&["--tcp", "drive:1"], 2, "it should be a port"),
        (&["--tcp", "0", "--reader", "drive"], 1, "two exports are called \"drive\""),
        (&["--tcp", "0", "--longest", "1"], 1, "the limit of bytes of a request"),
        (&["--tcp", "0", "--time-scale=-1"], 1, "time scale"),
    ] {
        let output = tantalum(&ARGUMENTS[..6]).args(arguments).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}
