//! A cache on devices, used by tasks.
//!
//! 1. Files of a benchmark have no name while it runs: however it ends, nothing is left of them.
//! 2. A use is a fetch and an eviction. A changed page is durable when its use has ended.
//! 3. No page is used by two tasks at once.

use super::markdown;
use crate::cache::started::Failed;
use crate::counted::counted;
use crate::interrupt::Stop;
use crate::members::{
    Admit, CacheDescription, CacheDevices, Clean, Files, LabelPlace, MemberLink, Policy, Sync,
    cache_in_words, make, of_options, runtime, usual_batch,
};
use crate::{out, units};
use clap::Args;
use comfy_table::Table;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tantalum_cache::flash::{
    CacheError, CacheStats, DeviceStore, Fetched, FlashCache, NoHost, OpenOptions,
};
use tantalum_device::{Latencies, PowerCycle};
use tantalum_nand::Opening;
use tantalum_rt::{Nanos, Rt, Runtime, Stream, join_all};

/// Arguments about devices.
#[derive(Args, Clone)]
pub struct DeviceArguments {
    /// The flash device: a folder, which gets a file, or model:NAME:SIZE
    #[arg(long, value_name = "PATH", requires = "slow")]
    flash: Option<PathBuf>,
    /// The slow device, likewise
    #[arg(long, value_name = "PATH", requires = "flash")]
    slow: Option<PathBuf>,
    /// The size of the file of the flash device
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "256MiB")]
    flash_size: u64,
    /// The size of the file of the slow device
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "1GiB")]
    slow_size: u64,
    /// Tasks that use pages, one run for each
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 16],
          value_parser = units::whole::<u32>(1..=1024))]
    tasks: Vec<u32>,
    /// The share of uses that change their page
    #[arg(long, value_name = "PERCENT", default_value = "30%", value_parser = units::whole_percent)]
    changes: u8,
    /// How long each run takes, and at most its filling; virtual time on models
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = units::time)]
    length: Nanos,
    /// A page
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "4KiB")]
    page: u64,
    /// Pages of a batch: one write of the flash device has them
    #[arg(long, value_name = "N", default_value_t = usual_batch(),
          value_parser = units::whole::<u32>(..))]
    batch: u32,
    /// When dirty pages reach the slow device
    #[arg(long, value_enum, default_value_t = Sync::Back)]
    mode: Sync,
    /// What leaves the cache
    #[arg(long, value_enum, default_value_t = Policy::Gsc)]
    policy: Policy,
}

/// One run.
#[derive(Serialize)]
pub struct Run {
    tasks: u32,
    uses: u64,
    seconds: f64,
    uses_per_second: f64,
    hit_rate: f64,
    fetch_p50_ns: u64,
    fetch_p99_ns: u64,
    /// Evictions of changed pages.
    evict_p50_ns: u64,
    evict_p99_ns: u64,
    flash_bytes: u64,
    slow_pages: u64,
}

/// What tasks have done.
#[derive(Default)]
struct Done {
    fetches: Latencies,
    evictions: Latencies,
    hits: u64,
}

type Cache = FlashCache<MemberLink, DeviceStore<MemberLink>>;

/// Where the flash device is, and the slow one.
pub type Places<'a> = (&'a Path, &'a Path);

impl DeviceArguments {
    /// The devices, if they are named.
    pub fn places(&self) -> Option<Places<'_>> {
        Some((self.flash.as_deref()?, self.slow.as_deref()?))
    }

    /// What all runs are called.
    pub fn names(&self) -> Vec<String> {
        self.tasks.iter().map(|tasks| counted(u64::from(*tasks), "task", "tasks")).collect()
    }
}

/// Measures; after an interrupt these are the runs that have ended.
pub fn measured(
    arguments: &DeviceArguments,
    places: Places<'_>,
    stop: &Stop,
) -> Result<Vec<Run>, Failed> {
    let mut runs = Vec::new();
    for tasks in &arguments.tasks {
        let run = one(arguments, places, *tasks, stop)?;
        if stop.is_set() {
            break;
        }
        runs.push(run);
    }
    Ok(runs)
}

