//! What was published, beside what is found: numbers of rows. (Of rows beside each other:
//! [`ratio`](super::ratio).)
//!
//! 1. A published number never enters a run: it is only laid beside its result. Whether the
//!    parameters of the models were fitted to it, or it is a prediction, is kept with it.
//! 2. A row that failed has no result, and so no number.

use crate::file::parse::Fault;
use crate::report::measures::Named;
use crate::report::ratio::RatioReport;
use crate::report::{Report, RowReport};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Where published numbers come from, and how near ours should be.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Who published the numbers, and where.
    ///
    /// *Source*: own choice.
    pub source: String,
    /// What the numbers of rows are.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub what: String,
    /// Target for the mean deviation of rows, per cent.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub mean_within: Option<f64>,
    /// Target for the deviation of each row, per cent.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub each_within: Option<f64>,
}

/// A number that was published for a row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// The measure.
    pub measure: Named,
    /// In the unit of the measure; times are in microseconds.
    pub number: f64,
    /// Whether parameters were fitted to it. If not, ours is a prediction.
    pub fitted: bool,
}

/// Whether something can be so much, and deviations from it are numbers.
fn is_positive(n: f64) -> bool {
    n > 0.0 && n.is_finite()
}

/// That a key, if it is there, is a number above 0.
pub(super) fn positive(key: &str, n: Option<f64>) -> Result<(), Fault> {
    match n.filter(|n| !is_positive(*n)) {
        Some(n) => Err(Fault::at(&[key], format!("{key} = {n}: must be above 0"))),
        None => Ok(()),
    }
}

/// That a range has something above 0 in it.
pub(super) fn rising(key: &str, [low, high]: [f64; 2]) -> Result<(), Fault> {
    match low >= 0.0 && is_positive(high) && low <= high {
        true => Ok(()),
        false => {
            let what = format!("{key} = [{low}, {high}]: must be 0 or more, the lower one first");
            Err(Fault::at(&[key], what))
        }
    }
}

/// That a distance, if there is one, is a number from 0 on.
pub(super) fn distance(key: &str, n: Option<f64>) -> Result<(), Fault> {
    match n.filter(|n| !(0.0..f64::INFINITY).contains(n)) {
        Some(n) => Err(Fault::at(&[key], format!("{key} = {n}: must be 0 or more"))),
        None => Ok(()),
    }
}

impl Source {
    /// Whether its targets can be met.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        distance("mean_within", self.mean_within)?;
        distance("each_within", self.each_within)
    }
}

/// The `published` key of a `[[row]]`: for each measure, one number for each row that the entry
/// stands for, in the order of the rows. A list without a measure is of throughput.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Numbers(Vec<(Named, Vec<f64>)>);

impl Numbers {
    /// Those of the row with this number.
    pub(crate) fn of(&self, row: usize, fitted: bool) -> Vec<Published> {
        let number = |(measure, n): &(Named, Vec<f64>)| {
            Some(Published { measure: *measure, number: *n.get(row)?, fitted })
        };
        self.0.iter().filter_map(number).collect()
    }

    /// The first number that no measure can have.
    pub(crate) fn impossible(&self) -> Option<f64> {
        self.0.iter().flat_map(|(_, n)| n).copied().find(|n| !is_positive(*n))
    }

    /// The first list whose length is not the number of rows: its measure and its length.
    pub(crate) fn odd(&self, rows: usize) -> Option<(Named, usize)> {
        let counts = self.0.iter().map(|(measure, n)| (*measure, n.len()));
        counts.into_iter().find(|(_, n)| *n != rows)
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Numbers, D::Error> {
        struct Lists;
        impl<'de> Visitor<'de> for Lists {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of numbers, or a table with such a list for each measure")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Numbers, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element()? {
                    numbers.push(number);
                }
                Ok(Numbers(match numbers.is_empty() {
                    true => Vec::new(),
                    false => vec![(Named::default(), numbers)],
                }))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Numbers, A::Error> {
                let mut all = Vec::new();
                while let Some(measure) = table.next_entry()? {
                    all.push(measure);
                }
                Ok(Numbers(all))
            }
        }
        deserializer.deserialize_any(Lists)
    }
}

/// The median of rising numbers: the upper one of two in the middle.
pub(crate) fn median(rising: &[f64]) -> Option<f64> {
    rising.get(rising.len() / 2).copied()
}

/// How far numbers are from what was published, rows and ratios together.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Deviation {
    /// Published numbers, of those that have a result.
    pub numbers: u32,
    /// Mean absolute deviation, in per cent of the published number.
    pub mean_percent: f64,
    /// The largest one.
    pub worst_percent: f64,
}

impl Deviation {
    /// Both as one.
    #[must_use]
    pub fn and(self, other: Deviation) -> Deviation {
        let (a, b) = (f64::from(self.numbers), f64::from(other.numbers));
        Deviation {
            numbers: self.numbers + other.numbers,
            mean_percent: (a * self.mean_percent + b * other.mean_percent) / (a + b).max(1.0),
            worst_percent: self.worst_percent.max(other.worst_percent),
        }
    }

