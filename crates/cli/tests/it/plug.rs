//! The power of a running drive, cut and restored over its control socket under load.

use crate::common::ends;
use crate::common::live::{Nbd, Serving, socket, tantalum};
use serde_json::Value;
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tantalum_export::control::{
    Client, ClientError, CutReport, Kind, MAX_CLIENTS, MAX_LINE, Power, StatsReport, StatusReport,
};
use tantalum_testing::{Signal, Spot, send};

/// A drive in memory at these two sockets.
fn serve(design: &str, name: &str, more: &[&str]) -> (Serving, Spot, Spot) {
    let (nbd, control) = (socket(&format!("{name}.nbd")), socket(&format!("{name}.control")));
    let mut command = tantalum(&["drive", "serve", "--design", design, "--time-scale", "0"]);
    command.args(["--capacity", "2GiB", "--unix"]).arg(&nbd).arg("--control").arg(&control);
    (Serving::start(command_with(command, more)), nbd, control)
}

fn command_with(mut command: Command, more: &[&str]) -> Command {
    command.args(more);
    command
}

fn ask(command: &str, path: &Path, more: &[&str], code: i32) -> (String, String) {
    let mut asked = tantalum(&["drive", command]);
    asked.arg(path).args(more);
    ends(&asked.output().expect("it starts"), code)
}

fn json(command: &str, path: &Path, code: i32) -> Value {
    serde_json::from_str(&ask(command, path, &["--json"], code).0).expect("it prints JSON")
}

/// The content of a block written in this turn.
fn content(block: u64, turn: u64) -> [u8; 4096] {
    let mut data = [0; 4096];
    data[..8].copy_from_slice(&block.to_le_bytes());
    data[8..16].copy_from_slice(&turn.to_le_bytes());
    data[4088..].copy_from_slice(&(block ^ turn).to_le_bytes());
    data
}

/// Writes its own blocks until the drive has no power; returns the acknowledged turn of each block.
fn writer(nbd: PathBuf, first: u64) -> std::thread::JoinHandle<Vec<u64>> {
    std::thread::spawn(move || {
        let mut client = Nbd::connect(&nbd).expect("a server");
        let mut acknowledged = vec![0; 64];
        for turn in 1.. {
            let block = turn * 37 % 64;
            match client.write(first + block, &content(first + block, turn)) {
                Ok(()) => acknowledged[block as usize] = turn,
                Err(e) => {
                    assert_eq!(e.raw_os_error(), Some(5), "{e}");
                    break;
                }
            }
        }
        acknowledged
    })
}

/// Acknowledged data, or newer data, is there.
fn check(nbd: &Path, first: u64, acknowledged: &[u64]) {
    let mut client = Nbd::connect(nbd).expect("a server");
    for (block, turn) in (first..).zip(acknowledged) {
        let data = client.read(block).expect("read");
        let found = u64::from_le_bytes(data[8..16].try_into().expect("eight bytes"));
        assert!(found >= *turn, "block {block}: {found} is there, {turn} was acknowledged");
        if found > 0 {
            assert_eq!(data, content(block, found), "block {block}");
        }
    }
}

#[test]
fn what_was_acknowledged_survives_cuts_under_load() {
    let (serving, nbd, control) = serve("durassd", "load", &[]);
    for round in 0..3 {
        let writers: Vec<_> =
            (0..4).map(|w| (w, writer(nbd.to_path_buf(), (round * 4 + w) * 64))).collect();
        let mut client = Client::connect(&control).expect("a control socket");
        let writes = |stats: &StatsReport| stats.commands["write"].done;
        let before = writes(&client.stats().expect("stats"));
        while writes(&client.stats().expect("stats")) < before + 300 {}
        let cut = client.cut().expect("it is cut");
        assert_eq!((cut.was, cut.lost_blocks_at_most), (Power::On, 0));
        let joules = |name: &str| cut.values.number(&format!("discharge.joules_{name}"));
        let (drawn, needed) = (joules("drawn").expect("joules"), joules("needed").expect("joules"));
        assert!(cut.complete && cut.values.flag("discharge.complete") == Some(true), "{cut:?}");
        assert!(drawn > 0.0 && drawn <= needed, "{cut:?}");
        assert!(needed <= joules("there").expect("joules"), "{cut:?}");
        let acknowledged: Vec<_> =
            writers.into_iter().map(|(w, writer)| (w, writer.join().expect("it ends"))).collect();
        // Without power no client is admitted, and requests for the state are answered.
        assert!(Nbd::connect(&nbd).is_err());
        let status = client.status().expect("status");
        assert_eq!((status.power, status.cuts), (Power::Off, round + 1));
        assert_eq!(client.cut().expect("an answer").was, Power::Off);
        let restored = client.restore(false).expect("it is restored");
        assert!(!restored.salvaged && restored.whole_ns >= restored.ready_ns);
        assert!(restored.phases.iter().any(|p| p.name == "ready" && p.ns == restored.ready_ns));
        for (w, acknowledged) in acknowledged {
            check(&nbd, (round * 4 + w) * 64, &acknowledged);
        }
    }
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    assert!(!control.exists(), "the control socket is still there");
}

