//! Small drives for crash tests.

use tantalum_drive::Design;

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
    if preset == "durassd" {
        let dump: toml::Table = "[map]\ndump_units = 2\n[cache]\natomic_unit_kib = 32".parse().unwrap();
        for (k, v) in dump {
            table[&k].as_table_mut().unwrap().extend(v.as_table().unwrap().clone());
        }
    }
    Design::preset(preset).unwrap().with_overrides(&table).unwrap()
}
