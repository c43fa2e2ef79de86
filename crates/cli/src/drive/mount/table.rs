//! Mounts, loop devices and their users, as the kernel reports them.

use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};
use tantalum_rt::wall::{Io, Watch};

/// A line of the table of mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The number of its device, major and minor. All copies of a mount have the same number; when
    /// the last copy is gone, another file system may get it.
    pub device: String,
    /// The mount point.
    pub at: PathBuf,
    /// The kind of file system.
    pub kind: String,
    /// What is mounted.
    pub source: String,
}

impl Mounted {
    /// Whether both are mounts of the same file system.
    pub fn is_copy_of(&self, other: &Mounted) -> bool {
        self.device == other.device && self.source == other.source
    }
}

/// All mounts, in the order in which they were made. `None`: the table cannot be read now, and nothing
/// is known of any mount.
pub fn mounts() -> Option<Vec<Mounted>> {
    read("/proc/self/mountinfo").map(|text| parse(&text))
}

/// Notice of changes of the table of mounts.
pub struct Changes {
    watch: Watch,
    /// Notice ends when it is closed.
    _table: OwnedFd,
}

impl Changes {
    /// Of changes from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn new(io: &Io) -> std::io::Result<Changes> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let table = rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty())?;
        // The table can be read at any time. The kernel tells of a change as urgent data, which the
        // set of epoll makes readable.
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&set, &table, epoll::EventData::new_u64(0), epoll::EventFlags::PRI)?;
        Ok(Changes { watch: io.watch(set)?, _table: table })
    }

    /// Waits for one. It may come too early.
    ///
    /// # Errors
    /// The system's.
    pub async fn next(&self) -> std::io::Result<()> {
        self.watch.readable().await
    }
}

/// Lines as in proc(5): number, parent, device, root, mount point, options, fields until "-", kind,
/// source, options.
fn parse(text: &str) -> Vec<Mounted> {
    let line = |line: &str| {
        let (before, behind) = line.split_once(" - ")?;
        let mut behind = behind.split(' ');
        Some(Mounted {
            device: before.split(' ').nth(2)?.to_string(),
            at: unescape(before.split(' ').nth(4)?).into(),
            kind: behind.next()?.to_string(),
            source: unescape(behind.next()?),
        })
    };
    text.lines().filter_map(line).collect()
}

/// Spaces and the like are written as octal numbers.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let code = (first == b'\\')
            .then(|| behind.get(..3).and_then(|d| std::str::from_utf8(d).ok()))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &behind[3..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Loop devices, each with its file.
pub fn loops() -> Vec<(String, PathBuf)> {
    let names = names("/sys/block").into_iter().filter(|name| name.starts_with("loop"));
    let file = |name: String| {
        let file = read(format!("/sys/block/{name}/loop/backing_file"))?;
        Some((format!("/dev/{name}"), PathBuf::from(file.trim_end_matches('\n'))))
    };
    names.filter_map(file).collect()
}

/// A process that keeps a file system in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// How it uses the file system.
    pub what: Use,
}

/// How a process keeps a file system in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// It has this file open, or this is its working directory, root or program.
    Open(PathBuf),
    /// It has a copy of the mount here: in its own mount namespace, or by a bind mount.
    Copy(PathBuf),
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let User { pid, name, what } = self;
        match what {
            Use::Open(path) => write!(f, "{name} ({pid}) has {}", path.display()),
            Use::Copy(at) => {
                write!(f, "{name} ({pid}) has a copy of the mount at {}", at.display())
            }
        }
    }
}

/// The processes that see such a mount: one for each mount namespace.
///
/// A new namespace gets a copy of every mount. Unmounting elsewhere leaves this copy, which keeps
/// the file system in use.
pub fn copies(is_one: impl Fn(&Mounted) -> bool) -> Vec<User> {
    let link = |path: String| rustix::fs::readlink(path, Vec::new()).ok();
    let mut seen = Vec::new();
    let mut all = Vec::new();
    for pid in processes() {
        let Some(namespace) = link(format!("/proc/{pid}/ns/mnt")) else { continue };
        if seen.contains(&namespace) {
            continue;
        }
        // If a process has ended meanwhile, another process of its namespace may answer.
        let Some(table) = read(format!("/proc/{pid}/mountinfo")) else { continue };
        seen.push(namespace);
        let mounts = parse(&table);
        if let Some(mount) = mounts.into_iter().find(&is_one) {
            all.push(User { pid, name: name(pid), what: Use::Copy(mount.at) });
        }
    }
    all
}

