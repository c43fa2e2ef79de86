//! The description of a cache volume: its flash device, its slow device, and how it is used.
//!
//! ```toml
//! flash = "/srv/flash"
//! slow = "/dev/sdb"
//! page_bytes = 4096
//! batch_pages = 64     # pages that one write of the flash device has room for
//! mode = "back"        # or "through"
//! policy = "gsc"       # or "mvfifo"
//! label = "begin"      # or "end": the slow device had data, which stay where they are
//! clean = "read"       # or "exit": clean pages enter only when an ioctl tells that they left memory
//! scan = 32            # may be left out: clean pages of longer runs of pages do not enter
//! admit = "dirty"      # may be left out: clean pages do not enter
//! ghosts = true        # may be left out: tell what twice the size would gain
//! ```
//!
//! Paths are as in the description of a log. Mode, policy, `clean`, `scan`, `admit` and `ghosts` may be
//! changed while it is not served.

use super::description::{Group, read_text, usable_below};
use super::devices::{Members, no_device, open_all};
use super::kind::no_description;
use super::member::Member;
use super::model::is_model;
use crate::file_kind;
use crate::random::random;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use tantalum_cache::flash::{
    self, DeviceStore, FormatOptions, Mode, OpenError, OpenOptions, Replacement, page_sizes,
};
use tantalum_cache::volume::{BATCH_PAGES, CacheVolume, CleanEntry, VolumeOptions};
use tantalum_device::BlockDevice;
use tantalum_lab::file::parse::Fault;
use tantalum_nand::Opening;
use tantalum_rt::{Rt, Runtime};

/// The cache volume over two members.
pub type Volume = CacheVolume<Member, Member>;

/// When dirty pages reach the slow device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// When they leave flash: the slow device is incomplete without it
    Back,
    /// With the next flush: the loss of the flash device loses nothing that was flushed
    Through,
}

impl From<Sync> for Mode {
    fn from(sync: Sync) -> Mode {
        match sync {
            Sync::Back => Mode::Back,
            Sync::Through => Mode::Through,
        }
    }
}

/// What leaves the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The oldest pages, but not those that were read since they entered
    Gsc,
    /// The oldest pages
    Mvfifo,
}

/// Where the slow device has its label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelPlace {
    /// Before the pages: nobody takes the device for the volume.
    #[default]
    Begin,
    /// Behind the pages: what was on the device is where it was.
    End,
}

/// When a page that the slow device has enters the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Clean {
    /// When it is read
    #[default]
    Read,
    /// When a program tells that it has left its memory, by an ioctl on the mounted file
    Exit,
}

impl From<Clean> for CleanEntry {
    fn from(clean: Clean) -> CleanEntry {
        match clean {
            Clean::Read => CleanEntry::OnRead,
            Clean::Exit => CleanEntry::OnExit,
        }
    }
}

/// Which pages enter the cache.
///
/// (A volume cannot let clean ones alone enter: it writes each page whole or not at all.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Admit {
    /// Pages that are written, and pages that are read
    #[default]
    Mixed,
    /// Pages that are written
    Dirty,
}

impl Admit {
    fn is_mixed(&self) -> bool {
        *self == Admit::Mixed
    }
}

impl From<Admit> for flash::Admit {
    fn from(admit: Admit) -> flash::Admit {
        match admit {
            Admit::Mixed => flash::Admit::Mixed,
            Admit::Dirty => flash::Admit::Dirty,
        }
    }
}

/// What a description says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheDescription {
    /// The flash device.
    pub flash: PathBuf,
    /// The slow device.
    pub slow: PathBuf,
    /// Bytes of a page.
    #[serde(default = "usual_page")]
    pub page_bytes: u32,
    /// Pages of a batch, of a cache that is made: one write of the flash device has them.
    #[serde(default = "usual_batch")]
    pub batch_pages: u32,
    /// When dirty pages reach the slow device.
    #[serde(default = "back")]
    pub mode: Sync,
    /// What leaves the cache.
    #[serde(default = "gsc")]
    pub policy: Policy,
    /// Where the slow device has its label.
    #[serde(default)]
    pub label: LabelPlace,
    /// When clean pages enter.
    #[serde(default)]
    pub clean: Clean,
    /// Clean pages of a run of consecutive pages do not enter after so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<u32>,
    /// Which pages enter.
    #[serde(default, skip_serializing_if = "Admit::is_mixed")]
    pub admit: Admit,
    /// Whether it tells what twice its size would gain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ghosts: bool,
}

fn usual_page() -> u32 {
    4096
}

