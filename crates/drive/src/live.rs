//! The drive as a live process shows it: its fields, metrics and lines.

use crate::{
    Census, Drive, DriveStats, EnergyModel, PHASES, PowerLoss, PowerLosses, RecoveryError,
    WearReport,
};
use tantalum_device::{
    AfterCut, Caps, CutOutcome, Field, IoError, Line, LiveBox, Panel, PowerCycle, PowerState,
    Shown, StartError, StartOutcome, Unit, Value, bytes_in_words, counted, joules_in_words,
    time_in_words,
};

/// What the memory of a drive held at the moment of a cut.
struct Held {
    was: PowerState,
    buffered: u32,
    unstored: u32,
    joules: f64,
    losses: u64,
}

impl Held {
    fn of(drive: &Drive) -> Held {
        let (buffered, unstored) = drive.backlog();
        let joules = drive.joules_needed();
        let losses = drive.power_losses().count;
        Held { was: drive.power(), buffered, unstored, joules, losses }
    }

    /// The outcome of the cut. The drive is off.
    fn outcome(&self, drive: &Drive) -> CutOutcome {
        // A drive that was starting lost nothing, and its last loss is an earlier one.
        let loss = drive.last_power_loss().filter(|_| drive.power_losses().count > self.losses);
        let (buffered, unstored) = (u64::from(self.buffered), u64::from(self.unstored));
        let lost_blocks = match loss {
            Some(loss) if loss.complete => 0,
            // A salvage finds what was programmed.
            Some(_) => buffered,
            None if drive.caps().ack.survives() => 0,
            None => buffered + unstored,
        };
        let held = format!(
            "{} buffered, {} not on flash yet",
            counted(buffered, "page", "pages"),
            counted(unstored, "map entry", "map entries")
        );
        let words = match &loss {
            Some(loss) if loss.complete => format!("{}: {held}", dump_in_words(loss)),
            // All data are on flash, and a salvage finds them; a discard was only in memory.
            Some(loss) if lost_blocks == 0 => format!(
                "{}: {held}; no written block is lost, but discards may be undone",
                dump_in_words(loss)
            ),
            Some(loss) => format!(
                "{}: {held}; up to {} lost, and discards may be undone",
                dump_in_words(loss),
                counted(lost_blocks, "acknowledged block is", "acknowledged blocks are")
            ),
            None if lost_blocks > 0 => format!(
                "nothing protects the memory of the drive: up to {} lost ({held})",
                counted(
                    lost_blocks,
                    "acknowledged block that was not flushed is",
                    "acknowledged blocks that were not flushed are"
                )
            ),
            None => format!("nothing that was acknowledged is lost ({held})"),
        };
        let energy = loss.filter(|_| self.was == PowerState::On).map(|loss| {
            let (there, needed) = (joules_in_words(loss.budget_j), joules_in_words(self.joules));
            let drawn = joules_in_words(loss.spent_j);
            Line::new(
                "energy",
                format!("{there} available, {needed} needed at most, {drawn} drawn"),
            )
        });
        CutOutcome {
            lost_blocks,
            complete: loss.is_none_or(|loss| loss.complete),
            words,
            lines: energy.into_iter().collect(),
            fields: self.fields(drive, loss),
        }
    }

    fn fields(&self, drive: &Drive, loss: Option<PowerLoss>) -> Vec<Field> {
        let (buffered, unstored) = (self.buffered, self.unstored);
        let mut fields = vec![
            protected(drive),
            Field::new(
                "buffered_pages",
                Unit::Count,
                buffered,
                "pages of 4 KiB that lay in the write buffer",
            ),
            Field::new(
                "unstored_entries",
                Unit::Count,
                unstored,
                "entries of the map, or of the journal of units, that were not on flash yet",
            ),
        ];
        let Some(loss) = loss else {
            let help = "what the capacitors did";
            fields.push(Field::new("discharge", Unit::Text, Value::Unknown, help));
            return fields;
        };
        let joules = |name, joules: f64, help| Field::new(name, Unit::Joules, joules, help);
        fields.extend([
            Field::new(
                "discharge.complete",
                Unit::Flag,
                loss.complete,
                "whether the emergency dump is complete",
            ),
            joules("discharge.joules_there", loss.budget_j, "what the capacitors had"),
            joules(
                "discharge.joules_needed",
                self.joules,
                "what the dump could need, with operations in flight at their worst",
            ),
            joules("discharge.joules_drawn", loss.spent_j, "what was drawn"),
            joules(
                "discharge.joules_missing",
                loss.missing_j,
                "what was missing to finish what was under way",
            ),
            Field::new(
                "discharge.took_ns",
                Unit::Nanos,
                loss.took.0,
                "from the cut until the drive was off",
            ),
        ]);
        fields
    }
}

