//! The benchmark of files, in its small form: it measures all that it names, and cleans up.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark takes the time"
)]

#[path = "../../examples/speed/mod.rs"]
mod speed;

use speed::{Scale, Work, compare};
use tantalum_testing::{Need, Scratch, left_out};

#[test]
fn the_benchmark_measures_both_sides() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    let lines = compare(&path, &Scale { mib: 2, rounds: 3, commands: 32 });
    // The temporary directory may be on a file system without it.
    if lines.as_ref().is_err_and(|e| e.contains("no direct I/O")) {
        let how = "set TMPDIR to a directory on a file system with direct I/O (ext4, XFS)";
        assert!(left_out(&[Need::tried("direct I/O", &lines, how)]));
        return;
    }
    let lines = lines.unwrap();
    let measured: Vec<Work> = lines.iter().map(|line| line.work).collect();
    assert_eq!(measured, Work::ALL);
    for line in &lines {
        assert!(line.device > 0.0 && line.plain > 0.0, "{line}");
        assert!(line.to_string().contains("ratio"), "{line}");
    }
}
