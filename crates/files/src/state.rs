//! The metadata in memory: names, inodes, chunks. Pure; the live layer and the replay of a journal
//! change it through the same [`State::apply`].

use crate::format::{FILE_BYTES, Layout, Reader, SNAP_HEADER, SNAP_MAGIC, put_run};
use std::collections::BTreeMap;

/// A chunk of a file that is not allocated: it reads as zeros.
pub(crate) const HOLE: u32 = u32::MAX;

/// Chunks that are adjacent in a file and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub file_chunk: u32,
    pub chunk: u32,
    pub count: u32,
}

/// A change of the metadata. A record holds one or more changes, which are applied together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Create { ino: u64, name: &'a [u8] },
    Delete { ino: u64 },
    Rename { ino: u64, name: &'a [u8] },
    Grow { ino: u64, size: u64, runs: &'a [Run] },
    Resize { ino: u64, size: u64 },
}

impl Change<'_> {
    pub fn ino(&self) -> u64 {
        match *self {
            Change::Create { ino, .. }
            | Change::Delete { ino }
            | Change::Rename { ino, .. }
            | Change::Grow { ino, .. }
            | Change::Resize { ino, .. } => ino,
        }
    }
}

/// A file in the metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inode {
    pub name: Box<[u8]>,
    /// The recorded size, which is at least the exact size.
    pub size: u64,
    pub chunks: Vec<u32>,
}

impl Inode {
    pub fn chunk(&self, index: u64) -> u32 {
        usize::try_from(index).ok().and_then(|i| self.chunks.get(i)).copied().unwrap_or(HOLE)
    }

    fn runs(&self, mut each: impl FnMut(Run)) {
        let mut open: Option<Run> = None;
        for (i, &chunk) in self.chunks.iter().enumerate() {
            if let Some(run) = &mut open
                && chunk != HOLE
                && chunk == run.chunk + run.count
            {
                run.count += 1;
                continue;
            }
            if let Some(run) = open.take() {
                each(run);
            }
            if chunk != HOLE {
                open = Some(Run { file_chunk: i as u32, chunk, count: 1 });
            }
        }
        if let Some(run) = open {
            each(run);
        }
    }
}

/// All metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub names: BTreeMap<Box<[u8]>, u64>,
    pub inodes: BTreeMap<u64, Inode>,
    /// Deleted files that are still open; they are not recorded.
    pub orphans: BTreeMap<u64, Inode>,
    pub next_ino: u64,
    /// Bytes of the files in a snapshot.
    pub directory_bytes: u64,
}

impl State {
    pub fn inode(&self, ino: u64) -> Option<&Inode> {
        self.inodes.get(&ino).or_else(|| self.orphans.get(&ino))
    }

