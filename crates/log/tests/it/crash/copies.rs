//! Damage to one of two copies is found. (That a crash leaves none, `rig.rs` checks after each cut.)

use super::running::{Device, commit_many, make, named, options, run};
use tantalum_device::{Block, BlockDevice, Data, DataMut, Durability, PowerCycle};
use tantalum_log::{Log, Lsn, OneCopy, OpenOptions};
use tantalum_rt::Rt;

const UNIT: usize = 512;
const FULL: u64 = UNIT as u64 - 40;

async fn all_of(device: &Device) -> Vec<u8> {
    let mut bytes = vec![0; 1024 * UNIT];
    device.inner.device().read(Block(0), DataMut::Bytes(&mut bytes)).await.unwrap();
    bytes
}

async fn put(device: &Device, at: usize, bytes: &[u8]) {
    let device = device.inner.device();
    device.write(Block(at as u64), Data::Bytes(bytes), Durability::Fua).await.unwrap();
}

pub async fn found(rt: &Rt, devices: &[Device]) -> Vec<OneCopy> {
    let options = OpenOptions { read_only: true, ..options() };
    let log = Log::open(rt, named(devices), options).await.unwrap();
    log.one_copy().await.unwrap()
}

/// The blocks of the log on a device: place, LSN, bytes, watermark.
fn blocks(device: &[u8]) -> Vec<(usize, u64, u64, u64)> {
    let word = |b: &[u8], at: usize| u64::from_le_bytes(b[at..at + 8].try_into().unwrap());
    let all = device.chunks(UNIT).enumerate().skip(128).filter(|(_, b)| b[4] == 1);
    let bytes = |b: &[u8]| u64::from(u16::from_le_bytes([b[6], b[7]]));
    all.map(|(i, b)| (i, word(b, 16), bytes(b), word(b, 24))).collect()
}

/// Once a check said that all is well, with any damage to one of two copies.
#[test]
fn damage_to_one_copy_is_found_where_it_is() {
    for (bad, byte) in [(0, 0xEE), (1, 0xEE), (0, 0), (1, 0)] {
        run(async move |rt| {
            let (devices, log) = make(&rt, 2, 2).await;
            commit_many(&rt, &log, 3, 15).await.unwrap();
            log.close().await.unwrap();
            assert_eq!(found(&rt, &devices).await, []);
            let all = blocks(&all_of(&devices[bad]).await);
            let watermark = all.iter().map(|b| b.3).max().unwrap();
            let acknowledged = |b: &&(usize, u64, u64, u64)| b.2 == FULL && b.1 + FULL <= watermark;
            let mut damaged = 0;
            for (at, lsn, ..) in all.iter().filter(acknowledged) {
                let whole = all_of(&devices[bad]).await;
                put(&devices[bad], *at, &[byte; UNIT]).await;
                // The beginning of the block may be in blocks that were written before it was full.
                let again = all.iter().filter(|b| b.1 == *lsn && b.0 != *at);
                let from = lsn + again.map(|b| b.2).max().unwrap_or(0);
                let place = Some((format!("device {bad}"), (at * UNIT) as u64));
                let (lsn, end, on) = (Lsn(from), Lsn(lsn + FULL), format!("device {}", 1 - bad));
                let told = found(&rt, &devices).await;
                assert_eq!(told, [OneCopy { lsn, end, on, place }], "byte {byte} in block {at}");
                put(&devices[bad], *at, &whole[at * UNIT..][..UNIT]).await;
                damaged += 1;
            }
            assert!(damaged > 5, "{damaged} blocks");
        });
    }
}
