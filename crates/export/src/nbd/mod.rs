//! A server of the network block device protocol.
//!
//! The protocol is that of `doc/proto.md` of the NBD project: fixed newstyle negotiation, simple
//! and structured replies. [`wire`] has its numbers. [`Handshake`] and [`Request`] are the protocol
//! without any I/O. [`Server`] runs it over [`Stream`]s.
//!
//! # What a client can rely on
//!
//! 1. **Flush and forced unit access** are those of the device's contract. All connections share
//!    one device, so a flush on any of them covers everything that was answered on all of them:
//!    exports always allow several connections.
//! 2. **Whole blocks in one piece.** A write request of whole blocks is one write of the device up
//!    to 64 KiB at least, and up to the device's atomic unit, so that it is atomic up to the unit.
//!    A longer one may be carried out as several writes, split at multiples of the atomic unit from
//!    its first block on. The device may tear it there anyway.
//! 3. **Parts of blocks** may be written although the device writes whole blocks only: the rest of
//!    the first and last block is read first, and no other write comes between
//!    ([`RangeLock`](crate::RangeLock)). Up to the atomic unit the request is still one write of
//!    the device. A trim leaves blocks that it covers only in part as they are.
//! 4. **Zeros** are written by discarding. They are really written, in pieces, only on a thin
//!    device and if the client wants to keep the space.
//! 5. **Order.** Requests begin in the order in which they arrived, and end in any order.
//! 6. **A client that disconnects** stops nothing: requests that were received whole are carried
//!    out. Of a write that was not received whole, nothing is carried out; if it is carried out as
//!    several writes, those that were received whole are.
//!
//! # What a client cannot do
//!
//! 7. Reach another export than the one that it chose, or write to a read-only one.
//! 8. Make the server hold more than [`Limits`] say. One budget of memory serves all clients
//!    ([`Limits::memory`]), and each has a share that is enough to go on, whatever the others do. A
//!    request is in flight from its arrival until its reply is sent.
//! 9. Bring the server down: its bytes are answered, or its connection ends with a reason
//!    ([`End`]).
//! 10. Do anything before TLS has begun, if the server has [`Tls`]: the only answer in plain text
//!     is that TLS has to begin. Nothing that was agreed on before TLS counts after it.

mod connection;
mod errno;
mod export;
mod handshake;
mod intake;
mod listen;
mod memory;
mod outbox;
mod pipe;
mod reads;
mod reply;
mod request;
mod scratch;
mod secure;
mod server;
mod session;
mod stream;
mod tls;
pub mod wire;

pub use crate::Volume;
pub use errno::Errno;
pub use export::{Export, ExportError};
pub use handshake::{Entry, Handshake, Offer, Refusal, Step};
pub use pipe::{PipeEnd, pipe};
pub use request::{Command, Request, Terms};
pub(crate) use server::pause;
pub use server::{Event, Limits, OnCut, Options, Server};
pub use session::End;
pub use stream::Stream;
pub use tls::{Tls, TlsError};
