//! Who a device is: its superblock, written twice when the log is created or the device joins it.
//!
//! ```text
//! device                                   superblock (512 bytes)
//!      0 superblock                         0  8 "TNTLOG1\0"
//!  16384 superblock again                   8  4 version (1)
//!  32768 state, even generations           12  4 CRC-32C of the 512 bytes, with zeros here
//!  49152 state, odd generations            16 16 set
//!  65536 areas: of each partition the      32 16 device
//!        sections of its main stream,      48  4 index of the device in the set
//!        then those of its second one      52  4 devices in the set
//!                                          56  1 role: 0 device of the array, 1 archive
//!                                          57  1 copies of each record
//!                                          58  2 partitions
//!                                          60  4 unit: bytes of a log block
//!                                          64  8 bytes of the device
//!                                          72  4 units in a section
//!                                          76  4 sections of a main stream
//!                                          80  4 sections of a second stream
//!                                          84  4 bytes of a record, at most
//!                                          88  . zeros
//! ```
//!
//! 1. Both copies are alike. One that is torn is survived by the other.
//! 2. Nothing of it changes while the device belongs to the log.

use crate::format::number;
use crc32c::crc32c;

pub(crate) const MAGIC: &[u8; 8] = b"TNTLOG1\0";
pub(crate) const VERSION: u32 = 1;
pub(crate) const BYTES: usize = 512;
/// Where the two copies are.
pub(crate) const COPIES: [u64; 2] = [0, 16384];
/// Where the areas begin.
pub(crate) const AREAS: u64 = 65536;
/// Units are so large, at most; as large are the slots of superblocks and states.
pub(crate) const UNIT_MAX: u32 = 16384;

/// Devices in a log, at most.
pub(crate) const DEVICES_MAX: u32 = 32;
/// Partitions of a device, at most.
pub(crate) const PARTITIONS_MAX: u16 = 64;

/// An identity of 16 bytes.
pub(crate) type Uuid = [u8; 16];

/// What a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A device of the array: requests go to it.
    Array,
    /// The archive: everything goes there in large pieces.
    Archive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub set: Uuid,
    pub device: Uuid,
    pub index: u32,
    pub devices: u32,
    pub role: Role,
    pub copies: u8,
    pub partitions: u16,
    pub unit: u32,
    pub bytes: u64,
    pub section_units: u32,
    pub main_sections: u32,
    pub second_sections: u32,
    pub record_limit: u32,
}

/// What was found where a superblock should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundSuper {
    Good(Superblock),
    /// A log of a newer version.
    Newer(u32),
    /// It was a superblock, or is one that makes no sense.
    Damaged,
    /// Nothing of a log.
    Nothing,
}

impl Superblock {
    pub fn encode(&self) -> [u8; BYTES] {
        let mut b = [0; BYTES];
        b[..8].copy_from_slice(MAGIC);
        b[8..12].copy_from_slice(&VERSION.to_le_bytes());
        b[16..32].copy_from_slice(&self.set);
        b[32..48].copy_from_slice(&self.device);
        b[48..52].copy_from_slice(&self.index.to_le_bytes());
        b[52..56].copy_from_slice(&self.devices.to_le_bytes());
        b[56] = u8::from(self.role == Role::Archive);
        b[57] = self.copies;
        b[58..60].copy_from_slice(&self.partitions.to_le_bytes());
        b[60..64].copy_from_slice(&self.unit.to_le_bytes());
        b[64..72].copy_from_slice(&self.bytes.to_le_bytes());
        b[72..76].copy_from_slice(&self.section_units.to_le_bytes());
        b[76..80].copy_from_slice(&self.main_sections.to_le_bytes());
        b[80..84].copy_from_slice(&self.second_sections.to_le_bytes());
        b[84..88].copy_from_slice(&self.record_limit.to_le_bytes());
        let crc = crc32c(&b);
        b[12..16].copy_from_slice(&crc.to_le_bytes());
        b
    }

    pub fn decode(from: &[u8]) -> FoundSuper {
        if from.len() < BYTES || &from[..8] != MAGIC {
            return FoundSuper::Nothing;
        }
        let mut b: [u8; BYTES] = [0; BYTES];
        b.copy_from_slice(&from[..BYTES]);
        let version = number(&b, 8, 4) as u32;
        if version > VERSION {
            return FoundSuper::Newer(version);
        }
        let crc = number(&b, 12, 4);
        b[12..16].fill(0);
        if version == 0 || crc != u64::from(crc32c(&b)) {
            return FoundSuper::Damaged;
        }
        let word = |at| number(&b, at, 4) as u32;
        let uuid = |at: usize| {
            let mut uuid = [0; 16];
            uuid.copy_from_slice(&b[at..at + 16]);
            uuid
        };
        let found = Superblock {
            set: uuid(16),
            device: uuid(32),
            index: word(48),
            devices: word(52),
            role: if b[56] == 0 { Role::Array } else { Role::Archive },
            copies: b[57],
            partitions: number(&b, 58, 2) as u16,
            unit: word(60),
            bytes: number(&b, 64, 8),
            section_units: word(72),
            main_sections: word(76),
            second_sections: word(80),
            record_limit: word(84),
        };
        if found.makes_sense() { FoundSuper::Good(found) } else { FoundSuper::Damaged }
    }

