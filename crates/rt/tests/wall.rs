//! The wall clock and what comes from outside, on both back ends; the numbers are those of
//! the invariants in `wall/mod.rs`. No test depends on how long anything takes.
//! A binary of its own: it counts the descriptors of its process and sends it signals.

mod both;

use both::{Scratch, backends, runtime};
use std::cell::{Cell, RefCell};
use std::io::ErrorKind;
use std::rc::Rc;
use tantalum_rt::wall::{AlignedBuf, FileOptions, Io, Signal, WallOptions};
use tantalum_rt::{First, Nanos, PostError, RunError, Runtime, first};

fn descriptors() -> usize {
    #[allow(clippy::disallowed_methods, reason = "what the test is about")]
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[allow(clippy::disallowed_methods, reason = "what the tests are about")]
fn in_thread<T: Send + 'static>(
    f: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(f)
}

async fn pair(io: &Io) -> (tantalum_rt::wall::Stream, tantalum_rt::wall::Stream) {
    let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    (io.stream(a.into()).unwrap(), io.stream(b.into()).unwrap())
}

#[test]
fn w1_timers_end_in_the_order_of_their_times_and_never_early() {
    for backend in backends() {
        for scale in [1.0, 0.01, 3.0, 0.0] {
            let (mut runtime, rt, _) = runtime(backend, scale);
            let log = Rc::new(RefCell::new(Vec::new()));
            let start = rt.now() + Nanos::from_micros(300);
            for (name, us) in [("c", 900), ("a", 100), ("b1", 500), ("b2", 500), ("d", 901)] {
                let (rt2, log) = (rt.clone(), log.clone());
                rt.spawn(name, async move {
                    let at = start + Nanos::from_micros(us);
                    rt2.sleep_until(at).await;
                    assert!(rt2.now() >= at);
                    log.borrow_mut().push(name);
                });
            }
            runtime.drain().unwrap();
            assert_eq!(*log.borrow(), ["a", "b1", "b2", "c", "d"], "{backend:?} {scale}");
        }
    }
}

#[test]
fn w1_real_time_passes_at_any_scale_and_bounds_the_clock() {
    for backend in backends() {
        for scale in [1.0, 0.5, 2.0] {
            let (mut runtime, rt, io) = runtime(backend, scale);
            let (before, real) = (rt.now(), io.real_now());
            let io2 = io.clone();
            let rt2 = rt.clone();
            let after = runtime
                .block_on(async move {
                    io2.sleep(Nanos::from_millis(2)).await;
                    assert!(io2.real_now() >= real + Nanos::from_millis(2));
                    rt2.sleep(Nanos::from_millis(2)).await;
                    rt2.now()
                })
                .unwrap();
            assert!(after >= before + Nanos::from_millis(2));
            // The clock shows no more than has really passed, scaled.
            assert!(after.0 as f64 * scale <= io.real_now().0 as f64 + 1.0);
        }
    }
}

#[test]
fn w2_busy_tasks_starve_neither_timers_nor_the_world_outside() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let spinner = rt.clone();
        rt.spawn_background("spinner", async move {
            loop {
                spinner.yield_now().await;
            }
        });
        let rt2 = rt.clone();
        let slept = rt.spawn("sleeper", async move { rt2.sleep(Nanos::from_micros(700)).await });
        let main = async move {
            let (a, b) = pair(&io).await;
            for round in 0..20u8 {
                a.send(vec![round; 100]).await.0.unwrap();
                let (result, heard) = b.recv_all(vec![0; 100], 0).await;
                result.unwrap();
                assert_eq!(heard, [round; 100]);
            }
            slept.await.unwrap();
            io.sleep(Nanos::from_micros(300)).await;
        };
        runtime.block_on(main).unwrap();
    }
}

#[test]
fn w2_timers_do_not_starve_the_world_outside() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 0.0);
        let rt2 = rt.clone();
        rt.spawn_background("ticker", async move {
            loop {
                rt2.sleep(Nanos::from_micros(10)).await;
            }
        });
        let rt2 = rt.clone();
        let main = async move {
            // With a command announced the clock does not stop jumping.
            let _command = rt2.outstanding("a read");
            let (a, b) = pair(&io).await;
            for _ in 0..50 {
                a.send(vec![7; 10]).await.0.unwrap();
                b.recv_all(vec![0; 10], 0).await.0.unwrap();
            }
        };
        runtime.block_on(main).unwrap();
    }
}

