//! Traces played on a device that records its commands.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, Cursor};
use std::rc::Rc;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, CommandKind, Data, DataMut, Durability, Extent,
    IoError, Payload,
};
use tantalum_rt::{Nanos, Rt, Runtime};
use tantalum_workload::replay::{
    Addresses, Ended, Mode, Open, Played, Player, Playing, ReplayError,
};
use tantalum_workload::trace::{Kind, Trace, TraceError};

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/");

/// A command: its time, kind, first block, and number of blocks.
type Entry = (Nanos, CommandKind, u64, u64);

#[derive(Clone)]
struct Recorder {
    rt: Rt,
    caps: Caps,
    log: Rc<RefCell<Vec<Entry>>>,
    latency: Nanos,
    in_flight: Rc<Cell<(u32, u32)>>,
    /// The power fails after this many commands.
    left: Rc<Cell<u64>>,
}

impl Recorder {
    fn new(rt: &Rt, blocks: u64) -> Recorder {
        let caps = Caps { ordered: false, ..Caps::power_safe(blocks, Payload::Stamps) };
        Recorder {
            rt: rt.clone(),
            caps,
            log: Rc::default(),
            latency: Nanos::from_micros(100),
            in_flight: Rc::default(),
            left: Rc::new(Cell::new(u64::MAX)),
        }
    }

    async fn command(&self, kind: CommandKind, range: Blocks) -> Result<(), IoError> {
        self.caps.check_range(range)?;
        if self.left.get() == 0 {
            return Err(IoError::PowerLost);
        }
        self.left.set(self.left.get() - 1);
        self.log.borrow_mut().push((self.rt.now(), kind, range.start.0, range.count));
        let (now, most) = self.in_flight.get();
        self.in_flight.set((now + 1, most.max(now + 1)));
        self.rt.sleep(self.latency).await;
        let (now, most) = self.in_flight.get();
        self.in_flight.set((now - 1, most));
        Ok(())
    }
}

impl BlockDevice for Recorder {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn is_alive(&self) -> bool {
        true
    }
    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let count = buf.blocks(4096).unwrap_or(0);
        self.command(CommandKind::Read, Blocks { start: at, count }).await
    }
    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let kind = if want == Durability::Fua { CommandKind::Fua } else { CommandKind::Write };
        let count = data.blocks(4096).unwrap_or(0);
        self.command(kind, Blocks { start: at, count }).await
    }
    async fn write_atomic(&self, _: &[Extent<'_>]) -> Result<(), AtomicError> {
        Err(AtomicError::Io(IoError::PowerLost))
    }
    async fn flush(&self) -> Result<(), IoError> {
        self.command(CommandKind::Flush, Blocks { start: Block(0), count: 0 }).await
    }
    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.command(CommandKind::Discard, range).await
    }
}

fn open(name: &str, bytes: Vec<u8>, how: &Playing) -> Open {
    let (name, options) = (name.to_string(), how.options());
    Box::new(move || {
        let input: Box<dyn BufRead> = Box::new(Cursor::new(bytes.clone()));
        Trace::open(&name, input, &options)
    })
}

#[allow(clippy::disallowed_methods, reason = "the samples are files")]
fn sample(name: &str) -> Vec<u8> {
    std::fs::read(format!("{SAMPLES}{name}")).expect("a sample")
}

/// The outcome of playing a text once.
struct Once {
    log: Vec<Entry>,
    played: Played,
    ended: Result<Ended, ReplayError>,
    elapsed: Nanos,
    most_in_flight: u32,
}

