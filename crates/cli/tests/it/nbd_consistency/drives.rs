//! The presets, so small that a few thousand commands fill them and cause garbage collection.

use super::device::{PER_BLOCK, SECTOR};
use tantalum_device::{Ack, Caps, Payload};
use tantalum_drive::{Design, Drive};
use tantalum_rt::Runtime;

/// Presets whose acknowledged writes survive, by their own description.
const SAFE: [&str; 9] = [
    "durassd",
    "full-protection",
    "durassd-bounded",
    "spartan-b",
    "spartan-e",
    "spartan-es",
    "tlc-datacenter",
    "dc-s3500",
    "p3700",
];

/// The changes to the preset of this name.
pub fn settings(name: &str) -> Vec<&'static str> {
    let mut all = vec![
        "geometry.channels=2",
        "geometry.packages=1",
        "geometry.chips=2",
        "geometry.planes=2",
        "geometry.page_bytes=8192",
        "geometry.pages=16",
        "geometry.blocks=32",
        "cache.buffer_kib=512",
        "space.over_provisioning=80",
    ];
    if SAFE.contains(&name) {
        all.extend(["map.dump_units=4", "map.write_points=2"]);
    }
    match name {
        "durassd" | "full-protection" | "tlc-datacenter" | "dc-s3500" | "p3700" => {
            all.push("map.dirty_max=4096");
        }
        "shearing" => all.push("cache.reorder=32"),
        "spartan-b" => all.push("map.dirty_max=1024"),
        _ => {}
    }
    all
}

/// The promises of a small drive of this preset to an NBD client: in sectors, and without an order
/// of concurrent writes.
pub fn promises(name: &str) -> Caps {
    let table: toml::Table = toml::from_str(&settings(name).join("\n")).expect("TOML");
    let design = Design::preset(name).expect("a preset").with_overrides(&table).expect("a design");
    let runtime = Runtime::virtual_time(0);
    let drive = Drive::new(&runtime.handle(), &design, Payload::Bytes).expect("a drive");
    let caps = *drive.caps();
    assert_eq!(caps.ack == Ack::PowerSafe, SAFE.contains(&name), "{name}: {caps:?}");
    assert!(!caps.thin, "what is refused for want of space is not judged here");
    Caps {
        block_size: SECTOR,
        blocks: caps.blocks * PER_BLOCK,
        ordered: false,
        atomic_group: None,
        ..caps
    }
}
