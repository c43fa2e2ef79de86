//! The header of an image file, and the places of its parts. `docs/image.md` describes it byte by
//! byte.

use super::ImageError;
use super::mapped::PAGE;
use super::marks::MARKS_BYTES;
use super::sync::{Kept, LOG_MORE};
use crate::Geometry;
use crate::geometry::SECTOR_BYTES;
use tantalum_device::Payload;

pub(crate) const MAGIC: &[u8; 8] = b"TANTALUM";

/// The version of the format that this program writes, and the newest that it reads.
pub const IMAGE_VERSION: u32 = 2;

/// Bytes of a record of an operation under way.
pub(crate) const FLIGHT_BYTES: u64 = 64;

/// Bytes of the record of a unit.
pub(crate) const UNIT_BYTES: u64 = 16;

/// Bytes of the record of a page.
pub(crate) const PAGE_RECORD: u64 = 8;

/// The longest description of a design.
const DESIGN_MAX: u64 = 1 << 20;

/// The most operations under way that an image has room for.
const FLIGHTS_MAX: u32 = 1 << 24;

/// The specification of an image. It never changes after the image is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSpec {
    /// The version of its format: [`IMAGE_VERSION`], or an older one.
    pub version: u32,
    /// The serial number of the drive, which no other drive has.
    pub serial: [u8; 16],
    /// The shape of the array.
    pub geometry: Geometry,
    /// The kind of payload.
    pub payload: Payload,
    /// 64-bit words beside each page.
    pub oob_words: u32,
    /// The most programs and erases that may be under way at a time.
    pub flights: u32,
    /// Bytes for other data that are to outlive the process (see [`super::ImageFile::protected`]).
    pub protected: u64,
    /// The design of the drive, as text.
    pub design: String,
}

/// A part of the file: its offset, and its length in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub at: u64,
    pub len: u64,
}

/// The places of all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    pub state: Part,
    pub design: Part,
    pub flights: Part,
    pub units: Part,
    pub pages: Part,
    pub oob: Part,
    pub stamps: Part,
    pub payload: Part,
    pub protected: Part,
    /// The last user of the image (`marks`); since version 2.
    pub marks: Part,
    /// What was made durable after `base` (`sync`); since version 2.
    pub log: Part,
    /// A second copy of state, design, operations, units and protected memory (`sync`); since
    /// version 2.
    pub base: Part,
    /// Length of the file.
    pub end: u64,
}

impl Parts {
    fn all(&self, version: u32) -> Vec<Part> {
        let Parts { state, design, flights, units, pages, oob, stamps, payload, protected, .. } =
            *self;
        let mut all = vec![state, design, flights, units, pages, oob, stamps, protected, payload];
        if version >= 2 {
            all.extend([self.marks, self.log, self.base]);
        }
        all
    }
}

impl ImageSpec {
    /// Checks that such an image is possible.
    pub(crate) fn check(&self) -> Result<(), ImageError> {
        if self.version > IMAGE_VERSION || self.version == 0 {
            return Err(ImageError::Newer { version: self.version });
        }
        self.geometry.check()?;
        let too_large = |what: &'static str, have, most| ImageError::TooLarge { what, have, most };
        if self.design.len() as u64 > DESIGN_MAX {
            return Err(too_large(
                "description of the design",
                self.design.len() as u64,
                DESIGN_MAX,
            ));
        }
        if self.flights > FLIGHTS_MAX {
            let (have, most) = (self.flights.into(), FLIGHTS_MAX.into());
            return Err(too_large("number of operations under way", have, most));
        }
        let (oob, page) = (self.geometry.oob_bytes.into(), self.geometry.page_bytes.into());
        if oob > page {
            return Err(too_large("out-of-band area of a page", oob, page));
        }
        let most = u64::from(self.geometry.oob_bytes);
        let have = u64::from(self.oob_words) * 8;
        if have > most {
            return Err(too_large("bytes beside a page", have, most));
        }
        if self.protected > 1 << 46 {
            return Err(too_large("protected memory", self.protected, 1 << 46));
        }
        Ok(())
    }

