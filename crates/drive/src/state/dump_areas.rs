//! Where the next dump goes.

use crate::state::space::FreeUnit;
use tantalum_nand::Unit;

/// The two dump areas of a protected drive: the one that is erased, ready for the
/// next power loss, and the other.
#[derive(Clone, Default)]
pub(crate) struct DumpAreas {
    /// Its units, and the next page of each: one has the mark that the dump is due.
    pub ready: Vec<(Unit, u32)>,
    pub other: Vec<FreeUnit>,
    /// Units in place of those that go bad.
    pub spare: Vec<FreeUnit>,
    /// The other area is erased, too.
    pub cleared: bool,
    /// The number of the next dump.
    pub next: u64,
    /// Units of the ready area in which a program failed: the dump says so.
    pub failed: Vec<Unit>,
    /// Dumps may be outside of the zone.
    pub anywhere: bool,
}
