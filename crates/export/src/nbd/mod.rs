//! A server of the network block device protocol.
//!
//! The protocol is that of `doc/proto.md` of the NBD project: fixed newstyle negotiation,
//! simple and structured replies. [`wire`] has its numbers, [`Handshake`] and [`Request`] are
//! the protocol without any I/O, [`Server`] lets it run over [`Stream`]s.
//!
//! # What a client can rely on
//!
//! 1. **Flush and forced unit access** are those of the device's contract. All connections
//!    share one device, so a flush on any of them covers whatever was answered on all:
//!    exports always allow several connections.
//! 2. **Whole blocks in one piece.** A write request is one write of the device up to 64 KiB at
//!    least, and up to the device's atomic unit, so that it is atomic up to that. What is longer
//!    may be carried out as several writes, split at multiples of the atomic unit from its first
//!    block on, where the device may tear it anyway.
//! 3. **Parts of blocks** may be written although the device has only whole blocks: the rest of the
//!    first and last block is read first, and no other write comes between
//!    ([`RangeLock`](crate::RangeLock)). Up to the atomic unit the request is still one write of
//!    the device. Parts of blocks that are trimmed keep their content.
//! 4. **Zeros** are written by discarding. Only on a thin device, and if the client wants the space
//!    to be kept, are they really written, in pieces.
//! 5. **Order.** Requests begin in the order in which they arrived, and end in any.
//! 6. **A client that goes away** stops nothing: what was received whole is carried out. Of a write
//!    that was not, nothing is, or if it is carried out as several writes, those that were received
//!    whole.
//!
//! # What a client cannot do
//!
//! 7. Reach another export than the one that it chose, or write to one that is read-only.
//! 8. Make the server hold more than [`Limits`] say: one budget of memory for all clients
//!    ([`Limits::memory`]), of which each has a share that is enough to go on, whatever the others
//!    do. Requests in flight are counted from their arrival until their replies are sent.
//! 9. Bring the server down: whatever it sends is answered, or its connection ends with a reason
//!    ([`End`]).
//! 10. Do anything before TLS has begun, if the server has [`Tls`]: all that is answered in plain
//!     text is that it has to begin. Nothing that was agreed on before counts after it.

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
