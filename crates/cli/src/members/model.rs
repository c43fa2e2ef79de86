//! A member that is a model, in memory: `model:NAME:SIZE`. NAME is a preset, or the file of one that
//! `tantalum log calibrate` has written. `model:4xNAME:SIZE` is an array of four, of that size
//! together.

use crate::counted::counted;
use crate::file_kind::Kind;
use crate::{file_kind, input};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tantalum_device::{Payload, SampledModel};
use tantalum_explore::AnyBox;
use tantalum_lab::file::parse;
use tantalum_lab::file::scene::Scene;
use tantalum_lab::subject::{Model, Stripes};
use tantalum_rt::Rt;

/// What a name of a model begins with.
const PREFIX: &str = "model:";

/// Whether this names a model, and no file.
pub fn is_model(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with(PREFIX))
}

/// A name of a model, with `change` of the path of its preset if that is a file; any other path as
/// `change` says.
pub fn change_path(path: &Path, change: impl Fn(&Path) -> PathBuf) -> PathBuf {
    let Some(model) = path.to_str().and_then(|text| text.strip_prefix(PREFIX)) else {
        return change(path);
    };
    match model.rsplit_once(':') {
        Some((preset, size)) if is_file(preset) => {
            let mut changed = OsString::from(PREFIX);
            changed.push(change(Path::new(preset)));
            changed.push(":");
            changed.push(size);
            changed.into()
        }
        _ => path.to_path_buf(),
    }
}

/// A path, or the name of a model, that is the same from every folder.
pub fn absolute(path: &Path) -> PathBuf {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    change_path(path, whole)
}

/// Whether this is the file of a preset, and not the name of one.
fn is_file(preset: &str) -> bool {
    preset.ends_with(".toml")
}

/// The model of a preset's name, or of the file of one.
///
/// # Errors
/// In a line, that there is none, or what is wrong with the file.
pub fn model_of(name: &str) -> Result<Model, String> {
    match is_file(name) {
        true => read_preset(Path::new(name)).map(Model::Sampled),
        false => Model::of(name, &Scene::default()),
    }
}

/// Reads a preset of the sampled device.
///
/// # Errors
/// What is wrong with it, in a line with its place.
pub fn read_preset(path: &Path) -> Result<SampledModel, String> {
    let name = path.display();
    let advice =
        format!("`tantalum log calibrate FOLDER -o {name}` measures a drive and writes one");
    let text = input::text("the preset", path, advice)?;
    let preset: SampledModel = parse::read(&text).map_err(|e| {
        let why = match e.line {
            Some(line) => format!("{name}:{line}: {}", e.what),
            None => format!("{name}: {}", e.what),
        };
        file_kind::told(Kind::Sampled, &name.to_string(), &text, why)
    })?;
    preset.check().map_err(|fault| format!("{name}: {fault}"))?;
    Ok(preset)
}

/// The model of a name, without power. Its random streams follow from `name` and its `place` among
/// the members.
///
/// # Errors
/// What is wrong with the name, in a line.
pub fn build(rt: &Rt, path: &Path, place: usize) -> Result<AnyBox, String> {
    let text = path.to_str().unwrap_or_default();
    let told = |why: String| format!("{text}: {why}");
    let (name, size) = text
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.rsplit_once(':'))
        .ok_or_else(|| told("a model is named as in model:usb-a:1GiB".to_string()))?;
    let bytes = crate::units::bytes(size).map_err(told)?;
    if let Some((members, name)) = array_of(name) {
        let (each, rest) = (bytes / u64::from(members), bytes % u64::from(members));
        if rest > 0 || !each.is_multiple_of(CHUNK_KIB << 10) {
            return Err(told(format!("{members} members of whole chunks of {CHUNK_KIB} KiB")));
        }
        let member = sized(model_of(name).map_err(told)?, each).map_err(told)?;
        let (of, chunk_kib) = (name.to_string(), CHUNK_KIB);
        let stripes = Stripes { of, members, chunk_kib, bus_mb_s: None };
        let array = Model::Raid0 { member: Box::new(member), stripes };
        return array.build(rt, Payload::Bytes).map_err(told);
    }
    let model = sized(model_of(name).map_err(told)?, bytes).map_err(told)?;
    model.build_at(rt, Payload::Bytes, place as u32, None).map_err(told)
}

/// What to say of a model that has another size than its name asks for: a drive has whole flash units.
pub fn other_size(path: &Path, bytes: u64) -> Option<String> {
    let (_, size) = path.to_str()?.strip_prefix(PREFIX)?.rsplit_once(':')?;
    let asked = crate::units::bytes(size).ok()?;
    let has = tantalum_device::bytes_in_words(bytes);
    (asked != bytes).then(|| {
        format!("{}: it has {has}, the next size that this drive can have", path.display())
    })
}

/// KiB of a chunk of an array.
pub const CHUNK_KIB: u64 = 64;

/// An array of so many, and of what: `4xdisk-15k6`. `None`: it is the name of one device.
pub fn array_of(name: &str) -> Option<(u32, &str)> {
    let (members, of) = name.split_once('x')?;
    let members = members.parse().ok().filter(|n| (1..=64).contains(n))?;
    Some((members, of))
}

/// The same model with so many bytes.
fn sized(mut model: Model, bytes: u64) -> Result<Model, String> {
    let block = u64::from(model.block_bytes());
    if bytes < block || !bytes.is_multiple_of(block) {
        let bytes = counted(bytes, "byte is", "bytes are");
        return Err(format!("{bytes} not whole blocks of {block} bytes"));
    }
    match &mut model {
        Model::Sampled(model) => model.blocks = bytes / block,
        Model::Disk(model) => model.blocks = bytes / block,
        Model::Ssd(design) => {
            **design = design.with_capacity(bytes).map_err(|e| e.to_string())?;
        }
        Model::Raid0 { .. } => return Err("it is an array: name one device".to_string()),
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_its_members_in_its_name() {
        assert_eq!(array_of("4xdisk-15k6"), Some((4, "disk-15k6")));
        assert_eq!(array_of("0xdisk-15k6"), None);
        assert_eq!(array_of("disk-15k6"), None);
        assert_eq!(array_of("/srv/4x/my.toml"), None);
    }

    #[test]
    fn the_file_of_a_preset_is_a_path_like_any_other() {
        let below = |path: &str| {
            let changed = change_path(Path::new(path), |path| Path::new("/srv").join(path));
            changed.to_str().expect("text").to_string()
        };
        assert_eq!(below("a"), "/srv/a");
        assert_eq!(below("/a"), "/a");
        assert_eq!(below("model:usb-a:1GiB"), "model:usb-a:1GiB");
        assert_eq!(below("model:my.toml:1GiB"), "model:/srv/my.toml:1GiB");
        assert_eq!(below("model:a:b/my.toml:1GiB"), "model:/srv/a:b/my.toml:1GiB");
        assert_eq!(below("model:/my.toml:1GiB"), "model:/my.toml:1GiB");
    }
}
