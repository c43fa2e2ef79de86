//! An exploration as JSON: what `tantalum crash --json` writes.
//!
//! It holds nothing that depends on the machine or the day: the same exploration with the
//! same seed gives the same bytes, unless it was ended early.

use crate::report::json_layout;
use serde_json::{Map, Value, json};
use tantalum_explore::{Case, Over, RowState, RowSurvey, Survey};

/// The exploration as JSON, with a line break at its end.
pub fn survey_json(survey: &Survey) -> String {
    let document = json!({
        "exploration": survey.title,
        "seed": survey.seed,
        "ended_by": survey.over.map(over),
        "rows": survey.rows.iter().map(row).collect::<Vec<_>>(),
    });
    // Values and a writer in memory: this does not fail.
    json_layout::to_json(&document).unwrap_or_default()
}

fn over(over: Over) -> &'static str {
    match over {
        Over::Interrupted => "interrupt",
        Over::Budget => "budget",
        Over::Found => "finding",
    }
}

fn state(state: RowState) -> &'static str {
    match state {
        RowState::NotRun => "not-run",
        RowState::Part => "part",
        RowState::Whole => "whole",
        RowState::GivenUp => "given-up",
    }
}

fn row(row: &RowSurvey) -> Value {
    let cuts: Map<String, Value> =
        row.tally.cuts.iter().map(|(moment, n)| (moment.to_string(), (*n).into())).collect();
    json!({
        "name": row.name,
        "state": state(row.state),
        "asked": row.asked,
        "runs": row.runs,
        "cuts": cuts,
        "nested_cuts": row.tally.nested,
        "void_cuts": row.tally.void,
        "cycles": row.tally.cycles,
        "found": row.cases.iter().map(case).collect::<Vec<_>>(),
    })
}

fn case(case: &Case) -> Value {
    let reduced = case.reduced.as_ref().map(|r| {
        json!({
            "commands": r.scenario.commands.len(),
            "cuts_ns": r.found.cuts.iter().map(|at| at.0).collect::<Vec<_>>(),
            "stage": r.found.stage.to_string(),
            "failure": r.found.failure.to_string(),
            "test": r.to_test(),
        })
    });
    json!({
        "case": case.id,
        "stage": case.found.stage.to_string(),
        "failure": case.found.failure.to_string(),
        "commands": case.scenario.commands.len(),
        "cuts_ns": case.found.cuts.iter().map(|at| at.0).collect::<Vec<_>>(),
        "reduced": reduced,
    })
}
