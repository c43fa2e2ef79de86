//! The commands of flash logs: made, served, cut, checked, recovered; on files, models and images;
//! and what they refuse.

use crate::common::live::{Nbd, Serving, tantalum};
use crate::common::logs::{device, log, serve, write_and_kill};
use crate::common::{ends, file};
use std::path::Path;

fn device_at(path: &Path, mebibytes: usize) {
    std::fs::write(path, vec![0; mebibytes << 20]).expect("written");
}

#[test]
fn a_served_log_volume_keeps_what_it_acknowledged() {
    let (a, b, disk) = (device("kept.a", 16), device("kept.b", 16), device("kept.disk", 32));
    let at = file("kept.toml", "");
    let [device, backing, force] = ["--device", "--backing", "--force"].map(Path::new);
    log("create", &[&at, device, &a, device, &b, backing, &disk, force], 0);
    let (serving, socket) = serve(&at, &[]);
    let block = [0x5a; 4096];
    Nbd::connect(&socket).expect("a server").write(1, &block).expect("written");
    assert!(log("check", &[&at], 2).1.contains("in use"));
    assert!(log("inspect", &[&at], 2).1.contains("in use"));
    let said = log("status", &[&at], 0).0;
    assert!(said.starts_with("log         log-volume of "), "{said}");
    let top = log("top", &[&at, Path::new("--once")], 0).0;
    assert!(top.contains(" of 64.00 MiB used"), "{top}");
    let stats = log("stats", &[&at], 0).0;
    assert!(stats.contains("slow writes none was written again"), "{stats}");
    let padding = stats.lines().find(|line| line.starts_with("padding ")).expect("a line");
    assert!(padding.ends_with(" written to the devices, in blocks that were not full"), "{stats}");
    log("cut", &[&at], 0);
    log("restore", &[&at], 0);
    assert_eq!(Nbd::connect(&socket).expect("a server").read(1).expect("read"), block);
    assert_eq!(serving.stop().0, Some(0));
    // Whoever asks now is told how to serve it.
    for verb in ["status", "cut"] {
        assert!(log(verb, &[&at], 2).1.contains("`tantalum log serve "), "{verb}");
    }
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
    assert!(said.contains("the log has no device") && said.contains("copy.b"), "{said}");
    std::fs::remove_file(&b).expect("it is lost");
    log("check", &[&at], 2);
    let said = log("replace", &[&at, lost, &b, with, &a], 2).1;
    assert!(said.contains("are the same device"), "{said}");
    assert!(log("replace", &[&at, lost, &b, with, &c], 0).0.contains("has everything"));
    log("check", &[&at], 0);
    std::fs::remove_file(&a).expect("it is lost, too");
    log("recover", &[&at], 2);
    let degraded = Path::new("--degraded");
    let said = log("recover", &[&at, degraded], 0).1;
    assert!(said.contains("copy.a\" is not there"), "{said}");
    // It is named, though it is not there.
    let is_lost = format!("device 0 (\"{}\") is lost", a.display());
    let fewer = format!("{is_lost}, and records have fewer copies");
    assert!(said.contains(&fewer), "{said}");
    assert!(said.contains("`tantalum log replace` puts"), "{said}");
    // It is used without that device until it is replaced, also if something else is there now.
    for blank in [false, true] {
        if blank {
            device_at(&a, 16);
        }
        log("recover", &[&at], 0);
        assert!(log("check", &[&at], 0).0.contains(&is_lost));
        let (serving, socket) = serve(&at, &[]);
        let said = log("status", &[&at], 0).0;
        assert!(said.contains(&fewer), "{said}");
        Nbd::connect(&socket).expect("a server").write(1, &[7; 4096]).expect("written");
        assert_eq!(serving.stop().0, Some(0));
    }
    log("replace", &[&at, lost, &a, with, &d], 0);
    assert!(log("check", &[&at], 0).0.contains("all is well"));
    log("recover", &[&at], 0);
}

