use super::history::{History, Sample};
use super::screen::{Screen, text};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tantalum_device::{Field, Line, Panel, Unit};
use tantalum_export::control::{
    CommandCounts, Described, LATENCY_BOUNDS, LatencyCounts, Power, StatsReport, StatusReport,
    Values,
};

/// The panels of a box.
fn panels() -> Vec<Panel> {
    let inside = vec![
        Line::level("buffer", 500, 1000, "of 1000 pages"),
        Line::bar("energy", 2.0, "200.00 mJ needed of 100.00 mJ available"),
        Line::new("wear", "unknown without power").dim(),
    ];
    let below = vec![
        Line::new("", "now {programmed/written}, nothing {gone/written}, {broken} {half"),
        Line::new("collection", "{programmed/s}/s moved, {erases/s}/s erases"),
    ];
    vec![Panel::new("inside", inside), Panel::new("flash", below)]
}

/// A sample at this second, after this many writes of 4 KiB in 15 µs each.
fn sample(pid: u32, second: u64, writes: u64) -> Sample {
    let real_now_ns = second * 1_000_000_000;
    let status = StatusReport {
        program: "0".to_string(),
        pid,
        image: Some("/drive.img".to_string()),
        design: "durassd".to_string(),
        capacity_bytes: 8 << 30,
        acknowledged_is_safe: true,
        seed: 1,
        time_scale: 0.0,
        power: Power::On,
        now_ns: 0,
        real_now_ns,
        cuts: 0,
        last_cut: None,
        last_restore: None,
        failure: None,
        defect: None,
        values: Values::default(),
        fields: Vec::new(),
        lines: Vec::new(),
    };
    let within = LATENCY_BOUNDS.iter().map(|b| if *b >= 15_000 { writes } else { 0 }).collect();
    let latency = LatencyCounts { within, ..LatencyCounts::default() };
    let write = CommandCounts { done: writes, failed: 0, bytes: writes * 4096, latency };
    let bytes = |name, n: u64| Field::new(name, Unit::Bytes, n, "bytes");
    let fields = [
        bytes("written", writes * 4096),
        bytes("programmed", writes * 8192),
        Field::new("erases", Unit::Count, writes / 2, "erases"),
    ];
    let stats = StatsReport {
        power: Power::On,
        now_ns: 0,
        real_now_ns,
        under_way: 3,
        commands: [("write".to_string(), write)].into(),
        latency_bounds_ns: LATENCY_BOUNDS.to_vec(),
        clients: None,
        values: Values::of(&fields),
        fields: Described::all(&fields),
        lines: Vec::new(),
        panels: panels().into_iter().map(Into::into).collect(),
    };
    Sample { status, stats }
}

fn picture(history: &History, width: u16, height: u16) -> String {
    picture_with(history, "a message", false, (width, height))
}

fn picture_with(history: &History, message: &str, gone: bool, at: (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(at.0, at.1)).unwrap();
    let screen = Screen { history, message, gone };
    terminal.draw(|frame| frame.render_widget(&screen, frame.area())).unwrap();
    text(terminal.backend().buffer())
}

#[test]
fn rates_are_differences_over_real_time() {
    let mut history = History::default();
    for second in 0..20 {
        history.add(sample(1, second * 2, second * second * 100));
    }
    let rate = history.rate(&["write", "fua"]);
    assert_eq!((rate.commands, rate.bytes), (1850.0, 1850.0 * 4096.0));
    assert_eq!(history.rates(&["write"], 3), [1650, 1750, 1850]);
    assert_eq!(history.rate(&["read"]).commands, 0.0);
    // In the window of ten.
    let written = (19 * 19 - 9 * 9) * 100;
    let latency = history.latency(&["write"]);
    assert_eq!(latency.counts.iter().sum::<u64>(), written);
    assert_eq!(latency.quantile(&LATENCY_BOUNDS, 0.5), Some(20_000));
    assert_eq!(history.latency(&["flush"]).quantile(&LATENCY_BOUNDS, 0.5), None);
    assert_eq!(history.pace("written"), (written * 4096) as f64 / 20.0);
    // The counters of another process begin anew.
    history.add(sample(2, 1, 5));
    assert_eq!(history.rate(&["write"]).commands, 0.0);
    assert!(history.rates(&["write"], 9).is_empty());
}

