//! What clients can rely on, one thing at a time.

use crate::common::{Client, serve, serve_with};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use tantalum_device::PowerCycle;
use tantalum_export::nbd::wire::{cmd, cmd_flag, opt, rep, transmission_flag as flag};
use tantalum_export::nbd::{Errno, Event, Export, Limits, OnCut, Options, Server, Volume};
use tantalum_rt::{Nanos, Rt, Runtime};

fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
    let mut runtime = Runtime::virtual_time(7);
    let task = test(runtime.handle());
    runtime.block_on(task).expect("the run ends");
}

#[test]
fn an_export_says_what_it_is() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 256, Options::default());
        let mut c = Client::connect(&rt, &server);
        c.greet(3).await.expect("a greeting");
        let writes = flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO;
        let always = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::CAN_MULTI_CONN;
        let one = c.learn(opt::INFO, "one").await.expect("one");
        assert_eq!((one.size, one.flags), (256 * 4096, always | writes));
        assert_eq!(one.blocks, Some([512, 4096, 32 << 20]));
        assert_eq!(one.name.as_deref(), Some("one"));
        assert_eq!(one.description.as_deref(), Some("the first"));
        let look = c.learn(opt::INFO, "look").await.expect("look");
        assert_eq!(look.flags, always | flag::READ_ONLY);
        c.structured().await;
        // An empty name stands for the first export.
        let first = c.go("").await.expect("the default");
        assert_eq!((first.flags, first.name), (always | writes | flag::SEND_DF, one.name));
        assert_eq!(c.read(0, 4096).await, Ok(vec![0; 4096]));
    });
}

#[test]
fn options_are_answered_or_refused() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 256, Options::default());
        let mut c = Client::connect(&rt, &server);
        c.greet(3).await.expect("a greeting");
        let list = c.option(opt::LIST, &[]).await.expect("a list");
        let names: Vec<_> = list.iter().map(|(k, d)| (*k, d.get(4..).unwrap_or(&[]))).collect();
        let server_names =
            [(rep::SERVER, &b"one"[..]), (rep::SERVER, b"two"), (rep::SERVER, b"look")];
        assert_eq!(names[..3], server_names);
        assert_eq!(names[3], (rep::ACK, &[][..]));
        for (option, data, answer) in [
            (opt::LIST, &b"x"[..], rep::ERR_INVALID),
            (opt::STRUCTURED_REPLY, b"x", rep::ERR_INVALID),
            (opt::STARTTLS, b"", rep::ERR_UNSUP),
            (opt::EXTENDED_HEADERS, b"", rep::ERR_UNSUP),
            (4711, &[9; 300], rep::ERR_UNSUP),
            (4711, &[9; 100_000], rep::ERR_TOO_BIG),
            (opt::GO, &Client::ask_for("three", &[]), rep::ERR_UNKNOWN),
            (opt::INFO, &Client::ask_for("three", &[]), rep::ERR_UNKNOWN),
            (opt::GO, &[0, 0, 0, 9, 1], rep::ERR_INVALID),
            (opt::GO, &[0xff; 8], rep::ERR_INVALID),
            (opt::GO, &[0, 0, 0, 0, 0, 1], rep::ERR_INVALID),
            (opt::GO, &[0, 0, 0, 0, 0, 0, 1], rep::ERR_INVALID),
            (opt::GO, b"\0\0\0\x01\xff\0\0", rep::ERR_INVALID),
            // Without structured replies.
            (opt::SET_META_CONTEXT, &[0; 8], rep::ERR_INVALID),
        ] {
            let replies = c.option(option, data).await.expect("an answer");
            assert_eq!(replies.last().map(|r| r.0), Some(answer), "option {option}");
        }
        // After all that the session still works.
        c.go("two").await.expect("an export");
    });
}