/// The numbers of all visible processes.
fn processes() -> impl Iterator<Item = u32> {
    names("/proc").into_iter().filter_map(|name| name.parse().ok())
}

fn name(pid: u32) -> String {
    read(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_string()
}

/// The processes that keep the mount at `dir` busy: those with an open file there, and those that
/// have a loop device on a file there open, or a copy of its mount. Only links of `/proc` are read,
/// nothing in `dir`.
pub fn users(dir: &Path) -> Vec<User> {
    let disks = loops().into_iter().filter(|(_, file)| file.starts_with(dir));
    let disks: Vec<String> = disks.map(|(disk, _)| disk).collect();
    let mut all = openers(dir);
    if !disks.is_empty() {
        all.extend(disks.iter().flat_map(|disk| openers(Path::new(disk))));
        all.extend(copies(|mount| disks.contains(&mount.source)));
    }
    all
}

fn openers(dir: &Path) -> Vec<User> {
    let link = |path: PathBuf| rustix::fs::readlink(path, Vec::new()).ok();
    let mut all = Vec::new();
    for pid in processes() {
        let own = ["cwd", "root", "exe"].map(|what| PathBuf::from(format!("/proc/{pid}/{what}")));
        let fds = names(format!("/proc/{pid}/fd"));
        let fds = fds.into_iter().map(|fd| PathBuf::from(format!("/proc/{pid}/fd/{fd}")));
        let what = own.into_iter().chain(fds).find_map(|path| {
            let to = PathBuf::from(link(path)?.into_string().ok()?);
            to.starts_with(dir).then_some(to)
        });
        if let Some(what) = what {
            all.push(User { pid, name: name(pid), what: Use::Open(what) });
        }
    }
    all
}

#[allow(clippy::disallowed_methods, reason = "the edge: what the kernel tells")]
fn read(path: impl AsRef<Path>) -> Option<String> {
    // Names of mount points are bytes, of any encoding.
    std::fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[allow(clippy::disallowed_methods, reason = "the edge: what the kernel tells")]
fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_is_read() {
        let text = "\
22 28 0:21 / /proc rw,nosuid shared:14 - proc proc rw
90 28 0:44 / /mnt/a\\040b rw,nosuid - fuse.tantalum tantalum:/x/my\\134disk.img rw,user_id=0
nonsense
91 90 7:0 / /mnt rw shared:1 master:2 - xfs /dev/loop0 rw
";
        let mounted = |device: &str, at: &str, kind: &str, source: &str| Mounted {
            device: device.to_string(),
            at: at.into(),
            kind: kind.to_string(),
            source: source.to_string(),
        };
        assert_eq!(
            parse(text),
            [
                mounted("0:21", "/proc", "proc", "proc"),
                mounted("0:44", "/mnt/a b", "fuse.tantalum", "tantalum:/x/my\\disk.img"),
                mounted("7:0", "/mnt", "xfs", "/dev/loop0"),
            ]
        );
    }

    #[test]
    fn this_process_uses_where_it_is() {
        let here = std::env::current_dir().expect("a directory");
        let me = std::process::id();
        let is_here = |user: &User| match &user.what {
            Use::Open(what) => user.pid == me && what.starts_with(&here),
            Use::Copy(_) => false,
        };
        assert!(users(&here).iter().any(is_here));
        assert!(!users(Path::new("/nowhere")).iter().any(|user| user.pid == me));
    }

    #[test]
    fn who_sees_a_mount_is_found() {
        let own = mounts().expect("the table");
        let proc = own.iter().find(|mount| mount.at == Path::new("/proc")).expect("/proc");
        assert!(!copies(|mount| mount == proc).is_empty());
        assert!(copies(|mount| mount.source == "what is nowhere").is_empty());
    }
}
