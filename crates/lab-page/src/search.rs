//! The page, and the picture, of a search for the least energy.

use crate::lines::{Line, Lines, Range, Scale};
use crate::picture::{Drawn, picture};
use crate::{figure, page, scrolling};
use maud::{Markup, html};
use tantalum_lab::search::{Findings, Tried};

/// The page of a search; `volts` turns joules into farads.
pub fn search(found: &Findings, farads: impl Fn(f64) -> f64) -> String {
    let plots = plots(found);
    let body = html! {
        h1 { "The least energy: " (found.workload) }
        p { (wanted(found)) "." }
        @if found.interrupted { p { span.bad { "Interrupted: these are the results until then." } } }
        p { (outcome(found)) }
        @if let Some(toml) = &found.toml { pre { code { (toml) } } }
        div.plots { @for (caption, lines) in &plots { (figure(caption, lines)) } }
        h2 { "None is better in energy, slowdown and restart at once" }
        (scrolling("Candidates", found.pareto.len(), &table(found, &farads)))
        p { (counts(found)) }
    };
    page(&format!("The least energy: {}", found.workload), &body)
}

/// Only the plots, as a self-contained SVG.
pub fn search_picture(found: &Findings) -> String {
    let plots = plots(found);
    let samples = plots.first().map(|p| p.1.key()).unwrap_or_default();
    let panels: Vec<Drawn> = plots
        .into_iter()
        .map(|(caption, lines)| {
            let (drawing, size) = lines.drawing();
            Drawn { caption, drawing, size }
        })
        .collect();
    picture(&format!("The least energy: {}", found.workload), &wanted(found), &panels, &samples)
}

fn wanted(found: &Findings) -> String {
    let limits = &found.limits;
    format!(
        "Restarts of at most {}, at most {:.1} % slower than full protection",
        limits.recovery,
        limits.slowdown * 100.0
    )
}

fn outcome(found: &Findings) -> String {
    let tell = |t: &Tried| {
        let (slow, j) = (t.slowdown * 100.0, t.candidate.energy_j * 1e3);
        format!("{j:.3} mJ, {slow:.1} % slower, restarts of at most {}", t.recovery)
    };
    match (found.winner.map(|i| &found.tried[i]), found.nearest.map(|i| &found.tried[i])) {
        (Some(t), _) => format!("Found: {}.", tell(t)),
        (None, Some(t)) => format!("Nothing meets the limits; the nearest: {}.", tell(t)),
        (None, None) => "Nothing was tried to its end.".into(),
    }
}

fn counts(found: &Findings) -> String {
    format!(
        "Of {} candidates {} were tried, {} left out because they could not meet the limits; {} failed.",
        found.candidates,
        found.tried.len(),
        found.left_out,
        found.failed.len()
    )
}

/// A measure of a candidate.
type Measure = fn(&Tried) -> f64;

/// Plots of the least slowdown and the quickest restart over energy.
fn plots(found: &Findings) -> Vec<(String, Lines)> {
    let limits = found.limits;
    let energies = || found.tried.iter().map(|t| t.candidate.energy_j * 1e6);
    let range = [energies().fold(f64::INFINITY, f64::min), energies().fold(1.0, f64::max)];
    let slow: Measure = |t| t.slowdown * 100.0;
    let late: Measure = |t| t.recovery.as_millis_f64();
    let quick = move |t: &Tried| t.recovery <= limits.recovery;
    let fast = move |t: &Tried| t.slowdown <= limits.slowdown;
    // The ends of an axis.
    type Ends = fn(f64, f64) -> Range;
    let linear: Ends = |low, high| Range::Between([low.min(0.0), high.max(0.0)]);
    let decades: Ends = |low, high| Range::Decades([low, high]);
    let plot =
        |id: &str, name: &str, what: Measure, scale: Ends, other: &dyn Fn(&Tried) -> bool| {
            // (There are many steps: a few marks suffice to distinguish the lines.)
            let line = |label: &str, style, dashed, points: Vec<_>| Line {
                label: label.to_string(),
                style,
                dashed,
                marked: points.len() == 1,
                points,
            };
            let mut lines = vec![
                line("any", 0, true, least(found, what, &|_| true)),
                line("within the other limit", 1, false, least(found, what, other)),
            ];
            if let Some(t) = found.winner.map(|i| &found.tried[i]) {
                lines.push(line("found", 2, false, vec![(t.candidate.energy_j * 1e6, what(t))]));
            }
            let values = || lines.iter().flat_map(|l| l.points.iter().map(|p| p.1));
            let (low, high) =
                (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
            Lines {
                id: id.to_string(),
                title: format!("{name} by energy"),
                description: describe(&lines),
                x: Scale::new("energy, mJ", Range::Decades(range), |v| format!("{}", v / 1e3)),
                y: Scale::new(name, scale(low, high), |v| format!("{v}")),
                lines,
            }
        };
    vec![
        ("The least slowdown".into(), plot("slowdown", "slower, %", slow, linear, &quick)),
        ("The quickest restart".into(), plot("restart", "restart, ms", late, decades, &fast)),
    ]
}

/// The best value for each energy, as steps.
fn least(found: &Findings, what: Measure, counts: &dyn Fn(&Tried) -> bool) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    // Candidates are sorted by energy.
    for t in found.tried.iter().filter(|t| counts(t)) {
        let (at, value) = (t.candidate.energy_j * 1e6, what(t));
        match points.last() {
            Some((_, best)) if value >= *best => {}
            Some((x, _)) if *x == at => *points.last_mut().expect("there is one") = (at, value),
            Some((_, best)) => {
                let step = (at, *best);
                points.extend([step, (at, value)]);
            }
            None => points.push((at, value)),
        }
    }
    points
}

fn describe(lines: &[Line]) -> String {
    let one = |l: &Line| {
        let points = l.points.iter().map(|(x, y)| format!("{:.3} mJ: {y:.1}", x / 1e3));
        format!("{}: {}", l.label, points.collect::<Vec<_>>().join(", "))
    };
    lines.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn table(found: &Findings, farads: &impl Fn(f64) -> f64) -> Markup {
    html! {
        table {
            thead { tr {
                @for title in ["mJ", "mF", "buffer, KiB"] { th scope="col" { (title) } }
                @for title in ["kept of the map", "summary", "directory", "stored", "erases"] { th.word scope="col" { (title) } }
                @for title in ["requests/s", "slower, %", "restart, ms"] { th scope="col" { (title) } }
                th.word scope="col" {}
            } }
            tbody { @for i in &found.pareto {
                @let t = &found.tried[*i];
                @let (c, d) = (&t.candidate, &t.candidate.design);
                tr {
                    td { (format!("{:.3}", c.energy_j * 1e3)) }
                    td { (format!("{:.3}", farads(c.energy_j) * 1e3)) }
                    td { (d.cache.buffer_kib) }
                    td.word { (c.choice.kept(d)) }
                    td.word { @if d.map.summary { "yes" } }
                    td.word { @if d.map.directory { "yes" } }
                    td.word { (c.choice.stored(d)) }
                    td.word { @if d.power.erase_abort { "stopped" } @else { "finished" } }
                    td { (format!("{:.0}", t.rate)) }
                    td { (format!("{:.1}", t.slowdown * 100.0)) }
                    td { (format!("{:.2}", t.recovery.as_millis_f64())) }
                    td.word {
                        @if Some(*i) == found.winner { span.good { "found" } }
                        @else if t.meets(&found.limits) { "meets both" }
                    }
                }
            } }
        }
    }
}
