//! Addresses and the out-of-band words beside each page.

use std::fmt;
use tantalum_nand::{Geometry, PageAddr, Unit};

/// A logical page number: a 4 KiB block of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lpn(pub u32);

impl fmt::Display for Lpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "logical page {}", self.0)
    }
}

/// A physical sector: where on flash a logical page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ppa(pub u32);

/// The count of changes to the map: the n-th change has version n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// Later than any change.
    pub const MAX: Version = Version(u64::MAX);
}

/// The arithmetic from addresses to places.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Sectors in a page.
    pub page_sectors: u32,
    /// Sectors in an erase unit.
    pub unit_sectors: u32,
    /// Planes of a die.
    pub planes: u32,
    /// Pages in an erase unit.
    pub unit_pages: u32,
    /// Of these, from the first on, those in which data may be.
    pub data_pages: u32,
}

impl Places {
    /// Of this geometry.
    pub fn of(g: &Geometry) -> Places {
        Places {
            page_sectors: g.page_sectors(),
            unit_sectors: g.unit_sectors(),
            planes: g.planes,
            unit_pages: g.unit_pages(),
            data_pages: g.unit_pages(),
        }
    }

    /// Sectors of an erase unit in which data may be.
    pub fn data_sectors(&self) -> u32 {
        self.data_pages * self.page_sectors
    }

    /// The address of sector `sector` of a page, counted on into the pages after it.
    pub fn ppa(&self, at: PageAddr, sector: u32) -> Ppa {
        Ppa(at.unit.0 * self.unit_sectors + at.page * self.page_sectors + sector)
    }

    /// The unit of an address.
    pub fn unit(&self, ppa: Ppa) -> Unit {
        Unit(ppa.0 / self.unit_sectors)
    }

    /// The page of an address, and the sector in it.
    pub fn page(&self, ppa: Ppa) -> (PageAddr, u32) {
        let in_unit = ppa.0 % self.unit_sectors;
        let at = PageAddr { unit: self.unit(ppa), page: in_unit / self.page_sectors };
        (at, in_unit % self.page_sectors)
    }

    /// The sector of an address, for people.
    pub fn name(&self, ppa: Ppa) -> String {
        let (at, sector) = self.page(ppa);
        format!("sector {sector} of {at}")
    }

    /// The first address of a unit.
    pub fn unit_start(&self, unit: Unit) -> u32 {
        unit.0 * self.unit_sectors
    }
}

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data as the host wrote them.
    Host = 1,
    /// Data moved by the collector.
    Moved = 2,
    /// Data moved to level wear.
    Cold = 8,
    /// What is beside the pages of its unit.
    Summary = 12,
    /// Images of map pages.
    MapImage = 3,
    /// Changes to the map.
    MapDelta = 4,
    /// Entries of the journal of units, spilled to the map log.
    MapJournal = 14,
    /// Mark: the drive has run, and the dump with this number is due.
    DumpDue = 9,
    /// Emergency dump: changed map entries.
    DumpMap = 5,
    /// Emergency dump: whole map pages.
    DumpImage = 11,
    /// Emergency dump: the journal of units.
    DumpJournal = 10,
    /// Emergency dump: where the images of map pages are.
    DumpDirectory = 13,
    /// Emergency dump: buffered logical pages.
    DumpData = 6,
    /// Emergency dump: the last page, which makes it complete.
    DumpEnd = 7,
    /// Mark in a unit that is kept for dumps: from now on dumps may be in any unit.
    DumpsAnywhere = 15,
}

impl Kind {
    /// Whether pages of this kind are in units of the map log.
    pub fn is_of_log(self) -> bool {
        matches!(self, Kind::MapImage | Kind::MapDelta | Kind::MapJournal)
    }

    /// Whether pages of this kind are in units of a dump area.
    pub fn is_of_dump(self) -> bool {
        matches!(
            self,
            Kind::DumpDue
                | Kind::DumpMap
                | Kind::DumpImage
                | Kind::DumpJournal
                | Kind::DumpDirectory
                | Kind::DumpData
                | Kind::DumpEnd
        )
    }
}