    /// Whether bytes begin as a superblock of this log does, perhaps without being whole.
    pub fn begins(bytes: &[u8], set: &Uuid) -> bool {
        bytes.len() >= BYTES && &bytes[..8] == MAGIC && bytes[16..32] == *set
    }

    /// Whether a device can look like that.
    fn makes_sense(&self) -> bool {
        let unit = self.unit.is_power_of_two() && (512..=UNIT_MAX).contains(&self.unit);
        let set = self.index < self.devices && self.devices <= DEVICES_MAX;
        let counts = (1..=PARTITIONS_MAX).contains(&self.partitions)
            && self.section_units > 1
            && self.main_sections > 1;
        unit && set && counts && (1..=2).contains(&self.copies) && self.fits()
    }

    fn fits(&self) -> bool {
        let sections = u64::from(self.main_sections) + u64::from(self.second_sections);
        let all = sections.checked_mul(u64::from(self.section_units));
        let all = all.and_then(|units| units.checked_mul(u64::from(self.partitions)));
        let all = all.and_then(|units| units.checked_mul(u64::from(self.unit)));
        all.and_then(|bytes| bytes.checked_add(AREAS)).is_some_and(|end| end <= self.bytes)
    }

    /// How many streams the device has.
    pub fn streams(&self) -> u8 {
        let each = if self.second_sections > 0 { 2 } else { 1 };
        (self.partitions * each) as u8
    }

    /// Where the area of a stream begins, in units of the device, and how many sections it has.
    /// Even streams are the main ones of partitions, odd ones their second ones.
    pub fn area(&self, stream: u8) -> (u64, u32) {
        let section = u64::from(self.section_units);
        let (main, second) = (u64::from(self.main_sections), u64::from(self.second_sections));
        let first = AREAS / u64::from(self.unit);
        if second == 0 {
            return (first + u64::from(stream) * main * section, self.main_sections);
        }
        let partition = first + u64::from(stream / 2) * (main + second) * section;
        match stream % 2 {
            0 => (partition, self.main_sections),
            _ => (partition + main * section, self.second_sections),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Superblock {
        Superblock {
            set: [1; 16],
            device: [2; 16],
            index: 1,
            devices: 3,
            role: Role::Array,
            copies: 2,
            partitions: 2,
            unit: 512,
            bytes: 1 << 20,
            section_units: 16,
            main_sections: 20,
            second_sections: 5,
            record_limit: 1 << 20,
        }
    }

    proptest! {
        #[test]
        fn a_changed_byte_is_noticed(at in 0..BYTES, change in 1..=255u8) {
            let mut bytes = example().encode();
            prop_assert_eq!(Superblock::decode(&bytes), FoundSuper::Good(example()));
            bytes[at] ^= change;
            prop_assert!(!matches!(Superblock::decode(&bytes), FoundSuper::Good(_)));
        }
    }

    /// With a right checksum such numbers once overflowed.
    #[test]
    fn numbers_that_no_log_has_are_damage() {
        let large = Superblock { bytes: 1 << 40, second_sections: 5, ..example() };
        for partitions in [0, 65, 128, 32_768, u16::MAX] {
            let bytes = Superblock { partitions, ..large }.encode();
            assert!(!matches!(Superblock::decode(&bytes), FoundSuper::Good(_)), "{partitions}");
        }
        let most = Superblock { partitions: PARTITIONS_MAX, ..large };
        assert_eq!(Superblock::decode(&most.encode()), FoundSuper::Good(most));
        assert_eq!(most.streams(), 128);
    }

    #[test]
    fn areas_follow_each_other() {
        let s = example();
        let areas: Vec<(u64, u32)> = (0..s.streams()).map(|stream| s.area(stream)).collect();
        assert_eq!(areas, [(128, 20), (448, 5), (528, 20), (848, 5)]);
        let one = Superblock { second_sections: 0, ..s };
        let areas: Vec<(u64, u32)> = (0..one.streams()).map(|stream| one.area(stream)).collect();
        assert_eq!(areas, [(128, 20), (448, 20)]);
    }
}
