//! Entries of the map on flash: in map pages, in deltas and in dumps.
//!
//! Behind the logical pages each erase unit has an entry (whether it is bad), and behind these
//! there is one more (whether the drive's life is over).

use crate::format::words::{Lpn, Ppa};
use tantalum_nand::{SECTOR_BYTES, Unit};

/// Map entries in one map page (a sector of 4-byte entries).
pub const MAP_PAGE_ENTRIES: u32 = SECTOR_BYTES / 4;

/// Entries (logical page number, address) in one sector of a delta or a dump.
pub const DELTA_ENTRIES: u32 = SECTOR_BYTES / 8;

/// The map page of a logical page.
pub fn map_page(lpn: Lpn) -> u32 {
    lpn.0 / MAP_PAGE_ENTRIES
}

/// The entry of an erase unit in the map, behind those of `logical` pages.
pub fn unit_entry(logical: u32, unit: Unit) -> Lpn {
    Lpn(logical.next_multiple_of(MAP_PAGE_ENTRIES) + unit.0)
}

/// The entry behind those of `units` erase units: whether the drive's life is over.
pub fn end_entry(logical: u32, units: u32) -> Lpn {
    unit_entry(logical, Unit(units))
}

/// Whose an entry of the map is, for people.
pub fn entry_name(logical: u32, units: u32, entry: Lpn) -> String {
    match entry.0.checked_sub(unit_entry(logical, Unit(0)).0) {
        _ if entry.0 < logical => entry.to_string(),
        _ if entry == end_entry(logical, units) => "the mark of the drive's end".into(),
        Some(unit) if unit < units => format!("the mark of {} as bad", Unit(unit)),
        _ => format!("entry {} of the map, which is nobody's", entry.0),
    }
}

/// The bytes of one entry of a delta or dump: logical page number, address + 1 or 0.
pub fn encode_entry(lpn: Lpn, to: Option<Ppa>, out: &mut [u8]) {
    out[..4].copy_from_slice(&lpn.0.to_le_bytes());
    let value = to.map_or(0, |p| p.0 + 1);
    out[4..8].copy_from_slice(&value.to_le_bytes());
}

/// The entry in these bytes.
pub fn decode_entry(bytes: &[u8]) -> (Lpn, Option<Ppa>) {
    let lpn = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let value = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    (Lpn(lpn), value.checked_sub(1).map(Ppa))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_of_the_map_is_somebodys_and_what_is_beyond_nobodys() {
        let (logical, units) = (5000, 8);
        let name = |entry| entry_name(logical, units, entry);
        assert_eq!(name(Lpn(4999)), "logical page 4999");
        assert_eq!(name(Lpn(5000)), "entry 5000 of the map, which is nobody's");
        assert_eq!(name(unit_entry(logical, Unit(0))), "the mark of unit 0 as bad");
        assert_eq!(name(unit_entry(logical, Unit(7))), "the mark of unit 7 as bad");
        assert_eq!(name(end_entry(logical, units)), "the mark of the drive's end");
        let beyond = Lpn(end_entry(logical, units).0 + 1);
        assert!(name(beyond).ends_with("nobody's"));
    }
}
