//! The memory that a server holds for its clients: it stays within the budget, other clients are
//! answered meanwhile, and all of it comes back.

use crate::common::{Client, serve};
use proptest::prelude::*;
use std::future::Future;
use tantalum_device::{PowerCycle, RamDevice};
use tantalum_export::nbd::wire::{cmd, cmd_flag};
use tantalum_export::nbd::{Limits, Options, Request, Server};
use tantalum_rt::{Nanos, Rt, Runtime};

/// Blocks of 4 KiB of each export.
const BLOCKS: u64 = 16 << 10;
const LONGEST: u32 = 32 << 20;

fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
    let mut runtime = Runtime::virtual_time(7);
    let task = test(runtime.handle());
    runtime.block_on(task).expect("the run ends");
}

fn within(server: &Server<RamDevice>) {
    let memory = server.memory();
    assert!(memory.most <= memory.limit, "{memory:?}");
}

async fn all_back(rt: &Rt, server: &Server<RamDevice>) {
    rt.sleep(Nanos::from_secs(1)).await;
    assert_eq!(server.clients(), 0);
    assert_eq!((server.memory().used, server.memory().waiting), (0, 0));
    within(server);
}

/// A client beside 63 others that hold what they can: small and long requests, with and without
/// structured replies.
async fn good_client(rt: &Rt, server: &Server<RamDevice>) {
    for structured in [false, true] {
        let mut c = Client::open(rt, server, "one", structured).await;
        assert_eq!(c.write(4096, &[7; 8192]).await, Ok(vec![]));
        assert_eq!(c.read(4096, 8192).await, Ok(vec![7; 8192]));
        let long: Vec<u8> = (0..3 << 20).map(|i: u32| (i / 4096 + i % 251) as u8).collect();
        assert_eq!(c.write(8192 + 512, &long).await, Ok(vec![]));
        assert_eq!(c.read(8192 + 512, 3 << 20).await, Ok(long.clone()));
        if structured {
            let whole = c.call(cmd::READ, cmd_flag::DF, 8192 + 512, 3 << 20, &[]).await;
            assert_eq!(whole, Ok(long));
        }
        assert_eq!(c.call(cmd::FLUSH, 0, 0, 0, &[]).await, Ok(vec![]));
        c.hang_up();
        // Its place is free again.
        rt.sleep(Nanos::from_millis(1)).await;
    }
}

#[test]
fn who_announces_much_and_sends_little_holds_no_more_than_its_share() {
    run(|rt| async move {
        let (server, _) = serve(&rt, BLOCKS, Options::default());
        let mut hostile = Vec::new();
        for _ in 0..63 {
            let mut c = Client::open(&rt, &server, "two", false).await;
            c.ask(cmd::WRITE, 0, 0, LONGEST, &[3; 2 << 20]).await;
            hostile.push(c);
        }
        rt.sleep(Nanos::from_millis(10)).await;
        let held = server.memory().used;
        assert!(held <= 64 << 20, "{} MiB for half a write each", held >> 20);
        good_client(&rt, &server).await;
        within(&server);
        drop(hostile);
        all_back(&rt, &server).await;
    });
}

#[test]
fn who_asks_and_takes_no_answers_does_not_keep_others_waiting() {
    for length in [4096, 128 << 10, 1 << 20, LONGEST] {
        run(move |rt| async move {
            let (server, _) = serve(&rt, BLOCKS, Options::default());
            let mut hostile = Vec::new();
            for i in 0..63 {
                let mut c = Client::open(&rt, &server, "two", i % 2 == 0).await;
                for _ in 0..200 {
                    c.ask(cmd::READ, 0, 0, length, &[]).await;
                }
                hostile.push(c);
            }
            rt.sleep(Nanos::from_millis(10)).await;
            good_client(&rt, &server).await;
            within(&server);
            drop(hostile);
            all_back(&rt, &server).await;
        });
    }
}

/// Writes of parts of blocks, zeros and questions about allocation. None of the answers is taken.
#[test]
fn whatever_is_asked_the_budget_holds() {
    run(|rt| async move {
        let (server, _) = serve(&rt, BLOCKS, Options::default());
        let mut hostile = Vec::new();
        for i in 0..63u64 {
            let c = Client::open(&rt, &server, "two", true).await;
            let mut bytes = Vec::new();
            for n in 0..40u64 {
                let ask = |kind, offset, length| {
                    Request { flags: 0, kind, cookie: n, offset, length }.encode()
                };
                bytes.extend_from_slice(&ask(cmd::WRITE, 512 * (i + n), 9_000));
                bytes.resize(bytes.len() + 9_000, 1);
                bytes.extend_from_slice(&ask(cmd::WRITE_ZEROES, 512 * n + 100, 200_000));
                bytes.extend_from_slice(&ask(cmd::READ, 77, 100_000));
                bytes.extend_from_slice(&ask(99, 0, 0));
            }
            rt.spawn_background("who asks", async move {
                c.say(&bytes).await;
                std::future::pending::<()>().await;
            });
            hostile.push(());
        }
        rt.sleep(Nanos::from_millis(100)).await;
        good_client(&rt, &server).await;
        within(&server);
        server.drop_clients();
        all_back(&rt, &server).await;
    });
}

