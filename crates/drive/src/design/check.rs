//! Checks whether a design can be built: each value by itself, and values that depend on each
//! other.

use crate::design::layout::Layout;
use crate::format::summary::summary_rows;
use crate::{Design, DesignError, Kept};
use tantalum_device::Payload;
use tantalum_nand::SECTOR_BYTES;

/// 1 GiB: more than the buffer of any drive.
const MAX_BUFFER_KIB: u32 = 1 << 20;

/// 2 GiB of deltas.
const MAX_DIRTY: u64 = 1 << 28;

impl Design {
    /// Whether the drive can be built.
    ///
    /// # Errors
    /// [`DesignError`] says why not, with the arithmetic.
    pub fn check(&self) -> Result<Layout, DesignError> {
        let value = |what: String| DesignError::Value { design: self.name.clone(), what };
        self.geometry
            .check()
            .map_err(|error| DesignError::Geometry { design: self.name.clone(), error })?;
        self.power.check().map_err(value)?;
        self.check_space().map_err(value)?;
        self.check_times().map_err(value)?;
        self.check_priorities().map_err(value)?;
        self.check_buffer().map_err(value)?;
        self.check_disorder().map_err(value)?;
        self.check_map().map_err(value)?;
        Layout::of(self).map_err(|error| DesignError::Layout { design: self.name.clone(), error })
    }

    /// Whether the drive can be built with this payload.
    ///
    /// # Errors
    /// Those of [`Design::check`]; and a stamp stands for a sector, so that a drive with smaller
    /// blocks has none.
    pub fn check_with(&self, payload: Payload) -> Result<Layout, DesignError> {
        if payload == Payload::Stamps && self.payload() == Payload::Bytes {
            let block = self.link.logical_bytes;
            let what = format!(
                "link.logical_bytes is {block}: a stamp stands for {SECTOR_BYTES} bytes, so a drive with \
                 smaller blocks keeps bytes (payload = \"bytes\")"
            );
            return Err(DesignError::Value { design: self.name.clone(), what });
        }
        self.check()
    }

    /// The least that a drive of this design has to keep: stamps, or bytes if its blocks are smaller
    /// than a sector.
    pub fn payload(&self) -> Payload {
        match self.link.logical_bytes < SECTOR_BYTES {
            true => Payload::Bytes,
            false => Payload::Stamps,
        }
    }

    /// Blocks of the host on a drive with this layout.
    pub fn blocks(&self, layout: &Layout) -> u64 {
        u64::from(layout.logical) * u64::from(SECTOR_BYTES / self.link.logical_bytes)
    }

    /// Spare space, levelling and the link.
    fn check_space(&self) -> Result<(), String> {
        let op = self.space.over_provisioning;
        if !(op > -100.0 && op <= 1000.0) || op == 0.0 {
            return Err(format!(
                "space.over_provisioning is {op} per cent; it must be above 0 and at most 1000, or, to be \
                 thinly provisioned, below 0 and above -100"
            ));
        }
        let spare = self.space.thin_spare;
        if !(0.0..=1000.0).contains(&spare) {
            return Err(format!("space.thin_spare is {spare} per cent; it must be 0 to 1000"));
        }
        if self.space.collect_below < 2 {
            return Err("space.collect_below must be at least 2".into());
        }
        let background = self.space.background_below;
        if background != 0
            && !(self.space.collect_below..self.geometry.blocks).contains(&background)
        {
            return Err(format!(
                "space.background_below is {background}; it must be 0 (off), or at least \
                 space.collect_below and less than geometry.blocks"
            ));
        }
        if self.wear.spread_max != 0 && self.wear.spread_max < 4 {
            return Err("wear.spread_max must be 0 (off), or at least 4".into());
        }
        if self.link.mb_s == 0 || self.link.queue_depth == 0 || self.timing.channel_mb_s == 0 {
            return Err(
                "link.mb_s, link.queue_depth and timing.channel_mb_s must be at least 1".into()
            );
        }
        let (charged, block) = (self.link.block_bytes, self.link.logical_bytes);
        for (key, bytes) in [("block_bytes", charged), ("logical_bytes", block)] {
            if !(512..=SECTOR_BYTES).contains(&bytes) || !bytes.is_power_of_two() {
                return Err(format!(
                    "link.{key} is {bytes}; it must be a power of two from 512 to {SECTOR_BYTES}"
                ));
            }
        }
        if charged < SECTOR_BYTES && block < SECTOR_BYTES {
            return Err(format!(
                "link.block_bytes is {charged} and link.logical_bytes {block}: one of both must be \
                 {SECTOR_BYTES}"
            ));
        }
        if block < SECTOR_BYTES && self.cache.shear_bytes < SECTOR_BYTES {
            return Err(format!(
                "link.logical_bytes is {block} and cache.shear_bytes {}: one of both must be \
                 {SECTOR_BYTES}",
                self.cache.shear_bytes
            ));
        }
        let slots = self.buffer_slots();
        if block < SECTOR_BYTES && self.cache.atomic_unit_kib / 4 >= slots {
            return Err(format!(
                "cache.atomic_unit_kib is {}; with blocks of {block} bytes a write may lie in one \
                 sector more, and the buffer has {slots}",
                self.cache.atomic_unit_kib
            ));
        }
        Ok(())
    }

