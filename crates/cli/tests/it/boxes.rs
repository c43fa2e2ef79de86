//! The same commands on other boxes than drives: memory, a magnetic disk, a file of the host.

use crate::common::ends;
use crate::common::live::{Nbd, Serving, socket, tantalum};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;
use tantalum_testing::{Signal, Spot, send};

/// Serves a box at these two sockets.
fn serve(name: &str, which: &[&str]) -> (Serving, Spot, Spot) {
    let (nbd, control) = (socket(&format!("{name}.nbd")), socket(&format!("{name}.ctl")));
    let mut command = tantalum(&["drive", "serve", "--time-scale", "0"]);
    command.args(which).arg("--unix").arg(&nbd).arg("--control").arg(&control);
    let serving = Serving::start(command);
    assert!(serving.uri.starts_with("nbd+unix://"), "{}", serving.end().1);
    (serving, nbd, control)
}

fn ask(command: &str, path: &Path, more: &[&str], code: i32) -> (String, String) {
    let mut asked = tantalum(&["drive", command]);
    asked.arg(path).args(more);
    ends(&asked.output().expect("it starts"), code)
}

fn json(command: &str, path: &Path) -> Value {
    serde_json::from_str(&ask(command, path, &["--json"], 0).0).expect("it prints JSON")
}

fn content(block: u64) -> [u8; 4096] {
    let mut data = [0x5a; 4096];
    data[..8].copy_from_slice(&block.to_le_bytes());
    data
}

/// Writes and flushes block 1, and writes 30 more that are not flushed.
fn write_to(nbd: &Path) {
    let mut client = Nbd::connect(nbd).expect("a server");
    client.write(1, &content(1)).expect("written");
    client.flush().expect("flushed");
    (2..32).for_each(|block| client.write(block, &content(block)).expect("written"));
}

/// How many of these 30 blocks are lost; checks that the flushed block is there.
fn lost(nbd: &Path) -> u64 {
    let mut client = Nbd::connect(nbd).expect("a server");
    assert_eq!(client.read(1).expect("read"), content(1));
    let mut is_lost = |block: &u64| client.read(*block).expect("read") != content(*block);
    (2..32).filter(|block| is_lost(block)).count() as u64
}

/// Every value of a box has a description, and every description has a value.
fn described(answer: &Value) {
    for field in answer["fields"].as_array().expect("descriptions") {
        let name = field["name"].as_str().expect("a name");
        let value = name.split('.').try_fold(answer, |at, part| at.get(part));
        assert!(value.is_some(), "{name} is not in {answer}");
        assert!(!field["help"].as_str().expect("help").is_empty(), "{name}");
        let unit = field["unit"].as_str().expect("a unit");
        assert!(["count", "bytes", "ns", "J", "ratio", "flag", "text"].contains(&unit), "{unit}");
    }
}

#[test]
fn memory_loses_at_a_cut_what_it_does_not_promise() {
    let (serving, nbd, control) = serve("ram", &["--ram", "64MiB"]);
    assert_eq!(Nbd::connect(&nbd).expect("a server").size, 64 << 20);
    write_to(&nbd);
    let status = json("status", &control);
    assert_eq!((&status["design"], &status["power"]), (&"ram".into(), &"on".into()));
    assert_eq!(status["acknowledged_is_safe"], false);
    assert!(status.get("protected").is_none() && status["image"].is_null(), "{status}");
    let stats = json("stats", &control);
    described(&status);
    described(&stats);
    assert_eq!(stats["cache"]["blocks"], 30);
    assert_eq!(stats["stored_blocks"], 31);
    assert_eq!(stats["commands"]["write"]["done"], 31);
    let (text, _) = ask("stats", &control, &[], 0);
    assert!(text.contains("volatile    30 of 4096 commands, 30 blocks"), "{text}");
    let (text, _) = ask("top", &control, &["--once", "--interval", "0.1"], 0);
    for part in [" ON  ram 64.00 MiB  in memory", "volatile    ", " 31 of 16384 blocks", "c cut"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("flash") && text.lines().count() == 24, "{text}");

    let cut = json("cut", &control);
    assert_eq!((&cut["was"], &cut["lost_blocks_at_most"]), (&"on".into(), &30.into()));
    assert_eq!(cut["complete"], true);
    assert!(Nbd::connect(&nbd).is_err());
    let (text, _) = ask("status", &control, &[], 0);
    assert!(text.contains("power       off") && text.contains("may be lost with the power"));
    assert!(text.contains("last cut    nothing protects its memory: up to 30"), "{text}");
    let (text, _) = ask("top", &control, &["--once", "--interval", "0.1"], 0);
    assert!(text.contains(" OFF  ram"), "{text}");
    let (text, _) = ask("restore", &control, &[], 0);
    assert!(text.contains("took commands") && !text.contains("phases"), "{text}");
    let lost = lost(&nbd);
    assert!(lost <= 30, "{lost}");
    // The blocks that survived the cut are durable.
    assert_eq!(json("stats", &control)["cache"]["blocks"], 0);
    assert_eq!(json("stats", &control)["outages"]["cuts"], 1);
    let (code, said) = serving.stop();
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(!control.exists() && !nbd.exists(), "a socket is still there");
}

