//! Tests of the directory.

mod attach;
mod killed;
mod random;
mod ring;
pub(super) mod turns;
mod two;

use super::{Batch, Directory, Entry, Liveness, Owner, Region, Shape, Version};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Owners live until they are said to be dead.
#[derive(Default)]
pub(crate) struct Living(Mutex<Vec<Owner>>);

impl Living {
    pub fn dies(&self, owner: u64) {
        self.0.lock().unwrap().push(Owner::new(owner).unwrap());
    }
}

impl Liveness for Living {
    fn is_alive(&self, owner: Owner) -> bool {
        !self.0.lock().unwrap().contains(&owner)
    }
}

/// Memory, and who works on it.
pub(crate) struct Place {
    pub region: Region,
    pub living: Arc<Living>,
}

impl Place {
    /// Owner 1 formats it.
    pub fn new(frames: u64, batch: u32) -> (Place, Directory) {
        let shape = Shape { frames, batch };
        let region = Region::owned(shape.bytes_needed().unwrap());
        let living = Arc::new(Living::default());
        let first = Owner::new(1).unwrap();
        let directory = Directory::format(region.clone(), shape, 0, first, living.clone()).unwrap();
        (Place { region, living }, directory)
    }

    pub fn attach(&self, owner: u64) -> Directory {
        let owner = Owner::new(owner).unwrap();
        Directory::attach(self.region.clone(), owner, self.living.clone()).unwrap()
    }
}

pub(crate) fn version(page: u64, lsn: u64) -> Version {
    Version { page, lsn, checksum: checksum(page, lsn), dirty: true }
}

pub(crate) fn checksum(page: u64, lsn: u64) -> u32 {
    super::chain::mixed(page ^ lsn << 40) as u32
}

/// Reserves, stages, closes and publishes.
pub(crate) fn write(directory: &Directory, versions: &[Version]) -> Batch {
    let batch = directory.reserve().unwrap();
    for version in versions {
        directory.stage(&batch, *version).unwrap();
    }
    directory.close(&batch).unwrap();
    directory.publish(&batch).unwrap();
    batch
}

/// Pages of one chain.
pub(crate) fn of_one_chain(directory: &Directory, count: usize) -> Vec<u64> {
    let chain = directory.chain_of(1);
    (1..).filter(|page| directory.chain_of(*page) == chain).take(count).collect()
}

/// The current version of each page: LSN, and whether it is dirty. Looked up without any repair.
pub(crate) fn current(directory: &Directory, pages: &[u64]) -> BTreeMap<u64, (u64, bool)> {
    let found = pages.iter().filter_map(|page| directory.peek(*page));
    let whole = found.inspect(|entry: &Entry| {
        assert_eq!(entry.checksum, checksum(entry.page, entry.lsn), "{entry:?}");
        assert!(entry.valid);
    });
    whole.map(|entry| (entry.page, (entry.lsn, entry.dirty))).collect()
}
