//! `tantalum cache` as a user meets it.

#![allow(clippy::disallowed_methods, reason = "tests write the files that they name")]

mod common;

use common::live::{Nbd, Serving, tantalum};
use common::{ends, file};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn sim(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(["cache", "sim"]).args(arguments).stdin(Stdio::null());
    command.output().expect("the command starts")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let (out, err) = ends(&sim(&[arguments, &["--json"]].concat()), 0);
    assert_eq!(err, "");
    serde_json::from_str(&out).expect("it is JSON")
}

#[test]
fn all_policies_run_on_the_trace_that_is_built_in() {
    let (out, err) = ends(&sim(&["--quick"]), 0);
    assert_eq!(err, "");
    for policy in ["mvfifo", "gsc", "lc", "tac", "bcache-lru", "bcache-fifo", "lru", "clock"] {
        let is_row = |line: &&str| line.split('|').any(|cell| cell.trim() == policy);
        assert_eq!(out.lines().filter(is_row).count(), 2, "{policy}: {out}");
    }
    assert!(out.starts_with("pg15-tpcc-32mb: ") && !out.contains("seconds"), "{out}");
    assert_eq!(ends(&sim(&["--quick"]), 0).0, out, "the same bytes again");
    let packed =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/traces/pg15-tpcc-32mb.u32.xz");
    let table = |text: &str| text.split_once("\n\n").map(|(_, table)| table.to_string());
    assert_eq!(table(&ends(&sim(&["--quick", packed]), 0).0), table(&out));
}

#[test]
fn what_is_counted_is_json() {
    let json = json(&["--quick", "--policy", "gsc,none", "--size", "2000", "--ghosts", "--time"]);
    assert_eq!((&json["page_bytes"], &json["rounds"]), (&8192.into(), &1.into()));
    let (gsc, none) = (&json["rows"][0], &json["rows"][1]);
    assert_eq!((&gsc["policy"], &none["policy"]), (&"gsc".into(), &"none".into()));
    assert!(gsc["read_hits"].as_u64() > Some(0) && gsc["twice_gain"].as_f64() > Some(0.0));
    assert!(gsc["seconds"].as_f64() > Some(0.0));
    assert_eq!(none["writes"], none["slow_writes"]);
    assert_eq!((&none["flash_writes"], &none["slow_write_change"]), (&0.into(), &0.0.into()));
    assert_eq!(none["mean_write_bytes"], serde_json::Value::Null);
}

#[test]
fn other_formats_are_read_and_discards_forget() {
    let log = "fio version 2 iolog\n/f add\n/f open\n/f write 0 8192\n/f trim 0 4096\n\
               /f read 0 8192\n/f read 0 8192\n";
    let path = file("cache.fio", log);
    let path = path.to_str().unwrap();
    let json = json(&[path, "--policy", "lru", "--size", "4", "--page", "4KiB", "--rounds", "2"]);
    let row = &json["rows"][0];
    // In each round page 0 is discarded, and missed once.
    assert_eq!(
        (&row["reads"], &row["read_hits"], &row["writes"]),
        (&8.into(), &6.into(), &4.into())
    );
    assert_eq!((&row["frames_used"], &row["flash_bytes"]), (&2.into(), &16_384.into()));
}

#[test]
fn what_makes_no_sense_is_one_line() {
    let empty = file("cache.empty", "");
    let flushes = file("cache.flushes", "8,0 0 1 1.000000000 7 Q FN [db]\n");
    for (arguments, expected) in [
        (vec!["--size", "50", "--policy", "gsc"], "gsc needs at least 128 frames, and has 50"),
        (vec!["--size", "200", "--policy", "bcache-lru", "--ghosts"], "or its ghosts"),
        (vec!["--page", "1000"], "expected a power of two"),
        (vec!["--batch", "0"], "batches of 0 pages"),
        (vec!["--dirty", "101"], "101 %"),
        (vec!["--size", "5000000000"], "too large"),
        (vec!["no-such-file"], "cannot read the trace no-such-file"),
        (vec![empty.to_str().unwrap()], "empty"),
        (vec![flushes.to_str().unwrap()], "no reads and no writes"),
    ] {
        let (out, err) = ends(&sim(&arguments), 2);
        assert!(err.contains(expected) && err.lines().count() == 1 && out.is_empty(), "{err}");
    }
    for arguments in [["--policy", "fifo"], ["--size", "x"], ["--mode", "sideways"]] {
        ends(&sim(&arguments), 2);
    }
}

