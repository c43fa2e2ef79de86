//! Formatting and mounting a device.

use crate::format::{Layout, Place, Reader, open_record, record_bytes, take_change};
use crate::meta::{Inner, Journal, Node, Queue};
use crate::pool::{ChunkSet, Pool};
use crate::state::{HOLE, SnapHeader, State};
use crate::{FilesError, FormatOptions, MountOptions};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Blocks, Data, DataMut, Durability, IoError, Payload};
use tantalum_rt::sync::Mutex;
use tantalum_rt::{Rt, mix64};

/// Blocks of metadata read, or cleared, at once.
const READ_AHEAD: u64 = 32;

pub(crate) async fn format<D: BlockDevice>(
    rt: &Rt,
    device: &D,
    options: &FormatOptions,
) -> Result<(), FilesError> {
    let caps = *device.caps();
    if caps.payload != Payload::Bytes {
        return Err(FilesError::Unsuitable("the device carries stamps, not bytes".to_string()));
    }
    let format_id = mix64(rt.stream("files format").next_u64() ^ rt.now().0);
    let FormatOptions { chunk, directory_bytes, journal_blocks } = *options;
    let layout = Layout::plan(&caps, chunk, directory_bytes, journal_blocks, format_id)?;
    // First clear the superblocks: until the end of this function the device is not formatted.
    let zeros = vec![0; 2 * layout.block_size as usize];
    device.write(Block(0), Data::Bytes(&zeros), Durability::Normal).await?;
    device.flush().await?;
    device.discard(Blocks { start: Block(2), count: layout.blocks - 2 }).await?;
    if caps.thin {
        // Write all blocks of metadata now, so that they have room permanently.
        let mut at = 2;
        while at < layout.data_start {
            let count = READ_AHEAD.min(layout.data_start - at);
            let zeros = vec![0; (count * u64::from(layout.block_size)) as usize];
            device.write(Block(at), Data::Bytes(&zeros), Durability::Normal).await?;
            at += count;
        }
    }
    let mut snapshot = Vec::new();
    State::default().encode(&mut snapshot, format_id, 1);
    snapshot.resize(snapshot.len().next_multiple_of(layout.block_size as usize), 0);
    device.write(layout.snapshot_at(0), Data::Bytes(&snapshot), Durability::Normal).await?;
    device.flush().await?;
    let block = layout.encode();
    device.write(Block(0), Data::Bytes(&block), Durability::Normal).await?;
    device.write(Block(1), Data::Bytes(&block), Durability::Normal).await?;
    device.flush().await?;
    Ok(())
}

/// Finds the metadata, and begins a new epoch.
pub(crate) async fn mount<D: BlockDevice>(
    rt: &Rt,
    device: D,
    options: &MountOptions,
) -> Result<Inner<D>, FilesError> {
    if device.caps().payload != Payload::Bytes {
        return Err(FilesError::Unsuitable("the device carries stamps, not bytes".to_string()));
    }
    let layout = find_layout(&device).await?;
    layout.check(device.caps())?;
    let found = find_snapshot(&device, &layout).await?;
    let Found { region, epoch, mut state } = found;
    replay(&device, &layout, region, epoch, &mut state).await?;
    state.orphans.clear();
    let used = used_chunks(&state, &layout)?;
    let nodes: BTreeMap<u64, Rc<Node>> = state
        .inodes
        .iter()
        .map(|(&ino, inode)| {
            // A write after the recorded end may have survived although its record did not.
            let stale = inode.size % layout.chunk_bytes() != 0;
            (ino, Rc::new(Node::new(rt, ino, inode.size, stale)))
        })
        .collect();
    let inner = Inner {
        pool: RefCell::new(Pool::new(layout.chunks, &used)),
        device,
        layout,
        barriers: options.barriers,
        state: RefCell::new(state),
        nodes: RefCell::new(nodes),
        journal: Cell::new(Journal { region, epoch, seq: 0, next: 0 }),
        queue: RefCell::new(Queue::default()),
        meta_lock: Mutex::new(rt, "the metadata of a file layer"),
        refill_lock: Mutex::new(rt, "free chunks of a file layer"),
        poisoned: Cell::new(false),
        scratch: RefCell::default(),
        rt: rt.clone(),
    };
    inner.snapshot(region ^ 1, epoch + 1).await?;
    Ok(inner)
}

async fn find_layout<D: BlockDevice>(device: &D) -> Result<Layout, FilesError> {
    let mut block = vec![0; device.caps().block_size as usize];
    let mut blank = true;
    for at in [Block(0), Block(1)] {
        match read(device, at, &mut block).await? {
            true => {
                if let Some(layout) = Layout::decode(&block) {
                    return Ok(layout);
                }
                blank &= &block[..8] != crate::format::SUPER_MAGIC;
            }
            false => blank = false,
        }
    }
    match blank {
        true => Err(FilesError::NotFormatted),
        false => Err(FilesError::Corrupt { what: "both superblocks are damaged", at: Block(0) }),
    }
}

struct Found {
    region: u32,
    epoch: u64,
    state: State,
}

