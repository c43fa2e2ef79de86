use super::*;

const SMALL: &str = r#"
    title = "small"
    cuts = 3
    [drive]
    name = "mine"
    link = { queue_depth = 8, latency_ns = 2 }
    [[row]]
    workload = ["ycsb-a", "linkbench"]
    design = "durassd"
    synchronous = ["full", "off"]
    drive = { link = { latency_ns = 3 } }
"#;

#[test]
fn rows_are_the_product_and_overrides_go_deep() {
    let e = Experiment::parse("small.toml", SMALL).unwrap();
    let rows = e.rows().unwrap();
    let names: Vec<_> = rows.iter().map(|r| r.name.as_str()).collect();
    let expected = [
        "linkbench/durassd/wal/full",
        "linkbench/durassd/wal/off",
        "ycsb-a/durassd/wal/full",
        "ycsb-a/durassd/wal/off",
    ];
    assert_eq!(names, expected);
    let over: toml::Table =
        toml::from_str("name = 'mine'\nlink = { queue_depth = 8, latency_ns = 3 }").unwrap();
    assert!(rows.iter().all(|r| r.scene.drive == over && r.expect == Expect::Promised));
}

#[test]
fn a_rows_seed_depends_on_its_name_and_the_seed_alone() {
    let mut e = Experiment::parse("small.toml", SMALL).unwrap();
    let seed = e.row_seed("ycsb-a/durassd/wal/off");
    assert_ne!(seed, e.row_seed("ycsb-a/durassd/wal/full"));
    e.entries.clear();
    assert_eq!(seed, e.row_seed("ycsb-a/durassd/wal/off"));
    e.seed += 1;
    assert_ne!(seed, e.row_seed("ycsb-a/durassd/wal/off"));
}

/// All that `quick` makes smaller, and large.
const LARGE: &str = r#"
    title = "large"
    cuts = 100
    repetitions = 2
    [run]
    warm_up_ms = 2000
    run_ms = [2000, 3000]
    [precondition]
    passes_max = 3.0
    [linkbench]
    nodes = 1000
    [ycsb]
    records = 1000
    [tpcc]
    warehouses = 4
    items = 1000
    customers_per_district = 30
    orders_per_district = 30
    [append.a]
    fill_mib = 64
    [tree.t]
    operations = 5000
    [engine.e]
    database_mib = 1260
    double_write = false
    cache = "c"
    restart = 1000
    checkpoint_s = 5.0
    warmup = 20000
    transactions = 20000
    [cache.c]
    flash = "durassd"
    size_mib = 630
    prepare = 0.5
    [[row]]
    workload = ["a", "t", "e"]
    design = "durassd"
"#;

/// The values of the keys of `LARGE`, each as a text.
fn of_large(e: &Experiment) -> BTreeMap<&'static str, String> {
    let rows = e.rows().expect("rows");
    let row =
        |name: &str| rows.iter().find(|row| row.workload.to_string() == name).expect("it is there");
    let Scene { run, linkbench, ycsb, tpcc, precondition, .. } = &rows[0].scene;
    let Some(PageModel::Engine(engine, _, Some(cache))) = row("e").pages() else {
        panic!("an engine over a cache");
    };
    let Some(PageModel::Tree(tree)) = row("t").pages() else { panic!("a tree") };
    BTreeMap::from([
        ("cuts", e.cuts.to_string()),
        ("repetitions", e.repetitions.to_string()),
        ("run.warm_up_ms", run.warm_up_ms.to_string()),
        ("run.run_ms", format!("{:?}", run.run_ms)),
        ("precondition.passes_max", format!("{:?}", precondition.as_ref().unwrap().passes_max)),
        ("linkbench.nodes", linkbench.nodes.to_string()),
        ("ycsb.records", ycsb.records.to_string()),
        ("tpcc.warehouses", tpcc.warehouses.to_string()),
        ("tpcc.items", tpcc.items.to_string()),
        ("tpcc.customers_per_district", tpcc.customers_per_district.to_string()),
        ("tpcc.orders_per_district", tpcc.orders().to_string()),
        ("append.a.fill_mib", row("a").appends().expect("appends").fill_mib.to_string()),
        ("tree.t.operations", tree.operations.to_string()),
        ("engine.e.database_mib", engine.database_mib.to_string()),
        ("engine.e.restart", engine.restart.to_string()),
        ("engine.e.checkpoint_s", format!("{:?}", engine.checkpoint_s)),
        ("engine.e.warmup", engine.warmup.to_string()),
        ("engine.e.transactions", engine.transactions.to_string()),
        ("cache.c.size_mib", cache.size_mib.to_string()),
        ("cache.c.prepare", format!("{:?}", cache.prepare)),
    ])
}

