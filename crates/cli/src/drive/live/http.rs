//! The state of a drive over HTTP: JSON, a page, and metrics for Prometheus. Nothing can be changed there.
//!
//! 1. The server has a thread of its own; it asks the drive by letters, and waits. The drive answers one after
//!    another, from its own thread.
//! 2. There are never more than [`CONNECTIONS`] connections; who asks for more waits.

use super::{Front, Plug, metrics, report};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use std::io;
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

/// Connections at a time, at most.
const CONNECTIONS: usize = 32;
/// Letters that may wait for the drive.
const LETTERS: usize = 64;
/// The drive has to answer in this time.
const PATIENCE: Duration = Duration::from_secs(5);

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
    let limited = Limited { listener, places: Arc::new(Semaphore::new(CONNECTIONS)) };
    // It does not end by itself.
    let _ = axum::serve(limited, router).await;
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

/// A listener with so many places.
struct Limited {
    listener: TcpListener,
    places: Arc<Semaphore>,
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
        (Placed { stream, _place: place }, from)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection, which has a place while it lasts.
struct Placed {
    stream: TcpStream,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
