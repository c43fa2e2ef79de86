//! Runs the rows of an experiment, several at a time: each in a runtime of its own,
//! on one thread, with its own seed. The report does not depend on the number of
//! threads.

use crate::file::experiment::{Expect, Experiment, Row};
use crate::file::source;
use crate::report::{Report, RowFindings, RowReport};
use crate::run::appends;
use crate::run::block;
use crate::run::cached::CachedBox;
use crate::run::engines::{self, PageModel, Part};
use crate::run::memory;
use crate::run::precondition::Preparation;
use crate::run::record::{Log, Recorded};
use crate::run::row::{self, RowBox, RowError, RowPlan, Traffic};
use crate::run::sqlite::Settings;
use crate::subject::{BLOCK_BYTES, Model};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tantalum_device::{Bus, Payload, RamDevice, Stats};
use tantalum_drive::Drive;
use tantalum_rt::{Nanos, Rt};
use tantalum_workload::pages::EngineJob;

/// What has just happened in a run.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// So much, 0 to 1, of the preconditioning of a row's drive is done.
    Preconditioning(&'a str, f64),
    /// A power cut, with recovery and check, in some row.
    Cut,
    /// A row has ended.
    RowDone(&'a RowReport),
}

/// An observer of a run. It is called from several threads.
pub type Watch = Arc<dyn Fn(Progress<'_>) + Send + Sync>;

/// Whether all rows can be run: their designs exist and can be built, their block jobs fit
/// them, and the traces that they play can be read to the end.
///
/// # Errors
/// Which row cannot, and why.
pub fn check(rows: &[Row]) -> Result<(), String> {
    for row in rows {
        let told = |e| format!("row \"{}\": {e}", row.name);
        let model = row.model().map_err(told)?;
        if row.scene.precondition.is_some() && model.ssd().is_none() {
            let kind = if model.disk().is_some() { "magnetic disk" } else { "sampled device" };
            let what = format!(
                "[precondition]: it is a {kind}, which writing does not bring into another state; \
                 run it from a file without [precondition]"
            );
            return Err(told(format!("design \"{}\": {what}", row.design)));
        }
        for design in row.pages().iter().flat_map(PageModel::log_drives).flatten() {
            Model::of(design, &row.scene).map_err(|e| told(format!("log_design: {e}")))?;
        }
        if let Some(design) = row.pages().as_ref().and_then(PageModel::cache_drive) {
            Model::of(design, &row.scene).map_err(|e| told(format!("flash: {e}")))?;
        }
        if let Some(cache) = row.trace_cache() {
            Model::of(&cache.flash, &row.scene).map_err(|e| told(format!("flash: {e}")))?;
        }
        if let Some(job) = row.appends() {
            for name in job.designs() {
                let is_archive = job.archive.as_ref() == Some(name);
                let key = if is_archive { "archive" } else { "beside" };
                Model::of(name, &row.scene).map_err(|e| told(format!("{key}: {e}")))?;
            }
        }
        if let Some(job) = row.job() {
            let bytes = memory::need(row, 1).map_err(told)?.capacity;
            job.fits(bytes, model.block_bytes()).map_err(|e| told(e.to_string()))?;
        }
    }
    databases(rows)?;
    source::check(rows)
}

/// Whether the databases of models of engines fit their drives.
///
/// # Errors
/// Of the first engine whose database does not: in how many rows, and the largest that fits all of
/// them.
fn databases(rows: &[Row]) -> Result<(), String> {
    // Of each row: how large a database its drive has room for.
    let mut beyond: Vec<(&Row, EngineJob, Option<u64>)> = Vec::new();
    for row in rows {
        let Some(PageModel::Engine(job, ..)) = row.pages() else { continue };
        let model = row.model().map_err(|e| format!("row \"{}\": {e}", row.name))?;
        let (block, bytes) = (model.block_bytes(), memory::need(row, 1)?.capacity);
        let blocks = bytes / u64::from(block);
        // (A page that is no whole number of blocks has words of its own.)
        if job.fits_blocks(block, block).is_ok() && !job.has_room(block, blocks) {
            let largest = job.largest_database(block, blocks);
            beyond.push((row, *job, largest));
        }
    }
    let Some((first, job, _)) = beyond.first() else { return Ok(()) };
    let same = || beyond.iter().filter(|(row, ..)| row.workload == first.workload);
    let of = match same().count() {
        1 => format!("row \"{}\"", first.name),
        n => format!("{n} rows, the first of them \"{}\"", first.name),
    };
    let asked = same().map(|(_, job, _)| job.database_mib).max().unwrap_or(job.database_mib);
    let key = format!("engine.{}: database_mib = {asked}", first.workload);
    Err(match same().map(|(_, _, largest)| *largest).min().flatten() {
        Some(most) => format!("{key} is too large for the drive of {of}: at most {most} MiB fit"),
        None => format!(
            "{key} is too large for the drive of {of}, and so is any other: lower log_mib or take a \
             larger drive"
        ),
    })
}

/// Runs these rows of the experiment, `threads` at a time. `progress` is told
/// how it gets on.
pub fn run(experiment: &Experiment, rows: &[Row], threads: usize, progress: &Watch) -> Report {
    run_recorded(experiment, rows, threads, progress, None)
}

/// The same; what the rows do to their drives goes into `log`, one after the other if there is
/// one thread. The drives carry bytes then.
pub fn run_recorded(
    experiment: &Experiment,
    rows: &[Row],
    threads: usize,
    progress: &Watch,
    log: Option<&Log>,
) -> Report {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<RowReport>>> = rows.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((row, place)) = {
            let i = next.fetch_add(1, Ordering::Relaxed);
            rows.get(i).zip(done.get(i))
        } {
            let report = run_row(experiment, row, progress, log);
            progress(Progress::RowDone(&report));
            *place.lock().unwrap_or_else(|e| e.into_inner()) = Some(report);
        }
    };
    #[allow(clippy::disallowed_methods, reason = "the edge: a runtime a thread")]
    std::thread::scope(|scope| {
        for _ in 1..threads.min(rows.len()) {
            scope.spawn(work);
        }
        work();
    });
    let reports =
        done.into_iter().filter_map(|r| r.into_inner().unwrap_or_else(|e| e.into_inner()));
    report(experiment, reports.collect())
}

/// The report of these rows, which may be fewer than the experiment has.
pub fn report(experiment: &Experiment, rows: Vec<RowReport>) -> Report {
    let mut report = Report {
        title: experiment.title.clone(),
        seed: experiment.seed,
        cuts: experiment.cuts,
        published: experiment.published.clone(),
        ratios: Vec::new(),
        rows,
    };
    report.ratios = experiment.ratios.iter().filter_map(|r| r.report(&report.rows)).collect();
    report
}

fn run_row(experiment: &Experiment, row: &Row, progress: &Watch, log: Option<&Log>) -> RowReport {
    let seed = experiment.row_seed(&row.name);
    let ran = catch_unwind(AssertUnwindSafe(|| try_row(experiment, row, seed, progress, log)));
    let (findings, error) = match ran {
        Ok((findings, result)) => (findings, result.err()),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().cloned();
            let words = words.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
            let error = RowError::Panic(words.unwrap_or_else(|| "no message".into()));
            (RowFindings::default(), Some(error))
        }
    };
    RowReport::new(row, seed, findings, error.map(|e| e.to_string()))
}

