//! What a log volume shows of itself while it is served.

use crate::LogStats;
use crate::volume::error::VolumeError;
use crate::volume::plug::LogVolume;
use tantalum_device::{
    AfterCut, BlockDevice, Caps, Field, IoError, Line, LiveBox, Panel, PowerCycle, PowerState,
    Shown, StartError, Unit, bytes_in_words, counted, unprotected_cut,
};

/// How many slow writes were written again, in some words.
fn written_again(log: &LogStats) -> String {
    match log.hedges {
        0 => "none was written again".to_string(),
        n => {
            let times = counted(n, "time", "times");
            format!("written again {times}, of which {} ended first", log.hedges_won)
        }
    }
}

/// How much of what was written to the devices is padding, in some words.
fn padding(log: &LogStats) -> String {
    let (percent, all) = (log.padding_percent(), bytes_in_words(log.array_bytes));
    format!("{percent:.0} % of {all} written to the devices, in blocks that were not full")
}

impl<L: PowerCycle + 'static, B: PowerCycle + 'static> LiveBox for LogVolume<L, B> {
    fn title(&self) -> String {
        "log-volume".to_string()
    }

    fn power_state(&self) -> PowerState {
        match (self.device().is_alive(), self.inner.link.borrow().is_alive()) {
            (true, _) => PowerState::On,
            (false, true) => PowerState::Starting,
            (false, false) => PowerState::Off,
        }
    }

    fn promises(&self) -> Caps {
        self.caps()
    }

    async fn bring_up(&self, salvage: bool) -> Result<Vec<String>, StartError> {
        let (mut started, mut lost) = (self.power_on().await, Vec::new());
        if let (true, Some(VolumeError::Open(e))) = (salvage, self.start_failure())
            && let Some(damage) = e.salvaged()
        {
            started = self.bring_on(true).await;
            lost.push(format!("{damage}: what is before was salvaged, the rest is lost"));
        }
        lost.extend(self.log_stats().and_then(|log| log.without()));
        started.map(|()| lost).map_err(|e| match e {
            IoError::PowerLost => StartError::CutAgain,
            e => StartError::Failed(LiveBox::failure(self).unwrap_or(e.to_string())),
        })
    }

    /// What it promises, and the devices that take no part in it.
    fn status_lines(&self) -> Vec<Line> {
        let mut lines = vec![Line::promises(&self.caps())];
        let without = self.log_stats().and_then(|log| log.without());
        lines.extend(without.map(|without| Line::new("devices", without)));
        lines
    }

    fn failure(&self) -> Option<String> {
        self.start_failure().map(|e| e.to_string())
    }

    fn stopped_by(&self) -> Option<String> {
        self.stopped()
    }

    /// Nothing that was acknowledged is only in memory.
    fn watch_cut(&self) -> AfterCut {
        Box::new(|| unprotected_cut(0))
    }

    fn shown(&self) -> Shown {
        let memory = self.inner.options.memory;
        let (Some(stats), Some(log)) = (self.stats(), self.log_stats()) else {
            return Shown::unknown(&[
                ("memory", "changes that are not destaged, of a volume with power"),
                ("log", "the log, of a volume with power"),
                ("changes", "changes that the log took, of a volume with power"),
                ("destage", "what was destaged, of a volume with power"),
            ]);
        };
        let (present, absent) = (log.end.since(log.first), log.absent());
        let count = |all: &[String]| all.len() as u64;
        let field = |name, unit, value: u64, help| Field::new(name, unit, value, help);
        let fields = vec![
            field("memory.bytes", Unit::Bytes, stats.memory, "changes that are not destaged")
                .gauge("undestaged_bytes"),
            field("memory.bytes_max", Unit::Bytes, memory, "of these in memory, at most")
                .gauge("undestaged_bytes_limit"),
            field("log.bytes", Unit::Bytes, present, "bytes in the log since its checkpoint")
                .gauge("log_bytes"),
            field("log.groups", Unit::Count, log.groups, "groups written to the log")
                .counter("log_groups"),
            field("log.devices_absent", Unit::Count, count(&absent), "devices that take no part")
                .gauge("log_devices_absent"),
            field("log.degraded", Unit::Count, log.degraded.into(), "1: fewer copies than wanted")
                .gauge("log_degraded"),
            field("log.hedges", Unit::Count, log.hedges, "slow writes that were written again")
                .counter("log_hedges"),
            field("log.hedges_won", Unit::Count, log.hedges_won, "of these, ended first")
                .counter("log_hedges_won"),
            field("log.array_bytes", Unit::Bytes, log.array_bytes, "bytes written to its devices")
                .counter("log_array_bytes"),
            field(
                "log.padding_bytes",
                Unit::Bytes,
                log.padding_bytes,
                "of these, padding of blocks",
            )
            .counter("log_padding_bytes"),
            field("log.stalls", Unit::Count, log.stalls, "writes that took longer than the bound")
                .counter("log_stalls"),
            field("log.archive_gaps", Unit::Count, log.archive_gaps, "pieces the archive lacks")
                .counter("log_archive_gaps"),
            field("changes", Unit::Count, stats.changes, "changes that the log took")
                .counter("changes"),
            field("destage.rounds", Unit::Count, stats.rounds, "times that changes were destaged")
                .counter("destage_rounds"),
            field("destage.bytes", Unit::Bytes, stats.written_bytes, "bytes destaged")
                .counter("destaged_bytes"),
        ];
        let used = format!("{} of {} used", bytes_in_words(stats.memory), bytes_in_words(memory));
        let mut lines = vec![
            Line::new("memory", used.clone()),
            Line::new("log", format!("{} since its checkpoint", bytes_in_words(present))),
            Line::new(
                "devices",
                log.without().unwrap_or(format!("{}, all take part", log.devices.len())),
            ),
            Line::new(
                "destaged",
                format!(
                    "{} in {}",
                    bytes_in_words(stats.written_bytes),
                    counted(stats.rounds, "round", "rounds")
                ),
            ),
        ];
        let mut bars = vec![Line::bar("memory", stats.memory as f64 / memory.max(1) as f64, used)];
        bars.extend(lines[1..].iter().cloned());
        lines.extend([
            Line::new("slow writes", written_again(&log)),
            Line::new("padding", padding(&log)),
        ]);
        Shown { fields, lines, panels: vec![Panel::new("inside", bars)] }
    }
}
