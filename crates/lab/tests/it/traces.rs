//! Recorded traces as workloads of an experiment: found beside its file, played under
//! power cuts, judged block by block, and told of when they cannot be read.

use std::io::{BufRead, Cursor};
use std::sync::{Arc, Mutex};
use tantalum_lab::file::experiment::{Expect, Experiment};
use tantalum_lab::report::{Report, Verdict};
use tantalum_lab::run::runner;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../workload/tests/samples/");

fn text(file: &str, more: &str) -> String {
    format!(
        "title = \"t\"\ncuts = 8\n[run]\nrun_ms = [5, 40]\n[drive.geometry]\nblocks = 64\n\
         pages = 64\n[trace.some]\nfile = \"{file}\"\naddresses = \"scale\"\n{more}\n\
         [[row]]\nworkload = \"some\"\ndesign = \"durassd\"\nexpect = \"lossless\"\n\
         [[row]]\nworkload = \"some\"\ndesign = \"volatile\"\n"
    )
}

fn run(name: &str, text: &str) -> Result<Report, String> {
    watched(name, text, Arc::new(|_: runner::Progress<'_>| ()))
}

fn watched(name: &str, text: &str, watch: runner::Watch) -> Result<Report, String> {
    let experiment = Experiment::parse(name, text).map_err(|e| e.to_string())?;
    let rows = experiment.rows()?;
    runner::check(&rows)?;
    Ok(runner::run(&experiment, &rows, 1, &watch))
}

#[test]
fn a_trace_is_played_under_power_cuts_and_nothing_promised_is_lost() {
    // The file's name counts from the experiment's.
    let name = format!("{SAMPLES}an-experiment.toml");
    let fast = run(&name, &text("fio3.log", "queue_depth = 4")).expect("it runs");
    let timed = run(&name, &text("fio3.log", "mode = \"timed\"")).expect("it runs");
    for report in [&fast, &timed] {
        for row in &report.rows {
            assert_eq!(row.verdict, Verdict::AsExpected, "{row:#?}");
            let f = &row.findings;
            let replay = f.replay.expect("a trace was played");
            assert!(replay.passes > 1 && replay.moved > 0, "{replay:?}");
            assert!(f.transactions > 100 && replay.requests >= f.transactions, "{replay:?}");
            assert!(f.blocks_compared > 100, "{f:#?}");
            let commands: u64 =
                f.operations.iter().filter(|o| *o.0 != "flush").map(|o| o.1.count).sum();
            assert_eq!(commands, f.transactions);
        }
        assert_eq!(report.rows[0].expect, Expect::Lossless);
        assert!(report.rows.iter().any(|r| r.findings.lost_anything()), "volatile loses");
    }
    // As recorded it is slower than a drive can be; and the same each time.
    let rate = |r: &Report| r.rows[0].findings.transactions_per_second;
    assert!(rate(&timed) < 0.7 * rate(&fast), "{} {}", rate(&timed), rate(&fast));
    let again = run(&name, &text("fio3.log", "queue_depth = 4")).expect("it runs");
    assert_eq!(again.to_json(), fast.to_json());
}

#[test]
fn the_built_in_sample_needs_no_file() {
    let report = run("nowhere/t.toml", &text("built-in", "queue_depth = 4")).expect("it runs");
    let name = format!("{SAMPLES}an-experiment.toml");
    let beside = run(&name, &text("fio3.log", "queue_depth = 4")).expect("it runs");
    for (here, there) in report.rows.iter().zip(&beside.rows) {
        assert_eq!(here.findings.trace_hash, there.findings.trace_hash);
    }
    assert_eq!(report.rows.len(), beside.rows.len());
}

/// The same trace on a volume with a flash cache of this table before each device.
fn behind_a_cache(table: &str) -> Result<Report, String> {
    let more = format!(
        "queue_depth = 4\npage_size = 4096\ncache = \"flash\"\n[cache.flash]\n\
         flash = \"durassd\"\nsize_mib = 8\nbatch = 16\nprepare = 0.0\n{table}"
    );
    run(&format!("{SAMPLES}an-experiment.toml"), &text("fio3.log", &more))
}

#[test]
fn a_trace_is_played_behind_a_flash_cache_and_nothing_promised_is_lost() {
    let mut reads_that_hit = Vec::new();
    for table in ["", "policy = \"mvfifo\"\nmode = \"through\"", "admit = \"dirty\""] {
        let report = behind_a_cache(table).expect("it runs");
        for row in &report.rows {
            // (A volume acknowledges what it has in memory, whatever its devices are.)
            let f = &row.findings;
            assert_eq!((f.violations, row.error.as_ref()), (0, None), "{row:#?}");
            assert!(f.transactions > 100 && f.blocks_compared > 100, "{f:#?}");
            let hits = f.measures["cache_hit_rate"];
            assert!((0.0..=1.0).contains(&hits), "{hits}");
            assert!(f.measures["cache_sequential"] > 0.5, "{f:#?}");
            // (Blocks of what was written, and of the reads that hit.)
            let moved = f.measures["cache_mib_s"] * f.load_ns as f64 / 1e9 * 1048576.0;
            let moved = moved.round() as u64;
            assert!(moved > 0 && moved.is_multiple_of(4096), "{moved}");
        }
        let again = behind_a_cache(table).expect("it runs");
        assert_eq!(again.to_json(), report.to_json());
        reads_that_hit.push(report.rows[0].findings.measures["cache_hit_rate"]);
    }
    // (The trace reads nothing again that it wrote: with the last table no page enters that is read.)
    let [mixed, through, dirty] = reads_that_hit[..] else { unreachable!("one for each table") };
    assert!(mixed > 0.0 && through > 0.0 && dirty == 0.0, "{reads_that_hit:?}");
}

/// A large drive of a cache takes minutes: how far it is, is told as of any drive that is prepared.
#[test]
fn how_far_the_drive_of_a_cache_is_prepared_is_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let seen = told.clone();
    let watch: runner::Watch = Arc::new(move |progress: runner::Progress<'_>| {
        if let runner::Progress::Preconditioning(_, share) = progress {
            seen.lock().expect("one thread").push(share);
        }
    });
    let more = "queue_depth = 4\npage_size = 4096\ncache = \"flash\"\n[cache.flash]\n\
                flash = \"durassd\"\nsize_mib = 8\nbatch = 16\nprepare = 0.02";
    let name = format!("{SAMPLES}an-experiment.toml");
    watched(&name, &text("fio3.log", more), watch).expect("it runs");
    let told = told.lock().expect("one thread");
    assert!(told.iter().any(|share| *share > 0.0 && *share < 1.0), "{told:?}");
    assert_eq!(told.last(), Some(&1.0), "{told:?}");
}

