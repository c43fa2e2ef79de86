//! The flash device is lost, or is not the one of the slow device; formats and what they refuse.

use super::rig::{BLOCK, Boxes, Shape, Volume, read, with, write};
use tantalum_cache::flash::{CacheError, FormatOptions, Mode, OpenError};
use tantalum_cache::volume::{CacheVolume, VolumeError, VolumeOptions};
use tantalum_device::{
    Block, BlockDevice, Caps, CommandKind, Data, Durability, Faults, LiveBox, Payload, PowerCycle,
    RamDevice, RamOptions,
};
use tantalum_rt::Rt;

/// Why the volume does not start.
async fn refusal(volume: &Volume) -> VolumeError {
    assert!(volume.power_on().await.is_err());
    let why = volume.start_failure().expect("it says why");
    assert!(!why.to_string().contains('\n'), "one line: {why}");
    volume.cut();
    volume.off().await;
    why
}

async fn flushed(volume: &Volume, at: u64, byte: u8) {
    write(&volume.device(), at, byte).await.unwrap();
    volume.device().flush().await.unwrap();
}

async fn ended<F: PowerCycle, S: PowerCycle>(volume: &CacheVolume<F, S>) {
    volume.cut();
    volume.off().await;
}

#[test]
fn a_lost_flash_device_is_refused_under_write_back_and_replaced_under_write_through() {
    with(7, |rt| async move {
        let shape = Shape::volatile();
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        flushed(&volume, 3, 5).await;
        ended(&volume).await;
        let kept = boxes.flash.now();
        boxes.flash.lose();
        assert_eq!(refusal(&volume).await, OpenError::NeedsCache.into());
        // What was refused changed nothing: with its own flash device it goes on.
        let flash = kept.clone();
        let volume = CacheVolume::new(&rt, flash, boxes.slow.clone(), shape.options()).unwrap();
        volume.power_on().await.unwrap();
        assert_eq!(read(&volume.device(), 3).await, 5);

        let shape = Shape::through();
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        assert!(volume.bring_up(false).await.unwrap().is_empty());
        flushed(&volume, 3, 5).await;
        ended(&volume).await;
        let old = boxes.flash.now();
        boxes.flash.lose();
        let said = volume.bring_up(false).await.unwrap();
        assert!(said.len() == 1 && said[0].contains("new cache"), "{said:?}");
        assert_eq!(read(&volume.device(), 3).await, 5);
        flushed(&volume, 3, 6).await;
        ended(&volume).await;
        // The one that was lost comes back: it is out of date.
        let stale = CacheVolume::new(&rt, old, boxes.slow.clone(), shape.options()).unwrap();
        assert!(stale.power_on().await.is_err());
        assert_eq!(stale.start_failure(), Some(OpenError::OtherStore.into()));
        assert!(volume.bring_up(false).await.unwrap().is_empty());
        assert_eq!(read(&volume.device(), 3).await, 6);
    });
}

/// Starts that end between superblock and label do not add up.
#[test]
fn any_number_of_starts_may_end_before_the_label_is_written() {
    with(7, |rt| async move {
        let shape = Shape::volatile();
        let boxes = Boxes::new(&rt, &shape);
        let faults = Faults::new(&rt, boxes.slow.clone(), "faults");
        let flash = boxes.flash.clone();
        let volume = CacheVolume::new(&rt, flash, faults.clone(), shape.options()).unwrap();
        volume.format(false).await.unwrap();
        volume.power_on().await.unwrap();
        write(&volume.device(), 3, 5).await.unwrap();
        volume.device().flush().await.unwrap();
        faults.fail_often(CommandKind::Fua, 1, 1);
        for _ in 0..4 {
            volume.cut();
            volume.off().await;
            assert!(volume.power_on().await.is_err());
            let why = volume.start_failure().expect("it says why");
            assert!(matches!(why, VolumeError::Open(OpenError::Io { .. })), "{why}");
        }
        faults.clear();
        volume.power_on().await.unwrap();
        assert_eq!(read(&volume.device(), 3).await, 5);
    });
}

/// After a change to write-through the slow device has everything once the volume has started.
#[test]
fn what_write_back_left_is_on_the_slow_device_after_a_start_with_write_through() {
    with(7, |rt| async move {
        let (back, through) = (Shape::volatile(), Shape::through());
        let boxes = Boxes::new(&rt, &back);
        let volume = boxes.started(&rt, &back).await;
        for at in 0..20 {
            flushed(&volume, at, at as u8 + 1).await;
        }
        ended(&volume).await;
        let volume = boxes.volume(&rt, &through);
        volume.power_on().await.unwrap();
        ended(&volume).await;
        boxes.flash.lose();
        volume.power_on().await.unwrap();
        for at in 0..20 {
            assert_eq!(read(&volume.device(), at).await, at as u8 + 1);
        }
    });
}

