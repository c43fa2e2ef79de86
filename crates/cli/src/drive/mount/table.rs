//! What the kernel tells of mounts, of loop devices, and of who uses them.

use std::path::{Path, PathBuf};

/// A line of the table of mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// Where.
    pub at: PathBuf,
    /// Which kind of file system.
    pub kind: String,
    /// What is mounted.
    pub source: String,
}

/// All mounts, in the order in which they were made.
pub fn mounts() -> Vec<Mounted> {
    parse(&read("/proc/self/mountinfo").unwrap_or_default())
}

/// Lines as proc(5) has them: number, parent, device, root, where, options, fields until "-", kind,
/// source, options.
fn parse(text: &str) -> Vec<Mounted> {
    let line = |line: &str| {
        let (before, behind) = line.split_once(" - ")?;
        let mut behind = behind.split(' ');
        Some(Mounted {
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

/// A process that has something below a directory open, or is in there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// What it has there.
    pub what: PathBuf,
}

/// Who keeps `dir` busy. Nothing there is touched: only links of `/proc` are read.
pub fn users(dir: &Path) -> Vec<User> {
    let link = |path: PathBuf| rustix::fs::readlink(path, Vec::new()).ok();
    let mut all = Vec::new();
    for pid in names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok()) {
        let own = ["cwd", "root", "exe"].map(|what| PathBuf::from(format!("/proc/{pid}/{what}")));
        let fds = names(format!("/proc/{pid}/fd"));
        let fds = fds.into_iter().map(|fd| PathBuf::from(format!("/proc/{pid}/fd/{fd}")));
        let what = own.into_iter().chain(fds).find_map(|path| {
            let to = PathBuf::from(link(path)?.into_string().ok()?);
            to.starts_with(dir).then_some(to)
        });
        if let Some(what) = what {
            let name = read(format!("/proc/{pid}/comm")).unwrap_or_default();
            all.push(User { pid, name: name.trim_end().to_string(), what });
        }
    }
    all
}

#[allow(clippy::disallowed_methods, reason = "the edge: what the kernel tells")]
fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
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
        let mounted = |at: &str, kind: &str, source: &str| Mounted {
            at: at.into(),
            kind: kind.to_string(),
            source: source.to_string(),
        };
        assert_eq!(
            parse(text),
            [
                mounted("/proc", "proc", "proc"),
                mounted("/mnt/a b", "fuse.tantalum", "tantalum:/x/my\\disk.img"),
                mounted("/mnt", "xfs", "/dev/loop0"),
            ]
        );
    }

    #[test]
    fn this_process_uses_where_it_is() {
        let here = std::env::current_dir().expect("a directory");
        let me = std::process::id();
        assert!(users(&here).iter().any(|user| user.pid == me && user.what.starts_with(&here)));
        assert!(!users(Path::new("/nowhere")).iter().any(|user| user.pid == me));
    }
}
