//! The deviations of several reports from what was published, each and together.
//!
//! 1. A published number counts once in the total, whatever report it is in: means are weighted by
//!    how many numbers they are of.
//! 2. What was fitted and what is predicted are never added up.

use crate::report::compare::Document;
use crate::report::published::{Deviation, Deviations};
use serde::Deserialize;

/// The deviations of one report.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    /// The title of the experiment.
    pub title: String,
    /// How far it is off.
    pub deviations: Deviations,
}

/// Reads the deviations of a report; `file` is named in errors.
///
/// # Errors
/// It is no report of an experiment, or nothing was published for it.
pub fn of(file: &str, document: &Document) -> Result<Sum, String> {
    let Document::Experiment(value) = document else {
        return Err(format!("\"{file}\" is a report of a benchmark: give those of `tantalum run`"));
    };
    let title = value["experiment"].as_str().unwrap_or_default().to_string();
    let deviations = match &value["deviations"] {
        serde_json::Value::Null => {
            return Err(format!(
                "nothing was published for the experiment of \"{file}\": leave it out"
            ));
        }
        value => Deviations::deserialize(value)
            .map_err(|e| format!("{file}: \"deviations\" is not of a report: {e}"))?,
    };
    Ok(Sum { title, deviations })
}

/// All of them as one.
pub fn total(sums: &[Sum]) -> Deviations {
    let of = |part: fn(&Deviations) -> Option<Deviation>| {
        sums.iter().filter_map(|s| part(&s.deviations)).reduce(Deviation::and)
    };
    Deviations { fitted: of(|d| d.fitted), predicted: of(|d| d.predicted) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sum(deviations: serde_json::Value) -> Result<Sum, String> {
        of("a.json", &Document::Experiment(json!({ "experiment": "a", "deviations": deviations })))
    }

    fn deviation(numbers: u32, mean: f64, worst: f64) -> serde_json::Value {
        json!({ "numbers": numbers, "mean_percent": mean, "worst_percent": worst })
    }

    #[test]
    fn means_are_weighted_and_kinds_kept_apart() {
        let all = [
            json!({ "fitted": deviation(3, 2.0, 4.0), "predicted": null }),
            json!({ "fitted": deviation(1, 10.0, 10.0), "predicted": deviation(2, 7.0, 9.0) }),
        ];
        let all: Vec<Sum> = all.into_iter().map(|d| sum(d).unwrap()).collect();
        let both = total(&all);
        let of = |numbers, mean_percent, worst_percent| {
            Some(Deviation { numbers, mean_percent, worst_percent })
        };
        assert_eq!((both.fitted, both.predicted), (of(4, 4.0, 10.0), of(2, 7.0, 9.0)));
        assert_eq!(total(&[]), Deviations { fitted: None, predicted: None });
    }

    #[test]
    fn what_is_no_report_with_published_numbers_is_refused() {
        assert!(sum(json!(null)).unwrap_err().contains("nothing was published"));
        assert!(sum(json!({ "fitted": 3, "predicted": null })).unwrap_err().contains("a.json"));
        let bench = of("b.json", &Document::Bench(json!({ "runs": [] })));
        assert!(bench.unwrap_err().contains("report of a benchmark"));
    }
}