    fn of(each: &[f64]) -> Option<Deviation> {
        let all = || each.iter().map(|d| d.abs());
        (!each.is_empty()).then(|| Deviation {
            numbers: each.len() as u32,
            mean_percent: all().sum::<f64>() / each.len() as f64,
            worst_percent: all().fold(0.0, f64::max),
        })
    }
}

/// The deviations of a report, those that parameters were fitted to and predictions apart.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Deviations {
    /// From numbers to which parameters were fitted.
    pub fitted: Option<Deviation>,
    /// From all others.
    pub predicted: Option<Deviation>,
}

impl Deviations {
    /// The mean of all, in per cent; `None` if there is none.
    pub fn mean_percent(&self) -> Option<f64> {
        let both = || [self.fitted, self.predicted].into_iter().flatten();
        let count: u32 = both().map(|d| d.numbers).sum();
        let sum: f64 = both().map(|d| d.mean_percent * f64::from(d.numbers)).sum();
        (count > 0).then(|| sum / f64::from(count))
    }
}

impl fmt::Display for Deviations {
    /// In the words of all outputs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("fitted", self.fitted), ("predicted", self.predicted)];
        let told = parts.into_iter().filter_map(|(what, d)| Some((what, d?)));
        for (i, (what, d)) in told.enumerate() {
            let comma = if i > 0 { "; " } else { "" };
            let (mean, worst) = (d.mean_percent, d.worst_percent);
            let s = if d.numbers == 1 { "" } else { "s" };
            let n = d.numbers;
            write!(
                f,
                "{comma}{what}: {n} number{s}, off by {mean:.1} % on average, {worst:.1} % at most"
            )?;
        }
        Ok(())
    }
}

/// How near the rows are to what was published for them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nearness {
    /// Published numbers of rows that have a result.
    pub rows: u32,
    /// Mean absolute deviation, in per cent of the published number.
    pub mean_percent: f64,
    /// The largest one.
    pub worst_percent: f64,
    /// Whether both are as near as the experiment wants them; `None` if it wants nothing.
    pub near_enough: Option<bool>,
}

impl RowReport {
    /// What was published of this measure.
    pub fn published_number(&self, measure: Named) -> Option<f64> {
        self.published.iter().find(|p| p.measure == measure).map(|p| p.number)
    }

    /// The deviation of the throughput from what was published, in per cent of it: positive if
    /// ours is more.
    pub fn deviation_percent(&self) -> Option<f64> {
        let throughput = self.published.iter().find(|p| p.measure == Named::default())?;
        throughput.deviation_percent(self)
    }

    /// The deviations from all that was published, with the measures.
    pub fn deviations(&self) -> impl Iterator<Item = (Named, f64)> {
        self.published.iter().filter_map(|p| Some((p.measure, p.deviation_percent(self)?)))
    }
}

impl Published {
    /// How far a row is from it, in per cent: positive if ours is more.
    pub fn deviation_percent(&self, row: &RowReport) -> Option<f64> {
        let ours = self.measure.of(row).filter(|_| self.number > 0.0)?;
        Some((ours / self.number - 1.0) * 100.0)
    }
}

impl Report {
    /// How far rows and ratios are from what was published for them; `None` if nothing was.
    pub fn deviations(&self) -> Option<Deviations> {
        let of = |fitted: bool| {
            let published =
                self.rows.iter().flat_map(|row| row.published.iter().map(move |p| (row, p)));
            let rows = published.filter(|(_, p)| p.fitted == fitted);
            let rows = rows.filter_map(|(row, p)| p.deviation_percent(row));
            let ratios = self.ratios.iter().filter(|q| q.asked.fitted == fitted);
            let each: Vec<f64> =
                rows.chain(ratios.filter_map(RatioReport::deviation_percent)).collect();
            Deviation::of(&each)
        };
        let all = Deviations { fitted: of(true), predicted: of(false) };
        all.mean_percent().map(|_| all)
    }

