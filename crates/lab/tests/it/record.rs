//! A log of writes, replayed, gives what the device holds.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};
use tantalum_device::{
    Ack, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, GroupLimit, Payload,
    PowerCycle, RamDevice, RamOptions,
};
use tantalum_lab::run::record::Recorded;
use tantalum_rt::Runtime;
use tantalum_workload::trace::{LogOutput, LogWriter};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;

/// A file that the test can look into.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Cursor<Vec<u8>>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Shared {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.lock().unwrap().seek(to)
    }
}

/// The blocks after all entries, and how many flushes there were.
fn replayed(log: &[u8]) -> (BTreeMap<u64, u8>, u64) {
    let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    let (mut blocks, mut flushes, mut at) = (BTreeMap::new(), 0, BLOCK);
    for _ in 0..word(16) {
        let [start, count, flags] = [0, 8, 16].map(|i| word(at + i));
        at += BLOCK;
        flushes += u64::from(flags & 1 != 0);
        for block in start..start + count {
            if flags & 4 != 0 {
                blocks.insert(block, 0);
            } else {
                blocks.insert(block, log[at]);
                at += BLOCK;
            }
        }
    }
    assert_eq!(at, log.len(), "the head counts all entries");
    (blocks, flushes)
}

fn caps(atomic_group: Option<GroupLimit>) -> Caps {
    Caps {
        blocks: BLOCKS,
        block_size: BLOCK as u32,
        ack: Ack::Volatile,
        flush: true,
        ordered: false,
        atomic_unit: BLOCK as u32,
        thin: false,
        atomic_group,
        payload: Payload::Bytes,
    }
}

/// Where each entry begins, and its flags.
fn entries(log: &[u8]) -> Vec<(u64, u64)> {
    let word = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    let (mut entries, mut at) = (Vec::new(), BLOCK);
    for _ in 0..word(16) {
        let [start, count, flags] = [0, 8, 16].map(|i| word(at + i));
        at += BLOCK * (1 + if flags & 4 == 0 { count as usize } else { 0 });
        entries.push((start, flags));
    }
    entries
}

#[test]
fn a_group_stands_together_and_ends_durable() {
    let file = Shared::default();
    let output: Box<dyn LogOutput> = Box::new(file.clone());
    let log = Arc::new(Mutex::new(LogWriter::new(output, BLOCK as u32)));
    let mut runtime = Runtime::virtual_time(7);
    let rt = runtime.handle();
    let limit = GroupLimit { extents: 8, bytes: 8 * BLOCK as u64 };
    let options = RamOptions::new(caps(Some(limit)));
    let subject = Recorded::new(RamDevice::new(&rt, options), Some(log.clone()));
    let wrote = runtime.block_on(async move {
        subject.power_on().await.unwrap();
        let device = subject.device();
        let block = [7; BLOCK];
        let data = Data::Bytes(&block);
        let extent = |at| Extent { at: Block(at), data };
        device.write(Block(1), data, Durability::Normal).await.unwrap();
        device.write_atomic(&[extent(9), extent(3), extent(6)]).await.unwrap();
        device.write_atomic(&[extent(2)]).await
    });
    wrote.unwrap().unwrap();
    let bytes = file.0.lock().unwrap().get_ref().clone();
    let (fua, mark) = (2, 8);
    let group = [(9, 0), (3, 0), (6, fua), (0, mark), (2, fua), (0, mark)];
    assert_eq!(entries(&bytes), [&[(1, 0)][..], &group].concat());
}

#[test]
fn the_log_replayed_is_the_device() {
    let file = Shared::default();
    let output: Box<dyn LogOutput> = Box::new(file.clone());
    let log = Arc::new(Mutex::new(LogWriter::new(output, BLOCK as u32)));
    let mut runtime = Runtime::virtual_time(7);
    let rt = runtime.handle();
    let subject =
        Recorded::new(RamDevice::new(&rt, RamOptions::new(caps(None))), Some(log.clone()));
    let held = runtime.block_on({
        let rt = rt.clone();
        async move {
            subject.power_on().await.unwrap();
            let device = subject.device();
            let mut dice = rt.stream("commands");
            for n in 0..400u64 {
                let at = dice.below(BLOCKS - 4);
                let count = 1 + dice.below(4);
                match dice.below(10) {
                    0 => device.flush().await.unwrap(),
                    1 => {
                        let range = Blocks { start: Block(at), count };
                        device.discard(range).await.unwrap();
                    }
                    what => {
                        let data = vec![1 + (n % 255) as u8; count as usize * BLOCK];
                        let want = if what == 2 { Durability::Fua } else { Durability::Normal };
                        device.write(Block(at), Data::Bytes(&data), want).await.unwrap();
                    }
                }
            }
            // What was refused is not recorded.
            let beyond = device.write(Block(BLOCKS), Data::Bytes(&[9; BLOCK]), Durability::Normal);
            assert!(beyond.await.is_err());
            let mut held = vec![0; BLOCKS as usize * BLOCK];
            device.read(Block(0), DataMut::Bytes(&mut held)).await.unwrap();
            subject.cut();
            held
        }
    });
    let held = held.unwrap();
    let log = Arc::into_inner(log);
    log.expect("the run is over").into_inner().unwrap().finish().unwrap();
    let (blocks, flushes) = replayed(file.0.lock().unwrap().get_ref());
    assert!(flushes > 10 && blocks.len() > 60);
    for block in 0..BLOCKS {
        let byte = held[block as usize * BLOCK];
        assert_eq!(byte, blocks.get(&block).copied().unwrap_or(0), "block {block}");
    }
}
