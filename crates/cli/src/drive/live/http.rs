//! The state of a drive over HTTP: JSON, a page, and metrics for Prometheus.
//!
//! 1. The server has a thread of its own. It sends letters to the drive's thread and waits for the
//!    answers; the drive answers them one after another.
//! 2. There are never more than [`CONNECTIONS`] connections. A further one replaces the connection
//!    that has been longest without a complete request. It waits only if all are being answered.
//! 3. It only reads, unless control is allowed. Then the power is cut and restored by requests that
//!    no page of another site can make: they need a header of their own, and a name of this machine
//!    as the host.
//! 4. A connection ends if no request begins within [`IDLE`], or if a request takes longer than
//!    that until a part of its answer is read.

use super::{Failure, Front, Plug, metrics, report};
use crate::drive::listen;
use axum::Router;
use axum::extract::connect_info::{ConnectInfo, Connected, IntoMakeServiceWithConnectInfo};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{self, get};
use axum::serve::IncomingStream;
use serde::Serialize;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tantalum_device::{Field, LiveBox};
use tantalum_export::control::{StatsReport, StatusReport};
use tantalum_rt::Post;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, Sleep};

/// Connections at a time, at most.
pub const CONNECTIONS: usize = 32;
/// Letters that may wait for the drive.
const LETTERS: usize = 64;
/// How long the server waits for the drive's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a connection may be without a request, or take for one.
const IDLE: Duration = Duration::from_secs(10);

/// The header of requests that cut or restore the power, and its value.
const CONTROL: (&str, &str) = ("x-tantalum", "control");
/// The page; it asks for all else.
const PAGE: &str = include_str!("page.html");
/// What the page may do: nothing but ask its own server.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

type Answer = (StatusReport, StatsReport, Vec<Field>);
/// The outcome of a cut or a restart, as the control socket gives it.
type Outcome = Result<serde_json::Value, String>;

/// What is sent to the drive's thread.
enum Letter {
    /// Describe yourself.
    State(oneshot::Sender<Answer>),
    /// Cut the power.
    Cut(oneshot::Sender<Outcome>),
    /// Restore it.
    Restore(oneshot::Sender<Outcome>),
}

/// Begins to serve; returns the address. With `control` clients may cut and restore the power.
///
/// # Errors
/// Why it cannot serve, in a line, and the exit code.
#[allow(clippy::disallowed_methods, reason = "the edge: a server in a thread of its own")]
pub fn begin<B: LiveBox, F: Front>(
    plug: &Rc<Plug<B, F>>,
    at: SocketAddr,
    control: bool,
) -> Result<SocketAddr, Failure> {
    let cannot = |e: io::Error| listen::no_address("serve HTTP at", at, &e);
    let listener = std::net::TcpListener::bind(at).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    let (post, mut inbox) = plug.rt().inbox_of::<Letter>(LETTERS);
    let asked = plug.clone();
    plug.rt().spawn_background("letters from the HTTP server", async move {
        // A client that no longer waits does not need the answer.
        while let Some(letter) = inbox.next().await {
            let plug = asked.clone();
            match letter {
                Letter::State(to) => drop(to.send(report::all(&asked))),
                Letter::Cut(to) => {
                    let pulled = asked.pull();
                    asked.rt().spawn_background("a cut over HTTP", async move {
                        drop(to.send(outcome(Ok::<_, String>(plug.told(pulled).await))));
                    });
                }
                Letter::Restore(to) => {
                    asked.rt().spawn_background("a restart over HTTP", async move {
                        drop(to.send(outcome(plug.restore(false).await)));
                    });
                }
            }
        }
    });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    std::thread::Builder::new()
        .name("http".to_string())
        .spawn(move || {
            runtime.block_on(async move {
                match TcpListener::from_std(listener) {
                    Ok(listener) => serve(listener, post, control).await,
                    Err(e) => crate::out::note(format_args!("no HTTP: {e}")),
                }
            });
        })
        .map_err(cannot)?;
    Ok(at)
}

/// A report or an error in words.
fn outcome<T: Serialize, E: ToString>(result: Result<T, E>) -> Outcome {
    let report = result.map_err(|e| e.to_string())?;
    serde_json::to_value(report).map_err(|e| e.to_string())
}

