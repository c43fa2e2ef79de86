//! README.md and the documents: their commands run as they stand there, and print what stands below
//! them. What mounts something is left out where nothing can be mounted.
//!
//! The first line of a block says what becomes of it. Neither GitHub nor the site shows the mark.
//!
//! 1. `sh tested`: the block runs, in the folder of its page. Blocks of a page run one after the other.
//! 2. `sh tested as root`: it runs as root only, with mounts of its own: `/mnt` and `/usr/local/bin` are
//!    empty for it. A command that "runs until Ctrl-C" runs while those behind it do.
//! 3. `sh left out: REASON`: it does not run, and says why. There is no other block of `sh`.
//! 4. `text` right behind a block that runs: each of its lines was printed; one that ends with "…" went
//!    on. `text like`: the same but for numbers and their units, where they depend on real time.
//! 5. `toml of an experiment`, `toml of a cache`: the command reads it. `toml part of an experiment` needs
//!    a title, cuts and a workload beside it. There is no other block of `toml`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tantalum_testing::{Need, Scratch, left_out, left_out_part};

/// The pages whose commands run, each in a test of its own.
const PAGES: [&str; 13] = [
    "CONTRIBUTING.md",
    "README.md",
    "docs/cache.md",
    "docs/crash.md",
    "docs/experiments.md",
    "docs/first-cut.md",
    "docs/live.md",
    "docs/log.md",
    "docs/my-database.md",
    "docs/my-engine.md",
    "docs/postgres.md",
    "docs/slow-disk.md",
    "docs/three-drives.md",
];

/// What a file in a mounted folder takes.
const MOUNTED: [Need; 3] = [Need::Root, Need::Mounts, Need::Fuse];

