//! Common parts of the tests of the command.

pub mod live;
pub mod logs;

use std::path::{Path, PathBuf};
use std::process::Output;

/// A file in the scratch directory of the tests.
#[allow(dead_code, reason = "not all tests need files")]
pub fn file(name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the scratch folder can be written");
    path
}

/// Standard output and error of a command that ended with this code.
#[allow(dead_code, reason = "not all tests start commands that end")]
pub fn ends(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    (out, err)
}
