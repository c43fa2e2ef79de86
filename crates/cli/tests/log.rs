//! The commands of flash logs: made, served, cut, checked, recovered; and what they refuse.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and make files and sockets")]

mod common;

use common::live::{Nbd, Serving, tantalum};
use common::{ends, file};
use std::path::Path;

fn log(verb: &str, words: &[&Path], code: i32) -> (String, String) {
    let mut command = tantalum(&["log", verb]);
    command.args(words);
    ends(&command.output().expect("it starts"), code)
}

fn device(name: &str, mebibytes: usize) -> std::path::PathBuf {
    file(name, vec![0; mebibytes << 20])
}

#[test]
fn a_served_log_volume_keeps_what_it_acknowledged() {
    let (a, b, disk) = (device("kept.a", 16), device("kept.b", 16), device("kept.disk", 32));
    let at = file("kept.toml", "");
    let [device, backing, force] = ["--device", "--backing", "--force"].map(Path::new);
    log("create", &[&at, device, &a, device, &b, backing, &disk, force], 0);
    let socket = common::live::socket("kept.sock");
    let mut command = tantalum(&["log", "serve"]);
    command.arg(&at).arg("--unix").arg(&*socket);
    let serving = Serving::start(command);
    let block = [0x5a; 4096];
    Nbd::connect(&socket).expect("a server").write(1, &block).expect("written");
    assert!(log("check", &[&at], 2).1.contains("in use"));
    log("cut", &[&at], 0);
    log("restore", &[&at], 0);
    assert_eq!(Nbd::connect(&socket).expect("a server").read(1).expect("read"), block);
    assert_eq!(serving.stop().0, Some(0));
    log("check", &[&at], 0);
    assert!(log("recover", &[&at], 0).0.contains("the backing has everything"));
    let disk = std::fs::read(disk).expect("the backing");
    assert_eq!(disk[4096..8192], block);
}

#[test]
fn a_lost_device_is_replaced_and_then_another_one_may_be_lost() {
    let (a, b, c) = (device("copy.a", 16), device("copy.b", 16), device("copy.c", 16));
    let (d, disk, at) = (device("copy.d", 16), device("copy.disk", 32), file("copy.toml", ""));
    let words = ["--device", "--backing", "--copies", "2", "--force", "--lost", "--with"];
    let [device, backing, copies, two, force, lost, with] = words.map(Path::new);
    log("create", &[&at, device, &a, device, &b, backing, &disk, copies, two, force], 0);
    let said = log("replace", &[&at, lost, &c, with, &d], 2).1;
    assert!(said.contains("copy.toml has no device") && said.contains("copy.b"), "{said}");
    std::fs::remove_file(&b).expect("it is lost");
    log("check", &[&at], 2);
    let said = log("replace", &[&at, lost, &b, with, &a], 2).1;
    assert!(said.contains("are the same device"), "{said}");
    assert!(log("replace", &[&at, lost, &b, with, &c], 0).0.contains("has everything"));
    log("check", &[&at], 0);
    std::fs::remove_file(&a).expect("it is lost, too");
    log("replace", &[&at, lost, &a, with, &d], 0);
    assert!(log("check", &[&at], 0).0.contains("all is well"));
    log("recover", &[&at], 0);
}

#[test]
fn wrong_devices_are_refused_in_a_line() {
    let (a, at) = (device("wrong.a", 16), file("wrong.toml", ""));
    std::fs::remove_file(&at).expect("removed");
    let link = a.with_file_name("wrong.link");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&a, &link).expect("a link");
    let device = Path::new("--device");
    let gone = a.with_file_name("wrong.gone");
    let small = file("wrong.small", vec![0; 64 << 10]);
    let used = file("wrong.used", vec![7; 16 << 20]);
    let odd = file("wrong.odd", vec![0; 1000]);
    for (other, why) in [
        (&link, "are the same device"),
        (&gone, "name a file or block device that is there"),
        (&small, "use a larger device"),
        (&used, "create it with --force"),
        (&odd, "not a whole number of blocks"),
    ] {
        let said = log("create", &[&at, device, &a, device, other], 2).1;
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        assert!(!at.exists(), "{why}");
    }
    assert!(std::fs::read(&a).expect("read").iter().all(|b| *b == 0), "nothing is changed");
    let keys = file("wrong.keys.toml", "devices = []\nbakcing = \"x\"\n");
    let said = log("check", &[&keys], 2).1;
    assert!(said.contains(":2: unknown key \"bakcing\"; did you mean \"backing\"?"), "{said}");
}