    /// The places of all parts. The specification has been checked.
    pub(crate) fn parts(&self) -> Parts {
        let g = &self.geometry;
        let pages = u64::from(g.units()) * u64::from(g.unit_pages());
        let mut end = PAGE;
        let mut part = |len: u64| {
            let part = Part { at: end, len };
            end = (end + len).next_multiple_of(PAGE);
            part
        };
        let stamps = match self.payload {
            Payload::Bytes => 0,
            Payload::Stamps => pages * u64::from(g.page_sectors()) * 8,
        };
        let mut parts = Parts {
            state: part(PAGE),
            design: part(self.design.len() as u64),
            flights: part(u64::from(self.flights) * FLIGHT_BYTES),
            units: part(u64::from(g.units()) * UNIT_BYTES),
            pages: part(pages * PAGE_RECORD),
            oob: part(pages * u64::from(self.oob_words) * 8),
            stamps: part(stamps),
            protected: part(self.protected),
            payload: part(pages * u64::from(g.page_bytes)),
            ..Parts::default()
        };
        if self.version >= 2 {
            let base = Kept::of(&parts).pages() * PAGE;
            parts.marks = part(MARKS_BYTES);
            // Any record fits, also one with every page.
            parts.log = part(base + base / 256 + LOG_MORE);
            parts.base = part(base);
        }
        Parts { end, ..parts }
    }

    /// The header page.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let g = &self.geometry;
        let parts = self.parts();
        let mut out = vec![0; PAGE as usize];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(MAGIC);
        put(&self.version.to_le_bytes());
        put(&(PAGE as u32).to_le_bytes());
        put(&self.serial);
        let payload: u32 = if self.payload == Payload::Bytes { 1 } else { 2 };
        let dims = [g.channels, g.packages, g.chips, g.planes, g.blocks, g.pages, g.page_bytes];
        put(&payload.to_le_bytes());
        put(&self.oob_words.to_le_bytes());
        dims.iter().for_each(|n| put(&n.to_le_bytes()));
        put(&g.oob_bytes.to_le_bytes());
        put(&self.flights.to_le_bytes());
        put(&crc32c::crc32c(self.design.as_bytes()).to_le_bytes());
        put(&parts.end.to_le_bytes());
        for part in parts.all(self.version) {
            put(&part.at.to_le_bytes());
            put(&part.len.to_le_bytes());
        }
        let check = crc32c::crc32c(&out[..CHECK]).to_le_bytes();
        out[CHECK..].copy_from_slice(&check);
        out
    }

    /// Parses the header page, without the design. Also returns the design's checksum.
    pub(crate) fn decode(page: &[u8]) -> Result<(ImageSpec, Parts, u32), ImageError> {
        let int = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| page[at + i]));
        let long = |at: usize| u64::from(int(at)) | u64::from(int(at + 4)) << 32;
        if page[..8] != *MAGIC {
            return Err(ImageError::Foreign);
        }
        let version = int(8);
        if version > IMAGE_VERSION || version == 0 {
            return Err(ImageError::Newer { version });
        }
        let (have, want) = (int(CHECK), crc32c::crc32c(&page[..CHECK]));
        if have != want {
            return Err(ImageError::Damaged {
                offset: CHECK as u64,
                what: format!(
                    "the header's checksum is {have:#010x}, that of its bytes {want:#010x}"
                ),
            });
        }
        let wrong = |offset: u64, what: String| ImageError::Damaged { offset, what };
        let payload = match int(32) {
            1 => Payload::Bytes,
            2 => Payload::Stamps,
            n => return Err(wrong(32, format!("{n} is not a kind of payload"))),
        };
        let mut spec = ImageSpec {
            version,
            serial: [0; 16],
            geometry: Geometry {
                channels: int(40),
                packages: int(44),
                chips: int(48),
                planes: int(52),
                blocks: int(56),
                pages: int(60),
                page_bytes: int(64),
                oob_bytes: int(68),
            },
            payload,
            oob_words: int(36),
            flights: int(72),
            protected: 0,
            design: String::new(),
        };
        spec.serial.copy_from_slice(&page[16..32]);
        let part = |i: usize| Part { at: long(88 + 16 * i), len: long(96 + 16 * i) };
        spec.protected = part(7).len;
        let design = part(1);
        if design.len > DESIGN_MAX {
            let what = format!("the design's description has {} bytes", design.len);
            return Err(wrong(88 + 16, what));
        }
        spec.design = " ".repeat(design.len as usize);
        spec.check()?;
        let parts = spec.parts();
        for (i, want) in parts.all(version).into_iter().enumerate() {
            if part(i) != want {
                let what = format!("part {i} is said to be {:?}, and is {want:?}", part(i));
                return Err(wrong(88 + 16 * i as u64, what));
            }
        }
        if long(80) != parts.end {
            let what = format!("a file of {} bytes is said to have {}", parts.end, long(80));
            return Err(wrong(80, what));
        }
        Ok((spec, parts, int(76)))
    }
}

/// The offset of the header's own checksum.
const CHECK: usize = PAGE as usize - 4;

/// Bytes of a sector.
pub(crate) const SECTOR: usize = SECTOR_BYTES as usize;
