//! The texts of the presets: what disks and sampled devices there are by name. Each begins with
//! what it stands for, and which of its values are published.

/// Magnetic disks ([`crate::DiskModel`]): name and TOML.
pub const DISKS: &[(&str, &str)] = &[
    ("disk-15k", include_str!("../presets/disk-15k.toml")),
    ("disk-15k6", include_str!("../presets/disk-15k6.toml")),
    ("disk-10k", include_str!("../presets/disk-10k.toml")),
];

/// Sampled devices ([`crate::SampledModel`]): name and TOML.
pub const SAMPLED: &[(&str, &str)] = &[
    ("usb-flash", include_str!("../presets/usb-flash.toml")),
    ("usb-a", include_str!("../presets/usb-a.toml")),
    ("usb-b", include_str!("../presets/usb-b.toml")),
    ("usb-c", include_str!("../presets/usb-c.toml")),
    ("net-volume", include_str!("../presets/net-volume.toml")),
    ("bimodal-disk", include_str!("../presets/bimodal-disk.toml")),
];
