use super::history::{History, Sample};
use super::screen::{Screen, text};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tantalum_export::control::{
    Buffer, CommandCounts, DriveCounts, Energy, LATENCY_BOUNDS, LatencyCounts, MapMemory, Outages,
    Power, StatsReport, StatusReport, Units, Wear,
};

/// A look after so many seconds, when so many writes of 4 KiB were done in 15 µs each.
fn sample(pid: u32, second: u64, writes: u64) -> Sample {
    let real_now_ns = second * 1_000_000_000;
    let status = StatusReport {
        program: "0".to_string(),
        pid,
        image: Some("/drive.img".to_string()),
        design: "durassd".to_string(),
        capacity_bytes: 8 << 30,
        protected: true,
        acknowledged_is_safe: true,
        seed: 1,
        time_scale: 0.0,
        power: Power::On,
        worn_out: false,
        now_ns: 0,
        real_now_ns,
        cuts: 0,
        last_cut: None,
        last_restore: None,
        failure: None,
    };
    let within = LATENCY_BOUNDS.iter().map(|b| if *b >= 15_000 { writes } else { 0 }).collect();
    let latency = LatencyCounts { within, ..LatencyCounts::default() };
    let write = CommandCounts { done: writes, failed: 0, bytes: writes * 4096, latency };
    let stats = StatsReport {
        power: Power::On,
        now_ns: 0,
        real_now_ns,
        under_way: 3,
        commands: [("write".to_string(), write)].into(),
        latency_bounds_ns: LATENCY_BOUNDS.to_vec(),
        drive: DriveCounts {
            host_write_bytes: writes * 4096,
            flash_program_bytes: writes * 8192,
            write_amplification: 2.0,
            ..DriveCounts::default()
        },
        buffer: Buffer { pages: 1000, used: 500 },
        map: MapMemory { entries: 100, unstored: 100, mapped_pages: 7 },
        units: Some(Units { free: 25, open: 25, full: 50, ..Units::default() }),
        wear: Some(Wear { min: 1, max: 30, mean: 15.0, endurance: 3000 }),
        energy: Some(Energy { there_j: 0.1, needed_j: 0.2, worst_j: 0.3 }),
        outages: Outages::default(),
        clients: None,
    };
    Sample { status, stats }
}

fn picture(history: &History, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let screen = Screen { history, message: "a message" };
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
    // Of the window of ten.
    let written = (19 * 19 - 9 * 9) * 100;
    let latency = history.latency(&["write"]);
    assert_eq!(latency.counts.iter().sum::<u64>(), written);
    assert_eq!(latency.quantile(&LATENCY_BOUNDS, 0.5), Some(20_000));
    assert_eq!(history.latency(&["flush"]).quantile(&LATENCY_BOUNDS, 0.5), None);
    assert_eq!(history.pace(|s| s.drive.host_write_bytes), (written * 4096) as f64 / 20.0);
    // Another process has counted nothing of this.
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
        "██████████░░░░░░░░░ 500 of 1000 pages",
        "███████████████████ 100 of 100 entries",
        "200.00 mJ needed of 100.00 mJ there",
        "75 of 100 units for data",
        "write amplification 2.000, now 2.00   programmed 7.81 MiB/s",
        "1 to 30 erases, 15.0 on average, of 3000",
        "c cut  r restore  q quit   a message",
    ] {
        assert!(seen.contains(part), "{part} is not in\n{seen}");
    }
    let mut off = sample(1, 2, 1000);
    (off.status.power, off.stats.power) = (Power::Off, Power::Off);
    (off.stats.units, off.stats.wear, off.stats.energy) = (None, None, None);
    off.status.cuts = 1;
    off.status.failure = Some("the emergency dump 3 is not complete".to_string());
    history.add(off);
    let seen = picture(&history, 80, 24);
    for part in [
        " OFF ",
        "time scale 0, 1 cut\n",
        "does not start: the emergency dump 3",
        "energy      unknown without power",
    ] {
        assert!(seen.contains(part), "{part} is not in\n{seen}");
    }
}

#[test]
fn any_size_of_a_screen_does() {
    let mut history = History::default();
    assert!(picture(&history, 80, 24).contains("c cut"));
    (0..300).for_each(|second| history.add(sample(1, second, second * second)));
    for (width, height) in [(1, 1), (3, 24), (20, 5), (42, 24), (80, 8), (300, 100)] {
        picture(&history, width, height);
    }
}
