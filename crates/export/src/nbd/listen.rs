//! Serves clients on sockets of the runtime.

use super::server::Server;
use super::stream::Stream;
use rustix::fd::AsFd;
use rustix::net::sockopt::set_socket_keepalive;
use std::io;
use tantalum_device::PowerCycle;
use tantalum_rt::wall::{self, Listener};
use tantalum_rt::{First, Nanos, first};

/// The pause after a client could not be accepted, in real time.
const PAUSE: Nanos = Nanos::from_millis(100);

impl Stream for wall::Stream {
    async fn recv(&self, buf: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        wall::Stream::recv(self, buf, from).await
    }

    async fn send(&self, buf: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        wall::Stream::send(self, buf).await
    }

    fn shutdown(&self) {
        wall::Stream::shutdown(self);
    }
}

/// The client's address, for people.
fn peer(stream: &wall::Stream) -> String {
    let named = rustix::net::getpeername(stream.as_fd()).ok().flatten();
    match named.and_then(|name| std::net::SocketAddr::try_from(name).ok()) {
        Some(address) => {
            // Without keepalive a client whose machine is gone would never be noticed.
            let _ = set_socket_keepalive(stream.as_fd(), true);
            address.to_string()
        }
        None => "a UNIX socket".to_string(),
    }
}

impl<P: PowerCycle + 'static> Server<P> {
    /// Serves all clients of the listener, until the server stops.
    pub async fn serve(&self, listener: Listener) {
        loop {
            match first(listener.accept(), self.stopping()).await {
                First::A(Ok(stream)) => {
                    let peer = peer(&stream);
                    self.accept(stream, peer);
                }
                First::A(Err(error)) => {
                    self.trouble(&error);
                    self.pause(PAUSE).await;
                }
                First::B(()) => return,
            }
        }
    }
}
