//! The readers of block traces, with samples whose events are written beside them, with damaged
//! samples and with noise.

use proptest::prelude::*;
use tantalum_workload::trace::{
    BlkparseEvent, Event, Format, Kind, Options, Place, Summary, Trace, TraceError,
};

struct Sample {
    name: &'static str,
    format: Format,
    bytes: &'static [u8],
    expected: &'static str,
}

macro_rules! sample {
    ($name:literal, $format:ident) => {
        Sample {
            name: $name,
            format: Format::$format,
            bytes: include_bytes!(concat!("../samples/", $name)),
            expected: include_str!(concat!("../samples/", $name, ".expected")),
        }
    };
}

const SAMPLES: [Sample; 10] = [
    sample!("fio2.log", Fio2),
    sample!("fio3.log", Fio3),
    sample!("blkparse.txt", Blkparse),
    sample!("msr.csv", Msr),
    sample!("spc.csv", Spc),
    sample!("systor.csv", Systor),
    sample!("disksim.trace", DiskSim),
    sample!("log-writes-512.img", LogWrites),
    sample!("log-writes-4096.img", LogWrites),
    sample!("pages.u32", Pages),
];

fn sample(format: Format) -> &'static Sample {
    SAMPLES.iter().find(|s| s.format == format).unwrap()
}

fn with(format: Format) -> Options {
    Options { format: Some(format), ..Options::default() }
}

fn events(bytes: &[u8], options: &Options) -> Result<Vec<Event>, TraceError> {
    Trace::open("t", bytes, options)?.collect()
}

fn line(event: &Event) -> String {
    let or_dash = |number: Option<u64>| number.map_or("-".into(), |n| n.to_string());
    let kind = match event.kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Flush => "flush",
        Kind::Discard => "discard",
        Kind::Mark => "mark",
    };
    let f = event.flags;
    let flags = [(f.fua, "fua"), (f.preflush, "preflush"), (f.metadata, "metadata")];
    let flags: Vec<_> = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
    let mut words = vec![
        or_dash(event.time.map(|t| t.0)),
        or_dash(event.device.map(u64::from)),
        or_dash(event.thread.map(u64::from)),
        kind.into(),
        event.offset.to_string(),
        event.length.to_string(),
        if flags.is_empty() { "-".into() } else { flags.join(",") },
    ];
    words.extend(event.label.iter().map(|l| l.to_string()));
    words.join(" ")
}

fn text(events: &[Event]) -> String {
    events.iter().map(|e| line(e) + "\n").collect()
}

#[test]
fn every_sample_is_recognised_and_means_what_it_should() {
    for sample in &SAMPLES {
        let trace = Trace::open(sample.name, sample.bytes, &Options::default()).unwrap();
        assert_eq!(trace.format(), sample.format, "{}", sample.name);
        let found = events(sample.bytes, &Options::default()).unwrap();
        assert_eq!(text(&found), sample.expected, "{}", sample.name);
        assert!(found.len() >= 8, "{}", sample.name);
        assert_eq!(events(sample.bytes, &with(sample.format)).unwrap(), found);
    }
}

#[test]
fn each_kind_of_blkparse_event_tells_the_same_requests() {
    let bytes = sample(Format::Blkparse).bytes;
    let cases = [
        (BlkparseEvent::Issued, include_str!("../samples/blkparse.txt.D.expected")),
        (BlkparseEvent::Completed, include_str!("../samples/blkparse.txt.C.expected")),
    ];
    for (blkparse_event, expected) in cases {
        let options = Options { blkparse_event, ..Options::default() };
        assert_eq!(text(&events(bytes, &options).unwrap()), expected, "{blkparse_event:?}");
    }
}

#[test]
fn a_flush_and_fua_write_of_blkparse_is_all_three() {
    let line = b"8,0 1 7 0.5 42 Q FWFS 100 + 8 [jbd2/sda1-8]\n";
    let found = events(line, &Options::default()).unwrap();
    assert_eq!(text(&found), "500000000 0 42 write 51200 4096 fua,preflush\n");
}

