//! What is made of a real report: pages that need nothing else, and JSON of which every
//! field is documented.

use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use tantalum_lab::bench;
use tantalum_lab::file::experiment::Experiment;
use tantalum_lab::report::Report;
use tantalum_lab::report::compare;
use tantalum_lab::report::figures::Wear;
use tantalum_lab::report::measures;
use tantalum_lab::run::runner;
use tantalum_lab_page::{self as page, Command, Picture};

/// Random writes of 4 KiB that do not end, so many at a time.
fn writes(queue_depth: u32) -> String {
    format!(
        "[job.writes]\npattern = \"random\"\nblock_size = 4096\n\
         queue_depth = {queue_depth}\ncommands = 100000000\n"
    )
}

/// A database and a block job on small drives.
fn small() -> String {
    SMALL.to_string() + DATABASE + JOB + &writes(4)
}

/// An engine over a flash cache that restarts.
const CACHED: &str = r#"
title = "cached"
cuts = 1
[run]
run_ms = [5, 10]
[[row]]
workload = "pg"
design = "disk-15k6"
[engine.pg]
database_mib = 16
buffer_percent = 10.0
page_bytes = 4096
double_write = false
clients = 8
batch_pages = 16
lru_depth = 32
log_mib = 4
log_design = "durassd"
cache = "flash"
cleaner_ms = 10.0
restart = 50
transactions = 300
[cache.flash]
flash = "durassd"
size_mib = 8
batch = 16
prepare = 0.0
"#;

const SMALL: &str = r#"
title = "small <b>&\"'"
cuts = 3
[run]
clients = 2
run_ms = [20, 60]
[ycsb]
records = 100
[drive.geometry]
blocks = 96
pages = 64
"#;

const DATABASE: &str = r#"
[[row]]
workload = "ycsb-a"
design = ["volatile", "durassd"]
"#;

const JOB: &str = r#"
[[row]]
workload = "writes"
design = "durassd"
params = { "job.writes.fsync_every" = [0, 8] }
published = [15000, 9000]
fitted = true
[published]
source = "nobody"
what = "IOPS"
mean_within = 12
each_within = 30
[[ratio]]
what = "what flushes cost"
of = "writes/durassd/job.writes.fsync_every=0"
to = "writes/durassd/job.writes.fsync_every=8"
published = 1.5
"#;

/// A row with what only a recorded trace has.
const TRACE: &str = r#"
[trace.recorded]
file = "../workload/tests/samples/fio3.log"
[[row]]
workload = "recorded"
design = "durassd"
"#;

/// A row with what only a model of an engine has.
const ENGINE: &str = r#"
[engine.small]
database_mib = 16
buffer_percent = 50.0
clients = 4
warmup = 0
transactions = 100
[[row]]
workload = "small"
design = "durassd"
"#;

