//! Whether the rows that run at the same time fit into the machine's memory, and each row's
//! database on its drive: checked before a run, so that the system does not end it half-way.
//!
//! What a row needs is the sum of
//!
//! - the drive's map (4 bytes for each logical 4 KiB page) and its books of the flash
//!   (two bits for each sector, and some words for each erase unit);
//! - what has been programmed into flash, since a simulated cell keeps what it got until
//!   it is erased: the load of the database and the writes of the run, but never more than
//!   the raw flash. LinkBench loads in the order of its keys and programs about three
//!   times the database; YCSB's keys are scattered, so that each record costs about four
//!   pages of the database. A run programs about [`RUN_BYTES`] per virtual second under
//!   load (SQLite has one writer), more with larger pages. Block jobs leave stamps
//!   instead of data: 8 bytes for each sector, and 4 for each word beside it. What
//!   preconditioning writes are zeros, which take no more than stamps;
//! - the map log, real bytes everywhere: a page of it for each change, up to all its units;
//! - the memory of the block-level oracle: [`WITNESS_BYTES`] for each block that a job has
//!   written, and [`CACHED_BYTES`] for each in its page cache;
//! - a copy of the loaded database, to put in the place of damaged ones;
//! - the connections' page caches, and [`BASE_BYTES`] for the rest.
//!
//! The constants were measured on the presets; the estimate is meant to be right within
//! a factor of about two.

use crate::file::experiment::{Expect, Experiment, Row, Scene, WorkloadKind};
use crate::report::CUTS_TO_SHOW_LOSS;
use crate::run::engines::{PageModel, Part};
use crate::subject::Model;
use std::fmt::Write;
use tantalum_device::Payload;
use tantalum_drive::{Design, Layout};
use tantalum_workload::appends::AppendJob;
use tantalum_workload::linkbench::LinkBenchScale;
use tantalum_workload::tpcc::TpccScale;
use tantalum_workload::ycsb::YcsbScale;

/// What SQLite's writers program per virtual second, with pages of 4 KiB.
pub const RUN_BYTES: u64 = 28 << 20;
/// What the oracle keeps of a block that was written.
pub const WITNESS_BYTES: u64 = 256;
/// What a block costs on a device without flash where payload is a stamp.
pub const DISK_STAMP_BYTES: u64 = 64;
/// What a page cache keeps of a sector.
pub const CACHED_BYTES: u64 = 320;
/// What every row needs.
pub const BASE_BYTES: u64 = 16 << 20;

const SECTOR: u64 = 4096;

/// What a row is estimated to need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Memory, in bytes.
    pub memory: u64,
    /// Of these, what the size of the database costs.
    pub load: u64,
    /// The loaded database, in bytes.
    pub database: u64,
    /// The drive's logical capacity, in bytes.
    pub capacity: u64,
}

/// Whether `rows` can run, `threads` at a time, with the memory that there is.
///
/// # Errors
/// A line that says how much is needed, how much there is, and what to lower.
pub fn check(experiment: &Experiment, rows: &[Row], threads: usize) -> Result<(), String> {
    let mut needs = Vec::new();
    for row in rows {
        // (A row that is to lose something is cut until it does.)
        let most = if row.expect == Expect::Lossy { CUTS_TO_SHOW_LOSS } else { 0 };
        needs.push((row, need(row, experiment.cuts.max(most))?));
    }
    fits(&needs, threads, available())
}

