//! How a runtime sleeps and is woken, in all orders that loom tells apart, on both back ends.
//! A runtime that sleeps for ever shows as a deadlock.

use super::{Manner, bell, choose, interrupt, starve};
use crate::wall::{Backend, WallOptions};
use crate::{First, Nanos, Post, Rt, RunError, Runtime, first};
use loom::thread;
use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Stack of the runtime's thread, in words.
const STACK: usize = 1 << 15;

/// Runs `scenario` in a thread of its own, on each back end and in each manner of a kernel, in
/// all orders with at most `switches` switches away from a thread that could go on.
fn on_both(switches: usize, scenario: impl Fn(Runtime, Rt) + Copy + Send + Sync + 'static) {
    for (io, manner) in [
        (Backend::Poll, Manner::Deferred),
        (Backend::Uring, Manner::Deferred),
        (Backend::Uring, Manner::AtOnce),
    ] {
        let runs = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counted = runs.clone();
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(switches);
        model.max_branches = 5_000;
        model.check(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let runtime = thread::Builder::new().stack_size(STACK).spawn(move || {
                choose(manner);
                let options = WallOptions { io, spin: Nanos::ZERO, ..WallOptions::default() };
                let runtime = Runtime::wall_time(1, options).unwrap();
                let rt = runtime.handle();
                scenario(runtime, rt);
            });
            runtime.unwrap().join().unwrap();
        });
        let runs = runs.load(std::sync::atomic::Ordering::Relaxed);
        eprintln!("{io:?}, {manner:?}: {runs} orders");
        assert!(runs > 1, "there is nothing to choose from");
    }
}

fn is_stalled(runtime: &mut Runtime, task: impl Future<Output = ()> + 'static) {
    let end = runtime.block_on(task);
    assert!(matches!(end, Err(RunError::Stalled { .. })), "{end:?}");
}

fn writer(post: Post<u32>, letters: std::ops::Range<u32>) -> thread::JoinHandle<()> {
    thread::spawn(move || letters.for_each(|letter| post.post(letter).unwrap()))
}

/// Takes all letters; they come in order, and no letter is lost.
fn all_arrive(runtime: &mut Runtime, mut inbox: crate::Inbox<u32>, count: u32) {
    let taken = runtime.block_on(async move {
        let mut taken = Vec::new();
        while let Some(letter) = inbox.next().await {
            taken.push(letter);
        }
        taken
    });
    assert_eq!(taken.unwrap(), (0..count).collect::<Vec<_>>());
}

#[test]
fn letters_of_a_thread_arrive_and_the_end_of_the_channel_is_seen() {
    on_both(3, |mut runtime, rt| {
        let (post, inbox) = rt.inbox_of(2);
        let writer = writer(post, 0..2);
        all_arrive(&mut runtime, inbox, 2);
        is_stalled(&mut runtime, pending());
        writer.join().unwrap();
    });
}

