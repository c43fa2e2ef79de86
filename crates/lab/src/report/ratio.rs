//! Rows beside each other, as an experiment file asks for: one divided by another, one less another,
//! or one alone; and what was published of that, or what the experiment aims at.
//!
//! 1. A published number never enters a run: it is only laid beside its result.
//! 2. A row that failed has no result: then there is none of all rows that are compared with it.
//! 3. What is off is told in per cent of what was published. A difference is near 0, where per cent
//!    say nothing: it has no deviation, and agrees or differs.

use crate::file::experiment::Row;
use crate::file::parse::{self, Fault};
use crate::report::RowReport;
use crate::report::measures::Named;
use crate::report::published::{distance, median, positive, rising};
use crate::report::repeated::base;
use serde::{Deserialize, Serialize};

/// Which of the results of several pairs of rows counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pick {
    /// Their arithmetic mean.
    #[default]
    Mean,
    /// The least of them.
    Least,
    /// The largest of them.
    Most,
}

impl Pick {
    fn of(self, some: &[f64]) -> f64 {
        let all = some.iter().copied();
        match self {
            Pick::Mean => all.sum::<f64>() / some.len().max(1) as f64,
            Pick::Least => all.fold(f64::INFINITY, f64::min),
            Pick::Most => all.fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// What was published of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Claim {
    /// About so much.
    About(f64),
    /// From, to.
    Between([f64; 2]),
}

/// What an experiment aims at.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Aim {
    /// More than this.
    MoreThan(f64),
    /// From, to.
    Between([f64; 2]),
}

impl Aim {
    /// Whether so much meets it.
    fn is_met(self, ours: f64) -> bool {
        match self {
            Aim::MoreThan(n) => ours > n,
            Aim::Between([low, high]) => (low..=high).contains(&ours),
        }
    }
}

/// A `[[ratio]]` of an experiment file: the measure of one row divided by that of another (`to`), or
/// less that of another (`minus`), or the measure of the row alone. A `*` in the name of the first
/// row stands for anything: then it is of all rows of such a name. A `*` in the name of the other
/// one is the same text; without one it is the same row for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// What it says, in words.
    ///
    /// *Source*: own choice.
    pub what: String,
    /// The measure of both rows (docs/json.md, measures).
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub measure: Named,
    /// The measure of the other row, if that is another one: both rows may then be the same.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub to_measure: Option<Named>,
    /// Name of the row. A `*` stands for any text.
    ///
    /// *Source*: own choice.
    pub of: String,
    /// Name of the row by which it is divided. A `*` is the text that it is in `of`. Without `to` and
    /// `minus` it is the row alone.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub to: Option<String>,
    /// Name of the row that is subtracted from it, instead of `to`.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub minus: Option<String>,
    /// Of several rows: which of their results counts.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub over: Pick,
    /// What was published: a number, or `[from, to]`.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub published: Option<Claim>,
    /// It was published as more than this (with `minus` any number). Instead of `published`.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub more_than: Option<f64>,
    /// Nothing was published: the experiment aims at more than this, or at `[from, to]`. It is no
    /// deviation. Instead of `published` and `more_than`.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub aim: Option<Aim>,
    /// How far ours may be from what was published, per cent of it; of a difference (`minus`) in the
    /// unit of the measure. Left out: a quarter of a number, 0 from a range, any distance above a
    /// bound.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub within: Option<f64>,
    /// Whether parameters were fitted to it. If not, ours is a prediction.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub fitted: bool,
    /// The rows that it is of, each with the other one.
    #[serde(skip)]
    pairs: Vec<(String, Option<String>)>,
}