/// What a row needs with so many power cuts.
///
/// # Errors
/// That its design cannot be built, in a line.
pub fn need(row: &Row, cuts: u32) -> Result<Need, String> {
    let scene = &row.scene;
    let millis = run_millis(scene, cuts);
    let model = row.model()?;
    if let Some(engine) = row.pages() {
        let (mut memory, capacity) = filled(&model, &engine, Part::Pages)?;
        for (i, design) in engine.log_drives().into_iter().enumerate() {
            let log = design.map_or(Ok(model.clone()), |design| Model::of(design, scene))?;
            memory += filled(&log, &engine, Part::Log(i))?.0;
        }
        if let Some(design) = engine.cache_drive() {
            memory += filled(&Model::of(design, scene)?, &engine, Part::Flash)?.0;
        }
        return Ok(Need { memory: memory + BASE_BYTES, load: 0, database: 0, capacity });
    }
    if let Some(job) = row.appends() {
        let beside = job.beside.iter().map(|name| Model::of(name, scene));
        let models = std::iter::once(Ok(model.clone())).chain(beside);
        return Ok(appended(&models.collect::<Result<Vec<_>, _>>()?, &job, millis));
    }
    let Some(design) = model.ssd() else { return Ok(without_flash(row, cuts, &model)) };
    let layout = design.check().map_err(|e| e.to_string())?;
    let members = u64::from(model.members());
    let books = books(design, &layout) * members;
    let capacity = u64::from(layout.logical) * SECTOR * members;
    let raw = design.geometry.bytes() * members;
    let prepared = prepared(scene, capacity / SECTOR);
    if let Some(range) = block_range(row) {
        let rate = rate(row, design.link.mb_s * members);
        let blocks = job_sectors(range, capacity / SECTOR, rate, millis);
        let written = blocks.saturating_mul(2).saturating_add(prepared);
        let flash = stamps(design, &layout, members, written);
        let memory = flash + blocks * WITNESS_BYTES + cached(row, blocks) + books + BASE_BYTES;
        return Ok(Need { memory, load: 0, database: 0, capacity });
    }
    let zeros = if prepared > 0 { stamps(design, &layout, members, prepared) } else { 0 };
    let page = u64::from(scene.run.page_bytes);
    let (database, load) = match &row.workload {
        WorkloadKind::YcsbA => ycsb(&scene.ycsb, page),
        WorkloadKind::Tpcc => tpcc(&scene.tpcc),
        _ => linkbench(&scene.linkbench),
    };
    let rate = RUN_BYTES * page.div_ceil(SECTOR);
    let run = (rate / 1000).saturating_mul(millis);
    let flash = load.saturating_add(run).min(raw);
    let caches = u64::from(scene.run.clients + 1) * u64::from(scene.run.cache_pages) * page;
    let rest = books + caches + zeros + BASE_BYTES;
    let memory = flash.saturating_add(database).saturating_add(rest);
    Ok(Need { memory, load: load.min(raw).saturating_add(database), database, capacity })
}

/// What devices of a log need: they keep what was written. An archive keeps it again.
fn appended(models: &[Model], job: &AppendJob, millis: u64) -> Need {
    let (mut written, mut capacity) = (job.fill_mib << 20, 0);
    for model in models {
        let (bytes, rate) = appended_to(model, job);
        capacity += bytes;
        // (Bytes for each microsecond are MB for each second.)
        let most = rate.saturating_mul(1000).saturating_mul(millis);
        written = written.saturating_add(most.min(bytes));
    }
    let times = if job.archive.is_some() { 2 } else { 1 };
    let memory = written.min(capacity).saturating_mul(times).saturating_add(BASE_BYTES);
    Need { memory, load: 0, database: 0, capacity }
}

/// The capacity of a row's or a further device of a log, and the most bytes that it gets in a
/// microsecond.
fn appended_to(model: &Model, job: &AppendJob) -> (u64, u64) {
    let members = u64::from(model.members());
    let (capacity, rate) = match model.ssd() {
        Some(design) => (design.geometry.bytes() * members, design.link.mb_s * members),
        None => {
            let (bytes, rate) = plain(model);
            (bytes * members, rate * members)
        }
    };
    // Requesters wait for each request: they are no faster than the quickest write lets them.
    let sampled = model.sampled().into_iter().flat_map(|sampled| &sampled.latency);
    let writes = sampled.filter(|row| row.command != "read");
    let least = writes.filter_map(|row| row.us.first().copied()).min();
    let asked = (u64::from(job.requesters) * job.request_bytes).div_ceil(least.unwrap_or(1).max(1));
    (capacity, rate.min(asked))
}

/// What a drive of a page-level engine needs, and its capacity: a long run has written everything
/// once.
fn filled(model: &Model, engine: &PageModel, part: Part) -> Result<(u64, u64), String> {
    let (members, payload) = (u64::from(model.members()), engine.payload(part));
    let Some(design) = model.ssd() else {
        let capacity = plain(model).0 * members;
        let block = stamp_bytes(model) + if payload == Payload::Bytes { SECTOR } else { 0 };
        let blocks = match part {
            Part::Pages => engine.blocks(),
            Part::Flash => capacity / SECTOR,
            Part::Log(_) => engine.blocks().min(capacity.min(engine.log_bytes() * 2) / SECTOR),
        };
        return Ok((blocks * block, capacity));
    };
    let layout = design.check().map_err(|e| e.to_string())?;
    let flash = match payload {
        Payload::Stamps => stamps(design, &layout, members, u64::MAX),
        Payload::Bytes => design.geometry.bytes() * members,
    };
    let capacity = u64::from(layout.logical) * SECTOR * members;
    Ok((flash + books(design, &layout) * members, capacity))
}