fn cache(verb: &str, words: &[&Path], code: i32) -> (String, String) {
    let mut command = tantalum(&["cache", verb]);
    command.args(words);
    ends(&command.output().expect("it starts"), code)
}

/// A cache on files that are not there yet.
fn made(name: &str, more: &[&str]) -> (PathBuf, PathBuf, PathBuf) {
    let at = file(&format!("{name}.toml"), "");
    let (flash, slow) = (at.with_file_name(format!("{name}.flash")), at.with_file_name(name));
    [&flash, &slow].iter().for_each(|path| drop(std::fs::remove_file(path)));
    let words = ["--flash", "--slow", "--force", "--flash-size", "--slow-size", "8MiB"];
    let [of_flash, of_slow, force, flash_size, slow_size, size] = words.map(Path::new);
    let all = [&at, of_flash, &flash, of_slow, &slow, force, flash_size, size, slow_size, size];
    let more: Vec<&Path> = more.iter().map(Path::new).collect();
    cache("create", &[&all[..], &more].concat(), 0);
    (at, flash, slow)
}

fn serve(at: &Path, socket: &Path) -> Serving {
    let mut command = tantalum(&["cache", "serve"]);
    command.arg(at).arg("--unix").arg(socket);
    Serving::start(command)
}

fn whole(n: u8) -> [u8; 4096] {
    [n; 4096]
}

/// Cut, ended and killed: what was flushed is there, and after an end in good order all is, and the
/// start is warm.
#[test]
fn a_served_volume_keeps_what_was_flushed_over_cuts_ends_and_kills() {
    for mode in ["back", "through"] {
        let (at, _, slow) = made(&format!("kept-{mode}"), &["--mode", mode]);
        let socket = common::live::socket(&format!("kept-{mode}.sock"));
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        nbd.write(1, &whole(1)).expect("written");
        nbd.flush().expect("flushed");
        assert!(cache("check", &[&at], 2).1.contains("in use"));
        cache("cut", &[&at], 0);
        cache("restore", &[&at], 0);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        assert_eq!(nbd.read(1).expect("read"), whole(1));
        nbd.write(2, &whole(2)).expect("written");
        // Not flushed: the end in good order does that.
        assert_eq!(serving.stop().0, Some(0));
        let said = cache("check", &[&at], 0).0;
        assert!(said.contains("ended in good order: all is well"), "{said}");
        let serving = serve(&at, &socket);
        let (stats, _) = cache("stats", &[&at], 0);
        assert!(stats.contains("warm, 2 pages found"), "{stats}");
        let mut nbd = Nbd::connect(&socket).expect("a server");
        assert_eq!(nbd.read(2).expect("read"), whole(2));
        nbd.write(3, &whole(3)).expect("written");
        nbd.flush().expect("flushed");
        drop(serving); // Killed.
        assert!(cache("check", &[&at], 0).0.contains("after a crash: all is well"));
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        for n in 1..=3 {
            assert_eq!(nbd.read(u64::from(n)).expect("read"), whole(n));
        }
        assert_eq!(serving.stop().0, Some(0));
        assert!(cache("scrub", &[&at], 0).0.contains("0 lost"));
        cache("detach", &[&at], 0);
        let slow = std::fs::read(&slow).expect("the slow device");
        for n in 1..=3_u8 {
            let start = (1 << 20) + usize::from(n) * 4096;
            assert!(slow[start..][..4096] == whole(n), "{mode}: block {n}");
        }
        // It was given up.
        let said = cache("check", &[&at], 2).1;
        assert!(said.contains("used without the cache") && said.lines().count() == 1, "{said}");
        cache("inspect", &[&at], 0);
    }
}

/// Under write-through the volume goes on without what it had on flash; under write-back it does not.
#[test]
fn a_lost_flash_device_ends_a_volume_under_write_back_alone() {
    for mode in ["back", "through"] {
        let (at, flash, _) = made(&format!("lost-{mode}"), &["--mode", mode]);
        let socket = common::live::socket(&format!("lost-{mode}.sock"));
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        nbd.write(5, &whole(5)).expect("written");
        nbd.flush().expect("flushed");
        drop(serving); // Killed.
        std::fs::write(&flash, vec![0; 8 << 20]).expect("a blank one");
        if mode == "back" {
            let command = tantalum(&["cache", "serve", "--unix", "never.sock"]).arg(&at).output();
            let said = ends(&command.expect("it starts"), 1).1;
            assert!(said.contains("lacks dirty pages") && said.lines().count() == 1, "{said}");
            let detached = cache("detach", &[&at], 1).1;
            assert!(detached.contains("lacks dirty pages"), "{detached}");
            continue;
        }
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        assert_eq!(nbd.read(5).expect("read"), whole(5));
        let (code, said) = serving.stop();
        assert_eq!(code, Some(0));
        assert!(said.contains("goes on with a new cache"), "{said}");
    }
}

