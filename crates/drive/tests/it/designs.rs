//! Small drives for crash tests.

use tantalum_drive::Design;
use tantalum_explore::small_bounds;

/// A preset on a small geometry: 4 dies, erase units of 32 sectors.
pub fn small(preset: &str) -> Design {
    let overrides = r#"
        [geometry]
        channels = 2
        packages = 1
        chips = 2
        planes = 2
        blocks = 24
        pages = 8
        [space]
        over_provisioning = 40
        collect_below = 3
        [cache]
        buffer_kib = 128
        [map]
        dirty_max = 1024
        write_points = 2
    "#;
    let mut table: toml::Table = overrides.parse().expect("valid TOML");
    let base = Design::preset(preset).unwrap();
    if base.cache.reorder > 0 {
        table["cache"].as_table_mut().unwrap().insert("reorder".into(), 8.into());
    }
    let pages = base.timing.pages_per_program;
    if pages > 1 {
        let page_bytes = toml::Value::Integer(4096 * i64::from(pages));
        table["geometry"].as_table_mut().unwrap().insert("page_bytes".into(), page_bytes);
    }
    if base.is_protected() {
        let dump: toml::Table =
            "[map]\ndump_units = 2\n[cache]\natomic_unit_kib = 32".parse().unwrap();
        for (k, v) in dump {
            table[&k].as_table_mut().unwrap().extend(v.as_table().unwrap().clone());
        }
    }
    small_bounds(&base, &mut table, 4, 4, 0);
    if base.is_protected() {
        // One row of eight is not for data.
        let percent = if base.map.summary { 72 } else { 45 };
        table["space"]["over_provisioning"] = toml::Value::Integer(percent);
    }
    if preset == "full-protection" {
        // More than the map has.
        table["map"].as_table_mut().unwrap().insert("dirty_max".into(), 3072.into());
    }
    base.with_overrides(&table).unwrap()
}

/// A preset on a geometry so small that a short run fills it several times: 2 dies,
/// erase units of 8 sectors.
pub fn tiny(preset: &str) -> Design {
    let base = Design::preset(preset).unwrap();
    let protected = base.is_protected();
    let mut table: toml::Table = format!(
        "[geometry]\nchannels = 2\npackages = 1\nchips = 1\nplanes = 2\nblocks = 24\npages = 4\npage_bytes = 4096\n\
         [wear]\nendurance = 1000000\n[space]\nover_provisioning = {}\ncollect_below = 3\n\
         [cache]\nbuffer_kib = 64\natomic_unit_kib = {}\n\
         [map]\ndirty_max = 1024\nwrite_points = 1\ndump_units = {}",
        // (One row of four is not for data.)
        match () {
            () if base.map.summary => 215,
            () if base.map.elastic => 135,
            () if protected => 115,
            () => 95,
        },
        if protected { 16 } else { 4 },
        if protected { 4 } else { 0 },
    )
    .parse()
    .expect("valid TOML");
    if base.cache.reorder > 0 {
        table["cache"].as_table_mut().unwrap().insert("reorder".into(), 4.into());
    }
    small_bounds(&base, &mut table, 2, 2, 10);
    base.with_overrides(&table).unwrap()
}

/// The same with units to spare: some may go bad.
pub fn with_spare(preset: &str) -> Design {
    let table = "geometry.blocks = 40".parse().expect("valid TOML");
    tiny(preset).with_overrides(&table).unwrap()
}
