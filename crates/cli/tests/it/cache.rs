//! `tantalum cache` as a user meets it.

use crate::common::live::{Nbd, Serving, tantalum};
use crate::common::{ends, file, path};
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
    let misspelt =
        file("cache.misspelt", "fio version 2 iolog\n/f add\n/f open\n/f wirte 0 8192\n");
    let flushes = file("cache.flushes", "8,0 0 1 1.000000000 7 Q FN [db]\n");
    let packed = include_bytes!("../../experiments/traces/pg15-tpcc-32mb.u32.xz");
    let cut_off = file("cache.xz", "");
    std::fs::write(&cut_off, &packed[..packed.len() / 2]).expect("written");
    for (arguments, expected) in [
        (vec!["--size", "50", "--policy", "gsc"], "gsc needs at least 128 frames, and has 50"),
        (vec!["--size", "200", "--policy", "bcache-lru", "--ghosts"], "or its ghosts"),
        (vec!["--page", "1000"], "expected a power of two"),
        (vec!["--batch", "0"], "batches of 0 pages"),
        (vec!["--size", "5000000000"], "too large"),
        (
            vec!["no-such-file"],
            "cannot read the trace no-such-file: there is no such file: name a recorded trace",
        ),
        (vec![empty.to_str().unwrap()], "empty"),
        (vec![flushes.to_str().unwrap()], "no reads and no writes"),
        (vec![cut_off.to_str().unwrap()], "cut off or damaged"),
        (vec![empty.parent().unwrap().to_str().unwrap()], "it is a folder: name a file"),
        (vec![misspelt.to_str().unwrap()], "line 4"),
    ] {
        let (out, err) = ends(&sim(&arguments), 2);
        assert!(err.contains(expected) && err.lines().count() == 1 && out.is_empty(), "{err}");
    }
    for arguments in
        [["--policy", "fifo"], ["--size", "x"], ["--mode", "sideways"], ["--dirty", "101%"]]
    {
        ends(&sim(&arguments), 2);
    }
}

pub fn cache(verb: &str, words: &[&Path], code: i32) -> (String, String) {
    let mut command = tantalum(&["cache", verb]);
    command.args(words);
    ends(&command.output().expect("it starts"), code)
}