/// A start with write-through that cannot bring the pages of a time of write-back to the slow device
/// is none: the loss of the flash device would lose them.
#[test]
fn a_start_with_write_through_fails_while_the_slow_device_refuses_what_write_back_left() {
    with(8, |rt| async move {
        let (back, through) = (Shape::volatile(), Shape::through());
        let boxes = Boxes::new(&rt, &back);
        let volume = boxes.started(&rt, &back).await;
        for at in 0..20 {
            flushed(&volume, at, at as u8 + 1).await;
        }
        ended(&volume).await;
        let faults = Faults::new(&rt, boxes.slow.clone(), "faults");
        // (The label is forced.)
        faults.fail_often(CommandKind::Write, 1, 1);
        let over = |flash| CacheVolume::new(&rt, flash, faults.clone(), through.options()).unwrap();
        let volume = over(boxes.flash.now());
        for _ in 0..2 {
            assert!(volume.power_on().await.is_err());
            let why = volume.start_failure().expect("it says why");
            assert!(matches!(why, VolumeError::Cache(CacheError::Full { .. })), "{why}");
            ended(&volume).await;
        }
        // The slow device lacks pages, and says so.
        let flash = boxes.flash.now();
        boxes.flash.lose();
        let without = over(boxes.flash.now());
        assert!(without.power_on().await.is_err());
        assert_eq!(without.start_failure(), Some(OpenError::NeedsCache.into()));
        ended(&without).await;
        faults.clear();
        let volume = over(flash);
        volume.power_on().await.unwrap();
        ended(&volume).await;
        let without = over(boxes.flash.now());
        without.power_on().await.unwrap();
        for at in 0..20 {
            assert_eq!(read(&without.device(), at).await, at as u8 + 1);
        }
    });
}

#[test]
fn another_flash_device_or_slow_device_is_refused() {
    with(7, |rt| async move {
        for shape in [Shape::volatile(), Shape::through()] {
            let (ours, theirs) = (Boxes::new(&rt, &shape), Boxes::new(&rt, &shape));
            for boxes in [&ours, &theirs] {
                let volume = boxes.started(&rt, &shape).await;
                flushed(&volume, 1, 1).await;
                ended(&volume).await;
            }
            let mixed = Boxes { slow: theirs.slow.clone(), ..ours.clone() };
            assert_eq!(refusal(&mixed.volume(&rt, &shape)).await, OpenError::OtherStore.into());
            let blank = Boxes { slow: Boxes::new(&rt, &shape).slow, ..ours.clone() };
            assert_eq!(refusal(&blank.volume(&rt, &shape)).await, OpenError::NoLabel.into());
            // Something else than a cache, and not blank.
            let flash = Boxes::new(&rt, &shape).flash;
            write(&flash.device(), 0, 9).await.unwrap();
            let other = Boxes { flash, ..ours.clone() };
            // (It may be this cache, and damaged: another one must not take its place.)
            let wanted = match shape.mode {
                Mode::Back => OpenError::NeedsCache,
                Mode::Through => OpenError::NoCache,
            };
            assert_eq!(refusal(&other.volume(&rt, &shape)).await, wanted.into());
            let volume = ours.volume(&rt, &shape);
            volume.power_on().await.unwrap();
            assert_eq!(read(&volume.device(), 1).await, 1);
        }
    });
}

#[test]
fn formatting_destroys_nothing_unasked_and_keeps_what_is_behind_the_label() {
    with(7, |rt| async move {
        let shape = Shape::volatile();
        let boxes = Boxes::new(&rt, &shape);
        write(&boxes.slow, (1 << 20) / u64::from(BLOCK) + 3, 5).await.unwrap();
        let volume = boxes.started(&rt, &shape).await;
        assert_eq!(read(&volume.device(), 3).await, 5);
        ended(&volume).await;
        boxes.flash.power_on().await.unwrap();
        boxes.slow.power_on().await.unwrap();
        let again = volume.format(false).await;
        assert!(matches!(again, Err(VolumeError::Open(OpenError::NotBlank { .. }))), "{again:?}");
        volume.format(true).await.unwrap();

        let other = Boxes::new(&rt, &shape);
        let bytes = vec![1; BLOCK as usize];
        other.slow.write(Block(0), Data::Bytes(&bytes), Durability::Fua).await.unwrap();
        let refused = other.volume(&rt, &shape).format(false).await;
        let refused = refused.expect_err("there are data");
        assert!(refused.to_string().contains("the slow store holds data"), "{refused}");
    });
}

fn refused(rt: &Rt, caps: Caps, format: FormatOptions) -> bool {
    let slow = RamDevice::new(rt, RamOptions::new(caps));
    let flash = Boxes::new(rt, &Shape::volatile()).flash;
    let options = VolumeOptions { format, ..VolumeOptions::default() };
    let made = CacheVolume::new(rt, flash, slow, options);
    matches!(made.err(), Some(VolumeError::Open(OpenError::Unsuitable(_))))
}

#[test]
fn what_does_not_suit_is_refused() {
    with(7, |rt| async move {
        let good = Caps::power_safe(512, Payload::Bytes);
        let options = FormatOptions::default;
        assert!(!refused(&rt, good, options()));
        assert!(refused(&rt, Caps { payload: Payload::Stamps, ..good }, options()));
        assert!(refused(&rt, Caps { thin: true, ..good }, options()));
        let lossy = Caps { ack: tantalum_device::Ack::Volatile, flush: false, ..good };
        assert!(refused(&rt, lossy, options()));
        assert!(refused(&rt, Caps { blocks: 256, ..good }, options()));
        assert!(refused(&rt, good, FormatOptions { page: 2048, ..options() }));
        assert!(refused(&rt, good, FormatOptions { frames: 1, ..options() }));
        // Pages of another size than those of the cache.
        let shape = Shape::volatile();
        let boxes = Boxes::new(&rt, &shape);
        ended(&boxes.started(&rt, &shape).await).await;
        let why = refusal(&boxes.volume(&rt, &Shape { page: 1024, ..shape })).await;
        assert!(why.to_string().contains("pages of 512 bytes, not of 1024"), "{why}");
    });
}
