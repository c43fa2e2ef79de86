//! The page of a comparison.

use crate::plot::{Bar, Bars, Look};
use crate::{figure, page, scrolling};
use maud::{Markup, html};
use tantalum_lab::report::compare::{Comparison, Difference, Pair, RowPair, Side};
use tantalum_lab::report::measures::Measure;
use tantalum_lab::report::units;

/// The page of two reports side by side.
pub fn comparison(c: &Comparison) -> String {
    let title = format!("{} and {}", c.a.file, c.b.file);
    let body = html! {
        h1 { (title) }
        dl {
            dt { "A" } dd { code { (c.a.file) } ": " (c.a.about) }
            dt { "B" } dd { code { (c.b.file) } ": " (c.b.about) }
        }
        @for words in &c.differ { p { span.bad { "Beware: " (words) } } }
        (alone("A", &c.a)) (alone("B", &c.b))
        p { "B/A is the second value divided by the first. ▲ is better, ▼ is worse: by more than the repetitions of a row are apart. Without repetitions it is not known how far chance goes: what differs by more than a hundredth has a question mark." }
        (scrolling("Both reports, row by row", c.rows.len() * c.measures.len() / 2, &table(c)))
        @for (i, measure) in c.measures.iter().enumerate() {
            @let parts = parts(c, i);
            @if !parts.is_empty() {
                h2 { (measure.name) }
                div.plots.wide { @for (n, (caption, rows)) in parts.into_iter().enumerate() {
                    @let bars = bars(&rows, measure, i);
                    (figure(&caption, &Bars {
                        id: format!("measure-{i}-{n}"),
                        title: format!("{}, {caption}", measure.name),
                        description: bars.iter().map(|b| format!("{} {}: {}", b.group, b.label, b.text))
                            .collect::<Vec<_>>().join("; "),
                        parts: &[],
                        most: 0.0,
                        bars,
                    }))
                } }
            }
        }
    };
    page(&title, &body)
}

fn alone(letter: &str, side: &Side) -> Markup {
    html! {
        @if !side.alone.is_empty() { p { "Only in " (letter) ": " (side.alone.join(", ")) } }
    }
}

fn table(c: &Comparison) -> Markup {
    html! {
        table {
            thead { tr {
                th.word scope="col" { "measure" }
                @for title in ["A", "B", "B/A"] { th scope="col" { (title) } }
                th.word scope="col" { "change" }
            } }
            tbody { @for row in &c.rows {
                tr { th.name colspan="5" scope="rowgroup" { (row.name) } }
                @if let Some([a, b]) = &row.results {
                    tr {
                        td.word { "result" } td { (a) } td { (b) } td { (units::MISSING) }
                        td.word { @if row.broken { span.bad { "▼ no longer as expected" } } }
                    }
                }
                @for (i, (measure, pair)) in c.measures.iter().zip(&row.pairs).enumerate() {
                    @if pair.a.is_some() || pair.b.is_some() { tr {
                        td.word { (measure.name) }
                        td { (units::value(pair.a, measure.unit)) }
                        td { (units::value(pair.b, measure.unit)) }
                        td { (units::ratio(pair.ratio())) }
                        td.word { (change(measure, pair, row.difference(i))) }
                    } }
                }
            } }
        }
    }
}

fn change(measure: &Measure, pair: &Pair, difference: Difference) -> Markup {
    let is_worse = pair.worse_percent(measure.better) > 0.0;
    html! {
        @match difference {
            Difference::Real if is_worse => { span.bad { "▼ worse" } }
            Difference::Real => { span.good { "▲ better" } }
            Difference::Unknown => { "? not judged" }
            Difference::Chance if pair.a == pair.b => { "same" }
            Difference::Chance if pair.a.is_some() && pair.b.is_some() => { "about the same" }
            Difference::Chance => {}
        }
    }
}

/// The rows that have the measure, grouped by the beginning of their names.
fn parts(c: &Comparison, measure: usize) -> Vec<(String, Vec<&RowPair>)> {
    let mut parts: Vec<(String, Vec<&RowPair>)> = Vec::new();
    for row in &c.rows {
        if row.pairs.get(measure).is_none_or(|p| p.a.is_none() && p.b.is_none()) {
            continue;
        }
        let caption = match row.results.as_ref().and(row.name.split_once('/')) {
            Some((workload, _)) => workload.to_string(),
            None => "all runs".to_string(),
        };
        match parts.iter_mut().find(|p| p.0 == caption) {
            Some(part) => part.1.push(row),
            None => parts.push((caption, vec![row])),
        }
    }
    parts
}

fn bars(rows: &[&RowPair], measure: &Measure, index: usize) -> Vec<Bar> {
    let mut bars = Vec::new();
    for row in rows {
        let Some(pair) = row.pairs.get(index) else { continue };
        for (label, value) in [("A", pair.a), ("B", pair.b)] {
            bars.push(Bar {
                group: row.name.clone(),
                label: label.to_string(),
                value,
                stroke: None,
                text: units::value(value, measure.unit),
                look: Look::default(),
                parts: Vec::new(),
            });
        }
    }
    bars
}
