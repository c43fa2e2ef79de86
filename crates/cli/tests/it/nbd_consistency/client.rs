//! An NBD client that keeps many requests under way.
//!
//! 1. Each connection has a task that sends and a task that receives. Replies come in any order.
//! 2. When the server ends, all requests under way end with [`Trouble::Gone`].
//! 3. A reply that breaks the protocol ends the connection, and is reported.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use tantalum_export::nbd::{Request, wire};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;

/// A failure of the test, in words.
pub type Complaints = Rc<RefCell<Vec<String>>>;

/// Why a request failed.
#[derive(Clone, Copy, Debug)]
pub enum Trouble {
    /// The server has ended.
    Gone,
    /// The server answered with this error of the protocol.
    Error(u32),
}

/// A request under way.
struct Waiting {
    /// Where a read begins, in bytes.
    at: u64,
    /// Buffer for the data of a read.
    data: Vec<u8>,
    /// Bytes of it that have arrived.
    come: usize,
    error: u32,
    answer: oneshot::Sender<Result<Vec<u8>, u32>>,
}

impl Waiting {
    fn end(self) -> io::Result<()> {
        let whole = self.come == self.data.len();
        ensure(self.error != 0 || whole, "a read is answered in parts")?;
        let result = if self.error == 0 { Ok(self.data) } else { Err(self.error) };
        // The future that waits for the reply may have been dropped.
        let _ = self.answer.send(result);
        Ok(())
    }
}

#[derive(Default)]
struct Shared {
    next: Cell<u64>,
    gone: Cell<bool>,
    waiting: RefCell<BTreeMap<u64, Waiting>>,
}

/// A connection to the first export of a server.
pub struct Connection {
    shared: Rc<Shared>,
    out: mpsc::UnboundedSender<Vec<u8>>,
    /// Bytes of the export.
    pub size: u64,
}

fn ensure(holds: bool, why: &str) -> io::Result<()> {
    if holds { Ok(()) } else { Err(Error::new(ErrorKind::InvalidData, why)) }
}

impl Connection {
    /// Connects; with structured replies if requested.
    pub fn open(socket: &Path, structured: bool, told: &Complaints) -> io::Result<Connection> {
        let mut stream = UnixStream::connect(socket)?;
        let size = negotiate(&mut stream, structured)?;
        stream.set_nonblocking(true)?;
        let (receive, send) = tokio::net::UnixStream::from_std(stream)?.into_split();
        let (out, queue) = mpsc::unbounded_channel();
        let shared = Rc::<Shared>::default();
        spawn_local(sender(send, queue));
        spawn_local(receiver(receive, shared.clone(), told.clone()));
        Ok(Connection { shared, out, size })
    }

    /// Sends a request at once; the returned future waits for the reply.
    pub async fn ask(
        &self,
        (kind, flags): (u16, u16),
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> Result<Vec<u8>, Trouble> {
        let cookie = self.shared.next.get();
        self.shared.next.set(cookie + 1);
        let mut bytes = Request { flags, kind, cookie, offset, length }.encode().to_vec();
        bytes.extend_from_slice(payload);
        let (answer, answered) = oneshot::channel();
        let data = vec![0; if kind == wire::cmd::READ { length as usize } else { 0 }];
        let waiting = Waiting { at: offset, data, come: 0, error: 0, answer };
        if self.shared.gone.get() {
            return Err(Trouble::Gone);
        }
        self.shared.waiting.borrow_mut().insert(cookie, waiting);
        self.out.send(bytes).map_err(|_| Trouble::Gone)?;
        answered.await.map_err(|_| Trouble::Gone)?.map_err(Trouble::Error)
    }
}

/// Chooses the first export; returns its size in bytes.
fn negotiate(stream: &mut UnixStream, structured: bool) -> io::Result<u64> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    ensure(greeting[..16] == *b"NBDMAGICIHAVEOPT", "that is no greeting")?;
    stream.write_all(&3u32.to_be_bytes())?;
    if structured {
        let replies = option(stream, wire::opt::STRUCTURED_REPLY, &[])?;
        ensure(replies.is_empty(), "an ack has no data")?;
    }
    // An empty name, and no requests for information.
    let replies = option(stream, wire::opt::GO, &[0; 6])?;
    let export = replies.iter().find(|data| data.starts_with(&wire::info::EXPORT.to_be_bytes()));
    let export = export.ok_or(Error::new(ErrorKind::InvalidData, "there is no export"))?;
    ensure(export.len() == 12, "an export is told in 12 bytes")?;
    use wire::transmission_flag as can;
    let needed = can::SEND_FLUSH | can::SEND_FUA | can::SEND_TRIM | can::SEND_WRITE_ZEROES;
    let needed = needed | can::CAN_MULTI_CONN;
    let flags = u16::from_be_bytes([export[10], export[11]]);
    ensure(flags & needed == needed, "the export cannot do what is tested")?;
    Ok(u64::from_be_bytes(export[2..10].try_into().expect("eight bytes")))
}

