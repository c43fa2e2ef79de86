//! Flash logs on files: made and served, and killed with something in them.

#![allow(dead_code, reason = "not all tests need all of it")]

use super::live::{Nbd, Serving, socket, tantalum};
use super::{ends, file};
use std::path::{Path, PathBuf};
use tantalum_testing::Spot;

/// Runs `tantalum log VERB`; standard output and error.
pub fn log(verb: &str, words: &[&Path], code: i32) -> (String, String) {
    let mut command = tantalum(&["log", verb]);
    command.args(words);
    ends(&command.output().expect("it starts"), code)
}

/// A blank file for a log.
pub fn device(name: &str, mebibytes: usize) -> PathBuf {
    file(name, vec![0; mebibytes << 20])
}

/// Where the log begins: 0 if its checkpoint never moved.
pub fn first_lsn(at: &Path) -> u64 {
    let report = log("check", &[at, Path::new("--json")], 0).0;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    report["first"].as_u64().expect("an LSN")
}

/// Serves the log of this description, at a socket that is called as it is.
pub fn serve(at: &Path, more: &[&str]) -> (Serving, Spot) {
    let name = at.file_name().expect("a file").to_str().expect("text");
    let socket = socket(&format!("{name}.sock"));
    let mut command = tantalum(&["log", "serve"]);
    command.args(more).arg(at).arg("--unix").arg(&*socket);
    let mut serving = Serving::start(command);
    assert!(!serving.uri.is_empty(), "{}", serving.said());
    (serving, socket)
}

/// Serves a log, writes blocks to its volume, and kills the process: some of them are in the log
/// alone then.
pub fn write_and_kill(at: &Path, blocks: impl Iterator<Item = (u64, [u8; 4096])>) {
    let (mut serving, socket) = serve(at, &[]);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    for (at, block) in blocks {
        nbd.write(at, &block).expect("written");
    }
    serving.child.kill().expect("it can be killed");
}
