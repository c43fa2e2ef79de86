//! The times of operations.

use serde::{Deserialize, Serialize};
use std::ops::Range;
use tantalum_rt::Nanos;

/// The times of operations, and how far they give way to reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// tR: a page from the cells into the register of its plane, µs.
    ///
    /// *Source*: ONFI: parameter page, `tR`; the values: own choice.
    pub read_us: u64,
    /// tPROG, µs.
    ///
    /// *Source*: ONFI: parameter page, `tPROG`; the values: own choice.
    pub program_us: u64,
    /// tBERS, µs.
    ///
    /// *Source*: ONFI: parameter page, `tBERS`; the values: own choice.
    pub erase_us: u64,
    /// Command and address cycles of one operation on the channel, ns.
    ///
    /// *Source*: ONFI: command and address cycles; the values: own choice.
    pub command_ns: u64,
    /// Bandwidth of a channel, MB/s.
    ///
    /// *Source*: ONFI: the speed of its interface.
    pub channel_mb_s: u64,
    /// tR by the place of a page in its wordline, µs: page `i` of a block takes entry `i` modulo the
    /// number of entries. Empty: all take `read_us`.
    ///
    /// *Source*: MQSim: latencies by page type (LSB, CSB, MSB); the values of `qlc`: extrapolated.
    #[serde(default)]
    pub read_by_page_us: Vec<u64>,
    /// tPROG in the same way, µs: row `i` takes entry `i`; empty: all take `program_us`.
    ///
    /// *Source*: MQSim: latencies by page type (LSB, CSB, MSB); the values of `qlc`: extrapolated.
    #[serde(default)]
    pub program_by_page_us: Vec<u64>,
    /// tR of a read over several planes, µs; 0: that of one page.
    ///
    /// *Source*: the 3D TLC data sheet of `tlc-modern`.
    #[serde(default)]
    pub read_planes_us: u64,
    /// Pages of a word line that one pass programs in each plane (TLC: three). A page of the geometry
    /// has the data of them all, since it is programmed as a whole and torn as a whole. Its sectors
    /// are spread evenly over them. They are read one at a time: a read takes tR for each of which
    /// it wants a sector.
    ///
    /// *Source*: own choice: our reading of a 3D TLC data sheet.
    #[serde(default = "one_page")]
    pub pages_per_program: u32,
    /// Whether the planes of a die read independently of each other ("independent multi-plane read",
    /// iPR): up to one read in each plane at the same time. Programs and erases take the whole die.
    ///
    /// *Source*: own choice, after parts with independent multi-plane reads (SanDisk, US patent
    /// 10043558).
    #[serde(default)]
    pub independent_reads: bool,
    /// tR of a read of one 4 KiB sector ("snap read"), µs; 0: that of the whole page.
    ///
    /// *Source*: the 3D TLC data sheet of `tlc-modern`.
    #[serde(default)]
    pub read_sector_us: u64,
    /// How many reads may go ahead of an operation that waits for its die; 0: the die works
    /// strictly in order of issue.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub read_priority: u32,
    /// The time to suspend a program for a read and to resume it, µs (all of it passes before the
    /// read begins); 0: not possible. Requires `read_priority`.
    ///
    /// *Source*: Wu and He (FAST 2012): suspended programs and erases; the times: own choice.
    #[serde(default)]
    pub suspend_program_us: u64,
    /// The same for an erase.
    ///
    /// *Source*: Wu and He (FAST 2012): suspended programs and erases; the times: own choice.
    #[serde(default)]
    pub suspend_erase_us: u64,
    /// How often one operation may be suspended.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub suspend_limit: u32,
}

fn one_page() -> u32 {
    1
}

impl Default for Timing {
    /// No operation takes any time, and none gives way.
    fn default() -> Timing {
        Timing {
            read_us: 0,
            program_us: 0,
            erase_us: 0,
            command_ns: 0,
            channel_mb_s: 0,
            read_by_page_us: Vec::new(),
            program_by_page_us: Vec::new(),
            read_planes_us: 0,
            pages_per_program: one_page(),
            independent_reads: false,
            read_sector_us: 0,
            read_priority: 0,
            suspend_program_us: 0,
            suspend_erase_us: 0,
            suspend_limit: 0,
        }
    }
}

impl Timing {
    /// How long `bytes` take on the channel, the command included.
    pub fn transfer(&self, bytes: u64) -> Nanos {
        Nanos(self.command_ns + bytes * 1_000 / self.channel_mb_s.max(1))
    }

    /// How long the die reads pages of `row` in this many planes, each of `page` sectors, of which
    /// these sectors of each are wanted. The command is included.
    pub fn read(&self, row: u32, planes: u32, page: u32, sectors: Range<u32>) -> Nanos {
        let us = match () {
            () if planes == 1 && sectors.len() <= 1 && self.read_sector_us > 0 => {
                self.read_sector_us
            }
            () => self.parts(page, sectors).map(|part| self.read_part(row, planes, part)).sum(),
        };
        Nanos::from_micros(us) + Nanos(self.command_ns)
    }

    /// The out-of-band bytes that come with these sectors of a page which has `oob` of them.
    pub fn oob_bytes(&self, oob: u32, page: u32, sectors: Range<u32>) -> u64 {
        let all = self.parts(page, 0..page).len() as u64;
        u64::from(oob) * self.parts(page, sectors).len() as u64 / all
    }

    /// The pages of the word line that have these sectors. (Out-of-band words are in the first.)
    fn parts(&self, page: u32, sectors: Range<u32>) -> Range<u32> {
        let size = page.div_ceil(self.pages_per_program.max(1)).max(1);
        let first = sectors.start / size;
        first..sectors.end.div_ceil(size).max(first + 1)
    }

    /// How long the die reads page `part` of a word line.
    fn read_part(&self, row: u32, planes: u32, part: u32) -> u64 {
        match planes > 1 && self.read_planes_us > 0 {
            true => self.read_planes_us,
            false => {
                let page = u64::from(row) * u64::from(self.pages_per_program.max(1));
                by_page(&self.read_by_page_us, page + u64::from(part), self.read_us)
            }
        }
    }

    /// How long the die programs pages of `row`.
    pub fn program(&self, row: u32) -> Nanos {
        Nanos::from_micros(by_page(&self.program_by_page_us, row.into(), self.program_us))
    }

    /// How long the die erases, the command included.
    pub fn erase(&self) -> Nanos {
        Nanos::from_micros(self.erase_us) + Nanos(self.command_ns)
    }
}

fn by_page(list: &[u64], page: u64, otherwise: u64) -> u64 {
    match list.len() {
        0 => otherwise,
        n => list[(page % n as u64) as usize],
    }
}
