//! What a served cache is asked for while it is used: another size, a scrub, its end.

use crate::cache::{bytes_of, cache, made, serve, whole};
use crate::common::live::{Nbd, Serving, socket, tantalum};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// The process that serves a cache gives it another size, while its clients go on.
#[test]
fn a_served_cache_gets_another_size_while_it_is_used() {
    for mode in ["back", "through"] {
        let (at, flash, _) = made(&format!("served-{mode}"), &["--mode", mode]);
        let socket = socket(&format!("served-{mode}.sock"));
        let resize = |size: &str, code| {
            let words = [at.as_path(), Path::new("--flash-size"), Path::new(size)];
            let (said, wrong) = cache("resize", &words, code);
            said + &wrong
        };
        let bytes = || std::fs::metadata(&flash).expect("the flash device").len();
        let frames = || {
            let (stats, _) = cache("stats", &[&at, Path::new("--json")], 0);
            let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
            stats["cache"]["frames"].as_u64().expect("a count")
        };
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        let mut before = frames();
        for (round, size) in [(1, "16MiB"), (2, "4MiB"), (3, "12MiB")] {
            nbd.write(u64::from(round), &whole(round)).expect("written");
            let said = std::thread::scope(|scope| {
                let resized = scope.spawn(|| resize(size, 0));
                for n in 0..200 {
                    nbd.write(100 + n % 50, &whole(n as u8)).expect("written");
                }
                nbd.flush().expect("flushed");
                resized.join().expect("it ends")
            });
            assert!(
                said.contains("of its flash device") && said.contains("frames, with"),
                "{said}"
            );
            assert_eq!(bytes(), bytes_of(size));
            let now = frames();
            assert_eq!(now > before, round != 2, "{before} frames, then {now}");
            before = now;
            for n in 1..=round {
                assert_eq!(nbd.read(u64::from(n)).expect("read"), whole(n));
            }
        }
        for (size, why) in [("64KiB", "smallest cache"), ("5000", "multiple of")] {
            let said = resize(size, 2);
            assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        }
        // The file is taken for the same one after a cut, with its new length.
        cache("cut", &[&at], 0);
        let said = resize("16MiB", 1);
        assert!(said.contains("no power") && said.lines().count() == 1, "{said}");
        assert_eq!(bytes(), 12 << 20);
        cache("restore", &[&at], 0);
        assert_eq!(frames(), before);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        for n in 1..=3 {
            assert_eq!(nbd.read(u64::from(n)).expect("read"), whole(n));
        }
        assert_eq!(serving.stop().0, Some(0));
        assert!(cache("check", &[&at], 0).0.contains("ended in good order: all is well"));
    }
}

/// Overwrites the only copy of this page on a device, as if its flash had lost it.
fn damage(device: &Path, page: &[u8; 4096]) {
    use std::os::unix::fs::FileExt;
    let bytes = std::fs::read(device).expect("the device");
    let at: Vec<usize> =
        (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..][..4096] == *page).collect();
    assert_eq!(at.len(), 1, "copies of the page");
    let file = std::fs::File::options().write(true).open(device).expect("the device");
    file.write_all_at(&[0xee; 4096], at[0] as u64).expect("written");
}

