//! The last page of a dump: it says what else is in it.

use tantalum_nand::Unit;

/// The end page's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DumpEnd {
    /// Sectors of changed map entries, of changed map pages, or of the journal of units; and of
    /// the directory.
    pub map_sectors: u64,
    /// Buffered pages.
    pub data_sectors: u64,
    /// The version of the map.
    pub version: u64,
    /// Units of the area in which a program failed.
    pub failed: Vec<Unit>,
}

impl DumpEnd {
    /// Puts it into the bytes of the end page.
    pub fn encode(&self, page: &mut [u8]) {
        let head = [self.map_sectors, self.data_sectors, self.version, self.failed.len() as u64];
        let failed = self.failed.iter().map(|unit| u64::from(unit.0));
        for (word, out) in head.into_iter().chain(failed).zip(page.chunks_exact_mut(8)) {
            out.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// From the bytes of the end page.
    pub fn decode(page: &[u8]) -> DumpEnd {
        let word = |i: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&page[i * 8..i * 8 + 8]);
            u64::from_le_bytes(bytes)
        };
        let most = page.len() as u64 / 8;
        let failed =
            (4..(word(3).saturating_add(4)).min(most)).map(|i| Unit(word(i as usize) as u32));
        DumpEnd {
            map_sectors: word(0),
            data_sectors: word(1),
            version: word(2),
            failed: failed.collect(),
        }
    }
}
