//! A volume whose log is damaged does not start; salvaged, it has what is before the damage.

use super::rig::{BLOCK, Boxes, Shape, Volume, read, with, write};
use tantalum_device::{
    Block, BlockDevice, Data, DataMut, Durability, LiveBox, PowerCycle, PowerState, RamDevice,
    StartError,
};
use tantalum_log::{OpenError, VolumeError};
use tantalum_rt::{Nanos, Rt, join};

/// Flips a bit in the block of the log with this number among those that hold bytes.
async fn damage(device: &RamDevice, number: usize) {
    device.power_on().await.unwrap();
    let link = device.device();
    let mut all = vec![0; (link.caps().blocks * u64::from(BLOCK)) as usize];
    link.read(Block(0), DataMut::Bytes(&mut all)).await.unwrap();
    let blocks = all.chunks_mut(BLOCK as usize).enumerate().skip(128);
    let (at, block) = blocks.filter(|(_, block)| block[4] == 1).nth(number).expect("it is there");
    block[100] ^= 1;
    link.write(Block(at as u64), Data::Bytes(block), Durability::Fua).await.unwrap();
    device.cut();
    device.off().await;
}

/// Whether the volume says at any moment of its start why it does not start.
async fn advice(rt: &Rt, volume: &Volume) -> bool {
    let mut looks = 0;
    loop {
        rt.sleep(Nanos::from_micros(10)).await;
        match volume.power_state() {
            PowerState::Starting if LiveBox::failure(volume).is_some() => return true,
            PowerState::Starting => looks += 1,
            PowerState::On => break,
            _ => {}
        }
    }
    assert!(looks > 10, "it is seen while it starts");
    false
}

#[test]
fn a_damaged_log_is_salvaged_if_asked_and_not_before() {
    with(7, |rt| async move {
        // Nothing is destaged: the log has it all.
        let shape = Shape { linger: Nanos::from_secs(100), ..Shape::volatile(1) };
        let boxes = Boxes::new(&rt, &shape);
        let volume = boxes.started(&rt, &shape).await;
        for block in 0..20 {
            write(&volume.device(), block, block as u8 + 1).await.unwrap();
        }
        volume.cut();
        volume.off().await;
        damage(&boxes.array[0], 12).await;
        let Err(StartError::Failed(why)) = volume.bring_up(false).await else {
            panic!("it starts on a damaged log")
        };
        assert!(why.contains("damage"), "{why}");
        let why = volume.start_failure();
        assert!(matches!(why, Some(VolumeError::Open(OpenError::Damaged(_)))), "{why:?}");
        let (started, has_advice) = join(volume.bring_up(true), advice(&rt, &volume)).await;
        let lost = started.unwrap();
        assert!(!has_advice, "to salvage it, while that is done");
        assert!(lost.len() == 1 && lost[0].contains("the rest is lost"), "{lost:?}");
        let mut found = Vec::new();
        for block in 0..20 {
            found.push(read(&volume.device(), block).await);
        }
        let kept = found.iter().take_while(|byte| **byte != 0).count();
        assert!(kept > 0 && kept < 20, "{found:?}");
        let prefix: Vec<u8> = (1..=20).map(|i| if i <= kept as u8 { i } else { 0 }).collect();
        assert_eq!(found, prefix);
        // It is whole from then on.
        write(&volume.device(), 30, 9).await.unwrap();
        volume.cut();
        volume.off().await;
        assert_eq!(volume.bring_up(false).await, Ok(Vec::new()));
        assert_eq!(read(&volume.device(), 30).await, 9);
        assert_eq!(read(&volume.device(), kept as u64).await, 0);
    });
}
