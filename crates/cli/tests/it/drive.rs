//! `tantalum drive` as a user meets it.

use crate::common::live::{Nbd, Serving, socket, tantalum};
use crate::common::{ends, path};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tantalum_device::{Block, BlockDevice, Data, Durability, PowerCycle};
use tantalum_drive::Drive;
use tantalum_rt::Runtime;

fn drive(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.arg("drive").args(arguments).output().expect("the command starts")
}

/// Makes a small image; `killed`: a process then wrote ten blocks and ended without a cut.
fn image(name: &str, design: &str, killed: bool) -> String {
    let path = path(name);
    let text = path.to_str().unwrap().to_string();
    let small = [
        "geometry.channels=2",
        "geometry.packages=1",
        "geometry.chips=2",
        "geometry.pages=32",
        "geometry.blocks=48",
        "cache.buffer_kib=256",
        "space.over_provisioning=60",
    ];
    let mut arguments = vec!["create", &text, "--design", design];
    small.iter().for_each(|set| arguments.extend(["--set", set]));
    if design == "durassd" {
        let more = ["map.dirty_max=4096", "map.dump_units=4", "map.write_points=2"];
        more.iter().for_each(|set| arguments.extend(["--set", set]));
    }
    let (out, _) = ends(&drive(&arguments), 0);
    assert!(out.contains(&format!("a blank {design} of ")), "{out}");
    if killed {
        let mut runtime = Runtime::virtual_time(1);
        let drive = Drive::on_image(&runtime.handle(), &path).unwrap();
        let main = async move {
            drive.power_on().await.unwrap();
            for block in 0..10 {
                let data = vec![block as u8 + 1; 4096];
                let device = drive.device();
                device.write(Block(block), Data::Bytes(&data), Durability::Fua).await.unwrap();
            }
        };
        runtime.block_on(main).unwrap();
    }
    text
}

fn json(arguments: &[&str], code: i32) -> Value {
    let (out, _) = ends(&drive(&[arguments, &["--json"]].concat()), code);
    serde_json::from_str(&out).expect("it prints JSON")
}

#[test]
fn a_new_image_is_blank_and_whole() {
    let image = image("blank.img", "durassd", false);
    let (out, _) = ends(&drive(&["inspect", &image]), 0);
    for line in ["last user   none yet", "mapped      0 pages", "dump        none yet"] {
        assert!(out.contains(line), "{out}");
    }
    let (out, _) = ends(&drive(&["check", &image]), 0);
    assert!(out.ends_with("all is well\n"), "{out}");
    let (out, _) = ends(&drive(&["inspect", &image, "--design"]), 0);
    assert!(out.contains("name = \"durassd\"") && out.contains("blocks = 48"), "{out}");
    // It is not overwritten without --force.
    let (_, err) = ends(&drive(&["create", &image]), 2);
    assert!(err.contains("--force overwrites it"), "{err}");
    let (_, said) = ends(&drive(&["create", &image, "--capacity", "1", "--force"]), 0);
    assert!(said.starts_with("note: --capacity is 1 byte, but a durassd has at least "), "{said}");
    ends(&drive(&["create", &image, "--design", "volatile", "--capacity", "4GiB", "--force"]), 0);
    let report = json(&["inspect", &image], 0);
    assert_eq!(report["design"]["name"], "volatile");
    assert!(report["design"]["capacity_bytes"].as_u64().unwrap() >= 4 << 30);
    assert!(report["allocated_bytes"].as_u64().unwrap() < 16 << 20, "{report}");
}

#[test]
fn what_a_killed_process_left_is_told_and_not_changed() {
    for (design, owed) in [("durassd", true), ("volatile", false)] {
        let image = image(&format!("killed-{design}.img"), design, true);
        let before = std::fs::read(&image).unwrap();
        let report = json(&["inspect", &image], 0);
        assert_eq!(report["dump_owed"], owed);
        assert_eq!(report["state"]["units"]["bad"], 0);
        if owed {
            assert_eq!(report["state"]["dump"]["buffered_pages"], 10);
            assert!(report["state"]["dump"]["joules"].as_f64().unwrap() > 0.0);
        } else {
            assert_eq!(report["state"]["units"]["mapped_pages"], 10);
            assert_eq!(report["state"]["dump"], Value::Null);
        }
        let report = json(&["check", &image], 0);
        assert_eq!((&report["faults"], &report["dump_owed"]), (&0.into(), &owed.into()));
        assert!(before == std::fs::read(&image).unwrap(), "a look has changed the image");
    }
}

