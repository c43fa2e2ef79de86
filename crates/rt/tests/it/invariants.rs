//! The invariants of the runtime, one test or more each; the numbers are those
//! in the crate's documentation.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Poll;
use tantalum_rt::sync::{Mutex, Semaphore, WaitQueue};
use tantalum_rt::wall::{Backend, WallOptions};
use tantalum_rt::{Clock, Domain, Idle, Nanos, Rt, RunError, Runtime};

/// A runtime on the virtual clock, and on the wall clock with either back end where time
/// jumps as on the virtual one (but moves by itself too).
fn clocks() -> Vec<Runtime> {
    let mut all = vec![Runtime::virtual_time(1)];
    for io in [Backend::Auto, Backend::Poll] {
        let options = WallOptions { io, time_scale: 0.0, ..WallOptions::default() };
        all.push(Runtime::wall_time(1, options).unwrap());
    }
    all
}

fn is_virtual(rt: &Rt) -> bool {
    rt.io().is_none()
}

type Log = Rc<RefCell<Vec<String>>>;

fn note(log: &Log, what: impl Into<String>) {
    log.borrow_mut().push(what.into());
}

#[test]
fn i1_ready_tasks_run_in_order_and_timers_by_time_then_by_setting() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let log: Log = Rc::default();
        for (name, ms) in [("c", 3), ("a", 1), ("b1", 2), ("b2", 2)] {
            let (rt2, log) = (rt.clone(), log.clone());
            rt.spawn(name, async move {
                note(&log, format!("start {name}"));
                rt2.sleep(Nanos::from_millis(ms)).await;
                assert!(rt2.now() >= Nanos::from_millis(ms));
                note(&log, format!("{name}@{ms}"));
            });
        }
        runtime.drain().unwrap();
        let want = ["start c", "start a", "start b1", "start b2", "a@1", "b1@2", "b2@2", "c@3"];
        assert_eq!(*log.borrow(), want);
    }
}

#[test]
fn i2_a_cancelled_timer_never_moves_time() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let end = runtime
            .block_on(async move {
                let mut far = Box::pin(rt.sleep(Nanos::from_secs(100)));
                // Polled once, so that the timer is set, and then dropped.
                std::future::poll_fn(|cx| {
                    assert!(far.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                drop(far);
                for _ in 0..1000 {
                    let mut s = Box::pin(rt.sleep(Nanos::from_secs(50)));
                    std::future::poll_fn(|cx| {
                        let _ = s.as_mut().poll(cx);
                        Poll::Ready(())
                    })
                    .await;
                }
                rt.sleep(Nanos(7)).await;
                rt.now()
            })
            .unwrap();
        runtime.drain().unwrap();
        let now = runtime.handle().now();
        match is_virtual(&runtime.handle()) {
            true => assert!(end == Nanos(7) && now == end),
            false => assert!(end >= Nanos(7) && now < Nanos::from_secs(50)),
        }
    }
}

#[test]
fn i3_a_wake_for_an_ended_task_does_not_reach_the_next_in_its_slot() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let stale = Rc::new(RefCell::new(None));
        let polls = Rc::new(Cell::new(0));
        {
            let (rt2, stale) = (rt.clone(), stale.clone());
            rt.spawn("first", async move {
                *stale.borrow_mut() = Some((
                    rt2.park("nothing"),
                    std::future::poll_fn(|cx| Poll::Ready(cx.waker().clone())).await,
                ));
            });
        }
        runtime.drain().unwrap();
        {
            let polls = polls.clone();
            rt.spawn_background("second, in the same slot", async move {
                std::future::poll_fn(|_| {
                    polls.set(polls.get() + 1);
                    Poll::<()>::Pending
                })
                .await;
            });
        }
        runtime.drain().unwrap();
        assert_eq!(polls.get(), 1);
        let (task, waker) = stale.borrow_mut().take().unwrap();
        rt.wake(task);
        waker.wake();
        runtime.drain().unwrap();
        assert_eq!(polls.get(), 1);
    }
}