impl Ratio {
    /// Whether it can be what it says.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.to.is_some() && self.minus.is_some() {
            let what = "a row is divided (`to`) or less another (`minus`), not both";
            return Err(Fault::at(&["minus"], what));
        }
        if self.to_measure.is_some() && self.other().is_none() {
            let what = "to_measure is of another row: name it with `to` or `minus`";
            return Err(Fault::at(&["to_measure"], what));
        }
        let said = [self.published.is_some(), self.more_than.is_some(), self.aim.is_some()];
        if said.into_iter().filter(|is_there| *is_there).count() > 1 {
            let what = "only one of published, more_than and aim can be there";
            let key = if self.aim.is_some() { "aim" } else { "more_than" };
            return Err(Fault::at(&[key], what));
        }
        distance("within", self.within)?;
        let is_difference = self.minus.is_some();
        let number = |key: &str, n: Option<f64>| match is_difference {
            true => finite(key, n.as_slice()),
            false => positive(key, n),
        };
        let range = |key: &str, range: [f64; 2]| match is_difference {
            true => finite(key, &range),
            false => rising(key, range),
        };
        match self.published {
            Some(Claim::About(n)) => number("published", Some(n))?,
            Some(Claim::Between(ends)) => range("published", ends)?,
            None => (),
        }
        number("more_than", self.more_than)?;
        match self.aim {
            Some(Aim::MoreThan(n)) => number("aim", Some(n)),
            Some(Aim::Between(ends)) => range("aim", ends),
            None => Ok(()),
        }
    }

    /// The name of the row beside the first one.
    fn other(&self) -> Option<&String> {
        self.to.as_ref().or(self.minus.as_ref())
    }

    /// Looks for its rows among all those of the experiment.
    ///
    /// # Errors
    /// Which is not there, with the nearest one.
    pub(crate) fn resolve(&mut self, rows: &[Row]) -> Result<(), String> {
        let names = || rows.iter().map(|r| r.name.as_str());
        let told = format!("ratio \"{}\": no row", self.what);
        let other = self.other();
        self.pairs = match self.of.split_once('*') {
            None if other.is_some_and(|other| other.contains('*')) => {
                let key = if self.to.is_some() { "to" } else { "minus" };
                return Err(format!(
                    "ratio \"{}\": a * in `{key}` stands for what it is in `of`: give it there, too",
                    self.what
                ));
            }
            None => vec![(self.of.clone(), other.cloned())],
            Some((before, after)) => {
                let ones = names().filter(|name| base(name) == *name);
                let each = ones.filter_map(|name| {
                    let any = name.strip_prefix(before)?.strip_suffix(after)?;
                    Some((name.to_string(), other.map(|other| other.replacen('*', any, 1))))
                });
                // A row beside itself would say nothing.
                let is_itself = |(of, other): &(String, Option<String>)| Some(of) == other.as_ref();
                each.filter(|pair| self.to_measure.is_some() || !is_itself(pair)).collect()
            }
        };
        if self.pairs.is_empty() {
            return Err(parse::unknown(&told, &self.of, names()));
        }
        for name in self.pairs.iter().flat_map(|(of, other)| [of].into_iter().chain(other)) {
            if !names().any(|n| n == *name) {
                return Err(parse::unknown(&told, name, names()));
            }
        }
        Ok(())
    }

    /// Of the rows that ran; `None` if not all were run.
    pub(crate) fn report(&self, rows: &[RowReport]) -> Option<RatioReport> {
        let mut each: Vec<Vec<Option<f64>>> = Vec::new();
        for (of, other) in &self.pairs {
            let of = repetitions(rows, of);
            let other = other.as_ref().map(|other| repetitions(rows, other));
            if of.is_empty() || other.as_ref().is_some_and(Vec::is_empty) {
                return None;
            }
            let count = other.as_ref().map_or(of.len(), |other| other.len().min(of.len()));
            let one = |i: usize| self.of_rows(of[i], other.as_ref().map(|other| other[i]));
            each.push((0..count).map(one).collect());
        }
        let count = each.iter().map(Vec::len).min().unwrap_or(0);
        let of_repetition = |i| {
            let some: Option<Vec<f64>> = each.iter().map(|pair| pair[i]).collect();
            some.map(|some| self.over.of(&some))
        };
        let mut ours: Vec<f64> = (0..count).filter_map(of_repetition).collect();
        ours.sort_by(f64::total_cmp);
        Some(RatioReport { asked: self.clone(), ours })
    }

    /// Of one row, and the one beside it.
    fn of_rows(&self, row: &RowReport, other: Option<&RowReport>) -> Option<f64> {
        let ours = self.measure.of(row)?;
        let Some(other) = other else { return Some(ours) };
        let other = self.to_measure.unwrap_or(self.measure).of(other)?;
        match self.minus {
            Some(_) => Some(ours - other),
            None => (other > 0.0).then_some(ours / other),
        }
    }
}

/// That these are numbers, the lower one first: a difference may be any.
fn finite(key: &str, some: &[f64]) -> Result<(), Fault> {
    if some.iter().all(|n| n.is_finite()) && some.is_sorted() {
        return Ok(());
    }
    let what = match some {
        [n] => format!("{key} = {n}: must be a number"),
        _ => format!("{key} = {some:?}: must be two numbers, the lower one first"),
    };
    Err(Fault::at(&[key], what))
}