async fn serve(listener: TcpListener, post: Post<Letter>, control: bool) {
    let may = if control { "yes" } else { "no" };
    let text = PAGE.replacen("data-control=\"CONTROL\"", &format!("data-control=\"{may}\""), 1);
    let page = move || async move { ([("content-security-policy", POLICY)], Html(text.clone())) };
    let mut router = Router::new()
        .route("/", get(page))
        .route("/text", get(text_page))
        .route("/status", get(status))
        .route("/stats", get(stats))
        .route("/metrics", get(prometheus));
    if control {
        router = router.route("/cut", routing::post(cut)).route("/restore", routing::post(restore));
    }
    let router = router.with_state(post);
    // The server runs until the process ends.
    let _ = axum::serve(Limited::new(listener, IDLE), seated(router)).await;
}

async fn cut(State(post): State<Post<Letter>>, headers: HeaderMap) -> Result<Response, Refused> {
    order(&post, &headers, Letter::Cut).await
}

async fn restore(
    State(post): State<Post<Letter>>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    order(&post, &headers, Letter::Restore).await
}

/// Why the power was neither cut nor restored.
type Refused = (StatusCode, String);

async fn order(
    post: &Post<Letter>,
    headers: &HeaderMap,
    letter: fn(oneshot::Sender<Outcome>) -> Letter,
) -> Result<Response, Refused> {
    if !is_ours(headers) {
        let (name, value) = CONTROL;
        let why = format!("control takes the header \"{name}: {value}\" and a host of loopback");
        return Err((StatusCode::FORBIDDEN, why));
    }
    let late = || (StatusCode::SERVICE_UNAVAILABLE, "the drive has not answered yet".to_string());
    let (letter_to, answer) = oneshot::channel();
    post.post(letter(letter_to)).map_err(|_| late())?;
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(Ok(report))) => json(serde_json::to_vec_pretty(&report))
            .map_err(|code| (code, "there is no report".to_string())),
        Ok(Ok(Err(why))) => Err((StatusCode::CONFLICT, why)),
        _ => Err(late()),
    }
}

/// Whether a request comes from this server's own page, or from a program that means it: a page of
/// another site cannot set the header, and one whose name leads here has another host.
fn is_ours(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("host").unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_matches(['[', ']']);
    let is_here =
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_here && text(CONTROL.0) == Some(CONTROL.1)
}

/// The router; while a request is answered, its connection keeps its place.
fn seated(router: Router) -> IntoMakeServiceWithConnectInfo<Router, Seat> {
    router.layer(middleware::from_fn(keep_seat)).into_make_service_with_connect_info::<Seat>()
}

async fn keep_seat(ConnectInfo(seat): ConnectInfo<Seat>, request: Request, next: Next) -> Response {
    let _kept = Kept::new(seat);
    next.run(request).await
}

/// Asks the drive.
async fn ask(post: &Post<Letter>) -> Result<Answer, StatusCode> {
    let (letter, answer) = oneshot::channel();
    post.post(Letter::State(letter)).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        _ => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}

fn typed(kind: &'static str, text: impl IntoResponse) -> Response {
    ([(CONTENT_TYPE, kind)], text).into_response()
}

fn json(value: serde_json::Result<Vec<u8>>) -> Result<Response, StatusCode> {
    let text = value.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(typed("application/json", text))
}

async fn status(State(post): State<Post<Letter>>) -> Result<Response, StatusCode> {
    json(serde_json::to_vec_pretty(&ask(&post).await?.0))
}

async fn stats(State(post): State<Post<Letter>>) -> Result<Response, StatusCode> {
    json(serde_json::to_vec_pretty(&ask(&post).await?.1))
}

async fn text_page(State(post): State<Post<Letter>>) -> Result<Response, StatusCode> {
    let (status, stats, _) = ask(&post).await?;
    Ok(typed("text/html; charset=utf-8", metrics::page(&status, &stats)))
}

async fn prometheus(State(post): State<Post<Letter>>) -> Result<Response, StatusCode> {
    let (status, stats, fields) = ask(&post).await?;
    let text =
        metrics::metrics(status, stats, fields).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(typed(metrics::CONTENT_TYPE, text))
}

/// The places for connections.
#[derive(Default)]
struct Places {
    taken: Mutex<Taken>,
    /// A place is free, or may be taken away.
    changed: Notify,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// By the time of the connection's beginning or of its last answer. The first has been longest
    /// without a complete request, or is being answered.
    by_age: BTreeMap<u64, Place>,
}

struct Place {
    answered: bool,
    /// Dropping it tells the connection that its place was taken away.
    _taken_away: oneshot::Sender<()>,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        // A thread that panicked with the lock has only counted: the state is consistent.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free place, or that of another connection.
    fn take(self: &Arc<Self>) -> Option<(Seat, oneshot::Receiver<()>)> {
        let mut taken = self.taken();
        if taken.by_age.len() >= CONNECTIONS {
            let oldest =
                taken.by_age.iter().find(|(_, place)| !place.answered).map(|(age, _)| *age);
            taken.by_age.remove(&oldest?);
        }
        let age = taken.next;
        taken.next += 1;
        let (tell, told) = oneshot::channel();
        taken.by_age.insert(age, Place { answered: false, _taken_away: tell });
        Some((Seat { places: self.clone(), age: Arc::new(Mutex::new(age)) }, told))
    }
}