    /// Room in the buffer for rows, and for what is taken at once.
    fn check_buffer(&self) -> Result<(), String> {
        let slots = u64::from(self.buffer_slots());
        let row = u64::from(self.geometry.row_sectors());
        if slots < 2 * row || self.cache.buffer_kib > MAX_BUFFER_KIB {
            return Err(format!(
                "cache.buffer_kib is {}; two rows of pages need {} KiB, and it may be at most {MAX_BUFFER_KIB}",
                self.cache.buffer_kib,
                2 * row * 4
            ));
        }
        let unit = self.cache.atomic_unit_kib;
        if unit < 4 || !unit.is_multiple_of(4) || unit > self.cache.buffer_kib {
            return Err(format!(
                "cache.atomic_unit_kib is {unit}; it must be a multiple of 4 and fit the buffer of {} KiB",
                self.cache.buffer_kib
            ));
        }
        Ok(())
    }

    /// How much of the map may differ from what is stored of it.
    fn check_map(&self) -> Result<(), String> {
        let row = u64::from(self.geometry.row_sectors());
        let least = u64::from(self.dirty_least());
        let pages = self.map.dirty_pages_max;
        if pages > 0 && (u64::from(pages) < 2 * row || !self.is_protected() || self.keeps_units()) {
            return Err(format!(
                "map.dirty_pages_max is {pages}; it must be 0 or at least {}, and is for a protected \
                 cache that keeps entries",
                2 * row
            ));
        }
        self.check_journal()?;
        if self.flags_groups() && self.is_protected() {
            return Err(
                "atomic.scheme = \"flag\" is for a cache without protection: a protected one has \
                 whole groups without it"
                    .into(),
            );
        }
        if self.map.directory && !self.is_protected() {
            return Err("map.directory is for a protected cache: it is in the dump".into());
        }
        let dirty = u64::from(self.map.dirty_max);
        if self.map.write_points == 0 || dirty < least || dirty > MAX_DIRTY {
            return Err(format!(
                "map.write_points is {} and must be at least 1; map.dirty_max is {dirty} and must be \
                 {least} to {MAX_DIRTY}",
                self.map.write_points
            ));
        }
        Ok(())
    }

    /// The fewest map entries that must be allowed to change: a quarter of them must hold a row (see
    /// `Firmware::begin_changes`).
    pub(crate) fn dirty_least(&self) -> u32 {
        self.geometry.row_sectors().saturating_mul(4).max(1024)
    }

    /// Every operation of the medium takes time, and none takes longer than a run may last.
    fn check_times(&self) -> Result<(), String> {
        const MAX_US: u64 = 60_000_000;
        let t = &self.timing;
        for (name, us, least) in [
            ("timing.read_us", t.read_us, 1),
            ("timing.program_us", t.program_us, 1),
            ("timing.erase_us", t.erase_us, 1),
            ("timing.command_ns", t.command_ns.div_ceil(1000), 0),
            ("link.occupancy_ns", self.link.occupancy_ns.div_ceil(1000), 0),
            ("link.latency_ns", self.link.latency_ns.div_ceil(1000), 0),
            ("link.page_ns", self.link.page_ns.div_ceil(1000), 0),
            ("link.extent_ns", self.link.extent_ns.div_ceil(1000), 0),
            ("firmware.through_us", self.firmware.through_us, 0),
            ("firmware.flush_us", self.firmware.flush_us, 0),
            ("firmware.map_us", self.firmware.map_us, 0),
            ("space.idle_us", self.space.idle_us, 1),
            ("timing.read_planes_us", t.read_planes_us, 0),
            ("timing.read_sector_us", t.read_sector_us, 0),
            ("timing.suspend_program_us", t.suspend_program_us, 0),
            ("timing.suspend_erase_us", t.suspend_erase_us, 0),
        ] {
            if us < least || us > MAX_US {
                return Err(format!("{name} must be at least {least}, and at most one minute"));
            }
        }
        Ok(())
    }

