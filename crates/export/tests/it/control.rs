//! The control server with well-behaved and other clients, on the virtual clock.

#[path = "../../../../fuzz/src/control.rs"]
mod fuzzed;

use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_export::control::{
    ControlServer, Handler, IDLE, Kind, MAX_CLIENTS, MAX_LINE, PATIENCE, Refusal, Reply, Request,
};
use tantalum_export::nbd::{PipeEnd, Stream, pipe};
use tantalum_rt::{Nanos, Rt, Runtime};

/// Counts requests. A restore takes a second, and the answer to stats is long.
#[derive(Clone)]
struct Notes {
    rt: Rt,
    asked: Rc<RefCell<Vec<Request>>>,
    done: Rc<Cell<u32>>,
}

impl Handler for Notes {
    async fn answer(&self, request: Request) -> Result<Value, Refusal> {
        self.asked.borrow_mut().push(request.clone());
        if let Request::Restore { salvage } = request {
            self.rt.sleep(Nanos::from_secs(1)).await;
            self.done.set(self.done.get() + 1);
            return match salvage {
                true => Ok(json!({})),
                false => Err(Refusal::new(Kind::DumpLost, "it is lost")),
            };
        }
        self.done.set(self.done.get() + 1);
        let long = if request == (Request::Stats {}) { "x".repeat(100_000) } else { String::new() };
        Ok(json!({ "long": long }))
    }
}

type Server = Rc<ControlServer<Notes>>;

fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt, Notes, Server) -> F) {
    let mut runtime = Runtime::virtual_time(3);
    let rt = runtime.handle();
    let notes = Notes { rt: rt.clone(), asked: Rc::default(), done: Rc::default() };
    let server = ControlServer::new(&rt, notes.clone());
    runtime.block_on(test(rt, notes, server)).expect("the run ends");
}

async fn connect(rt: &Rt, server: &Server) -> PipeEnd {
    let (here, there) = pipe(rt, 8192);
    server.accept(there).await;
    here
}

async fn say(client: &PipeEnd, bytes: impl Into<Vec<u8>>) {
    client.send(bytes.into()).await.0.expect("sent");
}

/// The next line; `None` at the end.
async fn line(client: &PipeEnd) -> Option<Reply> {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let (count, byte) = client.recv(vec![0; 1], 0).await;
        if !matches!(count, Ok(1)) {
            assert!(line.is_empty(), "a line without end");
            return None;
        }
        line.extend(byte);
    }
    Some(serde_json::from_slice(&line).expect("an answer"))
}

async fn refused(client: &PipeEnd) -> Option<Kind> {
    line(client).await.and_then(|reply| reply.error).map(|refusal| refusal.kind)
}

#[test]
fn lines_are_answered_in_their_order() {
    run(|rt, notes, server| async move {
        let client = connect(&rt, &server).await;
        let all = [Request::Restore { salvage: false }, Request::Status {}, Request::Cut {}];
        let lines: Vec<u8> = all.iter().flat_map(Request::line).collect();
        let (first, rest) = lines.split_at(lines.len() - 10);
        say(&client, first).await;
        assert_eq!(refused(&client).await, Some(Kind::DumpLost));
        assert!(line(&client).await.expect("an answer").result.is_some());
        say(&client, rest).await;
        assert!(line(&client).await.expect("an answer").result.is_some());
        assert_eq!(*notes.asked.borrow(), all);
    });
}

#[test]
fn nobody_waits_for_another_client() {
    run(|rt, _, server| async move {
        let (slow, quick) = (connect(&rt, &server).await, connect(&rt, &server).await);
        say(&slow, Request::Restore { salvage: true }.line()).await;
        say(&quick, Request::Cut {}.line()).await;
        assert!(line(&quick).await.is_some());
        assert_eq!(rt.now(), Nanos::ZERO);
        assert!(line(&slow).await.is_some());
        assert_eq!(rt.now(), Nanos::from_secs(1));
    });
}

