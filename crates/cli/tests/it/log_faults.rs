//! What commands of flash logs say of devices, backings, presets and descriptions that are missing,
//! damaged, or not what they are named as; and that what is there is not overwritten.

use crate::common::live::tantalum;
use crate::common::logs::{device, first_lsn, log, write_and_kill};
use crate::common::{ends, file};
use std::path::Path;

fn device_at(path: &Path, mebibytes: usize) {
    std::fs::write(path, vec![0; mebibytes << 20]).expect("written");
}

/// Once it ended with 0, or stopped at the first thing that was missing.
#[test]
fn all_that_is_wrong_is_told_beside_what_is_there() {
    let words = ["--device", "--backing", "--copies", "2", "--force", "--latencies"];
    let [dev, backing, copies, two, force, latencies] = words.map(Path::new);
    let [a, b, disk] = ["told.a", "told.b", "told.disk"].map(|name| device(name, 16));
    let (at, preset) = (file("told.toml", ""), file("told.preset.toml", PRESET));
    log(
        "create",
        &[&at, dev, &a, dev, &b, backing, &disk, copies, two, force, latencies, &preset],
        0,
    );
    let said = log("inspect", &[&at], 0).0;
    assert!(said.contains("records up to ") && !said.contains("fault"), "{said}");
    let aside = |path: &Path| path.with_extension("aside");
    let without = |path: &Path, told: &str, code: i32| {
        std::fs::rename(path, aside(path)).expect("renamed");
        let said = log("inspect", &[&at], 1).0;
        assert!(said.contains(&format!("fault: {told}")), "{said}");
        assert!(said.contains("device 0 of 2") || said.contains("device 1 of 2"), "{said}");
        let json = log("inspect", &[&at, Path::new("--json")], 1).0;
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let list = json.as_array().expect("a list");
        assert_eq!(list.iter().filter(|d| !d["failure"].is_null()).count(), 1, "{json}");
        let said = log("check", &[&at], code);
        assert!(code == 2 || said.0.contains("all records are there"), "{said:?}");
        assert!(said.1.contains(told) || code == 2, "{said:?}");
        std::fs::rename(aside(path), path).expect("renamed");
    };
    let named = |path: &Path, why: &str| format!("\"{}\" {why}", path.display());
    without(&a, &named(&a, "is not there"), 2);
    without(&disk, &named(&disk, "is not there").replacen('"', "the backing \"", 1), 1);
    without(&preset, "cannot read ", 1);
    // A device that was shortened, one that is empty, and one whose states are gone.
    let whole = std::fs::read(&b).expect("read");
    let mut stateless = whole.clone();
    stateless[32768..65536].fill(0);
    let whole = &whole[..];
    for (bytes, told) in [
        (&whole[..8 << 20], "give it its old size"),
        (&[], "is empty"),
        (&stateless, "both its copies of the log's state are damaged"),
    ] {
        std::fs::write(&b, bytes).expect("written");
        let said = log("inspect", &[&at], 1).0;
        assert!(said.contains("fault: ") && said.contains(told), "{said}");
        assert!(said.contains("device 0 of 2"), "{said}");
    }
    std::fs::write(&b, whole).expect("written");
    assert!(log("check", &[&at], 0).0.contains("all is well"));
}

const PRESET: &str = include_str!("../../../device/presets/usb-a.toml");

/// Once nothing said that one of the two copies was damaged.
#[test]
fn a_damaged_superblock_is_told_and_mended() {
    let (a, at) = (device("super.a", 16), file("super.toml", ""));
    let [dev, force] = ["--device", "--force"].map(Path::new);
    log("create", &[&at, dev, &a, force], 0);
    let whole = std::fs::read(&a).expect("read")[..32768].to_vec();
    for copy in [0, 16384] {
        let mut bytes = std::fs::read(&a).expect("read");
        bytes[copy..][..512].fill(0);
        std::fs::write(&a, bytes).expect("written");
        let told =
            format!("that at byte {copy} is damaged: `tantalum log recover` writes it again");
        assert!(log("inspect", &[&at], 1).0.contains(&told));
        let (out, said) = log("check", &[&at], 1);
        assert!(out.contains("all records are there") && said.contains(&told), "{out} {said}");
        log("recover", &[&at], 0);
        assert!(log("check", &[&at], 0).0.contains("all is well"));
        assert!(std::fs::read(&a).expect("read")[..32768] == whole);
    }
}