/// Unflushed data of a volatile cache is lost, which is reported; flushed data is not.
#[test]
fn a_volatile_cache_loses_what_was_not_flushed_and_says_so() {
    let (serving, nbd, control) = serve("volatile", "volatile", &[]);
    let mut client = Nbd::connect(&nbd).expect("a server");
    client.write(1, &content(1, 1)).expect("written");
    client.flush().expect("flushed");
    (2..30).for_each(|block| client.write(block, &content(block, 1)).expect("written"));
    let (said, _) = ask("cut", &control, &[], 0);
    assert!(said.contains("nothing protects the memory of the drive"), "{said}");
    let cut = json("status", &control, 0)["last_cut"].take();
    let cut: CutReport = serde_json::from_value(cut).expect("a cut");
    assert_eq!(cut.values.flag("protected"), Some(false));
    assert_eq!(cut.values.get("discharge"), Some(&Value::Null));
    let (said, _) = ask("restore", &control, &[], 0);
    assert!(said.contains("until it took commands"), "{said}");
    // A second restore does nothing, and says so once.
    let (said, _) = ask("restore", &control, &[], 0);
    assert_eq!(said.matches("power already").count(), 1, "{said}");
    let mut client = Nbd::connect(&nbd).expect("a server");
    assert_eq!(client.read(1).expect("read"), content(1, 1));
    let lost = (2..30).filter(|b| client.read(*b).expect("read") != content(*b, 1)).count();
    assert!(lost > 0 && lost as u64 <= cut.lost_blocks_at_most, "{lost} lost: {cut:?}");
    assert_eq!(serving.stop().0, Some(0));
}

/// A restart without a protected map cannot distinguish a damaged map page from one that a power
/// cut tore, and would go back to the data flushed before it.
#[test]
fn an_image_that_has_lost_what_was_flushed_is_refused() {
    let image = socket("lost.img");
    let name = image.to_str().expect("text");
    let create = ["drive", "create", name, "--design", "volatile", "--force"];
    let small =
        ["geometry.channels=2", "geometry.packages=1", "geometry.chips=2", "geometry.pages=32"];
    let more = ["geometry.blocks=48", "cache.buffer_kib=256", "space.over_provisioning=60"];
    let all = small.iter().chain(&more).flat_map(|set| ["--set", *set]);
    ends(
        &tantalum(&create.into_iter().chain(all).collect::<Vec<_>>()).output().expect("it starts"),
        0,
    );
    let nbd = socket("lost.nbd");
    let serve = |more: &[&str]| {
        let mut command = tantalum(&["drive", "serve", name, "--time-scale", "0", "--unix"]);
        command.arg(&nbd).args(more);
        Serving::start(command)
    };
    for turn in 1..4 {
        let serving = serve(&[]);
        let mut client = Nbd::connect(&nbd).expect("a server");
        client.write(5, &content(5, turn)).expect("written");
        client.flush().expect("flushed");
        assert_eq!(serving.stop().0, Some(0));
    }
    let whole = std::fs::read(&image).expect("an image");
    // Pages of the payload (part 8) that are not data are the map's.
    let is_map = |at: &usize| {
        let page = &whole[*at..*at + 4096];
        page.iter().any(|b| *b != 0) && page[..8] != 5u64.to_le_bytes()
    };
    let word =
        |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("8 bytes")) as usize;
    let (first, length) = (word(88 + 8 * 16), word(88 + 8 * 16 + 8));
    let all = (first..first + length).step_by(4096);
    let pages: Vec<usize> = all.filter(is_map).collect();
    let (mut refused, mut salvaged) = (0, 0);
    for at in &pages {
        let mut bytes = whole.clone();
        bytes[at + 100] ^= 4;
        std::fs::write(&image, bytes).expect("written");
        // The second attempt fails, too.
        for _ in 0..2 {
            let serving = serve(&[]);
            if serving.uri.is_empty() {
                let (code, said) = serving.stop();
                assert!(code == Some(1) && said.contains("is not what was programmed"), "{said}");
                assert!(said.contains("--salvage"), "{said}");
                refused += 1;
            } else {
                let there = Nbd::connect(&nbd).expect("a server").read(5);
                assert!(there.is_err() || there.unwrap() == content(5, 3), "at {at}");
                serving.stop();
            }
        }
        // Salvage may fail: a map page before the last one is needed.
        let serving = serve(&["--salvage"]);
        let starts = !serving.uri.is_empty();
        salvaged += u32::from(starts);
        assert_eq!(serving.stop().0, Some(if starts { 0 } else { 1 }), "at {at}");
    }
    assert!(refused == 2 * pages.len() && salvaged > 0, "{refused}, {salvaged} of {pages:?}");
    std::fs::remove_file(&image).expect("removed");
}