#[test]
fn damage_is_found_and_told() {
    let image = image("damaged.img", "volatile", true);
    let whole = std::fs::read(&image).unwrap();
    let damage = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(&image, bytes).unwrap();
    };
    // A written block, at some place in the payload.
    let block = vec![7u8; 4096];
    let at = whole.windows(4096).step_by(4096).position(|w| w == block);
    let at = at.expect("the block is on flash") * 4096;
    damage(&|bytes| bytes[at + 100] ^= 1);
    let (out, _) = ends(&drive(&["check", &image]), 1);
    // The page and its block are reported.
    assert!(out.contains("is not what its checksum says") && out.contains("2 faults"), "{out}");
    assert!(out.contains("cannot be read"), "{out}");
    assert_eq!(json(&["check", &image], 1)["faults"], 2);
    damage(&|bytes| bytes[50] ^= 1);
    for command in ["inspect", "check"] {
        let (_, err) = ends(&drive(&[command, &image]), 1);
        assert!(err.contains("the image is damaged at offset 4092"), "{err}");
    }
    damage(&|bytes| bytes.truncate(5000));
    let (_, err) = ends(&drive(&["check", &image]), 1);
    assert!(err.contains("the image has 5000 bytes, and should have"), "{err}");
    damage(&|bytes| bytes[8] = 9);
    let (_, err) = ends(&drive(&["check", &image]), 2);
    assert!(err.contains("the image has format 9 (offset 8)"), "{err}");
    damage(&|bytes| bytes[..8].copy_from_slice(b"PNG-file"));
    let (_, err) = ends(&drive(&["inspect", &image]), 2);
    assert!(err.contains("not an image"), "{err}");
    assert!(err.contains("`tantalum drive create FILE --design durassd` makes one"), "{err}");
    let (_, err) = ends(&drive(&["inspect", "no-such-file.img"]), 2);
    assert!(err.contains("no-such-file.img: there is no such file"), "{err}");
}

#[test]
fn an_image_in_use_is_refused() {
    let image = image("used.img", "volatile", false);
    let runtime = Runtime::virtual_time(1);
    let _drive = Drive::on_image(&runtime.handle(), Path::new(&image)).unwrap();
    for command in ["inspect", "check"] {
        let (_, err) = ends(&drive(&[command, &image]), 2);
        assert!(err.contains("in use by another process"), "{err}");
    }
    let (_, err) = ends(&drive(&["create", &image, "--force"]), 2);
    assert!(err.contains("in use by another process"), "{err}");
}

#[test]
fn invalid_arguments_are_refused() {
    let image = path("refused.img");
    let image = image.to_str().unwrap();
    for (arguments, what) in [
        (vec!["--design", "durasd"], "durassd"),
        (vec!["--design", "disk-15k"], "is a magnetic disk"),
        (
            vec!["--design", "nowhere.toml"],
            "cannot read the design nowhere.toml: there is no such file: name a file",
        ),
        (vec!["--capacity", "lots"], "8GiB"),
        (vec!["--capacity", "8 parsec"], "is no unit"),
        (vec!["--capacity", "4000000T"], "no drive of its kind"),
        (vec!["--capacity", "9999999T"], "no device has that size"),
        (vec!["--set", "cache.buffer_kb=3"], "buffer_k"),
        (vec!["--set", "geometry.page_bytes=5000"], "5000"),
    ] {
        let arguments = [vec!["create", image], arguments].concat();
        let (_, err) = ends(&drive(&arguments), 2);
        assert!(err.contains(what), "{arguments:?}: {err}");
        assert!(!Path::new(image).exists(), "{arguments:?}");
    }
}

#[test]
fn every_field_is_documented() {
    let image = image("documented.img", "durassd", true);
    let text = include_str!("../../../../docs/json.md");
    for command in ["inspect", "check"] {
        let (_, part) = text.split_once(&format!("## `tantalum drive {command} --json`")).unwrap();
        let (part, _) = part.split_once("\n## ").unwrap();
        let mut missing = Vec::new();
        fields(&json(&[command, &image], 0), "", &mut |path, last| {
            if !part.contains(&format!("`{path}`")) && !part.contains(&format!("`{last}`")) {
                missing.push(path.to_string());
            }
        });
        assert!(missing.is_empty(), "{command}: {missing:?}");
    }
}

fn fields(value: &Value, path: &str, found: &mut dyn FnMut(&str, &str)) {
    let Value::Object(all) = value else {
        return found(path, path.rsplit('.').next().unwrap_or_default());
    };
    for (name, value) in all {
        let dot = if path.is_empty() { "" } else { "." };
        fields(value, &format!("{path}{dot}{name}"), found);
    }
}