/// Over many cuts something must be lost, or the device would keep more than it promises.
#[test]
fn cuts_of_memory_come_by_themselves() {
    let more = ["--ram", "16MiB", "--cut-after-ops", "60", "--restore-after", "0s"];
    let (serving, nbd, control) = serve("ramcuts", &more);
    let back = |cuts: u64| loop {
        let status = json("status", &control);
        if status["cuts"] == cuts && status["power"] == "on" {
            break;
        }
    };
    let mut lost = 0;
    for round in 0..5 {
        let mut client = Nbd::connect(&nbd).expect("a server");
        let tag = |block: u64| content(round * 1000 + block);
        let written = (0..).take_while(|block| client.write(*block, &tag(*block)).is_ok()).count();
        back(2 * round + 1);
        let mut client = Nbd::connect(&nbd).expect("a server");
        let is_lost = |block: &u64| client.read(*block).expect("read") != tag(*block);
        lost += (0..written as u64).take(40).filter(is_lost).count();
        // The remaining commands until the next cut.
        let mut client = Nbd::connect(&nbd).expect("a server");
        while client.read(0).is_ok() {}
        back(2 * round + 2);
    }
    assert!(lost > 0, "nothing was lost");
    assert_eq!(serving.stop().0, Some(0));
}

#[test]
fn memory_that_is_safe_loses_nothing() {
    let (serving, nbd, control) = serve("safe", &["--ram", "16MiB", "--ram-ack", "safe"]);
    write_to(&nbd);
    assert_eq!(json("cut", &control)["lost_blocks_at_most"], 0);
    ask("restore", &control, &[], 0);
    assert_eq!(lost(&nbd), 0);
    assert_eq!(json("status", &control)["acknowledged_is_safe"], true);
    assert_eq!(serving.stop().0, Some(0));
}

