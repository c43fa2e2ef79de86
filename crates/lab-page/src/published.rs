//! Published numbers and ours.

use crate::experiment::number;
use crate::lines::{Line, Lines, Range, Scale};
use crate::plot::{Bar, Bars, Look, Sample};
use crate::{figure, scrolling};
use maud::{Markup, Render, html};
use tantalum_lab::report::Report;
use tantalum_lab::report::measures::Named;
use tantalum_lab::report::panels::{Panel, Panels, Point};
use tantalum_lab::report::ratio::{Aim, Claim, RatioReport};
use tantalum_lab::report::terms::Terms;
use tantalum_lab::report::units::{self, Unit};

/// The section; nothing if nothing was published.
pub(crate) fn published(report: &Report) -> Markup {
    let Panels { key, panels } = Panels::of(report);
    let bars: Vec<_> = report.ratios.iter().filter(|found| found.asked.to.is_some()).collect();
    html! {
        @if !panels.is_empty() {
            h2 { "Published and ours" }
            @if let Some(source) = &report.published {
                p { (source.what) @if !source.what.is_empty() { ". " } (source.source) }
            }
            (nearness(report))
            @for (i, (workload, measure)) in groups(&panels).into_iter().enumerate() {
                @let these: Vec<&Panel> =
                    panels.iter().filter(|p| p.workload == workload && p.measure == measure).collect();
                @let heading = heading(&workload, measure);
                h3 { (heading) }
                div.plots { @for (caption, plot) in plots(i, [&key, &axis(report, measure)], &these) {
                    (figure(&caption, &plot))
                } }
                (scrolling(&format!("Published and ours, {heading}"), 0, &table(&key, &these)))
            }
        }
        @if !report.ratios.is_empty() {
            h2 { "Ratios" }
            p { "Rows divided by other rows (×), less other rows (with their sign) or alone: what was published (the stroke is the end of a range) and ours (the median; the stroke is the largest of all repetitions). ✓ marks a ratio within a quarter of the published one, in the range, or above the bound; where the file has a tolerance, within that." }
            @if !bars.is_empty() {
                (figure("Ratios, published and ours", &ratios(&bars)))
            }
            (scrolling("Ratios", 0, &ratio_table(&report.ratios)))
        }
        @if let Some(deviations) = report.deviations() {
            p { "From all published numbers. " (deviations) "." }
        }
    }
}

/// What the numbers of this measure are, for an axis.
pub(crate) fn axis(report: &Report, measure: Named) -> String {
    if measure != Named::default() {
        return match measure.unit() {
            Unit::Microseconds => format!("{}, µs", measure.name()),
            _ => measure.name(),
        };
    }
    // In the words of the rows that it was published of.
    let rows = report.rows.iter().filter(|r| r.published_number(measure).is_some());
    Terms::of(rows).throughput.to_lowercase()
}

fn heading(workload: &str, measure: Named) -> String {
    match measure == Named::default() {
        true => workload.to_string(),
        false => format!("{workload}, {}", measure.name()),
    }
}

fn nearness(report: &Report) -> Markup {
    let Some(near) = report.nearness() else { return html! {} };
    let words = format!(
        "{} numbers: off by {:.1} % on average, {:.1} % at most",
        near.rows, near.mean_percent, near.worst_percent
    );
    let source = report.published.as_ref();
    let aims = source.and_then(|s| Some((s.mean_within?, s.each_within?)));
    let aims =
        aims.map_or(String::new(), |(mean, each)| format!(" (aimed at: {mean} % and {each} %)"));
    html! {
        p { @match near.near_enough {
            Some(true) => span.good { "✓ " (words) (aims) },
            Some(false) => span.bad { "✗ " (words) (aims) },
            None => (words),
        } }
    }
}

/// Workloads and measures: panels of one such group have the same axes.
pub(crate) fn groups(panels: &[Panel]) -> Vec<(String, Named)> {
    let mut groups: Vec<(String, Named)> = Vec::new();
    for panel in panels {
        if !groups.iter().any(|(w, m)| *w == panel.workload && *m == panel.measure) {
            groups.push((panel.workload.clone(), panel.measure));
        }
    }
    groups
}

/// If the largest value is more than this many times the smallest, an axis has decades.
const DECADES_BEYOND: f64 = 20.0;

/// How points are plotted.
pub(crate) enum Plot {
    /// Over the values of the parameter that distinguishes them.
    Lines(Lines),
    /// Each as a bar, if there is only one or their names are long.
    Bars(Bars),
}

impl Plot {
    /// The drawing, its size, and its legend.
    pub(crate) fn drawing(&self) -> (Markup, [f64; 2], Vec<Sample>) {
        let ((drawing, size), key) = match self {
            Plot::Lines(lines) => (lines.drawing(), lines.key()),
            Plot::Bars(bars) => (bars.drawing(), bars.key()),
        };
        (drawing, size, key)
    }
}

