//! What one design does beside another, in a line each, and what is lost when the power goes, in a
//! line: below the table of a workload.
//!
//! 1. Rows are compared that differ in their design alone: same journal, settings and parameters.
//! 2. The first design of the workload is what the others stand beside.
//! 3. A rate beside a row that loses data is no gain: what both keep is said separately.

use crate::report::RowReport;
use crate::report::terms::Terms;
use tantalum_device::counted;

/// The lines for the rows of a workload: one for each design but the first, and one for what is lost;
/// empty if there is only one design.
pub fn lines(rows: &[&RowReport]) -> Vec<String> {
    let terms = Terms::of(rows.iter().copied());
    let mut lines = rates(rows, if terms.rate == "per second" { "rate" } else { terms.rate });
    lines.extend(losses(rows, terms));
    lines
}

/// A line for each design but the first.
fn rates(rows: &[&RowReport], rate: &str) -> Vec<String> {
    let designs = designs(rows);
    let Some((first, others)) = designs.split_first() else { return Vec::new() };
    let mut lines = Vec::new();
    for other in others {
        let pairs = pairs(rows, first, other);
        let all = Range::of(pairs.iter().map(|p| p.times));
        let safe = Range::of(pairs.iter().filter(|p| p.kept).map(|p| p.times));
        let Some(all) = all else { continue };
        let lossless = match (safe, pairs.len()) {
            (None, _) => String::new(),
            (Some(_), 1) => "; neither loses anything".to_string(),
            (Some(safe), _) if safe == all && pairs.iter().all(|p| p.kept) => {
                "; neither loses anything".to_string()
            }
            (Some(safe), _) => format!("; {safe} where neither loses anything"),
        };
        lines.push(format!("{other} beside {first}: {all} the {rate}{lossless}"));
    }
    lines
}

/// The designs of the rows, in their order.
fn designs<'r>(rows: &[&'r RowReport]) -> Vec<&'r str> {
    let mut designs: Vec<&str> = Vec::new();
    for row in rows {
        if !designs.contains(&row.design.as_str()) {
            designs.push(&row.design);
        }
    }
    designs
}

/// What each design loses when the power goes. Nothing if there is only one design.
fn losses(rows: &[&RowReport], terms: &Terms) -> Option<String> {
    let designs = designs(rows);
    let mut told: Vec<String> = Vec::new();
    let mut kept: Vec<&str> = Vec::new();
    for design in designs.iter().copied() {
        let own = || rows.iter().filter(|r| r.design == design && r.error.is_none());
        let of_all = own().count();
        let lossy = own().filter(|r| r.findings.lost_anything()).count();
        let most = own().map(|r| r.findings.commits_lost).max().unwrap_or(0);
        let lost = counted(most, terms.write, terms.writes);
        let is_damaged = own().any(|r| r.findings.databases_corrupt > 0);
        let damage = if is_damaged { ", and the database with them" } else { "" };
        match (of_all, lossy) {
            (0, _) => {}
            (_, 0) => kept.push(design),
            (1, _) => told.push(format!("{design} loses {lost}{damage}")),
            _ => told.push(format!(
                "{design} loses up to {lost}{damage} (in {lossy} of its {of_all} rows)"
            )),
        }
    }
    if let Some((last, others)) = kept.split_last() {
        told.push(match others {
            [] => format!("{last} loses nothing"),
            others => format!("{} and {last} lose nothing", others.join(", ")),
        });
    }
    let are_several = designs.len() > 1 && !told.is_empty();
    are_several.then(|| format!("when the power goes: {}", told.join("; ")))
}

/// Two rows that differ in their design alone.
struct Pair {
    /// The second rate divided by the first.
    times: f64,
    /// Neither lost anything.
    kept: bool,
}

fn pairs(rows: &[&RowReport], first: &str, other: &str) -> Vec<Pair> {
    let settings =
        |r: &RowReport| (r.journal.to_string(), r.synchronous.to_string(), r.parameters());
    let of = |design: &str| {
        let design = design.to_string();
        rows.iter().copied().filter(move |r| r.design == design && r.error.is_none())
    };
    let rate = |r: &RowReport| r.findings.transactions_per_second;
    let mut pairs = Vec::new();
    for a in of(first).filter(|a| rate(a) > 0.0) {
        // Two rows of one design with the same settings differ in something else.
        let mut same = of(other).filter(|b| settings(b) == settings(a));
        if let (Some(b), None) = (same.next(), same.next()) {
            let kept = !a.findings.lost_anything() && !b.findings.lost_anything();
            pairs.push(Pair { times: rate(b) / rate(a), kept });
        }
    }
    pairs
}

