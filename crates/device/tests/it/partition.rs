//! Partitions against a model: whatever the others of one device do, each is a device by itself.

use crate::bad_block::BadBlock;
use proptest::prelude::*;
use tantalum_device::{
    Ack, AtomicError, Block, BlockDevice, Blocks, Caps, CommandKind, Data, DataMut, Durability,
    Extent, Faults, GroupLimit, IoError, OwnedData, Partition, Payload, PowerCycle, RamDevice,
    RamOptions,
};
use tantalum_rt::Runtime;

const BLOCKS: u64 = 60;
const SIZE: u32 = 512;
/// Neighbours without a gap, at both ends of the device.
const RANGES: [(u64, u64); 3] = [(0, 7), (7, 40), (47, 13)];

fn caps(payload: Payload, ack: Ack) -> Caps {
    Caps {
        block_size: SIZE,
        blocks: BLOCKS,
        thin: false,
        ack,
        flush: true,
        ordered: true,
        atomic_unit: 1024,
        atomic_group: Some(GroupLimit { extents: 3, bytes: 8 * 512 }),
        payload,
    }
}

/// A command to one partition; addresses and lengths go beyond its end, too.
#[derive(Clone, Debug)]
enum Command {
    Write { at: u64, count: u64, fua: bool },
    Group(Vec<(u64, u64)>),
    Discard { at: u64, count: u64 },
    Flush,
    Cut,
}

fn command() -> impl Strategy<Value = Command> {
    let range = || (0u64..45, 0u64..10);
    prop_oneof![
        6 => (range(), any::<bool>())
            .prop_map(|((at, count), fua)| Command::Write { at, count, fua }),
        3 => proptest::collection::vec(range(), 0..5).prop_map(Command::Group),
        2 => range().prop_map(|(at, count)| Command::Discard { at, count }),
        1 => Just(Command::Flush),
        1 => Just(Command::Cut),
    ]
}

/// Blocks whose content is the number of the command that wrote them.
fn data(payload: Payload, count: u64, word: u64) -> OwnedData {
    match payload {
        Payload::Stamps => OwnedData::Stamps(vec![word; count as usize]),
        Payload::Bytes => OwnedData::Bytes(vec![word as u8; (count * u64::from(SIZE)) as usize]),
    }
}

/// What one partition holds, and which blocks it has.
struct Model {
    blocks: Vec<u64>,
    caps: Caps,
}

impl Model {
    fn put(&mut self, at: u64, count: u64, word: u64) {
        self.blocks[at as usize..(at + count) as usize].fill(word);
    }

    fn fits(&self, at: u64, count: u64) -> bool {
        at + count <= self.caps.blocks
    }

    fn fits_group(&self, group: &[(u64, u64)]) -> bool {
        let sum: u64 = group.iter().map(|e| e.1).sum();
        let overlap = group.iter().enumerate().any(|(i, a)| {
            let shares = |b: &(u64, u64)| a.1 > 0 && b.1 > 0 && a.0 < b.0 + b.1 && b.0 < a.0 + a.1;
            group[i + 1..].iter().any(shares)
        });
        let each = group.iter().all(|e| self.fits(e.0, e.1));
        each && group.len() <= 3 && sum <= 8 && !overlap
    }
}

async fn carry_out(
    part: &Partition<RamDevice>,
    model: &mut Model,
    command: &Command,
    word: u64,
) -> Result<(), TestCaseError> {
    let payload = model.caps.payload;
    match command {
        Command::Write { at, count, fua } => {
            let want = if *fua { Durability::Fua } else { Durability::Normal };
            let written = data(payload, *count, word);
            let result = part.write(Block(*at), written.as_data(), want).await;
            prop_assert_eq!(result.is_ok(), model.fits(*at, *count), "{:?}", result);
            if result.is_ok() {
                model.put(*at, *count, word);
            }
        }
        Command::Group(ranges) => {
            let parts: Vec<OwnedData> = ranges.iter().map(|r| data(payload, r.1, word)).collect();
            let group: Vec<Extent<'_>> = ranges
                .iter()
                .zip(&parts)
                .map(|(r, d)| Extent { at: Block(r.0), data: d.as_data() })
                .collect();
            let result = part.write_atomic(&group).await;
            prop_assert_eq!(result.is_ok(), model.fits_group(ranges), "{:?}", result);
            if result.is_ok() {
                ranges.iter().for_each(|r| model.put(r.0, r.1, word));
            }
        }
        Command::Discard { at, count } => {
            let range = Blocks { start: Block(*at), count: *count };
            let result = part.discard(range).await;
            prop_assert_eq!(result.is_ok(), model.fits(*at, *count), "{:?}", result);
            if result.is_ok() {
                model.put(*at, *count, 0);
            }
        }
        Command::Flush => prop_assert_eq!(part.flush().await, Ok(())),
        Command::Cut => {}
    }
    Ok(())
}