/// The row of this name and its repetitions.
fn repetitions<'a>(rows: &'a [RowReport], name: &str) -> Vec<&'a RowReport> {
    rows.iter().filter(|r| r.name == name || base(&r.name) == name).collect()
}

/// What was found of a ratio.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatioReport {
    /// What the file asks for.
    pub asked: Ratio,
    /// Ours, of each repetition, rising; empty if a row failed or has no such measure.
    pub ours: Vec<f64>,
}

impl RatioReport {
    /// The median of ours.
    pub fn median(&self) -> Option<f64> {
        median(&self.ours)
    }

    /// The measure, in words; that of the other row, if that is another one.
    pub fn measured(&self) -> String {
        let Ratio { measure, to_measure, .. } = self.asked;
        let sign = if self.asked.minus.is_some() { "-" } else { "/" };
        match to_measure.filter(|to| *to != measure) {
            None => measure.name(),
            Some(to) => format!("{} {sign} {}", measure.name(), to.name()),
        }
    }

    /// What was published of it, or is aimed at. `times` stands behind a quotient, `dash` between the
    /// ends of a range. `None` if nothing was.
    pub fn claim(&self, times: &str, dash: &str) -> Option<String> {
        let times = if self.asked.to.is_some() { times } else { "" };
        // (Differences may be below 0.)
        let dash = if self.asked.minus.is_some() { " to " } else { dash };
        Some(match (self.asked.published, self.asked.more_than, self.asked.aim) {
            (Some(Claim::About(n)), ..) => format!("{n}{times}"),
            (Some(Claim::Between([low, high])), ..) => format!("{low}{dash}{high}{times}"),
            (None, Some(n), _) => format!("> {n}{times}"),
            (None, None, Some(Aim::MoreThan(n))) => format!("aim: > {n}{times}"),
            (None, None, Some(Aim::Between([low, high]))) => {
                format!("aim: {low}{dash}{high}{times}")
            }
            (None, None, None) => return None,
        })
    }

    /// One of ours, with as many digits as say something. `times` stands behind a quotient.
    pub fn shown(&self, ours: f64, times: &str) -> String {
        match (&self.asked.to, &self.asked.minus) {
            (Some(_), _) => format!("{ours:.2}{times}"),
            (None, Some(_)) if ours.abs() < 10.0 => format!("{ours:+.3}"),
            (None, Some(_)) => format!("{ours:+.0}"),
            (None, None) if ours < 10.0 => format!("{ours:.3}"),
            (None, None) => format!("{ours:.0}"),
        }
    }

    /// What ours is held to: what was published, of a range its nearer end, or ours within it. A bound
    /// that ours is above counts only if [`Ratio::within`] says how far it may be.
    fn held_to(&self, ours: f64) -> Option<f64> {
        match (self.asked.published, self.asked.more_than) {
            (Some(Claim::About(n)), _) => Some(n),
            (Some(Claim::Between([low, high])), _) => Some(ours.clamp(low, high)),
            (None, Some(n)) if self.asked.within.is_none() => Some(ours.max(n)),
            (None, more_than) => more_than,
        }
    }

    /// How far ours is from what was published, in per cent of it: positive if ours is more. From a
    /// range it is the distance to its nearer end, and nothing within. From a bound it is what ours
    /// is below it, and above it only if [`Ratio::within`] says how far it may be. `None` if nothing
    /// was published or found, and of differences.
    pub fn deviation_percent(&self) -> Option<f64> {
        let ours = self.median().filter(|_| self.asked.minus.is_none())?;
        let from = self.held_to(ours)?;
        // (Also if both are 0.)
        Some(if from == ours { 0.0 } else { (ours / from - 1.0) * 100.0 })
    }

