//! `tantalum log inspect` and `check` say whether devices and backing are one log of one moment.

use crate::common::file;
use crate::common::logs::{device, log};
use std::path::{Path, PathBuf};

/// A log of devices with these names, which end the names of its files, and perhaps a backing.
fn made(name: &str, copies: &str, has_backing: bool) -> (PathBuf, Vec<PathBuf>) {
    let path = |end: &str| device(&format!("{name}.{end}"), 16);
    let (at, a, b) = (file(&format!("{name}.toml"), ""), path("a"), path("b"));
    let words = ["--device", "--backing", "--copies", copies, "--force"].map(Path::new);
    let [dev, backing, of, copies, force] = words;
    let mut all = vec![a, b];
    let mut words = vec![&*at, dev, &all[0], dev, &all[1], of, copies, force];
    let disk = path("disk");
    if has_backing {
        words.extend([backing, &disk]);
    }
    log("create", &words, 0);
    all.push(disk);
    (at, all)
}

/// The slots of the labels.
const LABELS: usize = 8192;

/// Once neither looked at the label of the backing.
#[test]
fn a_backing_that_does_not_belong_to_its_log_is_told() {
    let (at, files) = made("label", "1", true);
    let (other, others) = made("label.other", "1", true);
    let disk = &files[2];
    let old: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).expect("read")).collect();
    let well = || {
        assert!(log("check", &[&at], 0).0.contains("all is well"));
        let said = log("inspect", &[&at], 0).0;
        assert!(
            said.contains("label.disk: the backing of log ") && !said.contains("fault"),
            "{said}"
        );
    };
    well();
    log("recover", &[&at], 0);
    well();
    let whole = std::fs::read(disk).expect("read");
    let body = whole.len() - LABELS;
    let told = |why: &str| {
        let (out, said) = log("check", &[&at], 1);
        assert!(out.contains("all records are there") && said.contains(why), "{out} {said}");
        let report = log("check", &[&at, Path::new("--json")], 1).0;
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        assert!(report["faults"][0].as_str().is_some_and(|fault| fault.contains(why)), "{report}");
        let (out, said) = log("inspect", &[&at], 1);
        assert!(out.contains("fault: ") && out.contains(why), "{out}");
        assert!(said.contains("1 fault, listed above"), "{said}");
        // A start says the same.
        assert!(log("recover", &[&at], if why.contains("whole") { 1 } else { 2 }).1.contains(why));
    };
    let with = |labels: &[u8], why: &str| {
        std::fs::write(disk, [&whole[..body], labels].concat()).expect("written");
        told(why);
    };
    let mut damaged = whole[body..].to_vec();
    for slot in damaged.chunks_mut(LABELS / 2) {
        slot[40] ^= 1;
    }
    with(&damaged, "has no label that is whole");
    with(&vec![0; LABELS], "it has no label at its end");
    let of_other = std::fs::read(&others[2]).expect("read");
    with(&of_other[body..], "is the backing of log ");
    with(&old[2][body..], "it is an older copy; name the backing itself");
    std::fs::write(disk, &whole).expect("written");
    well();
    // The backing is right, and the devices are older.
    let now: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).expect("read")).collect();
    (0..2).for_each(|i| std::fs::write(&files[i], &old[i]).expect("written"));
    told("its devices are older copies");
    (0..2).for_each(|i| std::fs::write(&files[i], &now[i]).expect("written"));
    well();
    log("check", &[&other], 0);
}

