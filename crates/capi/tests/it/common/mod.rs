//! The system's C compiler, and the libraries that cargo has built for this test.

#![allow(clippy::disallowed_methods, reason = "tests start the compiler and what it made")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The directory of the crate's sources.
pub fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with libtantalum.so and libtantalum.a: cargo puts them beside this test.
pub fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let dir = test.parent().expect("a file is in a folder").to_path_buf();
    for library in ["libtantalum.so", "libtantalum.a"] {
        assert!(dir.join(library).is_file(), "{library} is not in {}", dir.display());
    }
    dir
}

/// An empty directory for one test.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capi-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the folder of cargo for tests can be written");
    dir
}

/// Runs a command that must succeed; returns its output.
pub fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|e| panic!("{command:?}: {e}; scripts/setup installs it"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// The system's C compiler, with the header and every warning an error.
pub fn cc() -> Command {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_XOPEN_SOURCE=700", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    cc.arg("-I").arg(crate_dir().join("include"));
    cc
}