/// CRC-32C.
fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum: u32, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| sum >> 1 ^ (0x82f6_3b78 * (sum & 1)))
    })
}

/// Changes the marks of an image to another boot of the host (`docs/image.md`, "Marks, log and
/// base"); returns the number of marks.
fn reboot(image: &Path) -> u32 {
    let mut bytes = std::fs::read(image).expect("an image");
    let mut marks = 0;
    for page in bytes.chunks_mut(4096).filter(|page| page.starts_with(b"TT-MARK\0")) {
        page[16..32].fill(0x77);
        let sum = checksum(&page[..40]);
        page[40..44].copy_from_slice(&sum.to_le_bytes());
        marks += 1;
    }
    std::fs::write(image, bytes).expect("written");
    marks
}

/// Serves an image, writes and flushes block 1 and writes block 2, and kills the server.
fn serve_and_kill(image: &str, more: &[&str]) {
    let nbd = socket("host.nbd");
    let mut command = tantalum(&["drive", "serve", image, "--time-scale", "0", "--unix"]);
    command.arg(&nbd).args(more);
    let mut serving = Serving::start(command);
    let mut client = Nbd::connect(&nbd).expect("a server");
    client.write(1, &[1; 4096]).expect("written");
    client.flush().expect("flushed");
    client.write(2, &[2; 4096]).expect("written");
    serving.child.kill().expect("it can be killed");
    serving.child.wait().expect("it ends");
}

/// Serves an image, reads these blocks, and stops; `None`: the image is refused.
fn serve_and_read(image: &str, more: &[&str], blocks: &[u64]) -> (Option<Vec<u8>>, String) {
    let nbd = socket("host.nbd");
    let mut command = tantalum(&["drive", "serve", image, "--time-scale", "0", "--unix"]);
    command.arg(&nbd).args(more);
    let serving = Serving::start(command);
    if serving.uri.is_empty() {
        let (code, said) = serving.end();
        assert_eq!(code, Some(1), "{said}");
        return (None, said);
    }
    let mut client = Nbd::connect(&nbd).expect("a server");
    let first = |block: &u64| client.read(*block).map_or(0xff, |data| data[0]);
    let found = blocks.iter().map(first).collect();
    drop(client);
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0), "{said}");
    (Some(found), said)
}

/// With --host-sync flushed data survives a crash of the host. After a crash the image is refused
/// without --host-crashed.
#[test]
fn a_crash_of_the_host_is_noticed_and_survived() {
    for (name, sync) in [("synced.img", &["--host-sync"][..]), ("unsynced.img", &[])] {
        let image = image(name, "durassd", false);
        // A killed process is not a crash of the host.
        serve_and_kill(&image, sync);
        let (found, said) = serve_and_read(&image, sync, &[1, 2]);
        assert_eq!(found, Some(vec![1, 2]), "{said}");
        assert!(said.contains("was killed") && !said.contains("host crashed"), "{said}");
        // After an orderly end a crash has no effect.
        assert!(reboot(Path::new(&image)) > 0);
        assert_eq!(serve_and_read(&image, sync, &[1, 2]).0, Some(vec![1, 2]));

        serve_and_kill(&image, sync);
        assert!(reboot(Path::new(&image)) > 0);
        for command in [&["check", &image][..], &["inspect", &image]] {
            let (_, said) = ends(&drive(command), 1);
            assert!(said.contains("--host-crashed"), "{command:?}: {said}");
        }
        let (refused, said) = serve_and_read(&image, sync, &[1]);
        assert!(refused.is_none() && said.contains("--host-crashed"), "{said}");
        let more = [sync, &["--host-crashed"]].concat();
        let (found, said) = serve_and_read(&image, &more, &[1, 2]);
        assert!(said.contains("the host crashed: the image"), "{said}");
        let synced = said.contains("the state of its newest sync");
        assert_eq!(synced, !sync.is_empty(), "{said}");
        // The host's page cache is intact here: only the synced image goes back to an earlier
        // moment.
        let found = found.expect("it is served");
        assert_eq!(found[0], 1, "{name}: what was flushed");
        assert!([0, 2].contains(&found[1]) && (synced || found[1] == 2), "{name}: {found:?}");
        // Now the image is accepted without --host-crashed.
        assert_eq!(serve_and_read(&image, &[], &[1]).0, Some(vec![1]), "{name}");
        std::fs::remove_file(&image).expect("removed");
    }
}