    fn inode_mut(&mut self, ino: u64) -> Result<&mut Inode, &'static str> {
        match self.inodes.get_mut(&ino) {
            Some(inode) => Ok(inode),
            None => self.orphans.get_mut(&ino).ok_or("a change of a file that does not exist"),
        }
    }

    /// Applies a change; returns the chunks that it removes from an existing file. The chunks of a
    /// deleted file stay with its orphan.
    pub fn apply(&mut self, change: &Change<'_>, l: &Layout) -> Result<Vec<u32>, &'static str> {
        let mut freed = Vec::new();
        if let Change::Grow { size, .. } | Change::Resize { size, .. } = *change
            && size > u64::from(l.chunks) * l.chunk_bytes()
        {
            return Err("a file larger than the device");
        }
        match *change {
            Change::Create { ino, name } => {
                if name.is_empty() || self.names.contains_key(name) {
                    return Err("a file is created under a name in use");
                }
                if ino < self.next_ino {
                    return Err("an inode number is used twice");
                }
                self.next_ino = ino + 1;
                self.names.insert(name.into(), ino);
                self.inodes.insert(ino, Inode { name: name.into(), ..Inode::default() });
                self.directory_bytes += (FILE_BYTES + name.len()) as u64;
            }
            Change::Delete { ino } => {
                let inode = self.inodes.remove(&ino).ok_or("a file is deleted twice")?;
                self.names.remove(&inode.name);
                self.directory_bytes -= (FILE_BYTES + inode.name.len()) as u64;
                self.orphans.insert(ino, inode);
            }
            Change::Rename { ino, name } => {
                if name.is_empty() || self.names.contains_key(name) {
                    return Err("a file is renamed to a name in use");
                }
                let inode = self.inodes.get_mut(&ino).ok_or("a deleted file is renamed")?;
                let old = std::mem::replace(&mut inode.name, name.into());
                self.names.remove(&old);
                self.names.insert(name.into(), ino);
                self.directory_bytes += name.len() as u64;
                self.directory_bytes -= old.len() as u64;
            }
            Change::Grow { ino, size, runs } => {
                let inode = self.inode_mut(ino)?;
                for run in runs {
                    let inside = |first: u32| {
                        first.checked_add(run.count).is_some_and(|end| end <= l.chunks)
                    };
                    if run.count == 0 || !inside(run.file_chunk) || !inside(run.chunk) {
                        return Err("a chunk beyond the end");
                    }
                    let first = run.file_chunk as usize;
                    let end = first + run.count as usize;
                    if inode.chunks.len() < end {
                        inode.chunks.resize(end, HOLE);
                    }
                    for (slot, chunk) in inode.chunks[first..end].iter_mut().zip(run.chunk..) {
                        if *slot != HOLE {
                            return Err("a file is given a chunk in place of another");
                        }
                        *slot = chunk;
                    }
                }
                inode.size = size;
            }
            Change::Resize { ino, size } => {
                let keep = usize::try_from(size.div_ceil(l.chunk_bytes())).unwrap_or(usize::MAX);
                let inode = self.inode_mut(ino)?;
                if inode.chunks.len() > keep {
                    freed.extend(inode.chunks.drain(keep..).filter(|&c| c != HOLE));
                }
                inode.size = size;
            }
        }
        Ok(freed)
    }

    /// Writes a snapshot into `out`, without its last block's padding.
    pub fn encode(&self, out: &mut Vec<u8>, format_id: u64, epoch: u64) {
        out.clear();
        out.extend_from_slice(SNAP_MAGIC);
        out.extend_from_slice(&format_id.to_le_bytes());
        out.extend_from_slice(&epoch.to_le_bytes());
        out.extend_from_slice(&self.next_ino.to_le_bytes());
        out.extend_from_slice(&(self.inodes.len() as u32).to_le_bytes());
        out.resize(SNAP_HEADER, 0);
        for (ino, inode) in &self.inodes {
            out.extend_from_slice(&ino.to_le_bytes());
            out.extend_from_slice(&inode.size.to_le_bytes());
            out.push(inode.name.len() as u8);
            let count_at = out.len();
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&inode.name);
            let mut count = 0u32;
            inode.runs(|run| {
                count += 1;
                put_run(out, &run);
            });
            out[count_at..count_at + 4].copy_from_slice(&count.to_le_bytes());
        }
        let body = (out.len() - SNAP_HEADER) as u32;
        out[36..40].copy_from_slice(&body.to_le_bytes());
        let crc = snapshot_crc(out);
        out[40..44].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the files of a snapshot whose checksum is right.
    pub fn decode(bytes: &[u8], header: &SnapHeader, l: &Layout) -> Option<State> {
        let mut r = Reader::new(bytes.get(SNAP_HEADER..header.bytes)?);
        let mut state = State { next_ino: 0, ..State::default() };
        for _ in 0..header.files {
            let (ino, size) = (r.u64()?, r.u64()?);
            let length = r.u8()?;
            let count = r.u32()?;
            let name = r.take(usize::from(length))?;
            state.apply(&Change::Create { ino, name }, l).ok()?;
            for _ in 0..count {
                let run = r.run()?;
                state.apply(&Change::Grow { ino, size, runs: &[run] }, l).ok()?;
            }
            state.apply(&Change::Resize { ino, size }, l).ok()?.is_empty().then_some(())?;
        }
        if !r.is_empty() || header.next_ino < state.next_ino {
            return None;
        }
        state.next_ino = header.next_ino;
        Some(state)
    }
}

/// The head of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapHeader {
    pub epoch: u64,
    pub next_ino: u64,
    pub files: u32,
    /// Header and files.
    pub bytes: usize,
}