#[test]
fn old_clients_choose_by_name_alone() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 256, Options::default());
        for (flags, zeros) in [(0, 124), (1, 124), (3, 0)] {
            let mut c = Client::connect(&rt, &server);
            c.greet(flags).await.expect("a greeting");
            c.say_option(opt::EXPORT_NAME, b"two").await;
            let told = c.exact(10 + zeros).await.expect("size and flags");
            assert_eq!(told[..8], (256u64 * 4096).to_be_bytes());
            assert!(told[10..].iter().all(|b| *b == 0));
            assert_eq!(c.write(8192, &[5; 4096]).await, Ok(vec![]));
            assert_eq!(c.read(8192, 4096).await, Ok(vec![5; 4096]));
        }
    });
}

#[test]
fn who_breaks_the_rules_is_left_with_a_reason() {
    let ends = Rc::new(RefCell::new(Vec::new()));
    let noted = ends.clone();
    run(|rt| async move {
        let (server, _) = serve_with(&rt, 256, Options::default(), move |event| {
            if let Event::Ended(_, end) = event {
                noted.borrow_mut().push(end.to_string());
            }
        });
        // Unknown flags.
        let mut c = Client::connect(&rt, &server);
        c.greet(4).await.expect("a greeting");
        assert!(c.is_left().await);
        // An export that does not exist, by an option that takes no error.
        let mut c = Client::connect(&rt, &server);
        c.greet(3).await.expect("a greeting");
        c.say_option(opt::EXPORT_NAME, b"three").await;
        assert!(c.is_left().await);
        // Another protocol.
        let mut c = Client::connect(&rt, &server);
        c.greet(3).await.expect("a greeting");
        c.say(b"GET / HTTP/1.1\r\n\r\n").await;
        assert!(c.is_left().await);
        // Too many options.
        let mut c = Client::connect(&rt, &server);
        c.greet(3).await.expect("a greeting");
        for _ in 0..64 {
            c.option(opt::LIST, &[]).await.expect("a list");
        }
        c.say_option(opt::LIST, &[]).await;
        assert!(c.is_left().await);
        // Nothing at all.
        let mut c = Client::connect(&rt, &server);
        c.greet(3).await.expect("a greeting");
        assert!(c.is_left().await);
        // An invalid request.
        let mut c = Client::open(&rt, &server, "one", false).await;
        c.say(&[7; 28]).await;
        assert!(c.is_left().await);
        rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!(server.clients(), 0);
    });
    let ends = ends.borrow();
    let words =
        ["flags", "does not exist", "does not speak", "more than 64", "in time", "not a request"];
    assert_eq!(ends.len(), words.len());
    assert!(ends.iter().zip(&words).all(|(end, word)| end.contains(word)), "{ends:?}");
}

#[test]
fn an_abort_is_acknowledged() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 256, Options::default());
        let mut c = Client::connect(&rt, &server);
        c.greet(3).await.expect("a greeting");
        assert_eq!(c.option(opt::ABORT, &[]).await, Some(vec![(rep::ACK, vec![])]));
        assert!(c.is_left().await);
    });
}

#[test]
fn errors_are_those_of_the_protocol() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 256, Options::default());
        for structured in [false, true] {
            let end = 256 * 4096;
            let mut c = Client::open(&rt, &server, "one", structured).await;
            let code = |e: Errno| Err(e.code());
            assert_eq!(c.read(end, 512).await, code(Errno::Invalid));
            assert_eq!(c.write(end, &[1; 512]).await, code(Errno::NoSpace));
            assert_eq!(c.call(cmd::TRIM, 0, end, 512, &[]).await, code(Errno::Invalid));
            assert_eq!(c.call(cmd::WRITE_ZEROES, 0, end, 9, &[]).await, code(Errno::NoSpace));
            assert_eq!(c.call(5, 0, 0, 4096, &[]).await, code(Errno::Invalid));
            assert_eq!(c.call(99, 0, 0, 4096, &[]).await, code(Errno::Invalid));
            assert_eq!(c.call(cmd::BLOCK_STATUS, 0, 0, 512, &[]).await, code(Errno::Invalid));
            // Too long: the payload is skipped, and the next request is understood.
            let long = vec![3; (32 << 20) + 1];
            assert_eq!(c.write(0, &long).await, code(Errno::Invalid));
            assert_eq!(c.read(0, (32 << 20) + 1).await, code(Errno::Invalid));
            let df = c.call(cmd::READ, cmd_flag::DF, 0, (32 << 20) + 1, &[]).await;
            assert_eq!(df, code(if structured { Errno::Overflow } else { Errno::Invalid }));
            assert_eq!(c.read(0, 4096).await, Ok(vec![0; 4096]));
            let mut look = Client::open(&rt, &server, "look", structured).await;
            for kind in [cmd::TRIM, cmd::WRITE_ZEROES] {
                assert_eq!(look.call(kind, 0, 0, 4096, &[]).await, code(Errno::Permission));
            }
            assert_eq!(look.write(0, &[1; 4096]).await, code(Errno::Permission));
            assert_eq!(look.call(cmd::FLUSH, 0, 0, 0, &[]).await, Ok(vec![]));
            assert_eq!(look.read(0, 4096).await, Ok(vec![0; 4096]));
            assert_eq!(look.read(100, 0).await, Ok(vec![]));
        }
    });
}

