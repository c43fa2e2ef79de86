//! What a drive that runs is asked, in the form in which it travels.

use super::{Front, Plug};
use std::collections::BTreeMap;
use tantalum_device::{Caps, CommandKind, KindStats};
use tantalum_drive::{Drive, EnergyModel, PHASES, PowerLoss, PowerState};
use tantalum_export::control::{
    Buffer, CommandCounts, CutReport, Discharge, DriveCounts, Energy, LATENCY_BOUNDS,
    LatencyCounts, MapMemory, Outages, Phase, Power, RestoreReport, StatsReport, StatusReport,
    Units, Wear,
};
use tantalum_rt::Nanos;

/// As it travels.
pub fn power(state: PowerState) -> Power {
    match state {
        PowerState::Off => Power::Off,
        PowerState::Starting => Power::Starting,
        PowerState::On => Power::On,
        PowerState::Dying => Power::Dying,
    }
}

/// A drive at the moment of a cut.
pub struct Before {
    pub was: PowerState,
    buffered: u32,
    unstored: u32,
    joules: f64,
    losses: u64,
}

impl Before {
    pub fn of(drive: &Drive) -> Before {
        let (buffered, unstored) = drive.backlog();
        let joules = drive.joules_needed();
        let losses = drive.power_losses().count;
        Before { was: drive.power(), buffered, unstored, joules, losses }
    }

    /// What became of the cut; the drive is off.
    pub fn cut(self, drive: &Drive, real: Nanos) -> CutReport {
        let caps: &Caps = drive.caps();
        // Of this cut: a drive that was starting has lost nothing, and nothing is told.
        let loss = drive.last_power_loss().filter(|_| drive.power_losses().count > self.losses);
        let discharge = loss.map(|loss| discharge(&loss, self.joules));
        let (buffered, unstored) = (u64::from(self.buffered), u64::from(self.unstored));
        let lost = match discharge {
            Some(discharge) if discharge.complete => 0,
            // What was programmed is found again by a salvage.
            Some(_) => buffered,
            None if caps.ack.survives() => 0,
            None => buffered + unstored,
        };
        CutReport {
            was: power(self.was),
            acknowledged_is_safe: caps.ack.survives(),
            protected: drive.design().is_protected(),
            buffered_pages: buffered,
            unstored_entries: unstored,
            discharge,
            lost_blocks_at_most: lost,
            real_ns: real.0,
        }
    }
}

/// What capacitors did, where so many joules could have been needed.
pub fn discharge(loss: &PowerLoss, joules_needed: f64) -> Discharge {
    Discharge {
        complete: loss.complete,
        joules_there: loss.budget_j,
        joules_needed,
        joules_drawn: loss.spent_j,
        joules_missing: loss.missing_j,
        took_ns: loss.took.0,
    }
}

/// What the restart took that the drive has just made; times of the real clock are the caller's.
pub fn restored(drive: &Drive, was: PowerState) -> RestoreReport {
    let report = drive.last_recovery().unwrap_or_default();
    let phase = |(name, took): (&&str, Nanos)| Phase { name: (*name).to_string(), ns: took.0 };
    RestoreReport {
        was: power(was),
        salvaged: report.salvaged,
        salvaged_entries: report.salvaged_entries,
        dump_pages: report.dump_pages,
        dump_entries: report.dump_entries + report.journal_entries,
        phases: PHASES.iter().zip(report.phases()).map(phase).collect(),
        ready_ns: report.total.0,
        real_ready_ns: 0,
        whole_ns: report.whole.0,
        real_ns: 0,
        notes: Vec::new(),
    }
}

