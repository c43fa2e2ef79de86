//! `tantalum drive serve` as a user and as systemd start it.

use crate::common::live::{Nbd, Serving, socket, tantalum};
use crate::common::{ends, file};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use tantalum_testing::{Signal, send};

const ARGUMENTS: [&str; 8] =
    ["drive", "serve", "--design", "volatile", "--capacity", "2GiB", "--time-scale", "0"];

/// Writes a block and reads it back.
fn use_it(socket: &Path) {
    talk(socket, true);
}

/// Reads the block that [`use_it`] wrote; if `write`, writes it first.
fn talk(socket: &Path, write: bool) {
    let mut client = Nbd::connect(socket).expect("a server");
    assert!(client.size >= 2 << 30);
    if write {
        client.write(16, &[0x5a; 4096]).expect("written");
    }
    assert!(client.read(16).expect("read").iter().all(|b| *b == 0x5a));
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let path = socket("serve.sock");
    let mut command = tantalum(&ARGUMENTS);
    command.args(["--verbose", "--export", "my drive", "--unix"]).arg(&path);
    let serving = Serving::start(command);
    assert_eq!(serving.uri, format!("nbd+unix:///my%20drive?socket={}", path.display()));
    use_it(&path);
    // `timeout` sends its signal to the process, and at once to its group: that is no second signal.
    // (Two of a kind may come as one.)
    send(Signal::INT, &serving.child);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("uses export \"my drive\""), "{said}");
    assert!(!path.exists(), "the socket is still there");
}

/// Killing a process cuts the power of its drive: data acknowledged by a durable cache is still
/// there.
#[test]
fn an_image_is_served_after_its_server_was_killed() {
    let path = socket("image.sock");
    let image = socket("served.img");
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
    assert!(second.status.code() == Some(2) && said.contains("in use"), "{said}");
    serving.child.kill().expect("it can be killed");
    serving.child.wait().expect("it ends");

    let serving = Serving::start(serve());
    talk(&path, false);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<_> = said.lines().collect();
    let begins = [
        "the last process that had the drive was killed: the dump is complete in ",
        "found: 1 buffered page, ",
        "the drive took commands after ",
    ];
    assert_eq!(lines.len(), begins.len(), "{said}");
    assert!(lines.iter().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{said}");
    // After an orderly end there is no message.
    assert_eq!(Serving::start(serve()).stop(), (Some(0), String::new()));
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
    // As systemd does: the socket is descriptor 3, and a variable has the number of the process.
    let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"";
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_tantalum")]).args(ARGUMENTS);
    command.stdin(Stdio::from(OwnedFd::from(listener)));
    let serving = Serving::start(command);
    use_it(&path);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    // The server must not remove this socket.
    std::fs::remove_file(&path).expect("the socket is there");
}

#[test]
fn a_connection_that_is_handed_over_is_refused_with_the_reason() {
    for script in
        ["exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"", "exec \"$@\""]
    {
        let (ours, _theirs) = UnixStream::pair().expect("two sockets");
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_tantalum")]).args(ARGUMENTS);
        let output = command.stdin(Stdio::from(OwnedFd::from(ours))).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("Accept=no"), "{said}");
    }
}