/// A long write fails as a whole if a piece of it fails. One that does not arrive completely leaves
/// whole pieces.
#[test]
fn a_long_write_is_carried_out_in_pieces_and_answered_once() {
    run(|rt| async move {
        let (server, [drive, _]) = serve(&rt, BLOCKS, Options::default());
        let mut c = Client::open(&rt, &server, "one", true).await;
        c.ask(cmd::WRITE, 0, 512, 2 << 20, &vec![5; (1 << 20) + 100]).await;
        c.hang_up();
        rt.sleep(Nanos::from_millis(1)).await;
        let mut c = Client::open(&rt, &server, "one", true).await;
        let all = c.read(512, 2 << 20).await.expect("data");
        let written = all.iter().take_while(|b| **b == 5).count();
        assert!(all[written..].iter().all(|b| *b == 0));
        // The last piece ends where a block ends.
        assert!(written > 512 << 10 && written <= 1 << 20 && (written + 512).is_multiple_of(4096));
        let cookie = c.ask(cmd::WRITE, 0, 0, 4 << 20, &vec![6; 2 << 20]).await;
        drive.cut();
        c.say(&vec![6; 2 << 20]).await;
        let reply = c.reply().await.expect("an answer");
        assert_eq!((reply.cookie, reply.error), (cookie, 5));
        drive.off().await;
        drive.power_on().await.expect("power");
        c.hang_up();
        all_back(&rt, &server).await;
    });
}

/// After parts of a read have been sent, only the end of the connection can report a failure.
/// Chunks can carry an error.
#[test]
fn a_read_that_fails_half_way_is_told_as_well_as_can_be() {
    for structured in [false, true] {
        run(move |rt| async move {
            let limits = Limits { memory: 8 << 20, clients: 4, ..Limits::default() };
            let (server, [drive, _]) = serve(&rt, BLOCKS, Options { limits, ..Options::default() });
            let mut c = Client::open(&rt, &server, "one", structured).await;
            c.ask(cmd::READ, 0, 0, LONGEST, &[]).await;
            rt.sleep(Nanos::from_millis(5)).await;
            drive.cut();
            match structured {
                true => {
                    assert_eq!(c.reply().await.map(|reply| reply.error), Some(5));
                    assert_eq!(c.read(0, 4096).await, Err(5));
                }
                false => assert!(c.reply().await.is_none()),
            }
            c.hang_up();
            all_back(&rt, &server).await;
        });
    }
}

#[test]
fn a_budget_that_is_too_small_is_refused() {
    let runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let volume = tantalum_export::nbd::Volume::new(&rt, crate::common::ram(&rt, 4));
    let serve = |memory, clients| {
        let limits = Limits { memory, clients, ..Limits::default() };
        let exports = vec![tantalum_export::nbd::Export::new("x", &volume)];
        Server::new(&rt, exports, Options { limits, ..Options::default() }, |_| {})
            .err()
            .map(|e| e.to_string())
    };
    assert_eq!(serve(256 << 20, 64), None);
    assert_eq!(serve(80 << 20, 64), None);
    let why = serve(16 << 20, 64).expect("64 clients do not fit");
    assert!(why.contains("64 clients need") && why.contains("16384 KiB are allowed"), "{why}");
    assert_eq!(serve(16 << 20, 8), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// With the smallest budget: a read returns what was written, at any place and of any length.
    #[test]
    fn long_requests_are_what_they_were(
        writes in prop::collection::vec((0..2_000_000u64, 1..1_500_000u32, any::<u8>()), 1..6),
        reads in prop::collection::vec((0..3_000_000u64, 1..1_500_000u32, any::<bool>()), 1..6),
        structured in any::<bool>(),
    ) {
        run(move |rt| async move {
            let limits = Limits { memory: 3 << 20, clients: 2, ..Limits::default() };
            let (server, _) = serve(&rt, BLOCKS, Options { limits, ..Options::default() });
            let mut c = Client::open(&rt, &server, "one", structured).await;
            let mut is = vec![0; 5_000_000];
            for (at, length, seed) in writes {
                let data: Vec<u8> = (0..length).map(|i| (i / 512) as u8 ^ seed).collect();
                is[at as usize..][..data.len()].copy_from_slice(&data);
                assert_eq!(c.write(at, &data).await, Ok(vec![]));
            }
            for (at, length, whole) in reads {
                let flags = if whole && structured { cmd_flag::DF } else { 0 };
                let read = c.call(cmd::READ, flags, at, length, &[]).await;
                assert!(read == Ok(is[at as usize..][..length as usize].to_vec()));
            }
            c.hang_up();
            all_back(&rt, &server).await;
        });
    }
}