/// Once the device was one that had been older, blank or damaged, and was refused all the same.
#[test]
fn a_device_of_no_use_is_done_without_if_that_is_asked_for() {
    let (a, b, at) = (device("use.a", 4), device("use.b", 4), file("use.toml", ""));
    let words = ["--device", "--copies", "2", "--force", "--degraded"].map(Path::new);
    let [device, copies, two, force, degraded] = words;
    log("create", &[&at, device, &a, device, &b, copies, two, force], 0);
    log("recover", &[&at], 0);
    device_at(&b, 4);
    for verb in ["check", "recover"] {
        let said = log(verb, &[&at], 2).1;
        assert!(said.contains("use.b\" holds no log"), "{said}");
        assert!(said.contains("`tantalum log recover --degraded` goes on without it"), "{said}");
    }
    log("recover", &[&at, degraded], 0);
    log("recover", &[&at], 0);
    let lost = format!("device 1 (\"{}\") is lost", b.display());
    assert!(log("check", &[&at], 0).0.contains(&lost));
}

/// Once it said that the log was whole, or how many changes the backing got, and not what was lost.
#[test]
fn a_salvage_says_what_is_lost() {
    let [dev, backing, force, salvage, json] =
        ["--device", "--backing", "--force", "--salvage", "--json"].map(Path::new);
    let (a, disk, at) =
        (device("salvage.a", 16), device("salvage.disk", 32), file("salvage.toml", ""));
    let made = || {
        log("create", &[&at, dev, &a, backing, &disk, force], 0);
        write_and_kill(&at, (0..20).map(|at| (at, [0x77; 4096])));
        // A block in the middle of what was written.
        let mut bytes = std::fs::read(&a).expect("read");
        let full: Vec<usize> = (0..bytes.len() / 4096)
            .filter(|i| bytes[i * 4096..][..4096].iter().filter(|b| **b == 0x77).count() > 2000)
            .collect();
        assert!(full.len() > 10);
        bytes[full[full.len() / 2] * 4096..][..4096].fill(0);
        std::fs::write(&a, bytes).expect("written");
    };
    made();
    let said = log("recover", &[&at], 1).1;
    assert!(said.contains("the log is damaged at") && said.contains("use --salvage"), "{said}");
    // A server says it in the same words.
    let mut command = tantalum(&["log", "serve"]);
    command.arg(&at).args(["--tcp", "127.0.0.1:0"]);
    let said = ends(&command.output().expect("it starts"), 1).1;
    assert!(said.contains("the log is damaged at") && said.contains("use --salvage"), "{said}");
    let said = log("recover", &[&at, salvage], 0).0;
    assert!(said.contains("the log is damaged at") && said.contains("the rest is lost"), "{said}");
    assert!(log("recover", &[&at], 0).0.contains("the backing has everything"));
    made();
    let report = log("recover", &[&at, salvage, json], 0).0;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert!(report["salvaged"].as_str().is_some_and(|s| s.contains("damaged")), "{report}");
}