#[test]
fn models_are_served_and_keep_what_was_flushed_over_a_cut() {
    let at = file("cache-models.toml", "");
    let words =
        ["--flash", "model:ssd-840pro:64MiB", "--slow", "model:4xdisk-15k6:64MiB", "--force"];
    let [of_flash, flash, of_slow, slow, force] = words.map(Path::new);
    cache("create", &[&at, of_flash, flash, of_slow, slow, force], 0);
    let said = cache("check", &[&at], 2).1;
    assert!(said.contains("models, which hold nothing"), "{said}");
    let socket = common::live::socket("cache-models.sock");
    let serving = serve(&at, &socket);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    nbd.write(1, &whole(7)).expect("written");
    nbd.flush().expect("flushed");
    cache("cut", &[&at], 0);
    cache("restore", &[&at], 0);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    assert_eq!(nbd.read(1).expect("read"), whole(7));
    assert_eq!(serving.stop().0, Some(0));
}

/// What is refused changes nothing, and is told in a line.
#[test]
fn wrong_devices_are_refused_in_a_line() {
    let zeros = |name: &str, kibibytes: usize| file(name, vec![0; kibibytes << 10]);
    let (flash, slow) = (zeros("refused.flash", 8 << 10), zeros("refused.slow", 8 << 10));
    let at = flash.with_file_name("refused.toml");
    drop(std::fs::remove_file(&at));
    let used = file("refused.used", vec![7; 8 << 20]);
    let (small, gone) = (zeros("refused.small", 64), flash.with_file_name("refused.gone"));
    let model = Path::new("model:ssd-840pro:64MiB");
    let [of_flash, of_slow, of_page, odd] = ["--flash", "--slow", "--page", "3000"].map(Path::new);
    for (a, b, why) in [
        (&*flash, &*flash, "are the same device"),
        (&*flash, &*gone, "name a file or block device that is there"),
        (&*small, &*slow, "use a larger device"),
        (&*flash, &*small, "use a larger one"),
        (&*used, &*slow, "--force"),
        (&*flash, &*used, "--force"),
        (model, &*slow, "or for none of them"),
    ] {
        let said = cache("create", &[&at, of_flash, a, of_slow, b], 2).1;
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        assert!(!at.exists(), "{why}");
    }
    let said = cache("create", &[&at, of_flash, &flash, of_slow, &slow, of_page, odd], 2).1;
    assert!(said.lines().count() == 1, "{said}");
    for device in [&flash, &slow] {
        let bytes = std::fs::read(device).expect("read");
        assert!(bytes.iter().all(|b| *b == 0), "nothing is changed");
    }
    let keys = file("refused.keys.toml", "flash = \"a\"\nslwo = \"b\"\n");
    let said = cache("check", &[&keys], 2).1;
    assert!(said.contains(":2: unknown key \"slwo\"; did you mean \"slow\"?"), "{said}");
    let said = cache("serve", &[&keys], 1).1;
    assert!(said.contains("unknown key") && said.lines().count() == 1, "{said}");
    // The devices of two caches.
    let (ours, ours_flash, _) = made("refused-ours", &[]);
    let (theirs, ..) = made("refused-theirs", &[]);
    let text = std::fs::read_to_string(&theirs).expect("a description");
    let mixed = text.replace("refused-theirs.flash", "refused-ours.flash");
    assert_ne!(text, mixed);
    std::fs::write(&theirs, mixed).expect("written");
    let before = std::fs::read(&ours_flash).expect("read");
    let said = cache("check", &[&theirs], 2).1;
    assert!(said.contains("different caches") && said.lines().count() == 1, "{said}");
    assert!(std::fs::read(&ours_flash).expect("read") == before, "nothing is changed");
    cache("check", &[&ours], 0);
}

/// What caches share with drives speaks of caches.
#[test]
fn the_help_of_a_command_on_caches_speaks_of_caches() {
    for verb in ["serve", "mount", "status", "stats", "top", "cut", "restore"] {
        let (help, _) = cache(verb, &[Path::new("--help")], 0);
        assert!(help.contains(&format!("Usage: tantalum cache {verb} ")), "{help}");
        let (_, examples) = help.split_once("Examples:").expect("it has examples");
        assert!(examples.contains(&format!("tantalum cache {verb} c.")), "{examples}");
        assert!(!examples.contains("disk.img"), "{examples}");
    }
}
