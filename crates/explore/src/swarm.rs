//! Designs and geometries from seeds.

use tantalum_drive::{CacheMode, Design, DesignError, LayoutError};
use tantalum_rt::Stream;

/// Bounds for a drive of so many dies and sectors in a row. What the dump keeps of the map is
/// hardly more than one write can change, plus `more`.
pub fn small_bounds(base: &Design, table: &mut toml::Table, dies: i64, row: i64, more: i64) {
    if base.keeps_units() {
        let slack = 9 * dies + 8;
        let map = table["map"].as_table_mut().expect("a table");
        map.insert("journal_entries".into(), (2 * slack + 4 * row + more).into());
        // (So many that an elastic one is spilled.)
        let ranges = if base.map.elastic { 3 * slack } else { slack };
        map.insert("journal_ranges".into(), (ranges + more / 2).into());
    }
    if base.map.dirty_pages_max > 0 {
        let map = table["map"].as_table_mut().expect("a table");
        map.insert("dirty_pages_max".into(), (2 * row + more / 20).into());
    }
}

/// A random design: any preset on a random small geometry, with as little spare space as it can be
/// built with, or a little more, or thinly provisioned. The same seed gives the same design.
pub fn random_design(seed: u64) -> Design {
    let mut dice = Stream::new(seed, "a random design");
    let preset = Design::presets()[dice.below(Design::presets().len() as u64) as usize];
    let base = Design::preset(preset).expect("it is one of the list");
    let mut pick = |low: u64, high: u64| dice.range(low, high + 1);
    let mut table: toml::Table = format!(
        "[geometry]\nchannels = {}\npackages = {}\nchips = {}\nplanes = {}\nblocks = {}\npages = {}\npage_bytes = {}\noob_bytes = 448\n\
         [timing]\nread_us = {}\nprogram_us = {}\nerase_us = {}\n\
         [space]\ncollect_below = {}\n\
         [link]\nqueue_depth = {}\n\
         [cache]\nbuffer_kib = {}\natomic_unit_kib = {}\n\
         [map]\ndirty_max = {}\nwrite_points = {}\ndump_units = {}",
        pick(1, 3), pick(1, 2), pick(1, 2), pick(1, 4), pick(16, 80), pick(4, 16), 4096 << pick(0, 2),
        pick(20, 100), pick(100, 2000), pick(500, 5000),
        pick(2, 6), pick(1, 32), pick(32, 256) * 4, 4 * pick(1, 8), pick(1024, 4096), pick(1, 3), pick(1, 6),
    )
    .parse()
    .expect("valid TOML");
    if !base.is_protected() {
        table["cache"]["atomic_unit_kib"] = toml::Value::Integer(4);
    } else if pick(0, 1) == 1 {
        table["cache"].as_table_mut().expect("a table").insert("flush".into(), "drain".into());
    }
    planes(&mut table, seed);
    let g = table["geometry"].as_table().expect("a table");
    let of = |key: &str| g[key].as_integer().expect("a number");
    let dies = of("channels") * of("packages") * of("chips");
    let row = of("planes") * of("page_bytes") / 4096;
    small_bounds(&base, &mut table, dies, row, pick(0, 200) as i64);
    collection(&mut table, seed);
    disorder(&mut table, &base, seed);
    if !base.is_protected() && Stream::new(seed, "a random scheme").chance(1, 3) {
        let scheme = toml::Table::from_iter([("scheme".into(), "flag".into())]);
        table.insert("atomic".into(), scheme.into());
    }
    priorities(&mut table, seed);
    // The least over-provisioning that can be built, and up to half as much more.
    let extra = pick(0, 50);
    let mut last = None;
    for step in 0..60 {
        let op = 7.0 * 1.12f64.powi(step);
        let op = op * (1.0 + (extra as f64) / 100.0);
        if op > 600.0 {
            return random_design(seed.wrapping_add(1_000_000)); // Too small for such a drive: another one.
        }
        table["space"]
            .as_table_mut()
            .expect("a table")
            .insert("over_provisioning".into(), op.into());
        match base.with_overrides(&table) {
            Ok(design) => return promise_more(design, seed),
            Err(e) => last = Some(e),
        }
        // A dump area that is too small does not grow with over-provisioning.
        let units = table["map"]["dump_units"].as_integer().expect("a number");
        if matches!(last, Some(DesignError::Layout { error: LayoutError::Dump { .. }, .. })) {
            table["map"]
                .as_table_mut()
                .expect("a table")
                .insert("dump_units".into(), (units + 1).into());
        }
        if matches!(last, Some(DesignError::Value { .. })) {
            // The buffer is too small for the rows.
            let kib = table["cache"]["buffer_kib"].as_integer().expect("a number");
            table["cache"]
                .as_table_mut()
                .expect("a table")
                .insert("buffer_kib".into(), (kib * 2).into());
        }
    }
    unreachable!("seed {seed}: no design: {last:?}");
}

