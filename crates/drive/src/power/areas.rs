//! The dump areas of a protected drive while it runs.
//!
//! 1. Before the first command is taken a mark on flash says that the next dump is due. So the next
//!    start notices if the capacitors did not suffice for the dump, even if nothing of it was
//!    written. An older dump is never taken for the newest.
//! 2. The area of the dump that was replayed is erased only after that.
//! 3. There are always enough units for the next dump, and they are erased except for the mark.
//! 4. A start makes them (`start/dump_making`).

use crate::firmware::Firmware;
use crate::format::words::Kind;
use crate::power::dump::Writer;
use crate::state::space::Role;
use std::rc::Rc;
use tantalum_device::Data;
use tantalum_nand::{OpError, SECTOR_BYTES};

/// Marks on flash that the next dump is due: from now on the drive does not start without
/// it. If the power goes meanwhile, the dump has to be written.
pub(crate) async fn mark_due(fw: &Firmware) -> Result<(), OpError> {
    if !fw.design.is_protected() || fw.is_read_only() {
        return Ok(());
    }
    let mut writer = Writer::new(fw, None);
    writer.write(Kind::DumpDue, &[0], Data::Bytes(&[0; SECTOR_BYTES as usize]))?;
    writer.finish().await
}

/// Erases the area of the dump that was replayed. That dump is void as soon as the next one can be
/// written.
pub(crate) async fn clear_old_dump(fw: Rc<Firmware>) {
    let mut done = 0;
    loop {
        let next = fw.state.dump.borrow().other.get(done).copied();
        let Some(free) = next else { break };
        if !free.erase_first || fw.erase(free.unit, Role::Dump).await == Some(true) {
            if let Some(place) = fw.state.dump.borrow_mut().other.get_mut(done) {
                place.erase_first = false;
            }
            done += 1;
            continue;
        }
        if fw.is_poisoned() {
            return;
        }
        // Another one in its place, for the dump after the next.
        let mut areas = fw.state.dump.borrow_mut();
        areas.other.swap_remove(done);
        if let Some(spare) = areas.spare.pop() {
            areas.other.push(spare);
        }
    }
    fw.state.dump.borrow_mut().cleared = true;
}
