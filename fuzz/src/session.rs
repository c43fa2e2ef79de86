//! A client that sends whatever it likes, against a server with a second export and a read-only
//! one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, IoError, OwnedData, Payload,
    PowerCycle, RamDevice, RamOptions, forward,
};
use tantalum_export::nbd::{Export, Limits, Options, Server, Stream, Volume, pipe};
use tantalum_rt::{First, Nanos, Rt, Runtime, first};

/// Blocks of each export.
const BLOCKS: u64 = 64;

/// Bytes and requests that one client may have in flight.
pub const LIMITS: Limits = Limits {
    clients: 4,
    requests: 8,
    bytes: 256 << 10,
    payload: 128 << 10,
    options: 16,
    handshake: Nanos::from_secs(1),
    memory: 8 << 20,
};

/// Counts what is asked of a device at a time.
#[derive(Clone)]
struct Counted {
    device: RamDevice,
    now: Rc<Cell<(u32, u64)>>,
    most: Rc<Cell<(u32, u64)>>,
    writes: Rc<Cell<u64>>,
}

struct Under(Rc<Cell<(u32, u64)>>, u64);

impl Drop for Under {
    fn drop(&mut self) {
        let (requests, bytes) = self.0.get();
        self.0.set((requests - 1, bytes - self.1));
    }
}

impl Counted {
    fn new(rt: &Rt) -> Counted {
        let mut options = RamOptions::new(Caps::power_safe(BLOCKS, Payload::Bytes));
        options.command = Nanos(500);
        options.jitter = Nanos(5_000);
        let device = RamDevice::new(rt, options);
        Counted { device, now: Rc::default(), most: Rc::default(), writes: Rc::default() }
    }

    fn under(&self, bytes: usize) -> Under {
        let (requests, all) = self.now.get();
        let now = (requests + 1, all + bytes as u64);
        self.now.set(now);
        let most = self.most.get();
        self.most.set((most.0.max(now.0), most.1.max(now.1)));
        Under(self.now.clone(), bytes as u64)
    }
}

fn length(data: &Data<'_>) -> usize {
    match data {
        Data::Bytes(b) => b.len(),
        Data::Stamps(s) => s.len() * 8,
    }
}

impl BlockDevice for Counted {
    forward!(device: caps, is_alive, write_atomic);

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let bytes = buf.blocks(4096).unwrap_or(0) as usize * 4096;
        let _under = self.under(bytes);
        self.device.read(at, buf).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let _under = self.under(length(&data));
        self.writes.set(self.writes.get() + 1);
        self.device.write(at, data, want).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        let _under = self.under(0);
        self.device.flush().await
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let _under = self.under(0);
        self.writes.set(self.writes.get() + 1);
        self.device.discard(range).await
    }
}

impl PowerCycle for Counted {
    type Device = Counted;

    forward!(device: cut, off, power_on);

    fn device(&self) -> Counted {
        Counted { device: self.device.device(), ..self.clone() }
    }
}

/// Lets a client send `input`, in pieces whose lengths follow from it, and maybe take no
/// answers. Asserts that the server takes what another client asks afterwards, that what the
/// client did not choose is as it was, and that no more was in flight than the limits say.
pub fn session(input: &[u8]) {
    let Some((&manner, input)) = input.split_first() else { return };
    let mut runtime = Runtime::virtual_time(u64::from(manner));
    let rt = runtime.handle();
    let input = input.to_vec();
    let task = async move {
        let (mine, other) = (Counted::new(&rt), Counted::new(&rt));
        let [first_volume, second] =
            [Volume::new(&rt, mine.clone()), Volume::new(&rt, other.clone())];
        let exports = vec![
            Export::new("a", &first_volume),
            Export::new("b", &second),
            Export::new("r", &second).read_only(),
        ];
        let options = Options { limits: LIMITS, ..Options::default() };
        let chosen = Rc::new(RefCell::new(None));
        let told = chosen.clone();
        let server = Server::new(&rt, exports, options, move |event| {
            if let tantalum_export::nbd::Event::Chose(_, name) = event {
                *told.borrow_mut() = Some(name.clone());
            }
        })
        .expect("a server");
        let (ours, theirs) = pipe(&rt, 4096);
        let ours = Rc::new(ours);
        server.accept(theirs, "the fuzzer");
        if manner & 1 == 0 {
            let answers = ours.clone();
            rt.spawn_background("a client that takes answers", async move {
                let mut buf = vec![0; 4096];
                loop {
                    let (got, back) = answers.recv(buf, 0).await;
                    buf = back;
                    if got.is_ok_and(|n| n == 0) {
                        return;
                    }
                }
            });
        }
        let piece = 1 + usize::from(manner >> 1) * 7;
        for part in input.chunks(piece) {
            let sent = first(ours.send(part.to_vec()), rt.sleep(Nanos::from_secs(2))).await;
            if !matches!(sent, First::A((Ok(()), _))) {
                break;
            }
        }
        rt.sleep(Nanos::from_millis(10)).await;
        if manner & 2 == 0 {
            ours.shutdown();
        }
        rt.sleep(Nanos::from_secs(5)).await;

        let writable = [("a", &mine), ("b", &other)];
        for (name, device) in writable {
            if chosen.borrow().as_deref() != Some(name) {
                assert_eq!(device.writes.get(), 0, "{name} was not chosen, and was written");
            }
            let (requests, bytes) = device.most.get();
            // A part of a block is written as up to two blocks more.
            assert!(requests <= LIMITS.requests + 1, "{requests} requests in flight");
            let most = LIMITS.bytes + u64::from(LIMITS.requests) * 2 * 4096;
            assert!(bytes <= most, "{bytes} bytes in flight");
        }
        if chosen.borrow().as_deref() != Some("b") {
            let mut all = OwnedData::zeros(Payload::Bytes, BLOCKS as usize, 4096);
            let untouched = all.clone();
            other.device().read(Block(0), all.as_mut()).await.expect("it reads");
            assert!(all == untouched, "b was not chosen, and was changed");
        }
        // Who has hung up is gone; who has not may sit there, but not in the way of others.
        if manner & 2 == 0 {
            assert_eq!(server.clients(), 0, "a client that is gone is still there");
        }
        assert!(answers(&rt, &server).await, "the server does not answer any more");
    };
    runtime.block_on(task).expect("the run ends");
}

/// Whether a server still does what it is for.
async fn answers<P: PowerCycle + 'static>(rt: &Rt, server: &Server<P>) -> bool {
    let (ours, theirs) = pipe(rt, 4096);
    server.accept(theirs, "a client with manners");
    let mut hello = 3u32.to_be_bytes().to_vec();
    hello.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\x01r");
    // A read of a block.
    let read =
        tantalum_export::nbd::Request { flags: 0, kind: 0, cookie: 5, offset: 0, length: 4096 };
    hello.extend_from_slice(&read.encode());
    let _ = ours.send(hello).await;
    let mut got = 0;
    let wanted = 18 + 10 + 16 + 4096;
    while got < wanted {
        let (received, _) = ours.recv(vec![0; 8192], 0).await;
        match received {
            Ok(n) if n > 0 => got += n,
            _ => return false,
        }
    }
    got == wanted
}