/// The newest complete snapshot.
async fn find_snapshot<D: BlockDevice>(device: &D, l: &Layout) -> Result<Found, FilesError> {
    let bs = l.block_size as usize;
    let mut best: Option<Found> = None;
    for region in [0, 1] {
        let at = l.snapshot_at(region);
        let mut bytes = vec![0; bs];
        if !read(device, at, &mut bytes).await? {
            continue;
        }
        let Some(header) = SnapHeader::decode(&bytes, l) else { continue };
        if best.as_ref().is_some_and(|b| b.epoch >= header.epoch) {
            continue;
        }
        bytes.resize(header.bytes.next_multiple_of(bs), 0);
        if bytes.len() > bs && !read(device, Block(at.0 + 1), &mut bytes[bs..]).await? {
            continue;
        }
        if !header.is_whole(&bytes) {
            continue;
        }
        let Some(state) = State::decode(&bytes, &header, l) else {
            return Err(FilesError::Corrupt { what: "a snapshot makes no sense", at });
        };
        best = Some(Found { region, epoch: header.epoch, state });
    }
    let at = l.snapshot_at(0);
    let found = best.ok_or(FilesError::Corrupt { what: "no snapshot is whole", at })?;
    // Records are written only after a snapshot that cannot be lost. If the other journal has newer
    // records, its snapshot was damaged later.
    let at = l.journal_at(found.region ^ 1);
    let mut block = vec![0; bs];
    if read(device, at, &mut block).await?
        && let Some((length, epoch)) = record_bytes(&block, l.format_id)
        && epoch > found.epoch
        && length as u64 <= u64::from(l.journal_blocks) * bs as u64
    {
        let mut record = vec![0; length.next_multiple_of(bs)];
        let place = Place { format_id: l.format_id, epoch, seq: 0 };
        if read(device, at, &mut record).await? && open_record(&record, place).is_some() {
            let (what, at) = ("the newest snapshot is damaged", l.snapshot_at(found.region ^ 1));
            return Err(FilesError::Corrupt { what, at });
        }
    }
    Ok(found)
}

/// Applies the records after a snapshot, up to the first missing one.
async fn replay<D: BlockDevice>(
    device: &D,
    l: &Layout,
    region: u32,
    epoch: u64,
    state: &mut State,
) -> Result<(), FilesError> {
    let bs = l.block_size as usize;
    let (start, blocks) = (l.journal_at(region), u64::from(l.journal_blocks));
    let (mut bytes, mut first, mut next, mut seq) = (Vec::new(), 0u64, 0u64, 0u64);
    let mut runs = Vec::new();
    while next < blocks {
        let have = first + (bytes.len() / bs) as u64;
        let at = Block(start.0 + next);
        let here = bytes.get((next - first) as usize * bs..).unwrap_or(&[]);
        let need = match record_bytes(here, l.format_id) {
            _ if next >= have => 1,
            Some((length, e)) if e == epoch => length.div_ceil(bs) as u64,
            _ => break,
        };
        if next + need > blocks {
            break;
        }
        if next + need > have {
            let count = need.max(READ_AHEAD).min(blocks - next);
            (first, bytes) = (next, vec![0; count as usize * bs]);
            if !read(device, at, &mut bytes).await? {
                // A block of this range cannot be read: read one by one, up to that block.
                bytes.truncate(need as usize * bs);
                if !read(device, at, &mut bytes).await? {
                    break;
                }
            }
            continue;
        }
        let Some(changes) = open_record(here, Place { format_id: l.format_id, epoch, seq }) else {
            break;
        };
        let mut r = Reader::new(changes);
        while !r.is_empty() {
            let corrupt = |what| FilesError::Corrupt { what, at };
            let change =
                take_change(&mut r, &mut runs).ok_or(corrupt("a record makes no sense"))?;
            state.apply(&change, l).map_err(corrupt)?;
        }
        next += need;
        seq += 1;
    }
    if device.caps().ack.survives() || device.caps().ordered {
        // One record is in flight at a time, so there can be no record after a missing one.
        for (i, block) in bytes.chunks(bs).enumerate().skip((next - first) as usize) {
            let later = |s: u64| open_record(&bytes[i * bs..], place(l, epoch, s)).is_some();
            if record_bytes(block, l.format_id).is_some_and(|(_, e)| e == epoch)
                && (seq + 1..seq + 1 + READ_AHEAD).any(later)
            {
                let what = "a record of the journal is missing";
                return Err(FilesError::Corrupt { what, at: Block(start.0 + next) });
            }
        }
    }
    Ok(())
}

fn place(l: &Layout, epoch: u64, seq: u64) -> Place {
    Place { format_id: l.format_id, epoch, seq }
}

fn used_chunks(state: &State, l: &Layout) -> Result<ChunkSet, FilesError> {
    let mut used = ChunkSet::new(l.chunks);
    for chunk in state.inodes.values().flat_map(|i| &i.chunks) {
        if *chunk != HOLE && !used.insert(*chunk) {
            let what = "two files have the same chunk";
            return Err(FilesError::Corrupt { what, at: l.chunk_at(*chunk) });
        }
    }
    Ok(used)
}

/// Reads blocks; false if the device cannot give them back.
async fn read<D: BlockDevice>(device: &D, at: Block, to: &mut [u8]) -> Result<bool, FilesError> {
    match device.read(at, DataMut::Bytes(to)).await {
        Ok(()) => Ok(true),
        Err(IoError::Uncorrectable(_)) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
