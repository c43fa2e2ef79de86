//! Who may use the files and sockets of a drive's process, and where it listens.

use crate::common::live::{Nbd, Serving, socket, tantalum};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const BLANK: [&str; 8] =
    ["drive", "serve", "--design", "volatile", "--capacity", "2GiB", "--time-scale", "0"];

/// The program under an umask.
fn under(umask: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = format!("umask {umask} && exec \"$0\" \"$@\"");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tantalum")]).args(arguments);
    command.stdin(std::process::Stdio::null());
    command
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_a_drive_makes_is_its_users_alone_whatever_the_umask() {
    for umask in ["000", "022", "277", "777"] {
        let (image, unix) = (socket("alone.img"), socket("alone.sock"));
        let (name, at) = (image.to_str().expect("text"), unix.to_str().expect("text"));
        let create = ["drive", "create", name, "--capacity", "2GiB"];
        let made = under(umask, &create).output().expect("it starts");
        assert!(made.status.success(), "{}", said(&made));
        assert_eq!(mode(&image), 0o600, "the image under umask {umask}");
        let serve = ["drive", "serve", name, "--time-scale", "0", "--unix", at];
        let serving = Serving::start(under(umask, &serve));
        assert_eq!(mode(&unix), 0o600, "the socket under umask {umask}");
        let control = image.with_file_name(format!(
            "{}.control",
            image.file_name().and_then(|n| n.to_str()).expect("text")
        ));
        assert_eq!(mode(&control), 0o600, "the control socket under umask {umask}");
        assert_eq!(serving.stop().0, Some(0));
        fs::remove_file(&image).expect("the image is there");
    }
}

#[test]
fn an_image_keeps_the_mode_that_its_user_gave_it() {
    let image = socket("given.img");
    let name = image.to_str().expect("text");
    let create = ["drive", "create", name, "--capacity", "2GiB"];
    assert!(tantalum(&create).status().expect("it starts").success());
    fs::set_permissions(&image, Permissions::from_mode(0o640)).expect("changed");
    let serve = ["drive", "serve", name, "--time-scale", "0", "--tcp", "0"];
    assert_eq!(Serving::start(tantalum(&serve)).stop().0, Some(0));
    assert_eq!(mode(&image), 0o640);
    let again = ["drive", "create", name, "--capacity", "2GiB", "--force"];
    assert!(tantalum(&again).status().expect("it starts").success());
    assert_eq!(mode(&image), 0o640);
    fs::remove_file(&image).expect("the image is there");
}

#[test]
fn a_socket_has_the_mode_that_is_asked_for() {
    let unix = socket("mode.sock");
    let at = unix.to_str().expect("text");
    for (umask, asked, want) in
        [("077", "660", 0o660), ("000", "0600", 0o600), ("022", "666", 0o666)]
    {
        let mut arguments = BLANK.to_vec();
        arguments.extend(["--unix", at, "--mode", asked]);
        let serving = Serving::start(under(umask, &arguments));
        assert_eq!(mode(&unix), want, "{asked} under umask {umask}");
        Nbd::connect(&unix).expect("a server");
        assert_eq!(serving.stop().0, Some(0));
    }
    for (words, why) in [
        (&["--unix", at, "--mode", "rw"][..], "octal"),
        (&["--unix", at, "--mode", "1777"], "octal"),
        (&["--unix", at, "--mode", "680"], "octal"),
        (&["--unix", at, "--mode", "+66"], "octal"),
        (&["--tcp", "0", "--mode", "660"], "--unix"),
    ] {
        let output = tantalum(&BLANK).args(words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{words:?}: {}", said(&output));
    }
}

/// Everybody who can connect to a TCP socket without TLS can read and write the drive.
#[test]
fn tcp_that_others_can_reach_takes_tls_or_the_users_word() {
    for (words, ways) in [
        (&["--tcp", "0.0.0.0:0"][..], &["--tls DIR", "--insecure"][..]),
        (&["--tcp", "[::]:0"], &["--tls DIR", "--insecure"]),
        (&["--tcp", "0", "--http", "0.0.0.0:0"], &["127.0.0.1", "--insecure"]),
    ] {
        let output = tantalum(&BLANK).args(words).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(output.stdout.is_empty(), "{words:?}: it serves");
        for way in ways {
            assert!(said(&output).contains(way), "{words:?}: {}", said(&output));
        }
    }
    for words in [
        &["--tcp", "127.0.0.2:0"][..],
        &["--tcp", "0", "--http", "127.0.0.1:0"],
        &["--tcp", "0.0.0.0:0", "--http", "0.0.0.0:0", "--insecure"],
    ] {
        let serving = Serving::start({
            let mut command = tantalum(&BLANK);
            command.args(words);
            command
        });
        assert!(serving.uri.starts_with("nbd://"), "{words:?}: {}", serving.uri);
        let (code, said) = serving.stop();
        assert_eq!(code, Some(0), "{words:?}: {said}");
        assert_eq!(said.contains("everybody who reaches"), words.contains(&"--insecure"), "{said}");
    }
}

/// A socket passed by systemd is checked like one that the server opens itself.
#[test]
fn tcp_that_is_handed_over_is_no_exception() {
    for (at, code) in [("0.0.0.0:0", Some(2)), ("127.0.0.1:0", None)] {
        let listener = std::net::TcpListener::bind(at).expect("a socket");
        let script = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_tantalum")]).args(BLANK);
        command.stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(listener)));
        let serving = Serving::start(command);
        assert_eq!(serving.uri.is_empty(), code.is_some(), "{at}: {}", serving.uri);
        if code.is_none() {
            assert_eq!(serving.stop().0, Some(0));
            continue;
        }
        let (ended, said) = serving.end();
        assert!(ended == code && said.contains("--insecure"), "{said}");
    }
}
