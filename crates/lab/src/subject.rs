//! What a row's `design` names: an SSD, a magnetic disk, or several of one kind striped
//! as a RAID-0; and the box that is made of it.
//!
//! 1. A name is a preset's or one of the file's own; a file's own hides no preset
//!    silently: it is what the file says.
//! 2. `[drive]` changes SSDs and `[disk]` disks, also those that are members of an array.

use crate::file::entry::merge;
use crate::file::experiment::Scene;
use crate::file::parse;
use crate::report::figures::Counts;
use crate::run::row::{RowBox, Traffic};
use serde::{Deserialize, Serialize};
use tantalum_device::{Disk, DiskModel, Payload, RaidBox};
use tantalum_drive::{Design, Drive};
use tantalum_explore::AnyBox;
use tantalum_rt::Rt;

const DISKS: [(&str, &str); 1] = [("disk-15k", include_str!("../../device/presets/disk-15k.toml"))];

/// Bytes in a block of every model.
pub const BLOCK_BYTES: u32 = 4096;

/// What a device consists of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Model {
    /// A software SSD.
    Ssd(Box<Design>),
    /// A magnetic disk.
    Disk(DiskModel),
    /// Members of one kind, striped.
    Raid0 {
        /// What each of them is: no array.
        member: Box<Model>,
        /// The stripes.
        stripes: Stripes,
    },
}

/// How an array is striped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stripes {
    /// The design of its members.
    pub of: String,
    /// How many there are.
    pub members: u32,
    /// KiB of a chunk.
    pub chunk_kib: u64,
}

/// The names of all presets, SSDs first.
pub fn presets() -> impl Iterator<Item = &'static str> {
    Design::presets().iter().copied().chain(DISKS.iter().map(|d| d.0))
}

/// The text of a preset, comments included.
///
/// # Errors
/// In a line, with the nearest name there is.
pub fn preset_text(name: &str) -> Result<&'static str, String> {
    let disk = DISKS.iter().find(|d| d.0 == name).map(|d| d.1);
    let text = disk.or_else(|| Design::preset_text(name).ok());
    text.ok_or_else(|| parse::unknown("unknown design", name, presets()))
}

/// A preset as TOML with every key, also those that its text leaves to their defaults: a
/// design that can be given back.
///
/// # Errors
/// In a line, with the nearest name there is.
pub fn preset_toml(name: &str) -> Result<String, String> {
    let text = preset_text(name)?;
    if let Ok(design) = Design::preset(name) {
        return Ok(design.to_toml());
    }
    let disk: DiskModel = parse::read(text).map_err(|w| w.what)?;
    toml::to_string(&disk).map_err(|e| e.to_string())
}

/// A preset that is a magnetic disk.
///
/// # Errors
/// In a line: it is an SSD, or there is none, with the nearest name there is.
pub fn disk_preset(name: &str) -> Result<DiskModel, String> {
    let Some((_, text)) = DISKS.iter().find(|d| d.0 == name) else {
        if Design::preset(name).is_ok() {
            return Err(format!("\"{name}\" is an SSD: name a magnetic disk"));
        }
        return Err(parse::unknown("unknown disk", name, DISKS.iter().map(|d| d.0)));
    };
    parse::read(text).map_err(|w| w.what)
}

/// A preset that is an SSD.
///
/// # Errors
/// In a line: it is a disk, or there is none, with the nearest name there is.
pub fn ssd_preset(name: &str) -> Result<Design, String> {
    if DISKS.iter().any(|d| d.0 == name) {
        return Err(format!("\"{name}\" is a magnetic disk, without flash: name an SSD"));
    }
    let ssds = presets().filter(|p| DISKS.iter().all(|d| d.0 != *p));
    Design::preset(name).map_err(|_| parse::unknown("unknown design", name, ssds))
}

impl Model {
    /// The model of this name in a scene, with the scene's changes.
    ///
    /// # Errors
    /// In a line: there is none, or it cannot be built.
    pub fn of(name: &str, scene: &Scene) -> Result<Model, String> {
        Model::named(name, scene, true)
    }

    fn named(name: &str, scene: &Scene, array: bool) -> Result<Model, String> {
        let Some(own) = scene.design.get(name) else { return Model::preset(name, scene) };
        let mut table = on_bases(name, own, scene)?;
        if let Some(stripes) = table.remove("raid0") {
            if !array {
                return Err(format!("design \"{name}\" is an array: arrays have no arrays"));
            }
            let stripes: Stripes =
                stripes.try_into().map_err(|e| parse::told(&format!("design \"{name}\""), &e))?;
            if !table.is_empty() {
                let what = "an array has no keys of its own: change its members";
                return Err(format!("design \"{name}\": {what}"));
            }
            if !(1..=64).contains(&stripes.members) || !(4..=65536).contains(&stripes.chunk_kib) {
                let what = "raid0 has 1 to 64 members and chunks of 4 to 65536 KiB";
                return Err(format!("design \"{name}\": {what}"));
            }
            let member = Box::new(Model::named(&stripes.of, scene, false)?);
            return Ok(Model::Raid0 { member, stripes });
        }
        let base = table.remove("base");
        let base = base.as_ref().map(|b| b.as_str().unwrap_or_default());
        let is_disk = match base {
            Some(base) => DISKS.iter().any(|d| d.0 == base),
            None => table.contains_key("rpm"),
        };
        if is_disk {
            let mut whole = match base {
                Some(base) => parse::read(preset_text(base)?).map_err(|w| w.what)?,
                None => toml::Table::new(),
            };
            whole.extend(table);
            return disk(name, whole, scene);
        }
        table.entry("name").or_insert_with(|| name.into());
        let design = match base {
            None => Design::from_toml(&table.to_string()).map_err(|e| e.to_string())?,
            Some(base) => {
                let preset = Design::preset(base).map_err(|_| {
                    format!("design \"{name}\": {}", unknown("there is no design", base, scene))
                })?;
                // In one go: what is checked is what is built.
                merge(&mut table, &scene.drive);
                preset.with_overrides(&table).map_err(|e| e.to_string())?
            }
        };
        ssd(design, scene)
    }

