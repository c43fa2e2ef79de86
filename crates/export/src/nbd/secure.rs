//! A stream with TLS over another one.
//!
//! The protocol is that of `rustls`, which does no I/O: here its bytes travel.
//!
//! 1. Nothing that came in plain text is taken as if it had come in TLS: the stream begins with the
//!    first byte behind the answer to STARTTLS.
//! 2. Memory is bounded whatever the client sends: [`INBOX_BYTES`] as they arrived, a record or two
//!    in plain text, [`OUTBOX_BYTES`] to be sent. Nothing is received while what has arrived is not
//!    used. The server sets [`SECURE_BYTES`] of its budget aside for each client.
//! 3. What was authenticated is used; what follows a record that is not authentic never is.
//! 4. One receives and one sends at a time, as in any [`Stream`]. The session is borrowed between
//!    two waits only.

use super::stream::Stream;
use super::tls::Tls;
use crate::budget::{NoMemory, room, zeroed};
use rustls::ServerConnection;
use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::rc::Rc;

/// A receive asks for so many bytes.
const INBOX_BYTES: usize = 64 << 10;
/// So many bytes are encrypted before they are sent.
const OUTBOX_BYTES: usize = 128 << 10;
/// Heads and tags of the records in which they are.
const RECORDS_BYTES: usize = 4 << 10;
/// Inside the session: messages of a handshake that are put together, and a record in plain text.
const SESSION_BYTES: usize = 96 << 10;
/// All that one client costs. What is to be sent is there twice: in the session, and as it travels.
pub(super) const SECURE_BYTES: u64 =
    (INBOX_BYTES + 2 * (OUTBOX_BYTES + RECORDS_BYTES) + SESSION_BYTES) as u64;

/// What has arrived and was not decrypted yet: `buf[start..end]`.
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
    /// Why nothing more is decrypted. It is reported once all earlier data are used.
    failed: RefCell<Option<io::Error>>,
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn no_memory(_: NoMemory) -> io::Error {
    io::ErrorKind::OutOfMemory.into()
}

impl<S: Stream> Secure<S> {
    /// Lets the handshake take place. It waits as long as the client does.
    ///
    /// # Errors
    /// The stream's; [`io::ErrorKind::InvalidData`] if it is no handshake, or the client may not be
    /// taken: then the client is told, too.
    pub async fn accept(stream: Rc<S>, tls: &Tls) -> io::Result<Secure<S>> {
        let mut session = ServerConnection::new(tls.config.clone()).map_err(invalid)?;
        session.set_buffer_limit(Some(OUTBOX_BYTES));
        let buf = zeroed(INBOX_BYTES).map_err(no_memory)?;
        let inbox = Inbox { buf, start: 0, end: 0 };
        // Nothing that is sent makes it longer.
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
            // The client has said that it says no more, and says more.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *start += taken;
        tls.process_new_packets().map(drop).map_err(invalid)
    }

    /// Takes what was decrypted; how much, and whether the client has said that there is no more.
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

    /// Sends whatever the session has to say.
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
                // The end without a word is one, too: what a client sends says how long it is.
                if !self.arrive().await? {
                    return Ok(0);
                }
            }
            if let Err(error) = self.decrypt() {
                // What was decrypted before is as it should be.
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
        // Who does not listen any more misses nothing.
        let _ = self.flush().await;
    }

    fn shutdown(&self) {
        self.stream.shutdown();
    }
}