/// Once `quick` overruled what was set from outside.
#[test]
fn what_was_set_is_not_made_smaller() {
    let read = |sets: &[(String, toml::Value)]| {
        Experiment::parse_with("large.toml", LARGE, sets).expect("it is sound")
    };
    let large = of_large(&read(&[]));
    let small = of_large(&read(&[]).quick());
    for (key, value) in &large {
        assert_ne!(small[key], *value, "{key}");
        let of_file = format!("x = {value}").parse::<toml::Table>().expect("a value");
        let set = [((*key).to_string(), of_file["x"].clone())];
        let kept = of_large(&read(&set).quick());
        assert_eq!(kept[key], *value, "{key}");
        // A cache keeps its share of a database that was set.
        let stay = |other: &str| {
            other == *key || (*key, other) == ("engine.e.database_mib", "cache.c.size_mib")
        };
        for (other, value) in kept.iter().filter(|(other, _)| !stay(other)) {
            assert_eq!(small[other], *value, "{other}, with {key}");
        }
    }
    // A table stands for all that it has.
    let table = "records = 1000".parse::<toml::Table>().expect("a table");
    let kept = of_large(&read(&[("ycsb".to_string(), table.into())]).quick());
    assert_eq!(kept["ycsb.records"], "1000");
}

/// A buffer that was set as a share of the database stays, and has enough frames.
#[test]
fn a_buffer_that_was_set_has_enough_frames_in_a_small_database() {
    let text =
        LARGE.replace("cache = \"c\"", "clients = 400\npage_bytes = 16384\nbuffer_percent = 2.0");
    let engine = |sets: &[(String, toml::Value)]| {
        let e = Experiment::parse_with("large.toml", &text, sets).expect("it is sound").quick();
        let rows = e.rows().expect("rows");
        match rows.iter().find_map(Row::pages) {
            Some(PageModel::Engine(job, ..)) => *job,
            _ => panic!("an engine"),
        }
    };
    let (free, set) = (engine(&[]), engine(&[("engine.e.buffer_percent".to_string(), 2.0.into())]));
    assert!(free.buffer_percent > 2.0 && free.database_mib == 126, "{free:?}");
    assert!(set.buffer_percent == 2.0 && set.database_mib < 1260, "{set:?}");
    for job in [free, set] {
        assert!(job.frames() >= job.frames_least(), "{job:?}");
    }
}

