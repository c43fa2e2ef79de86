//! A model of the host's page cache: between two syncs any page of the image that changed may be on
//! the host's disk, as it was after any of its stores, or not.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tantalum_nand::Change;
use tantalum_rt::Stream;

/// Pages of the host.
const PAGE: u64 = 4096;
/// So many versions of a page are kept, beside the newest.
const VERSIONS: usize = 6;

/// What the host has of a file, in its page cache and on its disk.
pub struct Host {
    file: File,
    durable: Vec<u8>,
    /// Of pages that changed since: what they were after some of their stores, the newest last.
    dirty: BTreeMap<u64, Vec<Vec<u8>>>,
    dice: Stream,
    /// Changes so far.
    pub changes: u64,
}

impl Host {
    /// Of a file that is durable.
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    pub fn new(path: &Path, seed: u64) -> Host {
        let (file, durable) = (File::open(path).unwrap(), std::fs::read(path).unwrap());
        let dice = Stream::new(seed, "the page cache");
        Host { file, durable, dirty: BTreeMap::new(), dice, changes: 0 }
    }

    fn page(&self, page: u64) -> Vec<u8> {
        let mut bytes = vec![0; PAGE as usize];
        self.file.read_exact_at(&mut bytes, page * PAGE).unwrap();
        bytes
    }

    fn pages(bytes: &Range<u64>) -> Range<u64> {
        bytes.start / PAGE..bytes.end.div_ceil(PAGE)
    }

    /// Takes note of a change.
    pub fn note(&mut self, change: Change) {
        match change {
            Change::Stored(bytes) => {
                self.changes += 1;
                for page in Host::pages(&bytes) {
                    let now = self.page(page);
                    let versions = self.dirty.entry(page).or_default();
                    if versions.len() > VERSIONS {
                        versions.remove(self.dice.below(VERSIONS as u64) as usize);
                    }
                    versions.push(now);
                }
            }
            Change::Synced(part) => {
                let part = part.map_or(0..u64::MAX, |bytes| Host::pages(&bytes));
                let pages: Vec<u64> = self.dirty.range(part).map(|(page, _)| *page).collect();
                for page in pages {
                    let (now, at) = (self.page(page), (page * PAGE) as usize);
                    self.durable[at..at + PAGE as usize].copy_from_slice(&now);
                    self.dirty.remove(&page);
                }
            }
        }
    }

    /// What the disk may have now, in a file.
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    pub fn crash(&self, to: &Path, dice: &mut Stream) {
        let mut disk = self.durable.clone();
        // Of all of them many, or few.
        let of_eight = dice.below(9);
        for (page, versions) in &self.dirty {
            let newest = dice.below(8) < of_eight;
            let which =
                if newest { versions.len() as u64 } else { dice.below(versions.len() as u64 + 1) };
            if let Some(version) = (which as usize).checked_sub(1).map(|i| &versions[i]) {
                let at = (page * PAGE) as usize;
                disk[at..at + PAGE as usize].copy_from_slice(version);
            }
        }
        let file = File::create(to).unwrap();
        file.set_len(disk.len() as u64).unwrap();
        for (page, bytes) in (0..).zip(disk.chunks(PAGE as usize)) {
            if bytes.iter().any(|b| *b != 0) {
                file.write_all_at(bytes, page * PAGE).unwrap();
            }
        }
    }
}