    /// Whether ours is what was published, as near as it has to be, or what the experiment aims at.
    /// `None` if nothing was published or aimed at, or nothing was found.
    pub fn agrees(&self) -> Option<bool> {
        let ours = self.median()?;
        let Some(from) = self.held_to(ours) else {
            return self.asked.aim.map(|aim| aim.is_met(ours));
        };
        let (off, quarter) = match self.deviation_percent() {
            Some(percent) => (percent, 25.0),
            None => (ours - from, from.abs() / 4.0),
        };
        let within = self.asked.within;
        Some(match (self.asked.published, self.asked.more_than) {
            (None, Some(n)) => ours > n && within.is_none_or(|w| off <= w),
            (Some(Claim::Between(_)), _) => off.abs() <= within.unwrap_or(0.0),
            _ => off.abs() <= within.unwrap_or(quarter),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::experiment::Experiment;
    use crate::report::published::tests::{FILE, reports};

    #[test]
    fn a_star_stands_for_all_pairs_of_rows() {
        let e = Experiment::parse("f.toml", FILE).unwrap();
        let mut rows = reports(&e);
        let found = |rows: &[RowReport]| -> Vec<_> {
            e.ratios.iter().map(|r| r.report(rows).map(|q| q.ours)).collect()
        };
        let ours = [[2.75, 5.5], [1.5, 3.0], [4.0, 8.0], [4.0, 8.0], [4.0, 8.0], [8.0 / 3.0; 2]];
        let ours = ours.map(|o| Some(o.to_vec()));
        assert_eq!(found(&rows), ours);
        // A row that failed has no quotient, and nothing is picked of the others instead.
        rows.iter_mut().filter(|r| r.name == "a/durassd").for_each(|r| r.error = Some("x".into()));
        assert_eq!(found(&rows)[..2], [[5.5], [3.0]].map(|o| Some(o.to_vec())));
        // Nor if not all were run.
        rows.retain(|r| !r.name.starts_with("a/"));
        assert_eq!(found(&rows), [None, None, None, Some(vec![4.0, 8.0]), None, None]);
    }

    #[test]
    fn a_ratio_is_off_by_what_it_is_from_the_claim() {
        let quotient = |keys: &str| {
            let text =
                FILE.replacen("of = \"b/durassd\",", &format!("of = \"b/durassd\", {keys},"), 1);
            assert_ne!(text, FILE);
            let e = Experiment::parse("f.toml", &text).unwrap();
            // 4 and 8: the median is 8.
            e.ratios[3].report(&reports(&e)).unwrap()
        };
        for (keys, off, agrees) in [
            ("published = 10", -20.0, true),
            ("published = 10, within = 10", -20.0, false),
            ("published = 5", 60.0, false),
            ("published = 5, within = 61", 60.0, true),
            ("published = [4, 9]", 0.0, true),
            ("published = [4, 5]", 60.0, false),
            ("published = [10, 12]", -20.0, false),
            ("published = [10, 12], within = 21", -20.0, true),
            ("more_than = 5", 0.0, true),
            ("more_than = 10", -20.0, false),
            ("more_than = 5, within = 50", 60.0, false),
            ("more_than = 5, within = 70", 60.0, true),
            ("more_than = 10, within = 70", -20.0, false),
        ] {
            let q = quotient(keys);
            let found = q.deviation_percent().unwrap();
            assert!((found - off).abs() < 1e-9, "{keys}: {found}");
            assert_eq!(q.agrees(), Some(agrees), "{keys}");
        }
        // An aim is met or missed, and is no deviation.
        for (keys, met) in [
            ("aim = 7", true),
            ("aim = 8", false),
            ("aim = [0, 8]", true),
            ("aim = [0, 7]", false),
            ("aim = [9, 10]", false),
        ] {
            let q = quotient(keys);
            assert_eq!((q.deviation_percent(), q.agrees()), (None, Some(met)), "{keys}");
        }
        let none = quotient("over = \"mean\"");
        assert_eq!((none.deviation_percent(), none.agrees()), (None, None));
    }

    /// Of one row, two of its measures.
    #[test]
    fn another_measure_may_stand_below_the_line() {
        let ratio =
            "measure = \"p99\", to_measure = \"p50\", of = \"b/durassd\", to = \"b/durassd\"";
        let text = FILE.replacen("of = \"b/durassd\", to = \"b/volatile\"", ratio, 1);
        let e = Experiment::parse("f.toml", &text).unwrap();
        let mut rows = reports(&e);
        for row in &mut rows {
            (row.findings.latency.p50_ns, row.findings.latency.p99_ns) = (20_000, 50_000);
        }
        let q = e.ratios[3].report(&rows).unwrap();
        assert_eq!((&q.ours[..], q.measured().as_str()), (&[2.5, 2.5][..], "p99 / p50"));
        let one = e.ratios[2].report(&rows).unwrap();
        assert_eq!(one.measured(), "throughput");
    }

    #[test]
    fn ratios_of_rows_that_are_not_there_are_refused() {
        for (from, to, expected) in [
            ("of = \"*/durassd\"", "of = \"*/durasd\"", "no row \"*/durasd\""),
            (
                "of = \"*/durassd\"",
                "of = \"b/durassd\"",
                "a * in `to` stands for what it is in `of`",
            ),
            ("to = \"*/volatile\"", "to = \"*/volatil\"", "did you mean \"a/volatile\"?"),
            ("to = \"b/volatile\"", "to = \"b/volatil\"", "did you mean \"b/volatile\"?"),
            ("over = \"most\"", "over = \"median\"", "median"),
        ] {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE);
            let error = Experiment::parse("f.toml", &text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// Of one row less another, and of one alone.
    #[test]
    fn rows_may_be_subtracted_or_stand_alone() {
        let found = |keys: &str| {
            let text = FILE.replacen("of = \"b/durassd\", to = \"b/volatile\"", keys, 1);
            assert_ne!(text, FILE);
            let e = Experiment::parse("f.toml", &text).unwrap();
            e.ratios[3].report(&reports(&e)).unwrap()
        };
        // 8 - 2 and 16 - 2, and 8 and 16: the medians are 14 and 16.
        for (keys, off, agrees) in [
            ("minus = \"b/volatile\", published = 13", None, true),
            ("minus = \"b/volatile\", published = 11", None, false),
            ("minus = \"b/volatile\", published = 11, within = 3", None, true),
            ("minus = \"b/volatile\", published = [-1, 14]", None, true),
            ("minus = \"b/volatile\", published = [0, 13.9]", None, false),
            ("minus = \"b/volatile\", published = [0, 13.9], within = 0.2", None, true),
            ("minus = \"b/volatile\", more_than = 13.9", None, true),
            ("minus = \"b/volatile\", more_than = 14", None, false),
            ("published = 20", Some(-20.0), true),
            ("published = [0, 16]", Some(0.0), true),
            ("published = [0, 10]", Some(60.0), false),
            ("more_than = 15", Some(0.0), true),
        ] {
            let found = found(&format!("of = \"b/durassd\", {keys}"));
            let percent = found.deviation_percent().map(f64::round);
            assert_eq!((percent, found.agrees()), (off, Some(agrees)), "{keys}");
        }
        let aim = found("of = \"b/volatile\", minus = \"b/durassd\", aim = -20");
        assert_eq!((&aim.ours[..], aim.agrees()), (&[-14.0, -6.0][..], Some(true)));
        assert_eq!(
            (aim.claim(" x", "-").as_deref(), &*aim.shown(-6.0, " x")),
            (Some("aim: > -20"), "-6.000")
        );
        // A star stands for the same text in both: 3 - 2 and 8 - 2, in the second repetition twice.
        let all = found("of = \"*/durassd\", minus = \"*/volatile\", over = \"least\"");
        assert_eq!(all.ours, [1.0, 4.0]);
        // All rows of such a name: nothing is left out.
        let alone = found("of = \"*/volatile\", over = \"most\"");
        assert_eq!((&alone.ours[..], &*alone.shown(2.0, " x")), (&[2.0, 2.0][..], "2.000"));
        assert_eq!(alone.measured(), "throughput");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        for (keys, expected) in [
            (
                "to = \"b/volatile\", minus = \"a/volatile\"",
                "divided (`to`) or less another (`minus`)",
            ),
            ("to_measure = \"p99\"", "to_measure is of another row: name it"),
            ("minus = \"*/volatile\"", "a * in `minus` stands for what it is in `of`"),
            ("minus = \"b/volatil\"", "did you mean \"b/volatile\"?"),
            ("minus = \"b/volatile\", published = nan", "published = NaN: must be a number"),
            ("minus = \"b/volatile\", published = [2, 1]", "two numbers, the lower one first"),
            ("minus = \"b/volatile\", aim = [0, nan]", "two numbers, the lower one first"),
            ("published = -1", "published = -1: must be above 0"),
            ("published = 1, aim = 2", "only one of published, more_than and aim can be there"),
            ("published = 1, more_than = 2", "only one of published, more_than and aim"),
        ] {
            let keys = format!("of = \"b/durassd\", {keys}");
            let text = FILE.replacen("of = \"b/durassd\", to = \"b/volatile\"", &keys, 1);
            let error = Experiment::parse("f.toml", &text).unwrap_err().to_string();
            assert!(error.contains(expected), "{keys}: {error}");
        }
    }
}