impl SnapHeader {
    /// The head in the first block of a region. [`SnapHeader::is_whole`] checks the rest.
    pub fn decode(block: &[u8], l: &Layout) -> Option<SnapHeader> {
        let mut r = Reader::new(block);
        if r.take(8)? != SNAP_MAGIC || r.u64()? != l.format_id {
            return None;
        }
        let (epoch, next_ino, files) = (r.u64()?, r.u64()?, r.u32()?);
        let bytes = SNAP_HEADER + r.u32()? as usize;
        let room = u64::from(l.snapshot_blocks) * u64::from(l.block_size);
        (bytes as u64 <= room).then_some(SnapHeader { epoch, next_ino, files, bytes })
    }

    /// Whether the checksum of the snapshot in `bytes` is right.
    pub fn is_whole(&self, bytes: &[u8]) -> bool {
        bytes.get(..self.bytes).is_some_and(|b| snapshot_crc(b).to_le_bytes() == b[40..44])
    }
}

fn snapshot_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..40]), &bytes[SNAP_HEADER..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tantalum_device::{Ack, Caps, Payload};

    pub(crate) fn layout() -> Layout {
        let caps = Caps {
            block_size: 512,
            blocks: 4096,
            ack: Ack::Volatile,
            flush: true,
            ordered: false,
            atomic_unit: 512,
            thin: false,
            atomic_group: None,
            payload: Payload::Bytes,
        };
        Layout::plan(&caps, 1024, 4096, 16, 77).unwrap()
    }

    /// Any files whose chunks are all different.
    fn any_state() -> impl Strategy<Value = State> {
        let file = (any::<u8>(), proptest::collection::vec(any::<bool>(), 0..20));
        proptest::collection::vec(file, 0..20).prop_map(|files| {
            let (l, mut state, mut chunk) = (layout(), State::default(), 0);
            for (i, (name, there)) in files.into_iter().enumerate() {
                let ino = i as u64 * 3;
                let name = vec![b'x'; 1 + usize::from(name) % 20];
                let name = [&name[..], &ino.to_le_bytes()[..1]].concat();
                state.apply(&Change::Create { ino, name: &name }, &l).unwrap();
                for (i, _) in there.iter().enumerate().filter(|(_, t)| **t) {
                    chunk += 1 + (i as u32 % 3) / 2;
                    let run = Run { file_chunk: i as u32, chunk, count: 1 };
                    let size = (i as u64 + 1) * l.chunk_bytes() - 3;
                    state.apply(&Change::Grow { ino, size, runs: &[run] }, &l).unwrap();
                }
            }
            state
        })
    }

    proptest! {
        #[test]
        fn a_snapshot_comes_back(state in any_state()) {
            let (l, mut bytes) = (layout(), Vec::new());
            state.encode(&mut bytes, l.format_id, 9);
            let header = SnapHeader::decode(&bytes, &l).unwrap();
            prop_assert!(header.epoch == 9 && header.is_whole(&bytes));
            let back = State::decode(&bytes, &header, &l).unwrap();
            // Holes after the last chunk are not stored.
            prop_assert_eq!(&back.names, &state.names);
            prop_assert_eq!(back.directory_bytes, state.directory_bytes);
            for (ino, inode) in &state.inodes {
                prop_assert_eq!(&back.inodes[ino].chunks, &inode.chunks);
                prop_assert_eq!(back.inodes[ino].size, inode.size);
            }
        }

        #[test]
        fn a_damaged_snapshot_is_noticed(state in any_state(), at in any::<usize>(), bit in 0..8) {
            let (l, mut bytes) = (layout(), Vec::new());
            state.encode(&mut bytes, l.format_id, 9);
            let at = at % bytes.len();
            bytes[at] ^= 1u8 << bit;
            if let Some(header) = SnapHeader::decode(&bytes, &l) {
                prop_assert!(!header.is_whole(&bytes), "byte {} is not covered", at);
            }
        }

        #[test]
        fn what_makes_no_sense_is_refused_quietly(
            mut bytes in proptest::collection::vec(any::<u8>(), SNAP_HEADER..400),
            files in 0u32..5,
        ) {
            let l = layout();
            let header = SnapHeader { epoch: 1, next_ino: 100, files, bytes: bytes.len() };
            for i in (SNAP_HEADER..bytes.len()).step_by(3) {
                bytes[i] = 0;
            }
            let _ = State::decode(&bytes, &header, &l);
        }
    }
}