/// The data of all replies before the acknowledgement.
fn option(stream: &mut UnixStream, option: u32, data: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    stream.write_all(&bytes)?;
    let mut replies = Vec::new();
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head)?;
        ensure(head[..8] == wire::OPTION_REPLY_MAGIC.to_be_bytes(), "that is no reply")?;
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        ensure(word(8) == option, "a reply to another option")?;
        let mut data = vec![0; word(16) as usize];
        stream.read_exact(&mut data)?;
        match word(12) {
            wire::rep::ACK => return Ok(replies),
            wire::rep::INFO => replies.push(data),
            // Without power no client is admitted, which breaks no rule.
            error => return Err(Error::other(format!("the server refuses: {error:#x}"))),
        }
    }
}

async fn sender(mut stream: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(bytes) = queue.recv().await {
        if stream.write_all(&bytes).await.is_err() {
            break; // The receiver sees it, too.
        }
    }
}

async fn receiver(stream: OwnedReadHalf, shared: Rc<Shared>, told: Complaints) {
    let mut stream = BufReader::with_capacity(1 << 18, stream);
    loop {
        let Err(error) = reply(&mut stream, &shared).await else { continue };
        if error.kind() == ErrorKind::InvalidData {
            told.borrow_mut().push(format!("the server breaks the protocol: {error}"));
        }
        shared.gone.set(true);
        shared.waiting.take();
        return;
    }
}

async fn reply(stream: &mut BufReader<OwnedReadHalf>, shared: &Shared) -> io::Result<()> {
    let take = |cookie: u64| {
        let known = shared.waiting.borrow_mut().remove(&cookie);
        known.ok_or(Error::new(ErrorKind::InvalidData, "nobody asked for this"))
    };
    match stream.read_u32().await? {
        wire::SIMPLE_REPLY_MAGIC => {
            let error = stream.read_u32().await?;
            let mut waiting = take(stream.read_u64().await?)?;
            waiting.error = error;
            if error == 0 {
                stream.read_exact(&mut waiting.data).await?;
                waiting.come = waiting.data.len();
            }
            waiting.end()
        }
        wire::STRUCTURED_REPLY_MAGIC => {
            let (flags, kind) = (stream.read_u16().await?, stream.read_u16().await?);
            let cookie = stream.read_u64().await?;
            let mut payload = vec![0; stream.read_u32().await? as usize];
            stream.read_exact(&mut payload).await?;
            let mut waiting = take(cookie)?;
            chunk(kind, &payload, &mut waiting)?;
            if flags & wire::chunk::DONE != 0 {
                return waiting.end();
            }
            shared.waiting.borrow_mut().insert(cookie, waiting);
            Ok(())
        }
        _ => ensure(false, "that is no reply"),
    }
}

fn chunk(kind: u16, payload: &[u8], waiting: &mut Waiting) -> io::Result<()> {
    match kind {
        wire::chunk::NONE => ensure(payload.is_empty(), "nothing has no data"),
        wire::chunk::OFFSET_DATA => {
            let (at, data) = payload.split_first_chunk::<8>().unwrap_or((&[0xff; 8], &[]));
            let at = u64::from_be_bytes(*at).checked_sub(waiting.at).unwrap_or(u64::MAX) as usize;
            let room = at.checked_add(data.len()).and_then(|end| waiting.data.get_mut(at..end));
            ensure(room.is_some(), "data that nobody asked for")?;
            room.into_iter().for_each(|room| room.copy_from_slice(data));
            waiting.come += data.len();
            Ok(())
        }
        wire::chunk::ERROR => {
            let code = payload.first_chunk::<4>();
            waiting.error = code.map_or(0, |code| u32::from_be_bytes(*code));
            ensure(waiting.error != 0, "an error says which")
        }
        _ => ensure(false, "a chunk of an unknown kind"),
    }
}
