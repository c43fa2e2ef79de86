//! The tutorials: their commands run as they stand there, and print what stands below them.

#![allow(clippy::disallowed_methods, reason = "tests read documents and start commands")]

use std::path::Path;
use std::process::{Command, Stdio};
use tantalum_testing::Scratch;

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
    let program = Path::new(env!("CARGO_BIN_EXE_tantalum")).parent().expect("it is in a folder");
    let path = std::env::var("PATH").expect("there is one");
    for Step { commands, printed } in steps {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &commands]).current_dir(place.dir());
        shell.env("PATH", format!("{}:{path}", program.display())).env_remove("COLUMNS");
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
    let place = run(include_str!("../../../docs/first-cut.md"), 4);
    assert!(place.path("first.html").exists());
}

#[test]
fn a_log_over_three_drives_is_as_its_page_says() {
    run(include_str!("../../../docs/three-drives.md"), 5);
}
