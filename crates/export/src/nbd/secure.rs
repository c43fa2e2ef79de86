//! A stream with TLS over another stream.
//!
//! `rustls` implements the protocol without I/O. Here its bytes are sent and received.
//!
//! 1. No byte that came in plain text is taken as if it had come in TLS: the stream begins with the
//!    first byte after the answer to STARTTLS.
//! 2. Memory is bounded whatever the client sends: [`INBOX_BYTES`] as received, a record or two in
//!    plain text, [`OUTBOX_BYTES`] to be sent. Nothing is received until the received bytes are
//!    used. The server sets [`SECURE_BYTES`] of its budget aside for each client.
//! 3. Authenticated records are used. What follows a record that is not authentic is never used.
//! 4. One task receives and one sends at a time, as in any [`Stream`]. The session is never
//!    borrowed across an await.

use super::stream::Stream;
use super::tls::Tls;
use crate::budget::{NoMemory, room, zeroed};
use rustls::ServerConnection;
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::rc::Rc;

/// The most bytes of one receive.
const INBOX_BYTES: usize = 64 << 10;
/// The most bytes that are encrypted before they are sent.
const OUTBOX_BYTES: usize = 128 << 10;
/// Headers and tags of the records of that many bytes.
const RECORDS_BYTES: usize = 4 << 10;
/// Memory inside the session: the handshake messages that it assembles, and a record in plain text.
const SESSION_BYTES: usize = 96 << 10;
/// The memory for one client. Bytes to be sent are in memory twice: in the session, and in the
/// outbox.
pub(super) const SECURE_BYTES: u64 =
    (INBOX_BYTES + 2 * (OUTBOX_BYTES + RECORDS_BYTES) + SESSION_BYTES) as u64;

/// Bytes that have arrived and were not decrypted yet: `buf[start..end]`.
struct Inbox {
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

/// See the module.
pub(crate) struct Secure<S> {
    stream: Rc<S>,
    tls: RefCell<ServerConnection>,
    inbox: RefCell<Inbox>,
    outbox: Cell<Vec<u8>>,
    /// Why nothing more is decrypted. It is reported after all earlier data.
    failed: RefCell<Option<io::Error>>,
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn no_memory(_: NoMemory) -> io::Error {
    io::ErrorKind::OutOfMemory.into()
}

impl<S: Stream> Secure<S> {
    /// Carries out the handshake. It waits as long as the client does.
    ///
    /// # Errors
    /// The stream's error; [`io::ErrorKind::InvalidData`] if the handshake is invalid or the client
    /// is refused. Then the client gets an alert too.
    pub async fn accept(stream: Rc<S>, tls: &Tls) -> io::Result<Secure<S>> {
        let mut session = ServerConnection::new(tls.config.clone()).map_err(invalid)?;
        session.set_buffer_limit(Some(OUTBOX_BYTES));
        let buf = zeroed(INBOX_BYTES).map_err(no_memory)?;
        let inbox = Inbox { buf, start: 0, end: 0 };
        // Sending never makes it longer.
        let mut outbox = Vec::new();
        room(&mut outbox, OUTBOX_BYTES + RECORDS_BYTES).map_err(no_memory)?;
        let secure = Secure {
            stream,
            tls: RefCell::new(session),
            inbox: RefCell::new(inbox),
            outbox: Cell::new(outbox),
            failed: RefCell::default(),
        };
        while secure.tls.borrow().is_handshaking() {
            let went_on = match secure.arrive().await {
                Ok(true) => secure.decrypt(),
                Ok(false) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(e) => Err(e),
            };
            let said = secure.flush().await;
            went_on.and(said)?;
        }
        Ok(secure)
    }

    /// Waits until there is something to decrypt; false at the end of the stream.
    async fn arrive(&self) -> io::Result<bool> {
        if !self.is_used_up() {
            return Ok(true);
        }
        let buf = std::mem::take(&mut self.inbox.borrow_mut().buf);
        let (received, buf) = self.stream.recv(buf, 0).await;
        let mut inbox = self.inbox.borrow_mut();
        let end = received.map(|count| count.min(buf.len()));
        (inbox.start, inbox.end) = (0, *end.as_ref().unwrap_or(&0));
        inbox.buf = buf;
        end.map(|end| end > 0)
    }

    fn is_used_up(&self) -> bool {
        let inbox = self.inbox.borrow();
        inbox.start == inbox.end
    }

    /// Decrypts some of what has arrived. All that was decrypted before must have been used.
    fn decrypt(&self) -> io::Result<()> {
        let mut inbox = self.inbox.borrow_mut();
        let Inbox { buf, start, end } = &mut *inbox;
        let mut rest = &buf[*start..*end];
        let mut tls = self.tls.borrow_mut();
        let taken = tls.read_tls(&mut rest)?;
        if taken == 0 {
            // The client sends more after it has closed its side.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *start += taken;
        tls.process_new_packets().map(drop).map_err(invalid)
    }

    /// Takes decrypted bytes. Returns how many, and whether the client has closed its side.
    fn take(&self, into: &mut [u8]) -> io::Result<(usize, bool)> {
        let mut tls = self.tls.borrow_mut();
        let mut taken = 0;
        while taken < into.len() {
            match tls.reader().read(&mut into[taken..]) {
                Ok(0) => return Ok((taken, true)),
                Ok(count) => taken += count,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok((taken, false))
    }

    /// Sends all that the session has to send.
    async fn flush(&self) -> io::Result<()> {
        loop {
            let mut out = self.outbox.take();
            out.clear();
            {
                let mut tls = self.tls.borrow_mut();
                while tls.wants_write() {
                    tls.write_tls(&mut out)?;
                }
            }
            if out.is_empty() {
                self.outbox.set(out);
                return Ok(());
            }
            let (sent, out) = self.stream.send(out).await;
            self.outbox.set(out);
            sent?;
        }
    }

    async fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let mut filled = 0;
        loop {
            let (taken, ended) = self.take(&mut buf[filled..])?;
            filled += taken;
            if ended || filled == buf.len() {
                return Ok(filled);
            }
            if self.is_used_up() {
                if filled > 0 {
                    return Ok(filled);
                }
                // The end without a close is taken as the end too: requests carry their own
                // lengths.
                if !self.arrive().await? {
                    return Ok(0);
                }
            }
            if let Err(error) = self.decrypt() {
                // Records that were decrypted before it are authentic.
                let (taken, _) = self.take(&mut buf[filled..])?;
                filled += taken;
                if filled == 0 {
                    return Err(error);
                }
                *self.failed.borrow_mut() = Some(error);
                return Ok(filled);
            }
        }
    }

    async fn send_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.tls.borrow_mut().writer().write(rest)?;
            rest = &rest[taken..];
            self.flush().await?;
        }
        Ok(())
    }
}

impl<S: Stream> Stream for Secure<S> {
    async fn recv(&self, mut buf: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let received = match buf.get_mut(from..) {
            Some(room) if !room.is_empty() => self.receive(room).await,
            _ => Ok(0),
        };
        (received, buf)
    }

    async fn send(&self, buf: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        let sent = self.send_all(&buf).await;
        (sent, buf)
    }

    async fn farewell(&self) {
        self.tls.borrow_mut().send_close_notify();
        // A client that does not listen any more misses nothing.
        let _ = self.flush().await;
    }

    fn shutdown(&self) {
        self.stream.shutdown();
    }
}
