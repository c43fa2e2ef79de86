//! A backing belongs to one log, and both are of the same moment.

use super::rig::{BLOCK, BLOCKS, Boxes, Shape, Volume, backing, ram, read, with, write};
use tantalum_device::{
    Ack, Block, BlockDevice, Caps, Data, DataMut, Durability, Payload, PowerCycle, RamDevice,
    RamOptions,
};
use tantalum_log::{
    BackingDescription, CreateOptions, DeviceDescription, Log, LogDevice, LogVolume, OpenOptions,
    VolumeError, VolumeOptions,
};
use tantalum_rt::{Nanos, Rt};

async fn fresh(rt: &Rt, shape: &Shape) -> Boxes {
    let boxes = Boxes::new(rt, shape);
    boxes.volume(rt, shape).format(&shape.create()).await.unwrap();
    boxes
}

/// Starts, writes a block, and switches off.
async fn live(volume: &Volume, byte: u8) {
    volume.power_on().await.unwrap();
    write(&volume.device(), 3, byte).await.unwrap();
    volume.cut();
    volume.off().await;
}

/// Why the volume does not start.
async fn refusal(volume: &Volume) -> VolumeError {
    assert!(volume.power_on().await.is_err());
    let why = volume.start_failure().expect("it says why");
    assert!(!why.to_string().contains('\n'), "one line: {why}");
    volume.cut();
    volume.off().await;
    why
}

/// The newest state on each device.
async fn generations(boxes: &Boxes) -> Vec<u64> {
    let mut all = Vec::new();
    for device in &boxes.array {
        device.power_on().await.unwrap();
        let device = LogDevice::new("a device", device.device());
        all.push(DeviceDescription::read(&device).await.unwrap().state.unwrap().generation);
    }
    boxes.array.iter().for_each(PowerCycle::cut);
    all
}

/// What is said of the backing beside the log by those who only look: with the log read, and without.
async fn looked_at(rt: &Rt, boxes: &Boxes) -> [Result<(), VolumeError>; 2] {
    for device in boxes.array.iter().chain([&boxes.backing]) {
        device.power_on().await.unwrap();
    }
    let named = |(i, d): (usize, &RamDevice)| LogDevice::new(format!("log {i}"), d.device());
    let devices: Vec<_> = boxes.array.iter().enumerate().map(named).collect();
    let backing = LogDevice::new("the backing", boxes.backing.device());
    let found = BackingDescription::read(&backing).await.unwrap();
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let log = Log::open(rt, devices.clone(), options).await.unwrap();
    let said = [found.check(&log), found.check_devices(log.identity(), &devices).await];
    boxes.array.iter().chain([&boxes.backing]).for_each(PowerCycle::cut);
    said
}

/// Once nobody but a start of the volume read the label.
#[test]
fn whoever_looks_at_a_backing_says_what_a_start_would_say() {
    with(7, |rt| async move {
        let shape = Shape::volatile(2);
        let (ours, theirs) = (fresh(&rt, &shape).await, fresh(&rt, &shape).await);
        assert_eq!(looked_at(&rt, &ours).await, [Ok(()), Ok(())]);
        let old = ours.cut_copy(&rt);
        for byte in 0..3 {
            live(&ours.volume(&rt, &shape), byte).await;
            assert_eq!(looked_at(&rt, &ours).await, [Ok(()), Ok(())]);
        }
        let with = |backing: &RamDevice| Boxes { backing: backing.cut_copy(&rt), ..ours.clone() };
        let blank = backing(&rt, "blank", &shape);
        let damaged = ours.backing.cut_copy(&rt);
        damaged.power_on().await.unwrap();
        for slot in [0, 8] {
            let device = damaged.device();
            let mut bytes = vec![0; BLOCK as usize];
            device.read(Block(BLOCKS + slot), DataMut::Bytes(&mut bytes)).await.unwrap();
            bytes[40] ^= 1;
            let written = Data::Bytes(&bytes);
            device.write(Block(BLOCKS + slot), written, Durability::Fua).await.unwrap();
        }
        type Kind = fn(&VolumeError) -> bool;
        let refused: [(Boxes, Kind); 5] = [
            (with(&theirs.backing), |e| matches!(e, VolumeError::OtherLog { .. })),
            (with(&old.backing), |e| matches!(e, VolumeError::OlderBacking { .. })),
            (with(&blank), |e| matches!(e, VolumeError::NoLabel { .. })),
            (with(&damaged), |e| matches!(e, VolumeError::LabelDamaged(_))),
            (Boxes { backing: ours.backing.clone(), ..old.clone() }, |e| {
                matches!(e, VolumeError::OlderLog { .. })
            }),
        ];
        for (boxes, is_it) in refused {
            for said in looked_at(&rt, &boxes).await {
                assert!(said.as_ref().is_err_and(is_it), "{said:?}");
            }
            let why = refusal(&boxes.volume(&rt, &shape)).await;
            assert!(is_it(&why), "{why}");
        }
    });
}

