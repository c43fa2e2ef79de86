//! Runs the rows of an experiment, several at a time: each in a runtime of its own,
//! on one thread, with its own seed. The report does not depend on the number of
//! threads.

use crate::block;
use crate::engine::Settings;
use crate::experiment::{Experiment, Row};
use crate::parse;
use crate::report::{Report, RowFindings, RowReport};
use crate::row::{self, RowError, RowPlan, Subject, Traffic};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tantalum_device::{Payload, RamDevice, Stats};
use tantalum_drive::{Design, Drive};
use tantalum_rt::{Nanos, Rt};

/// What has just happened in a run.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// A power cut, with recovery and check, in some row.
    Cut,
    /// A row has ended.
    RowDone(&'a str),
}

/// Who wants to know how a run gets on; called from several threads.
pub type Watch = Arc<dyn Fn(Progress<'_>) + Send + Sync>;

/// Whether all rows can be run: their designs exist and can be built.
///
/// # Errors
/// Which row can not, and why.
pub fn check(rows: &[Row]) -> Result<(), String> {
    for row in rows {
        design(row).map_err(|e| format!("row \"{}\": {e}", row.name))?;
    }
    Ok(())
}

/// The design of a row: a preset or one of the file's own, with the row's changes.
pub(crate) fn design(row: &Row) -> Result<Design, String> {
    let own = row.scene.design.get(&row.design);
    let design = match own {
        None => Design::preset(&row.design).map_err(|_| {
            let own = row.scene.design.keys().map(String::as_str);
            let known = Design::presets().iter().copied().chain(own);
            parse::unknown("unknown design", &row.design, known)
        })?,
        Some(table) => {
            let mut table = table.clone();
            table.entry("name").or_insert_with(|| row.design.clone().into());
            match table.remove("base").as_ref().map(toml::Value::as_str) {
                None => Design::from_toml(&table.to_string()).map_err(|e| e.to_string())?,
                Some(base) => {
                    let base =
                        Design::preset(base.unwrap_or_default()).map_err(|e| e.to_string())?;
                    base.with_overrides(&table).map_err(|e| e.to_string())?
                }
            }
        }
    };
    design.with_overrides(&row.scene.drive).map_err(|e| e.to_string())
}

/// Runs these rows of the experiment, `threads` at a time. `progress` is told
/// how it gets on.
pub fn run(experiment: &Experiment, rows: &[Row], threads: usize, progress: &Watch) -> Report {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<RowReport>>> = rows.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((row, place)) = {
            let i = next.fetch_add(1, Ordering::Relaxed);
            rows.get(i).zip(done.get(i))
        } {
            let report = run_row(experiment, row, progress);
            progress(Progress::RowDone(&row.name));
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
    Report {
        title: experiment.title.clone(),
        seed: experiment.seed,
        cuts: experiment.cuts,
        rows: reports.collect(),
    }
}

fn run_row(experiment: &Experiment, row: &Row, progress: &Watch) -> RowReport {
    let seed = experiment.row_seed(&row.name);
    let ran = catch_unwind(AssertUnwindSafe(|| try_row(experiment, row, seed, progress)));
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
) -> (RowFindings, Result<(), RowError>) {
    let run = &row.scene.run;
    let plan = RowPlan {
        cuts: experiment.cuts,
        clients: run.clients,
        run_time: run.run_ms.map(Nanos::from_millis),
        outage: run.outage_ms.map(Nanos::from_millis),
        recovery_cut_percent: run.recovery_cut_percent,
        settings: Settings {
            page_bytes: run.page_bytes,
            cache_pages: run.cache_pages,
            journal: row.journal,
            synchronous: row.synchronous,
        },
    };
    // A block job's content is nothing but its stamps.
    let payload = if row.job().is_some() { Payload::Stamps } else { Payload::Bytes };
    let drive = |rt: &Rt| {
        let design = design(row).map_err(RowError::Design)?;
        let made = Drive::new(rt, &design, payload);
        made.map_err(|e| RowError::Design(e.to_string()))
    };
    let progress = progress.clone();
    let cut = move || progress(Progress::Cut);
    match (row.benchmark(), row.job()) {
        (Some(benchmark), _) => row::run(seed, plan, Rc::from(benchmark), drive, cut),
        (None, Some(job)) => block::run(seed, plan, job.clone(), drive, cut),
        (None, None) => unreachable!("a row's workload was looked up when it was read"),
    }
}

impl Subject for Drive {
    fn traffic(&self) -> Traffic {
        let stats = self.stats();
        Traffic { host_bytes: stats.host_write_bytes, flash_bytes: Some(stats.flash_program_bytes) }
    }
}

/// For tests and for a look at what a device without flash would do.
impl Subject for Stats<RamDevice> {
    fn traffic(&self) -> Traffic {
        Traffic { host_bytes: self.snapshot().bytes_written(), flash_bytes: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