#[test]
fn a_cache_that_a_trace_cannot_have_is_told() {
    let told = |table: &str| behind_a_cache(table).expect_err("it is refused");
    let error = told("policy = \"lc\"");
    assert!(error.contains("trace.some: policy = lc: must be gsc or mvfifo"), "{error}");
    let error = told("admit = \"clean\"");
    assert!(error.contains("trace.some: admit = clean: must be mixed or dirty"), "{error}");
    let name = format!("{SAMPLES}an-experiment.toml");
    let text = text("fio3.log", "cache = \"flash\"\n[cache.flahs]");
    let error = run(&name, &text).expect_err("there is none");
    assert!(error.contains("did you mean \"flahs\"?"), "{error}");
}

#[test]
fn what_can_not_be_played_is_told_before_the_run() {
    let name = format!("{SAMPLES}an-experiment.toml");
    let told = |file: &str, more: &str| run(&name, &text(file, more)).expect_err("it is refused");
    let error = told("nothing.log", "");
    assert!(error.starts_with("row \"some/durassd\": cannot read the trace"), "{error}");
    assert!(error.contains("nothing.log"), "{error}");
    let error = told("README.md", "");
    assert!(error.contains("README.md\" is not recognised"), "{error}");
    let error = told("fio3.log", "format = \"msr\"");
    assert!(error.contains("fio3.log, line 1: expected"), "{error}");
    let error = told("fio3.log", "format = \"fio3\"");
    assert!(error.contains("fio3"), "{error}");
    let error = told("fio3.log", "device = \"none\"");
    assert!(error.contains("has no request of device \"none\""), "{error}");
    let error = told("fio3.log", "queue_depth = 0");
    assert!(error.contains("an-experiment.toml:11: trace.some: `queue_depth` is 0"), "{error}");
    let error = told("fio3.log", "speed = 0.0");
    assert!(error.contains("trace.some: `speed` is 0"), "{error}");
    let error = told("fio3.log", "spead = 2.0");
    assert!(error.contains("unknown key \"spead\"; did you mean \"speed\"?"), "{error}");
    let error = told("fio3.log", "[job.some]\ncommands = 1");
    assert!(error.contains("\"some\" is a [job] and a [trace]"), "{error}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a trace is a file")]
