//! A search as JSON: what `tantalum search --json` writes. The same search with the same seed gives
//! the same bytes.

use super::{Findings, Tried};
use crate::report::json_layout;
use serde_json::{Value, json};
use tantalum_drive::Voltages;

impl Findings {
    /// The search as JSON, with a line break at its end; farads are those between these
    /// voltages.
    pub fn to_json(&self, volts: Voltages) -> String {
        let tried: Vec<Value> = (0..self.tried.len()).map(|i| self.one(i, volts)).collect();
        let failed = |(c, e): &(super::Candidate, String)| json!({ "what": c.choice.to_string(), "error": e });
        let place = |at: Option<usize>| at.map(|i| self.one(i, volts));
        let document = json!({
            "search": self.title,
            "workload": self.workload,
            "base": self.base,
            "seed": self.seed,
            "limits": {
                "recovery_ms": self.limits.recovery.as_millis_f64(),
                "slowdown_percent": self.limits.slowdown * 100.0,
            },
            "full_protection": {
                "energy_j": self.reference_j,
                "farads": volts.farads(self.reference_j),
                "iops": self.reference_rate,
                "recovery_ms": self.reference_recovery.as_millis_f64(),
            },
            "interrupted": self.interrupted,
            "candidates": self.candidates,
            "left_out": self.left_out,
            "winner": place(self.winner),
            "nearest": place(self.nearest),
            "toml": self.toml,
            "conflicts": self.conflicts,
            "tried": tried,
            "failed": self.failed.iter().map(failed).collect::<Vec<_>>(),
        });
        // Values and a writer in memory: this does not fail.
        json_layout::to_json(&document).unwrap_or_default()
    }

    fn one(&self, i: usize, volts: Voltages) -> Value {
        let t: &Tried = &self.tried[i];
        let (d, choice) = (&t.candidate.design, &t.candidate.choice);
        json!({
            "what": choice.to_string(),
            "energy_j": t.candidate.energy_j,
            "farads": volts.farads(t.candidate.energy_j),
            "iops": t.rate,
            "slowdown_percent": t.slowdown * 100.0,
            "recovery_ms": t.recovery.as_millis_f64(),
            "meets": t.meets(&self.limits),
            "pareto": self.pareto.contains(&i),
            "buffer_kib": d.cache.buffer_kib,
            "map": d.map,
            "erase_abort": d.power.erase_abort,
        })
    }
}
