//! What the erase units of a drive are there for, counted.

use crate::state::space::Role;
use serde::Serialize;

/// Erase units by what they are there for, and what is mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Census {
    /// Logical pages (4 KiB) whose data is on flash; what only the buffer has is not among them.
    pub mapped_pages: u32,
    /// Units that are free.
    pub free: u32,
    /// Units that are written to.
    pub open: u32,
    /// Units that are full of data, some of it perhaps superseded.
    pub full: u32,
    /// Units on the way from one of these to another.
    pub leaving: u32,
    /// Units of the map log.
    pub map: u32,
    /// Units kept for emergency dumps.
    pub dump: u32,
    /// Units that are bad; some may still hold data.
    pub bad: u32,
}

impl Census {
    /// One more unit.
    pub(crate) fn count(&mut self, role: Role) {
        *match role {
            Role::Free => &mut self.free,
            Role::Open => &mut self.open,
            Role::Full => &mut self.full,
            Role::Leaving => &mut self.leaving,
            Role::Map => &mut self.map,
            Role::Dump => &mut self.dump,
            Role::Condemned | Role::Bad => &mut self.bad,
        } += 1;
    }
}