fn report(text: &str) -> Report {
    let experiment = Experiment::parse("small.toml", text).unwrap();
    let rows = experiment.rows().unwrap();
    runner::check(&rows).unwrap();
    runner::run(&experiment, &rows, 2, &(Arc::new(|_: runner::Progress<'_>| ()) as runner::Watch))
}

fn command() -> Command {
    Command { base: "tantalum run small.toml".into(), rows: String::new() }
}

/// Loads nothing, runs nothing, shows no broken number, and is closed properly.
fn is_sound(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>"));
    for never in ["http:", "https:", "<script", "<link", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(never), "{never}");
    }
    let shown = page.split_once("</style>").unwrap().1;
    for never in ["NaN", "inf ", "inf<", "inf\"", "-0<"] {
        assert!(!shown.contains(never), "{never}");
    }
    for tag in ["svg", "table", "figure", "tr", "td", "text", "desc", "ul", "p", "div", "main"] {
        let opened = shown.matches(&format!("<{tag} ")).count();
        let opened = opened + shown.matches(&format!("<{tag}>")).count();
        assert_eq!(
            opened - usize::from(tag == "body"),
            shown.matches(&format!("</{tag}>")).count(),
            "{tag}"
        );
    }
    let mut ids = BTreeSet::new();
    for id in shown.split(" id=\"").skip(1).map(|s| s.split('"').next().unwrap()) {
        assert!(ids.insert(id), "the id {id} is there twice");
        assert!(!id.contains(' '));
    }
}

#[test]
fn the_page_is_the_same_bytes_and_needs_nothing_else() {
    // (So short a run wears nothing but what is kept for dumps.)
    let worn = || {
        let mut report = report(&small());
        let drives = report.rows[0].findings.drives.as_mut().unwrap();
        drives.wear = Wear::of((0..drives.wear.units() as u32).map(|unit| unit % 8));
        report
    };
    let report = worn();
    let one = page::experiment(&report, &command());
    is_sound(&one);
    assert_eq!(one, page::experiment(&worn(), &command()));
    assert!(one.contains("<h1>small &lt;b&gt;&amp;&quot;'</h1>"), "{one}");
    assert!(one.contains("tantalum run small.toml"));
    for title in [
        // (Databases and block jobs each have their own words.)
        "<h2>Throughput</h2>",
        "Transactions per second: YCSB-A",
        "Requests per second: writes",
        "Latency",
        "<h2>Losses</h2>",
        "YCSB-A: none in any row",
        "writes: none in any row",
        "Flash bytes",
        "Write amplification",
        "Recovery",
        "Throughput over time",
        "YCSB-A",
        "fsync_every=8",
        "<li>durassd beside volatile: ",
        "<li>when the power goes: ",
    ] {
        assert!(one.contains(title), "{title}");
    }
    // Each kind of bars and each workload (a job has no user bytes), the lines of each
    // design: latency, throughput, wear if there is any; what was published, and the ratios.
    let worn = report.rows.iter().filter(|r| r.findings.drives.as_ref().unwrap().wear.max > 0);
    let worn: BTreeSet<_> = worn.map(|r| (r.workload.to_string(), &r.design)).collect();
    assert!(!worn.is_empty());
    assert_eq!(one.matches("<svg class=\"plot\"").count(), 3 + 4 + 3 + 3 + worn.len() + 2);
    for words in ["Published and ours", "nobody", "what flushes cost", "over-prov.", "times erased"]
    {
        assert!(one.contains(words), "{words}");
    }
    for row in &report.rows {
        assert!(one.contains(&row.name), "{}", row.name);
        let series = row.findings.series.as_ref().unwrap();
        assert_eq!(series.transactions.iter().sum::<u64>(), row.findings.transactions);
        let quantiles = &row.findings.latency_quantiles;
        assert!(quantiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{quantiles:?}");
        assert_eq!(quantiles.last().unwrap().1, row.findings.latency.max_ns);
        let drives = row.findings.drives.as_ref().unwrap();
        let parts = row.findings.amplification_parts().unwrap();
        let whole = row.findings.write_amplification().unwrap();
        // Nothing is programmed under load for another reason.
        assert!((parts.iter().sum::<f64>() - whole).abs() < 1e-9, "{parts:?}, {whole}");
        assert!(parts[0] > 0.0 && drives.over_provisioning_percent() > 5.0);
        // Every unit is for something, and wear is that of all but those kept for dumps.
        let of = |w: Option<tantalum_drive::Wear>| w.map_or(0, |w| u64::from(w.units));
        let roles = [drives.roles.data, drives.roles.map, drives.roles.dump].map(of);
        assert_eq!(roles[0] + roles[1], drives.wear.units(), "{roles:?}");
        assert!(roles[0] > 0 && roles[1] > 0, "{roles:?}");
        assert_eq!(roles[2] > 0, row.design == "durassd", "{roles:?}");
        assert!(drives.wear.units() > 0 && drives.wear.min <= drives.wear.max);
        assert_eq!(drives.dumps > 0, row.design == "durassd", "{}", row.name);
        // A drive that is nearly empty has most of its units free.
        let least = drives.free_units_least.expect("there was a look under load");
        assert!(least > 0 && least <= drives.free_units, "{least} {}", drives.free_units);
        assert!((drives.data_units / 2..drives.data_units).contains(&drives.free_units));
    }
}

#[test]
fn a_report_of_block_jobs_speaks_of_requests_and_blocks_and_cuts_no_label() {
    let both = "params = { \"job.writes.fsync_every\" = [0, 8], \"drive.space.over_provisioning\" = [28.0, 30.0] }";
    let one = JOB.replace("params = { \"job.writes.fsync_every\" = [0, 8] }", both);
    let (rows, ratios) = one.split_once("[[ratio]]").unwrap();
    let rows = rows.replace("[15000, 9000]", "[9000, 9000, 15000, 15000]");
    let ratio = |name: &str| {
        let of = |n| {
            format!("writes/durassd/drive.space.over_provisioning=28.0/job.writes.fsync_every={n}")
        };
        let ratios = ratios.replace("what flushes cost", name);
        let ratios = ratios.replace("writes/durassd/job.writes.fsync_every=0", &of(0));
        ratios.replace("writes/durassd/job.writes.fsync_every=8", &of(8))
    };
    let name = "what a flush after every eighth command costs where over-provisioning is 28 %";
    let text = format!("{SMALL}{rows}[[ratio]]{}{}", ratio(name), writes(4));
    let text = text.replace("title = \"small <b>&\\\"'\"", "title = \"requests\"");
    let report = report(&text);
    let page = page::experiment(&report, &command());
    is_sound(&page);
    let json = report.to_json();
    let read = || compare::read("r", &json).unwrap();
    let c = compare::compare(["a", "b"], &[read(), read()]).unwrap();
    let compared = page::comparison(&c);
    is_sound(&compared);
    let pictures = ["throughput", "losses", "published", "recovery"];
    let drawn = pictures.map(|p| p.parse::<Picture>().unwrap().draw(&report));
    for shown in drawn.iter().chain([&page, &compared]) {
        let shown = shown.split_once("</style>").unwrap().1.to_lowercase();
        for never in ["transaction", "commit", "database", "tx/s"] {
            assert!(!shown.contains(never), "{never}: {shown}");
        }
        assert!(!shown.contains('…'), "{shown}");
    }
    for words in
        ["<h2>Requests per second</h2>", "<h2>Blocks lost</h2>", ">IOPS<", ">blocks acked<"]
    {
        assert!(page.contains(words), "{words}");
    }
    for words in ["<h2>requests/s</h2>", "<h2>blocks lost</h2>"] {
        assert!(compared.contains(words), "{words}");
    }
    // In a plot of bars each row has a label of its own, in whole; so has each place of
    // what was published, in the picture too.
    let plot = |id: &str| {
        let (_, plot) = page.split_once(&format!("<desc id=\"{id}-desc\">")).expect(id);
        plot.split_once("</desc>").unwrap().1.split_once("</svg>").unwrap().0
    };
    assert_eq!(report.rows.len(), 4);
    for row in &report.rows {
        let label = format!(">{}</text>", row.parameters());
        for id in ["rate-0-0", "amplification-0-0", "recovery-0-0", "published-0-0"] {
            assert_eq!(plot(id).matches(&label).count(), 1, "{id}: {label}");
        }
        assert!(drawn[0].contains(&label) && drawn[2].contains(&label), "{label}");
    }
    // The title of a ratio is there in whole, on as many lines as it takes.
    let ratios = plot("ratios");
    let lines = ratios.split("<text class=\"group\"").skip(1);
    let lines: Vec<_> =
        lines.map(|t| t.split_once('>').unwrap().1.split_once('<').unwrap().0).collect();
    assert!(lines.len() > 1);
    assert_eq!(lines.join(" "), name);
}

#[test]
fn rows_that_only_designs_tell_apart_are_labelled_with_them() {
    let rows = "[[row]]\nworkload = \"writes\"\ndesign = [\"volatile\", \"durassd\"]\n";
    let (settings, _) = SMALL.split_once("[ycsb]").unwrap();
    let report = report(&format!("{settings}{rows}{}", writes(4)));
    let page = page::experiment(&report, &command());
    is_sound(&page);
    for plot in page.split("<svg class=\"plot\"").skip(1) {
        let plot = plot.split_once("</figure>").unwrap().0;
        assert!(!plot.contains(">–<") && !plot.contains("</svg>–"), "{plot}");
    }
    let (_, plot) = page.split_once("id=\"rate-0-0-desc\"").unwrap();
    let plot = plot.split_once("</svg>").unwrap().0;
    for design in ["volatile", "durassd"] {
        assert_eq!(plot.matches(&format!(">{design}</text>")).count(), 1, "{plot}");
    }
}

/// A drive that is full and collects, cut often.
const COLLECTING: &str = r#"
title = "collecting"
cuts = 6
[run]
run_ms = [20, 20]
outage_ms = [1, 1]
[precondition]
passes_max = 1.5
[drive]
geometry = { channels = 2, packages = 1, chips = 1, blocks = 32, pages = 64 }
space = { over_provisioning = 60, collect_below = 2 }
map = { write_points = 1 }
cache = { buffer_kib = 256 }
[[row]]
workload = "writes"
design = ["volatile", "baseline"]
"#;

#[test]
fn what_a_drive_does_between_two_loads_is_counted_too() {
    let text = COLLECTING.to_string() + &writes(16);
    let report = report(&text);
    for row in &report.rows {
        assert!(row.error.is_none(), "{:?}", row.error);
        let f = &row.findings;
        let drives = f.drives.as_ref().unwrap();
        let (load, outside) = (drives.under_load, drives.outside_load);
        assert!(load.collection_bytes > 0, "it must collect: {load:?}");
        // Nobody writes while it recovers and is read; what it programs then is its own.
        assert!(outside.map_bytes + outside.collection_bytes > 0, "{outside:?}");
        assert!(outside.collection_bytes > 0 && outside.erases > 0, "{outside:?}");
        assert_eq!(drives.outside_host_bytes, 0);
        let [under, overall] = [f.write_amplification(), f.overall_amplification()];
        assert!(overall.unwrap() > under.unwrap(), "{under:?} {overall:?}");
        assert!(drives.free_units_least.unwrap() > 0 && drives.free_units > 0);
    }
    // Where nothing was erased before, the two counts are all the erases that units had.
    let text = text.replace("passes_max = 1.5", "passes_max = 0.0");
    let blank = self::report(&text.replace("[20, 20]", "[400, 400]"));
    for row in &blank.rows {
        let drives = row.findings.drives.as_ref().unwrap();
        let counted = drives.under_load.erases + drives.outside_load.erases;
        let ever = drives.wear.mean * drives.wear.units() as f64;
        assert!(counted > 0 && drives.outside_load.erases > 0, "{drives:?}");
        // (An erase that a cut stops wears its unit and is no operation that ended.)
        assert!((ever - counted as f64).abs() <= 8.0, "{counted} {ever}");
    }
}

#[test]
fn a_magnetic_disk_is_not_preconditioned() {
    let text = (COLLECTING.to_string() + &writes(16))
        .replace("[\"volatile\", \"baseline\"]", "\"disk-15k\"");
    let rows = Experiment::parse("small.toml", &text).unwrap().rows().unwrap();
    let refused = runner::check(&rows).unwrap_err();
    assert!(refused.contains("writes/disk-15k") && refused.contains("magnetic disk"), "{refused}");
}

/// Nine designs with nine values each, as the published table of a paper has them.
const MANY: &str = r#"
title = "many"
cuts = 1
[run]
run_ms = [5, 5]
[published]
source = "nobody"
[drive.geometry]
blocks = 64
pages = 64
"#;

#[test]
fn a_page_of_many_rows_has_small_plots() {
    let mut text = MANY.to_string() + &writes(1);
    for i in 0..9 {
        text += &format!(
            "[design.own{i}]\nbase = \"volatile\"\nspace.over_provisioning = {}\n",
            20 + i
        );
        text += &format!(
            "[[row]]\nworkload = \"writes\"\ndesign = \"own{i}\"\n\
             params = {{ \"job.writes.fsync_every\" = [1, 4, 8, 16, 32, 64, 128, 256, 0] }}\n\
             published = [100, 200, 300, 400, 500, 600, 700, 800, 9000]\n"
        );
    }
    let report = report(&text);
    let page = page::experiment(&report, &command());
    is_sound(&page);
    assert_eq!(report.rows.len(), 81);
    // No plot has more lines than can be told apart, or more bars than fit on a screen.
    for plot in page.split("<figure>").skip(1).map(|f| f.split("</figure>").next().unwrap()) {
        assert!(plot.matches("<li>").count() <= 8, "{plot}");
        assert!(plot.matches("<rect").count() <= 24, "{plot}");
    }
    // Published and ours: one for each design.
    assert_eq!(page.matches("id=\"published-0-").count(), 2 * 9);
    let one = Picture::Published.draw(&report);
    stands_alone(&one);
    assert_eq!(one.matches("<polyline").count(), 2 * 9 + 2);
    // 0 stands for none at all.
    assert!(page.contains(">none<") && one.contains(">none<") && !one.contains(">0<"), "{one}");
}

/// A whole SVG that loads nothing and has its own colours.
fn stands_alone(svg: &str) {
    assert!(
        svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n")
    );
    let rest = svg.replacen("http://www.w3.org/2000/svg", "", 1);
    for never in ["http", "<script", "href=", "url(", "@import", "NaN", "inf\""] {
        assert!(!rest.contains(never), "{never}");
    }
    assert!(svg.contains("prefers-color-scheme: dark") && svg.contains("font-family"));
    for tag in ["svg", "text", "rect", "line", "polyline", "style"] {
        let opened =
            svg.matches(&format!("<{tag} ")).count() + svg.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, svg.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn pictures_stand_alone_and_are_the_same_bytes() {
    let (one, two) = (report(&small()), report(&small()));
    for name in Picture::names() {
        let picture: Picture = name.parse().unwrap();
        let drawn = picture.draw(&one);
        stands_alone(&drawn);
        assert_eq!(drawn, picture.draw(&two), "{name}");
        assert!(drawn.contains("small &lt;b&gt;&amp;"), "{name}");
    }
    let throughput = Picture::Throughput.draw(&one);
    for row in &one.rows {
        assert!(throughput.contains(&format!("{:.0}", row.findings.transactions_per_second)));
    }
    let losing = one.rows.iter().filter(|r| r.findings.lost_anything()).count();
    assert_eq!(throughput.matches("class=\"bar hollow\"").count(), losing);
}

#[test]
fn a_row_that_found_nothing_shows_dashes_and_its_error() {
    let mut report = report(&small());
    for row in &mut report.rows {
        row.findings = tantalum_lab::report::RowFindings::default();
        row.findings.transactions_per_second = f64::NAN;
        row.findings.flash_bytes_per_user_byte = Some(f64::INFINITY);
        row.error = Some("the drive <broke>".into());
        row.verdict = tantalum_lab::report::Verdict::Failed;
    }
    report.ratios.clear();
    let page = page::experiment(&report, &command());
    is_sound(&page);
    assert!(page.contains("<td>–</td>") && page.contains("4 of 4 rows not as expected"));
    assert!(page.contains("the drive &lt;broke&gt;"));
    assert!(page.contains("tantalum run small.toml --row ycsb-a/durassd/wal/full"));
    report.rows.clear();
    is_sound(&page::experiment(&report, &command()));
}

#[test]
fn a_comparison_has_a_page() {
    let one = report(&small());
    let two = report(&small().replace("cuts = 3", "cuts = 3\nseed = 2"));
    let read = |r: &Report| compare::read("r", &r.to_json()).unwrap();
    let c = compare::compare(["<a>", "b"], &[read(&one), read(&two)]).unwrap();
    assert_eq!(c.rows.len(), 4);
    // All was measured: nothing is taken from the wrong place of the JSON.
    for (i, measure) in c.measures.iter().enumerate() {
        let both = |r: &compare::RowPair| r.pairs[i].a.is_some() && r.pairs[i].b.is_some();
        assert!(c.rows.iter().any(both), "{measure:?}");
    }
    // A report of before there were drive figures is compared in what it has.
    let mut older: Value = serde_json::from_str(&one.to_json()).unwrap();
    for row in older["rows"].as_array_mut().unwrap() {
        let row = row.as_object_mut().unwrap();
        row.retain(|key, _| {
            !["drive", "model", "published", "deviation_percent"].contains(&key.as_str())
        });
    }
    let older = compare::read("old", &older.to_string()).unwrap();
    let against = compare::compare(["old", "r"], &[older, read(&one)]).unwrap();
    let known = |name: &str| {
        let place = against.measures.iter().position(|m| m.name == name).unwrap();
        against.rows[1].pairs[place].a.is_some()
    };
    assert!(known("transactions/s") && known("write amplification"));
    assert!(!known("wear, spread") && !known("erases"));
    let page = page::comparison(&c);
    is_sound(&page);
    assert!(page.contains("&lt;a&gt; and b") && page.contains("ycsb-a/durassd/wal/full"));
}

/// The ways to all values, lists of objects as `[]`; what a row's parameters are called
/// is the experiment's own affair.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) if !path.ends_with(".params") && !path.ends_with(".model") => {
            for (key, member) in members {
                let way = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                fields(member, &way, found);
            }
        }
        Value::Array(members) if members.iter().any(Value::is_object) => {
            members.iter().for_each(|m| fields(m, &format!("{path}[]"), found));
        }
        _ => drop(found.insert(path.to_string())),
    }
}

/// How it ended, how much was written, and with which write amplification.
fn preconditioning_is_on_the_page(report: &Report) {
    let page = page::experiment(report, &command());
    is_sound(&page);
    let (_, shown) = page.split_once("<h3>Preconditioning</h3>").expect("a section");
    let (shown, _) = shown.split_once("</table>").expect("a table");
    assert!(shown.contains("filled, no overwrites requested"), "{shown}");
    for row in &report.rows {
        let p = row.findings.preconditioned.as_ref().expect("all were");
        assert_eq!((p.drive_writes * 100.0).round(), 1.0, "{p:?}");
        assert!(p.write_amplification > 0.9, "{p:?}");
        assert!(shown.contains(&format!(">{:.2}<", p.write_amplification)), "{p:?} {shown}");
    }
    // Two repetitions, shown as one row with medians.
    assert!(page.contains("tx/s, spread") && page.contains("2 of each row"), "{page}");
    assert!(!page::experiment(&self::report(&small()), &command()).contains("Preconditioning"));
}

/// A restart in the middle between two checkpoints never comes if the log is full before.
#[test]
fn a_log_too_small_for_its_checkpoints_is_told() {
    let experiment = CACHED.replace("restart = 50", "restart = 50\ncheckpoint_s = 60.0");
    let report = self::report(&experiment);
    let error = report.rows[0].error.as_deref().expect("it cannot run");
    assert!(error.contains("the log is full before") && error.contains("log_mib"), "{error}");
}

#[test]
fn every_field_is_documented_and_every_documented_field_is_there() {
    let text = include_str!("../../../../docs/json.md");
    let (of_run, rest) = text.split_once("## `tantalum crash --json`").unwrap();
    let (_, of_bench) = rest.split_once("## `tantalum drive bench --json`").unwrap();
    let of_bench = of_bench.split("\n## ").next().unwrap();
    let mut run = BTreeSet::new();
    let filled = "[precondition]\nfill = 0.01\npasses_max = 0.0";
    let twice = small().replace("cuts = 3", "cuts = 3\nrepetitions = 2");
    let twice = twice.replace("[run]", "[run]\ncommit_costs = true");
    // (With a buffer so small that pages are written back.)
    let engine = ENGINE.replace("warmup = 0", "warmup = 0\ndouble_write = \"atomic\"");
    let engine = engine.replace("buffer_percent = 50.0", "buffer_percent = 20.0");
    let twice = twice.replace("[15000, 9000]", "{ throughput = [15000, 9000], p99 = [300, 900] }");
    let engine = engine.replace("transactions = 100", "transactions = 4000");
    let report = report(&format!("{twice}{TRACE}{engine}\n{filled}"));
    preconditioning_is_on_the_page(&report);
    let json = report.to_json();
    fields(&serde_json::from_str(&json).unwrap(), "", &mut run);
    // What an engine over a flash cache does.
    let cached = self::report(CACHED);
    let mut of_cache = BTreeSet::new();
    fields(&serde_json::from_str(&cached.to_json()).unwrap(), "", &mut of_cache);
    run.extend(of_cache.into_iter().filter(|field| field.starts_with("rows[].measures.")));
    // What requesters of a log do.
    let tail = include_str!("../../../../experiments/log-tail.toml");
    let tail = tail.replace("run_ms = [20000, 20000]", "run_ms = [2500, 2500]");
    let tail = self::report(&tail);
    let mut of_log = BTreeSet::new();
    fields(&serde_json::from_str(&tail.to_json()).unwrap(), "", &mut of_log);
    run.extend(of_log.into_iter().filter(|field| field.starts_with("rows[].measures.")));
    // Only there where a drive had no room.
    run.insert("rows[].refused".to_string());
    run.insert("rows[].full".to_string());
    // Only there if the run was interrupted: `report/json.rs` adds them.
    run.insert("interrupted".to_string());
    run.insert("missing".to_string());
    let mut speed = BTreeSet::new();
    fields(&serde_json::to_value(bench::drive(1, |_| (), |_| ())).unwrap(), "", &mut speed);
    let (of_run, of_measures) = of_run.split_once("### Measures").unwrap();
    let named = of_measures.lines().filter_map(|l| l.strip_prefix("| `")?.split(" | ").next());
    let named: Vec<&str> = named.flat_map(|l| l.trim_end_matches('`').split("`, `")).collect();
    assert_eq!(named, measures::keys().collect::<Vec<_>>());
    for (found, text) in [(run, of_run), (speed, of_bench)] {
        assert!(found.len() > 4);
        let documented = text.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next());
        let documented: BTreeSet<String> = documented.map(String::from).collect();
        let missing: Vec<_> = found.difference(&documented).collect();
        assert!(missing.is_empty(), "docs/json.md does not say what these are: {missing:?}");
        let stale: Vec<_> = documented.difference(&found).collect();
        assert!(stale.is_empty(), "docs/json.md has what no report has: {stale:?}");
    }
}