#[test]
fn std_wakers_work_for_combinators_and_from_other_threads() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let waker = Rc::new(RefCell::new(None::<std::task::Waker>));
        let go = Rc::new(Cell::new(false));
        {
            let (waker, go, rt2) = (waker.clone(), go.clone(), rt.clone());
            rt.spawn("waits by waker", async move {
                std::future::poll_fn(|cx| {
                    rt2.park("a waker");
                    *waker.borrow_mut() = Some(cx.waker().clone());
                    if go.get() { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
            });
        }
        let rt2 = rt.clone();
        rt.spawn("waker", async move {
            rt2.sleep(Nanos(5)).await;
            go.set(true);
            let w = waker.borrow_mut().take().unwrap();
            // A waker may be sent to another thread and used there.
            #[allow(clippy::disallowed_methods, reason = "what the test is about")]
            std::thread::scope(|s| {
                s.spawn(move || w.wake());
            });
        });
        runtime.drain().unwrap();
    }
}

struct DropNote(&'static str, Log, Option<(Domain, Rt)>);
impl Drop for DropNote {
    fn drop(&mut self) {
        note(&self.1, self.0);
        if let Some((domain, rt)) = &self.2 {
            // A dying domain ignores spawns; others do not.
            let log = self.1.clone();
            let join = domain.spawn("too late", async move { note(&log, "never") });
            assert!(join.is_finished());
            let log = self.1.clone();
            rt.spawn("elsewhere", async move { note(&log, "elsewhere ran") });
        }
    }
}

#[test]
fn i4_a_dying_domain_drops_in_order_and_ignores_wakes_and_spawns() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let log: Log = Rc::default();
        let domain = rt.domain();
        let queue = Rc::new(WaitQueue::new(&rt, "the queue"));
        for name in ["one", "two", "three"] {
            let guard =
                DropNote(name, log.clone(), (name == "two").then(|| (domain.clone(), rt.clone())));
            let queue = queue.clone();
            let log = log.clone();
            domain.spawn(name, async move {
                let _guard = guard;
                queue.wait().await;
                note(&log, "woken after death");
            });
        }
        let (d, q, rt2) = (domain.clone(), queue.clone(), rt.clone());
        rt.spawn("killer", async move {
            rt2.sleep(Nanos(1)).await;
            q.notify_all();
            d.kill();
            assert!(!d.is_alive());
        });
        runtime.drain().unwrap();
        assert_eq!(*log.borrow(), ["one", "two", "three", "elsewhere ran"]);
    }
}

#[test]
fn i4_a_task_may_kill_its_own_domain_and_is_dropped_after_its_poll() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let log: Log = Rc::default();
        let domain = rt.domain();
        let (d, l, rt2) = (domain.clone(), log.clone(), rt.clone());
        let join = domain.spawn("suicide", async move {
            let _guard = DropNote("dropped", l.clone(), None);
            d.kill();
            note(&l, "still in its poll");
            rt2.sleep(Nanos(1)).await;
            note(&l, "never");
        });
        runtime.drain().unwrap();
        assert_eq!(*log.borrow(), ["still in its poll", "dropped"]);
        assert!(join.is_finished() && join.take().is_none());
    }
}

#[test]
fn i4_after_ten_thousand_domains_memory_is_where_it_was() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let alive = Rc::new(());
        let mut after_ten = 0;
        for round in 0..10_000 {
            let domain = rt.domain();
            for i in 0..5 {
                let (rt2, alive) = (rt.clone(), alive.clone());
                let inner = domain.clone();
                domain.spawn("firmware", async move {
                    let _alive = alive;
                    let _join = inner.spawn_background("child", std::future::pending::<()>());
                    rt2.sleep(Nanos(10 + i)).await;
                    std::future::pending::<()>().await;
                });
            }
            let rt2 = rt.clone();
            runtime
                .block_on(async move {
                    rt2.sleep(Nanos(12)).await;
                    domain.kill();
                })
                .unwrap();
            assert_eq!(Rc::strong_count(&alive), 1);
            if round == 10 {
                after_ten = rt.footprint();
            }
        }
        assert_eq!(rt.footprint(), after_ten);
    }
}

#[test]
fn i5_a_run_that_can_not_go_on_lists_what_waits() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let queue = Rc::new(WaitQueue::new(&rt, "room in the buffer"));
        let q = queue.clone();
        rt.spawn("host 3", async move { q.wait().await });
        rt.spawn_background("collector", std::future::pending::<()>());
        let command = rt.outstanding("write of block 7");
        let err = runtime.drain().unwrap_err();
        let text = err.to_string();
        assert!(text.contains("\"host 3\" waits for room in the buffer"), "{text}");
        assert!(text.contains("write of block 7"), "{text}");
        assert!(!text.contains("collector"), "{text}");
        drop(command);
        queue.notify_all();
        runtime.drain().unwrap();
        // A main task that waits for what never comes is listed too.
        let q = queue.clone();
        let err = runtime.block_on(async move { q.wait().await }).unwrap_err();
        assert!(matches!(err, RunError::Stalled { ref waiting, .. } if waiting.len() == 1));
    }
}

#[test]
fn i6_a_busy_loop_is_an_error_that_names_the_task() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let rt2 = rt.clone();
        rt.spawn("spinner", async move {
            loop {
                rt2.yield_now().await;
            }
        });
        let err = runtime.drain().unwrap_err();
        assert!(matches!(err, RunError::Livelock { ref task, .. } if task == "spinner"), "{err}");
    }
}

fn busy_run(seed: u64, extra_draws: bool) -> (u64, u64) {
    let mut runtime = Runtime::virtual_time(seed);
    let rt = runtime.handle();
    let log = Rc::new(Cell::new(0u64));
    for i in 0..20u64 {
        let (rt2, log) = (rt.clone(), log.clone());
        rt.spawn(format!("task {i}"), async move {
            let mut stream = rt2.stream(&format!("task {i}"));
            let mut other = rt2.stream("other component");
            for _ in 0..50 {
                if extra_draws {
                    other.next_u64();
                }
                rt2.sleep(Nanos(stream.below(1000))).await;
                log.set(log.get().wrapping_mul(31).wrapping_add(i));
            }
        });
    }
    runtime.drain().unwrap();
    (rt.trace_hash(), log.get())
}