/// The index of a sector of a page that holds nothing.
pub const NO_INDEX: u32 = u32::MAX;

/// Bits of the version in the second word of a page of the map log. Above them is how many
/// pages of its program come before it.
pub const LOG_VERSION_BITS: u32 = 48;

/// Stands for the birth of data that are programmed for the first time, which is the sequence
/// number of their page.
pub const BORN_NOW: u64 = u64::MAX;

/// What a page of the map log says about the pages before it at its write point. It is beside the
/// number of its first sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing: it belongs to the first program in its unit.
    Unknown,
    /// This unit was filled before, and its last program can be read.
    Full(Unit),
    /// A restart found the unit written up to this page, and goes on there. `whole`: every page
    /// written there since the previous restart could be read.
    Restart {
        /// The first page since the restart.
        page: u32,
        /// Nothing before it was torn.
        whole: bool,
    },
}

impl Before {
    const FLAG: u32 = 1 << 31;
    const UNIT: u32 = 1 << 30;

    /// As 32 bits. A page or unit with too large a number becomes [`Before::Unknown`].
    pub fn encode(self) -> u32 {
        match self {
            Before::Full(Unit(unit)) if unit < Before::UNIT => Before::UNIT | unit,
            Before::Restart { page, whole } if page < Before::UNIT => {
                page | if whole { Before::FLAG } else { 0 }
            }
            _ => 0,
        }
    }

    /// From these bits.
    pub fn decode(bits: u32) -> Before {
        let number = bits & (Before::UNIT - 1);
        match bits & Before::UNIT != 0 {
            true => Before::Full(Unit(number)),
            false if number > 0 => {
                Before::Restart { page: number, whole: bits & Before::FLAG != 0 }
            }
            false => Before::Unknown,
        }
    }
}

/// Beside the logical page number of a sector: its data could not be read when they were moved.
/// Reads go on to fail.
pub const LOST: u64 = 1 << 32;

/// Beside the logical page number of a sector that the host wrote: it belongs to an atomic group
/// of which nothing else tells (`firmware/flags`).
pub const PART: u64 = 1 << 33;

/// Beside the logical page number of such a sector: more of the group comes after it.
pub const MORE: u64 = 1 << 34;

/// Out-of-band words beside each page: 0: kind (8 bits) and sequence number (56);
/// 1: version of the map (see [`LOG_VERSION_BITS`]), number of the dump, or that of a group (with
/// [`PART`]); then one a sector: its logical
/// page number, number of the map page, or count of entries (32 bits; above them
/// [`LOST`], [`PART`], [`MORE`], or in the map log [`Before`]); then one a sector:
/// its birth, the sequence number of the page in which its data were first programmed. Of two
/// copies of a logical page the one born later is newer; those born together are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHead {
    /// What the page holds.
    pub kind: Kind,
    /// Ever increasing within its kind of unit.
    pub sequence: u64,
    /// The second word.
    pub version: u64,
}

impl PageHead {
    /// Words beside each page.
    pub fn words(page_sectors: u32) -> u32 {
        2 + 2 * page_sectors
    }

    /// The first two words.
    pub fn encode(&self) -> [u64; 2] {
        [(self.kind as u64) << 56 | (self.sequence & ((1 << 56) - 1)), self.version]
    }

    /// From the words of a page; `None` if no drive wrote them.
    pub fn decode(words: &[u64]) -> Option<PageHead> {
        let kind = match words[0] >> 56 {
            1 => Kind::Host,
            2 => Kind::Moved,
            8 => Kind::Cold,
            3 => Kind::MapImage,
            4 => Kind::MapDelta,
            5 => Kind::DumpMap,
            6 => Kind::DumpData,
            7 => Kind::DumpEnd,
            9 => Kind::DumpDue,
            10 => Kind::DumpJournal,
            11 => Kind::DumpImage,
            12 => Kind::Summary,
            13 => Kind::DumpDirectory,
            14 => Kind::MapJournal,
            15 => Kind::DumpsAnywhere,
            _ => return None,
        };
        Some(PageHead { kind, sequence: words[0] & ((1 << 56) - 1), version: words[1] })
    }
}