impl Render for Plot {
    fn render(&self) -> Markup {
        match self {
            Plot::Lines(lines) => lines.render(),
            Plot::Bars(bars) => bars.render(),
        }
    }
}

/// A plot for each panel with more than one point, all with the same axes, and one plot for all
/// panels of one point; with captions. The axes have these names.
pub(crate) fn plots(
    group: usize,
    [key, per_second]: [&str; 2],
    panels: &[&Panel],
) -> Vec<(String, Plot)> {
    let several: Vec<&Panel> = panels.iter().copied().filter(|p| p.points.len() > 1).collect();
    let both = |p: &Point| [Some(p.published), p.median()];
    let values = || several.iter().flat_map(|p| &p.points).flat_map(both).flatten();
    let values = || values().filter(|v| v.is_finite() && *v > 0.0);
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let range = match most > DECADES_BEYOND * least {
        true => Range::Decades([least, most]),
        false => Range::To(most),
    };
    let places = Panels::places(several.iter().copied());
    let line = |panel: &Panel, label: &str, style, of: fn(&Point) -> Option<f64>| {
        let at = |place: &str| places.iter().position(|p| p == place);
        let point = |p: &Point| Some((at(&p.at)? as f64, of(p)?));
        let points = panel.points.iter().filter_map(point).collect();
        Line { label: label.to_string(), style, dashed: style == 1, marked: true, points }
    };
    let plot = |(i, panel): (usize, &&Panel)| {
        let off: Vec<f64> = panel.points.iter().filter_map(Point::deviation_percent).collect();
        let mean = off.iter().map(|d| d.abs()).sum::<f64>() / off.len().max(1) as f64;
        let id = format!("published-{group}-{i}");
        let title = format!("Published and ours, {}, {}", panel.workload, panel.name);
        let description = in_words(panel);
        let plot = match Scale::places(key, places.clone()) {
            Some(x) => Plot::Lines(Lines {
                id,
                title,
                description,
                x,
                y: Scale::new(per_second, range, units::short),
                lines: vec![
                    line(panel, "published", 1, |p| Some(p.published)),
                    line(panel, "ours", 0, Point::median),
                ],
            }),
            None => {
                let bars =
                    panel.points.iter().flat_map(|p| pair(&p.at, p, panel.measure)).collect();
                Plot::Bars(Bars { id, title, description, parts: &[], most, bars })
            }
        };
        let caption = match off.len() {
            0 => panel.name.clone(),
            _ => format!("{}: off by {mean:.1} %", panel.name),
        };
        (caption, plot)
    };
    let mut plots: Vec<_> = several.iter().enumerate().map(plot).collect();
    plots.extend(alone(group, key, panels));
    plots
}

fn in_words(panel: &Panel) -> String {
    let words = panel.points.iter().map(|p| {
        let [published, ours] =
            [Some(p.published), p.median()].map(|v| number(v, panel.measure.unit()));
        format!("{}: published {published}, ours {ours}", p.at)
    });
    words.collect::<Vec<_>>().join("; ")
}

/// The two bars of a point.
fn pair(heading: &str, point: &Point, measure: Named) -> [Bar; 2] {
    let bar = |label: &str, value: Option<f64>, look| Bar {
        group: heading.to_string(),
        label: label.to_string(),
        value,
        stroke: None,
        text: number(value, measure.unit()),
        look,
        parts: Vec::new(),
    };
    [
        bar("published", Some(point.published), Look::Published),
        bar("ours", point.median(), Look::Filled),
    ]
}

/// Panels of one point, as bars.
fn alone(group: usize, key: &str, panels: &[&Panel]) -> Option<(String, Plot)> {
    let single = || panels.iter().filter(|p| p.points.len() == 1);
    let words: Vec<_> = single().map(|p| format!("{}: {}", p.name, in_words(p))).collect();
    let heading = |p: &Panel| match p.points[0].at.as_str() {
        "" => p.name.clone(),
        at if key.is_empty() => format!("{} {at}", p.name),
        at => format!("{} {key}={at}", p.name),
    };
    let title = "Published and ours".to_string();
    let bars = Bars {
        id: format!("published-{group}-single"),
        title: title.clone(),
        description: words.join("; "),
        parts: &[],
        most: 0.0,
        bars: single().flat_map(|p| pair(&heading(p), &p.points[0], p.measure)).collect(),
    };
    (!bars.bars.is_empty()).then_some((title, Plot::Bars(bars)))
}