#[test]
fn scale_zero_jumps_for_commands_and_when_nothing_is_expected_and_else_does_not() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 0.0);
        let day = Nanos::from_secs(86_400);
        let rt2 = rt.clone();
        runtime.block_on(async move { rt2.sleep(day).await }).unwrap();
        assert!(rt.now() >= day && io.real_now() < day);
        // A client may come: a periodic task does not make days pass.
        let (rt2, io2) = (rt.clone(), io.clone());
        let passed = runtime
            .block_on(async move {
                let before = rt2.now();
                let listener = io2.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
                let ended = first(listener.accept(), io2.sleep(Nanos::from_millis(3))).await;
                assert!(matches!(ended, First::B(())));
                let real = io2.real_now();
                let tick = first(listener.accept(), rt2.sleep(Nanos::from_millis(3))).await;
                assert!(matches!(tick, First::B(())));
                assert!(io2.real_now() >= real + Nanos::from_millis(2));
                // But a command that is waited for does.
                let command = rt2.outstanding("a write");
                let tick = first(listener.accept(), rt2.sleep(day)).await;
                assert!(matches!(tick, First::B(())));
                drop(command);
                rt2.now() - before
            })
            .unwrap();
        assert!(passed >= day && passed < day * 2);
    }
}

#[test]
fn w4_a_run_that_nothing_can_bring_on_is_stalled_and_one_that_a_thread_can_is_not() {
    for backend in backends() {
        for scale in [1.0, 0.0] {
            let (mut runtime, rt, _) = runtime(backend, scale);
            let err = runtime.block_on(std::future::pending::<()>()).unwrap_err();
            assert!(matches!(err, RunError::Stalled { .. }), "{err}");
            let (post, mut inbox) = rt.inbox_of(1);
            let thread = in_thread(move || {
                std::thread::yield_now();
                for letter in 0..1000u32 {
                    post.post_wait(letter).unwrap();
                }
            });
            let taken = runtime.block_on(async move {
                let mut taken = Vec::new();
                while let Some(letter) = inbox.next().await {
                    taken.push(letter);
                }
                taken
            });
            assert_eq!(taken.unwrap(), (0..1000).collect::<Vec<_>>());
            thread.join().unwrap();
            let err = runtime.block_on(std::future::pending::<()>()).unwrap_err();
            assert!(matches!(err, RunError::Stalled { .. }), "{err}");
        }
    }
}

#[test]
fn w4_a_run_that_loses_all_that_could_bring_it_on_while_it_waits_is_stalled() {
    for backend in backends() {
        for round in 0..20 {
            // The last post goes while the runtime waits, and no task awaits a letter.
            let (mut runtime, rt, io) = runtime(backend, 1.0);
            let (post, inbox) = rt.inbox_of::<u32>(1);
            let thread = in_thread(move || {
                (0..round * 100).for_each(|_| std::thread::yield_now());
                drop(post);
            });
            let err = runtime.block_on(async move {
                std::future::pending::<()>().await;
                drop(inbox);
            });
            assert!(matches!(err, Err(RunError::Stalled { .. })), "{err:?}");
            thread.join().unwrap();

            // An operation that is given up ends later; nobody waits for that.
            let err = runtime.block_on(async move {
                let (a, _b) = pair(&io).await;
                drop(first(a.recv(vec![0; 8], 0), io.sleep(Nanos(1))).await);
                std::future::pending::<()>().await;
            });
            assert!(matches!(err, Err(RunError::Stalled { .. })), "{err:?}");
        }
    }
}

