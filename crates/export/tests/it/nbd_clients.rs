//! Real clients over UNIX and TCP sockets, on drives that run as fast as possible: the tools of
//! libnbd, qemu's, fio. `scripts/install-nbd-tools` installs them. A test whose program is missing
//! is left out.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start programs, write files, and serve from threads of their own"
)]

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use tantalum_device::Payload;
use tantalum_drive::{Design, Drive};
use tantalum_export::nbd::{Export, Options, Server, Volume};
use tantalum_rt::wall::WallOptions;
use tantalum_rt::{Nanos, Runtime};
use tantalum_testing::{Need, Spot, left_out};

/// Bytes of the copied file.
const FILE_BYTES: usize = 24 << 20;

/// A drive of some 200 MiB of this design, served from a thread for as long as the tests run: as
/// "drive", and read-only as "look".
struct Served {
    socket: Spot,
    tcp: String,
    /// The drive's time in ns, a moment ago.
    clock: Arc<AtomicU64>,
}

impl Served {
    fn new(name: &str, design: &str) -> Served {
        let socket = Spot::new(&format!("{name}.sock"));
        let mut design = Design::preset(design).expect("a preset");
        let g = &mut design.geometry;
        (g.channels, g.packages, g.chips, g.blocks, g.pages) = (2, 1, 2, 64, 64);
        design.space.over_provisioning = 30.0;
        design.map.dirty_max = 2_000;
        design.map.write_points = 2;
        design.map.dump_units = 6;
        design.cache.buffer_kib = 1024;
        let (tell, told) = mpsc::channel();
        let clock = Arc::new(AtomicU64::new(0));
        let (at, shown) = (socket.to_path_buf(), clock.clone());
        std::thread::spawn(move || {
            let options = WallOptions { time_scale: 0.0, ..WallOptions::default() };
            let mut runtime = Runtime::wall_time(1, options).expect("a wall clock");
            let rt = runtime.handle();
            let io = rt.io().expect("on the wall clock");
            let drive = Drive::new(&rt, &design, Payload::Bytes).expect("a drive");
            let volume = Volume::new(&rt, drive.clone());
            let exports =
                vec![Export::new("drive", &volume), Export::new("look", &volume).read_only()];
            let server = Server::new(&rt, exports, Options::default(), |_| {}).expect("a server");
            let unix = io.listen_unix(&at).expect("a socket");
            let tcp = io.listen_tcp("127.0.0.1:0".parse().expect("an address")).expect("TCP");
            let done = runtime.block_on(async move {
                drive.start().await.expect("the drive starts");
                let port = tcp.address().expect("an address").port();
                let serving = server.clone();
                rt.spawn_background("TCP", async move { serving.serve(tcp).await });
                let r = rt.clone();
                rt.spawn_background("the clock", async move {
                    loop {
                        shown.store(r.now().0, Ordering::Relaxed);
                        io.sleep(Nanos::from_millis(20)).await;
                    }
                });
                tell.send(port).expect("the test waits");
                server.serve(unix).await;
            });
            panic!("the server ended: {done:?}");
        });
        let port = told.recv().expect("the server starts");
        Served { socket, tcp: format!("nbd://127.0.0.1:{port}/drive"), clock }
    }

    /// The drive's time, up to some milliseconds of real time ago.
    fn clock(&self) -> Nanos {
        Nanos(self.clock.load(Ordering::Relaxed))
    }

    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.socket.display())
    }
}

/// Whether a program is missing. Then the test is left out.
fn without(programs: &[&'static str]) -> bool {
    let needs: Vec<Need> = programs.iter().map(|program| Need::Program(program)).collect();
    left_out(&needs)
}

/// The same for fio, which needs its NBD engine too.
fn without_fio() -> bool {
    let engine = match Command::new("fio").arg("--enghelp").output() {
        Ok(listed) if !String::from_utf8_lossy(&listed.stdout).contains("nbd") => {
            Err("it was built without libnbd")
        }
        // (A missing fio is reported below.)
        _ => Ok(()),
    };
    let engine = Need::tried("fio's engine for NBD", &engine, "scripts/install-nbd-tools");
    left_out(&[Need::Program("fio"), engine])
}

/// Runs a program that must be there. Returns what it prints, and whether it succeeded.
fn run(program: &str, arguments: &[&str]) -> (String, bool) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|e| panic!("{program} does not start: {e}"));
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    write!(text, "{}", String::from_utf8_lossy(&output.stderr)).expect("a string takes all");
    (text, output.status.success())
}