#[test]
fn devices_have_their_names_and_what_is_no_request_is_counted() {
    let read = |format| {
        let mut trace = Trace::open("t", sample(format).bytes, &Options::default()).unwrap();
        trace.by_ref().for_each(drop);
        (trace.devices().to_vec(), trace.skipped())
    };
    let (devices, _) = read(Format::Msr);
    assert!(devices.contains(&"web,0".into()) && devices.contains(&"prxy,1".into()));
    let (devices, skipped) = read(Format::Fio2);
    assert_eq!(devices.len(), 2);
    assert_eq!(skipped, 4 + 3 + 2, "adds and opens, waits, closes");
    assert_eq!(read(Format::Pages), (vec![], 0));
}

#[test]
fn lines_may_end_as_elsewhere_be_blank_or_lack_their_end() {
    for sample in SAMPLES.iter().filter(|s| s.format.is_text()) {
        let text = str::from_utf8(sample.bytes).unwrap();
        let found = events(sample.bytes, &Options::default()).unwrap();
        for other in
            [text.replace('\n', "\r\n"), text.replace('\n', "\n\n"), text.trim_end().into()]
        {
            assert_eq!(events(other.as_bytes(), &Options::default()).unwrap(), found);
        }
    }
}

#[test]
fn a_log_of_fio_needs_no_header_if_the_version_is_told() {
    let found = events(b"/dev/a write 4096 512\n", &with(Format::Fio2)).unwrap();
    assert_eq!(text(&found), "- 0 - write 4096 512 -\n");
    let error = events(b"fio version 3 iolog\n", &with(Format::Fio2)).unwrap_err();
    assert!(error.to_string().contains("line 1: expected the header of this version"), "{error}");
}

#[test]
fn pages_have_the_size_that_is_told() {
    let options = Options { page_size: u32::MAX, ..with(Format::Pages) };
    let found = events(&[0xff; 4], &options).unwrap();
    let length = u64::from(u32::MAX);
    assert_eq!((found[0].kind, found[0].length), (Kind::Write, length));
    assert_eq!(found[0].offset, (length >> 1) * length);
}