fn dump_in_words(loss: &PowerLoss) -> String {
    let there = joules_in_words(loss.budget_j);
    match loss.complete {
        true => {
            let (took, drawn) = (time_in_words(loss.took.0), joules_in_words(loss.spent_j));
            format!("the dump is complete in {took}, {drawn} of {there} drawn")
        }
        false => {
            let more = joules_in_words(loss.missing_j);
            format!("THE DUMP IS NOT COMPLETE, {there} were there and {more} more needed at least")
        }
    }
}

fn protected(drive: &Drive) -> Field {
    let is = drive.design().is_protected();
    Field::new("protected", Unit::Flag, is, "whether capacitors protect its memory")
}

impl LiveBox for Drive {
    fn title(&self) -> String {
        self.design().name.clone()
    }

    fn power_state(&self) -> PowerState {
        self.power()
    }

    fn promises(&self) -> Caps {
        *self.caps()
    }

    async fn bring_up(&self, salvage: bool) -> Result<Vec<String>, StartError> {
        self.take_damaged_page();
        let mut started = self.start().await;
        if started.is_err() && salvage && self.last_failure().is_some() {
            started = self.salvage().await;
        }
        let damage = self.take_damaged_page().map(|(unit, page)| {
            format!("page {page} of unit {unit} of the image is not what was programmed")
        });
        if let Some(damage) = damage.clone().filter(|_| !salvage) {
            // The drive took the damage for the result of a power cut, and started.
            self.cut();
            self.off().await;
            return Err(StartError::Damaged(damage));
        }
        let lost = |damage| format!("{damage}: what was flushed with it may be lost");
        match (started, self.last_failure()) {
            (Ok(()), _) => Ok(damage.map(lost).into_iter().collect()),
            (Err(_), Some(why @ RecoveryError::DumpLost { .. })) => {
                Err(StartError::Lost(why.to_string()))
            }
            (Err(_), Some(why)) => Err(StartError::Failed(why.to_string())),
            (Err(IoError::PowerLost), None) => Err(StartError::CutAgain),
            (Err(error), None) => Err(StartError::Failed(error.to_string())),
        }
    }

    async fn recovered(&self) -> Result<(), StartError> {
        self.settled().await;
        match (self.power(), self.last_failure()) {
            (PowerState::On, None) => Ok(()),
            (_, Some(why)) => Err(StartError::Failed(why.to_string())),
            (_, None) => Err(StartError::CutAgain),
        }
    }

    fn verify(&self) -> Result<(), String> {
        if !self.image().is_some_and(|image| image.was_crashed() && !image.was_synced()) {
            return Ok(());
        }
        self.audit().map_err(|what| {
            format!(
                "what the crash of the host left does not fit together: {what}. Restore a copy of the \
                 image"
            )
        })
    }

    fn failure(&self) -> Option<String> {
        self.last_failure().map(|failure| failure.to_string())
    }

    fn stopped_by(&self) -> Option<String> {
        self.defect().map(str::to_string)
    }

    fn watch_cut(&self) -> AfterCut {
        let (held, drive) = (Held::of(self), self.clone());
        Box::new(move || held.outcome(&drive))
    }