#[test]
fn what_cannot_be_served_is_refused() {
    let output = tantalum(&["drive", "serve", "--tcp", "0"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("image") && said.contains("--design"));
    for (arguments, code, why) in [
        (&[][..], 2, "no place to listen: give --unix PATH or --tcp PORT, or a socket of systemd"),
        (
            &["--unix", "/nonexistent/socket"],
            2,
            "cannot listen at /nonexistent/socket: there is no such folder: make it first",
        ),
        (&["--tcp", "0", "--restore-after", "1s"], 2, "--cut-every"),
        (&["--tcp", "drive:1"], 2, "it should be a port"),
        (&["--tcp", "0", "--reader", "drive"], 2, "two exports are called \"drive\""),
        (&["--tcp", "0", "--longest", "0"], 2, "it should be from 64.00 KiB to 1.00 GiB"),
        (&["--tcp", "0", "--longest", "1"], 2, "it should be from 64.00 KiB to 1.00 GiB"),
        (&["--tcp", "0", "--clients", "0"], 2, "the limit of clients"),
        (&["--tcp", "0", "--requests", "70000"], 2, "the limit of requests"),
        (&["--tcp", "0", "--time-scale=-1"], 2, "from 0 to 1000000"),
        (&["--tcp", "0", "--time-scale", "nan"], 2, "from 0 to 1000000"),
    ] {
        let output = tantalum(&ARGUMENTS[..6]).args(arguments).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

/// Once a mount at `/` was said to be ready, and was not to be seen.
#[test]
fn where_nothing_can_be_mounted_is_told_before_anything_is() {
    let plain = file("mount.file", "");
    for (place, why) in [
        ("/", "cannot mount at /: it is the root of all files: name a folder"),
        (plain.to_str().expect("text"), "mount.file: it is no folder: name a folder"),
        ("/proc/tantalum", "its file system refuses folders: name another place"),
        ("/nonexistent/a", "there is no such folder: make it first"),
    ] {
        let words = ["drive", "mount", "--design", "volatile", "--capacity", "2GiB", place];
        let (_, said) = ends(&tantalum(&words).output().expect("it starts"), 2);
        assert!(said.contains(why) && said.lines().count() == 1, "{place}: {said}");
    }
}

/// Once an empty description was read as that of a log, and its first key was missing.
#[test]
fn what_describes_nothing_is_told() {
    let empty = file("nothing.toml", "# nothing\n");
    let folder = empty.with_file_name("folder.toml");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (path, what) in [(&empty, "nothing.toml\" is empty: "), (&folder, "is a folder: ")] {
        for noun in ["cache", "log"] {
            let mut command = tantalum(&[noun, "serve", "--tcp", "0"]);
            let (_, said) = ends(&command.arg(path).output().expect("it starts"), 2);
            let whole = said.contains("the description of a log or a cache");
            assert!(whole && said.contains(what) && said.lines().count() == 1, "{said}");
        }
    }
}

/// The command under a limit of the shell.
fn limited(limit: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]);
    command.arg(env!("CARGO_BIN_EXE_tantalum")).args(arguments).stdin(Stdio::null());
    command
}

/// With any number of descriptors: a process that prints an address serves there; otherwise it says
/// why not.
#[test]
fn a_server_without_descriptors_says_so_and_does_not_start() {
    let path = socket("descriptors.sock");
    let mut refused = 0;
    let mut served = 0;
    for backend in ["uring", "poll"] {
        for limit in 8..30 {
            let mut command = limited(&format!("-n {limit}"), &ARGUMENTS);
            command.args(["--io", backend, "--unix"]).arg(&path);
            let mut serving = Serving::start(command);
            if serving.uri.is_empty() {
                let (code, said) = (serving.child.wait().expect("it ends").code(), serving.said());
                // Not even its libraries may be loaded.
                assert!(code != Some(0), "{said}");
                let uring = said.contains("io_uring") || said.contains("not permitted");
                refused += usize::from(said.contains("ulimit -n"));
                assert!(limit < 26 || uring, "{limit}: {said}");
            } else {
                use_it(&path);
                served += 1;
                assert_eq!(serving.stop_quietly(), Some(0));
            }
        }
    }
    assert!(refused > 0 && served > 0, "{refused} refused, {served} served");
}

/// A server without free descriptors says so, and continues when there are some.
#[test]
fn a_server_goes_on_when_descriptors_are_free_again() {
    let path = socket("spare.sock");
    let mut command = limited("-n 32", &ARGUMENTS);
    command.arg("--unix").arg(&path);
    let mut serving = Serving::start(command);
    let many: Vec<_> = (0..40).map(|_| UnixStream::connect(&path).expect("a place")).collect();
    // All clients with a descriptor are greeted.
    let mut greeting = [0; 18];
    std::io::Read::read_exact(&mut &many[0], &mut greeting).expect("a greeting");
    // At the first client without a descriptor, it prints a message.
    let mut err = BufReader::new(serving.child.stderr.take().expect("standard error"));
    let mut said = String::new();
    while !said.contains("a client could not be accepted") {
        assert!(err.read_line(&mut said).expect("text") > 0, "{said}");
    }
    assert!(said.contains("32 descriptors"), "{said}");
    drop(many);
    use_it(&path);
    assert_eq!(serving.stop_quietly(), Some(0));
}

/// If the system has no memory for a client's request, the client gets an error, and the process
/// continues.
#[test]
fn a_server_without_memory_lives() {
    let path = socket("memory.sock");
    // A drive in memory takes memory only for written blocks, and none is written.
    let mut command = limited("-v 1200000", &ARGUMENTS);
    command.args(["--memory", "64GiB", "--unix"]).arg(&path);
    let serving = Serving::start(command);
    let mut clients = Vec::new();
    for _ in 0..60 {
        let mut client = Nbd::connect(&path).expect("a server");
        for _ in 0..2 {
            client.ask_for(0, 32 << 20).expect("asked");
        }
        clients.push(client);
    }
    // Some clients got an error, because all requests together need far more memory than there is.
    use_it(&path);
    let errors = clients.iter_mut().filter_map(|client| client.error()).collect::<Vec<_>>();
    assert!(errors.contains(&12), "{errors:?}");
    drop(clients);
    use_it(&path);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn clients_that_do_not_fit_into_memory_are_refused() {
    let path = socket("small.sock");
    let mut command = tantalum(&ARGUMENTS);
    let out = command.args(["--memory", "8MiB", "--unix"]).arg(&path).output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("64 clients need"), "{said}");
}
