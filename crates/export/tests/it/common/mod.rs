//! A simple client of the protocol, in the same runtime as the server.

use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
use tantalum_export::nbd::{
    Event, Export, Options, PipeEnd, Request, Server, Stream, Tls, Volume, pipe, wire,
};
use tantalum_rt::{Nanos, Rt};

/// A RAM device of this many blocks of 4 KiB, whose commands end in any order.
pub fn ram(rt: &Rt, blocks: u64) -> RamDevice {
    let mut options = RamOptions::new(Caps::power_safe(blocks, Payload::Bytes));
    options.command = Nanos(1_000);
    options.jitter = Nanos(20_000);
    options.flush = Nanos(5_000);
    RamDevice::new(rt, options)
}

/// A server of two exports, "one" and "two", each on a RAM device of its own, and "look", which is
/// the first device read-only.
pub fn serve(rt: &Rt, blocks: u64, options: Options) -> (Server<RamDevice>, [RamDevice; 2]) {
    serve_with(rt, blocks, options, |_| {})
}

/// The same; `tell` gets the events.
pub fn serve_with(
    rt: &Rt,
    blocks: u64,
    options: Options,
    tell: impl Fn(&Event) + 'static,
) -> (Server<RamDevice>, [RamDevice; 2]) {
    serve_tls(rt, blocks, options, None, tell)
}

/// The same, with TLS or without.
pub fn serve_tls(
    rt: &Rt,
    blocks: u64,
    options: Options,
    tls: Option<Tls>,
    tell: impl Fn(&Event) + 'static,
) -> (Server<RamDevice>, [RamDevice; 2]) {
    let devices = [ram(rt, blocks), ram(rt, blocks)];
    let [one, two] = [Volume::new(rt, devices[0].clone()), Volume::new(rt, devices[1].clone())];
    let exports = vec![
        Export::new("one", &one).described("the first"),
        Export::new("two", &two),
        Export::new("look", &one).read_only(),
    ];
    (Server::with_tls(rt, exports, options, tls, tell).expect("a server"), devices)
}

/// What a client has learnt about an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    pub size: u64,
    pub flags: u16,
    pub blocks: Option<[u32; 3]>,
    pub name: Option<String>,
    pub description: Option<String>,
}

/// A reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    pub data: Vec<u8>,
}

/// A part of a structured reply.
struct Chunk {
    done: bool,
    kind: u16,
    cookie: u64,
    payload: Vec<u8>,
}

/// The client.
pub struct Client {
    stream: Rc<PipeEnd>,
    got: Vec<u8>,
    structured: bool,
    reads: BTreeMap<u64, u32>,
    /// Where reads with structured replies begin.
    first: BTreeMap<u64, u64>,
    next: u64,
}

impl Client {
    /// Connects, without sending anything.
    pub fn connect(rt: &Rt, server: &Server<RamDevice>) -> Client {
        let (ours, theirs) = pipe(rt, 1 << 16);
        server.accept(theirs, "a pipe");
        Client::over(ours)
    }

    /// A client on this stream.
    pub fn over(stream: PipeEnd) -> Client {
        let (got, reads) = (Vec::new(), BTreeMap::new());
        let first = BTreeMap::new();
        Client { stream: Rc::new(stream), got, structured: false, reads, first, next: 1 }
    }

    /// Connects and chooses an export.
    pub async fn open(rt: &Rt, server: &Server<RamDevice>, name: &str, structured: bool) -> Client {
        let mut client = Client::connect(rt, server);
        client.greet(3).await.expect("a greeting");
        if structured {
            client.structured().await;
        }
        client.go(name).await.expect("the export");
        client
    }

    pub async fn structured(&mut self) {
        let replies = self.option(wire::opt::STRUCTURED_REPLY, &[]).await;
        assert_eq!(replies, Some(vec![(wire::rep::ACK, vec![])]));
        self.structured = true;
    }