#[test]
fn w2_a_busy_runtime_takes_what_the_kernel_puts_off_until_it_is_asked() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let spinner = rt.clone();
        rt.spawn_background("spinner", async move {
            loop {
                spinner.yield_now().await;
            }
        });
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let ours = Rc::new(io.stream(ours.into()).unwrap());
        let main = async move {
            for round in 0..50u8 {
                // The kernel has it before there is anything to receive.
                let receive = rt.spawn("receiver", {
                    let ours = ours.clone();
                    async move { ours.recv(vec![0; 1], 0).await.1 }
                });
                io.sleep(Nanos::from_micros(50)).await;
                let thread = in_thread({
                    let theirs = theirs.try_clone().unwrap();
                    move || rustix::io::write(&theirs, &[round]).unwrap()
                });
                assert_eq!(receive.await.unwrap(), [round]);
                thread.join().unwrap();
            }
        };
        runtime.block_on(main).unwrap();
    }
}

#[test]
fn posts_of_several_threads_keep_their_order_and_none_is_lost() {
    for backend in backends() {
        for scale in [1.0, 0.0] {
            let (mut runtime, rt, io) = runtime(backend, scale);
            let (post, mut inbox) = rt.inbox_of(3);
            let threads: Vec<_> = (0..4u32)
                .map(|who| {
                    let post = post.clone();
                    in_thread(move || {
                        for n in 0..400u32 {
                            post.post_wait((who, n)).unwrap();
                            // So that the runtime falls asleep now and then.
                            if (n + who) % 37 == 0 {
                                std::thread::yield_now();
                            }
                        }
                    })
                })
                .collect();
            drop(post);
            let counts = runtime.block_on(async move {
                let mut counts = [0; 4];
                while let Some((who, n)) = inbox.next().await {
                    assert_eq!(counts[who as usize], n);
                    counts[who as usize] += 1;
                    if n % 53 == 0 {
                        io.sleep(Nanos::from_micros(20)).await;
                    }
                }
                counts
            });
            assert_eq!(counts.unwrap(), [400; 4]);
            threads.into_iter().for_each(|t| t.join().unwrap());
        }
    }
}

#[test]
fn posts_are_bounded_and_refused_when_the_inbox_is_gone() {
    for backend in backends() {
        let (mut runtime, rt, _) = runtime(backend, 1.0);
        let (post, mut inbox) = rt.inbox_of(2);
        post.post(1).unwrap();
        post.clone().post(2).unwrap();
        assert_eq!(post.post(3), Err(PostError::Full(3)));
        let got = runtime.block_on(async move { (inbox.next().await, inbox) });
        let (got, inbox) = got.unwrap();
        assert_eq!(got, Some(1));
        drop(inbox);
        assert_eq!(post.post(4), Err(PostError::Closed(4)));
        assert_eq!(post.post_wait(4), Err(PostError::Closed(4)));
        // Nobody takes letters any more: they keep no run waiting.
        assert!(runtime.block_on(std::future::pending::<()>()).is_err());
    }
}

#[test]
fn std_wakers_of_other_threads_wake_a_runtime_that_waits() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let (send, receive) = std::sync::mpsc::channel::<std::task::Waker>();
        let done = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = done.clone();
        let thread = in_thread(move || {
            for waker in receive {
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                waker.wake();
            }
        });
        runtime
            .block_on(async move {
                // Something that is awaited from outside, so that the run is not stalled.
                let listener = io.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
                let woken = async {
                    for round in 0..200 {
                        let mut sent = false;
                        std::future::poll_fn(|cx| {
                            if !sent {
                                sent = true;
                                send.send(cx.waker().clone()).unwrap();
                            }
                            rt.park("a thread");
                            match done.load(std::sync::atomic::Ordering::SeqCst) > round {
                                true => std::task::Poll::Ready(()),
                                false => std::task::Poll::Pending,
                            }
                        })
                        .await;
                    }
                };
                assert!(matches!(first(listener.accept(), woken).await, First::B(())));
            })
            .unwrap();
        thread.join().unwrap();
    }
}

#[test]
fn large_messages_go_in_parts_and_arrive_whole() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let data: Vec<u8> =
            (0..8_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let sent = data.clone();
        let heard = runtime
            .block_on(async move {
                let (a, b) = pair(&io).await;
                rt.spawn("sender", async move {
                    a.send(sent).await.0.unwrap();
                    a.shutdown_send();
                });
                let (mut heard, mut buf) = (Vec::new(), vec![0; 70_001]);
                loop {
                    // Into the middle of the buffer, whose beginning stays as it is.
                    let (result, back) = b.recv(buf, 1).await;
                    buf = back;
                    match result.unwrap() {
                        0 => break heard,
                        n => heard.extend_from_slice(&buf[1..][..n]),
                    }
                    assert_eq!(buf[0], 0);
                }
            })
            .unwrap();
        assert!(heard == data);
    }
}

