//! What a session talks over.

use std::io;

/// A connected stream of bytes. Buffers belong to the operation until it completes.
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait Stream: 'static {
    /// Receives into `buf[from..]`; how many bytes, 0 at the end of the stream. Dropping the future
    /// loses the buffer and, maybe, bytes that have arrived: drop it only if nothing more is read.
    async fn recv(&self, buf: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>);

    /// Sends all of `buf`.
    async fn send(&self, buf: Vec<u8>) -> (io::Result<()>, Vec<u8>);

    /// Says that nothing more is going to be sent, where the stream has a word for that.
    async fn farewell(&self) {}

    /// Ends both directions: tasks that wait in this stream return.
    fn shutdown(&self);
}