fn play(how: &Playing, bytes: Vec<u8>, blocks: u64) -> Once {
    let mut runtime = Runtime::virtual_time(1);
    let (rt, how) = (runtime.handle(), how.clone());
    let main = async move {
        let device = Recorder::new(&rt, blocks);
        let player = Player::new(&rt, &how, open(&how.file, bytes, &how), 7);
        let player = match player {
            Ok(player) => player,
            Err(e) => {
                let (log, played) = (Vec::new(), Played::default());
                return Once {
                    log,
                    played,
                    ended: Err(e),
                    elapsed: Nanos::ZERO,
                    most_in_flight: 0,
                };
            }
        };
        let ended = player.play(&device, |_, _| ()).await;
        Once {
            log: device.log.take(),
            played: player.played(),
            ended,
            elapsed: rt.now(),
            most_in_flight: device.in_flight.get().1,
        }
    };
    runtime.block_on(main).expect("it ends")
}

/// Larger than any address in the samples.
const HUGE: u64 = 1 << 50;

/// The requests of a trace, computed independently: time, kind, first block, blocks.
fn asked(name: &str) -> Vec<(Option<Nanos>, CommandKind, u64, u64)> {
    let how = Playing::new(name);
    let trace = open(name, sample(name), &how)().expect("it opens");
    let mut asked = Vec::new();
    for event in trace {
        let event = event.expect("an event");
        let (from, to) = (event.offset, event.offset + event.length);
        let touched = |kind| (event.time, kind, from / 4096, to.div_ceil(4096) - from / 4096);
        if event.flags.preflush {
            asked.push((event.time, CommandKind::Flush, 0, 0));
        }
        match event.kind {
            Kind::Flush => asked.push((event.time, CommandKind::Flush, 0, 0)),
            Kind::Read if event.length > 0 => asked.push(touched(CommandKind::Read)),
            Kind::Write if event.length > 0 && event.flags.fua => {
                asked.push(touched(CommandKind::Fua));
            }
            Kind::Write if event.length > 0 => asked.push(touched(CommandKind::Write)),
            Kind::Discard if from.div_ceil(4096) < to / 4096 => {
                let first = from.div_ceil(4096);
                asked.push((event.time, CommandKind::Discard, first, to / 4096 - first));
            }
            _ => {}
        }
    }
    asked
}

const TEXTS: [&str; 10] = [
    "fio2.log",
    "fio3.log",
    "blkparse.txt",
    "msr.csv",
    "spc.csv",
    "systor.csv",
    "disksim.trace",
    "log-writes-512.img",
    "log-writes-4096.img",
    "pages.u32",
];

/// Joins the pieces of long requests.
fn joined(log: &[Entry]) -> Vec<(CommandKind, u64, u64)> {
    let mut joined: Vec<(CommandKind, u64, u64)> = Vec::new();
    let mut open = false;
    for &(_, kind, at, count) in log {
        match joined.last_mut() {
            Some(last) if open && last.0 == kind && last.1 + last.2 == at => last.2 += count,
            _ => joined.push((kind, at, count)),
        }
        open = kind != CommandKind::Discard && count == 256;
    }
    joined
}

#[test]
fn every_format_is_played_request_by_request() {
    for name in TEXTS {
        // Only the first device, since further ones are shifted.
        let first = Trace::open(name, &sample(name)[..], &Playing::new(name).options())
            .expect("it opens")
            .filter_map(Result::ok)
            .all(|e| e.device.unwrap_or(0) == 0);
        let once = play(&Playing::new(name), sample(name), HUGE);
        assert!(matches!(once.ended, Ok(Ended::Trace)), "{name}: {:?}", once.ended);
        let expected: Vec<_> = asked(name).into_iter().map(|(_, k, a, c)| (k, a, c)).collect();
        let found = joined(&once.log);
        assert_eq!(found.len(), expected.len(), "{name}");
        assert!(found.len() > 5, "{name}: {found:?}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.0, found.2), (expected.0, expected.2), "{name}");
            assert!(!first || found.1 == expected.1, "{name}: {found:?} {expected:?}");
        }
        assert_eq!(once.most_in_flight, 1, "{name}");
        assert_eq!((once.played.clipped, once.played.passes), (0, 1), "{name}");
    }
}