/// Once only the sender went on: a send that ends at once needs no wait in the kernel.
#[test]
#[allow(clippy::disallowed_methods, reason = "a peer that never reads")]
fn who_sends_alone_does_not_keep_back_what_came_for_others() {
    use std::io::Write;
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let came = runtime
            .block_on(async move {
                // The kernel puts small sends together, and has room for far more than these.
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let to = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (_peer, _) = listener.accept().unwrap();
                let to = io.stream(to.into()).unwrap();
                let (waits, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
                let waits = io.stream(waits.into()).unwrap();
                let came = Rc::new(Cell::new(false));
                let seen = came.clone();
                let receiver = rt.spawn("the other", async move {
                    waits.recv(vec![0; 1], 0).await.0.unwrap();
                    seen.set(true);
                });
                for sent in 0..50_000 {
                    if sent == 1000 {
                        other.write_all(&[1]).unwrap();
                    }
                    to.send(vec![7; 1]).await.0.unwrap();
                    if came.get() {
                        break;
                    }
                }
                let came = came.get();
                receiver.await.unwrap();
                came
            })
            .unwrap();
        assert!(came, "{backend:?}: the other one waits as long as there are sends");
    }
}

#[test]
fn a_send_that_is_dropped_half_way_leaves_the_connection_usable() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        runtime
            .block_on(async move {
                let (a, b) = pair(&io).await;
                let (a, b) = (Rc::new(a), Rc::new(b));
                // More than the socket takes: it waits for the peer when it is dropped.
                let sends = a.send(vec![1; 8 << 20]);
                let dropped = first(sends, io.sleep(Nanos::from_micros(500))).await;
                assert!(matches!(dropped, First::B(())));
                let marker = rt.spawn("marker", {
                    let a = a.clone();
                    async move {
                        a.send(vec![2; 3]).await.0.unwrap();
                        a.shutdown_send();
                    }
                });
                let (mut buf, mut heard) = (vec![0; 1 << 16], Vec::new());
                loop {
                    let (result, back) = b.recv(buf, 0).await;
                    buf = back;
                    match result.unwrap() {
                        0 => break,
                        count => heard.extend_from_slice(&buf[..count]),
                    }
                }
                marker.await.unwrap();
                let (ones, twos) = heard.split_at(heard.len() - 3);
                assert!(twos == [2; 3] && ones.iter().all(|&b| b == 1) && ones.len() < 8 << 20);
            })
            .unwrap();
    }
}

#[test]
fn an_operation_dropped_right_after_it_has_ended_gives_back_what_it_brought() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let path = Scratch::new(&format!("brought-{backend:?}"));
        let at = path.0.clone();
        runtime
            .block_on(async move {
                let listener = Rc::new(io.listen_unix(&at).unwrap());
                for round in 0..100 {
                    let domain = rt.domain();
                    let l = listener.clone();
                    domain.spawn("acceptor", async move { l.accept().await.map(drop) });
                    rt.yield_now().await;
                    let client = io.connect_unix(&at).await.unwrap();
                    for _ in 0..round % 4 {
                        rt.yield_now().await;
                    }
                    domain.kill();
                    // Accepted and closed, or still there for the next.
                    let next = listener.accept();
                    let ended = first(client.recv(vec![0; 1], 0), next).await;
                    assert!(matches!(ended, First::A((Ok(0), _)) | First::B(Ok(_))));
                }
            })
            .unwrap();
    }
}

