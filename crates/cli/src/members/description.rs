//! The description of a log: which devices it has, and how it was made.
//!
//! ```toml
//! devices = ["/srv/a", "/dev/sdb"]
//! archive = "/srv/archive"   # may be left out
//! backing = "/srv/disk"      # the same: then it is a log without a volume
//! copies = 1
//! partitions = 1
//! hedging = true             # slow writes are written again on another device
//! latencies = ["stick.toml"] # may be left out: how long writes of the devices take, at first
//! ```
//!
//! 1. Paths that are relative are so to the folder of the description.
//! 2. `model:NAME:SIZE` is a model in memory; NAME may be the file of a preset, `FILE.toml`, and is
//!    a path then. Either all members are models, or none.
//! 3. `latencies` are presets as `tantalum log calibrate` writes them: one for all devices of the
//!    array, or one for each.

use super::devices::name_of;
use super::kind::no_description;
use super::model::{absolute, change_path, is_model, read_preset};
use crate::file_kind::Kind;
use crate::{file_kind, input};
use serde::de::{self, DeserializeOwned, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use tantalum_device::SampledModel;
use tantalum_lab::file::parse::{self, Fault};
use tantalum_log::{CreateOptions, Expects, OpenOptions, Role};

/// Why no device of a log with one copy can be replaced.
pub const ONE_COPY: &str = "the log has one copy of each record, and what a lost device had is \
                            gone: create the log anew, with --copies 2 for the next time";

/// What a description says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    #[serde(default = "one", deserialize_with = "copies")]
    pub copies: u8,
    /// Parts that each device of the array is divided into.
    #[serde(default = "one", deserialize_with = "partitions")]
    pub partitions: u16,
    /// Whether slow writes are written again on another device.
    #[serde(default = "yes")]
    pub hedging: bool,
    /// Presets that say how long writes of the devices take.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<PathBuf>,
    /// These presets, by the names of the devices.
    #[serde(skip)]
    pub tables: Vec<(String, SampledModel)>,
}

fn yes() -> bool {
    true
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

fn copies<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    from.deserialize_u64(Number { what: "the number 1 or 2", range: 1..=2 })
}

fn partitions<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    from.deserialize_u64(Number { what: "a number from 1 to 64", range: 1..=64 })
}

/// Reads a number in a range. What is wrong is said in these words.
struct Number<T> {
    what: &'static str,
    range: RangeInclusive<T>,
}

impl<T: TryFrom<u64> + PartialOrd> Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        let fits = T::try_from(number).ok().filter(|number| self.range.contains(number));
        fits.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }
}

/// Whether this is the path of a description, and not of an image.
pub fn is_description(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "toml")
}

/// The commands of descriptions: `log` or `cache`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// `tantalum log`.
    Log,
    /// `tantalum cache`.
    Cache,
}

impl Group {
    /// The name of the commands, and what is described.
    fn name(self) -> &'static str {
        match self {
            Group::Log => "log",
            Group::Cache => "cache",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Group::Log => Kind::Log,
            Group::Cache => Kind::Cache,
        }
    }

    /// What makes a description that is not there.
    pub fn makes_one(self, path: &Path) -> String {
        let arguments = match self {
            Group::Log => "--device PATH",
            Group::Cache => "--flash PATH --slow PATH",
        };
        let (group, name) = (self.name(), path.display());
        let end = if is_description(path) { "" } else { ".toml" };
        format!("`tantalum {group} create {name}{end} {arguments}` makes it")
    }
}

/// Reads a description of the commands of this group, and checks it.
///
/// # Errors
/// What is wrong with it, in a line.
pub fn read_text<T: DeserializeOwned>(
    path: &Path,
    of: Group,
    check: impl Fn(&T) -> Result<(), Fault>,
) -> Result<T, String> {
    let (name, group) = (path.display(), of.name());
    if let Some(what) = no_description(path) {
        return Err(format!(
            "\"{name}\" is {what}: name the description of the {group}, a file NAME.toml, which \
             `tantalum {group} create` writes"
        ));
    }
    let text = input::text("the description", path, of.makes_one(path))?;
    let told = |line: Option<usize>, what: String| match line {
        Some(line) => format!("{name}:{line}: {what}"),
        None => format!("{name}: {what}"),
    };
    let read = parse::read(&text)
        .map_err(|e| file_kind::told(of.kind(), &name.to_string(), &text, told(e.line, e.what)))?;
    check(&read).map_err(|fault| told(parse::line_of(&text, &fault.key), fault.what))?;
    Ok(read)
}

/// The path of a device, as the description at `path` names it.
pub fn usable_below(path: &Path, device: &Path) -> PathBuf {
    let folder = path.parent().unwrap_or(Path::new(""));
    change_path(device, |device| folder.join(device))
}

/// A description with a new device in the place of a lost one.
pub struct Replaced {
    /// The description.
    pub of: Description,
    /// The number of the device.
    pub index: usize,
    /// What is wrong unless the new device has its place already: the description names it, and not
    /// the lost one.
    pub unknown: Option<String>,
}