/// A cache on files that are not there yet.
pub fn made(name: &str, more: &[&str]) -> (PathBuf, PathBuf, PathBuf) {
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

pub fn serve(at: &Path, socket: &Path) -> Serving {
    let mut command = tantalum(&["cache", "serve"]);
    command.arg(at).arg("--unix").arg(socket);
    Serving::start(command)
}

pub fn whole(n: u8) -> [u8; 4096] {
    [n; 4096]
}

/// Cut, ended and killed: what was flushed is there, and after an end in good order all is, and the
/// start is warm.
#[test]
fn a_served_volume_keeps_what_was_flushed_over_cuts_ends_and_kills() {
    for mode in ["back", "through"] {
        let (at, _, slow) = made(&format!("kept-{mode}"), &["--mode", mode]);
        let socket = crate::common::live::socket(&format!("kept-{mode}.sock"));
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        nbd.write(1, &whole(1)).expect("written");
        nbd.flush().expect("flushed");
        assert!(cache("check", &[&at], 2).1.contains("in use"));
        assert!(cache("serve", &[&at], 2).1.contains("in use"));
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
        let pages = stats.lines().find_map(|line| line.strip_prefix("cache       "));
        let pages = pages.and_then(|line| line.split(',').next()).expect("a line of the cache");
        let (top, _) = cache("top", &[&at, Path::new("--once")], 0);
        assert!(top.contains(&format!("░ {pages}, ")), "{pages} is not in\n{top}");
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
        let said = cache("inspect", &[&at], 1).0;
        assert!(said.contains("it has every page; `tantalum cache create --force`"), "{said}");
    }
}

/// Each command says at which end of the slow device the label is, which the description has at the
/// other.
fn label_is_told(at: &Path, end: &str) {
    let words = format!("set label = \"{end}\" in its description");
    for (verb, code) in [("check", 2), ("scrub", 2), ("detach", 2)] {
        let said = cache(verb, &[at], code).1;
        assert!(said.contains(&words) && said.lines().count() == 1, "{verb}: {said}");
    }
    let said = cache("inspect", &[at], 1).0;
    assert!(said.contains(&words) && !said.contains("different caches"), "{said}");
}

/// A slow device with data keeps them, and the volume begins with them.
#[test]
fn an_adopted_device_keeps_its_data_in_place() {
    let at = file("adopted.toml", "");
    let (flash, slow) = (at.with_file_name("adopted.flash"), at.with_file_name("adopted.slow"));
    drop(std::fs::remove_file(&flash));
    let blocks = 1000;
    let mut data: Vec<u8> = (0..blocks).flat_map(|n| whole(n as u8)).collect();
    data.resize((blocks * 4096) + (1 << 20), 0);
    std::fs::write(&slow, &data).expect("it can be written");
    let words = ["--flash", "--flash-size", "8MiB", "--slow", "--adopt", "--force"];
    let [of_flash, of_size, size, of_slow, adopt, force] = words.map(Path::new);
    let said =
        cache("create", &[&at, of_flash, &flash, of_size, size, of_slow, &slow, adopt, force], 0);
    assert!(said.0.contains("never mount or write to the slow device itself"), "{}", said.0);
    let socket = crate::common::live::socket("adopted.sock");
    let serving = serve(&at, &socket);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    for n in [0, 1, 700, 999] {
        assert_eq!(nbd.read(n).expect("read"), whole(n as u8));
    }
    nbd.write(1, &whole(77)).expect("written");
    nbd.flush().expect("flushed");
    assert_eq!(serving.stop().0, Some(0));
    assert!(cache("check", &[&at], 0).0.contains("all is well"));
    cache("inspect", &[&at], 0);
    // Whoever looks for the label at the wrong end is told where it is.
    let text = std::fs::read_to_string(&at).expect("a description");
    let wrong = text.replace("label = \"end\"", "label = \"begin\"");
    assert_ne!(text, wrong);
    std::fs::write(&at, wrong).expect("written");
    label_is_told(&at, "end");
    std::fs::write(&at, text).expect("written");
    let said = cache("detach", &[&at], 0).0;
    assert!(said.contains("from its byte 0 on"), "{said}");
    let now = std::fs::read(&slow).expect("the slow device");
    data[4096..8192].copy_from_slice(&whole(77));
    assert!(now[..blocks * 4096] == data[..blocks * 4096]);
    // Data where the label goes are refused, and so is a device with a label at its beginning.
    let full = file("adopted.full", "");
    std::fs::write(&full, vec![7; 4 << 20]).expect("it can be written");
    let other = at.with_file_name("adopted.other");
    std::fs::write(&other, vec![0; 8 << 20]).expect("it can be written");
    let new = file("adopted-2.toml", "");
    std::fs::remove_file(&new).expect("it is there");
    let said = cache("create", &[&new, of_flash, &other, of_slow, &full, adopt], 2).1;
    assert!(said.contains("data in its last 1 MiB") && said.lines().count() == 1, "{said}");
    // Also in the very last bytes, where partition tables have a copy.
    let mut last = vec![0; 4 << 20];
    last[(4 << 20) - 512] = 7;
    std::fs::write(&full, last).expect("it can be written");
    let said = cache("create", &[&new, of_flash, &other, of_slow, &full, adopt], 2).1;
    assert!(said.contains("data in its last 1 MiB") && said.lines().count() == 1, "{said}");
    let (third, _, labelled) = made("adopted-3", &[]);
    let text = std::fs::read_to_string(&third).expect("a description");
    std::fs::write(&third, text.replace("= \"begin\"", "= \"end\"")).expect("written");
    label_is_told(&third, "begin");
    let said = cache("create", &[&new, of_flash, &other, of_slow, &labelled, adopt], 2).1;
    assert!(said.contains("the label of a cache") && said.lines().count() == 1, "{said}");
    assert!(!new.exists());
}

/// A new cache ends all labels of the slow device: at the other end, and those of pages of another size.
/// What is opened with one would serve older pages, and write them over newer ones.
#[test]
fn a_slow_device_has_one_label() {
    let at = |name: &str| file(&format!("one-label-{name}"), "");
    let slow = at("slow");
    // The end of whole pages of 4 KiB is not that of pages of 16 KiB.
    std::fs::write(&slow, vec![0; (4 << 20) + 4096]).expect("it can be written");
    let mut caches: Vec<PathBuf> = Vec::new();
    let kinds: [&[&str]; 4] = [&["--adopt"], &[], &["--adopt"], &["--adopt", "--page=16KiB"]];
    for (n, kind) in kinds.into_iter().enumerate() {
        let (new, flash) = (at(&format!("{n}.toml")), at(&format!("{n}.flash")));
        std::fs::write(&flash, vec![0; 16 << 20]).expect("it can be written");
        let make = |force: &[&str], code| {
            drop(std::fs::remove_file(&new));
            let mut words = vec![&*new, Path::new("--flash"), &flash, Path::new("--slow"), &slow];
            words.extend(kind.iter().chain(force).map(Path::new));
            cache("create", &words, code).1
        };
        if let Some(before) = caches.last() {
            let said = make(&[], 2);
            assert!(said.contains("--force") && said.lines().count() == 1, "{said}");
            cache("check", &[before], 0);
        }
        make(&["--force"], 0);
        for before in &caches {
            cache("check", &[before], 2);
        }
        cache("check", &[&new], 0);
        caches.push(new);
    }
}

/// A label that this program cannot read may be that of a cache which has newer pages.
#[test]
fn what_may_be_lost_with_a_label_that_cannot_be_read_is_told() {
    let (at, _, slow) = made("damaged-label", &[]);
    let mut bytes = std::fs::read(&slow).expect("the slow device");
    for copy in [0, 16384] {
        bytes[copy + 100] = 99;
    }
    std::fs::write(&slow, bytes).expect("it can be written");
    let flash = file("damaged-label.other", "");
    std::fs::write(&flash, vec![0; 16 << 20]).expect("it can be written");
    let words = ["--flash", "--slow", "--force"].map(Path::new);
    let said = cache("create", &[&at, words[0], &flash, words[1], &slow, words[2]], 0).1;
    assert!(said.contains("cannot be read") && said.contains("these are lost"), "{said}");
}

/// A cache that takes the place of a lost one leaves alone what may be data: a label elsewhere.
#[test]
fn a_cache_that_replaces_a_lost_one_ends_no_other_label() {
    let (at, flash, slow) = made("replaced-label", &["--mode", "through"]);
    let mut bytes = std::fs::read(&slow).expect("the slow device");
    let end = (bytes.len() - (1 << 20)) / 4096 * 4096;
    bytes.copy_within(..512, end);
    std::fs::write(&slow, &bytes).expect("it can be written");
    let len = std::fs::metadata(&flash).expect("the flash device").len();
    std::fs::write(&flash, vec![0; len as usize]).expect("it can be written");
    let serving = serve(&at, &crate::common::live::socket("replaced-label.sock"));
    assert_eq!(serving.stop().0, Some(0));
    let now = std::fs::read(&slow).expect("the slow device");
    assert!(now[..512] != bytes[..512], "it has a new label");
    assert!(now[end..end + 512] == bytes[end..end + 512]);
}

/// What may be lost is told, also if the label is one of pages of another size.
#[test]
fn what_may_be_lost_with_pages_of_another_size_is_told() {
    let (at, slow) = (file("lost-4k.toml", ""), file("lost.slow", ""));
    std::fs::write(&slow, vec![0; (4 << 20) + 4096]).expect("it can be written");
    let create = |at: &Path, more: &[&str]| {
        let flash = at.with_extension("flash");
        std::fs::write(&flash, vec![0; 16 << 20]).expect("it can be written");
        let mut words = vec![at, Path::new("--flash"), &flash, Path::new("--slow"), &slow];
        words.extend(["--adopt", "--force"].iter().chain(more).map(Path::new));
        cache("create", &words, 0).1
    };
    assert!(!create(&at, &[]).contains("lost"));
    let socket = crate::common::live::socket("lost-4k.sock");
    let mut serving = serve(&at, &socket);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    nbd.write(1, &whole(77)).expect("written");
    nbd.flush().expect("flushed");
    serving.child.kill().expect("it runs");
    assert_eq!(serving.end().0, None);
    let said = create(&file("lost-16k.toml", ""), &["--page=16KiB"]);
    assert!(said.contains("these are lost"), "{said}");
}

/// An ext4 with so many blocks of `1024 << log` bytes, as far as a superblock says it.
fn ext4(log: u8, blocks: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4 << 20];
    let superblock = &mut bytes[1024..];
    superblock[4..8].copy_from_slice(&blocks.to_le_bytes());
    (superblock[24], superblock[56], superblock[57], superblock[96]) = (log, 0x53, 0xef, 0x40);
    bytes
}