/// A file or folder of the project.
fn of_project(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn read(page: &str) -> String {
    std::fs::read_to_string(of_project(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

/// A block of commands, and what the page says that they print.
#[derive(Debug)]
struct Step {
    commands: String,
    as_root: bool,
    printed: Option<Printed>,
}

#[derive(Debug)]
struct Printed {
    text: String,
    /// Numbers may be others.
    like: bool,
}

impl Printed {
    /// The first line that is not in the output.
    fn missing_of(&self, output: &str) -> Option<&str> {
        let is_there = |line: &str| match self.like {
            false => output.contains(line.trim_end_matches('…')),
            true => {
                let line = without_numbers(line.trim_end_matches('…'));
                output.lines().any(|printed| without_numbers(printed).starts_with(&line))
            }
        };
        self.text.lines().find(|line| !is_there(line))
    }
}

/// The words of a line without numbers and units.
fn without_numbers(line: &str) -> String {
    let is_word = |word: &&str| {
        let word = word.trim_end_matches([',', ':', ';']);
        let is_unit = ["ns", "µs", "ms", "s", "nJ", "µJ", "mJ", "J"].contains(&word);
        !is_unit && !word.starts_with(|c: char| c.is_ascii_digit())
    };
    line.split_whitespace().filter(is_word).collect::<Vec<_>>().join(" ")
}

/// The blocks of a page: the words of their first lines, and what is in them.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some((_, opened)) = rest.split_once("\n```") {
        let (kind, body) = opened.split_once('\n').expect("a block has lines");
        let (body, behind) = body.split_once("\n```\n").expect("a block ends");
        blocks.push((kind, body));
        rest = behind;
        // (The next block may begin on the next line.)
        assert!(!rest.starts_with("```"), "a line is missing between two blocks");
    }
    blocks
}

/// The blocks that run, each with the block of text right behind it.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut runs = false;
    for (kind, body) in blocks(page) {
        let as_root = kind == "sh tested as root";
        let like = kind == "text like";
        if runs && (like || kind == "text") {
            let printed = Printed { text: body.to_string(), like };
            steps.last_mut().expect("the one before").printed = Some(printed);
        }
        runs = as_root || kind == "sh tested";
        if runs {
            steps.push(Step { commands: body.to_string(), as_root, printed: None });
        }
    }
    steps
}

/// The commands as they run as root: with mounts that nobody else sees, and what runs until Ctrl-C
/// beside those behind it.
fn as_root(commands: &str) -> String {
    let mut text = "mount -t tmpfs tmpfs /mnt\nmount -t tmpfs tmpfs /usr/local/bin\n\
                    trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
        .to_string();
    for line in commands.lines() {
        text += &match line.split_once(" #") {
            Some((command, comment)) if comment.contains("until Ctrl-C") => format!(
                ": >ready\n{command} >ready &\n\
                 until grep -q ready ready; do kill -0 $!; sleep 0.1; done\n"
            ),
            _ => format!("{line}\n"),
        };
    }
    text + "kill $(jobs -p)\nwait\n"
}

/// Runs the blocks of a page in a new folder, which it returns. So many of them run.
fn run(name: &str, number: usize) -> Scratch {
    assert!(PAGES.contains(&name));
    let steps = steps(&read(name));
    assert_eq!(steps.len(), number);
    let place = Scratch::new();
    // What the pages take for granted: the folders of the project, the command where cargo installs it.
    let link = |to: &Path, path: &str| {
        let path = place.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::os::unix::fs::symlink(to, path).expect("a link");
    };
    let program = Path::new(env!("CARGO_BIN_EXE_tantalum"));
    link(program, "home/.cargo/bin/tantalum");
    link(&of_project("scripts/database"), "bin/database");
    link(Path::new("/usr/bin/env"), "bin/sudo");
    link(&of_project("experiments"), "experiments");
    link(&of_project("crates"), "crates");
    let path = std::env::var("PATH").expect("there is one");
    let programs = program.parent().expect("it is in a folder");
    let path = format!("{}:{}:{path}", programs.display(), place.path("bin").display());
    for (at, Step { commands, as_root: root, printed }) in steps.into_iter().enumerate() {
        if root {
            let programs = ["losetup", "mkfs.xfs", "xfs_repair", "unshare"].map(Need::Program);
            let needs = [Need::Root, Need::Mounts, Need::Fuse, Need::LoopDevices];
            if left_out_part(&format!("block {}", at + 1), &[&needs[..], &programs].concat()) {
                continue;
            }
        }
        let mut shell = match root {
            false => Command::new("bash"),
            true => {
                let mut shell = Command::new("unshare");
                shell.args(["--mount", "bash"]);
                shell
            }
        };
        let text = if root { as_root(&commands) } else { commands };
        shell.args(["-euo", "pipefail", "-c", &text]).current_dir(place.dir());
        shell.env("PATH", &path).env("HOME", place.path("home")).env_remove("COLUMNS");
        let output = shell.stdin(Stdio::null()).output().expect("there is a shell");
        let utf8 = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (utf8(&output.stdout), utf8(&output.stderr));
        assert!(output.status.success(), "{text}\n{out}\n{err}");
        let missing = printed.as_ref().and_then(|printed| printed.missing_of(&out));
        assert_eq!(missing, None, "not printed by\n{text}\n{out}");
    }
    place
}

/// The names of all pages.
fn all_pages() -> Vec<String> {
    let docs = std::fs::read_dir(of_project("docs")).expect("the documents");
    let docs = docs.map(|entry| entry.expect("a file").file_name());
    let docs = docs.map(|name| format!("docs/{}", name.to_string_lossy()));
    let mut names: Vec<String> = docs.filter(|name| name.ends_with(".md")).collect();
    names.extend(["CONTRIBUTING.md", "README.md"].map(String::from));
    names.sort();
    names
}

/// A new block runs, or says why it does not; and the pages with blocks that run are those above.
#[test]
fn every_block_of_commands_runs_or_says_why_not() {
    let names = all_pages();
    let mut run = Vec::new();
    for name in &names {
        let page = read(name);
        for (kind, body) in blocks(&page) {
            let of_shell = kind.split_whitespace().next() == Some("sh");
            let reason = kind.strip_prefix("sh left out: ");
            let says = ["sh tested", "sh tested as root"].contains(&kind) || reason.is_some();
            assert!(!of_shell || says, "{name}: neither run nor left out: {kind}\n{body}");
        }
        if !steps(&page).is_empty() {
            run.push(name.as_str());
        }
    }
    assert_eq!(run, PAGES);
}

/// What a part of an experiment lacks.
const REST: &str = "title = \"t\"\ncuts = 1\n\n[job.sectors]\ncommands = 1\n\n";

/// The command accepts what the pages show of its files.
#[test]
fn files_of_the_pages_are_read() {
    let place = Scratch::new();
    let path = |name: &str| place.path(name).to_str().expect("text").to_string();
    let tantalum = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
        let output = command.args(words).stdin(Stdio::null()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
    };
    let (flash, slow, cache, experiment) = (path("f"), path("s"), path("c.toml"), path("e.toml"));
    tantalum(
        &[
            &["cache", "create", &cache, "--flash", &flash, "--flash-size", "8MiB"][..],
            &["--slow", &slow, "--slow-size", "8MiB"],
        ]
        .concat(),
    );
    let mut read_so = std::collections::BTreeSet::new();
    for name in all_pages() {
        let page = read(&name);
        for (kind, body) in blocks(&page) {
            let Some(of) = kind.strip_prefix("toml") else { continue };
            match of {
                " of an experiment" => std::fs::write(&experiment, body),
                " part of an experiment" => std::fs::write(&experiment, REST.to_string() + body),
                " of a cache" => {
                    let here = body.replace("/srv/flash", &flash).replace("/srv/disk", &slow);
                    std::fs::write(&cache, here)
                }
                _ => panic!("{name}: nothing reads this: {kind}\n{body}"),
            }
            .expect("the folder can be written");
            match of {
                " of a cache" => tantalum(&["cache", "check", &cache]),
                _ => tantalum(&["run", &experiment, "--list"]),
            }
            read_so.insert(of.to_string());
        }
    }
    assert_eq!(read_so.len(), 3, "{read_so:?}");
}

/// What is not printed is found, with numbers that differ and without.
#[test]
fn a_line_that_is_not_printed_is_found() {
    let printed = |text: &str, like| Printed { text: text.to_string(), like };
    let output = "cut   the dump took 9.51 ms, 1.2 mJ of 172.90 mJ drawn: 7 pages\nlost  nothing\n";
    let page = "cut   the dump took 7.17 ms, 536.3 µJ of 172.90 mJ drawn: …\nlost  nothing";
    let [cut, lost] = [page.lines().next(), page.lines().nth(1)].map(|line| line.expect("a line"));
    assert_eq!(printed(page, true).missing_of(output), None);
    assert_eq!(printed(page, false).missing_of(output), Some(cut));
    assert_eq!(printed("cut   the dump took 9.51 ms, …", false).missing_of(output), None);
    assert_eq!(printed(page, true).missing_of("lost  nothing"), Some(cut));
    assert_eq!(printed(page, true).missing_of(output.lines().next().expect("one")), Some(lost));
}

#[test]
fn what_is_told_to_contributors_is_as_their_page_says() {
    run("CONTRIBUTING.md", 1);
}

#[test]
fn the_readme_is_as_it_says() {
    run("README.md", 3);
}

#[test]
fn the_commands_of_a_cache_are_as_their_page_says() {
    run("docs/cache.md", 2);
}

#[test]
fn the_crash_explorer_is_as_its_page_says() {
    run("docs/crash.md", 1);
}

#[test]
fn experiments_are_as_their_page_says() {
    let place = run("docs/experiments.md", 1);
    assert!(place.path("first.html").exists());
}

#[test]
fn a_live_drive_is_as_its_page_says() {
    run("docs/live.md", 1);
}

#[test]
fn a_log_is_as_its_page_says() {
    run("docs/log.md", 1);
}

#[test]
fn the_first_power_cut_is_as_its_page_says() {
    let place = run("docs/first-cut.md", 4);
    assert!(place.path("first.html").exists());
}

#[test]
fn a_log_over_three_drives_is_as_its_page_says() {
    if left_out(&MOUNTED) {
        return;
    }
    run("docs/three-drives.md", 5);
}

#[test]
fn what_a_database_would_gain_is_as_its_page_says() {
    let place = run("docs/my-database.md", 2);
    let made = std::fs::read_to_string(place.path("mine.toml")).expect("its first command made it");
    let page = read("docs/my-database.md");
    let shown = blocks(&page).into_iter().find(|(kind, _)| kind.starts_with("toml"));
    assert_eq!(shown.map(|(_, body)| body), Some(made.trim_end()));
}

#[test]
fn a_cache_before_a_slow_disk_is_as_its_page_says() {
    if left_out(&MOUNTED) {
        return;
    }
    run("docs/slow-disk.md", 3);
}

#[test]
fn ones_own_engine_is_tested_as_its_page_says() {
    if left_out(&MOUNTED) {
        return;
    }
    run("docs/my-engine.md", 1);
}

#[test]
fn a_drive_for_postgresql_is_as_its_page_says() {
    let programs =
        ["losetup", "mkfs.xfs", "xfs_repair", "initdb", "psql", "mountpoint"].map(Need::Program);
    let needs = [Need::Root, Need::Mounts, Need::Fuse, Need::LoopDevices];
    if left_out(&[&needs[..], &programs].concat()) {
        return;
    }
    run("docs/postgres.md", 1);
}