fn usage(why: impl std::fmt::Display) -> Failed {
    (cache_in_words(why), out::USAGE)
}

fn failed(why: impl std::fmt::Display) -> Failed {
    (cache_in_words(why), out::FAILED)
}

/// The path of a device; for a folder that of a new file in it.
fn place(path: &Path, bytes: u64, name: &str, made: &mut Files) -> Result<PathBuf, Failed> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let file = path.join(format!("tantalum-bench-{}-{name}", std::process::id()));
    made.0.push(file.clone());
    let mut options = tantalum_log::BlockingOptions::default();
    options.file.keep_room = true;
    make(&file, bytes, &mut options)?;
    Ok(file)
}

/// One run. An interrupt ends it early.
fn one(
    arguments: &DeviceArguments,
    (flash, slow): Places<'_>,
    tasks: u32,
    stop: &Stop,
) -> Result<Run, Failed> {
    let is_model = |path: &Path| path.to_str().is_some_and(|text| text.starts_with("model:"));
    if ![flash, slow].into_iter().all(|path| path.is_dir() || is_model(path)) {
        return Err(usage("name a folder or a model for each device: a benchmark makes its own"));
    }
    let mut made = Files(Vec::new());
    let description = CacheDescription {
        flash: place(flash, arguments.flash_size, "flash", &mut made)?,
        slow: place(slow, arguments.slow_size, "slow", &mut made)?,
        page_bytes: u32::try_from(arguments.page)
            .map_err(|_| usage(format!("{} bytes are too many for a page", arguments.page)))?,
        batch_pages: arguments.batch,
        mode: arguments.mode,
        policy: arguments.policy,
        label: LabelPlace::Begin,
        clean: Clean::Read,
        scan: None,
        admit: Admit::Mixed,
        ghosts: false,
    };
    description.check().map_err(|fault| usage(of_options(fault)))?;
    let mut runtime = match description.is_modelled() {
        true => Runtime::virtual_time(1),
        false => runtime().map_err(usage)?,
    };
    let rt = runtime.handle();
    let devices = CacheDevices::open(&rt, &description, Opening::default()).map_err(usage)?;
    drop(made); // (1)
    let options = description.options().map_err(usage)?;
    let (changes, length, page) = (arguments.changes, arguments.length, description.page_bytes);
    let stop = stop.clone();
    let work = async move {
        devices.members().power_on().await.map_err(failed)?;
        let (flash, slow) = (devices.flash.device(), devices.slow.device());
        let store = DeviceStore::new(slow, page).map_err(usage)?;
        Cache::format(&rt, &flash, &store, &options.format).await.map_err(usage)?;
        let open = OpenOptions {
            replacement: options.cache.replacement,
            mode: Some(options.format.mode),
            ..OpenOptions::default()
        };
        let pages = tantalum_cache::flash::SlowStore::pages(&store);
        let cache = Cache::open(&rt, flash, store, Rc::new(NoHost), open).await.map_err(usage)?;
        let users = Users { rt: rt.clone(), cache: cache.clone(), pages, changes: changes.into() };
        let full = |stats: CacheStats| stats.used + 64 >= stats.frames || stop.is_set();
        users.work(tasks, length, full).await.map_err(failed)?;
        let (before, began) = (cache.stats(), rt.now());
        let done = users.work(tasks, length, |_| stop.is_set()).await.map_err(failed)?;
        let (after, took) = (cache.stats(), rt.now().saturating_sub(began));
        cache.close().await.map_err(failed)?;
        Ok(run(tasks, &done, (before, after), took))
    };
    runtime.block_on(work).map_err(|e| failed(format!("the cache has stalled: {e}")))?
}

fn run(tasks: u32, done: &Done, (before, after): (CacheStats, CacheStats), took: Nanos) -> Run {
    let (uses, seconds) = (done.fetches.count(), took.0 as f64 / 1e9);
    Run {
        tasks,
        uses,
        seconds,
        uses_per_second: uses as f64 / seconds.max(1e-9),
        hit_rate: done.hits as f64 / uses.max(1) as f64,
        fetch_p50_ns: done.fetches.p50().0,
        fetch_p99_ns: done.fetches.p99().0,
        evict_p50_ns: done.evictions.p50().0,
        evict_p99_ns: done.evictions.p99().0,
        flash_bytes: after.flash_bytes - before.flash_bytes,
        slow_pages: after.slow_writes - before.slow_writes,
    }
}