/// Pages of a batch, unless the user says otherwise.
pub fn usual_batch() -> u32 {
    VolumeOptions::default().format.frames
}

fn back() -> Sync {
    Sync::Back
}

fn gsc() -> Policy {
    Policy::Gsc
}

/// Whether this file describes a cache volume, and not a log.
pub fn is_cache(path: &Path) -> bool {
    keys(path).is_some_and(|keys| file_kind::describes_cache(&keys))
}

/// Whether this file describes a log, and not a cache volume.
pub fn is_log(path: &Path) -> bool {
    keys(path).is_some_and(|keys| keys.contains_key("devices"))
}

/// What is wrong with this file if it describes neither a log nor a cache, in a line.
pub fn describes_nothing(path: &Path) -> Option<String> {
    let what = match no_description(path) {
        Some(what) => what,
        None => keys(path).is_some_and(|keys| keys.is_empty()).then(|| "empty".to_string())?,
    };
    Some(format!(
        "\"{}\" is {what}: name the description of a log or a cache, a file NAME.toml, which \
         `tantalum log create` and `tantalum cache create` write",
        path.display()
    ))
}

/// The keys of a description, if it has any.
#[allow(clippy::disallowed_methods, reason = "the edge: the file that the user names")]
fn keys(path: &Path) -> Option<toml::Table> {
    std::fs::read_to_string(path).ok()?.parse().ok()
}

impl CacheDescription {
    /// Reads a description; its paths are usable from here.
    ///
    /// # Errors
    /// What is wrong with it, in a line.
    pub fn read(path: &Path) -> Result<CacheDescription, String> {
        let mut description = read_text(path, Group::Cache, CacheDescription::check)?;
        for member in [&mut description.flash, &mut description.slow] {
            *member = usable_below(path, member);
        }
        Ok(description)
    }

    /// As [`CacheDescription::read`], of a cache that is there while nobody serves it.
    ///
    /// # Errors
    /// The same, and that its devices are models.
    pub fn lasting(path: &Path) -> Result<CacheDescription, String> {
        let description = CacheDescription::read(path)?;
        match description.is_modelled() {
            false => Ok(description),
            true => Err(format!(
                "{}: its devices are models, which hold nothing but while they are served",
                path.display()
            )),
        }
    }

    /// Whether all is in memory.
    pub fn is_modelled(&self) -> bool {
        is_model(&self.flash) && is_model(&self.slow)
    }

    /// # Errors
    /// That a number is out of its range, or that one device is a model and the other is not.
    pub fn check(&self) -> Result<(), Fault> {
        if !page_sizes().any(|size| size == self.page_bytes) {
            let why = format!(
                "page_bytes = {}: give a power of two from 512 to 1048576, {} is usual",
                self.page_bytes,
                usual_page()
            );
            return Err(Fault::at(&["page_bytes"], why));
        }
        if !BATCH_PAGES.contains(&self.batch_pages) {
            let why = format!(
                "batch_pages = {}: give {} to {}, {} is usual",
                self.batch_pages,
                BATCH_PAGES.start(),
                BATCH_PAGES.end(),
                usual_batch()
            );
            return Err(Fault::at(&["batch_pages"], why));
        }
        if self.scan == Some(0) {
            let why = "scan = 0 would keep out every clean page: leave it out, or give the pages \
                       after which a run is a scan";
            return Err(Fault::at(&["scan"], why));
        }
        if is_model(&self.flash) != is_model(&self.slow) {
            let why = "models are in memory, as long as they are served: name models for both \
                       devices, or for none of them";
            return Err(Fault::at(&["flash"], why));
        }
        Ok(())
    }

    /// Its slow store on this device.
    ///
    /// # Errors
    /// That the device does not suit.
    pub fn store<D: BlockDevice>(&self, slow: D) -> Result<DeviceStore<D>, OpenError> {
        match self.label {
            LabelPlace::Begin => DeviceStore::new(slow, self.page_bytes),
            LabelPlace::End => DeviceStore::adopting(slow, self.page_bytes),
        }
    }

    /// An error of this cache in the words of the command line, with the paths of the devices.
    pub fn told(&self, error: impl Display) -> String {
        let text = cache_in_words(error);
        let text = named(text, &["the flash device"], &self.flash);
        named(text, &["the slow store", "the slow device"], &self.slow)
    }

    /// That its cache was given up: the volume begins at this byte of the slow device.
    pub fn has_everything(&self, first_byte: u64) -> String {
        format!("\"{}\" has everything, from its byte {first_byte} on", self.slow.display())
    }