    fn preset(name: &str, scene: &Scene) -> Result<Model, String> {
        if let Some((_, text)) = DISKS.iter().find(|d| d.0 == name) {
            return disk(name, parse::read(text).map_err(|w| w.what)?, scene);
        }
        let design = Design::preset(name).map_err(|_| unknown("unknown design", name, scene))?;
        ssd(design, scene)
    }

    /// The SSD that it is, or that its members are.
    pub fn ssd(&self) -> Option<&Design> {
        match self {
            Model::Ssd(design) => Some(design),
            Model::Disk(_) => None,
            Model::Raid0 { member, .. } => member.ssd(),
        }
    }

    /// The magnetic disk that it is, or that its members are.
    pub fn disk(&self) -> Option<&DiskModel> {
        match self {
            Model::Ssd(_) => None,
            Model::Disk(model) => Some(model),
            Model::Raid0 { member, .. } => member.disk(),
        }
    }

    /// How many of that there are.
    pub fn members(&self) -> u32 {
        match self {
            Model::Raid0 { stripes, .. } => stripes.members,
            _ => 1,
        }
    }

    /// The box, blank and without power.
    ///
    /// # Errors
    /// That it cannot be built, in a line.
    pub fn build(&self, rt: &Rt, payload: Payload) -> Result<AnyBox, String> {
        Ok(match self {
            Model::Ssd(design) => AnyBox::Ssd(drive(rt, design, payload)?),
            Model::Disk(model) => AnyBox::Disk(Disk::new(rt, model, payload)?),
            Model::Raid0 { member, stripes } => {
                let (n, chunk) = (0..stripes.members, stripes.chunk_kib / 4);
                match &**member {
                    Model::Ssd(design) => {
                        let members: Result<_, String> =
                            n.map(|_| drive(rt, design, payload)).collect();
                        AnyBox::Ssds(RaidBox::new(members?, chunk)?)
                    }
                    Model::Disk(model) => {
                        let members: Result<_, String> =
                            n.map(|_| Disk::new(rt, model, payload)).collect();
                        AnyBox::Disks(RaidBox::new(members?, chunk)?)
                    }
                    Model::Raid0 { .. } => return Err("arrays have no arrays".into()),
                }
            }
        })
    }
}

fn unknown(told: &str, name: &str, scene: &Scene) -> String {
    let mut known: Vec<&str> = presets().collect();
    known.extend(scene.design.keys().map(String::as_str));
    parse::unknown(told, name, known.into_iter())
}

/// A design of the file with all that it takes from the designs of the file below it: its
/// base, if it still has one, is a preset. (A preset's name always means the preset.)
fn on_bases(name: &str, own: &toml::Table, scene: &Scene) -> Result<toml::Table, String> {
    let told = |what: String| Err(format!("design \"{name}\": {what}"));
    let (mut table, mut way) = (own.clone(), vec![name]);
    while let Some(base) = table.get("base") {
        let Some(base) = base.as_str() else {
            return told("`base` must be the name of a design".into());
        };
        if presets().any(|preset| preset == base) {
            break;
        }
        let Some((base, under)) = scene.design.get_key_value(base) else {
            return told(unknown("there is no design", base, scene));
        };
        way.push(base);
        if way[..way.len() - 1].contains(&base.as_str()) {
            return told(format!("its bases go in a circle: {}", way.join(" on ")));
        }
        if under.contains_key("raid0") {
            return told(format!("its base \"{base}\" is an array: change the array's members"));
        }
        let mut under = under.clone();
        under.remove("name");
        table.remove("base");
        merge(&mut under, &table);
        table = under;
    }
    Ok(table)
}

fn drive(rt: &Rt, design: &Design, payload: Payload) -> Result<Drive, String> {
    Drive::new(rt, design, payload).map_err(|e| e.to_string())
}

fn ssd(design: Design, scene: &Scene) -> Result<Model, String> {
    let design = design.with_overrides(&scene.drive).map_err(|e| e.to_string())?;
    Ok(Model::Ssd(Box::new(design)))
}

fn disk(name: &str, mut table: toml::Table, scene: &Scene) -> Result<Model, String> {
    table.extend(scene.disk.clone());
    let told = |what: String| format!("design \"{name}\": {what}");
    let model: DiskModel = parse::read_table(table).map_err(|w| told(w.what))?;
    model.check().map_err(told)?;
    if model.block_bytes != BLOCK_BYTES {
        return Err(told(format!(
            "disk: rows of experiments work in blocks of {BLOCK_BYTES} bytes"
        )));
    }
    Ok(Model::Disk(model))
}

impl RowBox for AnyBox {
    fn drives(&self) -> &[Drive] {
        AnyBox::drives(self)
    }

    fn traffic(&self) -> Traffic {
        let stats = self.drives().iter().map(Drive::stats);
        let drives = stats.fold((0, 0), |(host, flash), s| {
            (host + s.host_write_bytes, flash + s.flash_program_bytes)
        });
        match self.disks() {
            [] => Traffic {
                host_bytes: drives.0,
                flash_bytes: Some(drives.1),
                counts: Counts::of(self.drives()),
                ..Traffic::default()
            },
            disks => Traffic {
                host_bytes: disks.iter().map(Disk::bytes_written).sum(),
                ..Traffic::default()
            },
        }
    }
}