    /// The next bytes; `None` if the server disconnected before.
    pub async fn exact(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.got.len() < count {
            let (received, buf) = self.stream.recv(vec![0; 1 << 16], 0).await;
            match received.expect("a pipe does not fail") {
                0 => return None,
                n => self.got.extend_from_slice(&buf[..n]),
            }
        }
        Some(self.got.drain(..count).collect())
    }

    /// Whether the server disconnected without sending anything more.
    pub async fn is_left(&mut self) -> bool {
        self.exact(1).await.is_none()
    }

    pub async fn say(&self, bytes: &[u8]) {
        // The server may be gone. The next wait for a reply shows that.
        let _ = self.stream.send(bytes.to_vec()).await;
    }

    /// Disconnects without notice.
    pub fn hang_up(&self) {
        self.stream.shutdown();
    }

    pub async fn greet(&mut self, flags: u32) -> Option<()> {
        let greeting = self.exact(18).await?;
        assert_eq!(greeting[..8], wire::INIT_MAGIC.to_be_bytes());
        assert_eq!(greeting[8..16], wire::OPTION_MAGIC.to_be_bytes());
        assert_eq!(greeting[16..], [0, 3]);
        self.say(&flags.to_be_bytes()).await;
        Some(())
    }

    pub async fn say_option(&self, option: u32, data: &[u8]) {
        let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&option.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.say(&bytes).await;
    }

    /// Sends an option. Returns all replies; `None` if the server disconnected.
    pub async fn option(&mut self, option: u32, data: &[u8]) -> Option<Vec<(u32, Vec<u8>)>> {
        self.say_option(option, data).await;
        let mut replies = Vec::new();
        loop {
            let head = self.exact(20).await?;
            assert_eq!(head[..8], wire::OPTION_REPLY_MAGIC.to_be_bytes());
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
            assert_eq!(word(8), option);
            let kind = word(12);
            let data = self.exact(word(16) as usize).await?;
            replies.push((kind, data));
            if kind == wire::rep::ACK || kind & 1 << 31 != 0 {
                return Some(replies);
            }
        }
    }