/// The process that serves a cache scrubs it, while its clients go on.
#[test]
fn a_served_cache_is_scrubbed_while_it_is_used() {
    for (mode, lost) in [("back", true), ("through", false)] {
        let (at, flash, _) = made(&format!("scrubbed-{mode}"), &["--mode", mode]);
        let socket = socket(&format!("scrubbed-{mode}.sock"));
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        for n in 1..=3 {
            nbd.write(u64::from(n), &whole(n)).expect("written");
        }
        nbd.flush().expect("flushed");
        let said = cache("scrub", &[&at], 0).0;
        assert!(said.contains("3 pages compared, 0 given up") && said.contains("0 lost"), "{said}");
        if lost {
            // What it has in memory is gone with the power. (With write-through a start would not know
            // that the slow device has the pages.)
            cache("cut", &[&at], 0);
            let said = cache("scrub", &[&at], 1).1;
            assert!(said.contains("no power") && said.lines().count() == 1, "{said}");
            cache("restore", &[&at], 0);
        }
        damage(&flash, &whole(2));
        let (said, wrong) = cache("scrub", &[&at], i32::from(lost));
        let found = if lost { "0 given up that the slow device has, 1 lost" } else { "1 given up" };
        assert!(said.contains("3 pages compared") && said.contains(found), "{said}");
        assert_eq!(wrong.contains("page 2 is lost: write it again"), lost, "{wrong}");
        let json = cache("scrub", &[&at, Path::new("--json")], i32::from(lost)).0;
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["lost_pages"], u64::from(lost));
        let status = || cache("status", &[&at], 0).0;
        let told = "1 page that only the cache had, the first at byte 8192";
        assert_eq!(status().contains(told), lost, "{}", status());
        let mut nbd = Nbd::connect(&socket).expect("a server");
        match lost {
            true => drop(nbd.read(2).expect_err("it is lost")),
            false => assert_eq!(nbd.read(2).expect("the slow device has it"), whole(2)),
        }
        for n in [1, 3] {
            assert_eq!(nbd.read(u64::from(n)).expect("read"), whole(n));
        }
        nbd.write(2, &whole(4)).expect("written");
        nbd.flush().expect("flushed");
        assert!(cache("scrub", &[&at], 0).0.contains("0 lost"));
        assert!(!status().contains("only the cache had"), "{}", status());
        assert_eq!(nbd.read(2).expect("read"), whole(4));
        assert_eq!(serving.stop().0, Some(0));
    }
}

/// A cache that cannot be given up, since a page is lost, stays as it was: its next start is warm.
#[test]
fn a_cache_that_is_not_given_up_stays_closed_in_good_order() {
    let (at, flash, _) = made("not-given-up", &[]);
    let socket = socket("not-given-up.sock");
    let serving = serve(&at, &socket);
    let mut nbd = Nbd::connect(&socket).expect("a server");
    for n in 1..=3 {
        nbd.write(u64::from(n), &whole(n)).expect("written");
    }
    nbd.flush().expect("flushed");
    assert_eq!(serving.stop().0, Some(0));
    damage(&flash, &whole(2));
    let said = cache("detach", &[&at], 1).1;
    assert!(said.contains("page 2") && said.lines().count() == 1, "{said}");
    let said = cache("inspect", &[&at], 0).0;
    assert!(said.contains("ended in good order"), "{said}");
}

/// A block full of this number.
fn numbered(number: u64) -> [u8; 4096] {
    let bytes = number.to_le_bytes().repeat(512);
    bytes.try_into().expect("a block")
}

/// Writes numbers to fifty blocks in turns until the server ends the connection; calls `once` when all
/// of them have one. Returns the last number that each has, and the one that was not acknowledged.
fn write_until_the_end(nbd: &mut Nbd, once: impl FnOnce()) -> ([u64; 50], u64) {
    let (mut last, mut once) = ([0; 50], Some(once));
    for number in 1.. {
        let place = number % 50;
        if nbd.write(100 + place, &numbered(number)).is_err() {
            return (last, number);
        }
        last[place as usize] = number;
        if number == 50 {
            once.take().into_iter().for_each(|once| once());
        }
    }
    unreachable!("the loop has no end of its own")
}