#[test]
fn i8_i9_same_seed_same_run_and_streams_are_independent() {
    assert_eq!(busy_run(7, false), busy_run(7, false));
    assert_ne!(busy_run(7, false).0, busy_run(8, false).0);
    assert_eq!(busy_run(7, false), busy_run(7, true));
    let mut runtime = Runtime::virtual_time(7);
    let rt = runtime.handle();
    let before = rt.trace_hash();
    rt.trace(1);
    assert_ne!(before, rt.trace_hash());
    runtime.drain().unwrap();
}

#[test]
fn semaphore_is_fair_and_nobody_overtakes_a_grant() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let s = Rc::new(Semaphore::new(&rt, "room", 4));
        let log: Log = Rc::default();
        for (name, want, at) in [("a", 3, 0), ("large", 4, 1), ("small", 1, 2), ("late", 1, 10)] {
            let (s, log, rt2) = (s.clone(), log.clone(), rt.clone());
            rt.spawn(name, async move {
                rt2.sleep(Nanos(at)).await;
                s.take(want).await;
                note(&log, name);
                rt2.sleep(Nanos(10)).await;
                s.release(want);
            });
        }
        runtime.drain().unwrap();
        assert_eq!(*log.borrow(), ["a", "large", "small", "late"]);
        assert_eq!(s.free(), 4);
    }
}

#[test]
fn a_dropped_waiter_leaves_no_gap() {
    for mut runtime in clocks() {
        let rt = runtime.handle();
        let mutex = Rc::new(Mutex::new(&rt, "the lock"));
        let queue = Rc::new(WaitQueue::new(&rt, "a word"));
        let reached = Rc::new(Cell::new(0));
        let (m, rt2) = (mutex.clone(), rt.clone());
        rt.spawn("holder", async move {
            let _g = m.lock().await;
            rt2.sleep(Nanos(10)).await;
        });
        let domain = rt.domain();
        let (m, q) = (mutex.clone(), queue.clone());
        domain.spawn("goes away", async move {
            let _g = m.lock().await;
        });
        domain.spawn("goes away too", async move { q.wait().await });
        let (m, q, r) = (mutex.clone(), queue.clone(), reached.clone());
        rt.spawn("stays", async move {
            let _g = m.lock().await;
            q.wait().await;
            r.set(1);
        });
        let rt2 = rt.clone();
        rt.spawn("breaker", async move {
            rt2.sleep(Nanos(20)).await;
            queue.notify_one(); // for the one that is about to go away
            domain.kill(); // who passes it on
        });
        runtime.drain().unwrap();
        assert_eq!(reached.get(), 1);
        assert!(!mutex.is_busy());
    }
}

/// A clock that is not virtual: it moves by itself, and idling may overshoot.
struct Drifting(Nanos);
impl Clock for Drifting {
    fn now(&self) -> Nanos {
        self.0
    }
    fn idle(&mut self, deadline: Option<Nanos>) -> Idle {
        match deadline {
            Some(t) => {
                self.0 = self.0.max(t) + Nanos(137);
                Idle::Reached
            }
            None => Idle::Nothing,
        }
    }
}

#[test]
fn the_same_code_runs_on_a_clock_that_overshoots() {
    let mut runtime = Runtime::with_clock(1, Box::new(Drifting(Nanos(1000))));
    let rt = runtime.handle();
    let log: Log = Rc::default();
    for (name, at) in [("x", 1010), ("y", 1020), ("z", 5000)] {
        let (rt2, log) = (rt.clone(), log.clone());
        rt.spawn(name, async move {
            rt2.sleep_until(Nanos(at)).await;
            assert!(rt2.now() >= Nanos(at));
            note(&log, name);
        });
    }
    runtime.drain().unwrap();
    assert_eq!(*log.borrow(), ["x", "y", "z"]);
    assert_eq!(rt.now(), Nanos(5137));
}

/// What is due before the time has happened, what is due at it has not; so a run can be
/// looked at between any two moments, and goes on as if nobody had looked.
#[test]
fn a_run_can_be_stopped_right_before_a_time() {
    let hash = |stops: &[u64]| {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let log: Log = Rc::default();
        for ms in [1, 2, 2, 3] {
            let (rt2, log) = (rt.clone(), log.clone());
            rt.spawn("a task", async move {
                rt2.sleep(Nanos::from_millis(ms)).await;
                note(&log, ms.to_string());
            });
        }
        for ms in stops {
            let at = Nanos::from_millis(*ms);
            runtime.run_until(at).unwrap();
            assert_eq!(rt.now(), at);
            let before =
                ["1", "2", "2", "3"].iter().filter(|due| due.parse::<u64>().unwrap() < *ms);
            assert!(log.borrow().iter().eq(before), "{ms}: {:?}", log.borrow());
        }
        runtime.drain().unwrap();
        assert_eq!(log.borrow().len(), 4);
        rt.trace_hash()
    };
    assert_eq!(hash(&[]), hash(&[1, 2, 3]));
    // Beyond all that happens only the time passes.
    hash(&[0, 7, 100]);
}