#[test]
fn a_disconnect_waits_for_what_is_under_way() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 256, Options::default());
        let mut c = Client::open(&rt, &server, "one", true).await;
        for i in 0..100u64 {
            c.ask(cmd::WRITE, 0, i * 4096, 4096, &[i as u8; 4096]).await;
        }
        c.ask(cmd::DISC, 0, 0, 0, &[]).await;
        let mut answered = 0;
        while let Some(reply) = c.reply().await {
            assert_eq!(reply.error, 0);
            answered += 1;
        }
        assert_eq!(answered, 100);
        let mut c = Client::open(&rt, &server, "look", true).await;
        assert_eq!(c.read(99 * 4096, 4096).await, Ok(vec![99; 4096]));
    });
}

#[test]
fn what_came_whole_is_carried_out_and_nothing_else() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 256, Options::default());
        let mut c = Client::open(&rt, &server, "one", true).await;
        c.ask(cmd::WRITE, 0, 0, 4096, &[1; 4096]).await;
        // The other half never arrives.
        c.ask(cmd::WRITE, 0, 4096, 8192, &[2; 4096]).await;
        c.hang_up();
        rt.sleep(Nanos::from_millis(1)).await;
        assert_eq!(server.clients(), 0);
        let mut c = Client::open(&rt, &server, "one", true).await;
        assert_eq!(c.read(0, 4096).await, Ok(vec![1; 4096]));
        assert_eq!(c.read(4096, 8192).await, Ok(vec![0; 8192]));
    });
}

#[test]
fn one_client_too_many_is_sent_away() {
    run(|rt| async move {
        let limits = Limits { clients: 2, ..Limits::default() };
        let (server, _) = serve(&rt, 16, Options { limits, ..Options::default() });
        let first = Client::open(&rt, &server, "one", true).await;
        let mut second = Client::open(&rt, &server, "two", true).await;
        assert!(Client::connect(&rt, &server).is_left().await);
        assert_eq!(second.read(0, 4096).await, Ok(vec![0; 4096]));
        first.hang_up();
        rt.sleep(Nanos::from_millis(1)).await;
        let mut third = Client::open(&rt, &server, "two", true).await;
        assert_eq!(third.read(0, 4096).await, Ok(vec![0; 4096]));
    });
}

#[test]
fn a_server_that_stops_answers_what_is_under_way() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 256, Options::default());
        let mut busy = Client::open(&rt, &server, "one", true).await;
        let mut idle = Client::open(&rt, &server, "two", true).await;
        let mut new = Client::connect(&rt, &server);
        for i in 0..32u64 {
            busy.ask(cmd::WRITE, 0, i * 4096, 4096, &[7; 4096]).await;
        }
        rt.sleep(Nanos(2_000)).await;
        let stopping = server.clone();
        let stopped = rt.spawn("stop", async move { stopping.stop(Nanos::from_secs(1)).await });
        let mut answered = 0;
        while let Some(reply) = busy.reply().await {
            assert!([0, Errno::Shutdown.code()].contains(&reply.error), "{reply:?}");
            answered += 1;
        }
        assert_eq!(answered, 32);
        assert!(idle.is_left().await);
        assert!(new.exact(18).await.is_some() && new.is_left().await);
        assert_eq!(stopped.await, Ok(true));
        assert!(Client::connect(&rt, &server).is_left().await);
    });
}