/// The place of one connection.
#[derive(Clone)]
struct Seat {
    places: Arc<Places>,
    age: Arc<Mutex<u64>>,
}

impl Seat {
    /// Makes it the youngest place, and marks it as `answered` or not. Does nothing if the place
    /// was taken away.
    fn renew(&self, answered: bool) {
        let mut taken = self.places.taken();
        let mut age = self.age.lock().unwrap_or_else(PoisonError::into_inner);
        let next = taken.next;
        if let Some(mut place) = taken.by_age.remove(&*age) {
            place.answered = answered;
            taken.by_age.insert(next, place);
            taken.next += 1;
            *age = next;
        }
        drop((taken, age));
        self.places.changed.notify_one();
    }

    fn leave(&self) {
        let age = *self.age.lock().unwrap_or_else(PoisonError::into_inner);
        self.places.taken().by_age.remove(&age);
        self.places.changed.notify_one();
    }
}

impl Connected<IncomingStream<'_, Limited>> for Seat {
    fn connect_info(stream: IncomingStream<'_, Limited>) -> Seat {
        stream.io().seat.clone()
    }
}

/// A place that is not taken away, because a complete request is being answered.
struct Kept(Seat);

impl Kept {
    fn new(seat: Seat) -> Kept {
        seat.renew(true);
        Kept(seat)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.renew(false);
    }
}

/// A listener with limits for the number of connections and for their idle time.
struct Limited {
    listener: TcpListener,
    places: Arc<Places>,
    idle: Duration,
}

impl Limited {
    fn new(listener: TcpListener, idle: Duration) -> Limited {
        Limited { listener, places: Arc::default(), idle }
    }
}

