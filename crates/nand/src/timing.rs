//! The times of operations.

use serde::{Deserialize, Serialize};
use tantalum_rt::Nanos;

/// The times of operations, and how far they give way to reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// tR: a page from the cells into the register of its plane, µs.
    pub read_us: u64,
    /// tPROG, µs.
    pub program_us: u64,
    /// tBERS, µs.
    pub erase_us: u64,
    /// Command and address cycles of one operation on the channel, ns.
    pub command_ns: u64,
    /// Bandwidth of a channel, MB/s.
    pub channel_mb_s: u64,
    /// tR by the place of a page in its wordline, µs: row `i` of a block takes entry `i` modulo the
    /// number of entries. Empty: all take `read_us`.
    #[serde(default)]
    pub read_by_page_us: Vec<u64>,
    /// tPROG in the same way, µs; empty: all take `program_us`.
    #[serde(default)]
    pub program_by_page_us: Vec<u64>,
    /// tR of a read over several planes, µs; 0: that of one page.
    #[serde(default)]
    pub read_planes_us: u64,
    /// tR of a read of one 4 KiB sector ("snap read"), µs; 0: that of the whole page.
    #[serde(default)]
    pub read_sector_us: u64,
    /// How many reads may go ahead of an operation that waits for its die; 0: the die works
    /// strictly in order of issue.
    #[serde(default)]
    pub read_priority: u32,
    /// The time to suspend a program for a read and to resume it, µs (all of it passes before the
    /// read begins); 0: not possible. Requires `read_priority`.
    #[serde(default)]
    pub suspend_program_us: u64,
    /// The same for an erase.
    #[serde(default)]
    pub suspend_erase_us: u64,
    /// How often one operation may be suspended.
    #[serde(default)]
    pub suspend_limit: u32,
}

impl Timing {
    /// How long `bytes` take on the channel, the command included.
    pub fn transfer(&self, bytes: u64) -> Nanos {
        Nanos(self.command_ns + bytes * 1_000 / self.channel_mb_s.max(1))
    }

    /// How long the die reads pages of `row` in this many planes, of which this many sectors are
    /// wanted. The command is included.
    pub fn read(&self, row: u32, planes: u32, sectors: u32) -> Nanos {
        let us = match () {
            () if planes > 1 && self.read_planes_us > 0 => self.read_planes_us,
            () if planes == 1 && sectors <= 1 && self.read_sector_us > 0 => self.read_sector_us,
            () => by_page(&self.read_by_page_us, row, self.read_us),
        };
        Nanos::from_micros(us) + Nanos(self.command_ns)
    }

    /// How long the die programs pages of `row`.
    pub fn program(&self, row: u32) -> Nanos {
        Nanos::from_micros(by_page(&self.program_by_page_us, row, self.program_us))
    }

    /// How long the die erases, the command included.
    pub fn erase(&self) -> Nanos {
        Nanos::from_micros(self.erase_us) + Nanos(self.command_ns)
    }
}

fn by_page(list: &[u64], row: u32, otherwise: u64) -> u64 {
    match list.len() {
        0 => otherwise,
        n => list[row as usize % n],
    }
}