/// The sectors that preconditioning writes.
fn prepared(scene: &Scene, sectors: u64) -> u64 {
    let passes = scene.precondition.as_ref().map_or(0.0, |p| p.fill + p.passes_max);
    (sectors as f64 * passes) as u64
}

/// What flash of stamps keeps after so many sectors were written, and what its map log does:
/// an erase unit has its memory as a whole, from its first page on.
fn stamps(design: &Design, layout: &Layout, members: u64, written: u64) -> u64 {
    let g = &design.geometry;
    let page = 8 * u64::from(g.page_sectors()) + 4 * u64::from(2 + g.page_sectors());
    let unit = u64::from(g.unit_sectors());
    let open = 2 * u64::from(g.dies());
    let units = (written.div_ceil(unit * members).saturating_add(open)).min(g.units().into());
    let log = (u64::from(layout.map_units) * unit).min(written / members) * SECTOR;
    members * (units * u64::from(g.unit_pages()) * page + log)
}

/// Virtual milliseconds under load.
fn run_millis(scene: &Scene, cuts: u32) -> u64 {
    let run = &scene.run;
    (run.warm_up_ms + (run.run_ms[0] + run.run_ms[1]) / 2).saturating_mul(cuts.into())
}

/// Bytes that a device without flash holds, or a member of an array of them, and how many MB it
/// takes in a second, at most.
fn plain(model: &Model) -> (u64, u64) {
    if let Some(disk) = model.disk() {
        return (disk.blocks.saturating_mul(disk.block_bytes.into()), disk.interface_mb_s);
    }
    let Some(sampled) = model.sampled() else { return (0, 0) };
    // (A byte for each microsecond is a MB for each second.)
    let quickest = sampled.latency.iter().filter(|row| row.command != "read");
    let rates = quickest.filter_map(|row| Some(row.bytes.div_ceil((*row.us.first()?).max(1))));
    let most = rates.max().unwrap_or(1).saturating_mul(sampled.queue_depth.into());
    let bytes = sampled.blocks.saturating_mul(sampled.block_bytes.into());
    (bytes, most.min(sampled.bus_mb_s.unwrap_or(u64::MAX)))
}

/// What the stamps of 4 KiB cost on such a device: a smaller block has its own.
fn stamp_bytes(model: &Model) -> u64 {
    DISK_STAMP_BYTES * (SECTOR / u64::from(model.block_bytes())).max(1)
}

/// The same for devices without flash: they keep what was written, and have no books.
fn without_flash(row: &Row, cuts: u32, model: &Model) -> Need {
    let (bytes, rate) = plain(model);
    let members = u64::from(model.members());
    let capacity = bytes * members;
    let scene = &row.scene;
    let millis = run_millis(scene, cuts);
    let page = u64::from(scene.run.page_bytes);
    let (database, load) = match (&row.workload, block_range(row)) {
        (_, Some(range)) => {
            let rate = self::rate(row, rate * members);
            let written = job_sectors(range, capacity / SECTOR, rate, millis);
            let stamps = written.min(capacity / SECTOR) * stamp_bytes(model);
            let memory = stamps + cached(row, written) + BASE_BYTES;
            return Need { memory, load: 0, database: 0, capacity };
        }
        (WorkloadKind::YcsbA, _) => ycsb(&scene.ycsb, page),
        (WorkloadKind::Tpcc, _) => tpcc(&scene.tpcc),
        _ => linkbench(&scene.linkbench),
    };
    // An arm is far slower than flash: a bound that is never reached.
    let run = (RUN_BYTES / 1000).saturating_mul(millis);
    let memory = load.saturating_add(run).min(capacity) + database + BASE_BYTES;
    Need { memory, load: load.saturating_add(database), database, capacity }
}

/// The drive's map and books.
fn books(design: &Design, layout: &Layout) -> u64 {
    let units = u64::from(design.geometry.units());
    4 * u64::from(layout.logical) + 2 * (layout.raw / 8) + 128 * units
}