/// Once `force` wrote over the label of a newer program.
#[test]
fn the_label_of_a_newer_version_is_not_written_over() {
    with(7, |rt| async move {
        let shape = Shape::volatile(1);
        let boxes = fresh(&rt, &shape).await;
        let device = boxes.backing.device();
        let mut label = vec![0; BLOCK as usize];
        device.read(Block(BLOCKS), DataMut::Bytes(&mut label)).await.unwrap();
        label[8] = 9;
        label[12..16].fill(0);
        let crc = crc32c::crc32c(&label);
        label[12..16].copy_from_slice(&crc.to_le_bytes());
        device.write(Block(BLOCKS), Data::Bytes(&label), Durability::Fua).await.unwrap();
        let volume = boxes.volume(&rt, &shape);
        let refused = volume.format(&CreateOptions { force: true, ..shape.create() }).await;
        assert!(matches!(refused, Err(VolumeError::Newer { version: 9, .. })), "{refused:?}");
    });
}

#[test]
fn a_backing_of_another_log_or_of_none_is_refused() {
    with(7, |rt| async move {
        let shape = Shape::volatile(2);
        let (ours, theirs) = (fresh(&rt, &shape).await, fresh(&rt, &shape).await);
        live(&ours.volume(&rt, &shape), 1).await;
        let before = generations(&ours).await;
        let mixed = Boxes { backing: theirs.backing.clone(), ..ours.clone() };
        let why = refusal(&mixed.volume(&rt, &shape)).await;
        let VolumeError::OtherLog { other, log, .. } = &why else { panic!("{why}") };
        assert!(other != log && why.to_string().contains(&format!("of log {log}")), "{why}");
        let blank = Boxes { backing: backing(&rt, "blank", &shape), ..ours.clone() };
        let expected = *log;
        let why = refusal(&blank.volume(&rt, &shape)).await;
        assert!(matches!(why, VolumeError::NoLabel { log, .. } if log == expected), "{why}");
        // No advice destroys what a wrongly named device holds.
        assert!(!why.to_string().contains("format"), "{why}");
        let larger = ram(&rt, "larger", 200, Ack::Volatile);
        let larger = Boxes { backing: larger, ..ours.clone() };
        assert!(matches!(refusal(&larger.volume(&rt, &shape)).await, VolumeError::NoLabel { .. }));
        // What was refused changed nothing. Once the log was opened before, and salvaged if that was
        // wanted.
        assert_eq!(generations(&ours).await, before);
        live(&ours.volume(&rt, &shape), 2).await;
        live(&theirs.volume(&rt, &shape), 2).await;
    });
}

#[test]
fn older_copies_of_backing_or_log_are_refused() {
    with(7, |rt| async move {
        for linger in [Nanos::from_micros(1), Nanos::from_secs(100)] {
            let shape = Shape { linger, ..Shape::volatile(2) };
            let boxes = fresh(&rt, &shape).await;
            live(&boxes.volume(&rt, &shape), 1).await;
            let old = boxes.cut_copy(&rt);
            // Both copies together are a volume.
            live(&old.cut_copy(&rt).volume(&rt, &shape), 9).await;
            for byte in 2..4 {
                live(&boxes.volume(&rt, &shape), byte).await;
                let mixed = Boxes { backing: old.backing.cut_copy(&rt), ..boxes.cut_copy(&rt) };
                let why = refusal(&mixed.volume(&rt, &shape)).await;
                assert!(matches!(why, VolumeError::OlderBacking { .. }), "{why}");
                let mixed = Boxes { backing: boxes.backing.cut_copy(&rt), ..old.cut_copy(&rt) };
                let why = refusal(&mixed.volume(&rt, &shape)).await;
                assert!(matches!(why, VolumeError::OlderLog { .. }), "{why}");
            }
            let volume = boxes.volume(&rt, &shape);
            volume.power_on().await.unwrap();
            assert_eq!(read(&volume.device(), 3).await, 3);
        }
    });
}

/// Once the other slot still had the label of the volume before, with a higher generation: that one
/// counted, and the new volume never started.
#[test]
fn a_volume_is_made_anew_over_the_backing_of_an_older_one() {
    with(7, |rt| async move {
        let shape = Shape::volatile(2);
        for starts in 0..4 {
            let before = fresh(&rt, &shape).await;
            for _ in 0..starts {
                live(&before.volume(&rt, &shape), 1).await;
            }
            before.backing.power_on().await.unwrap();
            let boxes = Boxes { backing: before.backing.clone(), ..Boxes::new(&rt, &shape) };
            let volume = boxes.volume(&rt, &shape);
            let why = volume.format(&shape.create()).await.unwrap_err();
            assert!(matches!(why, VolumeError::NotBlank { .. }), "{why}");
            volume.format(&CreateOptions { force: true, ..shape.create() }).await.unwrap();
            live(&volume, 2).await;
            live(&volume, 3).await;
        }
    });
}

