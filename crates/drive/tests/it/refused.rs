//! Designs that cannot be are refused with a message that says which value it is.

use tantalum_drive::Design;

fn with(preset: &str, overrides: &str) -> Result<Design, String> {
    let overrides: toml::Table = overrides.parse().expect("valid TOML");
    let design = Design::preset(preset).expect("a preset");
    design.with_overrides(&overrides).map_err(|e| e.to_string())
}

/// A value of another kind is told with its key, in words, and in a text with its line, too.
#[test]
fn values_of_another_kind_are_refused_by_name() {
    let text = Design::preset_text("durassd").expect("a preset");
    for (key, given, told) in [
        (
            "cache.buffer_kib",
            "\"4M\"",
            "invalid type: text \"4M\", expected a whole number from 0 to 4294967295",
        ),
        ("cache.buffer_kib", "[4]", "invalid type: a list, expected a whole number"),
        ("space.over_provisioning", "\"7\"", "invalid type: text \"7\", expected a number"),
        ("cache.mode", "3", "invalid type, expected text in quotes"),
        ("map.dirty_max", "1.5", "invalid type: number `1.5`, expected a whole number"),
    ] {
        let name = key.split('.').next_back().unwrap_or_default();
        let place = text.lines().position(|line| line.starts_with(name)).expect("it is said");
        let changed = |(i, line)| if i == place { format!("{name} = {given}") } else { line };
        let lines = text.lines().map(String::from).enumerate().map(changed);
        let changed = lines.collect::<Vec<_>>().join("\n");
        let why = Design::from_toml(&changed).unwrap_err().to_string();
        let line = place + 1;
        assert_eq!(why.split(", expected").count(), 2, "{why}");
        let want = format!("not a design: line {line}: {key}: {told}");
        assert!(why.starts_with(&want), "{why}\n{want}");
        let why = with("durassd", &format!("{key} = {given}")).unwrap_err();
        assert!(why.starts_with(&format!("not a design: {key}: {told}")), "{why}");
    }
}

/// Zeros and numbers beyond reason: no panic, no overflow, and the message names the key.
#[test]
fn absurd_values_are_refused_by_name() {
    let huge = [
        "timing.read_us",
        "timing.program_us",
        "timing.erase_us",
        "timing.command_ns",
        "timing.read_planes_us",
        "timing.read_sector_us",
        "timing.suspend_program_us",
        "timing.suspend_erase_us",
        "timing.read_priority",
        "timing.suspend_limit",
        "timing.pages_per_program",
        "cache.reorder",
        "cache.shear_bytes",
        "link.occupancy_ns",
        "link.latency_ns",
        "link.extent_ns",
        "firmware.through_us",
        "cache.buffer_kib",
        "cache.atomic_unit_kib",
        "map.dirty_max",
        "map.write_points",
        "space.over_provisioning",
        "space.background_below",
        "space.idle_us",
        "geometry.blocks",
        "geometry.planes",
        "geometry.page_bytes",
    ];
    let zero = [
        "timing.read_us",
        "timing.program_us",
        "timing.erase_us",
        "timing.channel_mb_s",
        "timing.pages_per_program",
        "link.mb_s",
        "link.queue_depth",
        "link.block_bytes",
        "link.logical_bytes",
        "cache.buffer_kib",
        "cache.atomic_unit_kib",
        "map.dirty_max",
        "map.write_points",
        "space.over_provisioning",
        "space.collect_below",
        "space.idle_us",
        "geometry.channels",
    ];
    let cases = huge.iter().flat_map(|key| {
        let fits = if key.ends_with("_ns") { 60_000_000_001 } else { u64::from(u32::MAX) };
        [(key, fits), (key, i64::MAX as u64)]
    });
    for (key, value) in cases.chain(zero.iter().map(|key| (key, 0))) {
        for preset in Design::presets() {
            let refused = with(preset, &format!("{key} = {value}"));
            let Err(why) = refused else { panic!("{preset}: {key} = {value} was taken") };
            let last = key.rsplit('.').next().unwrap();
            let named = why.contains(last)
                || value > u64::from(u32::MAX) && why.contains("expected u32")
                || key.starts_with("geometry") && why.contains("geometry")
                || last == "write_points" && why.contains("for the map log");
            assert!(named, "{preset}: {key} = {value}: {why}");
        }
    }
    for value in [0, 1, u32::MAX] {
        let why = with("durassd", &format!("map.dump_units = {value}")).unwrap_err();
        assert!(why.contains("dump"), "{why}");
    }
}