    /// Reads that go ahead are bounded, and allowed only where something can give way.
    fn check_priorities(&self) -> Result<(), String> {
        const MOST: u32 = 1 << 16;
        let t = &self.timing;
        for (name, list) in [
            ("timing.read_by_page_us", &t.read_by_page_us),
            ("timing.program_by_page_us", &t.program_by_page_us),
        ] {
            if list.len() > 64 || list.iter().any(|us| !(1..=60_000_000).contains(us)) {
                return Err(format!(
                    "{name} has at most 64 times, each at least 1 and at most one minute"
                ));
            }
        }
        for (name, n) in
            [("timing.read_priority", t.read_priority), ("timing.suspend_limit", t.suspend_limit)]
        {
            if n > MOST {
                return Err(format!("{name} is {n}; it may be at most {MOST}"));
            }
        }
        if !(1..=16).contains(&t.pages_per_program) {
            return Err(format!(
                "timing.pages_per_program is {}; it must be 1 to 16",
                t.pages_per_program
            ));
        }
        if t.independent_reads && self.geometry.planes > 64 {
            return Err("timing.independent_reads is for at most 64 planes in a die".into());
        }
        let suspends = t.suspend_program_us > 0 || t.suspend_erase_us > 0;
        if suspends && (t.read_priority == 0 || t.suspend_limit == 0) {
            return Err("timing.suspend_program_us and timing.suspend_erase_us do nothing unless \
                        timing.read_priority and timing.suspend_limit are at least 1"
                .into());
        }
        Ok(())
    }

    /// Room in the journal of units for all that is written at once, twice: before and since
    /// a checkpoint began.
    fn check_journal(&self) -> Result<(), String> {
        const MOST: u32 = 1 << 20;
        let (m, least) = (&self.map, 2 * self.journal_slack() + 4 * self.geometry.row_sectors());
        if !self.is_protected() && m.kept != Kept::Entries {
            return Err("map.kept is for a protected cache: nothing else is kept".into());
        }
        if !(0.0..=100.0).contains(&m.checkpoint_share) {
            let share = m.checkpoint_share;
            return Err(format!("map.checkpoint_share is {share} per cent; it must be 0 to 100"));
        }
        if !self.keeps_units() {
            let keys = [
                ("summary", m.summary),
                ("elastic", m.elastic),
                ("checkpoint_share", m.checkpoint_share > 0.0),
                ("checkpoint_idle", m.checkpoint_idle),
            ];
            return match keys.iter().find(|key| key.1) {
                Some((key, _)) => Err(format!("map.{key} is for map.kept = \"units\"")),
                None => Ok(()),
            };
        }
        let g = &self.geometry;
        if m.summary && 2 * summary_rows(g) * g.planes > g.unit_pages() {
            return Err(format!(
                "map.summary takes {} of the {} rows of an erase unit: too many",
                summary_rows(g),
                g.unit_pages() / g.planes
            ));
        }
        if !(least..=MOST).contains(&m.journal_entries) {
            return Err(format!(
                "map.journal_entries is {}; this geometry takes at least {least}, and at most {MOST}",
                m.journal_entries
            ));
        }
        // (Each is an entry, if none is spilled.)
        let most = if m.elastic { MOST } else { m.journal_entries };
        if !(self.journal_slack()..=most).contains(&m.journal_ranges) {
            return Err(format!(
                "map.journal_ranges is {}; it must be at least {} and at most {most}",
                m.journal_ranges,
                self.journal_slack()
            ));
        }
        Ok(())
    }

    /// Entries of the journal of units that nobody asks for: of each stream of each die one
    /// unit that is written, one that is full and not mapped yet, both entered anew when a
    /// checkpoint begins, and the next one; and a few bad units.
    pub fn journal_slack(&self) -> u32 {
        9 * self.geometry.dies() + 8
    }

    /// What a drive without protection may do to order and pages.
    fn check_disorder(&self) -> Result<(), String> {
        let c = &self.cache;
        if c.reorder > self.buffer_slots() / 2 {
            return Err(format!(
                "cache.reorder is {}; at most half of the buffer's {} pages can be kept back",
                c.reorder,
                self.buffer_slots()
            ));
        }
        if !c.shear_bytes.is_power_of_two() || !(512..=SECTOR_BYTES).contains(&c.shear_bytes) {
            return Err(format!(
                "cache.shear_bytes is {}; it must be 512, 1024, 2048 or {SECTOR_BYTES} (whole pages)",
                c.shear_bytes
            ));
        }
        if self.is_protected() && (c.reorder > 0 || c.shear_bytes < SECTOR_BYTES) {
            return Err(format!(
                "cache.reorder and cache.shear_bytes are for drives without protection: a protected \
                 cache keeps order and pages; leave them at 0 and {SECTOR_BYTES}"
            ));
        }
        Ok(())
    }
}