/// A file system must end before the label, and one that the kernel cannot mount on the volume is told.
#[test]
fn a_file_system_that_reaches_into_the_label_is_not_adopted() {
    let at = file("adopted-fs.toml", "");
    let (flash, slow) = (at.with_file_name("adopted-fs.flash"), at.with_file_name("adopted-fs"));
    std::fs::write(&flash, vec![0; 8 << 20]).expect("it can be written");
    let words = ["--flash", "--slow", "--adopt"].map(Path::new);
    let create = |code| {
        drop(std::fs::remove_file(&at));
        let [of_flash, of_slow, adopt] = words;
        cache("create", &[&at, of_flash, &flash, of_slow, &slow, adopt], code).1
    };
    std::fs::write(&slow, ext4(2, 769)).expect("it can be written");
    let said = create(2);
    let told = format!("`resize2fs \"{}\" 3072K`)", slow.display());
    assert!(said.contains(&told) && said.lines().count() == 1, "{said}");
    for (log, blocks, notes) in [(2, 768, 0), (0, 3072, 1)] {
        std::fs::write(&slow, ext4(log, blocks)).expect("it can be written");
        std::fs::write(&flash, vec![0; 8 << 20]).expect("it can be written");
        let said = create(0);
        assert_eq!(said.matches("mount it without --fs").count(), notes, "{said}");
    }
}

