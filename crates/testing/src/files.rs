//! Files of tests, which go away with what made them.

use std::cell::RefCell;
use std::env::temp_dir;
use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use tempfile::TempDir;

/// A directory of a test's own, below the directory for temporary files. It is removed with all
/// that is in it when it is dropped. Its path is short enough for sockets.
#[derive(Debug)]
pub struct Scratch(TempDir);

fn directory(below: &Path) -> TempDir {
    let made = tempfile::Builder::new().prefix("tantalum-").tempdir_in(below);
    made.unwrap_or_else(|e| panic!("no directory in {}: {e}", below.display()))
}

impl Scratch {
    /// A new one.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    #[allow(
        clippy::new_without_default,
        reason = "making a directory is nothing that has a default"
    )]
    pub fn new() -> Scratch {
        Scratch(directory(&temp_dir()))
    }

    /// A new one below another directory than that for temporary files.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn below(dir: &Path) -> Scratch {
        Scratch(directory(dir))
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// A path in it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A path of a test's own. What is there is removed when it is dropped. All spots of a thread that
/// live at the same time are in one directory, so that `a.img` and `a.img.control` are beside each
/// other; it is removed with the last of them. libtest runs each test in a thread of its own: two
/// tests may use the same name.
#[derive(Debug)]
pub struct Spot {
    path: PathBuf,
    _directory: Arc<TempDir>,
}

impl Spot {
    /// The path of this name, at which nothing is yet.
    ///
    /// # Panics
    /// If the directory cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Spot {
        thread_local! {
            static SHARED: RefCell<Weak<TempDir>> = const { RefCell::new(Weak::new()) };
        }
        let directory = SHARED.with_borrow_mut(|shared| {
            shared.upgrade().unwrap_or_else(|| {
                let new = Arc::new(directory(&temp_dir()));
                *shared = Arc::downgrade(&new);
                new
            })
        });
        let path = directory.path().join(name);
        let _ = std::fs::remove_file(&path);
        Spot { path, _directory: directory }
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Deref for Spot {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<Path> for Spot {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

impl AsRef<OsStr> for Spot {
    fn as_ref(&self) -> &OsStr {
        self.path.as_os_str()
    }
}
