//! Answers of a running box, in the form in which they are sent.

use super::{Front, Plug};
use crate::members::in_words;
use std::collections::BTreeMap;
use tantalum_device::{
    AfterCut, CommandKind, Field, KindStats, LiveBox, PowerState, Shown, StartOutcome, Unit,
};
use tantalum_export::control::{
    CommandCounts, CutReport, Described, LATENCY_BOUNDS, LatencyCounts, Phase, RestoreReport,
    StatsReport, StatusReport, Values,
};
use tantalum_rt::Nanos;

/// A box at the moment of a cut.
pub struct Before {
    pub was: PowerState,
    acknowledged_is_safe: bool,
    after: AfterCut,
}

impl Before {
    pub fn of<B: LiveBox>(bare: &B) -> Before {
        Before {
            was: bare.power_state(),
            acknowledged_is_safe: bare.promises().ack.survives(),
            after: bare.watch_cut(),
        }
    }

    /// The outcome of the cut. The box is off.
    pub fn cut(self, real: Nanos) -> CutReport {
        let outcome = (self.after)();
        CutReport {
            was: self.was,
            acknowledged_is_safe: self.acknowledged_is_safe,
            lost_blocks_at_most: outcome.lost_blocks,
            real_ns: real.0,
            complete: outcome.complete,
            words: outcome.words,
            lines: outcome.lines.into_iter().map(Into::into).collect(),
            values: Values::of(&outcome.fields),
        }
    }
}

/// The report of the restart that the box has just made; the caller fills in real times.
pub fn restored<B: LiveBox, F: Front>(plug: &Plug<B, F>, was: PowerState) -> RestoreReport {
    let StartOutcome { ready, whole, phases, salvaged, found, fields } = plug.bare().last_start();
    let phase = |(name, took): (&str, Nanos)| Phase { name: name.to_string(), ns: took.0 };
    let seen = plug.start_took();
    RestoreReport {
        was,
        salvaged,
        phases: phases.into_iter().map(phase).collect(),
        ready_ns: ready.unwrap_or(seen.0).0,
        real_ready_ns: 0,
        whole_ns: whole.unwrap_or(seen.1).0,
        real_ns: 0,
        notes: Vec::new(),
        found,
        values: Values::of(&fields),
    }
}

/// The state of the box, its counters and contents, and the fields of both that are metrics, all from
/// one look at the box.
pub fn all<B: LiveBox, F: Front>(plug: &Plug<B, F>) -> (StatusReport, StatsReport, Vec<Field>) {
    let (mut fields, shown) = (plug.bare().status_fields(), shown(plug));
    let status = status_of(plug, &fields);
    let stats = stats_of(plug, &shown);
    fields.extend(shown.fields);
    fields.retain(|field| field.metric.is_some());
    (status, stats, fields)
}

/// The state of the box.
pub fn status<B: LiveBox, F: Front>(plug: &Plug<B, F>) -> StatusReport {
    status_of(plug, &plug.bare().status_fields())
}

/// The counters and contents of the box.
pub fn stats<B: LiveBox, F: Front>(plug: &Plug<B, F>) -> StatsReport {
    stats_of(plug, &shown(plug))
}

fn status_of<B: LiveBox, F: Front>(plug: &Plug<B, F>, fields: &[Field]) -> StatusReport {
    let (bare, about) = (plug.bare(), plug.about());
    let caps = bare.promises();
    StatusReport {
        program: env!("CARGO_PKG_VERSION").to_string(),
        pid: std::process::id(),
        image: about.image.as_ref().map(|path| path.display().to_string()),
        design: bare.title(),
        capacity_bytes: caps.bytes(),
        acknowledged_is_safe: caps.ack.survives(),
        seed: plug.rt().seed(),
        time_scale: about.time_scale,
        power: bare.power_state(),
        now_ns: plug.rt().now().0,
        real_now_ns: plug.io().real_now().0,
        cuts: plug.pulls(),
        last_cut: plug.last_cut(),
        last_restore: plug.last_restore(),
        failure: bare.failure().map(in_words),
        defect: bare.stopped_by(),
        values: Values::of(fields),
        fields: Described::all(fields),
        lines: bare
            .status_lines()
            .into_iter()
            .chain(plug.lines_of_the_end())
            .map(Into::into)
            .collect(),
    }
}

/// What the box shows, and the number of power cuts.
fn shown<B: LiveBox, F: Front>(plug: &Plug<B, F>) -> Shown {
    let mut shown = plug.bare().shown();
    let help = "How often this process cut the power";
    let cuts = Field::new("outages.cuts", Unit::Count, plug.pulls(), help).counter("cuts");
    shown.fields.push(cuts);
    shown
}

fn stats_of<B: LiveBox, F: Front>(plug: &Plug<B, F>, shown: &Shown) -> StatsReport {
    let counts = plug.drive().snapshot();
    let kind = |kind: &CommandKind| (kind.name().to_string(), command(counts.of(*kind)));
    StatsReport {
        power: plug.bare().power_state(),
        now_ns: plug.rt().now().0,
        real_now_ns: plug.io().real_now().0,
        under_way: plug.drive().under_way(),
        commands: CommandKind::ALL.iter().map(kind).collect::<BTreeMap<_, _>>(),
        latency_bounds_ns: LATENCY_BOUNDS.to_vec(),
        clients: plug.front().clients(),
        values: Values::of(&shown.fields),
        fields: Described::all(&shown.fields),
        lines: shown.lines.iter().cloned().map(Into::into).collect(),
        panels: shown.panels.iter().cloned().map(Into::into).collect(),
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