/// Tasks over a cache.
struct Users {
    rt: Rt,
    cache: Cache,
    pages: u64,
    changes: u32,
}

impl Users {
    /// Uses pages for so long, or until `enough`.
    async fn work(
        &self,
        tasks: u32,
        length: Nanos,
        enough: impl Fn(CacheStats) -> bool,
    ) -> Result<Done, CacheError> {
        let (done, in_use) = (RefCell::new(Done::default()), RefCell::new(BTreeSet::new()));
        let began = self.rt.now();
        let work = |task: u32| {
            let (done, in_use, enough) = (&done, &in_use, &enough);
            async move {
                let mut random = self.rt.stream(&format!("user {task} from {began}"));
                let mut buf = vec![0; self.cache.page_bytes()];
                loop {
                    let page = self.draw(&mut random);
                    if in_use.borrow_mut().insert(page) {
                        let used = self.touch(page, &mut random, &mut buf, done).await;
                        in_use.borrow_mut().remove(&page);
                        used?;
                    }
                    let late = self.rt.now().saturating_sub(began) >= length;
                    if late || enough(self.cache.stats()) {
                        return Ok(());
                    }
                }
            }
        };
        let ended = join_all((0..tasks).map(work).collect()).await;
        ended.into_iter().collect::<Result<Vec<()>, CacheError>>()?;
        Ok(done.into_inner())
    }

    /// A page: half of the draws are of the first eighth.
    fn draw(&self, random: &mut Stream) -> u64 {
        let unit = random.next_u64() as f64 / u64::MAX as f64;
        ((unit.powi(3) * self.pages as f64) as u64).min(self.pages - 1)
    }

    /// Uses a page.
    async fn touch(
        &self,
        page: u64,
        random: &mut Stream,
        buf: &mut [u8],
        done: &RefCell<Done>,
    ) -> Result<(), CacheError> {
        let start = self.rt.now();
        let found = self.cache.fetch(page, buf).await?;
        let fetched = self.rt.now();
        let lsn = match found {
            Fetched::Flash { lsn, .. } => lsn,
            Fetched::Slow => 0,
        };
        let changes = random.next_u64() % 100 < u64::from(self.changes);
        if changes {
            buf[0] = buf[0].wrapping_add(1);
            self.cache.evict(page, buf, true, lsn + 1).await?;
        } else if self.cache.stage(page, buf, false, lsn)?.is_none() {
            self.cache.until_room().await?;
            // Without room still, the slow device has it.
            self.cache.stage(page, buf, false, lsn)?;
        }
        let mut done = done.borrow_mut();
        done.fetches.record(fetched.saturating_sub(start));
        done.hits += u64::from(matches!(found, Fetched::Flash { .. }));
        if changes {
            done.evictions.record(self.rt.now().saturating_sub(fetched));
        }
        Ok(())
    }
}

/// As a table.
pub fn table(runs: &[Run]) -> Table {
    let mut table = markdown(&[
        "tasks",
        "uses/s",
        "hits",
        "fetch p50",
        "fetch p99",
        "evict p50",
        "evict p99",
        "flash MiB/s",
        "slow pages/s",
    ]);
    let time = |ns: u64| Nanos(ns).to_string();
    for r in runs {
        let seconds = r.seconds.max(1e-9);
        table.add_row([
            r.tasks.to_string(),
            format!("{:.0}", r.uses_per_second),
            format!("{:.3}", r.hit_rate),
            time(r.fetch_p50_ns),
            time(r.fetch_p99_ns),
            time(r.evict_p50_ns),
            time(r.evict_p99_ns),
            format!("{:.1}", r.flash_bytes as f64 / seconds / f64::from(1 << 20)),
            format!("{:.0}", r.slow_pages as f64 / seconds),
        ]);
    }
    table
}