/// The database, and what loading it programs.
fn ycsb(scale: &YcsbScale, page: u64) -> (u64, u64) {
    // Ten fields, the key twice (it has an index), headers; pages are not full.
    let record = scale.field_bytes.saturating_mul(10).saturating_add(120);
    let record = record.saturating_add(record / 3);
    let database = scale.records.saturating_mul(record);
    let touched = page.max(record).saturating_mul(4);
    (database, database.saturating_add(scale.records.saturating_mul(touched)))
}

/// The database, and what loading it programs.
fn linkbench(scale: &LinkBenchScale) -> (u64, u64) {
    // A link is in its table and in an index; two counts for each node.
    let link = 2 * scale.link_bytes.saturating_add(50);
    let links = (scale.nodes as f64 * scale.links_per_node) as u64;
    let nodes = scale.nodes.saturating_mul(scale.node_bytes.saturating_add(100));
    let data = nodes.saturating_add(links.saturating_mul(link));
    let database = data.saturating_add(data / 3);
    (database, database.saturating_mul(3))
}

/// The database, and what loading it programs.
fn tpcc(scale: &TpccScale) -> (u64, u64) {
    let data = scale.bytes();
    let database = data.saturating_add(data / 3);
    (database, database.saturating_mul(3))
}

/// The share of the drive that a block job or a trace may write; `None` for a database.
fn block_range(row: &Row) -> Option<f64> {
    row.job().map(|job| job.range).or(row.trace().map(|_| 1.0))
}

/// How fast a job can write, MB/s: behind a page cache as fast as it is called.
fn rate(row: &Row, link: u64) -> u64 {
    match row.job().and_then(|job| Some((job.buffered?, job.queue_depth))) {
        Some((buffered, depth)) => SECTOR * 1000 * u64::from(depth) / buffered.call_ns.max(1) + 1,
        None => link,
    }
}

/// What the page cache of a job takes that writes so many sectors; or a flash cache under a trace,
/// whose devices carry bytes.
fn cached(row: &Row, sectors: u64) -> u64 {
    let pages = row.job().and_then(|job| job.buffered).map_or(0, |buffered| buffered.cache_pages);
    let flash = row.trace_cache().map_or(0, |cache| (cache.size_mib << 20) + sectors * SECTOR);
    pages.min(sectors).saturating_mul(CACHED_BYTES).saturating_add(flash)
}

/// The sectors that a job writes, at most: it begins anew when it ends before the run does,
/// and is as fast as the link.
fn job_sectors(range: f64, sectors: u64, mb_s: u64, millis: u64) -> u64 {
    // (A float that is too large becomes the largest integer.)
    let range = (sectors as f64 * range) as u64;
    let link = mb_s as f64 * 1e3 / SECTOR as f64;
    range.min((millis as f64 * link) as u64)
}

/// Whether these rows fit, so many at a time.
fn fits(needs: &[(&Row, Need)], threads: usize, available: Option<u64>) -> Result<(), String> {
    for (row, need) in needs {
        if need.database > need.capacity {
            return Err(format!(
                "row \"{}\": its database takes about {}, its drive holds {}: lower {} or raise \
                 drive.geometry.blocks",
                row.name,
                size(need.database),
                size(need.capacity),
                scale_key(row),
            ));
        }
    }
    let mut largest: Vec<_> = needs.iter().collect();
    largest.sort_by_key(|(_, need)| std::cmp::Reverse(need.memory));
    largest.truncate(threads.max(1));
    let total = largest.iter().fold(0u64, |sum, (_, need)| sum.saturating_add(need.memory));
    let (Some(available), Some((row, need))) = (available, largest.first()) else {
        return Ok(());
    };
    if total <= available {
        return Ok(());
    }
    let mut message = format!("too little memory: {} row", largest.len());
    let (plural, at_once) = if largest.len() > 1 { ("s", " at the same time") } else { ("", "") };
    let what = match row.workload {
        WorkloadKind::Pages(_) => "drive.geometry.blocks",
        WorkloadKind::Job(_) => "run.run_ms, the job's range or drive.geometry.blocks",
        _ if need.load > need.memory / 2 => scale_key(row),
        _ => "cuts, run.run_ms or drive.geometry.blocks",
    };
    // Writing to a string does not fail.
    let _ = write!(
        message,
        "{plural}{at_once} would need about {}, there are {}: lower {what}",
        size(total),
        size(available)
    );
    if largest.len() > 1 {
        message.push_str(" or --threads");
    }
    Err(message)
}

