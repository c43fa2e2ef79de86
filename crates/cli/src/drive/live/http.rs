//! The state of a drive over HTTP: JSON, a page, and metrics for Prometheus. Nothing can be changed there.
//!
//! 1. The server has a thread of its own; it asks the drive by letters, and waits. The drive answers one after
//!    another, from its own thread.
//! 2. There are never more than [`CONNECTIONS`] connections; who asks for more waits.
//! 3. Nobody keeps a place for nothing: a connection ends if no request begins in [`IDLE`], or if what has
//!    begun takes longer than that until something of its answer is taken.

use super::{Front, Plug, metrics, report};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tantalum_export::control::{StatsReport, StatusReport};
use tantalum_rt::Post;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, Sleep};

/// Connections at a time, at most.
const CONNECTIONS: usize = 32;
/// Letters that may wait for the drive.
const LETTERS: usize = 64;
/// The drive has to answer in this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection may be silent, or at one request, for so long.
const IDLE: Duration = Duration::from_secs(10);

type Answer = (StatusReport, StatsReport);
type Letter = oneshot::Sender<Answer>;

/// Serves from now on; where.
///
/// # Errors
/// Why it can not, in a line.
#[allow(clippy::disallowed_methods, reason = "the edge: a server in a thread of its own")]
pub fn begin<F: Front>(plug: &Rc<Plug<F>>, at: SocketAddr) -> Result<SocketAddr, String> {
    let cannot = |e: io::Error| format!("can not serve HTTP at {at}: {e}");
    let listener = std::net::TcpListener::bind(at).map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    let (post, mut inbox) = plug.rt().inbox_of::<Letter>(LETTERS);
    let asked = plug.clone();
    plug.rt().spawn_background("letters from the HTTP server", async move {
        while let Some(letter) = inbox.next().await {
            // Who does not wait any more does not need it.
            let _ = letter.send((report::status(&asked), report::stats(&asked)));
        }
    });
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    std::thread::Builder::new()
        .name("http".to_string())
        .spawn(move || {
            runtime.block_on(async move {
                match TcpListener::from_std(listener) {
                    Ok(listener) => serve(listener, post).await,
                    Err(e) => crate::out::note(format_args!("no HTTP: {e}")),
                }
            });
        })
        .map_err(cannot)?;
    Ok(at)
}

async fn serve(listener: TcpListener, post: Post<Letter>) {
    let router = Router::new()
        .route("/", get(page))
        .route("/status", get(status))
        .route("/stats", get(stats))
        .route("/metrics", get(prometheus))
        .with_state(post);
    // It does not end by itself.
    let _ = axum::serve(Limited::new(listener, IDLE), router).await;
}

/// Asks the drive.
async fn ask(post: &Post<Letter>) -> Result<Answer, StatusCode> {
    let (letter, answer) = oneshot::channel();
    post.post(letter).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
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

async fn page(State(post): State<Post<Letter>>) -> Result<Response, StatusCode> {
    let (status, stats) = ask(&post).await?;
    Ok(typed("text/html; charset=utf-8", metrics::page(&status, &stats)))
}

async fn prometheus(State(post): State<Post<Letter>>) -> Result<Response, StatusCode> {
    let (status, stats) = ask(&post).await?;
    let text = metrics::metrics(status, stats).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(typed(metrics::CONTENT_TYPE, text))
}

/// A listener with so many places, and so much patience with each connection.
struct Limited {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle: Duration,
}

impl Limited {
    fn new(listener: TcpListener, idle: Duration) -> Limited {
        Limited { listener, places: Arc::new(Semaphore::new(CONNECTIONS)), idle }
    }
}

impl axum::serve::Listener for Limited {
    type Io = Placed;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Placed, SocketAddr) {
        let place = loop {
            if let Ok(place) = self.places.clone().acquire_owned().await {
                break place;
            }
        };
        let (stream, from) = axum::serve::Listener::accept(&mut self.listener).await;
        let timer = Box::pin(tokio::time::sleep(self.idle));
        (Placed { stream, idle: self.idle, timer, waits: true, _place: place }, from)
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
    /// For a request that has not begun.
    waits: bool,
    _place: OwnedSemaphorePermit,
}

impl Placed {
    /// From now on it has its whole time again.
    fn rewind(&mut self, waits: bool) {
        self.waits = waits;
        self.timer.as_mut().reset(Instant::now() + self.idle);
    }

    /// What is not ready in time never will be.
    fn in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        ready: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match ready {
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
        // Not at every part of it: one that comes in drops has the time of one.
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

    /// So long only a test takes that fails.
    const NEVER: Duration = Duration::from_secs(60);

    /// It would wait for ever if a place were kept by who says nothing, or half of something.
    #[test]
    fn who_asks_for_nothing_makes_room() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
            let at = listener.local_addr().expect("an address");
            let limited = Limited::new(listener, Duration::from_millis(300));
            let router = Router::new().route("/", get(|| async { "here" }));
            tokio::spawn(async move { axum::serve(limited, router).await });
            let mut idle = Vec::new();
            for i in 0..CONNECTIONS {
                let stream = TcpStream::connect(at).await.expect("a connection");
                if i % 2 == 0 {
                    stream.writable().await.expect("it can be written");
                    stream.try_write(b"GET / HT").expect("sent");
                }
                idle.push(stream);
            }
            let last = TcpStream::connect(at).await.expect("a connection");
            let ask = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            let heard = tokio::time::timeout(NEVER, talk(&last, ask)).await.expect("a place");
            let heard = heard.expect("an answer");
            assert!(heard.ends_with(b"here"), "{}", String::from_utf8_lossy(&heard));
            for stream in &idle {
                // They are left, be it with an answer that says why.
                let _ = talk(stream, b"").await;
            }
        });
    }
}