#[test]
fn a_peer_that_closes_is_seen_and_harms_nobody() {
    for backend in backends() {
        let (mut runtime, _, io) = runtime(backend, 1.0);
        runtime
            .block_on(async move {
                let (a, b) = pair(&io).await;
                b.send(vec![1; 3]).await.0.unwrap();
                drop(b);
                let (result, _) = a.recv_all(vec![0; 4], 0).await;
                assert_eq!(result.unwrap_err().kind(), ErrorKind::UnexpectedEof);
                assert_eq!(a.recv(vec![0; 4], 0).await.0.unwrap(), 0);
                assert_eq!(a.send(vec![0; 4]).await.0.unwrap_err().kind(), ErrorKind::BrokenPipe);
                // A buffer without room, or a place beyond it, is no panic.
                assert_eq!(a.recv(vec![0; 4], 4).await.0.unwrap(), 0);
                let err = a.recv(vec![0; 4], 5).await.0.unwrap_err();
                assert_eq!(err.kind(), ErrorKind::InvalidInput);
            })
            .unwrap();
    }
}

#[test]
fn shutdown_ends_what_is_under_way_in_other_tasks() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        runtime
            .block_on(async move {
                let (a, b) = pair(&io).await;
                let (a, b) = (Rc::new(a), Rc::new(b));
                let (reader, writer) = (a.clone(), b.clone());
                let read = rt.spawn("reader", async move { reader.recv(vec![0; 9], 0).await.0 });
                let write = rt.spawn("writer", async move {
                    // More than any socket takes while nobody reads.
                    writer.send(vec![0; 64 << 20]).await.0
                });
                io.sleep(Nanos::from_micros(200)).await;
                a.shutdown();
                b.shutdown();
                let _ = read.await.unwrap();
                assert!(write.await.unwrap().is_err());
            })
            .unwrap();
    }
}

#[test]
fn a_dropped_listener_frees_its_address_and_a_stale_socket_is_replaced() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let path = Scratch::new(&format!("listener-{backend:?}"));
        let at = path.0.clone();
        runtime
            .block_on(async move {
                let listener = io.listen_unix(&at).unwrap();
                let again = io.listen_unix(&at).err().unwrap();
                assert_eq!(again.kind(), ErrorKind::AddrInUse);
                let listener = Rc::new(listener);
                let l = listener.clone();
                let domain = rt.domain();
                let accepting = domain.spawn("acceptor", async move { l.accept().await.map(drop) });
                drop(listener);
                rt.yield_now().await;
                assert!(!accepting.is_finished() && at.exists());
                domain.kill();
                assert!(!at.exists());
                // A socket that a process left behind when it was killed.
                drop(std::os::unix::net::UnixListener::bind(&at).unwrap());
                assert!(at.exists());
                let listener = io.listen_unix(&at).unwrap();
                let client = io.connect_unix(&at).await.unwrap();
                let server = listener.accept().await.unwrap();
                drop(listener);
                assert!(io.connect_unix(&at).await.is_err());
                client.send(vec![1, 2]).await.0.unwrap();
                server.recv_all(vec![0; 2], 0).await.0.unwrap();
            })
            .unwrap();
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a file in the way of a socket")]
fn a_file_that_is_no_socket_is_not_replaced() {
    for backend in backends() {
        let (_runtime, _, io) = runtime(backend, 1.0);
        let path = Scratch::new(&format!("no-socket-{backend:?}"));
        std::fs::write(&path.0, "a file").unwrap();
        let err = io.listen_unix(&path.0).err().unwrap();
        assert_eq!(err.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path.0).unwrap(), b"a file");
        std::fs::remove_file(&path.0).unwrap();
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the mode of a file is looked at")]
fn a_socket_is_its_users_alone_unless_another_mode_is_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    for backend in backends() {
        let (_runtime, _, io) = runtime(backend, 1.0);
        let path = Scratch::new(&format!("private-{backend:?}"));
        let mode = || std::fs::metadata(&path.0).unwrap().permissions().mode() & 0o777;
        drop(std::os::unix::net::UnixListener::bind(&path.0).unwrap());
        let listener = io.listen_unix(&path.0).unwrap();
        assert_eq!(mode(), 0o600);
        drop(listener);
        // The umask takes the last two of the first from any file that is simply made.
        for want in [0o666, 0o660, 0o600, 0o200] {
            let _listener = io.listen_unix_as(&path.0, want).unwrap();
            assert_eq!(mode(), want);
        }
        assert!(!path.0.exists());
    }
}