    fn last_start(&self) -> StartOutcome {
        let report = self.last_recovery().unwrap_or_default();
        let entries = report.dump_entries + report.journal_entries;
        let count = |name, n: u64, help| Field::new(name, Unit::Count, n, help);
        StartOutcome {
            ready: Some(report.total),
            whole: Some(report.whole),
            phases: PHASES.iter().copied().zip(report.phases()).collect(),
            salvaged: report.salvaged,
            found: Some(match report.salvaged {
                true => format!(
                    "{} found out again",
                    counted(report.salvaged_entries, "map entry", "map entries")
                ),
                false => format!(
                    "{}, {} in the dump",
                    counted(report.dump_pages, "buffered page", "buffered pages"),
                    counted(entries, "map entry", "map entries")
                ),
            }),
            fields: vec![
                count(
                    "salvaged_entries",
                    report.salvaged_entries,
                    "map entries that were found out again by a salvage",
                ),
                count("dump_pages", report.dump_pages, "buffered pages that were in the dump"),
                count(
                    "dump_entries",
                    entries,
                    "entries of the map, or of the journal of units, that were in the dump",
                ),
            ],
        }
    }

    fn left_behind(&self) -> Option<String> {
        self.last_power_loss().map(|loss| dump_in_words(&loss))
    }

    fn shut(&self) -> Result<(), String> {
        let synced = self.image().map_or(Ok(()), |image| image.end());
        synced.map_err(|e| format!("the image could not be synced: {e}"))
    }

    fn status_fields(&self) -> Vec<Field> {
        vec![
            protected(self),
            Field::new(
                "worn_out",
                Unit::Flag,
                self.is_worn_out(),
                "Whether the drive can only be read, for ever",
            )
            .gauge("worn_out"),
        ]
    }

    fn status_lines(&self) -> Vec<Line> {
        let words = match (self.design().is_protected(), self.caps().ack.survives()) {
            (true, _) => "capacitors protect what it has acknowledged",
            (false, true) => "what it acknowledges is on flash",
            (false, false) => "what it acknowledges may be lost with the power until it is flushed",
        };
        let mut lines = vec![Line::new("promises", words)];
        if self.is_worn_out() {
            lines.push(Line::new("life", "over: it can only be read"));
        }
        lines
    }

    fn shown(&self) -> Shown {
        let look = Look::at(self);
        let mut fields = counters(&look);
        fields.extend(memory(&look));
        fields.extend(flash(&look));
        fields.extend(energy(&look));
        fields.extend(outages(&look));
        let panels =
            vec![Panel::new("inside", inside(&look)), Panel::new("flash", on_flash(&look))];
        Shown { fields, lines: lines(&look), panels }
    }
}

/// What is shown of a drive at one moment. Census and wear are passes over all erase units: there
/// is one of each for everything that is shown.
struct Look<'a> {
    drive: &'a Drive,
    stats: DriveStats,
    losses: PowerLosses,
    /// Pages in the write buffer, and map entries that are not on flash yet.
    backlog: (u32, u32),
    /// With power, as the wear.
    census: Option<Census>,
    wear: Option<WearReport>,
    /// What is in the capacitors, what a cut would take now, and at worst.
    joules: Option<(f64, f64, f64)>,
}

impl Look<'_> {
    fn at(drive: &Drive) -> Look<'_> {
        Look {
            drive,
            stats: drive.stats(),
            losses: drive.power_losses(),
            backlog: drive.backlog(),
            census: drive.census(),
            wear: drive.wear(),
            joules: joules(drive),
        }
    }

    /// `None` without power: then the map is not there to count in.
    fn mapped_pages(&self) -> Option<u32> {
        self.census.as_ref().map(|c| c.mapped_pages)
    }
}

