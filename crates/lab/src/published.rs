//! What was published, beside what is found: numbers of rows, and quotients of two rows.
//!
//! 1. A published number never enters a run: it is only laid beside its result.
//! 2. A row that failed has no result, and so neither number nor quotient.

use crate::experiment::Row;
use crate::parse;
use crate::repeated::base;
use crate::report::{Report, RowReport};
use serde::{Deserialize, Serialize};

/// Where published numbers come from, and how near ours should be.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Who published them, and where.
    pub source: String,
    /// What the numbers of rows are.
    #[serde(default)]
    pub what: String,
    /// The mean deviation of rows that is aimed at, in per cent.
    #[serde(default)]
    pub mean_within: Option<f64>,
    /// The deviation of each row that is aimed at, in per cent.
    #[serde(default)]
    pub each_within: Option<f64>,
}

/// What is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Transactions or commands in a second.
    #[default]
    Throughput,
    /// The 99th percentile of latency.
    P99,
    /// Bytes programmed into flash for each transaction or command.
    FlashBytes,
}

/// What was published of a quotient.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Claim {
    /// About so much.
    About(f64),
    /// From, to.
    Between([f64; 2]),
}

/// A `[[ratio]]` of an experiment file: the measure of one row divided by that of another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// What it says.
    pub what: String,
    /// What is divided.
    #[serde(default)]
    pub measure: Measure,
    /// The name of the row above the line.
    pub of: String,
    /// The name of the row below the line.
    pub to: String,
    /// What was published.
    #[serde(default)]
    pub published: Option<Claim>,
    /// It was published as more than this.
    #[serde(default)]
    pub more_than: Option<f64>,
}

/// A quotient that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quotient {
    /// What it says.
    pub what: String,
    /// What is divided.
    pub measure: Measure,
    /// The row above the line.
    pub of: String,
    /// The row below the line.
    pub to: String,
    /// What was published.
    pub published: Option<Claim>,
    /// It was published as more than this.
    pub more_than: Option<f64>,
    /// Ours, of each repetition, rising; empty if a row failed.
    pub ours: Vec<f64>,
}

impl Ratio {
    /// Whether its rows are there.
    ///
    /// # Errors
    /// Which is not, with the nearest one.
    pub(crate) fn check(&self, rows: &[Row]) -> Result<(), String> {
        for name in [&self.of, &self.to] {
            if !rows.iter().any(|r| r.name == *name) {
                let names = rows.iter().map(|r| r.name.as_str());
                let told = format!("ratio \"{}\": no row", self.what);
                return Err(parse::unknown(&told, name, names));
            }
        }
        Ok(())
    }

    /// Of the rows that ran; `None` if not both were run.
    pub(crate) fn quotient(&self, rows: &[RowReport]) -> Option<Quotient> {
        let (of, to) = (repetitions(rows, &self.of), repetitions(rows, &self.to));
        if of.is_empty() || to.is_empty() {
            return None;
        }
        let each = of.iter().zip(&to).filter_map(|(of, to)| {
            let (of, to) = (self.measure.of(of)?, self.measure.of(to)?);
            (to > 0.0).then_some(of / to)
        });
        let mut ours: Vec<f64> = each.collect();
        ours.sort_by(f64::total_cmp);
        Some(Quotient {
            what: self.what.clone(),
            measure: self.measure,
            of: self.of.clone(),
            to: self.to.clone(),
            published: self.published,
            more_than: self.more_than,
            ours,
        })
    }
}

/// The row of this name and its repetitions.
fn repetitions<'a>(rows: &'a [RowReport], name: &str) -> Vec<&'a RowReport> {
    rows.iter().filter(|r| r.name == name || base(&r.name) == name).collect()
}

impl Measure {
    fn of(self, row: &RowReport) -> Option<f64> {
        let f = &row.findings;
        if row.error.is_some() || f.transactions == 0 {
            return None;
        }
        match self {
            Measure::Throughput => Some(f.transactions_per_second),
            Measure::P99 => Some(f.latency.p99_ns as f64),
            Measure::FlashBytes => Some(f.flash_bytes? as f64 / f.transactions as f64),
        }
    }
}

impl Quotient {
    /// The median of ours.
    pub fn median(&self) -> Option<f64> {
        median(&self.ours)
    }

    /// Whether ours is what was published: above the bound, in the range, or within a
    /// quarter of the number. `None` if nothing was published or found.
    pub fn agrees(&self) -> Option<bool> {
        let ours = self.median()?;
        match (self.published, self.more_than) {
            (Some(Claim::About(n)), _) => Some((ours / n - 1.0).abs() <= 0.25),
            (Some(Claim::Between([low, high])), _) => Some((low..=high).contains(&ours)),
            (None, Some(n)) => Some(ours > n),
            (None, None) => None,
        }
    }
}

/// The median of rising numbers: the upper one of two in the middle.
pub(crate) fn median(rising: &[f64]) -> Option<f64> {
    rising.get(rising.len() / 2).copied()
}

/// How near the rows are to what was published for them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nearness {
    /// Rows with a published number and a result.
    pub rows: u32,
    /// Mean absolute deviation, in per cent of the published number.
    pub mean_percent: f64,
    /// The largest one.
    pub worst_percent: f64,
    /// Whether both are as near as the experiment wants them; `None` if it wants nothing.
    pub near_enough: Option<bool>,
}

impl RowReport {
    /// The deviation from what was published, in per cent of it: positive if ours is more.
    pub fn deviation_percent(&self) -> Option<f64> {
        let published = self.published.filter(|p| *p > 0.0)?;
        let ours = Measure::Throughput.of(self)?;
        Some((ours / published - 1.0) * 100.0)
    }
}

impl Report {
    /// How near its rows are to what was published; `None` if no row has such a number.
    pub fn nearness(&self) -> Option<Nearness> {
        let each: Vec<f64> = self.rows.iter().filter_map(RowReport::deviation_percent).collect();
        if each.is_empty() {
            return None;
        }
        let mean_percent = each.iter().map(|d| d.abs()).sum::<f64>() / each.len() as f64;
        let worst_percent = each.iter().map(|d| d.abs()).fold(0.0, f64::max);
        let source = self.published.as_ref();
        let wanted = source.and_then(|s| Some((s.mean_within?, s.each_within?)));
        Some(Nearness {
            rows: each.len() as u32,
            mean_percent,
            worst_percent,
            near_enough: wanted.map(|(mean, each)| mean_percent <= mean && worst_percent <= each),
        })
    }
}