#[test]
fn a_torn_label_leaves_the_one_before() {
    with(7, |rt| async move {
        let shape = Shape::volatile(1);
        let boxes = fresh(&rt, &shape).await;
        // The format wrote the label of generation 0; the next one goes to the other slot.
        let device = boxes.backing.device();
        let torn = vec![0xAB; BLOCK as usize];
        device.write(Block(BLOCKS + 8), Data::Bytes(&torn), Durability::Fua).await.unwrap();
        live(&boxes.volume(&rt, &shape), 1).await;
        boxes.backing.power_on().await.unwrap();
        let device = boxes.backing.device();
        for slot in [0, 8] {
            device.write(Block(BLOCKS + slot), Data::Bytes(&torn), Durability::Fua).await.unwrap();
        }
        let why = refusal(&boxes.volume(&rt, &shape)).await;
        assert!(matches!(why, VolumeError::NoLabel { .. }), "{why}");
    });
}

#[test]
fn formatting_destroys_nothing_unasked_and_keeps_the_backing() {
    with(7, |rt| async move {
        let shape = Shape::volatile(2);
        let boxes = Boxes::new(&rt, &shape);
        write(&boxes.backing.device(), 3, 5).await.unwrap();
        let volume = boxes.volume(&rt, &shape);
        volume.format(&shape.create()).await.unwrap();
        volume.power_on().await.unwrap();
        assert_eq!(read(&volume.device(), 3).await, 5);
        let again = volume.format(&shape.create()).await;
        assert!(matches!(again, Err(VolumeError::NotBlank { .. })), "{again:?}");

        let other = Boxes::new(&rt, &shape);
        let bytes = vec![1; BLOCK as usize];
        let end = Block(BLOCKS);
        other.backing.device().write(end, Data::Bytes(&bytes), Durability::Fua).await.unwrap();
        let volume = other.volume(&rt, &shape);
        let refused = volume.format(&shape.create()).await;
        assert!(matches!(refused, Err(VolumeError::NotBlank { .. })), "{refused:?}");
        volume.format(&CreateOptions { force: true, ..shape.create() }).await.unwrap();
        volume.power_on().await.unwrap();
    });
}

#[test]
fn what_does_not_suit_is_refused() {
    with(7, |rt| async move {
        let shape = Shape::volatile(1);
        let boxes = Boxes::new(&rt, &shape);
        let refused = |caps: Caps, options: VolumeOptions| {
            let backing = RamDevice::new(&rt, RamOptions::new(caps));
            let array = vec![("log".to_string(), boxes.array[0].clone())];
            let refused = LogVolume::new(&rt, array, None, backing, options).err();
            matches!(refused, Some(VolumeError::Unsuitable(_)))
        };
        let good = Caps::power_safe(16, Payload::Bytes);
        let options = VolumeOptions::default;
        assert!(!refused(good, options()));
        assert!(refused(Caps { payload: Payload::Stamps, ..good }, options()));
        assert!(refused(Caps { thin: true, ..good }, options()));
        assert!(refused(Caps { ack: Ack::Volatile, flush: false, ..good }, options()));
        assert!(refused(Caps { blocks: 2, ..good }, options()));
        assert!(refused(good, VolumeOptions { atomic_unit: 6000, ..options() }));
        // A log that is too small for the largest group, and one without memory for it.
        let array = || vec![("log".to_string(), boxes.array[0].clone())];
        let backing = || boxes.backing.clone();
        let large = VolumeOptions { atomic_unit: 128 << 10, ..options() };
        let volume = LogVolume::new(&rt, array(), None, backing(), large).unwrap();
        let refused = volume.format(&shape.create()).await;
        assert!(matches!(refused, Err(VolumeError::Open(_))), "{refused:?}");
        let mut small = shape.options();
        small.log.memory = 4096;
        let volume = LogVolume::new(&rt, array(), None, backing(), small).unwrap();
        let refused = volume.format(&shape.create()).await;
        assert!(matches!(refused, Err(VolumeError::Unsuitable(_))), "{refused:?}");
        // Nothing was written to what was refused.
        let volume = LogVolume::new(&rt, array(), None, backing(), shape.options()).unwrap();
        volume.format(&shape.create()).await.unwrap();
    });
}