/// What was done since the process has the drive.
fn counters(look: &Look<'_>) -> Vec<Field> {
    let s = &look.stats;
    let bytes = |name, n: u64, help| Field::new(name, Unit::Bytes, n, help);
    let count = |name, n: u64, help| Field::new(name, Unit::Count, n, help);
    let waited = |name, ns: u64, what| {
        let help =
            "Time waited for room in the buffer (by commands) and for free units (by flushers)";
        let field = Field::new(name, Unit::Nanos, ns, help).counter("wait_seconds");
        field.labelled("what", what, help)
    };
    vec![
        bytes("drive.host_write_bytes", s.host_write_bytes, "Bytes written by the host")
            .counter("host_written_bytes"),
        bytes("drive.host_read_bytes", s.host_read_bytes, "Bytes read by the host")
            .counter("host_read_bytes"),
        bytes("drive.flash_program_bytes", s.flash_program_bytes, "Bytes of pages programmed")
            .counter("flash_programmed_bytes"),
        bytes("drive.moved_bytes", s.gc_copied_bytes, "Bytes moved by collection")
            .counter("moved_bytes"),
        bytes("drive.moved_idle_bytes", s.background_bytes, "Of these, moved in idle times"),
        bytes("drive.levelled_bytes", s.levelled_bytes, "Of these, moved to level wear")
            .counter("levelled_bytes"),
        bytes("drive.map_bytes", s.meta_bytes, "Bytes of pages programmed with the map")
            .counter("map_programmed_bytes"),
        bytes("drive.dump_bytes", s.dump_bytes, "Bytes of pages programmed in dumps")
            .counter("dump_programmed_bytes"),
        count("drive.flash_reads", s.flash_reads, "Read operations of the flash array")
            .counter("flash_reads"),
        count("drive.merged_sectors", s.merged_sectors, "Sectors written by the host in part"),
        count("drive.rest_reads", s.rest_reads, "Reads of flash for sectors written in part"),
        count("drive.erases", s.erases, "Erase operations").counter("erases"),
        count("drive.refused_writes", s.refused_writes, "Writes refused for want of space")
            .counter("refused_writes"),
        waited("drive.buffer_wait_ns", s.buffer_wait.0, "buffer"),
        waited("drive.space_wait_ns", s.space_wait.0, "space"),
        Field::new(
            "drive.write_amplification",
            Unit::Ratio,
            s.write_amplification(),
            "bytes programmed for each byte written by the host",
        ),
    ]
}

/// Pages of the write buffer, and map entries that may be missing on flash.
fn rooms(drive: &Drive) -> (u64, u64) {
    let design = drive.design();
    let entries = match design.keeps_units() {
        true => design.map.journal_entries,
        false => design.map.dirty_max,
    };
    (u64::from(design.cache.buffer_kib) / 4, entries.into())
}

fn memory(look: &Look<'_>) -> Vec<Field> {
    let ((used, unstored), (pages, entries)) = (look.backlog, rooms(look.drive));
    let count = |name, n: u64, help| Field::new(name, Unit::Count, n, help);
    vec![
        count("buffer.pages", pages, "Pages that the write buffer can hold").gauge("buffer_pages"),
        count("buffer.used", used.into(), "Pages in the write buffer").gauge("buffer_used_pages"),
        count("map.entries", entries, "Map entries that may be missing on flash")
            .gauge("map_entries_limit"),
        count("map.unstored", unstored.into(), "Map entries that are not on flash yet")
            .gauge("map_unstored_entries"),
        Field::new(
            "map.mapped_pages",
            Unit::Count,
            look.mapped_pages(),
            "Logical pages that the map says are on flash",
        )
        .gauge("mapped_pages"),
    ]
}

