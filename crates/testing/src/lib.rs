//! What the tests of all crates share: a way to say what a test needs, files that go away, and what a
//! device says of its holes.
//!
//! 1. A test that lacks something it needs is left out. It says so at once by its name, with the
//!    reason and with what helps, on the real standard error: libtest does not capture that.
//! 2. The same line is appended to the file that `TANTALUM_LEFT_OUT` names, if it names one.
//!    `scripts/test` prints that file at the end, since cargo itself has no end.
//! 3. With `TANTALUM_TESTS=all` no test is left out: one that lacks something fails.
//! 4. Files of a test are in [`Scratch`] or [`Spot`]: they are removed when the test ends, also
//!    when it fails.
//!
//! ```no_run
//! use tantalum_testing::{Need, left_out};
//! if left_out(&[Need::Root, Need::Fuse, Need::Program("mkfs.xfs")]) {
//!     return;
//! }
//! ```

#![allow(clippy::disallowed_methods, reason = "tests look at the machine, and make files on it")]

mod copy;
mod files;
mod need;
mod runs;
mod signal;

pub use copy::CopyOfMount;
pub use files::{Scratch, Spot};
pub use need::{Missing, Need, script_of};
pub use runs::runs;
pub use signal::{Signal, send};

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;

/// The environment variable that says whether a test may be left out: `all` says that none may be.
pub const TESTS: &str = "TANTALUM_TESTS";
/// The environment variable that names the file in which the tests that were left out are gathered.
pub const LEFT_OUT: &str = "TANTALUM_LEFT_OUT";

/// Whether the calling test has to be left out, because the machine lacks something of this.
///
/// # Panics
/// If something is missing and `TANTALUM_TESTS=all`.
#[must_use]
pub fn left_out(needs: &[Need]) -> bool {
    leave_out(&test_name(), needs)
}

/// The same of a part of the calling test: the rest of the test runs.
///
/// # Panics
/// If something is missing and `TANTALUM_TESTS=all`.
#[must_use]
pub fn left_out_part(part: &str, needs: &[Need]) -> bool {
    leave_out(&format!("{} ({part})", test_name()), needs)
}

fn leave_out(test: &str, needs: &[Need]) -> bool {
    // Without root, what only root could use is not listed as well.
    let root = needs.contains(&Need::Root) && Need::Root.missing().is_some();
    let follows = |need: &&Need| matches!(need, Need::Mounts | Need::Fuse | Need::LoopDevices);
    let asked = needs.iter().filter(|need| !(root && follows(need)));
    let mut missing: Vec<Missing> = asked.filter_map(Need::missing).collect();
    missing.dedup();
    if missing.is_empty() {
        return false;
    }
    let line = line(test, &missing);
    match std::env::var(TESTS) {
        Ok(word) if word == "all" => panic!("{TESTS}=all, but this cannot run: {line}"),
        Ok(word) => panic!("{TESTS}={word}: the only word it may have is `all`"),
        Err(_) => say(&line),
    }
    true
}

/// The name, what is missing, and what helps.
fn line(test: &str, missing: &[Missing]) -> String {
    let whats: Vec<&str> = missing.iter().map(|m| m.what.as_str()).collect();
    let hows: BTreeSet<&str> = missing.iter().map(|m| m.how.as_str()).collect();
    let hows: Vec<&str> = hows.into_iter().collect();
    format!("{test}: {}. To run it: {}.", whats.join(", "), hows.join("; "))
}

/// Says it once in each process.
fn say(line: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let first = SAID.lock().map_or(true, |mut said| said.insert(line.to_string()));
    if !first {
        return;
    }
    // Not `eprintln!`, which libtest captures and shows only if the test fails.
    let _ = writeln!(std::io::stderr().lock(), "LEFT OUT {line}");
    if let Some(path) = std::env::var_os(LEFT_OUT) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.unwrap_or_else(|e| panic!("{LEFT_OUT}={}: {e}", path.display()));
    }
}

/// The package, the test binary, and the test. libtest runs each test in a thread of its name.
fn test_name() -> String {
    let exe = std::env::current_exe().unwrap_or_default();
    let stem = exe.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // `name-0123456789abcdef`
    let binary = stem.rsplit_once('-').map_or(stem.as_str(), |(name, _)| name).to_string();
    let package = std::env::var("CARGO_PKG_NAME").map_or(String::new(), |name| name + " ");
    let thread = std::thread::current();
    format!("{package}{binary} {}", thread.name().unwrap_or("(a thread of a test)"))
}

#[cfg(test)]
mod tests;
