//! Devices that are gone, logs that are full, and logs of others.

mod common;

use common::{Devices, ONE_KIB, entry, id, options};
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{RaftLogReader, Vote};
use tantalum_log::Lsn;
use tantalum_openraft::kv::Words;
use tantalum_openraft::{FlashLog, OpenError};

#[tokio::test]
async fn what_was_acknowledged_outlives_one_of_two_devices() {
    let devices = Devices::new(2, 2);
    let mut store = devices.open(ONE_KIB).unwrap();
    let entries: Vec<_> = (0..50).map(|index| entry(1, index, 500)).collect();
    for entry in &entries {
        store.blocking_append([entry.clone()]).await.unwrap();
    }
    store.save_vote(&Vote::new(2, 1)).await.unwrap();
    store.purge(id(1, 9)).await.unwrap();
    drop(store);

    let mut degraded = options(0);
    degraded.log.open.degraded = true;
    let mut store = FlashLog::<Words>::open(&devices.paths[1..], degraded).unwrap();
    assert_eq!(store.read_vote().await.unwrap(), Some(Vote::new(2, 1)));
    assert_eq!(store.get_log_state().await.unwrap().last_purged_log_id, Some(id(1, 9)));
    assert_eq!(store.try_get_log_entries(..).await.unwrap(), entries[10..]);
}

#[tokio::test]
async fn a_full_log_refuses_entries_and_can_be_purged_once_it_is_opened_again() {
    let devices = Devices::of_bytes(1, 1, 8 << 20);
    let mut store = devices.open(ONE_KIB).unwrap();
    let mut count = 0;
    let refused = loop {
        match store.blocking_append([entry(1, count, 100_000)]).await {
            Ok(()) => count += 1,
            Err(e) => break e.to_string(),
        }
        assert!(count < 100, "the log has 8 MiB");
    };
    assert!(refused.contains("the log is full from LSN 0 to LSN "), "{refused}");
    assert!(count > 20, "{count} entries");
    // Memory may have more than the log: nothing is read.
    assert!(store.get_log_state().await.is_err());
    assert!(store.try_get_log_entries(..).await.is_err());
    drop(store);

    let mut store = devices.open(ONE_KIB).unwrap();
    assert_eq!(store.get_log_state().await.unwrap().last_log_id, Some(id(1, count - 1)));
    store.save_vote(&Vote::new(3, 1)).await.unwrap();
    store.purge(id(1, count - 1)).await.unwrap();
    store.blocking_append([entry(3, count, 100_000)]).await.unwrap();
    assert_eq!(store.try_get_log_entries(..).await.unwrap(), [entry(3, count, 100_000)]);
}

#[tokio::test]
async fn calls_that_do_not_follow_are_refused_and_change_nothing() {
    let devices = Devices::new(1, 1);
    let mut store = devices.open(ONE_KIB).unwrap();
    store.blocking_append([entry(1, 0, 10), entry(1, 1, 10)]).await.unwrap();
    let hole = store.blocking_append([entry(1, 2, 10), entry(1, 4, 10)]).await;
    assert!(hole.unwrap_err().to_string().contains("entry 4 comes where 3 belongs"));
    store.purge(id(1, 0)).await.unwrap();
    let purged = store.truncate(id(1, 0)).await.unwrap_err().to_string();
    assert!(purged.contains("the log is cut at 0 after 0 was purged"), "{purged}");
    let entries = [entry(1, 1, 10)];
    assert_eq!(store.try_get_log_entries(..).await.unwrap(), entries);
    drop(store);
    let mut store = devices.open(ONE_KIB).unwrap();
    assert_eq!(store.try_get_log_entries(..).await.unwrap(), entries);
}

/// Why a store does not open whose log has these records.
fn refused(records: &[&[u8]]) -> (Vec<Lsn>, OpenError) {
    let devices = Devices::new(1, 1);
    let log = devices.open_log();
    let commit = |record: &&[u8]| log.commit(record).unwrap().lsn;
    let lsns = records.iter().map(commit).collect();
    log.close().unwrap();
    drop(log);
    (lsns, devices.open(ONE_KIB).err().expect("it does not open"))
}

#[test]
fn logs_of_others_are_refused_by_lsn() {
    let vote: &[u8] = b"RAFT\x01\x03\0\0\0";
    for other in [b"".as_slice(), b"RAFT", b"something else", b"RAFT\0\x01"] {
        let (lsns, e) = refused(&[vote, other]);
        assert!(matches!(e, OpenError::Foreign(lsn) if lsn == lsns[1]), "{other:?}: {e}");
        assert!(e.to_string().starts_with("the record at LSN 17 is not of a Raft store"), "{e}");
    }
    let (lsns, e) = refused(&[b"RAFT\x02\x01"]);
    assert!(matches!(e, OpenError::Newer { lsn, version: 2 } if lsn == lsns[0]), "{e}");
    for garbled in [b"RAFT\x01\x09".as_slice(), b"RAFT\x01\x01", b"RAFT\x01\x02\x05\x05"] {
        let (lsns, e) = refused(&[vote, vote, garbled]);
        assert!(matches!(e, OpenError::Undecodable { lsn, .. } if lsn == lsns[2]), "{e}");
    }
}