/// Once `inspect` ended with 0.
#[test]
fn devices_that_are_not_one_log_are_told() {
    let (at, files) = made("one", "2", false);
    let (_, others) = made("one.other", "2", false);
    let text = std::fs::read_to_string(&at).expect("text");
    let json = || {
        let report = log("inspect", &[&at, Path::new("--json")], 1).0;
        serde_json::from_str::<serde_json::Value>(&report).expect("JSON")
    };
    let one_fault = |why: &str, entries: usize| {
        let (out, said) = log("inspect", &[&at], 1);
        assert!(out.contains("fault: ") && out.contains(why), "{out}");
        assert!(out.contains("device 0 of 2"), "{out}");
        assert!(said.contains("1 fault, listed above"), "{said}");
        assert_eq!(json().as_array().map(Vec::len), Some(entries));
    };
    assert!(!log("inspect", &[&at], 0).0.contains("fault"));
    let names = |path: &Path| path.display().to_string();
    // A device of another log in the place of one.
    std::fs::write(&at, text.replace(&names(&files[1]), &names(&others[1]))).expect("written");
    one_fault("belongs to another log than", 2);
    // A description that lacks one.
    let line = text.lines().find(|line| line.starts_with("devices")).expect("devices");
    let shorter = text.replace(line, &format!("devices = [\"{}\"]", names(&files[0])));
    std::fs::write(&at, shorter).expect("written");
    one_fault("device 1 of the log is missing, which has devices 0 to 1: bring it back, and", 2);
    std::fs::write(&at, &text).expect("written");
    // An older copy.
    let old = std::fs::read(&files[1]).expect("read");
    log("recover", &[&at], 0);
    log("recover", &[&at], 0);
    let now = std::fs::read(&files[1]).expect("read");
    std::fs::write(&files[1], &old).expect("written");
    one_fault("it is an older copy of a device", 2);
    std::fs::write(&files[1], &now).expect("written");
    assert!(!log("inspect", &[&at], 0).0.contains("fault"));
}

/// Once `inspect` ended with 0, and `check` called it an invalid request.
#[test]
fn a_description_that_says_otherwise_than_the_devices_is_told() {
    let (at, _) = made("otherwise", "2", false);
    let text = std::fs::read_to_string(&at).expect("text");
    for (made, said) in [("copies = 2", "copies = 1"), ("partitions = 1", "partitions = 2")] {
        let wrong = text.replace(made, said);
        assert_ne!(wrong, text);
        std::fs::write(&at, wrong).expect("written");
        let told = format!("was made with {made}, and its description says {said}: set it to");
        let (out, err) = log("inspect", &[&at], 1);
        assert_eq!(
            out.lines().filter(|l| l.starts_with("fault: ") && l.contains(&told)).count(),
            1
        );
        assert!(err.contains("1 fault, listed above"), "{out} {err}");
        let (out, err) = log("check", &[&at], 1);
        assert!(err.contains(&told) && err.lines().count() == 1 && out.is_empty(), "{out} {err}");
    }
    std::fs::write(&at, &text).expect("written");
    log("inspect", &[&at], 0);
    log("check", &[&at], 0);
}

/// Once it was said of a device that the log had lost that it should be brought back.
#[test]
fn a_device_that_is_lost_is_to_be_replaced() {
    let (at, files) = made("lost", "2", false);
    let now = std::fs::read(&files[1]).expect("read");
    std::fs::remove_file(&files[1]).expect("removed");
    let said = log("inspect", &[&at], 1).0;
    assert!(said.contains("lost.b\" is not there: bring it back"), "{said}");
    log("recover", &[&at, Path::new("--degraded")], 0);
    let (lost, name) = (files[1].display().to_string(), at.display().to_string());
    let put =
        format!("`tantalum log replace {name} --lost {lost} --with PATH` puts another device");
    let told = |why: &str| {
        let (out, said) = log("inspect", &[&at], 1);
        assert!(out.contains(&format!("fault: \"{lost}\" {why}: ")) && out.contains(&put), "{out}");
        assert!(!out.contains("bring it back") && said.contains("1 fault"), "{out} {said}");
        assert!(out.contains(", lost: device 1"), "{out}");
    };
    told("is not there, and device 1 is lost to the log");
    // What comes back in its place is of no use any more.
    std::fs::write(&files[1], &now).expect("written");
    told("was device 1 of the log, which has lost it: what it holds does not count");
    std::fs::write(&files[1], vec![0; 16 << 20]).expect("written");
    told("has nothing of the log that can be read, and device 1 is lost to the log");
}