#[test]
fn no_more_are_in_flight_than_the_depth_and_no_fewer() {
    let how = Playing { queue_depth: Some(4), ..Playing::new("spc.csv") };
    let once = play(&how, sample("spc.csv"), HUGE);
    assert_eq!(once.most_in_flight, 4);
    let commands = once.log.len() as u64;
    assert_eq!(once.elapsed, Nanos::from_micros(100 * commands.div_ceil(4)));
    assert_eq!(once.played.requests, commands);
}

#[test]
fn timed_requests_come_at_their_times() {
    for (name, speed) in [("msr.csv", 1.0), ("systor.csv", 4.0), ("fio3.log", 0.5)] {
        let how = Playing { mode: Mode::Timed, speed, ..Playing::new(name) };
        let once = play(&how, sample(name), HUGE);
        assert!(matches!(once.ended, Ok(Ended::Trace)), "{name}: {:?}", once.ended);
        let asked = asked(name);
        let origin = asked[0].0.expect("a time");
        let mut not_before = Nanos::ZERO;
        for (found, (time, kind, ..)) in once.log.iter().zip(&asked) {
            let after = time.expect("a time").saturating_sub(origin).0 as f64 / speed;
            not_before = not_before.max(Nanos(after as u64));
            assert_eq!((found.0, found.1), (not_before, *kind), "{name}");
        }
        assert!(not_before > Nanos::from_micros(100), "{name}");
    }
    let how = Playing { mode: Mode::Timed, ..Playing::new("spc.csv") };
    let text = b"0,0,4096,w,0.0\n0,0,4096,w,0.00005\n0,8,4096,w,0.001\n".to_vec();
    let once = play(&Playing { queue_depth: Some(1), ..how.clone() }, text.clone(), HUGE);
    assert_eq!((once.played.late, once.played.latest_ns), (1, 50_000), "{:?}", once.log);
    assert_eq!(once.log[1].0, Nanos::from_micros(100));
    assert_eq!(once.log[2].0, Nanos::from_millis(1));
    assert_eq!(play(&how, text, HUGE).played.late, 0);
}

#[test]
fn a_flush_before_a_write_completes_first_and_fua_stays() {
    let text = b"8,0 0 1 0.1 1 Q FWFS 8 + 8 [x]\n8,0 0 2 0.2 1 Q WFS 16 + 8 [x]\n\
                 8,0 0 3 0.3 1 Q FN 0 + 0 [x]\n8,0 0 4 0.4 1 Q D 16 + 16 [x]\n\
                 8,0 0 5 0.5 1 Q DS 20 + 8 [x]\n"
        .to_vec();
    let how = Playing { queue_depth: Some(1), ..Playing::new("b") };
    let once = play(&how, text, HUGE);
    let us = Nanos::from_micros;
    let expected = [
        (us(0), CommandKind::Flush, 0, 0),
        (us(100), CommandKind::Fua, 1, 1),
        (us(200), CommandKind::Fua, 2, 1),
        (us(300), CommandKind::Flush, 0, 0),
        (us(400), CommandKind::Discard, 2, 2),
    ];
    assert_eq!(once.log, expected);
    // The last discard covers no whole block.
    assert_eq!((once.played.skipped, once.played.requests), (1, 4));
}