/// Once it was said that all was well.
#[test]
fn a_log_whose_blocks_are_all_gone_is_not_well() {
    let (a, disk, at) = (device("gone.a", 16), device("gone.disk", 32), file("gone.toml", ""));
    let [dev, backing, force] = ["--device", "--backing", "--force"].map(Path::new);
    // The second one begins its epoch behind what the first one wrote. On a slow machine all of it
    // is destaged before the process is killed: then once more.
    let is_in_the_log = || {
        log("create", &[&at, dev, &a, backing, &disk, force], 0);
        (0..2).for_each(|_| write_and_kill(&at, [(1, [7; 4096])].into_iter()));
        first_lsn(&at) == 0
    };
    assert!((0..20).any(|_| is_in_the_log()), "the machine is too slow");
    let mut bytes = std::fs::read(&a).expect("read");
    bytes[65536..].fill(0);
    std::fs::write(&a, &bytes).expect("written");
    let said = log("check", &[&at], 1).1;
    assert!(said.contains("the log is damaged at LSN ") && said.contains("below LSN "), "{said}");
    // What was behind a checkpoint is not known.
    log("create", &[&at, dev, &a, backing, &disk, force], 0);
    write_and_kill(&at, [(1, [7; 4096])].into_iter());
    log("recover", &[&at], 0);
    assert!(log("check", &[&at], 0).0.contains("all is well"));
    let mut bytes = std::fs::read(&a).expect("read");
    bytes[65536..].fill(0);
    std::fs::write(&a, &bytes).expect("written");
    let (out, said) = log("check", &[&at], 1);
    assert!(said.contains("the devices were overwritten"), "{out} {said}");
}

/// Once the description was written over a device, and a preset over what was there.
#[test]
fn what_is_there_is_not_overwritten_by_a_description_or_a_preset() {
    let (a, disk) = (device("over.a", 16), device("over.disk", 16));
    let at = file("over.toml", vec![0; 16 << 20]);
    let link = at.with_file_name("over.link");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&at, &link).expect("a link");
    let words = ["--device", "--archive", "--backing", "--latencies", "--force"];
    let [dev, archive, backing, latencies, force] = words.map(Path::new);
    for all in [
        vec![dev, &at],
        vec![dev, &a, dev, &link],
        vec![dev, &a, archive, &at],
        vec![dev, &a, backing, &at],
        vec![dev, &a, latencies, &at],
    ] {
        let said = log("create", &[&[&*at, force], &all[..]].concat(), 2).1;
        assert!(said.contains("give each a file of its own"), "{said}");
    }
    for (flash, slow) in [(&at, &disk), (&a, &at)] {
        let mut command = tantalum(&["cache", "create", "--force"]);
        command.arg(&at).arg("--flash").arg(flash).arg("--slow").arg(slow);
        let said = ends(&command.output().expect("it starts"), 2).1;
        assert!(said.contains("give each a file of its own"), "{said}");
    }
    let new = at.with_file_name("over.new.toml");
    let _ = std::fs::remove_file(&new);
    let [size, mib] = ["--size", "16MiB"].map(Path::new);
    let said = log("create", &[&new, dev, &new, size, mib], 2).1;
    assert!(said.contains("give each a file of its own") && !new.exists(), "{said}");
    let [output, long, time] = ["-o", "--for", "50ms"].map(Path::new);
    let folder = at.parent().expect("a folder");
    let said = log("calibrate", &[folder, output, &at, size, mib, long, time], 2).1;
    assert!(said.contains("--force overwrites it"), "{said}");
    for path in [&a, &disk, &at] {
        assert!(std::fs::read(path).expect("read").iter().all(|b| *b == 0), "{path:?}");
    }
}