#[test]
fn what_is_longer_than_all_bounds_is_seen() {
    let mut history = History::default();
    history.add(sample(1, 0, 0));
    let mut last = sample(1, 1, 10);
    let counts = last.stats.commands.get_mut("write").unwrap();
    counts.latency.within.fill(4);
    history.add(last);
    let latency = history.latency(&["write"]);
    assert_eq!((latency.counts.first(), latency.counts.last()), (Some(&4), Some(&6)));
    assert_eq!(latency.quantile(&LATENCY_BOUNDS, 0.99), Some(u64::MAX));
}

#[test]
fn a_picture_has_what_there_is() {
    let mut history = History::default();
    history.add(sample(1, 0, 0));
    history.add(sample(1, 1, 1000));
    let seen = picture(&history, 80, 24);
    for part in [
        " ON  durassd 8.00 GiB  /drive.img  time scale 0, 0 cuts",
        "throughput, 3 under way",
        "write     1000/s  3.91 MiB/s",
        "write   20µs   20µs",
        "┌ inside ─",
        "buffer      ██████████░░░░░░░░░ 500 of 1000 pages",
        "energy      ███████████████████ 200.00 mJ needed of 100.00 mJ available",
        "wear        unknown without power",
        "┌ flash ─",
        "now 2.00, nothing 0.00, ? {half",
        "collection  7.81 MiB/s moved, 500/s erases",
        "c cut  r restore  q quit   a message",
    ] {
        assert!(seen.contains(part), "{part} is not in\n{seen}");
    }
    let mut off = sample(1, 2, 1000);
    (off.status.power, off.stats.power) = (Power::Off, Power::Off);
    off.status.cuts = 1;
    off.status.failure = Some("the emergency dump 3 is not complete".to_string());
    history.add(off);
    let seen = picture(&history, 80, 24);
    for part in [" OFF ", "time scale 0, 1 cut\n", "does not start: the emergency dump 3"] {
        assert!(seen.contains(part), "{part} is not in\n{seen}");
    }
}

/// A path that is too long becomes the name of its file; then whole fields are left out.
#[test]
fn a_title_has_no_cut_words() {
    let mut sample = sample(1, 0, 0);
    sample.status.image = Some("/tmp/tantalum.a1b2/disk.img".to_string());
    let mut history = History::default();
    history.add(sample);
    for (width, title) in [
        (80, " ON  durassd 8.00 GiB  /tmp/tantalum.a1b2/disk.img  time scale 0, 0 cuts"),
        (72, " ON  durassd 8.00 GiB  /tmp/tantalum.a1b2/disk.img  time scale 0, 0 cuts"),
        (71, " ON  durassd 8.00 GiB  disk.img  time scale 0, 0 cuts"),
        (60, " ON  durassd 8.00 GiB  disk.img  time scale 0, 0 cuts"),
        (50, " ON  durassd 8.00 GiB  disk.img  time scale 0"),
        (40, " ON  durassd 8.00 GiB  disk.img"),
        (24, " ON  durassd 8.00 GiB  …"),
    ] {
        let seen = picture(&history, width, 24);
        assert_eq!(seen.lines().next(), Some(title), "{width} columns");
    }
}

/// If the screen lacks a line, no line of a panel is left out.
#[test]
fn a_low_screen_has_all_lines_of_the_panels() {
    let mut history = History::default();
    history.add(sample(1, 0, 0));
    history.add(sample(1, 1, 1000));
    let seen = picture(&history, 80, 19);
    for part in ["1µs   100µs 10ms  1s", "wear        unknown without power", "collection  "] {
        assert!(seen.contains(part), "{part} is not in\n{seen}");
    }
}