fn table(key: &str, panels: &[&Panel]) -> Markup {
    let places = Panels::places(panels.iter().copied());
    let deviation = |p: &Point| match p.deviation_percent() {
        Some(d) if d.is_finite() => format!("{d:+.0} %"),
        _ => units::MISSING.to_string(),
    };
    let row = |panel: &Panel, of: &dyn Fn(&Point) -> String| {
        let cells = places.iter().map(|place| panel.at(place).map(of));
        let cells: Vec<String> = cells.map(Option::unwrap_or_default).collect();
        html! { @for cell in cells { td { (cell) } } }
    };
    html! {
        table {
            thead { tr {
                th.first scope="col" { "design" }
                th.word scope="col" { (key) }
                @for place in &places { th scope="col" { (place) } }
            } }
            tbody { @for panel in panels {
                tr {
                    th.first scope="rowgroup" rowspan="3" { (panel.name) }
                    td.word { "published" }
                    (row(panel, &|p| number(Some(p.published), panel.measure.unit())))
                }
                tr { td.word { "ours" } (row(panel, &|p| number(p.median(), panel.measure.unit()))) }
                tr { td.word.soft { "deviation" } (row(panel, &deviation)) }
            } }
        }
    }
}

/// The published value of a ratio.
fn claim(found: &RatioReport) -> String {
    found.claim(" ×", "–").unwrap_or_else(|| units::MISSING.to_string())
}

/// Our value, with the spread over repetitions.
fn ours(found: &RatioReport) -> String {
    let median = found.median().filter(|m| m.is_finite());
    let Some(median) = median else { return units::MISSING.to_string() };
    let shown = found.shown(median, " ×");
    match (found.ours.first(), found.ours.last()) {
        (Some(low), Some(high)) if found.ours.len() > 1 => {
            format!("{shown} ({}–{})", found.shown(*low, ""), found.shown(*high, ""))
        }
        _ => shown,
    }
}

fn agrees(found: &RatioReport) -> String {
    let off = found.deviation_percent().map_or(String::new(), |d| format!(", {d:+.0} %"));
    match found.agrees() {
        Some(true) if found.asked.aim.is_some() => "✓ met".to_string(),
        Some(false) if found.asked.aim.is_some() => "✗ missed".to_string(),
        Some(true) => format!("✓ agrees{off}"),
        Some(false) => format!("✗ differs{off}"),
        None => String::new(),
    }
}

/// Quotients as bars: differences and rows alone have another scale.
fn ratios(all: &[&RatioReport]) -> Bars {
    let mut bars = Vec::new();
    for q in all {
        let (value, stroke) = match (q.asked.published, q.asked.more_than) {
            (Some(Claim::About(n)), _) => (Some(n), None),
            (Some(Claim::Between([low, high])), _) => (Some(low), Some(high)),
            (None, Some(bound)) => (Some(bound), None),
            (None, None) => match q.asked.aim {
                Some(Aim::MoreThan(n)) => (Some(n), None),
                Some(Aim::Between([low, high])) => (Some(low), Some(high)),
                None => (None, None),
            },
        };
        let mut bar = |label: &str, value, stroke, text, look| {
            let (group, label) = (q.asked.what.clone(), label.to_string());
            bars.push(Bar { group, label, value, stroke, text, look, parts: Vec::new() });
        };
        let label = if q.asked.aim.is_some() { "aim" } else { "published" };
        bar(label, value, stroke, claim(q), Look::Published);
        let most = q.ours.last().copied().filter(|_| q.ours.len() > 1);
        let mark = agrees(q).chars().next().map_or(String::new(), |c| format!("{c} "));
        bar("ours", q.median(), most, format!("{mark}{}", ours(q)), Look::Filled);
    }
    let words =
        all.iter().map(|q| format!("{}: published {}, ours {}", q.asked.what, claim(q), ours(q)));
    Bars {
        id: "ratios".to_string(),
        title: "Ratios, published and ours".to_string(),
        description: words.collect::<Vec<_>>().join("; "),
        parts: &[],
        most: 0.0,
        bars,
    }
}

fn ratio_table(all: &[RatioReport]) -> Markup {
    html! {
        table {
            thead { tr {
                th.first scope="col" { "ratio" }
                th.word scope="col" { "of" }
                th scope="col" { "published" }
                th scope="col" { "ours" }
                th.word scope="col" {}
                th.word scope="col" { "rows" }
            } }
            tbody { @for q in all { tr {
                th.first.fold scope="row" { (q.asked.what) }
                td.word { (q.measured()) }
                td { (claim(q)) }
                td { (ours(q)) }
                td.word { @match q.agrees() {
                    Some(true) => span.good { (agrees(q)) },
                    Some(false) => span.bad { (agrees(q)) },
                    None => "",
                } }
                td.word.rows {
                    (q.asked.of)
                    @if let Some(to) = &q.asked.to { br; "/ " (to) }
                    @if let Some(minus) = &q.asked.minus { br; "- " (minus) }
                }
            } } }
        }
    }
}
