//! docs/contract.md beside the code: its table says of every preset what the device states.

use tantalum_device::{Ack, BlockDevice, Caps, Disk, GroupLimit, Payload};
use tantalum_drive::Drive;
use tantalum_lab::subject;
use tantalum_rt::Runtime;

const PAGE: &str = include_str!("../../../../docs/contract.md");

/// The cells of the row of the table whose first cell has this preset.
fn row(name: &str) -> Vec<&'static str> {
    let named = format!("`{name}`");
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| "));
    let mut rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let found = rows.find(|cells| cells.len() > 4 && cells[0].contains(&named));
    found.unwrap_or_else(|| panic!("the page has no row for {name}"))
}

fn check(name: &str, caps: &Caps) {
    let row = row(name);
    let ack = match caps.ack {
        Ack::Volatile => "volatile",
        Ack::PowerSafe => "power-safe",
        Ack::OnMedia => "on-media",
    };
    let order = if caps.ordered { "yes" } else { "no" };
    let unit = match row[3] {
        "a block" => caps.block_size,
        "512 bytes" => 512,
        kib => kib.strip_suffix(" KiB").and_then(|n| n.parse().ok()).map_or(0, |n: u32| n * 1024),
    };
    assert_eq!((row[1], row[2], unit), (ack, order, caps.atomic_unit), "{name}");
}

#[test]
fn the_page_says_what_each_preset_promises() {
    let runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let (mut drives, mut disks, mut sampled) = (0, 0, 0);
    for name in subject::presets() {
        if let Ok(design) = subject::ssd_preset(name) {
            let drive = Drive::new(&rt, &design, Payload::Bytes).expect(name);
            check(name, drive.caps());
            let group = GroupLimit { extents: 256, bytes: 1 << 20 };
            assert_eq!(drive.caps().atomic_group, Some(group), "{name}");
            drives += 1;
        } else if let Ok(model) = subject::disk_preset(name) {
            let disk = Disk::new(&rt, &model, Payload::Bytes).expect(name);
            check(name, disk.caps());
            assert_eq!(disk.caps().atomic_group, None, "{name}");
            disks += 1;
        } else {
            let text = subject::preset_text(name).expect(name);
            assert!(text.contains("ack = \"on-media\"") && !text.contains("ordered"), "{name}");
            sampled += 1;
        }
    }
    assert!(drives > 15 && disks > 2 && sampled > 5, "{drives} {disks} {sampled}");
}