/// The image of a drive is a drive: `create` does not write over it, and its power is cut.
#[test]
fn images_of_drives_are_cut_killed_lost_and_replaced_with_their_log() {
    let at = file("images.toml", "");
    let image = |name: &str| {
        let path = at.with_file_name(name);
        let words = ["drive", "create", "--design", "volatile", "--capacity", "64MiB", "--force"];
        ends(&tantalum(&words).arg(&path).output().expect("it starts"), 0);
        path
    };
    let [a, b, c, disk] = ["images.a", "images.b", "images.c", "images.disk"].map(image);
    let words = ["--device", "--backing", "--copies", "2", "--force", "--lost", "--with"];
    let [device, backing, copies, two, force, lost, with] = words.map(Path::new);
    log("create", &[&at, device, &a, device, &b, backing, &disk, copies, two, force], 0);
    let (said, _) = log("inspect", &[&at], 0);
    assert!(said.contains("in blocks of 4096 bytes, copies: 2"), "{said}");
    let whole = |path: &Path| {
        let checked = tantalum(&["drive", "check"]).arg(path).output().expect("it starts");
        ends(&checked, 0);
    };
    [&a, &b, &disk].into_iter().for_each(|path| whole(path));
    let socket = crate::common::live::socket("images.sock");
    let serve = || {
        let mut command = tantalum(&["log", "serve", "--time-scale", "0"]);
        command.arg(&at).arg("--unix").arg(&*socket);
        Serving::start(command)
    };
    let serving = serve();
    let block = |n: u8| [n; 4096];
    let written = |n: u8| {
        let mut nbd = Nbd::connect(&socket).expect("a server");
        nbd.write(u64::from(n), &block(n)).expect("written");
    };
    let read = |n: u8| {
        let mut nbd = Nbd::connect(&socket).expect("a server");
        assert_eq!(nbd.read(u64::from(n)).expect("read"), block(n));
    };
    written(1);
    let used = tantalum(&["drive", "inspect"]).arg(&a).output().expect("it starts");
    assert!(ends(&used, 2).1.contains("in use"));
    let again = tantalum(&["log", "serve"]).arg(&at).args(["--tcp", "0"]).output();
    assert!(ends(&again.expect("it starts"), 2).1.contains("in use"));
    log("cut", &[&at], 0);
    log("restore", &[&at], 0);
    read(1);
    written(2);
    drop(serving); // Killed.
    let serving = serve();
    [1, 2].into_iter().for_each(read);
    written(3);
    assert_eq!(serving.stop().0, Some(0));
    std::fs::remove_file(&a).expect("it is lost");
    log("replace", &[&at, lost, &a, with, &c], 0);
    assert!(log("check", &[&at], 0).0.contains("all is well"));
    let serving = serve();
    [1, 2, 3].into_iter().for_each(read);
    assert_eq!(serving.stop().0, Some(0));
    log("recover", &[&at], 0);
    // They are images still.
    [&b, &c, &disk].into_iter().for_each(|path| whole(path));
}

/// What a benchmark prints, as JSON.
fn benched(words: &[&str]) -> Vec<serde_json::Value> {
    let mut command = tantalum(&["log", "bench", "--json", "--threads", "1,3"]);
    let (printed, _) = ends(&command.args(words).output().expect("it starts"), 0);
    serde_json::from_str(&printed).expect("a list of runs")
}

#[test]
fn a_benchmark_says_the_same_of_models_each_time_and_leaves_no_file() {
    let models = ["--model", "usb-a", "--model", "usb-a", "--copies", "2", "--for", "300ms"];
    let runs = benched(&models);
    assert_eq!(runs, benched(&models));
    let number = |run: &serde_json::Value, key: &str| run[key].as_f64().expect("a number");
    for run in &runs {
        assert!(number(run, "hedges_won") <= number(run, "hedges"), "{run}");
        // Records of 128 bytes are far from filling blocks.
        assert!(number(run, "padding_bytes") > number(run, "array_bytes") / 10.0, "{run}");
        assert!(number(run, "padding_bytes") < number(run, "array_bytes"), "{run}");
    }
    let mut command = tantalum(&["log", "bench", "--threads", "1"]);
    let (table, _) = ends(&command.args(models).output().expect("it starts"), 0);
    assert!(
        table.contains("| hedges ") && table.contains("| padding |") && table.contains(" % "),
        "{table}"
    );
    let rate = |run| number(run, "commits_per_second");
    assert!(rate(&runs[1]) > rate(&runs[0]), "three threads share groups: {runs:?}");
    let scratch = tantalum_testing::Scratch::new();
    let folder = scratch.path("bench");
    std::fs::create_dir(&folder).expect("a folder");
    let words = ["--for", "50ms", "--mib", "8", "--bytes", "1000"];
    let runs = benched(&[&[folder.to_str().expect("text")], &words[..]].concat());
    assert!(runs.len() == 2 && runs.iter().all(|run| number(run, "commits") > 0.0), "{runs:?}");
    // Two devices, and no hedging.
    let both = [folder.to_str().expect("text"); 2];
    let runs = benched(&[&both[..], &["--no-hedging"], &words[..]].concat());
    assert!(runs.iter().all(|run| number(run, "hedges") == 0.0), "{runs:?}");
    let left = std::fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(left, 0, "nothing is left");
    let told = tantalum(&["log", "bench", "--model", "usb-q"]).output().expect("it starts");
    let (_, told) = ends(&told, 2);
    assert!(told.contains("usb-") && told.lines().count() == 1, "{told}");
}