    /// The data of GO and INFO.
    pub fn ask_for(name: &str, kinds: &[u16]) -> Vec<u8> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
        data.extend(kinds.iter().flat_map(|k| k.to_be_bytes()));
        data
    }

    pub async fn learn(&mut self, option: u32, name: &str) -> Result<Learnt, u32> {
        let data = Client::ask_for(name, &[1, 2, 3]);
        let replies = self.option(option, &data).await.ok_or(0u32)?;
        let mut learnt = Learnt::default();
        for (kind, data) in replies {
            match kind {
                wire::rep::ACK => return Ok(learnt),
                wire::rep::INFO => {
                    let (head, rest) = data.split_at(2);
                    let text = || String::from_utf8(rest.to_vec()).ok();
                    match u16::from_be_bytes(head.try_into().expect("two")) {
                        wire::info::EXPORT => {
                            learnt.size = u64::from_be_bytes(rest[..8].try_into().expect("eight"));
                            learnt.flags = u16::from_be_bytes(rest[8..].try_into().expect("two"));
                        }
                        wire::info::NAME => learnt.name = text(),
                        wire::info::DESCRIPTION => learnt.description = text(),
                        wire::info::BLOCK_SIZE => {
                            let size = |i: usize| {
                                u32::from_be_bytes(rest[4 * i..][..4].try_into().expect("four"))
                            };
                            learnt.blocks = Some([size(0), size(1), size(2)]);
                        }
                        other => panic!("information of kind {other}"),
                    }
                }
                error => return Err(error),
            }
        }
        Err(0)
    }

    pub async fn go(&mut self, name: &str) -> Result<Learnt, u32> {
        self.learn(wire::opt::GO, name).await
    }

    /// Sends a request. Returns its cookie.
    pub async fn ask(&mut self, kind: u16, flags: u16, at: u64, length: u32, data: &[u8]) -> u64 {
        let cookie = self.next;
        self.next += 1;
        let request = Request { flags, kind, cookie, offset: at, length };
        if kind == wire::cmd::READ {
            self.reads.insert(cookie, length);
        }
        let mut bytes = request.encode().to_vec();
        bytes.extend_from_slice(data);
        self.say(&bytes).await;
        cookie
    }

    /// The next reply; `None` if the server disconnected.
    pub async fn reply(&mut self) -> Option<Reply> {
        let magic = self.exact(4).await?;
        if magic == wire::SIMPLE_REPLY_MAGIC.to_be_bytes() {
            let rest = self.exact(12).await?;
            let error = u32::from_be_bytes(rest[..4].try_into().expect("four"));
            let cookie = u64::from_be_bytes(rest[4..].try_into().expect("eight"));
            let mut data = Vec::new();
            if let Some(length) = self.reads.remove(&cookie) {
                assert!(!self.structured, "a read has a structured reply");
                if error == 0 {
                    data = self.exact(length as usize).await?;
                }
            }
            return Some(Reply { cookie, error, data });
        }
        assert_eq!(magic, wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
        assert!(self.structured, "structured replies were not asked for");
        let mut chunk = self.chunk().await?;
        let read = self.reads.remove(&chunk.cookie);
        // A read may be answered in several chunks.
        let mut data = Vec::new();
        loop {
            match chunk.kind {
                wire::chunk::NONE => {}
                wire::chunk::OFFSET_DATA => {
                    let at = u64::from_be_bytes(chunk.payload[..8].try_into().expect("eight"));
                    let first = *self.first.entry(chunk.cookie).or_insert(at);
                    assert_eq!(at, first + data.len() as u64, "parts come in their order");
                    data.extend_from_slice(&chunk.payload[8..]);
                    if chunk.done {
                        assert_eq!(read.map(|n| n as usize), Some(data.len()));
                    }
                }
                wire::chunk::BLOCK_STATUS => data = chunk.payload,
                wire::chunk::ERROR => {
                    assert!(chunk.done);
                    let message = u16::from_be_bytes([chunk.payload[4], chunk.payload[5]]);
                    assert_eq!(chunk.payload.len(), 6 + usize::from(message));
                    let error = u32::from_be_bytes(chunk.payload[..4].try_into().expect("four"));
                    let data = chunk.payload[6..].to_vec();
                    return Some(Reply { cookie: chunk.cookie, error, data });
                }
                other => panic!("a chunk of type {other}"),
            }
            if chunk.done {
                self.first.remove(&chunk.cookie);
                return Some(Reply { cookie: chunk.cookie, error: 0, data });
            }
            let magic = self.exact(4).await?;
            assert_eq!(magic, wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
            let next = self.chunk().await?;
            assert_eq!(next.cookie, chunk.cookie, "this client asks for one thing at a time");
            chunk = next;
        }
    }

    async fn chunk(&mut self) -> Option<Chunk> {
        let rest = self.exact(16).await?;
        let half = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
        assert!(half(0) & !wire::chunk::DONE == 0);
        let cookie = u64::from_be_bytes(rest[4..12].try_into().expect("eight"));
        let length = u32::from_be_bytes(rest[12..].try_into().expect("four"));
        let payload = self.exact(length as usize).await?;
        Some(Chunk { done: half(0) == wire::chunk::DONE, kind: half(2), cookie, payload })
    }

    /// Sends a request and waits for its reply, which must be the next one.
    pub async fn call(
        &mut self,
        kind: u16,
        flags: u16,
        at: u64,
        length: u32,
        data: &[u8],
    ) -> Result<Vec<u8>, u32> {
        let cookie = self.ask(kind, flags, at, length, data).await;
        let reply = self.reply().await.ok_or(0u32)?;
        assert_eq!(reply.cookie, cookie);
        if reply.error == 0 { Ok(reply.data) } else { Err(reply.error) }
    }

    pub async fn read(&mut self, at: u64, length: u32) -> Result<Vec<u8>, u32> {
        self.call(wire::cmd::READ, 0, at, length, &[]).await
    }

    pub async fn write(&mut self, at: u64, data: &[u8]) -> Result<Vec<u8>, u32> {
        self.call(wire::cmd::WRITE, 0, at, data.len() as u32, data).await
    }
}
