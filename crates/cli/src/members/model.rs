//! A member that is a model, in memory: `model:NAME:SIZE`. NAME is a preset, or the file of one that
//! `tantalum log calibrate` has written.

use std::path::Path;
use tantalum_device::Payload;
use tantalum_explore::AnyBox;
use tantalum_lab::file::scene::Scene;
use tantalum_lab::subject::Model;
use tantalum_rt::Rt;

/// What a name of a model begins with.
const PREFIX: &str = "model:";

/// Whether this names a model, and no file.
pub fn is_model(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with(PREFIX))
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
        .and_then(|rest| rest.split_once(':'))
        .ok_or_else(|| told("a model is named as in model:usb-a:1GiB".to_string()))?;
    let bytes = crate::size::bytes(size).map_err(told)?;
    let mut model = match name.ends_with(".toml") {
        true => crate::log::read_preset(Path::new(name)).map(Model::Sampled),
        false => Model::of(name, &Scene::default()),
    }
    .map_err(told)?;
    let block = u64::from(model.block_bytes());
    if bytes < block || !bytes.is_multiple_of(block) {
        return Err(told(format!("{bytes} bytes are not whole blocks of {block} bytes")));
    }
    match &mut model {
        Model::Sampled(model) => {
            model.blocks = bytes / block;
            let device = model.build(rt, &format!("member {place}"), Payload::Bytes, None);
            let device = device.map_err(|fault| told(fault.to_string()))?;
            tantalum_device::PowerCycle::cut(&device); // It was made with its power on.
            return Ok(AnyBox::Ram(device));
        }
        Model::Disk(model) => model.blocks = bytes / block,
        Model::Ssd(design) => {
            **design = design.with_capacity(bytes).map_err(|e| told(e.to_string()))?;
        }
        Model::Raid0 { .. } => return Err(told("it is an array: name one device".to_string())),
    }
    model.build(rt, Payload::Bytes).map_err(told)
}
