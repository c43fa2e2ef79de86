//! What a drive that runs is asked, in the form in which it travels.

use tantalum_device::Caps;
use tantalum_drive::{Drive, EnergyModel, PHASES, PowerState};
use tantalum_export::control::{CutReport, Discharge, Phase, Power, RestoreReport};
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
        let joules = joules_needed(drive);
        let losses = drive.power_losses().count;
        Before { was: drive.power(), buffered, unstored, joules, losses }
    }

    /// What became of the cut; the drive is off.
    pub fn cut(self, drive: &Drive, real: Nanos) -> CutReport {
        let caps: &Caps = drive.caps();
        // Of this cut: a drive that was starting has lost nothing, and nothing is told.
        let loss = drive.last_power_loss().filter(|_| drive.power_losses().count > self.losses);
        let discharge = loss.map(|loss| Discharge {
            complete: loss.complete,
            joules_there: loss.budget_j,
            joules_needed: self.joules,
            joules_drawn: loss.spent_j,
            joules_missing: loss.missing_j,
            took_ns: loss.took.0,
        });
        let lost = match discharge {
            Some(discharge) => !discharge.complete,
            None => self.was == PowerState::On && !caps.ack.survives(),
        };
        CutReport {
            was: power(self.was),
            acknowledged_is_safe: caps.ack.survives(),
            protected: drive.design().is_protected(),
            buffered_pages: self.buffered.into(),
            unstored_entries: self.unstored.into(),
            discharge,
            lost_blocks_at_most: match lost {
                true => u64::from(self.buffered) + u64::from(self.unstored),
                false => 0,
            },
            real_ns: real.0,
        }
    }
}

/// Joules that it would take to lose the power now: for what is buffered and what the map log
/// does not have, and to finish what can be under way at worst. 0 of a drive that nothing protects.
pub fn joules_needed(drive: &Drive) -> f64 {
    let design = drive.design();
    if !design.is_protected() || drive.power() != PowerState::On {
        return 0.0;
    }
    let model = EnergyModel::of(design, drive.layout());
    let (buffered, unstored) = drive.backlog();
    let entries = u64::from(unstored).div_ceil(ENTRIES_PER_SECTOR);
    model.programs_j(u64::from(buffered) * SECTOR)
        + model.programs_j(entries * SECTOR)
        + model.full().consistency_j
}

/// Bytes of a sector, and changed entries that a dump puts into one.
const SECTOR: u64 = 4096;
const ENTRIES_PER_SECTOR: u64 = 512;

/// What the restart took that the drive has just made; times of the real clock are the caller's.
pub fn restored(drive: &Drive, was: PowerState) -> RestoreReport {
    let report = drive.last_recovery().unwrap_or_default();
    let phase = |(name, took): (&&str, Nanos)| Phase { name: (*name).to_string(), ns: took.0 };
    RestoreReport {
        was: power(was),
        salvaged: report.salvaged,
        salvaged_entries: report.salvaged_entries,
        dump_pages: report.dump_pages,
        phases: PHASES.iter().zip(report.phases()).map(phase).collect(),
        ready_ns: report.total.0,
        real_ready_ns: 0,
        whole_ns: report.whole.0,
        real_ns: 0,
        notes: Vec::new(),
    }
}