/// Erase units and their wear.
fn flash(look: &Look<'_>) -> Vec<Field> {
    let unknown = |name, help| Field::new(name, Unit::Text, Value::Unknown, help);
    let mut fields = Vec::new();
    match &look.census {
        None => fields.push(unknown("units", "erase units, of a drive with power")),
        Some(c) => {
            let help = "Erase units by what they are there for";
            let units = |name, n: u32, role, what| {
                Field::new(name, Unit::Count, n, what).gauge("units").labelled("role", role, help)
            };
            let least = look.stats.free_units_min;
            fields.extend([
                units("units.free", c.free, "free", "free units"),
                Field::new("units.free_min", Unit::Count, least, "the fewest since the start"),
                units("units.open", c.open, "open", "units that are written to"),
                units("units.full", c.full + c.leaving, "full", "units full of data"),
                units("units.map", c.map, "map", "units of the map log"),
                units("units.dump", c.dump, "dump", "units kept for emergency dumps"),
                units("units.bad", c.bad, "bad", "bad units"),
            ]);
        }
    }
    match &look.wear {
        None => fields.push(unknown("wear", "erases of a unit, of a drive with power")),
        Some(wear) => {
            let erases = |name, n: f64, of, what| {
                let value = Value::Number(n);
                let field = Field::new(name, Unit::Count, value, what).gauge("unit_erases");
                field.labelled("of", of, "Erases of a unit")
            };
            let endurance = look.drive.design().wear.endurance;
            let help = "erases that a unit can take; 0: any number";
            fields.extend([
                erases("wear.min", wear.all.min.into(), "min", "erases of the least worn unit"),
                erases("wear.mean", wear.all.mean(), "mean", "erases of a unit on average"),
                erases("wear.max", wear.all.max.into(), "max", "erases of the most worn unit"),
                Field::new("wear.endurance", Unit::Count, endurance, help),
            ]);
        }
    }
    fields
}

/// What is in the capacitors, what a cut would take now, and at worst: joules.
fn joules(drive: &Drive) -> Option<(f64, f64, f64)> {
    // Without power nothing is known of the capacitors.
    let known = drive.design().is_protected() && drive.power() == PowerState::On;
    known.then(|| {
        let worst = EnergyModel::of(drive.design(), drive.layout()).full().total_j();
        (drive.design().joules(drive.layout()), drive.joules_needed(), worst)
    })
}

fn energy(look: &Look<'_>) -> Vec<Field> {
    let Some((there, needed, worst)) = look.joules else {
        let help = "energy, of a protected drive with power";
        return vec![Field::new("energy", Unit::Text, Value::Unknown, help)];
    };
    let family = "Energy in the capacitors, what a cut would take now at most, and at worst";
    let energy = |name, joules: f64, what, help| {
        let field = Field::new(name, Unit::Joules, joules, help).gauge("energy_joules");
        field.labelled("what", what, family)
    };
    vec![
        energy("energy.there_j", there, "there", "what the capacitors have"),
        energy("energy.needed_j", needed, "needed", "what a cut would take now, at most"),
        energy("energy.worst_j", worst, "worst", "what any cut can take"),
    ]
}

fn outages(look: &Look<'_>) -> Vec<Field> {
    let losses = &look.losses;
    vec![
        Field::new(
            "outages.incomplete",
            Unit::Count,
            losses.incomplete,
            "Emergency dumps that were not complete, that for a killed process included",
        )
        .counter("incomplete_dumps"),
        Field::new(
            "outages.most_drawn_j",
            Unit::Joules,
            losses.most_spent_j,
            "the most that a dump drew",
        ),
        Field::new(
            "outages.longest_ns",
            Unit::Nanos,
            losses.longest.0,
            "the longest that a dump took until the drive was off",
        ),
    ]
}

