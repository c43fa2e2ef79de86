//! RAID-0: one device striped over several.
//!
//! 1. Block `b` is on member `b / chunk mod members`: a command is split into one command
//!    for each run of blocks on a member, all at work at the same time.
//! 2. What the array promises is the least that its members promise. Across members there
//!    is no order and no atomicity: only within a chunk is a write as atomic as on the
//!    member.
//! 3. A flush is a flush of every member.
//! 4. An error names a block of the array, not of the member that reported it.
//! 5. After a durability step failed on one member, the array refuses all changes until the next
//!    power cycle, though the other members would take them (contract, 6).

use crate::planted::planted;
use crate::{
    Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent,
    IoError, PowerCycle,
};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_rt::join_all;

/// An array of devices, or of boxes, without redundancy.
///
/// ```
/// use tantalum_device::{
///     Block, BlockDevice, Caps, Data, DataMut, Durability, IoError, Payload, PowerCycle, Raid0,
///     RamDevice, RamOptions,
/// };
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let member = || RamDevice::new(&rt, RamOptions::new(Caps::power_safe(16, Payload::Stamps)));
/// let members = vec![member().device(), member().device()];
/// let array = Raid0::new(members.clone(), 4)?; // chunks of four blocks
/// assert_eq!(array.caps().blocks, 32);
/// let read = runtime.block_on(async move {
///     array.write(Block(3), Data::Stamps(&[7, 8]), Durability::Normal).await?;
///     let mut block = [0];
///     members[1].read(Block(0), DataMut::Stamps(&mut block)).await?;
///     Ok::<_, IoError>(block)
/// });
/// assert_eq!(read.unwrap(), Ok([8])); // the second chunk is on the second member
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct Raid0<D> {
    members: Vec<D>,
    chunk: u64,
    caps: Caps,
    /// A durability step failed (5).
    poisoned: Rc<Cell<bool>>,
}

/// A run of blocks of a command: on which member, where there, and which blocks of the
/// command.
struct Part {
    member: usize,
    at: Block,
    first: usize,
    count: usize,
}

impl<D> Raid0<D> {
    /// Over these members, whose promises are `caps`, in stripes of `chunk` blocks.
    fn over(members: Vec<D>, caps: &[Caps], chunk: u64) -> Result<Raid0<D>, String> {
        let Some(first) = caps.first() else {
            return Err("raid-0: an array has at least one member".into());
        };
        if chunk == 0 {
            return Err("raid-0: a chunk has at least one block".into());
        }
        if caps.iter().any(|c| c.block_size != first.block_size || c.payload != first.payload) {
            return Err("raid-0: the members differ in block size or payload".into());
        }
        if members.len() > 1 && caps.iter().any(|c| c.thin) {
            return Err(
                "raid-0: a member that is thinly provisioned might refuse a part of a write".into(),
            );
        }
        let blocks = caps.iter().map(|c| c.blocks).min().unwrap_or(0) / chunk * chunk;
        let chunk_bytes = chunk * u64::from(first.block_size);
        let unit = caps.iter().map(|c| c.atomic_unit).min().unwrap_or(first.block_size);
        let caps = Caps {
            blocks: blocks * members.len() as u64,
            ack: caps.iter().map(|c| c.ack).min().unwrap_or(first.ack),
            flush: caps.iter().all(|c| c.flush),
            ordered: members.len() == 1 && first.ordered,
            atomic_unit: match members.len() {
                1 => unit,
                // A write that begins anywhere in a chunk may go on in the next one.
                _ => unit.min(first.block_size).min(u32::try_from(chunk_bytes).unwrap_or(u32::MAX)),
            },
            atomic_group: if members.len() == 1 { first.atomic_group } else { None },
            ..*first
        };
        Ok(Raid0 { members, chunk, caps, poisoned: Rc::default() })
    }

    fn parts(&self, at: Block, count: u64) -> Vec<Part> {
        let members = self.members.len() as u64;
        let mut parts = Vec::new();
        let mut done = 0;
        while done < count {
            let block = at.0 + done;
            let (stripe, within) = (block / self.chunk, block % self.chunk);
            let run = (self.chunk - within).min(count - done);
            parts.push(Part {
                member: (stripe % members) as usize,
                at: Block(stripe / members * self.chunk + within),
                first: done as usize,
                count: run as usize,
            });
            done += run;
        }
        parts
    }

    fn check_open(&self) -> Result<(), IoError> {
        if self.poisoned.get() { Err(IoError::Poisoned) } else { Ok(()) }
    }

    /// 5: notes how a change ended.
    fn note(&self, result: Result<(), IoError>, is_durability: bool) -> Result<(), IoError> {
        match result {
            Err(IoError::Poisoned) => self.poisoned.set(true),
            Err(IoError::Failed(_)) if is_durability => self.poisoned.set(true),
            _ => {}
        }
        result
    }

    /// 4: an error of a member.
    fn own(&self, member: usize, error: IoError) -> IoError {
        match error {
            IoError::Uncorrectable(Block(below)) => {
                let (stripe, within) = (below / self.chunk, below % self.chunk);
                let chunks = stripe * self.members.len() as u64 + member as u64;
                IoError::Uncorrectable(Block(chunks * self.chunk + within))
            }
            other => other,
        }
    }
}