/// Planes that read independently, and pages that have all of a word line.
fn planes(table: &mut toml::Table, seed: u64) {
    let mut dice = Stream::new(seed, "random planes");
    let timing = table["timing"].as_table_mut().expect("a table");
    timing.insert("independent_reads".into(), dice.chance(1, 3).into());
    if dice.chance(1, 4) {
        let pages = dice.range(2, 4) as i64;
        timing.insert("pages_per_program".into(), pages.into());
        table["geometry"]
            .as_table_mut()
            .expect("a table")
            .insert("page_bytes".into(), (pages * 4096).into());
    }
}

/// What the space management may do beside the least that it must.
fn collection(table: &mut toml::Table, seed: u64) {
    let mut dice = Stream::new(seed, "a random collector");
    let space = table["space"].as_table_mut().expect("a table");
    if dice.chance(1, 2) {
        space.insert("collector".into(), "cost-benefit".into());
    }
    if dice.chance(1, 3) {
        space.insert("background_below".into(), toml::Value::Integer(dice.range(6, 12) as i64));
        space.insert("idle_us".into(), toml::Value::Integer(dice.range(100, 20_000) as i64));
    }
    if dice.chance(1, 3) {
        let spread = toml::Value::Integer(dice.range(4, 12) as i64);
        table.insert("wear".into(), toml::Table::from_iter([("spread_max".into(), spread)]).into());
    }
}

/// Now and then the same flash, thinly provisioned.
fn promise_more(mut design: Design, seed: u64) -> Design {
    let mut dice = Stream::new(seed, "a random promise");
    if dice.chance(1, 8) {
        let built = design.space.clone();
        design.space.over_provisioning = -(dice.range(1, 70) as f64);
        design.space.thin_spare = dice.below(20) as f64;
        if design.check().is_err() {
            design.space = built; // No room for the map of so much.
        }
    }
    design
}

/// In which order, in which parts and after what pages get to flash, where the design leaves
/// that open.
fn disorder(table: &mut toml::Table, base: &Design, seed: u64) {
    let mut dice = Stream::new(seed, "a random disorder");
    let cache = table["cache"].as_table_mut().expect("a table");
    if base.is_protected() {
        return;
    }
    if dice.chance(1, 2) {
        // At most half of the smallest buffer.
        cache.insert("reorder".into(), toml::Value::Integer(dice.range(1, 17) as i64));
    }
    if dice.chance(1, 4) {
        cache.insert("shear_bytes".into(), toml::Value::Integer(512 << dice.below(3)));
    }
    if dice.chance(1, 4) {
        let mode = if base.cache.mode == CacheMode::Off { "volatile" } else { "off" };
        cache.insert("mode".into(), mode.into());
    }
    if dice.chance(1, 8) {
        cache.insert("flush".into(), "ignore".into());
    }
}

/// What reads may overtake on a die, and how long programs take from row to row.
fn priorities(table: &mut toml::Table, seed: u64) {
    let mut dice = Stream::new(seed, "random priorities");
    let timing = table["timing"].as_table_mut().expect("a table");
    let mut set = |key: &str, value: u64| timing.insert(key.into(), (value as i64).into());
    let priority = if dice.chance(1, 2) { dice.range(1, 65) } else { 0 };
    let suspends = priority > 0 && dice.chance(1, 2);
    set("read_priority", priority);
    set("suspend_limit", if suspends { dice.range(1, 9) } else { 0 });
    set("suspend_program_us", if suspends { dice.range(1, 60) } else { 0 });
    set("suspend_erase_us", if suspends { dice.range(1, 80) } else { 0 });
    if dice.chance(1, 4) {
        let times = (0..3).map(|_| toml::Value::Integer(dice.range(100, 4000) as i64)).collect();
        timing.insert("program_by_page_us".into(), toml::Value::Array(times));
    }
}