fn scale_key(row: &Row) -> &'static str {
    match row.workload {
        WorkloadKind::YcsbA => "ycsb.records",
        WorkloadKind::Tpcc => "tpcc.warehouses",
        _ => "linkbench.nodes",
    }
}

/// Bytes in a unit in which they can be read.
fn size(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e12 => format!("{:.1} TB", b / 1e12),
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b => format!("{:.0} MB", (b / 1e6).ceil()),
    }
}

/// The memory that this process may still take; `None` where the system does not say.
#[allow(clippy::disallowed_methods, reason = "the machine's memory, asked before a run")]
fn available() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let taken = entry(&status, "VmSize:").unwrap_or(0);
    let limit = limit.map(|most| most.saturating_sub(taken));
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    [limit, entry(&meminfo, "MemAvailable:")].into_iter().flatten().min()
}

/// An entry of a text in which the system tells sizes in KiB, in bytes.
fn entry(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        title = "small"
        cuts = 60
        [run]
        run_ms = [100, 900]
        [linkbench]
        nodes = 3000
        [ycsb]
        records = 2000
        [job.fill]
        passes = 2.0
        [drive.geometry]
        blocks = 64
        pages = 64
        [[row]]
        workload = ["ycsb-a", "linkbench", "fill"]
        design = ["volatile", "durassd"]
    "#;

    fn checked(sets: &[(&str, i64)], threads: usize, available: u64) -> Result<(), String> {
        let sets: Vec<_> =
            sets.iter().map(|(k, v)| (k.to_string(), toml::Value::Integer(*v))).collect();
        let experiment = Experiment::parse_with("x.toml", FILE, &sets).expect("it is sound");
        let rows = experiment.rows().expect("it has rows");
        let needs: Vec<_> =
            rows.iter().map(|r| (r, need(r, experiment.cuts).expect("it can be built"))).collect();
        fits(&needs, threads, Some(available))
    }

    #[test]
    fn small_databases_fit_into_little_memory() {
        assert_eq!(checked(&[], 2, 2 << 30), Ok(()));
        assert_eq!(checked(&[("cuts", 6)], 2, 512 << 20), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_told_with_what_to_lower() {
        let error = checked(&[], 8, 2 << 30).unwrap_err();
        assert!(error.starts_with("too little memory: 6 rows at the same time"), "{error}");
        assert!(error.ends_with("lower cuts, run.run_ms or drive.geometry.blocks or --threads"));
        assert!(error.contains("there are 2.1 GB"), "{error}");
        let error = checked(&[("ycsb.records", 400_000)], 1, 4 << 30).unwrap_err();
        assert!(error.contains("too little memory: 1 row would need about"), "{error}");
        assert!(error.ends_with("lower ycsb.records"), "{error}");
    }

    #[test]
    fn a_database_larger_than_its_drive_is_refused_with_any_memory() {
        let error = checked(&[("ycsb.records", 100_000_000)], 1, u64::MAX).unwrap_err();
        assert!(
            error.contains("its database takes about 149.3 GB, its drive holds 8.0 GB"),
            "{error}"
        );
        let error = checked(&[("linkbench.nodes", 100_000_000)], 1, u64::MAX).unwrap_err();
        assert!(error.contains("lower linkbench.nodes or raise drive.geometry.blocks"), "{error}");
        let blocks = ("drive.geometry.blocks", 4000);
        assert_eq!(checked(&[("ycsb.records", 100_000_000), blocks], 1, u64::MAX), Ok(()));
        let error = checked(&[("ycsb.records", 100_000_000), blocks], 1, 64 << 30).unwrap_err();
        assert!(error.starts_with("too little memory"), "{error}");
    }

    #[test]
    fn flash_that_is_full_takes_no_more() {
        let most = checked(&[("cuts", 1_000_000)], 1, u64::MAX);
        assert_eq!(most, Ok(()));
        // 8.6 GB raw, the database's copy, the map.
        assert_eq!(checked(&[("cuts", 1_000_000)], 1, 9 << 30), Ok(()));
    }

    #[test]
    fn the_systems_words_are_understood() {
        let meminfo = "MemTotal:       24683520 kB\nMemAvailable:   23880000 kB\nBuffers: 1 kB\n";
        assert_eq!(entry(meminfo, "MemAvailable:"), Some(23_880_000 * 1024));
        assert_eq!(entry(meminfo, "VmSize:"), None);
        assert_eq!(entry("VmSize: ? kB\n", "VmSize:"), None);
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