/// With an end, and nothing that is 0.
const WORKLOADS: &str = "\
title = \"small\"
cuts = 1
[run]
clients = 1
[ycsb]
records = 9
[linkbench]
nodes = 9
[job.j]
commands = 9
[trace.t]
file = \"t\"
[engine.e]
clients = 2
[tree.t2]
updates = 0.0
[[row]]
workload = [\"j\", \"e\", \"t2\"]
design = \"durassd\"
[row.params]
'job.j.queue_depth' = [1, 2]
";

#[test]
fn what_would_never_do_anything_is_refused_where_it_is() {
    Experiment::parse("small.toml", WORKLOADS).expect("it is sound");
    let cases = [
        ("commands = 9", "commands = 0", "10: job.j: `commands` is 0, but must be at least 1"),
        ("commands = 9", "passes = 0.0", "10: job.j: `passes` is 0, but"),
        ("commands = 9", "seconds = 0.0", "10: job.j: `seconds` is 0, but"),
        ("commands = 9", "seconds = 1e-10", "10: job.j: `seconds` is 0.0000000001, but"),
        ("commands = 9", "range = 0.5", "9: job.j: the job has no end"),
        ("j.queue_depth' = [1, 2]", "j.queue_depth' = [1, 0]", "21: job.j: `queue_depth` is 0"),
        ("commands = 9", "commands = 9\nrange = 0.0", "11: job.j: `range` is 0"),
        ("commands = 9", "commands = 9\nreads = 0.9\ndiscards = 0.2", "11: job.j: `reads + d"),
        ("commands = 9", "commands = 9\nblock_size = 0", "11: job.j: the job's block size is 0"),
        ("commands = 9", "commands = 9\nblock_size = 5000", "11: job.j: the job's block size"),
        ("commands = 9", "commands = 9\nsizes = [[0, 1]]", "11: job.j: `sizes` must be"),
        ("commands = 9", "commands = 9\nsizes = [[4096, 0]]", "11: job.j: `sizes` must be"),
        (
            "commands = 9",
            "commands = 9\npattern = { hot = { space = 0.0, share = 0.5 } }",
            "11: job.j: `pattern.hot.space` is 0",
        ),
        // (No row plays it.)
        ("file = \"t\"", "file = \"t\"\nspeed = 0.0", "13: trace.t: `speed` is 0"),
        ("clients = 2", "clients = 0", "14: engine.e: clients = 0: must be"),
        ("clients = 2", "transactions = 0", "14: engine.e: transactions = 0"),
        ("clients = 2", "database_mib = 0", "14: engine.e: database_mib = 0"),
        ("updates = 0.0", "operations = 0", "16: tree.t2: operations = 0"),
        ("updates = 0.0", "fsync_every = 0", "16: tree.t2: fsync_every = 0"),
        (
            "updates = 0.0",
            "updates = 0.0\nread_us = 0.0",
            "17: tree.t2: read_us = 0: must be above 0 where nothing is updated",
        ),
        (
            "[row.params]",
            "published = [1, 2, -3, 4]\n[row.params]",
            "20: published = -3: must be above 0",
        ),
        ("[row.params]", "published = { p99 = [0] }\n[row.params]", "20: published = 0: must"),
        (
            "[run]",
            "[published]\nsource = \"s\"\neach_within = -1\n[run]",
            "5: published.each_within = -1: must be 0 or more",
        ),
        ("[run]", "[published]\nsource = \"s\"\nmean_within = nan\n[run]", "5: published.m"),
        (
            "[run]",
            "[[ratio]]\nwhat = \"r\"\nof = \"j\"\nto = \"j\"\naim = 0\n[run]",
            "7: ratio \"r\": aim = 0: must be above 0",
        ),
        (
            "[run]",
            "[[ratio]]\nwhat = \"r\"\nof = \"j\"\nto = \"j\"\naim = [4, 1]\n[run]",
            "7: ratio \"r\": aim = [4, 1]: must be 0 or more, the lower one first",
        ),
        (
            "[run]",
            "[[ratio]]\nwhat = \"r\"\nof = \"j\"\nto = \"j\"\nmore_than = -2\n[run]",
            "7: ratio \"r\": more_than = -2: must be above 0",
        ),
        (
            "[run]",
            "[[ratio]]\nwhat = \"r\"\nof = \"j\"\nto = \"j\"\npublished = -2.5\n[run]",
            "7: ratio \"r\": published = -2.5: must be above 0",
        ),
        (
            "[run]",
            "[[ratio]]\nwhat = \"r\"\nof = \"j\"\nto = \"j\"\npublished = [2, 1]\n[run]",
            "7: ratio \"r\": published = [2, 1]: must be 0 or more, the lower one first",
        ),
        (
            "[run]",
            "[[ratio]]\nwhat = \"r\"\nof = \"j\"\nto = \"j\"\nwithin = -5\n[run]",
            "7: ratio \"r\": within = -5: must be 0 or more",
        ),
        ("clients = 1", "run_ms = [0, 0]", "4: run.run_ms"),
        ("clients = 1", "page_bytes = 0", "4: run.page_bytes = 0"),
        ("records = 9", "records = 0", "6: ycsb.records = 0"),
        ("records = 9", "field_bytes = 0", "6: ycsb.field_bytes = 0: must be 16"),
        ("nodes = 9", "node_bytes = 0", "8: linkbench.node_bytes = 0"),
        ("nodes = 9", "link_bytes = 0", "8: linkbench.link_bytes = 0"),
        ("[linkbench]\nnodes", "[tpcc]\nitems", "8: tpcc.items = 9: must be 20"),
        ("[job.j]", "[precondition]\nwindow = 0.0\n[job.j]", "10: precondition.window = 0"),
    ];
    for (from, to, expected) in cases {
        let text = WORKLOADS.replace(from, to);
        assert_ne!(text, WORKLOADS);
        let error = Experiment::parse("small.toml", &text).expect_err(to).to_string();
        assert!(error.starts_with(&format!("small.toml:{expected}")), "{to}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    // What was set from outside has no line.
    let sets = [("job.j.commands".to_string(), 0.into())];
    let error = Experiment::parse_with("small.toml", WORKLOADS, &sets).unwrap_err();
    assert!(error.to_string().starts_with("small.toml: with job.j.commands = 0: job.j: "));
    let sets = [("drive.geometri.blocks".to_string(), 3.into())];
    let error = Experiment::parse_with("small.toml", WORKLOADS, &sets).unwrap_err();
    assert!(error.to_string().starts_with("small.toml: with drive.geometri.blocks = 3: "));
}

#[test]
fn errors_name_file_line_and_key() {
    let cases = [
        ("cuts = 3", "cutz = 3", "small.toml:3: unknown key \"cutz\"; did you mean \"cuts\"?"),
        ("\"ycsb-a\",", "\"ycsb-b\",", "unknown workload \"ycsb-b\"; did you mean \"ycsb-a\"?"),
        (
            "cuts = 3",
            "cuts = 0",
            "small.toml:3: cuts = 0: an experiment needs at least one power cut",
        ),
        ("[drive]", "[run]\nclients = 0\n[drive]", "small.toml:5: run.clients = 0"),
        (
            "[drive]",
            "[run]\nclient = 2\n[drive]",
            "unknown key \"client\"; did you mean \"clients\"?",
        ),
        ("[drive]", "[run]\npage_bytes = 5000\n[drive]", "power of two"),
        ("[\"full\", \"off\"]", "[\"full\", \"full\"]", "two rows"),
        ("[\"full\", \"off\"]", "[]", "nothing to run"),
        ("[\"full\", \"off\"]", "7", "a name or a list of names"),
        ("[drive]", "[drive", "expected"),
        ("[drive]", "[job.tpcc]\nseconds = 1.0\n[drive]", "\"tpcc\" is a benchmark"),
        // No row uses it. (What is in [drive] is none of a disk's.)
        (
            "[drive]",
            "[design.x]\nbase = \"durassd\"\nkind = \"raid0\"\n[disk]",
            "[design.x]: design \"x\": a design has no `kind`",
        ),
        (
            "[drive]",
            "[design.x]\nbase = \"durassd\"\ncache.flush = \"order\"\ncache.buffer_kib = \"a\"\n[disk]",
            "small.toml:7: [design.x]: design \"x\": cache.buffer_kib: invalid type: text \"a\", \
             expected a whole number",
        ),
        (
            "[drive]",
            "[drive]\nmap.whole = 1\n",
            "small.toml:5: design \"durassd\": map.whole: invalid type: whole number `1`, \
             expected true or false",
        ),
        ("[drive]", "[design.x]\nbase = \"durasd\"\n[disk]", "did you mean \"durassd\"?"),
        (
            "[drive]",
            "[design.x]\nbase = \"y\"\n[design.y]\nbase = \"x\"\n[disk]",
            "small.toml:4: [design.x]: design \"x\": its bases go in a circle: x on y on x",
        ),
        ("[drive]", "[design.x]\nbase = 7\n[disk]", "`base` must be the name of a design"),
        (
            "[drive]",
            "[design.x]\nbase = \"y\"\n[design.y]\nraid0 = { of = \"durassd\", members = 2, chunk_kib = 64 }\n[disk]",
            "its base \"y\" is an array",
        ),
    ];
    for (from, to, expected) in cases {
        let text = SMALL.replace(from, to);
        assert_ne!(text, SMALL);
        let error = Experiment::parse("small.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with("small.toml:"), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert!(error.contains(expected), "{to}: {error}");
    }
}