fn ok(program: &str, arguments: &[&str]) -> String {
    let (text, success) = run(program, arguments);
    assert!(success, "{program} {arguments:?}:\n{text}");
    text
}

/// A file with data and holes.
fn file(name: &str) -> Spot {
    let mut bytes = vec![0u8; FILE_BYTES];
    let mut word = 0x9e37_79b9_7f4a_7c15u64;
    for (i, block) in bytes.chunks_mut(4096).enumerate() {
        if i % 64 < 40 {
            for part in block.chunks_mut(8) {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                part.copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    let path = Spot::new(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn nbdinfo_sees_what_there_is() {
    if without(&["nbdinfo"]) {
        return;
    }
    let served = Served::new("info", "durassd");
    let list = ok("nbdinfo", &["--list", "--json", &served.uri("")]);
    for said in [
        "\"export-name\": \"drive\"",
        "\"export-name\": \"look\"",
        "\"protocol\": \"newstyle-fixed\"",
        "\"structured\": true",
        "\"is_read_only\": true",
        "\"can_multi_conn\": true",
        "\"can_fua\": true",
        "\"can_flush\": true",
        "\"can_trim\": true",
        "\"can_zero\": true",
        "\"can_fast_zero\": true",
        "\"can_df\": true",
        "\"block_size_minimum\": 512",
        "\"block_size_preferred\": 4096",
        "\"block_size_maximum\": 33554432",
    ] {
        assert!(list.contains(said), "no {said} in:\n{list}");
    }
    let (refused, success) = run("nbdinfo", &[&served.uri("none")]);
    assert!(!success && refused.contains("error to opt_go"), "{refused}");
}

#[test]
fn nbdcopy_copies_there_and_back() {
    if without(&["nbdcopy"]) {
        return;
    }
    let served = Served::new("copy", "durassd");
    let file = file("copy.img");
    let uri = served.uri("drive");
    ok("nbdcopy", &["--flush", "--connections=4", text(&file), &uri]);
    // Back over TCP, with one connection and short requests.
    let back = Spot::new("copy.back");
    ok("nbdcopy", &["--synchronous", "--request-size=65536", &served.tcp, text(&back)]);
    let (sent, got) = (std::fs::read(&file).expect("sent"), std::fs::read(&back).expect("got"));
    assert!(got.starts_with(&sent), "what came back is not what was sent");
    assert!(got[sent.len()..].iter().all(|b| *b == 0), "there is more than was sent");
    let (refused, success) = run("nbdcopy", &[text(&file), &served.uri("look")]);
    assert!(!success, "a copy to what can only be read: {refused}");
}

#[test]
fn qemu_io_writes_parts_zeros_and_discards() {
    if without(&["qemu-io"]) {
        return;
    }
    for design in ["durassd", "volatile"] {
        let served = Served::new(&format!("io-{design}"), design);
        let uri = served.uri("drive");
        let io = |commands: &[&str]| {
            let mut arguments = vec!["-f", "raw", "-t", "none"];
            arguments.extend(commands.iter().flat_map(|c| ["-c", *c]));
            arguments.push(&uri);
            let said = ok("qemu-io", &arguments);
            assert!(!said.contains("failed"), "{commands:?}:\n{said}");
        };
        io(&[
            "write -P 0xab -f 0 64k",
            "read -P 0xab 0 64k",
            // Parts of blocks.
            "write -P 0xcd 512 512",
            "write -P 0xce 5k 9k",
            "flush",
            "read -P 0xab 0 512",
            "read -P 0xcd 512 512",
            "read -P 0xab 1k 4k",
            "read -P 0xce 5k 9k",
            "read -P 0xab 14k 50k",
        ]);
        // Zeros, with and without keeping the space, in parts of blocks, and with forced unit
        // access.
        io(&[
            "write -z 8k 8k",
            "write -z -u -f 32k 4k",
            "write -z 40k 512",
            "read -P 0 8k 8k",
            "read -P 0xab 16k 16k",
            "read -P 0 32k 4k",
            "read -P 0 40k 512",
            "read -P 0xab 41472 512",
        ]);
        io(&["discard 48k 8k", "flush", "read -P 0 48k 8k", "read -P 0xab 56k 8k"]);
        // All at once, and answered in any order.
        io(&[
            "aio_write -P 1 1M 1M",
            "aio_write -P 2 2M 1M",
            "aio_write -P 3 3M 512",
            "aio_flush",
            "aio_read -P 1 1M 1M",
            "aio_read -P 2 2M 1M",
        ]);
        let mut arguments = vec!["-r", "-f", "raw", "-c", "write 0 4k"];
        let look = served.uri("look");
        arguments.push(&look);
        let (said, _) = run("qemu-io", &arguments);
        assert!(said.contains("read-only") || said.contains("not permitted"), "{said}");
    }
}

#[test]
fn qemu_img_converts_compares_and_checks() {
    if without(&["qemu-img"]) {
        return;
    }
    let served = Served::new("img", "durassd");
    let (file, uri) = (file("img.img"), served.uri("drive"));
    let qcow = Spot::new("img.qcow2");
    ok("qemu-img", &["convert", "-O", "qcow2", text(&file), text(&qcow)]);
    ok("qemu-img", &["convert", "-n", "-O", "raw", text(&qcow), &uri]);
    let same = ok("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &uri, text(&qcow)]);
    assert!(same.contains("identical"), "{same}");
    // The qcow2 image itself on the drive.
    ok("qemu-img", &["create", "-f", "qcow2", &uri, "64M"]);
    ok("qemu-img", &["convert", "-n", "-O", "qcow2", text(&file), &uri]);
    let checked = ok("qemu-img", &["check", "-f", "qcow2", &uri]);
    assert!(checked.contains("No errors were found"), "{checked}");
    let bytes = FILE_BYTES as u64;
    let part = Spot::new("img.back");
    ok("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", &uri, text(&part)]);
    let (sent, got) = (std::fs::read(&file).expect("sent"), std::fs::read(&part).expect("got"));
    assert!(got.len() as u64 >= bytes && got.starts_with(&sent), "what came back differs");
}

#[test]
fn fio_finds_what_it_wrote() {
    if without_fio() {
        return;
    }
    for design in ["durassd", "volatile"] {
        let served = Served::new(&format!("fio-{design}"), design);
        let uri = format!("--uri={}", served.uri("drive"));
        // Requests of all sizes with flushes between, and verified; then once more over the same
        // data.
        let common = [
            "--name=random",
            "--ioengine=nbd",
            &uri,
            "--size=64m",
            "--iodepth=32",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--randrepeat=1",
            "--verify_state_save=0",
        ];
        let mut mixed = common.to_vec();
        mixed.extend(["--rw=randwrite", "--bsrange=512-64k", "--fsync=32", "--loops=2"]);
        ok("fio", &mixed);
        let mut aligned = common.to_vec();
        aligned.extend(["--rw=randrw", "--bs=4k", "--verify_backlog=4096", "--io_size=96m"]);
        ok("fio", &aligned);
    }
}

/// Each write is followed by a flush, for which this drive programs pages that take milliseconds.
#[test]
fn fio_finds_what_it_wrote_over_hours() {
    if without_fio() {
        return;
    }
    let served = Served::new("fio-hours", "qlc");
    let uri = format!("--uri={}", served.uri("drive"));
    let began = served.clock();
    let job = [
        "--name=hours",
        "--ioengine=nbd",
        &uri,
        "--size=64m",
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=1",
        "--fsync=1",
        "--loops=45",
        "--randrepeat=0",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
    ];
    ok("fio", &job);
    let took = served.clock().saturating_sub(began);
    assert!(took >= Nanos::from_secs(2 * 3600), "{} s of the drive's time", took.0 / 1_000_000_000);
}