/// What logs share with drives speaks of logs.
#[test]
fn the_help_of_a_command_on_logs_speaks_of_logs() {
    for verb in ["serve", "mount", "status", "stats", "top", "cut", "restore"] {
        let (help, _) = log(verb, &[Path::new("--help")], 0);
        assert!(help.contains(&format!("Usage: tantalum log {verb} ")), "{help}");
        let (_, examples) = help.split_once("Examples:").expect("it has examples");
        assert!(examples.contains(&format!("tantalum log {verb} wal.")), "{examples}");
        assert!(!examples.contains("disk.img"), "{examples}");
        for word in ["IMAGE", "--design", "--ram", "tantalum drive", "of a running drive"] {
            assert!(!help.contains(word), "{verb}: {word}: {help}");
        }
    }
    // So do their errors.
    for (verb, words) in [("serve", &[][..]), ("mount", &["/mnt"]), ("status", &["gone.toml"])] {
        let mut command = tantalum(&["log", verb]);
        let (_, said) = ends(&command.args(words).output().expect("it starts"), 2);
        assert!(!said.contains("image") && !said.contains("IMAGE"), "{said}");
        assert!(said.contains("LOG.toml") || said.contains("the description of a log"), "{said}");
    }
    let at = file("ended.toml", "devices = [\"a\"]\n");
    let socket = at.with_file_name("ended.toml.control");
    let _ = std::fs::remove_file(&socket);
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    for path in [&at, &socket] {
        let said = log("status", &[path], 2).1;
        assert!(said.contains("`tantalum log serve`") && !said.contains("drive"), "{said}");
    }
}

/// A measured preset is one that can be used, nothing is left of the measurement, and what exists is
/// not overwritten unasked.
#[test]
fn a_drive_is_measured_and_its_preset_runs() {
    let kept = file("calibrated.kept", vec![7; 1 << 20]);
    let folder = &kept.with_file_name("calibrated");
    std::fs::create_dir_all(folder).expect("a folder");
    let preset = file("calibrated.toml", "");
    std::fs::remove_file(&preset).expect("removed");
    let words = ["-o", "--size", "16MiB", "--for", "50ms"].map(Path::new);
    let [output, rest @ ..] = words;
    let told = log("calibrate", &[&[folder, output, &preset][..], &rest].concat(), 0).1;
    assert!(told.contains("| writes of 4 KiB in sequence") && told.contains("p99.9"), "{told}");
    assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 0);
    let name = preset.to_str().expect("text");
    let runs = benched(&["--model", name, "--for", "20ms"]);
    assert!(runs.iter().all(|run| run["commits"].as_u64() > Some(0)), "{runs:?}");
    // A log takes it as what is known of its devices.
    let (a, b, at) = (device("table.a", 16), device("table.b", 16), file("table.toml", ""));
    let [of, with, force] = ["--device", "--latencies", "--force"].map(Path::new);
    let all = [&at, of, &a, of, &b, force, with, &preset];
    log("create", &all, 0);
    let described = std::fs::read_to_string(&at).expect("a description");
    assert!(described.contains("latencies = [") && described.contains("calibrated.toml"));
    log("recover", &[&at], 0);
    let said = log("create", &[&all[..], &[with, &preset, with, &preset]].concat(), 2).1;
    assert!(said.contains("`latencies` has 3 presets") && said.contains("2 devices"), "{said}");
    assert!(log("calibrate", &[&kept], 2).1.contains("say --force, or name a folder"));
    assert!(log("calibrate", &[&kept, Path::new("--force")], 2).1.contains("is too small"));
    assert!(std::fs::read(&kept).expect("a file") == vec![7; 1 << 20]);
    std::fs::write(&preset, "block_bytes = 512\nblokcs = 7\n").expect("written");
    let mut command = tantalum(&["log", "bench", "--model", name]);
    let told = ends(&command.output().expect("it starts"), 2).1;
    assert!(told.contains("calibrated.toml:2") && told.contains("blocks"), "{told}");
    let told = log("recover", &[&at], 2).1;
    assert!(told.contains("calibrated.toml:2") && told.contains("blocks"), "{told}");
}

