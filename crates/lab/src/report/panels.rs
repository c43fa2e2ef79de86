//! Published numbers and ours in an order to be shown in: a panel for each device and
//! workload, and in it a point for each value of the parameters.

use crate::report::measures::Named;
use crate::report::published::{Published, median};
use crate::report::{Report, RowReport};

/// The points of one device under one workload, of one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The workload.
    pub workload: String,
    /// What was published of it.
    pub measure: Named,
    /// The design, and the database's settings if there are any.
    pub name: String,
    /// Its points, in the order of the file.
    pub points: Vec<Point>,
}

/// A published number and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The values of the row's parameters.
    pub at: String,
    /// What was published.
    pub published: f64,
    /// Ours, of each repetition, rising; empty if the row failed.
    pub ours: Vec<f64>,
}

/// All panels.
#[derive(Clone, Debug, PartialEq)]
pub struct Panels {
    /// The parameter that tells points apart; empty if it takes more than one.
    pub key: String,
    /// Not empty only if something was published.
    pub panels: Vec<Panel>,
}

impl Point {
    /// The median of ours.
    pub fn median(&self) -> Option<f64> {
        median(&self.ours)
    }

    /// How much more that is than what was published, in per cent.
    pub fn deviation_percent(&self) -> Option<f64> {
        let median = self.median().filter(|_| self.published > 0.0)?;
        Some((median / self.published - 1.0) * 100.0)
    }
}

impl Panels {
    /// Those of a report.
    pub fn of(report: &Report) -> Panels {
        let mut panels: Vec<Panel> = Vec::new();
        let all = report.rows.iter().flat_map(|r| r.published.iter().map(move |p| (r, *p)));
        for (row, Published { measure, number: published, .. }) in all {
            let (workload, name) = (row.workload.to_string(), device(row));
            let found = panels
                .iter()
                .position(|p| p.workload == workload && p.name == name && p.measure == measure);
            let place = found.unwrap_or_else(|| {
                panels.push(Panel { workload, measure, name, points: Vec::new() });
                panels.len() - 1
            });
            let points = &mut panels[place].points;
            let at = row.parameters();
            let found = points.iter().position(|p| p.at == at);
            let place = found.unwrap_or_else(|| {
                points.push(Point { at, published, ours: Vec::new() });
                points.len() - 1
            });
            if let Some(ours) = measure.of(row) {
                points[place].ours.push(ours);
                points[place].ours.sort_by(f64::total_cmp);
            }
        }
        // A common beginning of all names is left out.
        let mut all = panels.iter().flat_map(|p| &p.points).map(|p| p.at.split_once('='));
        let first = panels.first().and_then(|p| p.points.first());
        let key = first.and_then(|p| p.at.split_once('=')).map_or("", |(key, _)| key).to_string();
        let one = |at: Option<(&str, &str)>| {
            at.is_some_and(|(k, value)| k == key && !value.contains('='))
        };
        if key.is_empty() || !all.all(one) {
            return Panels { key: String::new(), panels };
        }
        for point in panels.iter_mut().flat_map(|p| &mut p.points) {
            let value = point.at.split_once('=').map_or("", |at| at.1);
            point.at = in_words(&key, value).to_string();
        }
        Panels { key, panels }
    }

    /// All values of the parameters that there are points at, in the order of the file.
    pub fn places<'p>(panels: impl IntoIterator<Item = &'p Panel>) -> Vec<String> {
        let mut places: Vec<String> = Vec::new();
        for point in panels.into_iter().flat_map(|p| &p.points) {
            if !places.contains(&point.at) {
                places.push(point.at.clone());
            }
        }
        places
    }
}

impl Panel {
    /// The point at these values, if there is one.
    pub fn at(&self, place: &str) -> Option<&Point> {
        self.points.iter().find(|p| p.at == place)
    }
}

/// A value of a parameter, in words where its number would mislead: an axis that ends with 0 writes
/// from one fsync to the next would mean that there is no fsync.
fn in_words<'v>(key: &str, value: &'v str) -> &'v str {
    match (key, value) {
        ("fsync_every", "0") => "none",
        _ => value,
    }
}

fn device(row: &RowReport) -> String {
    match row.has_journal() {
        true => format!("{} {} {}", row.design, row.journal, row.synchronous),
        false => row.design.clone(),
    }
}
