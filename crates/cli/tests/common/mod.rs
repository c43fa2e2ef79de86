//! Common parts of the tests of the command.

pub mod live;
pub mod logs;

use std::path::{Path, PathBuf};
use std::process::Output;
use tantalum_testing::Scratch;

thread_local! {
    /// (libtest runs each test in a thread of its own.)
    static FOLDER: Scratch = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")));
}

/// A path in a folder of the calling test's own, at which nothing is yet. The folder is beside what
/// cargo built, where direct I/O is more likely than in one for temporary files.
#[allow(dead_code, reason = "not all tests need files")]
pub fn path(name: &str) -> PathBuf {
    let path = FOLDER.with(|folder| folder.path(name));
    let _ = std::fs::remove_file(&path);
    path
}

/// A file at such a path.
#[allow(dead_code, reason = "not all tests need files")]
pub fn file(name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = path(name);
    std::fs::write(&path, content).expect("the scratch folder can be written");
    path
}

/// Standard output and error of a command that ended with this code.
pub fn ends(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    (out, err)
}
