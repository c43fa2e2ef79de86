//! What the storage of a file or block device is a part of, as the kernel says: a partition of its
//! disk, a loop device of its file.
//!
//! 1. Nobody is asked about the files of other loop devices but the kernel's table of names: a file
//!    that this very process serves to the kernel would not answer.

use rustix::fs::{major, minor};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where the kernel tells of its block devices.
pub const SYS: &str = "/sys/dev/block";

/// The number of a block device: major, minor.
type Number = (u32, u32);

/// The disk that this partition is a part of; `None`: it is no partition. `sys` is `/sys/dev/block`.
#[allow(clippy::disallowed_methods, reason = "the edge: what the kernel says of its devices")]
fn disk_of(sys: &Path, (major, minor): Number) -> Option<Number> {
    // It is a link to the folder of the device, and that of a partition lies in that of its disk.
    let folder = std::fs::canonicalize(sys.join(format!("{major}:{minor}"))).ok()?;
    if !folder.join("partition").exists() {
        return None;
    }
    let number = std::fs::read_to_string(folder.parent()?.join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The path of the file that a loop device is over; `None`: it is none.
#[allow(clippy::disallowed_methods, reason = "the edge: what the kernel says of its devices")]
fn file_of(sys: &Path, (major, minor): Number) -> Option<PathBuf> {
    let told = std::fs::read(sys.join(format!("{major}:{minor}/loop/backing_file"))).ok()?;
    let path = told.strip_suffix(b"\n").unwrap_or(&told);
    Some(std::ffi::OsStr::from_bytes(path).into())
}

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    Block(Number),
    /// Its file system, and its number there.
    File(u64, u64),
}

impl Identity {
    fn of(is: &Metadata) -> Identity {
        match is.file_type().is_block_device() {
            true => Identity::Block((major(is.rdev()), minor(is.rdev()))),
            false => Identity::File(is.dev(), is.ino()),
        }
    }
}

/// What two devices have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    /// They are one.
    All,
    /// One is a loop device over the other or a part of it, or both are over one file.
    ByLoop,
    /// One is a partition of the other.
    Disk,
}

/// What a path leads to, and what that is a part of, from the innermost to the outermost. Each has
/// with it whether it is the file of a loop device.
#[derive(Debug)]
pub struct Storage(Vec<(Identity, bool)>);

impl Storage {
    /// Of what is at a path. `sys` is [`SYS`].
    pub fn of(is: &Metadata, sys: &Path) -> Storage {
        Storage::within(Identity::of(is), sys)
    }

    #[allow(clippy::disallowed_methods, reason = "the edge: files under loop devices")]
    fn within(inner: Identity, sys: &Path) -> Storage {
        let mut all = vec![(inner, false)];
        while let Some((Identity::Block(number), _)) = all.last() {
            let number = *number;
            let disk = disk_of(sys, number).map(|disk| (Identity::Block(disk), false));
            let file = || {
                let is = std::fs::metadata(file_of(sys, number)?).ok()?;
                Some((Identity::of(&is), true))
            };
            match disk.or_else(file) {
                Some(next) if all.iter().all(|(known, _)| *known != next.0) => all.push(next),
                _ => break,
            }
        }
        Storage(all)
    }

    /// Whether it is a partition of a disk.
    pub(super) fn is_partition(&self) -> bool {
        self.0.get(1).is_some_and(|(_, is_file)| !is_file)
    }

    /// The files of the loop devices on which it lies.
    pub(super) fn files(&self, sys: &Path) -> impl Iterator<Item = PathBuf> {
        self.0.iter().filter_map(|(identity, _)| match identity {
            Identity::Block(number) => file_of(sys, *number),
            Identity::File(..) => None,
        })
    }

    /// What both have in common. Two partitions of a disk have nothing in common.
    pub fn shares(&self, other: &Storage) -> Option<Shared> {
        let place = |of: &Storage, what| of.0.iter().position(|(known, _)| *known == what);
        let (mine, theirs) =
            (0..self.0.len()).find_map(|mine| Some((mine, place(other, self.0[mine].0)?)))?;
        match (mine, theirs) {
            (0, 0) => Some(Shared::All),
            _ if self.0[mine].1 || other.0[theirs].1 => Some(Shared::ByLoop),
            (0, _) | (_, 0) => Some(Shared::Disk),
            _ => None,
        }
    }
}