impl Description {
    /// Reads a description; its paths are usable from here.
    ///
    /// # Errors
    /// What is wrong with it, in a line.
    pub fn read(path: &Path) -> Result<Description, String> {
        let mut description = Description::without_tables(path)?;
        description.read_tables()?;
        Ok(description)
    }

    fn without_tables(path: &Path) -> Result<Description, String> {
        let mut description = read_text(path, Group::Log, Description::check)?;
        let Description { devices, archive, backing, latencies, .. } = &mut description;
        for member in devices.iter_mut().chain(archive).chain(backing).chain(latencies) {
            *member = usable_below(path, member);
        }
        Ok(description)
    }

    /// As [`Description::read`], of a log that is there while nobody serves it.
    ///
    /// # Errors
    /// The same, and that its members are models.
    pub fn lasting(path: &Path) -> Result<Description, String> {
        let mut description = Description::without_tables(path)?;
        description.check_lasting(path)?;
        description.read_tables()?;
        Ok(description)
    }

    /// As [`Description::lasting`], for those who only look at the log: what is wrong with a preset
    /// comes beside it, in a line.
    ///
    /// # Errors
    /// The same, but for presets.
    pub fn to_look_at(path: &Path) -> Result<(Description, Option<String>), String> {
        let mut description = Description::without_tables(path)?;
        description.check_lasting(path)?;
        let wrong = description.read_tables().err();
        let name = path.display();
        let wrong =
            wrong.map(|why| format!("{why}: mend it, or leave `latencies` out of \"{name}\""));
        Ok((description, wrong))
    }

    fn check_lasting(&self, path: &Path) -> Result<(), String> {
        match self.is_modelled() {
            false => Ok(()),
            true => Err(format!(
                "{}: its devices are models, which hold nothing but while they are served",
                path.display()
            )),
        }
    }

    /// Whether all is in memory.
    pub fn is_modelled(&self) -> bool {
        self.paths().all(|path| is_model(path))
    }

    /// # Errors
    /// That there is no device, that there are too few latencies, or that some members are models
    /// and others are not.
    pub fn check(&self) -> Result<(), Fault> {
        if self.devices.is_empty() {
            return Err(Fault::at(&["devices"], "`devices` has none: name the devices of the log"));
        }
        let (tables, devices) = (self.latencies.len(), self.devices.len());
        if tables > 1 && tables != devices {
            let why = format!(
                "`latencies` has {tables} presets: name one for all {devices} devices of the \
                 array, or one for each"
            );
            return Err(Fault::at(&["latencies"], why));
        }
        if !self.is_modelled() && self.paths().any(|path| is_model(path)) {
            let why = "models are in memory, as long as they are served: name models for the \
                       devices, the archive and the backing, or for none of them";
            return Err(Fault::at(&["devices"], why));
        }
        Ok(())
    }

    /// Reads the presets that `latencies` names.
    ///
    /// # Errors
    /// What is wrong with one, in a line.
    pub fn read_tables(&mut self) -> Result<(), String> {
        let presets = self.latencies.iter().map(|path| read_preset(path));
        let presets = presets.collect::<Result<Vec<_>, _>>()?;
        let of = |place: usize| presets.get(place).or(presets.first()).cloned();
        let devices = self.devices.iter().enumerate();
        let tables = devices.filter_map(|(i, path)| Some((name_of(path, i, self.paths()), of(i)?)));
        self.tables = tables.collect();
        Ok(())
    }

    /// The same with `new` in the place of a lost device. All paths are whole then, so that they mean
    /// the same wherever they are written.
    ///
    /// # Errors
    /// What does not fit, and what to do, in a line.
    pub fn replaced(&self, lost: &Path, new: &Path) -> Result<Replaced, String> {
        let mut of = self.clone();
        let Description { devices, archive, backing, latencies, .. } = &mut of;
        for path in devices.iter_mut().chain(archive.as_mut()).chain(backing).chain(latencies) {
            *path = absolute(path);
        }
        let all = || devices.iter().chain(archive.as_ref());
        let Some(index) = all().position(|path| path == lost) else {
            let known: Vec<_> = all().map(|path| format!("\"{}\"", path.display())).collect();
            let (lost, known) = (lost.display(), known.join(", "));
            let unknown = format!("the log has no device \"{lost}\": it has {known}");
            return match all().position(|path| path == new) {
                Some(index) => Ok(Replaced { of, index, unknown: Some(unknown) }),
                None => Err(unknown),
            };
        };
        match of.devices.get_mut(index) {
            Some(device) => *device = new.to_path_buf(),
            None => {
                of.archive = None;
                of.devices.push(new.to_path_buf());
                if of.latencies.len() > 1 {
                    of.latencies.clear(); // Nothing is known of the new one.
                }
            }
        }
        of.check().map_err(|fault| fault.what)?;
        Ok(Replaced { of, index, unknown: None })
    }