/// Two values that are reasonable each, but not together.
#[test]
fn a_row_of_pages_fits_a_quarter_of_the_changes() {
    let wide = "geometry.planes = 64\ngeometry.page_bytes = 65536\ngeometry.blocks = 60\n\
                geometry.pages = 16\nspace.over_provisioning = 50\n\
                cache.buffer_kib = 16384\nmap.dump_units = 8\nmap.dirty_max = ";
    let why = with("durassd", &format!("{wide}2048")).unwrap_err();
    assert!(why.contains("4096"), "{why}");
    with("durassd", &format!("{wide}4096")).unwrap();
}

/// What may go ahead, and what a drive without protection may do to order and pages.
#[test]
fn priorities_and_disorder_are_checked() {
    for (preset, overrides, word) in [
        ("volatile", "timing.suspend_program_us = 20", "read_priority"),
        ("volatile", "timing.suspend_erase_us = 20\ntiming.read_priority = 4", "suspend_limit"),
        ("volatile", "timing.read_by_page_us = [50, 0]", "read_by_page_us"),
        ("volatile", "timing.program_by_page_us = [60000001]", "program_by_page_us"),
        ("volatile", "cache.reorder = 513", "cache.reorder"),
        ("volatile", "cache.shear_bytes = 3000", "cache.shear_bytes"),
        ("volatile", "cache.shear_bytes = 256", "cache.shear_bytes"),
        ("durassd", "cache.reorder = 1", "protect"),
        ("durassd", "cache.shear_bytes = 512", "protect"),
        ("volatile", "cache.flush = \"never\"", "never"),
    ] {
        let why = with(preset, overrides).unwrap_err();
        assert!(why.contains(word), "{overrides}: {why}");
    }
    let all = "timing.suspend_program_us = 20\ntiming.read_priority = 4\ntiming.suspend_limit = 2\n\
               timing.read_by_page_us = [50, 90]\ncache.reorder = 512\ncache.shear_bytes = 512\n\
               cache.flush = \"ignore\"";
    with("volatile", all).unwrap();
}

/// Every preset says itself what it is called, and every key of it can be seen and given.
#[test]
fn presets_are_whole() {
    for name in Design::presets() {
        let design = Design::preset(name).unwrap();
        assert_eq!(design.name, *name);
        let all = design.to_toml();
        assert_eq!(Design::from_toml(&all).unwrap(), design);
        for key in ["read_priority", "program_by_page_us", "shear_bytes", "reorder", "flush"] {
            assert!(all.contains(key), "{name}: no {key} in\n{all}");
        }
        let layout = design.check().unwrap();
        assert!(layout.logical > 0 && u64::from(layout.logical) < layout.raw);
    }
    // The presets that are one drive with several caches promise no more than they did.
    for name in ["baseline", "volatile", "durassd"] {
        let d = Design::preset(name).unwrap();
        assert_eq!((d.timing.read_priority, d.cache.reorder, d.cache.shear_bytes), (0, 0, 4096));
    }
    let full = Design::preset("full-protection").unwrap();
    let logical = full.check().unwrap().logical;
    assert!(full.map.dirty_max / 4 * 3 >= logical, "the whole map may be dumped");
}

/// Where values come from stands at the head of each section: a source, or that they are
/// estimates of our own.
#[test]
fn presets_say_where_their_values_come_from() {
    let sources =
        ["own estimate", "DuraSSD", "SpartanSSD", "data sheet", "fitted to", "extrapolated"];
    for name in Design::presets() {
        let text = Design::preset_text(name).unwrap();
        let sections: Vec<&str> = text.lines().filter(|l| l.starts_with('[')).collect();
        assert!(sections.len() >= 8, "{name}: {sections:?}");
        for line in sections {
            let said = line.split_once('#').map_or("", |l| l.1);
            assert!(sources.iter().any(|s| said.contains(s)), "{name}: {line}");
        }
    }
}