/// The loop device that is over the file at this path, as far as its name tells (1): not if it was
/// attached by another name, such as a hard link or a mount elsewhere.
#[allow(clippy::disallowed_methods, reason = "the edge: what the kernel says of its devices")]
pub(super) fn loop_over(path: &Path, sys: &Path) -> Option<String> {
    let path = std::fs::canonicalize(path).ok()?;
    let devices = std::fs::read_dir(sys).ok()?.filter_map(Result::ok);
    devices.filter_map(|device| device.file_name().into_string().ok()).find_map(|number| {
        let (major, minor) = number.split_once(':')?;
        let over = file_of(sys, (major.parse().ok()?, minor.parse().ok()?))?;
        let folder = std::fs::canonicalize(sys.join(&number)).ok()?;
        let name = folder.file_name()?.to_str()?;
        (over == path).then(|| format!("/dev/{name}"))
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests make files")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_partition_knows_its_disk_and_a_disk_has_none() {
        let scratch = tantalum_testing::Scratch::new();
        let (sys, sda) = (scratch.path("sys"), scratch.path("devices/sda"));
        std::fs::create_dir_all(&sys).expect("a folder");
        std::fs::create_dir_all(sda.join("sda1")).expect("a folder");
        std::fs::write(sda.join("dev"), "8:0\n").expect("written");
        std::fs::write(sda.join("sda1/dev"), "8:1\n").expect("written");
        std::fs::write(sda.join("sda1/partition"), "1\n").expect("written");
        symlink(&sda, sys.join("8:0")).expect("a link");
        symlink(sda.join("sda1"), sys.join("8:1")).expect("a link");
        assert_eq!(disk_of(&sys, (8, 1)), Some((8, 0)));
        assert_eq!(disk_of(&sys, (8, 0)), None);
        assert_eq!(disk_of(&sys, (9, 9)), None);
    }

    /// Once a file could be named together with a loop device over it.
    #[test]
    fn a_loop_device_is_its_file() {
        let scratch = tantalum_testing::Scratch::new();
        let (sys, file) = (scratch.path("sys"), scratch.path("a file"));
        std::fs::create_dir_all(&sys).expect("a folder");
        std::fs::write(&file, [1]).expect("written");
        let all = ["loop0", "loop1", "loop2", "sda"].map(|name| scratch.path(name));
        for (minor, disk) in all.iter().enumerate() {
            let part = disk.join("part");
            std::fs::create_dir_all(&part).expect("a folder");
            std::fs::write(disk.join("dev"), format!("7:{minor}\n")).expect("written");
            std::fs::write(part.join("partition"), "1\n").expect("written");
            symlink(disk, sys.join(format!("7:{minor}"))).expect("a link");
            symlink(&part, sys.join(format!("259:{minor}"))).expect("a link");
        }
        // The first two are over the file; that of the third is gone.
        for (disk, told) in all.iter().zip([file.clone(), file.clone(), scratch.path("gone")]) {
            std::fs::create_dir(disk.join("loop")).expect("a folder");
            let told = format!("{}\n", told.display());
            std::fs::write(disk.join("loop/backing_file"), told).expect("written");
        }
        assert_eq!(loop_over(&file, &sys).as_deref().map(|at| &at[..9]), Some("/dev/loop"));
        assert_eq!(loop_over(&scratch.path("sys"), &sys), None);
        let is = std::fs::metadata(&file).expect("a file");
        let file = Storage::of(&is, &sys);
        let block = |number| Storage::within(Identity::Block(number), &sys);
        let (disk, part) = (|minor| block((7, minor)), |minor| block((259, minor)));
        assert!(part(0).is_partition() && part(3).is_partition());
        assert!(!disk(0).is_partition() && !disk(3).is_partition() && !file.is_partition());
        for (one, other, shared) in [
            (&file, &file, Some(Shared::All)),
            (&file, &disk(0), Some(Shared::ByLoop)),
            (&file, &part(0), Some(Shared::ByLoop)),
            (&disk(0), &disk(1), Some(Shared::ByLoop)),
            (&disk(0), &part(1), Some(Shared::ByLoop)),
            (&disk(0), &part(0), Some(Shared::Disk)),
            (&part(3), &disk(3), Some(Shared::Disk)),
            (&part(0), &part(0), Some(Shared::All)),
            (&file, &disk(2), None),
            (&file, &disk(3), None),
            (&disk(0), &disk(2), None),
        ] {
            assert_eq!(one.shares(other), shared, "{one:?} and {other:?}");
            assert_eq!(other.shares(one), shared, "{other:?} and {one:?}");
        }
    }
}
