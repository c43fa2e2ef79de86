//! openraft's own tests of stores, on real files.

mod common;

use common::{Devices, ONE_KIB};
use openraft::StorageError;
use openraft::testing::{StoreBuilder, Suite};
use tantalum_openraft::FlashLog;
use tantalum_openraft::kv::{StateMachine, Words};

/// Makes stores of this shape, each in a folder of its own.
struct Builder {
    files: usize,
    copies: u8,
    memory: usize,
}

impl StoreBuilder<Words, FlashLog<Words>, StateMachine, Devices> for Builder {
    async fn build(&self) -> Result<(Devices, FlashLog<Words>, StateMachine), StorageError<u64>> {
        let devices = Devices::new(self.files, self.copies);
        let log = devices.open(self.memory).expect("a new store opens");
        Ok((devices, log, StateMachine::default()))
    }
}

#[test]
fn the_store_passes_the_tests_of_openraft() {
    Suite::test_all(Builder { files: 1, copies: 1, memory: 64 << 20 }).unwrap();
}

#[test]
fn so_does_one_on_two_devices_that_reads_everything_from_them() {
    Suite::test_all(Builder { files: 2, copies: 1, memory: 0 }).unwrap();
}

#[test]
fn so_does_one_with_two_copies() {
    Suite::test_all(Builder { files: 2, copies: 2, memory: ONE_KIB }).unwrap();
}