impl<D: BlockDevice> Raid0<D> {
    /// An array of devices.
    ///
    /// # Errors
    /// What is wrong with members or chunk.
    pub fn new(members: Vec<D>, chunk: u64) -> Result<Raid0<D>, String> {
        let caps: Vec<Caps> = members.iter().map(|m| *m.caps()).collect();
        Raid0::over(members, &caps, chunk)
    }
}

fn all(results: Vec<Result<(), IoError>>) -> Result<(), IoError> {
    results.into_iter().collect()
}

impl<D: BlockDevice> BlockDevice for Raid0<D> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn is_alive(&self) -> bool {
        self.members.iter().all(|m| m.is_alive())
    }

    fn blocks_its_thread(&self) -> bool {
        self.members.iter().any(|m| m.blocks_its_thread())
    }

    async fn read(&self, at: Block, mut buf: DataMut<'_>) -> Result<(), IoError> {
        let size = self.caps.block_size;
        let count = self.caps.check(at, buf.kind(), buf.blocks(size))?;
        let mut rest = buf.reborrow();
        let mut reads = Vec::new();
        for part in self.parts(at, count) {
            let (room, behind) = rest.split_at(part.count, size);
            rest = behind;
            let read = self.members[part.member].read(part.at, room);
            reads.push(async move { read.await.map_err(|e| self.own(part.member, e)) });
        }
        all(join_all(reads).await)
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let size = self.caps.block_size;
        let count = self.caps.check(at, data.kind(), data.blocks(size))?;
        self.check_open()?;
        let writes = self.parts(at, count).into_iter().map(|part| {
            let some = data.slice(part.first..part.first + part.count, size);
            let write = self.members[part.member].write(part.at, some, want);
            async move { write.await.map_err(|e| self.own(part.member, e)) }
        });
        self.note(all(join_all(writes.collect()).await), want == Durability::Fua)
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        match self.members.as_slice() {
            [only] => {
                self.check_open()?;
                only.write_atomic(group).await
            }
            _ => Err(AtomicError::Unsupported),
        }
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.check_open()?;
        if planted!(Raid0FlushesOne) {
            return self.members[0].flush().await;
        }
        self.note(all(join_all(self.members.iter().map(|m| m.flush()).collect()).await), true)
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.caps.check_range(range)?;
        self.check_open()?;
        let parts = self.parts(range.start, range.count).into_iter().map(|part| {
            let range = Blocks { start: part.at, count: part.count as u64 };
            self.members[part.member].discard(range)
        });
        self.note(all(join_all(parts.collect()).await), false)
    }

    /// Of the blocks in the first chunk.
    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        self.caps.check_range(range)?;
        let within = range.start.0 % self.chunk;
        let here = (self.chunk - within).min(range.count);
        let Some(part) = self.parts(range.start, here).into_iter().next() else {
            return Ok(Allocation { blocks: range.count, hole: false });
        };
        let range = Blocks { start: part.at, count: here };
        let told = self.members[part.member].allocation(range).await?;
        Ok(Allocation { blocks: told.blocks.clamp(1, here), ..told })
    }
}

/// Boxes that share one plug.
#[derive(Clone, Debug)]
pub struct RaidBox<B> {
    members: Vec<B>,
    chunk: u64,
    poisoned: Rc<Cell<bool>>,
}

impl<B> RaidBox<B> {
    /// The boxes, each of whose copies `copy` makes, in stripes of the same size; `None` as soon
    /// as it makes none.
    #[must_use]
    pub fn try_map<C>(&self, copy: impl Fn(&B) -> Option<C>) -> Option<RaidBox<C>> {
        let members: Option<Vec<C>> = self.members.iter().map(copy).collect();
        Some(RaidBox { members: members?, chunk: self.chunk, poisoned: Rc::default() })
    }

    /// The boxes.
    pub fn members(&self) -> &[B] {
        &self.members
    }
}

impl<B: PowerCycle> RaidBox<B> {
    /// Over these boxes, in stripes of `chunk` blocks.
    ///
    /// # Errors
    /// What is wrong with members or chunk.
    pub fn new(members: Vec<B>, chunk: u64) -> Result<RaidBox<B>, String> {
        let devices: Vec<B::Device> = members.iter().map(|m| m.device()).collect();
        Raid0::new(devices, chunk)?;
        Ok(RaidBox { members, chunk, poisoned: Rc::default() })
    }
}

impl<B: PowerCycle> PowerCycle for RaidBox<B> {
    type Device = Raid0<B::Device>;

    fn device(&self) -> Self::Device {
        let devices = self.members.iter().map(|m| m.device()).collect();
        let array = Raid0::new(devices, self.chunk).expect("checked when the array was made");
        Raid0 { poisoned: self.poisoned.clone(), ..array }
    }

    fn cut(&self) {
        self.members.iter().for_each(|m| m.cut());
    }

    async fn off(&self) {
        join_all(self.members.iter().map(|m| m.off()).collect()).await;
    }

    async fn power_on(&self) -> Result<(), IoError> {
        all(join_all(self.members.iter().map(|m| m.power_on()).collect()).await)?;
        self.poisoned.set(false);
        Ok(())
    }
}