#[test]
fn models_are_served_and_keep_what_they_acknowledged_over_a_cut() {
    let at = file("models.toml", "");
    let words = ["--device", "model:usb-a:8MiB", "--backing", "model:disk-10k:16MiB", "--force"];
    let [device, usb, backing, disk, force] = words.map(Path::new);
    log("create", &[&at, device, usb, device, usb, backing, disk, force], 0);
    let said = log("check", &[&at], 2).1;
    assert!(said.contains("models, which hold nothing"), "{said}");
    let (serving, socket) = serve(&at, &[]);
    let block = [0xa5; 4096];
    Nbd::connect(&socket).expect("a server").write(1, &block).expect("written");
    log("cut", &[&at], 0);
    log("restore", &[&at], 0);
    assert_eq!(Nbd::connect(&socket).expect("a server").read(1).expect("read"), block);
    assert_eq!(serving.stop().0, Some(0));
    let mixed = file("mixed.toml", "");
    let (other, force) = (self::device("mixed.a", 16), Path::new("--force"));
    let said = log("create", &[&mixed, device, usb, device, &other, force], 2).1;
    assert!(said.contains("or for none of them"), "{said}");
}

/// Files that are not there are made if their size is said, and are gone if there is no log.
#[test]
fn missing_files_are_made_or_nothing_is_left() {
    let at = file("sized.toml", "");
    let paths = ["sized.a", "sized.b", "sized.disk"].map(|name| at.with_file_name(name));
    paths.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let [a, b, disk] = &paths;
    let words = ["--device", "--backing", "--force", "--size", "64KiB", "16MiB", "--backing-size"];
    let [device, backing, force, size, little, enough, of_backing] = words.map(Path::new);
    let all = [&at, device, a, device, b, backing, disk, force, of_backing, enough, size];
    log("create", &[&all[..], &[little]].concat(), 2);
    assert!(paths.iter().all(|path| !path.exists()), "they were made for nothing");
    // A link that leads nowhere is not theirs to remove.
    std::os::unix::fs::symlink("nowhere", a).expect("a link");
    log("create", &[&all[..], &[enough]].concat(), 2);
    assert!(a.symlink_metadata().is_ok() && !b.exists(), "the link is there, and b is not");
    std::fs::remove_file(a).expect("removed");
    log("create", &[&all[..], &[enough]].concat(), 0);
    assert!(log("check", &[&at], 0).0.contains("all is well"));
    // What is there is taken as it is.
    log("create", &[&all[..], &[little]].concat(), 0);
    assert_eq!(std::fs::metadata(a).expect("a file").len(), 16 << 20);
}