#[test]
fn a_dump_without_the_energy_is_told_and_salvaged() {
    let image = socket("weak.img");
    let name = image.to_str().expect("text");
    let create = ["drive", "create", name, "--capacity", "2GiB", "--force"];
    let poor = ["--set", "power.joules=0.00002"];
    ends(&tantalum(&[&create[..], &poor].concat()).output().expect("it starts"), 0);
    let nbd = socket("weak.nbd");
    let serve = |more: &[&str]| {
        let mut command = tantalum(&["drive", "serve", name, "--time-scale", "0", "--unix"]);
        command.arg(&nbd).args(more);
        command
    };
    let serving = Serving::start(serve(&[]));
    let mut client = Nbd::connect(&nbd).expect("a server");
    for block in 0..4000 {
        client.write(block, &content(block, 1)).expect("written");
    }
    let cut = json("cut", &image, 1);
    assert_eq!(cut["discharge"]["complete"], false, "{cut}");
    assert!(cut["discharge"]["joules_missing"].as_f64().expect("a number") > 0.0, "{cut}");
    let (_, why) = ask("restore", &image, &[], 1);
    assert!(why.contains("is not complete") && why.contains("--salvage"), "{why}");
    assert!(why.contains("what was only in the drive's memory is lost"), "{why}");
    let status = json("status", &image, 0);
    assert_eq!(status["power"], "off");
    assert!(status["failure"].as_str().expect("text").contains("not complete"), "{status}");
    assert_eq!(serving.stop().0, Some(0));

    // It is the same for the next process.
    let refused = serve(&[]).output().expect("it starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("--salvage"), "{said}");
    assert!(!said.contains("was killed"), "{said}");
    // All data on flash is found.
    let serving = Serving::start(serve(&["--salvage", "--cut-after-ops", "500"]));
    let mut client = Nbd::connect(&nbd).expect("a server");
    let acknowledged =
        (0..).take_while(|b| client.write(*b, &content(*b, 2)).is_ok()).count() as u64;
    assert!(acknowledged > 490);
    let cut = loop {
        let cut = json("status", &image, 0)["last_cut"].take();
        if cut != Value::Null {
            break cut;
        }
    };
    let lost = cut["lost_blocks_at_most"].as_u64().expect("a number");
    let (said, _) = ask("restore", &image, &["--salvage"], 0);
    assert!(said.contains("SALVAGED without its dump"), "{said}");
    let mut client = Nbd::connect(&nbd).expect("a server");
    let is_lost = |b: &u64| client.read(*b).is_ok_and(|data| data != content(*b, 2));
    let missing = (0..acknowledged).filter(is_lost).count() as u64;
    assert!(0 < missing && missing <= lost, "{missing} are missing, {lost} were told");
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    // The message of the start; the cut and its restart are in the answers to requests.
    let (found, took) = (" map entries found out again", ", SALVAGED without its dump; ");
    let mut lines = said.lines();
    assert!(lines.next().is_some_and(|l| l.starts_with("found: ") && l.ends_with(found)), "{said}");
    assert!(lines.next().is_some_and(|l| l.contains(took)), "{said}");

    // A killed drive has no more energy than one whose power is cut, and says so.
    let mut serving = Serving::start(serve(&["--salvage"]));
    let mut client = Nbd::connect(&nbd).expect("a server");
    (0..4000).for_each(|block| client.write(block, &content(block, 3)).expect("written"));
    serving.child.kill().expect("it can be killed");
    serving.child.wait().expect("it ends");
    let refused = serve(&[]).output().expect("it starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.contains("was killed: THE DUMP IS NOT COMPLETE, 20.0 µJ were there and "),
        "{said}"
    );
    assert!(said.lines().count() == 2 && said.contains("--salvage"), "{said}");
    let _ = std::fs::remove_file(&nbd);
    std::fs::remove_file(&image).expect("the image is there");
}

#[test]
fn cuts_come_by_count_and_by_the_clock() {
    let more = ["--cut-after-ops", "100", "--restore-after", "0s"];
    let (mut serving, nbd, control) = serve("durassd", "count", &more);
    let mut said = BufReader::new(serving.child.stderr.take().expect("standard error")).lines();
    let mut next = || said.next().expect("a line").expect("text");
    for _ in 0..2 {
        let mut client = Nbd::connect(&nbd).expect("a server");
        // A client that connects sends one command.
        let written = (1..).find(|turn| client.write(1, &content(1, *turn)).is_err());
        assert_eq!(written, Some(100));
        let line = next();
        assert!(line.starts_with("cut after 100 commands: the dump is complete"), "{line}");
        let line = next();
        assert!(line.starts_with("the drive took commands after"), "{line}");
        let mut client = Nbd::connect(&nbd).expect("a server");
        assert_eq!(client.read(1).expect("read"), content(1, 99));
        drop(client);
        // The remaining commands until the cut.
        let mut client = Nbd::connect(&nbd).expect("a server");
        while client.read(1).is_ok() {}
        next();
        next();
    }
    assert_eq!(json("status", &control, 0)["cuts"], 4);
    assert_eq!(serving.stop_quietly(), Some(0));

    let more = ["--cut-every", "10ms..30ms"];
    let (mut serving, _, control) = serve("durassd", "clock", &more);
    let mut said = BufReader::new(serving.child.stderr.take().expect("standard error")).lines();
    let line = said.next().expect("a line").expect("text");
    assert!(line.starts_with("cut after 0.0"), "{line}");
    // The drive stays off until a client restores it, and then continues.
    assert_eq!(json("status", &control, 0)["power"], "off");
    ask("restore", &control, &[], 0);
    let line = said.next().expect("a line").expect("text");
    assert!(line.starts_with("cut after 0.0"), "{line}");
    assert_eq!(serving.stop_quietly(), Some(0));
}

#[test]
fn broken_clients_do_not_hurt() {
    let (serving, nbd, control) = serve("durassd", "broken", &[]);
    let line = |stream: &mut UnixStream| {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).expect("a line");
        line
    };
    let connect = || UnixStream::connect(&control).expect("a control socket");
    let is = std::fs::metadata(&control).expect("it is there");
    assert!(is.file_type().is_socket());
    assert_eq!(is.permissions().mode() & 0o777, 0o600);

    // An invalid request gets an answer, and the next line is read.
    let mut stream = connect();
    stream.write_all(b"cut it\n\n{\"version\":1,\"command\":\"status\"}\n").expect("sent");
    let mut lines = BufReader::new(&stream).lines().map(|line| line.expect("text"));
    assert!(lines.next().expect("a line").contains("\"kind\":\"not-a-request\""));
    assert!(lines.next().expect("a line").contains("\"kind\":\"not-a-request\""));
    assert!(lines.next().expect("a line").contains("\"power\":\"on\""));
    drop(lines);
    // Bytes may come one by one.
    let (request, last) = b"{\"version\":1,\"command\":\"status\"}\n".split_at(33);
    request.iter().for_each(|b| stream.write_all(&[*b]).expect("sent"));
    stream.write_all(last).expect("sent");
    assert!(line(&mut stream).contains("\"power\":\"on\""));
    // The server does not wait for the end of a line that is too long.
    let mut stream = connect();
    stream.write_all(&vec![b'x'; MAX_LINE]).expect("sent");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("it ends");
    assert!(rest.contains("\"kind\":\"too-long\""), "{rest}");
    // Other versions are refused.
    let mut stream = connect();
    stream.write_all(b"{\"version\":7,\"command\":\"cut\"}\n").expect("sent");
    assert!(line(&mut stream).contains("\"kind\":\"version\""));
    // The request of a client that leaves before the answer is carried out.
    let mut stream = connect();
    stream.write_all(b"{\"version\":1,\"command\":\"cut\"}\n").expect("sent");
    drop(stream);
    let mut client = Client::connect(&control).expect("a control socket");
    while client.status().expect("status").cuts == 0 {}
    client.restore(false).expect("it is restored");
    // Excess clients get an error and are disconnected; later others are admitted.
    let idle: Vec<_> = (1..MAX_CLIENTS).map(|_| connect()).collect();
    match Client::connect(&control).expect("a control socket").status() {
        Err(ClientError::Refused(refusal)) => assert_eq!(refusal.kind, Kind::TooManyClients),
        other => panic!("{other:?}"),
    }
    drop(idle);
    while Client::connect(&control).expect("a control socket").status().is_err() {}
    // The drive is not disturbed.
    Nbd::connect(&nbd).expect("a server").write(1, &content(1, 1)).expect("written");
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn sockets_are_not_shared_and_not_left_behind() {
    let (mut first, nbd, control) = serve("durassd", "shared", &[]);
    let second = |control: &Path| {
        let nbd = socket("second.nbd");
        let mut command = tantalum(&["drive", "serve", "--design", "volatile", "--unix"]);
        command.arg(nbd).arg("--control").arg(control);
        command
    };
    let output = second(&control).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("cannot listen at"), "{said}");
    assert!(said.contains("it is in use: give another one"), "{said}");
    assert_eq!(json("status", &control, 0)["design"], "durassd");
    // The socket of a killed process is reported as such, and replaced.
    first.child.kill().expect("it can be killed");
    first.child.wait().expect("it ends");
    // (Its socket is closed a little later.)
    let why = loop {
        let (_, why) = ask("status", &control, &[], 2);
        if why.contains("nothing listens") {
            break why;
        }
    };
    assert!(why.contains("drive serve` or `tantalum drive mount`"), "{why}");
    let serving = Serving::start(second(&control));
    assert_eq!(json("status", &control, 0)["design"], "volatile");
    assert_eq!(serving.stop().0, Some(0));
    // Other files are left alone.
    std::fs::write(&control, "a file").expect("written");
    let mut third = second(&control).spawn().expect("it starts");
    let code = third.wait().expect("it ends").code();
    assert_eq!(code, Some(2));
    assert_eq!(std::fs::read(&control).expect("it is there"), b"a file");
    for left in [&control, &nbd] {
        std::fs::remove_file(left).expect("removed");
    }
}