#[test]
fn errors_say_where_and_what_was_expected() {
    let long = format!("0,1,512,r,0.5\n0,1,512,r,0.{}\n", "0".repeat(20_000));
    let cases: [(Format, &str, &str); 14] = [
        (Format::Fio2, "/d read 1 2\n/d raed 1 2\n", "t, line 2: expected add, open"),
        (Format::Fio2, "/d read 1\n", "line 1: expected a length in bytes, found the end"),
        (Format::Fio3, "1 /d wait 5 0\n", "no wait in version 3"),
        (Format::Fio3, "1 /d write 0 4294967297\n", "at most 4 GiB"),
        (Format::Blkparse, "8,0 0 1 0.5 7 Q W 1 * 8 [x]\n", "expected sector + sectors"),
        (Format::Blkparse, "8,0 0 1 0.5 7 Q XY 1 + 8 [x]\n", "expected RWBS, such as WS or FWFS"),
        (Format::Blkparse, "8 0 1 0.5 7 Q W 1 + 8 [x]\n", "(major,minor), found \"8\""),
        (Format::Msr, "1,web,0,Read,0,512,9\n1,web,0,Trim,0,512,9\n", "line 2: expected Read or"),
        (Format::Msr, "1,web,0,Read,18446744073709551615,1,9\n", "ends below 2^64"),
        (Format::Spc, "0,1,512,r,0.5\n0,1,512,q,0.5\n", "line 2: expected r or w, found \"q\""),
        (Format::Spc, &long, "line 2: expected a line of at most 16384 bytes"),
        (Format::Systor, "1.0,0.1,R,0,-5,512\n", "an offset in bytes, found \"-5\""),
        (Format::DiskSim, "0.5 0 1 8 1\n\n0.5 0 1 8 x\n", "line 3: expected hexadecimal flags"),
        (Format::DiskSim, "0.5 0 1 8\n", "hexadecimal flags, found the end (format disksim)"),
    ];
    for (format, text, expected) in cases {
        let error = events(text.as_bytes(), &with(format)).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_damaged_log_of_writes_is_named_by_its_byte() {
    let bytes = sample(Format::LogWrites).bytes;
    let damaged = |at: usize, with: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = with;
        events(&bytes, &Options::default()).unwrap_err().to_string()
    };
    let version = damaged(8, 2);
    assert!(version.contains("t, byte 0: expected version 1, found \"2\""), "{version}");
    let size = damaged(24, 1);
    assert!(size.contains("expected a sector size"), "{size}");
    let flags = damaged(512 + 16, 0x40);
    assert!(flags.contains("byte 512: expected flags from 0 to 31, found \"64\""), "{flags}");
    let mark = damaged(512 + 26, 1);
    assert!(mark.contains("byte 512: expected a mark's text within its sector"), "{mark}");
    let cut = events(&bytes[..1024 + 100], &Options::default()).unwrap_err();
    let TraceError::Malformed { place, expected, .. } = cut else { panic!("{cut}") };
    assert_eq!((place, expected), (Place::Byte(1024), "another entry, as the head says"));
    let cut = events(&sample(Format::Pages).bytes[..10], &Options::default()).unwrap_err();
    assert!(cut.to_string().contains("byte 8: expected all four bytes"), "{cut}");
}

#[test]
fn what_is_no_trace_is_not_taken_for_one() {
    let open = |bytes: &[u8]| events(bytes, &Options::default()).unwrap_err();
    assert!(matches!(open(b""), TraceError::Empty { .. }));
    let none: [&[u8]; 5] =
        [b"hello\n", b"\n\n", &[0; 4096], b"\x7fELF\x02\x01\x01\0\0\0\0\0", b"a,b,c\n1,2,3\n"];
    for bytes in none {
        assert!(matches!(open(bytes), TraceError::Unrecognised { .. }), "{bytes:?}");
    }
    let xz = open(b"\xfd7zXZ\0\0\x04").to_string();
    assert!(xz.contains("`xz -dc FILE | tantalum trace info -`"), "{xz}");
    let named = open(b"hello\n").to_string();
    assert!(Format::ALL.iter().all(|f| named.contains(f.name())), "{named}");
}

/// Reads it in all formats. The events keep their promises.
fn read_all(bytes: &[u8]) {
    let formats = Format::ALL.into_iter().map(Some).chain([None]);
    for format in formats {
        let options = Options { format, ..Options::default() };
        let Ok(mut trace) = Trace::open("t", bytes, &options) else { continue };
        let mut summary = Summary::new();
        while let Some(next) = trace.next() {
            let Ok(event) = next else {
                assert!(trace.next().is_none(), "an error ends a trace");
                break;
            };
            assert!(event.offset.checked_add(event.length).is_some());
            assert!(event.device.is_none_or(|d| (d as usize) < trace.devices().len()));
            summary.add(&event);
        }
        summary.report();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn noise_panics_nobody(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        read_all(&bytes);
    }

    #[test]
    fn lines_of_likely_words_panic_nobody(
        words in prop::collection::vec(
            prop::sample::select(&[
                "0", "1", "18446744073709551615", "4294967296", "-1", "0.5", ".", "8,0", ",", "+",
                "Q", "FWFS", "read", "wait", "R", "w", "Read", "\n", " ", " ", " ", ",", "[x]",
                "fio version 3 iolog\n", "é", "\u{0}", "CPU0", "ff",
            ][..]),
            0..80,
        )
    ) {
        read_all(words.concat().as_bytes());
    }

    #[test]
    fn damaged_samples_panic_nobody(
        which in 0..SAMPLES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = SAMPLES[which].bytes.to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len().min(4_096));
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        read_all(&bytes);
    }
}