/// Once each was taken for the other, and a device of another log was told to have other copies.
#[test]
fn a_device_is_named_as_what_it_is() {
    let [a, b, c, other] = ["is.a", "is.b", "is.c", "is.other"].map(|name| device(name, 16));
    let (at, its) = (file("is.toml", ""), file("is.other.toml", ""));
    let words = ["--device", "--archive", "--copies", "2", "--force"].map(Path::new);
    let [dev, archive, copies, two, force] = words;
    log("create", &[&at, dev, &a, dev, &b, archive, &c, copies, two, force], 0);
    log("create", &[&its, dev, &other, force], 0);
    let text = std::fs::read_to_string(&at).expect("text");
    let swapped = text.replace("is.a\"", "is.x\"").replace("is.c\"", "is.a\"");
    std::fs::write(&at, swapped.replace("is.x\"", "is.c\"")).expect("written");
    for verb in ["check", "recover"] {
        let said = log(verb, &[&at], 2).1;
        assert!(said.contains("is.c\" is the archive of its log, and its description says a device of the array: name it as what it is"), "{said}");
    }
    for one in ["is.a\"", "is.b\""] {
        std::fs::write(&at, text.replace(one, "is.other\"")).expect("written");
        let said = log("check", &[&at], 2).1;
        assert!(said.contains("belongs to another log than"), "{said}");
    }
    std::fs::write(&at, text.replace("copies = 2", "copies = \"2\"")).expect("written");
    let said = log("check", &[&at], 2).1;
    assert!(said.contains("is.toml:4: copies: ") && said.contains("the number 1 or 2"), "{said}");
    std::fs::write(&at, text).expect("written");
    log("recover", &[&at], 0);
}

/// Once only a device that is not there at all was done without.
#[test]
fn an_empty_file_or_a_folder_is_a_device_that_is_lost() {
    let (a, b, at) = (device("none.a", 16), device("none.b", 16), file("none.toml", ""));
    let words = ["--device", "--copies", "2", "--force", "--degraded"].map(Path::new);
    let [dev, copies, two, force, degraded] = words;
    for is_folder in [false, true] {
        let _ = std::fs::remove_dir(&b);
        device_at(&a, 16);
        device_at(&b, 16);
        log("create", &[&at, dev, &a, dev, &b, copies, two, force], 0);
        std::fs::remove_file(&b).expect("removed");
        let why = match is_folder {
            true => {
                std::fs::create_dir(&b).expect("a folder");
                "none.b\" is a folder, and no device"
            }
            false => {
                std::fs::write(&b, []).expect("written");
                "none.b\" is empty"
            }
        };
        let said = log("recover", &[&at], 2).1;
        assert!(said.contains(why) && said.contains("recover --degraded"), "{said}");
        let said = log("recover", &[&at, degraded], 0).1;
        assert!(said.contains(why) && said.contains("none.b\") is lost"), "{said}");
        assert!(log("check", &[&at], 0).0.contains("none.b\") is lost"));
    }
    std::fs::remove_dir(&b).expect("removed");
}

/// Once it named a size that was refused again, or one that was not needed.
#[test]
fn the_size_that_is_said_to_be_needed_will_do() {
    let [dev, force] = ["--device", "--force"].map(Path::new);
    let [backing, parts, eight] = ["--backing", "--partitions", "8"].map(Path::new);
    let (at, disk) = (file("needed.toml", ""), device("needed.disk", 16));
    let a = at.with_file_name("needed.a");
    for more in
        [vec![], vec![parts, eight], vec![backing, &disk], vec![parts, eight, backing, &disk]]
    {
        let sized = |bytes: u64, code| {
            std::fs::write(&a, vec![0; bytes as usize]).expect("written");
            log("create", &[&[&*at, dev, &a, force], &more[..]].concat(), code).1
        };
        let said = sized(8192, 2);
        assert!(said.contains("needed.a\" has 8192 bytes, and "), "{said}");
        assert_eq!(said.contains("fewer partitions"), more.contains(&parts), "{said}");
        let needed = said.split("bytes, and ").nth(1).and_then(|rest| rest.split(' ').next());
        let needed: u64 = needed.expect("a size").parse().expect("a number");
        assert!(sized(needed - 4096, 2).contains(&format!("and {needed} are needed")));
        sized(needed, 0);
    }
}