#[test]
fn a_cache_gets_another_size_and_keeps_what_was_flushed() {
    for mode in ["back", "through"] {
        let (at, flash, _) = made(&format!("resized-{mode}"), &["--mode", mode]);
        let socket = crate::common::live::socket(&format!("resized-{mode}.sock"));
        let resize = |size: &str, code| {
            let words = [at.as_path(), Path::new("--flash-size"), Path::new(size)];
            let (said, wrong) = cache("resize", &words, code);
            said + &wrong
        };
        let bytes = || std::fs::metadata(&flash).expect("the flash device").len();
        for (round, size) in [(1, "16MiB"), (2, "4MiB"), (3, "8MiB")] {
            let serving = serve(&at, &socket);
            let mut nbd = Nbd::connect(&socket).expect("a server");
            nbd.write(u64::from(round), &whole(round)).expect("written");
            nbd.flush().expect("flushed");
            assert_eq!(serving.stop().0, Some(0));
            let said = resize(size, 0);
            assert!(said.contains("frames, with"), "{said}");
            assert_eq!(bytes(), bytes_of(size));
            assert!(cache("check", &[&at], 0).0.contains("ended in good order: all is well"));
            let serving = serve(&at, &socket);
            let mut nbd = Nbd::connect(&socket).expect("a server");
            for n in 1..=round {
                assert_eq!(nbd.read(u64::from(n)).expect("read"), whole(n));
            }
            assert_eq!(serving.stop().0, Some(0));
        }
        for (size, why) in [("64KiB", "smallest cache"), ("5000", "multiple of 4096")] {
            let said = resize(size, 2);
            assert!(said.contains(why) && said.lines().count() == 1, "{said}");
            assert_eq!(bytes(), 8 << 20);
        }
        assert!(cache("check", &[&at], 0).0.contains("all is well"));
    }
}