fn a_malformed_line_is_told_before_the_run_with_file_and_line() {
    let sample = std::fs::read_to_string(format!("{SAMPLES}spc.csv")).expect("a sample");
    let lines = sample.lines().count();
    let file = format!("{}/broken.csv", env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(&file, sample + "0,1,512,x,9.0\n").expect("it is written");
    let error = run("here.toml", &text(&file, "")).expect_err("its end is not sound");
    let place = format!("broken.csv, line {}: expected", lines + 1);
    assert!(error.starts_with("row \"some/durassd\": ") && error.contains(&place), "{error}");
}

#[test]
fn a_volatile_device_loses_what_a_trace_did_not_flush_and_no_more() {
    use tantalum_device::{Ack, Caps, Payload, RamDevice, RamOptions, Stats};
    use tantalum_lab::file::experiment::{Journal, Synchronous};
    use tantalum_lab::run::block;
    use tantalum_lab::run::row::RowPlan;
    use tantalum_lab::run::sqlite::Settings;
    use tantalum_rt::{Nanos, Rt};
    use tantalum_workload::replay::{Open, Playing};
    use tantalum_workload::trace::Trace;

    let how = Playing::new("a trace");
    let lines: String = (0..40)
        .map(|i| match i % 4 {
            3 => format!("{} /d datasync 0 0\n", i * 50),
            _ => format!("{} /d write {} 8192\n", i * 50, i * 8192),
        })
        .collect();
    let text = format!("fio version 3 iolog\n{lines}");
    let run = |ack: Ack, seed: u64| {
        let (text, options) = (text.clone(), how.options());
        let open: Open = Box::new(move || {
            let input: Box<dyn BufRead> = Box::new(Cursor::new(text.clone().into_bytes()));
            Trace::open("a trace", input, &options)
        });
        let settings = Settings {
            page_bytes: 4096,
            cache_pages: 1,
            journal: Journal::Wal,
            synchronous: Synchronous::Full,
        };
        let plan = RowPlan {
            cuts: 20,
            until_loss: false,
            clients: 1,
            warm_up: Nanos::ZERO,
            run_time: [Nanos::from_millis(1), Nanos::from_millis(9)],
            outage: [Nanos::ZERO, Nanos::from_millis(1)],
            recovery_cut_percent: 0,
            settings,
            preparation: None,
            tell: std::rc::Rc::new(|_| ()),
        };
        let subject = |rt: &Rt| {
            let caps = Caps {
                block_size: 4096,
                blocks: 4096,
                ack,
                ordered: ack.survives(),
                flush: true,
                atomic_unit: 4096,
                thin: false,
                atomic_group: None,
                payload: Payload::Stamps,
            };
            let command = Nanos::from_micros(60);
            let options = RamOptions { command, ..RamOptions::new(caps) };
            Ok(Stats::new(rt, RamDevice::new(rt, options)))
        };
        let (findings, result) = block::replay(seed, plan, (&how, open), subject, || ());
        result.expect("it runs");
        findings
    };
    let volatile = run(Ack::Volatile, 1);
    assert!(volatile.commits_lost > 0 && volatile.violations == 0, "{volatile:#?}");
    let safe = run(Ack::PowerSafe, 1);
    assert!(safe.commits_lost == 0 && safe.violations == 0, "{safe:#?}");
    let replay = safe.replay.expect("a trace was played");
    assert!(replay.passes > 10 && replay.clipped == 0, "{replay:?}");
}