/// From the least to the most.
#[derive(Clone, Copy, PartialEq)]
struct Range(f64, f64);

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Option<Range> {
        let wider = |range: Option<Range>, x: f64| {
            Some(range.map_or(Range(x, x), |Range(low, high)| Range(low.min(x), high.max(x))))
        };
        values.fold(None, wider)
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (low, high) = (format!("{:.2}", self.0), format!("{:.2}", self.1));
        match low == high {
            true => write!(f, "{low} times"),
            false => write!(f, "{low} to {high} times"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::experiment::Experiment;
    use crate::report::RowFindings;
    use crate::report::terms::DATABASE;

    fn rates(rows: &[RowReport]) -> Vec<String> {
        super::rates(&rows.iter().collect::<Vec<_>>(), "tx/s")
    }

    fn losses(rows: &[RowReport]) -> Option<String> {
        super::losses(&rows.iter().collect::<Vec<_>>(), &DATABASE)
    }

    fn rows(of: impl Fn(usize) -> (f64, u64)) -> Vec<RowReport> {
        let file = "title = 't'\ncuts = 2\n[[row]]\nworkload = 'ycsb-a'\n\
                    design = ['volatile', 'durassd']\njournal = 'wal'\n\
                    synchronous = ['full', 'off']";
        let experiment = Experiment::parse("x.toml", file).expect("it can be read");
        let rows = experiment.rows().expect("it has rows");
        let row = |(i, row): (usize, &_)| {
            let (transactions_per_second, commits_lost) = of(i);
            let findings =
                RowFindings { transactions_per_second, commits_lost, ..RowFindings::default() };
            RowReport::new(row, 1, findings, None)
        };
        rows.iter().enumerate().map(row).collect()
    }

    #[test]
    fn designs_stand_beside_the_first_one_with_the_same_settings() {
        let mut four = rows(|i| ([100.0, 400.0, 300.0, 600.0][i], [0, 7, 0, 0][i]));
        four.sort_by_key(|r| (r.design == "durassd", r.synchronous.to_string() == "off"));
        let each = [100.0, 400.0, 300.0, 600.0];
        for (row, (rate, lost)) in four.iter_mut().zip(each.into_iter().zip([0, 7, 0, 0])) {
            row.findings.transactions_per_second = rate;
            row.findings.commits_lost = lost;
        }
        assert_eq!(
            rates(&four),
            [
                "durassd beside volatile: 1.50 to 3.00 times the tx/s; 3.00 times where neither loses \
              anything"
            ]
        );
        four.iter_mut().for_each(|row| row.findings.commits_lost = 0);
        assert_eq!(
            rates(&four),
            ["durassd beside volatile: 1.50 to 3.00 times the tx/s; neither loses anything"]
        );
        assert_eq!(lines(&four.iter().collect::<Vec<_>>()).len(), 2);
        four.truncate(2);
        assert_eq!(rates(&four), [""; 0]);
    }

    #[test]
    fn what_is_lost_is_said_of_each_design() {
        let mut four = rows(|i| (1.0, [0, 7, 0, 0][i]));
        assert_eq!(
            losses(&four).as_deref(),
            Some(
                "when the power goes: volatile loses up to 7 commits (in 1 of its 2 rows); durassd \
                 loses nothing"
            )
        );
        let lossy = four.iter().position(|row| row.findings.lost_anything()).expect("one is");
        four[lossy].findings.commits_lost = 1;
        let told = losses(&four).expect("something is lost");
        assert!(told.contains("volatile loses up to 1 commit (in 1 of its 2 rows)"), "{told}");
        four[lossy].findings.commits_lost = 7;
        four[lossy].findings.databases_corrupt = 1;
        let told = losses(&four).expect("something is lost");
        assert!(told.contains("7 commits, and the database with them (in"), "{told}");
        four.iter_mut().for_each(|row| {
            row.findings.commits_lost = 0;
            row.findings.databases_corrupt = 0;
        });
        let told = losses(&four);
        assert_eq!(told.as_deref(), Some("when the power goes: volatile and durassd lose nothing"));
        four.retain(|row| row.design == "durassd");
        assert_eq!(losses(&four), None);
    }
}