/// Once `serve` and `recover` gave 1, or the advice destroyed what was there.
#[test]
fn a_wrong_use_of_a_command_is_an_invalid_request() {
    let words = ["--device", "--backing", "--copies", "2", "--force"].map(Path::new);
    let [dev, backing, copies, two, force] = words;
    let make = |name: &str| {
        let (a, b, disk) = (
            device(&format!("{name}.a"), 16),
            device(&format!("{name}.b"), 16),
            device(&format!("{name}.disk"), 32),
        );
        let at = file(&format!("{name}.toml"), "");
        log("create", &[&at, dev, &a, dev, &b, backing, &disk, copies, two, force], 0);
        at
    };
    let (at, other) = (make("use1"), make("use2"));
    let here = ["--tcp", "127.0.0.1:0"].map(Path::new);
    let serve = |at: &Path, words: &[&Path]| log("serve", &[&[at], words].concat(), 2).1;
    assert!(serve(&at, &[]).contains("no place to listen"));
    let said = serve(&at, &[here[0], here[1], Path::new("--io"), Path::new("poll")]);
    assert!(said.contains("set `hedging = false` in the log's description"), "{said}");
    // Once the clock ran away, until it overflowed.
    let jumps = ["--time-scale", "0"].map(Path::new);
    let said = serve(&at, &[here[0], here[1], jumps[0], jumps[1]]);
    assert!(said.contains("does not wait for devices of this machine"), "{said}");
    // The backing of another log, and one that is none.
    let text = std::fs::read_to_string(&at).expect("text");
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        file("use.wrong.toml", text.replace(from, to))
    };
    let blank = device("use.blank", 32);
    for (disk, why) in [("use2.disk", "is the backing of log"), ("use.blank", "it has no label")] {
        let wrong = with("use1.disk", disk);
        let refused = [serve(&wrong, &here), log("recover", &[&wrong], 2).1];
        for said in refused {
            assert!(said.contains(why) && !said.contains("format"), "{said}");
        }
    }
    assert!(std::fs::read(blank).expect("read").iter().all(|b| *b == 0), "nothing is changed");
    // A description that says otherwise than the devices.
    let (lost, new) = (Path::new("--lost"), Path::new("--with"));
    for (key, value) in [("copies = 2", "copies = 1"), ("partitions = 1", "partitions = 2")] {
        let wrong = with(key, value);
        let (gone, new_device) = (at.with_file_name("use1.a"), device("use.new", 16));
        for said in [
            serve(&wrong, &here),
            log("recover", &[&wrong], 2).1,
            log("check", &[&wrong], 1).1,
            log("replace", &[&wrong, lost, &gone, new, &new_device], 2).1,
        ] {
            let told = format!("was made with {key}, and its description says {value}");
            assert!(said.contains(&told), "{said}");
        }
    }
    log("recover", &[&at], 0);
    log("recover", &[&other], 0);
}

/// Once all was said to be well.
#[test]
fn damage_to_one_of_two_copies_is_found() {
    let (a, b, disk) = (device("two.a", 16), device("two.b", 16), device("two.disk", 32));
    let at = file("two.toml", "");
    let words = ["--device", "--backing", "--copies", "2", "--force", "--json"].map(Path::new);
    let [dev, backing, copies, two, force, json] = words;
    log("create", &[&at, dev, &a, dev, &b, backing, &disk, copies, two, force], 0);
    write_and_kill(&at, (0..20).map(|at| (at, [0x77; 4096])));
    assert!(log("check", &[&at], 0).0.contains("all is well"));
    let mut bytes = std::fs::read(&b).expect("read");
    let full = |i: &usize| bytes[i * 4096..][..4096].iter().filter(|b| **b == 0x77).count() > 2000;
    let full: Vec<usize> = (0..bytes.len() / 4096).filter(full).collect();
    for i in &full[2..5] {
        bytes[i * 4096 + 100..][..3900].fill(0xEE);
    }
    std::fs::write(&b, bytes).expect("written");
    let (out, said) = log("check", &[&at], 1);
    assert!(out.contains("all records are there") && !out.contains("all is well"), "{out}");
    assert!(said.contains("LSN ") && said.contains("two.a\" has them"), "{said}");
    assert!(said.contains(&format!("two.b\" is damaged at byte {}", full[2] * 4096)), "{said}");
    assert!(said.contains("`tantalum log replace`") && said.contains("recover"), "{said}");
    let report: serde_json::Value =
        serde_json::from_str(&log("check", &[&at, json], 1).0).expect("JSON");
    assert_eq!(report["one_copy"][0]["offset"], full[2] * 4096, "{report}");
    // What is said to help does.
    log("recover", &[&at], 0);
    assert!(log("check", &[&at], 0).0.contains("all is well"));
}

