//! `tantalum trace` as a user meets it.

use crate::common::{ends, file};
use std::io::Write;
use std::process::{Command, Output, Stdio};

const TRACE: &str = "\
8,0 0 1 1.000000000 7 Q W 0 + 16 [db]
8,0 0 2 1.100000000 7 D W 0 + 16 [db]
8,0 0 3 2.000000000 7 Q FWFS 16 + 8 [db]
8,0 0 4 2.500000000 7 Q FN [db]
8,0 0 5 5.000000000 8 Q R 8 + 8 [my db]
";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(["trace", "info"]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The output of the command with this standard input.
fn info(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments).spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("it has a standard input");
    // The command may end before it has read everything.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_trace_is_told_as_a_table() {
    let path = file("small.blkparse", TRACE.as_bytes());
    let (out, err) = ends(&info(&[path.to_str().unwrap()], b""), 0);
    assert_eq!(err, "");
    let words: Vec<_> = out.split_whitespace().collect();
    let line = words.join(" ");
    for expected in [
        "format blkparse events 4 reads 1, 4.0 KiB writes 2, 12.0 KiB with FUA 1",
        "flushes 1 discards 0, 0 B",
        "footprint (4 KiB blocks) 3 blocks, 12.0 KiB read 1 blocks, 4.0 KiB written 3 blocks",
        "duration 4.00 s mean request 5.3 KiB median request 4.0 KiB sequential requests 33.3 %",
        "writes per flush 1.0 flushes per second 0.5",
    ] {
        assert!(line.contains(expected), "{expected}:\n{out}");
    }
    assert_eq!(ends(&info(&["-"], TRACE.as_bytes()), 0).0, out);
}

#[test]
fn a_trace_is_told_as_json() {
    let (out, _) = ends(&info(&["--json", "-"], TRACE.as_bytes()), 0);
    let json: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!(json["format"], "blkparse");
    assert_eq!(json["skipped"], 1);
    assert_eq!(json["device_names"], serde_json::json!(["8,0"]));
    assert_eq!(json["writes"], serde_json::json!({ "count": 2, "bytes": 12288 }));
    assert_eq!(json["duration_ns"], 4_000_000_000_u64);
    assert_eq!(json["footprint_written_blocks"], 3);
    let pages = [0, 0, 0, 0, 3, 0, 0, 0];
    let (out, _) = ends(&info(&["--json", "--page-size", "4KiB", "-"], &pages), 0);
    let json: serde_json::Value = serde_json::from_str(&out).expect("it is JSON");
    assert_eq!((&json["format"], &json["events"]), (&"pages".into(), &2.into()));
    assert_eq!(json["duration_ns"], serde_json::Value::Null);
}

#[test]
fn the_kind_of_event_can_be_chosen() {
    let (out, _) = ends(&info(&["--event", "issued", "-"], TRACE.as_bytes()), 0);
    assert!(out.contains("1, 8.0 KiB"), "{out}");
    let (_, err) = ends(&info(&["--event", "completed", "-"], TRACE.as_bytes()), 0);
    assert!(err.contains("no C events"), "{err}");
}

#[test]
fn mistakes_end_in_2_and_are_named() {
    let damaged = TRACE.replace("FN [db]", "!! [db]");
    let folder = env!("CARGO_TARGET_TMPDIR");
    let cases: [(&[&str], &[u8], &str); 8] = [
        (&["nowhere.csv"], b"", "cannot read the trace nowhere.csv: there is no such file: name a"),
        (&[folder], b"", "it is a folder: name a file"),
        (&["-"], b"", "the trace \"standard input\" is empty"),
        (&["-"], b"hello\n", "not recognised; say which it is (--format), one of: fio-2,"),
        (&["-"], b"\xfd7zXZ\0\0", "xz -dc FILE | tantalum trace info -"),
        (&["-"], damaged.as_bytes(), "standard input, line 4: expected RWBS"),
        (&["--format", "spc", "-"], TRACE.as_bytes(), "standard input, line 1: expected an addr"),
        (&["--format", "nonsense", "-"], b"", "invalid value 'nonsense'"),
    ];
    for (arguments, input, expected) in cases {
        let (out, err) = ends(&info(arguments, input), 2);
        assert_eq!(out, "");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let path = file("gone.blkparse", TRACE.as_bytes());
    let mut child = command(&[path.to_str().unwrap()]).spawn().expect("the command starts");
    drop(child.stdout.take());
    let (_, err) = ends(&child.wait_with_output().expect("it ends"), 0);
    assert_eq!(err, "");
}