#[test]
fn who_asks_for_a_drive_that_does_not_run_is_told_so() {
    let image = crate::common::file("idle.img", "an image");
    let (_, why) = ask("cut", &image, &[], 2);
    assert!(why.contains("does not run") && why.contains("tantalum drive serve"), "{why}");
    let (_, why) = ask("restore", Path::new("no-such.img"), &[], 2);
    assert!(why.contains(r#"neither "no-such.img" nor "no-such.img.control""#), "{why}");
    // A server that does not speak the protocol.
    let path = socket("stranger");
    let listener = UnixListener::bind(&path).expect("a socket");
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(b"220 ready\n").expect("sent");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let (_, why) = ask("status", &path, &[], 1);
    assert!(why.contains("cannot be understood"), "{why}");
    stranger.join().expect("it ends");
    std::fs::remove_file(&path).expect("removed");
}

/// The socket is beside the file itself, whichever link is used to open the drive or to reach it.
#[test]
fn a_drive_is_found_by_its_image_and_by_links_to_it() {
    let (image, link) = (socket("linked.img"), socket("link.img"));
    let mut create = tantalum(&["drive", "create", "--design", "volatile", "--capacity", "2GiB"]);
    ends(&create.arg(&image).output().expect("it starts"), 0);
    std::os::unix::fs::symlink(&image, &link).expect("a link");
    for served in [&link, &image] {
        let nbd = socket("linked.nbd");
        let mut command = tantalum(&["drive", "serve", "--time-scale", "0", "--unix"]);
        command.arg(&nbd).arg(served);
        let serving = Serving::start(command);
        for asked in [&image, &link] {
            assert_eq!(json("status", asked, 0)["power"], "on");
        }
        let (_, why) = ask("status", &nbd, &[], 2);
        assert!(why.contains("is no control socket: NBD is served there"), "{why}");
        assert_eq!(serving.stop().0, Some(0));
    }
    for path in [&image, &link] {
        std::fs::remove_file(path).expect("removed");
    }
}

/// A user who may not connect is told whose drive it is, and what helps.
#[test]
fn who_may_not_ask_is_told_so() {
    let (serving, _, control) = serve("durassd", "denied", &[]);
    // Root may always connect, except a root without capabilities.
    std::fs::set_permissions(&control, Permissions::from_mode(0o000)).expect("changed");
    let mut asked = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    if rustix::process::geteuid().is_root() {
        asked = Command::new("setpriv");
        asked.args(["--bounding-set=-all", "--inh-caps=-all", env!("CARGO_BIN_EXE_tantalum")]);
    }
    asked.args(["drive", "status"]).arg(&control);
    let (_, why) = ends(&asked.output().expect("it starts"), 2);
    let owner = format!("the drive belongs to user {}: ", rustix::process::geteuid().as_raw());
    assert!(why.contains("permission denied") && why.contains(&owner), "{why}");
    assert!(why.contains("with sudo"), "{why}");
    assert_eq!(serving.stop().0, Some(0));
}

/// A drive that is stopped before it serves says so, serves no client, and leaves nothing behind.
#[test]
fn a_start_can_be_interrupted() {
    let (image, nbd) = (socket("interrupted.img"), socket("interrupted.nbd"));
    let control = socket("interrupted.img.control");
    let mut create = tantalum(&["drive", "create", "--design", "durassd", "--capacity", "2GiB"]);
    ends(&create.arg(&image).output().expect("it starts"), 0);
    let serve = |time_scale: &str| {
        let mut command = tantalum(&["drive", "serve", "--time-scale", time_scale, "--unix"]);
        command.arg(&nbd).arg(&image);
        command
    };
    let serving = Serving::start(serve("0"));
    Nbd::connect(&nbd).expect("a server").write(5, &content(5, 1)).expect("written");
    assert_eq!(serving.stop().0, Some(0));
    for signal in [Signal::TERM, Signal::INT] {
        // Its start takes long enough to be interrupted.
        let mut command = serve("10000");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut starting = command.spawn().expect("it starts");
        let power = || Client::connect(&control)?.status().map(|status| status.power);
        while !matches!(power(), Ok(Power::Starting)) {
            assert!(starting.try_wait().expect("asked").is_none(), "it has ended");
        }
        send(signal, &starting);
        let (told, said) = ends(&starting.wait_with_output().expect("it ends"), 130);
        assert_eq!(told, "");
        assert_eq!(said, "error: interrupted before it was ready\n");
        assert!(!nbd.exists() && !control.exists(), "a socket is still there");
    }
    let serving = Serving::start(serve("0"));
    let mut client = Nbd::connect(&nbd).expect("a server");
    assert_eq!(client.read(5).expect("read"), content(5, 1));
    drop(client);
    assert_eq!(serving.stop().0, Some(0));
    std::fs::remove_file(&image).expect("removed");
}

/// The printed JSON can be read back, field by field.
#[test]
fn reports_are_what_the_library_reads() {
    let (serving, nbd, control) = serve("durassd", "reports", &[]);
    let mut client = Nbd::connect(&nbd).expect("a server");
    client.write(3, &content(3, 1)).expect("written");
    let stats: StatsReport = serde_json::from_value(json("stats", &control, 0)).expect("stats");
    let write = &stats.commands["write"];
    assert_eq!((write.done, write.bytes), (1, 4096));
    assert_eq!(write.latency.within.last(), Some(&1));
    assert_eq!(write.latency.within.len(), stats.latency_bounds_ns.len());
    let energy = |name| stats.values.number(name).expect("it has capacitors");
    let (needed, worst) = (energy("energy.needed_j"), energy("energy.worst_j"));
    assert!(0.0 < needed && needed <= worst, "{needed} of {worst}");
    // Each value of the drive is there, with a description.
    for field in &stats.fields {
        assert!(stats.values.get(&field.name).is_some(), "{field:?}");
    }
    assert!(stats.fields.iter().any(|f| f.name == "wear.max" && f.unit == "count"));
    let (text, _) = ask("stats", &control, &[], 0);
    assert!(text.contains("write       1 done, 0 failed, 4.00 KiB"), "{text}");
    let status: StatusReport = serde_json::from_value(json("status", &control, 0)).expect("status");
    assert_eq!((status.design.as_str(), status.pid), ("durassd", serving.child.id()));
    assert_eq!(serving.stop().0, Some(0));
}

/// The HTTP answer for this path: the status, and the rest.
fn get(at: &str, path: &str) -> (u16, String) {
    let mut stream = std::net::TcpStream::connect(at).expect("a server");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let status = answer.get(9..12).and_then(|s| s.parse().ok()).expect("a status");
    (status, answer)
}

#[test]
fn the_state_is_shown_over_http() {
    let (mut serving, nbd, control) = serve("durassd", "http", &["--http", "0"]);
    let mut said = BufReader::new(serving.child.stderr.take().expect("standard error"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    let at = line.trim_end().strip_prefix("status and metrics: http://127.0.0.1:");
    let at = format!("127.0.0.1:{}", at.expect("an address").trim_end_matches('/'));
    let mut client = Nbd::connect(&nbd).expect("a server");
    (0..10).for_each(|block| client.write(block, &content(block, 1)).expect("written"));

    let body = |path: &str| {
        let (status, answer) = get(&at, path);
        assert_eq!(status, 200, "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        (head.to_ascii_lowercase(), body.to_string())
    };
    let status: StatusReport = serde_json::from_str(&body("/status").1).expect("status");
    assert_eq!((status.power, status.design.as_str()), (Power::On, "durassd"));
    let stats: StatsReport = serde_json::from_str(&body("/stats").1).expect("stats");
    assert_eq!(stats.commands["write"].done, 10);
    let (head, page) = body("/text");
    assert!(head.contains("text/html") && page.contains("write       10 done"), "{page}");
    let (head, page) = body("/");
    assert!(head.contains("text/html") && head.contains("content-security-policy"), "{head}");
    // It needs nothing from elsewhere: the one address in it is the name of SVG.
    assert!(page.contains("data-control=\"no\""), "{page}");
    assert_eq!(page.matches("://").count(), 1, "{page}");
    let (head, metrics) = body("/metrics");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    exposition(&metrics);
    for line in [
        "tantalum_commands_total{kind=\"write\"} 10",
        "tantalum_command_bytes_total{kind=\"write\"} 40960",
        "tantalum_command_latency_seconds_count{kind=\"write\"} 10",
        "tantalum_command_latency_seconds_bucket{le=\"+Inf\",kind=\"write\"} 10",
        "tantalum_power_on 1",
        "tantalum_cuts_total 0",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line} is not in\n{metrics}");
    }
    assert_eq!(get(&at, "/cut").0, 404);

    // Without power there are fewer values, and the server continues; also with broken clients.
    ask("cut", &control, &[], 0);
    let mut broken = std::net::TcpStream::connect(&at).expect("a server");
    broken.write_all(b"\x16\x03\x01 what is this\r\n\r\n").expect("sent");
    drop(broken);
    let metrics = body("/metrics").1;
    exposition(&metrics);
    assert!(metrics.contains("tantalum_power_on 0\n") && !metrics.contains("tantalum_units{"));
    assert!(!metrics.contains("tantalum_energy_joules{"), "{metrics}");
    assert!(!metrics.contains("tantalum_mapped_pages"), "{metrics}");
    let stats = json("stats", &control, 0);
    assert_eq!((&stats["energy"], &stats["map"]["mapped_pages"]), (&Value::Null, &Value::Null));
    assert!(stats["map"].as_object().expect("it has values").contains_key("mapped_pages"));
    let (text, _) = ask("stats", &control, &[], 0);
    assert!(text.contains("map         unknown without power"), "{text}");
    assert!(metrics.contains("tantalum_cuts_total 1\n"));
    assert_eq!(serving.stop_quietly(), Some(0));
}

/// The page's buttons, only where they are allowed and only for the page itself.
#[test]
fn the_power_is_cut_over_http_where_that_is_allowed() {
    let refused = ["drive", "serve", "--ram", "16MiB", "--tcp", "0", "--insecure"];
    let mut refused = tantalum(&refused);
    refused.args(["--http", "0.0.0.0:0", "--allow-control"]);
    let (_, why) = ends(&refused.output().expect("it starts"), 2);
    assert!(why.contains("could cut the power"), "{why}");

    let (mut serving, _nbd, control) =
        serve("durassd", "buttons", &["--http", "0", "--allow-control"]);
    let mut said = BufReader::new(serving.child.stderr.take().expect("standard error"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    let at = line.trim_end().strip_prefix("status and metrics: http://").expect("an address");
    let at = at.trim_end_matches('/');
    let (_, page) = get(at, "/");
    assert!(page.contains("data-control=\"yes\""), "{page}");
    let post = |path: &str, host: &str, header: &str| {
        let mut stream = std::net::TcpStream::connect(at).expect("a server");
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\n{header}Content-Length: 0\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer.get(9..12).and_then(|s| s.parse::<u16>().ok()).expect("a status")
    };
    let ours = "X-Tantalum: control\r\n";
    assert_eq!(post("/cut", at, ""), 403);
    assert_eq!(post("/cut", "evil.example", ours), 403);
    assert_eq!(get(at, "/cut").0, 405);
    assert_eq!(json("status", &control, 0)["power"], "on");
    assert_eq!(post("/cut", at, ours), 200);
    assert_eq!(json("status", &control, 0)["power"], "off");
    assert_eq!(post("/restore", at, ours), 200);
    let status = json("status", &control, 0);
    assert_eq!((&status["power"], &status["cuts"]), (&"on".into(), &1.into()));
    assert_eq!(serving.stop_quietly(), Some(0));
}

/// The kill of a process does not count as a cut of the next process, which makes the dump; all
/// commands report the same number.
#[test]
fn cuts_are_those_of_the_process() {
    let (image, nbd) = (socket("killed.img"), socket("killed.nbd"));
    let mut create = tantalum(&["drive", "create", "--design", "durassd", "--capacity", "2GiB"]);
    ends(&create.arg(&image).output().expect("it starts"), 0);
    let serve = || {
        let mut command = tantalum(&["drive", "serve", "--time-scale", "0", "--http", "0"]);
        command.arg("--unix").arg(&nbd).arg(&image);
        command
    };
    let mut serving = Serving::start(serve());
    Nbd::connect(&nbd).expect("a server").write(1, &content(1, 1)).expect("written");
    serving.child.kill().expect("it can be killed");
    serving.child.wait().expect("it ends");

    let mut serving = Serving::start(serve());
    let mut said = BufReader::new(serving.child.stderr.take().expect("standard error")).lines();
    let at = said.next().expect("a line").expect("text");
    let at = at.strip_prefix("status and metrics: http://").expect("an address");
    for (cuts, words) in [(0, "0 cuts"), (1, "1 cut")] {
        assert_eq!(json("status", &image, 0)["cuts"], cuts);
        assert_eq!(json("stats", &image, 0)["outages"]["cuts"], cuts);
        let (text, _) = ask("stats", &image, &[], 0);
        assert!(text.contains(&format!("cuts        {cuts}\n")), "{text}");
        let (text, _) = ask("top", &image, &["--once", "--interval", "0.1"], 0);
        assert!(text.contains(words) && text.contains("never cut") == (cuts == 0), "{text}");
        let metrics = get(at.trim_end_matches('/'), "/metrics").1;
        assert!(metrics.contains(&format!("\ntantalum_cuts_total {cuts}\n")), "{metrics}");
        ask("cut", &image, &[], 0);
    }
    assert_eq!(serving.stop_quietly(), Some(0));
    std::fs::remove_file(&image).expect("removed");
}

/// Checks the rules of the format: metadata before the samples of a family, families in one piece,
/// values that are numbers, buckets that do not decrease, an end. Each metric must be documented.
fn exposition(text: &str) {
    let docs = include_str!("../../../../docs/control.md");
    assert!(text.ends_with("# EOF\n"));
    let (mut family, mut seen) = (String::new(), Vec::new());
    let (mut bucket, mut series) = (0, String::new());
    for line in text.lines().take_while(|line| *line != "# EOF") {
        if let Some(meta) = line.strip_prefix("# HELP ") {
            family = meta.split(' ').next().expect("a name").to_string();
            assert!(!seen.contains(&family), "{family} comes twice");
            seen.push(family.clone());
            continue;
        }
        if let Some(meta) = line.strip_prefix("# TYPE ") {
            assert!(meta.starts_with(&format!("{family} ")), "{line}");
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a sample");
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
        let bare = name.split('{').next().expect("a name");
        let suffix = bare.strip_prefix(&family).expect("of this family");
        assert!(["", "_total", "_info", "_sum", "_count", "_bucket"].contains(&suffix), "{line}");
        let documented = bare.strip_prefix("tantalum_").expect("a prefix");
        let documented = match suffix {
            "_sum" | "_count" | "_bucket" => documented.strip_suffix(suffix).expect("a suffix"),
            _ => documented,
        };
        assert!(docs.contains(&format!("`{documented}`")), "{documented} is not documented");
        if suffix == "_bucket" {
            let kind = name.split("kind=").nth(1).expect("a kind").to_string();
            let count: u64 = value.parse().expect("a count");
            if kind == series {
                assert!(count >= bucket, "{line}");
            }
            (bucket, series) = (count, kind);
        }
    }
    assert!(seen.len() > 20, "{seen:?}");
}

#[test]
fn top_shows_a_drive_on_a_small_screen() {
    let (serving, nbd, control) = serve("durassd", "top", &[]);
    let load = writer(nbd.to_path_buf(), 0);
    let (text, _) = ask("top", &control, &["--once", "--interval", "0.2"], 0);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 24);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    for part in
        [" ON  durassd ", "never cut", "throughput", "buffer", "dirty map", "energy", "c cut"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(text.contains(" dump ") && text.contains(" bad units "), "{text}");
    assert!(!text.contains("write        0/s"), "{text}");
    assert!(lines.iter().any(|l| l.contains("write ") && l.contains('█')), "{text}");
    ask("cut", &control, &[], 0);
    load.join().expect("it ends");
    let (text, _) = ask("top", &control, &["--once", "--interval", "0.2"], 0);
    for part in [" OFF  durassd ", "last cut: the dump is complete", "unknown without power"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let (_, why) = ask("top", &control, &[], 2);
    assert!(why.contains("no terminal"), "{why}");
    assert_eq!(serving.stop().0, Some(0));
}

#[test]
fn every_field_is_documented() {
    let (serving, nbd, control) = serve("durassd", "documented", &[]);
    Nbd::connect(&nbd).expect("a server").write(0, &content(0, 1)).expect("written");
    let docs = include_str!("../../../../docs/control.md");
    let parts = [
        ("stats", json("stats", &control, 0)),
        ("cut", json("cut", &control, 0)),
        ("restore", json("restore", &control, 0)),
        ("status", json("status", &control, 0)),
    ];
    for (command, answer) in parts {
        let (_, part) = docs.split_once(&format!("### Answer to `{command}`")).expect("a part");
        let part = part.split("\n##").next().expect("a part");
        let (_, common) = docs.split_once("### Fields of a box").expect("a part");
        let common = common.split("\n##").next().expect("a part");
        let part = [part, common].concat();
        let mut missing = Vec::new();
        fields(&answer, "", &mut |path| {
            let last = path.rsplit('.').next().unwrap_or_default();
            let known = [path.to_string(), format!(".{last}")];
            if !known.iter().any(|name| part.contains(&format!("`{name}`"))) {
                missing.push(path.to_string());
            }
        });
        assert!(missing.is_empty(), "{command}: {missing:?}");
    }
    assert_eq!(serving.stop().0, Some(0));
}

/// The paths of all fields. All kinds of commands count as one; fields of earlier answers are
/// tested elsewhere.
fn fields(value: &Value, path: &str, found: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(_) if path.starts_with("last_") => found(path),
        Value::Object(all) => {
            for (name, value) in all {
                let name = if path == "commands" { "KIND" } else { name };
                let dot = if path.is_empty() { "" } else { "." };
                fields(value, &format!("{path}{dot}{name}"), found);
            }
        }
        Value::Array(all) if all.iter().any(Value::is_object) => {
            all.iter().for_each(|value| fields(value, &format!("{path}[]"), found));
        }
        _ => found(path),
    }
}

/// The power is cut while the drive starts.
#[test]
fn a_restart_can_be_cut() {
    let (nbd, control) = (socket("restart.nbd"), socket("restart.control"));
    // Slow enough to be cut while it starts.
    let mut command = tantalum(&["drive", "serve", "--design", "durassd", "--time-scale", "40"]);
    command.args(["--capacity", "2GiB", "--unix"]).arg(&nbd).arg("--control").arg(&control);
    let serving = Serving::start(command);
    Nbd::connect(&nbd).expect("a server").write(5, &content(5, 1)).expect("written");
    let mut client = Client::connect(&control).expect("a control socket");
    client.cut().expect("it is cut");
    let was = loop {
        let path = control.to_path_buf();
        let restoring = std::thread::spawn(move || {
            Client::connect(&path).expect("a control socket").restore(false)
        });
        while client.status().expect("status").power == Power::Off {}
        let cut = client.cut().expect("it is cut");
        let restored = restoring.join().expect("it ends");
        if cut.was != Power::Starting {
            continue; // This thread was late.
        }
        assert_eq!((cut.lost_blocks_at_most, cut.complete), (0, true));
        match restored {
            Err(ClientError::Refused(refusal)) => break refusal.kind,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(was, Kind::CutAgain);
    client.restore(false).expect("it is restored");
    let mut nbd = Nbd::connect(&nbd).expect("a server");
    assert_eq!(nbd.read(5).expect("read"), content(5, 1));
    assert_eq!(serving.stop().0, Some(0));
}
