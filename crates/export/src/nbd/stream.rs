//! The stream of bytes that a session uses.

use std::io;

/// A connected stream of bytes. Buffers belong to the operation until it completes.
#[allow(async_fn_in_trait)] // One thread: no future here has to be Send.
pub trait Stream: 'static {
    /// Receives into `buf[from..]`. Returns the number of bytes, 0 at the end of the stream.
    /// Dropping the future loses the buffer and perhaps bytes that have arrived: drop it only if
    /// nothing more is read.
    async fn recv(&self, buf: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>);

    /// Sends all of `buf`.
    async fn send(&self, buf: Vec<u8>) -> (io::Result<()>, Vec<u8>);

    /// Announces that nothing more will be sent, if the stream's protocol can do that.
    async fn farewell(&self) {}

    /// Ends both directions: tasks that wait in this stream return.
    fn shutdown(&self);
}