    /// How near its rows are to what was published; `None` if no row has such a number.
    pub fn nearness(&self) -> Option<Nearness> {
        let all = self.rows.iter().flat_map(RowReport::deviations);
        let each: Vec<f64> = all.map(|(_, deviation)| deviation).collect();
        let Deviation { numbers, mean_percent, worst_percent } = Deviation::of(&each)?;
        let source = self.published.as_ref();
        let wanted = source.and_then(|s| Some((s.mean_within?, s.each_within?)));
        Some(Nearness {
            rows: numbers,
            mean_percent,
            worst_percent,
            near_enough: wanted.map(|(mean, each)| mean_percent <= mean && worst_percent <= each),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::file::experiment::{Experiment, Row};
    use crate::report::RowFindings;

    pub(crate) const FILE: &str = r#"
        title = "t"
        cuts = 1
        repetitions = 2
        job = { a = { seconds = 1.0 }, b = { seconds = 1.0 } }
        row = [{ workload = ["a", "b"], design = ["volatile", "durassd"] }]
        ratio = [
            { what = "mean", of = "*/durassd", to = "*/volatile" },
            { what = "least", of = "*/durassd", to = "*/volatile", over = "least" },
            { what = "most", of = "*/durassd", to = "*/volatile", over = "most" },
            { what = "one", of = "b/durassd", to = "b/volatile" },
            { what = "best", of = "*/durassd", to = "a/volatile", over = "most" },
            { what = "worst", of = "*/durassd", to = "a/durassd", over = "least" },
        ]
    "#;

    /// Throughputs: of a, 3 and 2; of b, 8 and 2; in the second repetition twice the former.
    pub(crate) fn reports(e: &Experiment) -> Vec<RowReport> {
        let report = |row: &Row| {
            let rate = match (row.name.starts_with("a/"), row.design.as_str()) {
                (true, "durassd") => 3.0,
                (false, "durassd") => 8.0,
                _ => 2.0,
            };
            let more = row.design == "durassd" && row.name.ends_with("repetition=2");
            let transactions_per_second = if more { 2.0 * rate } else { rate };
            let found = RowFindings {
                transactions: 1,
                load_ns: 1,
                transactions_per_second,
                ..RowFindings::default()
            };
            RowReport::new(row, 1, found, None)
        };
        e.rows().unwrap().iter().map(report).collect()
    }

    #[test]
    fn any_measure_can_be_published() {
        let published = |text: &str| {
            FILE.replacen("\"durassd\"] }]", &format!("\"durassd\"], published = {text} }}]"), 1)
        };
        let two = "{ p99 = [100, 200, 300, 400], throughput = [2, 3, 2, 8] }";
        let e = Experiment::parse("f.toml", &published(two)).unwrap();
        let mut rows = reports(&e);
        rows.iter_mut().for_each(|r| r.findings.latency.p99_ns = 150_000);
        let title = e.title.clone();
        let mut report =
            Report { title, seed: 1, cuts: 1, published: None, ratios: Vec::new(), rows };
        let p99 = Named::parse("p99").unwrap();
        let first = &report.rows[0];
        assert_eq!(first.published_number(p99), Some(100.0));
        assert_eq!(
            (first.published_number(Named::default()), first.deviation_percent()),
            (Some(2.0), Some(0.0))
        );
        let each: Vec<_> = first.deviations().collect();
        assert!(each.contains(&(p99, 50.0)) && each.len() == 2, "{each:?}");
        // Every number counts for how near the report is.
        assert_eq!(report.nearness().unwrap().rows, 16);
        // A measure that a row did not take has no deviation.
        report.rows.iter_mut().for_each(|r| r.findings.transactions = 0);
        assert_eq!(report.nearness(), None);
    }

    #[test]
    fn what_was_fitted_is_told_apart_from_predictions() {
        let text = FILE
            .replacen(
                "\"durassd\"] }]",
                "\"durassd\"], published = [2, 2, 2, 8], fitted = true }]",
                1,
            )
            .replacen("of = \"b/durassd\",", "of = \"b/durassd\", published = 16,", 1);
        let e = Experiment::parse("f.toml", &text).unwrap();
        let rows = reports(&e);
        let ratios = e.ratios.iter().filter_map(|r| r.report(&rows)).collect();
        let title = e.title.clone();
        let report = Report { title, seed: 1, cuts: 1, published: None, ratios, rows };
        let deviations = report.deviations().unwrap();
        // In the second repetition durassd does twice as much: 3, 8; 6, 16.
        let (fitted, predicted) = (deviations.fitted.unwrap(), deviations.predicted.unwrap());
        assert_eq!((fitted.numbers, fitted.worst_percent), (8, 200.0));
        assert_eq!((fitted.mean_percent * 8.0).round(), 50.0 + 200.0 + 100.0);
        assert_eq!((predicted.numbers, predicted.mean_percent), (1, 50.0));
        assert_eq!(deviations.mean_percent(), Some((350.0 + 50.0) / 9.0));
        assert_eq!(
            deviations.to_string(),
            "fitted: 8 numbers, off by 43.8 % on average, 200.0 % at most; \
             predicted: 1 number, off by 50.0 % on average, 50.0 % at most"
        );
        // Nothing was published.
        let mut none = report;
        none.rows.iter_mut().for_each(|row| row.published.clear());
        none.ratios.clear();
        assert_eq!(none.deviations(), None);
    }

    #[test]
    fn published_numbers_that_do_not_fit_are_refused() {
        for (text, expected) in [
            (
                "{ p99 = [1, 2] }",
                "published has 2 numbers of p99, but its [[row]] stands for 4 rows",
            ),
            ("[1, 2]", "published has 2 numbers, but its [[row]] stands for 4 rows"),
            ("{ p98 = [1, 2, 3, 4] }", "there is no measure \"p98\"; did you mean \"p9"),
            ("7", "a list of numbers, or a table with such a list for each measure"),
        ] {
            let text = FILE.replacen(
                "\"durassd\"] }]",
                &format!("\"durassd\"], published = {text} }}]"),
                1,
            );
            let error = Experiment::parse("f.toml", &text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