/// What was kept out, and what twice the size would find, is told of a served cache.
#[test]
fn a_scan_is_kept_out_and_ghosts_tell_of_twice_the_size() {
    let (at, _, _) = made("ghosts", &["--scan", "4", "--ghosts"]);
    let socket = crate::common::live::socket("ghosts.sock");
    let serving = serve(&at, &socket);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    for page in 100..120 {
        nbd.read(page).expect("read");
    }
    let (stats, _) = cache("stats", &[&at, Path::new("--json")], 0);
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    assert_eq!((&stats["cache"]["pages"], &stats["kept_out"]), (&4.into(), &16.into()));
    assert_eq!((&stats["ghosts"]["fetches"], &stats["ghosts"]["hits"]), (&20.into(), &0.into()));
    let (stats, _) = cache("stats", &[&at], 0);
    for told in ["16 pages were kept out", "twice the size would find another 0 %"] {
        assert!(stats.contains(told), "{stats}");
    }
    assert_eq!(serving.stop().0, Some(0));
}

/// With `admit = "dirty"` pages enter that are written, and none that is only read.
#[test]
fn only_pages_that_are_written_enter_if_that_is_asked_for() {
    for (admit, pages) in [("mixed", 3), ("dirty", 1)] {
        let (at, ..) = made(&format!("admit-{admit}"), &["--admit", admit]);
        let socket = crate::common::live::socket(&format!("admit-{admit}.sock"));
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        nbd.write(1, &whole(1)).expect("written");
        for at in [5, 9] {
            assert_eq!(nbd.read(at).expect("read"), whole(0));
        }
        nbd.flush().expect("flushed");
        let stats = cache("stats", &[&at, Path::new("--json")], 0).0;
        let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
        assert_eq!(stats["cache"]["pages"], pages, "{admit}");
        assert_eq!(serving.stop().0, Some(0));
    }
}

pub fn bytes_of(text: &str) -> u64 {
    let mib = text.strip_suffix("MiB").expect("a size in MiB");
    mib.parse::<u64>().expect("a number") << 20
}