    /// The text of a description.
    ///
    /// # Errors
    /// A path that is no text, in a line.
    pub fn text(&self) -> Result<String, String> {
        let table = toml::to_string(self).map_err(|e| format!("a path is no text: {e}"))?;
        Ok(format!("# A flash cache: see `tantalum cache --help`.\n{table}"))
    }

    /// How its volume is made and used.
    ///
    /// # Errors
    /// That there are no random numbers, in a line.
    pub fn options(&self) -> Result<VolumeOptions, String> {
        let identity = random().map_err(|e| format!("no identity for a cache: {e}"))?;
        let replacement = match self.policy {
            Policy::Gsc => Replacement::SecondChance,
            Policy::Mvfifo => Replacement::Basic,
        };
        let usual = VolumeOptions::default();
        Ok(VolumeOptions {
            format: FormatOptions {
                page: self.page_bytes,
                frames: self.batch_pages,
                mode: self.mode.into(),
                identity: Some(identity),
                ..usual.format
            },
            cache: OpenOptions {
                replacement,
                admit: self.admit.into(),
                scan: self.scan,
                ghosts: self.ghosts,
                ..usual.cache
            },
            adopts: self.label == LabelPlace::End,
            clean: self.clean.into(),
        })
    }
}

/// What is wrong with a description, in the words of the options from which it was made.
pub fn of_options(fault: Fault) -> String {
    fault.what.replace("page_bytes =", "--page").replace("batch_pages =", "--batch")
}

/// The devices of a cache, opened.
pub struct CacheDevices {
    /// The flash device.
    pub flash: Member,
    /// The slow device.
    pub slow: Member,
}

impl CacheDevices {
    /// Opens the devices of a description, as [`open_all`] says. Drives have no power yet.
    ///
    /// # Errors
    /// Which device cannot be used, why, and what to do, in a line.
    pub fn open(rt: &Rt, of: &CacheDescription, opening: Opening) -> Result<CacheDevices, String> {
        let opened = open_all(rt, [&of.flash, &of.slow].into_iter(), opening)?;
        let [(_, flash), (_, slow)] = <[_; 2]>::try_from(opened).map_err(|_| "two devices")?;
        Ok(CacheDevices { flash, slow })
    }

    /// The same of a cache that has been made.
    ///
    /// # Errors
    /// The same. A flash device that is not there is told with what to do in the cache's mode.
    pub fn made(rt: &Rt, of: &CacheDescription, opening: Opening) -> Result<CacheDevices, String> {
        if let Some(why) = no_device(&of.flash) {
            let what = match of.mode {
                Sync::Back => "bring it back: it may have the newest versions of pages",
                Sync::Through => {
                    "if it was lost put a blank one of its size there, and `tantalum cache serve` goes on \
                     with a new cache"
                }
            };
            return Err(format!("the flash device \"{}\" {why}: {what}", of.flash.display()));
        }
        CacheDevices::open(rt, of, opening)
    }

    /// Both, for their power.
    pub fn members(&self) -> Members {
        Members::of(vec![self.flash.clone(), self.slow.clone()])
    }

    /// The volume over them, without power.
    ///
    /// # Errors
    /// Why there can be none, in a line.
    pub fn volume(&self, rt: &Rt, of: &CacheDescription) -> Result<Volume, String> {
        let (flash, slow) = (self.flash.clone(), self.slow.clone());
        CacheVolume::new(rt, flash, slow, of.options()?).map_err(|e| of.told(e))
    }
}

/// The volume of a description, without power, and its members. On models it is new.
///
/// # Errors
/// What is wrong, in a line.
pub fn cache_volume(
    runtime: &mut Runtime,
    path: &Path,
    opening: Opening,
) -> Result<(Volume, Members), String> {
    let (rt, description) = (runtime.handle(), CacheDescription::read(path)?);
    let devices = CacheDevices::made(&rt, &description, opening)?;
    let (members, volume) = (devices.members(), devices.volume(&rt, &description)?);
    if !description.is_modelled() {
        return Ok((volume, members));
    }
    let made = volume.clone();
    let format = async move {
        members.power_on().await?;
        made.format(false).await.map_err(|e| description.told(e))?;
        members.end().await?;
        Ok::<Members, String>(members)
    };
    let members = runtime.block_on(format).map_err(|e| format!("the cache has stalled: {e}"))??;
    Ok((volume, members))
}