#[test]
fn addresses_come_into_the_device() {
    let mib = |n: u64| n << 20;
    let line = |offset: u64, size: u64| format!("0,{},{size},w,0.0\n", offset / 512);
    let text = line(mib(5), 8192) + &line(mib(64) - 4096, 8192) + &line(mib(70), 512);
    let how = Playing::new("spc");
    let once = play(&how, text.clone().into_bytes(), 16 * 256);
    let places: Vec<_> = once.log.iter().map(|e| (e.2, e.3)).collect();
    // Modulo 16 MiB. The second one is cut off at the end.
    assert_eq!(places, [(5 * 256, 2), (16 * 256 - 1, 1), (6 * 256, 1)]);
    let p = once.played;
    assert_eq!((p.moved, p.clipped, p.rounded, p.requests), (2, 1, 1, 3), "{p:?}");
    let scaled = Playing { addresses: Addresses::Scale, ..how.clone() };
    let once = play(&scaled, text.clone().into_bytes(), 16 * 256);
    // 71 MiB scaled to 16: 5 → 1, 63 → 14 with the offset within, 70 → 15.
    let places: Vec<_> = once.log.iter().map(|e| (e.2, e.3)).collect();
    assert_eq!(places, [(256, 2), (14 * 256 + 255, 2), (15 * 256, 1)]);
    assert_eq!((once.played.moved, once.played.clipped), (3, 0));
    let known = Playing { span_mib: Some(142), ..scaled.clone() };
    assert_eq!(play(&known, text.clone().into_bytes(), 16 * 256).log[2].2, 7 * 256);
    // Addresses that fit stay.
    let once = play(&scaled, text.into_bytes(), 71 * 256);
    assert_eq!((once.played.moved, once.log[2].2), (0, 70 * 256));
}

#[test]
fn long_requests_go_in_pieces() {
    let text = b"0,0,3145729,w,0.0\n".to_vec();
    let once = play(&Playing { queue_depth: Some(8), ..Playing::new("spc") }, text, HUGE);
    let places: Vec<_> = once.log.iter().map(|e| (e.2, e.3)).collect();
    assert_eq!(places, [(0, 256), (256, 256), (512, 256), (768, 1)]);
    assert_eq!((once.played.requests, once.most_in_flight), (1, 1));
}

#[test]
fn one_device_of_many_can_be_chosen() {
    let all = play(&Playing::new("msr.csv"), sample("msr.csv"), HUGE);
    let how = Playing { device: Some("prxy,1".into()), ..Playing::new("msr.csv") };
    let some = play(&how, sample("msr.csv"), HUGE);
    assert!(some.played.requests > 3 && some.played.requests < all.played.requests);
    assert_eq!(some.played.requests + some.played.skipped, all.played.requests);
    let how = Playing { device: Some("nobody".into()), ..Playing::new("msr.csv") };
    let error = play(&how, sample("msr.csv"), HUGE).ended.expect_err("nothing to play");
    assert_eq!(
        error.to_string(),
        "the trace \"msr.csv\" has no request of device \"nobody\" that could be played"
    );
}

#[test]
fn errors_say_file_and_line() {
    let mut text = sample("spc.csv");
    text.extend_from_slice(b"1,2,many,w,9.0\n");
    let lines = text.iter().filter(|b| **b == b'\n').count();
    let whole = play(&Playing::new("spc.csv"), sample("spc.csv"), HUGE);
    let once = play(&Playing::new("spc.csv"), text, HUGE);
    let error = once.ended.expect_err("a malformed line").to_string();
    assert!(error.starts_with(&format!("spc.csv, line {lines}: expected")), "{error}");
    assert_eq!(once.log, whole.log);
    let none = play(&Playing::new("x"), Vec::new(), HUGE).ended;
    assert!(matches!(none, Err(ReplayError::Trace(TraceError::Empty { .. }))), "{none:?}");
    let how = Playing { mode: Mode::Timed, ..Playing::new("pages.u32") };
    let error = play(&how, sample("pages.u32"), HUGE).ended.expect_err("no times");
    assert!(error.to_string().contains("\"pages.u32\" has no times"), "{error}");
    let fine = Playing::new("spc.csv");
    for bad in [
        Playing { speed: 0.0, ..fine.clone() },
        Playing { speed: f64::NAN, ..fine.clone() },
        Playing { queue_depth: Some(0), ..fine.clone() },
        Playing { page_size: 0, ..fine.clone() },
        Playing { span_mib: Some(0), ..fine.clone() },
    ] {
        let ended = play(&bad, sample("spc.csv"), HUGE).ended;
        assert!(matches!(ended, Err(ReplayError::Value { .. })), "{ended:?}");
    }
}

