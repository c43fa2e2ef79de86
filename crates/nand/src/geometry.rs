//! Geometry and addresses.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The shape of a flash array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Channels: buses that transfer at the same time.
    ///
    /// *Source*: DuraSSD: its example drive.
    pub channels: u32,
    /// Packages on a channel.
    ///
    /// *Source*: DuraSSD: its example drive.
    pub packages: u32,
    /// Chips (dies) in a package: each does one operation at a time.
    ///
    /// *Source*: DuraSSD: its example drive.
    pub chips: u32,
    /// Planes of a die: the pages of one row are programmed in one operation.
    ///
    /// *Source*: DuraSSD: its example drive; ONFI: planes of a LUN.
    pub planes: u32,
    /// Blocks in a plane.
    ///
    /// *Source*: ONFI: parameter page.
    pub blocks: u32,
    /// Pages in a block.
    ///
    /// *Source*: ONFI: parameter page.
    pub pages: u32,
    /// Data bytes in a page.
    ///
    /// *Source*: ONFI: parameter page.
    pub page_bytes: u32,
    /// Out-of-band bytes in a page.
    ///
    /// *Source*: ONFI: parameter page.
    pub oob_bytes: u32,
}

/// Bytes in a sector: the unit of payload within a page.
pub const SECTOR_BYTES: u32 = 4096;

/// Why a geometry is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// A dimension is zero.
    #[error("geometry: {0} must be at least 1")]
    Zero(&'static str),
    /// Pages must hold whole sectors.
    #[error("geometry: page_bytes is {0}, not a multiple of {SECTOR_BYTES}")]
    PageBytes(u32),
    /// Sector addresses have 32 bits.
    #[error(
        "geometry: {0} sectors of {SECTOR_BYTES} bytes are more than a 32-bit address can name"
    )]
    TooLarge(u64),
    /// The out-of-band area is too small for what the drive writes there.
    #[error("geometry: oob_bytes is {have}; the drive writes {need} bytes beside each page")]
    Oob {
        /// Bytes needed.
        need: u32,
        /// Bytes there.
        have: u32,
    },
}

/// An erase unit: the same block of all planes of one die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit(pub u32);

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {}", self.0)
    }
}

/// A page of an erase unit. Pages are numbered row by row: page `i` is row
/// `i / planes` of plane `i % planes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddr {
    /// The unit.
    pub unit: Unit,
    /// The page in it.
    pub page: u32,
}

impl fmt::Display for PageAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of {}", self.page, self.unit)
    }
}

impl Geometry {
    /// Checks that such an array is possible.
    ///
    /// # Errors
    /// [`GeometryError`] says why not.
    pub fn check(&self) -> Result<(), GeometryError> {
        let dims = [
            ("channels", self.channels),
            ("packages", self.packages),
            ("chips", self.chips),
            ("planes", self.planes),
            ("blocks", self.blocks),
            ("pages", self.pages),
            ("page_bytes", self.page_bytes),
        ];
        for (name, n) in dims {
            if n == 0 {
                return Err(GeometryError::Zero(name));
            }
        }
        if !self.page_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(GeometryError::PageBytes(self.page_bytes));
        }
        let sectors =
            [self.channels, self.packages, self.chips, self.planes, self.blocks, self.pages]
                .iter()
                .try_fold(u64::from(self.page_bytes / SECTOR_BYTES), |a, &b| {
                    a.checked_mul(b.into())
                });
        match sectors {
            Some(n) if n < u64::from(u32::MAX) => Ok(()),
            other => Err(GeometryError::TooLarge(other.unwrap_or(u64::MAX))),
        }
    }

    /// Dies in all.
    pub fn dies(&self) -> u32 {
        self.channels * self.packages * self.chips
    }

    /// Erase units in all.
    pub fn units(&self) -> u32 {
        self.dies() * self.blocks
    }

    /// Pages in an erase unit.
    pub fn unit_pages(&self) -> u32 {
        self.planes * self.pages
    }

    /// Sectors in a page.
    pub fn page_sectors(&self) -> u32 {
        self.page_bytes / SECTOR_BYTES
    }

    /// Sectors in an erase unit.
    pub fn unit_sectors(&self) -> u32 {
        self.unit_pages() * self.page_sectors()
    }

    /// Sectors that one operation over all planes programs.
    pub fn row_sectors(&self) -> u32 {
        self.planes * self.page_sectors()
    }

    /// Sectors in all.
    pub fn sectors(&self) -> u64 {
        u64::from(self.units()) * u64::from(self.unit_sectors())
    }

    /// Data bytes in all.
    pub fn bytes(&self) -> u64 {
        self.sectors() * u64::from(SECTOR_BYTES)
    }

    /// The die of a unit. Neighbouring dies are on different channels.
    pub fn die(&self, unit: Unit) -> u32 {
        unit.0 / self.blocks
    }

    /// The channel of a die.
    pub fn channel(&self, die: u32) -> u32 {
        die % self.channels
    }

    /// The units of a die.
    pub fn die_units(&self, die: u32) -> impl Iterator<Item = Unit> + use<> {
        let blocks = self.blocks;
        (die * blocks..(die + 1) * blocks).map(Unit)
    }
}
