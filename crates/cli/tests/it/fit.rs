//! `tantalum fit` as a user meets it.

use crate::common::{ends, file};
use std::process::{Command, Output, Stdio};
use tantalum_drive::Design;

fn fit(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    let command = command.arg("fit").args(arguments).stdin(Stdio::null());
    command.output().expect("the command starts")
}

#[test]
fn a_fitted_design_is_one() {
    let numbers = file("fit-numbers.toml", "read_4k_us = 100\nwrite_4k_us = 30\n");
    let out = file("fit-out.toml", "");
    let base =
        ["--design", "tlc-modern", "--quick", "--free", "link.latency_ns,timing.read_sector_us"];
    let arguments = [&[numbers.to_str().unwrap()], &base[..]].concat();
    let to_file = [&arguments[..], &["--out", out.to_str().unwrap(), "--within", "3"]].concat();
    let (table, _) = ends(&fit(&to_file), 0);
    assert!(table.contains("4 KiB random read, depth 1") && table.contains("link.latency_ns"));
    let written = std::fs::read_to_string(&out).unwrap();
    let design = Design::from_toml(&written).unwrap();
    assert!((26_000..30_000).contains(&design.link.latency_ns), "{written}");
    // Without a file the design is printed, and the result is the same with another thread.
    let (printed, _) = ends(&fit(&[&arguments[..], &["--threads", "1"]].concat()), 0);
    assert_eq!(printed, format!("{table}\n{written}"));
    // It is a design to begin with, too.
    let again = [numbers.to_str().unwrap(), "--design", out.to_str().unwrap(), "--quick"];
    ends(&fit(&again), 0);
}

#[test]
fn what_cannot_be_fitted_is_said() {
    let good = file("fit-good.toml", "read_4k_us = 100\n");
    let good = good.to_str().unwrap();
    let bad = file("fit-bad.toml", "read_4k_us = 0\n");
    let odd = file("fit-odd.toml", "read_5k_us = 10\n");
    for (arguments, wanted) in [
        (vec![bad.to_str().unwrap(), "--design", "slc"], "it must be a number of"),
        (vec![odd.to_str().unwrap(), "--design", "slc"], "did you mean \"read_4k_us\"?"),
        (vec!["no-such-file.toml", "--design", "slc"], "cannot read the file of numbers"),
        (vec![good, "--design", "tlc-modren"], "tlc-modern"),
        (vec![good, "--design", "slc", "--free", "link.mb"], "did you mean \"link.mb_s\"?"),
        (vec![good], "--design"),
    ] {
        let (_, err) = ends(&fit(&arguments), 2);
        assert!(err.contains(wanted), "{arguments:?}: {err}");
    }
    // One number that no free parameter changes.
    let arguments = [good, "--design", "slc", "--quick", "--free", "firmware.flush_us"];
    let (_, err) = ends(&fit(&[&arguments[..], &["--within", "1"]].concat()), 1);
    assert!(err.contains("% on average, more than 1 %"), "{err}");
}