async fn all_hold(parts: &[Partition<RamDevice>], models: &[Model]) -> Result<(), TestCaseError> {
    for (part, model) in parts.iter().zip(models) {
        for (block, word) in model.blocks.iter().enumerate() {
            let mut room = OwnedData::zeros(model.caps.payload, 1, SIZE);
            let read = part.read(Block(block as u64), room.as_mut()).await;
            prop_assert_eq!(read, Ok(()));
            prop_assert_eq!(room, data(model.caps.payload, 1, *word), "block {}", block);
        }
        let mut room = OwnedData::zeros(model.caps.payload, 2, SIZE);
        let beyond = part.read(Block(model.caps.blocks - 1), room.as_mut()).await;
        prop_assert!(matches!(beyond, Err(IoError::Invalid(_))));
    }
    Ok(())
}

async fn play(ram: RamDevice, commands: Vec<(usize, Command)>) -> Result<(), TestCaseError> {
    let whole = *ram.caps();
    let boxes: Vec<Partition<RamDevice>> = RANGES
        .iter()
        .map(|&(start, count)| {
            Partition::of_box(ram.clone(), Blocks { start: Block(start), count }).unwrap()
        })
        .collect();
    let mut models: Vec<Model> = RANGES
        .iter()
        .map(|&(_, count)| Model {
            blocks: vec![0; count as usize],
            caps: Caps { blocks: count, ..whole },
        })
        .collect();
    let mut parts: Vec<_> = boxes.iter().map(|b| b.device()).collect();
    for (part, model) in parts.iter().zip(&models) {
        prop_assert_eq!(part.caps(), &model.caps, "all but the length is as below");
    }
    for (i, (which, command)) in commands.iter().enumerate() {
        carry_out(&parts[*which], &mut models[*which], command, i as u64 + 1).await?;
        if matches!(command, Command::Cut) {
            // One plug: what was acknowledged survives here, since the device keeps it.
            boxes[*which].cut();
            prop_assert!(parts.iter().all(|p| !p.is_alive()));
            boxes[*which].off().await;
            boxes[(*which + 1) % 3].power_on().await.unwrap();
            parts = boxes.iter().map(|b| b.device()).collect();
            prop_assert!(parts.iter().all(|p| p.is_alive()));
        }
    }
    all_hold(&parts, &models).await
}

proptest! {
    #[test]
    fn partitions_do_what_devices_of_their_own_would_do(
        commands in proptest::collection::vec((0usize..3, command()), 1..60),
        stamps in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let payload = if stamps { Payload::Stamps } else { Payload::Bytes };
        let mut runtime = Runtime::virtual_time(seed);
        let ram = RamDevice::new(
            &runtime.handle(),
            RamOptions::new(caps(payload, Ack::PowerSafe)),
        );
        runtime.block_on(play(ram, commands)).unwrap()?;
    }
}

#[test]
fn a_flush_of_one_covers_what_another_wrote() {
    let mut runtime = Runtime::virtual_time(1);
    let ram =
        RamDevice::new(&runtime.handle(), RamOptions::new(caps(Payload::Stamps, Ack::Volatile)));
    let done = runtime.block_on(async move {
        let of = |start, count| {
            Partition::of_box(ram.clone(), Blocks { start: Block(start), count }).unwrap()
        };
        let (a, b) = (of(0, 30), of(30, 30));
        a.device().write(Block(2), Data::Stamps(&[7]), Durability::Normal).await.unwrap();
        b.device().flush().await.unwrap();
        b.cut();
        b.off().await;
        a.power_on().await.unwrap();
        let mut room = [0];
        a.device().read(Block(2), DataMut::Stamps(&mut room)).await.unwrap();
        room
    });
    assert_eq!(done.unwrap(), [7]);
}

#[test]
fn ranges_that_are_not_there_are_refused_and_errors_name_blocks_of_the_partition() {
    let mut runtime = Runtime::virtual_time(1);
    let rt = runtime.handle();
    let ram = RamDevice::new(&rt, RamOptions::new(caps(Payload::Stamps, Ack::Volatile)));
    for (start, count) in [(0, 0), (0, 61), (60, 1), (59, 2), (u64::MAX, 2)] {
        let refused = Partition::new(ram.clone(), Blocks { start: Block(start), count });
        assert!(refused.err().unwrap().starts_with("partition: "), "{start} {count}");
    }
    let faults = Faults::new(&rt, ram, "faults");
    faults.fail_nth(CommandKind::Flush, 1);
    let done = runtime.block_on(async move {
        let part =
            Partition::new(BadBlock(faults, Block(23)), Blocks { start: Block(20), count: 10 })
                .unwrap();
        let read = part.read(Block(3), DataMut::Stamps(&mut [0])).await;
        assert_eq!(read, Err(IoError::Uncorrectable(Block(3))));
        let group = [Extent { at: Block(10), data: Data::Stamps(&[1]) }];
        assert!(matches!(part.write_atomic(&group).await, Err(AtomicError::Io(_))));
        // A failed flush poisons below, and here.
        assert!(part.flush().await.is_err());
        let write = part.write(Block(0), Data::Stamps(&[1]), Durability::Normal).await;
        assert_eq!(write, Err(IoError::Poisoned));
    });
    done.unwrap();
}
