//! Which disk a block device is on, as the kernel says.

use std::path::Path;

/// The number of a block device: major, minor.
pub type Number = (u32, u32);

/// The disk that this partition is a part of; `None`: it is no partition. `sys` is `/sys/dev/block`.
#[allow(clippy::disallowed_methods, reason = "the edge: what the kernel says of its devices")]
pub fn disk_of(sys: &Path, (major, minor): Number) -> Option<Number> {
    // It is a link to the folder of the device, and that of a partition lies in that of its disk.
    let folder = std::fs::canonicalize(sys.join(format!("{major}:{minor}"))).ok()?;
    if !folder.join("partition").exists() {
        return None;
    }
    let number = std::fs::read_to_string(folder.parent()?.join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
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
}