#[test]
fn a_disk_is_served_watched_and_cut() {
    let which = ["--disk", "disk-15k", "--capacity", "1GiB"];
    let (serving, nbd, control) = serve("disk", &which);
    assert_eq!(Nbd::connect(&nbd).expect("a server").size, 1 << 30);
    write_to(&nbd);
    let stats = json("stats", &control);
    described(&stats);
    assert_eq!(
        (&stats["cache"]["blocks"], &stats["interface_write_bytes"]),
        (&4096.into(), &(31 * 4096).into())
    );
    let (text, _) = ask("top", &control, &["--once", "--interval", "0.1"], 0);
    for part in [" ON  disk 1.00 GiB  in memory", "cache       ", "of 4096 blocks"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let (text, _) = ask("stats", &control, &[], 0);
    assert!(text.contains("of 4096 blocks") && text.contains("arm         "), "{text}");
    let told = json("cut", &control)["lost_blocks_at_most"].as_u64().expect("a number");
    ask("restore", &control, &[], 0);
    let lost = lost(&nbd);
    assert!(lost <= told, "{lost} are lost, {told} were told");
    let ready = json("status", &control)["last_restore"]["ready_ns"].as_u64().expect("a time");
    assert!(ready >= 3_000_000_000, "it spins up for 3 s of its clock, not {ready} ns");
    assert_eq!(serving.stop().0, Some(0));
}

#[test]
fn an_array_of_disks_is_served_watched_and_cut() {
    let which = ["--disk", "4xdisk-15k", "--capacity", "1000000000"];
    let (serving, nbd, control) = serve("array", &which);
    // Chunks of 64 KiB on each: 3815 of them have at least a quarter.
    assert_eq!(Nbd::connect(&nbd).expect("a server").size, 4 * 3815 * (64 << 10));
    write_to(&nbd);
    let stats = json("stats", &control);
    described(&stats);
    assert_eq!(
        (&stats["cache"]["blocks"], &stats["interface_write_bytes"]),
        (&(4 * 4096).into(), &(31 * 4096).into())
    );
    let (text, _) = ask("stats", &control, &[], 0);
    assert!(text.contains("arms        ") && text.contains("of 16384 blocks"), "{text}");
    let (text, _) = ask("top", &control, &["--once", "--interval", "0.1"], 0);
    assert!(text.contains(" ON  4 disks 953.75 MiB  in memory"), "{text}");
    let told = json("cut", &control)["lost_blocks_at_most"].as_u64().expect("a number");
    let status = json("status", &control);
    assert_eq!((&status["design"], &status["power"]), (&"4 disks".into(), &"off".into()));
    ask("restore", &control, &[], 0);
    let lost = lost(&nbd);
    assert!(lost <= told, "{lost} are lost, {told} were told");
    assert_eq!(serving.stop().0, Some(0));
}

/// A file with this many bytes of zeros, in a directory where direct I/O is more likely than in a
/// temporary one.
fn file(name: &str, bytes: u64) -> std::path::PathBuf {
    let path = crate::common::file(name, "");
    std::fs::File::options()
        .write(true)
        .open(&path)
        .expect("it is there")
        .set_len(bytes)
        .expect("room");
    path
}

/// Data that clients wrote is in the file at its offset, also after a kill, because the host keeps
/// its power.
#[test]
fn a_file_is_served_as_it_is() {
    let path = file("plain.raw", 8 << 20);
    let name = path.to_str().expect("text");
    let which = ["--file", name, "--buffered"];
    let (mut serving, nbd, control) = serve("file", &which);
    assert_eq!(Nbd::connect(&nbd).expect("a server").size, 8 << 20);
    write_to(&nbd);
    let status = json("status", &control);
    assert_eq!((&status["design"], &status["image"]), (&"file".into(), &name.into()));
    assert!(status["defect"].is_null(), "{status}");
    let stats = json("stats", &control);
    described(&stats);
    assert_eq!((&stats["direct"], &stats["syncs"]), (&false.into(), &1.into()));
    // The file was a hole until then.
    let allocated = stats["allocated_bytes"].as_u64().expect("a number");
    assert!((31 * 4096..8 << 20).contains(&allocated), "{allocated}");
    let (text, _) = ask("top", &control, &["--once", "--interval", "0.1"], 0);
    assert!(text.contains(" ON  file 8.00 MiB  ") && text.contains("page cache"), "{text}");

    // One owner at a time.
    let second = socket("second.nbd");
    let mut command = tantalum(&["drive", "serve", "--file", name, "--buffered", "--unix"]);
    let (_, why) = ends(&command.arg(&second).output().expect("it starts"), 2);
    assert!(why.contains("in use"), "{why}");

    let (text, _) = ask("cut", &control, &[], 0);
    assert!(text.contains("the link is cut"), "{text}");
    assert!(Nbd::connect(&nbd).is_err());
    ask("restore", &control, &[], 0);
    assert_eq!(lost(&nbd), 0);
    let there = |block: u64| {
        let mut data = [0; 4096];
        let file = std::fs::File::open(&path).expect("it is there");
        file.read_exact_at(&mut data, block * 4096).expect("read");
        data
    };
    (1..32).for_each(|block| assert_eq!(there(block), content(block), "block {block}"));
    assert_eq!(there(32), [0; 4096]);

    serving.child.kill().expect("it can be killed");
    serving.child.wait().expect("it ends");
    // By default the control socket is beside the file. It was removed at the end of the process,
    // or is replaced.
    let mut command = tantalum(&["drive", "serve", "--file", name, "--buffered", "--unix"]);
    command.arg(&nbd);
    let serving = Serving::start(command);
    assert_eq!(json("status", &path)["power"], "on");
    assert_eq!(lost(&nbd), 0);
    send(Signal::INT, &serving.child);
    let (code, said) = serving.end();
    assert_eq!((code, said.as_str()), (Some(0), ""));
    std::fs::remove_file(&path).expect("removed");
}

/// With `--capacity`; without, the error says so.
#[test]
fn a_file_that_does_not_exist_is_created() {
    let path = file("made.raw", 0);
    std::fs::remove_file(&path).expect("removed");
    let name = path.to_str().expect("text");
    let refused = |more: &[&str], code: i32| {
        let nbd = socket("refused.nbd");
        let mut command = tantalum(&["drive", "serve", "--file", name, "--buffered", "--unix"]);
        let output = command.arg(&*nbd).args(more).output().expect("it starts");
        ends(&output, code).1
    };
    let why = refused(&[], 2);
    assert!(why.contains("there is no") && why.contains("--capacity SIZE creates it"), "{why}");
    let why = refused(&["--read-only"], 2);
    assert!(why.contains("there is no") && !why.contains("--capacity"), "{why}");
    let why = refused(&["--read-only", "--capacity", "1MiB"], 2);
    assert!(why.contains("it creates a file"), "{why}");
    // Nothing is left of one that cannot be made: there is no room.
    refused(&["--capacity", "4000000TiB"], 1);
    assert!(!path.exists());

    let which = ["--file", name, "--buffered", "--keep-room", "--capacity", "1000KiB"];
    let (serving, nbd, control) = serve("made", &which);
    assert_eq!(Nbd::connect(&nbd).expect("a server").size, 1000 << 10);
    let allocated = json("stats", &control)["allocated_bytes"].as_u64();
    assert!(allocated >= Some(1000 << 10), "{allocated:?}");
    let found = std::fs::metadata(&path).expect("it is there");
    assert_eq!((found.len(), found.permissions().mode() & 0o777), (1000 << 10, 0o600));
    write_to(&nbd);
    let (code, said) = serving.stop();
    assert_eq!((code, said), (Some(0), format!("{name}: creating it, 1000.00 KiB\n")));

    // The same command again opens it, and one that needs more than it has is refused.
    let (serving, nbd, _control) = serve("made", &which);
    assert_eq!(lost(&nbd), 0);
    assert_eq!(serving.stop(), (Some(0), String::new()));
    let why = refused(&["--capacity", "1004KiB"], 2);
    assert!(why.contains("it exists, and has only 1024000 bytes"), "{why}");
    std::fs::remove_file(&path).expect("removed");
}

/// It needs no right to write then.
#[test]
fn a_file_that_is_served_to_be_read_is_opened_to_be_read() {
    let path = file("reader.raw", 1 << 20);
    std::fs::write(&path, content(3).repeat(16)).expect("written");
    let readable = std::fs::Permissions::from_mode(0o400);
    std::fs::set_permissions(&path, readable).expect("its owner may");
    let name = path.to_str().expect("text");
    let which = ["--file", name, "--buffered", "--read-only"];
    let (serving, nbd, control) = serve("reader", &which);
    let mut client = Nbd::connect(&nbd).expect("a server");
    assert_eq!(client.read(5).expect("read"), content(3));
    // A client that does not ask whether it may write: not permitted.
    let refused = client.write(5, &content(5)).expect_err("it can only be read");
    assert_eq!(refused.raw_os_error(), Some(1));
    client.flush().expect("there is nothing to flush");
    assert_eq!(client.read(5).expect("read"), content(3));
    // Root may open a file for writing whatever its mode is: so look at how it is open.
    let fds = format!("/proc/{}/fd", serving.child.id());
    let entries = std::fs::read_dir(&fds).expect("descriptors").map(|entry| entry.expect("one"));
    let of_file =
        |entry: &std::fs::DirEntry| std::fs::read_link(entry.path()).is_ok_and(|to| to == path);
    let open: Vec<_> = entries.filter(of_file).collect();
    assert_eq!(open.len(), 3, "to read, to sync, and the lock");
    for entry in open {
        let info = entry.path().to_str().expect("text").replace("/fd/", "/fdinfo/");
        let info = std::fs::read_to_string(info).expect("of this process");
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
        let flags = u32::from_str_radix(flags.trim(), 8).expect("octal");
        assert_eq!(flags & 3, 0, "{info}");
    }
    ask("cut", &control, &[], 0);
    ask("restore", &control, &[], 0);
    assert_eq!(Nbd::connect(&nbd).expect("a server").read(5).expect("read"), content(3));
    assert_eq!(serving.stop(), (Some(0), String::new()));
    std::fs::remove_file(&path).expect("removed");
}

/// A new file with the name of the served one is not written.
#[test]
fn a_file_that_was_replaced_is_not_restored() {
    let path = file("replaced.raw", 1 << 20);
    let name = path.to_str().expect("text");
    let (serving, _nbd, control) = serve("replaced", &["--file", name, "--buffered"]);
    ask("cut", &control, &[], 0);
    std::fs::remove_file(&path).expect("removed");
    file("replaced.raw", 1 << 20);
    let (_, why) = ask("restore", &control, &[], 1);
    assert!(why.contains("another file is there now"), "{why}");
    assert_eq!(json("status", &control)["power"], "off");
    assert_eq!(serving.stop().0, Some(0));
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn metrics_are_those_of_the_box() {
    let (mut serving, nbd, _control) = serve("meter", &["--ram", "16MiB", "--http", "0"]);
    let mut said = BufReader::new(serving.child.stderr.take().expect("standard error"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    let at = line.trim_end().strip_prefix("status and metrics: http://").expect("an address");
    write_to(&nbd);
    let mut stream = TcpStream::connect(at.trim_end_matches('/')).expect("a server");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    let docs = include_str!("../../../../docs/control.md");
    for metric in ["volatile_blocks 30", "stored_blocks 31", "cuts_total 0", "stopped 0"] {
        assert!(text.contains(&format!("\ntantalum_{metric}\n")), "{metric} is not in\n{text}");
        let name = metric.split(' ').next().expect("a name");
        assert!(docs.contains(&format!("`{name}`")), "{name} is not documented");
    }
    // There is no flash, no map and no wear.
    assert!(!text.contains("flash") && !text.contains("wear") && !text.contains("worn"), "{text}");
    assert_eq!(serving.stop_quietly(), Some(0));
}

/// Arguments must name exactly one valid box.
#[test]
fn invalid_arguments_are_refused() {
    let refused = |arguments: &[&str], code: i32, why: &str| {
        let mut command = tantalum(&["drive", "serve", "--unix", "/nonexistent/nbd"]);
        let output = command.args(arguments).stdin(Stdio::null()).output().expect("it starts");
        let (_, said) = ends(&output, code);
        assert!(said.contains(why), "{arguments:?}: {said}");
    };
    refused(&["disk.img", "--ram", "1GiB"], 2, "cannot be used with");
    refused(&["disk.img", "--file", "x"], 2, "cannot be used with");
    refused(&["--design", "durassd", "--ram", "1GiB"], 2, "cannot be used with");
    refused(&["--ram", "1GiB", "--disk", "disk-15k"], 2, "cannot be used with");
    refused(&["--ram", "1GiB", "--file", "x"], 2, "cannot be used with");
    refused(&["--ram", "1GiB", "--capacity", "2GiB"], 2, "required");
    refused(&["--ram", "1GiB", "--host-sync"], 2, "cannot be used with");
    refused(&["--file", "x", "--host-crashed"], 2, "cannot be used with");
    refused(&["--design", "durassd", "--ram-ack", "safe"], 2, "it goes with --ram");
    refused(&["--ram", "1GiB", "--buffered"], 2, "it goes with --file");
    refused(&["disk.img", "--ram-ack", "safe"], 2, "it goes with --ram");
    refused(&["disk.img", "--buffered"], 2, "it goes with --file");
    refused(&["--ram", "1GiB", "--keep-room"], 2, "it goes with --file");
    refused(&["--ram", "5000"], 2, "not whole blocks");
    refused(&["--ram", "0"], 2, "no device has that size");
    refused(&["--disk", "disk-15"], 2, "disk-15k");
    refused(&["--disk", "durassd"], 2, "is an SSD");
    refused(&["--disk", "4xdisk-15"], 2, "disk-15k");
    refused(&["--disk", "4xdurassd"], 2, "is an SSD");
    refused(&[], 2, "--ram");
    refused(&["--file", "/nonexistent/file"], 2, "there is no");
    refused(&["--file", "/", "--buffered"], 2, "neither a regular file nor a block device");
}