#[test]
fn who_takes_no_answers_does_not_keep_a_server_from_stopping() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 4096, Options::default());
        let mut c = Client::open(&rt, &server, "one", true).await;
        for _ in 0..40 {
            c.ask(cmd::READ, 0, 0, 1 << 20, &[]).await;
        }
        rt.sleep(Nanos::from_secs(1)).await;
        assert!(!server.stop(Nanos::from_secs(1)).await);
        assert_eq!(server.clients(), 0);
    });
}

#[test]
fn a_cut_gives_errors_or_drops_connections() {
    for on_cut in [OnCut::Errors, OnCut::Drop] {
        run(|rt| async move {
            let options = Options { on_cut, ..Options::default() };
            let (server, [drive, _]) = serve(&rt, 256, options);
            let mut c = Client::open(&rt, &server, "one", true).await;
            assert_eq!(c.write(0, &[9; 4096]).await, Ok(vec![]));
            for i in 1..20u64 {
                c.ask(cmd::WRITE, 0, i * 4096, 4096, &[9; 4096]).await;
            }
            rt.sleep(Nanos(100)).await;
            drive.cut();
            let mut replies = 0;
            match on_cut {
                OnCut::Errors => {
                    for _ in 1..20 {
                        let reply = c.reply().await.expect("a reply");
                        assert_eq!(reply.error, Errno::Io.code());
                        replies += 1;
                    }
                    assert_eq!(c.read(0, 4096).await, Err(Errno::Io.code()));
                    // Without power the export cannot be chosen.
                    let mut late = Client::connect(&rt, &server);
                    late.greet(3).await.expect("a greeting");
                    assert_eq!(late.go("one").await, Err(rep::ERR_SHUTDOWN));
                    late.go("two").await.expect("the other has power");
                }
                OnCut::Drop => assert!(c.is_left().await),
            }
            assert_eq!(replies, if on_cut == OnCut::Errors { 19 } else { 0 });
            drive.off().await;
            drive.power_on().await.expect("power");
            // The old connection stays failed.
            if on_cut == OnCut::Errors {
                assert_eq!(c.read(0, 4096).await, Err(Errno::Io.code()));
            }
            let mut c = Client::open(&rt, &server, "one", true).await;
            assert_eq!(c.read(0, 4096).await, Ok(vec![9; 4096]));
        });
    }
}

#[test]
fn parts_of_blocks_do_not_overwrite_each_other() {
    run(|rt| async move {
        let (server, _) = serve(&rt, 16, Options::default());
        let mut a = Client::open(&rt, &server, "one", true).await;
        let mut b = Client::open(&rt, &server, "one", true).await;
        // 64 sectors of 512 bytes in 8 blocks, by two clients, all at once.
        for i in 0..64u64 {
            let c = if i % 2 == 0 { &mut a } else { &mut b };
            c.ask(cmd::WRITE, 0, i * 512, 512, &[i as u8 + 1; 512]).await;
        }
        for _ in 0..32 {
            assert_eq!(a.reply().await.map(|r| r.error), Some(0));
            assert_eq!(b.reply().await.map(|r| r.error), Some(0));
        }
        let all = a.read(0, 64 * 512).await.expect("data");
        assert!(all.chunks(512).enumerate().all(|(i, s)| s.iter().all(|b| *b == i as u8 + 1)));
    });
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let device = crate::common::ram(&rt, 4);
    let volume = Volume::new(&rt, device);
    let export = || Export::new("x", &volume);
    let serve = |exports, limits| {
        let options = Options { limits, ..Options::default() };
        Server::new(&rt, exports, options, |_| {}).err()
    };
    let good = Limits::default();
    assert!(serve(vec![export()], good).is_none());
    assert!(serve(vec![export(), export()], good).is_some());
    assert!(serve(vec![], good).is_some());
    assert!(serve(vec![export()], Limits { payload: 1 << 31, ..good }).is_some());
    assert!(serve(vec![export()], Limits { requests: 0, ..good }).is_some());
}