#[test]
fn a_file_is_no_listener() {
    for backend in backends() {
        let (_runtime, _, io) = runtime(backend, 1.0);
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        let err = io.from_fd(a.into()).err().unwrap();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn thousands_of_connections_leave_nothing_behind() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let rounds = 3000;
        let (early, late) = (Rc::new(Cell::new((0, 0))), Rc::new(Cell::new((0, 0))));
        let (first, last) = (early.clone(), late.clone());
        let rt2 = rt.clone();
        runtime
            .block_on(async move {
                let listener = io.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
                let at = listener.address().unwrap();
                for round in 0..rounds {
                    let client = io.connect_tcp(at).await.unwrap();
                    let server = listener.accept().await.unwrap();
                    client.send(vec![1; 30]).await.0.unwrap();
                    server.recv_all(vec![0; 20], 0).await.0.unwrap();
                    if round % 2 == 0 {
                        // One waits when both go.
                        let waits = server.recv_all(vec![0; 20], 0);
                        let _ = tantalum_rt::first(waits, rt2.yield_now()).await;
                    }
                    drop((client, server));
                    if round == 99 || round == rounds - 1 {
                        // What was cancelled has ended by then.
                        io.sleep(Nanos::from_millis(20)).await;
                        let which = if round == 99 { &first } else { &last };
                        which.set((descriptors(), rt2.footprint()));
                    }
                }
            })
            .unwrap();
        // Other tests of this process may have a few open.
        assert!(late.get().0 < early.get().0 + 500, "{:?} {:?}", early.get(), late.get());
        assert_eq!(late.get().1, early.get().1);
    }
}

#[test]
fn w3_buffers_of_dropped_operations_are_neither_freed_nor_reused() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        runtime
            .block_on(async move {
                let (a, b) = pair(&io).await;
                for round in 0..300u32 {
                    // Begun, and dropped before or after the kernel knows of it.
                    let receive = a.recv(vec![0; 4096], 0);
                    match round % 3 {
                        0 => drop(first(receive, rt.yield_now()).await),
                        1 => drop(first(receive, io.sleep(Nanos(1))).await),
                        _ => drop(receive),
                    }
                    // The same room, most likely, for somebody else.
                    let other = vec![round as u8; 4096];
                    b.send(vec![0xEE; 16]).await.0.unwrap();
                    io.sleep(Nanos(1)).await;
                    assert!(other.iter().all(|&byte| byte == round as u8));
                    // What an abandoned operation did not take arrives here.
                    let rest = a.recv(vec![0; 64], 0);
                    drop(first(rest, io.sleep(Nanos::from_micros(50))).await);
                }
            })
            .unwrap();
    }
}

#[test]
fn w3_operations_under_way_when_the_runtime_goes_are_ended_first() {
    for backend in backends() {
        for _ in 0..12 {
            let (mut runtime, rt, io) = runtime(backend, 1.0);
            let path = Scratch::new(&format!("under-way-{backend:?}"));
            let options = FileOptions { write: true, create: true, ..FileOptions::default() };
            let file = Rc::new(io.open(&path.0, options).unwrap());
            let (a, b) = runtime.block_on(async move { pair(&io).await }).unwrap();
            let (a, b) = (Rc::new(a), Rc::new(b));
            for i in 0..20 {
                let (a, b, file) = (a.clone(), b.clone(), file.clone());
                rt.spawn("receiver", async move { drop(a.recv(vec![0; 1000], 0).await) });
                rt.spawn("sender", async move { drop(b.send(vec![0; 1 << 20]).await) });
                rt.spawn("writer", async move {
                    drop(file.write_at(vec![1; 100_000], i * 100_000).await.0);
                    drop(file.sync_data().await);
                });
            }
            let rt2 = rt.clone();
            runtime.block_on(async move { rt2.yield_now().await }).unwrap();
            drop(runtime);
            // Streams and files may outlive it.
            drop((a, b, file));
        }
    }
}