    /// The text of a description.
    ///
    /// # Errors
    /// A path that is no text, in a line.
    pub fn text(&self) -> Result<String, String> {
        let table = toml::to_string(self).map_err(|e| format!("a path is no text: {e}"))?;
        Ok(format!("# A flash log: see `tantalum log --help`.\n{table}"))
    }

    /// How its log is made.
    pub fn options(&self) -> CreateOptions {
        let (copies, partitions) = (self.copies, self.partitions);
        CreateOptions { copies, partitions, ..CreateOptions::default() }
    }

    /// How its log is opened. One that was made otherwise than the description says is refused.
    pub fn open_options(&self) -> OpenOptions {
        let mut options = OpenOptions::default();
        options.hedge.enabled = self.hedging;
        options.latencies = self.tables.clone();
        let (copies, partitions) = (Some(self.copies), Some(self.partitions));
        let array = self.devices.iter().map(|path| (path, Role::Array));
        let all = array.chain(self.archive.iter().map(|path| (path, Role::Archive)));
        let roles: Vec<_> = all
            .enumerate()
            .map(|(place, (path, role))| (name_of(path, place, self.paths()), role))
            .collect();
        options.names = roles.iter().map(|(name, _)| name.clone()).collect();
        options.expects = Expects { copies, partitions, roles };
        options
    }

    /// All paths, each with what it is.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> + Clone {
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
            hedging: false,
            latencies: vec!["/stick.toml".into()],
            tables: Vec::new(),
        };
        let text = description.text().expect("text");
        assert_eq!(parse::read(&text), Ok(description));
    }

    #[test]
    fn in_the_place_of_an_archive_comes_a_device_like_the_others() {
        let of = Description {
            devices: vec!["/a".into(), "/b".into()],
            archive: Some("/c".into()),
            backing: None,
            copies: 2,
            partitions: 1,
            hedging: true,
            latencies: ["/1", "/2"].map(PathBuf::from).into(),
            tables: Vec::new(),
        };
        let replaced = |of: &Description, lost| of.replaced(Path::new(lost), Path::new("/d"));
        let first = replaced(&of, "/a").expect("it is there");
        assert_eq!((&first.of.devices, first.index), (&vec!["/d".into(), "/b".into()], 0));
        assert_eq!((first.unknown, first.of.latencies.len()), (None, 2));
        let third = replaced(&of, "/c").expect("it is there");
        assert_eq!((third.of.devices.len(), &third.of.archive, third.index), (3, &None, 2));
        assert!(third.of.latencies.is_empty(), "nothing is known of the new one");
        assert!(
            replaced(&of, "/x").err().is_some_and(|why| why.contains("\"/a\", \"/b\", \"/c\""))
        );
        // It may be that this was done before.
        let again = replaced(&first.of, "/a").expect("/d is there");
        assert_eq!((&again.of, again.index), (&first.of, 0));
        assert!(again.unknown.is_some_and(|why| why.contains("no device \"/a\"")));
    }

    /// Once a path was written as it was read, and meant another file in another folder.
    #[test]
    fn the_paths_of_a_log_with_another_device_are_whole() {
        let of = Description {
            devices: vec!["x/a".into(), "x/b".into()],
            archive: None,
            backing: Some("x/disk".into()),
            copies: 2,
            partitions: 1,
            hedging: true,
            latencies: vec!["x/stick.toml".into()],
            tables: Vec::new(),
        };
        let lost = absolute(Path::new("x/b"));
        let now = of.replaced(&lost, Path::new("/d")).expect("it is there").of;
        assert!(now.paths().chain(&now.latencies).all(|path| path.is_absolute()), "{now:?}");
        assert!(now.devices[0].ends_with("x/a") && now.devices[1] == Path::new("/d"));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
        let wrong = parse::read::<Description>("devices = []\nbakcing = \"x\"\n");
        let wrong = wrong.expect_err("a wrong key");
        assert_eq!(wrong.line, Some(2));
        assert_eq!(wrong.what, "unknown key \"bakcing\"; did you mean \"backing\"?");
    }
    /// Once it was said that a u8 was expected.
    #[test]
    fn a_wrong_number_is_told_in_words() {
        for (line, told) in [
            ("copies = \"2\"", "copies: invalid type: text \"2\", expected the number 1 or 2"),
            ("copies = 3", "copies: invalid value: whole number `3`, expected the number 1 or 2"),
            ("copies = -1", "copies: invalid value: whole number `-1`, expected the number 1 or 2"),
            (
                "partitions = 0",
                "partitions: invalid value: whole number `0`, expected a number from 1 to 64",
            ),
        ] {
            let wrong = parse::read::<Description>(&format!("devices = [\"a\"]\n{line}\n"));
            let wrong = wrong.expect_err("a wrong number");
            assert_eq!((wrong.line, &*wrong.what), (Some(2), told));
        }
    }
}