impl axum::serve::Listener for Limited {
    type Io = Placed;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Placed, SocketAddr) {
        let (stream, from) = axum::serve::Listener::accept(&mut self.listener).await;
        let (seat, taken_away) = loop {
            match self.places.take() {
                Some(place) => break place,
                None => self.places.changed.notified().await,
            }
        };
        // The connection that had this place ends before the next one is accepted.
        tokio::task::yield_now().await;
        let timer = Box::pin(tokio::time::sleep(self.idle));
        let taken_away = Some(taken_away);
        (Placed { stream, idle: self.idle, timer, waits: true, seat, taken_away }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection, which has a place while it lasts.
struct Placed {
    stream: TcpStream,
    idle: Duration,
    timer: Pin<Box<Sleep>>,
    /// No request has begun.
    waits: bool,
    seat: Seat,
    /// Ready when another connection has the place; `None` from then on.
    taken_away: Option<oneshot::Receiver<()>>,
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.seat.leave();
    }
}

impl Placed {
    /// Restarts the connection's time limit.
    fn rewind(&mut self, waits: bool) {
        self.waits = waits;
        self.timer.as_mut().reset(Instant::now() + self.idle);
    }

    fn is_taken_away(&mut self, cx: &mut Context<'_>) -> bool {
        // It must not be polled again after it was ready.
        if self.taken_away.as_mut().is_some_and(|told| Pin::new(told).poll(cx).is_ready()) {
            self.taken_away = None;
        }
        self.taken_away.is_none()
    }

    /// Fails if `ready` is not ready in time.
    fn in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        ready: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match ready {
            Poll::Pending if self.is_taken_away(cx) => {
                Poll::Ready(Err(ErrorKind::ConnectionAborted.into()))
            }
            Poll::Pending => self.timer.as_mut().poll(cx).map(|()| Err(ErrorKind::TimedOut.into())),
            ready => ready,
        }
    }
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ready = Pin::new(&mut self.stream).poll_read(cx, buf);
        // The limit is not restarted at every part: a request that comes in pieces has the time of
        // one.
        if ready.is_ready() && self.waits {
            self.rewind(false);
        }
        self.in_time(cx, ready)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let ready = Pin::new(&mut self.stream).poll_write(cx, buf);
        if ready.is_ready() {
            self.rewind(true);
        }
        self.in_time(cx, ready)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for a page, reading and writing whatever the socket takes at once.
    async fn talk(stream: &TcpStream, say: &[u8]) -> io::Result<Vec<u8>> {
        stream.writable().await?;
        stream.try_write(say)?;
        let mut heard = Vec::new();
        loop {
            stream.readable().await?;
            match stream.try_read_buf(&mut heard) {
                Ok(0) => return Ok(heard),
                Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(e),
                _ => {}
            }
        }
    }

    /// A time that only a failing test takes.
    const NEVER: Duration = Duration::from_secs(60);

    /// A limit so long that no connection reaches it.
    const PATIENT: Duration = Duration::from_secs(3600);

    fn test<F: Future<Output = ()>>(idle: Duration, test: impl FnOnce(SocketAddr) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
            let at = listener.local_addr().expect("an address");
            let router = Router::new().route("/", get(|| async { "here" }));
            let limited = Limited::new(listener, idle);
            tokio::spawn(async move { axum::serve(limited, seated(router)).await });
            test(at).await;
        });
    }

    /// 3: neither a form of another site nor a name that leads here.
    #[test]
    fn only_ones_own_page_may_cut() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (name.parse().expect("a name"), value.parse().expect("a value"))
            });
            is_ours(&HeaderMap::from_iter(pairs))
        };
        for host in ["127.0.0.1:9090", "localhost:1", "localhost", "[::1]:80", "127.0.0.1"] {
            assert!(of(&[("host", host), CONTROL]), "{host}");
            assert!(!of(&[("host", host)]), "{host}");
        }
        for host in ["evil.example:9090", "192.0.2.1:80", "localhost.evil.example", ""] {
            assert!(!of(&[("host", host), CONTROL]), "{host}");
        }
        assert!(!of(&[CONTROL]) && !of(&[("host", "localhost"), ("x-tantalum", "yes")]));
    }

    async fn connect(at: SocketAddr) -> TcpStream {
        TcpStream::connect(at).await.expect("a connection")
    }

    async fn is_answered(at: SocketAddr) {
        let ask = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let stream = connect(at).await;
        let heard = tokio::time::timeout(NEVER, talk(&stream, ask)).await.expect("a place");
        let heard = heard.expect("an answer");
        assert!(heard.ends_with(b"here"), "{}", String::from_utf8_lossy(&heard));
    }

    /// 3: the test would wait for ever if silent connections, or incomplete requests, kept their
    /// places.
    #[test]
    fn who_asks_for_nothing_is_left() {
        test(Duration::from_millis(300), async |at| {
            let mut idle = Vec::new();
            for i in 0..CONNECTIONS {
                let stream = connect(at).await;
                if i % 2 == 0 {
                    stream.writable().await.expect("it can be written");
                    stream.try_write(b"GET / HT").expect("sent");
                }
                idle.push(stream);
            }
            is_answered(at).await;
            for stream in &idle {
                // The server ends them, perhaps with an answer that says why.
                let _ = talk(stream, b"").await;
            }
        });
    }

    /// 2: a good connection is answered beside many that send a byte now and then: five times as
    /// many as there are places.
    #[test]
    fn who_dribbles_does_not_keep_others_waiting() {
        test(PATIENT, async |at| {
            let mut dribbling = Vec::new();
            for _ in 0..5 * CONNECTIONS {
                let stream = connect(at).await;
                stream.writable().await.expect("it can be written");
                stream.try_write(b"GET / HTTP/1.1\r\nX: ").expect("sent");
                dribbling.push(stream);
            }
            for _ in 0..10 {
                for stream in &dribbling {
                    // Most have ended already.
                    let _ = stream.try_write(b"x");
                }
                is_answered(at).await;
            }
        });
    }

    /// 2: only a connection that is being answered keeps its place, and the oldest one loses it.
    #[test]
    fn places_are_taken_from_who_is_not_answered() {
        let places = Arc::new(Places::default());
        let mut seats: Vec<_> = (0..CONNECTIONS).map(|_| places.take().expect("a place")).collect();
        let kept = Kept::new(seats[0].0.clone());
        let young = places.take().expect("that of the second");
        assert!(seats[1].1.try_recv() == Err(oneshot::error::TryRecvError::Closed));
        assert!(seats[0].1.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        // A connection that has lost its place gives none back.
        seats.remove(1).0.leave();
        assert_eq!(places.taken().by_age.len(), CONNECTIONS);
        drop(kept);
        let all: Vec<_> = seats.iter().map(|(seat, _)| Kept::new(seat.clone())).collect();
        let last = Kept::new(young.0.clone());
        assert!(places.take().is_none(), "all are being answered");
        drop((all, last));
        seats[5].0.leave();
        assert!(places.take().is_some());
        assert_eq!(places.taken().by_age.len(), CONNECTIONS);
    }
}