fn try_row(
    experiment: &Experiment,
    row: &Row,
    seed: u64,
    progress: &Watch,
    log: Option<&Log>,
) -> (RowFindings, Result<(), RowError>) {
    let run = &row.scene.run;
    let (told, name) = (progress.clone(), row.name.clone());
    let tell: Rc<dyn Fn(f64)> = Rc::new(move |share| told(Progress::Preconditioning(&name, share)));
    let preparation = row.scene.precondition.as_ref().map(|how| Preparation {
        how: how.clone(),
        job: row.job().cloned(),
        tell: tell.clone(),
    });
    let plan = RowPlan {
        cuts: experiment.cuts,
        until_loss: row.expect == Expect::Lossy,
        clients: run.clients,
        warm_up: Nanos::from_millis(run.warm_up_ms),
        run_time: run.run_ms.map(Nanos::from_millis),
        outage: run.outage_ms.map(Nanos::from_millis),
        recovery_cut_percent: run.recovery_cut_percent,
        settings: Settings {
            page_bytes: run.page_bytes,
            cache_pages: run.cache_pages,
            journal: row.journal,
            synchronous: row.synchronous,
        },
        preparation,
        tell: tell.clone(),
    };
    // A workload without SQLite has no content except stamps.
    let bytes = row.workload.has_journal() || log.is_some();
    let payload = if bytes { Payload::Bytes } else { Payload::Stamps };
    let model = match row.model() {
        Ok(model) => model,
        Err(e) => return (RowFindings::default(), Err(RowError::Design(e))),
    };
    if log.is_some() && model.block_bytes() != BLOCK_BYTES {
        let what = format!(
            "a log of writes has blocks of {BLOCK_BYTES} bytes, and design \"{}\" has {} \
             (`block_bytes`)",
            row.design,
            model.block_bytes()
        );
        return (RowFindings::default(), Err(RowError::Design(what)));
    }
    let made = |rt: &Rt| {
        let built = model.build(rt, payload).map_err(RowError::Design)?;
        Ok(Recorded::new(Stats::new(rt, built), log.cloned()))
    };
    let progress = progress.clone();
    let cut = move || progress(Progress::Cut);
    if let Some((how, job)) = row.trace().zip(row.trace_cache()) {
        if log.is_some() {
            let what = "a trace behind a flash cache cannot be recorded: record a job";
            return (RowFindings::default(), Err(RowError::Design(what.into())));
        }
        let made = |rt: &Rt| {
            let built = |model: Model| {
                let made = model.build(rt, Payload::Bytes).map_err(RowError::Design)?;
                Ok::<_, RowError>(Stats::new(rt, made))
            };
            let flash = built(Model::of(&job.flash, &row.scene).map_err(RowError::Design)?)?;
            CachedBox::new(rt, job, how.page_size, flash, built(model)?, tell.clone())
        };
        return block::replay(seed, plan, (how, source::open(how)), made, cut);
    }
    if let Some(how) = row.trace() {
        return block::replay(seed, plan, (how, source::open(how)), made, cut);
    }
    if let Some(job) = row.appends() {
        if log.is_some() {
            let what = "requesters that append to a log cannot be recorded: record a job";
            return (RowFindings::default(), Err(RowError::Design(what.into())));
        }
        let (beside, archive) = (job.beside.clone(), job.archive.clone());
        let made = |rt: &Rt| {
            // (An array is several devices, and is alone at its place.)
            let build = |(place, model): (u32, Result<Model, String>)| {
                let built = model.and_then(|m| m.build_at(rt, Payload::Bytes, place, None));
                built.map_err(RowError::Design)
            };
            let named = |name: &String| Model::of(name, &row.scene);
            let array = [Ok(model)].into_iter().chain(beside.iter().map(named));
            let archive = archive.as_ref().map(named);
            let after = 1 + beside.len() as u32;
            Ok(appends::Boxes {
                array: (0..).zip(array).map(build).collect::<Result<_, _>>()?,
                archive: archive.map(|model| build((after, model))).transpose()?,
            })
        };
        return appends::run(seed, plan, job, made, cut);
    }
    if let Some(engine) = row.pages() {
        let of = |part| match part {
            Part::Log(i) => match engine.log_drives().get(i).copied().flatten() {
                Some(design) => Model::of(design, &row.scene),
                None => Ok(model.clone()),
            },
            Part::Flash => Model::of(engine.cache_drive().unwrap_or_default(), &row.scene),
            Part::Pages => Ok(model.clone()),
        };
        let bus = RefCell::new(None);
        let made = |rt: &Rt, part| {
            let payload = if log.is_some() { Payload::Bytes } else { engine.payload(part) };
            let built = of(part).and_then(|model| {
                let Part::Log(i) = part else { return model.build(rt, payload) };
                let shared = engine.log_bus().filter(|(_, devices)| i < *devices);
                if i == 0 {
                    *bus.borrow_mut() = shared.map(|(mb_s, _)| Bus::new(mb_s)).transpose()?;
                }
                let bus = bus.borrow().clone().filter(|_| shared.is_some());
                model.build_at(rt, payload, i as u32, bus.as_ref())
            });
            // What is recorded is the drive with the pages.
            let log = log.filter(|_| part == Part::Pages).cloned();
            Ok(Recorded::new(Stats::new(rt, built.map_err(RowError::Design)?), log))
        };
        return engines::run(seed, plan, engine.clone(), made, cut);
    }
    match (row.benchmark(), row.job()) {
        (Some(benchmark), _) => {
            let (mut findings, done) = row::run(seed, plan, Rc::from(benchmark), made, cut);
            if run.commit_costs {
                findings.measure_commits();
            }
            (findings, done)
        }
        (None, Some(job)) => block::run(seed, plan, job.clone(), made, cut),
        (None, None) => unreachable!("a row's workload was looked up when it was read"),
    }
}