#[test]
fn letters_of_two_threads_arrive() {
    on_both(2, |mut runtime, rt| {
        let (post, mut inbox) = rt.inbox_of(2);
        let threads = [writer(post.clone(), 0..1), writer(post, 1..2)];
        let sum = runtime.block_on(async move {
            let mut sum = 0;
            while let Some(letter) = inbox.next().await {
                sum += letter + 1;
            }
            sum
        });
        assert_eq!(sum.unwrap(), 3);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn letters_arrive_though_signals_end_waits_and_memory_is_short() {
    on_both(2, |mut runtime, rt| {
        let (post, inbox) = rt.inbox_of(2);
        let disturber = thread::spawn(|| {
            starve();
            interrupt();
        });
        let writer = writer(post, 0..2);
        all_arrive(&mut runtime, inbox, 2);
        writer.join().unwrap();
        disturber.join().unwrap();
    });
}

/// A late ring is taken while the kernel is told of `more` operations that never end: by the wait
/// itself, or before it where the queue for them is full.
fn rings_are_heard_though_one_is_taken_while_more_is_begun(more: usize) {
    on_both(2, move |mut runtime, rt| {
        let (post, mut inbox) = rt.inbox_of(1);
        let done = runtime.block_on(async move {
            // The wait for it puts the bell's read in.
            rt.sleep(Nanos(1)).await;
            starve();
            for _ in 0..more {
                let (fd, _silent) = bell(true).unwrap();
                let silent = rt.io().unwrap().watch(fd).unwrap();
                rt.spawn_background("silent", async move { silent.readable().await.is_ok() });
            }
            let wakes = rt.inbox().clone();
            let late = thread::spawn(move || wakes.ring_late());
            let writer = writer(post, 0..1);
            (inbox.next().await, [late, writer])
        });
        let (letter, threads) = done.unwrap();
        assert_eq!(letter, Some(0));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn rings_are_heard_though_one_is_taken_by_a_wait_that_begins_one_operation() {
    rings_are_heard_though_one_is_taken_while_more_is_begun(1);
}

#[test]
fn rings_are_heard_though_one_is_taken_by_a_wait_that_begins_several_operations() {
    rings_are_heard_though_one_is_taken_while_more_is_begun(3);
}

#[test]
fn the_last_post_that_goes_leaves_a_run_stalled_and_not_asleep() {
    on_both(3, |mut runtime, rt| {
        let (post, inbox) = rt.inbox_of::<u32>(1);
        let thread = thread::spawn(move || drop(post));
        is_stalled(&mut runtime, async move {
            pending::<()>().await;
            drop(inbox);
        });
        thread.join().unwrap();
    });
}

#[test]
fn wakers_of_other_threads_wake_a_runtime_that_waits_for_something_else() {
    on_both(3, |mut runtime, rt| {
        // Never rung: so that the run is not stalled.
        let (fd, _silent) = bell(true).unwrap();
        let watch = rt.io().unwrap().watch(fd).unwrap();
        let done = runtime.block_on(async move {
            let mut threads = Vec::new();
            let woken = async {
                for _ in 0..2 {
                    let mut begun = false;
                    let flag = std::sync::Arc::new(loom::sync::atomic::AtomicBool::new(false));
                    poll_fn(|cx| {
                        let thread = |waker: Waker| {
                            let flag = flag.clone();
                            thread::spawn(move || {
                                flag.store(true, loom::sync::atomic::Ordering::Release);
                                waker.wake();
                            })
                        };
                        if !std::mem::replace(&mut begun, true) {
                            threads.push(thread(cx.waker().clone()));
                        }
                        rt.park("a thread");
                        match flag.load(loom::sync::atomic::Ordering::Acquire) {
                            true => Poll::Ready(()),
                            false => Poll::Pending,
                        }
                    })
                    .await;
                }
            };
            let first = first(watch.readable(), woken).await;
            (matches!(first, First::B(())), threads)
        });
        let (woken, threads) = done.unwrap();
        assert!(woken);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn an_operation_ends_beside_letters() {
    on_both(2, |mut runtime, rt| {
        let (fd, peer) = bell(true).unwrap();
        let watch = rt.io().unwrap().watch(fd).unwrap();
        let (post, mut inbox) = rt.inbox_of(1);
        let ringer = thread::spawn(move || peer.ring());
        let writer = writer(post, 0..1);
        let readable = rt.spawn("watch", async move { watch.readable().await.is_ok() });
        let done = runtime.block_on(async move {
            let letters = (inbox.next().await, inbox.next().await);
            (readable.await.unwrap(), letters)
        });
        assert_eq!(done.unwrap(), (true, (Some(0), None)));
        ringer.join().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn what_was_given_up_is_not_waited_for() {
    on_both(2, |mut runtime, rt| {
        let (fd, peer) = bell(true).unwrap();
        let watch = rt.io().unwrap().watch(fd).unwrap();
        let (post, mut inbox) = rt.inbox_of(1);
        let ringer = thread::spawn(move || peer.ring());
        let writer = writer(post, 0..1);
        let got = Rc::new(Cell::new(0));
        let count = got.clone();
        is_stalled(&mut runtime, async move {
            match first(watch.readable(), inbox.next()).await {
                First::A(readable) => readable.unwrap(),
                First::B(letter) => assert_eq!(letter, Some(0)),
            }
            count.set(1);
            pending::<()>().await;
            drop((watch, inbox));
        });
        assert_eq!(got.get(), 1);
        ringer.join().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn a_timer_is_met_beside_letters() {
    on_both(2, |mut runtime, rt| {
        let (post, mut inbox) = rt.inbox_of(1);
        let writer = writer(post, 0..1);
        let slept = rt.sleep(Nanos::from_micros(1));
        let done = runtime.block_on(async move {
            slept.await;
            inbox.next().await
        });
        assert_eq!(done.unwrap(), Some(0));
        writer.join().unwrap();
    });
}
