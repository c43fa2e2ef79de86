//! What a test may need of the machine.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Something that a test needs and that not every machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// To be root.
    Root,
    /// A program: its name, looked for in `PATH`, `/usr/sbin`, `/sbin` and where PostgreSQL has its
    /// programs, or its whole path.
    Program(&'static str),
    /// To be allowed to mount, which the root of a container may not be.
    Mounts,
    /// The kernel's FUSE, by `/dev/fuse`.
    Fuse,
    /// Loop devices, by `/dev/loop-control`.
    LoopDevices,
    /// Linux of this version or a newer one.
    Kernel(u32, u32),
    /// Anything else, which the test has tried itself.
    Tried {
        /// What it is, as in "io_uring".
        what: &'static str,
        /// Why it is missing; `None` if it is there.
        error: Option<String>,
        /// What helps.
        how: &'static str,
    },
}

/// What is missing, and what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What, and why.
    pub what: String,
    /// What helps.
    pub how: String,
}

/// The script that installs a program.
#[must_use]
pub fn script_of(program: &str) -> &'static str {
    match program {
        "nbdinfo" | "nbdcopy" | "qemu-img" | "qemu-io" | "fio" | "nbdkit" | "openssl" => {
            "scripts/install-nbd-tools"
        }
        "mariadbd" | "mariadb" | "mariadb-install-db" | "setpriv" | "postgres" | "initdb"
        | "pg_amcheck" | "psql" => "scripts/install-databases",
        "chromium" => "scripts/install-picture-tools",
        _ => "scripts/install-mount-tools",
    }
}

impl Need {
    /// Something that the test has tried itself.
    pub fn tried<T, E: ToString>(
        what: &'static str,
        result: &Result<T, E>,
        how: &'static str,
    ) -> Need {
        Need::Tried { what, error: result.as_ref().err().map(E::to_string), how }
    }

    /// What is missing; `None` if nothing is.
    #[must_use]
    pub fn missing(&self) -> Option<Missing> {
        let missing =
            |what: &str, how: &str| Some(Missing { what: what.to_string(), how: how.to_string() });
        match self {
            Need::Root => match rustix::process::geteuid().is_root() {
                true => None,
                false => missing("it takes root", "run the tests as root"),
            },
            Need::Program(name) => match has(name) {
                true => None,
                false => missing(&format!("there is no {name}"), script_of(name)),
            },
            Need::Mounts => {
                let tried = Command::new("unshare").args(["--mount", "true"]).output();
                match tried.is_ok_and(|tried| tried.status.success()) {
                    true => None,
                    false => missing("mounting is denied", "run the tests as root"),
                }
            }
            Need::Fuse => device("/dev/fuse", "FUSE"),
            Need::LoopDevices => device("/dev/loop-control", "loop devices"),
            Need::Kernel(major, minor) => {
                let uname = rustix::system::uname();
                let is = uname.release().to_string_lossy();
                let numbers = is.split(|c: char| !c.is_ascii_digit());
                let mut numbers = numbers.map(|n| n.parse().unwrap_or(0));
                let version: (u32, u32) =
                    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
                match version >= (*major, *minor) {
                    true => None,
                    false => missing(
                        &format!("this is Linux {is}"),
                        &format!("use Linux {major}.{minor} or newer"),
                    ),
                }
            }
            Need::Tried { what, error, how } => {
                missing(&format!("{what}: {}", error.as_ref()?), how)
            }
        }
    }
}

/// Whether the device can be opened for reading and writing.
fn device(path: &str, what: &str) -> Option<Missing> {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(path);
    let e = opened.err()?;
    let how = format!("give the tests access to {path} (root, and the kernel's support of {what})");
    Some(Missing { what: format!("{path}: {e}"), how })
}

fn has(program: &str) -> bool {
    let runs = |path: &Path| {
        let metadata = std::fs::metadata(path);
        metadata.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    // A whole path replaces the folder.
    std::env::split_paths(&path).chain(more).any(|folder| runs(&folder.join(program)))
        || programs_of_postgres().is_some_and(|folder| runs(&folder.join(program)))
}

/// The folder of PostgreSQL's programs, which need not be in `PATH`: the one that `scripts/database`
/// takes.
fn programs_of_postgres() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/database");
    let asked = || Command::new(script).args(["postgres", "programs"]).output().ok();
    let folder = FOLDER.get_or_init(|| {
        let said = asked().filter(|output| output.status.success())?.stdout;
        Some(PathBuf::from(String::from_utf8(said).ok()?.trim_end()))
    });
    folder.as_deref()
}
