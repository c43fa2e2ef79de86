//! A lying server: a layer between server and oracle breaks the server's promises.

use super::device::{Blank, Exported, SECTOR};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, IoError,
};

/// How the server breaks its promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    /// It keeps them.
    Nothing,
    /// Every eighth forced write is acknowledged, but not carried out.
    ForcedWritesAreDropped,
    /// A forced write is carried out as an ordinary write.
    ForcedWritesAreNotForced,
    /// A flush is acknowledged, but not carried out.
    FlushesAreSkipped,
    /// Every eighth read sees the first version of its first sector.
    OldVersionsAreRead,
    /// Half of each of a few writes under way at the cut is carried out.
    WritesAreTorn,
    /// Trimmed data is there again after a restart.
    TrimsComeBack,
}

/// The most torn writes in one power cycle.
const TORN: u32 = 8;

/// The state of a power cycle that the lies need.
#[derive(Default)]
struct Memory {
    turn: Cell<u64>,
    torn: Cell<u32>,
    /// The first version of each sector.
    first: RefCell<BTreeMap<u64, Vec<u8>>>,
    trimmed: RefCell<Vec<(Block, Vec<u8>)>>,
}

/// An export of a lying server.
#[derive(Clone)]
pub struct Liar {
    export: Rc<Exported>,
    lie: Lie,
    memory: Rc<Memory>,
}

impl Liar {
    pub fn new(export: Rc<Exported>, lie: Lie) -> Liar {
        Liar { export, lie, memory: Rc::default() }
    }

    fn eighth(&self) -> bool {
        let turn = self.memory.turn.get();
        self.memory.turn.set(turn + 1);
        turn % 8 == 7
    }

    /// Makes a range read as zeros.
    pub async fn blank(&self, how: Blank, range: Blocks, want: Durability) -> Result<(), IoError> {
        if self.lie == Lie::TrimsComeBack && how == Blank::Trim {
            let mut was = vec![0; range.count as usize * SECTOR as usize];
            self.export.read(range.start, DataMut::Bytes(&mut was)).await?;
            self.export.blank(how, range, want).await?;
            self.memory.trimmed.borrow_mut().push((range.start, was));
            return Ok(());
        }
        self.export.blank(how, range, want).await
    }

    /// The power is back: `export` is the new connection to the drive.
    pub async fn restart(&self, export: &Exported) -> Result<(), IoError> {
        let trimmed = self.memory.trimmed.take();
        for (at, was) in trimmed {
            export.write(at, Data::Bytes(&was), Durability::Fua).await?;
        }
        Ok(())
    }

    /// Carries out half of the write, without an answer.
    async fn tear(&self, at: Block, data: &[u8]) -> Result<(), IoError> {
        let half = data.len() / 2 / SECTOR as usize * SECTOR as usize;
        self.export.write(at, Data::Bytes(&data[..half]), Durability::Fua).await?;
        while !self.export.is_outage() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Err(IoError::PowerLost)
    }
}

impl BlockDevice for Liar {
    fn caps(&self) -> &Caps {
        self.export.caps()
    }

    fn is_alive(&self) -> bool {
        self.export.is_alive()
    }

    async fn read(&self, at: Block, mut buf: DataMut<'_>) -> Result<(), IoError> {
        self.export.read(at, buf.reborrow()).await?;
        if let (Lie::OldVersionsAreRead, DataMut::Bytes(bytes), true) =
            (self.lie, buf, self.eighth())
            && let Some(first) = self.memory.first.borrow().get(&at.0)
        {
            bytes[..first.len()].copy_from_slice(first);
        }
        Ok(())
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let Data::Bytes(bytes) = data else { return Err(IoError::Invalid("it has bytes")) };
        let forced = want == Durability::Fua;
        let sector = SECTOR as usize;
        match self.lie {
            Lie::ForcedWritesAreDropped if forced && self.eighth() => return Ok(()),
            Lie::ForcedWritesAreNotForced => {
                return self.export.write(at, data, Durability::Normal).await;
            }
            Lie::OldVersionsAreRead => {
                let mut first = self.memory.first.borrow_mut();
                for (i, one) in bytes.chunks_exact(sector).enumerate() {
                    first.entry(at.0 + i as u64).or_insert_with(|| one.to_vec());
                }
            }
            Lie::WritesAreTorn => {
                let whole = bytes.len() > sector && bytes.len() <= self.caps().atomic_unit as usize;
                let torn = self.memory.torn.get();
                if whole && torn < TORN && self.eighth() {
                    self.memory.torn.set(torn + 1);
                    return self.tear(at, bytes).await;
                }
            }
            _ => {}
        }
        self.export.write(at, data, want).await
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        self.export.write_atomic(group).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        if self.lie == Lie::FlushesAreSkipped { Ok(()) } else { self.export.flush().await }
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.blank(Blank::Trim, range, Durability::Normal).await
    }
}