/// What the library says, and what the command says.
const WORDS: [(&str, &str); 11] = [
    ("or format it", "or make one with `tantalum cache create`"),
    (
        "may refuse pages: use another",
        "may refuse pages: use another, or give a file its room with `fallocate -l SIZE FILE`",
    ),
    ("use `force` to destroy that", "use --force to destroy that"),
    ("open it with the label at its beginning", "set label = \"begin\" in its description"),
    ("open it with the label at its end", "set label = \"end\" in its description"),
    (
        "no space left on the device: discard blocks that are not needed",
        "the host has no room for its file",
    ),
    ("format the cache anew to use one again", "`tantalum cache create --force` makes a new one"),
    ("open it with pages of", "set page_bytes in its description to"),
    ("or format the cache and lose", "or create the cache with --force and lose"),
    ("restore the page from its log, and evict or forget it", "write it again, or discard it"),
    ("or forget the page", "or discard the page"),
];

/// A text that calls a device by one of these words, with its path behind the first of them. "The
/// flash device of its cache" may be another one.
fn named(mut text: String, words: &[&str], path: &Path) -> String {
    let path = format!(" \"{}\"", path.display());
    let ends = |word: &&str| {
        let mut at = text.match_indices(*word).map(|(at, word)| at + word.len());
        at.find(|end| !text[*end..].starts_with(" of its"))
    };
    if let Some(end) = words.iter().find_map(ends).filter(|end| !text[*end..].starts_with(&path)) {
        text.insert_str(end, &path);
    }
    text
}

/// An error of the cache that is described at this path.
pub fn cache_told(path: &Path, error: impl Display) -> String {
    match CacheDescription::read(path) {
        Ok(description) => description.told(error),
        Err(_) => cache_in_words(error),
    }
}

/// An error of a cache in the words of the command line.
pub fn cache_in_words(error: impl Display) -> String {
    let text = error.to_string();
    WORDS.iter().fold(text, |text, (of_library, of_command)| text.replace(of_library, of_command))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_cache::flash::{CacheError, LabelEnd};
    use tantalum_device::IoError;

    #[test]
    fn what_is_written_is_read() {
        let description = CacheDescription {
            flash: "/a".into(),
            slow: "/b".into(),
            page_bytes: 8192,
            batch_pages: 16,
            mode: Sync::Through,
            policy: Policy::Mvfifo,
            label: LabelPlace::End,
            clean: Clean::Exit,
            scan: Some(32),
            admit: Admit::Dirty,
            ghosts: true,
        };
        let text = description.text().expect("text");
        assert_eq!(toml::from_str(&text), Ok(description.clone()));
        let usual =
            CacheDescription { scan: None, admit: Admit::Mixed, ghosts: false, ..description };
        let text = usual.text().expect("text");
        assert!(!["scan", "admit", "ghosts"].iter().any(|key| text.contains(key)), "{text}");
        assert_eq!(toml::from_str(&text), Ok(usual));
    }

    #[test]
    fn each_error_that_names_an_option_names_that_of_the_command() {
        let said = [
            OpenError::NotBlank { device: "the flash device", what: "data" }.to_string(),
            OpenError::Damaged { batch: 1, at: 2 }.to_string(),
            OpenError::NoCache.to_string(),
            OpenError::LabelElsewhere { is: LabelEnd::Beginning }.to_string(),
            OpenError::LabelElsewhere { is: LabelEnd::End }.to_string(),
            OpenError::GivenUp.to_string(),
            CacheError::Flash(IoError::NoSpace).to_string(),
            CacheError::Damaged { page: 1, lsn: 2 }.to_string(),
        ];
        for text in said {
            let told = cache_in_words(&text);
            assert!(told != text && !told.contains("`force`"), "{told}");
        }
    }

    #[test]
    fn errors_name_the_paths_of_their_devices() {
        let text = "flash = \"/fast\"\nslow = \"/disk\"\n";
        let description: CacheDescription = toml::from_str(text).expect("a description");
        for (error, told) in [
            (OpenError::NoCache, "the flash device \"/fast\" holds no cache"),
            (
                OpenError::NeedsCache,
                "the slow store \"/disk\" lacks dirty pages that are on the flash device of",
            ),
            (
                OpenError::OtherStore,
                "the flash device \"/fast\" and the slow store \"/disk\" belong to",
            ),
            (
                OpenError::LabelElsewhere { is: LabelEnd::End },
                "the slow store \"/disk\" has the label of this cache at its end",
            ),
            (OpenError::TooSmall { was: 2, is: 1 }, "the flash device \"/fast\" has 1 bytes"),
        ] {
            let text = description.told(error);
            assert!(text.starts_with(told), "{text}");
            assert_eq!(description.told(&text), text, "once is enough");
        }
    }
}
