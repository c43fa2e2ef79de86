//! What a row's `design` names: an SSD, a magnetic disk, a sampled device, or several of one
//! kind striped as a RAID-0; and the box that is made of it.
//!
//! 1. A name is a preset's or one of the file's own; a file's own hides no preset
//!    silently: it is what the file says.
//! 2. `[drive]` changes SSDs, `[disk]` disks and `[sampled]` sampled devices, also those that are
//!    members of an array.
//! 3. What is wrong with a disk or a sampled device has its key, as the file has it.

use crate::file::entry::merge;
use crate::file::experiment::Scene;
use crate::file::parse::{self, Fault};
use crate::report::figures::Counts;
use crate::run::row::{RowBox, Traffic};
use serde::{Deserialize, Serialize};
use tantalum_device::presets::{DISKS, SAMPLED};
use tantalum_device::{Bus, Disk, DiskModel, Payload, RamDevice, SampledModel};
use tantalum_drive::{Design, DesignError, Drive};
use tantalum_explore::{
    AnyBox, Blueprint as _, BoxBlueprint, DiskBlueprint, DriveBlueprint, Raid0Blueprint,
    SampledBlueprint,
};
use tantalum_rt::Rt;

/// Bytes in a sector of an SSD, and in a block of whatever does not say.
pub const BLOCK_BYTES: u32 = 4096;

/// What a device consists of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Model {
    /// A software SSD.
    Ssd(Box<Design>),
    /// A magnetic disk.
    Disk(DiskModel),
    /// A device whose times are drawn from tables.
    Sampled(SampledModel),
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
    /// MB (1,000,000 bytes) each second of a bus that all members share (disks and sampled devices).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_mb_s: Option<u64>,
}

/// The presets that are no SSDs, with their texts.
fn others() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    DISKS.iter().chain(SAMPLED)
}

/// The names of all presets, SSDs first.
pub fn presets() -> impl Iterator<Item = &'static str> {
    Design::presets().iter().copied().chain(others().map(|d| d.0))
}