#[test]
fn a_lost_power_ends_it_and_it_goes_on_behind() {
    let whole = play(&Playing::new("spc.csv"), sample("spc.csv"), HUGE).log;
    let whole_len = whole.len();
    assert!(whole_len > 7 && !whole_len.is_multiple_of(7));
    for mode in [Mode::Fast, Mode::Timed] {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let main = async move {
            let how = Playing { mode, speed: 100.0, ..Playing::new("spc.csv") };
            let source = open("spc.csv", sample("spc.csv"), &how);
            let player = Player::new(&rt, &how, source, 1).expect("it opens");
            let mut device = Recorder::new(&rt, HUGE);
            device.latency = Nanos(1);
            let mut lost = 0;
            let mut log = Vec::new();
            for _ in 0..whole_len {
                device.left.set(6);
                let ended = player.play(&device, |_, _| ()).await;
                log.extend(device.log.take());
                match ended {
                    Err(ReplayError::Io { error: IoError::PowerLost, .. }) => lost += 1,
                    Ok(Ended::Trace) => break,
                    other => panic!("{other:?}"),
                }
            }
            // And from the beginning.
            device.left.set(1);
            let _ = player.play(&device, |_, _| ()).await;
            log.extend(device.log.take());
            (log, lost, player.played())
        };
        let (log, lost, played) = runtime.block_on(main).expect("it ends");
        let places = |log: &[Entry]| log.iter().map(|e| (e.1, e.2, e.3)).collect::<Vec<_>>();
        // After six commands the seventh is lost.
        let mut expected: Vec<_> = places(&whole);
        let again = expected[0];
        let mut n = 0;
        expected.retain(|_| {
            n += 1;
            n % 7 != 0
        });
        expected.push(again);
        assert_eq!(places(&log), expected, "{mode:?}");
        assert_eq!(lost as usize, whole.len() / 7, "{mode:?}");
        assert_eq!(played.passes, 1);
    }
}

#[test]
fn a_stop_is_heard_while_nothing_is_due() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let main = async move {
        let how = Playing { mode: Mode::Timed, ..Playing::new("spc") };
        let text = b"0,0,4096,w,0.0\n0,8,4096,w,3600.0\n0,16,4096,w,3600.5\n".to_vec();
        let player = Player::new(&rt, &how, open("spc", text, &how), 1).expect("it opens");
        let device = Recorder::new(&rt, HUGE);
        let (playing, on) = (player.clone(), device.clone());
        let task = rt.spawn("a player", async move { playing.play(&on, |_, _| ()).await });
        rt.sleep(Nanos::from_secs(1)).await;
        player.stop();
        let ended = task.await.expect("not cancelled").expect("no failure");
        assert_eq!((ended, rt.now()), (Ended::Stopped, Nanos::from_secs(1)));
        assert_eq!(device.log.borrow().len(), 1);
        // It goes on at once with the next request, and keeps the distance to the one after.
        let ended = player.play(&device, |_, _| ()).await.expect("no failure");
        assert_eq!(ended, Ended::Trace);
        let times: Vec<_> = device.log.borrow().iter().map(|e| e.0).collect();
        assert_eq!(times[1..], [Nanos::from_secs(1), Nanos::from_millis(1500)]);
    };
    runtime.block_on(main).expect("it ends");
}

#[test]
fn parameters_are_written_in_toml() {
    let text = "file = \"a.csv\"\nformat = \"msr\"\nmode = \"timed\"\nspeed = 2.5\n\
                addresses = \"scale\"\nevent = \"issued\"\nqueue_depth = 8\n";
    let how: Playing = toml::from_str(text).expect("it is sound");
    assert_eq!((how.mode, how.speed, how.queue_depth), (Mode::Timed, 2.5, Some(8)));
    assert_eq!(how.addresses, Addresses::Scale);
    assert_eq!(toml::from_str::<Playing>(&toml::to_string(&how).unwrap()).unwrap(), how);
    assert!(toml::from_str::<Playing>("file = \"a\"\nspeeed = 1.0").is_err());
    assert!(toml::from_str::<Playing>("mode = \"fast\"").is_err());
}
