//! The tutorials: their commands run as they stand there, and print what stands below them. Pages
//! that mount something are left out where nothing can be mounted.

use std::path::Path;
use std::process::{Command, Stdio};
use tantalum_testing::{Need, Scratch, left_out};

/// A block of commands, and what the page says that they print.
struct Step {
    commands: String,
    printed: String,
}

/// The blocks that are marked as tested, each with the block of text behind it, if that comes next.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut rest = page;
    while let Some((_, opened)) = rest.split_once("\n```") {
        let (kind, body) = opened.split_once('\n').expect("a block has lines");
        let (body, behind) = body.split_once("\n```\n").expect("a block ends");
        match kind {
            "sh tested" => {
                steps.push(Step { commands: body.to_string(), printed: String::new() });
            }
            "text" => {
                let step = steps.last_mut().expect("commands come before what they print");
                assert!(step.printed.is_empty(), "two blocks of text behind one of commands");
                step.printed = body.to_string();
            }
            _ => {}
        }
        rest = behind;
        // (The next block may begin on the next line.)
        assert!(!rest.starts_with("```"), "a line is missing between two blocks");
    }
    steps
}

/// Runs the steps of a page in a new folder, which it returns.
fn run(page: &str, number: usize) -> Scratch {
    let steps = steps(page);
    assert_eq!(steps.len(), number);
    let place = Scratch::new();
    let database = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/database");
    let bin = place.path("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(database, bin.join("database")).expect("a link");
    let program = Path::new(env!("CARGO_BIN_EXE_tantalum")).parent().expect("it is in a folder");
    let path = std::env::var("PATH").expect("there is one");
    for Step { commands, printed } in steps {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &commands]).current_dir(place.dir());
        let path = format!("{}:{}:{path}", program.display(), bin.display());
        shell.env("PATH", path).env_remove("COLUMNS");
        let output = shell.stdin(Stdio::null()).output().expect("there is a shell");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{commands}\n{out}\n{err}");
        for line in printed.lines() {
            assert!(out.contains(line), "not printed: {line}\n{out}");
        }
    }
    place
}

#[test]
fn the_first_power_cut_is_as_its_page_says() {
    let place = run(include_str!("../../../../docs/first-cut.md"), 4);
    assert!(place.path("first.html").exists());
}

#[test]
fn a_log_over_three_drives_is_as_its_page_says() {
    run(include_str!("../../../../docs/three-drives.md"), 5);
}

#[test]
fn what_a_database_would_gain_is_as_its_page_says() {
    run(include_str!("../../../../docs/my-database.md"), 1);
}

#[test]
fn a_cache_before_a_slow_disk_is_as_its_page_says() {
    run(include_str!("../../../../docs/slow-disk.md"), 3);
}

#[test]
fn ones_own_engine_is_tested_as_its_page_says() {
    if left_out(&[Need::Root, Need::Mounts, Need::Fuse]) {
        return;
    }
    let page = include_str!("../../../../docs/my-engine.md");
    run(page, 1);
    // What it shows of the example in Rust is there.
    let example = include_str!("../../../../crates/explore/examples/kv.rs");
    let shown = page.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next());
    let shown: Vec<&str> = shown.collect();
    assert_eq!(shown.len(), 2);
    assert!(shown.iter().all(|part| example.contains(part)), "{shown:?}");
}

#[test]
fn a_drive_for_postgresql_is_as_its_page_says() {
    let programs =
        ["losetup", "mkfs.xfs", "xfs_repair", "initdb", "psql", "mountpoint"].map(Need::Program);
    let needs = [Need::Root, Need::Mounts, Need::Fuse, Need::LoopDevices];
    if left_out(&[&needs[..], &programs].concat()) {
        return;
    }
    run(include_str!("../../../../docs/postgres.md"), 1);
}