#[test]
fn files_keep_what_is_written_direct_or_not() {
    for backend in backends() {
        let (mut runtime, _, io) = runtime(backend, 1.0);
        let path = Scratch::new(&format!("file-{backend:?}"));
        let at = path.0.clone();
        runtime
            .block_on(async move {
                let write = FileOptions { write: true, create: true, direct: false };
                let file = io.open(&at, write).unwrap();
                assert!(file.is_empty().unwrap());
                let (result, buf) = file.write_at(vec![3u8; 10_000], 5).await;
                result.unwrap();
                assert_eq!(buf, [3; 10_000]);
                file.sync_data().await.unwrap();
                assert_eq!(file.len().unwrap(), 10_005);
                let (result, buf) = file.read_at(vec![9u8; 100], 9_990).await;
                assert_eq!(result.unwrap(), 15);
                assert!(buf[..15] == [3; 15] && buf[15..] == [9; 85]);
                file.set_len(16_384).unwrap();

                let direct = FileOptions { write: true, create: false, direct: true };
                let direct = match io.open(&at, direct) {
                    Ok(file) => file,
                    // Some file systems know no direct I/O.
                    Err(e) if e.kind() == ErrorKind::InvalidInput => return,
                    Err(e) => panic!("{e}"),
                };
                let mut page = AlignedBuf::zeroed(4096);
                page.fill(8);
                let (result, page) = direct.write_at(page, 4096).await;
                result.unwrap();
                assert_eq!(page.len(), 4096);
                let (result, all) = direct.read_at(AlignedBuf::zeroed(32_768), 0).await;
                assert_eq!(result.unwrap(), 16_384);
                assert!(all[5..4096].iter().all(|&b| b == 3));
                assert!(all[4096..8192].iter().all(|&b| b == 8));
                assert!(all[8192..10_005].iter().all(|&b| b == 3));
                assert!(all[10_005..].iter().all(|&b| b == 0));

                // Errors come back with the buffer.
                let readonly = io.open(&at, FileOptions::default()).unwrap();
                let (result, buf) = readonly.write_at(vec![1, 2, 3], 0).await;
                assert!(result.is_err() && buf == [1, 2, 3]);
            })
            .unwrap();
    }
}

#[test]
fn a_watch_says_when_there_is_something_to_read_and_when_the_other_end_is_gone() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let watch = io.watch(ours.into()).unwrap();
        let read = |watch: &tantalum_rt::wall::Watch| {
            let mut byte = [0];
            rustix::io::read(watch, &mut byte).map(|count| (count, byte[0]))
        };
        assert_eq!(read(&watch), Err(rustix::io::Errno::AGAIN));
        let done = runtime.block_on(async move {
            // One that is given up leaves nothing that would wake the next.
            let early = first(watch.readable(), rt.sleep(Nanos::from_millis(1))).await;
            assert!(matches!(early, First::B(())));
            for value in [7, 8] {
                let writer = theirs.try_clone().unwrap();
                let thread = in_thread(move || rustix::io::write(&writer, &[value]).unwrap());
                watch.readable().await.unwrap();
                assert_eq!(read(&watch), Ok((1, value)));
                thread.join().unwrap();
            }
            drop(theirs);
            watch.readable().await.unwrap();
            read(&watch)
        });
        assert_eq!(done.unwrap(), Ok((0, 0)));
    }
}

#[test]
fn signals_wake_the_task_that_waits_for_them() {
    for backend in backends() {
        let (mut runtime, rt, io) = runtime(backend, 1.0);
        let mut signals = io.signals(&[Signal::Hangup, Signal::Interrupt]).unwrap();
        let raise = |n| signal_hook::low_level::raise(n).unwrap();
        rt.spawn("raiser", async move {
            io.sleep(Nanos::from_micros(100)).await;
            raise(signal_hook::consts::SIGINT);
        });
        raise(signal_hook::consts::SIGHUP);
        raise(signal_hook::consts::SIGHUP);
        let got = runtime
            .block_on(async move {
                let got = [signals.next().await.unwrap(), signals.next().await.unwrap()];
                // One more, on another thread.
                let thread = in_thread(move || raise(signal_hook::consts::SIGHUP));
                (got, signals.next().await.unwrap(), thread.join().is_ok())
            })
            .unwrap();
        assert_eq!(got, ([Signal::Hangup, Signal::Interrupt], Signal::Hangup, true));
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for time_scale in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
        let options = WallOptions { time_scale, ..WallOptions::default() };
        let err = Runtime::wall_time(1, options).err().unwrap();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
    }
}