/// Once what could not be served was created.
#[test]
fn models_that_are_too_small_are_refused_and_other_sizes_are_told() {
    let at = file("little.toml", "");
    std::fs::remove_file(&at).expect("removed");
    let dev = Path::new("--device");
    let said = log("create", &[&at, dev, Path::new("model:usb-a:64KiB")], 2).1;
    assert!(said.contains("use a larger device") && !at.exists(), "{said}");
    assert!(said.contains("model:usb-a:64KiB\" has"), "as it was written: {said}");
    let said = log("create", &[&at, dev, Path::new("model:ssd-840pro:256MiB")], 0).1;
    assert!(said.contains("the next size that this drive can have"), "{said}");
    let force = Path::new("--force");
    let said = log("create", &[&at, dev, Path::new("model:usb-a:8MiB"), force], 0).1;
    assert!(!said.contains("the next size"), "{said}");
}

/// A crash came while the devices got a new state: a check reads the log as it is.
#[test]
fn devices_that_differ_by_a_generation_are_checked_and_stay_as_they_are() {
    let (a, b, at) = (device("lag.a", 4), device("lag.b", 4), file("lag.toml", ""));
    let words = ["--device", "--copies", "2", "--force"].map(Path::new);
    let [device, copies, two, force] = words;
    // (On devices so small records are shorter.)
    log("create", &[&at, device, &a, device, &b, copies, two, force], 0);
    let before = std::fs::read(&b).expect("read");
    log("recover", &[&at], 0);
    let mut lagging = std::fs::read(&b).expect("read");
    assert!(lagging != before);
    lagging[32768..65536].copy_from_slice(&before[32768..65536]);
    std::fs::write(&b, &lagging).expect("written");
    assert!(log("check", &[&at], 0).0.contains("all is well"));
    assert!(std::fs::read(&b).expect("read") == lagging, "it only reads");
    log("recover", &[&at], 0);
    log("check", &[&at], 0);
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
        (&odd, "give it another length"),
        (&a.parent().expect("a folder").to_path_buf(), "name one"),
    ] {
        let said = log("create", &[&at, device, &a, device, other], 2).1;
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        assert!(!at.exists(), "{why}");
    }
    assert!(std::fs::read(&a).expect("read").iter().all(|b| *b == 0), "nothing is changed");
    // A device that is not there is not left out, with two copies.
    let (b, copies, two) = (self::device("wrong.b", 16), Path::new("--copies"), Path::new("2"));
    let said = log("create", &[&at, device, &a, device, &b, device, &gone, copies, two], 2).1;
    assert!(said.contains("wrong.gone") && said.contains("that is there"), "{said}");
    // Sizes that no device has.
    let size = Path::new("--size");
    for (huge, why) in [("9999999TiB", "below 8388608TiB"), ("8388607TiB", "a smaller size")] {
        let said = log("create", &[&at, device, &gone, size, Path::new(huge)], 2).1;
        assert!(said.contains(why) && !gone.exists(), "{said}");
    }
    let none = file("wrong.none.toml", "devices = []\n");
    assert!(log("check", &[&none], 2).1.contains("name the devices of the log"));
    let keys = file("wrong.keys.toml", "devices = []\nbakcing = \"x\"\n");
    let said = log("check", &[&keys], 2).1;
    assert!(said.contains(":2: unknown key \"bakcing\"; did you mean \"backing\"?"), "{said}");
}