#[test]
fn what_a_client_asked_for_is_done_though_it_is_gone() {
    run(|rt, notes, server| async move {
        let client = connect(&rt, &server).await;
        say(&client, Request::Restore { salvage: true }.line()).await;
        rt.yield_now().await;
        rt.yield_now().await;
        drop(client);
        rt.sleep(Nanos::from_secs(2)).await;
        assert_eq!((notes.done.get(), server.clients()), (1, 0));
    });
}

#[test]
fn who_says_nothing_or_takes_nothing_is_let_go() {
    run(|rt, notes, server| async move {
        let (idle, deaf) = (connect(&rt, &server).await, connect(&rt, &server).await);
        // Half a line does not count as a request.
        say(&idle, "{\"version\":1,").await;
        // More than the pipe holds.
        say(&deaf, Request::Stats {}.line()).await;
        rt.sleep(PATIENCE + Nanos(1)).await;
        assert_eq!((notes.done.get(), server.clients()), (1, 1));
        rt.sleep(IDLE).await;
        assert_eq!(server.clients(), 0);
        assert_eq!(line(&idle).await, None);
    });
}

/// A process that is about to end waits until its clients have their answers, and not for ever.
#[test]
fn answers_are_waited_for_and_not_for_ever() {
    run(|rt, notes, server| async move {
        server.answered().await;
        assert_eq!(rt.now(), Nanos::ZERO);
        let (slow, deaf) = (connect(&rt, &server).await, connect(&rt, &server).await);
        say(&slow, Request::Restore { salvage: true }.line()).await;
        rt.sleep(Nanos(1)).await;
        server.answered().await;
        assert_eq!((rt.now(), notes.done.get()), (Nanos::from_secs(1), 1));
        assert!(line(&slow).await.expect("an answer").result.is_some());
        // More than the pipe holds.
        say(&deaf, Request::Stats {}.line()).await;
        rt.sleep(Nanos(1)).await;
        server.answered().await;
        assert_eq!((rt.now(), notes.done.get()), (Nanos::from_secs(1) + PATIENCE, 2));
    });
}

#[test]
fn a_line_is_no_longer_than_it_may_be() {
    run(|rt, notes, server| async move {
        let client = connect(&rt, &server).await;
        let mut longest = Request::Cut {}.line();
        let end = longest.pop().expect("its end");
        longest.resize(MAX_LINE - 1, b' ');
        longest.push(end);
        say(&client, longest.clone()).await;
        assert!(line(&client).await.expect("an answer").result.is_some());
        longest.insert(10, b' ');
        say(&client, longest).await;
        assert_eq!(refused(&client).await, Some(Kind::TooLong));
        assert_eq!(line(&client).await, None);
        assert_eq!(notes.done.get(), 1);
    });
}

#[test]
fn there_are_never_too_many() {
    run(|rt, _, server| async move {
        let mut clients = Vec::new();
        for _ in 0..MAX_CLIENTS {
            clients.push(connect(&rt, &server).await);
        }
        let one_more = connect(&rt, &server).await;
        assert_eq!(refused(&one_more).await, Some(Kind::TooManyClients));
        assert_eq!(line(&one_more).await, None);
        assert_eq!(server.clients(), MAX_CLIENTS);
        clients.pop();
        rt.sleep(Nanos(1)).await;
        let one_more = connect(&rt, &server).await;
        say(&one_more, Request::Status {}.line()).await;
        assert!(line(&one_more).await.expect("an answer").result.is_some());
    });
}

/// Runs the corpus of the fuzz target.
#[test]
#[allow(clippy::disallowed_methods, reason = "the corpus is files")]
fn the_corpus_of_the_fuzz_target_passes() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/control");
    let files: Vec<_> = std::fs::read_dir(corpus).expect("a corpus").collect();
    assert!(files.len() >= 5);
    for file in files {
        fuzzed::control(&std::fs::read(file.expect("a file").path()).expect("its content"));
    }
}
