//! What the firmware remembers. Nothing here waits, and nothing here touches flash.

pub(crate) mod audit;
pub(crate) mod buffer;
pub(crate) mod census;
pub(crate) mod changes;
pub(crate) mod dirty;
pub(crate) mod dump_areas;
pub(crate) mod grants;
pub(crate) mod groups;
pub(crate) mod map;
pub(crate) mod maplog;
#[cfg(test)]
mod models;
pub(crate) mod persistence;
pub(crate) mod reservations;
pub(crate) mod space;
pub(crate) mod unit_journal;
pub(crate) mod victims;
pub(crate) mod wear;

use crate::design::layout::Layout;
use crate::{Design, FlushMode};
use buffer::Buffer;
use changes::Watched;
use dirty::Dirty;
use dump_areas::DumpAreas;
use map::Map;
use maplog::MapLog;
use persistence::{Deltas, Entries, Pages, Persistence, Undrained, Units};
use space::Space;
use std::cell::{Cell, RefCell};
use tantalum_device::Payload;
use tantalum_rt::Rt;
use unit_journal::UnitJournal;

/// All that a power loss may take, or a dump may keep.
#[derive(Clone)]
pub(crate) struct State {
    // What a protected drive keeps through a power loss.
    pub map: RefCell<Map>,
    pub buffer: RefCell<Buffer>,
    pub log: RefCell<MapLog>,
    pub dump: Watched<DumpAreas>,

    // What recovery finds out again.
    pub space: RefCell<Space>,
    /// The next number of a page.
    pub sequence: Cell<u64>,
}

impl State {
    /// Of a drive that knows nothing yet.
    pub fn new(rt: &Rt, design: &Design, layout: &Layout, payload: Payload) -> State {
        let (g, places) = (&design.geometry, design.places());
        let dirty = || Dirty::new(layout.map_pages);
        let persistence = match () {
            () if design.keeps_units() => {
                Persistence::Units(Units { dirty: dirty(), journal: UnitJournal::default() })
            }
            () if design.map.dirty_pages_max > 0 => {
                Persistence::Pages(Pages(Entries { dirty: dirty(), undrained: Undrained::new(0) }))
            }
            () if design.is_protected() => {
                let drains = design.cache.flush == FlushMode::Drain;
                let undrained = Undrained::new(if drains { design.map.dirty_max } else { 0 });
                Persistence::Entries(Entries { dirty: dirty(), undrained })
            }
            () => Persistence::Deltas(Deltas::default()),
        };
        let points = design.map.write_points;
        let keep_free = layout.map_live_units + points;
        let log = MapLog::new(places, layout.map_pages, persistence, points, keep_free);
        let mut buffer = Buffer::new(design.buffer_slots(), payload);
        if design.is_disorderly() {
            // Another order in each power cycle.
            let dice = rt.stream(&format!("disorder in the buffer since {}", rt.now().0));
            buffer = buffer.in_disorder(design.cache.reorder, dice);
        }
        let space = Space::new(g, places, design.space.collector, design.wear.spread_max > 0);
        State {
            map: RefCell::new(Map::new(layout.logical, g.units())),
            buffer: RefCell::new(buffer),
            log: RefCell::new(log),
            dump: Watched::default(),
            space: RefCell::new(space),
            sequence: Cell::new(1),
        }
    }
}
