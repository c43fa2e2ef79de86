//! A fit of a design to numbers of the model itself, and files of numbers that are none.

use super::*;

struct Nobody;

impl Watch for Nobody {
    fn done(&self) {}

    fn is_over(&self) -> bool {
        false
    }
}

const EFFORT: Effort =
    Effort { length: Length { warm_up: 0.02, seconds: 0.03, fsyncs: 24 }, rounds: 12 };

fn preset(name: &str, overrides: &str) -> Design {
    let overrides = overrides.parse().unwrap();
    Design::preset(name).unwrap().with_overrides(&overrides).unwrap()
}

/// The numbers of a drive, as a file of them has them.
fn numbers_of(design: &Design) -> Vec<(Number, f64)> {
    let small = trial::smaller(design);
    let of = |number: &Number| trial::measure(number, &small, EFFORT.length, 1).unwrap();
    let lines = NUMBERS.iter().map(|n| format!("{} = {:?}\n", n.key, of(n)));
    parse_numbers(&lines.collect::<String>()).unwrap()
}

fn fitted(name: &str, drive: &str, free: &[&str]) -> Findings {
    let numbers = numbers_of(&preset(name, drive));
    let free: Vec<String> = free.iter().map(|key| key.to_string()).collect();
    let fit = Fit::new(&preset(name, ""), numbers, Some(&free), EFFORT, 1).unwrap();
    let one = fit.run(1, &Nobody).unwrap();
    assert_eq!(one, fit.run(2, &Nobody).unwrap(), "the number of threads makes no difference");
    one
}

fn is_near(found: &Findings, key: &str, wanted: i64, percent: f64) {
    let p = found.parameters.iter().find(|p| p.key == key).unwrap();
    let off = (p.after as f64 / wanted as f64 - 1.0).abs() * 100.0;
    assert!(off <= percent, "{p:?}, which was {wanted}: {found:#?}");
}

#[test]
fn a_drive_without_capacitors_is_found_again() {
    let drive = "link = { latency_ns = 15000, occupancy_ns = 900, mb_s = 2400 }\n\
                 timing = { read_sector_us = 70, program_us = 1400 }\nfirmware = { flush_us = 90 }";
    let keys = [
        "link.latency_ns",
        "link.occupancy_ns",
        "link.mb_s",
        "timing.read_sector_us",
        "timing.program_us",
        "firmware.flush_us",
    ];
    let found = fitted("tlc-modern", drive, &keys);
    assert!(found.mean_percent() < 1.0, "{found:#?}");
    is_near(&found, "link.latency_ns", 15000, 3.0);
    is_near(&found, "link.mb_s", 2400, 3.0);
    is_near(&found, "timing.read_sector_us", 70, 3.0);
    is_near(&found, "timing.program_us", 1400, 3.0);
}

#[test]
fn a_drive_with_capacitors_is_found_again() {
    let drive = "link = { latency_ns = 80000, occupancy_ns = 7000, page_ns = 12000 }";
    let keys = ["link.latency_ns", "link.occupancy_ns", "link.page_ns", "firmware.flush_us"];
    let found = fitted("durassd", drive, &keys);
    assert!(found.mean_percent() < 1.0, "{found:#?}");
    is_near(&found, "link.latency_ns", 80000, 5.0);
    is_near(&found, "link.occupancy_ns", 7000, 5.0);
    // A cache in order does nothing for a flush.
    let flush = found.parameters.iter().find(|p| p.key == "firmware.flush_us").unwrap();
    assert_eq!((flush.after, flush.matters), (flush.before, 0.0));
}

#[test]
fn a_file_that_has_no_numbers_is_refused_with_its_key() {
    for (text, wanted) in [
        ("read_4k_uss = 3", "did you mean \"read_4k_us\"?"),
        ("read_4k_us = -3", "read_4k_us is -3; it must be a number of µs, 0.1 to 10000000"),
        ("read_4k_us = 0.0", "it must be a number of"),
        ("read_4k_us = nan", "it must be a number of"),
        ("read_4k_us = \"fast\"", "it must be a number of"),
        ("", "there is no number in it"),
        ("read_mb_s = 1\nread_4k_us 3", "line 2"),
    ] {
        let refused = parse_numbers(text).unwrap_err();
        assert!(refused.contains(wanted), "{text}: {refused}");
    }
}

#[test]
fn only_integers_of_link_timing_and_firmware_are_free() {
    let base = preset("tlc-modern", "");
    let fit = |free: &[&str]| {
        let free: Vec<String> = free.iter().map(|key| key.to_string()).collect();
        Fit::new(&base, parse_numbers("read_4k_us = 90").unwrap(), Some(&free), EFFORT, 1)
    };
    for (key, wanted) in [
        ("link.latncy_ns", "did you mean \"link.latency_ns\"?"),
        ("space.over_provisioning", "no parameter that can be fitted"),
        ("timing.independent_reads", "no parameter that can be fitted"),
    ] {
        let refused = fit(&[key]).unwrap_err();
        assert!(refused.contains(wanted), "{key}: {refused}");
    }
    assert!(fit(&["timing.read_us", "timing.read_us"]).unwrap_err().contains("twice"));
    assert!(fit(&[]).unwrap_err().contains("no parameter"));
}

/// What the script prints is what is read.
#[test]
fn the_script_measures_each_number_once() {
    let script = include_str!("../../../../scripts/measure-drive");
    for number in NUMBERS {
        let line = format!("number {} ", number.key);
        let loops = number.key.starts_with("fsync_")
            && script.contains("for every in 1 32 256; do")
            && script.contains("number \"fsync_${every}_per_s\"");
        assert!(script.matches(&line).count() == 1 || loops, "{}", number.key);
    }
}