/// As many and as long lines as those of a drive.
fn long_panels() -> Vec<Panel> {
    let inside = vec![
        Line::level("buffer", 500, 1000, "of 1000 pages"),
        Line::level("dirty map", 12_345, 20_000, "of 20000 entries not on flash yet"),
        Line::bar("energy", 0.5, "100.00 mJ needed of 200.00 mJ available"),
        Line::level("in use", 1234, 2048, "of 2048 units for data"),
        Line::level("worn", 17, 3000, "of 3000 erases (the most worn unit)"),
    ];
    let flash = vec![
        Line::new("", "write amplification 1.234, now {programmed/written}   programmed fast"),
        Line::new("collection", "{programmed/s}/s moved, {erases/s}/s erases   map so much"),
        Line::new("units", "120 free (64 least), 12 open, 1802 full, 16 map, 4 dump"),
        Line::new("wear", "0 to 17 erases, 2.5 on average, of 3000; 2 bad units"),
    ];
    vec![Panel::new("inside", inside), Panel::new("flash", flash)]
}

/// A terminal of each usual size has all lines; none is blank in a panel, and no rate is cut.
#[test]
fn lines_go_to_what_has_content() {
    let mut history = History::default();
    for second in 0..30 {
        let mut sample = sample(1, second, second * second * 100);
        sample.stats.panels = long_panels().into_iter().map(Into::into).collect();
        history.add(sample);
    }
    let bars = ["of 1000 pages", "not on flash yet", "mJ available", "for data", "most worn unit)"];
    let starts = ["write amplification 1.234, now 2.00", "collection  ", "units  ", "wear  "];
    for (width, height) in [(60, 20), (80, 24), (120, 40), (200, 60)] {
        let seen = picture(&history, width, height);
        let rates = ["read         0/s  0 bytes/s", "write     5700/s  22.27 MiB/s"];
        for part in bars.iter().chain(&starts).chain(&rates) {
            assert!(seen.contains(part), "{width} x {height}: {part} is not in\n{seen}");
        }
        for part in ["read       -      -", "write   20µs   20µs", "flush      -      -"] {
            assert!(seen.contains(part), "{width} x {height}: {part} is not in\n{seen}");
        }
        let (_, panels) = seen.split_once(" inside ").expect("a panel");
        let is_blank = |line: &str| line.chars().all(|c| c == '│' || c == ' ');
        let blank = panels.lines().filter(|line| is_blank(line)).count();
        assert_eq!(blank, 0, "{width} x {height}:\n{seen}");
        assert_eq!(seen.lines().count(), usize::from(height), "{seen}");
    }
    // What is left over makes the curves higher: the first columns of the newest sample.
    let curve = |height| picture(&history, 120, height).matches('█').count();
    assert!(curve(40) > curve(24), "{}", picture(&history, 120, 40));
    // Where lines are left, long ones go on in the next one; else it is seen that they go on.
    let seen = picture(&history, 60, 30);
    assert!(seen.contains("│            map, 4 dump "), "{seen}");
    assert!(picture(&history, 60, 18).contains('…'));
}

/// A drive that has stopped itself is not shown as one that runs.
#[test]
fn a_defect_is_shown() {
    let mut history = History::default();
    let mut stopped = sample(1, 0, 0);
    stopped.status.defect = Some("a unit was to be erased that is in use".to_string());
    history.add(stopped);
    let seen = picture(&history, 80, 24);
    assert!(seen.contains("takes no writes until it is restored: a unit was"), "{seen}");
}

/// A drive whose process has ended is not shown as one that has power, and the reason is there in
/// full, on a narrow screen, too.
#[test]
fn a_drive_that_has_ended_is_gone() {
    let mut history = History::default();
    history.add(sample(1, 0, 0));
    let why = "the drive in /a/long/path/to/some/folder/disk.img does not run, or has its control \
               socket elsewhere: start it with `tantalum drive serve`";
    for width in [60, 80, 200] {
        let seen = picture_with(&history, why, true, (width, 24));
        assert!(seen.starts_with(" GONE  durassd") && !seen.contains(" ON "), "{seen}");
        let words: Vec<_> = seen.split_whitespace().collect();
        for word in why.split_whitespace() {
            assert!(words.contains(&word), "{width}: {word} is not in\n{seen}");
        }
    }
}

#[test]
fn any_size_of_a_screen_does() {
    let mut history = History::default();
    assert!(picture(&history, 80, 24).contains("c cut"));
    (0..300).for_each(|second| history.add(sample(1, second, second * second)));
    for width in [0, 1, 3, 20, 42, 52, 53, 60, 77, 80, 300] {
        for height in [0, 1, 2, 5, 8, 14, 24, 100] {
            picture(&history, width, height);
        }
    }
}