/// What `stats` prints.
fn lines(look: &Look<'_>) -> Vec<Line> {
    let s = &look.stats;
    let ((used, unstored), (pages, entries)) = (look.backlog, rooms(look.drive));
    let map = match look.mapped_pages() {
        Some(mapped) => {
            let mapped = counted(mapped.into(), "page", "pages");
            format!("{mapped} mapped; {unstored} of {entries} entries not on flash yet")
        }
        None => "unknown without power".to_string(),
    };
    let mut lines = vec![
        Line::new("buffer", format!("{used} of {pages} pages")),
        Line::new("map", map),
        Line::new(
            "flash",
            format!(
                "{} programmed ({:.3} for each byte written), {} moved, {} of map; {}",
                bytes_in_words(s.flash_program_bytes),
                s.write_amplification(),
                bytes_in_words(s.gc_copied_bytes),
                bytes_in_words(s.meta_bytes),
                counted(s.erases, "erase", "erases")
            ),
        ),
    ];
    if let Some(c) = &look.census {
        lines.push(Line::new(
            "units",
            format!(
                "{} free (at least {}), {} open, {} full, {} of the map log, {} for dumps, {} bad",
                c.free,
                s.free_units_min,
                c.open,
                c.full + c.leaving,
                c.map,
                c.dump,
                c.bad
            ),
        ));
    }
    if let Some(wear) = &look.wear {
        let (min, max, mean) = (wear.all.min, wear.all.max, wear.all.mean());
        let of = match look.drive.design().wear.endurance {
            0 => String::new(),
            n => format!(" of {n}"),
        };
        lines.push(Line::new("wear", format!("{min} to {max} erases{of}, {mean:.1} on average")));
    }
    if let Some((there, needed, _)) = look.joules {
        let (there, needed) = (joules_in_words(there), joules_in_words(needed));
        lines.push(Line::new("energy", format!("{there} available, {needed} needed now at most")));
    }
    let incomplete = look.losses.incomplete;
    lines.push(Line::new("dumps", format!("not complete: {incomplete}")));
    lines
}

/// What is in its memory, as bars.
fn inside(look: &Look<'_>) -> Vec<Line> {
    let ((used, unstored), (pages, entries)) = (look.backlog, rooms(look.drive));
    let mut lines = vec![
        Line::level("buffer", used.into(), pages, format_args!("of {pages} pages")),
        Line::level(
            "dirty map",
            unstored.into(),
            entries,
            format_args!("of {entries} entries not on flash yet"),
        ),
    ];
    lines.push(match look.joules {
        Some((there, needed, _)) => {
            let text = format!(
                "{} needed of {} available",
                joules_in_words(needed),
                joules_in_words(there)
            );
            Line::bar("energy", needed / there, text)
        }
        None if look.drive.design().is_protected() => {
            Line::new("energy", "unknown without power").dim()
        }
        None => Line::new("energy", "no capacitors: memory goes with the power").dim(),
    });
    if let Some(c) = &look.census {
        let all = u64::from(c.free + c.open + c.full + c.leaving);
        let in_use = all - u64::from(c.free);
        lines.push(Line::level("in use", in_use, all, format_args!("of {all} units for data")));
    }
    let endurance = look.drive.design().wear.endurance;
    if let Some(wear) = look.wear.as_ref().filter(|_| endurance > 0) {
        let text = format!("of {endurance} erases (the most worn unit)");
        lines.push(Line::level("worn", wear.all.max.into(), endurance.into(), text));
    }
    lines
}

/// What is done on flash.
fn on_flash(look: &Look<'_>) -> Vec<Line> {
    let mut lines = vec![
        Line::new(
            "",
            format!(
                "write amplification {:.3}, now {{drive.flash_program_bytes/drive.host_write_bytes}}   \
                 programmed {{drive.flash_program_bytes/s}}/s",
                look.stats.write_amplification()
            ),
        ),
        Line::new(
            "collection",
            "{drive.moved_bytes/s}/s moved, {drive.erases/s}/s erases   map {drive.map_bytes/s}/s",
        ),
    ];
    lines.push(match &look.census {
        None => Line::new("units", "unknown without power").dim(),
        Some(c) => Line::new(
            "units",
            format!(
                "{} free ({} least), {} open, {} full, {} map, {} dump",
                c.free,
                look.stats.free_units_min,
                c.open,
                c.full + c.leaving,
                c.map,
                c.dump
            ),
        ),
    });
    lines.push(match (&look.wear, &look.census) {
        (Some(wear), Some(census)) => {
            let of = match look.drive.design().wear.endurance {
                0 => "any number".to_string(),
                n => n.to_string(),
            };
            let (min, max, mean) = (wear.all.min, wear.all.max, wear.all.mean());
            let erases = format!("{min} to {max} erases, {mean:.1} on average, of {of}");
            let bad = counted(census.bad.into(), "bad unit", "bad units");
            Line::new("wear", format!("{erases}; {bad}"))
        }
        _ => Line::new("wear", "unknown without power").dim(),
    });
    lines
}
