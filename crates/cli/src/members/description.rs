//! The description of a log: which devices it has, and how it was made.
//!
//! ```toml
//! devices = ["/srv/a", "/dev/sdb"]
//! archive = "/srv/archive"   # may be left out
//! backing = "/srv/disk"      # the same: then it is a log without a volume
//! copies = 1
//! partitions = 1
//! ```
//!
//! 1. Paths that are relative are so to the folder of the description.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tantalum_lab::file::parse;

/// What a description says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The devices of the array.
    pub devices: Vec<PathBuf>,
    /// The archive, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive: Option<PathBuf>,
    /// The backing of the volume, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<PathBuf>,
    /// Copies of each record.
    #[serde(default = "one")]
    pub copies: u8,
    /// Parts that each device of the array is divided into.
    #[serde(default = "one")]
    pub partitions: u16,
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

/// Whether this is the path of a description, and not of an image.
pub fn is_description(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "toml")
}

impl Description {
    /// Reads a description; its paths are usable from here.
    ///
    /// # Errors
    /// What is wrong with it, in a line.
    #[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
    pub fn read(path: &Path) -> Result<Description, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| {
            format!("cannot read {name}: {e}: `tantalum log create {name} --device PATH` makes it")
        })?;
        let mut description = Description::parse(&text).map_err(|e| match e.line {
            Some(line) => format!("{name}:{line}: {}", e.what),
            None => format!("{name}: {}", e.what),
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let Description { devices, archive, backing, .. } = &mut description;
        for path in devices.iter_mut().chain(archive).chain(backing) {
            *path = folder.join(&path);
        }
        Ok(description)
    }

    fn parse(text: &str) -> Result<Description, parse::Wrong> {
        parse::read(text)
    }

    /// The text of a description.
    ///
    /// # Errors
    /// A path that is no text, in a line.
    pub fn text(&self) -> Result<String, String> {
        let table = toml::to_string(self).map_err(|e| format!("a path is no text: {e}"))?;
        Ok(format!("# A flash log: see `tantalum log --help`.\n{table}"))
    }

    /// All paths, each with what it is.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.devices.iter().chain(&self.archive).chain(&self.backing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let description = Description {
            devices: vec!["/a".into(), "/b".into()],
            archive: None,
            backing: Some("/disk".into()),
            copies: 2,
            partitions: 1,
        };
        let text = description.text().expect("text");
        assert_eq!(Description::parse(&text), Ok(description));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
        let wrong = Description::parse("devices = []\nbakcing = \"x\"\n").expect_err("a wrong key");
        assert_eq!(wrong.line, Some(2));
        assert_eq!(wrong.what, "unknown key \"bakcing\"; did you mean \"backing\"?");
    }
}