/// Once the first of them said "stream did not contain valid UTF-8", and others what the system said of
/// files that the command wanted to make.
#[test]
fn what_is_no_description_preset_or_folder_is_told_with_what_it_is() {
    let (a, at) = (device("kind.a", 16), file("kind.toml", ""));
    let [dev, force, latencies] = ["--device", "--force", "--latencies"].map(Path::new);
    log("create", &[&at, dev, &a, force], 0);
    let (blank, folder) = (device("kind.blank", 4), a.parent().expect("a folder"));
    let image = at.with_file_name("kind.image");
    let words = ["drive", "create", "--design", "volatile", "--capacity", "64MiB", "--force"];
    ends(&tantalum(&words).arg(&image).output().expect("it starts"), 0);
    for (path, what) in [
        (&*a, "a device of a flash log"),
        (&*blank, "a file of 4.00 MiB, which is too long"),
        (&*image, "the image of a drive"),
        (folder, "a folder"),
    ] {
        for (verbs, is) in [
            (["check", "inspect", "recover"], format!("\"{}\" is {what}: ", path.display())),
            (["status", "stats", "cut"], format!("it is {what}; ")),
        ] {
            for verb in verbs {
                let said = log(verb, &[path], 2).1;
                assert!(said.contains(&is) && said.contains("NAME.toml"), "{verb}: {said}");
            }
        }
        let said = log("serve", &[path], 2).1;
        assert!(said.contains(&format!("it is {what}; ")), "{said}");
        let mut command = tantalum(&["cache", "check"]);
        let said = ends(&command.arg(path).output().expect("it starts"), 2).1;
        assert!(said.contains(what) && said.contains("`tantalum cache create`"), "{said}");
    }
    let said = log("status", &[&at.with_file_name("kind.gone")], 2).1;
    assert!(said.contains("there is no such file; name the description"), "{said}");
    let gone = at.with_file_name("kind.gone");
    let one_line = |said: &str, told: &str| {
        assert!(said.contains(told) && said.lines().count() == 1, "{said}");
        assert!(said.contains("kind.gone"), "{said}");
    };
    let said = log("create", &[&at, dev, &a, force, latencies, &gone], 2).1;
    one_line(&said, "name a preset, which `tantalum log calibrate -o FILE` writes");
    let said = log("create", &[&at, dev, &gone, force], 2).1;
    one_line(&said, "or give the size of a new file with --size");
    let said = log("create", &[&at, dev, &a, force, Path::new("--backing"), &gone], 2).1;
    one_line(&said, "or give the size of a new file with --backing-size");
    one_line(&log("bench", &[&gone], 2).1, "is not there: name the folder of a disk to measure");
    let said = log("bench", &[&a], 2).1;
    assert!(said.contains("kind.a\" is no folder: name the folder"), "{said}");
    log("check", &[&at], 0);
}

/// Once `--force` wrote over what a newer program had made, and nothing said how a sparse file gets
/// its room.
#[test]
fn what_is_not_for_a_log_is_refused_with_what_to_do() {
    let (a, b, at) = (device("not.a", 16), device("not.b", 16), file("not.toml", ""));
    let [dev, force, backing] = ["--device", "--force", "--backing"].map(Path::new);
    log("create", &[&at, dev, &a, force], 0);
    let text = std::fs::read_to_string(&at).expect("text");
    let said = log("create", &[&at, dev, &b], 2).1;
    assert!(said.contains("already: --force overwrites it") && said.lines().count() == 1, "{said}");
    let mut bytes = std::fs::read(&a).expect("read");
    for copy in [0, 16384] {
        bytes[copy + 8] = 9;
    }
    std::fs::write(&a, &bytes).expect("written");
    let said = log("create", &[&at, dev, &a, force], 2).1;
    assert!(
        said.contains("not.a\" holds a log of version 9") && said.lines().count() == 1,
        "{said}"
    );
    assert!(std::fs::read(&a).expect("read") == bytes, "nothing is changed");
    let sparse = file("not.sparse", "");
    let made = std::fs::File::create(&sparse).and_then(|file| file.set_len(32 << 20));
    made.expect("a sparse file");
    let said = log("create", &[&at, dev, &b, backing, &sparse, force], 2).1;
    let told =
        format!("give a file all of its room (`fallocate -l 33554432 {}`)", sparse.display());
    assert!(said.contains(&told) && said.lines().count() == 1, "{said}");
    assert!(std::fs::read_to_string(&at).expect("text") == text, "nothing is changed");
    let said = log("create", &[&file("sparse.toml", ""), dev, &sparse, force], 0).1;
    assert!(said.contains(&format!("`fallocate -l 33554432 {}`", sparse.display())), "{said}");
}
