//! An export as a device of sectors, for the oracle.
//!
//! 1. Sectors have 512 bytes although the drive has blocks of 4 KiB: writes of parts of blocks are
//!    judged, too.
//! 2. The drive may fail commands only after the outage began. Other failures are reported.

use super::client::{Complaints, Connection, Trouble};
use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, IoError,
};
use tantalum_export::nbd::wire::{cmd, cmd_flag};

/// Bytes of a sector.
pub const SECTOR: u32 = 512;
/// Sectors in a block of the drive.
pub const PER_BLOCK: u64 = 8;

/// How a range is made to read as zeros.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blank {
    /// Whole blocks are discarded, and parts of blocks stay.
    Trim,
    /// All of it is zeroed, and its space is freed.
    Zero,
    /// All of it is zeroed, and its space stays allocated.
    ZeroAndKeep,
}

/// An export, over several connections.
pub struct Exported {
    connections: Vec<Connection>,
    caps: Caps,
    turn: Cell<usize>,
    outage: Cell<bool>,
    complaints: Complaints,
}

impl Exported {
    /// Connects; every other connection has structured replies.
    pub fn connect(
        socket: &Path,
        caps: &Caps,
        complaints: &Complaints,
    ) -> io::Result<Rc<Exported>> {
        let open = |i: usize| Connection::open(socket, i % 2 == 1, complaints);
        let connections = (0..4).map(open).collect::<io::Result<Vec<_>>>()?;
        let size = caps.bytes();
        assert!(connections.iter().all(|c| c.size == size), "the export has not {size} bytes");
        let (turn, outage) = Default::default();
        let complaints = complaints.clone();
        Ok(Rc::new(Exported { connections, caps: *caps, turn, outage, complaints }))
    }

    /// Allows commands to fail from now on.
    pub fn begin_outage(&self) {
        self.outage.set(true);
    }

    /// Whether commands may fail.
    pub fn is_outage(&self) -> bool {
        self.outage.get()
    }

    async fn ask(
        &self,
        kind: (u16, u16),
        sectors: Blocks,
        payload: &[u8],
    ) -> Result<Vec<u8>, IoError> {
        let turn = self.turn.get();
        self.turn.set(turn + 1);
        let connection = &self.connections[turn % self.connections.len()];
        let (at, length) = (sectors.start.0 * u64::from(SECTOR), sectors.count as u32 * SECTOR);
        let trouble = match connection.ask(kind, at, length, payload).await {
            Ok(data) => return Ok(data),
            Err(trouble) => trouble,
        };
        // EIO, or ESHUTDOWN from a server that ends.
        let fits = matches!(trouble, Trouble::Gone | Trouble::Error(5 | 108));
        if !(fits && self.outage.get()) {
            let told = format!("request {kind:?} of {sectors:?} failed: {trouble:?}");
            self.complaints.borrow_mut().push(told);
        }
        Err(IoError::PowerLost)
    }

    /// Makes a range read as zeros.
    pub async fn blank(&self, how: Blank, range: Blocks, want: Durability) -> Result<(), IoError> {
        let (kind, flags) = match how {
            Blank::Trim => (cmd::TRIM, 0),
            Blank::Zero => (cmd::WRITE_ZEROES, 0),
            Blank::ZeroAndKeep => (cmd::WRITE_ZEROES, cmd_flag::NO_HOLE),
        };
        self.ask((kind, flags | fua(want)), range, &[]).await.map(drop)
    }
}

fn fua(want: Durability) -> u16 {
    if want == Durability::Fua { cmd_flag::FUA } else { 0 }
}

impl BlockDevice for Exported {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn is_alive(&self) -> bool {
        !self.outage.get()
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let DataMut::Bytes(buf) = buf else { return Err(IoError::Invalid("it has bytes")) };
        let range = Blocks { start: at, count: buf.len() as u64 / u64::from(SECTOR) };
        buf.copy_from_slice(&self.ask((cmd::READ, 0), range, &[]).await?);
        Ok(())
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let Data::Bytes(data) = data else { return Err(IoError::Invalid("it has bytes")) };
        let range = Blocks { start: at, count: data.len() as u64 / u64::from(SECTOR) };
        self.ask((cmd::WRITE, fua(want)), range, data).await.map(drop)
    }

    async fn write_atomic(&self, _: &[Extent<'_>]) -> Result<(), AtomicError> {
        Err(AtomicError::Unsupported)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let nowhere = Blocks { start: Block(0), count: 0 };
        self.ask((cmd::FLUSH, 0), nowhere, &[]).await.map(drop)
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.blank(Blank::Trim, range, Durability::Normal).await
    }
}