/// The text of a preset, comments included.
///
/// # Errors
/// In a line, with the nearest name there is.
pub fn preset_text(name: &str) -> Result<&'static str, String> {
    let other = others().find(|d| d.0 == name).map(|d| d.1);
    let text = other.or_else(|| Design::preset_text(name).ok());
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
    if SAMPLED.iter().any(|d| d.0 == name) {
        let model: SampledModel = parse::read(text).map_err(|w| w.what)?;
        return toml::to_string(&model).map_err(|e| e.to_string());
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
        if SAMPLED.iter().any(|d| d.0 == name) {
            return Err(format!("\"{name}\" is a sampled device: name a magnetic disk"));
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
    if SAMPLED.iter().any(|d| d.0 == name) {
        return Err(format!("\"{name}\" is a sampled device: name an SSD"));
    }
    let ssds = presets().filter(|p| others().all(|d| d.0 != *p));
    Design::preset(name).map_err(|_| parse::unknown("unknown design", name, ssds))
}

impl Model {
    /// The model of this name in a scene, with the scene's changes.
    ///
    /// # Errors
    /// In a line: there is none, or it cannot be built.
    pub fn of(name: &str, scene: &Scene) -> Result<Model, String> {
        Model::read(name, scene).map_err(|fault| fault.what)
    }

    /// The same.
    ///
    /// # Errors
    /// What is wrong, with its key in the file if it is one of a disk, of a sampled device or of an
    /// array.
    pub fn read(name: &str, scene: &Scene) -> Result<Model, Fault> {
        Model::named(name, scene, true)
    }

    fn named(name: &str, scene: &Scene, array: bool) -> Result<Model, Fault> {
        let Some(own) = scene.design.get(name) else { return Model::preset(name, scene) };
        let mut table = on_bases(name, own, scene)?;
        if let Some(stripes) = table.remove("raid0") {
            return striped(name, stripes, &table, scene, array);
        }
        let base = table.remove("base");
        let base = base.as_ref().map(|b| b.as_str().unwrap_or_default());
        let is = |of: &[(&str, &str)], key: &str| match base {
            Some(base) => of.iter().any(|d| d.0 == base),
            None => table.contains_key(key),
        };
        let (is_disk, is_sampled) = (is(DISKS, "rpm"), is(SAMPLED, "latency"));
        if is_disk || is_sampled {
            let mut whole = match base {
                Some(base) => parse::read(preset_text(base)?).map_err(|w| w.what)?,
                None => toml::Table::new(),
            };
            whole.extend(table);
            return if is_disk { disk(name, whole, scene) } else { sampled(name, whole, scene) };
        }
        no_key_of_disks(name, &table, scene)?;
        table.entry("name").or_insert_with(|| name.into());
        let design = match base {
            None => Design::from_toml(&table.to_string()).map_err(|e| of_ssd(e, name, scene))?,
            Some(base) => {
                let preset = Design::preset(base).map_err(|_| {
                    format!("design \"{name}\": {}", unknown("there is no design", base, scene))
                })?;
                // In one go: what is checked is what is built.
                merge(&mut table, &scene.drive);
                preset.with_overrides(&table).map_err(|e| of_ssd(e, name, scene))?
            }
        };
        ssd(name, design, scene)
    }

    fn preset(name: &str, scene: &Scene) -> Result<Model, Fault> {
        if let Some((_, text)) = DISKS.iter().find(|d| d.0 == name) {
            return disk(name, parse::read(text).map_err(|w| w.what)?, scene);
        }
        if let Some((_, text)) = SAMPLED.iter().find(|d| d.0 == name) {
            return sampled(name, parse::read(text).map_err(|w| w.what)?, scene);
        }
        no_key_of_disks(name, &toml::Table::new(), scene)?;
        let design = Design::preset(name).map_err(|_| unknown("unknown design", name, scene))?;
        ssd(name, design, scene)
    }

    /// The SSD that it is, or that its members are.
    pub fn ssd(&self) -> Option<&Design> {
        match self {
            Model::Ssd(design) => Some(design),
            Model::Disk(_) | Model::Sampled(_) => None,
            Model::Raid0 { member, .. } => member.ssd(),
        }
    }

    /// The magnetic disk that it is, or that its members are.
    pub fn disk(&self) -> Option<&DiskModel> {
        match self {
            Model::Ssd(_) | Model::Sampled(_) => None,
            Model::Disk(model) => Some(model),
            Model::Raid0 { member, .. } => member.disk(),
        }
    }

    /// The sampled device that it is, or that its members are.
    pub fn sampled(&self) -> Option<&SampledModel> {
        match self {
            Model::Ssd(_) | Model::Disk(_) => None,
            Model::Sampled(model) => Some(model),
            Model::Raid0 { member, .. } => member.sampled(),
        }
    }

    /// Bytes in a block.
    pub fn block_bytes(&self) -> u32 {
        match self {
            Model::Ssd(design) => design.link.logical_bytes,
            Model::Disk(model) => model.block_bytes,
            Model::Sampled(model) => model.block_bytes,
            Model::Raid0 { member, .. } => member.block_bytes(),
        }
    }

    /// What it keeps, where `payload` would do: an SSD with blocks smaller than its sectors keeps
    /// bytes.
    pub fn payload(&self, payload: Payload) -> Payload {
        match self.ssd().map(Design::payload) {
            Some(Payload::Bytes) => Payload::Bytes,
            _ => payload,
        }
    }

    /// How many of that there are.
    pub fn members(&self) -> u32 {
        match self {
            Model::Raid0 { stripes, .. } => stripes.members,
            _ => 1,
        }
    }

    /// The blueprint of its box, which carries `payload`.
    ///
    /// # Errors
    /// That it cannot be built, in a line.
    pub fn blueprint(&self, payload: Payload) -> Result<BoxBlueprint, String> {
        let drive = |design: &Design| DriveBlueprint { design: design.clone(), payload };
        let disk = |model: &DiskModel, shared_bus_mb_s| DiskBlueprint {
            model: model.clone(),
            payload,
            shared_bus_mb_s,
        };
        let sampled = |model: &SampledModel, shared_bus_mb_s| SampledBlueprint {
            model: model.clone(),
            payload,
            shared_bus_mb_s,
        };
        let (member, stripes) = match self {
            Model::Ssd(design) => return Ok(drive(design).into()),
            Model::Disk(model) => return Ok(BoxBlueprint::Disk(disk(model, None))),
            Model::Sampled(model) => return Ok(BoxBlueprint::Sampled(sampled(model, None))),
            Model::Raid0 { member, stripes } => (member, stripes),
        };
        let (members, chunk) = (stripes.members, stripes.chunk_blocks(member.block_bytes())?);
        Ok(match &**member {
            Model::Ssd(design) => {
                let member = drive(design);
                BoxBlueprint::Drives(Box::new(Raid0Blueprint { member, members, chunk }))
            }
            Model::Disk(model) => {
                let member = disk(model, stripes.bus_mb_s);
                BoxBlueprint::Disks(Raid0Blueprint { member, members, chunk })
            }
            Model::Sampled(model) => {
                let member = sampled(model, stripes.bus_mb_s);
                BoxBlueprint::Sampleds(Raid0Blueprint { member, members, chunk })
            }
            Model::Raid0 { .. } => return Err(NO_ARRAYS.into()),
        })
    }

    /// The box, blank and without power. It carries [`Model::payload`].
    ///
    /// # Errors
    /// That it cannot be built, in a line.
    pub fn build(&self, rt: &Rt, payload: Payload) -> Result<AnyBox, String> {
        self.blueprint(self.payload(payload))?.build(rt)
    }

    /// The same beside others of its runtime ([`BoxBlueprint::build_at`]).
    ///
    /// # Errors
    /// That it cannot be built, in a line.
    pub fn build_at(
        &self,
        rt: &Rt,
        payload: Payload,
        place: u32,
        bus: Option<&Bus>,
    ) -> Result<AnyBox, String> {
        self.blueprint(self.payload(payload))?.build_at(rt, place, bus)
    }
}

const NO_ARRAYS: &str = "arrays have no arrays";

impl Stripes {
    /// Blocks of a chunk.
    fn chunk_blocks(&self, block_bytes: u32) -> Result<u64, String> {
        let (bytes, block) = (self.chunk_kib << 10, u64::from(block_bytes));
        match bytes.is_multiple_of(block) {
            true => Ok(bytes / block),
            false => Err(format!(
                "raid0: chunk_kib is {}: a multiple of the members' block_bytes, {block}",
                self.chunk_kib
            )),
        }
    }
}

/// An array, of what `stripes` says.
fn striped(
    name: &str,
    stripes: toml::Value,
    rest: &toml::Table,
    scene: &Scene,
    array: bool,
) -> Result<Model, Fault> {
    let told = |key: &str, what: String| {
        Fault::at(&["design", name, "raid0", key], format!("design \"{name}\": {what}"))
    };
    if !array {
        return Err(format!("design \"{name}\" is an array: {NO_ARRAYS}").into());
    }
    let stripes: Stripes =
        stripes.try_into().map_err(|e| parse::told(&format!("design \"{name}\""), &e))?;
    if !rest.is_empty() {
        let what = "an array has no keys of its own: change its members";
        return Err(format!("design \"{name}\": {what}").into());
    }
    if !(1..=64).contains(&stripes.members) || !(4..=65536).contains(&stripes.chunk_kib) {
        let what = "raid0 has 1 to 64 members and chunks of 4 to 65536 KiB";
        return Err(format!("design \"{name}\": {what}").into());
    }
    let member = Box::new(Model::named(&stripes.of, scene, false)?);
    stripes.chunk_blocks(member.block_bytes()).map_err(|e| told("chunk_kib", e))?;
    match (stripes.bus_mb_s, member.ssd()) {
        (Some(0), _) => Err(told("bus_mb_s", "raid0: bus_mb_s must be at least 1".into())),
        (Some(_), Some(_)) => {
            let what = "raid0: bus_mb_s: only disks and sampled devices share a bus";
            Err(told("bus_mb_s", what.into()))
        }
        _ => Ok(Model::Raid0 { member, stripes }),
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

fn ssd(name: &str, design: Design, scene: &Scene) -> Result<Model, Fault> {
    let design = design.with_overrides(&scene.drive).map_err(|e| of_ssd(e, name, scene))?;
    Ok(Model::Ssd(Box::new(design)))
}

/// An error of the reader of designs, at its place in the file: its line is one of a text that was
/// made from the file.
fn of_ssd(error: DesignError, name: &str, scene: &Scene) -> Fault {
    match error {
        DesignError::Toml { fault, .. } => {
            let what = format!("design \"{name}\": {}", fault.what);
            placed(Fault { what, ..fault }, "drive", &scene.drive, name, scene)
        }
        error => error.to_string().into(),
    }
}

/// The key of disks and sampled devices is none of an SSD.
fn no_key_of_disks(name: &str, table: &toml::Table, scene: &Scene) -> Result<(), Fault> {
    const KEY: &str = "block_bytes";
    if !table.contains_key(KEY) && !scene.drive.contains_key(KEY) {
        return Ok(());
    }
    let what = format!(
        "design \"{name}\": {KEY}: the blocks of an SSD are `link.logical_bytes`, 512 to {BLOCK_BYTES}"
    );
    let fault = Fault { key: vec![KEY.into()], what };
    Err(placed(fault, "drive", &scene.drive, name, scene))
}

/// The fault, at the place in the file that says it: `changes` under `kind`, or the design or one
/// below it.
fn placed(fault: Fault, kind: &str, changes: &toml::Table, name: &str, scene: &Scene) -> Fault {
    let Some(first) = fault.key.first() else {
        return if scene.design.contains_key(name) {
            fault.below(&["design", name])
        } else {
            fault
        };
    };
    // What says the whole key, or else what says its first part.
    for key in &[fault.key.clone(), vec![first.clone()]] {
        if has(changes, key) {
            return fault.below(&[kind]);
        }
        let mut at = name;
        while let Some(table) = scene.design.get(at) {
            if has(table, key) {
                return fault.below(&["design", at]);
            }
            let Some(base) = table.get("base").and_then(toml::Value::as_str) else { break };
            at = base;
        }
    }
    if scene.design.contains_key(name) { fault.below(&["design", name]) } else { fault }
}

/// Whether a table says this key.
fn has(table: &toml::Table, key: &[String]) -> bool {
    match key {
        [] => false,
        [last] => table.contains_key(last),
        [first, rest @ ..] => {
            table.get(first).and_then(toml::Value::as_table).is_some_and(|inner| has(inner, rest))
        }
    }
}

fn disk(name: &str, mut table: toml::Table, scene: &Scene) -> Result<Model, Fault> {
    table.extend(scene.disk.clone());
    let told = |fault: Fault| {
        let what = format!("design \"{name}\": {}", fault.what);
        placed(Fault { what, ..fault }, "disk", &scene.disk, name, scene)
    };
    let model: DiskModel = parse::read_keys(&table).map_err(told)?;
    model.check().map_err(|what| {
        let words = what.strip_prefix("disk: ").unwrap_or(&what).split(' ').next();
        let key = words.filter(|key| table.contains_key(*key)).map(String::from);
        told(Fault { key: key.into_iter().collect(), what })
    })?;
    Ok(Model::Disk(model))
}

fn sampled(name: &str, mut table: toml::Table, scene: &Scene) -> Result<Model, Fault> {
    table.extend(scene.sampled.clone());
    let told = |fault: Fault| {
        let what = format!("design \"{name}\": {}", fault.what);
        placed(Fault { what, ..fault }, "sampled", &scene.sampled, name, scene)
    };
    let model: SampledModel = parse::read_keys(&table).map_err(told)?;
    model.check().map_err(|fault| {
        let what = fault.to_string();
        told(Fault { key: fault.key, what })
    })?;
    Ok(Model::Sampled(model))
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
        let others = self.disks().iter().map(Disk::bytes_written);
        let mut others = others.chain(self.rams().iter().map(RamDevice::bytes_written)).peekable();
        match others.peek() {
            None => Traffic {
                host_bytes: drives.0,
                flash_bytes: Some(drives.1),
                counts: Counts::of(self.drives()),
                ..Traffic::default()
            },
            Some(_) => Traffic { host_bytes: others.sum(), ..Traffic::default() },
        }
    }
}