impl<S: RowBox> RowBox for Stats<S> {
    fn traffic(&self) -> Traffic {
        let moved_bytes = self.snapshot().bytes_moved();
        Traffic { busy: self.busy(), moved_bytes, ..self.inner().traffic() }
    }

    fn drives(&self) -> &[Drive] {
        self.inner().drives()
    }
}

/// For tests and for a look at what a device without flash would do.
impl RowBox for Stats<RamDevice> {
    fn traffic(&self) -> Traffic {
        let (all, busy) = (self.snapshot(), self.busy());
        let (host_bytes, moved_bytes) = (all.bytes_written(), all.bytes_moved());
        Traffic { host_bytes, busy, moved_bytes, ..Traffic::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_drive::Design;

    fn told(design: &str, table: &str) -> Result<(), String> {
        let text = format!(
            "title = \"t\"\ncuts = 1\n{table}\n[[row]]\nworkload = \"ycsb-a\"\ndesign = \"{design}\""
        );
        let rows = Experiment::parse("f.toml", &text).map_err(|e| e.to_string())?.rows()?;
        check(&rows)
    }

    #[test]
    fn a_file_may_have_designs_of_its_own() {
        let mine = "[design.mine]\nbase = \"durassd\"\ncache = { buffer_kib = 8192 }";
        assert_eq!(told("mine", mine), Ok(()));
        let whole = Design::preset_text("volatile").unwrap().replace("\n[", "\n[design.all.");
        let whole = format!("[design.all]\n{whole}");
        assert_eq!(told("all", &whole), Ok(()));
        let stacked =
            format!("{mine}\n[design.more]\nbase = \"mine\"\nmap = {{ write_points = 2 }}");
        assert_eq!(told("more", &stacked), Ok(()));
        let text = format!(
            "title = \"t\"\ncuts = 1\n{stacked}\n[[row]]\nworkload = \"ycsb-a\"\ndesign = \"more\""
        );
        let rows = Experiment::parse("f.toml", &text).unwrap().rows().unwrap();
        let model = rows[0].model().unwrap();
        let design = model.ssd().expect("an SSD");
        assert_eq!((design.cache.buffer_kib, design.map.write_points), (8192, 2));
        assert_eq!(design.name, "more");
        for (design, table, expected) in [
            ("mein", mine, "unknown design \"mein\"; did you mean \"mine\"?"),
            ("mine", "[design.mine]\nbase = \"durasd\"", "there is no design \"durasd\""),
            ("mine", "[design.mine]\nbase = \"durassd\"\ncache = { bufer_kib = 1 }", "bufer_kib"),
            ("mine", "[design.mine]\nbase = \"durassd\"\ngeometry = { blocks = 0 }", "blocks"),
        ] {
            let error = told(design, table).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
