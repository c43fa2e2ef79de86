//! What the kernel keeps of a drive: its mounts and its loop device.

#![allow(clippy::disallowed_methods, reason = "the edge: reads and changes the kernel's state")]

use crate::program::{Interrupt, command, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a program that only calls the kernel may take.
const BOUND: Duration = Duration::from_secs(30);

/// A mount: its place and its source.
struct Mount {
    at: PathBuf,
    source: String,
}

fn mounts() -> Vec<Mount> {
    // (Names of mount points are bytes, of any encoding.)
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(mount).collect()
}

/// Parses a line of /proc/self/mountinfo: number, parent, device, root, place, ... - kind, source.
fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let plain = |word: &str| word.replace("\\040", " ").replace("\\134", "\\");
    let at = plain(before.split(' ').nth(4)?).into();
    Some(Mount { at, source: plain(after.split(' ').nth(1)?) })
}

/// The kernel's setting for the cache of a disk. The kernel keeps it when the disk gets another
/// file, so it must be restored.
pub struct Cache {
    knob: PathBuf,
}

impl Cache {
    /// The setting of the disk that is mounted there.
    pub fn of(mountpoint: &Path) -> Result<Cache, String> {
        let mounts = mounts();
        let source = mounts.iter().rev().find(|m| m.at == mountpoint).map(|m| m.source.as_str());
        let name = source.and_then(|s| s.strip_prefix("/dev/"));
        let name = name.ok_or_else(|| format!("no disk is mounted at {}", mountpoint.display()))?;
        Ok(Cache { knob: format!("/sys/block/{name}/queue/write_cache").into() })
    }

    /// Sets whether the cache needs flushes. If it does, the kernel sends them.
    pub fn needs_flushes(&self, needs: bool) -> Result<(), String> {
        let word = if needs { "write back" } else { "write through" };
        let knob = self.knob.display();
        let told = fs::write(&self.knob, word).and_then(|()| fs::read_to_string(&self.knob));
        match told {
            Ok(is) if is.trim() == word => Ok(()),
            Ok(is) => Err(format!("{knob} stays at {}", is.trim())),
            Err(e) => Err(format!("cannot write {knob}: {e}")),
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // It fails if the disk is gone, which needs no restore.
        let _ = self.needs_flushes(true);
    }
}

/// Removes the mounts and loop devices of an image that a killed process has left.
pub fn remove(image: &Path) {
    let image = fs::canonicalize(image).unwrap_or_else(|_| image.to_path_buf());
    let source = format!("tantalum:{}", image.display());
    let mounts = mounts();
    for file in mounts.iter().filter(|m| m.source == source) {
        for disk in loops(&file.at) {
            for above in mounts.iter().filter(|m| m.source == disk) {
                tell("umount", &["-l"], &above.at);
            }
            tell("losetup", &["-d"], Path::new(&disk));
        }
        tell("umount", &["-l"], &file.at);
    }
}

/// Loop devices on files below a directory.
fn loops(directory: &Path) -> Vec<String> {
    let Ok(disks) = fs::read_dir("/sys/block") else { return Vec::new() };
    let names = disks.filter_map(|disk| disk.ok()?.file_name().into_string().ok());
    let is_below = |name: &String| {
        let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(directory))
    };
    names.filter(is_below).map(|name| format!("/dev/{name}")).collect()
}

fn tell(program: &str, words: &[&str], what: &Path) {
    // It may be gone already, or will go with its last user.
    let _ = run(program, command(program, words).arg(what), BOUND, &Interrupt::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo_are_understood() {
        let line = "90 28 0:44 / /mnt/a\\040b rw shared:3 - fuse.x tantalum:/x/my\\134disk.img rw";
        let it = mount(line).unwrap();
        assert_eq!((it.at, it.source.as_str()), ("/mnt/a b".into(), "tantalum:/x/my\\disk.img"));
        assert!(mount("nonsense").is_none());
        assert!(Cache::of(Path::new("/no/such/mount")).is_err());
    }
}