/// Under write-through the volume goes on without what it had on flash; under write-back it does not.
#[test]
fn a_lost_flash_device_ends_a_volume_under_write_back_alone() {
    for mode in ["back", "through"] {
        let (at, flash, _) = made(&format!("lost-{mode}"), &["--mode", mode]);
        let socket = crate::common::live::socket(&format!("lost-{mode}.sock"));
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        nbd.write(5, &whole(5)).expect("written");
        nbd.flush().expect("flushed");
        drop(serving); // Killed.
        std::fs::write(&flash, vec![0; 8 << 20]).expect("a blank one");
        if mode == "back" {
            let command = tantalum(&["cache", "serve", "--unix", "never.sock"]).arg(&at).output();
            let said = ends(&command.expect("it starts"), 2).1;
            assert!(said.contains("lacks dirty pages") && said.lines().count() == 1, "{said}");
            let named = format!("error: {}: it does not start: ", at.display());
            assert!(said.starts_with(&named), "{said}");
            let said = cache("check", &[&at], 2).1;
            assert!(said.contains("lacks dirty pages") && said.lines().count() == 1, "{said}");
            let detached = cache("detach", &[&at], 2).1;
            assert!(detached.contains("lacks dirty pages"), "{detached}");
            continue;
        }
        // A check says what goes on without it.
        let said = cache("check", &[&at], 2).1;
        assert!(said.contains("has every page that was flushed"), "{said}");
        assert!(said.contains("goes on with a new cache") && said.lines().count() == 1, "{said}");
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
    let socket = crate::common::live::socket("cache-models.sock");
    let serving = serve(&at, &socket);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    nbd.write(1, &whole(7)).expect("written");
    nbd.flush().expect("flushed");
    cache("cut", &[&at], 0);
    cache("restore", &[&at], 0);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    assert_eq!(nbd.read(1).expect("read"), whole(7));
    // A model has the capacity that it has, and the cache may have less of it.
    let [size, less, more] = ["--flash-size", "32MiB", "1024GiB"].map(Path::new);
    assert!(cache("resize", &[&at, size, less], 0).0.contains("32.00 MiB of its flash device"));
    assert!(cache("resize", &[&at, size, more], 2).1.contains("use a larger one"));
    // Nothing would be left of the slow one.
    assert!(cache("detach", &[&at], 2).1.contains("models, which hold nothing"));
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
    // The flash device by other names.
    let (linked, named) =
        (flash.with_file_name("refused.linked"), flash.with_file_name("refused.named"));
    [&linked, &named].iter().for_each(|path| drop(std::fs::remove_file(path)));
    std::fs::hard_link(&flash, &linked).expect("a hard link");
    std::os::unix::fs::symlink(&flash, &named).expect("a link");
    let folder = flash.parent().expect("a folder");
    let [of_flash, of_slow, of_page, odd] = ["--flash", "--slow", "--page", "3000"].map(Path::new);
    for (a, b, why) in [
        (&*flash, &*flash, "are the same device"),
        (&*flash, &*linked, "are the same device"),
        (&*flash, &*named, "are the same device"),
        (&*flash, folder, "neither a regular file nor a block device"),
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
    assert!(
        said.contains("--page 3000: give a power of two") && said.lines().count() == 1,
        "{said}"
    );
    let [of_batch, none, admit, clean] = ["--batch", "0", "--admit", "clean"].map(Path::new);
    let said = cache("create", &[&at, of_flash, &flash, of_slow, &slow, of_batch, none], 2).1;
    assert!(said.contains("from 2 to 1024"), "{said}");
    let said = cache("create", &[&at, of_flash, &flash, of_slow, &slow, admit, clean], 2).1;
    assert!(said.contains("possible values: mixed, dirty"), "{said}");
    for device in [&flash, &slow] {
        let bytes = std::fs::read(device).expect("read");
        assert!(bytes.iter().all(|b| *b == 0), "nothing is changed");
    }
    let keys = file("refused.keys.toml", "flash = \"a\"\nslwo = \"b\"\n");
    let said = cache("check", &[&keys], 2).1;
    assert!(said.contains(":2: unknown key \"slwo\"; did you mean \"slow\"?"), "{said}");
    let said = cache("serve", &[&keys], 2).1;
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

/// A cache that is there: what does not fit any more, or is in use, is refused in a line, by each
/// command, and nothing is changed.
#[test]
fn a_cache_that_does_not_fit_any_more_is_refused_in_a_line() {
    let (at, flash, slow) = made("unfit", &[]);
    let text = std::fs::read_to_string(&at).expect("a description");
    let bytes = || [&flash, &slow].map(|path| std::fs::read(path).expect("read"));
    let before = bytes();
    let [size, more] = ["--flash-size", "12MiB"].map(Path::new);
    let refused = |why: &str| {
        let alone: &[&Path] = &[&at];
        let resized: &[&Path] = &[&at, size, more];
        for (verb, arguments) in
            [("check", alone), ("scrub", alone), ("detach", alone), ("resize", resized)]
        {
            let said = cache(verb, arguments, 2).1;
            assert!(said.contains(why) && said.lines().count() == 1, "{verb}: {said}");
        }
    };
    for (from, to, why) in [
        ("mode = \"back\"", "mode = \"bakc\"", "unfit.toml:6"),
        ("page_bytes = 4096", "page_bites = 4096", "did you mean \"page_bytes\"?"),
        ("page_bytes = 4096", "page_bytes = \"4 KiB\"", "unfit.toml:4"),
        ("page_bytes = 4096", "page_bytes = 3000", "unfit.toml:4: page_bytes = 3000: give a power"),
        ("batch_pages = 64", "batch_pages = 0", "unfit.toml:5: batch_pages = 0: give 2 to 1024"),
        ("batch_pages = 64", "batch_pages = ", "unfit.toml:5: batch_pages: "),
        ("batch_pages = 64", "scan = 0", "unfit.toml:5: scan = 0 would"),
        ("unfit.flash\"", "unfit.gone\"", "unfit.gone\" is not there: bring it back"),
        ("clean = \"read\"", "clean = \"never\"", "unfit.toml:9"),
    ] {
        let wrong = text.replace(from, to);
        assert_ne!(wrong, text, "{from}");
        std::fs::write(&at, wrong).expect("written");
        refused(why);
    }
    std::fs::write(&at, text.replace("page_bytes = 4096", "page_bytes = 8192")).expect("written");
    for verb in ["check", "scrub", "detach"] {
        let said = cache(verb, &[&at], 2).1;
        assert!(said.lines().count() == 1, "{said}");
    }
    std::fs::write(&at, &text).expect("written");
    assert!(bytes() == before, "nothing is changed");
    // Another process has the devices.
    let socket = crate::common::live::socket("unfit.sock");
    let serving = serve(&at, &socket);
    // (Its control socket is beside the description that it was given.)
    let beside = file("unfit-beside.toml", &text);
    for (verb, at) in [("check", &at), ("detach", &beside)] {
        let said = cache(verb, &[at], 2).1;
        assert!(said.contains("in use") && said.lines().count() == 1, "{verb}: {said}");
    }
    let [of_flash, of_slow, force] = ["--flash", "--slow", "--force"].map(Path::new);
    let again = file("unfit-again.toml", "");
    let said = cache("create", &[&again, of_flash, &flash, of_slow, &slow, force], 2).1;
    assert!(said.contains("in use") && said.lines().count() == 1, "{said}");
    assert_eq!(serving.stop().0, Some(0));
    // The flash device is shorter than the cache.
    let whole = bytes();
    let cut_off = std::fs::File::options().write(true).open(&flash).expect("the flash device");
    cut_off.set_len(4 << 20).expect("it is shorter");
    for verb in ["check", "scrub", "detach"] {
        let said = cache(verb, &[&at], 2).1;
        assert!(said.contains("use the device as it was") && said.lines().count() == 1, "{said}");
    }
    assert!(bytes()[1] == whole[1] && bytes()[0][..] == whole[0][..4 << 20]);
}

/// Once `inspect` ended with 0.
#[test]
fn devices_that_are_not_one_cache_are_told() {
    let (at, flash, slow) = made("pair", &[]);
    let (_, other, _) = made("pair-other", &[]);
    let text = std::fs::read_to_string(&at).expect("a description");
    let one_fault = |why: &str| {
        let out = cache("inspect", &[&at], 1).0;
        assert_eq!(out.matches("fault: ").count(), 1, "{out}");
        assert!(out.contains(why), "{out}");
        let report = cache("inspect", &[&at, Path::new("--json")], 1).0;
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        report["faults"].as_array().expect("a list").len()
    };
    assert!(!cache("inspect", &[&at], 0).0.contains("fault"));
    // The flash device of another cache.
    let name = |path: &Path| path.display().to_string();
    std::fs::write(&at, text.replace(&name(&flash), &name(&other))).expect("written");
    let why =
        format!("\"{}\" and the slow store \"{}\" belong to different", name(&other), name(&slow));
    assert_eq!(one_fault(&why), 1);
    // Another size of pages than the cache has.
    std::fs::write(&at, text.replace("= 4096", "= 8192")).expect("written");
    assert_eq!(one_fault("says page_bytes = 8192, and the cache has pages of 4096"), 1);
    std::fs::write(&at, &text).expect("written");
    // An older copy of the flash device.
    let old = std::fs::read(&flash).expect("read");
    for _ in 0..2 {
        assert_eq!(serve(&at, &crate::common::live::socket("pair.sock")).stop().0, Some(0));
    }
    assert!(!cache("inspect", &[&at], 0).0.contains("fault"));
    std::fs::write(&flash, &old).expect("written");
    assert_eq!(one_fault("is an older copy"), 1);
    // What is too small is told as that, whatever is on it.
    std::fs::write(&flash, &old[..8192]).expect("written");
    let why = format!("the flash device \"{}\" has 8192 bytes", name(&flash));
    assert_eq!(one_fault(&why), 0);
    for (verb, code) in [("check", 2), ("scrub", 2), ("detach", 2)] {
        let said = cache(verb, &[&at], code).1;
        assert!(said.contains(&why) && said.contains("use a larger device"), "{verb}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let command = tantalum(&["cache", "serve", "--unix", "never.sock"]).arg(&at).output();
    let said = ends(&command.expect("it starts"), 2).1;
    assert!(said.contains(&why), "{said}");
}

/// Pages that only another flash device has are told before they are lost, and not if there are none.
#[test]
fn a_new_cache_says_which_pages_are_lost_with_the_old_one() {
    let (at, flash, slow) = made("given-up", &[]);
    let new = flash.with_file_name("given-up.new");
    std::fs::write(&new, vec![0; 8 << 20]).expect("a blank one");
    let [of_flash, of_slow, force] = ["--flash", "--slow", "--force"].map(Path::new);
    let again = file("given-up-2.toml", "");
    std::fs::remove_file(&again).expect("it was there");
    let create = |flash: &Path, more: &[&Path], code| {
        cache("create", &[&[&*again, of_flash, flash, of_slow, &slow], more].concat(), code).1
    };
    let said = create(&flash, &[], 2);
    assert!(said.contains("holds a cache") && !said.contains("are lost"), "{said}");
    let serving = serve(&at, &crate::common::live::socket("given-up.sock"));
    drop(serving); // Killed: the slow device may lack pages.
    let lost = format!("pages of \"{}\" may have their newest versions only on ", slow.display());
    let elsewhere = format!("another flash device than \"{}\": these are lost", new.display());
    let said = create(&new, &[], 2);
    assert!(said.contains("--force") && said.contains(&lost), "{said}");
    assert!(said.contains(&elsewhere) && said.lines().count() == 1, "{said}");
    let said = create(&flash, &[], 2);
    assert!(said.contains(&format!("{lost}\"{}\": these are lost", flash.display())), "{said}");
    let said = create(&new, &[force], 0);
    assert!(said.contains(&format!("note: {lost}")) && said.contains(&elsewhere), "{said}");
    // The flash device of a cache whose slow device is another one.
    let (_, other, _) = made("given-up-other", &[]);
    assert!(create(&other, &[force], 0).contains("is the flash device of another cache"));
    // A cache that was given up in good order.
    cache("detach", &[&again], 0);
    assert_eq!(create(&other, &[force], 0), "");
}

/// Standard output of `tantalum cache bench`, which ends well.
fn benched(arguments: &[&str]) -> serde_json::Value {
    let arguments: Vec<&Path> = arguments.iter().map(Path::new).collect();
    serde_json::from_str(&cache("bench", &arguments, 0).0).expect("JSON")
}

#[test]
fn the_directory_is_measured_in_small() {
    let small = ["--pages", "2000", "--operations", "3000", "--rounds", "2", "--json"];
    let runs = benched(&small);
    let runs = runs.as_array().expect("an array");
    assert_eq!(runs.len(), 8, "{runs:?}");
    for run in runs {
        assert!(run["per_second"].as_f64().expect("a rate") > 0.0, "{run}");
        let hits = run["hits"].as_f64();
        assert!(hits.is_none_or(|hits| (0.5..=1.0).contains(&hits)), "{run}");
        let operation = run["operation"].as_str().expect("text");
        assert_eq!(hits.is_none(), operation.starts_with("stage-in"), "{run}");
    }
}

#[test]
fn a_cache_is_measured_on_models_and_on_files_that_are_gone_then() {
    let (flash, slow) = ("model:ssd-840pro:32MiB", "model:disk-15k6:64MiB");
    let on_models = ["--flash", flash, "--slow", slow, "--tasks", "8", "--for", "300ms", "--json"];
    let (once, again) = (benched(&on_models), benched(&on_models));
    assert_eq!(once, again, "virtual time");
    let folder = path("bench");
    std::fs::create_dir(&folder).expect("a folder");
    let at = folder.to_str().expect("text");
    let sizes = ["--flash-size", "32MiB", "--slow-size", "64MiB", "--tasks", "4", "--for", "50ms"];
    let on_files = benched(
        &[&["--flash", at, "--slow", at, "--mode", "through", "--json"], &sizes[..]].concat(),
    );
    for run in [&once[0], &on_files[0]] {
        assert!(run["uses"].as_u64().expect("a count") > 0, "{run}");
    }
    assert!(once[0]["hit_rate"].as_f64().expect("a share") > 0.0, "{once}");
    assert!(once[0]["flash_bytes"].as_u64().expect("a count") > 0, "{once}");
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0);
    // A file of the user's is no place for a benchmark.
    let kept = folder.join("kept");
    std::fs::write(&kept, vec![7; 1 << 20]).expect("it can be written");
    let words = ["--flash", kept.to_str().expect("text"), "--slow", at].map(Path::new);
    let said = cache("bench", &words, 2).1;
    assert!(said.contains("a folder or a model") && said.lines().count() == 1, "{said}");
    assert_eq!(std::fs::read(&kept).expect("it is there"), vec![7; 1 << 20]);
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