/// How the drive is.
pub fn status<F: Front>(plug: &Plug<F>) -> StatusReport {
    let (drive, about) = (plug.drive().inner(), plug.about());
    let caps = drive.caps();
    StatusReport {
        program: env!("CARGO_PKG_VERSION").to_string(),
        pid: std::process::id(),
        image: about.image.as_ref().map(|path| path.display().to_string()),
        design: drive.design().name.clone(),
        capacity_bytes: caps.bytes(),
        protected: drive.design().is_protected(),
        acknowledged_is_safe: caps.ack.survives(),
        seed: plug.rt().seed(),
        time_scale: about.time_scale,
        power: power(drive.power()),
        worn_out: drive.is_worn_out(),
        now_ns: plug.rt().now().0,
        real_now_ns: plug.io().real_now().0,
        cuts: plug.pulls(),
        last_cut: plug.last_cut(),
        last_restore: plug.last_restore(),
        failure: drive.last_failure().map(|failure| failure.to_string()),
    }
}

/// What it has done, and what is in it.
pub fn stats<F: Front>(plug: &Plug<F>) -> StatsReport {
    let drive = plug.drive().inner();
    let counts = plug.drive().snapshot();
    let kind = |kind: &CommandKind| (kind.name().to_string(), command(counts.of(*kind)));
    let design = drive.design();
    let s = drive.stats();
    let (used, unstored) = drive.backlog();
    let census = drive.census();
    let model = EnergyModel::of(design, drive.layout());
    let losses = drive.power_losses();
    StatsReport {
        power: power(drive.power()),
        now_ns: plug.rt().now().0,
        real_now_ns: plug.io().real_now().0,
        under_way: plug.drive().under_way(),
        commands: CommandKind::ALL.iter().map(kind).collect::<BTreeMap<_, _>>(),
        latency_bounds_ns: LATENCY_BOUNDS.to_vec(),
        drive: DriveCounts {
            host_write_bytes: s.host_write_bytes,
            host_read_bytes: s.host_read_bytes,
            flash_program_bytes: s.flash_program_bytes,
            moved_bytes: s.gc_copied_bytes,
            moved_idle_bytes: s.background_bytes,
            levelled_bytes: s.levelled_bytes,
            map_bytes: s.meta_bytes,
            dump_bytes: s.dump_bytes,
            flash_reads: s.flash_reads,
            erases: s.erases,
            refused_writes: s.refused_writes,
            buffer_wait_ns: s.buffer_wait.0,
            space_wait_ns: s.space_wait.0,
            write_amplification: s.write_amplification(),
        },
        buffer: Buffer { pages: u64::from(design.cache.buffer_kib) / 4, used: used.into() },
        map: MapMemory {
            entries: match design.keeps_units() {
                true => design.map.journal_entries,
                false => design.map.dirty_max,
            }
            .into(),
            unstored: unstored.into(),
            mapped_pages: census.map_or(0, |c| c.mapped_pages).into(),
        },
        units: census.map(|c| Units {
            free: c.free.into(),
            free_min: s.free_units_min,
            open: c.open.into(),
            full: (c.full + c.leaving).into(),
            map: c.map.into(),
            dump: c.dump.into(),
            bad: c.bad.into(),
        }),
        wear: drive.wear().map(|wear| Wear {
            min: wear.all.min.into(),
            max: wear.all.max.into(),
            mean: wear.all.mean(),
            endurance: design.wear.endurance.into(),
        }),
        // Without power nothing is known of the capacitors.
        energy: (design.is_protected() && drive.power() == PowerState::On).then(|| Energy {
            there_j: design.joules(drive.layout()),
            needed_j: drive.joules_needed(),
            worst_j: model.full().total_j(),
        }),
        outages: Outages {
            cuts: plug.pulls(),
            incomplete: losses.incomplete,
            most_drawn_j: losses.most_spent_j,
            longest_ns: losses.longest.0,
        },
        clients: plug.front().clients(),
    }
}

fn command(counts: &KindStats) -> CommandCounts {
    let latency = &counts.latency;
    CommandCounts {
        done: counts.commands,
        failed: counts.failed,
        bytes: counts.bytes,
        latency: LatencyCounts {
            sum_ns: latency.sum().0,
            p50_ns: latency.p50().0,
            p99_ns: latency.p99().0,
            max_ns: latency.max().0,
            within: latency.within(&LATENCY_BOUNDS.map(Nanos)),
        },
    }
}