/// The process that serves a cache gives it up while a client writes: the slow device alone has all
/// that was acknowledged, and is free when the command ends.
#[test]
fn a_served_cache_is_given_up_while_it_is_written() {
    for (mode, json) in [("back", false), ("through", true)] {
        let (at, _, slow) = made(&format!("given-up-{mode}"), &["--mode", mode]);
        let socket = socket(&format!("given-up-{mode}.sock"));
        let serving = serve(&at, &socket);
        let mut nbd = Nbd::connect(&socket).expect("a server");
        for n in 1..=90 {
            nbd.write(n.into(), &whole(n)).expect("written");
        }
        let words = [at.as_path(), Path::new("--json")];
        let words = if json { &words[..] } else { &words[..1] };
        let ((said, _), (last, refused)) = std::thread::scope(|scope| {
            let mut detached = None;
            let detach = || detached = Some(scope.spawn(move || cache("detach", words, 0)));
            let written = write_until_the_end(&mut nbd, detach);
            (detached.expect("it has begun").join().expect("it ends"), written)
        });
        let told = format!("\"{}\" has everything, from its byte 1048576 on", slow.display());
        match json {
            true => {
                let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
                assert_eq!(said["first_byte"], 1 << 20);
                assert_eq!(said["slow"], slow.to_str().expect("text"));
            }
            false => assert_eq!(said, format!("{}: {told}\n", at.display())),
        }
        // Nobody uses the devices any more.
        let check = cache("check", &[&at], 2).1;
        assert!(check.contains("used without the cache"), "{check}");
        let (code, note) = serving.end();
        assert_eq!(code, Some(0), "{note}");
        assert!(note.contains(&told) && note.lines().count() == 1, "{note}");
        let slow = std::fs::read(&slow).expect("the slow device");
        let block = |n: u64| &slow[(1 << 20) + n as usize * 4096..][..4096];
        for n in 1..=90 {
            assert!(block(n.into()) == whole(n), "{mode}: block {n}");
        }
        for (place, number) in (0..).zip(last) {
            let found = block(100 + place);
            let is_one = [number, refused].iter().any(|one| found == numbered(*one));
            assert!(is_one, "{mode}: {:?} instead of {number} or {refused}", &found[..8]);
        }
    }
}

/// A box without a cache says so.
#[test]
fn a_drive_has_no_cache_to_scrub_or_give_up() {
    let [socket, control] = ["no-cache.sock", "no-cache.control"].map(socket);
    let mut command = tantalum(&["drive", "serve", "--design", "volatile", "--unix"]);
    command.arg(&socket).arg("--control").arg(&control);
    let serving = Serving::start(command);
    for verb in ["scrub", "detach"] {
        let said = cache(verb, &[&control], 2).1;
        assert!(said.contains("it has no cache") && said.lines().count() == 1, "{said}");
    }
    assert_eq!(serving.stop().0, Some(0));
}

/// A process that goes away before it is asked to detach the cache has done nothing; one that goes
/// away amid that may have.
#[test]
fn a_detach_whose_process_goes_away_is_a_failure() {
    let (at, ..) = made("cache-gone", &[]);
    let serving = serve(&at, &socket("cache-gone.sock"));
    let beside = at.with_extension("toml.control");
    for (command, code) in [("status", 2), ("detach", 1)] {
        // Passes lines on to the process, up to this command.
        let socket = socket(&format!("gone-{command}.control"));
        let listener = UnixListener::bind(&*socket).expect("a socket");
        let (beside, command) = (beside.clone(), format!("\"{command}\""));
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut server = UnixStream::connect(&beside).expect("the server");
                let mut lines = BufReader::new(client.try_clone().expect("a socket"));
                let mut answers = BufReader::new(server.try_clone().expect("a socket"));
                loop {
                    let (mut line, mut answer) = (String::new(), String::new());
                    lines.read_line(&mut line).expect("a line");
                    if line.is_empty() || line.contains(&command) {
                        break;
                    }
                    server.write_all(line.as_bytes()).expect("it is asked");
                    answers.read_line(&mut answer).expect("it answers");
                    (&client).write_all(answer.as_bytes()).expect("it is passed on");
                }
            }
        });
        let said = cache("detach", &[&socket], code).1;
        assert!(said.contains("has ended, or has closed this connection"), "{said}");
        assert_eq!(said.contains("repeat the command"), code == 1, "{said}");
    }
    assert_eq!(serving.stop().0, Some(0));
}
