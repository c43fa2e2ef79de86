//! Threads whose calls another thread with a runtime serves; the numbers are those of the
//! invariants in `calls.rs`.
#![allow(clippy::disallowed_methods, reason = "threads are what is tested")]

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use tantalum_rt::calls::{Calls, Served, ThreadError, ThreadOptions, in_thread};
use tantalum_rt::wall::{WallOptions, random};
use tantalum_rt::{Inbox, Rt};

enum Letter {
    Double(u32, Sender<u32>),
    /// No answer comes.
    Keep(Sender<u32>),
    Panic,
    End,
}

const OPTIONS: ThreadOptions = ThreadOptions { name: "calls", letters: 4, wall: WALL };
const WALL: WallOptions = WallOptions {
    io: tantalum_rt::wall::Backend::Auto,
    time_scale: 1.0,
    spin: tantalum_rt::Nanos::ZERO,
};

type Ends = Arc<Mutex<Vec<Result<(), String>>>>;

async fn serve(mut letters: Inbox<Letter>) {
    let mut kept = Vec::new();
    while let Some(letter) = letters.next().await {
        match letter {
            Letter::Double(n, to) => drop(to.send(2 * n)),
            Letter::Keep(to) => kept.push(to),
            Letter::Panic => panic!("as planned"),
            Letter::End => return,
        }
    }
}

fn begin() -> (Calls<Letter>, Ends) {
    let ends = Ends::default();
    let to = ends.clone();
    let served = move |_: Rt, (), letters: Inbox<Letter>| Served {
        told: "ready",
        serving: serve(letters),
        ended: move |end| to.lock().unwrap().push(end),
    };
    let open = async |_: Rt| Ok::<(), ThreadError>(());
    let (told, calls) = Calls::start(OPTIONS, open, served).unwrap();
    assert_eq!(told, "ready");
    (calls, ends)
}

#[test]
fn c3_calls_of_many_threads_are_answered_until_nobody_can_call() {
    let (calls, ends) = begin();
    thread::scope(|scope| {
        for n in 0..8 {
            let calls = &calls;
            scope.spawn(move || assert_eq!(calls.ask(|to| Letter::Double(n, to)), Some(2 * n)));
        }
    });
    drop(calls);
    // Whoever dropped it has waited for the end.
    assert_eq!(*ends.lock().unwrap(), [Ok(())]);
}

#[test]
fn c1_a_call_that_waits_learns_of_the_end_and_later_ones_do() {
    for (last, said) in [(Letter::End, None), (Letter::Panic, Some("panicked: as planned"))] {
        let (calls, ends) = begin();
        thread::scope(|scope| {
            let waits = scope.spawn(|| calls.ask(Letter::Keep));
            // It is served: the thread ends with a call that waits, or before that is posted.
            assert_eq!(calls.ask(|to| Letter::Double(1, to)), Some(2));
            assert!(calls.tell(last));
            assert_eq!(waits.join().unwrap(), None);
        });
        assert_eq!(calls.ask(|to| Letter::Double(1, to)), None);
        assert!(!calls.tell(Letter::End));
        drop(calls);
        let ends = ends.lock().unwrap();
        match (&ends[..], said) {
            ([Ok(())], None) => {}
            ([Err(why)], Some(said)) => assert!(why.contains(said), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn c2_the_runtime_is_gone_when_its_end_is_told() {
    struct Gone(Sender<&'static str>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.send("the task").unwrap();
        }
    }
    let (to, told) = channel();
    let task = Gone(to.clone());
    let served = move |rt: Rt, (), letters: Inbox<Letter>| {
        rt.spawn_background("never ends", async move {
            let _task = task;
            std::future::pending::<()>().await;
        });
        let ended = move |_| to.send("the end").unwrap();
        Served { told: (), serving: serve(letters), ended }
    };
    let open = async |_: Rt| Ok::<(), ThreadError>(());
    let ((), calls) = Calls::start(OPTIONS, open, served).unwrap();
    drop(calls);
    assert_eq!(told.iter().collect::<Vec<_>>(), ["the task", "the end"]);
}

#[test]
fn c3_the_thread_itself_may_drop_the_last_of_them() {
    let (to, told) = channel();
    let (give, take) = channel::<Calls<Sender<()>>>();
    let served = move |_: Rt, (), mut letters: Inbox<Sender<()>>| Served {
        told: (),
        serving: async move {
            let back = letters.next().await.unwrap();
            drop(take.recv().unwrap());
            back.send(()).unwrap();
            assert!(letters.next().await.is_none());
        },
        ended: move |end| to.send(end).unwrap(),
    };
    let open = async |_: Rt| Ok::<(), ThreadError>(());
    let ((), calls) = Calls::start(OPTIONS, open, served).unwrap();
    let (answer, answered) = channel();
    assert!(calls.tell(answer));
    give.send(calls).unwrap();
    answered.recv().unwrap();
    assert_eq!(told.recv().unwrap(), Ok(()));
}

/// What becomes of a thread that opens like this.
fn opened<F>(open: impl FnOnce(Rt) -> F + Send + 'static) -> Option<ThreadError>
where
    F: Future<Output = Result<(), ThreadError>> + 'static,
{
    let served = |_: Rt, (), letters: Inbox<Letter>| Served {
        told: (),
        serving: serve(letters),
        ended: |_: Result<(), String>| panic!("it never began"),
    };
    Calls::start(OPTIONS, open, served).err()
}

#[test]
fn c4_an_opening_that_fails_panics_or_waits_for_nothing_is_an_error() {
    let refused = opened(async |_| Err(ThreadError::Panicked("refused".into())));
    assert!(matches!(refused, Some(ThreadError::Panicked(why)) if why == "refused"));
    let panicked = opened(async |_| panic!("as planned"));
    assert!(matches!(panicked, Some(ThreadError::Panicked(why)) if why == "as planned"));
    let stalled = opened(async |_| std::future::pending().await);
    assert!(matches!(stalled, Some(ThreadError::Panicked(_))), "{stalled:?}");
    let nonsense = ThreadOptions { wall: WallOptions { time_scale: -1.0, ..WALL }, ..OPTIONS };
    let none = in_thread("calls", nonsense.wall, async |_| Ok::<(), ThreadError>(()));
    assert!(matches!(none, Err(ThreadError::Start(_))), "{none:?}");
}

#[test]
fn c4_a_task_in_a_thread_of_its_own_gives_its_value_or_the_panic() {
    let value = in_thread("calls", WALL, async |rt: Rt| {
        rt.sleep(tantalum_rt::Nanos(1)).await;
        Ok::<u32, ThreadError>(7)
    });
    assert!(matches!(value, Ok(7)));
    let panicked = in_thread("calls", WALL, async |_| -> Result<(), ThreadError> {
        panic!("as planned");
    });
    assert!(matches!(panicked, Err(ThreadError::Panicked(why)) if why == "as planned"));
}

#[test]
fn random_bytes_are_not_the_same_twice() {
    assert_ne!(random::<16>().unwrap(), random::<16>().unwrap());
}
