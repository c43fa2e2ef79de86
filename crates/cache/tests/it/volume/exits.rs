//! Pages that leave the memory of the host, which tells the volume.

use super::rig::{BLOCK, Boxes, Rig, Shape, read, with, write};
use tantalum_cache::volume::CleanEntry;
use tantalum_device::{Block, BlockDevice, Blocks, Data, DataMut, IoError, PowerCycle};
use tantalum_rt::Nanos;

/// Where the volume begins on the slow device.
const DATA: u64 = (1 << 20) / BLOCK as u64;

/// Pages of four blocks, which enter when the host tells.
fn on_exit() -> Shape {
    Shape { clean: CleanEntry::OnExit, ..Shape::wide() }
}

fn blocks(start: u64, count: u64) -> Blocks {
    Blocks { start: Block(start), count }
}

#[test]
fn pages_enter_when_they_leave_the_host_and_not_when_they_are_read() {
    with(9, |rt| async move {
        let shape = on_exit();
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        for at in 0..32 {
            write(&boxes.slow, DATA + at, at as u8 + 1).await.unwrap();
        }
        let device = volume.device();
        assert!(device.wants_exits());
        let mut many = vec![0; 32 * BLOCK as usize];
        device.read(Block(0), DataMut::Bytes(&mut many)).await.unwrap();
        let pages = || {
            let stats = volume.stats().unwrap();
            (stats.pages, stats.dirty, stats.hits)
        };
        assert_eq!(pages(), (0, 0, 0));
        // Of blocks 3 to 12 pages 1 and 2 are whole: the volume reads them itself.
        device.left(blocks(3, 10), None).await.unwrap();
        assert_eq!(pages(), (2, 0, 0));
        // The host gives page 3 along, and a part of page 4.
        let bytes = &many[12 * BLOCK as usize..18 * BLOCK as usize];
        device.left(blocks(12, 6), Some(Data::Bytes(bytes))).await.unwrap();
        assert_eq!(pages(), (3, 0, 0));
        for at in 0..20 {
            assert_eq!(read(&device, at).await, at as u8 + 1);
        }
        assert_eq!(pages(), (3, 0, 12));
        // A page that the cache has stays as it is, dirty or not.
        write(&device, 4, 99).await.unwrap();
        device.left(blocks(4, 4), None).await.unwrap();
        assert_eq!((pages().0, pages().1), (3, 1));
        assert_eq!(read(&device, 4).await, 99);
    });
}

#[test]
fn a_volume_whose_pages_enter_when_they_are_read_takes_exits_too() {
    with(9, |rt| async move {
        let shape = Shape::wide();
        let boxes = Boxes::new(&rt, &shape);
        let device = boxes.started(&rt, &shape).await.device();
        device.left(blocks(0, 8), None).await.unwrap();
        assert_eq!(read(&device, 5).await, 0);
    });
}

/// Pages of a scan do not enter, whether or not the host gives their bytes along.
#[test]
fn a_scan_that_leaves_the_host_is_kept_out() {
    with(9, |rt| async move {
        let shape = Shape { scan: Some(3), ..on_exit() };
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        let device = volume.device();
        // Pages 0 to 7, then 8 to 11 with their bytes.
        device.left(blocks(0, 32), None).await.unwrap();
        let bytes = vec![0; 16 * BLOCK as usize];
        device.left(blocks(32, 16), Some(Data::Bytes(&bytes))).await.unwrap();
        let stats = volume.stats().unwrap();
        assert_eq!((stats.pages, stats.kept_out), (3, 9));
    });
}

#[test]
fn exits_that_cannot_be_meant_are_refused() {
    with(9, |rt| async move {
        let shape = on_exit();
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        let device = volume.device();
        let refused = |e| matches!(e, Err(IoError::Invalid(_)));
        assert!(refused(device.left(blocks(shape.blocks - 1, 2), None).await));
        assert!(refused(device.left(blocks(u64::MAX, 2), None).await));
        assert!(refused(device.left(blocks(0, 4), Some(Data::Bytes(&[0; 8]))).await));
        assert!(refused(device.left(blocks(0, 4), Some(Data::Stamps(&[0; 4]))).await));
        volume.cut();
        assert_eq!(device.left(blocks(0, 4), None).await, Err(IoError::PowerLost));
        assert_eq!(volume.device().left(blocks(0, 4), None).await, Err(IoError::PowerLost));
    });
}

/// Hosts that tell of exits at random, over cuts at random: each finds what it wrote.
#[test]
fn what_was_written_is_found_whatever_is_told() {
    for seed in 0..40 {
        let mut shape = if seed % 2 == 0 { Shape::volatile() } else { Shape::through() };
        shape.clean = CleanEntry::OnExit;
        shape.scan = (seed % 3 == 0).then_some(seed as u32 % 2);
        let mut rig = Rig::start(&shape, seed, 3, 60);
        let span = Nanos::from_micros(300 + seed * 170);
        let until = rig.runtime.handle().now() + span;
        rig.runtime.run_until(until).unwrap();
        let mut after = rig.cut_copy(seed);
        after.check().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}
